/*
 * A lock of one word: spins briefly, then sleeps on a futex (mutex 3 of U. Drepper, "Futexes Are Tricky",
 * 2011). Uncontended lock and unlock are one atomic instruction each and no system call. Not recursive;
 * process-private.
 */
#ifndef HC_LOCK_H
#define HC_LOCK_H

#include "runtime/base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>

struct hc_lock {
    atomic_int state; /* 0 free, 1 held, 2 held and somebody may sleep */
};

#define HC_LOCK_INIT                                                                                         \
    {                                                                                                        \
        0                                                                                                    \
    }

static inline void hc_lock_init(struct hc_lock *lock)
{
    atomic_init(&lock->state, 0);
}

void hc_lock_acquire_slow(struct hc_lock *lock);
void hc_lock_release_slow(struct hc_lock *lock);

static inline bool hc_lock_try(struct hc_lock *lock)
{
    int free_state = 0;
    /* acquire: partner is the release in hc_lock_release */
    return atomic_compare_exchange_strong_explicit(&lock->state, &free_state, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void hc_lock_acquire(struct hc_lock *lock)
{
    if (hc_unlikely(!hc_lock_try(lock)))
        hc_lock_acquire_slow(lock);
}

static inline void hc_lock_release(struct hc_lock *lock)
{
    /* release: partner is the acquire in hc_lock_try and hc_lock_acquire_slow */
    if (hc_unlikely(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2))
        hc_lock_release_slow(lock);
}

/* Whether another thread may be waiting for the lock; a hint to whoever holds it for long. */
static inline bool hc_lock_contended(struct hc_lock *lock)
{
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == 2;
}

#endif
