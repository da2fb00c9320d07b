#include "runtime/base/pool.h"

#include <stdlib.h>
#include <string.h>

void hc_pool_init(struct hc_pool *pool, size_t object_size, size_t per_slab)
{
    *pool = (struct hc_pool){
        .object_size = hc_align_up(object_size, HC_CACHE_LINE),
        .per_slab = per_slab,
    };
}

void hc_pool_fini(struct hc_pool *pool)
{
    while (pool->slabs) {
        struct hc_pool_free *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    *pool = (struct hc_pool){0};
}

void *hc_pool_get_slow(struct hc_pool *pool)
{
    size_t bytes = HC_CACHE_LINE + pool->object_size * pool->per_slab;
    struct hc_pool_free *slab = aligned_alloc(HC_CACHE_LINE, bytes);
    if (!slab)
        return NULL;
    (void)memset(slab, 0, bytes);
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (size_t i = pool->per_slab; i-- > 0;) {
        struct hc_pool_free *object = hc_pool_object(pool, slab, i);
        object->next = pool->free;
        pool->free = object;
    }
    pool->total += pool->per_slab;
    return hc_pool_get(pool);
}
