/* Device memory of other processes, mapped here and kept for later messages. */
#include "runtime/core/device_impl.h"
#include "runtime/core/device_ipc.h"
#include "runtime/core/progress.h"
#include "runtime/core/rndv.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_MAX = 64 /* each takes address space, and a place in the driver's tables */ };

/* In device->imports, the one used last at the end. */
struct hc_import {
    struct hc_list node;
    const struct hc_peer *owner;
    uint32_t keep; /* its owner's number of the export; 0: for one message */
    char key[HC_ACL_IPC_KEY_LEN];
    void *ptr;
    unsigned uses;
    bool is_recalled; /* the owner waits for its end */
};

static struct hc_import *find_import(const struct hc_device *device, const struct hc_peer *owner,
                                     const char *key)
{
    struct hc_list *node;
    hc_list_for_each(node, &device->imports)
    {
        struct hc_import *import = hc_list_entry(node, struct hc_import, node);
        if (import->owner == owner && memcmp(import->key, key, HC_ACL_IPC_KEY_LEN) == 0)
            return import;
    }
    return NULL;
}

static struct hc_import *find_kept(const struct hc_device *device, const struct hc_peer *owner, uint32_t keep)
{
    struct hc_list *node;
    hc_list_for_each(node, &device->imports)
    {
        struct hc_import *import = hc_list_entry(node, struct hc_import, node);
        if (import->owner == owner && import->keep == keep)
            return import;
    }
    return NULL;
}

static void answer(struct hc_import *import)
{
    hc_rndv_answer((struct hc_peer *)(uintptr_t)import->owner, HC_WIRE_RELEASED, import->keep, HCOMM_OK);
}

static void drop(struct hc_device *device, struct hc_import *import)
{
    int previous;
    if (hc_device_enter(device, &previous) == HCOMM_OK) {
        hc_device_close_key(device, import->key);
        hc_device_leave(device, previous);
    }
    hc_list_remove(&import->node);
    device->num_imports--;
    if (import->is_recalled)
        answer(import);
    free(import);
}

/* Make room by what was not used for longest; what is in use stays. */
static void evict(struct hc_device *device)
{
    struct hc_list *node;
    hc_list_for_each(node, &device->imports)
    {
        struct hc_import *import = hc_list_entry(node, struct hc_import, node);
        if (import->uses)
            continue;
        drop(device, import);
        return;
    }
}

static hcomm_status_t import_key(struct hc_device *device, const struct hc_wire_device *offer, void **ptr)
{
    int previous;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = device->acl->aclrtIpcMemImportByKey(ptr, offer->key, HC_ACL_IPC_ENABLE_PEER);
    if (code != HC_ACL_OK)
        status = hc_device_error(device, code, "importing memory of physical device %d", offer->physical);
    hc_device_leave(device, previous);
    return status;
}

static hcomm_status_t open_import(struct hc_device *device, const struct hc_peer *owner,
                                  const struct hc_wire_device *offer, struct hc_import **out)
{
    if (device->num_imports >= KEPT_MAX)
        evict(device);
    struct hc_import *import = calloc(1, sizeof(*import));
    if (!import)
        return hc_error(HCOMM_ERR_NO_MEMORY, "import of device memory: out of memory");
    hcomm_status_t status = import_key(device, offer, &import->ptr);
    if (status != HCOMM_OK) {
        free(import);
        return status;
    }
    import->owner = owner;
    import->keep = offer->keep;
    (void)memcpy(import->key, offer->key, HC_ACL_IPC_KEY_LEN);
    hc_list_append(&device->imports, &import->node);
    device->num_imports++;
    hc_counter_add(&device->context->counters, HC_COUNTER_DEVICE_IMPORTS, 1);
    *out = import;
    return HCOMM_OK;
}

static bool is_sound(const struct hc_wire_device *offer, size_t size)
{
    return offer->key[HC_ACL_IPC_KEY_LEN - 1] == '\0' && offer->offset <= offer->size &&
           size <= offer->size - offer->offset;
}

hcomm_status_t hc_device_import(struct hc_device *device, const struct hc_peer *owner,
                                const struct hc_wire_device *offer, size_t size, void **ptr)
{
    if (!is_sound(offer, size))
        return hc_error(HCOMM_ERR_PROTOCOL, "a peer offers device memory in malformed words");
    struct hc_import *import = find_import(device, owner, offer->key);
    hcomm_status_t status = import ? HCOMM_OK : open_import(device, owner, offer, &import);
    if (status != HCOMM_OK)
        return status;
    import->uses++;
    hc_list_remove(&import->node);
    hc_list_append(&device->imports, &import->node);
    *ptr = (uint8_t *)import->ptr + offer->offset;
    return HCOMM_OK;
}

void hc_device_close_import(struct hc_device *device, const struct hc_peer *owner,
                            const struct hc_wire_device *offer)
{
    struct hc_import *import = find_import(device, owner, offer->key);
    if (!import || --import->uses)
        return;
    if (!import->keep || import->is_recalled || owner->state == HC_PEER_FAILED)
        drop(device, import);
}

void hc_device_recall_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_device *device = peer->context->device;
    struct hc_wire_fin recall;
    if (len != sizeof(recall)) {
        hc_peer_malformed(peer, "RECALL", "its length is wrong");
        return;
    }
    (void)memcpy(&recall, data, sizeof(recall));
    struct hc_import *import =
        device && recall.id && recall.id <= UINT32_MAX ? find_kept(device, peer, (uint32_t)recall.id) : NULL;
    if (!import) {
        hc_rndv_answer(peer, HC_WIRE_RELEASED, recall.id, HCOMM_OK);
        return;
    }
    import->is_recalled = true;
    if (!import->uses)
        drop(device, import);
}

/* Those that nobody uses: all, or one owner's. */
static void drop_unused(struct hc_device *device, const struct hc_peer *owner)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &device->imports)
    {
        struct hc_import *import = hc_list_entry(node, struct hc_import, node);
        if (!import->uses && (!owner || import->owner == owner))
            drop(device, import);
    }
}

void hc_device_imports_drop(struct hcomm_context *context)
{
    if (context->device)
        drop_unused(context->device, NULL);
}

void hc_device_imports_lose(struct hc_device *device, const struct hc_peer *owner)
{
    drop_unused(device, owner);
}

void hc_device_imports_fini(struct hc_device *device)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&device->imports))) {
        struct hc_import *import = hc_list_entry(node, struct hc_import, node);
        hc_device_close_key(device, import->key);
        free(import);
    }
}
