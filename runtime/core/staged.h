/*
 * Messages in device memory. How they travel:
 *
 *   small                    copied to pinned host memory, then like any small message; at the other side
 *                            copied to the device
 *   within a process         one copy by the device
 *   both on devices of one   the sender exports its memory, the receiver imports it and has its device copy
 *   host                     it; if that is denied, in pieces
 *   everything else          in pieces: the sender's device copies them to pinned memory and they travel as
 *                            DATA, the receiver gathers them in pinned memory and its device copies them on;
 *                            several are under way at a time, so that device and wire work at the same time
 *
 * A request with device memory has on_device set, and a struct hc_staged as soon as it needs one. The rest of
 * the rendezvous is rndv.c's. Pieces of pinned memory come from the device's pool (staging.h), which neither
 * grows nor shrinks in steady state. Lock held.
 */
#ifndef HC_STAGED_H
#define HC_STAGED_H

#include "runtime/core/core.h"
#include "runtime/core/rndv.h"

/* Whether a buffer is in device memory; only for contexts with a device. HCOMM_ERR_INVALID as
 * hc_device_locate(). */
hcomm_status_t hc_staged_look(struct hcomm_context *context, const void *buf, size_t size,
                              bool *on_device) HC_MUST_CHECK;
/* hc_send_start() of a context with a device: finds out what the buffer is. */
hcomm_status_t hc_staged_send(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                              int dest, int tag, bool sync, struct hcomm_request **request) HC_MUST_CHECK;

/*
 * The sender's part of an RTS: what the receiver may fetch by other means than an rkey. Writes at most room
 * bytes; returns their number, 0 when there is nothing to offer. *kind: enum hc_offer.
 */
size_t hc_staged_offer(struct hcomm_request *request, void *bytes, size_t room, uint32_t *kind);
/* Whether a receive can fetch an offer that is no rkey. */
bool hc_staged_can_fetch(const struct hcomm_request *request, const struct hc_rndv_offer *offer);
/* Start to. HCOMM_AGAIN: that is impossible, ask for pieces; an error: the receive has failed, which is
 * noted. */
hcomm_status_t hc_staged_fetch(struct hcomm_request *request, const void *bytes, size_t len) HC_MUST_CHECK;

/* Move a request of peer->streaming on; it may be gone afterwards. Returns how much moved. */
unsigned hc_staged_advance(struct hcomm_request *request);
/* A piece has arrived; offset and len are checked. */
void hc_staged_arrive(struct hcomm_request *request, size_t offset, const void *data, size_t len);
/* Copy a small message to the device memory of a receive, now; notes an error. */
hcomm_status_t hc_staged_deliver(struct hcomm_request *request, const void *payload,
                                 size_t size) HC_MUST_CHECK;

/* Why the transfer failed, in words; NULL when nothing did. */
const char *hc_staged_detail(const struct hcomm_request *request);
/* The transfer is over, or given up: no copy touches its memory after this. */
void hc_staged_end(struct hcomm_request *request);
/* The same, but leaves alone what the transport still reads. */
void hc_staged_quit(struct hcomm_request *request);
/* The request is complete: the piece that held its payload is free. */
void hc_staged_complete(struct hcomm_request *request);
/* The request is freed. */
void hc_staged_free(struct hcomm_request *request);

/* With the device; fini: nothing is in flight. */
struct hc_device;
hcomm_status_t hc_staged_init(struct hc_device *device) HC_MUST_CHECK;
void hc_staged_fini(struct hc_device *device);

#endif
