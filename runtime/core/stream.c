/* Streams as objects: made, found, waited for, given up. */
#include "runtime/core/stream.h"

#include "runtime/core/progress.h"

#include "runtime/core/handle.h"
#include "runtime/core/wait.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { OPS_PER_SLAB = 64, STREAMS_PER_SLAB = 8, EVENTS_PER_SLAB = 64 };

/* ---- the context's streams ---- */

static void init_streams(struct hc_streams *streams, struct hcomm_context *context, int signal_fd)
{
    streams->context = context;
    streams->signal_fd = signal_fd;
    hc_pool_init(&streams->op_pool, sizeof(struct hc_stream_op), OPS_PER_SLAB);
    hc_pool_init(&streams->stream_pool, sizeof(struct hcomm_stream), STREAMS_PER_SLAB);
    hc_pool_init(&streams->event_pool, sizeof(struct hcomm_event), EVENTS_PER_SLAB);
    hc_list_init(&streams->all);
    hc_list_init(&streams->active);
    hc_list_init(&streams->events);
    hc_list_init(&streams->natives);
    hc_list_init(&streams->spares);
}

static hcomm_status_t create_streams(struct hcomm_context *context, struct hc_streams **out)
{
    struct hc_streams *streams = calloc(1, sizeof(*streams));
    if (!streams)
        return hc_error(HCOMM_ERR_NO_MEMORY, "streams: out of memory");
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        free(streams);
        return hc_error(HCOMM_ERR_LIMIT, "streams: eventfd: %s", hc_errno_text(errno));
    }
    hcomm_status_t status = hc_wait_add(context, fd, HC_WAIT_STREAMS, 0);
    if (status != HCOMM_OK) {
        (void)close(fd);
        free(streams);
        return status;
    }
    init_streams(streams, context, fd);
    *out = streams;
    return HCOMM_OK;
}

hcomm_status_t hc_streams_get(struct hcomm_context *context, struct hc_streams **streams)
{
    hcomm_status_t status = HCOMM_OK;
    if (!context->streams)
        status = create_streams(context, &context->streams);
    if (status == HCOMM_OK && !context->progress_thread_running)
        status = hc_progress_thread_start(context);
    if (status == HCOMM_OK)
        *streams = context->streams;
    return status;
}

void hc_streams_signal(struct hc_streams *streams)
{
    /* acq_rel: partner is the exchange in hc_streams_take_signal; whoever finds it set relies on that one
     * looking at the operations afterwards */
    if (atomic_exchange_explicit(&streams->signalled, true, memory_order_acq_rel))
        return;
    const uint64_t one = 1;
    /* Cannot fail: the counter is far from full, and it is non-blocking. */
    ssize_t written = write(streams->signal_fd, &one, sizeof(one));
    (void)written;
}

void hc_streams_take_signal(struct hc_streams *streams)
{
    uint64_t value = 0;
    ssize_t got = read(streams->signal_fd, &value, sizeof(value));
    (void)got; /* another thread may have taken it */
    /* acq_rel: partner is the exchange in hc_streams_signal */
    (void)atomic_exchange_explicit(&streams->signalled, false, memory_order_acq_rel);
}

/* ---- handles ---- */

static void report_foreign(const char *call, hcomm_stream_t handle)
{
    char who[HC_IDENTITY_MAX];
    hc_progress_identify(who, sizeof(who));
    (void)hc_error(HCOMM_ERR_INVALID,
                   "%s: %s: %p is no stream of hcomm: never created, destroyed, or of a context that has "
                   "ended; a device runtime's stream is adopted with hcomm_stream_adopt() first",
                   call, who, (void *)handle);
}

struct hcomm_stream *hc_stream_find(const char *call, hcomm_stream_t handle)
{
    struct hcomm_stream *stream = hc_handle_object(HC_HANDLE_STREAM, handle);
    if (hc_unlikely(!stream)) {
        report_foreign(call, handle);
        return NULL;
    }
    const struct hcomm_context *context = stream->streams->context;
    if (hc_unlikely(context->forked)) {
        (void)hc_error(HCOMM_ERR_INVALID, "%s: " HC_FORKED_TEXT, call, context->job->rank);
        return NULL;
    }
    return stream;
}

/* ---- creation ---- */

static hcomm_status_t new_stream(const char *call, struct hcomm_context *context, int priority,
                                 struct hcomm_stream **out)
{
    struct hc_streams *streams = NULL;
    hcomm_status_t status = hc_streams_get(context, &streams);
    if (status != HCOMM_OK)
        return status;
    if (streams->num_streams >= HC_STREAMS_MAX)
        return hc_error(HCOMM_ERR_LIMIT, "%s: %u of %d streams are in use; destroy some first", call,
                        streams->num_streams, HC_STREAMS_MAX);
    struct hcomm_stream *stream = hc_pool_get(&streams->stream_pool);
    if (!stream)
        return hc_error(HCOMM_ERR_NO_MEMORY, "%s: out of memory with %u streams in use", call,
                        streams->num_streams);
    *stream = (struct hcomm_stream){.streams = streams, .number = streams->numbers++, .priority = priority};
    hc_fifo_init(&stream->ops);
    hc_list_init(&stream->active);
    hc_list_append(&streams->all, &stream->all);
    streams->num_streams++;
    *out = stream;
    return HCOMM_OK;
}

static void free_stream(struct hcomm_stream *stream)
{
    struct hc_streams *streams = stream->streams;
    hc_list_remove(&stream->active);
    hc_list_remove(&stream->all);
    free(stream->detail);
    streams->num_streams--;
    hc_pool_put(&streams->stream_pool, stream);
}

void hc_stream_reap(struct hcomm_stream *stream)
{
    if (stream->status != HCOMM_OK)
        hc_log_warn("a stream was destroyed before anybody was told of its error: %s",
                    stream->detail ? stream->detail : hc_status_text(stream->status));
    hc_gate_close(stream);
    free_stream(stream);
}

static hcomm_status_t give_handle(const char *call, struct hcomm_stream *stream)
{
    stream->handle = hc_handle_create(HC_HANDLE_STREAM, stream);
    if (stream->handle)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_LIMIT, "%s: the process's %d handles of streams are in use, or memory is", call,
                    HC_HANDLE_MAX);
}

/* Lock not held. */
static hcomm_status_t create(const char *call, struct hcomm_context *context, int priority, bool adopt,
                             void *native, hcomm_stream_t *out)
{
    struct hcomm_stream *stream = NULL;
    hc_lock_acquire(&context->lock);
    hcomm_status_t status = new_stream(call, context, priority, &stream);
    hc_lock_release(&context->lock);
    if (status != HCOMM_OK)
        return status;
    if (hc_gate_wanted(context))
        status = hc_gate_open(stream, adopt, native);
    if (status == HCOMM_OK)
        status = give_handle(call, stream);
    if (status == HCOMM_OK) {
        *out = stream->handle;
        return HCOMM_OK;
    }
    hc_lock_acquire(&context->lock);
    hc_gate_close(stream);
    free_stream(stream);
    hc_lock_release(&context->lock);
    return status;
}

static hcomm_status_t check_create(const char *call, const struct hcomm_context *context, const void *out)
{
    const char *fault = hc_progress_fault(context);
    if (fault || !out)
        return hc_error(HCOMM_ERR_INVALID, "%s: %s", call, fault ? fault : "stream is NULL");
    if (context->forked)
        return hc_error(HCOMM_ERR_INVALID, "%s: " HC_FORKED_TEXT, call, context->job->rank);
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_stream_create(hcomm_handle_t handle, int priority, hcomm_stream_t *stream)
{
    static const char call[] = "hcomm_stream_create";
    hcomm_status_t status = check_create(call, handle, stream);
    if (status != HCOMM_OK)
        return status;
    if (priority < 0 || priority > HCOMM_STREAM_PRIORITY_MAX)
        return hc_error(HCOMM_ERR_INVALID, "%s: priority %d is not in 0..%d", call, priority,
                        HCOMM_STREAM_PRIORITY_MAX);
    return create(call, handle, priority, false, NULL, stream);
}

HCOMM_API hcomm_status_t hcomm_stream_adopt(hcomm_handle_t handle, void *native, hcomm_stream_t *stream)
{
    static const char call[] = "hcomm_stream_adopt";
    hcomm_status_t status = check_create(call, handle, stream);
    if (status != HCOMM_OK)
        return status;
    if (!hc_gate_wanted(handle))
        return hc_error(HCOMM_ERR_UNSUPPORTED,
                        "%s: this context has no device whose streams could be adopted; set device_id "
                        "(HCOMM_DEVICE_ID)",
                        call);
    return create(call, handle, 0, true, native, stream);
}

HCOMM_API void *hcomm_stream_native(hcomm_stream_t handle)
{
    const struct hcomm_stream *stream = hc_stream_find("hcomm_stream_native", handle);
    return stream && stream->gate ? hc_gate_native(stream) : NULL;
}

/* So that everything the device has before it is waited for, too. */
static hcomm_status_t enqueue_mark(struct hcomm_stream *stream)
{
    const struct hc_stream_op mark = {.kind = HC_STREAM_MARK};
    struct hcomm_context *context = stream->streams->context;
    hc_lock_acquire(&context->lock);
    struct hc_stream_op *op = hc_stream_op_new(stream, &mark);
    hc_lock_release(&context->lock);
    return op ? hc_stream_enqueue(stream, op) : HCOMM_ERR_NO_MEMORY;
}

HCOMM_API hcomm_status_t hcomm_stream_destroy(hcomm_stream_t *handle)
{
    static const char call[] = "hcomm_stream_destroy";
    if (!handle)
        return hc_error(HCOMM_ERR_INVALID, "%s: stream is NULL", call);
    if (!*handle)
        return HCOMM_OK;
    struct hcomm_stream *stream = hc_stream_find(call, *handle);
    if (!stream)
        return HCOMM_ERR_INVALID;
    if (hc_group_is_open())
        return hc_group_forbids(call);
    struct hcomm_context *context = stream->streams->context;
    if (stream->gate && enqueue_mark(stream) != HCOMM_OK)
        hc_log_debug("a failed stream is destroyed: %s", hc_error_detail());
    hc_handle_destroy(HC_HANDLE_STREAM, *handle);
    *handle = HCOMM_STREAM_NULL;
    hc_lock_acquire(&context->lock);
    stream->handle = NULL;
    if (hc_fifo_empty(&stream->ops))
        hc_stream_reap(stream);
    hc_lock_release(&context->lock);
    return HCOMM_OK;
}

/* ---- waiting ---- */

static const char *op_name(const struct hc_stream_op *op)
{
    static const char *const names[] = {
        [HC_STREAM_SEND] = "send",
        [HC_STREAM_RECV] = "receive",
        [HC_STREAM_BARRIER] = "barrier",
        [HC_STREAM_NOTHING] = "message to or from no rank",
        [HC_STREAM_CALL] = "host function",
        [HC_STREAM_COPY] = "copy",
        [HC_STREAM_RECORD] = "record",
        [HC_STREAM_WAIT] = "wait for an event",
        [HC_STREAM_MARK] = "work of the device",
    };
    return names[op->kind];
}

struct goal {
    struct hcomm_stream *stream;
    uint64_t completed;
};

static bool is_reached(void *arg)
{
    const struct goal *goal = arg;
    return goal->stream->completed >= goal->completed;
}

/* Whether the operation under way ends by itself when nothing moves, with words of its own. */
static bool has_deadline(const struct hcomm_stream *stream)
{
    const struct hc_stream_op *part = hc_stream_first(stream);
    while (part && !part->request)
        part = part->next_part;
    return part;
}

/* The deadline starts anew whenever an operation of the stream completes; one that has its own says more. */
static hcomm_status_t wait_for_goal(struct goal *goal)
{
    struct hcomm_stream *stream = goal->stream;
    struct hcomm_context *context = stream->streams->context;
    int timeout_ms = context->settings.timeout_ms;
    uint64_t before = stream->completed;
    while (hc_wait(context, is_reached, goal, NULL, timeout_ms) != HCOMM_OK) {
        if (stream->completed == before && !has_deadline(stream)) {
            const struct hc_stream_op *op = hc_stream_first(stream);
            return hc_error(HCOMM_ERR_TIMEOUT,
                            "stream %u: nothing completed for %d ms (setting timeout_ms); %s is under way, "
                            "operations enqueued: %llu",
                            stream->number, timeout_ms, op ? op_name(op) : "nothing",
                            (unsigned long long)(stream->submitted - stream->completed));
        }
        before = stream->completed;
    }
    return HCOMM_OK;
}

/* Report the first error, and forget it. */
static hcomm_status_t take_error(struct hcomm_stream *stream)
{
    hcomm_status_t status = stream->status;
    if (status == HCOMM_OK)
        return HCOMM_OK;
    stream->status = HCOMM_OK;
    return hc_error(status, "%s", stream->detail ? stream->detail : hc_status_text(status));
}

/*
 * The mark was reached, but the device may not have seen its end yet, and a query would tell. What others
 * have enqueued on the device's stream meanwhile is not waited for, beyond these milliseconds.
 */
static hcomm_status_t settle(struct hcomm_stream *stream)
{
    enum { SETTLE_MS = 10 };
    uint64_t deadline = hc_deadline_ms(SETTLE_MS);
    hcomm_status_t status = hc_gate_query(stream);
    while (status == HCOMM_IN_PROGRESS && hc_clock_ns() < deadline) {
        (void)sched_yield();
        status = hc_gate_query(stream);
    }
    return status == HCOMM_IN_PROGRESS ? HCOMM_OK : status;
}

static hcomm_status_t synchronize(struct hcomm_stream *stream)
{
    struct hcomm_context *context = stream->streams->context;
    hcomm_status_t marked = stream->gate ? enqueue_mark(stream) : HCOMM_OK;
    hc_lock_acquire(&context->lock);
    struct goal goal = {stream, stream->submitted};
    hcomm_status_t status = marked == HCOMM_OK ? wait_for_goal(&goal) : HCOMM_OK;
    if (status == HCOMM_OK && stream->status != HCOMM_OK)
        status = take_error(stream); /* also when it is why the mark was refused */
    else if (status == HCOMM_OK)
        status = marked;
    hc_lock_release(&context->lock);
    return status == HCOMM_OK && stream->gate ? settle(stream) : status;
}

HCOMM_API hcomm_status_t hcomm_stream_synchronize(hcomm_stream_t handle)
{
    static const char call[] = "hcomm_stream_synchronize";
    struct hcomm_stream *stream = hc_stream_find(call, handle);
    if (!stream)
        return HCOMM_ERR_INVALID;
    if (hc_group_is_open())
        return hc_group_forbids(call);
    if (hc_workers_current() == stream)
        return hc_error(HCOMM_ERR_INVALID,
                        "%s: called in a host function of this stream, which would wait for itself", call);
    return synchronize(stream);
}

HCOMM_API hcomm_status_t hcomm_stream_query(hcomm_stream_t handle)
{
    struct hcomm_stream *stream = hc_stream_find("hcomm_stream_query", handle);
    if (!stream)
        return HCOMM_ERR_INVALID;
    struct hcomm_context *context = stream->streams->context;
    hc_lock_acquire(&context->lock);
    if (!hc_fifo_empty(&stream->ops))
        (void)hc_progress(context);
    hcomm_status_t status = hc_fifo_empty(&stream->ops) ? HCOMM_OK : HCOMM_IN_PROGRESS;
    if (stream->status != HCOMM_OK)
        status =
            hc_error(stream->status, "%s", stream->detail ? stream->detail : hc_status_text(stream->status));
    hc_lock_release(&context->lock);
    return status == HCOMM_OK && stream->gate ? hc_gate_query(stream) : status;
}

/* ---- the end ---- */

static bool all_idle(void *arg)
{
    return !hc_streams_are_active(arg);
}

static uint64_t count_completed(const struct hc_streams *streams)
{
    uint64_t sum = 0;
    struct hc_list *node;
    hc_list_for_each(node, &streams->all) sum += hc_list_entry(node, struct hcomm_stream, all)->completed;
    return sum;
}

bool hc_streams_may_move(const struct hc_streams *streams, uint64_t *completed)
{
    uint64_t before = *completed;
    bool deadline = false;
    struct hc_list *node;
    hc_list_for_each(node, &streams->active) deadline =
        deadline || has_deadline(hc_list_entry(node, struct hcomm_stream, active));
    *completed = count_completed(streams);
    return deadline || *completed != before;
}

static hcomm_status_t wait_until_idle(struct hcomm_context *context)
{
    struct hc_streams *streams = context->streams;
    int timeout_ms = context->settings.timeout_ms;
    uint64_t completed = count_completed(streams);
    for (;;) {
        if (hc_wait(context, all_idle, context, NULL, timeout_ms) == HCOMM_OK)
            return HCOMM_OK;
        if (hc_streams_may_move(streams, &completed))
            continue;
        const struct hcomm_stream *stream =
            hc_list_entry(hc_list_first(&streams->active), struct hcomm_stream, active);
        return hc_error(HCOMM_ERR_TIMEOUT,
                        "hcomm_finalize: stream %u is not done after %d ms (setting timeout_ms): %s is under "
                        "way; what is enqueued is given up",
                        stream->number, timeout_ms, op_name(hc_stream_first(stream)));
    }
}

static void abandon_all(struct hc_streams *streams)
{
    struct hc_list *node;
    while ((node = hc_list_first(&streams->active))) {
        struct hcomm_stream *stream = hc_list_entry(node, struct hcomm_stream, active);
        (void)hc_error(HCOMM_ERR_CANCELLED, "given up by hcomm_finalize()");
        hc_stream_fail(stream, HCOMM_ERR_CANCELLED);
        hc_stream_abandon(stream);
        hc_stream_settle(stream);
    }
}

/* The first error that nobody was told of. */
static hcomm_status_t find_error(struct hc_streams *streams)
{
    struct hc_list *node;
    hc_list_for_each(node, &streams->all)
    {
        hcomm_status_t status = take_error(hc_list_entry(node, struct hcomm_stream, all));
        if (status != HCOMM_OK) {
            hc_error_prefix("hcomm_finalize: ");
            return status;
        }
    }
    return HCOMM_OK;
}

hcomm_status_t hc_streams_drain(struct hcomm_context *context)
{
    if (!context->streams)
        return HCOMM_OK;
    hcomm_status_t status = wait_until_idle(context);
    if (status == HCOMM_OK)
        return find_error(context->streams);
    char words[HC_STREAM_DETAIL];
    (void)snprintf(words, sizeof(words), "%s", hc_error_detail());
    abandon_all(context->streams);
    return hc_error(status, "%s", words);
}

static void destroy_handles(struct hc_streams *streams)
{
    struct hc_list *node;
    hc_list_for_each(node, &streams->all)
    {
        struct hcomm_stream *stream = hc_list_entry(node, struct hcomm_stream, all);
        if (stream->handle)
            hc_handle_destroy(HC_HANDLE_STREAM, stream->handle);
    }
    while ((node = hc_list_first(&streams->events)))
        hc_event_free(hc_list_entry(node, struct hcomm_event, all));
}

static void free_streams(struct hc_streams *streams)
{
    struct hc_list *node;
    while ((node = hc_list_first(&streams->all))) {
        struct hcomm_stream *stream = hc_list_entry(node, struct hcomm_stream, all);
        free_stream(stream);
    }
    (void)close(streams->signal_fd);
    hc_pool_fini(&streams->op_pool);
    hc_pool_fini(&streams->stream_pool);
    hc_pool_fini(&streams->event_pool);
    free(streams);
}

void hc_streams_fini(struct hcomm_context *context)
{
    struct hc_streams *streams = context->streams;
    if (!streams)
        return;
    abandon_all(streams);
    hc_workers_stop(streams->workers);
    destroy_handles(streams);
    hc_records_close(streams);
    context->streams = NULL;
    if (hc_gates_fini(streams))
        free_streams(streams);
}
