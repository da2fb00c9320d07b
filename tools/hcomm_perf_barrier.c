/*
 * barrier: the time of one of many barriers in a row, mean, least and greatest over the ranks, as osu_barrier
 * defines it.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

static void barriers(struct perf_case *point, uint64_t iterations)
{
    for (uint64_t i = 0; i < iterations; i++)
        perf_barrier(point->perf);
}

static void barrier_point(struct perf *perf, size_t ranks)
{
    struct perf_case point;
    perf_case_init(perf, &point, 0, HCOMM_RANK_NULL, false);
    if (perf->options->iterations == 0)
        point.iterations = 1000;
    struct perf_sum sum = perf_sum(perf, perf_case_time(&point, barriers) / (double)point.iterations);
    perf_output_row(perf, ranks, (double[]){sum.mean * 1e6, sum.least * 1e6, sum.greatest * 1e6});
    perf_case_fini(&point);
}

const struct perf_test perf_test_barrier = {
    .name = "barrier",
    .help = "time of a barrier of all ranks (osu_barrier)",
    .axis = PERF_AXIS_RANKS,
    .min_ranks = 1,
    .columns = {{"average", "us", 3}, {"least", "us", 3}, {"greatest", "us", 3}},
    .point = barrier_point,
};
