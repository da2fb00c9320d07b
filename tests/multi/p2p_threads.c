/*
 * Threads: each with tags of its own, each with a communicator of its own, several receiving by wildcard from
 * one queue, waiting for different requests of one list, all at once and over all sizes.
 */
#include "tests/multi/p2p_cases.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, ROUNDS = 60, SHARED_TAG = 1000, SHARED_EACH = 400, TOKEN_SIZE = 24 };

static hcomm_comm_t comms[THREADS];
static atomic_int taken[THREADS * SHARED_EACH];

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static size_t round_size(unsigned thread, unsigned i)
{
    size_t size = p2p_sizes[(thread * 5 + i) % P2P_SIZES];
    return size > 300000 ? thread * 100 + i : size;
}

static void ring(unsigned thread, hcomm_comm_t comm, int tag)
{
    unsigned char *out = p2p_room(P2P_SIZE_MAX), *in = p2p_room(P2P_SIZE_MAX);
    int to = (p2p_rank + 1) % p2p_size, from = (p2p_rank + p2p_size - 1) % p2p_size;
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t size = round_size(thread, i);
        hcomm_message_status_t status;
        hcomm_request_t requests[2];
        p2p_fill(out, size, thread * 100 + i);
        if (i % 2) {
            CALL(hcomm_sendrecv(out, size, to, tag, in, size, from, tag, comm, &status));
        } else {
            CALL(hcomm_irecv(in, size, from, tag, comm, &requests[0]));
            CALL((i % 4 ? hcomm_isend : hcomm_issend)(out, size, to, tag, comm, &requests[1]));
            CALL(hcomm_wait(&requests[0], &status));
            CALL(hcomm_wait(&requests[1], NULL));
        }
        p2p_check_status(&status, from, tag, size, HCOMM_OK);
        VERIFY(in, size, thread * 100 + i);
    }
    free(in);
    free(out);
}

static void *ring_with_own_tag(void *arg)
{
    ring((unsigned)(size_t)arg, p2p_world, (int)(size_t)arg);
    return NULL;
}

static void *ring_with_own_comm(void *arg)
{
    ring((unsigned)(size_t)arg, comms[(size_t)arg], 3);
    return NULL;
}

static void threads_with_own_tags(void)
{
    run_threads(ring_with_own_tag);
}

static void threads_with_own_communicators(void)
{
    for (int i = 0; i < THREADS; i++)
        CALL(hcomm_comm_dup(p2p_world, &comms[i]));
    run_threads(ring_with_own_comm);
    for (int i = 0; i < THREADS; i++)
        CALL(hcomm_comm_free(&comms[i]));
}

static void send_tokens(int first)
{
    for (int i = 0; i < SHARED_EACH; i++) {
        unsigned char token[TOKEN_SIZE] = {0};
        const int id = first + i;
        memcpy(token, &id, sizeof(id));
        CALL((i % 7 ? hcomm_send : hcomm_ssend)(token, sizeof(token), 1, SHARED_TAG + i % 3, p2p_world));
    }
}

/* By recv, or by probe and matched receive: a plain probe and receive could lose the message to another
 * thread. */
static void receive_tokens(int by_probe)
{
    for (int i = 0; i < SHARED_EACH; i++) {
        unsigned char token[TOKEN_SIZE];
        hcomm_message_status_t status;
        hcomm_message_t message;
        int id = -1;
        if (by_probe) {
            CALL(hcomm_mprobe(HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, p2p_world, &message, &status));
            CALL(hcomm_mrecv(token, sizeof(token), &message, &status));
        } else {
            CALL(hcomm_recv(token, sizeof(token), HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, p2p_world, &status));
        }
        memcpy(&id, token, sizeof(id));
        CHECK(id >= 0 && id < THREADS * SHARED_EACH);
        p2p_check_status(&status, 0, SHARED_TAG + id % SHARED_EACH % 3, TOKEN_SIZE, HCOMM_OK);
        atomic_fetch_add(&taken[id], 1);
    }
}

static void *share_a_queue(void *arg)
{
    if (p2p_rank == 0)
        send_tokens((int)(size_t)arg * SHARED_EACH);
    else if (p2p_rank == 1)
        receive_tokens((int)(size_t)arg % 2);
    return NULL;
}

/* Every message is received exactly once, whichever thread takes it. */
static void threads_share_a_wildcard_queue(void)
{
    for (int i = 0; i < THREADS * SHARED_EACH; i++)
        atomic_store(&taken[i], 0);
    run_threads(share_a_queue);
    for (int i = 0; i < THREADS * SHARED_EACH && p2p_rank == 1; i++)
        CHECK(atomic_load(&taken[i]) == 1);
}

static hcomm_request_t shared_requests[THREADS];
static int shared_values[THREADS];

static void *wait_for_one(void *arg)
{
    CALL(hcomm_wait(&shared_requests[(size_t)arg], NULL));
    CHECK(shared_values[(size_t)arg] == (int)(size_t)arg);
    return NULL;
}

/* All sleep; one message after the other wakes the right one. */
static void threads_wait_for_requests_of_one_list(void)
{
    for (int i = 0; i < THREADS && p2p_rank == 1; i++)
        CALL(hcomm_irecv(&shared_values[i], sizeof(int), 0, i, p2p_world, &shared_requests[i]));
    CALL(hcomm_barrier(p2p_world));
    if (p2p_rank == 1)
        run_threads(wait_for_one);
    for (int i = THREADS - 1; i >= 0 && p2p_rank == 0; i--) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        CALL(hcomm_send(&i, sizeof(i), 1, i, p2p_world));
    }
}

static const struct p2p_case cases[] = {
    {"threads_with_own_tags", threads_with_own_tags, 1},
    {"threads_with_own_communicators", threads_with_own_communicators, 1},
    {"threads_share_a_wildcard_queue", threads_share_a_wildcard_queue, 2},
    {"threads_wait_for_requests_of_one_list", threads_wait_for_requests_of_one_list, 2},
};

int main(int argc, char **argv)
{
    return p2p_run(cases, sizeof(cases) / sizeof(cases[0]), NULL, argc, argv);
}
