/* Requests inside the core: completion, ids on the wire, waiting. Lock held unless said otherwise. */
#ifndef HC_REQUEST_H
#define HC_REQUEST_H

#include "runtime/core/core.h"

/* Whether the request is complete; also without the lock. */
static inline bool hc_request_is_complete(struct hcomm_request *request)
{
    /* acquire: partner is the release in hc_request_complete */
    return atomic_load_explicit(&request->complete, memory_order_acquire);
}

/* Describe a complete request; status may be NULL. */
void hc_request_status(const struct hcomm_request *request, hcomm_message_status_t *status);
/* Describe, set the error detail if it failed, free; returns the outcome. */
hcomm_status_t hc_request_collect(struct hcomm_request *request,
                                  hcomm_message_status_t *status) HC_MUST_CHECK;
/* Set the thread's error detail to why the request failed. */
void hc_request_explain(const struct hcomm_request *request);
/* Wait without freeing; HCOMM_ERR_TIMEOUT (with detail) leaves the request as it is. */
hcomm_status_t hc_request_wait(struct hcomm_request *request) HC_MUST_CHECK;
/* Nobody waits any more and the buffer is no longer ours: cancel a receive, abandon a send; frees when
 * possible. */
void hc_request_give_up(struct hcomm_request *request);

/* Give the request an id that peers can name; ids are not reused soon (32 bits of generation). */
hcomm_status_t hc_request_assign_id(struct hcomm_request *request) HC_MUST_CHECK;
void hc_request_release_id(struct hcomm_request *request);
/* The request with an id from a peer, NULL when there is none (any more). */
struct hcomm_request *hc_request_by_id(struct hcomm_context *context, uint64_t id);

#endif
