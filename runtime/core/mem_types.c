/* Memory of all kinds for applications: the public calls. */
#include "runtime/core/core.h"
#include "runtime/core/device.h"
#include "runtime/core/progress.h"
#include "runtime/core/mem.h"

#include <stdlib.h>
#include <string.h>

static hcomm_status_t alloc_host(struct hcomm_context *context, size_t size, void **ptr)
{
    size_t alignment = context->settings.align_size;
    void *block = size > SIZE_MAX - alignment ? NULL : aligned_alloc(alignment, hc_align_up(size, alignment));
    if (!block)
        return hc_error(HCOMM_ERR_NO_MEMORY, "%zu bytes of host memory cannot be had", size);
    const struct hc_range range = {.base = (uintptr_t)block, .size = size};
    hcomm_status_t status = hc_ranges_add(&context->blocks, &range);
    if (status == HCOMM_OK)
        *ptr = block;
    else
        free(block);
    return status;
}

static hcomm_status_t alloc_on_device(struct hcomm_context *context, size_t size, enum hc_place place,
                                      void **ptr)
{
    if (context->device)
        return hc_device_alloc(context->device, size, place, ptr);
    if (place == HC_PLACE_PINNED)
        return alloc_host(context, size, ptr);
    return hc_error(HCOMM_ERR_UNSUPPORTED,
                    "rank %u has no device: give hcomm_init() a device_id (HCOMM_DEVICE_ID=0)",
                    context->job->rank);
}

/* Lock held. */
static hcomm_status_t alloc_type(struct hcomm_context *context, size_t size, hcomm_memory_type_t type,
                                 void **ptr)
{
    switch (type) {
    case HCOMM_MEMORY_HOST:
        return alloc_host(context, size, ptr);
    case HCOMM_MEMORY_HOST_PINNED:
        return alloc_on_device(context, size, HC_PLACE_PINNED, ptr);
    case HCOMM_MEMORY_DEVICE:
        return alloc_on_device(context, size, HC_PLACE_DEVICE, ptr);
    case HCOMM_MEMORY_SHARED:
        break; /* the caller's: it takes the lock itself */
    }
    return hc_error(HCOMM_ERR_INVALID, "there is no memory type %d", (int)type);
}

/* From the pool, whose call tells failures through the detail alone. */
static hcomm_status_t alloc_shared(struct hcomm_context *context, size_t size, void **ptr)
{
    void *block = hcomm_alloc_host_mem(context, size);
    if (!block)
        return HCOMM_ERR_LIMIT;
    *ptr = block;
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_mem_alloc(hcomm_handle_t handle, size_t size, hcomm_memory_type_t type,
                                         void **ptr)
{
    const char *fault = hc_progress_fault(handle);
    if (fault || !size || !ptr)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_mem_alloc: %s",
                        fault   ? fault
                        : !size ? "size is 0"
                                : "ptr is NULL");
    if (type == HCOMM_MEMORY_SHARED)
        return alloc_shared(handle, size, ptr);
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = alloc_type(handle, size, type, ptr);
    hc_lock_release(&handle->lock);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_mem_alloc: ");
    return status;
}

/* Lock held. HCOMM_AGAIN: neither plain host memory nor the device's. */
static hcomm_status_t free_known(struct hcomm_context *context, void *ptr)
{
    if (hc_ranges_remove(&context->blocks, ptr)) {
        free(ptr);
        return HCOMM_OK;
    }
    return context->device ? hc_device_free(context->device, ptr) : HCOMM_AGAIN;
}

/* The pool's addresses are one range; what lies outside is refused by it, in its own words. */
static bool is_pooled(struct hcomm_context *context, const void *ptr)
{
    hc_lock_acquire(&context->lock);
    bool pooled = context->memory && hc_host_pool_holds(context->memory, ptr);
    hc_lock_release(&context->lock);
    return pooled;
}

HCOMM_API hcomm_status_t hcomm_mem_free(hcomm_handle_t handle, void *ptr)
{
    const char *fault = hc_progress_fault(handle);
    if (fault)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_mem_free: %s", fault);
    if (!ptr)
        return HCOMM_OK;
    if (is_pooled(handle, ptr))
        return hcomm_free_host_mem(handle, ptr);
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = free_known(handle, ptr);
    hc_lock_release(&handle->lock);
    if (status == HCOMM_AGAIN)
        status = hc_error(HCOMM_ERR_INVALID, "%p is not the start of memory from hcomm_mem_alloc()", ptr);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_mem_free: ");
    return status;
}

void hc_blocks_fini(struct hcomm_context *context)
{
    for (size_t i = 0; i < context->blocks.count; i++)
        free((void *)context->blocks.entries[i].base);
    hc_ranges_fini(&context->blocks);
}

/* ---- registration ---- */

static hcomm_status_t check_range(const char *call, hcomm_handle_t handle, const void *ptr, size_t size)
{
    const char *fault = hc_progress_fault(handle);
    if (!fault && ptr && size)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_INVALID, "%s: %s", call, fault ? fault : !ptr ? "ptr is NULL" : "size is 0");
}

HCOMM_API hcomm_status_t hcomm_mem_register(hcomm_handle_t handle, void *ptr, size_t size)
{
    hcomm_status_t status = check_range("hcomm_mem_register", handle, ptr, size);
    if (status != HCOMM_OK || !handle->device)
        return status; /* host only: there is nobody to tell */
    hc_lock_acquire(&handle->lock);
    status = hc_device_register(handle->device, ptr, size);
    hc_lock_release(&handle->lock);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_mem_register: ");
    return status;
}

HCOMM_API hcomm_status_t hcomm_mem_deregister(hcomm_handle_t handle, void *ptr)
{
    hcomm_status_t status = check_range("hcomm_mem_deregister", handle, ptr, 1);
    if (status != HCOMM_OK || !handle->device)
        return status;
    hc_lock_acquire(&handle->lock);
    status = hc_device_deregister(handle->device, ptr);
    hc_lock_release(&handle->lock);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_mem_deregister: ");
    return status;
}

/* ---- copies ---- */

static const char *place_text(enum hc_place place)
{
    return place == HC_PLACE_DEVICE ? "device" : "host";
}

hcomm_status_t hc_copy_check_kind(hcomm_copy_kind_t kind, enum hc_place to, enum hc_place from)
{
    if (kind == HCOMM_COPY_AUTO)
        return HCOMM_OK;
    if (kind < HCOMM_COPY_AUTO || kind > HCOMM_COPY_DEVICE_TO_DEVICE)
        return hc_error(HCOMM_ERR_INVALID, "there is no kind of copy %d", (int)kind);
    bool to_device = kind == HCOMM_COPY_HOST_TO_DEVICE || kind == HCOMM_COPY_DEVICE_TO_DEVICE;
    bool from_device = kind == HCOMM_COPY_DEVICE_TO_HOST || kind == HCOMM_COPY_DEVICE_TO_DEVICE;
    if (to_device == (to == HC_PLACE_DEVICE) && from_device == (from == HC_PLACE_DEVICE))
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_INVALID,
                    "the kind says %s to %s, but dst is %s memory and src is %s memory; use HCOMM_COPY_AUTO",
                    from_device ? "device" : "host", to_device ? "device" : "host", place_text(to),
                    place_text(from));
}

/* What is wrong with a range; NULL: nothing. */
static const char *range_fault(const void *ptr, size_t size)
{
    if (size && !ptr)
        return "is NULL";
    return (uintptr_t)ptr + size < (uintptr_t)ptr ? "does not end before the address space does" : NULL;
}

/* Lock held. */
static hcomm_status_t copy_located(struct hcomm_context *context, void *dst, const void *src, size_t size,
                                   hcomm_copy_kind_t kind)
{
    struct hc_side to = {.ptr = dst}, from = {.ptr = (void *)(uintptr_t)src};
    hcomm_status_t status = hc_device_locate(context, dst, size, &to.place);
    if (status == HCOMM_OK)
        status = hc_device_locate(context, src, size, &from.place);
    if (status == HCOMM_OK)
        status = hc_copy_check_kind(kind, to.place, from.place);
    if (status != HCOMM_OK || !size)
        return status;
    if (context->device)
        return hc_device_copy(context->device, &to, &from, size);
    (void)memcpy(dst, src, size);
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_memcpy(hcomm_handle_t handle, void *dst, const void *src, size_t size,
                                      hcomm_copy_kind_t kind)
{
    const char *fault = hc_progress_fault(handle), *dst_fault = range_fault(dst, size),
               *src_fault = range_fault(src, size);
    if (fault)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_memcpy: %s", fault);
    if (dst_fault || src_fault)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_memcpy: %s %s", dst_fault ? "dst" : "src",
                        dst_fault ? dst_fault : src_fault);
    if ((uintptr_t)dst < (uintptr_t)src + size && (uintptr_t)src < (uintptr_t)dst + size)
        return hc_error(HCOMM_ERR_INVALID,
                        "hcomm_memcpy: source %p and destination %p overlap within %zu bytes", src, dst,
                        size);
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = copy_located(handle, dst, src, size, kind);
    hc_lock_release(&handle->lock);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_memcpy: ");
    return status;
}

HCOMM_API hcomm_status_t hcomm_memset(hcomm_handle_t handle, void *ptr, int value, size_t size)
{
    const char *fault = hc_progress_fault(handle), *ptr_fault = range_fault(ptr, size);
    if (ptr_fault && !fault)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_memset: ptr %s", ptr_fault);
    if (fault || value < 0 || value > UINT8_MAX)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_memset: %s", fault ? fault : "value is not in 0..255");
    struct hc_side to = {.ptr = ptr};
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = hc_device_locate(handle, ptr, size, &to.place);
    if (status == HCOMM_OK && handle->device)
        status = hc_device_fill(handle->device, &to, value, size);
    else if (status == HCOMM_OK && size)
        (void)memset(ptr, value, size);
    hc_lock_release(&handle->lock);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_memset: ");
    return status;
}
