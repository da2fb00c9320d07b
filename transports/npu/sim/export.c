/* Exports of device memory to other processes, on the exporter's side. */
#include "transports/npu/sim/control.h"
#include "transports/npu/sim/ipc.h"
#include "transports/npu/sim/sim.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

size_t npusim_control_size(void)
{
    return hc_align_up(sizeof(struct npusim_control), NPUSIM_GRANULE);
}

void npusim_control_init(struct npusim_control *control, int physical, size_t memory)
{
    control->version = NPUSIM_CONTROL_VERSION;
    control->physical = physical;
    control->memory = memory;
    control->magic = NPUSIM_CONTROL_MAGIC;
}

static void key_print(const struct npusim_key *key, char text[HC_ACL_IPC_KEY_LEN])
{
    /* 8 + 8 + 1 + 8 + 1 + 8 + 1 + 16 + 13 characters */
    (void)snprintf(text, HC_ACL_IPC_KEY_LEN,
                   "npusim1-%08" PRIx32 "-%08" PRIx32 "-%08" PRIx32 "-%016" PRIx64 "-------------",
                   (uint32_t)key->pid, (uint32_t)key->fd, key->slot, key->cookie);
}

bool npusim_key_parse(const char *text, struct npusim_key *key)
{
    char again[HC_ACL_IPC_KEY_LEN];
    uint32_t pid, fd;
    if (!text || strnlen(text, HC_ACL_IPC_KEY_LEN) != HC_ACL_IPC_KEY_LEN - 1 ||
        sscanf(text, "npusim1-%8" SCNx32 "-%8" SCNx32 "-%8" SCNx32 "-%16" SCNx64 "-", &pid, &fd, &key->slot,
               &key->cookie) != 4)
        return false;
    key->pid = (int32_t)pid;
    key->fd = (int32_t)fd;
    key_print(key, again);
    return !memcmp(text, again, sizeof(again)) && key->pid > 0 && key->fd >= 0 &&
           key->slot < NPUSIM_EXPORTS && key->cookie;
}

uint64_t npusim_process_mark(int32_t pid)
{
    char path[32], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t len = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    /* The program's name, in parentheses, may hold anything; the start time is the 20th field behind it. */
    char *at = strrchr(text, ')'), state = 'X';
    if (!at || sscanf(at, ") %c", &state) != 1 || state == 'Z' || state == 'X')
        return 0;
    for (int field = 0; at && field < 20; field++)
        at = strchr(at + 1, ' ');
    return at ? (uint64_t)(uint32_t)strtoull(at + 1, NULL, 10) << 32 | (uint32_t)pid : 0;
}

/* Whether a process that still lives has the export open; forgets those that are gone. */
static bool has_importers(struct npusim_export *export)
{
    bool found = false;
    for (int i = 0; i < NPUSIM_EXPORT_IMPORTERS; i++) {
        /* seq_cst: partner is import_register, see npusim_exports_withdraw */
        uint64_t mark = atomic_load_explicit(&export->importers[i], memory_order_seq_cst);
        if (mark && npusim_process_mark((int32_t)(uint32_t)mark) != mark)
            /* relaxed: the process that could use the slot is gone */
            (void)atomic_compare_exchange_strong_explicit(&export->importers[i], &mark, 0,
                                                          memory_order_relaxed, memory_order_relaxed);
        else if (mark)
            found = true;
    }
    return found;
}

/*
 * Withdraw one export. An importer registers and then looks at `live`; here `live` is cleared before the
 * importers are looked at. All four accesses are sequentially consistent, so at least one side sees the
 * other.
 */
static int withdraw(struct npusim_memory *memory, struct npusim_export *export, const char *call)
{
    atomic_store_explicit(&export->live, 0, memory_order_seq_cst);
    if (has_importers(export)) {
        atomic_store_explicit(&export->live, 1, memory_order_seq_cst);
        return npusim_fail(
            HC_ACL_FREE_FAILED,
            "%s: another process still has the memory imported: it must call aclrtIpcMemClose first", call);
    }
    atomic_store_explicit(&export->cookie, 0, memory_order_seq_cst);
    memory->exports--;
    return HC_ACL_OK;
}

int npusim_exports_withdraw(struct npusim_memory *memory, size_t offset, size_t size)
{
    for (int i = 0; i < NPUSIM_EXPORTS && memory->exports; i++) {
        struct npusim_export *export = &memory->control->exports[i];
        /* relaxed: only this process writes these, under its lock */
        uint64_t cookie = atomic_load_explicit(&export->cookie, memory_order_relaxed);
        uint64_t from = atomic_load_explicit(&export->offset, memory_order_relaxed);
        if (!cookie || from < offset || from >= offset + size)
            continue;
        int code = withdraw(memory, export, "aclrtFree");
        if (code)
            return code;
    }
    return HC_ACL_OK;
}

void npusim_exports_revoke(struct npusim_control *control)
{
    for (int i = 0; i < NPUSIM_EXPORTS; i++) {
        atomic_store_explicit(&control->exports[i].live, 0, memory_order_seq_cst);
        /* release: partner is the acquire in import.c; its is_alive only needs to see it in time */
        atomic_store_explicit(&control->exports[i].cookie, 0, memory_order_release);
    }
}

/* relaxed in the next two: only this process writes these fields, under its lock; importers get the key after
 */
static bool same_export(const struct npusim_export *export, size_t offset, size_t size, uint64_t flags)
{
    return atomic_load_explicit(&export->cookie, memory_order_relaxed) &&
           atomic_load_explicit(&export->offset, memory_order_relaxed) == offset &&
           atomic_load_explicit(&export->size, memory_order_relaxed) == size &&
           atomic_load_explicit(&export->flags, memory_order_relaxed) == flags;
}

static void fill_export(struct npusim_export *export, size_t offset, size_t size, uint64_t flags,
                        uint64_t cookie)
{
    for (int i = 0; i < NPUSIM_EXPORT_PIDS; i++)
        atomic_store_explicit(&export->pids[i], 0, memory_order_relaxed);
    atomic_store_explicit(&export->offset, offset, memory_order_relaxed);
    atomic_store_explicit(&export->size, size, memory_order_relaxed);
    atomic_store_explicit(&export->flags, (uint32_t)flags, memory_order_relaxed);
    atomic_store_explicit(&export->live, 1, memory_order_relaxed);
    /* release: partner is the acquire in import.c */
    atomic_store_explicit(&export->cookie, cookie, memory_order_release);
}

/* The slot that exports exactly this already, else a free one, else -1. */
static int find_slot(const struct npusim_control *control, size_t offset, size_t size, uint64_t flags)
{
    int slot = -1;
    for (int i = 0; i < NPUSIM_EXPORTS; i++) {
        if (same_export(&control->exports[i], offset, size, flags))
            return i;
        if (slot < 0 && !atomic_load_explicit(&control->exports[i].cookie, memory_order_relaxed))
            slot = i;
    }
    return slot;
}

static int export_range(struct npusim_memory *memory, size_t offset, size_t size, uint64_t flags, char *text)
{
    int slot = find_slot(memory->control, offset, size, flags);
    if (slot < 0)
        return npusim_fail(HC_ACL_NO_RESOURCE, "aclrtIpcMemGetExportKey: %d exports are in use",
                           NPUSIM_EXPORTS);
    struct npusim_export *export = &memory->control->exports[slot];
    uint64_t cookie = atomic_load_explicit(&export->cookie, memory_order_relaxed);
    if (!cookie) {
        if (getrandom(&cookie, sizeof(cookie), 0) != (ssize_t)sizeof(cookie) || !cookie)
            return npusim_fail(HC_ACL_DRIVER_ERROR, "aclrtIpcMemGetExportKey: no random numbers");
        fill_export(export, offset, size, flags, cookie);
        memory->exports++;
    }
    key_print(
        &(struct npusim_key){
            .pid = (int32_t)getpid(), .fd = memory->fd, .slot = (uint32_t)slot, .cookie = cookie},
        text);
    return HC_ACL_OK;
}

static struct npusim_memory *local_memory(const struct npusim_place *place)
{
    for (int i = 0; i < npusim.settings.visible_count; i++)
        if (place->where == NPUSIM_LOCAL && npusim.devices[i].physical == place->physical)
            return &npusim.devices[i].memory;
    return NULL;
}

int aclrtIpcMemGetExportKey(void *ptr, size_t size, char *key, size_t key_len, uint64_t flags)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!key || key_len != HC_ACL_IPC_KEY_LEN)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtIpcMemGetExportKey: a key has %d bytes, not %zu",
                                        HC_ACL_IPC_KEY_LEN, key_len));
    if (!size || flags & ~(uint64_t)HC_ACL_IPC_NO_PID_CHECK)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtIpcMemGetExportKey: size 0, or flags %llx",
                                        (unsigned long long)flags));
    struct npusim_place place = npusim_place_find(ptr, size);
    struct npusim_memory *memory = local_memory(&place);
    if (!memory)
        return npusim_leave(
            npusim_fail(HC_ACL_INVALID_PARAMETER,
                        "aclrtIpcMemGetExportKey: %p of %zu bytes is not inside one aclrtMalloc", ptr, size));
    return npusim_leave(export_range(memory, (size_t)(place.bytes - memory->shadow), size, flags, key));
}

/* The export of this process that a key names, and the memory it is in; or NULL. */
static struct npusim_export *own_export(const struct npusim_key *key, struct npusim_memory **memory)
{
    if (key->pid != (int32_t)getpid())
        return NULL;
    for (int i = 0; i < npusim.settings.visible_count; i++) {
        struct npusim_memory *found = &npusim.devices[i].memory;
        if (found->fd != key->fd)
            continue;
        struct npusim_export *export = &found->control->exports[key->slot];
        *memory = found;
        /* relaxed: only this process writes it, under its lock */
        return atomic_load_explicit(&export->cookie, memory_order_relaxed) == key->cookie ? export : NULL;
    }
    return NULL;
}

static bool allow_pid(struct npusim_export *export, int32_t pid)
{
    for (int i = 0; i < NPUSIM_EXPORT_PIDS; i++) {
        int32_t allowed = atomic_load_explicit(&export->pids[i], memory_order_relaxed);
        if (allowed && allowed != pid)
            continue;
        /* release: partner is the acquire in import.c */
        atomic_store_explicit(&export->pids[i], pid, memory_order_release);
        return true;
    }
    return false;
}

int aclrtIpcMemSetImportPid(const char *text, int32_t *pids, size_t n)
{
    struct npusim_key key;
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    struct npusim_memory *memory;
    struct npusim_export *export = npusim_key_parse(text, &key) ? own_export(&key, &memory) : NULL;
    if (!export || !pids || !n)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtIpcMemSetImportPid: no pids, or no key of this process"));
    for (size_t i = 0; i < n; i++)
        if (pids[i] <= 0)
            return npusim_leave(
                npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtIpcMemSetImportPid: pid %d", pids[i]));
    for (size_t i = 0; i < n; i++)
        if (!allow_pid(export, pids[i]))
            return npusim_leave(npusim_fail(HC_ACL_NO_RESOURCE, "aclrtIpcMemSetImportPid: more than %d pids",
                                            NPUSIM_EXPORT_PIDS));
    return npusim_leave(HC_ACL_OK);
}

int npusim_export_close(const struct npusim_key *key)
{
    struct npusim_memory *memory = NULL;
    struct npusim_export *export = own_export(key, &memory);
    return export ? withdraw(memory, export, "aclrtIpcMemClose") : HC_ACL_INVALID_PARAMETER;
}
