#include "runtime/core/send.h"

#include "runtime/base/copy.h"
#include "runtime/core/lend.h"
#include "runtime/core/mapped.h"
#include "runtime/core/progress.h"
#include "runtime/core/request.h"
#include "runtime/core/rndv.h"
#include "runtime/core/staged.h"

#include <stdlib.h>
#include <string.h>

enum {
    BATCH_ROOM = 8192,
    BATCH_FIRST = 256, /* bytes of the first batch after a rest */
    CONTROL_MAX = HC_RKEY_MAX + 64,
    HAND_OVER_MS = 100, /* reaching a rank that has started takes some milliseconds */
};

/* A message that waits for the ep, for room, or for its turn: a copy of its own, or the sender's request. */
struct send_item {
    struct hc_fifo_node node;
    struct hcomm_request *request; /* NULL: the payload is the item's own */
    struct hc_wire_match match;
    size_t size;
    uint8_t payload[];
};

/* An answer that waits. */
struct control_item {
    struct hc_fifo_node node;
    uint8_t id;
    size_t size;
    uint64_t header[];
};

struct eager_pack {
    const struct hc_wire_match *match;
    const void *buf;
    size_t size;
};

static size_t pack_eager(void *dest, void *arg)
{
    const struct eager_pack *pack = arg;
    (void)memcpy(dest, pack->match, sizeof(*pack->match));
    hc_copy((uint8_t *)dest + sizeof(*pack->match), pack->buf, pack->size);
    return sizeof(*pack->match) + pack->size;
}

static hcomm_status_t transmit_eager(struct hc_peer *peer, const struct hc_wire_match *match, const void *buf,
                                     size_t size)
{
    if (hc_likely(sizeof(*match) + size <= peer->attr->short_max))
        return peer->ops->am_short(peer->ep, HC_WIRE_EAGER, match, sizeof(*match), buf, size);
    struct eager_pack pack = {match, buf, size};
    return peer->ops->am_bcopy(peer->ep, HC_WIRE_EAGER, pack_eager, &pack);
}

/* HCOMM_AGAIN: no room or not allowed now, nothing was sent. Credit has been checked by the caller. */
static hcomm_status_t send_eager(struct hc_peer *peer, const struct hc_wire_match *match, const void *buf,
                                 size_t size)
{
    if (!hc_bandwidth_take(peer->context, size))
        return HCOMM_AGAIN;
    hcomm_status_t status = transmit_eager(peer, match, buf, size);
    if (hc_unlikely(status != HCOMM_OK))
        return status;
    peer->credit -= hc_eager_cost(size);
    hc_count_eager_sent(peer->context, size);
    return HCOMM_OK;
}

/* ---- eager out of the sender's buffer ---- */

/* An eager message that the transport is still reading from the buffer; from context->op_pool. */
struct eager_op {
    struct hc_op base;
    struct hcomm_request *request;
};

static void eager_over(struct hcomm_request *request, hcomm_status_t status)
{
    request->ops = 0;
    hc_rndv_forget(request);
    hc_request_complete(request, status);
}

static void eager_done(struct hc_op *base, hcomm_status_t status)
{
    struct eager_op *op = hc_container_of(base, struct eager_op, base);
    struct hcomm_request *request = op->request;
    hc_pool_put(&request->context->op_pool, op);
    eager_over(request, status);
}

/* With an id, like a rendezvous, the request is found when the peer fails before the buffer has been read. */
static hcomm_status_t prepare_eager_op(struct hcomm_request *request, struct eager_op **op)
{
    hc_list_init(&request->stream_node);
    hcomm_status_t status = hc_request_assign_id(request);
    if (status != HCOMM_OK)
        return status;
    struct eager_op *made = hc_pool_get(&request->context->op_pool);
    if (!made) {
        hc_rndv_forget(request);
        return hc_error(HCOMM_ERR_NO_MEMORY, "sending: out of memory");
    }
    *made = (struct eager_op){.base.done = eager_done, .request = request};
    *op = made;
    return HCOMM_OK;
}

/* HCOMM_AGAIN as send_eager(); HCOMM_OK: sent, and the request completes now or once the buffer has been
 * read. */
static hcomm_status_t send_eager_zero_copy(struct hc_peer *peer, const struct hc_wire_match *match,
                                           struct hcomm_request *request)
{
    struct eager_op *op = NULL;
    if (!hc_bandwidth_take(peer->context, request->capacity))
        return HCOMM_AGAIN;
    hcomm_status_t status = prepare_eager_op(request, &op);
    if (status != HCOMM_OK)
        return status;
    status = peer->ops->am_zcopy(peer->ep, HC_WIRE_EAGER, match, sizeof(*match), request->buf,
                                 request->capacity, NULL, &op->base);
    if (status != HCOMM_IN_PROGRESS)
        hc_pool_put(&request->context->op_pool, op);
    if (status != HCOMM_OK && status != HCOMM_IN_PROGRESS) {
        hc_rndv_forget(request);
        return status;
    }
    peer->credit -= hc_eager_cost(request->capacity);
    hc_count_eager_sent(peer->context, request->capacity);
    request->ops = 1;
    if (status == HCOMM_OK)
        eager_over(request, HCOMM_OK);
    return HCOMM_OK;
}

/* ---- gathering small messages (mode SMALL_MSG) ---- */

/*
 * Messages to one peer, from one rank of one communicator, become one batch. It leaves when it has reached
 * its limit, before anything else is sent to the peer, and with the next progress. The limit starts low, so
 * that the receiver begins early, and doubles with each batch that reached it; progress, which finds the
 * sender at rest, resets it. The first message after a rest is not gathered: it may be an answer, and nothing
 * says that others follow, or that its sender calls again soon.
 */

static size_t copy_batch(void *dest, void *arg)
{
    const struct hc_peer *peer = arg;
    (void)memcpy(dest, peer->batch, peer->batch_used);
    return peer->batch_used;
}

static hcomm_status_t transmit_batch(struct hc_peer *peer)
{
    const size_t head = sizeof(struct hc_wire_batch);
    if (hc_likely(peer->batch_used <= peer->attr->short_max))
        return peer->ops->am_short(peer->ep, HC_WIRE_BATCH, peer->batch, head, peer->batch + head,
                                   peer->batch_used - head);
    return peer->ops->am_bcopy(peer->ep, HC_WIRE_BATCH, copy_batch, peer);
}

static void count_batch(struct hc_peer *peer)
{
    struct hc_counters *counters = &peer->context->counters;
    hc_counter_add(counters, HC_COUNTER_EAGER_SENT, peer->batch_messages);
    hc_counter_add(counters, HC_COUNTER_BYTES_SENT, peer->batch_bytes);
    hc_counter_add(counters, HC_COUNTER_COALESCED_MESSAGES, peer->batch_messages);
    hc_counter_add(counters, HC_COUNTER_COALESCED_PACKETS, 1);
}

/* HCOMM_OK when nothing is left gathered. */
static hcomm_status_t flush_batch(struct hc_peer *peer)
{
    if (!peer->batch_used)
        return HCOMM_OK;
    if (peer->state != HC_PEER_READY || !hc_bandwidth_take(peer->context, peer->batch_used))
        return HCOMM_AGAIN;
    hcomm_status_t status = transmit_batch(peer);
    if (status != HCOMM_OK)
        return status;
    count_batch(peer);
    peer->batch_used = 0;
    return HCOMM_OK;
}

void hc_send_flush_full(struct hc_peer *peer)
{
    if (flush_batch(peer) != HCOMM_OK)
        peer->batch_limit = SIZE_MAX; /* not before progress has made room */
    else if (peer->batch_limit < peer->batch_room / 2)
        peer->batch_limit *= 2;
}

static bool have_batch(struct hc_peer *peer)
{
    if (peer->batch)
        return true;
    peer->batch = aligned_alloc(HC_CACHE_LINE, BATCH_ROOM);
    peer->batch_room = peer->attr->bcopy_max < BATCH_ROOM ? peer->attr->bcopy_max : BATCH_ROOM;
    peer->batch_limit = BATCH_FIRST;
    return peer->batch != NULL;
}

/* An empty batch begins. */
static void begin_batch(struct hc_peer *peer, const struct hc_wire_match *match)
{
    struct hc_wire_batch *head = (void *)peer->batch;
    *head = (struct hc_wire_batch){.comm = match->comm, .source = match->source};
    peer->batch_used = sizeof(*head);
    peer->batch_messages = peer->batch_bytes = 0;
    if (!peer->is_pending)
        hc_progress_thread_kick(peer->context);
    hc_peer_set_pending(peer);
}

/* Whether there was progress since the last message that was not gathered; it then is this one. */
static bool rested(struct hc_peer *peer)
{
    uint32_t rounds = peer->context->rounds;
    if (peer->batch_used || peer->rounds == rounds)
        return false;
    peer->rounds = rounds;
    return true;
}

/* False: it is the first after a rest, or does not fit and cannot be made to; send it otherwise. */
static bool gather(struct hc_peer *peer, const struct hc_wire_match *match, const void *buf, size_t size)
{
    if (rested(peer) || !have_batch(peer))
        return false;
    if (!hc_batch_takes(peer, match, size) && flush_batch(peer) != HCOMM_OK)
        return false;
    if (!peer->batch_used)
        begin_batch(peer, match);
    hc_batch_add(peer, match->tag, buf, size);
    return true;
}

static bool may_gather(const struct hc_peer *peer, size_t size)
{
    return peer->gathers && size <= HC_BATCH_PAYLOAD_MAX && size <= peer->eager_max;
}

/* ---- queues ---- */

/* Whether a message may leave at once without overtaking an earlier one. */
static bool may_send_now(const struct hc_peer *peer)
{
    return peer->state == HC_PEER_READY && hc_fifo_empty(&peer->send_queue);
}

static bool fits_eager(const struct hc_peer *peer, size_t size)
{
    return size <= peer->eager_max && peer->credit >= hc_eager_cost(size);
}

/* Memory that the receiver can map is copied once, by rendezvous. */
static bool goes_eager(const struct hc_peer *peer, const void *buf, size_t size)
{
    return fits_eager(peer, size) && !hc_mapped_offers(peer, buf, size);
}

/* Out of the sender's buffer, or to leave with others: the request completes later. */
static bool wants_op(const struct hc_peer *peer, size_t size)
{
    return size >= peer->zcopy_min || peer->ep->holds;
}

static hcomm_status_t queue_copy(struct hc_peer *peer, const struct hc_wire_match *match, const void *buf,
                                 size_t size)
{
    struct send_item *item = malloc(sizeof(*item) + size);
    if (!item)
        return HCOMM_ERR_NO_MEMORY;
    item->request = NULL;
    item->match = *match;
    item->size = size;
    hc_copy(item->payload, buf, size);
    peer->queued_bytes += size;
    hc_counter_max(&peer->context->counters, HC_COUNTER_QUEUED_BYTES_MAX, peer->queued_bytes);
    hc_fifo_push(&peer->send_queue, &item->node);
    hc_peer_set_pending(peer);
    return HCOMM_OK;
}

static hcomm_status_t queue_request(struct hc_peer *peer, const struct hc_wire_match *match,
                                    struct hcomm_request *request)
{
    struct send_item *item = malloc(sizeof(*item));
    if (!item)
        return hc_error(HCOMM_ERR_NO_MEMORY, "queueing a send: out of memory");
    item->request = request;
    item->match = *match;
    item->size = request->capacity;
    hc_fifo_push(&peer->send_queue, &item->node);
    hc_peer_set_pending(peer);
    return HCOMM_OK;
}

/* Small messages that cannot leave now are copied, up to send_buffer_size per peer, so that the sender goes
 * on. */
static bool may_copy(const struct hc_peer *peer, size_t size)
{
    if (peer->state == HC_PEER_READY && size > peer->eager_max)
        return false;
    /* before the peer is reached its limits are unknown: what is small everywhere may be copied */
    if (peer->state != HC_PEER_READY &&
        (size > HC_BATCH_PAYLOAD_MAX || peer->context->settings.mode == HC_MODE_LARGE_MSG))
        return false;
    return peer->queued_bytes + size <= peer->context->settings.send_buffer_size;
}

static struct hcomm_request *new_send(struct hcomm_comm *comm, const void *buf, size_t size, int dest,
                                      int tag, bool sync)
{
    struct hcomm_request *request = hc_request_new(comm, HC_REQUEST_SEND);
    if (!request)
        return NULL;
    request->peer = hc_comm_peer(comm, dest);
    request->buf = (void *)(uintptr_t)buf; /* only read from */
    request->capacity = size;
    request->source = dest;
    request->tag = tag;
    request->sync = sync;
    return request;
}

/* Send what a request asks for, by the protocol that fits. HCOMM_AGAIN: not now. */
static hcomm_status_t send_request(struct hc_peer *peer, const struct hc_wire_match *match,
                                   struct hcomm_request *request)
{
    hcomm_status_t status = flush_batch(peer);
    if (status != HCOMM_OK)
        return status;
    bool eager = !request->on_device && goes_eager(peer, request->buf, request->capacity);
    if (request->sync && eager)
        return hc_rndv_send_eager_sync(request, match);
    /* with an id it was about to travel by rendezvous, and keeps to that: completing it here would leave the
     * id */
    if (!request->sync && !request->id && eager && wants_op(peer, request->capacity))
        return send_eager_zero_copy(peer, match, request);
    if (!request->sync && !request->id && eager) {
        status = send_eager(peer, match, request->buf, request->capacity);
        if (status == HCOMM_OK)
            hc_request_complete(request, HCOMM_OK);
        return status;
    }
    if (request->capacity <= peer->eager_max && !fits_eager(peer, request->capacity))
        hc_counter_add(&peer->context->counters, HC_COUNTER_CREDIT_STALLS, 1);
    return hc_rndv_send_rts(request, match);
}

static hcomm_status_t start_request(struct hc_peer *peer, const struct hc_wire_match *match,
                                    struct hcomm_request *request)
{
    hcomm_status_t status = HCOMM_AGAIN;
    if (may_send_now(peer))
        status = send_request(peer, match, request);
    if (status == HCOMM_AGAIN)
        status = queue_request(peer, match, request);
    if (status != HCOMM_OK)
        hc_rndv_forget(request); /* an attempt may have given it an id */
    return status;
}

static hcomm_status_t start_or_free(struct hc_peer *peer, const struct hc_wire_match *match,
                                    struct hcomm_request *request, struct hcomm_request **out)
{
    hcomm_status_t status = start_request(peer, match, request);
    if (status != HCOMM_OK) {
        request->comm->busy--;
        hc_request_free(request);
        return status;
    }
    hc_progress_thread_kick(peer->context);
    *out = request;
    return HCOMM_OK;
}

/* Neither at once nor gathered: copied and queued, or with a request. */
static hcomm_status_t send_slow(struct hcomm_comm *comm, struct hc_peer *peer,
                                const struct hc_wire_match *match, const void *buf, size_t size, int dest,
                                bool sync, struct hcomm_request **out)
{
    if (peer->state == HC_PEER_FAILED)
        return hc_peer_error(peer);
    hc_peer_connect(peer);
    bool queued_first = !may_send_now(peer);
    if (!sync && queued_first && may_copy(peer, size) && queue_copy(peer, match, buf, size) == HCOMM_OK) {
        *out = &comm->context->done_send;
        return HCOMM_OK;
    }
    struct hcomm_request *request = new_send(comm, buf, size, dest, match->tag, sync);
    if (!request)
        return HCOMM_ERR_NO_MEMORY;
    return start_or_free(peer, match, request, out);
}

/* A message that is copied or lent, as was learned. HCOMM_AGAIN: not now. */
static hcomm_status_t send_learned(struct hcomm_comm *comm, struct hc_peer *peer,
                                   const struct hc_wire_match *match, const void *buf, size_t size, int dest,
                                   struct hcomm_request **out)
{
    if (hc_lend_choose(peer, size)) {
        struct hcomm_request *request = new_send(comm, buf, size, dest, match->tag, false);
        if (!request)
            return HCOMM_ERR_NO_MEMORY;
        hcomm_status_t status = hc_rndv_lend(request, match);
        if (status == HCOMM_OK) {
            hc_progress_thread_kick(peer->context);
            *out = request;
            return HCOMM_OK;
        }
        hc_rndv_forget(request);
        comm->busy--;
        hc_request_free(request);
        return status;
    }
    uint64_t start = hc_clock_ns();
    hcomm_status_t status = send_eager(peer, match, buf, size);
    if (status == HCOMM_OK)
        hc_lender_copied(&peer->lender, size, hc_clock_ns() - start);
    *out = &comm->context->done_send;
    return status;
}

/* What cannot take the short way, but perhaps still leaves at once. */
static hcomm_status_t send_general(struct hcomm_comm *comm, struct hc_peer *peer,
                                   const struct hc_wire_match *match, const void *buf, size_t size, int dest,
                                   bool sync, struct hcomm_request **request)
{
    if (sync || !may_send_now(peer) || !goes_eager(peer, buf, size) || size >= peer->zcopy_min)
        return send_slow(comm, peer, match, buf, size, dest, sync, request);
    if (size >= peer->lend_min && !peer->ep->holds &&
        send_learned(comm, peer, match, buf, size, dest, request) == HCOMM_OK)
        return HCOMM_OK;
    bool left = may_gather(peer, size) && gather(peer, match, buf, size);
    if (!left && !peer->ep->holds && flush_batch(peer) == HCOMM_OK)
        left = send_eager(peer, match, buf, size) == HCOMM_OK;
    if (!left && !peer->ep->holds && may_copy(peer, size))
        left = queue_copy(peer, match, buf, size) == HCOMM_OK;
    if (!left)
        return send_slow(comm, peer, match, buf, size, dest, sync, request);
    *request = &comm->context->done_send;
    return HCOMM_OK;
}

hcomm_status_t hc_send_start(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                             int dest, int tag, bool sync, struct hcomm_request **request)
{
    if (hc_unlikely(comm->context->device != NULL))
        return hc_staged_send(comm, comm_id, buf, size, dest, tag, sync, request);
    return hc_send_host(comm, comm_id, buf, size, dest, tag, sync, request);
}

hcomm_status_t hc_send_device(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                              int dest, int tag, bool sync, struct hcomm_request **out)
{
    struct hc_peer *peer = hc_comm_peer(comm, dest);
    if (!peer)
        return HCOMM_ERR_NO_MEMORY;
    if (peer->state == HC_PEER_FAILED)
        return hc_peer_error(peer);
    const struct hc_wire_match match = {.comm = comm_id, .source = (uint32_t)comm->rank, .tag = tag};
    hc_peer_connect(peer);
    struct hcomm_request *request = new_send(comm, buf, size, dest, tag, sync);
    if (!request)
        return HCOMM_ERR_NO_MEMORY;
    request->on_device = true;
    return start_or_free(peer, &match, request, out);
}

hcomm_status_t hc_send_host(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size, int dest,
                            int tag, bool sync, struct hcomm_request **request)
{
    struct hc_peer *peer = hc_comm_peer(comm, dest);
    if (hc_unlikely(!peer))
        return HCOMM_ERR_NO_MEMORY;
    const struct hc_wire_match match = {.comm = comm_id, .source = (uint32_t)comm->rank, .tag = tag};
    return send_general(comm, peer, &match, buf, size, dest, sync, request);
}

static bool is_handed_over(void *arg)
{
    const struct hc_peer *peer = arg;
    return peer->state == HC_PEER_FAILED ||
           (peer->state == HC_PEER_READY && hc_fifo_empty(&peer->send_queue));
}

hcomm_status_t hc_send_hand_over(struct hc_peer *peer)
{
    if (peer->state != HC_PEER_FETCHING || peer->awaited)
        return HCOMM_OK;
    peer->awaited = true;
    if (hc_wait(peer->context, is_handed_over, peer, NULL, HAND_OVER_MS) != HCOMM_OK)
        hc_log_debug("%s is not reached within %d ms: the first message waits for later calls",
                     hc_peer_name(peer), HAND_OVER_MS);
    return peer->state == HC_PEER_FAILED ? hc_peer_error(peer) : HCOMM_OK;
}

/* Without credit a copied message travels by rendezvous: waiting for the window here would hold up the
 * messages behind it, and the receiver may be waiting for one of those. */
static hcomm_status_t send_copied(struct hc_peer *peer, struct send_item *item)
{
    if (fits_eager(peer, item->size))
        return send_eager(peer, &item->match, item->payload, item->size);
    return hc_rndv_send_owned(peer, &item->match, item->payload, item->size);
}

static hcomm_status_t send_item_now(struct hc_peer *peer, struct send_item *item)
{
    if (item->request)
        return send_request(peer, &item->match, item->request);
    return send_copied(peer, item);
}

static void fail_item(struct hc_peer *peer, struct send_item *item, hcomm_status_t status)
{
    if (item->request)
        hc_request_complete(item->request, status);
    else
        hc_log_error("a message of %zu bytes to %s is lost: %s", item->size, hc_peer_name(peer),
                     hc_status_text(status));
}

static unsigned advance_send_queue(struct hc_peer *peer)
{
    unsigned moved = 0;
    while (!hc_fifo_empty(&peer->send_queue)) {
        struct send_item *item = hc_container_of(peer->send_queue.head, struct send_item, node);
        hcomm_status_t status = send_item_now(peer, item);
        if (status == HCOMM_AGAIN)
            break;
        (void)hc_fifo_pop(&peer->send_queue);
        if (status != HCOMM_OK)
            fail_item(peer, item, status);
        if (!item->request)
            peer->queued_bytes -= item->size;
        free(item);
        moved++;
    }
    return moved;
}

static hcomm_status_t transmit_control(struct hc_peer *peer, uint8_t id, const void *header, size_t size)
{
    size_t fixed = size & ~(size_t)7; /* what follows the header need not be a multiple of 8 */
    return peer->ops->am_short(peer->ep, id, header, fixed, (const uint8_t *)header + fixed, size - fixed);
}

void hc_control_send(struct hc_peer *peer, uint8_t id, const void *header, size_t size)
{
    hc_assert(size <= CONTROL_MAX);
    if (peer->state == HC_PEER_FAILED)
        return;
    hc_peer_connect(peer);
    if (peer->state == HC_PEER_READY && hc_fifo_empty(&peer->control_queue) &&
        transmit_control(peer, id, header, size) == HCOMM_OK)
        return;
    struct control_item *item = malloc(sizeof(*item) + size);
    if (!item) {
        hc_peer_fail(peer, HCOMM_ERR_NO_MEMORY, "out of memory for an answer to a peer");
        return;
    }
    item->id = id;
    item->size = size;
    (void)memcpy(item->header, header, size);
    hc_fifo_push(&peer->control_queue, &item->node);
    hc_peer_set_pending(peer);
}

static unsigned advance_control_queue(struct hc_peer *peer)
{
    unsigned moved = 0;
    while (!hc_fifo_empty(&peer->control_queue)) {
        struct control_item *item = hc_container_of(peer->control_queue.head, struct control_item, node);
        hcomm_status_t status = transmit_control(peer, item->id, item->header, item->size);
        if (status == HCOMM_AGAIN)
            break;
        (void)hc_fifo_pop(&peer->control_queue);
        free(item);
        moved++;
        if (status != HCOMM_OK) {
            hc_peer_fail(peer, status, hc_error_detail());
            break;
        }
    }
    return moved;
}

unsigned hc_peer_advance(struct hc_peer *peer)
{
    if (peer->state != HC_PEER_READY)
        return 0;
    unsigned moved = advance_control_queue(peer);
    size_t gathered = peer->batch_used;
    peer->batch_limit = BATCH_FIRST;
    if (flush_batch(peer) == HCOMM_OK) {
        moved += gathered > 0;
        moved += advance_send_queue(peer);
    }
    return moved + hc_rndv_advance(peer);
}

bool hc_peer_is_idle(const struct hc_peer *peer)
{
    if (peer->state == HC_PEER_FAILED)
        return true;
    return hc_fifo_empty(&peer->send_queue) && hc_fifo_empty(&peer->control_queue) && !peer->batch_used &&
           hc_list_empty(&peer->streaming) && hc_list_empty(&peer->rndv_waiting);
}

void hc_send_drop_queues(struct hc_peer *peer)
{
    struct hc_fifo_node *node;
    while ((node = hc_fifo_pop(&peer->send_queue))) {
        struct send_item *item = hc_container_of(node, struct send_item, node);
        if (item->request && !item->request->id) /* those with an id end with the transfers */
            hc_request_complete(item->request, peer->failure);
        free(item);
    }
    while ((node = hc_fifo_pop(&peer->control_queue)))
        free(hc_container_of(node, struct control_item, node));
    peer->queued_bytes = 0;
    peer->batch_used = 0;
}

bool hc_send_unqueue(struct hcomm_request *request)
{
    struct hc_fifo *queue = &request->peer->send_queue;
    for (struct hc_fifo_node **link = &queue->head; *link; link = &(*link)->next) {
        struct send_item *item = hc_container_of(*link, struct send_item, node);
        if (item->request != request)
            continue;
        *link = item->node.next;
        if (queue->tail == &item->node.next)
            queue->tail = link;
        free(item);
        return true;
    }
    return false;
}
