/* Requests: allocation, completion, and the ids that stand for them on the wire. */
#include "runtime/core/request.h"

#include "runtime/core/comm.h"
#include "runtime/core/rndv.h"
#include "runtime/core/staged.h"
#include "runtime/core/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_IDS = 64,
    WITHDRAW_MS = 1000, /* a receiver that computes for longer is not waited for */
};

struct hcomm_request *hc_request_no_memory(const struct hcomm_context *context)
{
    (void)hc_error(HCOMM_ERR_NO_MEMORY, "request: out of memory with %zu in use",
                   context->request_pool.in_use);
    return NULL;
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
    else if (hc_staged_detail(request))
        (void)hc_error(request->status, "%s with rank %d, tag %d: %s", what, request->source, request->tag,
                       hc_staged_detail(request));
    else if (hc_request_is_from_any(request) && request->status == HCOMM_ERR_PEER_LOST)
        (void)hc_comm_explain_deserted(request->comm, what, request->tag);
    else if (request->peer && request->peer->state == HC_PEER_FAILED)
        (void)hc_error(request->status, "%s: %s", what,
                       request->peer->detail ? request->peer->detail : "peer is lost");
    else if (request->status == HCOMM_ERR_CANCELLED)
        (void)hc_error(HCOMM_ERR_CANCELLED, "%s: %s", what,
                       request->cancelled ? "cancelled by the caller" : "the sender gave the message up");
    else
        (void)hc_error(
            request->status, "%s with rank %d, tag %d on communicator '%s': %s%s", what, request->source,
            request->tag, request->comm ? request->comm->name : "", hc_status_text(request->status),
            request->kind == HC_REQUEST_SEND ? ", as that rank reports; its own error tells more" : "");
}

/* "; lost: 1, 5" for a receive from any source, which goes on without them; else "". */
static const char *name_lost(const struct hcomm_request *request, char *text, size_t size)
{
    char ranks[128];
    text[0] = '\0';
    if (hc_request_is_from_any(request) && hc_comm_list_lost(request->comm, ranks, sizeof(ranks))[0])
        (void)snprintf(text, size, "; lost: %s", ranks);
    return text;
}

static bool is_complete(void *arg)
{
    return hc_request_is_complete(arg);
}

/* `more` is appended. */
static hcomm_status_t explain_timeout(const struct hcomm_request *request, const char *more)
{
    if (request->kind == HC_REQUEST_BARRIER)
        return hc_barrier_explain_timeout(request);
    const char *what = request->kind == HC_REQUEST_RECV ? "receive" : "send";
    char who[128] = "any source";
    if (request->peer)
        (void)snprintf(who, sizeof(who), "%s", hc_peer_name(request->peer));
    return hc_error(
        HCOMM_ERR_TIMEOUT,
        "%s %s %s, tag %d on communicator '%s': no progress for %d ms (setting timeout_ms); %zu of %zu bytes "
        "moved%s",
        what, request->kind == HC_REQUEST_RECV ? "from" : "to", who, request->tag, request->comm->name,
        request->context->settings.timeout_ms, request->finished, request->capacity, more);
}

hcomm_status_t hc_request_explain_timeout(const struct hcomm_request *request)
{
    char lost[160];
    return explain_timeout(request, name_lost(request, lost, sizeof(lost)));
}

/* Whose end must be noticed while this waits. */
static struct hc_peer *to_watch(const struct hcomm_request *request)
{
    if (hc_request_is_from_any(request))
        return hc_comm_next_alive(request->comm);
    return request->kind == HC_REQUEST_RECV ? request->peer : NULL;
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
        .watch = to_watch(request),
        .partner = request->peer,
    };
    hcomm_status_t status = hc_wait_for(context, &params);
    return status == HCOMM_ERR_TIMEOUT ? hc_request_explain_timeout(request) : status;
}

/* A blocking send is late: its buffer is to be the caller's again. */
static hcomm_status_t take_back(struct hcomm_request *request)
{
    if (hc_rndv_withdraw(request) &&
        hc_wait(request->context, is_complete, request, NULL, WITHDRAW_MS) != HCOMM_OK) {
        char more[256];
        (void)snprintf(more, sizeof(more),
                       "; the receiver did not confirm within %d ms that it leaves the buffer alone: keep it "
                       "unchanged until that rank has communicated again",
                       WITHDRAW_MS);
        (void)explain_timeout(request, more);
        request->orphan = true; /* with its registration, until the answer comes */
        return HCOMM_ERR_TIMEOUT;
    }
    if (!hc_request_is_complete(request)) {
        hc_request_give_up(request);
        return HCOMM_ERR_TIMEOUT;
    }
    if (request->status != HCOMM_ERR_CANCELLED)
        return hc_request_collect(request, NULL); /* the receiver had it all, or is lost */
    (void)explain_timeout(request, "; the message was withdrawn");
    hc_request_free(request);
    return HCOMM_ERR_TIMEOUT;
}

hcomm_status_t hc_request_finish(struct hcomm_request *request, hcomm_message_status_t *status)
{
    hcomm_status_t waited = hc_request_wait(request);
    if (hc_likely(waited == HCOMM_OK))
        return hc_request_collect(request, status);
    if (request->kind == HC_REQUEST_SEND)
        return take_back(request);
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
