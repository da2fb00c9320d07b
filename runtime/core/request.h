/* Requests inside the core: completion, ids on the wire, waiting. Lock held unless said otherwise. */
#ifndef HC_REQUEST_H
#define HC_REQUEST_H

#include "runtime/core/core.h"

#include <string.h>

/* In staged.h. */
void hc_staged_complete(struct hcomm_request *request);
void hc_staged_free(struct hcomm_request *request);

/* Sets the error detail; NULL. */
struct hcomm_request *hc_request_no_memory(const struct hcomm_context *context) HC_COLD;

/* All of a request that is set anew for each operation, up to its end here. */
_Static_assert(offsetof(struct hcomm_request, stream_node) == 2 * sizeof(int) + 8 + 12 * sizeof(void *),
               "hc_request_new() sets every field before stream_node");

/*
 * A zeroed request of the communicator; NULL (with an error detail) when memory is exhausted. Field by field:
 * most are overwritten at once, and the compiler then leaves them out, which it does not with a memset. Where
 * a receive is posted means nothing as long as it has no bin.
 */
static inline struct hcomm_request *hc_request_new(struct hcomm_comm *comm, enum hc_request_kind kind)
{
    struct hcomm_context *context = comm->context;
    struct hcomm_request *request = hc_pool_get(&context->request_pool);
    if (hc_unlikely(!request))
        return hc_request_no_memory(context);
    comm->busy++;
    request->kind = kind;
    atomic_init(&request->complete, false);
    request->orphan = request->cancelled = request->immortal = false;
    request->on_device = request->light = false;
    request->status = HCOMM_OK;
    request->context = context;
    request->comm = comm;
    request->peer = NULL;
    request->source = request->tag = 0;
    request->size = request->capacity = request->finished = 0;
    request->buf = NULL;
    request->match.bin = NULL;
    return request;
}

static inline void hc_request_free(struct hcomm_request *request)
{
    if (request->immortal)
        return;
    if (hc_unlikely(!request->light)) {
        if (hc_unlikely(request->staged != NULL))
            hc_staged_free(request);
        (void)memset(&request->stream_node, 0,
                     sizeof(*request) - offsetof(struct hcomm_request, stream_node));
    }
    hc_pool_put(&request->context->request_pool, request);
}

/* Mark complete; frees an orphan. */
static inline void hc_request_complete(struct hcomm_request *request, hcomm_status_t status)
{
    struct hcomm_context *context = request->context;
    hc_assert(!atomic_load_explicit(&request->complete, memory_order_relaxed));
    request->status = status;
    if (hc_unlikely(!request->light && request->staged))
        hc_staged_complete(request);
    request->comm->busy--;
    bool orphan = request->orphan;
    /* release: partner is the acquire in hc_request_is_complete; everything about the request is written */
    atomic_store_explicit(&request->complete, true, memory_order_release);
    if (hc_unlikely(context->sleepers))
        hc_wake_sleepers(context);
    if (hc_unlikely(orphan))
        hc_request_free(request);
}

/* Whether completing the request, a light one, takes no more than hc_request_complete_light(). */
static inline bool hc_request_may_complete_light(const struct hcomm_request *request)
{
    return !request->orphan && !request->context->sleepers;
}

/* Mark a light request complete that has succeeded. */
static inline void hc_request_complete_light(struct hcomm_request *request)
{
    hc_assert(!atomic_load_explicit(&request->complete, memory_order_relaxed));
    hc_assert(request->status == HCOMM_OK);
    request->light = true;
    request->comm->busy--;
    /* release: as in hc_request_complete */
    atomic_store_explicit(&request->complete, true, memory_order_release);
}

/* Whether the request is complete; also without the lock. */
static inline bool hc_request_is_complete(struct hcomm_request *request)
{
    /* acquire: partner is the release in hc_request_complete */
    return atomic_load_explicit(&request->complete, memory_order_acquire);
}

/* A receive from any source that has met no message. */
static inline bool hc_request_is_from_any(const struct hcomm_request *request)
{
    return request->kind == HC_REQUEST_RECV && !request->peer && request->source == HCOMM_ANY_SOURCE;
}

/* Describe a complete request; status may be NULL. */
void hc_request_status(const struct hcomm_request *request, hcomm_message_status_t *status);
/* Set the thread's error detail to why the request failed. */
void hc_request_explain(const struct hcomm_request *request);
/* Set the thread's error detail to what did not come within timeout_ms, and from whom; HCOMM_ERR_TIMEOUT. */
hcomm_status_t hc_request_explain_timeout(const struct hcomm_request *request);

/* Describe, set the error detail if it failed, free; returns the outcome. */
static inline hcomm_status_t hc_request_collect(struct hcomm_request *request, hcomm_message_status_t *status)
{
    hcomm_status_t outcome = request->status;
    if (status)
        hc_request_status(request, status);
    if (hc_unlikely(outcome < 0))
        hc_request_explain(request);
    hc_request_free(request);
    return outcome;
}

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
