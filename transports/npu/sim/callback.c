/*
 * Host functions: on a thread of the simulator's own (aclrtLaunchHostFunc), one per stream or per device, or
 * on a thread of the caller that subscribed to the stream (aclrtLaunchCallback, aclrtProcessReport).
 */
#include "transports/npu/sim/sim.h"

#include <stdlib.h>

/* The stream whose host function this thread runs; NULL: it runs none. */
static _Thread_local const struct npusim_stream *running;

bool npusim_call_would_wait_for_itself(const struct npusim_stream *stream)
{
    if (!running)
        return false;
    return running == stream || (running->worker == stream->worker && !hc_list_empty(&stream->ops));
}

bool npusim_call_is_of_device(const struct npusim_device *device)
{
    return running && running->device == device;
}

/* Runs without the lock, so that functions may call the simulator. */
static void call(struct npusim_op *op)
{
    const struct npusim_stream *outer = running; /* a host function may process reports */
    running = op->stream;
    (void)pthread_mutex_unlock(&npusim.lock);
    op->fn(op->arg);
    (void)pthread_mutex_lock(&npusim.lock);
    running = outer;
    npusim_op_finish(op, HC_ACL_OK);
    npusim_streams_run();
}

static struct npusim_op *pop(struct hc_list *queue)
{
    struct hc_list *node = hc_list_pop(queue);
    return node ? hc_list_entry(node, struct npusim_op, queue) : NULL;
}

/* ---- Workers ---- */

void npusim_worker_init(struct npusim_worker *worker)
{
    *worker = (struct npusim_worker){.started = false};
    hc_list_init(&worker->queue);
    (void)pthread_cond_init(&worker->wake, NULL);
}

static void *worker_run(void *arg)
{
    struct npusim_worker *worker = arg;
    struct npusim_op *op;
    (void)pthread_mutex_lock(&npusim.lock);
    while (!worker->stop)
        if ((op = pop(&worker->queue)))
            call(op);
        else
            (void)npusim_wait(&worker->wake, NPUSIM_NEVER);
    (void)pthread_mutex_unlock(&npusim.lock);
    return NULL;
}

/* Start the thread unless it runs. */
HC_MUST_CHECK static int start_worker(struct npusim_worker *worker)
{
    if (!worker->started)
        worker->started = npusim_thread_start(&worker->thread, worker_run, worker, "npusim-call");
    return worker->started ? HC_ACL_OK
                           : npusim_fail(HC_ACL_NO_RESOURCE, "aclrtLaunchHostFunc: no thread to call it on");
}

void npusim_worker_stop(struct npusim_worker *worker)
{
    if (worker->started) {
        worker->stop = true;
        (void)pthread_cond_signal(&worker->wake);
        (void)pthread_mutex_unlock(&npusim.lock);
        (void)pthread_join(worker->thread, NULL);
        (void)pthread_mutex_lock(&npusim.lock);
        worker->started = false;
    }
    (void)pthread_cond_destroy(&worker->wake);
}

/* ---- Threads of the caller ---- */

struct npusim_report {
    struct hc_list node;
    uint64_t thread; /* as pthread_self() gives it */
    int streams;     /* subscribed */
    int callers;     /* inside aclrtProcessReport */
    struct hc_list queue;
    pthread_cond_t arrival;
};

static struct hc_list reports = {&reports, &reports};

static struct npusim_report *report_find(uint64_t thread)
{
    struct hc_list *node;
    hc_list_for_each(node, &reports)
    {
        struct npusim_report *report = hc_list_entry(node, struct npusim_report, node);
        if (report->thread == thread)
            return report;
    }
    return NULL;
}

static struct npusim_report *report_create(uint64_t thread)
{
    struct npusim_report *report = calloc(1, sizeof(*report));
    if (!report)
        return NULL;
    report->thread = thread;
    hc_list_init(&report->queue);
    (void)pthread_cond_init(&report->arrival, NULL);
    hc_list_append(&reports, &report->node);
    return report;
}

/* Free it once no stream is subscribed and no thread is inside; what it still had to run is dropped. */
static void report_release(struct npusim_report *report)
{
    struct npusim_op *op;
    if (report->streams)
        return;
    hc_list_remove(&report->node);
    (void)pthread_cond_broadcast(&report->arrival);
    if (report->callers)
        return;
    while ((op = pop(&report->queue)))
        npusim_op_finish(op, HC_ACL_THREAD_NOT_SUBSCRIBED);
    (void)pthread_cond_destroy(&report->arrival);
    free(report);
}

void npusim_report_forget(struct npusim_stream *stream)
{
    struct npusim_report *report = stream->report;
    if (!report)
        return;
    stream->report = NULL;
    report->streams--;
    report_release(report);
}

void npusim_call_start(struct npusim_op *op)
{
    if (op->report) {
        hc_list_append(&op->report->queue, &op->queue);
        (void)pthread_cond_signal(&op->report->arrival);
    } else {
        struct npusim_worker *worker = op->stream->worker;
        hc_list_append(&worker->queue, &op->queue);
        (void)pthread_cond_signal(&worker->wake);
    }
}

/* ---- Calls ---- */

/* Enter, and find the stream; the lock is held on success only. */
static int enter_stream(hc_acl_stream_t handle, struct npusim_device **device, struct npusim_stream **stream)
{
    int code = npusim_enter_device(device);
    if (code)
        return code;
    code = npusim_stream_get(*device, handle, stream);
    return code ? npusim_leave(code) : code;
}

static int enqueue(struct npusim_stream *stream, hc_acl_callback_t fn, void *arg,
                   struct npusim_report *report, bool detached)
{
    struct npusim_op *op = npusim_op_create(NPUSIM_OP_CALL, stream->device);
    if (!op)
        return npusim_fail(HC_ACL_NO_RESOURCE, "no memory for an operation");
    op->fn = fn;
    op->arg = arg;
    op->report = report;
    op->detached = detached;
    npusim_stream_enqueue(stream, op);
    return HC_ACL_OK;
}

int aclrtLaunchHostFunc(hc_acl_stream_t handle, hc_acl_callback_t fn, void *arg)
{
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    int code = enter_stream(handle, &device, &stream);
    if (code)
        return code;
    if (!fn)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtLaunchHostFunc: NULL"));
    code = start_worker(stream->worker);
    return npusim_leave(code ? code : enqueue(stream, fn, arg, NULL, false));
}

int aclrtSubscribeReport(uint64_t thread, hc_acl_stream_t handle)
{
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    int code = enter_stream(handle, &device, &stream);
    if (code)
        return code;
    if (stream->report)
        return npusim_leave(npusim_fail(HC_ACL_STREAM_NOT_SUBSCRIBED,
                                        "aclrtSubscribeReport: the stream has its thread already"));
    struct npusim_report *report = report_find(thread);
    if (!report && !(report = report_create(thread)))
        return npusim_leave(npusim_fail(HC_ACL_NO_RESOURCE, "aclrtSubscribeReport: no memory"));
    report->streams++;
    stream->report = report;
    return npusim_leave(HC_ACL_OK);
}

int aclrtUnSubscribeReport(uint64_t thread, hc_acl_stream_t handle)
{
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    int code = enter_stream(handle, &device, &stream);
    if (code)
        return code;
    if (!stream->report || stream->report->thread != thread)
        return npusim_leave(
            npusim_fail(HC_ACL_THREAD_NOT_SUBSCRIBED,
                        "aclrtUnSubscribeReport: the thread is not subscribed to the stream"));
    if (!hc_list_empty(&stream->ops) || !hc_list_empty(&stream->report->queue))
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtUnSubscribeReport: host functions are still to be called"));
    npusim_report_forget(stream);
    return npusim_leave(HC_ACL_OK);
}

int aclrtLaunchCallback(hc_acl_callback_t fn, void *arg, int block, hc_acl_stream_t handle)
{
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    int code = enter_stream(handle, &device, &stream);
    if (code)
        return code;
    if (!fn || (block != HC_ACL_CALLBACK_BLOCK && block != HC_ACL_CALLBACK_NO_BLOCK))
        return npusim_leave(
            npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtLaunchCallback: NULL, or block type %d", block));
    if (!stream->report)
        return npusim_leave(npusim_fail(HC_ACL_STREAM_NOT_SUBSCRIBED,
                                        "aclrtLaunchCallback: no thread is subscribed to the stream"));
    return npusim_leave(enqueue(stream, fn, arg, stream->report, block == HC_ACL_CALLBACK_NO_BLOCK));
}

static int process(struct npusim_report *report, uint64_t until)
{
    struct npusim_op *op = NULL;
    report->callers++;
    while (report->streams && !(op = pop(&report->queue)))
        if (!npusim_wait(&report->arrival, until) && hc_list_empty(&report->queue))
            break;
    if (op)
        call(op);
    bool subscribed = report->streams;
    report->callers--;
    report_release(report);
    if (op)
        return HC_ACL_OK;
    return subscribed ? npusim_fail(HC_ACL_REPORT_TIMEOUT, "aclrtProcessReport: nothing to call in that time")
                      : npusim_fail(HC_ACL_THREAD_NOT_SUBSCRIBED, "aclrtProcessReport: no longer subscribed");
}

int aclrtProcessReport(int32_t timeout)
{
    int code = npusim_enter();
    if (code)
        return code;
    struct npusim_report *report = report_find((uint64_t)pthread_self());
    if (!report)
        return npusim_leave(npusim_fail(HC_ACL_THREAD_NOT_SUBSCRIBED,
                                        "aclrtProcessReport: this thread is subscribed "
                                        "to no stream"));
    if (timeout < -1 || !timeout)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtProcessReport: timeout %d", timeout));
    return npusim_leave(
        process(report, timeout < 0 ? NPUSIM_NEVER : npusim_now() + (uint64_t)timeout * 1000000));
}
