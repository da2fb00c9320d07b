#include "transports/npu/npu.h"

#include <stdlib.h>
#include <string.h>

static int fabric_close(struct fid *fid)
{
    struct npu_fabric *fabric = hc_container_of(fid, struct npu_fabric, fid.fid);
    if (npu_in_use(&fabric->refs))
        return -FI_EBUSY;
    free(fabric);
    return 0;
}

static int no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
    (void)fabric, (void)info, (void)pep, (void)context;
    return -FI_ENOSYS;
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                   uint64_t flags, void *context)
{
    return flags ? -FI_EBADFLAGS : npu_domain_open(fabric, info, domain, context);
}

static struct fi_ops fabric_fid_ops = {
    .size = sizeof(fabric_fid_ops),
    .close = fabric_close,
    .bind = npu_no_bind,
    .control = npu_no_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(fabric_ops),
    .domain = npu_domain_open,
    .passive_ep = no_passive_ep,
    .eq_open = npu_eq_open,
    .wait_open = npu_wait_open,
    .trywait = npu_trywait,
    .domain2 = domain2,
};

int npu_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    if (!attr || (attr->name && strcmp(attr->name, NPU_NAME) != 0))
        return -FI_EINVAL;
    struct npu_fabric *made = calloc(1, sizeof(*made));
    if (!made)
        return -FI_ENOMEM;
    made->fid.fid.fclass = FI_CLASS_FABRIC;
    made->fid.fid.context = context;
    made->fid.fid.ops = &fabric_fid_ops;
    made->fid.ops = &fabric_ops;
    made->fid.api_version = attr->api_version;
    *fabric = &made->fid;
    return 0;
}
