#include "runtime/base/lock.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_LIMIT = 100, /* a holder is inside the library for well under this many pauses unless it lost its
                         processor */
    YIELD_LIMIT = 100,
    NAP_NS = 100000,
};

static bool spin_until_acquired(struct hc_lock *lock)
{
    for (int i = 0; i < SPIN_LIMIT; i++) {
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 && hc_lock_try_state(lock))
            return true;
        hc_cpu_relax();
    }
    return false;
}

void hc_lock_acquire_slow(struct hc_lock *lock)
{
    if (spin_until_acquired(lock))
        return;
    /* acquire: partner is the release in hc_lock_release; 2 announces a possible sleeper to it */
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void hc_lock_release_slow(struct hc_lock *lock)
{
    (void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool register_barrier(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void hc_lock_init_biased(struct hc_lock *lock)
{
    hc_lock_init(lock);
    if (HC_LOCK_MAY_BIAS && register_barrier())
        atomic_store_explicit(&lock->owner, hc_thread_mark(), memory_order_relaxed);
}

/* It fails for want of memory only, or in a forked child, which has to register anew. */
static void barrier_on_all_threads(void)
{
    while (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
        (void)register_barrier();
        (void)sched_yield();
    }
}

/* Whether the owner is inside, after it was told to stay outside. */
static bool owner_is_inside(struct hc_lock *lock)
{
    /* acquire: partner is the release of `held` in hc_lock_release and hc_lock_take_bias */
    return !hc_lock_is_mine(lock) && atomic_load_explicit(&lock->held, memory_order_acquire);
}

static void say_shared(struct hc_lock *lock)
{
    atomic_store_explicit(&lock->shared, true, memory_order_relaxed);
    barrier_on_all_threads(); /* partner: the fence in hc_lock_take_bias */
}

static void forget_owner(struct hc_lock *lock)
{
    /* relaxed: guarded by the state for all but the owner, which finds `shared` set */
    atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
}

void hc_lock_end_bias(struct hc_lock *lock)
{
    say_shared(lock);
    for (int turns = 0; owner_is_inside(lock); turns++) {
        const struct timespec nap = {.tv_nsec = NAP_NS};
        if (turns < SPIN_LIMIT)
            hc_cpu_relax();
        else if (turns < SPIN_LIMIT + YIELD_LIMIT)
            (void)sched_yield();
        else
            (void)nanosleep(&nap, NULL);
    }
    forget_owner(lock);
}

bool hc_lock_try_end_bias(struct hc_lock *lock)
{
    say_shared(lock);
    if (owner_is_inside(lock)) {
        hc_lock_release_state(lock);
        return false;
    }
    forget_owner(lock);
    return true;
}
