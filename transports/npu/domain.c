#include "transports/npu/dma.h"
#include "transports/npu/rma.h"

#include <stdlib.h>

static int domain_close(struct fid *fid)
{
    struct npu_domain *domain = hc_container_of(fid, struct npu_domain, fid.fid);
    if (npu_in_use(&domain->refs))
        return -FI_EBUSY;
    npu_dma_fini(domain);
    npu_mr_table_fini(domain);
    if (domain->eq)
        npu_put(&domain->eq->refs);
    npu_put(&domain->fabric->refs);
    free(domain);
    return 0;
}

/* ---- Members ---- */

static struct npu_hub *hub_of(struct hc_list *follower)
{
    return &hc_list_entry(follower, struct npu_cntr, follow_node)->hub;
}

int npu_domain_join(struct npu_domain *domain, struct npu_ep *ep)
{
    struct hc_list *node;
    int rc = 0;
    npu_lock(&domain->members_lock);
    hc_list_append(&domain->eps, &ep->domain_node);
    for (node = domain->followers.next; node != &domain->followers && rc == 0; node = node->next)
        rc = npu_hub_add(hub_of(node), ep);
    npu_unlock(&domain->members_lock);
    return rc;
}

void npu_domain_settle(struct npu_domain *domain)
{
    struct hc_list *node;
    npu_lock(&domain->members_lock);
    hc_list_for_each(node, &domain->eps)
    {
        struct npu_ep *ep = hc_list_entry(node, struct npu_ep, domain_node);
        npu_lock(&ep->lock);
        npu_net_settle(ep);
        npu_unlock(&ep->lock);
    }
    npu_unlock(&domain->members_lock);
}

void npu_domain_leave(struct npu_domain *domain, struct npu_ep *ep)
{
    struct hc_list *node;
    npu_lock(&domain->members_lock);
    hc_list_remove(&ep->domain_node);
    hc_list_for_each(node, &domain->followers) npu_hub_remove(hub_of(node), ep);
    npu_unlock(&domain->members_lock);
}

int npu_cntr_follow(struct npu_cntr *cntr)
{
    struct npu_domain *domain = cntr->domain;
    struct hc_list *node;
    int rc = 0;
    npu_lock(&domain->members_lock);
    if (hc_list_empty(&cntr->follow_node)) {
        for (node = domain->eps.next; node != &domain->eps && rc == 0; node = node->next)
            rc = npu_hub_add(&cntr->hub, hc_list_entry(node, struct npu_ep, domain_node));
        hc_list_append(&domain->followers, &cntr->follow_node);
    }
    npu_unlock(&domain->members_lock);
    return rc;
}

void npu_cntr_unfollow(struct npu_cntr *cntr)
{
    npu_lock(&cntr->domain->members_lock);
    hc_list_remove(&cntr->follow_node);
    npu_unlock(&cntr->domain->members_lock);
}

static int domain_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct npu_domain *domain = hc_container_of(fid, struct npu_domain, fid.fid);
    if (flags & ~FI_REG_MR)
        return -FI_EBADFLAGS;
    if (other->fclass != FI_CLASS_EQ || domain->eq)
        return -FI_EINVAL;
    domain->eq = hc_container_of(other, struct npu_eq, fid.fid);
    domain->mr_events = flags & FI_REG_MR;
    npu_get(&domain->eq->refs);
    return 0;
}

static int no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context)
{
    (void)domain, (void)info, (void)sep, (void)context;
    return -FI_ENOSYS;
}

static int no_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
    (void)domain, (void)attr, (void)stx, (void)context;
    return -FI_ENOSYS;
}

static int no_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context)
{
    (void)domain, (void)attr, (void)rx_ep, (void)context;
    return -FI_ENOSYS;
}

static int no_collective(struct fid_domain *domain, enum fi_collective_op op, struct fi_collective_attr *attr,
                         uint64_t flags)
{
    (void)domain, (void)op, (void)attr, (void)flags;
    return -FI_EOPNOTSUPP;
}

static int endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags,
                     void *context)
{
    return flags ? -FI_EBADFLAGS : npu_ep_open(domain, info, ep, context);
}

static struct fi_ops domain_fid_ops = {
    .size = sizeof(domain_fid_ops),
    .close = domain_close,
    .bind = domain_bind,
    .control = npu_no_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = npu_av_open,
    .cq_open = npu_cq_open,
    .endpoint = npu_ep_open,
    .scalable_ep = no_scalable_ep,
    .cntr_open = npu_cntr_open,
    .poll_open = npu_poll_open,
    .stx_ctx = no_stx,
    .srx_ctx = no_srx,
    .query_atomic = npu_query_atomic,
    .query_collective = no_collective,
    .endpoint2 = endpoint2,
};

int npu_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                    void *context)
{
    int device = -1;
    if (!info || !info->domain_attr)
        return -FI_EINVAL;
    int rc = npu_info_check(info);
    if (rc == 0)
        rc = npu_info_device(info->domain_attr->name, &device);
    if (rc < 0)
        return rc;
    struct npu_domain *made = calloc(1, sizeof(*made));
    if (!made)
        return -FI_ENOMEM;
    enum fi_threading threading = info->domain_attr->threading;
    made->serial = threading == FI_THREAD_DOMAIN;
    made->lock.off = made->members_lock.off = made->serial;
    hc_list_init(&made->eps);
    hc_list_init(&made->followers);
    made->fabric = hc_container_of(fabric, struct npu_fabric, fid);
    made->caps = info->caps;
    made->mr_mode = info->domain_attr->mr_mode;
    made->format = info->addr_format;
    made->device = device;
    made->direct_copy = made->shared_memory = true;
    (void)fi_param_get_bool(&npu_provider, "direct_copy", &made->direct_copy);
    (void)fi_param_get_bool(&npu_provider, "shared_memory", &made->shared_memory);
    rc = npu_mr_table_init(made);
    if (rc < 0) {
        free(made);
        return rc;
    }
    made->fid.fid.fclass = FI_CLASS_DOMAIN;
    made->fid.fid.context = context;
    made->fid.fid.ops = &domain_fid_ops;
    made->fid.ops = &domain_ops;
    made->fid.mr = &npu_mr_ops;
    npu_get(&made->fabric->refs);
    *domain = &made->fid;
    return 0;
}
