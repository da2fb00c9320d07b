#include "transports/shm/shm.h"

#include <stdlib.h>

hcomm_status_t hc_shm_pool_init(struct hc_shm_pool *pool, const struct hc_shm_segment *segment)
{
    uint32_t count = segment->chunk_count;
    uint32_t *lists = malloc(2 * count * sizeof(*lists));
    if (!lists)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for a pool of %u chunks", count);
    *pool = (struct hc_shm_pool){
        .flags = segment->flags,
        .chunks = segment->chunks,
        .free = lists,
        .next = lists + count,
        .free_count = count,
    };
    for (uint32_t i = 0; i < count; i++)
        pool->free[i] = count - 1 - i;
    return HCOMM_OK;
}

void hc_shm_pool_fini(struct hc_shm_pool *pool)
{
    free(pool->free);
    *pool = (struct hc_shm_pool){0};
}

static void pop_oldest(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight)
{
    uint32_t index = inflight->head;
    inflight->head = pool->next[index];
    inflight->count--;
    pool->free[pool->free_count++] = index;
}

void hc_shm_pool_reclaim(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight)
{
    /* acquire: partner is the release in give_back (source.c); the receiver has read all of the chunk */
    while (inflight->count && !atomic_load_explicit(&pool->flags[inflight->head].busy, memory_order_acquire))
        pop_oldest(pool, inflight);
}

void hc_shm_pool_abandon(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight)
{
    while (inflight->count)
        pop_oldest(pool, inflight);
}

uint32_t hc_shm_pool_peek(const struct hc_shm_pool *pool)
{
    return pool->free_count ? pool->free[pool->free_count - 1] : HC_SHM_NO_CHUNK;
}

void hc_shm_pool_send(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight)
{
    uint32_t index = pool->free[--pool->free_count];
    /* relaxed: published together with the reference, by the release in hc_shm_commit */
    atomic_store_explicit(&pool->flags[index].busy, 1, memory_order_relaxed);
    if (inflight->count++)
        pool->next[inflight->tail] = index;
    else
        inflight->head = index;
    inflight->tail = index;
    inflight->sent++;
}
