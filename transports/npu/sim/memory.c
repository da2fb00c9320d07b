/*
 * Device memory: one memfd per device and process, made when first needed. It has no name, so that nothing
 * is left when the process ends, however it ends. First fit over granules; freed granules are given back to
 * the system.
 */
#include "runtime/base/memfile.h"
#include "transports/npu/sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

char *npusim_memory_reserve(size_t size)
{
    void *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

static size_t granules(size_t size)
{
    return hc_align_up(size, NPUSIM_GRANULE);
}

static void *map_file(int fd, size_t offset, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)offset);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, size, MADV_DONTFORK);
    return at;
}

static bool open_memory(struct npusim_memory *memory, int physical)
{
    size_t size = npusim.settings.memory, control_size = npusim_control_size();
    struct npusim_control *control;
    char *shadow, *base;
    int fd = hc_memfile_create("npusim", control_size + size);
    if (fd < 0)
        return false;
    if (!(control = map_file(fd, 0, control_size)))
        goto close_file;
    if (!(shadow = map_file(fd, control_size, size)))
        goto unmap_control;
    if (!(base = npusim_memory_reserve(size)))
        goto unmap_shadow;
    npusim_control_init(control, physical, size);
    memory->fd = fd;
    memory->size = size;
    memory->control = control;
    memory->shadow = shadow;
    memory->base = base;
    return true;
unmap_shadow:
    (void)munmap(shadow, size);
unmap_control:
    (void)munmap(control, control_size);
close_file:
    (void)close(fd);
    return false;
}

void npusim_memory_close(struct npusim_memory *memory)
{
    if (memory->fd < 0)
        return;
    npusim_exports_revoke(memory->control);
    (void)munmap(memory->base, memory->size);
    (void)munmap(memory->shadow, memory->size);
    (void)munmap(memory->control, npusim_control_size());
    (void)close(memory->fd);
    free(memory->blocks);
    *memory = (struct npusim_memory){.fd = -1};
}

void npusim_memory_forked(struct npusim_memory *memory)
{
    if (memory->fd < 0)
        return;
    (void)close(memory->fd);
    memory->fd = -1;
}

/* Whether ptr points into the device's address range. */
static bool is_within(const struct npusim_memory *memory, const void *ptr)
{
    const char *at = ptr;
    return memory->fd >= 0 && at >= memory->base && at < memory->base + memory->size;
}

/* The index of the first block that ends after offset. */
static size_t block_index(const struct npusim_memory *memory, size_t offset)
{
    size_t low = 0, high = memory->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memory->blocks[middle].offset + granules(memory->blocks[middle].size) <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The live block that holds ptr, or NULL. */
static struct npusim_block *block_of(struct npusim_memory *memory, const void *ptr)
{
    if (!is_within(memory, ptr))
        return NULL;
    size_t offset = (size_t)((const char *)ptr - memory->base), index = block_index(memory, offset);
    if (index == memory->count || memory->blocks[index].offset > offset)
        return NULL;
    return &memory->blocks[index];
}

/* Where a block of `size` fits: the index it gets, and its offset. */
static bool find_gap(const struct npusim_memory *memory, size_t size, size_t *index, size_t *offset)
{
    size_t from = 0;
    for (size_t i = 0; i <= memory->count; i++) {
        size_t to = i < memory->count ? memory->blocks[i].offset : memory->size;
        if (to - from >= size) {
            *index = i;
            *offset = from;
            return true;
        }
        if (i < memory->count)
            from = memory->blocks[i].offset + granules(memory->blocks[i].size);
    }
    return false;
}

static bool make_room(struct npusim_memory *memory)
{
    if (memory->count < memory->capacity)
        return true;
    size_t capacity = memory->capacity ? 2 * memory->capacity : 64;
    struct npusim_block *blocks = realloc(memory->blocks, capacity * sizeof(*blocks));
    if (!blocks)
        return false;
    memory->blocks = blocks;
    memory->capacity = capacity;
    return true;
}

HC_MUST_CHECK static int allocate(struct npusim_device *device, size_t size, void **ptr)
{
    struct npusim_memory *memory = &device->memory;
    size_t index, offset;
    int code = npusim_fault_malloc(device);
    if (code)
        return npusim_fail(code, "aclrtMalloc: made to fail by NPUSIM_FAULT");
    if (memory->fd < 0 && !open_memory(memory, device->physical))
        return npusim_fail(HC_ACL_OUT_OF_MEMORY, "device %d: its memory cannot be made: %s", device->id,
                           strerrordesc_np(errno));
    if (size > memory->size || !find_gap(memory, granules(size), &index, &offset) || !make_room(memory))
        return npusim_fail(HC_ACL_OUT_OF_MEMORY,
                           "device %d: no %zu bytes in one piece: %zu of %zu are in use", device->id, size,
                           memory->used, memory->size);
    memmove(&memory->blocks[index + 1], &memory->blocks[index],
            (memory->count - index) * sizeof(*memory->blocks));
    memory->blocks[index] = (struct npusim_block){.offset = offset, .size = size};
    memory->count++;
    memory->used += granules(size);
    *ptr = memory->base + offset;
    return HC_ACL_OK;
}

HC_MUST_CHECK static int release(struct npusim_device *device, void *ptr)
{
    struct npusim_memory *memory = &device->memory;
    struct npusim_block *block = block_of(memory, ptr);
    if (!block || memory->base + block->offset != ptr)
        return npusim_fail(HC_ACL_INVALID_PARAMETER,
                           "aclrtFree: %p was freed, or is not what aclrtMalloc gave", ptr);
    int code = npusim_exports_withdraw(memory, block->offset, block->size);
    if (code)
        return code;
    size_t size = granules(block->size), index = (size_t)(block - memory->blocks);
    (void)fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)(npusim_control_size() + block->offset), (off_t)size);
    memory->used -= size;
    memory->count--;
    memmove(block, block + 1, (memory->count - index) * sizeof(*block));
    return HC_ACL_OK;
}

int aclrtMalloc(void **ptr, size_t size, int policy)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!ptr || !size || policy < 0)
        return npusim_leave(
            npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtMalloc: %s", ptr ? "size 0" : "NULL"));
    return npusim_leave(allocate(device, size, ptr));
}

/* The device of this process whose memory ptr is in, or NULL. */
static struct npusim_device *holder(const void *ptr)
{
    for (int i = 0; i < npusim.settings.visible_count; i++)
        if (is_within(&npusim.devices[i].memory, ptr))
            return &npusim.devices[i];
    return NULL;
}

int aclrtFree(void *ptr)
{
    struct npusim_device *device = NULL, *owner = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (npusim_import_find(ptr))
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtFree: %p is imported: aclrtIpcMemClose gives it back", ptr));
    if (!(owner = holder(ptr)))
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtFree: %p is no device memory", ptr));
    return npusim_leave(release(owner, ptr));
}

static struct npusim_place local_place(struct npusim_device *device, const void *ptr, size_t n)
{
    struct npusim_memory *memory = &device->memory;
    const struct npusim_block *block = block_of(memory, ptr);
    struct npusim_place place = {.where = NPUSIM_NOWHERE, .physical = device->physical};
    size_t offset = (size_t)((const char *)ptr - memory->base);
    if (!block || offset - block->offset > block->size || n > block->size - (offset - block->offset))
        return place;
    place.where = NPUSIM_LOCAL;
    place.bytes = memory->shadow + offset;
    return place;
}

static struct npusim_place imported_place(struct npusim_import *import, const void *ptr, size_t n)
{
    char *bytes = npusim_import_bytes(import, ptr, n);
    return (struct npusim_place){.where = bytes ? NPUSIM_IMPORTED : NPUSIM_NOWHERE,
                                 .physical = npusim_import_physical(import),
                                 .import = import,
                                 .bytes = bytes};
}

struct npusim_place npusim_place_find(const void *ptr, size_t n)
{
    struct npusim_device *device = holder(ptr);
    if (device)
        return local_place(device, ptr, n);
    struct npusim_import *import = npusim_import_find(ptr);
    if (import)
        return imported_place(import, ptr, n);
    return (struct npusim_place){.where = npusim_host_pinned(ptr, n) ? NPUSIM_PINNED : NPUSIM_PAGEABLE,
                                 .physical = -1,
                                 .bytes = (char *)(uintptr_t)ptr};
}

static struct hc_acl_location location_of(const void *ptr)
{
    const struct npusim_device *device = holder(ptr);
    const struct npusim_import *import = npusim_import_find(ptr);
    if (device)
        return (struct hc_acl_location){.id = (uint32_t)device->id, .type = HC_ACL_MEMORY_DEVICE};
    if (import)
        return (struct hc_acl_location){.id = (uint32_t)npusim_import_device(import),
                                        .type = HC_ACL_MEMORY_DEVICE};
    return (struct hc_acl_location){.type = npusim_host_pinned(ptr, 1) ? HC_ACL_MEMORY_HOST
                                                                       : HC_ACL_MEMORY_UNREGISTERED};
}

int aclrtPointerGetAttributes(const void *ptr, struct hc_acl_pointer_attributes *attributes)
{
    int code = npusim_enter();
    if (code)
        return code;
    if (!ptr || !attributes)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtPointerGetAttributes: NULL"));
    if (npusim_place_find(ptr, 1).where == NPUSIM_NOWHERE)
        return npusim_leave(npusim_fail(
            HC_ACL_INVALID_PARAMETER, "aclrtPointerGetAttributes: %p is in no live block of a device", ptr));
    *attributes =
        (struct hc_acl_pointer_attributes){.location = location_of(ptr), .page_size = NPUSIM_GRANULE};
    return npusim_leave(HC_ACL_OK);
}
