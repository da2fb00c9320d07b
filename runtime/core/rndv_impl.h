/* What the files of rendezvous share: rndv_send.c announces messages, rndv.c moves them. Lock held. */
#ifndef HC_RNDV_IMPL_H
#define HC_RNDV_IMPL_H

#include "runtime/core/rndv.h"

/* The transfer is over: give back id, turn, registration, remote key and what else it holds. succeeded: the
 * peer does not reach the buffer any more. */
void hc_rndv_release(struct hcomm_request *request, bool succeeded);
/* The same, and the request completes; it may be gone afterwards. */
void hc_rndv_finish(struct hcomm_request *request, hcomm_status_t status);

/* Whether the transport reaches the request's buffer itself; before there is one, it may. */
static inline bool hc_rndv_is_reached(const struct hcomm_request *request)
{
    const struct hc_iface_attr *attr = request->peer->attr;
    return hc_likely(!request->on_device) || !attr || (attr->caps & HC_CAP_DEVICE_MEM);
}

#endif
