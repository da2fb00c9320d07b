/* The end of a context: flush, meet the others, free. */
#include "runtime/core/core.h"

#include "runtime/core/device_ipc.h"
#include "runtime/core/progress.h"
#include "runtime/core/stream.h"
#include "runtime/core/transfer.h"
#include "runtime/core/wait.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LOST_PEER_GRACE_MS = 2000, /* for the final fence once it is known that somebody will not come */
    FENCE_STEP_MS = 200,
    MARK_AFTER_MS = 700, /* less than the least timeout_ms */
    ROLL_CALL_MS = 500,
};

static bool queues_are_empty(void *arg)
{
    const struct hcomm_context *context = arg;
    return hc_list_empty(&context->pending) && hc_list_empty(&context->failing);
}

/* Flushes of all eps at once. */
struct flush {
    struct hc_op op;
    bool done;
};

static void flush_done(struct hc_op *op, hcomm_status_t status)
{
    (void)status; /* a broken ep has nothing left to flush; its failure is reported on its own */
    hc_container_of(op, struct flush, op)->done = true;
}

struct flush_set {
    struct hcomm_context *context;
    struct flush *flushes; /* by rank */
};

static bool flushed(const struct flush_set *set, uint32_t rank)
{
    const struct hc_peer *peer = set->context->peers[rank];
    return !peer || peer->state != HC_PEER_READY || set->flushes[rank].done;
}

static bool all_flushed(void *arg)
{
    const struct flush_set *set = arg;
    for (uint32_t rank = 0; rank < set->context->job->size; rank++)
        if (!flushed(set, rank))
            return false;
    return true;
}

static void start_flush(struct hc_peer *peer, struct flush *flush, uint64_t deadline)
{
    flush->op.done = flush_done;
    hcomm_status_t status = peer->ops->flush(peer->ep, &flush->op);
    while (status == HCOMM_AGAIN && peer->state == HC_PEER_READY && hc_clock_ns() < deadline) {
        (void)hc_progress(peer->context);
        if (peer->state == HC_PEER_READY)
            status = peer->ops->flush(peer->ep, &flush->op);
    }
    if (status == HCOMM_AGAIN && peer->state == HC_PEER_READY)
        hc_peer_fail(peer, HCOMM_ERR_TIMEOUT, "not flushed before the deadline");
    if (status != HCOMM_IN_PROGRESS)
        flush->done = true;
}

/* The eps go, because a late done() must not write to freed memory. Returns the first rank's peer, or NULL.
 */
static const struct hc_peer *fail_unflushed(const struct flush_set *set)
{
    const struct hc_peer *first = NULL;
    for (uint32_t rank = 0; rank < set->context->job->size; rank++) {
        if (flushed(set, rank))
            continue;
        struct hc_peer *peer = set->context->peers[rank];
        hc_peer_fail(peer, HCOMM_ERR_TIMEOUT, "not flushed before the deadline");
        first = first ? first : peer;
    }
    return first;
}

static hcomm_status_t flush_eps(struct hcomm_context *context, int timeout_ms)
{
    struct flush_set set = {context, calloc(context->job->size, sizeof(struct flush))};
    if (!set.flushes)
        return hc_error(HCOMM_ERR_NO_MEMORY, "hcomm_finalize: out of memory");
    uint64_t deadline = hc_deadline_ms((unsigned)timeout_ms);
    for (uint32_t rank = 0; rank < context->job->size; rank++)
        if (context->peers[rank] && context->peers[rank]->state == HC_PEER_READY)
            start_flush(context->peers[rank], &set.flushes[rank], deadline);
    hcomm_status_t status = hc_wait(context, all_flushed, &set, NULL, timeout_ms);
    const struct hc_peer *late = fail_unflushed(&set);
    (void)hc_peer_progress(context);
    free(set.flushes);
    if (status != HCOMM_ERR_TIMEOUT)
        return status;
    return hc_error(HCOMM_ERR_TIMEOUT,
                    "hcomm_finalize: %s has not taken all messages within %d ms (setting timeout_ms)",
                    late ? hc_peer_name(late) : "a rank", timeout_ms);
}

static bool fence_is_done(void *arg)
{
    return hc_boot_op_done(arg);
}

static hcomm_status_t name_first_lost(const struct hcomm_context *context)
{
    for (uint32_t rank = 0; rank < context->job->size; rank++)
        if (context->peers[rank] && context->peers[rank]->state == HC_PEER_FAILED)
            return hc_error(HCOMM_ERR_PEER_LOST, "hcomm_finalize: %s",
                            context->peers[rank]->detail ? context->peers[rank]->detail : "a peer is lost");
    return hc_error(HCOMM_ERR_PEER_LOST, "hcomm_finalize: a peer is lost");
}

/* ---- the final fence ---- */

/* Where a rank that waits for the fence for long leaves a mark, so that whoever gives up can tell who is
 * missing. */
static const char *mark_key(const struct hcomm_context *context, char *key, size_t size)
{
    (void)snprintf(key, size, "%s.end", context->key);
    return key;
}

static void leave_mark(struct hcomm_context *context)
{
    char key[40];
    if (hc_boot_put(context->boot, mark_key(context, key, sizeof(key)), "1", 1) != HCOMM_OK)
        hc_log_debug("no mark for the final fence: %s", hc_error_detail());
}

/* Questions after the marks of all ranks. */
struct roll_call {
    struct hcomm_context *context;
    struct hc_boot_op *ops; /* by rank */
};

static bool all_answered(void *arg)
{
    const struct roll_call *call = arg;
    hc_boot_drain(call->context->boot);
    for (uint32_t rank = 0; rank < call->context->job->size; rank++)
        if (!hc_boot_op_done(&call->ops[rank]))
            return false;
    return true;
}

/* Whether the rank's mark came; ends the question. */
static bool has_mark(struct roll_call *call, uint32_t rank)
{
    struct hc_boot_op *op = &call->ops[rank];
    hc_boot_op_cancel(call->context->boot, op);
    bool marked = hc_boot_op_done(op) && op->status == HCOMM_OK;
    free(op->data);
    return marked || rank == call->context->job->rank;
}

static void list_missing(struct roll_call *call, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t rank = 0; rank < call->context->job->size; rank++) {
        if (has_mark(call, rank) || used + 16 >= size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%u", used ? ", " : "", rank);
    }
}

static void call_roll(struct roll_call *call)
{
    char key[40];
    (void)mark_key(call->context, key, sizeof(key));
    for (uint32_t rank = 0; rank < call->context->job->size; rank++)
        if (hc_boot_get(call->context->boot, rank, key, &call->ops[rank]) != HCOMM_OK)
            atomic_init(&call->ops[rank].done, 1);
    /* who has no mark by the end of this does not answer at all */
    if (hc_wait(call->context, all_answered, call, NULL, ROLL_CALL_MS) != HCOMM_OK)
        hc_log_debug("final fence: not every rank has left a mark");
}

static hcomm_status_t name_missing(struct hcomm_context *context)
{
    char missing[256] = "unknown";
    struct roll_call call = {context, calloc(context->job->size, sizeof(struct hc_boot_op))};
    if (call.ops) {
        call_roll(&call);
        list_missing(&call, missing, sizeof(missing));
        free(call.ops);
    }
    if (!*missing)
        return hc_error(
            HCOMM_ERR_TIMEOUT,
            "hcomm_finalize: every one of %u ranks has arrived, but some had given up waiting before",
            context->job->size);
    return hc_error(HCOMM_ERR_TIMEOUT,
                    "hcomm_finalize: within %d ms (setting timeout_ms) these of %u ranks did not arrive: %s",
                    context->settings.timeout_ms, context->job->size, missing);
}

/* The fence ended by itself, perhaps because the launcher's deadline came before ours. */
static hcomm_status_t judge_fence(struct hcomm_context *context, const struct hc_boot_op *op)
{
    if (op->status == HCOMM_OK)
        return HCOMM_OK;
    if (hc_context_has_lost(context))
        return name_first_lost(context);
    if (op->status == HCOMM_ERR_TIMEOUT)
        return name_missing(context);
    return hc_error(op->status, "hcomm_finalize: %s", op->reason ? op->reason : hc_status_text(op->status));
}

/* The clock is looked at between waits, because a peer may be found dead while the fence is waited for. */
static hcomm_status_t wait_for_fence(struct hcomm_context *context, struct hc_boot_op *op)
{
    uint64_t deadline = hc_deadline_ms((unsigned)context->settings.timeout_ms);
    uint64_t mark_at = hc_deadline_ms(MARK_AFTER_MS);
    bool shortened = false;
    for (;;) {
        if (hc_wait(context, fence_is_done, op, NULL, FENCE_STEP_MS) == HCOMM_OK)
            return judge_fence(context, op);
        hc_boot_drain(context->boot);
        if (hc_context_has_lost(context) && !shortened) {
            deadline = hc_deadline_ms(LOST_PEER_GRACE_MS);
            shortened = true;
        }
        uint64_t now = hc_clock_ns();
        if (now >= deadline)
            return shortened ? name_first_lost(context) : name_missing(context);
        if (now >= mark_at) {
            leave_mark(context);
            mark_at = HC_NEVER;
        }
    }
}

static hcomm_status_t fence(struct hcomm_context *context)
{
    if (context->job->size == 1)
        return HCOMM_OK;
    struct hc_boot_op op = {0};
    hcomm_status_t status = hc_boot_fence(context->boot, &op);
    if (status != HCOMM_OK)
        return status;
    status = wait_for_fence(context, &op);
    hc_boot_op_cancel(context->boot, &op);
    return status;
}

/* The first thing that went wrong, in words: what comes after it sets the thread's error, too. */
struct trouble {
    hcomm_status_t status;
    char why[512];
};

static void note(struct trouble *trouble, hcomm_status_t status)
{
    if (status == HCOMM_OK || trouble->status != HCOMM_OK)
        return;
    trouble->status = status;
    (void)snprintf(trouble->why, sizeof(trouble->why), "%s", hc_error_detail());
}

static hcomm_status_t leave(struct hcomm_context *context)
{
    int timeout_ms = context->settings.timeout_ms;
    struct trouble trouble = {.status = HCOMM_OK};
    note(&trouble, hc_streams_drain(context));
    hcomm_status_t queues = hc_wait(context, queues_are_empty, context, NULL, timeout_ms);
    if (queues == HCOMM_ERR_TIMEOUT)
        queues =
            hc_error(HCOMM_ERR_TIMEOUT, "hcomm_finalize: messages are still queued after %d ms", timeout_ms);
    note(&trouble, queues);
    context->finalizing = true;
    hc_device_imports_drop(context); /* their owners free them after the fence */
    note(&trouble, flush_eps(context, timeout_ms));
    hcomm_status_t fenced = fence(context);
    if (fenced != HCOMM_OK || trouble.status == HCOMM_OK)
        return fenced;
    return hc_error(trouble.status, "%s", trouble.why);
}

HCOMM_API hcomm_status_t hcomm_finalize(hcomm_handle_t handle)
{
    if (!handle)
        return HCOMM_OK;
    if (!hc_progress_is_registered(handle))
        return hc_error(HCOMM_ERR_INVALID,
                        "hcomm_finalize: the handle is not of a context in use; it may be finalized already");
    if (handle->forked) { /* its memory, sockets and connections are the parent's */
        hc_progress_unregister(handle);
        return hc_error(HCOMM_ERR_INVALID, "hcomm_finalize: " HC_FORKED_TEXT, handle->job->rank);
    }
    if (hc_transfers_is_callback_thread(handle))
        return hc_error(HCOMM_ERR_INVALID, "hcomm_finalize: called in the callback of a transfer");
    const struct hcomm_stream *stream = hc_workers_current();
    if (stream && stream->streams->context == handle)
        return hc_error(HCOMM_ERR_INVALID,
                        "hcomm_finalize: called in a host function of stream %u, which it would wait for",
                        stream->number);
    hcomm_status_t transfers = hc_transfers_finish(handle);
    hc_progress_thread_stop(handle);
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = leave(handle);
    hc_lock_release(&handle->lock);
    if (status == HCOMM_OK)
        status = transfers;
    hc_progress_unregister(handle);
    hc_context_destroy(handle);
    return status;
}
