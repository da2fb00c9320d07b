#include "runtime/base/arena.h"

#include "runtime/base/list.h"
#include "runtime/base/lock.h"
#include "runtime/base/log.h"
#include "runtime/base/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of Linux 5.14 and 6.1; the C library may be older than the kernel. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE_PAGE ((size_t)2 << 20)

enum {
    PREPARE_MIN = 64 * 1024, /* shorter blocks gain nothing from huge pages */
};

static const uint64_t arena_magic = UINT64_C(0x316e6572616d6368); /* "hcmaren1" */

struct owned_arena {
    struct hc_arena base;
    struct hc_list link; /* in the registry, when it can be mapped */
    void *mapping;       /* what was mapped: base.base is aligned inside it */
    size_t map_size;
    /* Hints that several threads keep: relaxed, no partner. */
    atomic_bool no_huge_pages; /* the system refused */
    atomic_uchar *prepared;    /* per huge page: it has been asked for */
};

static struct hc_lock registry_lock = HC_LOCK_INIT;
static struct hc_list registry = {&registry, &registry};
/* Read without the lock as a hint: relaxed, no partner. */
static atomic_uint registry_count;

/* ---- mapping ---- */

/* Reserve addresses, aligned; nothing can be touched there yet. */
static void *reserve(size_t size, size_t alignment, void **mapping, size_t *map_size)
{
    *map_size = size + alignment;
    *mapping = mmap(NULL, *map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*mapping == MAP_FAILED)
        return NULL;
    return (void *)hc_align_up((size_t)*mapping, alignment); /* NOLINT */
}

/* Map file or, with -1, private memory at a reserved address. */
static bool map_at(void *address, size_t size, int fd)
{
    int flags = MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    return mmap(address, size, PROT_READ | PROT_WRITE, flags, fd, 0) != MAP_FAILED;
}

/* ---- owner ---- */

/* Make the arena one that others can map; false, and nothing changed, when the system does not let us. */
static bool share_memory(struct owned_arena *arena)
{
    struct stat info;
    size_t file_size = arena->base.size + HC_ARENA_CONTROL_BYTES;
    int fd = hc_memfile_create("hcomm-memory", file_size);
    if (fd < 0)
        return false;
    if (fstat(fd, &info) < 0 || !map_at(arena->base.base, file_size, fd)) {
        (void)close(fd);
        return false;
    }
    arena->base.fd = fd;
    arena->base.inode = info.st_ino;
    arena->base.control = (struct hc_arena_control *)(arena->base.base + arena->base.size);
    *arena->base.control = (struct hc_arena_control){.magic = arena_magic, .id = arena->base.id, .alive = 1};
    return true;
}

static hcomm_status_t map_memory(struct owned_arena *arena, size_t alignment)
{
    if (alignment < HUGE_PAGE)
        alignment = HUGE_PAGE;
    arena->base.base =
        reserve(arena->base.size + HC_ARENA_CONTROL_BYTES, alignment, &arena->mapping, &arena->map_size);
    if (!arena->base.base)
        return hc_error(HCOMM_ERR_NO_MEMORY, "reserving %zu bytes: %s", arena->map_size,
                        hc_errno_text(errno));
    if (share_memory(arena))
        return HCOMM_OK;
    hc_log_debug("memory of %zu bytes cannot be mapped by other processes: memfd: %s", arena->base.size,
                 hc_errno_text(errno));
    if (map_at(arena->base.base, arena->base.size, -1)) {
        (void)madvise(arena->base.base, arena->base.size, MADV_HUGEPAGE); /* a hint */
        return HCOMM_OK;
    }
    hcomm_status_t status =
        hc_error(HCOMM_ERR_NO_MEMORY, "mapping %zu bytes: %s", arena->base.size, hc_errno_text(errno));
    (void)munmap(arena->mapping, arena->map_size);
    return status;
}

static void enroll(struct owned_arena *arena)
{
    hc_list_init(&arena->link);
    if (!arena->base.control)
        return;
    hc_lock_acquire(&registry_lock);
    hc_list_append(&registry, &arena->link);
    atomic_fetch_add_explicit(&registry_count, 1, memory_order_relaxed);
    hc_lock_release(&registry_lock);
}

hcomm_status_t hc_arena_create(size_t size, size_t alignment, struct hc_arena **out)
{
    struct owned_arena *arena = calloc(1, sizeof(*arena));
    if (!arena)
        return hc_error(HCOMM_ERR_NO_MEMORY, "out of memory");
    arena->base.fd = -1;
    arena->base.size = hc_align_up(size, HUGE_PAGE);
    arena->prepared = calloc(arena->base.size / HUGE_PAGE, sizeof(*arena->prepared));
    hcomm_status_t status = arena->prepared ? HCOMM_OK : hc_error(HCOMM_ERR_NO_MEMORY, "out of memory");
    if (status == HCOMM_OK && (getrandom(&arena->base.id, sizeof(arena->base.id), 0) < 0))
        status = hc_error(HCOMM_ERR_IO, "getrandom: %s", hc_errno_text(errno));
    arena->base.id |= 1;
    if (status == HCOMM_OK)
        status = map_memory(arena, alignment);
    if (status != HCOMM_OK) {
        free(arena->prepared);
        free(arena);
        return status;
    }
    enroll(arena);
    *out = &arena->base;
    return HCOMM_OK;
}

/* Peers may still map the file: the memory goes back to the system nevertheless. */
static void retire_file(struct owned_arena *arena)
{
    /* release: partner is the acquire in hc_arena_map_alive; nobody starts to use what is going away */
    atomic_store_explicit(&arena->base.control->alive, 0, memory_order_release);
    if (fallocate(arena->base.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)arena->base.size) < 0)
        hc_log_debug("memory stays until the last process unmaps it: fallocate: %s", hc_errno_text(errno));
    (void)close(arena->base.fd);
}

void hc_arena_destroy(struct hc_arena *base)
{
    if (!base)
        return;
    struct owned_arena *arena = hc_container_of(base, struct owned_arena, base);
    if (base->control) {
        hc_lock_acquire(&registry_lock);
        hc_list_remove(&arena->link);
        atomic_fetch_sub_explicit(&registry_count, 1, memory_order_relaxed);
        hc_lock_release(&registry_lock);
        retire_file(arena);
    }
    (void)munmap(arena->mapping, arena->map_size);
    free(arena->prepared);
    free(arena);
}

/*
 * One huge page: one small page of it is touched, because an empty range is refused, and the kernel is asked
 * to collapse what is there. Unlike MADV_HUGEPAGE that works wherever huge pages exist at all, whatever
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled says. Neither changes what others may be writing there.
 */
static bool collapse(unsigned char *page)
{
    return madvise(page, HC_ARENA_CONTROL_BYTES, MADV_POPULATE_WRITE) == 0 &&
           madvise(page, HUGE_PAGE, MADV_COLLAPSE) == 0;
}

/* Once per page; false when the system has none. */
static bool prepare_page(struct owned_arena *arena, size_t page)
{
    if (atomic_exchange_explicit(&arena->prepared[page], 1, memory_order_relaxed) ||
        collapse(arena->base.base + page * HUGE_PAGE))
        return true;
    int error = errno;
    hc_log_debug("no huge pages for shared memory: madvise: %s", hc_errno_text(error));
    return error == EAGAIN || error == EBUSY;
}

void hc_arena_prepare(struct hc_arena *base, const void *ptr, size_t len)
{
    struct owned_arena *arena = hc_container_of(base, struct owned_arena, base);
    if (!base->control || len < PREPARE_MIN ||
        atomic_load_explicit(&arena->no_huge_pages, memory_order_relaxed))
        return;
    size_t offset = (size_t)((const unsigned char *)ptr - base->base);
    for (size_t page = offset / HUGE_PAGE; page <= (offset + len - 1) / HUGE_PAGE; page++)
        if (!prepare_page(arena, page)) {
            atomic_store_explicit(&arena->no_huge_pages, true, memory_order_relaxed);
            return;
        }
}

static bool holds(const struct hc_arena *arena, const unsigned char *at, size_t len)
{
    return at >= arena->base && len <= arena->size && (size_t)(at - arena->base) <= arena->size - len;
}

struct hc_arena *hc_arena_find(const void *ptr, size_t len)
{
    if (hc_likely(!atomic_load_explicit(&registry_count, memory_order_relaxed)))
        return NULL;
    struct hc_arena *found = NULL;
    struct hc_list *node;
    hc_lock_acquire(&registry_lock);
    hc_list_for_each(node, &registry)
    {
        struct owned_arena *arena = hc_list_entry(node, struct owned_arena, link);
        if (holds(&arena->base, ptr, len)) {
            found = &arena->base;
            break;
        }
    }
    hc_lock_release(&registry_lock);
    return found;
}

/* ---- the other side ---- */

static hcomm_status_t check_file(int fd, uint64_t inode, size_t size)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &info) < 0 || seals < 0)
        return hc_error(HCOMM_ERR_PROTOCOL, "the peer's memory: %s", hc_errno_text(errno));
    if (info.st_ino != inode || size % HUGE_PAGE || (size_t)info.st_size != size + HC_ARENA_CONTROL_BYTES ||
        (seals & HC_MEMFILE_SEALS) != HC_MEMFILE_SEALS)
        return hc_error(HCOMM_ERR_PROTOCOL, "the peer's descriptor is no memory of hcomm");
    return HCOMM_OK;
}

/* Map all of a file at a multiple of the huge page, so that huge pages stay huge here. */
static unsigned char *map_aligned(int fd, size_t size)
{
    void *mapping;
    size_t map_size;
    unsigned char *base = reserve(size, HUGE_PAGE, &mapping, &map_size);
    if (!base)
        return NULL;
    if (!map_at(base, size, fd)) {
        (void)munmap(mapping, map_size);
        return NULL;
    }
    /* Give back what lies around it: unmapping then needs to know the file's range alone. */
    size_t before = (size_t)(base - (unsigned char *)mapping);
    if (before)
        (void)munmap(mapping, before);
    if (map_size - before > size)
        (void)munmap(base + size, map_size - before - size);
    return base;
}

hcomm_status_t hc_arena_map_open(int fd, uint64_t inode, size_t size, uint64_t id, struct hc_arena_map *out)
{
    hcomm_status_t status = check_file(fd, inode, size);
    if (status != HCOMM_OK)
        return status;
    struct hc_arena_map map = {.base = map_aligned(fd, size + HC_ARENA_CONTROL_BYTES), .size = size};
    if (!map.base)
        return hc_error(HCOMM_ERR_NO_MEMORY, "mapping %zu bytes of a peer: %s", size, hc_errno_text(errno));
    map.control = (struct hc_arena_control *)(map.base + size);
    if (map.control->magic != arena_magic || map.control->id != id) {
        hc_arena_map_close(&map);
        return hc_error(HCOMM_ERR_PROTOCOL, "the peer's memory is not what its key names");
    }
    *out = map;
    return HCOMM_OK;
}

void hc_arena_map_close(struct hc_arena_map *map)
{
    if (map->base)
        (void)munmap(map->base, map->size + HC_ARENA_CONTROL_BYTES);
    *map = (struct hc_arena_map){0};
}

bool hc_arena_map_alive(const struct hc_arena_map *map)
{
    /* acquire: partner is the release in retire_file */
    return atomic_load_explicit(&map->control->alive, memory_order_acquire) == 1;
}
