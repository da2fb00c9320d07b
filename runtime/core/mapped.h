/*
 * Large messages that are copied once, straight from the sender's buffer into the receiver's, by loads and
 * stores where one of them is mapped (HC_CAP_MAP, runtime/base/arena.h), else by the kernel; the parts of
 * rendezvous that only concern it:
 *
 *   the sender's buffer can be reached: its RTS carries a key, and the receiver copies out of it;
 *   only the receiver's is mapped: its CTS carries a key, the sender copies into it and says so (PLACED);
 *   both: the receiver copies at once and invites the sender (CTS with SHARE); each claims parts from a
 *   share (runtime/base/share.h) until nothing is left.
 *
 * Lent messages (lend.h) take the last way, too; their sender copies what it can claim when the invitation
 * comes.
 *
 * The share belongs to the receive: when that ends or is given up, closing it keeps the sender from claiming
 * more. Lock held.
 */
#ifndef HC_MAPPED_H
#define HC_MAPPED_H

#include "runtime/core/core.h"

struct hc_mapped_cts {
    struct hc_wire_cts head;
    uint8_t rkey[HC_RKEY_MAX];
};

/* Whether a buffer is worth, and capable of, being reached by the peer's loads and stores. */
static inline bool hc_mapped_offers(const struct hc_peer *peer, const void *buf, size_t size)
{
    const struct hc_iface_attr *attr = peer->attr;
    return attr && (attr->caps & HC_CAP_MAP) && size >= attr->map_min && hc_arena_find(buf, size);
}

/* RECV with a remote key: whether the sender shall copy a part, too. */
bool hc_mapped_shares(const struct hcomm_request *request);

/* RECV with a remote key: the way to take, where one copy by the kernel and pieces compete. */
enum hc_way hc_mapped_choose(struct hcomm_request *request);
/* RECV: all of it is there: remember how long it took. */
void hc_mapped_learn(struct hcomm_request *request);

/* Whether the request's remote key leads to memory that is mapped here. */
bool hc_mapped_is_direct(const struct hcomm_request *request);

/* RECV: open a share, and describe it and the buffer, which request->mem registers, in the CTS.
 * cts->head.flags is set by the caller. False: not possible now. */
bool hc_mapped_invite(struct hcomm_request *request, struct hc_mapped_cts *cts);
/* SEND: a CTS offers the receiver's memory; everything in it is checked. False: it cannot be used. */
bool hc_mapped_accept(struct hcomm_request *request, const struct hc_wire_cts *cts, const void *rkey);

/* SEND: undo hc_mapped_accept(). */
void hc_mapped_decline(struct hcomm_request *request);

/* Claim a part, and copy it; *size is 0 when nothing is left to claim. */
hcomm_status_t hc_mapped_copy_part(struct hcomm_request *request, size_t *size) HC_MUST_CHECK;

/* The transfer is over, given up, or never began; its time is not remembered any more. True: the sender may
 * be copying its last part into the buffer at this moment. */
bool hc_mapped_end(struct hcomm_request *request);

#endif
