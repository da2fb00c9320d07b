/*
 * Pool of host memory for applications. One arena (runtime/base/arena.h) is reserved at creation, whose pages
 * the kernel provides at allocation or first touch; blocks are cut from it. What the allocator knows about
 * blocks is kept outside the range, so that an application's overrun cannot damage it.
 *
 * Free blocks are kept in lists by power of two of their size (segregated fits: D. Knuth, "The Art of
 * Computer Programming" vol. 1, 2.5; neighbours that become free are joined at once). Taking and giving back
 * cost O(1), but for a search of one list when the pool is nearly full.
 *
 * Not thread-safe: the context's lock serialises calls.
 */
#ifndef HC_MEM_H
#define HC_MEM_H

#include "runtime/base/list.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct hc_host_pool;

/* A pool of `limit` bytes, rounded down to the alignment (a power of two). HCOMM_ERR_NO_MEMORY with errno in
 * words. */
hcomm_status_t hc_host_pool_create(size_t limit, size_t alignment, struct hc_host_pool **pool) HC_MUST_CHECK;
/* Blocks still in use go with it. NULL is accepted. */
void hc_host_pool_destroy(struct hc_host_pool *pool);

/* size > 0, rounded up to the alignment. HCOMM_ERR_LIMIT or HCOMM_ERR_NO_MEMORY; the detail tells used and
 * limit. */
hcomm_status_t hc_host_pool_alloc(struct hc_host_pool *pool, size_t size, void **ptr) HC_MUST_CHECK;
/* HCOMM_ERR_INVALID when ptr is not the start of a block in use. */
hcomm_status_t hc_host_pool_free(struct hc_host_pool *pool, const void *ptr) HC_MUST_CHECK;

/* Whether ptr is an address of the pool, in use or not. */
bool hc_host_pool_holds(const struct hc_host_pool *pool, const void *ptr);

struct hcomm_context;

/*
 * Memory, of any kind, whose owner freed it while transfers used it: it stays allocated until the last one is
 * complete.
 */
struct hc_doomed {
    struct hc_list node;
    void *ptr;
    size_t size;
    unsigned uses;
    /* frees it, and the record if that is of the heap; the context's lock is held, the engine's is not */
    void (*release)(struct hcomm_context *context, struct hc_doomed *block);
};

size_t hc_host_pool_used(const struct hc_host_pool *pool);
/* Whether the records agree with each other; for tests and --enable-debug. Linear. */
bool hc_host_pool_is_consistent(const struct hc_host_pool *pool);

#endif
