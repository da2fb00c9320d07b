/* Receiving: matching arrived messages with receives, and keeping those that came first. Lock held. */
#ifndef HC_RECV_H
#define HC_RECV_H

#include "runtime/core/request.h"

/* A request that receives; NULL, with an error detail, when memory is exhausted. */
static inline struct hcomm_request *hc_recv_request(struct hcomm_comm *comm, void *buf, size_t capacity,
                                                    int source, int tag)
{
    struct hcomm_request *request = hc_request_new(comm, HC_REQUEST_RECV);
    if (!request)
        return NULL;
    request->buf = buf;
    request->capacity = capacity;
    request->source = source;
    request->tag = tag;
    return request;
}

/*
 * The short way to start a receive, without a call: there is no device, nothing unexpected is kept, the
 * pattern is that of the receive or message before, and there is a request at hand. NULL when anything is in
 * the way: hc_recv_start() then finds the right way.
 */
static inline struct hcomm_request *hc_recv_post(struct hcomm_comm *comm, void *buf, size_t capacity,
                                                 int source, int tag)
{
    struct hc_match *match = &comm->context->match;
    const struct hc_match_key pattern = {comm->id, source, tag};
    struct hc_peer *peer = NULL;
    if (match->num_messages || comm->context->device || !hc_pool_has(&comm->context->request_pool) ||
        !hc_match_is_recent(match, &pattern))
        return NULL;
    if (source != HCOMM_ANY_SOURCE) {
        peer = comm->context->peers[hc_comm_world_rank(comm, source)];
        if (!peer || peer->state == HC_PEER_FAILED)
            return NULL;
    } else if (hc_unlikely(hc_context_has_lost(comm->context))) {
        return NULL;
    }
    struct hcomm_request *request = hc_recv_request(comm, buf, capacity, source, tag);
    request->peer = peer;
    hc_match_post_recent(match, &request->match);
    return request;
}

/*
 * An eager message of `size` bytes begins to arrive in parts: the receive it belongs to, taken out of
 * matching and described. NULL: there is none, or it wants the whole.
 */
struct hcomm_request *hc_recv_begin(struct hc_peer *peer, const struct hc_wire_match *match, size_t size);
/* The last part has come; the request may have been given up meanwhile. */
void hc_recv_ended(struct hc_peer *peer, size_t size);

/* The oldest unexpected message for (source, tag) on a communicator, NULL when there is none; left in place.
 */
struct hcomm_message *hc_message_find(struct hcomm_comm *comm, int source, int tag);
/* Describe a message as a probe does. */
void hc_message_status(const struct hcomm_message *message, hcomm_message_status_t *status);
/* Take a message out of matching, for one receive only. */
void hc_message_take(struct hcomm_context *context, struct hcomm_message *message);
/* Its sender has taken an announced message back: whoever receives it gets HCOMM_ERR_CANCELLED. Harmless when
 * it is not there. */
void hc_message_withdraw(struct hc_peer *peer, uint64_t send_id);
/* Receive a message taken out; consumes it. *request as hc_recv_start(). */
hcomm_status_t hc_message_receive(struct hcomm_comm *comm, struct hcomm_message *message, void *buf,
                                  size_t capacity, struct hcomm_request **request) HC_MUST_CHECK;

#endif
