/* Device memory of other processes: opened through /proc/PID/fd, checked, mapped for the engines only. */
#include "transports/npu/sim/control.h"
#include "transports/npu/sim/ipc.h"
#include "transports/npu/sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct npusim_import {
    struct hc_list node;
    struct npusim_key key;
    int references; /* imports of the key minus closes */
    int pidfd;      /* of the exporter */
    int physical;
    const struct npusim_device *device; /* the current one at the import */
    bool grants;                        /* peer access from `device` came with the import */
    struct npusim_control *control;
    struct npusim_export *export;
    _Atomic uint64_t *registration;
    char *base, *shadow;          /* as in struct npusim_memory */
    size_t map_size, delta, size; /* whole granules; where in them the export starts; its length */
    int busy;                     /* copies under way */
    pthread_cond_t idle;
};

static struct hc_list imports = {&imports, &imports};

struct npusim_import *npusim_import_find(const void *ptr)
{
    struct hc_list *node;
    hc_list_for_each(node, &imports)
    {
        struct npusim_import *import = hc_list_entry(node, struct npusim_import, node);
        if ((const char *)ptr >= import->base && (const char *)ptr < import->base + import->map_size)
            return import;
    }
    return NULL;
}

char *npusim_import_bytes(const struct npusim_import *import, const void *ptr, size_t n)
{
    size_t offset = (size_t)((const char *)ptr - import->base);
    if (offset < import->delta || offset - import->delta > import->size ||
        n > import->size - (offset - import->delta))
        return NULL;
    return import->shadow + offset;
}

int npusim_import_physical(const struct npusim_import *import)
{
    return import->physical;
}

int npusim_import_device(const struct npusim_import *import)
{
    return import->device->id;
}

bool npusim_import_grants(const struct npusim_import *import, const struct npusim_device *device)
{
    return import->grants && import->device == device;
}

/* Whether the exporter lives, and has not freed the memory. */
static bool is_alive(const struct npusim_import *import)
{
    struct pollfd owner = {.fd = import->pidfd, .events = POLLIN};
    /* relaxed: the exporter cannot free while this import is registered; the cookie only tells that it is
     * gone */
    return poll(&owner, 1, 0) == 0 &&
           atomic_load_explicit(&import->export->cookie, memory_order_relaxed) == import->key.cookie;
}

bool npusim_import_pin(struct npusim_import *import)
{
    if (!is_alive(import))
        return false;
    import->busy++;
    return true;
}

void npusim_import_unpin(struct npusim_import *import)
{
    if (!--import->busy)
        (void)pthread_cond_broadcast(&import->idle);
}

static void *map(int fd, size_t offset, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)offset);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, size, MADV_DONTFORK);
    return at;
}

/* Open the exporter's memfd. The pidfd was opened before and the cookie is checked after, so a reused pid is
 * noticed. */
static int open_file(const struct npusim_key *key, int *fd)
{
    char path[48];
    struct stat info;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)key->pid, (int)key->fd);
    int opened = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return npusim_fail(errno == EACCES || errno == EPERM ? HC_ACL_NO_PERMISSION
                                                             : HC_ACL_INVALID_PARAMETER,
                           "aclrtIpcMemImportByKey: %s: %s", path, strerrordesc_np(errno));
    int seals = fcntl(opened, F_GET_SEALS);
    if (fstat(opened, &info) < 0 || seals < 0 || !(seals & F_SEAL_SHRINK) ||
        (uint64_t)info.st_size < npusim_control_size()) {
        (void)close(opened);
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtIpcMemImportByKey: %s is no device memory", path);
    }
    *fd = opened;
    return HC_ACL_OK;
}

static bool is_allowed(struct npusim_export *export)
{
    /* acquire: partners are the releases in export.c */
    if (atomic_load_explicit(&export->flags, memory_order_acquire) & HC_ACL_IPC_NO_PID_CHECK)
        return true;
    for (int i = 0; i < NPUSIM_EXPORT_PIDS; i++)
        if (atomic_load_explicit(&export->pids[i], memory_order_acquire) == (int32_t)getpid())
            return true;
    return false;
}

/* Check the head of the file against the key, and take over where the export lies. */
static int read_control(struct npusim_import *import, uint64_t *offset)
{
    const struct npusim_control *control = import->control;
    struct npusim_export *export = import->export;
    /* acquire: partner is the release in fill_export */
    if (control->magic != NPUSIM_CONTROL_MAGIC || control->version != NPUSIM_CONTROL_VERSION ||
        atomic_load_explicit(&export->cookie, memory_order_acquire) != import->key.cookie)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtIpcMemImportByKey: the key is no longer valid");
    if (!is_allowed(export))
        return npusim_fail(HC_ACL_NO_PERMISSION,
                           "aclrtIpcMemImportByKey: pid %d may not: the exporter must name it to "
                           "aclrtIpcMemSetImportPid, or export with flag 1",
                           (int)getpid());
    /* relaxed: ordered by the cookie's acquire */
    uint64_t from = atomic_load_explicit(&export->offset, memory_order_relaxed);
    uint64_t size = atomic_load_explicit(&export->size, memory_order_relaxed);
    if (control->physical < 0 || control->physical >= NPUSIM_MAX_DEVICES || !size || from > control->memory ||
        size > control->memory - from)
        return npusim_fail(HC_ACL_INVALID_PARAMETER,
                           "aclrtIpcMemImportByKey: the exporter's memory is damaged");
    import->physical = control->physical;
    import->delta = from % NPUSIM_GRANULE;
    import->size = size;
    import->map_size = hc_align_up(import->delta + size, NPUSIM_GRANULE);
    *offset = from - import->delta;
    return HC_ACL_OK;
}

/* Note in the exporter's memory that this process has it open; see withdraw in export.c. */
static int import_register(struct npusim_import *import)
{
    uint64_t mark = npusim_process_mark((int32_t)getpid());
    for (int i = 0; mark && i < NPUSIM_EXPORT_IMPORTERS; i++) {
        uint64_t unused = 0;
        if (!atomic_compare_exchange_strong_explicit(&import->export->importers[i], &unused, mark,
                                                     memory_order_seq_cst, memory_order_relaxed))
            continue;
        if (!atomic_load_explicit(&import->export->live, memory_order_seq_cst)) {
            atomic_store_explicit(&import->export->importers[i], 0, memory_order_seq_cst);
            return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtIpcMemImportByKey: the memory is being freed");
        }
        import->registration = &import->export->importers[i];
        return HC_ACL_OK;
    }
    return npusim_fail(HC_ACL_NO_RESOURCE, "aclrtIpcMemImportByKey: %d imports of this key are open",
                       NPUSIM_EXPORT_IMPORTERS);
}

static void import_unregister(struct npusim_import *import)
{
    /* release: what was read and written through the import comes before; partner is has_importers */
    atomic_store_explicit(import->registration, 0, memory_order_release);
}

static int map_range(struct npusim_import *import, int fd, uint64_t offset)
{
    struct stat info;
    if (fstat(fd, &info) < 0 || (uint64_t)info.st_size < npusim_control_size() + offset + import->map_size)
        return npusim_fail(HC_ACL_INVALID_PARAMETER,
                           "aclrtIpcMemImportByKey: the exporter's memory is damaged");
    import->shadow = map(fd, npusim_control_size() + offset, import->map_size);
    if (!import->shadow)
        return npusim_fail(HC_ACL_OUT_OF_MEMORY, "aclrtIpcMemImportByKey: no addresses");
    import->base = npusim_memory_reserve(import->map_size);
    if (import->base)
        return HC_ACL_OK;
    (void)munmap(import->shadow, import->map_size);
    return npusim_fail(HC_ACL_OUT_OF_MEMORY, "aclrtIpcMemImportByKey: no addresses");
}

/* With the exporter's file open: the head, the registration, the range. */
static int attach(struct npusim_import *import, int fd)
{
    uint64_t offset = 0;
    import->control = map(fd, 0, npusim_control_size());
    if (!import->control)
        return npusim_fail(HC_ACL_OUT_OF_MEMORY, "aclrtIpcMemImportByKey: no addresses");
    import->export = &import->control->exports[import->key.slot];
    int code = read_control(import, &offset);
    if (code)
        goto unmap;
    if (import->grants && !npusim_peer_linked(import->device->physical, import->physical)) {
        code = npusim_fail(HC_ACL_NOT_SUPPORTED,
                           "aclrtIpcMemImportByKey: no link from device %d to physical device %d",
                           import->device->id, import->physical);
        goto unmap;
    }
    code = import_register(import);
    if (code)
        goto unmap;
    code = map_range(import, fd, offset);
    if (!code)
        return HC_ACL_OK;
    import_unregister(import);
unmap:
    (void)munmap(import->control, npusim_control_size());
    return code;
}

static int open_import(struct npusim_import *import)
{
    int fd = -1;
    import->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)import->key.pid, 0);
    if (import->pidfd < 0)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtIpcMemImportByKey: pid %d: %s",
                           (int)import->key.pid, strerrordesc_np(errno));
    int code = open_file(&import->key, &fd);
    if (!code) {
        code = attach(import, fd);
        (void)close(fd);
    }
    if (code)
        (void)close(import->pidfd);
    return code;
}

static void close_import(struct npusim_import *import)
{
    hc_list_remove(&import->node); /* no copy finds it any more */
    while (import->busy)
        (void)npusim_wait(&import->idle, NPUSIM_NEVER);
    (void)munmap(import->base, import->map_size);
    (void)munmap(import->shadow, import->map_size);
    import_unregister(import);
    (void)munmap(import->control, npusim_control_size());
    (void)close(import->pidfd);
    (void)pthread_cond_destroy(&import->idle);
    free(import);
}

static struct npusim_import *find_device(const struct npusim_device *device)
{
    struct hc_list *node;
    hc_list_for_each(node, &imports)
    {
        struct npusim_import *import = hc_list_entry(node, struct npusim_import, node);
        if (import->device == device)
            return import;
    }
    return NULL;
}

void npusim_imports_close(const struct npusim_device *device)
{
    struct npusim_import *import;
    while ((import = find_device(device)))
        close_import(import); /* lets go of the lock: the list is looked at anew */
}

static struct npusim_import *find_key(const struct npusim_key *key)
{
    struct hc_list *node;
    hc_list_for_each(node, &imports)
    {
        struct npusim_import *import = hc_list_entry(node, struct npusim_import, node);
        if (import->key.pid == key->pid && import->key.cookie == key->cookie)
            return import;
    }
    return NULL;
}

static int import_key(struct npusim_device *device, const struct npusim_key *key, uint64_t flags, void **ptr)
{
    struct npusim_import *import = find_key(key);
    if (import) {
        import->references++;
        *ptr = import->base + import->delta;
        return HC_ACL_OK;
    }
    if (!(import = calloc(1, sizeof(*import))))
        return npusim_fail(HC_ACL_OUT_OF_MEMORY, "aclrtIpcMemImportByKey: no memory");
    import->key = *key;
    import->references = 1;
    import->device = device;
    import->grants = flags & HC_ACL_IPC_ENABLE_PEER;
    int code = open_import(import);
    if (code) {
        free(import);
        return code;
    }
    (void)pthread_cond_init(&import->idle, NULL);
    hc_list_append(&imports, &import->node);
    *ptr = import->base + import->delta;
    return HC_ACL_OK;
}

int aclrtIpcMemImportByKey(void **ptr, const char *text, uint64_t flags)
{
    struct npusim_key key;
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!ptr || flags & ~(uint64_t)HC_ACL_IPC_ENABLE_PEER)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtIpcMemImportByKey: NULL, or flags %llx",
                                        (unsigned long long)flags));
    if (!npusim_key_parse(text, &key))
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtIpcMemImportByKey: not a key of aclrtIpcMemGetExportKey"));
    return npusim_leave(import_key(device, &key, flags, ptr));
}

int aclrtIpcMemClose(const char *text)
{
    struct npusim_key key;
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!npusim_key_parse(text, &key))
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtIpcMemClose: not a key"));
    struct npusim_import *import = find_key(&key);
    if (import && !--import->references)
        close_import(import);
    else if (!import && (code = npusim_export_close(&key)) == HC_ACL_INVALID_PARAMETER)
        (void)npusim_fail(code, "aclrtIpcMemClose: the key is neither imported nor exported by this process");
    return npusim_leave(code);
}
