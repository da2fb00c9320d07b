/*
 * overlap: how much of a transfer hides behind computation. A transfer alone takes t. Then the same transfer
 * is started, the rank computes for t (or --compute's times that) without calling hcomm, and the transfer is
 * waited for, which makes the calls of hcomm take d altogether. Hidden is 1 - d / t of it: all of it when the
 * wait is over at once, none when the transfer began only in it. Measured with the sender computing, with the
 * receiver computing, and with both. Computing keeps the processor busy, or, as on a device, leaves it to
 * others. SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <sys/prctl.h>
#include <time.h>

enum { TRANSFERS = 200 };

enum { COMPUTE_SENDER = 1, COMPUTE_RECEIVER = 2 };

/* Keeps this processor busy, away from memory and from hcomm, until the clock says so. */
static void compute_here(double seconds)
{
    double end = perf_now() + seconds;
    volatile unsigned busy = 0;
    while (perf_now() < end)
        for (int i = 0; i < 50; i++)
            busy = busy + 1;
}

/* As one who waits for a device that computes. */
static void compute_elsewhere(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)nanosleep(&time, NULL);
}

/* Returns how long it took, which is what may hide a transfer. */
static double compute(const struct perf_case *point, double seconds)
{
    double start = perf_now();
    if (seconds > 0 && point->perf->options->device_computes)
        compute_elsewhere(seconds);
    else if (seconds > 0)
        compute_here(seconds);
    return perf_now() - start;
}

static void meet(struct perf_case *point)
{
    hcomm_comm_t world = point->perf->world;
    hcomm_status_t status = HCOMM_OK;
    if (point->first)
        status = hcomm_send(NULL, 0, point->peer, PERF_TAG_ACK, world);
    if (status == HCOMM_OK)
        status = hcomm_recv(NULL, 0, point->peer, PERF_TAG_ACK, world, NULL);
    if (status == HCOMM_OK && !point->first)
        status = hcomm_send(NULL, 0, point->peer, PERF_TAG_ACK, world);
    perf_must(point->perf, status, "meeting");
}

/* Seconds that a transfer takes, less those of computing. */
static double transfer(struct perf_case *point, double computing)
{
    hcomm_request_t request;
    hcomm_comm_t world = point->perf->world;
    meet(point);
    double start = perf_now();
    hcomm_status_t status = point->first ? hcomm_isend(perf_walk_next(&point->send), point->size, point->peer,
                                                       PERF_TAG_DATA, world, &request)
                                         : hcomm_irecv(perf_walk_next(&point->recv), point->size, point->peer,
                                                       PERF_TAG_DATA, world, &request);
    perf_must(point->perf, status, "starting a transfer");
    double computed = compute(point, computing);
    perf_must(point->perf, hcomm_wait(&request, NULL), "waiting for a transfer");
    return perf_now() - start - computed;
}

/* Median seconds of a transfer beside the computing, which takes so many seconds on the sides named. */
static double median(struct perf_case *point, double computing, int sides)
{
    double samples[TRANSFERS];
    uint64_t n = perf_case_few(point, TRANSFERS);
    bool mine = sides & (point->first ? COMPUTE_SENDER : COMPUTE_RECEIVER);
    for (uint64_t i = 0; i < n; i++)
        samples[i] = transfer(point, mine ? computing : 0);
    perf_sort(samples, n);
    return perf_quantile(samples, n, 0.5);
}

/* Percent hidden on this side. */
static double hidden(struct perf_case *point, double alone, int sides)
{
    double part = 1 - median(point, alone * point->perf->options->compute_times, sides) / alone;
    return part < 0 ? 0 : part > 1 ? 100 : part * 100;
}

/* Rank 1's values, on rank 0. */
static double from_receiver(struct perf_case *point, double value)
{
    hcomm_comm_t world = point->perf->world;
    hcomm_status_t status =
        point->first ? hcomm_recv(&value, sizeof(value), point->peer, PERF_TAG_CONTROL, world, NULL)
                     : hcomm_send(&value, sizeof(value), point->peer, PERF_TAG_CONTROL, world);
    perf_must(point->perf, status, "gathering results");
    return value;
}

static void measure(struct perf_case *point, double *values)
{
    (void)prctl(PR_SET_TIMERSLACK, 1UL); /* a device is not late */
    (void)median(point, 0, 0);           /* warm-up */
    double alone = median(point, 0, 0);
    values[0] = alone * 1e6;
    values[1] = hidden(point, alone, COMPUTE_SENDER);
    values[2] = from_receiver(point, hidden(point, alone, COMPUTE_RECEIVER));
    double both = hidden(point, alone, COMPUTE_SENDER | COMPUTE_RECEIVER);
    double other = from_receiver(point, both);
    values[3] = other < both ? other : both;
}

static void overlap_point(struct perf *perf, size_t size)
{
    struct perf_case point;
    double values[4] = {0};
    int peer = perf->rank < 2 ? 1 - perf->rank : HCOMM_RANK_NULL;
    perf_case_init(perf, &point, size, peer, perf->rank == 0);
    perf_check_exchange(&point);
    perf_check_fill(&point);
    if (peer >= 0)
        measure(&point, values);
    perf_barrier(perf);
    if (perf->rank == 1)
        perf_check_verify(&point, 0);
    perf_output_row(perf, size, values);
    perf_case_fini(&point);
}

const struct perf_test perf_test_overlap = {
    .name = "overlap",
    .help = "how much of a transfer hides behind computation, without and with progress thread",
    .axis = PERF_AXIS_BYTES,
    .min_ranks = 2,
    .both_threads = true,
    .size_min = 1024,
    .size_max = (size_t)4 << 20,
    .columns = {{"transfer", "us", 2}, {"sender", "%", 1}, {"receiver", "%", 1}, {"both", "%", 1}},
    .point = overlap_point,
};
