/*
 * Memory registration. A registration is a set of address ranges that peers may name by a key; the paths look
 * keys up (npu_mr_hold) when they serve a peer's request.
 */
#include "transports/npu/device.h"
#include "transports/npu/dma.h"
#include "transports/npu/ep.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BUCKETS = 256 };

static const uint64_t all_access =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_COLLECTIVE;

static bool provider_keys(const struct npu_domain *domain)
{
    return domain->mr_mode == FI_MR_BASIC || (domain->mr_mode & FI_MR_PROV_KEY);
}

static bool virtual_addresses(const struct npu_domain *domain)
{
    return domain->mr_mode == FI_MR_BASIC || (domain->mr_mode & FI_MR_VIRT_ADDR);
}

static bool bound_to_endpoints(const struct npu_domain *domain)
{
    return domain->mr_mode != FI_MR_BASIC && (domain->mr_mode & FI_MR_ENDPOINT);
}

static struct hc_list *bucket_of(struct npu_domain *domain, uint64_t key)
{
    return &domain->mr_buckets[key % BUCKETS];
}

int npu_mr_table_init(struct npu_domain *domain)
{
    domain->mr_buckets = malloc(BUCKETS * sizeof(*domain->mr_buckets));
    if (!domain->mr_buckets)
        return -FI_ENOMEM;
    for (size_t i = 0; i < BUCKETS; i++)
        hc_list_init(&domain->mr_buckets[i]);
    return 0;
}

void npu_mr_table_fini(struct npu_domain *domain)
{
    free(domain->mr_buckets);
    domain->mr_buckets = NULL;
}

/* The lock is held. */
static struct npu_mr *find(struct npu_domain *domain, uint64_t key)
{
    struct hc_list *node, *bucket = bucket_of(domain, key);
    hc_list_for_each(node, bucket)
    {
        struct npu_mr *mr = hc_list_entry(node, struct npu_mr, node);
        if (mr->fid.key == key)
            return mr;
    }
    return NULL;
}

struct npu_mr *npu_mr_hold(struct npu_domain *domain, uint64_t key)
{
    npu_lock(&domain->lock);
    struct npu_mr *mr = find(domain, key);
    if (mr && !mr->enabled)
        mr = NULL;
    if (mr)
        (void)atomic_fetch_add_explicit(&mr->holders, 1, memory_order_relaxed);
    npu_unlock(&domain->lock);
    return mr;
}

void npu_mr_drop(struct npu_mr *mr)
{
    /* release: partner is the acquire in mr_close */
    (void)atomic_fetch_sub_explicit(&mr->holders, 1, memory_order_release);
}

/* Give the registration its key and enter it; -FI_ENOKEY: the key asked for is taken. */
static int enter(struct npu_mr *mr, uint64_t requested)
{
    struct npu_domain *domain = mr->domain;
    int rc = 0;
    npu_lock(&domain->lock);
    if (provider_keys(domain)) {
        do
            requested = domain->next_key++;
        while (find(domain, requested));
    } else if (find(domain, requested)) {
        rc = -FI_ENOKEY;
    }
    if (rc == 0) {
        mr->fid.key = requested;
        hc_list_append(bucket_of(domain, requested), &mr->node);
    }
    npu_unlock(&domain->lock);
    return rc;
}

/* ---- The object ---- */

static int mr_close(struct fid *fid)
{
    struct npu_mr *mr = hc_container_of(fid, struct npu_mr, fid.fid);
    npu_lock(&mr->domain->lock);
    hc_list_remove(&mr->node);
    npu_unlock(&mr->domain->lock);
    /* Another thread may be copying, or a device. */
    while (atomic_load_explicit(&mr->holders, memory_order_acquire)) {
        npu_domain_settle(mr->domain);
        (void)sched_yield();
    }
    npu_dma_withdraw(mr);
    if (mr->ep)
        npu_put(&mr->ep->refs);
    if (mr->cntr)
        npu_put(&mr->cntr->refs);
    npu_put(&mr->domain->refs);
    free(mr);
    return 0;
}

static int bind_ep(struct npu_mr *mr, struct fid *other)
{
    struct npu_ep *ep = npu_ep_of(hc_container_of(other, struct fid_ep, fid));
    if (mr->ep || ep->domain != mr->domain)
        return mr->ep ? -FI_EINVAL : -FI_EDOMAIN;
    mr->ep = ep;
    npu_get(&ep->refs);
    return 0;
}

static int bind_cntr(struct npu_mr *mr, struct fid *other, uint64_t flags)
{
    if (flags != FI_REMOTE_WRITE)
        return -FI_EBADFLAGS;
    if (mr->cntr)
        return -FI_EINVAL;
    struct npu_cntr *cntr = hc_container_of(other, struct npu_cntr, fid.fid);
    if (cntr->domain != mr->domain)
        return -FI_EDOMAIN;
    int rc = npu_cntr_follow(cntr);
    if (rc < 0)
        return rc;
    mr->cntr = cntr;
    npu_get(&cntr->refs);
    return 0;
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct npu_mr *mr = hc_container_of(fid, struct npu_mr, fid.fid);
    switch (other->fclass) {
    case FI_CLASS_EP:
        return flags & ~FI_RMA_EVENT ? -FI_EBADFLAGS : bind_ep(mr, other);
    case FI_CLASS_CNTR:
        return bind_cntr(mr, other, flags);
    default:
        return -FI_EINVAL;
    }
}

static int enable(struct npu_mr *mr)
{
    if (bound_to_endpoints(mr->domain) && !mr->ep)
        return -FI_EOPBADSTATE;
    npu_lock(&mr->domain->lock);
    mr->enabled = true;
    npu_unlock(&mr->domain->lock);
    return 0;
}

static int raw_attr(struct npu_mr *mr, struct fi_mr_raw_attr *attr)
{
    size_t room = *attr->key_size;
    *attr->key_size = sizeof(mr->fid.key);
    if (room < sizeof(mr->fid.key))
        return -FI_ETOOSMALL;
    memcpy(attr->raw_key, &mr->fid.key, sizeof(mr->fid.key));
    *attr->base_addr = mr->base;
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    struct npu_mr *mr = hc_container_of(fid, struct npu_mr, fid.fid);
    switch (command) {
    case FI_ENABLE:
        return enable(mr);
    case FI_REFRESH:
        return 0; /* pages are looked up at each access */
    case FI_GET_RAW_MR:
        return raw_attr(mr, arg);
    default:
        return -FI_ENOSYS;
    }
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(mr_fid_ops),
    .close = mr_close,
    .bind = mr_bind,
    .control = mr_control,
    .ops_open = npu_no_ops_open,
};

/* ---- Registration ---- */

static int check(const struct npu_domain *domain, const struct fi_mr_attr *attr, uint64_t flags)
{
    if (flags & ~(FI_RMA_EVENT | FI_RMA_PMEM | FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC))
        return -FI_EBADFLAGS;
    if (!attr->mr_iov || attr->iov_count == 0 || attr->iov_count > NPU_IOV_LIMIT || attr->offset)
        return -FI_EINVAL;
    if (attr->access & ~all_access)
        return -FI_EINVAL;
    if (attr->auth_key_size)
        return -FI_EINVAL;
    if (attr->iface != FI_HMEM_SYSTEM &&
        (!(domain->caps & FI_HMEM) || attr->iface != (enum fi_hmem_iface)NPU_HMEM_IFACE))
        return -FI_EOPNOTSUPP;
    return 0;
}

enum { ON_HOST = -1, NOWHERE = -2 };

/* A pointer that neither the device runtime nor the host knows was device memory once. */
static bool host_knows(const void *ptr)
{
    char byte;
    const struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)ptr, 1};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

/* The device that an address belongs to, ON_HOST, or NOWHERE. */
static int device_of(const struct hc_acl *acl, const void *ptr)
{
    struct hc_acl_pointer_attributes about = {{0, HC_ACL_MEMORY_UNREGISTERED}, 0, {0}};
    if (acl->aclrtPointerGetAttributes(ptr, &about) != HC_ACL_OK)
        return host_knows(ptr) ? ON_HOST : NOWHERE;
    return about.location.type == HC_ACL_MEMORY_DEVICE ? (int)about.location.id : ON_HOST;
}

/* Which device the memory is on: both ends of all pieces must agree with each other, and with what was said.
 */
static int identify(struct npu_mr *mr, const struct fi_mr_attr *attr)
{
    const struct hc_acl *acl = mr->domain->caps & FI_HMEM ? npu_device_runtime() : NULL;
    bool named = attr->iface == (enum fi_hmem_iface)NPU_HMEM_IFACE, first = true;
    mr->device = ON_HOST;
    if (!acl)
        return named ? -FI_ENODEV : 0;
    for (unsigned i = 0; i < mr->iov_count; i++) {
        char *start = mr->iov[i].iov_base, *last = start + mr->iov[i].iov_len - 1;
        if (!mr->iov[i].iov_len)
            continue;
        if (first)
            mr->device = device_of(acl, start);
        first = false;
        if (mr->device == NOWHERE || device_of(acl, start) != mr->device ||
            device_of(acl, last) != mr->device)
            return -FI_EINVAL;
    }
    return named && (mr->device < 0 || attr->device.reserved != (uint64_t)mr->device) ? -FI_EINVAL : 0;
}

static int fill(struct npu_mr *mr, const struct fi_mr_attr *attr)
{
    memcpy(mr->iov, attr->mr_iov, attr->iov_count * sizeof(*attr->mr_iov));
    mr->iov_count = (unsigned)attr->iov_count;
    if (!npu_iov_len(mr->iov, mr->iov_count, &mr->len) || mr->len == 0)
        return -FI_EINVAL;
    mr->access = attr->access;
    mr->iface = attr->iface;
    int rc = identify(mr, attr);
    if (rc < 0)
        return rc;
    mr->base = virtual_addresses(mr->domain) ? (uintptr_t)mr->iov[0].iov_base : 0;
    /* Several ranges have no common virtual address. */
    return mr->iov_count > 1 && virtual_addresses(mr->domain) ? -FI_EINVAL : 0;
}

static void report(struct npu_mr *mr, void *context)
{
    struct npu_domain *domain = mr->domain;
    if (!domain->mr_events)
        return;
    struct fi_eq_entry entry = {.fid = &mr->fid.fid, .context = context};
    npu_eq_report(domain->eq, FI_MR_COMPLETE, &entry, sizeof(entry));
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
    struct npu_domain *domain = hc_container_of(fid, struct npu_domain, fid.fid);
    if (fid->fclass != FI_CLASS_DOMAIN || !attr)
        return -FI_EINVAL;
    int rc = check(domain, attr, flags);
    if (rc < 0)
        return rc;
    struct npu_mr *made = calloc(1, sizeof(*made));
    if (!made)
        return -FI_ENOMEM;
    made->domain = domain;
    made->enabled = !bound_to_endpoints(domain);
    rc = fill(made, attr);
    if (rc == 0)
        rc = enter(made, attr->requested_key);
    if (rc < 0) {
        free(made);
        return rc;
    }
    npu_get(&domain->refs);
    made->fid.fid.fclass = FI_CLASS_MR;
    made->fid.fid.context = attr->context;
    made->fid.fid.ops = &mr_fid_ops;
    made->fid.mem_desc = made;
    *mr = &made->fid;
    report(made, attr->context);
    return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
                   uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct fi_mr_attr attr = {
        .mr_iov = iov,
        .iov_count = count,
        .access = access,
        .offset = offset,
        .requested_key = requested_key,
        .context = context,
    };
    return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr npu_mr_ops = {
    .size = sizeof(npu_mr_ops),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};
