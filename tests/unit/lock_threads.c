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
    uint64_t deadline = hc_deadline_ms(60000);
    while (!hc_lock_contended(&lock) && hc_clock_ns() < deadline)
        (void)usleep(1000);
    cr_assert(hc_lock_contended(&lock));
    (void)usleep(500000);
    hc_lock_release(&lock);
    (void)pthread_join(thread, NULL);
    cr_assert(cpu.tv_sec == 0 && cpu.tv_nsec < 200000000, "a sleeper used %ld ns of processor", cpu.tv_nsec);
}

static struct hc_lock biased;

static void *count_biased(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        hc_lock_acquire(&biased);
        counter++;
        hc_lock_release(&biased);
    }
    return arg;
}

Test(lock, bias_ends_when_others_come)
{
    pthread_t threads[THREADS];
    counter = 0;
    hc_lock_init_biased(&biased);
    (void)count_biased(NULL);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_biased, NULL), 0);
    (void)count_biased(NULL); /* at the same time: the owner is inside again and again while the bias ends */
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    cr_assert_eq(counter, (long)(THREADS + 2) * ROUNDS);
    cr_assert_null(atomic_load(&biased.owner));
}

static void *try_once(void *arg)
{
    bool *got = arg;
    *got = hc_lock_try(&biased);
    if (*got)
        hc_lock_release(&biased);
    return NULL;
}

static bool try_in_another_thread(void)
{
    bool got = false;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, try_once, &got), 0);
    (void)pthread_join(thread, NULL);
    return got;
}

Test(lock, try_of_another_thread_fails_while_the_owner_is_inside)
{
    hc_lock_init_biased(&biased);
    hc_lock_acquire(&biased);
    cr_assert_not(hc_lock_try(&biased));
    cr_assert_not(try_in_another_thread());
    hc_lock_release(&biased);
    cr_assert(try_in_another_thread());
    cr_assert(hc_lock_try(&biased));
    hc_lock_release(&biased);
}
