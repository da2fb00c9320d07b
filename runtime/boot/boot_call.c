/* Operations in flight: completion from any thread, cancellation, deadlines, and the descriptor that tells.
 */
#include "runtime/boot/boot_impl.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Pauses between gets that found nothing: doubling from 1 ms to 64 ms. */
enum { RETRY_FIRST_MS = 1, RETRY_DOUBLINGS = 6 };

hcomm_status_t hc_boot_base_init(struct hc_boot *boot, const struct hc_boot_ops *ops, int timeout_ms)
{
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer < 0)
        return hc_error(HCOMM_ERR_LIMIT, "timerfd_create for the bootstrap: %s", hc_errno_text(errno));
    *boot = (struct hc_boot){.ops = ops, .timeout_ms = timeout_ms, .timer = timer, .armed = HC_NEVER};
    hc_lock_init(&boot->lock);
    hc_list_init(&boot->calls);
    return HCOMM_OK;
}

/* The lock is held. A new setting also takes back earlier readiness. */
static void set_timer(struct hc_boot *boot, uint64_t when)
{
    struct itimerspec spec = {0};
    if (when != HC_NEVER) {
        uint64_t at = when > 0 ? when : 1; /* zero would disarm */
        spec.it_value.tv_sec = (time_t)(at / UINT64_C(1000000000));
        spec.it_value.tv_nsec = (long)(at % UINT64_C(1000000000));
    }
    /* Fails for bad arguments only, which these are not. */
    (void)timerfd_settime(boot->timer, TFD_TIMER_ABSTIME, &spec, NULL);
    boot->armed = when;
}

void hc_boot_signal(struct hc_boot *boot)
{
    hc_lock_acquire(&boot->lock);
    if (!boot->signalled) {
        boot->signalled = true;
        set_timer(boot, 0);
    }
    hc_lock_release(&boot->lock);
}

static void arm_timer(struct hc_boot *boot, uint64_t when)
{
    hc_lock_acquire(&boot->lock);
    if (!boot->signalled && when < boot->armed)
        set_timer(boot, when);
    hc_lock_release(&boot->lock);
}

static void drop_call(struct hc_boot_call *call)
{
    /* acq_rel: the last one sees all that the others did */
    if (atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) == 1)
        free(call);
}

static void forget_call(struct hc_boot_call *call)
{
    hc_list_remove(&call->link);
    drop_call(call);
}

/* The call's lock is held. False: the op is not interested any more. */
static bool finish_op(struct hc_boot_call *call, hcomm_status_t status, const char *reason, void *data,
                      size_t size)
{
    struct hc_boot_op *op = call->op;
    if (!op)
        return false;
    call->op = NULL;
    op->status = status;
    op->reason = reason;
    op->data = data;
    op->size = size;
    /* release: partner is the acquire in hc_boot_op_done */
    atomic_store_explicit(&op->done, 1, memory_order_release);
    return true;
}

void hc_boot_call_complete(struct hc_boot_call *call, hcomm_status_t status, const char *reason, void *data,
                           size_t size)
{
    hc_lock_acquire(&call->lock);
    bool wanted = finish_op(call, status, reason, data, size);
    if (wanted)
        hc_boot_signal(call->boot); /* under the lock: closing the boot waits for it */
    hc_lock_release(&call->lock);
    if (!wanted)
        free(data);
    drop_call(call);
}

void hc_boot_call_retry_later(struct hc_boot_call *call)
{
    hc_lock_acquire(&call->lock);
    if (call->op) {
        unsigned doublings = call->retries < RETRY_DOUBLINGS ? call->retries : RETRY_DOUBLINGS;
        call->retry_at = hc_deadline_ms((unsigned)RETRY_FIRST_MS << doublings);
        call->retries++;
        arm_timer(call->boot, call->retry_at);
    }
    hc_lock_release(&call->lock);
    drop_call(call);
}

static hcomm_status_t issue(struct hc_boot_call *call)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed); /* the list's is held: no partner */
    hcomm_status_t status = call->boot->ops->issue(call->boot, call);
    if (status != HCOMM_OK)
        drop_call(call);
    return status;
}

hcomm_status_t hc_boot_call_start(struct hc_boot *boot, struct hc_boot_op *op, uint32_t rank, const char *key)
{
    struct hc_boot_call *call = calloc(1, sizeof(*call));
    if (!call)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a bootstrap operation");
    *op = (struct hc_boot_op){.impl = call};
    hc_lock_init(&call->lock);
    atomic_init(&call->refs, 1);
    call->boot = boot;
    call->op = op;
    call->retry_at = HC_NEVER;
    call->deadline = hc_deadline_ms((unsigned)boot->timeout_ms);
    call->fence = !key;
    call->rank = rank;
    if (key)
        (void)strncpy(call->key, key, sizeof(call->key) - 1);
    hc_list_append(&boot->calls, &call->link);
    hcomm_status_t status = issue(call);
    if (status != HCOMM_OK)
        forget_call(call);
    else
        arm_timer(boot, call->deadline);
    return status;
}

void hc_boot_op_cancel(struct hc_boot *boot, struct hc_boot_op *op)
{
    (void)boot;
    if (hc_boot_op_done(op))
        return; /* op->impl may be gone; nothing touches a done op */
    struct hc_boot_call *call = op->impl;
    hc_lock_acquire(&call->lock);
    call->op = NULL;
    hc_lock_release(&call->lock);
    forget_call(call);
}

/* What is to be done with a pending call now; with the lock held, so that nobody completes it meanwhile. */
enum action { KEEP, FORGET, ISSUE };

static enum action judge_call(struct hc_boot_call *call, bool server_lost, uint64_t now)
{
    if (call->op && server_lost)
        (void)finish_op(call, HCOMM_ERR_BOOTSTRAP, "the launcher's PMIx server is gone", NULL, 0);
    else if (call->op && now >= call->deadline)
        (void)finish_op(call, HCOMM_ERR_TIMEOUT, "the deadline passed without an answer", NULL, 0);
    if (!call->op)
        return FORGET;
    if (now < call->retry_at)
        return KEEP;
    call->retry_at = HC_NEVER;
    return ISSUE;
}

static uint64_t next_time(struct hc_boot_call *call)
{
    hc_lock_acquire(&call->lock);
    uint64_t when = call->retry_at < call->deadline ? call->retry_at : call->deadline;
    hc_lock_release(&call->lock);
    return when;
}

static void issue_again(struct hc_boot_call *call)
{
    hcomm_status_t status = issue(call);
    if (status == HCOMM_OK)
        return;
    hc_lock_acquire(&call->lock);
    (void)finish_op(call, status, "asking the PMIx server again failed", NULL, 0);
    hc_lock_release(&call->lock);
}

/* Expire, repeat and clear calls; returns when the next one needs attention. */
static uint64_t tend_calls(struct hc_boot *boot, uint64_t now)
{
    bool server_lost = boot->losses && atomic_load_explicit(&boot->losses->server, memory_order_acquire);
    uint64_t next = HC_NEVER;
    struct hc_list *node, *tmp;
    hc_list_for_each_safe(node, tmp, &boot->calls)
    {
        struct hc_boot_call *call = hc_list_entry(node, struct hc_boot_call, link);
        hc_lock_acquire(&call->lock);
        enum action action = judge_call(call, server_lost, now);
        hc_lock_release(&call->lock);
        if (action == FORGET) {
            forget_call(call);
            continue;
        }
        if (action == ISSUE)
            issue_again(call);
        uint64_t when = next_time(call);
        next = when < next ? when : next;
    }
    return next;
}

/* Whether there is anything to do; if so, news from now on are signalled again. */
static bool take_signal(struct hc_boot *boot, uint64_t now)
{
    hc_lock_acquire(&boot->lock);
    bool due = boot->signalled || now >= boot->armed;
    if (due) {
        boot->signalled = false;
        set_timer(boot, HC_NEVER);
    }
    hc_lock_release(&boot->lock);
    return due;
}

void hc_boot_drain(struct hc_boot *boot)
{
    uint64_t now = hc_clock_ns();
    if (take_signal(boot, now))
        arm_timer(boot, tend_calls(boot, now));
}

void hc_boot_base_fini(struct hc_boot *boot)
{
    struct hc_list *node;
    while ((node = hc_list_first(&boot->calls))) {
        struct hc_boot_call *call = hc_list_entry(node, struct hc_boot_call, link);
        hc_lock_acquire(&call->lock); /* waits for a completion that is just signalling */
        call->op = NULL;
        hc_lock_release(&call->lock);
        forget_call(call);
    }
    (void)close(boot->timer);
}
