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
        .count = count,
    };
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
    pool->free[(pool->free_head + pool->free_count++) % pool->count] = index;
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

/* Whether the next chunk is one never used before. */
static bool next_is_fresh(const struct hc_shm_pool *pool)
{
    return pool->touched < pool->count && (pool->touched < HC_SHM_HOT_CHUNKS || !pool->free_count);
}

uint32_t hc_shm_pool_peek(const struct hc_shm_pool *pool)
{
    if (next_is_fresh(pool))
        return pool->touched;
    return pool->free_count ? pool->free[pool->free_head] : HC_SHM_NO_CHUNK;
}

void hc_shm_pool_send(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight)
{
    uint32_t index = hc_shm_pool_peek(pool);
    if (next_is_fresh(pool)) {
        pool->touched++;
    } else {
        pool->free_head = (pool->free_head + 1) % pool->count;
        pool->free_count--;
    }
    /* relaxed: published together with the reference, by the release in hc_shm_commit */
    atomic_store_explicit(&pool->flags[index].busy, 1, memory_order_relaxed);
    if (inflight->count++)
        pool->next[inflight->tail] = index;
    else
        inflight->head = index;
    inflight->tail = index;
    inflight->sent++;
}
