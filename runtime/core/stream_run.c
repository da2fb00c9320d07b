/* How the operations of streams are carried out; stream.h tells who calls. */
#include "runtime/core/stream.h"

#include "runtime/base/copy.h"
#include "runtime/core/request.h"

#include <stdlib.h>
#include <string.h>

enum {
    POLLS_PER_CLOCK = 16,
    WATCH_AFTER_NS = 1000000, /* a receive in vain: connect to the sender, to learn of its death */
};

/* ---- operations ---- */

struct hc_stream_op *hc_stream_op_new(struct hcomm_stream *stream, const struct hc_stream_op *template)
{
    struct hc_pool *pool = &stream->streams->op_pool;
    struct hc_stream_op *op = hc_pool_get(pool);
    if (hc_unlikely(!op)) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "stream %u: out of memory with %zu operations enqueued",
                       stream->number, pool->in_use);
        return NULL;
    }
    (void)memcpy(op, template, sizeof(*op));
    op->stream = stream;
    op->state = HC_OP_QUEUED;
    if (op->comm)
        op->comm->busy++;
    if (op->record)
        hc_record_ref(op->record);
    return op;
}

static void free_part(struct hc_stream_op *part)
{
    if (part->comm)
        part->comm->busy--;
    if (part->record)
        hc_record_unref(part->record);
    hc_pool_put(&part->stream->streams->op_pool, part);
}

void hc_stream_op_free(struct hc_stream_op *op)
{
    while (op) {
        struct hc_stream_op *next = op->next_part;
        free_part(op);
        op = next;
    }
}

struct hc_stream_op *hc_stream_first(const struct hcomm_stream *stream)
{
    return hc_fifo_empty(&stream->ops) ? NULL : hc_container_of(stream->ops.head, struct hc_stream_op, node);
}

/* ---- errors ---- */

void hc_stream_fail(struct hcomm_stream *stream, hcomm_status_t status)
{
    if (stream->status != HCOMM_OK)
        return;
    stream->status = status;
    if (!stream->detail)
        stream->detail = malloc(HC_STREAM_DETAIL);
    if (stream->detail)
        (void)snprintf(stream->detail, HC_STREAM_DETAIL, "%s", hc_error_detail());
}

static void write_status(const struct hc_stream_op *part, hcomm_status_t error)
{
    if (part->status)
        *part->status =
            (hcomm_message_status_t){.source = HCOMM_RANK_NULL, .tag = HCOMM_ANY_TAG, .error = error};
}

static void set_polled(struct hc_stream_op *part, bool polled)
{
    struct hc_streams *streams = part->stream->streams;
    streams->polled = streams->polled + polled - part->polled;
    part->polled = polled;
}

static void complete_part(struct hc_stream_op *part)
{
    set_polled(part, false);
    part->state = HC_OP_COMPLETE;
    part->request = NULL;
}

/* The thread's detail says why. */
static void fail_part(struct hc_stream_op *part, hcomm_status_t status)
{
    hc_error_prefix("stream %u: ", part->stream->number);
    hc_stream_fail(part->stream, status);
    write_status(part, status);
    complete_part(part);
}

/* What is skipped while the stream has an error. */
static bool is_skipped(const struct hc_stream_op *part)
{
    return part->stream->status != HCOMM_OK && part->kind != HC_STREAM_RECORD &&
           part->kind != HC_STREAM_WAIT && part->kind != HC_STREAM_MARK;
}

/* ---- start ---- */

static bool is_host_copy(const struct hc_stream_op *part)
{
    return part->to.place != HC_PLACE_DEVICE && part->from.place != HC_PLACE_DEVICE;
}

static hcomm_status_t begin_copy(struct hc_stream_op *part)
{
    if (part->size > HC_COPY_INLINE || !is_host_copy(part))
        return hc_workers_submit(part->stream->streams, part);
    hc_copy(part->to.ptr, part->from.ptr, part->size);
    complete_part(part);
    return HCOMM_OK;
}

static hcomm_status_t begin_barrier(struct hc_stream_op *part)
{
    if (part->comm->size > 1)
        return hc_barrier_start(part->comm, &part->request);
    complete_part(part);
    return HCOMM_OK;
}

/* A record of another context or of a device: nothing announces that it is complete. */
static void begin_wait(struct hc_stream_op *part)
{
    set_polled(part, part->record->owner != part->stream->streams || part->stream->gate);
}

static hcomm_status_t begin_kind(struct hc_stream_op *part)
{
    switch (part->kind) {
    case HC_STREAM_SEND:
        return hc_send_start(part->comm, part->comm->id, part->buf, part->size, part->rank, part->tag, false,
                             &part->request);
    case HC_STREAM_RECV:
        return hc_recv_start(part->comm, part->comm->id, part->buf, part->size, part->rank, part->tag,
                             &part->request);
    case HC_STREAM_BARRIER:
        return begin_barrier(part);
    case HC_STREAM_CALL:
        return hc_workers_submit(part->stream->streams, part);
    case HC_STREAM_COPY:
        return begin_copy(part);
    case HC_STREAM_WAIT:
        begin_wait(part);
        return HCOMM_OK;
    case HC_STREAM_RECORD:
        hc_record_complete(part->record);
        complete_part(part);
        return HCOMM_OK;
    case HC_STREAM_NOTHING:
        write_status(part, HCOMM_OK);
        complete_part(part);
        return HCOMM_OK;
    case HC_STREAM_MARK:
        complete_part(part);
        return HCOMM_OK;
    }
    return HCOMM_OK;
}

static void begin_part(struct hc_stream_op *part)
{
    if (is_skipped(part)) {
        write_status(part, HCOMM_ERR_CANCELLED);
        complete_part(part);
        return;
    }
    part->state = HC_OP_RUNNING;
    hcomm_status_t status = begin_kind(part);
    if (status < 0)
        fail_part(part, status);
}

/* False: the device has not got there yet. */
static bool begin(struct hc_stream_op *op)
{
    /* acquire: partner is the device's callback */
    if (op->stream->gate && !atomic_load_explicit(&op->arrived, memory_order_acquire))
        return false;
    for (struct hc_stream_op *part = op; part; part = part->next_part)
        begin_part(part);
    return true;
}

/* ---- completion ---- */

static void collect_request(struct hc_stream_op *part)
{
    hcomm_message_status_t status;
    hcomm_status_t outcome = hc_request_collect(part->request, &status);
    if (outcome < 0)
        fail_part(part, outcome);
    if (part->status)
        *part->status = status;
    complete_part(part);
}

static void poll_part(struct hc_stream_op *part)
{
    if (part->request) {
        if (hc_request_is_complete(part->request))
            collect_request(part);
    } else if (part->kind == HC_STREAM_WAIT) {
        if (hc_record_is_done(part->record))
            complete_part(part);
    } else if (part->kind == HC_STREAM_CALL || part->kind == HC_STREAM_COPY) {
        /* acquire: partner is the worker's release; what the function wrote is visible then */
        if (atomic_load_explicit(&part->called, memory_order_acquire))
            complete_part(part);
    } else {
        complete_part(part);
    }
}

static bool is_over(struct hc_stream_op *op)
{
    bool over = true;
    for (struct hc_stream_op *part = op; part; part = part->next_part) {
        if (part->state == HC_OP_RUNNING)
            poll_part(part);
        over = over && part->state == HC_OP_COMPLETE;
    }
    return over;
}

static void finish(struct hcomm_stream *stream, struct hc_stream_op *op)
{
    (void)hc_fifo_pop(&stream->ops);
    stream->completed++;
    if (stream->gate)
        hc_gate_release(stream, op);
    hc_stream_op_free(op);
    if (stream->streams->context->sleepers)
        hc_wake_sleepers(stream->streams->context);
}

/* ---- time ---- */

static void expire(struct hc_stream_op *part)
{
    struct hcomm_request *request = part->request;
    hcomm_status_t status = hc_request_explain_timeout(request);
    fail_part(part, status);
    hc_request_give_up(request);
}

static void check_part(struct hc_stream_op *part, uint64_t since, uint64_t now)
{
    struct hcomm_request *request = part->request;
    if (part->state != HC_OP_RUNNING || !request || hc_request_is_complete(request))
        return;
    if (part->kind == HC_STREAM_RECV && request->peer && !part->watched && now - since > WATCH_AFTER_NS) {
        part->watched = true;
        hc_peer_connect(request->peer);
    }
    uint64_t active = request->activity > since ? request->activity : since;
    if (now > active && now - active > (uint64_t)request->context->settings.timeout_ms * 1000000)
        expire(part);
}

/* Of the first operation. */
static void check_time(struct hc_stream_op *op, uint64_t now)
{
    if (op->state == HC_OP_QUEUED) {
        hc_gate_watch(op->stream);
        return;
    }
    if (!op->since)
        op->since = now;
    uint64_t since = op->since;
    for (struct hc_stream_op *part = op; part; part = part->next_part)
        check_part(part, since, now);
}

/* ---- streams ---- */

static unsigned advance(struct hcomm_stream *stream)
{
    unsigned moved = 0;
    struct hc_stream_op *op;
    while ((op = hc_stream_first(stream))) {
        if (op->state == HC_OP_QUEUED && !begin(op))
            break;
        if (!is_over(op))
            break;
        finish(stream, op);
        moved++;
    }
    return moved;
}

/* Among the active ones, behind those of its priority. */
static void activate(struct hcomm_stream *stream)
{
    struct hc_streams *streams = stream->streams;
    struct hc_list *node;
    hc_list_for_each(node, &streams->active)
    {
        if (hc_list_entry(node, struct hcomm_stream, active)->priority < stream->priority)
            break;
    }
    hc_list_append(node, &stream->active); /* before node */
    streams->context->has_work = true;
    hc_progress_thread_kick(streams->context);
}

static bool is_active(const struct hcomm_stream *stream)
{
    return stream->active.next != &stream->active;
}

void hc_stream_settle(struct hcomm_stream *stream)
{
    if (!hc_fifo_empty(&stream->ops))
        return;
    hc_list_remove(&stream->active);
    if (!stream->handle)
        hc_stream_reap(stream);
}

unsigned hc_streams_progress(struct hcomm_context *context)
{
    struct hc_streams *streams = context->streams;
    struct hc_list *node, *next;
    unsigned moved = 0;
    bool look_at_clock = ++streams->idle_polls % POLLS_PER_CLOCK == 0;
    uint64_t now = look_at_clock && !hc_list_empty(&streams->active) ? hc_clock_ns() : 0;
    hc_list_for_each_safe(node, next, &streams->active)
    {
        struct hcomm_stream *stream = hc_list_entry(node, struct hcomm_stream, active);
        if (now)
            check_time(hc_stream_first(stream), now);
        moved += advance(stream);
        hc_stream_settle(stream);
    }
    return moved;
}

bool hc_streams_must_poll(const struct hcomm_context *context)
{
    return context->streams && context->streams->polled;
}

void hc_stream_append(struct hcomm_stream *stream, struct hc_stream_op *op)
{
    hc_fifo_push(&stream->ops, &op->node);
    stream->submitted++;
    if (is_active(stream))
        return;
    if (!stream->gate)
        (void)advance(stream);
    if (!hc_fifo_empty(&stream->ops))
        activate(stream);
}

bool hc_stream_unappend(struct hcomm_stream *stream, struct hc_stream_op *op)
{
    struct hc_fifo_node **link = &stream->ops.head;
    while (*link && *link != &op->node)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = NULL;
    stream->ops.tail = link;
    stream->submitted--;
    hc_stream_settle(stream);
    return true;
}

/* ---- the end of operations without their completion ---- */

static void drop_part(struct hc_stream_op *part)
{
    struct hc_streams *streams = part->stream->streams;
    if (part->request)
        hc_request_give_up(part->request);
    else if (part->kind == HC_STREAM_CALL || part->kind == HC_STREAM_COPY)
        (void)hc_workers_cancel(streams, part);
    write_status(part, HCOMM_ERR_CANCELLED);
    complete_part(part);
}

void hc_stream_abandon(struct hcomm_stream *stream)
{
    struct hc_stream_op *op;
    while ((op = hc_stream_first(stream))) {
        for (struct hc_stream_op *part = op; part; part = part->next_part) {
            if (part->state == HC_OP_QUEUED)
                begin_part(part);
            if (part->state == HC_OP_RUNNING)
                drop_part(part);
        }
        finish(stream, op);
    }
}

/* ---- enqueuing ---- */

/* All parts in one; NULL with an error detail. */
static struct hc_stream_op *new_chain(struct hcomm_stream *stream, const struct hc_stream_op *parts, int n)
{
    struct hc_stream_op *chain = NULL;
    for (int i = n; i-- > 0;) {
        struct hc_stream_op *op = hc_stream_op_new(stream, &parts[i]);
        if (!op) {
            hc_stream_op_free(chain);
            return NULL;
        }
        op->next_part = chain;
        chain = op;
    }
    return chain;
}

static hcomm_status_t check_context(const char *call, const struct hcomm_stream *stream,
                                    const struct hc_stream_op *part)
{
    const struct hcomm_context *context = stream->streams->context;
    if (!part->comm || part->comm->context == context)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_INVALID, "%s: communicator '%s' is of another context than stream %u", call,
                    part->comm->name, stream->number);
}

hcomm_status_t hc_stream_enqueue(struct hcomm_stream *stream, struct hc_stream_op *op)
{
    struct hcomm_context *context = stream->streams->context;
    hcomm_status_t status = stream->gate ? hc_gate_submit(stream, op) : HCOMM_OK;
    if (stream->gate && status == HCOMM_OK)
        return HCOMM_OK;
    hc_lock_acquire(&context->lock);
    if (status == HCOMM_OK)
        hc_stream_append(stream, op);
    else
        hc_stream_op_free(op);
    hc_lock_release(&context->lock);
    return status;
}

hcomm_status_t hc_stream_submit(const char *call, hcomm_stream_t handle, const struct hc_stream_op *parts,
                                int n)
{
    struct hcomm_stream *stream = hc_stream_find(call, handle);
    if (!stream)
        return HCOMM_ERR_INVALID;
    hcomm_status_t status = check_context(call, stream, &parts[0]);
    if (status != HCOMM_OK)
        return status;
    bool direct = !stream->gate && !hc_group_is_open();
    struct hcomm_context *context = stream->streams->context;
    hc_lock_acquire(&context->lock);
    struct hc_stream_op *op = new_chain(stream, parts, n);
    if (op && direct)
        hc_stream_append(stream, op);
    hc_lock_release(&context->lock);
    if (!op)
        return HCOMM_ERR_NO_MEMORY;
    if (direct)
        return HCOMM_OK;
    if (hc_group_is_open()) {
        hc_group_add(op);
        return HCOMM_OK;
    }
    return hc_stream_enqueue(stream, op);
}
