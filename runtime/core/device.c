/* Opening the device of a context, and telling its memory from the host's. */
#include "runtime/core/device_impl.h"

#include "runtime/core/device_ipc.h"
#include "runtime/core/device_registration.h"
#include "runtime/core/staged.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NO_DEVICE = -1, UNCHANGED = -2 /* previous: it was current already */ };

/* ---- errors ---- */

static const struct {
    int code;
    hcomm_status_t status;
    const char *remedy;
} remedies[] = {
    {HC_ACL_INVALID_PARAMETER, HCOMM_ERR_INVALID, "is the memory still allocated, and as large as that?"},
    {HC_ACL_INVALID_DEVICE_ID, HCOMM_ERR_INVALID, "see `hcomm_info` for the visible devices"},
    {HC_ACL_INVALID_DEVICE, HCOMM_ERR_INVALID, "see `hcomm_info` for the visible devices"},
    {HC_ACL_NO_DEVICE, HCOMM_ERR_UNSUPPORTED, "check ASCEND_RT_VISIBLE_DEVICES, or use device_id -1"},
    {HC_ACL_NO_CONTEXT, HCOMM_ERR_INVALID, "was the device reset by the application?"},
    {HC_ACL_STREAM_NOT_IN_CONTEXT, HCOMM_ERR_INVALID, "use a stream of the context's device"},
    {HC_ACL_INVALID_HANDLE, HCOMM_ERR_INVALID, "was it destroyed, or the device reset by the application?"},
    {HC_ACL_NOT_SUPPORTED, HCOMM_ERR_UNSUPPORTED, "a newer driver may offer it"},
    {HC_ACL_OUT_OF_MEMORY, HCOMM_ERR_NO_MEMORY, "free memory of the device, or use smaller buffers"},
    {HC_ACL_FREE_FAILED, HCOMM_ERR_PENDING, "wait until operations on the memory are complete"},
    {HC_ACL_NO_PERMISSION, HCOMM_ERR_UNSUPPORTED,
     "run all ranks as one user and in one container, and check access between the devices"},
    {HC_ACL_NO_RESOURCE, HCOMM_ERR_LIMIT, "use fewer streams, events and exports"},
    {HC_ACL_NO_EVENT, HCOMM_ERR_LIMIT, "destroy events that are not used any more"},
    {HC_ACL_NO_STREAM, HCOMM_ERR_LIMIT, "destroy streams that are not used any more"},
    {HC_ACL_NO_NOTIFY, HCOMM_ERR_LIMIT, "destroy notifies that are not used any more"},
    {HC_ACL_WAIT_TIMEOUT, HCOMM_ERR_TIMEOUT, "raise timeout_ms if the device is only busy"},
    {HC_ACL_DRIVER_ERROR, HCOMM_ERR_IO,
     "the device is lost: see the system's log (npu-smi, dmesg), restart the rank on another device"},
};

hcomm_status_t hc_device_error(struct hc_device *device, int code, const char *what, ...)
{
    char words[192];
    va_list args;
    va_start(args, what);
    (void)vsnprintf(words, sizeof(words), what, args);
    va_end(args);
    hcomm_status_t status = HCOMM_ERR_IO;
    const char *remedy = "see the log of the device's runtime";
    for (size_t i = 0; i < hc_array_len(remedies); i++)
        if (remedies[i].code == code) {
            status = remedies[i].status;
            remedy = remedies[i].remedy;
        }
    const char *detail = hc_acl_detail(device->acl);
    atomic_store_explicit(&device->last_code, code, memory_order_relaxed);
    return hc_error(status, "rank %u: device %d (physical %d): %s: %s (code %d%s%s); %s",
                    device->context->job->rank, device->id, device->physical, words, hc_acl_text(code), code,
                    *detail ? ": " : "", detail, remedy);
}

/* ---- open and close ---- */

const struct hc_acl *hc_device_acl(const struct hc_device *device)
{
    return device->acl;
}

int hc_device_id(const struct hc_device *device)
{
    return device->id;
}

int hc_device_physical(const struct hc_device *device)
{
    return device->physical;
}

static hcomm_status_t load_runtime(struct hc_device *device)
{
    char error[400];
    const struct hc_settings *settings = &device->context->settings;
    device->acl = hc_acl_load(settings->npu, error, sizeof(error));
    if (device->acl)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_UNSUPPORTED,
                    "rank %u: device_id is %d, but %s; name another library, or use device_id -1 (host only)",
                    device->context->job->rank, settings->device_id, error);
}

static hcomm_status_t check_id(struct hc_device *device)
{
    uint32_t count = 0;
    int code = device->acl->aclrtGetDeviceCount(&count);
    if (code == HC_ACL_OK && (uint32_t)device->id < count)
        return HCOMM_OK;
    const char *visible = getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (code != HC_ACL_OK && code != HC_ACL_NO_DEVICE)
        return hc_device_error(device, code, "counting the devices");
    return hc_error(HCOMM_ERR_INVALID,
                    "rank %u on host %s: there is no device %d: %u %s visible%s%s%s; use a smaller "
                    "device_id, -1 (host only), or fewer ranks",
                    device->context->job->rank, device->context->job->hostname, device->id, count,
                    count == 1 ? "is" : "are", visible ? " (ASCEND_RT_VISIBLE_DEVICES=" : "",
                    visible ? visible : "", visible ? ")" : "");
}

/* Older runtimes cannot tell; then the visible ones are all there are, or the variable lists them. */
int hc_acl_physical(const struct hc_acl *acl, int id)
{
    int32_t physical = id;
    if (acl->aclrtGetPhyDevIdByLogicDevId && acl->aclrtGetPhyDevIdByLogicDevId(id, &physical) == HC_ACL_OK)
        return physical;
    const char *list = getenv("ASCEND_RT_VISIBLE_DEVICES");
    for (int i = 0; list && *list; i++) {
        char *end = NULL;
        long entry = strtol(list, &end, 10);
        if (end == list || entry < 0 || entry > INT16_MAX)
            break;
        if (i == id)
            return (int)entry;
        list = *end == ',' ? end + 1 : end;
    }
    return id;
}

static hcomm_status_t take_device(struct hc_device *device)
{
    int previous = UNCHANGED;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status == HCOMM_OK)
        hc_device_leave(device, previous);
    return status;
}

hcomm_status_t hc_device_open(struct hcomm_context *context)
{
    struct hc_device *device = calloc(1, sizeof(*device));
    if (!device)
        return hc_error(HCOMM_ERR_NO_MEMORY, "device: out of memory");
    device->context = context;
    device->id = device->physical = context->settings.device_id;
    hcomm_status_t status = load_runtime(device);
    if (status == HCOMM_OK)
        status = check_id(device);
    if (status == HCOMM_OK) {
        device->physical = hc_acl_physical(device->acl, device->id);
        status = take_device(device);
    }
    if (status != HCOMM_OK) {
        free(device);
        return status;
    }
    hc_device_copies_init(device);
    hc_list_init(&device->imports);
    hc_list_init(&device->registrations);
    status = hc_staged_init(device);
    if (status != HCOMM_OK) {
        (void)device->acl->aclrtResetDevice(device->id);
        free(device);
        return status;
    }
    hc_log_info("device %d (physical %d) of %s", device->id, device->physical, device->acl->library);
    context->device = device;
    return HCOMM_OK;
}

static int allocate(const struct hc_acl *acl, size_t size, enum hc_place place, void **ptr)
{
    return place == HC_PLACE_DEVICE ? acl->aclrtMalloc(ptr, size, HC_ACL_HUGE_FIRST)
                                    : acl->aclrtMallocHost(ptr, size);
}

static int release(const struct hc_acl *acl, enum hc_place place, void *ptr)
{
    return place >= HC_PLACE_DEVICE ? acl->aclrtFree(ptr) : acl->aclrtFreeHost(ptr);
}

/* Host memory is pinned by whole pages. */
static int pin(const struct hc_device *device, void *ptr, size_t size)
{
    void *mapped = NULL;
    uintptr_t start = (uintptr_t)ptr & ~(uintptr_t)(HC_ACL_HOST_ALIGN - 1);
    uintptr_t end = hc_align_up((uintptr_t)ptr + size, HC_ACL_HOST_ALIGN);
    return device->acl->aclrtHostRegister((void *)start, end - start, HC_ACL_HOST_REGISTER_MAPPED, &mapped);
}

static int unpin(const struct hc_device *device, const void *ptr)
{
    uintptr_t start = (uintptr_t)ptr & ~(uintptr_t)(HC_ACL_HOST_ALIGN - 1);
    return device->acl->aclrtHostUnregister((void *)start);
}

static void free_block(struct hc_device *device, const struct hc_range *range)
{
    if (!range->data) { /* registered only: its owner's */
        if (range->kind == HC_PLACE_PINNED && unpin(device, (void *)range->base) != HC_ACL_OK)
            hc_log_debug("device %d: unpinning %p at the end failed", device->id, (void *)range->base);
        return;
    }
    int code = release(device->acl, (enum hc_place)range->kind, range->data);
    if (code != HC_ACL_OK)
        hc_log_debug("device %d: freeing %p at the end: code %d", device->id, range->data, code);
}

void hc_device_close(struct hcomm_context *context)
{
    struct hc_device *device = context->device;
    if (!device)
        return;
    context->device = NULL;
    int previous = UNCHANGED;
    if (!context->forked && hc_device_enter(device, &previous) == HCOMM_OK) {
        hc_device_copies_fini(device);
        hc_staged_fini(device);
        hc_device_ipc_fini(device);
        for (size_t i = 0; i < device->ranges.count; i++)
            free_block(device, &device->ranges.entries[i]);
        hc_device_leave(device, previous);
        for (unsigned i = atomic_load_explicit(&device->sets, memory_order_relaxed); i > 0; i--)
            if (device->acl->aclrtResetDevice(device->id) != HC_ACL_OK)
                break;
    }
    hc_ranges_fini(&device->ranges);
    free(device);
}

hcomm_status_t hc_device_enter(struct hc_device *device, int *previous)
{
    int32_t current = NO_DEVICE;
    if (device->acl->aclrtGetDevice(&current) != HC_ACL_OK)
        current = NO_DEVICE; /* which it reports as an error */
    if (current == device->id) {
        *previous = UNCHANGED;
        return HCOMM_OK;
    }
    int code = device->acl->aclrtSetDevice(device->id);
    if (code != HC_ACL_OK)
        return hc_device_error(device, code, "making it the thread's device");
    atomic_fetch_add_explicit(&device->sets, 1, memory_order_relaxed);
    *previous = current;
    return HCOMM_OK;
}

void hc_device_count_set(struct hc_device *device)
{
    atomic_fetch_add_explicit(&device->sets, 1, memory_order_relaxed);
}

void hc_device_leave(struct hc_device *device, int previous)
{
    /* Not reset afterwards, though sets are counted: a runtime that does not count would lose the device. */
    if (previous >= 0 && device->acl->aclrtSetDevice(previous) != HC_ACL_OK)
        hc_log_warn("device %d cannot be made the thread's current one again", previous);
}

/* ---- what memory is ---- */

/* A pointer that neither the device runtime nor the host knows was device memory once. */
static bool host_can_read(const void *ptr)
{
    char byte;
    const struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)ptr, 1};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

static hcomm_status_t freed(const struct hc_device *device, const void *ptr, size_t size)
{
    return hc_error(HCOMM_ERR_INVALID,
                    "rank %u: device %d (physical %d): %p is memory neither of the host nor of a device (%zu "
                    "bytes): was it freed, or is the device reset?",
                    device->context->job->rank, device->id, device->physical, ptr, size);
}

/* What the device runtime says of one address. */
static hcomm_status_t ask(struct hc_device *device, const void *ptr, size_t size, enum hc_place *place,
                          int *id)
{
    struct hc_acl_pointer_attributes attributes = {{0, HC_ACL_MEMORY_UNREGISTERED}, 0, {0}};
    int code = device->acl->aclrtPointerGetAttributes(ptr, &attributes);
    *id = NO_DEVICE;
    *place = HC_PLACE_HOST;
    if (code != HC_ACL_OK)
        return host_can_read(ptr) ? HCOMM_OK : freed(device, ptr, size);
    if (attributes.location.type == HC_ACL_MEMORY_DEVICE) {
        *place = HC_PLACE_DEVICE;
        *id = (int)attributes.location.id;
    } else if (attributes.location.type == HC_ACL_MEMORY_HOST) {
        *place = HC_PLACE_PINNED;
    }
    return HCOMM_OK;
}

static hcomm_status_t too_long(const struct hc_device *device, const void *ptr, size_t size)
{
    return hc_error(
        HCOMM_ERR_INVALID,
        "rank %u: device %d (physical %d): %zu bytes at %p reach past their allocation: use fewer "
        "bytes, or allocate more",
        device->context->job->rank, device->id, device->physical, size, ptr);
}

/* First and last byte must be alike; what lies between is checked by the device runtime when it is copied. */
static hcomm_status_t ask_ends(struct hc_device *device, const void *ptr, size_t size, enum hc_place *place)
{
    enum hc_place first, last;
    int id, last_id;
    hcomm_status_t status = ask(device, ptr, size, &first, &id);
    if (status != HCOMM_OK)
        return status;
    if (first == HC_PLACE_HOST) {
        *place = first;
        return HCOMM_OK;
    }
    status = ask(device, (const uint8_t *)ptr + size - 1, 1, &last, &last_id);
    if (first == HC_PLACE_PINNED) {
        *place = status == HCOMM_OK && last == HC_PLACE_PINNED ? HC_PLACE_PINNED : HC_PLACE_HOST;
        return HCOMM_OK;
    }
    if (id != device->id)
        return hc_error(HCOMM_ERR_INVALID,
                        "rank %u: %p is memory of device %d, the context has device %d (physical %d): use a "
                        "context with device_id %d",
                        device->context->job->rank, ptr, id, device->id, device->physical, id);
    if (status != HCOMM_OK || last != first || last_id != id)
        return too_long(device, ptr, size);
    *place = first;
    return HCOMM_OK;
}

hcomm_status_t hc_device_locate(struct hcomm_context *context, const void *ptr, size_t size,
                                enum hc_place *place)
{
    struct hc_device *device = context->device;
    if (!device || !size) {
        *place = HC_PLACE_HOST;
        return HCOMM_OK;
    }
    const struct hc_range *range = hc_ranges_find(&device->ranges, ptr);
    if (!range)
        return ask_ends(device, ptr, size, place);
    size_t left = range->size - ((uintptr_t)ptr - range->base);
    if (range->kind == HC_PLACE_RECALLED)
        return freed(device, ptr, size);
    if (size > left && range->kind == HC_PLACE_DEVICE)
        return hc_error(HCOMM_ERR_INVALID,
                        "rank %u: device %d (physical %d): %zu bytes at %p reach past their allocation, of "
                        "which %zu are left there: use no more, or allocate more",
                        context->job->rank, device->id, device->physical, size, ptr, left);
    *place = size > left ? HC_PLACE_HOST : (enum hc_place)range->kind;
    return HCOMM_OK;
}

/* ---- allocation ---- */

/* Allocate with the alignment of the setting, though the device runtime knows none; data: what it gave. */
static int allocate_aligned(struct hc_device *device, size_t size, enum hc_place place,
                            struct hc_range *range)
{
    size_t alignment = device->context->settings.align_size;
    void *raw = NULL;
    int code = allocate(device->acl, size, place, &raw);
    if (code == HC_ACL_OK && (uintptr_t)raw % alignment) {
        (void)release(device->acl, place, raw);
        code = allocate(device->acl, size + alignment, place, &raw);
    }
    if (code == HC_ACL_OK)
        *range = (struct hc_range){hc_align_up((uintptr_t)raw, alignment), size, (int)place, raw};
    return code;
}

hcomm_status_t hc_device_alloc(struct hc_device *device, size_t size, enum hc_place place, void **ptr)
{
    struct hc_range range;
    int previous = UNCHANGED;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = allocate_aligned(device, size, place, &range);
    if (code != HC_ACL_OK) {
        status = hc_device_error(device, code, "allocating %zu bytes of %s memory", size,
                                 place == HC_PLACE_DEVICE ? "device" : "pinned host");
    } else {
        status = hc_ranges_add(&device->ranges, &range);
        if (status != HCOMM_OK)
            (void)release(device->acl, place, range.data);
    }
    hc_device_leave(device, previous);
    if (status == HCOMM_OK)
        *ptr = (void *)range.base;
    return status;
}

/* Withdrawn and freed; still remembered on failure. */
static hcomm_status_t free_now(struct hc_device *device, const struct hc_range *range)
{
    int previous = UNCHANGED;
    void *base = (void *)range->base;
    hcomm_status_t status = hc_device_withdraw(device, range->data);
    if (status == HCOMM_OK)
        status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = release(device->acl, (enum hc_place)range->kind, range->data);
    if (code == HC_ACL_OK)
        (void)hc_ranges_remove(&device->ranges, base);
    else
        status = hc_device_error(device, code, "freeing %p", base);
    hc_device_leave(device, previous);
    return status;
}

void hc_device_free_recalled(struct hc_device *device, void *base)
{
    const struct hc_range *range = hc_ranges_find(&device->ranges, base);
    /* the allocation begins before the block that was cut from it, where that had to be aligned */
    for (size_t i = 0; !range && i < device->ranges.count; i++)
        if (device->ranges.entries[i].data == base)
            range = &device->ranges.entries[i];
    if (range && free_now(device, range) != HCOMM_OK)
        hc_log_warn("freed memory is not given back: %s", hc_error_detail());
}

/* Device memory that is refused from now on, but not given back yet. */
static hcomm_status_t mark_recalled(struct hc_device *device, const struct hc_range *range)
{
    struct hc_range recalled = *range;
    recalled.kind = HC_PLACE_RECALLED;
    (void)hc_ranges_remove(&device->ranges, (void *)recalled.base);
    return hc_ranges_add(&device->ranges, &recalled); /* there is room for it */
}

/* At once, or when others have closed it. */
static hcomm_status_t give_back(struct hc_device *device, const struct hc_range *range)
{
    hc_registrations_forget(device, (void *)range->base);
    return hc_device_recall(device, range->data) ? mark_recalled(device, range) : free_now(device, range);
}

/* What was allocated at ptr and is not freed; NULL: nothing. */
static const struct hc_range *find_owned(const struct hc_device *device, const void *ptr)
{
    const struct hc_range *range = hc_ranges_find(&device->ranges, ptr);
    bool owned = range && range->data && range->base == (uintptr_t)ptr && range->kind != HC_PLACE_RECALLED;
    return owned ? range : NULL;
}

size_t hc_device_size(const struct hc_device *device, const void *ptr)
{
    const struct hc_range *range = find_owned(device, ptr);
    return range ? range->size : 0;
}

hcomm_status_t hc_device_free(struct hc_device *device, void *ptr)
{
    const struct hc_range *range = find_owned(device, ptr);
    if (!range)
        return hc_error(HCOMM_ERR_INVALID,
                        "rank %u: device %d (physical %d): %p is not the start of memory from "
                        "hcomm_mem_alloc(): freed already, or inside a block",
                        device->context->job->rank, device->id, device->physical, ptr);
    return give_back(device, range);
}

void hc_device_doom(struct hc_device *device, void *ptr)
{
    const struct hc_range *range = find_owned(device, ptr);
    if (range && range->kind == HC_PLACE_DEVICE)
        (void)mark_recalled(device, range);
}

void hc_device_free_doomed(struct hc_device *device, void *ptr)
{
    const struct hc_range *range = hc_ranges_find(&device->ranges, ptr);
    if (range && give_back(device, range) != HCOMM_OK)
        hc_log_warn("freed memory is not given back: %s", hc_error_detail());
}

/* ---- registration ---- */

/* The device is current. */
static hcomm_status_t register_located(struct hc_device *device, void *ptr, size_t size, enum hc_place place)
{
    const struct hc_range range = {
        .base = (uintptr_t)ptr,
        .size = size,
        .kind = place == HC_PLACE_DEVICE ? HC_PLACE_DEVICE : HC_PLACE_PINNED,
    };
    hcomm_status_t status = hc_ranges_add(&device->ranges, &range);
    if (status != HCOMM_OK || place == HC_PLACE_DEVICE)
        return status;
    int code = pin(device, ptr, size);
    if (code == HC_ACL_OK)
        return HCOMM_OK;
    (void)hc_ranges_remove(&device->ranges, ptr);
    return hc_device_error(device, code, "pinning %zu bytes at %p", size, ptr);
}

hcomm_status_t hc_device_register(struct hc_device *device, void *ptr, size_t size)
{
    enum hc_place place;
    int previous = UNCHANGED;
    hcomm_status_t status = hc_device_locate(device->context, ptr, size, &place);
    if (status == HCOMM_OK)
        status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    status = register_located(device, ptr, size, place);
    hc_device_leave(device, previous);
    return status;
}

hcomm_status_t hc_device_deregister(struct hc_device *device, void *ptr)
{
    const struct hc_range *range = hc_ranges_find(&device->ranges, ptr);
    if (!range || range->data || range->base != (uintptr_t)ptr)
        return hc_error(HCOMM_ERR_INVALID, "rank %u: device %d: %p is not the start of registered memory",
                        device->context->job->rank, device->id, ptr);
    int previous = UNCHANGED;
    hc_registrations_forget(device, ptr);
    hcomm_status_t status = hc_device_withdraw(device, ptr);
    if (status == HCOMM_OK)
        status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = range->kind == HC_PLACE_DEVICE ? HC_ACL_OK : unpin(device, ptr);
    (void)hc_ranges_remove(&device->ranges, ptr);
    if (code != HC_ACL_OK)
        status = hc_device_error(device, code, "unpinning %p", ptr);
    hc_device_leave(device, previous);
    return status;
}
