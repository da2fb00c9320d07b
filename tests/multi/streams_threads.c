/*
 * Threads that use streams at the same time: own streams, one shared by all, events of others, groups,
 * blocking calls beside them, host functions that enqueue, creation and destruction all the while.
 */
#include "tests/multi/streams_cases.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 40 };

static hcomm_stream_t shared;
static hcomm_event_t shared_event[THREADS];
static atomic_int counted;
static int chained;

static void count(void *arg)
{
    (void)arg;
    atomic_fetch_add(&counted, 1);
}

/* Streams order what is in them: no atomics here. */
static void chain(void *arg)
{
    *(int *)arg += 1;
}

static void count_again(void *arg)
{
    CALL(hcomm_launch_host(*(hcomm_stream_t *)arg, count, NULL));
}

static void use_own_streams(int thread, int round, hcomm_stream_t *stream, int *in, int *out)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, tag = thread * ROUNDS + round;
    *out = rank + tag;
    CALL(hcomm_group_start());
    CALL(hcomm_recv_on(in, sizeof(*in), left, tag, world, NULL, *stream));
    CALL(hcomm_send_on(out, sizeof(*out), right, tag, world, *stream));
    CALL(hcomm_group_end());
    CALL(hcomm_launch_host(*stream, chain, in));
    CALL(hcomm_launch_host(*stream, count_again, stream));
    CALL(hcomm_event_record(shared_event[thread], *stream));
    CALL(hcomm_event_synchronize(shared_event[thread]));
    CHECK(*in == left + tag + 1);
}

static void use_the_shared_stream(int thread, int *numbers)
{
    CALL(hcomm_launch_host(shared, chain, &chained));
    CALL(hcomm_memcpy_async(&numbers[1], &numbers[0], sizeof(int), HCOMM_COPY_AUTO, shared));
    CHECK(hcomm_stream_query(shared) >= 0);
    CHECK(hcomm_event_query(shared_event[(thread + 1) % THREADS]) >= 0);
    CALL(hcomm_stream_wait_event(shared, shared_event[(thread + 1) % THREADS]));
}

static void use_blocking_calls(int thread, int round)
{
    int in = 0, out = thread, tag = 10000 + thread;
    CALL(hcomm_sendrecv(&out, sizeof(out), rank, tag, &in, sizeof(in), rank, tag, world, NULL));
    CHECK(in == thread);
    /* not waited for here: it waits for events of threads that the other rank's threads hold up */
    if (round % 8 == 0)
        CHECK(hcomm_stream_query(shared) >= 0);
}

static void *run(void *arg)
{
    int thread = (int)(size_t)arg;
    int *in = streams_pinned(sizeof(int)), *out = streams_pinned(sizeof(int));
    static int numbers[THREADS][2];
    hcomm_stream_t stream = HCOMM_STREAM_NULL;
    for (int round = 0; round < ROUNDS; round++) {
        if (!stream)
            CALL(hcomm_stream_create(check_handle, thread % 2, &stream));
        use_own_streams(thread, round, &stream, in, out);
        use_the_shared_stream(thread, numbers[thread]);
        use_blocking_calls(thread, round);
        if (round % 5 == 4) {
            CALL(hcomm_stream_synchronize(stream)); /* a function enqueues on it */
            CALL(hcomm_stream_destroy(&stream));
        }
    }
    if (stream)
        CALL(hcomm_stream_synchronize(stream));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    streams_init(30000);
    if (acl)
        CHECK(acl->aclrtResetDevice(rank % 8) == 0); /* the threads have no device of their own */
    CALL(hcomm_stream_create(check_handle, 2, &shared));
    for (int i = 0; i < THREADS; i++)
        CALL(hcomm_event_create(check_handle, &shared_event[i]));
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CALL(hcomm_stream_synchronize(shared));
    CHECK(chained == THREADS * ROUNDS);
    CALL(hcomm_finalize(check_handle)); /* waits for the functions enqueued by functions */
    CHECK(atomic_load(&counted) == THREADS * ROUNDS);
    return 0;
}
