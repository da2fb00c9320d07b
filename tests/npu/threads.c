/* FI_THREAD_SAFE: several threads use the same endpoints and queues. For ThreadSanitizer, too. */
#include "tests/npu/npu.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 3, MESSAGES = 400, LEN = 3000 };

static struct pair pair;
static atomic_int received, sent;

static void drain(struct side *side)
{
    struct fi_cq_tagged_entry entry;
    ssize_t got = fi_cq_read(side->cq, &entry, 1);
    check(got == 1 || got == -FI_EAGAIN);
    if (got == 1)
        (void)atomic_fetch_add(entry.flags & FI_RECV ? &received : &sent, 1);
    else
        (void)sched_yield();
}

static void *send_all(void *tag)
{
    static char bytes[THREADS][LEN];
    char *out = bytes[(uintptr_t)tag];
    fill(out, LEN, (unsigned)(uintptr_t)tag);
    for (int i = 0; i < MESSAGES; i++)
        while (fi_tsend(pair.a.ep, out, LEN, NULL, pair.a.peer, (uintptr_t)tag, NULL) == -FI_EAGAIN)
            drain(&pair.a);
    while (atomic_load(&sent) < THREADS * MESSAGES)
        drain(&pair.a);
    return NULL;
}

static void *receive_all(void *tag)
{
    static char bytes[THREADS][MESSAGES][LEN];
    char(*in)[LEN] = bytes[(uintptr_t)tag];
    for (int i = 0; i < MESSAGES; i++)
        while (fi_trecv(pair.b.ep, in[i], LEN, NULL, FI_ADDR_UNSPEC, (uintptr_t)tag, 0, NULL) == -FI_EAGAIN)
            drain(&pair.b);
    while (atomic_load(&received) < THREADS * MESSAGES)
        drain(&pair.b);
    for (int i = 0; i < MESSAGES; i++)
        check(is_filled(in[i], LEN, (unsigned)(uintptr_t)tag));
    return NULL;
}

/* timeout: an int; after it the queue is read once more, so only without one a lost wake-up is noticed. */
static void *sleep_for_one(void *timeout)
{
    struct fi_cq_tagged_entry entry;
    check_is(fi_cq_sread(pair.b.cq, &entry, 1, NULL, (int)(intptr_t)timeout), 1);
    return NULL;
}

static void threads_share_endpoints_and_queues(void)
{
    struct pair_options options = {.wait = FI_WAIT_UNSPEC, .size = 4096};
    pthread_t threads[2 * THREADS];
    pair_open(&pair, &options);
    for (uintptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[2 * i], NULL, send_all, (void *)i) == 0);
        check(pthread_create(&threads[2 * i + 1], NULL, receive_all, (void *)i) == 0);
    }
    for (int i = 0; i < 2 * THREADS; i++)
        check(pthread_join(threads[i], NULL) == 0);
    check_is(atomic_load(&received), THREADS * MESSAGES);
    pair_close(&pair);
}

/* One thread sleeps on the receiving queue while another moves the same endpoint through its sends. */
static void a_sleeper_is_woken_while_others_poll(void)
{
    struct pair_options options = {.wait = FI_WAIT_UNSPEC};
    pthread_t thread;
    char out = 1, in = 0;
    pair_open(&pair, &options);
    for (int i = 0; i < 20; i++) {
        struct fi_cq_tagged_entry entry;
        check_is(fi_recv(pair.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
        check(pthread_create(&thread, NULL, sleep_for_one, (void *)60000) == 0);
        for (int turn = 0; turn < 500; turn++)
            check_is(fi_cq_read(pair.a.cq, &entry, 1), -FI_EAGAIN);
        check_is(fi_inject(pair.a.ep, &out, 1, pair.a.peer), 0);
        check(pthread_join(thread, NULL) == 0);
    }
    pair_close(&pair);
}

/* A thread that reads a queue does not take the wake-up from one that sleeps on it. */
static void a_sleeper_is_woken_after_others_read_its_queue(void)
{
    enum { ASLEEP_US = 20000 };
    struct pair_options options = {.wait = FI_WAIT_UNSPEC};
    struct fi_cq_tagged_entry entry;
    pthread_t thread;
    char out = 1, in = 0;
    pair_open(&pair, &options);
    for (int i = 0; i < 3; i++) {
        check_is(fi_recv(pair.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
        check(pthread_create(&thread, NULL, sleep_for_one, (void *)-1) == 0);
        (void)usleep(ASLEEP_US);
        check_is(fi_cq_read(pair.b.cq, &entry, 1), -FI_EAGAIN);
        check_is(fi_inject(pair.a.ep, &out, 1, pair.a.peer), 0);
        check(pthread_join(thread, NULL) == 0);
    }
    pair_close(&pair);
}

int main(void)
{
    threads_share_endpoints_and_queues();
    a_sleeper_is_woken_while_others_poll();
    a_sleeper_is_woken_after_others_read_its_queue();
    puts("threads: all cases passed");
    return 0;
}
