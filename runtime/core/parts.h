/*
 * Messages that are received while they are still being sent: the transport tells of every part
 * (hc_iface_params.am_part), and it goes straight to the receive's buffer. An eager message whose receive is
 * posted becomes a receive in pieces, like one by rendezvous, only that nobody had to ask for them: so it has
 * an id, fails with its peer and can be given up. What is not expected comes as a whole. Lock held.
 */
#ifndef HC_PARTS_H
#define HC_PARTS_H

#include "runtime/core/core.h"

/* Upcall of the transports. */
bool hc_core_am_part(void *arg, uint32_t from, uint8_t id, const void *data, size_t ready, size_t len);

#endif
