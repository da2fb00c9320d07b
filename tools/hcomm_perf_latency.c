/*
 * latency: a message there and back between ranks 0 and 1, half the time of a round trip, as osu_latency
 * defines it. multi_lat: the same between rank i and rank i + n/2, all pairs at once, as osu_multi_lat.
 *
 * The average comes from one loop without clock readings inside. Least, median and 99th percentile come from
 * a second pass that reads the clock around every round trip, less what a reading costs.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <stdlib.h>

enum { SAMPLES_MAX = 10000 };

static void send_one(struct perf_case *point)
{
    perf_must(
        point->perf,
        hcomm_send(perf_walk_next(&point->send), point->size, point->peer, PERF_TAG_DATA, point->perf->world),
        "send");
}

static void recv_one(struct perf_case *point)
{
    perf_must(point->perf,
              hcomm_recv(perf_walk_next(&point->recv), point->size, point->peer, PERF_TAG_DATA,
                         point->perf->world, NULL),
              "receive");
}

static void ping_pong(struct perf_case *point, uint64_t iterations)
{
    if (point->peer < 0)
        return;
    for (uint64_t i = 0; i < iterations; i++) {
        if (point->first)
            send_one(point);
        recv_one(point);
        if (!point->first)
            send_one(point);
    }
}

/* Seconds one way of each round trip, sorted. */
static void sample(struct perf_case *point, double *samples, uint64_t n)
{
    double cost = perf_clock_cost();
    perf_barrier(point->perf);
    for (uint64_t i = 0; i < n; i++) {
        double start = perf_now();
        ping_pong(point, 1);
        double each = (perf_now() - start - cost) / 2;
        samples[i] = each > 0 ? each : 0;
    }
    perf_sort(samples, n);
}

static void latency_point(struct perf *perf, size_t size)
{
    struct perf_case point;
    int peer = perf->rank < 2 ? 1 - perf->rank : HCOMM_RANK_NULL;
    perf_case_init(perf, &point, size, peer, perf->rank == 0);
    perf_check_exchange(&point);
    perf_check_fill(&point);
    double average = perf_case_time(&point, ping_pong) / (2.0 * (double)point.iterations);
    uint64_t n = perf_case_few(&point, SAMPLES_MAX);
    double *samples = calloc(n, sizeof(samples[0]));
    if (!samples)
        perf_die(perf, "no memory for %llu samples", (unsigned long long)n);
    sample(&point, samples, n);
    if (peer >= 0)
        perf_check_verify(&point, peer);
    perf_output_row(perf, size,
                    (double[]){average * 1e6, samples[0] * 1e6, perf_quantile(samples, n, 0.5) * 1e6,
                               perf_quantile(samples, n, 0.99) * 1e6});
    free(samples);
    perf_case_fini(&point);
}

const struct perf_test perf_test_latency = {
    .name = "latency",
    .help = "one-way time of a ping-pong between ranks 0 and 1 (osu_latency)",
    .axis = PERF_AXIS_BYTES,
    .min_ranks = 2,
    .size_max = (size_t)4 << 20,
    .columns = {{"average", "us", 3}, {"least", "us", 3}, {"median", "us", 3}, {"p99", "us", 3}},
    .point = latency_point,
};

static void multi_lat_point(struct perf *perf, size_t size)
{
    struct perf_case point;
    int half = perf->ranks / 2;
    bool first = perf->rank < half;
    int peer = first ? perf->rank + half : perf->rank - half;
    perf_case_init(perf, &point, size, peer, first);
    perf_check_exchange(&point);
    perf_check_fill(&point);
    double each = perf_case_time(&point, ping_pong) / (2.0 * (double)point.iterations);
    perf_check_verify(&point, peer);
    struct perf_sum sum = perf_sum(perf, each);
    perf_output_row(perf, size, (double[]){sum.mean * 1e6, sum.least * 1e6, sum.greatest * 1e6});
    perf_case_fini(&point);
}

const struct perf_test perf_test_multi_lat = {
    .name = "multi_lat",
    .help = "the same for all pairs at once (osu_multi_lat)",
    .axis = PERF_AXIS_BYTES,
    .min_ranks = 2,
    .pairs = true,
    .size_max = (size_t)4 << 20,
    .columns = {{"average", "us", 3}, {"least", "us", 3}, {"greatest", "us", 3}},
    .point = multi_lat_point,
};
