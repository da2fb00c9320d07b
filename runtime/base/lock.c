#include "runtime/base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A holder is inside the library for well under this many pauses unless it lost its processor. */
enum { SPIN_LIMIT = 100 };

static bool spin_until_acquired(struct hc_lock *lock)
{
    for (int i = 0; i < SPIN_LIMIT; i++) {
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == 0 && hc_lock_try(lock))
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
