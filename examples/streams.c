/*
 * A ring of ranks that computes and communicates at the same time: one stream computes block after block,
 * another passes each finished block on to the right, events keep the two in step.
 *
 *     hcommrun -n 4 streams
 *
 * With HCOMM_DEVICE_ID set the streams are the device's; kernels take the place of the host functions.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <hcomm.h>

#include <stdio.h>

enum { BLOCKS = 16, BLOCK = 65536 };

static double mine[BLOCKS][BLOCK], theirs[BLOCKS][BLOCK];

struct job {
    double *block;
    double value;
};

static void check(hcomm_handle_t hcomm, hcomm_status_t status)
{
    if (status == HCOMM_OK)
        return;
    fprintf(stderr, "streams: %s\n", hcomm_error_detail());
    hcomm_abort(hcomm, 1);
}

/* What a kernel would do; runs in stream order on a thread of hcomm's. */
static void compute(void *arg)
{
    struct job *job = arg;
    for (int i = 0; i < BLOCK; i++)
        job->block[i] = job->value + i % 10;
}

/* Everything is enqueued at once; nothing has happened yet when this returns. */
static void enqueue(hcomm_handle_t hcomm, struct job *jobs, hcomm_stream_t computing, hcomm_stream_t moving)
{
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    int rank = hcomm_rank(hcomm), size = hcomm_size(hcomm);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    hcomm_event_t ready = HCOMM_EVENT_NULL;
    check(hcomm, hcomm_event_create(hcomm, &ready));
    for (int i = 0; i < BLOCKS; i++) {
        jobs[i] = (struct job){mine[i], 1000.0 * rank + 10 * i};
        check(hcomm, hcomm_launch_host(computing, compute, &jobs[i]));
        check(hcomm, hcomm_event_record(ready, computing)); /* again and again: each wait is for the latest */
        check(hcomm, hcomm_stream_wait_event(moving, ready));
        check(hcomm, hcomm_group_start()); /* both directions progress together */
        check(hcomm, hcomm_send_on(mine[i], sizeof(mine[i]), right, i, world, moving));
        check(hcomm, hcomm_recv_on(theirs[i], sizeof(theirs[i]), left, i, world, NULL, moving));
        check(hcomm, hcomm_group_end());
    }
    check(hcomm, hcomm_event_destroy(&ready)); /* the waits keep what they need */
}

int main(void)
{
    static struct job jobs[BLOCKS];
    hcomm_handle_t hcomm = NULL;
    hcomm_stream_t computing = HCOMM_STREAM_NULL, moving = HCOMM_STREAM_NULL;
    check(NULL, hcomm_init(&hcomm, NULL));
    check(hcomm, hcomm_stream_create(hcomm, 0, &computing));
    check(hcomm, hcomm_stream_create(hcomm, 1, &moving));
    enqueue(hcomm, jobs, computing, moving);
    check(hcomm, hcomm_stream_synchronize(moving)); /* waits, and reports what went wrong */
    check(hcomm, hcomm_stream_synchronize(computing));

    int left = (hcomm_rank(hcomm) + hcomm_size(hcomm) - 1) % hcomm_size(hcomm);
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < BLOCK; k++)
            if (theirs[i][k] != 1000.0 * left + 10 * i + k % 10) {
                fprintf(stderr, "streams: block %d of rank %d is wrong\n", i, left);
                hcomm_abort(hcomm, 1);
            }
    printf("rank %d has all %d blocks of rank %d\n", hcomm_rank(hcomm), BLOCKS, left);
    check(hcomm, hcomm_stream_destroy(&moving));
    check(hcomm, hcomm_stream_destroy(&computing));
    hcomm_status_t status = hcomm_finalize(hcomm);
    return status == HCOMM_OK ? 0 : 1;
}
