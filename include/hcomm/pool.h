/*
 * Pools of buffers: a number of equal buffers that are allocated once and used again and again.
 *
 * A buffer that was acquired is the caller's until it is released. It may be released while an operation on
 * it is under way: a message (p2p.h), a transfer (transfer.h), a message or copy enqueued on a stream; nobody
 * gets it before that operation is complete. One exception: of copies that hcomm_memcpy_async() has handed to
 * a device's own stream hcomm knows nothing any more; synchronize the stream before the release.
 *
 * Any thread, any call but hcomm_buffer_pool_destroy(), after which nobody may use the pool. Nothing is
 * allocated by acquiring and releasing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_POOL_H
#define HCOMM_POOL_H

#include <hcomm/mem.h>
#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hcomm_buffer_pool *hcomm_buffer_pool_t;

/*
 * `count` (> 0) buffers of `size` (> 0) bytes, of a memory type of mem.h, aligned to align_size. NULL when it
 * cannot be had; hcomm_error_detail() tells why. Owned by the caller until hcomm_buffer_pool_destroy();
 * hcomm_finalize() destroys what is left.
 */
HCOMM_API hcomm_buffer_pool_t hcomm_buffer_pool_create(hcomm_handle_t handle, size_t count, size_t size,
                                                       hcomm_memory_type_t memory_type);

/*
 * A buffer, contents undefined. acquire waits at most timeout_ms of the settings, timed_acquire at most the
 * given milliseconds (>= 0), try_acquire not at all. Waiting moves messages and transfers. Errors:
 * HCOMM_AGAIN (try: none is free), HCOMM_ERR_TIMEOUT (the detail tells how many are acquired and how many are
 * in use by operations), HCOMM_ERR_INVALID.
 */
HCOMM_API hcomm_status_t hcomm_buffer_pool_acquire(hcomm_buffer_pool_t pool, void **buffer);
HCOMM_API hcomm_status_t hcomm_buffer_pool_try_acquire(hcomm_buffer_pool_t pool, void **buffer);
HCOMM_API hcomm_status_t hcomm_buffer_pool_timed_acquire(hcomm_buffer_pool_t pool, int timeout_ms,
                                                         void **buffer);

/* Give a buffer back. Never waits. HCOMM_ERR_INVALID when it is not an acquired one of this pool. */
HCOMM_API hcomm_status_t hcomm_buffer_pool_release(hcomm_buffer_pool_t pool, void *buffer);

/*
 * Change number and size of the buffers (0: leave as it is). New ones are allocated at once; those too many,
 * or of the old size, go when they are free: buffers acquired before keep their size until they are released.
 * When memory is short the pool stays as it was: HCOMM_ERR_NO_MEMORY.
 */
HCOMM_API hcomm_status_t hcomm_buffer_pool_update(hcomm_buffer_pool_t pool, size_t count, size_t size);

/*
 * Free the pool. Waits, at most timeout_ms, for operations on buffers that were released. NULL is accepted.
 * Errors, with which the pool stays: HCOMM_ERR_PENDING (buffers are acquired; the detail tells how many),
 * HCOMM_ERR_TIMEOUT.
 */
HCOMM_API hcomm_status_t hcomm_buffer_pool_destroy(hcomm_buffer_pool_t pool);

typedef struct hcomm_buffer_pool_stats {
    size_t count, size;    /* as created or updated last */
    size_t free;           /* can be acquired at once */
    size_t acquired;       /* are the caller's */
    size_t in_use;         /* were released, and wait for an operation to complete */
    size_t most_acquired;  /* at any time */
    uint64_t acquisitions; /* successful ones */
    uint64_t waits;        /* of these, how many had to wait */
    uint64_t allocations;  /* buffers allocated so far */
} hcomm_buffer_pool_stats_t;

HCOMM_API hcomm_status_t hcomm_buffer_pool_stats(hcomm_buffer_pool_t pool, hcomm_buffer_pool_stats_t *stats);

#ifdef __cplusplus
}
#endif

#endif
