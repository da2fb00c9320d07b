#include "runtime/base/log.h"
#include "transports/shm/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { CHUNK_LISTS = 3 };

uint32_t hc_shm_hot_chunks(void)
{
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    long hot =
        (cache > 0 ? cache : 0) * 5 / 2 / HC_SHM_CHUNK_BYTES; /* of two cores, and what else they hold */
    if (hot < HC_SHM_HOT_MIN)
        return HC_SHM_HOT_MIN;
    return hot < HC_SHM_HOT_MAX ? (uint32_t)hot : HC_SHM_HOT_MAX;
}

hcomm_status_t hc_shm_pool_init(struct hc_shm_pool *pool, const struct hc_shm_segment *segment, uint32_t hot)
{
    uint32_t count = segment->chunk_count;
    uint32_t *lists = calloc((size_t)CHUNK_LISTS * count, sizeof(*lists));
    if (!lists)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for a pool of %u chunks", count);
    *pool = (struct hc_shm_pool){
        .flags = segment->flags,
        .chunks = segment->chunks,
        .free = lists,
        .next = lists + count,
        .used = lists + 2 * (size_t)count,
        .hot = hot < count ? hot : count,
        .count = count,
    };
    return HCOMM_OK;
}

void hc_shm_pool_fini(struct hc_shm_pool *pool)
{
    free(pool->free);
    *pool = (struct hc_shm_pool){0};
}

static void append_free(struct hc_shm_pool *pool, uint32_t index)
{
    pool->free[(pool->free_head + pool->free_count++) % pool->count] = index;
}

static void pop_oldest(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight)
{
    uint32_t index = inflight->head;
    inflight->head = pool->next[index];
    inflight->count--;
    append_free(pool, index);
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

void hc_shm_pool_grow(struct hc_shm_pool *pool)
{
    uint32_t index = pool->touched++;
    pool->sent = 0;
    /* one call for all of its pages, which the receiver, too, then finds in few faults */
    if (madvise(hc_shm_pool_chunk(pool, index), HC_SHM_CHUNK_BYTES, MADV_POPULATE_WRITE) < 0)
        hc_log_debug("shm: a chunk's pages come one by one: madvise: %s", hc_errno_text(errno));
    append_free(pool, index);
}

uint32_t hc_shm_pool_peek(const struct hc_shm_pool *pool)
{
    if (pool->free_count)
        return pool->free[pool->free_head];
    return pool->touched < pool->count ? pool->touched : HC_SHM_NO_CHUNK;
}

/* The first place from `start` on. */
static size_t place_from(size_t start, const void *data, size_t head)
{
    size_t from = (uintptr_t)data % HC_SHM_PAGE;
    size_t place = hc_align_up(start + head, HC_SHM_LINE) + (from % HC_SHM_LINE & ~(size_t)7);
    size_t apart = (place - from) % HC_SHM_PAGE;
    bool near = apart < HC_SHM_PAGE / 4 || apart > HC_SHM_PAGE / 4 * 3;
    return near ? place + HC_SHM_PAGE / 2 : place;
}

size_t hc_shm_pool_place(const struct hc_shm_pool *pool, uint32_t index, const void *data, size_t head,
                         size_t len)
{
    size_t place = place_from(pool->used[index], data, head);
    return place - head + len <= HC_SHM_CHUNK_BYTES ? place : place_from(0, data, head);
}

void hc_shm_pool_send(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight, size_t end)
{
    uint32_t index = hc_shm_pool_peek(pool);
    pool->used[index] = (uint32_t)end;
    if (pool->free_count) {
        pool->free_head = (pool->free_head + 1) % pool->count;
        pool->free_count--;
    } else {
        pool->touched++;
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
