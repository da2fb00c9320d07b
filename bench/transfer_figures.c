/*
 * Figures of transfers, one per call; bench/transfer runs them with the simulator's settings and makes the
 * table.
 *
 *     transfer_figures loop HOW BATCHES BYTES COMPUTE_NS    host to device, with computing in between
 *     transfer_figures small HOW WHERE COUNT                many transfers of 256 bytes
 *     transfer_figures large HOW BYTES ROUNDS               (2 ranks) a message in, or beside, hcomm's memory
 *     transfer_figures load HOW BYTES ROUNDS                the same from host to device
 *
 * HOW: loop: sync, prefetch. small: one, batch. large, load: staged, direct, plain. WHERE: device, host.
 * Prints lines "name value". Computing is modelled: the device would be busy, the host waits for it.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALL = 256, BATCH = 64, SOURCES = 8, SPIN_NS = 1000000, TAG = 1, DEPTH = 2, WARM = 6 };

static hcomm_handle_t hcomm;

static void must(hcomm_status_t status)
{
    if (status == HCOMM_OK)
        return;
    fprintf(stderr, "transfer_figures: %s: %s\n", hcomm_strerror(status), hcomm_error_detail());
    hcomm_abort(hcomm, 1);
}

static void must_have(const void *memory)
{
    if (!memory)
        must(HCOMM_ERR_NO_MEMORY);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* As long as a kernel of the device would take; the end is not slept for, because waking up is late. */
static void compute(double ns)
{
    double end = now_ns() + ns;
    while (end - now_ns() > 2 * SPIN_NS) {
        const struct timespec nap = {.tv_nsec = (long)(end - now_ns()) - SPIN_NS};
        (void)nanosleep(&nap, NULL);
    }
    while (now_ns() < end)
        ;
}

static void *device_memory(size_t size)
{
    void *memory = NULL;
    must(hcomm_mem_alloc(hcomm, size, HCOMM_MEMORY_DEVICE, &memory));
    return memory;
}

static void *host_memory(size_t size)
{
    void *memory = hcomm_alloc_host_mem(hcomm, size);
    must_have(memory);
    memset(memory, 1, size);
    return memory;
}

/* ---- loop ---- */

struct loop {
    char *sources; /* SOURCES batches, over and over */
    size_t bytes;
    uint64_t batches;
    double compute_ns, waited, begin, total;
};

/* Before batch i: the first ones touch memory for the first time, and are not counted. */
static void start_counting(struct loop *loop, uint64_t i)
{
    if (i != WARM)
        return;
    loop->waited = 0;
    loop->begin = now_ns();
}

static const void *batch_at(void *user_data, uint64_t index, size_t *size)
{
    const struct loop *loop = user_data;
    *size = loop->bytes;
    return index < loop->batches ? loop->sources + index % SOURCES * loop->bytes : NULL;
}

static void loop_sync(struct loop *loop)
{
    void *to = device_memory(loop->bytes);
    for (uint64_t i = 0; i < loop->batches; i++) {
        size_t size = 0;
        start_counting(loop, i);
        const void *from = batch_at(loop, i, &size);
        double begin = now_ns();
        must(hcomm_memcpy(hcomm, to, from, size, HCOMM_COPY_HOST_TO_DEVICE));
        loop->waited += now_ns() - begin;
        compute(loop->compute_ns);
    }
    loop->total = now_ns() - loop->begin;
}

static void loop_prefetch(struct loop *loop)
{
    const hcomm_prefetch_config_t config = {.source = batch_at,
                                            .user_data = loop,
                                            .batch_size = loop->bytes,
                                            .depth = DEPTH,
                                            .memory_type = HCOMM_MEMORY_DEVICE};
    hcomm_prefetch_t prefetch;
    hcomm_prefetch_batch_t batch;
    must(hcomm_prefetch_create(hcomm, &config, &prefetch));
    for (uint64_t i = 0;; i++) {
        start_counting(loop, i);
        double begin = now_ns();
        must(hcomm_prefetch_next(prefetch, &batch));
        loop->waited += now_ns() - begin;
        if (!batch.ptr)
            break;
        compute(loop->compute_ns);
    }
    loop->total = now_ns() - loop->begin;
    must(hcomm_prefetch_destroy(prefetch));
}

static void run_loop(char **argv)
{
    struct loop loop = {.batches = strtoull(argv[1], NULL, 10) + WARM,
                        .bytes = strtoull(argv[2], NULL, 10),
                        .compute_ns = strtod(argv[3], NULL)};
    loop.sources = host_memory(SOURCES * loop.bytes);
    if (strcmp(argv[0], "sync") == 0)
        loop_sync(&loop);
    else
        loop_prefetch(&loop);
    printf("total_ns %.0f\nwaited_ns %.0f\n", loop.total, loop.waited);
}

/* ---- small ---- */

static void one_by_one(hcomm_transfer_t *transfers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        must(hcomm_submit_transfer(hcomm, &transfers[i % BATCH]));
        must(hcomm_wait_completion(hcomm, transfers[i % BATCH].id));
    }
}

static void in_batches(hcomm_transfer_t *transfers, size_t count)
{
    for (size_t left = count; left;) {
        size_t n = left < BATCH ? left : BATCH;
        must(hcomm_submit_batch(hcomm, transfers, n));
        must(hcomm_wait_batch(hcomm, transfers, n));
        left -= n;
    }
}

static void run_small(char **argv)
{
    hcomm_transfer_t transfers[BATCH];
    size_t count = strtoull(argv[2], NULL, 10);
    char *from = host_memory(BATCH * SMALL);
    char *to = strcmp(argv[1], "device") == 0 ? device_memory(BATCH * SMALL) : host_memory(BATCH * SMALL);
    for (size_t i = 0; i < BATCH; i++)
        transfers[i] =
            (hcomm_transfer_t){.src_ptr = from + i * SMALL, .dst_ptr = to + i * SMALL, .size = SMALL};
    void (*run)(hcomm_transfer_t *, size_t) = strcmp(argv[0], "one") == 0 ? one_by_one : in_batches;
    run(transfers, 2 * BATCH); /* streams, events, threads are there */
    double begin = now_ns();
    run(transfers, count);
    printf("total_ns %.0f\n", now_ns() - begin);
}

/* ---- large, load ---- */

struct large {
    size_t bytes;
    char *data;    /* where the application has, or wants, it */
    char *through; /* what travels; the same without a copy */
    void *device;
};

static void pass_on(const struct large *large, int rank)
{
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    if (rank == 0) {
        if (large->through != large->data)
            memcpy(large->through, large->data, large->bytes);
        must(hcomm_send(large->through, large->bytes, 1, TAG, world));
    } else {
        must(hcomm_recv(large->through, large->bytes, 0, TAG, world, NULL));
        if (large->through != large->data)
            memcpy(large->data, large->through, large->bytes);
    }
}

static void load(const struct large *large, int rank)
{
    hcomm_transfer_t transfer = {.src_ptr = large->through, .dst_ptr = large->device, .size = large->bytes};
    (void)rank;
    if (large->through != large->data)
        memcpy(large->through, large->data, large->bytes);
    must(hcomm_submit_transfer(hcomm, &transfer));
    must(hcomm_wait_completion(hcomm, transfer.id));
}

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Median of the time from the first step of one side to the last of the other, seen by rank 0. */
static void run_large(char **argv, void (*step)(const struct large *large, int rank), int ranks)
{
    struct large large = {.bytes = strtoull(argv[1], NULL, 10)};
    size_t rounds = strtoull(argv[2], NULL, 10);
    double *times = calloc(rounds, sizeof(*times));
    int rank = hcomm_rank(hcomm), plain = strcmp(argv[0], "plain") == 0,
        direct = strcmp(argv[0], "direct") == 0;
    large.data = direct ? host_memory(large.bytes) : malloc(large.bytes);
    must_have(large.data);
    must_have(times);
    memset(large.data, 2, large.bytes);
    large.through = plain || direct ? large.data : host_memory(large.bytes);
    large.device = ranks == 1 ? device_memory(large.bytes) : NULL;
    for (size_t i = 0; i < rounds + 2; i++) { /* the first two warm up */
        char token = 0;
        must(hcomm_barrier(hcomm_comm_world(hcomm)));
        double begin = now_ns();
        step(&large, rank);
        if (ranks == 2 && rank == 1)
            must(hcomm_send(&token, 1, 0, TAG, hcomm_comm_world(hcomm)));
        else if (ranks == 2)
            must(hcomm_recv(&token, 1, 1, TAG, hcomm_comm_world(hcomm), NULL));
        if (i >= 2)
            times[i - 2] = now_ns() - begin;
    }
    qsort(times, rounds, sizeof(*times), by_value);
    if (rank == 0)
        printf("median_ns %.0f\n", times[rounds / 2]);
    free(times);
}

int main(int argc, char **argv)
{
    const char *what = argc > 4 ? argv[1] : "";
    must(hcomm_init(&hcomm, NULL));
    if (strcmp(what, "loop") == 0 && argc == 6)
        run_loop(argv + 2);
    else if (strcmp(what, "small") == 0)
        run_small(argv + 2);
    else if (strcmp(what, "large") == 0)
        run_large(argv + 2, pass_on, 2);
    else if (strcmp(what, "load") == 0)
        run_large(argv + 2, load, 1);
    else
        fprintf(stderr, "see the head of bench/transfer_figures.c\n");
    must(hcomm_finalize(hcomm));
    return 0;
}
