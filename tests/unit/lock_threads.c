#include "runtime/base/clock.h"
#include "runtime/base/lock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 50000 };

static struct hc_lock lock = HC_LOCK_INIT;
static long counter; /* not atomic on purpose */

static void *count(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        hc_lock_acquire(&lock);
        counter++;
        hc_lock_release(&lock);
    }
    return arg;
}

Test(lock, one_holder_at_a_time)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    cr_assert_eq(counter, (long)THREADS * ROUNDS);
}

Test(lock, try_fails_while_held_and_waiters_show)
{
    hc_lock_acquire(&lock);
    cr_assert_not(hc_lock_try(&lock));
    cr_assert_not(hc_lock_contended(&lock));
    hc_lock_release(&lock);
    cr_assert(hc_lock_try(&lock));
    hc_lock_release(&lock);
}

static void *take_once(void *arg)
{
    struct timespec *cpu = arg;
    hc_lock_acquire(&lock);
    hc_lock_release(&lock);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, cpu);
    return NULL;
}

Test(lock, waiting_long_sleeps_instead_of_burning)
{
    struct timespec cpu;
    pthread_t thread;
    hc_lock_acquire(&lock);
    cr_assert_eq(pthread_create(&thread, NULL, take_once, &cpu), 0);
    uint64_t deadline = hc_deadline_ms(10000);
    while (!hc_lock_contended(&lock) && hc_clock_ns() < deadline)
        (void)usleep(1000);
    cr_assert(hc_lock_contended(&lock));
    (void)usleep(500000);
    hc_lock_release(&lock);
    (void)pthread_join(thread, NULL);
    cr_assert(cpu.tv_sec == 0 && cpu.tv_nsec < 200000000, "a sleeper used %ld ns of processor", cpu.tv_nsec);
}
