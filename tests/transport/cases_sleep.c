/* Cases: sleeping and waking. */
#include "harness.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* Sleep until there is something to do; false when nothing came for `ms`. */
static bool sleep_ms(struct cf *cf, int ms)
{
    const struct hc_transport *transport = cf->iface->transport;
    hcomm_status_t status = transport->arm(cf->iface);
    CF_CHECK(status == HCOMM_OK || status == HCOMM_AGAIN, "arm: %s", hcomm_strerror(status));
    if (status == HCOMM_AGAIN)
        return true;
    struct pollfd poller = {.fd = transport->event_fd(cf->iface), .events = POLLIN};
    int ready = poll(&poller, 1, ms);
    CF_CHECK(ready >= 0 || errno == EINTR, "poll: %s", hc_errno_text(errno));
    return ready != 0;
}

/* Progress, sleeping in between, until the counter is reached; a wake-up that never comes fails the case. */
static void sleep_until(struct cf *cf, const uint64_t *counter, uint64_t value)
{
    while (*counter < value) {
        if (cf->iface->transport->progress(cf->iface))
            continue;
        CF_CHECK(sleep_ms(cf, CF_WAIT_MS), "a wake-up was lost: %llu of %llu", (unsigned long long)*counter,
                 (unsigned long long)value);
    }
}

static void message_wakes_a_sleeper(struct cf *cf)
{
    enum { ROUNDS = 5 };
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (cf->rank == 0) {
            (void)usleep(30000);
            cf_send(cf, 1, i % 2 ? CF_SHORT : CF_BCOPY, 3000 * i % cf_max(cf, CF_SHORT));
            cf_progress_until(cf, &cf->received[1], i, "the reply");
        } else {
            sleep_until(cf, &cf->received[0], i);
            cf_send(cf, 0, CF_SHORT, 8);
        }
    }
}

static void arm_tells_of_waiting_messages(struct cf *cf)
{
    if (cf->rank == cf_next(cf) || cf->rank == 0) {
        cf_send(cf, cf_next(cf), CF_SHORT, 8);
        if (cf->size > 1)
            cf_flush(cf, cf_next(cf));
    }
    cf_barrier_silent(cf);
    if (cf_prev(cf) == 0) {
        sleep_until(cf, &cf->received[0], 1);
        /* Nothing is under way now, so sleeping must become possible. */
        uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
        while (sleep_ms(cf, 50)) {
            cf_progress(cf);
            CF_CHECK(hc_clock_ns() < deadline, "an idle iface never lets its user sleep");
        }
    }
    cf_barrier(cf);
}

static void no_wakeup_is_lost(struct cf *cf)
{
    enum { ROUNDS = 3000 };
    uint32_t seed = 17u + (uint32_t)cf->rank;
    int peer = cf_next(cf);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        for (unsigned spin = cf_random(&seed) % 2000; spin; spin--)
            hc_cpu_relax();
        cf_send(cf, peer, CF_SHORT, 8);
        sleep_until(cf, &cf->received[peer], i);
    }
}

/* A sender that finds no room sleeps, and is woken when there is some. */
static void room_wakes_a_sleeping_sender(struct cf *cf)
{
    enum { MESSAGES = 3000 };
    for (int kind = CF_SHORT; kind <= CF_BCOPY; kind++) {
        uint64_t goal = (uint64_t)(kind + 1) * MESSAGES;
        size_t size = cf_max(cf, (enum cf_kind)kind);
        for (int i = 0; cf->rank == 0 && i < MESSAGES;) {
            hcomm_status_t status = cf_try_send(cf, 1, (enum cf_kind)kind, size);
            CF_CHECK(status == HCOMM_OK || status == HCOMM_AGAIN, "send: %s", hcomm_strerror(status));
            i += status == HCOMM_OK;
            if (status == HCOMM_AGAIN && !cf->iface->transport->progress(cf->iface))
                CF_CHECK(sleep_ms(cf, CF_WAIT_MS), "room came, but no wake-up (message %d)", i);
        }
        while (cf->rank == 1 && cf->received[0] < goal) {
            if (cf->received[0] % 97 == 0)
                (void)usleep(100);
            cf_progress(cf);
        }
        cf_barrier(cf);
    }
}

static void ep_wake_wakes_a_sleeper(struct cf *cf)
{
    enum { ROUNDS = 1000 };
    const struct hc_transport *transport = cf->iface->transport;
    _Atomic uint64_t *own = transport->sync_area(cf->iface);
    int peer = cf_next(cf);
    _Atomic uint64_t *other = transport->ep_sync_area(cf->ep[peer]);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        atomic_store_explicit(other, i, memory_order_release);
        transport->ep_wake(cf->ep[peer]);
        while (atomic_load_explicit(own, memory_order_acquire) < i) {
            (void)transport->progress(cf->iface);
            hcomm_status_t status = transport->arm(cf->iface);
            struct pollfd poller = {.fd = transport->event_fd(cf->iface), .events = POLLIN};
            if (status == HCOMM_OK && atomic_load_explicit(own, memory_order_acquire) < i)
                CF_CHECK(poll(&poller, 1, 10000) != 0, "wake-up %llu was lost", (unsigned long long)i);
        }
    }
    (void)transport->progress(cf->iface);
    cf_barrier(cf);
}

const struct cf_case cf_cases_sleep[] = {
    {"message_wakes_a_sleeper", 2, HC_CAP_EVENT, true, message_wakes_a_sleeper},
    {"arm_tells_of_waiting_messages", 2, HC_CAP_EVENT, false, arm_tells_of_waiting_messages},
    {"no_wakeup_is_lost", 2, HC_CAP_EVENT, true, no_wakeup_is_lost},
    {"room_wakes_a_sleeping_sender", 2, HC_CAP_EVENT, true, room_wakes_a_sleeping_sender},
    {"ep_wake_wakes_a_sleeper", 2, HC_CAP_EVENT | HC_CAP_SYNC, true, ep_wake_wakes_a_sleeper},
    {0},
};
