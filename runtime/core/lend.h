/*
 * Eager messages whose buffer is lent to the receiver instead of copied: the RTS names a guard, and a
 * receiver that matches it fetches the payload in one copy. To the sender it is an eager message still: it
 * waits for a receiver that is near, but not for one that is late. After some microseconds it sends the
 * payload (PAYLOAD), ends the guard, and has its buffer back. A receiver that was fetching meanwhile finds
 * the guard ended, and takes the payload that has come, as does one that matches later.
 *
 * Of a longer one both sides copy a part (mapped.h): the receiver invites the sender, which puts what it can
 * claim into the receiver's memory at once, and says so (PLACED). The guard covers what the receiver fetched;
 * what was put before a message is taken back arrives once more with its payload.
 *
 * The guard is a share (runtime/base/share.h) of which nothing is claimed: a word in the sender's segment
 * with a generation. A receiver looks at it after each fetch. As it covers all that is lent to a peer, all of
 * that is sent before it ends. What is lent never exceeds the eager window that is left. Lock held.
 */
#ifndef HC_LEND_H
#define HC_LEND_H

#include "runtime/core/core.h"

/* ---- sender ---- */

/* The peer is ready: from which size on messages to it may be lent; SIZE_MAX: never. */
size_t hc_lend_min(const struct hc_peer *peer);
/* Whether the next message, of that size and at least peer->lend_min, is to be lent. */
bool hc_lend_choose(struct hc_peer *peer, size_t size);
/* Its RTS is out. */
void hc_lend_begin(struct hcomm_request *request);
/* The receiver has fetched a message, lent or not; one that is lent for so long, 0: unknown. */
void hc_lend_fetched(struct hcomm_request *request, uint32_t ns);
/* The receiver of a lent message fetches, and invites to copy a part of it. */
void hc_lend_join(struct hcomm_request *request, const struct hc_wire_cts *cts, const void *rkey);
/* The receiver asks for it in pieces, if it was lent: it cannot fetch. */
void hc_lend_refused(struct hcomm_request *request);
/* It is not lent any more, if it was. */
void hc_lend_end(struct hcomm_request *request);
/* Take back what has been lent for too long; returns how many messages that were. */
unsigned hc_lend_progress(struct hcomm_context *context);
/* The peer failed. */
void hc_lend_close(struct hc_peer *peer);

/* ---- receiver ---- */

/* Whether the fetched bytes of a lent message are what was sent; if not, the payload is coming. */
bool hc_lend_is_valid(const struct hcomm_request *request);

#endif
