/* Memory of all kinds for applications: the public calls. */
#include "runtime/core/core.h"
#include "runtime/core/device.h"
#include "runtime/core/device_ipc.h"
#include "runtime/core/progress.h"
#include "runtime/core/mem.h"
#include "runtime/core/transfer.h"

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

/* What was freed may still be open in another process: then wait for that one. */
static hcomm_status_t alloc_waiting(struct hcomm_context *context, size_t size, hcomm_memory_type_t type,
                                    void **ptr)
{
    hc_lock_acquire(&context->lock);
    hcomm_status_t status = alloc_type(context, size, type, ptr);
    if (status == HCOMM_ERR_NO_MEMORY && context->device && hc_device_await_recalled(context->device))
        status = alloc_type(context, size, type, ptr);
    hc_lock_release(&context->lock);
    return status;
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
    hcomm_status_t status = alloc_waiting(handle, size, type, ptr);
    if (status == HCOMM_ERR_NO_MEMORY && hc_transfers_release_freed(handle))
        status = alloc_waiting(handle, size, type, ptr); /* what was freed under a transfer has become free */
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

/* Bytes of what was allocated at ptr, of the process or the device; 0: nothing was. */
static size_t size_of(const struct hcomm_context *context, const void *ptr)
{
    const struct hc_range *range = hc_ranges_find(&context->blocks, ptr);
    if (range)
        return range->base == (uintptr_t)ptr ? range->size : 0;
    return context->device ? hc_device_size(context->device, ptr) : 0;
}

static void release_memory(struct hcomm_context *context, struct hc_doomed *memory)
{
    if (hc_ranges_remove(&context->blocks, memory->ptr))
        free(memory->ptr);
    else
        hc_device_free_doomed(context->device, memory->ptr);
    free(memory);
}

/* Transfers use it: it stays allocated, and known, until they are complete. HCOMM_AGAIN: they just were. */
static hcomm_status_t doom(struct hcomm_context *context, void *ptr, size_t size)
{
    struct hc_doomed *memory = malloc(sizeof(*memory));
    if (!memory)
        return hc_error(
            HCOMM_ERR_NO_MEMORY,
            "rank %u: transfers use %p, and there is no memory to remember that it is to be freed: "
            "wait for them first",
            context->job->rank, ptr);
    *memory = (struct hc_doomed){.ptr = ptr, .size = size, .release = release_memory};
    hc_list_init(&memory->node);
    if (!hc_transfers_defer_free(context, memory)) {
        free(memory);
        return HCOMM_AGAIN;
    }
    if (context->device)
        hc_device_doom(context->device, ptr);
    return HCOMM_OK;
}

/* Lock held. As free_known(), but what transfers use is freed when they are complete. */
static hcomm_status_t free_or_doom(struct hcomm_context *context, void *ptr)
{
    if (hc_transfers_is_doomed(context, ptr))
        return hc_error(HCOMM_ERR_INVALID, "rank %u: %p was freed already, while transfers used it",
                        context->job->rank, ptr);
    size_t size = size_of(context, ptr);
    bool used = size && hc_transfers_use(context, ptr, size);
    hcomm_status_t status = used ? doom(context, ptr, size) : HCOMM_AGAIN;
    return status == HCOMM_AGAIN ? free_known(context, ptr) : status;
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
    hcomm_status_t status = free_or_doom(handle, ptr);
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

/* The kind must fit what the two sides are. */
static hcomm_status_t check_kind(hcomm_copy_kind_t kind, enum hc_place to, enum hc_place from)
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

/* Find out what both sides are. */
static hcomm_status_t locate_sides(struct hcomm_context *context, struct hc_side *to, struct hc_side *from,
                                   size_t size, hcomm_copy_kind_t kind)
{
    hc_lock_acquire(&context->lock);
    hcomm_status_t status = hc_device_locate(context, to->ptr, size, &to->place);
    if (status == HCOMM_OK)
        status = hc_device_locate(context, from->ptr, size, &from->place);
    hc_lock_release(&context->lock);
    return status == HCOMM_OK ? check_kind(kind, to->place, from->place) : status;
}

/* Without the lock: a long copy holds nobody up. The caller keeps both memories until it returns. */
static hcomm_status_t copy_located(struct hcomm_context *context, const struct hc_side *to,
                                   const struct hc_side *from, size_t size)
{
    if (context->device)
        return hc_device_copy(context->device, to, from, size);
    if (size)
        (void)memcpy(to->ptr, from->ptr, size);
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
    struct hc_side to = {.ptr = dst}, from = {.ptr = (void *)(uintptr_t)src};
    hcomm_status_t status = locate_sides(handle, &to, &from, size, kind);
    if (status == HCOMM_OK)
        status = copy_located(handle, &to, &from, size);
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
    hc_lock_release(&handle->lock);
    if (status == HCOMM_OK && handle->device)
        status = hc_device_fill(handle->device, &to, value, size);
    else if (status == HCOMM_OK && size)
        (void)memset(ptr, value, size);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_memset: ");
    return status;
}
