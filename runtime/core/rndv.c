#include "runtime/core/rndv_impl.h"

#include "runtime/base/copy.h"
#include "runtime/core/device_registration.h"
#include "runtime/core/lend.h"
#include "runtime/core/mapped.h"
#include "runtime/core/pieces.h"
#include "runtime/core/progress.h"
#include "runtime/core/recv.h"
#include "runtime/core/request.h"
#include "runtime/core/send.h"
#include "runtime/core/staged.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECES_PER_TURN = 8, /* then others get their turn */
    GETS_IN_FLIGHT = 4,  /* per message: keeps the wire busy without hogging the queues */
};

/* ---- ends ---- */

void hc_rndv_release(struct hcomm_request *request, bool succeeded)
{
    struct hc_peer *peer = request->peer;
    hc_lend_end(request);
    hc_list_remove(&request->stream_node);
    hc_request_release_id(request);
    if (request->transferring) {
        peer->rndv_inflight--;
        request->transferring = false;
    }
    if (request->rkey)
        request->rkey->iface->transport->rkey_release(request->rkey);
    hc_request_deregister(request, succeeded);
    request->rkey = NULL;
    (void)hc_mapped_end(request);
    if (hc_unlikely(request->staged != NULL))
        hc_staged_end(request);
    if (request->owns_buf)
        free(request->buf);
    request->owns_buf = false;
    free(request->offer);
    request->offer = NULL;
}

void hc_rndv_finish(struct hcomm_request *request, hcomm_status_t status)
{
    struct hc_peer *peer = request->peer;
    hc_rndv_release(request, status == HCOMM_OK);
    if (!hc_list_empty(&peer->rndv_waiting))
        hc_peer_set_pending(peer);
    hc_request_complete(request, status);
}

void hc_rndv_forget(struct hcomm_request *request)
{
    if (request->id)
        hc_rndv_release(request, false);
}

void hc_rndv_answer(struct hc_peer *peer, uint8_t wire_id, uint64_t id, hcomm_status_t status)
{
    const struct hc_wire_fin answer = {.id = id, .status = status};
    hc_control_send(peer, wire_id, &answer, sizeof(answer));
}

/* ---- transfers: at most queue_depth per peer at a time ---- */

static void begin_transfer(struct hcomm_request *request)
{
    struct hc_peer *peer = request->peer;
    request->transferring = true;
    peer->rndv_inflight++;
    hc_counter_max(&peer->context->counters, HC_COUNTER_RNDV_INFLIGHT_MAX, peer->rndv_inflight);
    hc_list_append(&peer->streaming, &request->stream_node);
    hc_peer_set_pending(peer);
}

static bool may_begin(const struct hc_peer *peer)
{
    return peer->state == HC_PEER_READY &&
           peer->rndv_inflight < (unsigned)peer->context->settings.queue_depth;
}

static bool may_begin_now(const struct hc_peer *peer)
{
    return may_begin(peer) && hc_list_empty(&peer->rndv_waiting);
}

static void wait_for_turn(struct hcomm_request *request)
{
    hc_list_append(&request->peer->rndv_waiting, &request->stream_node);
    hc_peer_connect(request->peer);
    hc_peer_set_pending(request->peer);
}

static void fall_back_to_pieces(struct hcomm_request *request);
static void end_if_over(struct hcomm_request *request);

static void end_receive(struct hcomm_request *request, hcomm_status_t status)
{
    if (status == HCOMM_OK)
        hc_mapped_learn(request);
    hc_counter_add(&request->context->counters, HC_COUNTER_BYTES_RECEIVED, request->finished);
    const struct hc_wire_fin fin = {
        .id = request->remote_id,
        .status = status,
        .ns = request->accept == request->size ? request->fetch_ns : 0, /* of part of it says little */
    };
    hc_control_send(request->peer, HC_WIRE_FIN, &fin, sizeof(fin));
    if (status == HCOMM_OK && request->accept < request->size)
        status = HCOMM_ERR_TRUNCATED;
    hc_rndv_finish(request, status);
}

static void end_transfer(struct hcomm_request *request, hcomm_status_t status)
{
    if (request->kind == HC_REQUEST_RECV) {
        end_receive(request, status);
        return;
    }
    if (status != HCOMM_OK) /* the receiver waits for pieces that will not come */
        hc_rndv_answer(request->peer, HC_WIRE_NACK, request->remote_id, status);
    hc_rndv_finish(request, status);
}

/* All that it has room for has come. */
static void finish_received(struct hcomm_request *request)
{
    hc_rndv_finish(request, request->accept < request->size ? HCOMM_ERR_TRUNCATED : HCOMM_OK);
}

/* A receive in pieces: the sender is not answered, it knows when it has sent all. */
static void end_pieces(struct hcomm_request *request)
{
    if (request->status != HCOMM_OK)
        hc_rndv_finish(request, request->status);
    else if (request->finished == request->accept)
        finish_received(request);
}

void hc_rndv_end_if_over(struct hcomm_request *request)
{
    if (request->kind == HC_REQUEST_RECV && !request->transferring && !request->ops)
        end_pieces(request);
    else
        end_if_over(request);
}

/* A request that failed waits for its operations in flight: they still point to it and to its memory. */
static void end_if_over(struct hcomm_request *request)
{
    if (request->ops)
        return;
    if (request->status != HCOMM_OK)
        end_transfer(request, request->status);
    else if (request->finished == request->accept)
        end_transfer(request, HCOMM_OK);
}

static void transfer_failed(struct hcomm_request *request, hcomm_status_t status)
{
    bool untouched = !hc_mapped_end(request) && !request->finished;
    /* RMA turned out impossible for this peer before anything was moved: pieces do. What a lender has put by
     * then it sends once more, afterwards. */
    if (request->kind == HC_REQUEST_RECV && status == HCOMM_ERR_UNSUPPORTED && !request->ops &&
        (untouched || request->lent)) {
        fall_back_to_pieces(request);
        return;
    }
    request->status = status;
    request->issued = request->accept;
    end_if_over(request);
}

static void transfer_done(struct hcomm_request *request, size_t size, hcomm_status_t status)
{
    request->activity = hc_clock_ns();
    if (status == HCOMM_OK)
        request->finished += size;
    if (status != HCOMM_OK)
        transfer_failed(request, status);
    else
        end_if_over(request);
}

static unsigned ops_limit(const struct hcomm_request *request)
{
    return request->kind == HC_REQUEST_RECV ? GETS_IN_FLIGHT : PIECES_PER_TURN;
}

/* The bandwidth limit is for what this rank sends. Asked with 0 whether it may, then with what it sent. */
static bool use_bandwidth(const struct hcomm_request *request, size_t size)
{
    return request->kind == HC_REQUEST_RECV || hc_bandwidth_take(request->context, size);
}

/* The sender has put all it could claim; the receiver may be at its last part still. */
static void end_placing(struct hcomm_request *request)
{
    const struct hc_wire_placed placed = {.recv_id = request->remote_id, .bytes = request->finished};
    if (placed.bytes)
        hc_control_send(request->peer, HC_WIRE_PLACED, &placed, sizeof(placed));
    if (!request->shared && request->finished == request->accept) {
        hc_rndv_finish(request, HCOMM_OK);
        return;
    }
    hc_list_remove(&request->stream_node); /* FIN ends it */
    request->transferring = false;
    request->peer->rndv_inflight--;
    hc_peer_set_pending(request->peer);
}

/* Whether what was fetched of a lent message since then counts. The guard shows that, also when fetching
 * failed: the memory may be gone. */
static bool fetch_counts(struct hcomm_request *request, uint64_t start)
{
    request->activity = hc_clock_ns();
    request->fetch_ns += (uint32_t)(request->activity - start);
    if (hc_lend_is_valid(request))
        return true;
    request->overtaken = true;
    (void)hc_mapped_end(request); /* the sender is past its part */
    return false;
}

/* Copy one part of a message that is shared out; false as below. */
static bool advance_mapped(struct hcomm_request *request)
{
    size_t size = 0;
    uint64_t start = request->guard_generation ? hc_clock_ns() : 0;
    hcomm_status_t status = hc_mapped_copy_part(request, &size);
    if (request->guard_generation && !fetch_counts(request, start))
        return false;
    if (status < 0) {
        transfer_failed(request, status);
        return false;
    }
    (void)use_bandwidth(request, size);
    request->finished += size;
    request->activity = hc_clock_ns();
    if (size && request->finished < request->accept)
        return true;
    request->issued = request->accept;
    if (request->kind == HC_REQUEST_SEND)
        end_placing(request);
    else
        end_if_over(request);
    return false;
}

/* Fetch a message that is lent, at once (HC_CAP_SHARE), or not now. */
static bool fetch_lent(struct hcomm_request *request)
{
    size_t size = 0;
    uint64_t start = hc_clock_ns();
    hcomm_status_t status = hc_piece_get(request, transfer_done, &size);
    if (!fetch_counts(request, start))
        return false;
    if (status == HCOMM_AGAIN)
        return false;
    hc_assert(status != HCOMM_IN_PROGRESS);
    if (status < 0) {
        transfer_failed(request, status);
        return false;
    }
    request->issued += size;
    request->finished += size;
    bool over = request->finished == request->accept;
    end_if_over(request);
    return !over;
}

/* Issue one piece; false when that is all for now (the request may be gone). */
static bool advance_once(struct hcomm_request *request)
{
    struct hcomm_context *context = request->context;
    if (request->issued == request->accept || request->ops >= ops_limit(request) ||
        !use_bandwidth(request, 0) || request->overtaken)
        return false;
    if (request->share)
        return advance_mapped(request);
    if (request->guard_generation)
        return fetch_lent(request);
    size_t size = 0;
    hcomm_status_t status = hc_piece_issue(request, transfer_done, &size);
    if (status == HCOMM_AGAIN)
        return false;
    if (status < 0) {
        transfer_failed(request, status);
        return false;
    }
    (void)use_bandwidth(request, size);
    request->issued += size;
    request->activity = hc_clock_ns();
    hc_counter_add(&context->counters, HC_COUNTER_BYTES_SENT, request->kind == HC_REQUEST_SEND ? size : 0);
    if (status == HCOMM_IN_PROGRESS) {
        request->ops++;
        return true;
    }
    request->finished += size;
    bool over = request->finished == request->accept;
    end_if_over(request);
    return !over;
}

/* With device memory in play, unless the transport gets it. */
static bool is_staged(const struct hcomm_request *request)
{
    return (request->on_device && !request->rkey) || request->offer_kind;
}

static unsigned advance_streaming(struct hc_peer *peer)
{
    unsigned moved = 0;
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &peer->streaming)
    {
        struct hcomm_request *request = hc_list_entry(node, struct hcomm_request, stream_node);
        unsigned pieces = 0;
        if (hc_unlikely(is_staged(request))) {
            moved += hc_staged_advance(request);
            continue;
        }
        while (pieces < PIECES_PER_TURN && advance_once(request))
            pieces++;
        moved += pieces;
    }
    return moved;
}

/* ---- receiver ---- */

/* Let the sender put the message, or its share, into the receiver's memory. False: that is impossible. */
static bool ask_to_place(struct hcomm_request *request, uint16_t flags)
{
    struct hc_mapped_cts cts = {.head = {.flags = flags}};
    if ((!request->mem && hc_request_register(request) != HCOMM_OK) || !hc_mapped_invite(request, &cts))
        return false;
    hc_counter_add(&request->context->counters, HC_COUNTER_RNDV_MAPPED, !flags);
    hc_control_send(request->peer, HC_WIRE_CTS, &cts, sizeof(cts.head) + cts.head.rkey_len);
    return true;
}

static void ask_for_pieces(struct hcomm_request *request)
{
    const struct hc_wire_cts cts = {
        .send_id = request->remote_id,
        .recv_id = request->id,
        .accept = request->accept,
    };
    request->offer_kind = HC_OFFER_RKEY;
    request->guard_generation = 0;
    if (!request->lent && hc_mapped_offers(request->peer, request->buf, request->accept) &&
        ask_to_place(request, 0))
        return;
    hc_counter_add(&request->context->counters, HC_COUNTER_RNDV_PIPELINE, 1);
    hc_control_send(request->peer, HC_WIRE_CTS, &cts, sizeof(cts));
}

static void fall_back_to_pieces(struct hcomm_request *request)
{
    struct hc_peer *peer = request->peer;
    hc_list_remove(&request->stream_node);
    request->transferring = false;
    peer->rndv_inflight--;
    if (request->rkey) {
        peer->rkey_useless = true;
        peer->ops->rkey_release(request->rkey);
        request->rkey = NULL;
    } else {
        peer->ipc_useless = true;
    }
    request->issued = request->finished = 0;
    ask_for_pieces(request);
}

static hcomm_status_t prepare_get(struct hcomm_request *request, const void *rkey, size_t rkey_len)
{
    struct hc_peer *peer = request->peer;
    if (!(peer->attr->caps & (HC_CAP_RMA | HC_CAP_MAP)) || !hc_rndv_is_reached(request))
        return HCOMM_ERR_UNSUPPORTED;
    hcomm_status_t status = hc_request_register(request);
    if (status != HCOMM_OK)
        return status;
    return peer->ops->rkey_unpack(peer->ep, rkey, rkey_len, &request->rkey);
}

/* By other means than the transport's. */
static void start_fetch(struct hcomm_request *request, const void *offer, size_t len)
{
    hcomm_status_t status = hc_staged_fetch(request, offer, len);
    if (status == HCOMM_AGAIN) {
        ask_for_pieces(request);
    } else if (status != HCOMM_OK) {
        end_receive(request, status);
    } else {
        hc_counter_add(&request->context->counters, HC_COUNTER_RNDV_GET, 1);
        begin_transfer(request);
    }
}

/* The peer is reached and it is this message's turn. What cannot be fetched is asked for in pieces. */
static void start_receive(struct hcomm_request *request, const void *rkey, size_t rkey_len)
{
    if (hc_unlikely(request->offer_kind != HC_OFFER_RKEY)) {
        start_fetch(request, rkey, rkey_len);
        return;
    }
    if (!(request->peer->attr->caps & HC_CAP_SHARE))
        request->guard_generation = 0; /* nothing is lent through other transports */
    if (prepare_get(request, rkey, rkey_len) != HCOMM_OK ||
        (!request->guard_generation && hc_mapped_choose(request) == HC_WAY_PIECES)) {
        ask_for_pieces(request);
        return;
    }
    hc_counter_add(&request->context->counters, HC_COUNTER_RNDV_GET, 1);
    hc_counter_add(&request->context->counters, HC_COUNTER_DEVICE_RDMA, request->on_device);
    if (hc_mapped_is_direct(request))
        hc_counter_add(&request->context->counters, HC_COUNTER_RNDV_MAPPED, 1);
    if (hc_mapped_shares(request))
        (void)ask_to_place(request, HC_CTS_FLAG_SHARE); /* else the receiver copies alone */
    begin_transfer(request);
}

static hcomm_status_t keep_offer(struct hcomm_request *request, const struct hc_rndv_offer *offer)
{
    request->offer = malloc(offer->rkey_len);
    if (!request->offer)
        return HCOMM_ERR_NO_MEMORY;
    (void)memcpy(request->offer, offer->rkey, offer->rkey_len);
    request->offer_len = offer->rkey_len;
    return HCOMM_OK;
}

static bool can_fetch(const struct hcomm_request *request, const struct hc_rndv_offer *offer)
{
    const struct hc_peer *peer = request->peer;
    if (hc_unlikely(offer->kind != HC_OFFER_RKEY))
        return hc_staged_can_fetch(request, offer);
    return offer->rkey && hc_rndv_is_reached(request) &&
           !(peer->rkey_useless && !(peer->attr->caps & HC_CAP_MAP));
}

static void take_offer(struct hcomm_request *request, const struct hc_rndv_offer *offer)
{
    struct hc_peer *peer = request->peer;
    if (!can_fetch(request, offer)) {
        ask_for_pieces(request);
    } else if (may_begin_now(peer)) {
        start_receive(request, offer->rkey, offer->rkey_len);
    } else if (keep_offer(request, offer) == HCOMM_OK) {
        wait_for_turn(request);
    } else {
        ask_for_pieces(request);
    }
}

void hc_rndv_receive(struct hcomm_request *request, const struct hc_rndv_offer *offer)
{
    hc_list_init(&request->stream_node);
    request->remote_id = offer->send_id;
    request->remote_address = offer->address;
    request->accept = hc_smaller(offer->size, request->capacity);
    request->offer_kind = offer->kind;
    request->lent = offer->guard_generation != 0;
    request->guard = offer->guard;
    request->guard_generation = offer->guard_generation;
    hc_counter_add(&request->context->counters, HC_COUNTER_RNDV_RECEIVED, 1);
    if (request->peer->state == HC_PEER_FAILED) {
        hc_request_complete(request, request->peer->failure);
        return;
    }
    if (request->accept == 0) {
        end_receive(request, HCOMM_OK);
        return;
    }
    hcomm_status_t status = hc_request_assign_id(request);
    if (status != HCOMM_OK) {
        end_receive(request, status);
        return;
    }
    take_offer(request, offer);
}

/* ---- turns ---- */

static void start_transfer(struct hcomm_request *request)
{
    hc_list_remove(&request->stream_node);
    if (request->kind == HC_REQUEST_SEND) {
        begin_transfer(request);
        return;
    }
    start_receive(request, request->offer, request->offer_len);
    free(request->offer);
    request->offer = NULL;
}

unsigned hc_rndv_advance(struct hc_peer *peer)
{
    unsigned moved = 0;
    while (!hc_list_empty(&peer->rndv_waiting) && may_begin(peer)) {
        start_transfer(hc_list_entry(peer->rndv_waiting.next, struct hcomm_request, stream_node));
        moved++;
    }
    return moved + advance_streaming(peer);
}

/* ---- what arrives ---- */

static const char wrong_length[] = "its length is wrong";

/* The request a peer names by id: it must be of that kind and with that peer, and a send must be out: one
 * that is queued still has an item in the queue that refers to it. */
static struct hcomm_request *named_request(struct hc_peer *peer, uint64_t id, enum hc_request_kind kind)
{
    struct hcomm_request *request = hc_request_by_id(peer->context, id);
    if (!request || request->kind != kind || request->peer != peer)
        return NULL;
    return kind == HC_REQUEST_RECV || request->started ? request : NULL;
}

/* Back to the state before the CTS. */
static void leave_invitation(struct hcomm_request *request)
{
    hc_list_remove(&request->stream_node);
    if (request->transferring)
        request->peer->rndv_inflight--;
    request->transferring = false;
    if (request->placing)
        hc_mapped_decline(request);
    request->remote_id = 0;
    request->shared = false;
}

/* False: the invitation to share the work is left; the receiver does it alone. */
static bool accept_invitation(struct hcomm_request *request, const struct hc_wire_cts *cts, const void *rkey)
{
    if (!cts->rkey_len || request->on_device ||
        ((cts->flags & HC_CTS_FLAG_SHARE) && !may_begin(request->peer)))
        return false;
    return hc_mapped_accept(request, cts, rkey);
}

/* The message was taken back meanwhile. A receiver that is reading tells with FIN when it has stopped; else
 * nothing was fetched, and nothing need be. */
static void refuse_withdrawn(struct hcomm_request *request, const struct hc_wire_cts *cts)
{
    if (cts->flags & HC_CTS_FLAG_SHARE)
        return;
    hc_rndv_answer(request->peer, HC_WIRE_NACK, cts->recv_id, HCOMM_ERR_CANCELLED);
    hc_rndv_finish(request, HCOMM_ERR_CANCELLED);
}

/* Send what the receiver wants, or put it there, or help it. */
static void follow_cts(struct hcomm_request *request, const struct hc_wire_cts *cts, const void *rkey)
{
    if (request->lent_at && (cts->flags & HC_CTS_FLAG_SHARE)) {
        hc_lend_join(request, cts, rkey);
        return;
    }
    hc_lend_refused(request);
    request->remote_id = cts->recv_id;
    request->shared = cts->flags & HC_CTS_FLAG_SHARE;
    request->activity = hc_clock_ns();
    if (!accept_invitation(request, cts, rkey) && (cts->flags & HC_CTS_FLAG_SHARE))
        return;
    request->accept = (size_t)cts->accept;
    if (may_begin_now(request->peer))
        begin_transfer(request);
    else
        wait_for_turn(request);
}

static void take_cts(struct hcomm_request *request, const struct hc_wire_cts *cts, const void *rkey)
{
    if (request->withdrawn) {
        refuse_withdrawn(request, cts);
        return;
    }
    if (cts->accept == 0 || cts->accept > request->capacity) {
        hc_peer_malformed(request->peer, "CTS", "it asks for more than was announced, or for nothing");
        return;
    }
    if (request->shared && !request->finished)
        leave_invitation(request); /* the receiver found that it cannot copy either */
    if (request->remote_id || request->finished)
        hc_peer_unsuited(request->peer, "CTS");
    else if (!request->payload_sent) /* else this crossed it, and it ends the receive */
        follow_cts(request, cts, rkey);
}

void hc_rndv_cts_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_cts cts = {0};
    if (len >= sizeof(cts))
        (void)memcpy(&cts, data, sizeof(cts));
    if (len < sizeof(cts) || cts.rkey_len != len - sizeof(cts)) {
        hc_peer_malformed(peer, "CTS", wrong_length);
        return;
    }
    struct hcomm_request *request = named_request(peer, cts.send_id, HC_REQUEST_SEND);
    if (request)
        take_cts(request, &cts, (const uint8_t *)data + sizeof(cts));
    else /* given up meanwhile */
        hc_rndv_answer(peer, HC_WIRE_NACK, cts.recv_id, HCOMM_ERR_CANCELLED);
}

void hc_rndv_data_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_data head;
    if (len <= sizeof(head)) {
        hc_peer_malformed(peer, "DATA", wrong_length);
        return;
    }
    (void)memcpy(&head, data, sizeof(head));
    len -= sizeof(head);
    struct hcomm_request *request = named_request(peer, head.recv_id, HC_REQUEST_RECV);
    if (!request)
        return; /* given up meanwhile */
    if (head.offset > request->accept || len > request->accept - head.offset) {
        hc_peer_malformed(peer, "DATA", "it reaches beyond the message");
        return;
    }
    if (request->transferring) {
        hc_peer_unsuited(peer, "DATA");
        return;
    }
    hc_counter_add(&peer->context->counters, HC_COUNTER_BYTES_RECEIVED, len);
    if (hc_unlikely(request->on_device)) {
        hc_staged_arrive(request, (size_t)head.offset, (const uint8_t *)data + sizeof(head), len);
        return;
    }
    hc_copy((uint8_t *)request->buf + head.offset, (const uint8_t *)data + sizeof(head), len);
    request->finished += len;
    request->activity = hc_clock_ns();
    if (request->finished >= request->accept) {
        hc_mapped_learn(request);
        finish_received(request);
    }
}

void hc_rndv_placed_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_placed placed;
    if (len != sizeof(placed)) {
        hc_peer_malformed(peer, "PLACED", wrong_length);
        return;
    }
    (void)memcpy(&placed, data, sizeof(placed));
    struct hcomm_request *request = named_request(peer, placed.recv_id, HC_REQUEST_RECV);
    if (!request || (request->lent && !request->share_pool))
        return; /* given up meanwhile, or all of it comes once more */
    if (!request->share_pool) {
        hc_peer_unsuited(peer, "PLACED");
        return;
    }
    if (placed.bytes > request->accept - request->finished) {
        hc_peer_malformed(peer, "PLACED", "it tells of more than was left to place");
        return;
    }
    request->finished += (size_t)placed.bytes;
    request->activity = hc_clock_ns();
    if (request->transferring) {
        end_if_over(request);
        return;
    }
    hc_counter_add(&peer->context->counters, HC_COUNTER_BYTES_RECEIVED, placed.bytes);
    if (request->finished == request->accept)
        finish_received(request);
}

/* A peer's status is one of ours or becomes a protocol error. */
static hcomm_status_t checked_status(int32_t status)
{
    return status <= 0 && status >= HCOMM_ERR_INTERNAL ? (hcomm_status_t)status : HCOMM_ERR_PROTOCOL;
}

static void sender_answered(struct hc_peer *peer, const struct hc_wire_fin *fin)
{
    struct hcomm_request *request = named_request(peer, fin->id, HC_REQUEST_SEND);
    if (!request || (request->transferring && !request->placing))
        return; /* given up meanwhile */
    hc_counter_add(&peer->context->counters, HC_COUNTER_BYTES_SENT,
                   request->capacity - request->finished - request->placed);
    if (fin->status == HCOMM_OK)
        hc_lend_fetched(request, fin->ns);
    hc_counter_add(&peer->context->counters, HC_COUNTER_DEVICE_RDMA, request->on_device && request->mem);
    /* what has been sent after all is the receiver's, whatever became of it there */
    hc_rndv_finish(request, request->payload_sent ? HCOMM_OK : checked_status(fin->status));
}

static void receiver_refused(struct hc_peer *peer, const struct hc_wire_fin *fin)
{
    struct hcomm_request *request = named_request(peer, fin->id, HC_REQUEST_RECV);
    if (!request)
        return;
    if (!request->transferring)
        hc_rndv_finish(request, HCOMM_ERR_CANCELLED);
    else if (request->share_pool) /* a part that the sender had claimed is missing */
        transfer_failed(request, HCOMM_ERR_CANCELLED);
}

void hc_rndv_fin_arrived(struct hc_peer *peer, uint8_t wire_id, const void *data, size_t len)
{
    struct hc_wire_fin fin;
    if (len != sizeof(fin)) {
        hc_peer_malformed(peer, wire_id == HC_WIRE_NACK ? "NACK" : "FIN", wrong_length);
        return;
    }
    (void)memcpy(&fin, data, sizeof(fin));
    if (wire_id == HC_WIRE_NACK)
        receiver_refused(peer, &fin);
    else
        sender_answered(peer, &fin);
}

/* ---- taking back ---- */

/* Whether an RTS is out that the receiver has neither refused nor asked for in pieces. */
static bool is_unanswered(const struct hcomm_request *request)
{
    return request->kind == HC_REQUEST_SEND && request->id && request->started &&
           (!request->remote_id || request->shared);
}

/* The own part of the work, if both do it, ends here: parts are copied with the lock held, so none is half
 * done. */
static void send_withdraw(struct hcomm_request *request)
{
    if (request->withdrawn)
        return;
    request->withdrawn = true;
    hc_lend_end(request);
    hc_list_remove(&request->stream_node);
    if (request->transferring)
        request->peer->rndv_inflight--;
    request->transferring = false;
    hc_rndv_answer(request->peer, HC_WIRE_WITHDRAW, request->id, HCOMM_ERR_CANCELLED);
}

bool hc_rndv_withdraw(struct hcomm_request *request)
{
    if (!is_unanswered(request) || !(request->mem || request->offer_kind))
        return false;
    send_withdraw(request);
    return true;
}

/* The receive that an RTS of the peer has met and that is not over. */
static struct hcomm_request *find_receive_of(struct hc_peer *peer, uint64_t send_id)
{
    struct hcomm_context *context = peer->context;
    for (size_t i = 0; i < context->num_ids; i++) {
        struct hcomm_request *request = context->ids[i];
        if (request && request->kind == HC_REQUEST_RECV && request->peer == peer &&
            request->remote_id == send_id)
            return request;
    }
    return NULL;
}

/* What is being read goes on to its end; if that is all, the message has arrived. FIN is the answer. */
static void stop_receive(struct hcomm_request *request)
{
    if (request->ops && request->issued == request->accept)
        return;
    request->status = HCOMM_ERR_CANCELLED;
    request->issued = request->accept;
    end_if_over(request);
}

void hc_rndv_withdraw_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_fin withdraw;
    if (len != sizeof(withdraw)) {
        hc_peer_malformed(peer, "WITHDRAW", wrong_length);
        return;
    }
    (void)memcpy(&withdraw, data, sizeof(withdraw));
    struct hcomm_request *request = find_receive_of(peer, withdraw.id);
    if (request) {
        stop_receive(request);
        return;
    }
    hc_message_withdraw(peer, withdraw.id);
    hc_rndv_answer(peer, HC_WIRE_FIN, withdraw.id, HCOMM_ERR_CANCELLED);
}

/* ---- lent messages that come back as payload ---- */

void hc_rndv_payload_arrived(struct hc_peer *peer, uint64_t send_id, const void *payload, size_t size)
{
    struct hcomm_request *request = find_receive_of(peer, send_id);
    hcomm_status_t status = HCOMM_OK;
    if (!request)
        return; /* fetched, or given up meanwhile */
    if (!request->lent || request->size != size) {
        hc_peer_malformed(peer, "PAYLOAD", "it is not what was announced");
        return;
    }
    if (request->ops || request->staged) {
        hc_peer_unsuited(peer, "PAYLOAD");
        return;
    }
    if (request->on_device)
        status = hc_staged_deliver(request, payload, request->accept);
    else
        hc_copy(request->buf, payload, request->accept);
    request->finished = request->accept;
    hc_counter_add(&peer->context->counters, HC_COUNTER_BYTES_RECEIVED, request->accept);
    hc_rndv_finish(request, status == HCOMM_OK && request->accept < size ? HCOMM_ERR_TRUNCATED : status);
}

/* ---- giving up ---- */

void hc_rndv_abandon(struct hcomm_request *request)
{
    if (request->kind == HC_REQUEST_SEND && !request->id) {
        if (hc_send_unqueue(request))
            hc_request_complete(request, HCOMM_ERR_CANCELLED);
        return;
    }
    if (request->staged)
        hc_staged_quit(request);
    /* only without the ep is it certain that nothing touches the buffer any more */
    if (request->ops || hc_mapped_end(request)) {
        char detail[256];
        (void)snprintf(detail, sizeof(detail),
                       "%s stopped in the middle of a transfer of %zu bytes: given up",
                       hc_peer_name(request->peer), request->accept);
        hc_peer_fail(request->peer, HCOMM_ERR_TIMEOUT, detail);
        (void)hc_peer_progress(request->context);
        return;
    }
    if (request->kind == HC_REQUEST_SEND) {
        if (request->remote_id && !request->shared)
            hc_rndv_answer(request->peer, HC_WIRE_NACK, request->remote_id, HCOMM_ERR_CANCELLED);
        else if (is_unanswered(request))
            send_withdraw(request);
        (void)hc_send_unqueue(request);
    } else { /* a sender whose buffer was to be fetched waits for that */
        hc_rndv_answer(request->peer, HC_WIRE_FIN, request->remote_id, HCOMM_ERR_CANCELLED);
    }
    hc_rndv_finish(request, HCOMM_ERR_CANCELLED);
}

void hc_rndv_fail_peer(struct hc_peer *peer)
{
    struct hcomm_context *context = peer->context;
    for (size_t i = 0; i < context->num_ids; i++) {
        struct hcomm_request *request = context->ids[i];
        if (!request || request->peer != peer)
            continue;
        request->ops = 0; /* none comes back from a destroyed ep */
        hc_rndv_finish(request, peer->failure);
    }
}
