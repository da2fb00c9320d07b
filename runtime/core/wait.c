/*
 * How a thread waits: it polls for a while (the answer is usually near), then gives the processor away
 * between polls (an oversubscribed peer needs it), then sleeps until a transport, the launcher, a dying peer
 * or another thread makes one of the watched descriptors readable.
 */
#include "runtime/core/wait.h"

#include "runtime/core/peer.h"
#include "runtime/core/placement.h"
#include "runtime/core/progress.h"
#include "runtime/core/stream.h"

#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    SPIN_POLLS = 2000,              /* some tens of microseconds */
    SPIN_POLLS_OVERSUBSCRIBED = 20, /* the peer is probably not running */
    SPIN_POLLS_APART = 100,         /* it may be, on another processor: some microseconds */
    YIELD_NS = 500000,              /* then sleep */
    YIELD_NS_OVERSUBSCRIBED = 2000000,
    SLEEP_MAX_MS = 500,  /* an upper bound only: events end sleeps */
    SLEEP_SHARED_MS = 2, /* other contexts of the process signal through descriptors of their own */
    SLEEP_BUSY_MS = 1,   /* something is queued whose turn no descriptor announces */
    CHECK_INTERVAL_NS = 20000000,
    EVENTS_PER_CALL = 16,
    SOURCE_SHIFT = 32,
};

hcomm_status_t hc_wait_init(struct hcomm_context *context)
{
    context->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (context->epoll_fd < 0)
        return hc_error(HCOMM_ERR_IO, "epoll_create1: %s", hc_errno_text(errno));
    context->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (context->wake_fd < 0) {
        hcomm_status_t status = hc_error(HCOMM_ERR_IO, "eventfd: %s", hc_errno_text(errno));
        (void)close(context->epoll_fd);
        context->epoll_fd = -1;
        return status;
    }
    return hc_wait_add(context, context->wake_fd, HC_WAIT_WAKE, 0);
}

void hc_wait_fini(struct hcomm_context *context)
{
    if (context->wake_fd >= 0)
        (void)close(context->wake_fd);
    if (context->epoll_fd >= 0)
        (void)close(context->epoll_fd);
    context->wake_fd = context->epoll_fd = -1;
}

hcomm_status_t hc_wait_add(struct hcomm_context *context, int fd, enum hc_wait_source source, uint32_t index)
{
    struct epoll_event event = {
        .events = EPOLLIN,
        .data.u64 = ((uint64_t)source << SOURCE_SHIFT) | index,
    };
    if (epoll_ctl(context->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return hc_error(HCOMM_ERR_IO, "watching descriptor %d: %s", fd, hc_errno_text(errno));
    return HCOMM_OK;
}

void hc_wait_remove(struct hcomm_context *context, int fd)
{
    /* Fails only when it is not there, which is what is wanted. */
    (void)epoll_ctl(context->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void hc_wake_sleepers(struct hcomm_context *context)
{
    if (context->wake_written)
        return;
    context->wake_written = true;
    const uint64_t one = 1;
    /* Cannot fail: the counter is far from full, and it is non-blocking. */
    ssize_t written = write(context->wake_fd, &one, sizeof(one));
    (void)written;
    hc_counter_add(&context->counters, HC_COUNTER_WAKEUPS, 1);
}

/* The last thread to leave takes the signal away: each of those that slept must have seen it. */
static void reset_wake(struct hcomm_context *context)
{
    if (!context->wake_written || context->sleepers)
        return;
    context->wake_written = false;
    uint64_t value = 0;
    ssize_t got = read(context->wake_fd, &value, sizeof(value));
    (void)got;
}

static void handle_event(struct hcomm_context *context, uint64_t data)
{
    uint32_t index = (uint32_t)data;
    switch ((enum hc_wait_source)(data >> SOURCE_SHIFT)) {
    case HC_WAIT_WAKE:
        reset_wake(context);
        break;
    case HC_WAIT_BOOT:
        hc_boot_drain(context->boot);
        hc_progress_boot_events(context);
        break;
    case HC_WAIT_PEER:
        hc_peer_died(context, index);
        break;
    case HC_WAIT_STREAMS:
        hc_streams_take_signal(context->streams);
        break;
    case HC_WAIT_IFACE: /* the next progress serves it */
        break;
    }
}

static int poll_events(struct hcomm_context *context, struct epoll_event *events, int timeout_ms)
{
    int count = epoll_wait(context->epoll_fd, events, EVENTS_PER_CALL, timeout_ms);
    return count > 0 ? count : 0;
}

void hc_wait_check_events(struct hcomm_context *context)
{
    struct epoll_event events[EVENTS_PER_CALL];
    context->next_check = hc_clock_ns() + CHECK_INTERVAL_NS;
    int count = poll_events(context, events, 0);
    for (int i = 0; i < count; i++)
        handle_event(context, events[i].data.u64);
}

/* Prepare every transport to signal; false when one has events waiting. Lowers *max_ms for one that cannot
 * signal. */
static bool arm_all(struct hcomm_context *context, int *max_ms)
{
    for (unsigned i = 0; i < context->num_ifaces; i++) {
        struct hc_iface *iface = context->ifaces[i].iface;
        if (!(iface->attr.caps & HC_CAP_EVENT)) {
            if (*max_ms > SLEEP_BUSY_MS)
                *max_ms = SLEEP_BUSY_MS;
            continue;
        }
        if (iface->transport->arm(iface) != HCOMM_OK)
            return false;
    }
    return true;
}

void hc_wait_sleep(struct hcomm_context *context, int max_ms)
{
    context->armed = true; /* also when arming stops half-way: progress undoes it */
    if (!arm_all(context, &max_ms) || !hc_barrier_may_sleep(context))
        return;
    if (max_ms > SLEEP_BUSY_MS && hc_progress_is_short_of_events(context))
        max_ms = SLEEP_BUSY_MS;
    struct epoll_event events[EVENTS_PER_CALL];
    context->sleepers++;
    hc_counter_add(&context->counters, HC_COUNTER_SLEEPS, 1);
    hc_lock_release(&context->lock);
    int count = poll_events(context, events, max_ms);
    hc_lock_acquire(&context->lock);
    context->sleepers--;
    context->next_check = hc_clock_ns() + CHECK_INTERVAL_NS;
    for (int i = 0; i < count; i++)
        handle_event(context, events[i].data.u64);
    reset_wake(context);
}

/* State of one wait. */
struct waiter {
    const struct hc_wait_params *params;
    uint64_t deadline;
    uint64_t idle_since; /* 0: not measured yet */
    unsigned polls;      /* in vain since something moved */
    bool watching, slept;
};

static uint64_t nanoseconds(int ms)
{
    return (uint64_t)ms * UINT64_C(1000000);
}

static bool deadline_passed(struct waiter *waiter, uint64_t now)
{
    if (!waiter->deadline)
        waiter->deadline = now + nanoseconds(waiter->params->timeout_ms);
    if (now < waiter->deadline)
        return false;
    const uint64_t *activity = waiter->params->activity;
    if (activity && *activity && *activity + nanoseconds(waiter->params->timeout_ms) > now) {
        waiter->deadline = *activity + nanoseconds(waiter->params->timeout_ms);
        return false;
    }
    return true;
}

void hc_wait_yield(struct hcomm_context *context)
{
    hc_lock_release(&context->lock);
    (void)sched_yield();
    hc_lock_acquire(&context->lock);
}

static uint64_t yield_budget(const struct hcomm_context *context)
{
    return context->oversubscribed ? YIELD_NS_OVERSUBSCRIBED : YIELD_NS;
}

/* Nobody has to be connected to receive; to learn of the sender's death, one has to. */
static void watch_peer(struct waiter *waiter)
{
    if (waiter->watching || !waiter->params->watch)
        return;
    waiter->watching = true;
    hc_peer_connect(waiter->params->watch);
}

/* Polling alone did not help. */
static hcomm_status_t wait_longer(struct hcomm_context *context, struct waiter *waiter)
{
    uint64_t now = hc_clock_ns();
    if (!waiter->idle_since) {
        waiter->idle_since = now;
        hc_placement_note(context, waiter->params->partner);
    }
    if (deadline_passed(waiter, now))
        return HCOMM_ERR_TIMEOUT;
    if (now >= context->next_check)
        hc_wait_check_events(context);
    hc_progress_others(context);
    if (now - waiter->idle_since < yield_budget(context)) {
        hc_wait_yield(context);
        return HCOMM_OK;
    }
    watch_peer(waiter);
    waiter->slept = true;
    hc_wait_sleep(context, hc_deadline_poll_ms(waiter->deadline,
                                               hc_progress_has_others() ? SLEEP_SHARED_MS : SLEEP_MAX_MS));
    return HCOMM_OK;
}

/* Let another thread have the lock between two polls. */
static void breathe(struct hcomm_context *context)
{
    hc_cpu_relax();
    if (hc_unlikely(hc_lock_contended(&context->lock)))
        hc_wait_yield(context);
}

static hcomm_status_t poll_until_done(struct hcomm_context *context, struct waiter *waiter,
                                      unsigned spin_polls)
{
    const struct hc_wait_params *params = waiter->params;
    for (;;) {
        unsigned moved = hc_progress(context);
        if (params->done(params->arg))
            return HCOMM_OK;
        if (moved) {
            waiter->polls = 0;
            waiter->idle_since = 0;
        } else if (++waiter->polls < spin_polls) {
            breathe(context);
        } else {
            hcomm_status_t status = wait_longer(context, waiter);
            if (status != HCOMM_OK)
                return status;
        }
    }
}

static unsigned spin_polls(struct hcomm_context *context, const struct hc_wait_params *params)
{
    if (hc_likely(!context->oversubscribed))
        return SPIN_POLLS;
    switch (params->partner ? hc_placement_look(context, params->partner) : HC_NEARNESS_UNKNOWN) {
    case HC_APART:
        return SPIN_POLLS_APART;
    case HC_TOGETHER:
        return 1;
    default:
        return SPIN_POLLS_OVERSUBSCRIBED;
    }
}

hcomm_status_t hc_wait_for(struct hcomm_context *context, const struct hc_wait_params *params)
{
    if (params->done(params->arg))
        return HCOMM_OK;
    struct waiter waiter = {.params = params};
    bool announced = context->progress_thread_running;
    /* relaxed: a hint that keeps the progress thread away, read by it without the lock */
    if (announced)
        atomic_fetch_add_explicit(&context->waiters, 1, memory_order_relaxed);
    hcomm_status_t status = poll_until_done(context, &waiter, spin_polls(context, params));
    if (announced)
        atomic_fetch_sub_explicit(&context->waiters, 1, memory_order_relaxed);
    if (waiter.slept)
        hc_progress_thread_unpark(context);
    return status;
}

hcomm_status_t hc_wait(struct hcomm_context *context, bool (*done)(void *arg), void *arg,
                       const uint64_t *activity, int timeout_ms)
{
    const struct hc_wait_params params = {
        .done = done, .arg = arg, .activity = activity, .timeout_ms = timeout_ms};
    return hc_wait_for(context, &params);
}
