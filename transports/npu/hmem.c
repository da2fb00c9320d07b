/* Copies between host memory and the memory of a device, one at a time: see dma.c for engines. */
#include "transports/npu/buf.h"
#include "transports/npu/device.h"

/* The device is current on the calling thread during the copy only. */
static int copy(int device, void *to, const void *from, size_t n, int kind)
{
    const struct hc_acl *acl = npu_device_runtime();
    int32_t before = -1;
    if (!acl)
        return -FI_ENODEV;
    bool had = acl->aclrtGetDevice(&before) == HC_ACL_OK;
    int code = acl->aclrtSetDevice(device);
    if (code == HC_ACL_OK)
        code = acl->aclrtMemcpy(to, n, from, n, kind);
    if (had && before != device)
        (void)acl->aclrtSetDevice(before);
    if (code == HC_ACL_OK)
        return 0;
    npu_warn(EP_DATA, "device %d: copying %zu bytes: %s %s\n", device, n, hc_acl_text(code),
             hc_acl_detail(acl));
    return -FI_EIO;
}

int npu_hmem_read(struct npu_mr *mr, const void *device_ptr, void *to, size_t n)
{
    return copy(mr->device, to, device_ptr, n, HC_ACL_D2H);
}

int npu_hmem_write(struct npu_mr *mr, void *device_ptr, const void *from, size_t n)
{
    return copy(mr->device, device_ptr, from, n, HC_ACL_H2D);
}
