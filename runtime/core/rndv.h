/*
 * Rendezvous: the sender announces a message (RTS), the receiver that matches it either fetches it with RMA
 * gets and says so (FIN), or asks for it in pieces (CTS, DATA…). Lock held.
 */
#ifndef HC_RNDV_H
#define HC_RNDV_H

#include "runtime/core/core.h"

/* What an RTS offers, checked. */
struct hc_rndv_offer {
    size_t size;
    uint64_t send_id;
    uint64_t address;
    const void *rkey; /* NULL: pieces only */
    size_t rkey_len;
    uint32_t kind;                    /* enum hc_offer */
    uint32_t guard, guard_generation; /* of a lent message (lend.h); generation 0: it is not */
};

/* A send that got an id but is not started will not be: give the id back. */
void hc_rndv_forget(struct hcomm_request *request);
/* Announce the request's message; HCOMM_AGAIN: not now. */
hcomm_status_t hc_rndv_send_rts(struct hcomm_request *request,
                                const struct hc_wire_match *match) HC_MUST_CHECK;
/* Announce a message whose buffer is lent; the peer's guard is open. HCOMM_AGAIN: not now. */
hcomm_status_t hc_rndv_lend(struct hcomm_request *request, const struct hc_wire_match *match) HC_MUST_CHECK;
/* A lent message is taken back, its payload sent: the request is over. */
void hc_rndv_end_lent(struct hcomm_request *request);
/* Send a small message that is to be acknowledged at match; HCOMM_AGAIN: not now. */
hcomm_status_t hc_rndv_send_eager_sync(struct hcomm_request *request,
                                       const struct hc_wire_match *match) HC_MUST_CHECK;
/* Announce a message whose payload is copied here and freed when it has left; nobody waits for it. */
hcomm_status_t hc_rndv_send_owned(struct hc_peer *peer, const struct hc_wire_match *match,
                                  const void *payload, size_t size) HC_MUST_CHECK;

/* A matched receive takes an offer: request->size, source, tag are set already. */
void hc_rndv_receive(struct hcomm_request *request, const struct hc_rndv_offer *offer);

/* Tell a sender how its message ended: HC_WIRE_FIN, HC_WIRE_SYNC_ACK or HC_WIRE_NACK with `id` of the other
 * side. */
void hc_rndv_answer(struct hc_peer *peer, uint8_t wire_id, uint64_t id, hcomm_status_t status);

/* Arrived answers and pieces; everything in them is checked. */
void hc_rndv_cts_arrived(struct hc_peer *peer, const void *data, size_t len);
void hc_rndv_placed_arrived(struct hc_peer *peer, const void *data, size_t len);
void hc_rndv_data_arrived(struct hc_peer *peer, const void *data, size_t len);
void hc_rndv_fin_arrived(struct hc_peer *peer, uint8_t wire_id, const void *data, size_t len);

/* The payload of a lent message has come, which the receive takes that its RTS has met, if it is not over. */
void hc_rndv_payload_arrived(struct hc_peer *peer, uint64_t send_id, const void *payload, size_t size);

/*
 * Take back a message that the receiver has not answered. True: its buffer is offered to the receiver, which
 * has been asked to leave it alone; the request completes with the receiver's answer, HCOMM_OK when it had
 * fetched all, HCOMM_ERR_CANCELLED when it will not touch the buffer any more. False: nobody reads the
 * buffer.
 */
bool hc_rndv_withdraw(struct hcomm_request *request);
/* The peer takes a message back. */
void hc_rndv_withdraw_arrived(struct hc_peer *peer, const void *data, size_t len);

/* Move transfers of this peer on; returns how much moved. */
unsigned hc_rndv_advance(struct hc_peer *peer);
/* The request ends if it is over: failed, or all moved, and no operation left. It may be gone afterwards. */
void hc_rndv_end_if_over(struct hcomm_request *request);
/* The buffer is no longer ours: leave the transfer. Frees the orphaned request when nothing refers to it any
 * more. */
void hc_rndv_abandon(struct hcomm_request *request);
/* The peer failed and its ep is gone: complete its transfers with its failure. */
void hc_rndv_fail_peer(struct hc_peer *peer);

#endif
