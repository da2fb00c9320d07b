/* The iface of the shm transport: query, open, close, progress, sleep. */
#include "transports/shm/shm.h"

#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHUNKS_MIN = 8 };

static int membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* Whether the kernel lets a sleeper issue the barrier for all its peers; registers this process for it. */
static bool register_barrier(void)
{
    const int wanted = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    int offered = membarrier(MEMBARRIER_CMD_QUERY);
    return offered >= 0 && (offered & wanted) == wanted &&
           membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
           membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

/* Whether what this transport stands on works here: a memfd, sealed, and reached through /proc. */
static hcomm_status_t try_out(void)
{
    struct hc_shm_identity self;
    struct hc_shm_segment own = {0}, again = {0};
    struct stat info;
    int fd = -1;
    hcomm_status_t status = hc_shm_identity_get(&self);
    if (status == HCOMM_OK)
        status = hc_shm_check_dumpable();
    if (status != HCOMM_OK)
        return status;
    status = hc_shm_segment_create(1, 1, 1, &own, &fd);
    if (status != HCOMM_OK)
        return status;
    if (fstat(fd, &info) < 0)
        status = hc_error(HCOMM_ERR_IO, "shm: fstat: %s", hc_errno_text(errno));
    struct hc_shm_addr addr = {.cookie = 1,
                               .start = self.start,
                               .inode = info.st_ino,
                               .pid = self.pid,
                               .fd = fd,
                               .ring_count = 1,
                               .chunk_count = 1};
    if (status == HCOMM_OK)
        status = hc_shm_segment_attach(&addr, &again);
    hc_shm_segment_unmap(&again);
    hc_shm_segment_unmap(&own);
    (void)close(fd);
    return status;
}

/*
 * While sender and receiver both have a core, which of pieces and the kernel's copy is faster is learned per
 * peer (runtime/core/chooser.h). Where they must share a core, the two copies of a piece follow each other,
 * and one copy is better.
 */
enum { GET_MIN_SHARED_CORE = 256 << 10 };

static const struct hc_iface_attr shm_attr = {
    .caps = HC_CAP_RMA | HC_CAP_EVENT | HC_CAP_SYNC | HC_CAP_MAP | HC_CAP_SHARE,
    .addr_max = sizeof(struct hc_shm_addr),
    .rkey_max = sizeof(struct hc_shm_rkey_wire),
    .short_max = HC_SHM_MESSAGE_MAX,
    .bcopy_max = HC_SHM_MESSAGE_MAX,
    .zcopy_max = 0,
    .eager_max = 65536,
    .rma_max = 1 << 20,
    .get_min = SIZE_MAX,
    .map_min = 16384,
    .share_map_min = 128 << 10,
    .share_min = 64 << 10,
    .fetch_min = 8 << 10,
    .lend_min = 16 << 10, /* below, windows lose more by the handshakes than by copying twice */
    .latency = 0.3e-6,
    .bandwidth = 25e9,
    .overhead = 0.05e-6,
};

static struct hc_iface_attr attr_of(bool cross, uint32_t local_size)
{
    struct hc_iface_attr attr = shm_attr;
    if (!cross) {
        attr.caps &= ~(unsigned)HC_CAP_RMA;
        attr.share_min = attr.fetch_min = attr.lend_min = SIZE_MAX;
    }
    if ((long)local_size > sysconf(_SC_NPROCESSORS_ONLN)) { /* two copy no faster than one */
        attr.get_min = cross ? GET_MIN_SHARED_CORE : SIZE_MAX;
        attr.share_min = attr.share_map_min = attr.fetch_min = attr.lend_min = SIZE_MAX;
    }
    return attr;
}

static void set_attr(struct hc_shm_iface *iface, uint32_t local_size)
{
    char why[128];
    bool cross = hc_shm_cross_available(why, sizeof(why));
    if (!cross)
        hc_log_debug("shm: no cross-memory attach: %s", why);
    iface->base.attr = attr_of(cross, local_size);
}

static uint32_t chunk_count(const struct hc_settings *settings)
{
    size_t count = settings->buffer_size / HC_SHM_CHUNK_BYTES;
    return (uint32_t)(count < CHUNKS_MIN          ? CHUNKS_MIN
                      : count > HC_SHM_CHUNKS_MAX ? HC_SHM_CHUNKS_MAX
                                                  : count);
}

/* What waits for no answer of the receiver. */
static void tell_eager(struct hc_resource *resource, const struct hc_iface_attr *attr,
                       const struct hc_settings *settings)
{
    uint32_t hot = hc_shm_hot_chunks(), count = chunk_count(settings);
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    char why[64] = "all that buffer_size allows";
    if (hot < count)
        (void)snprintf(why, sizeof(why), "from the second-level cache of %s",
                       hc_transport_size_text(cache > 0 ? (size_t)cache : 0).text);
    hc_transport_tell(resource, "in the receiver's ring up to %s (fixed, by measurement)",
                      hc_transport_size_text(HC_SHM_INLINE_PAYLOAD).text);
    hc_transport_tell(
        resource,
        "but from %s, in an exchange of single messages from %s, in chunks if the receiver is near "
        "(sampled per peer)",
        hc_transport_size_text(HC_SHM_MEDIUM_STREAM).text, hc_transport_size_text(HC_SHM_MEDIUM_CALM).text);
    hc_transport_tell(
        resource,
        "in chunks up to %s, %u in rotation (%s), written through or past the caches (learned per "
        "peer)",
        hc_transport_size_text(attr->eager_max).text, hot < count ? hot : count, why);
    if (attr->lend_min != SIZE_MAX)
        hc_transport_tell(resource,
                          "or from %s lent to the receiver, which copies once (learned per peer and size)",
                          hc_transport_size_text(attr->lend_min).text);
}

/* What the receiver is asked about first. */
static void tell_rendezvous(struct hc_resource *resource, const struct hc_iface_attr *attr)
{
    hc_transport_tell(resource, "above in pieces through chunks");
    if (attr->fetch_min != SIZE_MAX)
        hc_transport_tell(resource,
                          "or in one copy, which both sides share from %s (learned per peer and size)",
                          hc_transport_size_text(attr->share_min).text);
    if (attr->get_min != SIZE_MAX)
        hc_transport_tell(resource, "from %s one copy by the receiver (more ranks than processors)",
                          hc_transport_size_text(attr->get_min).text);
    hc_transport_tell(resource, "memory from hcomm mapped from %s (fixed, by measurement)",
                      hc_transport_size_text(attr->map_min).text);
    if (attr->share_map_min != SIZE_MAX)
        hc_transport_tell(resource, "copied by both sides from %s if both have it (fixed, by measurement)",
                          hc_transport_size_text(attr->share_map_min).text);
}

static void tell_thresholds(struct hc_resource *resource, bool cross, const struct hc_resource_list *list)
{
    const struct hc_iface_attr attr = attr_of(cross, list->local_size);
    tell_eager(resource, &attr, list->settings);
    tell_rendezvous(resource, &attr);
}

static hcomm_status_t query(struct hc_resource_list *list)
{
    if (list->count == HC_RESOURCE_MAX)
        return hc_error(HCOMM_ERR_LIMIT, "shm: more than %d resources", HC_RESOURCE_MAX);
    struct hc_resource *resource = &list->entries[list->count];
    *resource = (struct hc_resource){.transport = &hc_transport_shm,
                                     .name = "shm",
                                     .latency = shm_attr.latency,
                                     .bandwidth = shm_attr.bandwidth,
                                     .thresholds = hc_transport_text(list)};
    list->count++;
    char why[128];
    resource->usable = try_out() == HCOMM_OK;
    if (!resource->usable) {
        (void)snprintf(resource->reason, sizeof(resource->reason), "%s", hc_error_detail());
        return HCOMM_OK;
    }
    bool cross = hc_shm_cross_available(why, sizeof(why));
    (void)snprintf(
        resource->reason, sizeof(resource->reason), "shared memory; %s%s",
        cross ? "single copy by cross-memory attach" : "no cross-memory attach: ", cross ? "" : why);
    if (resource->thresholds)
        tell_thresholds(resource, cross, list);
    return HCOMM_OK;
}

static hcomm_status_t fill_address(struct hc_shm_iface *iface, const struct hc_iface_params *params)
{
    struct hc_shm_identity self;
    struct stat info, event;
    hcomm_status_t status = hc_shm_identity_get(&self);
    if (status != HCOMM_OK)
        return status;
    if (fstat(iface->fd, &info) < 0 || fstat(iface->wake_fd, &event) < 0)
        return hc_error(HCOMM_ERR_IO, "shm: fstat: %s", hc_errno_text(errno));
    iface->addr = (struct hc_shm_addr){
        .magic = HC_SHM_ADDR_MAGIC,
        .version = HC_SHM_VERSION,
        .host = self.host,
        .pid_ns = self.pid_ns,
        .user_ns = self.user_ns,
        .job = hc_shm_hash(params->job_id),
        .cookie = iface->probe,
        .start = self.start,
        .inode = info.st_ino,
        .event_inode = event.st_ino,
        .uid = self.uid,
        .pid = self.pid,
        .fd = iface->fd,
        .event_fd = iface->wake_fd,
        .local_rank = params->local_rank,
        .ring_count = iface->segment.ring_count,
        .chunk_count = iface->segment.chunk_count,
    };
    return HCOMM_OK;
}

static hcomm_status_t open_pipe(struct hc_shm_iface *iface)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return hc_error(HCOMM_ERR_IO, "shm: pipe: %s", hc_errno_text(errno));
    iface->event_fd = ends[0];
    iface->wake_fd = ends[1];
    return HCOMM_OK;
}

static hcomm_status_t open_segment(struct hc_shm_iface *iface, const struct hc_iface_params *params)
{
    if (getrandom(&iface->probe, sizeof(iface->probe), 0) != (ssize_t)sizeof(iface->probe))
        return hc_error(HCOMM_ERR_IO, "shm: getrandom: %s", hc_errno_text(errno));
    hcomm_status_t status = hc_shm_segment_create(params->local_size, chunk_count(params->settings),
                                                  iface->probe, &iface->segment, &iface->fd);
    if (status != HCOMM_OK)
        return status;
    struct hc_shm_header *header = iface->segment.header;
    header->flags = iface->barrier ? HC_SHM_FLAG_BARRIER : 0;
    header->probe = (uintptr_t)&iface->probe;
    iface->doorbell = &header->doorbell;
    hc_share_pool_init(&iface->shares, iface->segment.shares);
    hc_shm_segment_bind(&iface->segment);
    return HCOMM_OK;
}

static hcomm_status_t open_memory(struct hc_shm_iface *iface)
{
    uint32_t count = iface->segment.ring_count;
    iface->sources = calloc(count, sizeof(struct hc_shm_source));
    iface->active = calloc(count, sizeof(struct hc_shm_source *));
    if (!iface->sources || !iface->active)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for %u peers", count);
    iface->ep_chunks =
        iface->segment.chunk_count / 4 < HC_SHM_EP_CHUNKS ? iface->segment.chunk_count / 4 : HC_SHM_EP_CHUNKS;
    hc_pool_init(&iface->flush_pool, sizeof(struct hc_shm_flush), 16);
    return hc_shm_pool_init(&iface->pool, &iface->segment, hc_shm_hot_chunks());
}

static struct hc_shm_iface *iface_new(const struct hc_iface_params *params)
{
    struct hc_shm_iface *iface = calloc(1, sizeof(*iface));
    if (!iface)
        return NULL;
    iface->base.transport = &hc_transport_shm;
    iface->am = params->am;
    iface->am_part = params->am_part;
    iface->ep_failed = params->ep_failed;
    iface->arg = params->arg;
    iface->world_rank = params->world_rank;
    iface->world_size = params->world_size;
    iface->fd = iface->event_fd = iface->wake_fd = -1;
    iface->barrier = register_barrier();
    hc_list_init(&iface->eps);
    hc_list_init(&iface->peers);
    hc_list_init(&iface->flushes);
    set_attr(iface, params->local_size);
    return iface;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/* After a sleep, or instead of one. */
static void stay_awake(struct hc_shm_iface *iface)
{
    iface->armed = false;
    atomic_store_explicit(&iface->doorbell->sleeping, 0, memory_order_relaxed);
}

/* Release an iface, also one that open() did not finish. */
static void shm_close(struct hc_iface *base)
{
    if (!base)
        return;
    struct hc_shm_iface *iface = hc_container_of(base, struct hc_shm_iface, base);
    struct hc_list *node;
    if (iface->doorbell)
        stay_awake(iface); /* nobody shall wake what is gone */
    while ((node = hc_list_first(&iface->eps)))
        hc_shm_ep_free(hc_list_entry(node, struct hc_shm_ep, link));
    hc_shm_sources_fini(iface);
    hc_shm_pool_fini(&iface->pool);
    hc_pool_fini(&iface->flush_pool);
    free(iface->active);
    free(iface->sources);
    hc_shm_segment_unmap(&iface->segment);
    close_fd(iface->fd);
    close_fd(iface->event_fd);
    close_fd(iface->wake_fd);
    free(iface);
}

static hcomm_status_t shm_open(const struct hc_resource *resource, const struct hc_iface_params *params,
                               struct hc_iface **out)
{
    (void)resource;
    if (params->local_size == 0 || params->local_size > HC_SHM_RINGS_MAX ||
        params->local_rank >= params->local_size)
        return hc_error(HCOMM_ERR_LIMIT, "shm: local rank %u of %u; at most %d ranks per host",
                        params->local_rank, params->local_size, HC_SHM_RINGS_MAX);
    struct hc_shm_iface *iface = iface_new(params);
    if (!iface)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for an iface");
    hcomm_status_t status = open_segment(iface, params);
    if (status == HCOMM_OK)
        status = open_memory(iface);
    if (status == HCOMM_OK)
        status = open_pipe(iface);
    if (status == HCOMM_OK)
        status = fill_address(iface, params);
    if (status != HCOMM_OK) {
        shm_close(&iface->base);
        return status;
    }
    *out = &iface->base;
    return HCOMM_OK;
}

void hc_shm_disarm(struct hc_shm_iface *iface)
{
    char bytes[64];
    stay_awake(iface);
    while (read(iface->event_fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
        continue;
}

/* The caller is told to try again, so what was refused so far is settled. */
static void forget_blocked(struct hc_shm_iface *iface)
{
    struct hc_list *node;
    iface->starved = false;
    hc_list_for_each(node, &iface->eps) hc_list_entry(node, struct hc_shm_ep, link)->blocked = 0;
}

static int event_fd(struct hc_iface *base)
{
    return hc_container_of(base, struct hc_shm_iface, base)->event_fd;
}

static bool messages_wait(const struct hc_shm_iface *iface)
{
    if (atomic_load_explicit(&iface->doorbell->connects, memory_order_relaxed) != iface->connects_seen)
        return true;
    for (uint32_t i = 0; i < iface->active_count; i++)
        if (!iface->active[i]->broken && hc_shm_peek(&iface->active[i]->in))
            return true;
    return false;
}

static bool room_waits(struct hc_shm_iface *iface)
{
    struct hc_list *node, *tmp;
    hc_list_for_each_safe(node, tmp, &iface->eps)
    {
        struct hc_shm_ep *ep = hc_list_entry(node, struct hc_shm_ep, link);
        if (ep->blocked && !ep->retired && hc_shm_ep_unblocked(ep))
            return true;
    }
    return hc_shm_flush_ready(iface);
}

/* Who sleeps must not keep what peers have freed. */
static void sweep_mappings(struct hc_shm_iface *iface)
{
    struct hc_list *node;
    hc_list_for_each(node, &iface->peers)
        hc_shm_mappings_sweep(hc_list_entry(node, struct hc_shm_peer, link));
}

static hcomm_status_t arm(struct hc_iface *base)
{
    struct hc_shm_iface *iface = hc_container_of(base, struct hc_shm_iface, base);
    sweep_mappings(iface);
    bool room = iface->starved || !hc_list_empty(&iface->flushes);
    iface->armed = true;
    atomic_store_explicit(&iface->doorbell->sleeping,
                          HC_SHM_SLEEP_MESSAGE | (room ? (uint32_t)HC_SHM_SLEEP_ROOM : 0u),
                          memory_order_relaxed);
    /* Orders the store before the looks below, and every peer's publishing before its look at the store.
     * Partner: hc_shm_peer_notify. */
    if (!iface->barrier || membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) < 0)
        atomic_thread_fence(memory_order_seq_cst);
    bool room_now = room && room_waits(iface);
    if (room_now)
        forget_blocked(iface);
    else if (!messages_wait(iface))
        return HCOMM_OK;
    stay_awake(iface);
    return HCOMM_AGAIN;
}

static hcomm_status_t address(const struct hc_iface *base, void *addr, size_t *len)
{
    const struct hc_shm_iface *iface = hc_container_of(base, const struct hc_shm_iface, base);
    if (*len < sizeof(iface->addr))
        return hc_error(HCOMM_ERR_INVALID, "shm: %zu bytes are too few for an address", *len);
    memcpy(addr, &iface->addr, sizeof(iface->addr));
    *len = sizeof(iface->addr);
    return HCOMM_OK;
}

static bool reachable(const struct hc_iface *base, const void *blob, size_t len)
{
    const struct hc_shm_iface *iface = hc_container_of(base, const struct hc_shm_iface, base);
    struct hc_shm_addr addr;
    struct stat info;
    char path[64];
    const char *why = hc_shm_addr_check(&iface->addr, blob, len, &addr);
    if (why) {
        hc_log_debug("shm: not reachable: %s", why);
        return false;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)addr.pid, (int)addr.fd);
    if (stat(path, &info) < 0) {
        hc_log_debug("shm: not reachable: %s: %s", path, hc_errno_text(errno));
        return false;
    }
    return info.st_ino == addr.inode;
}

static void *sync_area(struct hc_iface *base)
{
    return hc_container_of(base, struct hc_shm_iface, base)->segment.sync;
}

static struct hc_share_pool *shares(struct hc_iface *base)
{
    return &hc_container_of(base, struct hc_shm_iface, base)->shares;
}

const struct hc_transport hc_transport_shm = {
    .name = "shm",
    .query = query,
    .open = shm_open,
    .close = shm_close,
    .progress = hc_shm_progress,
    .event_fd = event_fd,
    .arm = arm,
    .address = address,
    .reachable = reachable,
    .ep_create = hc_shm_ep_create,
    .ep_destroy = hc_shm_ep_destroy,
    .flush = hc_shm_flush,
    .am_short = hc_shm_am_short,
    .am_bcopy = hc_shm_am_bcopy,
    .am_zcopy = NULL,
    .put = hc_shm_put,
    .get = hc_shm_get,
    .mem_reg = hc_shm_mem_reg,
    .mem_dereg = hc_shm_mem_dereg,
    .rkey_pack = hc_shm_rkey_pack,
    .rkey_unpack = hc_shm_rkey_unpack,
    .rkey_release = hc_shm_rkey_release,
    .rkey_is_mapped = hc_shm_rkey_is_mapped,
    .shares = shares,
    .ep_share = hc_shm_ep_share,
    .sync_area = sync_area,
    .ep_sync_area = hc_shm_ep_sync_area,
    .ep_wake = hc_shm_ep_wake,
};
