/*
 * A lock of one word: spins briefly, then sleeps on a futex (mutex 3 of U. Drepper, "Futexes Are Tricky",
 * 2011). Uncontended lock and unlock are one atomic instruction each and no system call. Not recursive;
 * process-private.
 *
 * Most processes call the library from one thread only. A lock may therefore be biased towards the thread
 * that makes it: as long as no other thread has come, that one takes and releases it by plain stores. The
 * first other thread ends the bias for good: it says so (`shared`), has the kernel execute a full barrier on
 * every processor that runs a thread of this process (membarrier(2)), and waits until the owner is outside.
 * The owner announces itself (`held`) before it looks at `shared`; with that barrier in between, either it
 * sees `shared`, or the other one sees `held`. A technique of K. Kawachiya, A. Koseki, T. Onodera, "Lock
 * Reservation" (OOPSLA 2002), there with signals.
 */
#ifndef HC_LOCK_H
#define HC_LOCK_H

#include "runtime/base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>

struct hc_lock {
    atomic_int state;   /* 0 free, 1 held, 2 held and somebody may sleep; unused while held by bias */
    atomic_bool held;   /* by the owner, by its bias */
    atomic_bool shared; /* another thread has come: the bias ends */
    _Atomic(const void *) owner; /* mark of the thread that has the bias; NULL: none, or no longer */
};

#define HC_LOCK_INIT                                                                                         \
    {                                                                                                        \
        0                                                                                                    \
    }

static inline void hc_lock_init(struct hc_lock *lock)
{
    *lock = (struct hc_lock)HC_LOCK_INIT;
}

/*
 * The same, biased towards the calling thread where the kernel can end a bias; a plain lock elsewhere. Early,
 * while the process has one thread, this costs a system call; later, the kernel may take milliseconds.
 */
void hc_lock_init_biased(struct hc_lock *lock);

void hc_lock_acquire_slow(struct hc_lock *lock);
void hc_lock_release_slow(struct hc_lock *lock);
/* End the bias, state held; waits for the owner to be outside. */
void hc_lock_end_bias(struct hc_lock *lock);
/* The same without waiting: false (state released) when the owner is inside. */
bool hc_lock_try_end_bias(struct hc_lock *lock);

/* Whether the calling thread has, or had a moment ago, the bias. */
static inline bool hc_lock_is_mine(struct hc_lock *lock)
{
    /* relaxed: only this thread's own mark matters, and it was written before this thread got the lock */
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) == hc_thread_mark();
}

/* Take the lock by bias; false when the bias is ending. */
static inline bool hc_lock_take_bias(struct hc_lock *lock)
{
    atomic_store_explicit(&lock->held, true, memory_order_relaxed);
    /* Orders the two for the compiler. Partner: the barrier in hc_lock_end_bias, which does so for the
     * processor. */
    atomic_signal_fence(memory_order_seq_cst);
    if (hc_likely(!atomic_load_explicit(&lock->shared, memory_order_relaxed)))
        return true;
    atomic_store_explicit(&lock->held, false, memory_order_release);
    return false;
}

/* Take the lock if that takes no more than the bias: without a call. Release by hc_lock_release_biased(). */
static inline bool hc_lock_try_biased(struct hc_lock *lock)
{
    return hc_likely(hc_lock_is_mine(lock)) && hc_likely(hc_lock_take_bias(lock));
}

static inline void hc_lock_release_biased(struct hc_lock *lock)
{
    /* release: partner is the acquire in owner_is_inside */
    atomic_store_explicit(&lock->held, false, memory_order_release);
}

static inline bool hc_lock_try_state(struct hc_lock *lock)
{
    int free_state = 0;
    /* acquire: partner is the release in hc_lock_release */
    return atomic_compare_exchange_strong_explicit(&lock->state, &free_state, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* With state held: whether a bias is in the way. */
static inline bool hc_lock_has_bias(struct hc_lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) != NULL;
}

static inline bool hc_lock_try(struct hc_lock *lock)
{
    if (hc_lock_is_mine(lock)) {
        /* relaxed: written by this thread alone; it may hold the lock already */
        if (atomic_load_explicit(&lock->held, memory_order_relaxed))
            return false;
        if (hc_lock_take_bias(lock))
            return true;
    }
    return hc_lock_try_state(lock) && (hc_likely(!hc_lock_has_bias(lock)) || hc_lock_try_end_bias(lock));
}

static inline void hc_lock_acquire(struct hc_lock *lock)
{
    if (hc_lock_try_biased(lock))
        return;
    if (hc_unlikely(!hc_lock_try_state(lock)))
        hc_lock_acquire_slow(lock);
    if (hc_unlikely(hc_lock_has_bias(lock)))
        hc_lock_end_bias(lock);
}

static inline void hc_lock_release_state(struct hc_lock *lock)
{
    /* release: partner is the acquire in hc_lock_try_state and hc_lock_acquire_slow */
    if (hc_unlikely(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2))
        hc_lock_release_slow(lock);
}

static inline void hc_lock_release(struct hc_lock *lock)
{
    if (hc_likely(hc_lock_is_mine(lock))) /* by bias: whoever takes the state ends the bias first */
        hc_lock_release_biased(lock);
    else
        hc_lock_release_state(lock);
}

/* Whether another thread may be waiting for the lock; a hint to whoever holds it for long. */
static inline bool hc_lock_contended(struct hc_lock *lock)
{
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == 2 ||
           (hc_unlikely(atomic_load_explicit(&lock->shared, memory_order_relaxed)) && hc_lock_has_bias(lock));
}

#endif
