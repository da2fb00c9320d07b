/*
 * Pool of equal objects: grows by slabs, never allocates again for objects given back, frees all at the end.
 * Not thread-safe: the owner's lock serialises calls.
 */
#ifndef HC_POOL_H
#define HC_POOL_H

#include "runtime/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hc_pool_free {
    struct hc_pool_free *next;
};

struct hc_pool {
    struct hc_pool_free *free;
    struct hc_pool_free *slabs;
    size_t object_size; /* rounded up to a cache line */
    size_t per_slab;
    size_t in_use, total;
};

/* Objects of at least object_size bytes, cache-line aligned, per_slab of them allocated at a time (>= 1). */
void hc_pool_init(struct hc_pool *pool, size_t object_size, size_t per_slab);
/* Frees all slabs; objects still in use become invalid. */
void hc_pool_fini(struct hc_pool *pool);
/* Allocates one more slab; the slow path of hc_pool_get. NULL when memory is exhausted. */
void *hc_pool_get_slow(struct hc_pool *pool);

/* Object number i of a slab, in use or not; a free object's first word is the pool's. */
static inline void *hc_pool_object(const struct hc_pool *pool, const struct hc_pool_free *slab, size_t i)
{
    return (char *)(uintptr_t)slab + HC_CACHE_LINE + i * pool->object_size;
}

/*
 * An object, NULL when memory is exhausted. It holds zeros the first time, and then what it held when it was
 * given back; but for the first pointer, which is the pool's in between.
 */
static inline void *hc_pool_get(struct hc_pool *pool)
{
    struct hc_pool_free *object = pool->free;
    if (hc_unlikely(!object))
        return hc_pool_get_slow(pool);
    pool->free = object->next;
    pool->in_use++;
    return object;
}

/* Whether the next object costs no allocation: then hc_pool_get() makes no call, and does not fail. */
static inline bool hc_pool_has(const struct hc_pool *pool)
{
    return hc_likely(pool->free != NULL);
}

/* Give back an object of this pool; NULL is not accepted. */
static inline void hc_pool_put(struct hc_pool *pool, void *ptr)
{
    struct hc_pool_free *object = ptr;
    object->next = pool->free;
    pool->free = object;
    pool->in_use--;
}

#endif
