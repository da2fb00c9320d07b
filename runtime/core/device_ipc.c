#include "runtime/core/device_ipc.h"

#include "runtime/core/device_impl.h"
#include "runtime/core/rndv.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)HC_WIRE_DEVICE_KEY >= (int)HC_ACL_IPC_KEY_LEN, "room for a key");

enum { EXPORT_PEERS = 64 }; /* bits of open_to */

/* Memory of ours that other processes may import; data of an entry of device->exports. */
struct hc_export {
    char key[HC_ACL_IPC_KEY_LEN];
    void *base;
    uint32_t keep; /* importers may keep it until that number is recalled; 0: for one message */
    unsigned num_peers;
    struct hc_peer *peers[EXPORT_PEERS]; /* that may import it */
    uint64_t open_to;                    /* recalled: those that have not answered, by bit */
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

void hc_device_close_key(struct hc_device *device, const char *key)
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
        export->base = base;
        status = hc_ranges_add(&device->exports, &entry);
        if (status != HCOMM_OK)
            hc_device_close_key(device, export->key);
    }
    if (status != HCOMM_OK) {
        free(export);
        return status;
    }
    *out = export;
    return HCOMM_OK;
}

static hcomm_status_t allow_once(struct hc_device *device, struct hc_export *export, struct hc_peer *peer)
{
    for (unsigned i = 0; i < export->num_peers; i++)
        if (export->peers[i] == peer)
            return HCOMM_OK;
    if (export->num_peers == EXPORT_PEERS)
        return hc_error(HCOMM_ERR_LIMIT, "device memory is exported to %d processes already", EXPORT_PEERS);
    hcomm_status_t status = allow(device, export->key, peer->info.device_pid);
    if (status == HCOMM_OK)
        export->peers[export->num_peers++] = peer;
    return status;
}

static void fill_offer(const struct hc_device *device, const char *key, uint32_t keep, size_t offset,
                       size_t size, struct hc_wire_device *offer)
{
    *offer =
        (struct hc_wire_device){.offset = offset, .size = size, .physical = device->physical, .keep = keep};
    (void)memcpy(offer->key, key, HC_ACL_IPC_KEY_LEN);
}

static hcomm_status_t export_known(struct hc_device *device, const struct hc_range *range, void *ptr,
                                   struct hc_peer *peer, struct hc_wire_device *offer)
{
    /* as the device runtime gave it, before it was aligned */
    uint8_t *base = range->data ? range->data : (void *)range->base;
    size_t size = range->base + range->size - (uintptr_t)base;
    const struct hc_range *known = hc_ranges_find(&device->exports, base);
    struct hc_export *export = known ? known->data : NULL;
    hcomm_status_t status = export ? HCOMM_OK : add_export(device, base, size, &export);
    if (status == HCOMM_OK && range->data && !export->keep) /* whose end we hear of */
        export->keep = ++device->last_keep;
    if (status == HCOMM_OK)
        status = allow_once(device, export, peer);
    if (status == HCOMM_OK)
        fill_offer(device, export->key, export->keep, (size_t)((uint8_t *)ptr - base), size, offer);
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
        fill_offer(device, key, 0, 0, size, offer);
    else
        hc_device_close_key(device, key);
    return status;
}

hcomm_status_t hc_device_export(struct hc_device *device, void *ptr, size_t size, struct hc_peer *peer,
                                struct hc_wire_device *offer, bool *temporary)
{
    int previous;
    const struct hc_range *range = hc_ranges_find(&device->ranges, ptr);
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    status = range ? export_known(device, range, ptr, peer, offer)
                   : export_unknown(device, ptr, size, peer->info.device_pid, offer);
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
    hc_device_close_key(device, offer->key);
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

/* ---- freeing what others may have open ---- */

static void ask_back(struct hc_export *export)
{
    for (unsigned i = 0; i < export->num_peers; i++)
        if (export->peers[i]->state != HC_PEER_FAILED) {
            export->open_to |= UINT64_C(1) << i;
            hc_rndv_answer(export->peers[i], HC_WIRE_RECALL, export->keep, HCOMM_OK);
        }
}

bool hc_device_recall(struct hc_device *device, const void *base)
{
    const struct hc_range *range = hc_ranges_find(&device->exports, base);
    if (!range)
        return false;
    struct hc_export *export = range->data;
    ask_back(export);
    device->num_recalled += export->open_to != 0;
    return export->open_to != 0;
}

/* The peer has the memory open no more; with the last one it is freed. */
static void let_go(struct hc_device *device, struct hc_export *export, const struct hc_peer *peer)
{
    uint64_t before = export->open_to;
    for (unsigned i = 0; i < export->num_peers; i++)
        if (export->peers[i] == peer)
            export->open_to &= ~(UINT64_C(1) << i);
    if (!before || export->open_to)
        return;
    device->num_recalled--;
    hc_device_free_recalled(device, export->base);
}

static struct hc_export *find_export(const struct hc_device *device, uint64_t keep)
{
    for (size_t i = 0; i < device->exports.count; i++) {
        struct hc_export *export = device->exports.entries[i].data;
        if (export->keep == keep)
            return export;
    }
    return NULL;
}

void hc_device_released_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_device *device = peer->context->device;
    struct hc_wire_fin released;
    if (len != sizeof(released)) {
        hc_peer_malformed(peer, "RELEASED", "its length is wrong");
        return;
    }
    if (!device)
        return;
    (void)memcpy(&released, data, sizeof(released));
    struct hc_export *export = find_export(device, released.id);
    if (export)
        let_go(device, export, peer);
}

void hc_device_peer_failed(struct hc_device *device, const struct hc_peer *peer)
{
    hc_device_imports_lose(device, peer);
    for (size_t i = device->exports.count; i > 0; i--) /* from the end: the entry itself may go */
        let_go(device, device->exports.entries[i - 1].data, peer);
}

static bool none_recalled(void *arg)
{
    const struct hc_device *device = arg;
    return device->num_recalled == 0;
}

bool hc_device_await_recalled(struct hc_device *device)
{
    struct hcomm_context *context = device->context;
    return device->num_recalled &&
           hc_wait(context, none_recalled, device, NULL, context->settings.timeout_ms) == HCOMM_OK;
}

void hc_device_ipc_fini(struct hc_device *device)
{
    hc_device_imports_fini(device);
    for (size_t i = 0; i < device->exports.count; i++) {
        struct hc_export *export = device->exports.entries[i].data;
        hc_device_close_key(device, export->key);
        free(export);
    }
    hc_ranges_fini(&device->exports);
}
