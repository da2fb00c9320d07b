/*
 * All ranks meet, then wait in a receive while rank 0 sleeps for the seconds given, and sends to each: what a
 * waiting job costs. Rank 0 tells by a line when they have met: bench/idle looks at the processes from then
 * on. SPDX-License-Identifier: BSD-3-Clause
 */
#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void tell_and_sleep(double seconds)
{
    (void)puts("waiting");
    (void)fflush(stdout);
    (void)usleep((useconds_t)(seconds * 1e6));
}

static hcomm_status_t idle(hcomm_handle_t hcomm, double seconds)
{
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    hcomm_status_t status = hcomm_barrier(world);
    if (status != HCOMM_OK)
        return status;
    if (hcomm_rank(hcomm) != 0)
        return hcomm_recv(NULL, 0, 0, 0, world, NULL);
    tell_and_sleep(seconds);
    for (int rank = 1; rank < hcomm_size(hcomm) && status == HCOMM_OK; rank++)
        status = hcomm_send(NULL, 0, rank, 0, world);
    return status;
}

int main(int argc, char **argv)
{
    hcomm_handle_t hcomm = NULL;
    hcomm_status_t status = hcomm_init(&hcomm, NULL);
    if (status == HCOMM_OK)
        status = idle(hcomm, argc > 1 ? atof(argv[1]) : 1);
    if (status == HCOMM_OK)
        status = hcomm_finalize(hcomm);
    if (status != HCOMM_OK)
        fprintf(stderr, "hcomm_idle: %s\n", hcomm_error_detail());
    return status != HCOMM_OK;
}
