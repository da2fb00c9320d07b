/*
 * The examples' ring allreduce gives the exact sums on every rank, for vectors shorter than the ring, that do
 * not divide by its size, and longer than one message: whole numbers, so that no order of adding matters.
 */
#include "examples/ring_allreduce.h"

#include <stdio.h>
#include <stdlib.h>

static void check(hcomm_handle_t hcomm, bool good, const char *what, size_t count)
{
    if (good)
        return;
    fprintf(stderr, "ring: rank %d: %s, %zu elements: %s\n", hcomm ? hcomm_rank(hcomm) : -1, what, count,
            hcomm_error_detail());
    hcomm_abort(hcomm, 1);
}

static double element(size_t i, int rank)
{
    return (double)(i % 97 + 1) * (rank + 1);
}

static void sum_vectors(hcomm_handle_t hcomm, size_t count)
{
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    int size = hcomm_size(hcomm);
    size_t scratch_count = ring_scratch_count(count, world);
    check(hcomm, scratch_count * (size_t)size >= count, "scratch is too small", count);
    double *data = calloc(count + 1, sizeof(*data)), *scratch = calloc(scratch_count + 1, sizeof(*scratch));
    check(hcomm, data && scratch, "no memory", count);
    for (size_t i = 0; i < count; i++)
        data[i] = element(i, hcomm_rank(hcomm));
    data[count] = scratch[scratch_count] = -1;
    check(hcomm, ring_allreduce_sum(data, count, scratch, world) == HCOMM_OK, "allreduce failed", count);
    double ranks = size * (size + 1) / 2.0; /* 1 + 2 + … + size */
    for (size_t i = 0; i < count; i++)
        check(hcomm, data[i] == element(i, 0) * ranks, "wrong sum", count);
    check(hcomm, data[count] == -1 && scratch[scratch_count] == -1, "written beyond the end", count);
    free(data);
    free(scratch);
}

int main(void)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 64, 1000, 100003};
    hcomm_handle_t hcomm = NULL;
    check(hcomm, hcomm_init(&hcomm, NULL) == HCOMM_OK, "init failed", 0);
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        sum_vectors(hcomm, counts[i]);
    check(hcomm, hcomm_finalize(hcomm) == HCOMM_OK, "finalize failed", 0);
    return 0;
}
