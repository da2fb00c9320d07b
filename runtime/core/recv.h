/* Receiving: matching arrived messages with receives, and keeping those that came first. Lock held. */
#ifndef HC_RECV_H
#define HC_RECV_H

#include "runtime/core/core.h"

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
