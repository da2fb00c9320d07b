#include "transports/npu/dma.h"

#include "transports/npu/device.h"

#include <stdlib.h>
#include <string.h>

struct npu_dma {
    struct npu_domain *domain;
    int device;
    hc_acl_stream_t stream;
    char key[HC_ACL_IPC_KEY_LEN];
};

static void complain(const char *what, int device, int code)
{
    npu_info(EP_DATA, "device %d: %s: %s %s\n", device, what, hc_acl_text(code),
             hc_acl_detail(npu_device_runtime()));
}

int32_t npu_dma_pid(void)
{
    const struct hc_acl *acl = hc_acl_loaded();
    int32_t pid = 0;
    return acl && acl->aclrtDeviceGetBareTgid(&pid) == HC_ACL_OK && pid > 0 ? pid : 0;
}

/* ---- The owner's side ---- */

/* Export the registration once; later operations only name further importers. */
static int export_mr(const struct hc_acl *acl, struct npu_mr *mr)
{
    if (mr->key_state != NPU_KEY_NONE)
        return mr->key_state == NPU_KEY_THERE ? HC_ACL_OK : HC_ACL_NOT_SUPPORTED;
    int code = acl->aclrtIpcMemGetExportKey(mr->iov[0].iov_base, mr->iov[0].iov_len, mr->ipc_key,
                                            HC_ACL_IPC_KEY_LEN, 0);
    mr->key_state = code == HC_ACL_OK ? NPU_KEY_THERE : NPU_KEY_DENIED;
    if (code != HC_ACL_OK)
        complain("memory cannot be exported", mr->device, code);
    return code;
}

bool npu_dma_export(const struct npu_buf *buf, int32_t pid, struct npu_ipc_range *range)
{
    const struct hc_acl *acl = hc_acl_loaded();
    struct npu_mr *mr = buf->device;
    int32_t before;
    if (!acl || !mr || buf->count != 1 || mr->iov_count != 1 || !mr->domain->direct_copy || pid <= 0 ||
        pid == npu_dma_pid())
        return false;
    npu_lock(&mr->domain->lock);
    int code = npu_device_enter(acl, mr->device, &before);
    if (code == HC_ACL_OK) {
        code = export_mr(acl, mr);
        if (code == HC_ACL_OK && mr->key_pid != pid)
            code = acl->aclrtIpcMemSetImportPid(mr->ipc_key, &pid, 1);
        if (code == HC_ACL_OK)
            mr->key_pid = pid;
        npu_device_leave(acl, mr->device, before);
    }
    npu_unlock(&mr->domain->lock);
    *range = (struct npu_ipc_range){
        .offset = (uint64_t)((char *)buf->iov[0].iov_base - (char *)mr->iov[0].iov_base)};
    memcpy(range->key, mr->ipc_key, sizeof(range->key));
    return code == HC_ACL_OK;
}

void npu_dma_withdraw(struct npu_mr *mr)
{
    const struct hc_acl *acl = hc_acl_loaded();
    int32_t before;
    if (!acl || mr->key_state != NPU_KEY_THERE || npu_device_enter(acl, mr->device, &before) != HC_ACL_OK)
        return;
    int code = acl->aclrtIpcMemClose(mr->ipc_key);
    if (code != HC_ACL_OK)
        complain("an export cannot be withdrawn", mr->device, code);
    npu_device_leave(acl, mr->device, before);
}

/* ---- The other side ---- */

/* Endpoints of a domain may move at the same time, so the kept streams are guarded by the domain's lock. */
static int take_stream(const struct hc_acl *acl, struct npu_dma *dma)
{
    npu_lock(&dma->domain->lock);
    dma->stream = dma->domain->streams[dma->device];
    dma->domain->streams[dma->device] = NULL;
    npu_unlock(&dma->domain->lock);
    return dma->stream ? HC_ACL_OK : acl->aclrtCreateStream(&dma->stream);
}

/* A stream that failed stays failed. */
static void put_stream(const struct hc_acl *acl, struct npu_dma *dma, bool failed)
{
    void **kept = &dma->domain->streams[dma->device];
    npu_lock(&dma->domain->lock);
    bool keep = !failed && !*kept;
    if (keep)
        *kept = dma->stream;
    npu_unlock(&dma->domain->lock);
    if (!keep)
        (void)acl->aclrtDestroyStream(dma->stream);
}

/* The device is current. */
static int start(const struct hc_acl *acl, struct npu_dma *dma, void *ptr, uint64_t offset, size_t n,
                 bool out)
{
    void *imported = NULL;
    int code = acl->aclrtIpcMemImportByKey(&imported, dma->key, HC_ACL_IPC_ENABLE_PEER);
    if (code != HC_ACL_OK)
        return code;
    char *there = (char *)imported + offset;
    code = take_stream(acl, dma);
    if (code == HC_ACL_OK) {
        /* The only kind of copy that imported memory of another device takes. */
        code = out ? acl->aclrtMemcpyAsync(there, n, ptr, n, HC_ACL_D2D, dma->stream)
                   : acl->aclrtMemcpyAsync(ptr, n, there, n, HC_ACL_D2D, dma->stream);
        if (code != HC_ACL_OK)
            put_stream(acl, dma, true);
    }
    if (code != HC_ACL_OK)
        (void)acl->aclrtIpcMemClose(dma->key);
    return code;
}

struct npu_dma *npu_dma_start(const struct npu_mr *mr, void *ptr, const struct npu_ipc_range *range, size_t n,
                              bool out)
{
    const struct hc_acl *acl = hc_acl_loaded();
    int32_t before;
    if (!acl || mr->device < 0 || mr->device >= NPU_MAX_DEVICES || range->key[HC_ACL_IPC_KEY_LEN - 1])
        return NULL;
    struct npu_dma *dma = calloc(1, sizeof(*dma));
    if (!dma)
        return NULL;
    dma->domain = mr->domain;
    dma->device = mr->device;
    memcpy(dma->key, range->key, sizeof(dma->key));
    int code = npu_device_enter(acl, dma->device, &before);
    if (code == HC_ACL_OK) {
        code = start(acl, dma, ptr, range->offset, n, out);
        npu_device_leave(acl, dma->device, before);
    }
    if (code == HC_ACL_OK)
        return dma;
    complain("no copy between devices, data goes through the host", dma->device, code);
    free(dma);
    return NULL;
}

/* The copy has ended, with a code. */
static int end(const struct hc_acl *acl, struct npu_dma *dma, int code)
{
    put_stream(acl, dma, code != HC_ACL_OK);
    int closed = acl->aclrtIpcMemClose(dma->key);
    if (closed != HC_ACL_OK)
        complain("imported memory cannot be closed", dma->device, closed);
    if (code != HC_ACL_OK)
        npu_warn(EP_DATA, "device %d: copying between devices: %s %s\n", dma->device, hc_acl_text(code),
                 hc_acl_detail(acl));
    free(dma);
    return code == HC_ACL_OK ? 0 : -FI_EIO;
}

int npu_dma_poll(struct npu_dma *dma)
{
    const struct hc_acl *acl = hc_acl_loaded();
    int32_t before;
    int device = dma->device, status = HC_ACL_STREAM_COMPLETE;
    int code = npu_device_enter(acl, device, &before);
    if (code == HC_ACL_OK)
        code = acl->aclrtStreamQuery(dma->stream, &status);
    if (code == HC_ACL_OK && status != HC_ACL_STREAM_COMPLETE) {
        npu_device_leave(acl, device, before);
        return -FI_EAGAIN;
    }
    int rc = end(acl, dma, code);
    npu_device_leave(acl, device, before);
    return rc;
}

void npu_dma_abandon(struct npu_dma *dma)
{
    enum { PATIENCE_MS = 10000 };
    const struct hc_acl *acl = hc_acl_loaded();
    int32_t before;
    int device = dma->device;
    int code = npu_device_enter(acl, device, &before);
    if (code == HC_ACL_OK)
        code = acl->aclrtSynchronizeStreamWithTimeout(dma->stream, PATIENCE_MS);
    (void)end(acl, dma, code);
    npu_device_leave(acl, device, before);
}

void npu_dma_fini(struct npu_domain *domain)
{
    const struct hc_acl *acl = hc_acl_loaded();
    int32_t before;
    for (int i = 0; acl && i < NPU_MAX_DEVICES; i++) {
        if (!domain->streams[i] || npu_device_enter(acl, i, &before) != HC_ACL_OK)
            continue;
        (void)acl->aclrtDestroyStream(domain->streams[i]);
        npu_device_leave(acl, i, before);
    }
}
