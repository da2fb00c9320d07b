/*
 * Messages of growing size to and fro between ranks 0 and 1, checked and timed: hcommrun -n 2 pingpong
 *
 * Further ranks look on. hcomm_perf measures more, and more exactly. SPDX-License-Identifier: BSD-3-Clause
 */
#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE_LARGEST = 4 << 20, TAG = 7, ROUNDS_MOST = 1000 };

static void check(hcomm_handle_t hcomm, hcomm_status_t status)
{
    if (status == HCOMM_OK)
        return;
    fprintf(stderr, "pingpong: %s\n", hcomm_error_detail());
    hcomm_abort(hcomm, 1);
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* One message there and back; both ranks call it. */
static void round_trip(hcomm_handle_t hcomm, char *buffer, size_t size)
{
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    int rank = hcomm_rank(hcomm), peer = 1 - rank;
    if (rank == 1)
        check(hcomm, hcomm_recv(buffer, size, peer, TAG, world, NULL));
    check(hcomm, hcomm_send(buffer, size, peer, TAG, world));
    if (rank == 0)
        check(hcomm, hcomm_recv(buffer, size, peer, TAG, world, NULL));
}

static int by_size(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Seconds one way: the median, which one slow round does not change. */
static double one_way_time(hcomm_handle_t hcomm, char *buffer, size_t size, int rounds)
{
    double times[ROUNDS_MOST];
    for (int i = 0; i < rounds; i++) {
        times[i] = now();
        round_trip(hcomm, buffer, size);
        times[i] = (now() - times[i]) / 2;
    }
    qsort(times, (size_t)rounds, sizeof(times[0]), by_size);
    return times[rounds / 2];
}

/* Rank 0 fills the buffer, rank 1 sends it back as it came. */
static void measure(hcomm_handle_t hcomm, char *buffer, size_t size)
{
    int rounds = size < 65536 ? ROUNDS_MOST : 100;
    memset(buffer, hcomm_rank(hcomm) == 0 ? (int)(size % 251 + 1) : 0, size);
    /* Connects, warms the caches, and lets hcomm learn which way is faster for messages of this size. */
    for (int i = 0; i < rounds; i++)
        round_trip(hcomm, buffer, size);
    for (size_t i = 0; i < size; i++) {
        if (buffer[i] == (char)(size % 251 + 1))
            continue;
        fprintf(stderr, "pingpong: byte %zu of %zu is wrong\n", i, size);
        hcomm_abort(hcomm, 1);
    }
    double one_way = one_way_time(hcomm, buffer, size, rounds);
    if (hcomm_rank(hcomm) == 0)
        printf("%10zu  %10.2f  %10.1f\n", size, one_way * 1e6, (double)size / one_way * 1e-6);
}

int main(void)
{
    hcomm_handle_t hcomm = NULL;
    check(hcomm, hcomm_init(&hcomm, NULL));
    if (hcomm_size(hcomm) < 2) {
        fprintf(stderr, "pingpong: needs two ranks: hcommrun -n 2 pingpong\n");
        hcomm_abort(hcomm, 2);
    }
    if (hcomm_rank(hcomm) < 2) {
        char *buffer = hcomm_alloc_host_mem(hcomm, SIZE_LARGEST);
        check(hcomm, buffer ? HCOMM_OK : HCOMM_ERR_NO_MEMORY);
        if (hcomm_rank(hcomm) == 0)
            printf("%10s  %10s  %10s\n", "bytes", "us one way", "MB/s");
        for (size_t size = 1; size <= SIZE_LARGEST; size *= 4)
            measure(hcomm, buffer, size);
        check(hcomm, hcomm_free_host_mem(hcomm, buffer));
    }
    check(hcomm, hcomm_finalize(hcomm));
    return 0;
}
