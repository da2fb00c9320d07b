/*
 * Four ranks, each with a device, whose devices are linked in pairs: in every step each computes a block of
 * 1 MiB of device memory that all others need. The rungs do that same work in ways that hide more and more
 * of it; bench/ladder runs it.
 *
 *     device_ladder STEPS COMPUTE_US LINK_BYTES_PER_S
 *
 * The link is the slow one, from a device to the other pair's: each device's carries at least one block per
 * step, because two blocks must get from pair to pair and a pair has two links. What is computed takes
 * COMPUTE_US of waiting, as the simulator has no kernels: a device computes without the processor. Rank 0
 * prints one line per rung: name, µs from the begin of a lone exchange to its end (median), µs per step of
 * many, share of the link, share of the computing that is hidden.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS = 4, BLOCK = 1 << 20, SMALL = 64 << 10, PIECES = BLOCK / SMALL };
enum { STREAMS = 2, POOL = 4, REPEATS = 2, LONE = 9, REQUESTS = 2 * PIECES * (RANKS - 1) };

/* The own block, and one for each other rank's. */
struct blocks {
    unsigned char *out, *in[RANKS];
};

struct setup {
    hcomm_handle_t hcomm;
    hcomm_comm_t world;
    int rank, steps;
    int mate, across, other; /* the other device of the pair; the mate's and ours in the other pair */
    long compute_us;
    double link; /* bytes per second */
    struct blocks blocks[STREAMS];
    hcomm_buffer_pool_t pool;
    hcomm_stream_t computing, moving[STREAMS];
    hcomm_event_t computed[STREAMS], moved[STREAMS];
    hcomm_request_t requests[REQUESTS];
};

static void check(struct setup *setup, hcomm_status_t status)
{
    if (status == HCOMM_OK)
        return;
    fprintf(stderr, "device_ladder: %s\n", hcomm_error_detail());
    hcomm_abort(setup->hcomm, 1);
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void compute(void *arg)
{
    const struct setup *setup = arg;
    const struct timespec time = {.tv_sec = 0, .tv_nsec = setup->compute_us * 1000};
    (void)nanosleep(&time, NULL);
}

/* ---- exchanges ---- */

/* In turn: every message waits for the one before. */
static void exchange_blocking(struct setup *setup, const struct blocks *blocks)
{
    for (int i = 1; i < RANKS; i++) {
        int to = (setup->rank + i) % RANKS, from = (setup->rank + RANKS - i) % RANKS;
        for (size_t at = 0; at < BLOCK; at += SMALL)
            check(setup, hcomm_sendrecv(blocks->out + at, SMALL, to, 0, blocks->in[from] + at, SMALL, from, 0,
                                        setup->world, NULL));
    }
}

static void exchange_begin(struct setup *setup, const struct blocks *blocks)
{
    hcomm_request_t *request = setup->requests;
    for (int i = 1; i < RANKS; i++) {
        int to = (setup->rank + i) % RANKS, from = (setup->rank + RANKS - i) % RANKS;
        for (size_t at = 0; at < BLOCK; at += SMALL) {
            check(setup, hcomm_irecv(blocks->in[from] + at, SMALL, from, 0, setup->world, request++));
            check(setup, hcomm_isend(blocks->out + at, SMALL, to, 0, setup->world, request++));
        }
    }
}

static void exchange_end(struct setup *setup)
{
    check(setup, hcomm_waitall(REQUESTS, setup->requests, NULL));
}

static void swap_on(struct setup *setup, int which, const void *out, void *in, int peer, size_t size)
{
    hcomm_stream_t stream = setup->moving[which]; /* tags keep the streams' messages apart */
    check(setup, hcomm_recv_on(in, size, peer, which, setup->world, NULL, stream));
    check(setup, hcomm_send_on(out, size, peer, which, setup->world, stream));
}

/* All at once, in messages of `size`. */
static void enqueue_flat(struct setup *setup, const struct blocks *blocks, int which, size_t size)
{
    check(setup, hcomm_group_start());
    for (int peer = 0; peer < RANKS; peer++)
        for (size_t at = 0; at < BLOCK && peer != setup->rank; at += size)
            swap_on(setup, which, blocks->out + at, blocks->in[peer] + at, peer, size);
    check(setup, hcomm_group_end());
}

static void enqueue_small(struct setup *setup, const struct blocks *blocks, int which)
{
    enqueue_flat(setup, blocks, which, SMALL);
}

static void enqueue_large(struct setup *setup, const struct blocks *blocks, int which)
{
    enqueue_flat(setup, blocks, which, BLOCK);
}

/* Each block crosses the slow link once; the fast one takes it to the mate. */
static void enqueue_by_topology(struct setup *setup, const struct blocks *blocks, int which)
{
    check(setup, hcomm_group_start());
    swap_on(setup, which, blocks->out, blocks->in[setup->across], setup->across, BLOCK);
    swap_on(setup, which, blocks->out, blocks->in[setup->mate], setup->mate, BLOCK);
    check(setup, hcomm_group_end());
    check(setup, hcomm_group_start());
    swap_on(setup, which, blocks->in[setup->across], blocks->in[setup->other], setup->mate, BLOCK);
    check(setup, hcomm_group_end());
}

typedef void enqueue_fn(struct setup *setup, const struct blocks *blocks, int which);

/* ---- steps ---- */

static void run_blocking(struct setup *setup, enqueue_fn *enqueue)
{
    (void)enqueue;
    for (int i = 0; i < setup->steps; i++) {
        compute(setup);
        exchange_blocking(setup, &setup->blocks[0]);
    }
}

/* The next block is computed while the last one moves, as far as it moves without being looked after. */
static void run_asynchronous(struct setup *setup, enqueue_fn *enqueue)
{
    (void)enqueue;
    for (int i = 0; i < setup->steps; i++) {
        compute(setup);
        if (i > 0)
            exchange_end(setup);
        exchange_begin(setup, &setup->blocks[i % 2]);
    }
    exchange_end(setup);
}

static void synchronize(struct setup *setup)
{
    check(setup, hcomm_stream_synchronize(setup->computing));
    for (int i = 0; i < STREAMS; i++)
        check(setup, hcomm_stream_synchronize(setup->moving[i]));
}

/* Compute, and let the stream's next exchange wait for it. */
static void enqueue_computing(struct setup *setup, int which)
{
    check(setup, hcomm_launch_host(setup->computing, compute, setup));
    check(setup, hcomm_event_record(setup->computed[which], setup->computing));
    check(setup, hcomm_stream_wait_event(setup->moving[which], setup->computed[which]));
}

/* Two sets of buffers alternate, each with a stream of its own. */
static void run_on_streams(struct setup *setup, enqueue_fn *enqueue)
{
    for (int i = 0; i < setup->steps; i++) {
        int which = i % STREAMS;
        check(setup, hcomm_stream_wait_event(setup->computing, setup->moved[which])); /* buffers are free */
        enqueue_computing(setup, which);
        enqueue(setup, &setup->blocks[which], which);
        check(setup, hcomm_event_record(setup->moved[which], setup->moving[which]));
    }
    synchronize(setup);
}

static void acquire(struct setup *setup, struct blocks *blocks)
{
    check(setup, hcomm_buffer_pool_acquire(setup->pool, (void **)&blocks->out));
    for (int i = 0; i < RANKS; i++)
        if (i != setup->rank)
            check(setup, hcomm_buffer_pool_acquire(setup->pool, (void **)&blocks->in[i]));
}

/* They are somebody else's as soon as the exchange is over. */
static void release(struct setup *setup, const struct blocks *blocks)
{
    check(setup, hcomm_buffer_pool_release(setup->pool, blocks->out));
    for (int i = 0; i < RANKS; i++)
        if (i != setup->rank)
            check(setup, hcomm_buffer_pool_release(setup->pool, blocks->in[i]));
}

static void run_from_pool(struct setup *setup, enqueue_fn *enqueue)
{
    for (int i = 0; i < setup->steps; i++) {
        struct blocks blocks;
        acquire(setup, &blocks);
        enqueue_computing(setup, i % STREAMS);
        enqueue(setup, &blocks, i % STREAMS);
        release(setup, &blocks);
    }
    synchronize(setup);
}

static const struct rung {
    const char *name;
    void (*run)(struct setup *setup, enqueue_fn *enqueue);
    enqueue_fn *enqueue; /* NULL: no streams */
    int blocks_per_link; /* that cross a slow link in a step */
} rungs[] = {
    {"blocking", run_blocking, NULL, 2},
    {"asynchronous", run_asynchronous, NULL, 2},
    {"two streams", run_on_streams, enqueue_small, 2},
    {"large buffers of a pool", run_from_pool, enqueue_large, 2},
    {"topology-aware", run_from_pool, enqueue_by_topology, 1},
};

/* ---- measuring ---- */

static void exchange(struct setup *setup, const struct rung *rung)
{
    if (rung->enqueue) {
        rung->enqueue(setup, &setup->blocks[0], 0);
        check(setup, hcomm_stream_synchronize(setup->moving[0]));
    } else if (rung->run == run_blocking) {
        exchange_blocking(setup, &setup->blocks[0]);
    } else {
        exchange_begin(setup, &setup->blocks[0]);
        exchange_end(setup);
    }
}

/* Every rung must bring everybody's block. */
static void verify(struct setup *setup, const struct rung *rung)
{
    static unsigned char expected[BLOCK], got[BLOCK];
    for (int i = 0; i < RANKS; i++)
        check(setup,
              hcomm_memset(setup->hcomm, i == setup->rank ? setup->blocks[0].out : setup->blocks[0].in[i],
                           i == setup->rank ? i + 1 : 0, BLOCK));
    check(setup, hcomm_barrier(setup->world));
    exchange(setup, rung);
    for (int i = 0; i < RANKS; i++) {
        if (i == setup->rank)
            continue;
        (void)memset(expected, i + 1, BLOCK);
        check(setup, hcomm_memcpy(setup->hcomm, got, setup->blocks[0].in[i], BLOCK, HCOMM_COPY_AUTO));
        if (memcmp(expected, got, BLOCK) != 0) {
            fprintf(stderr, "device_ladder: %s: rank %d has not got rank %d's block\n", rung->name,
                    setup->rank, i);
            hcomm_abort(setup->hcomm, 1);
        }
    }
    check(setup, hcomm_barrier(setup->world));
}

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double latency(struct setup *setup, const struct rung *rung)
{
    double times[LONE];
    for (int i = 0; i < LONE; i++) {
        check(setup, hcomm_barrier(setup->world));
        double start = now();
        exchange(setup, rung);
        times[i] = now() - start;
    }
    qsort(times, LONE, sizeof(*times), by_value);
    return times[LONE / 2];
}

static double best_time(struct setup *setup, const struct rung *rung)
{
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        check(setup, hcomm_barrier(setup->world));
        double start = now();
        rung->run(setup, rung->enqueue);
        check(setup, hcomm_barrier(setup->world));
        double took = now() - start;
        best = took < best ? took : best;
    }
    return best;
}

static void measure(struct setup *setup, const struct rung *rung, double computing)
{
    verify(setup, rung);
    double lone = latency(setup, rung), took = best_time(setup, rung);
    double crossing = (double)setup->steps * BLOCK / setup->link, moving = crossing * rung->blocks_per_link;
    double hidden = computing + moving - took, most = computing < moving ? computing : moving;
    if (setup->rank == 0)
        printf("%s,%.0f,%.0f,%.1f,%.1f\n", rung->name, lone * 1e6, took / setup->steps * 1e6,
               crossing / took * 100, hidden > 0 ? hidden / most * 100 : 0);
}

/* ---- setting up ---- */

static unsigned char *device_block(struct setup *setup)
{
    void *block = NULL;
    check(setup, hcomm_mem_alloc(setup->hcomm, BLOCK, HCOMM_MEMORY_DEVICE, &block));
    return block;
}

static void create_buffers(struct setup *setup)
{
    for (int i = 0; i < STREAMS; i++) {
        setup->blocks[i].out = device_block(setup);
        for (int rank = 0; rank < RANKS; rank++)
            setup->blocks[i].in[rank] = device_block(setup);
    }
    setup->pool = hcomm_buffer_pool_create(setup->hcomm, (size_t)POOL * RANKS, BLOCK, HCOMM_MEMORY_DEVICE);
    check(setup, setup->pool ? HCOMM_OK : HCOMM_ERR_NO_MEMORY);
}

/* The first stream starts a thread, which the rungs before do without. */
static void create_streams(struct setup *setup)
{
    check(setup, hcomm_stream_create(setup->hcomm, 0, &setup->computing));
    for (int i = 0; i < STREAMS; i++) {
        check(setup, hcomm_stream_create(setup->hcomm, 0, &setup->moving[i]));
        check(setup, hcomm_event_create(setup->hcomm, &setup->computed[i]));
        check(setup, hcomm_event_create(setup->hcomm, &setup->moved[i]));
    }
}

/* Who is near, who is far: false unless the devices are two pairs. */
static int find_links(struct setup *setup)
{
    const hcomm_topology_t *topology = NULL;
    int far[RANKS], num_far = 0;
    check(setup, hcomm_get_topology(setup->hcomm, &topology));
    setup->mate = -1;
    for (int rank = 0; rank < topology->num_ranks && topology->num_ranks == RANKS; rank++)
        if (rank != setup->rank && topology->ranks[rank].device_link == HCOMM_LINK_HCCS)
            setup->mate = rank;
        else if (rank != setup->rank)
            far[num_far++] = rank;
    if (setup->mate < 0 || num_far != 2)
        return 0;
    setup->across = far[setup->rank > setup->mate];
    setup->other = far[setup->rank < setup->mate];
    return 1;
}

static int start(struct setup *setup)
{
    const char *number = getenv("PMIX_RANK");
    hcomm_config_t config = {.device_id = HCOMM_DEVICE(number ? atoi(number) % RANKS : 0)};
    check(setup, hcomm_init(&setup->hcomm, &config));
    setup->world = hcomm_comm_world(setup->hcomm);
    setup->rank = hcomm_rank(setup->hcomm);
    if (!find_links(setup)) {
        fprintf(stderr,
                "device_ladder: wants 4 ranks whose devices are linked in pairs: NPUSIM_TOPOLOGY=pairs\n");
        return 0;
    }
    create_buffers(setup);
    return 1;
}

static double computing_time(struct setup *setup)
{
    double begin = now();
    for (int i = 0; i < setup->steps; i++)
        compute(setup);
    return now() - begin;
}

int main(int argc, char **argv)
{
    struct setup setup = {.hcomm = NULL};
    if (argc != 4) {
        fprintf(stderr, "usage: device_ladder STEPS COMPUTE_US LINK_BYTES_PER_S\n");
        return 2;
    }
    setup.steps = atoi(argv[1]);
    setup.compute_us = atol(argv[2]);
    setup.link = atof(argv[3]);
    if (!start(&setup))
        return 1;
    double computing = computing_time(&setup);
    for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]); i++) {
        if (rungs[i].enqueue && !setup.computing)
            create_streams(&setup);
        measure(&setup, &rungs[i], computing);
    }
    return hcomm_finalize(setup.hcomm) == HCOMM_OK ? 0 : 1;
}
