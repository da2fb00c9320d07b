/*
 * One measured point: its buffers, how often it is repeated, the clock, and sums over the ranks.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <stdlib.h>

/* Up to this size a message is cheap enough for many iterations. */
enum { SMALL_MAX = 8192 };
enum { FEWEST = 10 };
static const uint64_t iterations_max = 100000000;

static size_t rounded(size_t size, size_t to)
{
    return (size + to - 1) / to * to;
}

static void walk_init(const struct perf *perf, struct perf_walk *walk, size_t size)
{
    size_t stride = rounded(size ? size : 1, 64);
    size_t slots = perf->options->footprint / stride;
    *walk = (struct perf_walk){.stride = stride, .slots = slots ? slots : 1};
    walk->base = perf_memory_take(perf, stride * walk->slots);
}

void perf_case_init(struct perf *perf, struct perf_case *point, size_t size, int peer, bool first)
{
    const struct perf_options *options = perf->options;
    bool small = size <= SMALL_MAX;
    *point = (struct perf_case){.perf = perf,
                                .size = size,
                                .window = options->window,
                                .peer = peer,
                                .first = first,
                                .warmup = options->warmup_given ? options->warmup
                                          : small               ? 100
                                                                : 10,
                                .iterations = options->iterations ? options->iterations
                                              : small             ? 10000
                                                                  : 1000};
    walk_init(perf, &point->send, size);
    walk_init(perf, &point->recv, size);
    point->requests = calloc(2 * point->window, sizeof(point->requests[0]));
    if (!point->requests)
        perf_die(perf, "no memory for a window of %zu messages", point->window);
}

void perf_case_fini(struct perf_case *point)
{
    free(point->requests);
    perf_memory_give(point->perf, point->recv.base);
    perf_memory_give(point->perf, point->send.base);
}

void perf_case_windows(struct perf_case *point)
{
    const struct perf_options *options = point->perf->options;
    if (options->iterations == 0)
        point->iterations /= 10;
    if (!options->warmup_given)
        point->warmup /= 10;
}

uint64_t perf_case_few(const struct perf_case *point, uint64_t most)
{
    return point->iterations < most ? point->iterations : most;
}

void perf_barrier(struct perf *perf)
{
    perf_must(perf, hcomm_barrier(perf->world), "barrier");
}

/* Collective over the world: rank 0's value, everywhere. */
static uint64_t agree(struct perf *perf, uint64_t value)
{
    hcomm_status_t status = HCOMM_OK;
    if (perf->rank != 0)
        status = hcomm_recv(&value, sizeof(value), 0, PERF_TAG_CONTROL, perf->world, NULL);
    for (int rank = 1; perf->rank == 0 && rank < perf->ranks && status == HCOMM_OK; rank++)
        status = hcomm_send(&value, sizeof(value), rank, PERF_TAG_CONTROL, perf->world);
    perf_must(perf, status, "agreeing on the number of iterations");
    return value;
}

struct perf_sum perf_sum(struct perf *perf, double value)
{
    struct perf_sum sum = {.least = value, .greatest = value, .mean = value / perf->ranks};
    hcomm_status_t status = HCOMM_OK;
    if (perf->rank != 0)
        status = hcomm_send(&value, sizeof(value), 0, PERF_TAG_CONTROL, perf->world);
    for (int rank = 1; perf->rank == 0 && rank < perf->ranks && status == HCOMM_OK; rank++) {
        status = hcomm_recv(&value, sizeof(value), rank, PERF_TAG_CONTROL, perf->world, NULL);
        sum.least = value < sum.least ? value : sum.least;
        sum.greatest = value > sum.greatest ? value : sum.greatest;
        sum.mean += value / perf->ranks;
    }
    perf_must(perf, status, "gathering results");
    return sum;
}

/* As many iterations as fit into --seconds, judged by rank 0 from a second, warm run of a few. */
static uint64_t calibrate(struct perf_case *point, perf_loop_fn loop)
{
    uint64_t few = point->warmup < FEWEST ? FEWEST : point->warmup;
    perf_barrier(point->perf);
    double start = perf_now();
    loop(point, few);
    double each = (perf_now() - start) / (double)few;
    double fit = each > 0 ? point->perf->options->seconds / each : (double)iterations_max;
    uint64_t iterations = fit > (double)iterations_max ? iterations_max : (uint64_t)fit;
    return agree(point->perf, iterations < FEWEST ? FEWEST : iterations);
}

double perf_case_time(struct perf_case *point, perf_loop_fn loop)
{
    perf_barrier(point->perf);
    loop(point, point->warmup);
    if (point->perf->options->seconds > 0)
        point->iterations = calibrate(point, loop);
    perf_barrier(point->perf);
    double start = perf_now();
    loop(point, point->iterations);
    return perf_now() - start;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void perf_sort(double *values, size_t n)
{
    qsort(values, n, sizeof(values[0]), compare);
}

double perf_quantile(const double *sorted, size_t n, double part)
{
    size_t at = (size_t)(part * (double)n);
    return sorted[at < n ? at : n - 1];
}

double perf_clock_cost(void)
{
    enum { READINGS = 101 };
    double costs[READINGS], before = perf_now();
    for (int i = 0; i < READINGS; i++) {
        double now = perf_now();
        costs[i] = now - before;
        before = now;
    }
    perf_sort(costs, READINGS);
    return perf_quantile(costs, READINGS, 0.5);
}
