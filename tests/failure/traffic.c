/*
 * Ranks that talk without end, in all ways at once, until a peer is lost or the time is over: the victims of
 * the failure tests.
 *
 *     traffic SECONDS
 *
 * Exit code 0: time over, or a failure was reported as it should (HCOMM_ERR_PEER_LOST with rank and host
 * named). 3: a failure was reported wrongly. A hang is for the caller to notice.
 */
#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LARGE = 300000, ROUNDS_PER_BARRIER = 16 };

static char small_out[64], small_in[64];
static char *large_out, *large_in;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A failure that names who is lost, and where, is what is asked for. */
static int judge(hcomm_status_t status)
{
    const char *detail = hcomm_error_detail();
    if ((status == HCOMM_ERR_PEER_LOST || status == HCOMM_ERR_IN_STATUS || status == HCOMM_ERR_BOOTSTRAP) &&
        (strstr(detail, "rank") || strstr(detail, "launcher")))
        return 0;
    fprintf(stderr, "traffic: wrong report %d: %s\n", (int)status, detail);
    return 3;
}

static hcomm_status_t exchange(hcomm_comm_t world, int to, int from, int round)
{
    hcomm_status_t status =
        hcomm_sendrecv(small_out, sizeof(small_out), to, 1, small_in, sizeof(small_in), from, 1, world, NULL);
    if (status != HCOMM_OK)
        return status;
    if (round % 4 == 0)
        status = hcomm_sendrecv(large_out, LARGE, to, 2, large_in, LARGE, from, 2, world, NULL);
    if (status == HCOMM_OK && round % ROUNDS_PER_BARRIER == 0)
        status = hcomm_barrier(world);
    return status;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 5;
    hcomm_handle_t hcomm = NULL;
    if (hcomm_init(&hcomm, NULL) != HCOMM_OK) {
        fprintf(stderr, "traffic: %s\n", hcomm_error_detail());
        return 4;
    }
    large_out = calloc(2, LARGE);
    large_in = large_out + LARGE;
    int rank = hcomm_rank(hcomm), size = hcomm_size(hcomm), stop = 0;
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    double end = now() + seconds;
    hcomm_status_t status = HCOMM_OK;
    for (int round = 0; status == HCOMM_OK && !stop; round++) {
        status = exchange(world, (rank + 1) % size, (rank + size - 1) % size, round);
        /* rank 0 decides when all stop, at a barrier */
        if (status == HCOMM_OK && round % ROUNDS_PER_BARRIER == 0) {
            stop = rank == 0 && now() > end;
            for (int other = 1; status == HCOMM_OK && rank == 0 && other < size; other++)
                status = hcomm_send(&stop, sizeof(stop), other, 3, world);
            if (status == HCOMM_OK && rank != 0)
                status = hcomm_recv(&stop, sizeof(stop), 0, 3, world, NULL);
        }
    }
    int code = status == HCOMM_OK ? 0 : judge(status);
    if (status != HCOMM_OK)
        fprintf(stderr, "traffic: rank %d ends: %s\n", rank, hcomm_error_detail());
    status = hcomm_finalize(hcomm);
    if (code == 0 && status != HCOMM_OK)
        code = judge(status);
    free(large_out);
    return code;
}
