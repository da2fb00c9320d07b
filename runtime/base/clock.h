/* Monotonic time in nanoseconds, and deadlines made of it. */
#ifndef HC_CLOCK_H
#define HC_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define HC_NEVER UINT64_MAX

/* CLOCK_MONOTONIC; a vDSO call, no system call. */
static inline uint64_t hc_clock_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t hc_deadline_ms(unsigned ms)
{
    return hc_clock_ns() + (uint64_t)ms * UINT64_C(1000000);
}

/* Milliseconds until the deadline for poll(2): rounded up, 0 when passed, at most max_ms. */
static inline int hc_deadline_poll_ms(uint64_t deadline, int max_ms)
{
    if (deadline == HC_NEVER)
        return max_ms;
    uint64_t now = hc_clock_ns();
    if (now >= deadline)
        return 0;
    uint64_t ms = (deadline - now + UINT64_C(999999)) / UINT64_C(1000000);
    return ms > (uint64_t)max_ms ? max_ms : (int)ms;
}

#endif
