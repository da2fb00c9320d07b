/* What there is of devices, and what connects them. */
#include "runtime/core/device_impl.h"

#include <stdio.h>
#include <string.h>

static const struct {
    hcomm_device_link_t link;
    const char *name;
    uint64_t bits; /* of aclrtGetDevicesTopo; several links may exist, the first of this list counts */
} links[] = {
    {HCOMM_LINK_SAME, "same", 0},
    {HCOMM_LINK_HCCS, "HCCS", HC_ACL_LINK_HCCS | HC_ACL_LINK_HCCS_SW},
    {HCOMM_LINK_SIO, "SIO", HC_ACL_LINK_SIO},
    {HCOMM_LINK_PIX, "PIX", HC_ACL_LINK_PIX},
    {HCOMM_LINK_PIB, "PIB", HC_ACL_LINK_PIB},
    {HCOMM_LINK_PHB, "PHB", HC_ACL_LINK_PHB},
    {HCOMM_LINK_SYS, "SYS", HC_ACL_LINK_SYS},
    {HCOMM_LINK_NETWORK, "network", 0},
};

HCOMM_API const char *hcomm_device_link_name(hcomm_device_link_t link)
{
    for (size_t i = 0; i < hc_array_len(links); i++)
        if (links[i].link == link)
            return links[i].name;
    return "unknown";
}

static hcomm_device_link_t link_of(uint64_t bits)
{
    for (size_t i = 0; i < hc_array_len(links); i++)
        if (links[i].bits & bits)
            return links[i].link;
    return HCOMM_LINK_UNKNOWN;
}

/* Between two visible devices. */
static hcomm_device_link_t link_between(const struct hc_acl *acl, int id, int other)
{
    uint64_t bits = 0;
    if (id == other)
        return HCOMM_LINK_SAME;
    if (acl->aclrtGetDevicesTopo((uint32_t)id, (uint32_t)other, &bits) != HC_ACL_OK)
        return HCOMM_LINK_UNKNOWN;
    return link_of(bits);
}

hcomm_device_link_t hc_device_link(struct hc_device *device, int physical)
{
    uint32_t count = 0;
    if (physical == device->physical)
        return HCOMM_LINK_SAME;
    if (device->acl->aclrtGetDeviceCount(&count) != HC_ACL_OK)
        return HCOMM_LINK_UNKNOWN;
    for (int id = 0; (uint32_t)id < count; id++)
        if (hc_acl_physical(device->acl, id) == physical)
            return link_between(device->acl, device->id, id);
    return HCOMM_LINK_UNKNOWN;
}

static void find_pci(const struct hc_acl *acl, int id, char *text, size_t size)
{
    if (!acl->aclrtDeviceGetPCIBusId || acl->aclrtDeviceGetPCIBusId(id, text, (int32_t)size) != HC_ACL_OK)
        text[0] = '\0';
    text[size - 1] = '\0';
}

void hc_device_pci(const struct hc_device *device, char *text, size_t size)
{
    find_pci(device->acl, device->id, text, size);
}

static void describe(const struct hcomm_context *context, const struct hc_acl *acl, int id,
                     hcomm_device_info_t *info)
{
    const struct hc_device *device = context->device;
    const char *name = acl->aclrtGetSocName();
    *info = (hcomm_device_info_t){
        .physical = hc_acl_physical(acl, id),
        .opened = device && device->id == id,
        .link = device ? link_between(acl, device->id, id) : HCOMM_LINK_UNKNOWN,
    };
    (void)snprintf(info->name, sizeof(info->name), "%s", name ? name : "");
    find_pci(acl, id, info->pci, sizeof(info->pci));
}

HCOMM_API hcomm_status_t hcomm_device_get(hcomm_handle_t handle, unsigned index, hcomm_device_info_t *info)
{
    char error[400];
    uint32_t count = 0;
    if (!handle || !info)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_device_get: an argument is NULL");
    const struct hc_acl *acl = hc_acl_load(handle->settings.npu, error, sizeof(error));
    if (!acl)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "hcomm_device_get: %s", error);
    if (acl->aclrtGetDeviceCount(&count) != HC_ACL_OK)
        count = 0; /* which it reports as an error */
    if (index >= count)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_device_get: no device number %u: %u visible", index, count);
    describe(handle, acl, (int)index, info);
    return HCOMM_OK;
}

const char *hc_device_library(void)
{
    const struct hc_acl *acl = hc_acl_loaded();
    return acl ? acl->library : NULL;
}
