/*
 * Host memory from hcomm: aligned to the setting align_size, bounded by mem_pool_size.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_MEM_H
#define HCOMM_MEM_H

#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Memory aligned to align_size, its length rounded up to it, contents undefined. NULL when the pool
 * (mem_pool_size) or the system has no room, or handle is NULL or size 0; hcomm_error_detail() tells which.
 * Owned by the caller until hcomm_free_host_mem(); what is left is freed by hcomm_finalize(). Any thread.
 */
HCOMM_API void *hcomm_alloc_host_mem(hcomm_handle_t handle, size_t size);

/* Give memory back; no operation may be using it. NULL is accepted; HCOMM_ERR_INVALID for a foreign pointer.
 */
HCOMM_API hcomm_status_t hcomm_free_host_mem(hcomm_handle_t handle, void *ptr);

#ifdef __cplusplus
}
#endif

#endif
