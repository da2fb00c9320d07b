/* Streams: operations in order, one at a time per stream; and the life of an operation. */
#include "transports/npu/sim/sim.h"

#include <stdlib.h>

/* ---- Operations ---- */

struct npusim_op *npusim_op_create(enum npusim_op_kind kind, struct npusim_device *device)
{
    struct npusim_op *op = calloc(1, sizeof(*op));
    if (!op)
        return NULL;
    op->kind = kind;
    op->device = device;
    hc_list_init(&op->queue);
    hc_list_init(&op->member);
    hc_list_init(&op->timed);
    return op;
}

void npusim_op_await(struct npusim_op *op)
{
    op->waited = true;
    (void)pthread_cond_init(&op->finished, NULL);
}

static void kick(struct npusim_stream *stream)
{
    if (hc_list_empty(&stream->runnable))
        hc_list_append(&npusim.runnable, &stream->runnable);
}

/* Take the stream's first operation out of it: the next may start. */
static void retire(struct npusim_op *op, int status)
{
    struct npusim_stream *stream = op->stream;
    hc_list_remove(&op->member);
    op->stream = NULL;
    stream->busy = false;
    stream->completed++;
    if (!stream->error)
        stream->error = status;
    kick(stream);
    (void)pthread_cond_broadcast(&stream->progress);
}

void npusim_op_finish(struct npusim_op *op, int status)
{
    hc_list_remove(&op->timed);
    if (op->stream)
        retire(op, status);
    if (op->waited) {
        op->status = status;
        op->done = true;
        (void)pthread_cond_signal(&op->finished);
    } else {
        free(op);
    }
}

static void start_record(struct npusim_op *op)
{
    npusim_record_complete(op->record);
    npusim_record_drop(op->record);
    npusim_op_finish(op, HC_ACL_OK);
}

static void start_wait(struct npusim_op *op)
{
    if (!op->record->done && !op->stream->aborted) {
        hc_list_append(&op->record->waiting, &op->queue);
        return;
    }
    npusim_record_drop(op->record);
    npusim_op_finish(op, HC_ACL_OK);
}

static void start_call(struct npusim_op *op)
{
    if (op->detached)
        retire(op, HC_ACL_OK);
    npusim_call_start(op);
}

static void start_notify(struct npusim_op *op)
{
    npusim_notify_set(op->notify);
    npusim_notify_unref(op->notify);
    npusim_op_finish(op, HC_ACL_OK);
}

static void start_notify_wait(struct npusim_op *op)
{
    if (op->stream->aborted || npusim_notify_wait(op)) {
        npusim_notify_unref(op->notify);
        npusim_op_finish(op, HC_ACL_OK);
    }
}

/*
 * Start the first operation of a stream. After a failure nothing more is carried out, but events are still
 * recorded and waits still end, so that other streams and callers go on.
 */
static void op_start(struct npusim_op *op)
{
    struct npusim_stream *stream = op->stream;
    bool moves = op->kind == NPUSIM_OP_COPY || op->kind == NPUSIM_OP_SET;
    stream->busy = true;
    if (stream->error && (moves || op->kind == NPUSIM_OP_CALL))
        npusim_op_finish(op, stream->error);
    else if (moves)
        npusim_engine_submit(&op->device->engines[op->direction], op);
    else if (op->kind == NPUSIM_OP_RECORD)
        start_record(op);
    else if (op->kind == NPUSIM_OP_WAIT)
        start_wait(op);
    else if (op->kind == NPUSIM_OP_CALL)
        start_call(op);
    else if (op->kind == NPUSIM_OP_NOTIFY)
        start_notify(op);
    else
        start_notify_wait(op);
}

void npusim_streams_run(void)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&npusim.runnable))) {
        struct npusim_stream *stream = hc_list_entry(node, struct npusim_stream, runnable);
        while (!stream->busy && !hc_list_empty(&stream->ops))
            op_start(hc_list_entry(stream->ops.next, struct npusim_op, member));
    }
}

void npusim_stream_enqueue(struct npusim_stream *stream, struct npusim_op *op)
{
    op->stream = stream;
    stream->submitted++;
    hc_list_append(&stream->ops, &op->member);
    kick(stream);
}

/* ---- Streams ---- */

static struct npusim_stream *stream_create(struct npusim_device *device)
{
    struct npusim_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return NULL;
    stream->device = device;
    hc_list_init(&stream->runnable);
    hc_list_init(&stream->ops);
    (void)pthread_cond_init(&stream->progress, NULL);
    npusim_worker_init(&stream->own_worker);
    stream->worker = npusim.settings.callback_threads == NPUSIM_CALLBACK_PER_DEVICE ? &device->worker
                                                                                    : &stream->own_worker;
    hc_list_append(&device->streams, &stream->node);
    return stream;
}

/* Wait until nothing is queued and nobody waits, and free. */
static void stream_destroy(struct npusim_stream *stream)
{
    if (stream->handle)
        npusim_handle_destroy(stream->handle);
    npusim_streams_run();
    while (!hc_list_empty(&stream->ops) || stream->waiters)
        (void)npusim_wait(&stream->progress, NPUSIM_NEVER);
    npusim_worker_stop(&stream->own_worker);
    npusim_report_forget(stream);
    hc_list_remove(&stream->node);
    hc_list_remove(&stream->runnable);
    (void)pthread_cond_destroy(&stream->progress);
    free(stream);
}

/* End an operation that waits for something outside the device and may wait for good. */
static void cancel(struct npusim_op *op)
{
    bool outside =
        op->kind == NPUSIM_OP_WAIT || op->kind == NPUSIM_OP_NOTIFY_WAIT || op->kind == NPUSIM_OP_CALL;
    if (!outside || hc_list_empty(&op->queue))
        return;
    hc_list_remove(&op->queue);
    if (op->kind == NPUSIM_OP_WAIT)
        npusim_record_drop(op->record);
    if (op->kind == NPUSIM_OP_NOTIFY_WAIT)
        npusim_notify_unref(op->notify);
    npusim_op_finish(op, HC_ACL_DRIVER_ERROR);
}

static void stream_abort(struct npusim_stream *stream)
{
    stream->aborted = true;
    if (!stream->error)
        stream->error = HC_ACL_DRIVER_ERROR;
    if (stream->busy)
        cancel(hc_list_entry(stream->ops.next, struct npusim_op, member));
}

void npusim_streams_close(struct npusim_device *device)
{
    struct hc_list *node;
    hc_list_for_each(node, &device->streams) stream_abort(hc_list_entry(node, struct npusim_stream, node));
    while ((node = hc_list_first(&device->streams)))
        stream_destroy(hc_list_entry(node, struct npusim_stream, node));
}

static int get_default(struct npusim_device *device, struct npusim_stream **stream)
{
    if (!device->default_stream && !(device->default_stream = stream_create(device)))
        return npusim_fail(HC_ACL_NO_RESOURCE, "device %d: no memory for the default stream", device->id);
    *stream = device->default_stream;
    return HC_ACL_OK;
}

int npusim_stream_get(struct npusim_device *device, hc_acl_stream_t handle, struct npusim_stream **stream)
{
    if (!handle)
        return get_default(device, stream);
    struct npusim_stream *found = npusim_handle_object(NPUSIM_HANDLE_STREAM, handle);
    if (!found)
        return npusim_fail(HC_ACL_INVALID_HANDLE, "%p is no stream, or was destroyed", handle);
    if (found->device != device)
        return npusim_fail(HC_ACL_STREAM_NOT_IN_CONTEXT,
                           "the stream belongs to device %d, this thread's current device is %d",
                           found->device->id, device->id);
    *stream = found;
    return HC_ACL_OK;
}

static int create(struct npusim_device *device, hc_acl_stream_t *handle)
{
    if (device->stream_count >= npusim.settings.streams)
        return npusim_fail(HC_ACL_NO_STREAM, "device %d: all %llu streams are in use (NPUSIM_STREAMS)",
                           device->id, (unsigned long long)npusim.settings.streams);
    struct npusim_stream *stream = stream_create(device);
    if (!stream || !(stream->handle = npusim_handle_create(NPUSIM_HANDLE_STREAM, stream))) {
        if (stream)
            stream_destroy(stream);
        return npusim_fail(HC_ACL_NO_RESOURCE, "device %d: no memory for a stream", device->id);
    }
    device->stream_count++;
    *handle = stream->handle;
    return HC_ACL_OK;
}

int aclrtCreateStream(hc_acl_stream_t *stream)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!stream)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtCreateStream: NULL"));
    return npusim_leave(create(device, stream));
}

int aclrtDestroyStream(hc_acl_stream_t handle)
{
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!handle)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_HANDLE, "aclrtDestroyStream: not the default stream"));
    if ((code = npusim_stream_get(device, handle, &stream)))
        return npusim_leave(code);
    if (npusim_call_would_wait_for_itself(stream))
        return npusim_leave(npusim_fail(HC_ACL_NOT_SUPPORTED,
                                        "aclrtDestroyStream: by a host function of the stream "
                                        "itself, which it would wait for"));
    device->stream_count--;
    stream_destroy(stream);
    return npusim_leave(HC_ACL_OK);
}

/* The engine at work on the stream's first operation, or NULL. */
static struct npusim_engine *stream_engine(const struct npusim_stream *stream)
{
    if (!stream->busy)
        return NULL;
    return hc_list_entry(stream->ops.next, struct npusim_op, member)->engine;
}

/* Wait until everything submitted so far is complete, doing the engines' work meanwhile. */
static bool drain(struct npusim_stream *stream, uint64_t until)
{
    uint64_t target = stream->submitted;
    npusim_streams_run();
    while (stream->completed < target) {
        uint64_t when = NPUSIM_NEVER;
        struct npusim_engine *engine = stream_engine(stream);
        bool helped = engine && npusim_engine_help(engine, &when);
        if (until != NPUSIM_NEVER && npusim_now() >= until)
            return stream->completed >= target;
        if (!helped && stream->completed < target)
            (void)npusim_wait(&stream->progress, until);
    }
    return true;
}

static int synchronize(struct npusim_stream *stream, int32_t timeout)
{
    stream->waiters++;
    bool done = drain(stream, timeout < 0 ? NPUSIM_NEVER : npusim_now() + (uint64_t)timeout * 1000000);
    int error = stream->error, device = stream->device->id;
    stream->waiters--;
    if (!stream->waiters)
        (void)pthread_cond_broadcast(&stream->progress);
    if (!done)
        return npusim_fail(HC_ACL_WAIT_TIMEOUT, "stream of device %d: not done after %d ms", device, timeout);
    return error ? npusim_fail(error, "stream of device %d: an operation failed with %d", device, error)
                 : HC_ACL_OK;
}

int aclrtSynchronizeStreamWithTimeout(hc_acl_stream_t handle, int32_t timeout)
{
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (timeout < -1)
        return npusim_leave(
            npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtSynchronizeStreamWithTimeout: timeout %d", timeout));
    code = npusim_stream_get(device, handle, &stream);
    if (!code && npusim_call_would_wait_for_itself(stream))
        code = npusim_fail(
            HC_ACL_NOT_SUPPORTED,
            "aclrtSynchronizeStream: by a host function of the stream itself, which it would wait for");
    return npusim_leave(code ? code : synchronize(stream, timeout));
}

int aclrtSynchronizeStream(hc_acl_stream_t handle)
{
    return aclrtSynchronizeStreamWithTimeout(handle, -1);
}

int aclrtStreamQuery(hc_acl_stream_t handle, int *status)
{
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!status)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtStreamQuery: NULL"));
    if ((code = npusim_stream_get(device, handle, &stream)))
        return npusim_leave(code);
    if (stream->error)
        return npusim_leave(npusim_fail(stream->error, "stream of device %d: an operation failed with %d",
                                        device->id, stream->error));
    *status = hc_list_empty(&stream->ops) ? HC_ACL_STREAM_COMPLETE : HC_ACL_STREAM_NOT_READY;
    return npusim_leave(HC_ACL_OK);
}
