#include "transports/ofi/ofi.h"

#include "runtime/base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    TX_CREDITS_MAX = 1024,
    OPS_PER_SLAB = 64,
    PAGE = 4096,
    CQ_SLACK = 64, /* error entries and the like */
};

hcomm_status_t hc_ofi_error(const struct hc_ofi_iface *iface, const char *what, ssize_t result)
{
    int error = (int)-result;
    hcomm_status_t status = HCOMM_ERR_IO;
    if (error == FI_ENOMEM)
        status = HCOMM_ERR_NO_MEMORY;
    else if (error == FI_ECONNRESET || error == FI_ECONNABORTED || error == FI_ENOTCONN ||
             error == FI_ESHUTDOWN || error == FI_ECONNREFUSED || error == FI_EHOSTUNREACH ||
             error == FI_ETIMEDOUT || error == FI_EIO)
        status = HCOMM_ERR_PEER_LOST;
    else if (error == FI_EMFILE)
        status = HCOMM_ERR_LIMIT;
    return hc_error(status, "%s: %s failed: %s", iface->profile->name, what, iface->lib->strerror(error));
}

static hcomm_status_t open_error(const struct hc_ofi_iface *iface, const char *what, int result)
{
    struct rlimit limit;
    if (result == -FI_ENOMEM && iface->profile->rdma && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
        return hc_error(
            HCOMM_ERR_LIMIT,
            "%s: %s failed: %s; locked memory is limited to %llu bytes, raise it (ulimit -l unlimited, "
            "or memlock in /etc/security/limits.conf)",
            iface->profile->name, what, iface->lib->strerror(-result), (unsigned long long)limit.rlim_cur);
    if (result == -EFBIG)
        return hc_error(HCOMM_ERR_LIMIT, "%s: %s failed: %s; raise the limit (ulimit -f)", iface->profile->name,
                        what, iface->lib->strerror(EFBIG));
    return hc_ofi_error(iface, what, result);
}

static const struct fi_info *find_device(const struct hc_ofi_candidate *candidates, size_t count,
                                         const char *device)
{
    for (size_t i = 0; i < count; i++)
        if (candidates[i].usable && !strcmp(candidates[i].device, device))
            return candidates[i].info;
    return NULL;
}

/* Find the resource's device again and keep its info. */
static hcomm_status_t choose_info(struct hc_ofi_iface *iface, const struct hc_resource *resource)
{
    struct hc_ofi_candidate candidates[HC_OFI_CANDIDATE_MAX];
    size_t count;
    struct fi_info *infos;
    hcomm_status_t status =
        hc_ofi_discover(iface->lib, iface->profile, iface->params.settings, candidates, &count, &infos);
    if (status != HCOMM_OK)
        return status;
    const struct fi_info *info = find_device(candidates, count, resource->device);
    if (info)
        iface->info = iface->lib->dupinfo(info);
    iface->lib->freeinfo(infos);
    if (!info)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "%s has no usable device %s any more", resource->name,
                        resource->device);
    return iface->info ? HCOMM_OK : hc_error(HCOMM_ERR_NO_MEMORY, "no memory for %s", resource->name);
}

/* Give the endpoint about to be opened a name of ours, where endpoints are files in /dev/shm. */
static hcomm_status_t name_region(struct hc_ofi_iface *iface)
{
    char name[HC_OFI_SHMNAME_MAX];
    if (iface->profile->scope != HC_OFI_SCOPE_HOST)
        return HCOMM_OK;
    hc_ofi_shmname_make(iface->scope, name);
    char *copy = strdup(name);
    if (!copy)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for %s", iface->profile->name);
    free(iface->info->src_addr);
    iface->info->src_addr = copy;
    iface->info->src_addrlen = strlen(copy) + 1;
    return HCOMM_OK;
}

void hc_ofi_sweep(const struct hc_ofi_iface *iface)
{
    if (iface->profile->scope == HC_OFI_SCOPE_HOST)
        (void)hc_ofi_shmname_sweep("/dev/shm", iface->scope);
}

static hcomm_status_t open_objects(struct hc_ofi_iface *iface)
{
    struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC, .count = iface->params.world_size};
    int result = iface->lib->fabric(iface->info->fabric_attr, &iface->fabric, NULL);
    if (result)
        return open_error(iface, "opening the fabric", result);
    result = fi_domain(iface->fabric, iface->info, &iface->domain, NULL);
    if (result)
        return open_error(iface, "opening the domain", result);
    result = fi_av_open(iface->domain, &av_attr, &iface->av, NULL);
    return result ? open_error(iface, "opening the address vector", result) : HCOMM_OK;
}

static hcomm_status_t open_domain(struct hc_ofi_iface *iface)
{
    struct hc_ofi_variables variables;
    hc_ofi_variables_set(&variables);
    hcomm_status_t status = open_objects(iface);
    hc_ofi_variables_unset(&variables);
    return status;
}

static hcomm_status_t open_queue(struct hc_ofi_iface *iface, size_t size, enum fi_wait_obj wait,
                                 struct fid_cq **cq)
{
    struct fi_cq_attr attr = {.size = size, .format = FI_CQ_FORMAT_MSG, .wait_obj = wait};
    int result = fi_cq_open(iface->domain, &attr, cq, NULL);
    return result ? open_error(iface, "opening the completion queue", result) : HCOMM_OK;
}

static hcomm_status_t open_cq(struct hc_ofi_iface *iface)
{
    enum hc_ofi_wait wait = iface->profile->wait;
    size_t credits = iface->info->tx_attr->size;
    iface->tx_credits = credits < TX_CREDITS_MAX ? credits : TX_CREDITS_MAX;
    size_t size = iface->tx_credits + iface->profile->receive_buffers + CQ_SLACK;
    hcomm_status_t status =
        open_queue(iface, size, wait == HC_OFI_WAIT_QUEUE ? FI_WAIT_FD : FI_WAIT_NONE, &iface->cq);
    if (status == HCOMM_OK && wait == HC_OFI_WAIT_DOMAIN)
        status = open_queue(iface, 1, FI_WAIT_FD, &iface->wake_cq);
    return status;
}

/* Bind and enable; 0 or a negative error of libfabric. */
static int enable_endpoint(struct hc_ofi_iface *iface, struct fid_ep *ep)
{
    int result = fi_ep_bind(ep, &iface->av->fid, 0);
    if (!result)
        result = fi_ep_bind(ep, &iface->cq->fid, FI_TRANSMIT | FI_RECV);
    return result ? result : fi_enable(ep);
}

static void file_signal(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGXFSZ);
}

/* Beyond the limit of file sizes (ulimit -f) a signal would end the process before the provider, whose
 * endpoints are files, hears of it. It goes to the thread that resizes the file: it is held back here. */
static void hold_file_signal(sigset_t *before)
{
    sigset_t set;
    file_signal(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, before);
}

static void drop_file_signal(const sigset_t *before)
{
    const struct timespec now = {0};
    sigset_t set;
    file_signal(&set);
    if (!sigismember(before, SIGXFSZ))
        (void)sigtimedwait(&set, NULL, &now);
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

static int create_endpoint(struct hc_ofi_iface *iface, struct fid_ep **ep)
{
    sigset_t before;
    hold_file_signal(&before);
    int result = fi_endpoint(iface->domain, iface->info, ep, NULL);
    if (!result)
        result = enable_endpoint(iface, *ep);
    drop_file_signal(&before);
    return result;
}

static hcomm_status_t open_endpoint(struct hc_ofi_iface *iface, struct fid_ep **opened)
{
    struct hc_ofi_variables variables;
    struct fid_ep *ep = NULL;
    hcomm_status_t status = name_region(iface);
    if (status != HCOMM_OK)
        return status;
    hc_ofi_variables_set(&variables);
    int result = create_endpoint(iface, &ep);
    hc_ofi_variables_unset(&variables);
    if (!result) {
        *opened = ep;
        return HCOMM_OK;
    }
    if (ep)
        (void)fi_close(&ep->fid);
    return open_error(iface, "opening an endpoint", result);
}

void hc_ofi_rails_open(struct hc_ofi_iface *iface, unsigned count)
{
    while (iface->rail_count < count && iface->rail_count < HC_OFI_RAIL_MAX) {
        if (open_endpoint(iface, &iface->rails[iface->rail_count]) != HCOMM_OK) {
            hc_log_info("%s stripes over %u endpoints instead of %u: %s", iface->profile->name,
                        iface->rail_count, count, hc_error_detail());
            return;
        }
        iface->rail_count++;
    }
}

static uint8_t wire_format(const struct fi_info *info, const uint8_t *name)
{
    sa_family_t family;
    memcpy(&family, name, sizeof(family));
    if (info->addr_format == FI_ADDR_STR)
        return HC_OFI_FORMAT_TEXT;
    return family == AF_INET6 ? HC_OFI_FORMAT_IPV6 : HC_OFI_FORMAT_IPV4;
}

static hcomm_status_t read_name(struct hc_ofi_iface *iface)
{
    struct hc_ofi_address *name = &iface->name;
    name->name_len = sizeof(name->name);
    int result = fi_getname(&iface->rails[0]->fid, name->name, &name->name_len);
    if (result)
        return hc_ofi_error(iface, "reading the endpoint's address", result);
    name->profile = iface->profile->id;
    name->format = wire_format(iface->info, name->name);
    name->pid = (uint32_t)getpid();
    name->scope = iface->scope;
    uint8_t blob[HC_OFI_ADDRESS_MAX];
    struct hc_ofi_address checked;
    if (hc_ofi_address_parse(blob, hc_ofi_address_pack(name, blob), &checked) != HCOMM_OK)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "%s has addresses of an unknown kind (format %u, %zu bytes)",
                        iface->profile->name, iface->info->addr_format, name->name_len);
    return HCOMM_OK;
}

static void slab_free(struct hc_ofi_slab *slab)
{
    if (slab->mr)
        (void)fi_close(&slab->mr->fid);
    if (slab->data)
        (void)munmap(slab->data, slab->size);
    free(slab);
}

static hcomm_status_t slab_fill(struct hc_ofi_iface *iface, struct hc_ofi_slab *slab)
{
    void *data = mmap(NULL, slab->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for %zu bytes of buffers of %s", slab->size,
                        iface->profile->name);
    slab->data = data;
    if (!iface->mr_local)
        return HCOMM_OK;
    hcomm_status_t status = hc_ofi_register(iface, data, slab->size, FI_SEND | FI_RECV, &slab->mr);
    if (status == HCOMM_OK)
        slab->desc = fi_mr_desc(slab->mr);
    return status;
}

hcomm_status_t hc_ofi_slab_add(struct hc_ofi_iface *iface, size_t count, size_t buffers,
                               struct hc_ofi_slab **slab)
{
    struct hc_ofi_slab *made = calloc(1, sizeof(*made) + buffers * sizeof(made->buffers[0]));
    if (!made)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for buffers of %s", iface->profile->name);
    made->size = hc_align_up(count * iface->stride, PAGE);
    hcomm_status_t status = slab_fill(iface, made);
    if (status != HCOMM_OK) {
        slab_free(made);
        return status;
    }
    made->next = iface->slabs;
    iface->slabs = made;
    *slab = made;
    return HCOMM_OK;
}

static bool buffers_add(struct hc_ofi_iface *iface)
{
    struct hc_ofi_slab *slab;
    if (iface->buffer_count >= HC_OFI_BUFFERS_MAX ||
        hc_ofi_slab_add(iface, HC_OFI_BUFFERS_PER_SLAB, HC_OFI_BUFFERS_PER_SLAB, &slab) != HCOMM_OK)
        return false;
    iface->buffer_count += HC_OFI_BUFFERS_PER_SLAB;
    for (size_t i = 0; i < HC_OFI_BUFFERS_PER_SLAB; i++) {
        slab->buffers[i] = (struct hc_ofi_buffer){
            .next = iface->free_buffers, .data = slab->data + i * iface->stride, .desc = slab->desc};
        iface->free_buffers = &slab->buffers[i];
    }
    return true;
}

struct hc_ofi_buffer *hc_ofi_buffer_get(struct hc_ofi_ep *ep)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    if (ep->buffers == HC_OFI_BUFFERS_PER_EP || (!iface->free_buffers && !buffers_add(iface)))
        return NULL;
    struct hc_ofi_buffer *buffer = iface->free_buffers;
    iface->free_buffers = buffer->next;
    ep->buffers++;
    return buffer;
}

static hcomm_status_t open_buffers(struct hc_ofi_iface *iface)
{
    size_t receives = iface->profile->receive_buffers;
    struct hc_ofi_slab *slab;
    iface->stride = hc_align_up(HC_OFI_HEADER_SIZE + iface->base.attr.bcopy_max, HC_CACHE_LINE);
    iface->receives = calloc(receives, sizeof(*iface->receives));
    if (!iface->receives)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for receives of %s", iface->profile->name);
    hcomm_status_t status = hc_ofi_slab_add(iface, receives, 0, &slab);
    if (status != HCOMM_OK)
        return status;
    iface->receive_desc = slab->desc;
    for (size_t i = 0; i < receives; i++)
        iface->receives[i].data = slab->data + i * iface->stride;
    if (!buffers_add(iface))
        return HCOMM_ERR_NO_MEMORY;
    return HCOMM_OK;
}

bool hc_ofi_receive_post(struct hc_ofi_receive *receive)
{
    struct hc_ofi_iface *iface = receive->op.iface;
    ssize_t result = fi_recv(iface->rails[0], receive->data, HC_OFI_HEADER_SIZE + iface->base.attr.bcopy_max,
                             iface->receive_desc, FI_ADDR_UNSPEC, &receive->op.context);
    if (result && result != -FI_EAGAIN)
        hc_log_error("%s cannot post a receive: %s", iface->profile->name,
                     iface->lib->strerror((int)-result));
    receive->posted = result == 0;
    return receive->posted;
}

static hcomm_status_t post_receives(struct hc_ofi_iface *iface)
{
    for (size_t i = 0; i < iface->profile->receive_buffers; i++) {
        struct hc_ofi_receive *receive = &iface->receives[i];
        receive->op.kind = HC_OFI_OP_RECEIVE;
        receive->op.iface = iface;
        if (!hc_ofi_receive_post(receive))
            iface->unposted++;
    }
    if (iface->unposted == iface->profile->receive_buffers)
        return hc_error(HCOMM_ERR_IO, "%s takes no receives", iface->profile->name);
    return HCOMM_OK;
}

static hcomm_status_t open_events(struct hc_ofi_iface *iface)
{
    int cq_fd = -1;
    if (iface->profile->wait == HC_OFI_WAIT_NONE)
        return HCOMM_OK;
    struct fid_cq *cq = iface->wake_cq ? iface->wake_cq : iface->cq;
    int result = fi_control(&cq->fid, FI_GETWAIT, &cq_fd);
    if (result)
        return hc_ofi_error(iface, "asking for the completion queue's descriptor", result);
    iface->event_fd = epoll_create1(EPOLL_CLOEXEC);
    iface->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (iface->event_fd < 0 || iface->timer_fd < 0 ||
        epoll_ctl(iface->event_fd, EPOLL_CTL_ADD, cq_fd, &event) != 0 ||
        epoll_ctl(iface->event_fd, EPOLL_CTL_ADD, iface->timer_fd, &event) != 0)
        return hc_error(HCOMM_ERR_LIMIT, "%s cannot make its event descriptor: %m", iface->profile->name);
    return HCOMM_OK;
}

void hc_ofi_fill_attr(const struct hc_ofi_profile *profile, const struct fi_info *info,
                      struct hc_iface_attr *attr)
{
    size_t message_max = info->ep_attr->max_msg_size;
    bool rma = (info->caps & FI_RMA) != 0;
    attr->caps =
        HC_CAP_ZCOPY | (rma ? HC_CAP_RMA : 0) | (profile->wait != HC_OFI_WAIT_NONE ? HC_CAP_EVENT : 0);
    if (rma && (info->caps & FI_HMEM))
        attr->caps |= HC_CAP_DEVICE_MEM;
    attr->addr_max = HC_OFI_ADDRESS_MAX;
    attr->rkey_max = rma ? HC_OFI_RKEY_SIZE : 0;
    attr->bcopy_max = profile->bcopy_max;
    if (attr->bcopy_max > message_max - HC_OFI_HEADER_SIZE)
        attr->bcopy_max = message_max - HC_OFI_HEADER_SIZE;
    attr->short_max = attr->zcopy_max = attr->bcopy_max;
    attr->eager_max = profile->eager_max < attr->bcopy_max - 64 ? profile->eager_max : attr->bcopy_max - 64;
    attr->zcopy_min = profile->zcopy_min;
    attr->rma_max = !rma ? 0 : profile->rma_max < message_max ? profile->rma_max : message_max;
    attr->get_min = rma ? profile->get_min : SIZE_MAX;
    attr->latency = profile->latency;
    attr->bandwidth = profile->bandwidth;
    attr->overhead = profile->overhead;
}

static void read_info(struct hc_ofi_iface *iface)
{
    const struct fi_info *info = iface->info;
    hc_ofi_fill_attr(iface->profile, info, &iface->base.attr);
    iface->inject_max =
        info->tx_attr->inject_size < HC_OFI_INJECT_MAX ? info->tx_attr->inject_size : HC_OFI_INJECT_MAX;
    iface->mr_local = (info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    iface->mr_virtual = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    iface->mr_provider_key = (info->domain_attr->mr_mode & FI_MR_PROV_KEY) != 0;
}

static hcomm_status_t init(struct hc_ofi_iface *iface, const struct hc_resource *resource)
{
    hcomm_status_t status = choose_info(iface, resource);
    if (status != HCOMM_OK)
        return status;
    read_info(iface);
    hc_ofi_sweep(iface);
    hcomm_status_t (*const steps[])(struct hc_ofi_iface *) = {open_domain, open_cq};
    for (size_t i = 0; i < hc_array_len(steps); i++) {
        status = steps[i](iface);
        if (status != HCOMM_OK)
            return status;
    }
    status = open_endpoint(iface, &iface->rails[0]);
    if (status != HCOMM_OK)
        return status;
    iface->rail_count = 1;
    hcomm_status_t (*const later_steps[])(struct hc_ofi_iface *) = {read_name, open_buffers, post_receives,
                                                                    open_events};
    for (size_t i = 0; i < hc_array_len(later_steps); i++) {
        status = later_steps[i](iface);
        if (status != HCOMM_OK)
            return status;
    }
    return HCOMM_OK;
}

static struct hc_ofi_iface *iface_new(const struct hc_ofi_lib *lib, const struct hc_ofi_profile *profile,
                                      const struct hc_iface_params *params)
{
    struct hc_ofi_iface *iface = calloc(1, sizeof(*iface));
    if (!iface)
        return NULL;
    iface->peers = calloc(params->world_size, sizeof(struct hc_ofi_peer *));
    if (!iface->peers) {
        free(iface);
        return NULL;
    }
    iface->base.transport = &hc_transport_ofi;
    iface->params = *params;
    iface->lib = lib;
    iface->profile = profile;
    iface->event_fd = iface->timer_fd = -1;
    iface->next_key = 1;
    iface->scope = hc_ofi_scope_id(profile->scope);
    iface->job_hash = hc_ofi_hash(HC_OFI_HASH_START, params->job_id, strlen(params->job_id));
    iface->job = (uint16_t)iface->job_hash;
    hc_pool_init(&iface->ops, sizeof(struct hc_ofi_op), OPS_PER_SLAB);
    hc_pool_init(&iface->flushes, sizeof(struct hc_ofi_flush), OPS_PER_SLAB);
    hc_ofi_gather_open(iface);
    hc_list_init(&iface->orphans);
    hc_list_init(&iface->watched);
    return iface;
}

hcomm_status_t hc_ofi_open(const struct hc_resource *resource, const struct hc_iface_params *params,
                           struct hc_iface **base)
{
    const struct hc_ofi_profile *profile = hc_ofi_profile_find(resource->name);
    if (!profile)
        return hc_error(HCOMM_ERR_INVALID, "no libfabric profile is called %s", resource->name);
    const struct hc_ofi_lib *lib;
    hcomm_status_t status = hc_ofi_lib_load(&lib);
    if (status != HCOMM_OK)
        return status;
    struct hc_ofi_iface *iface = iface_new(lib, profile, params);
    if (!iface)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for %s", profile->name);
    status = init(iface, resource);
    if (status != HCOMM_OK) {
        hc_ofi_close(&iface->base);
        return status;
    }
    char where[160];
    hc_log_debug("%s %s: open at %s, %zu credits, inject %zu", profile->name, resource->device,
                 hc_ofi_address_text(&iface->name, where, sizeof(where)), iface->tx_credits,
                 iface->inject_max);
    *base = &iface->base;
    return HCOMM_OK;
}

static void close_fid(struct fid *fid, const char *what)
{
    int result = fi_close(fid);
    if (result)
        hc_log_debug("closing the %s: error %d", what, -result);
}

/* What the provider never gave back: the endpoints are closed, so nothing touches it any more. */
static void drop_orphans(struct hc_ofi_iface *iface)
{
    struct hc_list *node;
    while ((node = hc_list_first(&iface->orphans)))
        hc_ofi_op_put(hc_list_entry(node, struct hc_ofi_op, link));
}

static void close_peers(struct hc_ofi_iface *iface)
{
    for (uint32_t i = 0; i < iface->params.world_size; i++)
        free(iface->peers[i]);
    free(iface->peers);
}

static void close_slabs(struct hc_ofi_iface *iface)
{
    while (iface->slabs) {
        struct hc_ofi_slab *slab = iface->slabs;
        iface->slabs = slab->next;
        slab_free(slab);
    }
}

void hc_ofi_close(struct hc_iface *base)
{
    if (!base)
        return;
    struct hc_ofi_iface *iface = hc_ofi_iface_of(base);
    while (iface->rail_count > 0)
        close_fid(&iface->rails[--iface->rail_count]->fid, "endpoint");
    drop_orphans(iface);
    hc_ofi_sweep(iface);
    close_slabs(iface);
    if (iface->wake_cq)
        close_fid(&iface->wake_cq->fid, "completion queue to sleep on");
    if (iface->cq)
        close_fid(&iface->cq->fid, "completion queue");
    if (iface->av)
        close_fid(&iface->av->fid, "address vector");
    if (iface->domain)
        close_fid(&iface->domain->fid, "domain");
    if (iface->fabric)
        close_fid(&iface->fabric->fid, "fabric");
    if (iface->info)
        iface->lib->freeinfo(iface->info);
    if (iface->timer_fd >= 0)
        (void)close(iface->timer_fd);
    if (iface->event_fd >= 0)
        (void)close(iface->event_fd);
    hc_pool_fini(&iface->ops);
    hc_pool_fini(&iface->flushes);
    hc_pool_fini(&iface->held);
    close_peers(iface);
    free(iface->receives);
    free(iface);
}
