#include "transports/npu/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_MAX = 512, PCI_TEXT = 32 };

/* Once, where the user chose a runtime that cannot be had; without a choice it is nothing to worry about. */
static void tell(const char *choice, const char *error)
{
    static atomic_bool told;
    bool chosen = choice && *choice && strcmp(choice, "auto") != 0 && strcmp(choice, "off") != 0;
    if (chosen && !atomic_exchange(&told, true))
        npu_warn(CORE, "HCOMM_NPU=%s: there is no device: %s\n", choice, error);
    else
        npu_info(CORE, "no device: %s\n", error);
}

const struct hc_acl *npu_device_runtime(void)
{
    char error[ERROR_MAX] = "";
    const char *choice = getenv("HCOMM_NPU");
    const struct hc_acl *acl = hc_acl_load(choice, error, sizeof(error));
    if (!acl)
        tell(choice, error);
    return acl;
}

unsigned npu_device_count(void)
{
    uint32_t count = 0;
    const struct hc_acl *acl = npu_device_runtime();
    return acl && acl->aclrtGetDeviceCount(&count) == HC_ACL_OK ? count : 0;
}

int npu_device_enter(const struct hc_acl *acl, int device, int32_t *before)
{
    if (acl->aclrtGetDevice(before) != HC_ACL_OK)
        *before = -1;
    return *before == device ? HC_ACL_OK : acl->aclrtSetDevice(device);
}

void npu_device_leave(const struct hc_acl *acl, int device, int32_t before)
{
    if (before >= 0 && before != device)
        (void)acl->aclrtSetDevice(before);
}

/* "0000:c1:00.0" */
static bool parse_pci(const char *text, struct fi_pci_attr *pci)
{
    unsigned domain, bus, device, function;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
        return false;
    *pci = (struct fi_pci_attr){.domain_id = (uint16_t)domain,
                                .bus_id = (uint8_t)bus,
                                .device_id = (uint8_t)device,
                                .function_id = (uint8_t)function};
    return true;
}

static const char *link_name(uint64_t links)
{
    static const struct {
        uint64_t bit;
        const char *name;
    } names[] = {
        {HC_ACL_LINK_HCCS, "HCCS"}, {HC_ACL_LINK_HCCS_SW, "HCCS_SW"}, {HC_ACL_LINK_SIO, "SIO"},
        {HC_ACL_LINK_PIX, "PIX"},   {HC_ACL_LINK_PIB, "PIB"},         {HC_ACL_LINK_PHB, "PHB"},
        {HC_ACL_LINK_SYS, "SYS"},
    };
    for (size_t i = 0; i < hc_array_len(names); i++)
        if (links & names[i].bit)
            return names[i].name;
    return NULL;
}

static void describe_links(const struct hc_acl *acl, struct npu_device *device)
{
    unsigned count = npu_device_count();
    size_t used = 0;
    device->links[0] = '\0';
    for (unsigned other = 0; other < count && used < sizeof(device->links); other++) {
        uint64_t links = 0;
        const char *name = NULL;
        if ((int)other != device->index &&
            acl->aclrtGetDevicesTopo((uint32_t)device->index, other, &links) == HC_ACL_OK)
            name = link_name(links);
        if (name)
            used += (size_t)snprintf(device->links + used, sizeof(device->links) - used, "%snpu%u:%s",
                                     used ? " " : "", other, name);
    }
}

void npu_device_describe(int index, struct npu_device *device)
{
    char text[PCI_TEXT] = "";
    const struct hc_acl *acl = npu_device_runtime();
    int32_t physical = -1;
    *device = (struct npu_device){.index = index, .physical = -1, .soc = ""};
    if (!acl)
        return;
    const char *soc = acl->aclrtGetSocName();
    device->soc = soc ? soc : "";
    if (acl->aclrtGetPhyDevIdByLogicDevId && acl->aclrtGetPhyDevIdByLogicDevId(index, &physical) == HC_ACL_OK)
        device->physical = physical;
    if (acl->aclrtDeviceGetPCIBusId && acl->aclrtDeviceGetPCIBusId(index, text, sizeof(text)) == HC_ACL_OK)
        device->has_pci = parse_pci(text, &device->pci);
    describe_links(acl, device);
}

/* ---- fi_nic ---- */

/* All in one block of memory, so that it is freed in one step. */
struct nic {
    struct fid_nic fid;
    struct fi_device_attr device;
    struct fi_bus_attr bus;
    struct fi_link_attr link;
    struct npu_device about;
    char name[16], id[16], soc[64];
};

static void nic_connect(struct nic *nic);

static int nic_close(struct fid *fid)
{
    free(hc_container_of(fid, struct nic, fid.fid));
    return 0;
}

static int nic_dup(struct nic *nic, struct fid_nic **dup)
{
    struct nic *copy = malloc(sizeof(*copy));
    if (!copy)
        return -FI_ENOMEM;
    *copy = *nic;
    nic_connect(copy);
    *dup = &copy->fid;
    return 0;
}

static int nic_control(struct fid *fid, int command, void *arg)
{
    if (command != FI_DUP)
        return -FI_ENOSYS;
    return nic_dup(hc_container_of(fid, struct nic, fid.fid), arg);
}

static int nic_tostr(const struct fid *fid, char *buf, size_t len)
{
    const struct nic *nic = hc_container_of(fid, struct nic, fid.fid);
    const struct fi_pci_attr *pci = &nic->bus.attr.pci;
    size_t before = strnlen(buf, len); /* libfabric has printed the rest of the fi_info there */
    buf += before;
    len -= before;
    size_t used = (size_t)snprintf(buf, len, "nic:\n    device: %s, physical %s, %s\n", nic->name, nic->id,
                                   nic->soc[0] ? nic->soc : "unknown type");
    if (nic->bus.bus_type == FI_BUS_PCI && used < len)
        used += (size_t)snprintf(buf + used, len - used, "    PCI: %04x:%02x:%02x.%x\n", pci->domain_id,
                                 pci->bus_id, pci->device_id, pci->function_id);
    if (used < len)
        used += (size_t)snprintf(buf + used, len - used, "    links: %s\n",
                                 nic->about.links[0] ? nic->about.links : "none");
    return used < len ? 0 : -FI_ETOOSMALL;
}

static struct fi_ops nic_ops = {
    .size = sizeof(nic_ops),
    .close = nic_close,
    .bind = npu_no_bind,
    .control = nic_control,
    .ops_open = npu_no_ops_open,
    .tostr = nic_tostr,
};

/* Let the pointers inside point to this copy. */
static void nic_connect(struct nic *nic)
{
    nic->device.name = nic->name;
    nic->device.device_id = nic->id;
    nic->device.device_version = nic->soc;
    nic->link.network_type = nic->about.links;
    nic->fid.device_attr = &nic->device;
    nic->fid.bus_attr = &nic->bus;
    nic->fid.link_attr = &nic->link;
}

struct fid_nic *npu_device_nic(const struct npu_device *device)
{
    struct nic *nic = calloc(1, sizeof(*nic));
    if (!nic)
        return NULL;
    nic->about = *device;
    (void)snprintf(nic->name, sizeof(nic->name), NPU_NAME "%d", device->index);
    if (device->physical >= 0)
        (void)snprintf(nic->id, sizeof(nic->id), "%d", device->physical);
    else
        (void)snprintf(nic->id, sizeof(nic->id), "unknown");
    (void)snprintf(nic->soc, sizeof(nic->soc), "%s", device->soc);
    nic->bus.bus_type = device->has_pci ? FI_BUS_PCI : FI_BUS_UNKNOWN;
    nic->bus.attr.pci = device->pci;
    nic->link.state = FI_LINK_UP;
    nic->fid.fid.fclass = FI_CLASS_NIC;
    nic->fid.fid.ops = &nic_ops;
    nic_connect(nic);
    return &nic->fid;
}
