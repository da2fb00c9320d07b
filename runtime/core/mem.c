/* Host memory for applications. */
#include "runtime/core/mem.h"

#include "runtime/base/arena.h"
#include "runtime/base/list.h"
#include "runtime/base/pool.h"
#include "runtime/core/core.h"
#include "runtime/core/device.h"
#include "runtime/core/progress.h"
#include "runtime/core/transfer.h"

#include <stdlib.h>

enum {
    BINS = 64,
    RECORDS_PER_SLAB = 64,
    FIRST_BUCKETS = 64,
    PREPARE_MAX = 64 << 20, /* larger blocks get huge pages when they are first sent from or received into */
    SEARCH_MAX = 16,        /* blocks of the fitting list that are looked at before a larger block is cut */
};

struct block {
    struct hc_list order; /* all blocks by address */
    struct hc_list bin;   /* free: blocks of similar size; used: chain of a bucket */
    size_t offset, size;
    bool used;
    bool is_doomed; /* freed by its owner; used until `doomed` is not needed any more */
    struct hc_doomed doomed;
};

struct hc_host_pool {
    struct hc_arena *arena;
    uint8_t *base; /* of the blocks: the arena's */
    size_t limit, alignment, used;
    struct hc_pool records;
    struct hc_list order;
    struct hc_list bins[BINS]; /* free blocks of 2^n … 2^(n+1)-1 bytes */
    uint64_t nonempty;         /* bit per bin */
    struct hc_list *buckets;   /* used blocks by offset */
    size_t num_buckets, num_used;
};

/* ---- free blocks ---- */

static unsigned bin_of(size_t size)
{
    return 63 - (unsigned)__builtin_clzll(size);
}

static void put_free(struct hc_host_pool *pool, struct block *block)
{
    unsigned bin = bin_of(block->size);
    block->used = false;
    hc_list_append(&pool->bins[bin], &block->bin);
    pool->nonempty |= UINT64_C(1) << bin;
}

static void take_free(struct hc_host_pool *pool, struct block *block)
{
    unsigned bin = bin_of(block->size);
    hc_list_remove(&block->bin);
    if (hc_list_empty(&pool->bins[bin]))
        pool->nonempty &= ~(UINT64_C(1) << bin);
}

/* The first block of the list that is large enough, looking at most at so many. */
static struct block *search_bin(struct hc_host_pool *pool, unsigned bin, size_t size, size_t most)
{
    struct hc_list *node;
    hc_list_for_each(node, &pool->bins[bin])
    {
        struct block *block = hc_list_entry(node, struct block, bin);
        if (most-- == 0)
            return NULL;
        if (block->size >= size)
            return block;
    }
    return NULL;
}

static struct block *find_free(struct hc_host_pool *pool, size_t size)
{
    unsigned bin = bin_of(size);
    struct block *block = search_bin(pool, bin, size, SEARCH_MAX);
    if (block)
        return block;
    uint64_t larger = bin < 63 ? pool->nonempty >> (bin + 1) : 0;
    if (larger) {
        unsigned next = bin + 1 + (unsigned)__builtin_ctzll(larger);
        return hc_list_entry(hc_list_first(&pool->bins[next]), struct block, bin);
    }
    return search_bin(pool, bin, size, SIZE_MAX);
}

static size_t largest_free(const struct hc_host_pool *pool)
{
    size_t largest = 0;
    struct hc_list *node;
    hc_list_for_each(node, &pool->order)
    {
        const struct block *block = hc_list_entry(node, struct block, order);
        if (!block->used && block->size > largest)
            largest = block->size;
    }
    return largest;
}

/* ---- used blocks ---- */

static struct hc_list *bucket_of(const struct hc_host_pool *pool, size_t offset)
{
    uint64_t hash = (uint64_t)(offset / pool->alignment) * UINT64_C(0x9E3779B97F4A7C15);
    return &pool->buckets[(hash >> 32) & (pool->num_buckets - 1)];
}

static hcomm_status_t resize_buckets(struct hc_host_pool *pool, size_t count)
{
    struct hc_list *buckets = malloc(count * sizeof(*buckets));
    if (!buckets)
        return hc_error(HCOMM_ERR_NO_MEMORY, "host memory pool: out of memory for %zu records", count);
    for (size_t i = 0; i < count; i++)
        hc_list_init(&buckets[i]);
    free(pool->buckets);
    pool->buckets = buckets;
    pool->num_buckets = count;
    struct hc_list *node;
    hc_list_for_each(node, &pool->order)
    {
        struct block *block = hc_list_entry(node, struct block, order);
        if (block->used)
            hc_list_append(bucket_of(pool, block->offset), &block->bin);
    }
    return HCOMM_OK;
}

static struct block *find_used(const struct hc_host_pool *pool, size_t offset)
{
    struct hc_list *node, *bucket = bucket_of(pool, offset);
    hc_list_for_each(node, bucket)
    {
        struct block *block = hc_list_entry(node, struct block, bin);
        if (block->offset == offset)
            return block;
    }
    return NULL;
}

/* ---- the pool ---- */

static hcomm_status_t map_range(struct hc_host_pool *pool)
{
    hcomm_status_t status = hc_arena_create(pool->limit, pool->alignment, &pool->arena);
    if (status == HCOMM_OK)
        pool->base = pool->arena->base;
    else
        hc_error_prefix("host memory pool: lower mem_pool_size or raise the limit (ulimit -v): ");
    return status;
}

static hcomm_status_t add_first_block(struct hc_host_pool *pool)
{
    struct block *block = hc_pool_get(&pool->records);
    if (!block)
        return hc_error(HCOMM_ERR_NO_MEMORY, "host memory pool: out of memory");
    *block = (struct block){.offset = 0, .size = pool->limit};
    hc_list_append(&pool->order, &block->order);
    put_free(pool, block);
    return HCOMM_OK;
}

hcomm_status_t hc_host_pool_create(size_t limit, size_t alignment, struct hc_host_pool **out)
{
    struct hc_host_pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return hc_error(HCOMM_ERR_NO_MEMORY, "host memory pool: out of memory");
    pool->alignment = alignment;
    pool->limit = limit & ~(alignment - 1);
    if (!pool->limit) {
        free(pool);
        return hc_error(HCOMM_ERR_LIMIT, "host memory pool: mem_pool_size %zu is less than align_size %zu",
                        limit, alignment);
    }
    hc_list_init(&pool->order);
    for (size_t i = 0; i < BINS; i++)
        hc_list_init(&pool->bins[i]);
    hc_pool_init(&pool->records, sizeof(struct block), RECORDS_PER_SLAB);
    hcomm_status_t status = map_range(pool);
    if (status != HCOMM_OK)
        goto free_pool;
    status = resize_buckets(pool, FIRST_BUCKETS);
    if (status == HCOMM_OK)
        status = add_first_block(pool);
    if (status != HCOMM_OK)
        goto unmap;
    *out = pool;
    return HCOMM_OK;
unmap:
    free(pool->buckets);
    hc_arena_destroy(pool->arena);
free_pool:
    hc_pool_fini(&pool->records);
    free(pool);
    return status;
}

void hc_host_pool_destroy(struct hc_host_pool *pool)
{
    if (!pool)
        return;
    hc_arena_destroy(pool->arena);
    free(pool->buckets);
    hc_pool_fini(&pool->records);
    free(pool);
}

size_t hc_host_pool_used(const struct hc_host_pool *pool)
{
    return pool->used;
}

bool hc_host_pool_holds(const struct hc_host_pool *pool, const void *ptr)
{
    const uint8_t *address = ptr;
    return address >= pool->base && address < pool->base + pool->limit;
}

/* Cut what is not needed off a block that is in no list of free ones. */
static hcomm_status_t cut(struct hc_host_pool *pool, struct block *block, size_t size)
{
    if (block->size == size)
        return HCOMM_OK;
    struct block *rest = hc_pool_get(&pool->records);
    if (!rest)
        return hc_error(HCOMM_ERR_NO_MEMORY,
                        "host memory pool: out of memory for records; %zu of %zu bytes used", pool->used,
                        pool->limit);
    *rest = (struct block){.offset = block->offset + size, .size = block->size - size};
    block->size = size;
    hc_list_append(block->order.next, &rest->order); /* before the successor: right after block */
    put_free(pool, rest);
    return HCOMM_OK;
}

hcomm_status_t hc_host_pool_alloc(struct hc_host_pool *pool, size_t size, void **ptr)
{
    struct block *block = NULL;
    if (size <= pool->limit) {
        size = hc_align_up(size, pool->alignment);
        block = size <= pool->limit ? find_free(pool, size) : NULL;
    }
    if (!block)
        return hc_error(
            HCOMM_ERR_LIMIT,
            "%zu bytes do not fit the host memory pool: %zu of %zu bytes used, largest free block "
            "%zu; raise mem_pool_size",
            size, pool->used, pool->limit, largest_free(pool));
    if (pool->num_used >= pool->num_buckets) {
        hcomm_status_t status = resize_buckets(pool, pool->num_buckets * 2);
        if (status != HCOMM_OK)
            return status;
    }
    take_free(pool, block);
    hcomm_status_t status = cut(pool, block, size);
    if (status != HCOMM_OK) {
        put_free(pool, block);
        return status;
    }
    block->used = true;
    hc_list_append(bucket_of(pool, block->offset), &block->bin);
    pool->num_used++;
    pool->used += size;
    *ptr = pool->base + block->offset;
    if (size <= PREPARE_MAX)
        hc_arena_prepare(pool->arena, *ptr, size);
    return HCOMM_OK;
}

/* Join block with its successor when both are free; block is in no list of free ones. */
static void join_next(struct hc_host_pool *pool, struct block *block)
{
    if (block->order.next == &pool->order)
        return;
    struct block *next = hc_list_entry(block->order.next, struct block, order);
    if (next->used)
        return;
    take_free(pool, next);
    block->size += next->size;
    hc_list_remove(&next->order);
    hc_pool_put(&pool->records, next);
}

static struct block *join_previous(struct hc_host_pool *pool, struct block *block)
{
    if (block->order.prev == &pool->order)
        return block;
    struct block *previous = hc_list_entry(block->order.prev, struct block, order);
    if (previous->used)
        return block;
    take_free(pool, previous);
    previous->size += block->size;
    hc_list_remove(&block->order);
    hc_pool_put(&pool->records, block);
    return previous;
}

/* The block in use that starts at ptr; NULL, with an error detail, when there is none. */
static struct block *find_block(const struct hc_host_pool *pool, const void *ptr)
{
    const uint8_t *address = ptr;
    if (address < pool->base || address >= pool->base + pool->limit) {
        (void)hc_error(HCOMM_ERR_INVALID, "%p is not memory from hcomm_alloc_host_mem() of this context",
                       ptr);
        return NULL;
    }
    struct block *block = find_used(pool, (size_t)(address - pool->base));
    if (block && !block->is_doomed)
        return block;
    (void)hc_error(HCOMM_ERR_INVALID,
                   "%p is not the start of a block in use: it was freed already, or points inside a block",
                   ptr);
    return NULL;
}

static void free_block(struct hc_host_pool *pool, struct block *block)
{
    hc_list_remove(&block->bin);
    block->used = block->is_doomed = false;
    pool->num_used--;
    pool->used -= block->size;
    join_next(pool, block);
    put_free(pool, join_previous(pool, block));
}

hcomm_status_t hc_host_pool_free(struct hc_host_pool *pool, const void *ptr)
{
    struct block *block = find_block(pool, ptr);
    if (!block)
        return HCOMM_ERR_INVALID;
    free_block(pool, block);
    return HCOMM_OK;
}

/* The block that starts at ptr, for hc_transfers_defer_free(); its `release` is the caller's to set. */
static hcomm_status_t find_doomed(struct hc_host_pool *pool, const void *ptr, struct hc_doomed **found)
{
    struct block *block = find_block(pool, ptr);
    if (!block)
        return HCOMM_ERR_INVALID;
    block->doomed = (struct hc_doomed){.ptr = pool->base + block->offset, .size = block->size};
    hc_list_init(&block->doomed.node);
    *found = &block->doomed;
    return HCOMM_OK;
}

/* From now on it counts as freed, for everybody but free_doomed(). */
static void doom(struct hc_doomed *doomed)
{
    hc_container_of(doomed, struct block, doomed)->is_doomed = true;
}

static void free_doomed(struct hc_host_pool *pool, struct hc_doomed *doomed)
{
    free_block(pool, hc_container_of(doomed, struct block, doomed));
}

bool hc_host_pool_is_consistent(const struct hc_host_pool *pool)
{
    size_t offset = 0, used = 0, count = 0;
    bool after_free = false;
    struct hc_list *node;
    hc_list_for_each(node, &pool->order)
    {
        const struct block *block = hc_list_entry(node, struct block, order);
        bool adjoining = block->offset == offset && block->size && block->size % pool->alignment == 0;
        if (!adjoining || (after_free && !block->used))
            return false;
        if (block->used && find_used(pool, block->offset) != block)
            return false;
        offset += block->size;
        used += block->used ? block->size : 0;
        count += block->used;
        after_free = !block->used;
    }
    return offset == pool->limit && used == pool->used && count == pool->num_used;
}

/* ---- the device reaches it ---- */

/* Copies work without, slower: so it is worth a warning, not an error. */
static void pin(struct hcomm_context *context)
{
    const struct hc_host_pool *pool = context->memory;
    if (!context->device)
        return;
    if (hc_device_register(context->device, pool->base, pool->limit) != HCOMM_OK)
        hc_log_warn("memory of hcomm_alloc_host_mem() is not pinned, copies to the device will be slower: %s",
                    hc_error_detail());
}

static void unpin(struct hcomm_context *context)
{
    if (!context->device || context->forked)
        return;
    if (hc_device_deregister(context->device, context->memory->base) != HCOMM_OK)
        hc_log_debug("host memory: %s", hc_error_detail());
}

/* ---- public calls ---- */

void hc_memory_fini(struct hcomm_context *context)
{
    if (!context->memory)
        return;
    unpin(context);
    hc_host_pool_destroy(context->memory);
    context->memory = NULL;
}

static hcomm_status_t alloc_locked(struct hcomm_context *context, size_t size, void **ptr)
{
    const struct hc_settings *settings = &context->settings;
    if (!context->memory) {
        hcomm_status_t status =
            hc_host_pool_create(settings->mem_pool_size, settings->align_size, &context->memory);
        if (status != HCOMM_OK)
            return status;
        pin(context);
    }
    return hc_host_pool_alloc(context->memory, size, ptr);
}

static hcomm_status_t alloc_once(struct hcomm_context *context, size_t size, void **ptr)
{
    hc_lock_acquire(&context->lock);
    hcomm_status_t status = alloc_locked(context, size, ptr);
    hc_lock_release(&context->lock);
    return status;
}

HCOMM_API void *hcomm_alloc_host_mem(hcomm_handle_t handle, size_t size)
{
    void *ptr = NULL;
    const char *fault = hc_progress_fault(handle);
    if (fault || !size) {
        (void)hc_error(HCOMM_ERR_INVALID, "hcomm_alloc_host_mem: %s", fault ? fault : "size is 0");
        return NULL;
    }
    hcomm_status_t status = alloc_once(handle, size, &ptr);
    if (status == HCOMM_ERR_LIMIT && hc_transfers_release_freed(handle))
        status = alloc_once(handle, size, &ptr); /* what was freed under a transfer has become free */
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_alloc_host_mem: ");
    return ptr;
}

static void release_block(struct hcomm_context *context, struct hc_doomed *block)
{
    free_doomed(context->memory, block);
}

static hcomm_status_t free_locked(struct hcomm_context *context, const void *ptr)
{
    struct hc_doomed *block = NULL;
    if (!context->memory)
        return hc_error(HCOMM_ERR_INVALID, "nothing was allocated from this context");
    hcomm_status_t status = find_doomed(context->memory, ptr, &block);
    if (status != HCOMM_OK)
        return status;
    block->release = release_block;
    if (!hc_transfers_defer_free(context, block))
        return hc_host_pool_free(context->memory, ptr);
    doom(block); /* nobody releases it before the context's lock is free */
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_free_host_mem(hcomm_handle_t handle, void *ptr)
{
    const char *fault = hc_progress_fault(handle);
    if (fault)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_free_host_mem: %s", fault);
    if (!ptr)
        return HCOMM_OK;
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = free_locked(handle, ptr);
    hc_lock_release(&handle->lock);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_free_host_mem: ");
    return status;
}

HCOMM_API size_t hcomm_aligned_stride(hcomm_handle_t handle, size_t row)
{
    if (hc_progress_fault(handle))
        return 0;
    size_t alignment = handle->settings.align_size; /* constant since hcomm_init(): no lock */
    return row > SIZE_MAX - alignment ? 0 : hc_align_up(row, alignment);
}
