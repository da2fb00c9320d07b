/* The allgather of the runtime. */
#include "runtime/core/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned hc_coll_rounds(int size)
{
    unsigned rounds = 0;
    while (((int64_t)1 << rounds) < size)
        rounds++;
    return rounds;
}

struct hc_coll_step hc_coll_allgather_step(int index, int size, unsigned round)
{
    int64_t distance = (int64_t)1 << round;
    int64_t left = size - distance;
    return (struct hc_coll_step){
        .to = (int)((index - distance + size) % size),
        .from = (int)((index + distance) % size),
        .count = (int)(left < distance ? left : distance),
    };
}

static int rank_of(const struct hc_coll_group *group, int position)
{
    return group->ranks ? group->ranks[position] : position;
}

/* Wait for both, whatever the first one's outcome: the buffers are the caller's again afterwards. */
static hcomm_status_t finish_both(struct hcomm_request *send, struct hcomm_request *recv,
                                  hcomm_message_status_t *received)
{
    hcomm_status_t recv_status = hc_request_finish(recv, received);
    if (recv_status == HCOMM_OK)
        return hc_request_finish(send, NULL);
    char cause[256];
    (void)snprintf(cause, sizeof(cause), "%s", hc_error_detail());
    hcomm_status_t send_status = hc_request_finish(send, NULL);
    (void)send_status; /* the first error is the one to tell */
    return hc_error(recv_status, "%s", cause);
}

static hcomm_status_t exchange(const struct hc_coll_group *group, const struct hc_coll_step *step,
                               const void *out, void *in, size_t size)
{
    struct hcomm_comm *comm = group->comm;
    uint64_t id = comm->id | HC_COMM_INTERNAL;
    int to = rank_of(group, step->to), from = rank_of(group, step->from);
    struct hcomm_request *send = NULL, *recv = NULL;
    hcomm_status_t status = hc_send_start(comm, id, out, size, to, group->tag, false, &send);
    if (status != HCOMM_OK)
        return status;
    status = hc_recv_start(comm, id, in, size, from, group->tag, &recv);
    if (status != HCOMM_OK) {
        hcomm_status_t sent = hc_request_finish(send, NULL);
        return sent == HCOMM_OK ? status : sent;
    }
    hcomm_message_status_t received = {0};
    status = finish_both(send, recv, &received);
    if (status == HCOMM_OK && received.size != size)
        return hc_error(HCOMM_ERR_PROTOCOL,
                        "rank %d of communicator '%s' takes part in another collective operation: %zu bytes "
                        "came, %zu were due; all members must make the same calls in the same order",
                        from, comm->name, received.size, size);
    return status;
}

/* From "own block first" to the group's order. */
static void rotate(const uint8_t *gathered, int size, int index, size_t block_size, uint8_t *blocks)
{
    size_t head = (size_t)(size - index) * block_size;
    (void)memcpy(blocks + (size_t)index * block_size, gathered, head);
    (void)memcpy(blocks, gathered + head, (size_t)index * block_size);
}

hcomm_status_t hc_coll_allgather(const struct hc_coll_group *group, const void *block, size_t block_size,
                                 void *blocks)
{
    uint8_t *gathered = malloc((size_t)group->size * block_size);
    if (!gathered)
        return hc_error(HCOMM_ERR_NO_MEMORY, "collective operation: out of memory for %d blocks of %zu bytes",
                        group->size, block_size);
    (void)memcpy(gathered, block, block_size);
    hcomm_status_t status = HCOMM_OK;
    unsigned rounds = hc_coll_rounds(group->size);
    group->comm->busy++; /* nobody may free it between the rounds */
    for (unsigned round = 0; round < rounds && status == HCOMM_OK; round++) {
        struct hc_coll_step step = hc_coll_allgather_step(group->index, group->size, round);
        status = exchange(group, &step, gathered, gathered + ((size_t)block_size << round),
                          (size_t)step.count * block_size);
    }
    group->comm->busy--;
    if (status == HCOMM_OK)
        rotate(gathered, group->size, group->index, block_size, blocks);
    free(gathered);
    return status;
}
