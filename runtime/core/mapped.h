/*
 * Large messages through mapped memory (runtime/base/arena.h, HC_CAP_MAP), the parts of rendezvous that only
 * concern it:
 *
 *   the sender's buffer is mapped: its RTS carries a key, the receiver copies straight out of it;
 *   the receiver's is: its CTS carries a key, the sender copies straight into it and says so (PLACED);
 *   both are: the receiver copies at once and invites the sender (CTS with SHARE). Each claims parts from a
 *   word in the receiver's arena until nothing is left: who is late, or computes, just claims less.
 *
 * The share belongs to the receive: when that ends or is given up, closing it keeps the sender from claiming
 * more. Lock held.
 */
#ifndef HC_MAPPED_H
#define HC_MAPPED_H

#include "runtime/core/core.h"

enum { HC_SHARED_MIN = 128 * 1024 }; /* bytes from which two copy faster than one; measured */

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

/* Whether the request's remote key leads to memory that is mapped here. */
bool hc_mapped_is_direct(const struct hcomm_request *request);

/* RECV: open a share of the own buffer's arena and describe it and the buffer, which request->mem registers,
 * in the CTS. cts->head.flags is set by the caller. False: not possible now. */
bool hc_mapped_invite(struct hcomm_request *request, struct hc_mapped_cts *cts);
/* SEND: a CTS offers the receiver's memory; everything in it is checked. False: it cannot be used. */
bool hc_mapped_accept(struct hcomm_request *request, const struct hc_wire_cts *cts, const void *rkey);

/* Claim a part, and copy it; *size is 0 when nothing is left to claim. */
hcomm_status_t hc_mapped_copy_part(struct hcomm_request *request, size_t *size) HC_MUST_CHECK;

/* The transfer is over, given up, or never began. True: the sender may be copying its last part into the
 * buffer at this moment. */
bool hc_mapped_end(struct hcomm_request *request);

#endif
