/*
 * libnpusim.so: a software NPU with the ACL ABI (transports/npu/acl/acl.h). One lock guards all state; it is
 * let go while engines move bytes, while host functions run, and while callers wait. Functions declared here
 * expect the lock held unless they say otherwise. Codes are those of enum hc_acl_code.
 *
 * Who does what: an ACL call enters (npusim_enter…), puts operations on a stream, and leaves; leaving starts
 * what can start (stream.c). Engines (engine.c) carry out copies and finish operations, which starts the
 * next.
 */
#ifndef NPUSIM_SIM_H
#define NPUSIM_SIM_H

#include "runtime/base/compiler.h"
#include "runtime/base/list.h"
#include "transports/npu/sim/settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#include "transports/npu/acl/acl.h"
#pragma GCC visibility pop

enum { NPUSIM_GRANULE = 4096 }; /* device memory is handed out in these units */

#define NPUSIM_NEVER UINT64_MAX

struct npusim_control;
struct npusim_device;
struct npusim_stream;

/* ---- Memory ---- */

struct npusim_block {
    size_t offset, size; /* size: as asked for; the block occupies whole granules */
};

/*
 * The memory of one device in this process: a sealed memfd, mapped twice. Users get addresses at `base`,
 * where nothing can be read or written; engines work at `shadow`.
 */
struct npusim_memory {
    int fd; /* -1: no memory yet */
    size_t size, used;
    struct npusim_control *control;
    char *base, *shadow;
    struct npusim_block *blocks; /* by offset */
    size_t count, capacity;
    uint64_t mallocs;
    int exports; /* live ones */
};

enum npusim_where {
    NPUSIM_PAGEABLE, /* host memory the simulator does not know */
    NPUSIM_PINNED,   /* aclrtMallocHost, aclrtHostRegister */
    NPUSIM_LOCAL,    /* a live block of a device of this process */
    NPUSIM_IMPORTED, /* another process's, or an import of our own */
    NPUSIM_NOWHERE,  /* device memory that was freed, or reaches past its block */
};

struct npusim_place {
    enum npusim_where where;
    int physical;                 /* the device that holds it, -1: host */
    struct npusim_import *import; /* when imported */
    char *bytes;                  /* where an engine reads and writes */
};

/* Find out what [ptr, ptr + n) is. */
struct npusim_place npusim_place_find(const void *ptr, size_t n);

void npusim_memory_close(struct npusim_memory *memory);
/* Close what a forked child inherits; async-signal-safe, no lock. */
void npusim_memory_forked(struct npusim_memory *memory);
/* Reserve addresses that fault when touched; NULL when there are none. */
char *npusim_memory_reserve(size_t size);

/* Pinned host ranges. */
bool npusim_host_pinned(const void *ptr, size_t n);
void npusim_host_close(void);

/* Imports of other processes' memory. */
struct npusim_import *npusim_import_find(const void *ptr);
char *npusim_import_bytes(const struct npusim_import *import, const void *ptr, size_t n);
int npusim_import_physical(const struct npusim_import *import);
/* The device of this process in whose address range it is mapped. */
int npusim_import_device(const struct npusim_import *import);
bool npusim_import_grants(const struct npusim_import *import, const struct npusim_device *device);
/* Keep an import mapped during a copy: pin fails when its owner is gone. */
HC_MUST_CHECK bool npusim_import_pin(struct npusim_import *import);
void npusim_import_unpin(struct npusim_import *import);
void npusim_imports_close(const struct npusim_device *device);
/* End all exports of memory that is about to go: importers' copies fail from then on. */
void npusim_exports_revoke(struct npusim_control *control);
/* Withdraw the exports inside a block that is to be freed; fails while another process has it imported. */
HC_MUST_CHECK int npusim_exports_withdraw(struct npusim_memory *memory, size_t offset, size_t size);
/* Fill in the control page of new device memory. */
size_t npusim_control_size(void);
void npusim_control_init(struct npusim_control *control, int physical, size_t memory);

/* ---- Operations ---- */

enum npusim_direction { NPUSIM_TO_DEVICE, NPUSIM_TO_HOST, NPUSIM_INSIDE, NPUSIM_DIRECTIONS };

enum npusim_op_kind {
    NPUSIM_OP_COPY,
    NPUSIM_OP_SET,
    NPUSIM_OP_RECORD,
    NPUSIM_OP_WAIT,
    NPUSIM_OP_CALL,
    NPUSIM_OP_NOTIFY,
    NPUSIM_OP_NOTIFY_WAIT,
};

struct npusim_op {
    struct hc_list queue;  /* in an engine, a record, a notify, or a worker */
    struct hc_list member; /* in its stream */
    enum npusim_op_kind kind;
    struct npusim_device *device;
    struct npusim_stream *stream; /* NULL: of a synchronous copy */
    enum npusim_direction direction;
    struct npusim_engine *engine; /* NULL until submitted */
    uint64_t ready_at, due_at;    /* when it could start, when the model says it ends */
    void *dst;
    const void *src;
    size_t n;
    int value;
    bool between_devices; /* subject to the peer link's bandwidth and latency */
    struct npusim_record *record;
    struct npusim_notify *notify;
    uint32_t timeout;             /* seconds of a wait for a notify, 0: none */
    struct hc_list timed;         /* among the waits with a timeout, which ends at due_at */
    struct npusim_report *report; /* CALL: the subscribed thread, or NULL for a worker */
    hc_acl_callback_t fn;
    void *arg;
    bool detached; /* CALL that the stream does not wait for */
    /* A caller waits for the end and frees the operation. */
    bool waited, done;
    int status;
    pthread_cond_t finished;
};

struct npusim_op *npusim_op_create(enum npusim_op_kind kind, struct npusim_device *device);
/* Say, before it is submitted, that npusim_op_wait will be called. */
void npusim_op_await(struct npusim_op *op);
void npusim_op_finish(struct npusim_op *op, int status);
/* Wait for an operation with `waited` set, helping its engine; frees it and returns its status. */
HC_MUST_CHECK int npusim_op_wait(struct npusim_op *op);

/* ---- Engines ---- */

struct npusim_engine {
    struct npusim_device *device;
    enum npusim_direction direction;
    pthread_t thread;
    bool started, stop;
    bool claimed;                 /* a thread is at work on it */
    bool passed;                  /* meanwhile another one wanted to be */
    struct hc_list ready, flying; /* to be copied; copied and waiting for the modelled end */
    uint64_t free_at;             /* when the modelled link takes the next copy */
    pthread_cond_t wake;
};

void npusim_engine_init(struct npusim_engine *engine, struct npusim_device *device,
                        enum npusim_direction direction);
void npusim_engine_submit(struct npusim_engine *engine, struct npusim_op *op);
/* Do one thing that is due, unless another thread is at it. True: look again; false: not before `when`. */
bool npusim_engine_help(struct npusim_engine *engine, uint64_t *when);
/* Let go of the lock, end the thread, take the lock again. */
void npusim_engine_stop(struct npusim_engine *engine);

/* Move an operation's bytes; lets go of the lock meanwhile. */
HC_MUST_CHECK int npusim_copy_move(struct npusim_op *op);

/* ---- Host functions ---- */

struct npusim_worker {
    pthread_t thread;
    bool started, stop;
    struct hc_list queue;
    pthread_cond_t wake;
};

void npusim_worker_init(struct npusim_worker *worker);
void npusim_worker_stop(struct npusim_worker *worker);
void npusim_call_start(struct npusim_op *op);
/* Whether this thread runs a host function that the stream, or its device, could not end without. */
bool npusim_call_would_wait_for_itself(const struct npusim_stream *stream);
bool npusim_call_is_of_device(const struct npusim_device *device);
/* Undo a stream's subscriptions. */
void npusim_report_forget(struct npusim_stream *stream);

/* ---- Streams, events, notifies ---- */

struct npusim_stream {
    struct hc_list node;     /* of the device's streams */
    struct hc_list runnable; /* of those that leaving looks at */
    struct npusim_device *device;
    hc_acl_stream_t handle;
    struct hc_list ops; /* in order; the first is running when `busy` */
    bool busy, aborted;
    uint64_t submitted, completed;
    int error; /* the first failure; stays until the stream is destroyed */
    pthread_cond_t progress;
    struct npusim_worker own_worker, *worker;
    struct npusim_report *report;
    int waiters; /* callers inside aclrtSynchronizeStream */
};

/* One aclrtRecordEvent: kept by the event while it is the latest, by operations, and by waiting callers. */
struct npusim_record {
    int references;
    bool done;
    uint64_t time;
    struct hc_list waiting; /* operations of streams */
    pthread_cond_t completed;
};

/* The stream behind a handle (NULL: the device's default stream), checked to be the device's. */
HC_MUST_CHECK int npusim_stream_get(struct npusim_device *device, hc_acl_stream_t handle,
                                    struct npusim_stream **stream);
void npusim_stream_enqueue(struct npusim_stream *stream, struct npusim_op *op);
/* Start whatever can start, on all streams. */
void npusim_streams_run(void);
/* Drop what is queued and destroy all streams of a device. */
void npusim_streams_close(struct npusim_device *device);

void npusim_record_complete(struct npusim_record *record);
void npusim_record_drop(struct npusim_record *record);
void npusim_events_close(struct npusim_device *device);

void npusim_notify_set(struct npusim_notify *notify);
/* Returns whether the operation is complete at once. */
bool npusim_notify_wait(struct npusim_op *op);
void npusim_notify_unref(struct npusim_notify *notify);
void npusim_notifies_close(struct npusim_device *device);
/* Fail waits whose time is over; returns when the next one's is. */
uint64_t npusim_notifies_expire(void);

/* ---- Handles: checked at every use, so that a stale one is told apart from a new object ---- */

enum npusim_handle_kind { NPUSIM_HANDLE_STREAM = 1, NPUSIM_HANDLE_EVENT, NPUSIM_HANDLE_NOTIFY };

/* NULL when memory is out. */
void *npusim_handle_create(enum npusim_handle_kind kind, void *object);
void *npusim_handle_object(enum npusim_handle_kind kind, const void *handle);
void npusim_handle_destroy(const void *handle);

/* ---- Devices ---- */

struct npusim_peer {
    bool enabled;
    uint64_t up_at;
};

struct npusim_device {
    int id, physical;
    int sets;       /* aclrtSetDevice minus aclrtResetDevice; 0: closed */
    uint64_t epoch; /* counts openings, so that threads notice a reset */
    bool closing, lost;
    int waiters;          /* callers that wait for an operation of an engine */
    pthread_cond_t quiet; /* there are none left */
    uint64_t copies;      /* operations engines carried out, for faults */
    struct npusim_memory memory;
    struct npusim_engine engines[NPUSIM_DIRECTIONS];
    struct npusim_worker worker;
    struct npusim_stream *default_stream;
    struct hc_list streams, events, notifies;
    uint64_t stream_count, event_count, notify_count;
    struct npusim_peer peers[NPUSIM_MAX_DEVICES]; /* by physical id */
};

struct npusim {
    pthread_mutex_t lock;
    bool initialized, finalizing, finalized;
    bool forked; /* in a child of fork: nothing works */
    struct npusim_settings settings;
    struct npusim_device devices[NPUSIM_MAX_DEVICES]; /* the visible ones */
    struct hc_list runnable;
};

extern struct npusim npusim;

struct npusim_device *npusim_device_get(int64_t id);
void npusim_device_init(struct npusim_device *device, int id, int physical);
/* Give back all a device holds; lets go of the lock meanwhile. */
void npusim_device_close(struct npusim_device *device);
/* Whether `device` may reach a place: its own memory, or a peer's with access enabled and up. */
bool npusim_peer_reaches(const struct npusim_device *device, const struct npusim_place *place);
bool npusim_peer_linked(int physical, int other);
/* Count an operation, and the code with which it must fail, or 0. */
int npusim_fault_copy(struct npusim_device *device);
int npusim_fault_malloc(struct npusim_device *device);

/* ---- Calls ---- */

/* Enter an ACL call: take the lock. Fails (without it) before aclInit and in forked children; the second form
 * also gives the calling thread's device, which must be set and not lost. */
HC_MUST_CHECK int npusim_enter(void);
HC_MUST_CHECK int npusim_enter_device(struct npusim_device **device);
/* Start what can start, let go of the lock, return code. */
int npusim_leave(int code);
/* Keep a reason for aclGetRecentErrMsg, return code. No lock needed. */
int npusim_fail(int code, const char *format, ...) HC_PRINTF(2, 3) HC_COLD;

/* CLOCK_MONOTONIC in nanoseconds; no lock needed. */
uint64_t npusim_now(void);
/* Wait for a condition with the lock, at most until `until` (NPUSIM_NEVER: for good). False: time is over. */
bool npusim_wait(pthread_cond_t *condition, uint64_t until);
/* Start a thread with all signals blocked. */
HC_MUST_CHECK bool npusim_thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name);

#endif
