/*
 * Streams, events and groups inside the core. stream.c owns the objects, stream_run.c carries operations out,
 * stream_ops.c holds the calls that enqueue, stream_worker.c the threads that host functions run on,
 * stream_device.c what differs with a device, stream_report.c the thread that older device runtimes need for
 * it, event.c and group.c the rest.
 *
 * Everything is guarded by the context's lock, unless said otherwise. Operations are advanced by
 * hc_progress(), that is by whichever thread waits in the context, and by the progress thread, which the
 * first stream starts. A stream with operations is in streams->active; with none active, progress does not
 * look here and nothing costs anything.
 *
 * With a device (gate in stream_device.c), an operation is put into the device's queue as a host function
 * that sets op->arrived, then a wait for the stream's notify, which is set when the operation is complete. So
 * the device's queue decides when an operation starts, and waits for it. At most one operation of a stream is
 * past its function and not past its wait: one notify per stream is enough.
 */
#ifndef HC_STREAM_H
#define HC_STREAM_H

#include "runtime/core/core.h"
#include "runtime/core/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

struct hc_workers;
struct hc_gate;
struct hc_reporter;
struct hc_acl;

enum {
    HC_STREAMS_MAX = 4096,  /* of a context */
    HC_EVENTS_MAX = 65536,  /* of a context; the process's table of handles may end before */
    HC_COPY_INLINE = 16384, /* bytes that progress copies itself; more goes to a worker */
};

enum hc_stream_op_kind {
    HC_STREAM_SEND,
    HC_STREAM_RECV,
    HC_STREAM_BARRIER,
    HC_STREAM_NOTHING, /* a message to or from HCOMM_RANK_NULL */
    HC_STREAM_CALL,    /* a host function */
    HC_STREAM_COPY,
    HC_STREAM_RECORD, /* host only: a device's events are its own */
    HC_STREAM_WAIT,   /* for a record of a stream that the device cannot wait for itself */
    HC_STREAM_MARK,   /* device only: tells that everything before is complete */
};

enum hc_stream_op_state { HC_OP_QUEUED, HC_OP_RUNNING, HC_OP_COMPLETE };

/*
 * A record of an event. Shared by the event, the operation that records, and waits, possibly of other
 * contexts: references and done are atomic, records come from one pool of the process (event.c).
 */
struct hc_record {
    atomic_uint references;
    /* release when complete, partner: acquire in hc_record_is_done */
    atomic_bool done;
    uint64_t time;              /* clock, when done; host only */
    void *native;               /* the device runtime's event; guarded by event.c's lock; NULL: host only */
    struct hc_streams *owner;   /* whose stream it was recorded on */
    struct hc_list native_node; /* in owner->natives or spares while native is not NULL */
};

/* An operation, or one part of a group: parts after the first hang on it through next_part. */
struct hc_stream_op {
    struct hc_fifo_node node; /* in stream->ops; while collected, in the thread's group */
    struct hc_stream_op *next_part;
    enum hc_stream_op_kind kind;
    enum hc_stream_op_state state;
    bool watched; /* a receive's peer is being connected to, to learn of its death */
    bool polled;  /* counted in streams->polled */
    /* release by a worker or the device's callback, partner: acquire in stream_run.c */
    atomic_bool called;  /* CALL, COPY on a worker: it has returned */
    atomic_bool arrived; /* device: the operation may start */
    struct hcomm_stream *stream;
    struct hcomm_request *request; /* RUNNING messages and barriers */
    uint64_t since;                /* clock, when it was first looked at in vain; 0: not yet */

    struct hcomm_comm *comm;
    void *buf; /* a send's is only read */
    size_t size;
    int rank, tag;
    hcomm_message_status_t *status;

    hcomm_host_fn_t fn; /* CALL */
    void *arg;
    struct hc_side to, from;  /* COPY, of size bytes */
    struct hc_record *record; /* RECORD, WAIT */
    struct hc_list job;       /* CALL, COPY: in the workers' queue */
};

struct hcomm_stream {
    struct hc_streams *streams;
    void *handle;    /* as the caller knows it; NULL: destroyed, goes when empty */
    unsigned number; /* in messages */
    int priority;
    struct hc_list all;    /* in streams->all */
    struct hc_list active; /* in streams->active while ops is not empty */
    struct hc_fifo ops;
    uint64_t submitted, completed; /* operations */
    hcomm_status_t status;         /* first error not reported yet */
    char *detail;                  /* its words; HC_STREAM_DETAIL bytes, allocated with the first error */
    struct hc_gate *gate;          /* device; NULL: host only */
};

struct hcomm_event {
    struct hc_streams *streams;
    void *handle;
    struct hc_list all;
    struct hc_record *latest; /* NULL: never recorded */
};

/* All of a context's. */
struct hc_streams {
    struct hcomm_context *context;
    struct hc_pool op_pool, stream_pool, event_pool;
    struct hc_list all, active; /* active: by priority, higher first */
    struct hc_list events;
    struct hc_list natives, spares; /* records with an event of this device, in use and not; event.c's lock */
    unsigned num_streams, num_events, numbers;
    unsigned polled; /* operations under way that no descriptor announces the end of: sleep but briefly */
    unsigned idle_polls;
    struct hc_workers *workers; /* NULL until needed */
    int signal_fd;              /* readable: look at the operations; see hc_streams_signal() */
    atomic_bool signalled;
    void *signal_stream;           /* device: where notifies are set */
    struct hc_reporter *reporter;  /* device: NULL while no stream has needed it */
    atomic_uint callbacks;         /* device: host functions in its queues that have not run */
    atomic_bool closed;            /* callbacks that come now come too late */
    const struct hc_acl *late_acl; /* closed: what those callbacks still need */
    int late_device;
};

enum { HC_STREAM_DETAIL = 512 };

/* ---- stream.c ---- */

/* Check a handle; NULL with an error detail. Lock not held. */
struct hcomm_stream *hc_stream_find(const char *call, hcomm_stream_t handle);
/* The context's streams, made at first need together with the progress thread. */
hcomm_status_t hc_streams_get(struct hcomm_context *context, struct hc_streams **streams) HC_MUST_CHECK;
/* End of the context: wait for the streams, then drop what is left. Lock held; it is released while waiting.
 */
hcomm_status_t hc_streams_drain(struct hcomm_context *context) HC_MUST_CHECK;
/* Free everything; lock not held, nobody else uses the context. */
void hc_streams_fini(struct hcomm_context *context);
/* Something has happened that operations may wait for: wake sleepers. Any thread, no lock, no allocation. */
void hc_streams_signal(struct hc_streams *streams);
/* signal_fd is readable. */
void hc_streams_take_signal(struct hc_streams *streams);
/* For waits longer than timeout_ms: whether something has completed since *completed was counted, which is
 * counted anew, or an operation under way has a deadline. */
bool hc_streams_may_move(const struct hc_streams *streams, uint64_t *completed);
/* Release a destroyed, empty stream. */
void hc_stream_reap(struct hcomm_stream *stream);

/* ---- stream_run.c ---- */

/*
 * Enqueue an operation made of n parts, or take it into the thread's group. The templates are copied; of them
 * kind, comm and what the kind needs are set. Lock not held. `call` is for errors.
 */
hcomm_status_t hc_stream_submit(const char *call, hcomm_stream_t handle, const struct hc_stream_op *parts,
                                int n) HC_MUST_CHECK;
/* The same for one that is made already; it is discarded on failure. */
hcomm_status_t hc_stream_enqueue(struct hcomm_stream *stream, struct hc_stream_op *op) HC_MUST_CHECK;
/* A copy of the template, with a reference of its own to the record; NULL with an error detail. */
struct hc_stream_op *hc_stream_op_new(struct hcomm_stream *stream, const struct hc_stream_op *template);
/* Free an operation that is in no stream, with its parts. */
void hc_stream_op_free(struct hc_stream_op *op);
/* Append; without a device, start it if it is the first. */
void hc_stream_append(struct hcomm_stream *stream, struct hc_stream_op *op);
/* Take back the operation appended last, which has not started; false: it is complete already, as the stream
 * was abandoned. */
bool hc_stream_unappend(struct hcomm_stream *stream, struct hc_stream_op *op);
/* Advance all active streams; returns how much moved. Called by hc_progress. */
unsigned hc_streams_progress(struct hcomm_context *context);
static inline bool hc_streams_are_active(const struct hcomm_context *context)
{
    return context->streams && !hc_list_empty(&context->streams->active);
}
/* Whether something waits that no descriptor announces. */
bool hc_streams_must_poll(const struct hcomm_context *context);
/* Remember the first error of the stream, with the thread's detail as its words. */
void hc_stream_fail(struct hcomm_stream *stream, hcomm_status_t status);
/* Complete everything in the stream without carrying it out; the stream has its error already. It stays among
 * the active ones until hc_stream_settle(), which releases it if it was destroyed. */
void hc_stream_abandon(struct hcomm_stream *stream);
void hc_stream_settle(struct hcomm_stream *stream);
/* The first operation, or NULL. */
struct hc_stream_op *hc_stream_first(const struct hcomm_stream *stream);

/* ---- stream_worker.c ---- */

/* Run op (CALL, COPY) on a thread of its own, then set op->called and signal. */
hcomm_status_t hc_workers_submit(struct hc_streams *streams, struct hc_stream_op *op) HC_MUST_CHECK;
/* Take an operation back that no thread has begun; false: it runs. */
bool hc_workers_cancel(struct hc_streams *streams, struct hc_stream_op *op);
/* End the threads; those still inside a function of the user are left to themselves. Lock not held. */
void hc_workers_stop(struct hc_workers *workers);
/* The stream whose host function the calling thread is in, or NULL. */
const struct hcomm_stream *hc_workers_current(void);

/* ---- event.c ---- */

/* Whether the record is complete; asks the device if it is the device's. Any thread. */
bool hc_record_is_done(struct hc_record *record);
void hc_record_complete(struct hc_record *record);
/* One reference; NULL with an error detail. A device's spare one, if with_native, or without event. */
struct hc_record *hc_record_new(struct hc_streams *owner, bool with_native);
/* Give a new record the device's event. */
void hc_record_set_native(struct hc_record *record, void *native);
void hc_record_ref(struct hc_record *record);
void hc_record_unref(struct hc_record *record); /* any thread */
/* Release the device's events of all records, which count as complete then. */
void hc_records_close(struct hc_streams *streams);
void hc_event_free(struct hcomm_event *event);

/* ---- group.c ---- */

/* Whether the calling thread is inside a group. */
bool hc_group_is_open(void);
/* For calls that are not allowed there: HCOMM_ERR_INVALID with a detail. */
hcomm_status_t hc_group_forbids(const char *call) HC_MUST_CHECK;
/* Take op, made for the stream, into the thread's group. */
void hc_group_add(struct hc_stream_op *op);
/* A call inside the group failed, with the thread's detail; returns the status. */
hcomm_status_t hc_group_spoil(hcomm_status_t status);

/* ---- p2p.c: checks of arguments; HCOMM_OK also for HCOMM_RANK_NULL ---- */

hcomm_status_t hc_p2p_check_send(const char *call, const void *buf, size_t size, int dest, int tag,
                                 const struct hcomm_comm *comm) HC_MUST_CHECK;
hcomm_status_t hc_p2p_check_recv(const char *call, const void *buf, size_t capacity, int source, int tag,
                                 const struct hcomm_comm *comm) HC_MUST_CHECK;

/* ---- stream_device.c ---- */

/* Whether the context's streams are the device's. */
bool hc_gate_wanted(const struct hcomm_context *context);
/* Make the stream one of the device: a new one, or the adopted native. Lock not held. */
hcomm_status_t hc_gate_open(struct hcomm_stream *stream, bool adopt, void *native) HC_MUST_CHECK;
void hc_gate_close(struct hcomm_stream *stream); /* nothing is enqueued any more; no gate: does nothing */
void *hc_gate_native(const struct hcomm_stream *stream);
/* Enqueue; lock not held. op is not freed on failure. */
hcomm_status_t hc_gate_submit(struct hcomm_stream *stream, struct hc_stream_op *op) HC_MUST_CHECK;
/* The operation is complete: let the device's stream go on. */
void hc_gate_release(struct hcomm_stream *stream, const struct hc_stream_op *op);
/* The first operation has not arrived: see whether the device's stream has failed meanwhile, and if so fail
 * and abandon all that is enqueued. */
void hc_gate_watch(struct hcomm_stream *stream);
/* HCOMM_OK, HCOMM_IN_PROGRESS, or the failure of the device's stream. Lock not held. */
hcomm_status_t hc_gate_query(struct hcomm_stream *stream) HC_MUST_CHECK;
/* A copy by the device's engines, if they can do it asynchronously (HCOMM_OK); HCOMM_AGAIN: the operation has
 * to be hcomm's, its places are found. Lock not held. */
hcomm_status_t hc_gate_copy(struct hcomm_stream *stream, struct hc_stream_op *op,
                            hcomm_copy_kind_t kind) HC_MUST_CHECK;
hcomm_status_t hc_gate_record(struct hcomm_event *event, struct hcomm_stream *stream) HC_MUST_CHECK;
hcomm_status_t hc_gate_wait_event(struct hcomm_stream *stream, struct hc_record *record) HC_MUST_CHECK;
/* Of two device records, both complete. */
hcomm_status_t hc_gate_elapsed(struct hc_record *start, struct hc_record *end, double *ms) HC_MUST_CHECK;
/* Query and release of a record's native event; event.c's lock held. */
bool hc_gate_event_is_done(struct hc_record *record);
void hc_gate_event_destroy(struct hc_record *record);
/* End of the streams: false when callbacks of the device are still to come. Lock not held. */
bool hc_gates_fini(struct hc_streams *streams);

/* ---- stream_report.c; no lock needed ---- */

/* Whether host functions need a thread of ours, and whether the device runtime has what that takes. */
bool hc_reporter_is_needed(const struct hc_acl *acl);
bool hc_reporter_is_possible(const struct hc_acl *acl);
hcomm_status_t hc_reporter_create(struct hc_device *device, struct hc_reporter **reporter) HC_MUST_CHECK;
void hc_reporter_destroy(struct hc_reporter *reporter); /* NULL: does nothing, as the next */
/* Callbacks are still to come: it runs them, and goes when its streams do. */
void hc_reporter_leave(struct hc_reporter *reporter);
/* The device runtime's code; its device is current. */
int hc_reporter_subscribe(struct hc_reporter *reporter, void *native);
/* False: the stream is too busy, and stays subscribed. Its device is current. */
bool hc_reporter_unsubscribe(struct hc_reporter *reporter, void *native);

#endif
