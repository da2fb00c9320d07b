/*
 * One piece of a transfer: what the sender sends of its buffer, or the receiver gets of it, in one operation
 * of the transport, from where the one before ended. Lock held.
 */
#ifndef HC_PIECES_H
#define HC_PIECES_H

#include "runtime/core/core.h"

/* A piece of that size that was under way, counted in request->ops until now, is over. */
typedef void (*hc_piece_done_fn)(struct hcomm_request *request, size_t size, hcomm_status_t status);

/* The next piece of a message that is received by get: its size is set, also when it fails.
 * HCOMM_IN_PROGRESS: done() follows, and the caller counts it; HCOMM_AGAIN: not now. */
hcomm_status_t hc_piece_get(struct hcomm_request *request, hc_piece_done_fn done, size_t *size) HC_MUST_CHECK;
/* The same, or of a message that is sent: sent as the transport does best. */
hcomm_status_t hc_piece_issue(struct hcomm_request *request, hc_piece_done_fn done,
                              size_t *size) HC_MUST_CHECK;

#endif
