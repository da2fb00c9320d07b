/*
 * fi_getinfo: what the provider offers (one struct fi_info per domain), and which of it the hints leave.
 */
#include "transports/npu/device.h"
#include "transports/npu/ep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = 8, DATA_SIZE = 8, MANY = 65536 };

/* Capabilities: what must be asked for, what narrows it, what comes for nothing, and what costs. */
static const uint64_t primary_caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV;
static const uint64_t message_ways = FI_SEND | FI_RECV;
static const uint64_t memory_ways = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
static const uint64_t free_caps = FI_MULTI_RECV | FI_LOCAL_COMM | FI_FENCE;
static const uint64_t costly_caps = FI_SOURCE | FI_SOURCE_ERR | FI_AV_USER_ID | FI_RMA_EVENT;

static const uint64_t tx_caps =
    FI_HMEM | FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
static const uint64_t rx_caps = FI_HMEM | FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RECV | FI_REMOTE_READ |
                                FI_REMOTE_WRITE | FI_RMA_EVENT | FI_DIRECTED_RECV | FI_MULTI_RECV |
                                FI_SOURCE | FI_SOURCE_ERR | FI_AV_USER_ID;
static const uint64_t domain_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;

static const uint64_t tx_flags =
    FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
static const uint64_t rx_flags = FI_COMPLETION | FI_MULTI_RECV;
/* Requests and messages are taken in order, and a request is served before what follows is looked at. */
static const uint64_t msg_order = FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW |
                                  FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |
                                  FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |
                                  FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

bool npu_info_tx_flags(uint64_t flags)
{
    return !(flags & ~tx_flags);
}

bool npu_info_rx_flags(uint64_t flags)
{
    return !(flags & ~rx_flags);
}

/* ---- Which hints can be met. Each function tells in the log what it misses ---- */

static bool none_but(const char *what, uint64_t wanted, uint64_t offered)
{
    if ((wanted & ~offered) == 0)
        return true;
    npu_info(CORE, "%s: 0x%llx is not offered\n", what, (unsigned long long)(wanted & ~offered));
    return false;
}

static bool at_most(const char *what, size_t wanted, size_t limit)
{
    if (wanted <= limit)
        return true;
    npu_info(CORE, "%s: %zu asked for, at most %zu offered\n", what, wanted, limit);
    return false;
}

static bool is_name(const char *what, const char *wanted, const char *name)
{
    if (!wanted || strcmp(wanted, name) == 0)
        return true;
    npu_info(CORE, "%s is %s, not %s\n", what, name, wanted);
    return false;
}

static uint64_t all_caps(void)
{
    return FI_HMEM | primary_caps | message_ways | memory_ways | free_caps | costly_caps | FI_REMOTE_COMM;
}

static bool reach_fits(const struct fi_info *hints)
{
    uint64_t asked = hints->caps | (hints->domain_attr ? hints->domain_attr->caps : 0);
    if (!(asked & FI_REMOTE_COMM) || npu_net_available())
        return true;
    npu_info(CORE, "FI_REMOTE_COMM: the provider that FI_NPU_NET_PROVIDER names is not there\n");
    return false;
}

static bool tx_fits(const struct fi_tx_attr *tx, uint64_t caps)
{
    if (!tx)
        return true;
    return none_but("transmit capabilities", tx->caps, caps ? caps : all_caps()) &&
           none_but("transmit flags", tx->op_flags, tx_flags) &&
           none_but("transmit message order", tx->msg_order, msg_order) &&
           none_but("transmit completion order", tx->comp_order, FI_ORDER_NONE) &&
           at_most("inject_size", tx->inject_size, NPU_INJECT_MAX) &&
           at_most("transmit size", tx->size, NPU_MAX_QUEUE) &&
           at_most("iov_limit", tx->iov_limit, NPU_IOV_LIMIT) &&
           at_most("rma_iov_limit", tx->rma_iov_limit, NPU_IOV_LIMIT);
}

static bool rx_fits(const struct fi_rx_attr *rx, uint64_t caps)
{
    if (!rx)
        return true;
    return none_but("receive capabilities", rx->caps, caps ? caps : all_caps()) &&
           none_but("receive flags", rx->op_flags, rx_flags) &&
           none_but("receive message order", rx->msg_order, msg_order) &&
           none_but("receive completion order", rx->comp_order, FI_ORDER_NONE) &&
           at_most("total_buffered_recv", rx->total_buffered_recv, 0) &&
           at_most("receive size", rx->size, NPU_MAX_QUEUE) &&
           at_most("iov_limit", rx->iov_limit, NPU_IOV_LIMIT);
}

static bool ep_fits(const struct fi_ep_attr *ep)
{
    if (!ep)
        return true;
    if (ep->type != FI_EP_UNSPEC && ep->type != FI_EP_RDM) {
        npu_info(CORE, "only reliable datagram endpoints are offered\n");
        return false;
    }
    if (ep->protocol != FI_PROTO_UNSPEC && ep->protocol != NPU_PROTOCOL) {
        npu_info(CORE, "protocol 0x%x is not offered\n", ep->protocol);
        return false;
    }
    return at_most("protocol_version", ep->protocol_version, NPU_PROTOCOL_VERSION) &&
           at_most("max_msg_size", ep->max_msg_size, NPU_MAX_MSG_SIZE) &&
           at_most("msg_prefix_size", ep->msg_prefix_size, 0) &&
           at_most("max_order_raw_size", ep->max_order_raw_size, NPU_MAX_MSG_SIZE) &&
           at_most("max_order_war_size", ep->max_order_war_size, NPU_MAX_MSG_SIZE) &&
           at_most("max_order_waw_size", ep->max_order_waw_size, NPU_MAX_MSG_SIZE) &&
           at_most("tx_ctx_cnt", ep->tx_ctx_cnt, 1) && at_most("rx_ctx_cnt", ep->rx_ctx_cnt, 1) &&
           at_most("auth_key_size", ep->auth_key_size, 0);
}

static bool mr_mode_fits(int mode)
{
    int exclusive = FI_MR_BASIC | FI_MR_SCALABLE;
    if (!(mode & exclusive) || mode == FI_MR_BASIC || mode == FI_MR_SCALABLE)
        return true;
    npu_info(CORE, "FI_MR_BASIC and FI_MR_SCALABLE stand alone\n");
    return false;
}

static bool progress_fits(const char *what, enum fi_progress wanted, enum fi_progress offered)
{
    /* Manual progress is asked of the application; automatic progress serves it as well. */
    if (wanted == FI_PROGRESS_UNSPEC || wanted == FI_PROGRESS_MANUAL || wanted == offered)
        return true;
    npu_info(CORE, "%s progress is manual\n", what);
    return false;
}

static bool domain_fits(const struct fi_domain_attr *domain)
{
    if (!domain)
        return true;
    if (domain->av_type > FI_AV_TABLE || domain->threading > FI_THREAD_ENDPOINT ||
        domain->resource_mgmt > FI_RM_ENABLED)
        return false;
    return progress_fits("control", domain->control_progress, FI_PROGRESS_AUTO) &&
           progress_fits("data", domain->data_progress, FI_PROGRESS_MANUAL) &&
           mr_mode_fits(domain->mr_mode) && at_most("mr_key_size", domain->mr_key_size, KEY_SIZE) &&
           at_most("cq_data_size", domain->cq_data_size, DATA_SIZE) &&
           at_most("cq_cnt", domain->cq_cnt, MANY) && at_most("ep_cnt", domain->ep_cnt, MANY) &&
           at_most("tx_ctx_cnt", domain->tx_ctx_cnt, MANY) &&
           at_most("rx_ctx_cnt", domain->rx_ctx_cnt, MANY) &&
           at_most("max_ep_tx_ctx", domain->max_ep_tx_ctx, 1) &&
           at_most("max_ep_rx_ctx", domain->max_ep_rx_ctx, 1) &&
           at_most("max_ep_stx_ctx", domain->max_ep_stx_ctx, 0) &&
           at_most("max_ep_srx_ctx", domain->max_ep_srx_ctx, 0) &&
           at_most("cntr_cnt", domain->cntr_cnt, MANY) &&
           at_most("mr_iov_limit", domain->mr_iov_limit, NPU_IOV_LIMIT) &&
           at_most("mr_cnt", domain->mr_cnt, MANY) &&
           at_most("max_err_data", domain->max_err_data, NPU_ERR_DATA_MAX) &&
           at_most("auth_key_size", domain->auth_key_size, 0) &&
           none_but("domain capabilities", domain->caps, domain_caps);
}

static bool format_fits(uint32_t format)
{
    if (format == FI_FORMAT_UNSPEC || format == FI_SOCKADDR || format == FI_SOCKADDR_IN ||
        format == FI_SOCKADDR_IN6)
        return true;
    npu_info(CORE, "address format %u is not offered\n", format);
    return false;
}

static bool fabric_fits(const struct fi_fabric_attr *fabric)
{
    return !fabric || is_name("the fabric", fabric->name, NPU_NAME);
}

static bool hints_fit(const struct fi_info *hints)
{
    if (!hints)
        return true;
    return none_but("capabilities", hints->caps, all_caps()) && format_fits(hints->addr_format) &&
           reach_fits(hints) && tx_fits(hints->tx_attr, hints->caps) &&
           rx_fits(hints->rx_attr, hints->caps) && ep_fits(hints->ep_attr) &&
           domain_fits(hints->domain_attr) && fabric_fits(hints->fabric_attr);
}

int npu_info_check(const struct fi_info *info)
{
    return hints_fit(info) ? 0 : -FI_EINVAL;
}

int npu_info_device(const char *name, int *device)
{
    char text[16];
    if (!name || strcmp(name, NPU_HOST_NAME) == 0) {
        *device = -1;
        return 0;
    }
    unsigned count = npu_device_count();
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(text, sizeof(text), NPU_NAME "%u", i);
        if (strcmp(name, text) == 0) {
            *device = (int)i;
            return 0;
        }
    }
    return -FI_ENODEV;
}

/* ---- The answer ---- */

uint64_t npu_info_full_caps(uint64_t caps)
{
    if ((caps & (FI_MSG | FI_TAGGED)) && !(caps & message_ways))
        caps |= message_ways;
    if ((caps & (FI_RMA | FI_ATOMIC)) && !(caps & memory_ways))
        caps |= memory_ways;
    return caps;
}

/* Device memory is for applications that register it (FI_MR_HMEM), in a domain with a device. */
static bool offers_hmem(const struct fi_info *hints, int device)
{
    int mode = hints && hints->domain_attr ? hints->domain_attr->mr_mode : 0;
    return device >= 0 && (mode & FI_MR_HMEM);
}

static uint64_t answer_caps(const struct fi_info *hints, int device)
{
    uint64_t extra = offers_hmem(hints, device) ? FI_HMEM : 0;
    uint64_t asked = hints ? hints->caps : 0;
    /* Listening for other hosts costs time: not for those who ask for this host only. */
    bool anywhere = (asked & FI_REMOTE_COMM) || !(asked & FI_LOCAL_COMM);
    if (anywhere && npu_net_available())
        extra |= FI_REMOTE_COMM;
    /* What changes how completions look is only for those who ask for it. */
    if (!asked)
        return (all_caps() & ~(FI_HMEM | FI_SOURCE_ERR | FI_AV_USER_ID | FI_REMOTE_COMM)) | extra;
    uint64_t caps = (asked & (primary_caps | costly_caps)) | free_caps;
    caps |= extra & (FI_REMOTE_COMM | (asked & FI_HMEM));
    return npu_info_full_caps(caps | (asked & (message_ways | memory_ways)));
}

static int answer_mr_mode(uint32_t version, const struct fi_info *hints)
{
    int mode = hints && hints->domain_attr ? hints->domain_attr->mr_mode : 0;
    if (mode == FI_MR_BASIC || mode == FI_MR_SCALABLE)
        return mode;
    /* Nothing else is needed, so no bit of a newer application stays set. */
    return FI_VERSION_LT(version, FI_VERSION(1, 5)) ? FI_MR_SCALABLE : 0;
}

static size_t at_least(size_t wanted, size_t usual)
{
    return wanted > usual ? wanted : usual;
}

static void answer_tx(const struct fi_info *hints, struct fi_info *info)
{
    const struct fi_tx_attr *wanted = hints ? hints->tx_attr : NULL;
    *info->tx_attr = (struct fi_tx_attr){
        .caps = (wanted && wanted->caps ? wanted->caps : info->caps) & tx_caps,
        .op_flags = wanted ? wanted->op_flags : 0,
        .msg_order = msg_order,
        .inject_size = NPU_INJECT_MAX,
        .size = at_least(wanted ? wanted->size : 0, NPU_DEFAULT_QUEUE),
        .iov_limit = NPU_IOV_LIMIT,
        .rma_iov_limit = NPU_IOV_LIMIT,
        .tclass = wanted ? wanted->tclass : 0,
    };
}

static void answer_rx(const struct fi_info *hints, struct fi_info *info)
{
    const struct fi_rx_attr *wanted = hints ? hints->rx_attr : NULL;
    *info->rx_attr = (struct fi_rx_attr){
        .caps = (wanted && wanted->caps ? wanted->caps : info->caps) & rx_caps,
        .op_flags = wanted ? wanted->op_flags : 0,
        .msg_order = msg_order,
        .size = at_least(wanted ? wanted->size : 0, NPU_DEFAULT_QUEUE),
        .iov_limit = NPU_IOV_LIMIT,
    };
}

static void answer_ep(struct fi_info *info)
{
    *info->ep_attr = (struct fi_ep_attr){
        .type = FI_EP_RDM,
        .protocol = NPU_PROTOCOL,
        .protocol_version = NPU_PROTOCOL_VERSION,
        .max_msg_size = NPU_MAX_MSG_SIZE,
        .max_order_raw_size = NPU_MAX_MSG_SIZE,
        .max_order_war_size = NPU_MAX_MSG_SIZE,
        .max_order_waw_size = NPU_MAX_MSG_SIZE,
        .mem_tag_format = UINT64_C(0xaaaaaaaaaaaaaaaa),
        .tx_ctx_cnt = 1,
        .rx_ctx_cnt = 1,
    };
}

static void answer_domain(uint32_t version, const struct fi_info *hints, struct fi_info *info)
{
    const struct fi_domain_attr *wanted = hints ? hints->domain_attr : NULL;
    *info->domain_attr = (struct fi_domain_attr){
        .domain = wanted ? wanted->domain : NULL,
        .threading = wanted && wanted->threading ? wanted->threading : FI_THREAD_SAFE,
        .control_progress = FI_PROGRESS_AUTO,
        .data_progress = FI_PROGRESS_MANUAL,
        .resource_mgmt = FI_RM_ENABLED,
        .av_type = wanted ? wanted->av_type : FI_AV_UNSPEC,
        .mr_mode = answer_mr_mode(version, hints) | (info->caps & FI_HMEM ? FI_MR_HMEM : 0),
        .mr_key_size = KEY_SIZE,
        .cq_data_size = DATA_SIZE,
        .cq_cnt = MANY,
        .ep_cnt = MANY,
        .tx_ctx_cnt = MANY,
        .rx_ctx_cnt = MANY,
        .max_ep_tx_ctx = 1,
        .max_ep_rx_ctx = 1,
        .cntr_cnt = MANY,
        .mr_iov_limit = NPU_IOV_LIMIT,
        .caps = info->caps & domain_caps,
        .max_err_data = NPU_ERR_DATA_MAX,
        .mr_cnt = MANY,
    };
}

static int copy_addr(const struct npu_addr *addr, void **bytes, size_t *len)
{
    *len = npu_addr_len(addr);
    *bytes = malloc(*len);
    if (!*bytes)
        return -FI_ENOMEM;
    memcpy(*bytes, addr, *len);
    return 0;
}

/* What node, service and hints say about addresses. */
struct addressing {
    struct npu_addr src, dest;
    bool has_dest;
    uint32_t format;
};

static int answer_addrs(const struct addressing *addrs, struct fi_info *info)
{
    info->addr_format = addrs->format;
    int rc = copy_addr(&addrs->src, &info->src_addr, &info->src_addrlen);
    if (rc == 0 && addrs->has_dest)
        rc = copy_addr(&addrs->dest, &info->dest_addr, &info->dest_addrlen);
    return rc;
}

static int answer_names(uint32_t version, int device, struct fi_info *info)
{
    char name[16] = NPU_HOST_NAME;
    if (device >= 0)
        (void)snprintf(name, sizeof(name), NPU_NAME "%d", device);
    info->domain_attr->name = strdup(name);
    info->fabric_attr->name = strdup(NPU_NAME);
    info->fabric_attr->prov_version = npu_provider.version;
    info->fabric_attr->api_version = version;
    if (!info->domain_attr->name || !info->fabric_attr->name)
        return -FI_ENOMEM;
    if (device < 0)
        return 0;
    struct npu_device about;
    npu_device_describe(device, &about);
    info->nic = npu_device_nic(&about);
    return info->nic ? 0 : -FI_ENOMEM;
}

static int answer(uint32_t version, const struct fi_info *hints, const struct addressing *addrs, int device,
                  struct fi_info **info)
{
    struct fi_info *made = fi_allocinfo();
    if (!made)
        return -FI_ENOMEM;
    made->caps = answer_caps(hints, device);
    if (npu_addr_is_loopback(&addrs->src))
        made->caps &= ~FI_REMOTE_COMM;
    answer_tx(hints, made);
    answer_rx(hints, made);
    answer_ep(made);
    answer_domain(version, hints, made);
    int rc = answer_addrs(addrs, made);
    if (rc == 0)
        rc = answer_names(version, device, made);
    if (rc < 0) {
        fi_freeinfo(made);
        return rc;
    }
    *info = made;
    return 0;
}

/* ---- Addresses ---- */

static int given_addr(const void *bytes, size_t len, uint32_t format, struct npu_addr *addr)
{
    if (npu_addr_copy(bytes, len, addr) < 0)
        return -FI_ENODATA;
    bool fits = format == FI_FORMAT_UNSPEC || format == FI_SOCKADDR || format == npu_addr_format(addr);
    return fits ? 0 : -FI_ENODATA;
}

static int find_dest(const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                     uint32_t format, struct addressing *addrs)
{
    int rc = 0;
    bool named = (node || service) && !(flags & FI_SOURCE);
    addrs->has_dest = named || (hints && hints->dest_addr);
    if (named)
        rc = npu_addr_resolve(node, service, flags, format, false, &addrs->dest);
    else if (addrs->has_dest)
        rc = given_addr(hints->dest_addr, hints->dest_addrlen, format, &addrs->dest);
    return rc;
}

static int find_src(const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                    uint32_t format, struct addressing *addrs)
{
    if (flags & FI_SOURCE) {
        int rc = npu_addr_resolve(node, service, flags, format, true, &addrs->src);
        return rc == 0 && !npu_addr_is_local(&addrs->src) ? -FI_ENODATA : rc;
    }
    if (hints && hints->src_addr)
        return given_addr(hints->src_addr, hints->src_addrlen, format, &addrs->src);
    npu_addr_default(addrs->has_dest ? npu_addr_format(&addrs->dest) : format, &addrs->src);
    return 0;
}

static int find_addrs(const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                      struct addressing *addrs)
{
    uint32_t format = hints ? hints->addr_format : FI_FORMAT_UNSPEC;
    *addrs = (struct addressing){.format = format};
    int rc = find_dest(node, service, flags, hints, format, addrs);
    if (rc == 0)
        rc = find_src(node, service, flags, hints, format, addrs);
    if (rc < 0)
        return rc;
    if (format != FI_SOCKADDR)
        addrs->format = npu_addr_format(&addrs->src);
    return addrs->has_dest && npu_addr_format(&addrs->dest) != npu_addr_format(&addrs->src) ? -FI_ENODATA : 0;
}

/* ---- fi_getinfo ---- */

/* Whether this domain is one that was asked for. */
static bool domain_wanted(const struct fi_info *hints, int device)
{
    const struct fi_domain_attr *attr = hints ? hints->domain_attr : NULL;
    int named = device;
    if (hints && (hints->caps & FI_HMEM) && !offers_hmem(hints, device))
        return false;
    if (attr && attr->domain)
        return hc_container_of(attr->domain, struct npu_domain, fid)->device == device;
    if (attr && attr->name)
        return npu_info_device(attr->name, &named) == 0 && named == device;
    /* The host alone is for those who ask for it, or have no device. */
    return device >= 0 || npu_device_count() == 0;
}

int npu_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info)
{
    struct addressing addrs;
    struct fi_info *first = NULL, **last = &first;
    if (flags & ~(FI_SOURCE | FI_NUMERICHOST | FI_PROV_ATTR_ONLY))
        return -FI_EBADFLAGS;
    if ((flags & FI_SOURCE) && !node && !service)
        return -FI_EINVAL;
    if (!hints_fit(hints))
        return -FI_ENODATA;
    int rc = find_addrs(node, service, flags, hints, &addrs);
    int count = (int)npu_device_count();
    for (int device = -1; device < count && rc == 0; device++) {
        if (!domain_wanted(hints, device))
            continue;
        rc = answer(version, hints, &addrs, device, last);
        if (rc == 0)
            last = &(*last)->next;
    }
    if (rc == 0 && !first)
        rc = -FI_ENODATA;
    if (rc < 0) {
        fi_freeinfo(first);
        return rc;
    }
    *info = first;
    return 0;
}
