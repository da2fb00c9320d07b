/*
 * A ping-pong in lockstep, for counting what a message costs: a rank receives only after it was told, through
 * a FIFO beside hcomm, that the message has been sent. So hcomm never waits, and instructions, system calls
 * and allocations per message are the same in every run. bench/costs.sh counts them.
 *
 *     hcommrun -n 2 message_cost ITERATIONS FOLDER [WINDOW]      FOLDER holds the FIFOs "0" and "1"
 *
 * With WINDOW, each iteration is that many messages from rank 0 to receives that rank 1 has posted before, and
 * an answer.
 *
 * Prints, per rank, the allocations made during the second half of the iterations (this program's own malloc
 * counts them); that half stands between two marks, calls of write(-1, …). SPDX-License-Identifier:
 * BSD-3-Clause
 */
#include <hcomm.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE = 8, TAG = 1, WINDOW_MAX = 256 };

/* Every allocation of the process passes here; relaxed: only the number counts. */
static _Atomic unsigned long allocations;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    return __libc_realloc(memory, size);
}

struct lockstep {
    hcomm_handle_t hcomm;
    int rank;
    int window;   /* 0: a ping-pong */
    int to, from; /* FIFOs */
};

static void must(const struct lockstep *lockstep, hcomm_status_t status)
{
    if (status == HCOMM_OK)
        return;
    fprintf(stderr, "message_cost: %s\n", hcomm_error_detail());
    hcomm_abort(lockstep->hcomm, 1);
}

static void die(const struct lockstep *lockstep, const char *what)
{
    perror(what);
    hcomm_abort(lockstep->hcomm, 1);
}

/* The rank that reads a FIFO opens it for both, so that no open waits for the other rank. */
static int open_fifo(const struct lockstep *lockstep, const char *folder, int reader)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%d", folder, reader);
    int fifo = open(path, O_RDWR | O_CLOEXEC);
    if (fifo < 0)
        die(lockstep, path);
    return fifo;
}

static void tell(const struct lockstep *lockstep)
{
    if (write(lockstep->to, "", 1) != 1)
        die(lockstep, "telling the other rank");
}

static void hear(const struct lockstep *lockstep)
{
    char told;
    if (read(lockstep->from, &told, 1) != 1)
        die(lockstep, "hearing of the other rank");
}

static void send_one(const struct lockstep *lockstep, const char *data)
{
    must(lockstep, hcomm_send(data, MESSAGE, 1 - lockstep->rank, TAG, hcomm_comm_world(lockstep->hcomm)));
    tell(lockstep);
}

static void recv_one(const struct lockstep *lockstep, char *data)
{
    hear(lockstep);
    must(lockstep,
         hcomm_recv(data, MESSAGE, 1 - lockstep->rank, TAG, hcomm_comm_world(lockstep->hcomm), NULL));
}

static void ping_pong(const struct lockstep *lockstep, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        char sent[MESSAGE] = "", received[MESSAGE];
        memcpy(sent, &i, sizeof(i) < MESSAGE ? sizeof(i) : MESSAGE);
        if (lockstep->rank == 0)
            send_one(lockstep, sent);
        recv_one(lockstep, received);
        if (memcmp(sent, received, MESSAGE) != 0) {
            fprintf(stderr, "message_cost: message %ld is wrong\n", i);
            hcomm_abort(lockstep->hcomm, 1);
        }
        if (lockstep->rank == 1)
            send_one(lockstep, sent);
    }
}

static void send_window(const struct lockstep *lockstep)
{
    hcomm_request_t requests[WINDOW_MAX];
    char data[MESSAGE] = "", answer[MESSAGE];
    hear(lockstep);
    for (int i = 0; i < lockstep->window; i++)
        must(lockstep, hcomm_isend(data, MESSAGE, 1 - lockstep->rank, TAG, hcomm_comm_world(lockstep->hcomm),
                                   &requests[i]));
    must(lockstep, hcomm_waitall((size_t)lockstep->window, requests, NULL));
    tell(lockstep);
    recv_one(lockstep, answer);
}

static void recv_window(const struct lockstep *lockstep)
{
    static char data[WINDOW_MAX][MESSAGE];
    hcomm_request_t requests[WINDOW_MAX];
    for (int i = 0; i < lockstep->window; i++)
        must(lockstep, hcomm_irecv(data[i], MESSAGE, 1 - lockstep->rank, TAG,
                                   hcomm_comm_world(lockstep->hcomm), &requests[i]));
    tell(lockstep);
    hear(lockstep);
    must(lockstep, hcomm_waitall((size_t)lockstep->window, requests, NULL));
    send_one(lockstep, data[0]);
}

static void iterate(const struct lockstep *lockstep, long iterations)
{
    if (!lockstep->window)
        ping_pong(lockstep, iterations);
    for (long i = 0; lockstep->window && i < iterations; i++)
        (lockstep->rank == 0 ? send_window : recv_window)(lockstep);
}

/* A call that fails and does nothing, for whoever traces system calls. */
static void mark(const char *word)
{
    if (write(-1, word, strlen(word)) >= 0)
        abort();
}

/* The first messages wait for connections, which is progress that a rank outside hcomm would not make. */
static void connect_ranks(const struct lockstep *lockstep)
{
    int peer = 1 - lockstep->rank;
    char out[MESSAGE] = "", in[MESSAGE];
    for (int i = 0; i < 2; i++)
        must(lockstep, hcomm_sendrecv(out, MESSAGE, peer, TAG, in, MESSAGE, peer, TAG,
                                      hcomm_comm_world(lockstep->hcomm), NULL));
}

int main(int argc, char **argv)
{
    struct lockstep lockstep = {0};
    long iterations = argc == 3 || argc == 4 ? atol(argv[1]) : 0;
    lockstep.window = argc == 4 ? atoi(argv[3]) : 0;
    if (iterations < 2 || lockstep.window < 0 || lockstep.window > WINDOW_MAX) {
        fprintf(stderr, "usage: hcommrun -n 2 message_cost ITERATIONS FOLDER [WINDOW]\n");
        return 2;
    }
    must(&lockstep, hcomm_init(&lockstep.hcomm, NULL));
    lockstep.rank = hcomm_rank(lockstep.hcomm);
    if (hcomm_size(lockstep.hcomm) != 2) {
        fprintf(stderr, "message_cost: needs exactly two ranks\n");
        hcomm_abort(lockstep.hcomm, 2);
    }
    lockstep.from = open_fifo(&lockstep, argv[2], lockstep.rank);
    lockstep.to = open_fifo(&lockstep, argv[2], 1 - lockstep.rank);
    connect_ranks(&lockstep);
    iterate(&lockstep, iterations / 2);
    mark("begin");
    unsigned long before = atomic_load_explicit(&allocations, memory_order_relaxed);
    iterate(&lockstep, iterations - iterations / 2);
    unsigned long after = atomic_load_explicit(&allocations, memory_order_relaxed);
    mark("end");
    printf("rank %d: %lu allocations\n", lockstep.rank, after - before);
    must(&lockstep, hcomm_finalize(lockstep.hcomm));
    return 0;
}
