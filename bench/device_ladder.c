/*
 * A ring of ranks, each with a device: in every step a rank computes a block of 1 MiB of device memory and
 * passes it to its right neighbour. The rungs do the same work in ways that hide more and more of it;
 * bench/ladder runs it.
 *
 *     device_ladder STEPS COMPUTE_US LINK_BYTES_PER_S
 *
 * What is computed takes COMPUTE_US of waiting, as the simulator has no kernels: a device computes without
 * the processor. Rank 0 prints one line per rung: name, µs per step, share of the link, overlap.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BLOCK = 1 << 20, BUFFERS = 2, BLOCKS_PER_LARGE = 4, REPEATS = 2 };

struct setup {
    hcomm_handle_t hcomm;
    hcomm_comm_t world;
    int left, right, steps;
    long compute_us;
    double link; /* bytes per second */
    unsigned char *out[BUFFERS], *in[BUFFERS];
    hcomm_stream_t computing, moving[BUFFERS];
    hcomm_event_t computed[BUFFERS], moved[BUFFERS];
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

/* ---- rungs ---- */

static void blocking(struct setup *setup)
{
    for (int i = 0; i < setup->steps; i++) {
        compute(setup);
        check(setup, hcomm_sendrecv(setup->out[0], BLOCK, setup->right, 0, setup->in[0], BLOCK, setup->left,
                                    0, setup->world, NULL));
    }
}

/* The next block is computed while the last one moves, as far as it moves without being looked after. */
static void asynchronous(struct setup *setup)
{
    hcomm_request_t requests[2] = {HCOMM_REQUEST_NULL, HCOMM_REQUEST_NULL};
    for (int i = 0; i < setup->steps; i++) {
        int which = i % BUFFERS;
        compute(setup);
        check(setup, hcomm_waitall(2, requests, NULL));
        check(setup, hcomm_irecv(setup->in[which], BLOCK, setup->left, 0, setup->world, &requests[0]));
        check(setup, hcomm_isend(setup->out[which], BLOCK, setup->right, 0, setup->world, &requests[1]));
    }
    check(setup, hcomm_waitall(2, requests, NULL));
}

/* `blocks` computed, then moved as one message; two buffers alternate, each on a stream of its own, so that
 * one's message is agreed on while the other's moves. Tags keep the streams' messages apart. */
static void on_two_streams(struct setup *setup, int blocks)
{
    for (int i = 0; i < setup->steps / blocks; i++) {
        int which = i % BUFFERS;
        check(setup, hcomm_stream_wait_event(setup->computing, setup->moved[which])); /* the buffer is free */
        for (int k = 0; k < blocks; k++)
            check(setup, hcomm_launch_host(setup->computing, compute, setup));
        check(setup, hcomm_event_record(setup->computed[which], setup->computing));
        check(setup, hcomm_stream_wait_event(setup->moving[which], setup->computed[which]));
        check(setup, hcomm_sendrecv_on(setup->out[which], (size_t)blocks * BLOCK, setup->right, which,
                                       setup->in[which], (size_t)blocks * BLOCK, setup->left, which,
                                       setup->world, NULL, setup->moving[which]));
        check(setup, hcomm_event_record(setup->moved[which], setup->moving[which]));
    }
    check(setup, hcomm_stream_synchronize(setup->computing));
    for (int i = 0; i < BUFFERS; i++)
        check(setup, hcomm_stream_synchronize(setup->moving[i]));
}

static void two_streams(struct setup *setup)
{
    on_two_streams(setup, 1);
}

static void large_buffers(struct setup *setup)
{
    on_two_streams(setup, BLOCKS_PER_LARGE);
}

static const struct {
    const char *name;
    void (*run)(struct setup *setup);
} rungs[] = {
    {"blocking", blocking},
    {"asynchronous", asynchronous},
    {"two streams", two_streams},
    {"large buffers", large_buffers},
};

/* ---- measuring ---- */

static double best_time(struct setup *setup, void (*run)(struct setup *setup))
{
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        check(setup, hcomm_barrier(setup->world));
        double start = now();
        run(setup);
        check(setup, hcomm_barrier(setup->world));
        double took = now() - start;
        best = took < best ? took : best;
    }
    return best;
}

static void report(const struct setup *setup, const char *name, double took, double computing)
{
    double moving = (double)setup->steps * BLOCK / setup->link;
    double hidden = computing + moving - took, most = computing < moving ? computing : moving;
    if (hcomm_rank(setup->hcomm) == 0)
        printf("%s,%.1f,%.1f,%.1f\n", name, took / setup->steps * 1e6, moving / took * 100,
               hidden > 0 ? hidden / most * 100 : 0);
}

static void create(struct setup *setup)
{
    size_t bytes = (size_t)BLOCKS_PER_LARGE * BLOCK;
    for (int i = 0; i < BUFFERS; i++) {
        check(setup, hcomm_mem_alloc(setup->hcomm, bytes, HCOMM_MEMORY_DEVICE, (void **)&setup->out[i]));
        check(setup, hcomm_mem_alloc(setup->hcomm, bytes, HCOMM_MEMORY_DEVICE, (void **)&setup->in[i]));
        check(setup, hcomm_memset(setup->hcomm, setup->out[i], i, bytes));
        check(setup, hcomm_event_create(setup->hcomm, &setup->computed[i]));
        check(setup, hcomm_event_create(setup->hcomm, &setup->moved[i]));
    }
}

int main(int argc, char **argv)
{
    const char *number = getenv("PMIX_RANK");
    struct setup setup = {.hcomm = NULL};
    hcomm_config_t config = {.device_id = HCOMM_DEVICE(number ? atoi(number) % 8 : 0)};
    if (argc != 4) {
        fprintf(stderr, "usage: device_ladder STEPS COMPUTE_US LINK_BYTES_PER_S\n");
        return 2;
    }
    setup.steps = atoi(argv[1]);
    setup.compute_us = atol(argv[2]);
    setup.link = atof(argv[3]);
    check(&setup, hcomm_init(&setup.hcomm, &config));
    setup.world = hcomm_comm_world(setup.hcomm);
    int rank = hcomm_rank(setup.hcomm), size = hcomm_size(setup.hcomm);
    setup.right = (rank + 1) % size;
    setup.left = (rank + size - 1) % size;
    create(&setup);
    double begin = now();
    for (int i = 0; i < setup.steps; i++)
        compute(&setup);
    double computing = now() - begin;
    for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]); i++) {
        if (rungs[i].run ==
            two_streams) { /* the first stream starts a thread that the rungs before do without */
            check(&setup, hcomm_stream_create(setup.hcomm, 0, &setup.computing));
            for (int k = 0; k < BUFFERS; k++)
                check(&setup, hcomm_stream_create(setup.hcomm, 0, &setup.moving[k]));
        }
        report(&setup, rungs[i].name, best_time(&setup, rungs[i].run), computing);
    }
    return hcomm_finalize(setup.hcomm) == HCOMM_OK ? 0 : 1;
}
