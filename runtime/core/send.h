/* Sending: eager, gathered (SMALL_MSG), and the per-peer queues behind them. Lock held. */
#ifndef HC_SEND_H
#define HC_SEND_H

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
static inline bool hc_send_now(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                               int dest, int tag)
{
    struct hcomm_context *context = comm->context;
    struct hc_peer *peer = context->peers[hc_comm_world_rank(comm, dest)];
    if (hc_unlikely(!peer || size >= peer->direct_limit || peer->is_pending ||
                    peer->credit < hc_eager_cost(size)))
        return false;
    const struct hc_wire_match match = {.comm = comm_id, .source = (uint32_t)comm->rank, .tag = tag};
    if (hc_unlikely(peer->ops->am_short(peer->ep, HC_WIRE_EAGER, &match, sizeof(match), buf, size) !=
                    HCOMM_OK))
        return false;
    peer->credit -= hc_eager_cost(size);
    hc_count_eager_sent(context, size);
    return true;
}

/* hc_send_start() with host memory. */
hcomm_status_t hc_send_host(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size, int dest,
                            int tag, bool sync, struct hcomm_request **request) HC_MUST_CHECK;
/* The same with device memory: it is announced, however small, and complete when it has been received. */
hcomm_status_t hc_send_device(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                              int dest, int tag, bool sync, struct hcomm_request **request) HC_MUST_CHECK;

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
