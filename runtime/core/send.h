/* Sending: eager, gathered (SMALL_MSG), and the per-peer queues behind them. Lock held. */
#ifndef HC_SEND_H
#define HC_SEND_H

#include "runtime/base/copy.h"
#include "runtime/core/core.h"

/* What an eager message costs of the receiver's window beside its payload: the record that keeps it. */
enum { HC_EAGER_OVERHEAD = 64 };

static inline int64_t hc_eager_cost(size_t size)
{
    return (int64_t)size + HC_EAGER_OVERHEAD;
}

static inline void hc_count_eager_sent(struct hcomm_context *context, size_t size)
{
    hc_counter_add(&context->counters, HC_COUNTER_EAGER_SENT, 1);
    hc_counter_add(&context->counters, HC_COUNTER_BYTES_SENT, size);
}

/*
 * The short way, which nearly all small messages take: straight into the transport. False when anything is in
 * the way (nothing was sent): hc_send_start() then finds the right way.
 */
static HC_INLINE bool hc_send_now(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                                  int dest, int tag)
{
    struct hcomm_context *context = comm->context;
    /* a hc_wire_match, written as it will be read, in words: the processor forwards a store to a load of its
     * size */
    const uint64_t match[] = {comm_id, hc_wire_match_word((uint32_t)comm->rank, tag)};
    struct hc_peer *peer = context->peers[hc_comm_world_rank(comm, dest)];
    if (hc_unlikely(!peer || size >= peer->direct_limit || peer->is_pending || peer->ep->holds ||
                    peer->credit < hc_eager_cost(size)))
        return false;
    if (hc_unlikely(peer->ops->am_short(peer->ep, HC_WIRE_EAGER, match, sizeof(match), buf, size) !=
                    HCOMM_OK))
        return false;
    peer->credit -= hc_eager_cost(size);
    hc_count_eager_sent(context, size);
    return true;
}

/*
 * For blocking sends, after hc_send_start() has copied the message: while the peer is being reached for the
 * first time, wait until the message has left, because its sender may not call again soon. Not for long: the
 * peer may not have started. HCOMM_OK also when it is left to later progress; or why the peer has failed.
 */
hcomm_status_t hc_send_hand_over(struct hc_peer *peer) HC_MUST_CHECK;
/* hc_send_start() with host memory. */
hcomm_status_t hc_send_host(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size, int dest,
                            int tag, bool sync, struct hcomm_request **request) HC_MUST_CHECK;
/* The same with device memory: it is announced, however small, and complete when it has been received. */
hcomm_status_t hc_send_device(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                              int dest, int tag, bool sync, struct hcomm_request **request) HC_MUST_CHECK;
enum { HC_BATCH_PAYLOAD_MAX = 1024 }; /* larger messages gain nothing from company */

static inline size_t hc_batch_bytes(size_t size)
{
    return sizeof(struct hc_wire_batch_item) + hc_align_up(size, 8);
}

/* Whether a message may join the batch that has begun. */
static inline bool hc_batch_takes(const struct hc_peer *peer, const struct hc_wire_match *match, size_t size)
{
    const struct hc_wire_batch *head = (const void *)peer->batch;
    return peer->batch_used && peer->batch_used + hc_batch_bytes(size) <= peer->batch_room &&
           head->comm == match->comm && head->source == match->source;
}

/* The batch has reached its limit: let it leave, if that is possible now. */
void hc_send_flush_full(struct hc_peer *peer);

/* Add a message to the batch, for which it has room. */
static HC_INLINE void hc_batch_add(struct hc_peer *peer, int tag, const void *buf, size_t size)
{
    struct hc_wire_batch_item *item = (void *)(peer->batch + peer->batch_used);
    *item = (struct hc_wire_batch_item){.tag = tag, .size = (uint32_t)size};
    hc_copy(item + 1, buf, size);
    peer->batch_used += hc_batch_bytes(size);
    peer->batch_messages++;
    peer->batch_bytes += size;
    peer->credit -= hc_eager_cost(size);
    if (hc_unlikely(peer->batch_used >= peer->batch_limit))
        hc_send_flush_full(peer);
}

/* Mode SMALL_MSG: add to a batch that has begun. False: hc_send_start() finds the right way. */
static HC_INLINE bool hc_send_gathered(struct hcomm_comm *comm, uint64_t comm_id, const void *buf,
                                       size_t size, int dest, int tag)
{
    struct hc_peer *peer = comm->context->peers[hc_comm_world_rank(comm, dest)];
    const struct hc_wire_match match = {.comm = comm_id, .source = (uint32_t)comm->rank, .tag = tag};
    if (!peer || !peer->batch_used || comm->context->device || size > HC_BATCH_PAYLOAD_MAX ||
        size > peer->eager_max || !hc_fifo_empty(&peer->send_queue) || peer->credit < hc_eager_cost(size) ||
        !hc_batch_takes(peer, &match, size))
        return false;
    hc_batch_add(peer, tag, buf, size);
    return true;
}

/* Whichever of the two applies. */
static HC_INLINE bool hc_send_quick(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                                    int dest, int tag)
{
    return hc_likely(hc_send_now(comm, comm_id, buf, size, dest, tag)) ||
           (comm->context->settings.mode == HC_MODE_SMALL_MSG &&
            hc_send_gathered(comm, comm_id, buf, size, dest, tag));
}

/* Move what waits for this peer: answers, gathered messages, queued sends, transfers. Returns how much moved.
 */
unsigned hc_peer_advance(struct hc_peer *peer);
/* Whether nothing waits for this peer. */
bool hc_peer_is_idle(const struct hc_peer *peer);
/* The peer failed or the context ends: complete queued sends with its failure and free the queues. */
void hc_send_drop_queues(struct hc_peer *peer);
/* A queued send's buffer is the caller's again: take it out of the queue. False when it is not queued. */
bool hc_send_unqueue(struct hcomm_request *request);

#endif
