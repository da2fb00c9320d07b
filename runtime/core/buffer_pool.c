/*
 * Pools of buffers for applications. A buffer that is released while an operation uses it waits in `busy`
 * until somebody who needs it finds it unused. All of a pool is guarded by its context's lock.
 */
#include "runtime/core/core.h"
#include "runtime/core/in_use.h"
#include "runtime/core/progress.h"
#include "runtime/core/ranges.h"
#include "runtime/core/transfer.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    YIELD_NS = 200000, /* of waiting, before it sleeps */
    NAP_FIRST_NS = 50000,
    NAP_LAST_NS = 5000000,
};

enum buffer_state { IDLE, ACQUIRED, BUSY };

struct buffer {
    struct hc_list node; /* in pool->idle or busy, or linked to itself */
    void *ptr;
    size_t size;
    enum buffer_state state;
};

struct hcomm_buffer_pool {
    struct hcomm_context *context;
    struct hc_list link; /* in context->buffer_pools */
    hcomm_memory_type_t type;
    struct hc_ranges ranges; /* data: struct buffer */
    struct hc_list idle, busy;
    hcomm_buffer_pool_stats_t stats; /* free is counted when asked for */
    size_t held;                     /* buffers of any size */
    size_t current;                  /* of these, of the present size */
    unsigned waiters;
    atomic_uint released; /* futex word: changes at each release */
};

/* ---- buffers ---- */

/* The lock is not held: memory may come from a call. */
static struct buffer *make_buffer(struct hcomm_buffer_pool *pool, size_t size)
{
    struct buffer *buffer = calloc(1, sizeof(*buffer));
    if (!buffer) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "buffer pool: out of memory");
        return NULL;
    }
    hc_list_init(&buffer->node);
    buffer->size = size;
    if (hcomm_mem_alloc(pool->context, size, pool->type, &buffer->ptr) != HCOMM_OK) {
        free(buffer);
        return NULL;
    }
    return buffer;
}

static void free_buffer(struct hcomm_buffer_pool *pool, struct buffer *buffer)
{
    if (hcomm_mem_free(pool->context, buffer->ptr) != HCOMM_OK)
        hc_log_warn("buffer pool: %s", hc_error_detail());
    free(buffer);
}

static void free_buffers(struct hcomm_buffer_pool *pool, struct hc_list *buffers)
{
    struct hc_list *node;
    while ((node = hc_list_pop(buffers)))
        free_buffer(pool, hc_list_entry(node, struct buffer, node));
}

/* `count` new buffers in a list, or none. */
static hcomm_status_t make_buffers(struct hcomm_buffer_pool *pool, size_t count, size_t size,
                                   struct hc_list *made)
{
    hc_list_init(made);
    for (size_t i = 0; i < count; i++) {
        struct buffer *buffer = make_buffer(pool, size);
        if (!buffer) {
            free_buffers(pool, made);
            hc_error_prefix("buffer %zu of %zu, %zu bytes each: ", i + 1, count, size);
            return HCOMM_ERR_NO_MEMORY;
        }
        hc_list_append(made, &buffer->node);
    }
    return HCOMM_OK;
}

/* Take buffers into the pool; HCOMM_ERR_NO_MEMORY leaves the rest in the list. */
static hcomm_status_t adopt(struct hcomm_buffer_pool *pool, struct hc_list *made)
{
    struct hc_list *node;
    while ((node = hc_list_first(made))) {
        struct buffer *buffer = hc_list_entry(node, struct buffer, node);
        const struct hc_range range = {(uintptr_t)buffer->ptr, buffer->size, 0, buffer};
        hcomm_status_t status = hc_ranges_add(&pool->ranges, &range);
        if (status != HCOMM_OK)
            return status;
        hc_list_remove(node);
        hc_list_append(&pool->idle, node);
        pool->held++;
        pool->current += buffer->size == pool->stats.size;
        pool->stats.allocations++;
    }
    return HCOMM_OK;
}

static bool is_surplus(const struct hcomm_buffer_pool *pool, const struct buffer *buffer)
{
    return buffer->size != pool->stats.size || pool->current > pool->stats.count;
}

/* A buffer that nobody uses: keep it, or let it go to `gone`. */
static void settle_buffer(struct hcomm_buffer_pool *pool, struct buffer *buffer, struct hc_list *gone)
{
    hc_list_remove(&buffer->node);
    buffer->state = IDLE;
    if (!is_surplus(pool, buffer)) {
        hc_list_append(&pool->idle, &buffer->node);
        return;
    }
    (void)hc_ranges_remove(&pool->ranges, buffer->ptr);
    pool->held--;
    pool->current -= buffer->size == pool->stats.size;
    hc_list_append(gone, &buffer->node);
}

/* Find busy buffers that are not used any more. */
static void settle(struct hcomm_buffer_pool *pool, struct hc_list *gone)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &pool->busy)
    {
        struct buffer *buffer = hc_list_entry(node, struct buffer, node);
        if (hc_memory_in_use(pool->context, buffer->ptr, buffer->size))
            continue;
        pool->stats.in_use--;
        settle_buffer(pool, buffer, gone);
    }
}

/* ---- creating ---- */

static hcomm_status_t fill(struct hcomm_buffer_pool *pool)
{
    struct hc_list made;
    hcomm_status_t status = make_buffers(pool, pool->stats.count, pool->stats.size, &made);
    if (status != HCOMM_OK)
        return status;
    hc_lock_acquire(&pool->context->lock);
    status = adopt(pool, &made);
    hc_lock_release(&pool->context->lock);
    free_buffers(pool, &made);
    return status;
}

static void free_pool(struct hcomm_buffer_pool *pool)
{
    free_buffers(pool, &pool->idle);
    hc_ranges_fini(&pool->ranges);
    free(pool);
}

static hcomm_status_t check_create(hcomm_handle_t handle, size_t count, size_t size)
{
    const char *fault = hc_progress_fault(handle);
    if (!fault && count && size)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_INVALID, "hcomm_buffer_pool_create: %s",
                    fault    ? fault
                    : !count ? "count is 0"
                             : "size is 0");
}

HCOMM_API hcomm_buffer_pool_t hcomm_buffer_pool_create(hcomm_handle_t handle, size_t count, size_t size,
                                                       hcomm_memory_type_t memory_type)
{
    if (check_create(handle, count, size) != HCOMM_OK)
        return NULL;
    struct hcomm_buffer_pool *pool = calloc(1, sizeof(*pool));
    if (!pool) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "hcomm_buffer_pool_create: out of memory");
        return NULL;
    }
    *pool = (struct hcomm_buffer_pool){
        .context = handle, .type = memory_type, .stats = {.count = count, .size = size}};
    hc_list_init(&pool->idle);
    hc_list_init(&pool->busy);
    if (fill(pool) != HCOMM_OK) {
        free_pool(pool);
        hc_error_prefix("hcomm_buffer_pool_create: ");
        return NULL;
    }
    hc_lock_acquire(&handle->lock);
    hc_list_append(&handle->buffer_pools, &pool->link);
    hc_lock_release(&handle->lock);
    return pool;
}

/* ---- acquiring ---- */

static hcomm_status_t take(struct hcomm_buffer_pool *pool, void **ptr, struct hc_list *gone)
{
    if (hc_list_empty(&pool->idle))
        settle(pool, gone);
    struct hc_list *node = hc_list_pop(&pool->idle);
    if (!node)
        return HCOMM_AGAIN;
    struct buffer *buffer = hc_list_entry(node, struct buffer, node);
    buffer->state = ACQUIRED;
    pool->stats.acquisitions++;
    if (++pool->stats.acquired > pool->stats.most_acquired)
        pool->stats.most_acquired = pool->stats.acquired;
    *ptr = buffer->ptr;
    return HCOMM_OK;
}

static hcomm_status_t try_acquire(struct hcomm_buffer_pool *pool, void **ptr)
{
    struct hc_list gone;
    hc_list_init(&gone);
    hc_lock_acquire(&pool->context->lock);
    hcomm_status_t status = take(pool, ptr, &gone);
    hc_lock_release(&pool->context->lock);
    if (hc_unlikely(!hc_list_empty(&gone)))
        free_buffers(pool, &gone);
    return status;
}

/* Sleep until a release, or for a while: the end of an operation on a busy buffer is not announced. */
static void nap(struct hcomm_buffer_pool *pool, unsigned seen, uint64_t ns)
{
    const struct timespec time = {.tv_nsec = (long)ns};
    (void)syscall(SYS_futex, &pool->released, FUTEX_WAIT_PRIVATE, seen, &time, NULL, 0);
}

static void move_along(struct hcomm_buffer_pool *pool)
{
    struct hcomm_context *context = pool->context;
    hc_lock_acquire(&context->lock);
    (void)hc_progress(context);
    hc_lock_release(&context->lock);
    hc_transfers_progress(context);
}

static hcomm_status_t wait_for_buffer(struct hcomm_buffer_pool *pool, uint64_t deadline, void **ptr)
{
    uint64_t begin = hc_clock_ns(), now = begin, ns = NAP_FIRST_NS;
    for (;;) {
        /* acquire: partner is the release in wake(); read before looking, so that no release is missed */
        unsigned seen = atomic_load_explicit(&pool->released, memory_order_acquire);
        hcomm_status_t status = try_acquire(pool, ptr);
        if (status != HCOMM_AGAIN)
            return status;
        if (now >= deadline)
            return HCOMM_ERR_TIMEOUT;
        move_along(pool);
        if (now - begin < YIELD_NS) {
            (void)sched_yield();
        } else {
            nap(pool, seen, now + ns < deadline ? ns : deadline - now);
            ns = ns * 2 < NAP_LAST_NS ? ns * 2 : NAP_LAST_NS;
        }
        now = hc_clock_ns();
    }
}

static void count_waiter(struct hcomm_buffer_pool *pool, int change, bool waited)
{
    hc_lock_acquire(&pool->context->lock);
    pool->waiters += (unsigned)change;
    pool->stats.waits += waited;
    hc_lock_release(&pool->context->lock);
}

static hcomm_status_t explain(struct hcomm_buffer_pool *pool, const char *call, int timeout_ms)
{
    hc_lock_acquire(&pool->context->lock);
    size_t acquired = pool->stats.acquired, in_use = pool->stats.in_use, count = pool->stats.count;
    hc_lock_release(&pool->context->lock);
    return hc_error(
        HCOMM_ERR_TIMEOUT,
        "%s: no buffer became free within %d ms: of %zu, %zu are acquired and %zu in use by operations; "
        "release them sooner or enlarge the pool",
        call, timeout_ms, count, acquired, in_use);
}

static hcomm_status_t acquire(hcomm_buffer_pool_t pool, int timeout_ms, void **buffer, const char *call)
{
    hcomm_status_t status = try_acquire(pool, buffer);
    if (hc_likely(status == HCOMM_OK))
        return status;
    count_waiter(pool, 1, false);
    status = wait_for_buffer(pool, hc_deadline_ms((unsigned)timeout_ms), buffer);
    count_waiter(pool, -1, status == HCOMM_OK);
    return status == HCOMM_ERR_TIMEOUT ? explain(pool, call, timeout_ms) : status;
}

static hcomm_status_t check(hcomm_buffer_pool_t pool, const void *argument, const char *call)
{
    if (pool && argument)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_INVALID, "%s: %s is NULL", call, pool ? "an argument" : "pool");
}

HCOMM_API hcomm_status_t hcomm_buffer_pool_acquire(hcomm_buffer_pool_t pool, void **buffer)
{
    hcomm_status_t status = check(pool, buffer, "hcomm_buffer_pool_acquire");
    return status == HCOMM_OK
               ? acquire(pool, pool->context->settings.timeout_ms, buffer, "hcomm_buffer_pool_acquire")
               : status;
}

HCOMM_API hcomm_status_t hcomm_buffer_pool_try_acquire(hcomm_buffer_pool_t pool, void **buffer)
{
    hcomm_status_t status = check(pool, buffer, "hcomm_buffer_pool_try_acquire");
    return status == HCOMM_OK ? try_acquire(pool, buffer) : status;
}

HCOMM_API hcomm_status_t hcomm_buffer_pool_timed_acquire(hcomm_buffer_pool_t pool, int timeout_ms,
                                                         void **buffer)
{
    hcomm_status_t status = check(pool, buffer, "hcomm_buffer_pool_timed_acquire");
    if (status == HCOMM_OK && timeout_ms < 0)
        status = hc_error(HCOMM_ERR_INVALID, "hcomm_buffer_pool_timed_acquire: timeout_ms is %d", timeout_ms);
    return status == HCOMM_OK ? acquire(pool, timeout_ms, buffer, "hcomm_buffer_pool_timed_acquire") : status;
}

/* ---- releasing ---- */

static hcomm_status_t release_locked(struct hcomm_buffer_pool *pool, void *ptr, struct hc_list *gone)
{
    const struct hc_range *range = hc_ranges_find(&pool->ranges, ptr);
    struct buffer *buffer = range ? range->data : NULL;
    if (!buffer || buffer->ptr != ptr || buffer->state != ACQUIRED)
        return hc_error(HCOMM_ERR_INVALID,
                        "hcomm_buffer_pool_release: %p is not an acquired buffer of the pool%s", ptr,
                        buffer && buffer->ptr == ptr ? ": it was released already" : "");
    pool->stats.acquired--;
    if (hc_memory_in_use(pool->context, ptr, buffer->size)) {
        buffer->state = BUSY;
        pool->stats.in_use++;
        hc_list_append(&pool->busy, &buffer->node);
    } else {
        settle_buffer(pool, buffer, gone);
    }
    return HCOMM_OK;
}

/* The lock is held. */
static bool wake(struct hcomm_buffer_pool *pool)
{
    if (hc_likely(!pool->waiters))
        return false;
    /* release: partner is the acquire in wait_for_buffer() */
    atomic_fetch_add_explicit(&pool->released, 1, memory_order_release);
    return true;
}

HCOMM_API hcomm_status_t hcomm_buffer_pool_release(hcomm_buffer_pool_t pool, void *buffer)
{
    struct hc_list gone;
    hcomm_status_t status = check(pool, buffer, "hcomm_buffer_pool_release");
    if (status != HCOMM_OK)
        return status;
    hc_list_init(&gone);
    hc_lock_acquire(&pool->context->lock);
    status = release_locked(pool, buffer, &gone);
    bool waited_for = wake(pool);
    hc_lock_release(&pool->context->lock);
    if (waited_for)
        (void)syscall(SYS_futex, &pool->released, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    if (hc_unlikely(!hc_list_empty(&gone)))
        free_buffers(pool, &gone);
    return status;
}

/* ---- changing ---- */

/* Idle buffers that are not wanted any more. */
static void retire_idle(struct hcomm_buffer_pool *pool, struct hc_list *gone)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &pool->idle)
    {
        struct buffer *buffer = hc_list_entry(node, struct buffer, node);
        if (is_surplus(pool, buffer))
            settle_buffer(pool, buffer, gone);
    }
}

static size_t count_of_size(const struct hcomm_buffer_pool *pool, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < pool->ranges.count; i++)
        count += ((const struct buffer *)pool->ranges.entries[i].data)->size == size;
    return count;
}

/* The new buffers are made; change over. */
static hcomm_status_t change_over(struct hcomm_buffer_pool *pool, size_t count, size_t size,
                                  struct hc_list *made, struct hc_list *gone)
{
    pool->stats.count = count;
    pool->stats.size = size;
    pool->current = count_of_size(pool, size);
    hcomm_status_t status = adopt(pool, made);
    settle(pool, gone);
    retire_idle(pool, gone);
    return status;
}

static size_t missing(struct hcomm_buffer_pool *pool, size_t count, size_t size)
{
    hc_lock_acquire(&pool->context->lock);
    size_t have = count_of_size(pool, size);
    hc_lock_release(&pool->context->lock);
    return count > have ? count - have : 0;
}

HCOMM_API hcomm_status_t hcomm_buffer_pool_update(hcomm_buffer_pool_t pool, size_t count, size_t size)
{
    struct hc_list made, gone;
    hcomm_status_t status = check(pool, pool, "hcomm_buffer_pool_update");
    if (status != HCOMM_OK)
        return status;
    count = count ? count : pool->stats.count;
    size = size ? size : pool->stats.size;
    status = make_buffers(pool, missing(pool, count, size), size, &made);
    if (status != HCOMM_OK) {
        hc_error_prefix("hcomm_buffer_pool_update: ");
        return status;
    }
    hc_list_init(&gone);
    hc_lock_acquire(&pool->context->lock);
    status = change_over(pool, count, size, &made, &gone);
    bool waited_for = wake(pool);
    hc_lock_release(&pool->context->lock);
    if (waited_for)
        (void)syscall(SYS_futex, &pool->released, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    free_buffers(pool, &made);
    free_buffers(pool, &gone);
    return status;
}

/* ---- the end ---- */

/* What keeps the pool: HCOMM_OK, HCOMM_AGAIN (operations) or HCOMM_ERR_PENDING. */
static hcomm_status_t try_destroy(struct hcomm_buffer_pool *pool)
{
    struct hc_list gone;
    hc_list_init(&gone);
    hc_lock_acquire(&pool->context->lock);
    settle(pool, &gone);
    size_t acquired = pool->stats.acquired;
    hcomm_status_t status = acquired                     ? HCOMM_ERR_PENDING
                            : hc_list_empty(&pool->busy) ? HCOMM_OK
                                                         : HCOMM_AGAIN;
    if (status == HCOMM_OK)
        hc_list_remove(&pool->link);
    hc_lock_release(&pool->context->lock);
    free_buffers(pool, &gone);
    if (status == HCOMM_ERR_PENDING)
        return hc_error(status, "hcomm_buffer_pool_destroy: %zu buffers are acquired; release them first",
                        acquired);
    return status;
}

HCOMM_API hcomm_status_t hcomm_buffer_pool_destroy(hcomm_buffer_pool_t pool)
{
    if (!pool)
        return HCOMM_OK;
    int timeout_ms = pool->context->settings.timeout_ms;
    uint64_t deadline = hc_deadline_ms((unsigned)timeout_ms);
    hcomm_status_t status;
    while ((status = try_destroy(pool)) == HCOMM_AGAIN) {
        if (hc_clock_ns() >= deadline)
            return explain(pool, "hcomm_buffer_pool_destroy", timeout_ms);
        move_along(pool);
        nap(pool, atomic_load_explicit(&pool->released, memory_order_relaxed), NAP_FIRST_NS);
    }
    if (status == HCOMM_OK)
        free_pool(pool);
    return status;
}

/* The memory itself is freed with all other of the context. */
void hc_buffer_pools_fini(struct hcomm_context *context)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&context->buffer_pools))) {
        struct hcomm_buffer_pool *pool = hc_list_entry(node, struct hcomm_buffer_pool, link);
        for (size_t i = 0; i < pool->ranges.count; i++)
            free(pool->ranges.entries[i].data);
        hc_ranges_fini(&pool->ranges);
        free(pool);
    }
}

HCOMM_API hcomm_status_t hcomm_buffer_pool_stats(hcomm_buffer_pool_t pool, hcomm_buffer_pool_stats_t *stats)
{
    struct hc_list gone, *node;
    hcomm_status_t status = check(pool, stats, "hcomm_buffer_pool_stats");
    if (status != HCOMM_OK)
        return status;
    hc_list_init(&gone);
    hc_lock_acquire(&pool->context->lock);
    settle(pool, &gone);
    *stats = pool->stats;
    hc_list_for_each(node, &pool->idle) stats->free++;
    hc_lock_release(&pool->context->lock);
    free_buffers(pool, &gone);
    return HCOMM_OK;
}
