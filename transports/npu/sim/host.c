/*
 * Pinned host memory: ranges that the engines reach by themselves, so that copies can be asynchronous. Pages
 * are not locked in memory: the simulator's engines are threads, and page faults do not stop them.
 */
#include "transports/npu/sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct range {
    const char *start;
    size_t size;
    bool ours; /* from aclrtMallocHost */
};

static struct range *ranges; /* by start, disjoint */
static size_t range_count, range_capacity;

/* The index of the first range that ends after ptr. */
static size_t range_index(const void *ptr)
{
    size_t low = 0, high = range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].start + ranges[middle].size <= (const char *)ptr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool npusim_host_pinned(const void *ptr, size_t n)
{
    size_t index = range_index(ptr);
    if (index == range_count || ranges[index].start > (const char *)ptr)
        return false;
    return n <= ranges[index].size - (size_t)((const char *)ptr - ranges[index].start);
}

static int add(const void *start, size_t size, bool ours)
{
    size_t index = range_index(start);
    if (index < range_count && ranges[index].start < (const char *)start + size)
        return npusim_fail(HC_ACL_INVALID_PARAMETER,
                           "host memory %p of %zu bytes is registered in part or whole", start, size);
    if (range_count == range_capacity) {
        size_t capacity = range_capacity ? 2 * range_capacity : 64;
        struct range *grown = realloc(ranges, capacity * sizeof(*grown));
        if (!grown)
            return npusim_fail(HC_ACL_OUT_OF_MEMORY, "no memory to note a host range");
        ranges = grown;
        range_capacity = capacity;
    }
    memmove(&ranges[index + 1], &ranges[index], (range_count - index) * sizeof(*ranges));
    ranges[index] = (struct range){.start = start, .size = size, .ours = ours};
    range_count++;
    return HC_ACL_OK;
}

/* Take out the range that starts at ptr; its size is 0 when there is none of that origin. */
static struct range take(const void *ptr, bool ours)
{
    size_t index = range_index(ptr);
    if (index == range_count || ranges[index].start != ptr || ranges[index].ours != ours)
        return (struct range){.size = 0};
    struct range range = ranges[index];
    range_count--;
    memmove(&ranges[index], &ranges[index + 1], (range_count - index) * sizeof(*ranges));
    return range;
}

void npusim_host_close(void)
{
    for (size_t i = 0; i < range_count; i++)
        if (ranges[i].ours)
            (void)munmap((void *)(uintptr_t)ranges[i].start, ranges[i].size);
    free(ranges);
    ranges = NULL;
    range_count = range_capacity = 0;
}

static int malloc_host(void **ptr, size_t size)
{
    size_t pages = hc_align_up(size, HC_ACL_HOST_ALIGN);
    void *at = pages < size ? MAP_FAILED
                            : mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return npusim_fail(HC_ACL_OUT_OF_MEMORY, "aclrtMallocHost: no %zu bytes of host memory", size);
    (void)madvise(at, pages, MADV_HUGEPAGE);
    int code = add(at, pages, true);
    if (code) {
        (void)munmap(at, pages);
        return code;
    }
    *ptr = at;
    return HC_ACL_OK;
}

int aclrtMallocHost(void **ptr, size_t size)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!ptr || !size)
        return npusim_leave(
            npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtMallocHost: %s", ptr ? "size 0" : "NULL"));
    return npusim_leave(malloc_host(ptr, size));
}

int aclrtFreeHost(void *ptr)
{
    int code = npusim_enter();
    if (code)
        return code;
    struct range range = take(ptr, true);
    if (!range.size)
        return npusim_leave(
            npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtFreeHost: %p is not what aclrtMallocHost gave", ptr));
    (void)munmap(ptr, range.size);
    return npusim_leave(HC_ACL_OK);
}

static int host_register(void *ptr, uint64_t size, int type, void **device_ptr)
{
    if (!ptr || !size || !device_ptr || type != HC_ACL_HOST_REGISTER_MAPPED)
        return npusim_fail(HC_ACL_INVALID_PARAMETER,
                           "aclrtHostRegister: a pointer is NULL, the size is 0, or the type is not 0");
    if ((uintptr_t)ptr % HC_ACL_HOST_ALIGN)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtHostRegister: %p is not aligned to %d bytes", ptr,
                           HC_ACL_HOST_ALIGN);
    if (size > UINTPTR_MAX - (uintptr_t)ptr)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtHostRegister: %p has no %llu bytes", ptr,
                           (unsigned long long)size);
    enum npusim_where where = npusim_place_find(ptr, 1).where;
    if (where != NPUSIM_PAGEABLE && where != NPUSIM_PINNED)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtHostRegister: %p is device memory", ptr);
    int code = add(ptr, size, false);
    if (!code)
        *device_ptr = ptr;
    return code;
}

int aclrtHostRegister(void *ptr, uint64_t size, int type, void **device_ptr)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    return code ? code : npusim_leave(host_register(ptr, size, type, device_ptr));
}

int aclrtHostUnregister(void *ptr)
{
    int code = npusim_enter();
    if (code)
        return code;
    if (!take(ptr, false).size)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtHostUnregister: %p is not registered", ptr);
    return npusim_leave(code);
}
