/*
 * Threads create communicators at the same time, each on a parent of its own: ids never collide, members of
 * one agree on its id, and messages and barriers of different ones do not mix.
 */
#include "tests/multi/check.h"

#include "runtime/core/core.h"

#include <pthread.h>

enum { THREADS = 4, REPEATS = 25 };

static hcomm_comm_t parents[THREADS];
static uint64_t ids[THREADS][REPEATS];

/* Everybody's id is ours: pass it round the ring. */
static void check_agreed(hcomm_comm_t comm)
{
    int me = hcomm_comm_rank(comm), n = hcomm_comm_size(comm);
    uint64_t got = 0;
    CALL(hcomm_sendrecv(&comm->id, sizeof(comm->id), (me + 1) % n, 1, &got, sizeof(got), (me + n - 1) % n, 1,
                        comm, NULL));
    CHECK(got == comm->id);
}

static void *create_many(void *arg)
{
    size_t number = (size_t)arg;
    hcomm_comm_t parent = parents[number];
    int me = hcomm_comm_rank(parent), n = hcomm_comm_size(parent);
    int reversed[64];
    for (int i = 0; i < n; i++)
        reversed[i] = n - 1 - i;
    for (int i = 0; i < REPEATS; i++) {
        hcomm_comm_t comm = NULL;
        if (i % 3 == 0)
            CALL(hcomm_comm_dup(parent, &comm));
        else if (i % 3 == 1)
            CALL(hcomm_comm_split(parent, (int)(me % 2), (int)number, &comm));
        else
            CALL(hcomm_comm_create(parent, reversed, n, &comm));
        ids[number][i] = comm->id;
        check_agreed(comm);
        CALL(hcomm_barrier(comm));
        CALL(hcomm_comm_free(&comm));
    }
    return NULL;
}

int main(void)
{
    check_init(NULL);
    hcomm_comm_t world = hcomm_comm_world(check_handle);
    CHECK(hcomm_size(check_handle) <= 64);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CALL(hcomm_comm_dup(world, &parents[i]));
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, create_many, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    const uint64_t *flat = &ids[0][0];
    for (size_t a = 0; a < THREADS * REPEATS; a++)
        for (size_t b = a + 1; b < THREADS * REPEATS; b++)
            CHECK(flat[a] != flat[b]);
    for (size_t i = 0; i < THREADS; i++)
        CALL(hcomm_comm_free(&parents[i]));
    CALL(hcomm_finalize(check_handle));
    return 0;
}
