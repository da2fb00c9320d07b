#include "transports/npu/rma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct npu_port *port_of(struct fid *fid)
{
    return hc_container_of(fid, struct npu_port, fid.fid);
}

static bool is_alias(const struct npu_port *port)
{
    return port != &port->ep->port;
}

/* ---- Binding ---- */

static int bind_av(struct npu_ep *ep, struct npu_av *av, uint64_t flags)
{
    if (flags)
        return -FI_EBADFLAGS;
    if (ep->av)
        return -FI_EINVAL;
    if (av->domain != ep->domain)
        return -FI_EDOMAIN;
    ep->av = av;
    npu_get(&av->refs);
    npu_lock(&av->eps_lock);
    hc_list_append(&av->eps, &ep->av_node);
    npu_unlock(&av->eps_lock);
    return 0;
}

static int bind_cq(struct npu_ep *ep, struct npu_cq *cq, uint64_t flags)
{
    if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION))
        return -FI_EBADFLAGS;
    if (!(flags & (FI_TRANSMIT | FI_RECV)))
        return -FI_EBADFLAGS;
    if (cq->domain != ep->domain)
        return -FI_EDOMAIN;
    if (((flags & FI_TRANSMIT) && ep->tx_cq) || ((flags & FI_RECV) && ep->rx_cq))
        return -FI_EINVAL;
    int rc = npu_hub_add(&cq->hub, ep);
    if (rc < 0)
        return rc;
    if (flags & FI_TRANSMIT) {
        ep->tx_cq = cq;
        ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
        npu_get(&cq->refs);
    }
    if (flags & FI_RECV) {
        ep->rx_cq = cq;
        ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
        npu_get(&cq->refs);
    }
    return 0;
}

static const uint64_t cntr_flags[NPU_CNTR_USES] = {
    [NPU_CNTR_SEND] = FI_SEND,
    [NPU_CNTR_RECV] = FI_RECV,
    [NPU_CNTR_READ] = FI_READ,
    [NPU_CNTR_WRITE] = FI_WRITE,
    [NPU_CNTR_REMOTE_READ] = FI_REMOTE_READ,
    [NPU_CNTR_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

static int check_cntr(const struct npu_ep *ep, const struct npu_cntr *cntr, uint64_t flags)
{
    uint64_t known = 0;
    for (int use = 0; use < NPU_CNTR_USES; use++) {
        known |= cntr_flags[use];
        if ((flags & cntr_flags[use]) && ep->cntr[use])
            return -FI_EINVAL;
    }
    if (!flags || (flags & ~known))
        return -FI_EBADFLAGS;
    return cntr->domain == ep->domain ? 0 : -FI_EDOMAIN;
}

static int bind_cntr(struct npu_ep *ep, struct npu_cntr *cntr, uint64_t flags)
{
    int rc = check_cntr(ep, cntr, flags);
    if (rc == 0)
        rc = npu_hub_add(&cntr->hub, ep);
    for (int use = 0; use < NPU_CNTR_USES && rc == 0; use++) {
        if (!(flags & cntr_flags[use]))
            continue;
        ep->cntr[use] = cntr;
        npu_get(&cntr->refs);
    }
    return rc;
}

static int bind_eq(struct npu_ep *ep, struct npu_eq *eq, uint64_t flags)
{
    if (flags)
        return -FI_EBADFLAGS;
    if (ep->eq)
        return -FI_EINVAL;
    ep->eq = eq;
    npu_get(&eq->refs);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct npu_ep *ep = port_of(fid)->ep;
    if (ep->enabled || is_alias(port_of(fid)))
        return -FI_EOPBADSTATE;
    switch (other->fclass) {
    case FI_CLASS_AV:
        return bind_av(ep, hc_container_of(other, struct npu_av, fid.fid), flags);
    case FI_CLASS_CQ:
        return bind_cq(ep, hc_container_of(other, struct npu_cq, fid.fid), flags);
    case FI_CLASS_CNTR:
        return bind_cntr(ep, hc_container_of(other, struct npu_cntr, fid.fid), flags);
    case FI_CLASS_EQ:
        return bind_eq(ep, hc_container_of(other, struct npu_eq, fid.fid), flags);
    default:
        return -FI_EINVAL;
    }
}

static void unbind_all(struct npu_ep *ep)
{
    if (ep->av) {
        npu_lock(&ep->av->eps_lock);
        hc_list_remove(&ep->av_node);
        npu_unlock(&ep->av->eps_lock);
        npu_put(&ep->av->refs);
    }
    struct npu_cq *cqs[] = {ep->tx_cq, ep->rx_cq};
    for (size_t i = 0; i < hc_array_len(cqs); i++) {
        if (!cqs[i])
            continue;
        npu_hub_remove(&cqs[i]->hub, ep);
        npu_put(&cqs[i]->refs);
    }
    for (int use = 0; use < NPU_CNTR_USES; use++) {
        if (!ep->cntr[use])
            continue;
        npu_hub_remove(&ep->cntr[use]->hub, ep);
        npu_put(&ep->cntr[use]->refs);
    }
    if (ep->eq)
        npu_put(&ep->eq->refs);
}

/* ---- Enabling ---- */

static int enable(struct npu_ep *ep)
{
    bool sends = ep->caps & FI_SEND, receives = ep->caps & FI_RECV;
    if (ep->enabled)
        return 0;
    if (!ep->av)
        return -FI_ENOAV;
    bool counted = ep->cntr[NPU_CNTR_SEND] || ep->cntr[NPU_CNTR_READ] || ep->cntr[NPU_CNTR_WRITE];
    if ((sends && !ep->tx_cq && !counted) || (receives && !ep->rx_cq && !ep->cntr[NPU_CNTR_RECV]))
        return -FI_ENOCQ;
    npu_lock(&ep->lock);
    int rc = npu_local_open(ep);
    if (rc == 0 && (ep->caps & FI_REMOTE_COMM) && !npu_addr_is_loopback(&ep->addr))
        rc = npu_net_open(ep);
    if (rc < 0)
        npu_local_close(ep);
    ep->enabled = rc == 0;
    npu_ep_meet_all(ep);
    npu_unlock(&ep->lock);
    return rc;
}

/* ---- Control, options ---- */

static int get_flags(const struct npu_port *port, uint64_t *flags)
{
    switch (*flags & (FI_TRANSMIT | FI_RECV)) {
    case FI_TRANSMIT:
        *flags = port->tx_flags;
        return 0;
    case FI_RECV:
        *flags = port->rx_flags;
        return 0;
    default:
        return -FI_EINVAL;
    }
}

static int set_flags(struct npu_port *port, uint64_t flags)
{
    uint64_t way = flags & (FI_TRANSMIT | FI_RECV);
    flags &= ~way;
    if (way == FI_TRANSMIT && npu_info_tx_flags(flags))
        port->tx_flags = flags;
    else if (way == FI_RECV && npu_info_rx_flags(flags))
        port->rx_flags = flags;
    else
        return way == FI_TRANSMIT || way == FI_RECV ? -FI_EBADFLAGS : -FI_EINVAL;
    return 0;
}

static int make_alias(struct npu_port *port, struct fi_alias *alias)
{
    struct npu_port *made = malloc(sizeof(*made));
    if (!made)
        return -FI_ENOMEM;
    *made = *port;
    int rc = alias->flags ? set_flags(made, alias->flags) : 0;
    if (rc < 0) {
        free(made);
        return rc;
    }
    npu_get(&port->ep->refs);
    *alias->fid = &made->fid.fid;
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct npu_port *port = port_of(fid);
    switch (command) {
    case FI_ENABLE:
        return enable(port->ep);
    case FI_GETOPSFLAG:
        return arg ? get_flags(port, arg) : -FI_EINVAL;
    case FI_SETOPSFLAG:
        return arg ? set_flags(port, *(uint64_t *)arg) : -FI_EINVAL;
    case FI_ALIAS:
        return arg ? make_alias(port, arg) : -FI_EINVAL;
    default:
        return -FI_ENOSYS;
    }
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct npu_ep *ep = port_of(fid)->ep;
    if (level != FI_OPT_ENDPOINT || optname != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (!optval || !optlen)
        return -FI_EINVAL;
    size_t room = *optlen;
    *optlen = sizeof(ep->min_multi_recv);
    if (room < sizeof(ep->min_multi_recv))
        return -FI_ETOOSMALL;
    memcpy(optval, &ep->min_multi_recv, sizeof(ep->min_multi_recv));
    return 0;
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct npu_ep *ep = port_of(fid)->ep;
    if (level != FI_OPT_ENDPOINT || optname != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (!optval || optlen != sizeof(ep->min_multi_recv))
        return -FI_EINVAL;
    npu_lock(&ep->lock);
    memcpy(&ep->min_multi_recv, optval, sizeof(ep->min_multi_recv));
    npu_unlock(&ep->lock);
    return 0;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    struct npu_ep *ep = port_of(fid)->ep;
    npu_lock(&ep->lock);
    if (ep->enabled && !npu_recv_cancel(ep, context))
        npu_send_cancel(ep, context);
    npu_unlock(&ep->lock);
    return 0;
}

static ssize_t rx_size_left(struct fid_ep *fid)
{
    struct npu_ep *ep = npu_ep_of(fid);
    npu_lock(&ep->lock);
    ssize_t left = ep->enabled ? (ssize_t)(ep->rx_size - ep->rx_count) : -FI_EOPBADSTATE;
    npu_unlock(&ep->lock);
    return left;
}

static ssize_t tx_size_left(struct fid_ep *fid)
{
    struct npu_ep *ep = npu_ep_of(fid);
    npu_lock(&ep->lock);
    ssize_t left = ep->enabled ? (ssize_t)(ep->tx_size - ep->tx_count) : -FI_EOPBADSTATE;
    npu_unlock(&ep->lock);
    return left;
}

static int no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep,
                     void *context)
{
    (void)sep, (void)index, (void)attr, (void)ep, (void)context;
    return -FI_ENOSYS;
}

static int no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep,
                     void *context)
{
    (void)sep, (void)index, (void)attr, (void)ep, (void)context;
    return -FI_ENOSYS;
}

/* ---- Names ---- */

static int cm_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct npu_ep *ep = port_of(fid)->ep;
    size_t len = npu_addr_len(&ep->addr), room = *addrlen;
    *addrlen = len;
    if (addr)
        memcpy(addr, &ep->addr, room < len ? room : len);
    return room < len ? -FI_ETOOSMALL : 0;
}

static int cm_setname(fid_t fid, void *addr, size_t addrlen)
{
    struct npu_ep *ep = port_of(fid)->ep;
    struct npu_addr name;
    if (ep->enabled)
        return -FI_EOPBADSTATE;
    int rc = npu_addr_copy(addr, addrlen, &name);
    if (rc < 0)
        return rc;
    if (npu_addr_format(&name) != npu_addr_format(&ep->addr))
        return -FI_EINVAL;
    if (!npu_addr_is_local(&name))
        return -FI_EADDRNOTAVAIL;
    ep->addr = name;
    return 0;
}

static int no_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    (void)ep, (void)addr, (void)addrlen;
    return -FI_ENOSYS;
}

static int no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    (void)ep, (void)addr, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int no_listen(struct fid_pep *pep)
{
    (void)pep;
    return -FI_ENOSYS;
}

static int no_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    (void)ep, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    (void)pep, (void)handle, (void)param, (void)paramlen;
    return -FI_ENOSYS;
}

static int no_shutdown(struct fid_ep *ep, uint64_t flags)
{
    (void)ep, (void)flags;
    return -FI_ENOSYS;
}

static int no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
    (void)ep, (void)addr, (void)flags, (void)mc, (void)context;
    return -FI_ENOSYS;
}

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = cm_setname,
    .getname = cm_getname,
    .getpeer = no_getpeer,
    .connect = no_connect,
    .listen = no_listen,
    .accept = no_accept,
    .reject = no_reject,
    .shutdown = no_shutdown,
    .join = no_join,
};

/* ---- Descriptors ---- */

int npu_ep_watch(struct npu_ep *ep, struct npu_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = watch};
    return epoll_ctl(ep->epoll, EPOLL_CTL_ADD, watch->fd, &event) < 0 ? -errno : 0;
}

void npu_ep_unwatch(struct npu_ep *ep, struct npu_watch *watch)
{
    if (epoll_ctl(ep->epoll, EPOLL_CTL_DEL, watch->fd, NULL) < 0)
        npu_warn(EP_CTRL, "epoll_ctl: %s\n", strerror(errno));
}

/* ---- Life ---- */

static void ep_destroy(struct npu_ep *ep)
{
    npu_net_close(ep);
    npu_local_close(ep);
    npu_recv_fini(ep);
    npu_send_fini(ep);
    if (ep->epoll >= 0)
        (void)close(ep->epoll);
    free(ep->peers);
    free(ep);
}

static int ep_close(struct fid *fid)
{
    struct npu_port *port = port_of(fid);
    struct npu_ep *ep = port->ep;
    if (is_alias(port)) {
        npu_put(&ep->refs);
        free(port);
        return 0;
    }
    if (npu_in_use(&ep->refs))
        return -FI_EBUSY;
    npu_domain_leave(ep->domain, ep);
    unbind_all(ep); /* from here on no other thread comes by */
    npu_put(&ep->domain->refs);
    ep_destroy(ep);
    return 0;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(ep_fid_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_ep ep_ops = {
    .size = sizeof(ep_ops),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = no_tx_ctx,
    .rx_ctx = no_rx_ctx,
    .rx_size_left = rx_size_left,
    .tx_size_left = tx_size_left,
};

static size_t or_default(size_t wanted, size_t usual)
{
    return wanted ? wanted : usual;
}

/* Take over what fi_info asks for. */
static int configure(struct npu_ep *ep, const struct fi_info *info)
{
    int rc = 0;
    ep->caps = npu_info_full_caps(info->caps);
    ep->tx_size = or_default(info->tx_attr ? info->tx_attr->size : 0, NPU_DEFAULT_QUEUE);
    ep->rx_size = or_default(info->rx_attr ? info->rx_attr->size : 0, NPU_DEFAULT_QUEUE);
    ep->min_multi_recv = NPU_MIN_MULTI_RECV;
    ep->port.tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
    ep->port.rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
    if (info->src_addr)
        rc = npu_addr_copy(info->src_addr, info->src_addrlen, &ep->addr);
    else
        npu_addr_default(info->addr_format, &ep->addr);
    return rc;
}

static int allocate(struct npu_ep *ep)
{
    ep->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (ep->epoll < 0)
        return -errno;
    int rc = npu_send_init(ep);
    return rc == 0 ? npu_recv_init(ep) : rc;
}

int npu_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context)
{
    struct npu_domain *domain = hc_container_of(fid, struct npu_domain, fid);
    int rc = info ? npu_info_check(info) : -FI_EINVAL;
    if (rc < 0)
        return rc;
    struct npu_ep *made = calloc(1, sizeof(*made));
    if (!made)
        return -FI_ENOMEM;
    made->epoll = -1;
    made->domain = domain;
    made->lock.off = domain->serial;
    hc_list_init(&made->av_node);
    hc_list_init(&made->workers);
    npu_ep_init_lists(made);
    made->port.ep = made;
    made->port.fid.fid.fclass = FI_CLASS_EP;
    made->port.fid.fid.context = context;
    made->port.fid.fid.ops = &ep_fid_ops;
    made->port.fid.ops = &ep_ops;
    made->port.fid.cm = &cm_ops;
    made->port.fid.msg = &npu_msg_ops;
    made->port.fid.tagged = &npu_tagged_ops;
    made->port.fid.rma = &npu_rma_ops;
    made->port.fid.atomic = &npu_atomic_ops;
    hc_list_init(&made->domain_node);
    rc = configure(made, info);
    if (rc == 0)
        rc = allocate(made);
    if (rc == 0)
        rc = npu_domain_join(domain, made);
    if (rc < 0) {
        npu_domain_leave(domain, made);
        ep_destroy(made);
        return rc;
    }
    npu_get(&domain->refs);
    *ep = &made->port.fid;
    return 0;
}
