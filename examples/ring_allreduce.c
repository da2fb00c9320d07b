/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring_allreduce.h"

struct ring {
    hcomm_comm_t comm;
    int rank, size;
    double *data;
    size_t count;
};

struct block {
    double *data;
    size_t count;
};

static size_t block_count_max(size_t count, int size)
{
    return count / (size_t)size + (count % (size_t)size != 0);
}

/* Block number `index`, taken modulo the ring's size; the first count % size blocks are one element longer.
 */
static struct block ring_block(const struct ring *ring, int index)
{
    size_t i = (size_t)(((index % ring->size) + ring->size) % ring->size);
    size_t base = ring->count / (size_t)ring->size, longer = ring->count % (size_t)ring->size;
    size_t start = i * base + (i < longer ? i : longer);
    return (struct block){ring->data + start, base + (i < longer)};
}

/* Send one block to the right while receiving another from the left. */
static hcomm_status_t ring_shift(const struct ring *ring, struct block out, struct block in)
{
    int right = (ring->rank + 1) % ring->size, left = (ring->rank + ring->size - 1) % ring->size;
    return hcomm_sendrecv(out.data, out.count * sizeof(double), right, RING_TAG, in.data,
                          in.count * sizeof(double), left, RING_TAG, ring->comm, NULL);
}

static hcomm_status_t reduce_scatter(const struct ring *ring, double *scratch)
{
    for (int step = 0; step < ring->size - 1; step++) {
        struct block sum = ring_block(ring, ring->rank - step - 1);
        struct block arrived = {scratch, sum.count};
        hcomm_status_t status = ring_shift(ring, ring_block(ring, ring->rank - step), arrived);
        if (status != HCOMM_OK)
            return status;
        for (size_t i = 0; i < sum.count; i++)
            sum.data[i] += arrived.data[i];
    }
    return HCOMM_OK;
}

static hcomm_status_t allgather(const struct ring *ring)
{
    for (int step = 0; step < ring->size - 1; step++) {
        hcomm_status_t status =
            ring_shift(ring, ring_block(ring, ring->rank - step + 1), ring_block(ring, ring->rank - step));
        if (status != HCOMM_OK)
            return status;
    }
    return HCOMM_OK;
}

size_t ring_scratch_count(size_t count, hcomm_comm_t comm)
{
    return block_count_max(count, hcomm_comm_size(comm));
}

hcomm_status_t ring_allreduce_sum(double *data, size_t count, double *scratch, hcomm_comm_t comm)
{
    const struct ring ring = {comm, hcomm_comm_rank(comm), hcomm_comm_size(comm), data, count};
    hcomm_status_t status = reduce_scatter(&ring, scratch);
    return status == HCOMM_OK ? allgather(&ring) : status;
}
