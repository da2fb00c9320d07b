#include "runtime/core/device_ipc.h"

#include "runtime/core/device_impl.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)HC_WIRE_DEVICE_KEY >= (int)HC_ACL_IPC_KEY_LEN, "room for a key");

enum { EXPORT_PIDS = 64 };

/* Memory of ours that other processes may import; data of an entry of device->exports. */
struct hc_export {
    char key[HC_ACL_IPC_KEY_LEN];
    unsigned num_pids;
    uint32_t pids[EXPORT_PIDS];
};

/* Memory of another process, mapped here; in device->imports. */
struct hc_import {
    struct hc_list node;
    char key[HC_ACL_IPC_KEY_LEN];
    void *ptr;
    unsigned uses;
};

uint32_t hc_device_pid(struct hc_device *device)
{
    int32_t pid = 0;
    int previous;
    if (hc_device_enter(device, &previous) != HCOMM_OK)
        return 0;
    if (device->acl->aclrtDeviceGetBareTgid(&pid) != HC_ACL_OK || pid < 0)
        pid = 0;
    hc_device_leave(device, previous);
    return (uint32_t)pid;
}

/* ---- exports; the device is current ---- */

static hcomm_status_t make_key(struct hc_device *device, void *ptr, size_t size, char *key)
{
    int code = device->acl->aclrtIpcMemGetExportKey(ptr, size, key, HC_ACL_IPC_KEY_LEN, 0);
    return code == HC_ACL_OK ? HCOMM_OK
                             : hc_device_error(device, code, "exporting %zu bytes at %p", size, ptr);
}

static hcomm_status_t allow(struct hc_device *device, const char *key, uint32_t pid)
{
    int32_t pids[] = {(int32_t)pid};
    int code = device->acl->aclrtIpcMemSetImportPid(key, pids, 1);
    return code == HC_ACL_OK ? HCOMM_OK
                             : hc_device_error(device, code, "letting process %u import memory", pid);
}

static void close_key(struct hc_device *device, const char *key)
{
    int code = device->acl->aclrtIpcMemClose(key);
    if (code != HC_ACL_OK)
        hc_log_debug("device %d: closing a key: %s (code %d)", device->id, hc_acl_text(code), code);
}

static hcomm_status_t add_export(struct hc_device *device, void *base, size_t size, struct hc_export **out)
{
    struct hc_export *export = calloc(1, sizeof(*export));
    if (!export)
        return hc_error(HCOMM_ERR_NO_MEMORY, "export of device memory: out of memory");
    const struct hc_range entry = {.base = (uintptr_t)base, .size = size, .data = export};
    hcomm_status_t status = make_key(device, base, size, export->key);
    if (status == HCOMM_OK) {
        status = hc_ranges_add(&device->exports, &entry);
        if (status != HCOMM_OK)
            close_key(device, export->key);
    }
    if (status != HCOMM_OK) {
        free(export);
        return status;
    }
    *out = export;
    return HCOMM_OK;
}

static hcomm_status_t allow_once(struct hc_device *device, struct hc_export *export, uint32_t pid)
{
    for (unsigned i = 0; i < export->num_pids; i++)
        if (export->pids[i] == pid)
            return HCOMM_OK;
    if (export->num_pids == EXPORT_PIDS)
        return hc_error(HCOMM_ERR_LIMIT, "device memory is exported to %d processes already", EXPORT_PIDS);
    hcomm_status_t status = allow(device, export->key, pid);
    if (status == HCOMM_OK)
        export->pids[export->num_pids++] = pid;
    return status;
}

static void fill_offer(const struct hc_device *device, const char *key, size_t offset, size_t size,
                       struct hc_wire_device *offer)
{
    *offer = (struct hc_wire_device){.offset = offset, .size = size, .physical = device->physical};
    (void)memcpy(offer->key, key, HC_ACL_IPC_KEY_LEN);
}

static hcomm_status_t export_known(struct hc_device *device, const struct hc_range *range, void *ptr,
                                   uint32_t pid, struct hc_wire_device *offer)
{
    /* as the device runtime gave it, before it was aligned */
    uint8_t *base = range->data ? range->data : (void *)range->base;
    size_t size = range->base + range->size - (uintptr_t)base;
    const struct hc_range *known = hc_ranges_find(&device->exports, base);
    struct hc_export *export = known ? known->data : NULL;
    hcomm_status_t status = export ? HCOMM_OK : add_export(device, base, size, &export);
    if (status == HCOMM_OK)
        status = allow_once(device, export, pid);
    if (status == HCOMM_OK)
        fill_offer(device, export->key, (size_t)((uint8_t *)ptr - base), size, offer);
    return status;
}

static hcomm_status_t export_unknown(struct hc_device *device, void *ptr, size_t size, uint32_t pid,
                                     struct hc_wire_device *offer)
{
    char key[HC_ACL_IPC_KEY_LEN];
    hcomm_status_t status = make_key(device, ptr, size, key);
    if (status != HCOMM_OK)
        return status;
    status = allow(device, key, pid);
    if (status == HCOMM_OK)
        fill_offer(device, key, 0, size, offer);
    else
        close_key(device, key);
    return status;
}

hcomm_status_t hc_device_export(struct hc_device *device, void *ptr, size_t size, uint32_t pid,
                                struct hc_wire_device *offer, bool *temporary)
{
    int previous;
    const struct hc_range *range = hc_ranges_find(&device->ranges, ptr);
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    status =
        range ? export_known(device, range, ptr, pid, offer) : export_unknown(device, ptr, size, pid, offer);
    hc_device_leave(device, previous);
    if (status == HCOMM_OK)
        *temporary = !range;
    return status;
}

void hc_device_unexport(struct hc_device *device, const struct hc_wire_device *offer)
{
    int previous;
    if (hc_device_enter(device, &previous) != HCOMM_OK)
        return; /* the key is gone with the device */
    close_key(device, offer->key);
    hc_device_leave(device, previous);
}

hcomm_status_t hc_device_withdraw(struct hc_device *device, const void *base)
{
    const struct hc_range *range = hc_ranges_find(&device->exports, base);
    if (!range)
        return HCOMM_OK;
    int previous;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    struct hc_export *export = range->data;
    int code = device->acl->aclrtIpcMemClose(export->key);
    if (code == HC_ACL_FREE_FAILED) {
        status = hc_device_error(device, code, "withdrawing memory at %p", base);
    } else {
        (void)hc_ranges_remove(&device->exports, (void *)range->base);
        free(export);
    }
    hc_device_leave(device, previous);
    return status;
}

/* ---- imports ---- */

static struct hc_import *find_import(const struct hc_device *device, const char *key)
{
    struct hc_list *node;
    hc_list_for_each(node, &device->imports)
    {
        struct hc_import *import = hc_list_entry(node, struct hc_import, node);
        if (memcmp(import->key, key, HC_ACL_IPC_KEY_LEN) == 0)
            return import;
    }
    return NULL;
}

static hcomm_status_t open_import(struct hc_device *device, const struct hc_wire_device *offer,
                                  struct hc_import **out)
{
    struct hc_import *import = calloc(1, sizeof(*import));
    if (!import)
        return hc_error(HCOMM_ERR_NO_MEMORY, "import of device memory: out of memory");
    int previous;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status == HCOMM_OK) {
        int code = device->acl->aclrtIpcMemImportByKey(&import->ptr, offer->key, HC_ACL_IPC_ENABLE_PEER);
        if (code != HC_ACL_OK)
            status = hc_device_error(device, code, "importing memory of physical device %d", offer->physical);
        hc_device_leave(device, previous);
    }
    if (status != HCOMM_OK) {
        free(import);
        return status;
    }
    (void)memcpy(import->key, offer->key, HC_ACL_IPC_KEY_LEN);
    hc_list_append(&device->imports, &import->node);
    *out = import;
    return HCOMM_OK;
}

static bool is_sound(const struct hc_wire_device *offer, size_t size)
{
    return offer->key[HC_ACL_IPC_KEY_LEN - 1] == '\0' && offer->offset <= offer->size &&
           size <= offer->size - offer->offset;
}

hcomm_status_t hc_device_import(struct hc_device *device, const struct hc_wire_device *offer, size_t size,
                                void **ptr)
{
    if (!is_sound(offer, size))
        return hc_error(HCOMM_ERR_PROTOCOL, "a peer offers device memory in malformed words");
    struct hc_import *import = find_import(device, offer->key);
    hcomm_status_t status = import ? HCOMM_OK : open_import(device, offer, &import);
    if (status != HCOMM_OK)
        return status;
    import->uses++;
    *ptr = (uint8_t *)import->ptr + offer->offset;
    return HCOMM_OK;
}

void hc_device_close_import(struct hc_device *device, const struct hc_wire_device *offer)
{
    int previous;
    struct hc_import *import = find_import(device, offer->key);
    if (!import || --import->uses)
        return;
    if (hc_device_enter(device, &previous) == HCOMM_OK) {
        close_key(device, import->key);
        hc_device_leave(device, previous);
    }
    hc_list_remove(&import->node);
    free(import);
}

void hc_device_ipc_fini(struct hc_device *device)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&device->imports))) {
        struct hc_import *import = hc_list_entry(node, struct hc_import, node);
        close_key(device, import->key);
        free(import);
    }
    for (size_t i = 0; i < device->exports.count; i++) {
        struct hc_export *export = device->exports.entries[i].data;
        close_key(device, export->key);
        free(export);
    }
    hc_ranges_fini(&device->exports);
}
