/*
 * Memory from hcomm, of the host and of the context's device: aligned to the setting align_size. And what the
 * application's own memory needs to take part.
 *
 * A context has a device when it was opened with device_id >= 0 (context.h). Device memory cannot be read or
 * written by the processor; it is filled and read with hcomm_memcpy(), hcomm_memset(), by messages and by the
 * device itself. Every call of p2p.h takes device memory, too: which one a pointer is, is found out exactly.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_MEM_H
#define HCOMM_MEM_H

#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Memory aligned to align_size, its length rounded up to it, contents undefined. With a device open it is
 * pinned: the device's engines reach it, copies are asynchronous. NULL when the pool (mem_pool_size) or the
 * system has no room, or handle is NULL or size 0; hcomm_error_detail() tells which. Owned by the caller
 * until hcomm_free_host_mem(); what is left is freed by hcomm_finalize(). Any thread.
 *
 * The memory is shared: ranks of the same host map it to copy large messages straight out of it and into it,
 * and a forked child sees its parent's memory, not a copy. Blocks of up to 64 MiB take their memory from the
 * system here, larger ones when they are touched.
 */
HCOMM_API void *hcomm_alloc_host_mem(hcomm_handle_t handle, size_t size);

/*
 * Give memory back. Transfers (transfer.h) may be using it: it is then released, for others to get, when the
 * last of them is complete, but the caller has lost it at once. No other operation may be using it. NULL is
 * accepted; HCOMM_ERR_INVALID for a foreign pointer, or one given back already. Any thread.
 */
HCOMM_API hcomm_status_t hcomm_free_host_mem(hcomm_handle_t handle, void *ptr);

/*
 * Bytes from one row of a matrix to the next, so that every row of `row` bytes starts aligned to align_size
 * when the first does. 0 for a NULL handle, or when it would not fit a size_t. Any thread.
 */
HCOMM_API size_t hcomm_aligned_stride(hcomm_handle_t handle, size_t row);

/* Kinds of memory. */
typedef enum hcomm_memory_type {
    HCOMM_MEMORY_HOST = 0,    /* the process's own, nothing special */
    HCOMM_MEMORY_HOST_PINNED, /* the device's engines reach it: the fastest for copies to and from the device;
                                 as HOST in a context without a device */
    HCOMM_MEMORY_DEVICE,      /* of the context's device */
    HCOMM_MEMORY_SHARED       /* as hcomm_alloc_host_mem(): from the pool that mem_pool_size bounds */
} hcomm_memory_type_t;

/*
 * Allocate size > 0 bytes, contents undefined; the address is a multiple of align_size. *ptr is the caller's
 * until hcomm_mem_free(); what is left is freed by hcomm_finalize(). Any thread. Errors: HCOMM_ERR_INVALID,
 * HCOMM_ERR_NO_MEMORY (of the host or the device), HCOMM_ERR_LIMIT (mem_pool_size), HCOMM_ERR_UNSUPPORTED
 * (DEVICE in a context without one), HCOMM_ERR_IO (the device failed).
 */
HCOMM_API hcomm_status_t hcomm_mem_alloc(hcomm_handle_t handle, size_t size, hcomm_memory_type_t type,
                                         void **ptr);

/*
 * Give memory of hcomm_mem_alloc() back. As with hcomm_free_host_mem(), transfers may be using it, and no
 * other operation: it is released when the last of them is complete, the caller has lost it at once. Never
 * waits for transfers. NULL is accepted. Any thread. Errors: HCOMM_ERR_INVALID (not the start of such memory,
 * or freed already), HCOMM_ERR_NO_MEMORY (transfers use it, and there is no memory to remember that: it stays
 * the caller's), HCOMM_ERR_IO. Device memory that ranks of this host have received from goes back to the
 * device once they have closed it, when they next make progress.
 */
HCOMM_API hcomm_status_t hcomm_mem_free(hcomm_handle_t handle, void *ptr);

/*
 * Announce memory that the application allocated itself and uses often. Host memory is pinned, so that the
 * device's engines reach it (whole pages: nothing else in them may be registered, too); device memory is
 * recognised from then on without asking the device's runtime. Nothing has to be registered. The memory must
 * stay allocated until hcomm_mem_deregister(). Any thread. Errors: HCOMM_ERR_INVALID (size 0, overlaps memory
 * that is registered or from hcomm, device memory of less than size bytes), HCOMM_ERR_NO_MEMORY,
 * HCOMM_ERR_LIMIT, HCOMM_ERR_IO.
 */
HCOMM_API hcomm_status_t hcomm_mem_register(hcomm_handle_t handle, void *ptr, size_t size);
/* Undo it, with the ptr registered; before the memory is freed. HCOMM_ERR_INVALID, HCOMM_ERR_IO. */
HCOMM_API hcomm_status_t hcomm_mem_deregister(hcomm_handle_t handle, void *ptr);

/* What a copy goes from and to. */
typedef enum hcomm_copy_kind {
    HCOMM_COPY_AUTO = 0, /* found out from the pointers */
    HCOMM_COPY_HOST_TO_HOST,
    HCOMM_COPY_HOST_TO_DEVICE,
    HCOMM_COPY_DEVICE_TO_HOST,
    HCOMM_COPY_DEVICE_TO_DEVICE
} hcomm_copy_kind_t;

/*
 * Copy size bytes between any two kinds of memory; returns when they are there. The ranges must not overlap.
 * A kind other than AUTO is checked. Any thread; the context's other calls go on meanwhile, so no thread may
 * free or deregister either memory, nor give its buffer back to a pool, nor finalize the context, before this
 * call has returned. Errors: HCOMM_ERR_INVALID (the kind does not fit the pointers; the ranges overlap or
 * leave the address space; device memory that was freed, or ends before size; a finalized context),
 * HCOMM_ERR_IO (the device failed).
 */
HCOMM_API hcomm_status_t hcomm_memcpy(hcomm_handle_t handle, void *dst, const void *src, size_t size,
                                      hcomm_copy_kind_t kind);

/* Set size bytes of any kind of memory to value (0–255); returns when done. Rules and errors as
 * hcomm_memcpy(). */
HCOMM_API hcomm_status_t hcomm_memset(hcomm_handle_t handle, void *ptr, int value, size_t size);

#ifdef __cplusplus
}
#endif

#endif
