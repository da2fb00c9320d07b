#include "runtime/core/in_use.h"

#include "runtime/core/request.h"
#include "runtime/core/stream.h"
#include "runtime/core/transfer.h"

/* Free objects hold what they held: whoever looks promising is looked up among them. */
static bool is_free(const struct hc_pool *pool, const void *object)
{
    for (const struct hc_pool_free *free = pool->free; free; free = free->next)
        if (free == object)
            return true;
    return false;
}

static bool request_uses(const struct hcomm_request *request, const void *ptr, size_t size)
{
    return request->buf && !atomic_load_explicit(&request->complete, memory_order_relaxed) &&
           hc_ranges_touch(request->buf, request->capacity, ptr, size);
}

static bool requests_use(struct hcomm_context *context, const void *ptr, size_t size)
{
    const struct hc_pool *pool = &context->request_pool;
    if (!pool->in_use)
        return false;
    for (const struct hc_pool_free *slab = pool->slabs; slab; slab = slab->next)
        for (size_t i = 0; i < pool->per_slab; i++) {
            const struct hcomm_request *request = hc_pool_object(pool, slab, i);
            if (request_uses(request, ptr, size) && !is_free(pool, request))
                return true;
        }
    return false;
}

static bool op_uses(const struct hc_stream_op *op, const void *ptr, size_t size)
{
    for (; op; op = op->next_part) {
        bool copy = op->kind == HC_STREAM_COPY && (hc_ranges_touch(op->to.ptr, op->size, ptr, size) ||
                                                   hc_ranges_touch(op->from.ptr, op->size, ptr, size));
        bool message = (op->kind == HC_STREAM_SEND || op->kind == HC_STREAM_RECV) &&
                       hc_ranges_touch(op->buf, op->size, ptr, size);
        if ((copy || message) && op->state != HC_OP_COMPLETE)
            return true;
    }
    return false;
}

static bool streams_use(struct hcomm_context *context, const void *ptr, size_t size)
{
    struct hc_list *node;
    if (!hc_streams_are_active(context))
        return false;
    hc_list_for_each(node, &context->streams->active)
    {
        const struct hcomm_stream *stream = hc_list_entry(node, struct hcomm_stream, active);
        for (const struct hc_fifo_node *op = stream->ops.head; op; op = op->next)
            if (op_uses(hc_container_of(op, struct hc_stream_op, node), ptr, size))
                return true;
    }
    return false;
}

bool hc_memory_in_use(struct hcomm_context *context, const void *ptr, size_t size)
{
    return requests_use(context, ptr, size) || streams_use(context, ptr, size) ||
           hc_transfers_use(context, ptr, size);
}
