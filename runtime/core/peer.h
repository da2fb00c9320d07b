/* Peers inside the core. Lock held. */
#ifndef HC_PEER_H
#define HC_PEER_H

#include "runtime/core/core.h"

/* The transport's upcall: an ep broke. */
void hc_core_ep_failed(void *arg, struct hc_ep *ep, hcomm_status_t status);

/* The pidfd of a peer on this host turned readable: its process ended. */
void hc_peer_died(struct hcomm_context *context, uint32_t rank);

#endif
