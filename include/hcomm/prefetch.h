/*
 * Prefetching: input that comes in batches is copied to where it is needed, usually to the device, while the
 * caller computes with the batches before.
 *
 *     hcomm_prefetch_config_t config = {.source = batch_at, .user_data = data, .batch_size = size,
 *                                       .memory_type = HCOMM_MEMORY_DEVICE};
 *     hcomm_prefetch_create(handle, &config, &prefetch);
 *     while (hcomm_prefetch_next(prefetch, &batch) == HCOMM_OK && batch.ptr)
 *         compute(batch.ptr, batch.size);
 *     hcomm_prefetch_destroy(prefetch);
 *
 * `depth` batches are on their way while one is computed with. They are transfers (transfer.h) and count
 * against queue_depth. Input in memory from hcomm (mem.h) or registered memory is copied by the device's
 * engines alone; other memory passes through staging memory, by a thread of the context.
 *
 * Threads: one prefetch is used by one thread at a time; different ones by different threads freely.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_PREFETCH_H
#define HCOMM_PREFETCH_H

#include <hcomm/mem.h>
#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Where batch number `index` (0, 1, …) lies: any memory, which must stay as it is until that batch was given
 * out. *size: its bytes, preset to batch_size, not to be made larger. NULL: there are no more. Called by
 * hcomm_prefetch_create() and hcomm_prefetch_next(), in their thread, once for each index in order, up to
 * `depth` batches ahead. Not in callbacks of transfers.
 */
typedef const void *(*hcomm_prefetch_source_t)(void *user_data, uint64_t index, size_t *size);

/* Zero it first; what is left zero has its default. */
typedef struct hcomm_prefetch_config {
    hcomm_prefetch_source_t source;  /* required */
    void *user_data;                 /* for source */
    size_t batch_size;               /* the most bytes of a batch; required */
    unsigned depth;                  /* batches on their way, 1–1024; default 2 */
    hcomm_memory_type_t memory_type; /* where they go; default HCOMM_MEMORY_HOST */
    uint64_t reserved[4];            /* must be zero */
} hcomm_prefetch_config_t;

typedef struct hcomm_prefetch_batch {
    void *ptr;      /* NULL: there are no more */
    size_t size;    /* bytes */
    uint64_t index; /* number of the batch */
} hcomm_prefetch_batch_t;

typedef struct hcomm_prefetch *hcomm_prefetch_t;

/*
 * Allocate depth + 1 buffers and start a batch for each. *prefetch is the caller's until
 * hcomm_prefetch_destroy(), which comes before hcomm_finalize(). Errors: HCOMM_ERR_INVALID,
 * HCOMM_ERR_NO_MEMORY, HCOMM_ERR_UNSUPPORTED (device memory without a device), and those of
 * hcomm_submit_transfer().
 */
HCOMM_API hcomm_status_t hcomm_prefetch_create(hcomm_handle_t handle, const hcomm_prefetch_config_t *config,
                                               hcomm_prefetch_t *prefetch);

/*
 * Give the batch before back, start a further one, and wait for the next, which is usually there. It is the
 * caller's until the next call; what the caller has enqueued that reads it must be complete by then. A batch
 * that failed gives its error (HCOMM_ERR_IO, HCOMM_ERR_INVALID), and the following call gives the batch after
 * it. HCOMM_ERR_TIMEOUT: nothing moved for timeout_ms; the next call waits again for the same batch.
 */
HCOMM_API hcomm_status_t hcomm_prefetch_next(hcomm_prefetch_t prefetch, hcomm_prefetch_batch_t *batch);

/* Wait for what is on its way and free everything. NULL is accepted. HCOMM_ERR_TIMEOUT: the prefetch stays.
 */
HCOMM_API hcomm_status_t hcomm_prefetch_destroy(hcomm_prefetch_t prefetch);

#ifdef __cplusplus
}
#endif

#endif
