/*
 * Streams of a device. stream.h tells how an operation of hcomm's stands in the device's queue. Calls of the
 * device runtime that enqueue are made without the context's lock, because they may wait for room in a queue
 * that only progress empties; a mutex per stream keeps the orders of both queues the same. Those that set a
 * notify or ask for a state return at once and may be made with the lock.
 *
 * The function that the device calls does next to nothing: it may run on a thread that all streams share.
 */
#include "runtime/core/stream.h"

#include "transports/npu/acl/table.h"

#include <stdlib.h>
#include <unistd.h>

enum { WATCH_INTERVAL_NS = 1000000, DRAIN_ROUND_MS = 1, CALLBACK_WAIT_US = 1000 };

struct hc_gate {
    pthread_mutex_t mutex; /* order of the device's queue; taken before the context's lock */
    hc_acl_stream_t native;
    hc_acl_notify_t notify; /* set when an operation is complete */
    bool adopted;
    bool subscribed;   /* to the context's reporter */
    bool broken;       /* the device's stream has failed: nothing arrives any more */
    uint64_t watch_at; /* clock, of the next look at the device's stream */
};

static struct hc_device *device_of(const struct hcomm_stream *stream)
{
    return stream->streams->context->device;
}

static const struct hc_acl *acl_of(const struct hcomm_stream *stream)
{
    return hc_device_acl(device_of(stream));
}

bool hc_gate_wanted(const struct hcomm_context *context)
{
    return context->device != NULL;
}

void *hc_gate_native(const struct hcomm_stream *stream)
{
    return stream->gate->native;
}

/* ---- open and close ---- */

static hcomm_status_t check_runtime(const struct hcomm_context *context)
{
    const struct hc_acl *acl = hc_device_acl(context->device);
    bool calls = !hc_reporter_is_needed(acl) || hc_reporter_is_possible(acl);
    bool notifies = acl->aclrtCreateNotify && acl->aclrtDestroyNotify && acl->aclrtRecordNotify &&
                    acl->aclrtWaitAndResetNotify;
    if (calls && notifies)
        return HCOMM_OK;
    return hc_error(
        HCOMM_ERR_UNSUPPORTED,
        "rank %u: device %d (physical %d): streams need %s%s%s, which %s does not have: install a "
        "newer one, or use device_id -1 (host only)",
        context->job->rank, hc_device_id(context->device), hc_device_physical(context->device),
        calls ? "" : "aclrtLaunchHostFunc (or aclrtLaunchCallback and reports)",
        calls || notifies ? "" : " and ",
        notifies ? "" : "notifies (aclrtCreateNotify, aclrtWaitAndResetNotify)", acl->library);
}

/* Streams of the context beside this one. The lock is not held. */
static unsigned other_streams(const struct hcomm_stream *stream)
{
    struct hc_lock *lock = &stream->streams->context->lock;
    hc_lock_acquire(lock);
    unsigned count = stream->streams->num_streams - 1;
    hc_lock_release(lock);
    return count;
}

/* Everything that the device runtime gives; the device is current. The lock is not held. */
static hcomm_status_t make_native(struct hcomm_stream *stream, void *native)
{
    struct hc_gate *gate = stream->gate;
    const struct hc_acl *acl = acl_of(stream);
    int state = 0;
    gate->native = native;
    int code = gate->adopted ? acl->aclrtStreamQuery(native, &state) : acl->aclrtCreateStream(&gate->native);
    if (code != HC_ACL_OK)
        return hc_device_error(device_of(stream), code, "%s a stream, with %u in use in this context",
                               gate->adopted ? "adopting" : "creating", other_streams(stream));
    code = acl->aclrtCreateNotify(&gate->notify, 0);
    if (code == HC_ACL_OK)
        return HCOMM_OK;
    hcomm_status_t status = hc_device_error(device_of(stream), code,
                                            "creating a notify for a stream, with %u in use in this context",
                                            other_streams(stream));
    if (!gate->adopted)
        (void)acl->aclrtDestroyStream(gate->native);
    return status;
}

static hcomm_status_t make_signal_stream(struct hcomm_stream *stream)
{
    struct hcomm_context *context = stream->streams->context;
    int code = HC_ACL_OK;
    hc_lock_acquire(&context->lock);
    if (!stream->streams->signal_stream)
        code = acl_of(stream)->aclrtCreateStream(&stream->streams->signal_stream);
    hc_lock_release(&context->lock);
    return code == HC_ACL_OK ? HCOMM_OK
                             : hc_device_error(context->device, code, "creating a stream for notifies");
}

static hcomm_status_t make_reporter(struct hcomm_stream *stream)
{
    struct hc_streams *streams = stream->streams;
    hcomm_status_t status = HCOMM_OK;
    hc_lock_acquire(&streams->context->lock);
    if (!streams->reporter)
        status = hc_reporter_create(streams->context->device, &streams->reporter);
    hc_lock_release(&streams->context->lock);
    return status;
}

/* A stream of the application may have a thread of its own subscribed already: that one serves us, too. */
static hcomm_status_t subscribe(struct hcomm_stream *stream)
{
    struct hc_gate *gate = stream->gate;
    int code = hc_reporter_subscribe(stream->streams->reporter, gate->native);
    gate->subscribed = code == HC_ACL_OK;
    if (gate->subscribed || (gate->adopted && code == HC_ACL_STREAM_NOT_SUBSCRIBED))
        return HCOMM_OK;
    return hc_device_error(device_of(stream), code, "subscribing to a stream's host functions");
}

static void drop_native(struct hcomm_stream *stream)
{
    struct hc_gate *gate = stream->gate;
    const struct hc_acl *acl = acl_of(stream);
    if (gate->subscribed && !hc_reporter_unsubscribe(stream->streams->reporter, gate->native) &&
        gate->adopted)
        hc_log_debug("stream %u: the device's stream is busy, and stays subscribed", stream->number);
    if (!gate->adopted && acl->aclrtDestroyStream(gate->native) != HC_ACL_OK)
        hc_log_debug("stream %u: the device's stream cannot be destroyed", stream->number);
    if (acl->aclrtDestroyNotify(gate->notify) != HC_ACL_OK)
        hc_log_debug("stream %u: its notify cannot be destroyed", stream->number);
}

/* Everything that host functions need; the device is current. */
static hcomm_status_t prepare_calls(struct hcomm_stream *stream)
{
    if (!hc_reporter_is_needed(acl_of(stream)))
        return HCOMM_OK;
    hcomm_status_t status = make_reporter(stream);
    return status == HCOMM_OK ? subscribe(stream) : status;
}

static hcomm_status_t make_all(struct hcomm_stream *stream, void *native)
{
    int previous;
    hcomm_status_t status = hc_device_enter(device_of(stream), &previous);
    if (status != HCOMM_OK)
        return status;
    status = make_signal_stream(stream);
    if (status == HCOMM_OK)
        status = make_native(stream, native);
    if (status == HCOMM_OK) {
        status = prepare_calls(stream);
        if (status != HCOMM_OK)
            drop_native(stream);
    }
    hc_device_leave(device_of(stream), previous);
    return status;
}

hcomm_status_t hc_gate_open(struct hcomm_stream *stream, bool adopt, void *native)
{
    hcomm_status_t status = check_runtime(stream->streams->context);
    if (status != HCOMM_OK)
        return status;
    struct hc_gate *gate = calloc(1, sizeof(*gate));
    if (!gate)
        return hc_error(HCOMM_ERR_NO_MEMORY, "stream: out of memory");
    gate->adopted = adopt;
    (void)pthread_mutex_init(&gate->mutex, NULL);
    stream->gate = gate;
    status = make_all(stream, native);
    if (status != HCOMM_OK) {
        stream->gate = NULL;
        (void)pthread_mutex_destroy(&gate->mutex);
        free(gate);
    }
    return status;
}

void hc_gate_close(struct hcomm_stream *stream)
{
    struct hc_gate *gate = stream->gate;
    if (!gate)
        return;
    int previous;
    if (hc_device_enter(device_of(stream), &previous) == HCOMM_OK) {
        drop_native(stream);
        hc_device_leave(device_of(stream), previous);
    }
    (void)pthread_mutex_destroy(&gate->mutex);
    free(gate);
    stream->gate = NULL;
}

/* ---- operations of hcomm's ---- */

static void set_notify(const struct hc_acl *acl, const struct hc_gate *gate, hc_acl_stream_t signal_stream)
{
    int code = acl->aclrtRecordNotify(gate->notify, signal_stream);
    if (code != HC_ACL_OK)
        hc_log_warn("a stream of the device may stay stuck: setting its notify: %s (code %d)",
                    hc_acl_text(code), code);
}

/* The context has ended before the device got here: its stream is to go on all the same. */
static void let_pass(const struct hc_streams *streams, const struct hc_gate *gate)
{
    if (streams->late_acl->aclrtSetDevice(streams->late_device) == HC_ACL_OK)
        set_notify(streams->late_acl, gate, streams->signal_stream);
}

/* Called by the device. op may be complete, and another's, once `arrived` is set. */
static void arrive(void *arg)
{
    struct hc_stream_op *op = arg;
    struct hc_streams *streams = op->stream->streams;
    /* acquire: partner is the release in hc_gates_fini */
    if (hc_unlikely(atomic_load_explicit(&streams->closed, memory_order_acquire))) {
        let_pass(streams, op->stream->gate);
        return;
    }
    /* release: partner is the acquire in stream_run.c */
    atomic_store_explicit(&op->arrived, true, memory_order_release);
    hc_streams_signal(streams);
    /* release: partner is the acquire in hc_gates_fini; streams may be gone afterwards */
    atomic_fetch_sub_explicit(&streams->callbacks, 1, memory_order_release);
}

static int launch_on(const struct hc_acl *acl, hc_acl_stream_t native, struct hc_stream_op *op)
{
    return hc_reporter_is_needed(acl) ? acl->aclrtLaunchCallback(arrive, op, HC_ACL_CALLBACK_BLOCK, native)
                                      : acl->aclrtLaunchHostFunc(native, arrive, op);
}

/* The device is current, gate->mutex held. */
static int launch(struct hcomm_stream *stream, struct hc_stream_op *op)
{
    struct hc_streams *streams = stream->streams;
    atomic_fetch_add_explicit(&streams->callbacks, 1, memory_order_relaxed);
    int code = launch_on(acl_of(stream), stream->gate->native, op);
    if (code != HC_ACL_OK)
        atomic_fetch_sub_explicit(&streams->callbacks, 1, memory_order_relaxed);
    return code;
}

/* After launch() the operation is on its way, and without a wait the device does not stop for it: the stream
 * has lost its order. */
static void lose_order(struct hcomm_stream *stream, int code)
{
    struct hcomm_context *context = stream->streams->context;
    hcomm_status_t status =
        hc_device_error(device_of(stream), code, "stream %u: enqueuing a wait", stream->number);
    hc_lock_acquire(&context->lock);
    stream->gate->broken = true;
    hc_stream_fail(stream, status);
    hc_lock_release(&context->lock);
}

static hcomm_status_t enqueue(struct hcomm_stream *stream, struct hc_stream_op *op)
{
    struct hcomm_context *context = stream->streams->context;
    bool holds = op->kind != HC_STREAM_MARK;
    hc_lock_acquire(&context->lock);
    hc_stream_append(stream, op);
    hc_lock_release(&context->lock);
    int code = launch(stream, op); /* op may be gone from here on */
    if (code != HC_ACL_OK) {
        hc_lock_acquire(&context->lock);
        bool taken = hc_stream_unappend(stream, op);
        hc_lock_release(&context->lock);
        if (!taken)
            return HCOMM_OK; /* the stream has its error */
        return hc_device_error(device_of(stream), code, "stream %u: enqueuing an operation", stream->number);
    }
    if (holds)
        code = acl_of(stream)->aclrtWaitAndResetNotify(stream->gate->notify, stream->gate->native, 0);
    if (code != HC_ACL_OK)
        lose_order(stream, code);
    return HCOMM_OK;
}

static hcomm_status_t check_broken(const struct hcomm_stream *stream)
{
    if (!stream->gate->broken)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_IO, "stream %u: the device's stream has failed; destroy it and create another",
                    stream->number);
}

hcomm_status_t hc_gate_submit(struct hcomm_stream *stream, struct hc_stream_op *op)
{
    struct hc_gate *gate = stream->gate;
    int previous;
    hcomm_status_t status = hc_device_enter(device_of(stream), &previous);
    if (status != HCOMM_OK)
        return status;
    (void)pthread_mutex_lock(&gate->mutex);
    status = check_broken(stream);
    if (status == HCOMM_OK)
        status = enqueue(stream, op);
    (void)pthread_mutex_unlock(&gate->mutex);
    hc_device_leave(device_of(stream), previous);
    return status;
}

void hc_gate_release(struct hcomm_stream *stream, const struct hc_stream_op *op)
{
    int previous;
    if (op->kind == HC_STREAM_MARK || stream->gate->broken)
        return;
    if (hc_device_enter(device_of(stream), &previous) != HCOMM_OK) {
        hc_log_warn("stream %u of the device may stay stuck: %s", stream->number, hc_error_detail());
        return;
    }
    set_notify(acl_of(stream), stream->gate, stream->streams->signal_stream);
    hc_device_leave(device_of(stream), previous);
}

/* ---- failures of the device's stream ---- */

/* How many of the operations enqueued the device will not call any more. */
static unsigned count_missing(const struct hcomm_stream *stream)
{
    unsigned count = 0;
    for (struct hc_fifo_node *node = stream->ops.head; node; node = node->next) {
        const struct hc_stream_op *op = hc_container_of(node, struct hc_stream_op, node);
        count += !atomic_load_explicit(&op->arrived, memory_order_acquire);
    }
    return count;
}

/* The device skips our functions now, but not the waits behind them: end those, until its queue is empty. */
static void flush(struct hcomm_stream *stream)
{
    const struct hc_acl *acl = acl_of(stream);
    struct hc_gate *gate = stream->gate;
    for (uint64_t left = stream->submitted - stream->completed + 2; left > 0; left--) {
        set_notify(acl, gate, stream->streams->signal_stream);
        if (acl->aclrtSynchronizeStreamWithTimeout(gate->native, DRAIN_ROUND_MS) != HC_ACL_WAIT_TIMEOUT)
            return;
    }
    hc_log_warn("stream %u of the device has failed, and stays stuck", stream->number);
}

/* The device is current; gate->mutex held. */
static void look_at_native(struct hcomm_stream *stream)
{
    int state;
    int code = acl_of(stream)->aclrtStreamQuery(stream->gate->native, &state);
    if (code == HC_ACL_OK)
        return;
    hcomm_status_t status = hc_device_error(device_of(stream), code, "stream %u", stream->number);
    hc_stream_fail(stream, status);
    flush(stream);
    stream->gate->broken = true;
    atomic_fetch_sub_explicit(&stream->streams->callbacks, count_missing(stream), memory_order_relaxed);
    hc_stream_abandon(stream);
}

void hc_gate_watch(struct hcomm_stream *stream)
{
    struct hc_gate *gate = stream->gate;
    uint64_t now = hc_clock_ns();
    int previous;
    if (gate->broken || now < gate->watch_at || pthread_mutex_trylock(&gate->mutex) != 0)
        return;
    gate->watch_at = now + WATCH_INTERVAL_NS;
    if (hc_device_enter(device_of(stream), &previous) == HCOMM_OK) {
        look_at_native(stream);
        hc_device_leave(device_of(stream), previous);
    }
    (void)pthread_mutex_unlock(&gate->mutex);
}
hcomm_status_t hc_gate_query(struct hcomm_stream *stream)
{
    int previous, state = HC_ACL_STREAM_NOT_READY;
    hcomm_status_t status = hc_device_enter(device_of(stream), &previous);
    if (status != HCOMM_OK)
        return status;
    int code = acl_of(stream)->aclrtStreamQuery(stream->gate->native, &state);
    if (code != HC_ACL_OK)
        status = hc_device_error(device_of(stream), code, "stream %u", stream->number);
    else if (state != HC_ACL_STREAM_COMPLETE)
        status = HCOMM_IN_PROGRESS;
    hc_device_leave(device_of(stream), previous);
    return status;
}

/* ---- copies ---- */

static const char *const kind_names[] = {
    [HCOMM_COPY_AUTO] = "auto",
    [HCOMM_COPY_HOST_TO_HOST] = "host to host",
    [HCOMM_COPY_HOST_TO_DEVICE] = "host to device",
    [HCOMM_COPY_DEVICE_TO_HOST] = "device to host",
    [HCOMM_COPY_DEVICE_TO_DEVICE] = "device to device",
};

static hcomm_copy_kind_t actual_kind(const struct hc_stream_op *op)
{
    bool to_device = op->to.place == HC_PLACE_DEVICE;
    if (op->from.place == HC_PLACE_DEVICE)
        return to_device ? HCOMM_COPY_DEVICE_TO_DEVICE : HCOMM_COPY_DEVICE_TO_HOST;
    return to_device ? HCOMM_COPY_HOST_TO_DEVICE : HCOMM_COPY_HOST_TO_HOST;
}

/* Find the places; HCOMM_AGAIN: the device cannot do it without holding the caller up. */
static hcomm_status_t look_at_copy(struct hcomm_stream *stream, struct hc_stream_op *op,
                                   hcomm_copy_kind_t kind)
{
    struct hcomm_context *context = stream->streams->context;
    hcomm_status_t status = hc_device_locate(context, op->to.ptr, op->size, &op->to.place);
    if (status == HCOMM_OK)
        status = hc_device_locate(context, op->from.ptr, op->size, &op->from.place);
    if (status != HCOMM_OK)
        return status;
    hcomm_copy_kind_t actual = actual_kind(op);
    if (kind != HCOMM_COPY_AUTO && kind != actual)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_memcpy_async: from %p to %p is %s, not %s", op->from.ptr,
                        op->to.ptr, kind_names[actual], kind_names[kind]);
    bool pageable = op->to.place == HC_PLACE_HOST || op->from.place == HC_PLACE_HOST;
    return pageable || actual == HCOMM_COPY_HOST_TO_HOST || stream->status != HCOMM_OK ? HCOMM_AGAIN
                                                                                       : HCOMM_OK;
}

static hcomm_status_t enqueue_copy(struct hcomm_stream *stream, const struct hc_stream_op *op)
{
    static const int kinds[] = {
        [HCOMM_COPY_HOST_TO_DEVICE] = HC_ACL_H2D,
        [HCOMM_COPY_DEVICE_TO_HOST] = HC_ACL_D2H,
        [HCOMM_COPY_DEVICE_TO_DEVICE] = HC_ACL_D2D,
    };
    struct hc_gate *gate = stream->gate;
    int previous;
    hcomm_status_t status = hc_device_enter(device_of(stream), &previous);
    if (status != HCOMM_OK)
        return status;
    hcomm_copy_kind_t kind = actual_kind(op);
    (void)pthread_mutex_lock(&gate->mutex);
    int code = acl_of(stream)->aclrtMemcpyAsync(op->to.ptr, op->size, op->from.ptr, op->size, kinds[kind],
                                                gate->native);
    (void)pthread_mutex_unlock(&gate->mutex);
    if (code != HC_ACL_OK)
        status = hc_device_error(device_of(stream), code, "stream %u: enqueuing a copy of %zu bytes %s",
                                 stream->number, op->size, kind_names[kind]);
    hc_device_leave(device_of(stream), previous);
    return status;
}

hcomm_status_t hc_gate_copy(struct hcomm_stream *stream, struct hc_stream_op *op, hcomm_copy_kind_t kind)
{
    struct hcomm_context *context = stream->streams->context;
    hc_lock_acquire(&context->lock);
    hcomm_status_t status = look_at_copy(stream, op, kind);
    hc_lock_release(&context->lock);
    return status == HCOMM_OK ? enqueue_copy(stream, op) : status;
}

/* ---- events ---- */

static hcomm_status_t make_event(struct hcomm_stream *stream, struct hc_record *record)
{
    hc_acl_event_t native = NULL;
    int code =
        acl_of(stream)->aclrtCreateEventExWithFlag(&native, HC_ACL_EVENT_SYNC | HC_ACL_EVENT_TIME_LINE);
    if (code != HC_ACL_OK)
        return hc_device_error(device_of(stream), code, "recording an event, with %u events in this context",
                               stream->streams->num_events);
    hc_record_set_native(record, native);
    return HCOMM_OK;
}

/* The device is current. */
static hcomm_status_t record_native(struct hcomm_stream *stream, struct hc_record *record)
{
    hcomm_status_t status = record->native ? HCOMM_OK : make_event(stream, record);
    if (status != HCOMM_OK)
        return status;
    (void)pthread_mutex_lock(&stream->gate->mutex);
    int code = acl_of(stream)->aclrtRecordEvent(record->native, stream->gate->native);
    (void)pthread_mutex_unlock(&stream->gate->mutex);
    return code == HC_ACL_OK
               ? HCOMM_OK
               : hc_device_error(device_of(stream), code, "stream %u: recording an event", stream->number);
}

hcomm_status_t hc_gate_record(struct hcomm_event *event, struct hcomm_stream *stream)
{
    struct hcomm_context *context = stream->streams->context;
    struct hc_record *record = hc_record_new(stream->streams, true);
    int previous;
    if (!record)
        return HCOMM_ERR_NO_MEMORY;
    hcomm_status_t status = hc_device_enter(device_of(stream), &previous);
    if (status == HCOMM_OK) {
        status = record_native(stream, record);
        hc_device_leave(device_of(stream), previous);
    }
    hc_lock_acquire(&context->lock);
    struct hc_record *unused = record;
    if (status == HCOMM_OK) {
        unused = event->latest;
        event->latest = record;
    }
    hc_lock_release(&context->lock);
    if (unused)
        hc_record_unref(unused);
    return status;
}

hcomm_status_t hc_gate_wait_event(struct hcomm_stream *stream, struct hc_record *record)
{
    int previous;
    hcomm_status_t status = hc_device_enter(device_of(stream), &previous);
    if (status != HCOMM_OK)
        return status;
    (void)pthread_mutex_lock(&stream->gate->mutex);
    int code = acl_of(stream)->aclrtStreamWaitEvent(stream->gate->native, record->native);
    (void)pthread_mutex_unlock(&stream->gate->mutex);
    if (code != HC_ACL_OK)
        status = hc_device_error(device_of(stream), code, "stream %u: waiting for an event", stream->number);
    hc_device_leave(device_of(stream), previous);
    return status;
}

hcomm_status_t hc_gate_elapsed(struct hc_record *start, struct hc_record *end, double *ms)
{
    struct hc_device *device = start->owner->context->device;
    float elapsed = 0;
    int previous;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = hc_device_acl(device)->aclrtEventElapsedTime(&elapsed, start->native, end->native);
    if (code == HC_ACL_OK)
        *ms = (double)elapsed;
    else
        status = hc_device_error(device, code, "time between two events");
    hc_device_leave(device, previous);
    return status;
}

bool hc_gate_event_is_done(struct hc_record *record)
{
    struct hc_device *device = record->owner->context->device;
    int previous, state = HC_ACL_EVENT_NOT_READY;
    if (hc_device_enter(device, &previous) != HCOMM_OK)
        return true; /* a lost device has nothing under way */
    int code = hc_device_acl(device)->aclrtQueryEventStatus(record->native, &state);
    hc_device_leave(device, previous);
    return code != HC_ACL_OK || state == HC_ACL_EVENT_COMPLETE;
}

void hc_gate_event_destroy(struct hc_record *record)
{
    struct hc_device *device = record->owner->context->device;
    int previous;
    if (hc_device_enter(device, &previous) == HCOMM_OK) {
        if (hc_device_acl(device)->aclrtDestroyEvent(record->native) != HC_ACL_OK)
            hc_log_debug("an event of the device cannot be destroyed");
        hc_device_leave(device, previous);
    }
    hc_list_remove(&record->native_node);
    record->native = NULL;
}

/* ---- the end ---- */

/* The device calls what is left of our functions soon, unless other work is stuck before them. */
static bool wait_for_callbacks(struct hc_streams *streams)
{
    uint64_t deadline = hc_deadline_ms((unsigned)streams->context->settings.timeout_ms);
    while (atomic_load_explicit(&streams->callbacks, memory_order_acquire)) {
        if (hc_clock_ns() > deadline)
            return false;
        (void)usleep(CALLBACK_WAIT_US);
    }
    return true;
}

bool hc_gates_fini(struct hc_streams *streams)
{
    struct hcomm_context *context = streams->context;
    struct hc_list *node;
    int previous;
    if (!hc_gate_wanted(context))
        return true;
    if (!wait_for_callbacks(streams)) {
        hc_log_warn("work of the application on the device is stuck before operations of hcomm: some memory "
                    "stays in use");
        streams->late_acl = hc_device_acl(context->device);
        streams->late_device = hc_device_id(context->device);
        /* release: partner is the acquire in arrive */
        atomic_store_explicit(&streams->closed, true, memory_order_release);
        hc_reporter_leave(streams->reporter);
        return false;
    }
    hc_list_for_each(node, &streams->all) hc_gate_close(hc_list_entry(node, struct hcomm_stream, all));
    if (streams->signal_stream && hc_device_enter(context->device, &previous) == HCOMM_OK) {
        (void)hc_device_acl(context->device)->aclrtDestroyStream(streams->signal_stream); /* its last use */
        hc_device_leave(context->device, previous);
    }
    hc_reporter_destroy(streams->reporter);
    return true;
}
