/* Requests: allocation, completion, and the ids that stand for them on the wire. */
#include "runtime/core/request.h"

#include "runtime/core/rndv.h"
#include "runtime/core/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_IDS = 64 };

struct hcomm_request *hc_request_new(struct hcomm_comm *comm, enum hc_request_kind kind)
{
    struct hcomm_context *context = comm->context;
    struct hcomm_request *request = hc_pool_get(&context->request_pool);
    if (hc_unlikely(!request)) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "request: out of memory with %zu in use",
                       context->request_pool.in_use);
        return NULL;
    }
    (void)memset(request, 0, sizeof(*request));
    request->kind = kind;
    request->context = context;
    request->comm = comm;
    comm->busy++;
    return request;
}

void hc_request_free(struct hcomm_request *request)
{
    if (request->immortal)
        return;
    hc_pool_put(&request->context->request_pool, request);
}

void hc_request_complete(struct hcomm_request *request, hcomm_status_t status)
{
    struct hcomm_context *context = request->context;
    hc_assert(!atomic_load_explicit(&request->complete, memory_order_relaxed));
    request->status = status;
    request->comm->busy--;
    bool orphan = request->orphan;
    /* release: partner is the acquire in hc_request_is_complete; everything about the request is written */
    atomic_store_explicit(&request->complete, true, memory_order_release);
    if (context->sleepers)
        hc_wake_sleepers(context);
    if (orphan)
        hc_request_free(request);
}

void hc_request_status(const struct hcomm_request *request, hcomm_message_status_t *status)
{
    if (!status)
        return;
    *status = (hcomm_message_status_t){
        .source = request->kind == HC_REQUEST_RECV ? request->source : HCOMM_RANK_NULL,
        .tag = request->kind == HC_REQUEST_RECV ? request->tag : HCOMM_ANY_TAG,
        .size = request->kind == HC_REQUEST_RECV ? request->size : 0,
        .error = request->status,
        .cancelled = request->cancelled,
    };
}

static bool grow_ids(struct hcomm_context *context)
{
    size_t old = context->num_ids;
    size_t count = old ? old * 2 : FIRST_IDS;
    struct hcomm_request **ids = realloc(context->ids, count * sizeof(struct hcomm_request *));
    if (!ids)
        return false;
    context->ids = ids;
    uint32_t *generation = realloc(context->id_generation, count * sizeof(uint32_t));
    if (!generation)
        return false;
    context->id_generation = generation;
    uint32_t *next = realloc(context->id_next, count * sizeof(uint32_t));
    if (!next)
        return false;
    context->id_next = next;
    for (size_t i = count; i-- > old;) {
        ids[i] = NULL;
        generation[i] = 1;
        next[i] = context->free_id;
        context->free_id = (uint32_t)i + 1;
    }
    context->num_ids = count;
    return true;
}

hcomm_status_t hc_request_assign_id(struct hcomm_request *request)
{
    struct hcomm_context *context = request->context;
    if (!context->free_id && !grow_ids(context))
        return hc_error(HCOMM_ERR_NO_MEMORY, "request id: out of memory with %zu in use", context->num_ids);
    uint32_t slot = context->free_id - 1;
    context->free_id = context->id_next[slot];
    context->ids[slot] = request;
    request->id = ((uint64_t)context->id_generation[slot] << 32) | (slot + 1);
    return HCOMM_OK;
}

void hc_request_release_id(struct hcomm_request *request)
{
    if (!request->id)
        return;
    struct hcomm_context *context = request->context;
    uint32_t slot = (uint32_t)request->id - 1;
    context->ids[slot] = NULL;
    context->id_generation[slot]++;
    context->id_next[slot] = context->free_id;
    context->free_id = slot + 1;
    request->id = 0;
}

struct hcomm_request *hc_request_by_id(struct hcomm_context *context, uint64_t id)
{
    uint32_t slot = (uint32_t)id - 1;
    if (slot >= context->num_ids || !context->ids[slot] || context->ids[slot]->id != id)
        return NULL;
    return context->ids[slot];
}

hcomm_status_t hc_request_collect(struct hcomm_request *request, hcomm_message_status_t *status)
{
    hcomm_status_t outcome = request->status;
    hc_request_status(request, status);
    if (hc_unlikely(outcome < 0))
        hc_request_explain(request);
    hc_request_free(request);
    return outcome;
}

void hc_request_explain(const struct hcomm_request *request)
{
    const char *what = request->kind == HC_REQUEST_RECV   ? "receive"
                       : request->kind == HC_REQUEST_SEND ? "send"
                                                          : "barrier";
    if (request->context->forked)
        (void)hc_error(request->status, "%s: " HC_FORKED_TEXT, what, request->context->job->rank);
    else if (request->status == HCOMM_ERR_TRUNCATED)
        (void)hc_error(HCOMM_ERR_TRUNCATED,
                       "receive: message from rank %d with tag %d has %zu bytes, room is for %zu",
                       request->source, request->tag, request->size, request->capacity);
    else if (request->peer && request->peer->state == HC_PEER_FAILED)
        (void)hc_error(request->status, "%s: %s", what,
                       request->peer->detail ? request->peer->detail : "peer is lost");
    else if (request->status == HCOMM_ERR_CANCELLED)
        (void)hc_error(HCOMM_ERR_CANCELLED, "%s: %s", what,
                       request->cancelled ? "cancelled by the caller" : "the sender gave the message up");
    else
        (void)hc_error(request->status, "%s with rank %d, tag %d on communicator '%s': %s", what,
                       request->source, request->tag, request->comm ? request->comm->name : "",
                       hc_status_text(request->status));
}

static bool is_complete(void *arg)
{
    return hc_request_is_complete(arg);
}

static hcomm_status_t explain_timeout(const struct hcomm_request *request)
{
    const char *what = request->kind == HC_REQUEST_RECV   ? "receive"
                       : request->kind == HC_REQUEST_SEND ? "send"
                                                          : "barrier";
    char who[128] = "any source";
    if (request->peer)
        (void)snprintf(who, sizeof(who), "%s", hc_peer_name(request->peer));
    return hc_error(
        HCOMM_ERR_TIMEOUT,
        "%s %s %s, tag %d on communicator '%s': no progress for %d ms (setting timeout_ms); %zu of %zu bytes "
        "moved",
        what, request->kind == HC_REQUEST_RECV ? "from" : "to", who, request->tag, request->comm->name,
        request->context->settings.timeout_ms, request->finished, request->capacity);
}

hcomm_status_t hc_request_wait(struct hcomm_request *request)
{
    if (hc_request_is_complete(request))
        return HCOMM_OK;
    struct hcomm_context *context = request->context;
    const struct hc_wait_params params = {
        .done = is_complete,
        .arg = request,
        .activity = &request->activity,
        .timeout_ms = context->settings.timeout_ms,
        .watch = request->kind == HC_REQUEST_RECV ? request->peer : NULL,
    };
    hcomm_status_t status = hc_wait_for(context, &params);
    if (status != HCOMM_ERR_TIMEOUT)
        return status;
    if (request->kind == HC_REQUEST_BARRIER)
        return hc_barrier_explain_timeout(request);
    return explain_timeout(request);
}

hcomm_status_t hc_request_finish(struct hcomm_request *request, hcomm_message_status_t *status)
{
    hcomm_status_t waited = hc_request_wait(request);
    if (hc_likely(waited == HCOMM_OK))
        return hc_request_collect(request, status);
    hc_request_give_up(request);
    if (status)
        *status = (hcomm_message_status_t){.source = HCOMM_RANK_NULL, .tag = HCOMM_ANY_TAG, .error = waited};
    return waited;
}

void hc_request_give_up(struct hcomm_request *request)
{
    request->orphan = true;
    if (request->kind == HC_REQUEST_BARRIER)
        return; /* stays queued: the others may still complete it */
    if (request->kind == HC_REQUEST_RECV && request->match.bin) {
        hc_match_unpost(&request->context->match, &request->match);
        hc_request_complete(request, HCOMM_ERR_CANCELLED);
        return;
    }
    hc_rndv_abandon(request);
}
