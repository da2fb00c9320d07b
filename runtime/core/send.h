/* Sending: eager, gathered (SMALL_MSG), and the per-peer queues behind them. Lock held. */
#ifndef HC_SEND_H
#define HC_SEND_H

#include "runtime/core/core.h"

/* What an eager message costs of the receiver's window beside its payload: the record that keeps it. */
enum { HC_EAGER_OVERHEAD = 64 };

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
