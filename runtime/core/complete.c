/* The public test and wait calls. */
#include "runtime/core/core.h"

#include "runtime/core/progress.h"
#include "runtime/core/request.h"
#include "runtime/core/wait.h"

static void null_status(hcomm_message_status_t *status)
{
    if (status)
        *status = (hcomm_message_status_t){.source = HCOMM_RANK_NULL, .tag = HCOMM_ANY_TAG};
}

static hcomm_message_status_t *nth(hcomm_message_status_t *statuses, size_t index)
{
    return statuses ? &statuses[index] : NULL;
}

/* Lock held; the request is complete. */
static hcomm_status_t take(hcomm_request_t *request, hcomm_message_status_t *status)
{
    struct hcomm_request *complete = *request;
    *request = HCOMM_REQUEST_NULL;
    return hc_request_collect(complete, status);
}

static hcomm_status_t check_array(const char *call, size_t n, const hcomm_request_t *requests)
{
    return n && !requests ? hc_error(HCOMM_ERR_INVALID, "%s: requests is NULL", call) : HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_test(hcomm_request_t *request, hcomm_message_status_t *status)
{
    if (!request)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_test: request is NULL");
    if (!*request) {
        null_status(status);
        return HCOMM_OK;
    }
    struct hcomm_context *context = (*request)->context;
    hcomm_status_t outcome = HCOMM_IN_PROGRESS;
    hc_lock_acquire(&context->lock);
    if (!hc_request_is_complete(*request))
        (void)hc_progress(context);
    if (hc_request_is_complete(*request)) {
        hc_push_out(context);
        outcome = take(request, status);
    }
    hc_lock_release(&context->lock);
    return outcome;
}

HCOMM_API hcomm_status_t hcomm_wait(hcomm_request_t *request, hcomm_message_status_t *status)
{
    if (!request)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_wait: request is NULL");
    if (!*request) {
        null_status(status);
        return HCOMM_OK;
    }
    struct hcomm_context *context = (*request)->context;
    hc_lock_acquire(&context->lock);
    hcomm_status_t outcome = hc_request_wait(*request);
    if (outcome == HCOMM_OK) {
        hc_push_out(context);
        outcome = take(request, status);
    }
    hc_lock_release(&context->lock);
    return outcome;
}

/* Requests of one call may belong to several contexts; each is locked for its own. */
static bool all_complete(size_t n, const hcomm_request_t *requests)
{
    for (size_t i = 0; i < n; i++)
        if (requests[i] && !hc_request_is_complete(requests[i]))
            return false;
    return true;
}

static void progress_incomplete(size_t n, const hcomm_request_t *requests)
{
    struct hcomm_context *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!requests[i] || requests[i]->context == last || hc_request_is_complete(requests[i]))
            continue;
        last = requests[i]->context;
        hc_lock_acquire(&last->lock);
        (void)hc_progress(last);
        hc_lock_release(&last->lock);
    }
}

/* Take one that is complete or null, locking its context. */
static hcomm_status_t take_locked(hcomm_request_t *request, hcomm_message_status_t *status)
{
    if (!*request) {
        null_status(status);
        return HCOMM_OK;
    }
    struct hcomm_context *context = (*request)->context;
    hc_lock_acquire(&context->lock);
    hc_push_out(context);
    hcomm_status_t outcome = take(request, status);
    hc_lock_release(&context->lock);
    return outcome;
}

/* Have the lock of `context` instead of that of `locked`; NULL: of none. Returns what is locked now. */
static inline struct hcomm_context *lock_instead(struct hcomm_context *locked, struct hcomm_context *context)
{
    if (hc_likely(locked == context))
        return locked;
    if (locked)
        hc_lock_release(&locked->lock);
    if (context)
        hc_lock_acquire(&context->lock);
    return context;
}

static hcomm_status_t take_all(size_t n, hcomm_request_t *requests, hcomm_message_status_t *statuses)
{
    struct hcomm_context *locked = NULL;
    hcomm_status_t outcome = HCOMM_OK;
    for (size_t i = 0; i < n; i++) {
        if (!requests[i]) {
            null_status(nth(statuses, i));
            continue;
        }
        if (hc_unlikely(locked != requests[i]->context)) {
            locked = lock_instead(locked, requests[i]->context);
            hc_push_out(locked);
        }
        if (hc_unlikely(take(&requests[i], nth(statuses, i)) != HCOMM_OK))
            outcome = HCOMM_ERR_IN_STATUS;
    }
    (void)lock_instead(locked, NULL);
    return outcome;
}

HCOMM_API hcomm_status_t hcomm_testall(size_t n, hcomm_request_t *requests, hcomm_message_status_t *statuses)
{
    hcomm_status_t status = check_array("hcomm_testall", n, requests);
    if (status != HCOMM_OK)
        return status;
    if (!all_complete(n, requests))
        progress_incomplete(n, requests);
    return all_complete(n, requests) ? take_all(n, requests, statuses) : HCOMM_IN_PROGRESS;
}

/* Position of the first request at or after `from` that is to be waited for; n when none is. */
static inline size_t find_incomplete(size_t n, const hcomm_request_t *requests, size_t from)
{
    while (from < n && (!requests[from] || hc_request_is_complete(requests[from])))
        from++;
    return from;
}

HCOMM_API hcomm_status_t hcomm_waitall(size_t n, hcomm_request_t *requests, hcomm_message_status_t *statuses)
{
    hcomm_status_t status = check_array("hcomm_waitall", n, requests);
    if (status != HCOMM_OK)
        return status;
    struct hcomm_context *locked = NULL;
    for (size_t i = find_incomplete(n, requests, 0); status == HCOMM_OK && i < n;
         i = find_incomplete(n, requests, i + 1)) {
        locked = lock_instead(locked, requests[i]->context);
        status = hc_request_wait(requests[i]);
    }
    (void)lock_instead(locked, NULL);
    return status == HCOMM_OK ? take_all(n, requests, statuses) : status;
}

/* Position of the first complete request at or after `from`; n when none is. Counts the non-null ones. */
static size_t find_complete(size_t n, const hcomm_request_t *requests, size_t from, size_t *active)
{
    for (size_t i = from; i < n; i++) {
        if (!requests[i])
            continue;
        (*active)++;
        if (hc_request_is_complete(requests[i]))
            return i;
    }
    return n;
}

struct any {
    size_t n;
    const hcomm_request_t *requests;
    size_t found;
};

static bool any_is_complete(void *arg)
{
    struct any *any = arg;
    size_t active = 0;
    any->found = find_complete(any->n, any->requests, 0, &active);
    return any->found < any->n || active == 0;
}

/* Whichever context the first incomplete request belongs to is the one to sleep in; others are polled. */
static struct hcomm_context *first_context(size_t n, const hcomm_request_t *requests, bool *several)
{
    struct hcomm_context *first = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!requests[i])
            continue;
        if (!first)
            first = requests[i]->context;
        *several = *several || requests[i]->context != first;
    }
    return first;
}

static hcomm_status_t wait_several_contexts(struct any *any, int timeout_ms)
{
    uint64_t deadline = hc_deadline_ms((unsigned)timeout_ms);
    while (!any_is_complete(any)) {
        progress_incomplete(any->n, any->requests);
        if (hc_clock_ns() > deadline)
            return hc_error(HCOMM_ERR_TIMEOUT,
                            "none of %zu requests completed within %d ms (setting timeout_ms)", any->n,
                            timeout_ms);
    }
    return HCOMM_OK;
}

static hcomm_status_t wait_for_any(struct any *any)
{
    if (any_is_complete(any))
        return HCOMM_OK;
    bool several = false;
    struct hcomm_context *context = first_context(any->n, any->requests, &several);
    int timeout_ms = context->settings.timeout_ms;
    if (several)
        return wait_several_contexts(any, timeout_ms);
    hc_lock_acquire(&context->lock);
    hcomm_status_t status = hc_wait(context, any_is_complete, any, NULL, timeout_ms);
    hc_lock_release(&context->lock);
    if (status == HCOMM_ERR_TIMEOUT)
        return hc_error(HCOMM_ERR_TIMEOUT, "none of %zu requests completed within %d ms (setting timeout_ms)",
                        any->n, timeout_ms);
    return status;
}

static hcomm_status_t take_any(const struct any *any, hcomm_request_t *requests, size_t *index,
                               hcomm_message_status_t *status)
{
    if (any->found == any->n) { /* all are null */
        *index = SIZE_MAX;
        null_status(status);
        return HCOMM_OK;
    }
    *index = any->found;
    return take_locked(&requests[any->found], status);
}

HCOMM_API hcomm_status_t hcomm_testany(size_t n, hcomm_request_t *requests, size_t *index,
                                       hcomm_message_status_t *status)
{
    hcomm_status_t checked = check_array("hcomm_testany", n, requests);
    if (checked != HCOMM_OK || !index)
        return checked != HCOMM_OK ? checked : hc_error(HCOMM_ERR_INVALID, "hcomm_testany: index is NULL");
    struct any any = {n, requests, n};
    if (!any_is_complete(&any))
        progress_incomplete(n, requests);
    return any_is_complete(&any) ? take_any(&any, requests, index, status) : HCOMM_IN_PROGRESS;
}

HCOMM_API hcomm_status_t hcomm_waitany(size_t n, hcomm_request_t *requests, size_t *index,
                                       hcomm_message_status_t *status)
{
    hcomm_status_t checked = check_array("hcomm_waitany", n, requests);
    if (checked != HCOMM_OK || !index)
        return checked != HCOMM_OK ? checked : hc_error(HCOMM_ERR_INVALID, "hcomm_waitany: index is NULL");
    struct any any = {n, requests, n};
    hcomm_status_t waited = wait_for_any(&any);
    return waited == HCOMM_OK ? take_any(&any, requests, index, status) : waited;
}

/* All that are complete now. */
static hcomm_status_t take_some(size_t n, hcomm_request_t *requests, size_t *count, size_t *indices,
                                hcomm_message_status_t *statuses)
{
    hcomm_status_t outcome = HCOMM_OK;
    size_t taken = 0, active = 0;
    for (size_t i = find_complete(n, requests, 0, &active); i < n;
         i = find_complete(n, requests, i + 1, &active)) {
        indices[taken] = i;
        if (take_locked(&requests[i], nth(statuses, taken)) != HCOMM_OK)
            outcome = HCOMM_ERR_IN_STATUS;
        taken++;
    }
    *count = active ? taken : SIZE_MAX;
    return outcome;
}

static hcomm_status_t check_some(const char *call, size_t n, const hcomm_request_t *requests,
                                 const size_t *count, const size_t *indices)
{
    hcomm_status_t status = check_array(call, n, requests);
    if (status == HCOMM_OK && (!count || (n && !indices)))
        return hc_error(HCOMM_ERR_INVALID, "%s: count or indices is NULL", call);
    return status;
}

HCOMM_API hcomm_status_t hcomm_testsome(size_t n, hcomm_request_t *requests, size_t *count, size_t *indices,
                                        hcomm_message_status_t *statuses)
{
    hcomm_status_t status = check_some("hcomm_testsome", n, requests, count, indices);
    if (status != HCOMM_OK)
        return status;
    progress_incomplete(n, requests);
    return take_some(n, requests, count, indices, statuses);
}

HCOMM_API hcomm_status_t hcomm_waitsome(size_t n, hcomm_request_t *requests, size_t *count, size_t *indices,
                                        hcomm_message_status_t *statuses)
{
    hcomm_status_t status = check_some("hcomm_waitsome", n, requests, count, indices);
    struct any any = {n, requests, n};
    if (status == HCOMM_OK)
        status = wait_for_any(&any);
    return status == HCOMM_OK ? take_some(n, requests, count, indices, statuses) : status;
}

HCOMM_API hcomm_status_t hcomm_cancel(hcomm_request_t request)
{
    if (!request)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_cancel: request is null");
    if (request->kind != HC_REQUEST_RECV)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "hcomm_cancel: only receives can be cancelled");
    struct hcomm_context *context = request->context;
    hc_lock_acquire(&context->lock);
    if (!hc_request_is_complete(request) && request->match.bin) {
        hc_match_unpost(&context->match, &request->match);
        request->cancelled = true;
        request->source = HCOMM_RANK_NULL;
        hc_request_complete(request, HCOMM_ERR_CANCELLED);
    }
    hc_lock_release(&context->lock);
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_request_free(hcomm_request_t *request)
{
    if (!request)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_request_free: request is NULL");
    if (!*request)
        return HCOMM_OK;
    struct hcomm_context *context = (*request)->context;
    hc_lock_acquire(&context->lock);
    if (hc_request_is_complete(*request)) {
        hc_request_free(*request);
        hc_push_out(context);
    } else { /* nobody waits for it: a transport that holds it back lets it go with this */
        (*request)->orphan = true;
        (void)hc_progress(context);
    }
    *request = HCOMM_REQUEST_NULL;
    hc_lock_release(&context->lock);
    return HCOMM_OK;
}
