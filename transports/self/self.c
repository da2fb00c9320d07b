#include "transports/self/self.h"

#include "runtime/base/list.h"
#include "runtime/base/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

enum { ADDR_MAGIC = 0x68637366, RKEY_MAGIC = 0x68637372, RKEY_READ = 1, RKEY_WRITE = 2 };

struct self_addr {
    uint32_t magic, reserved;
    uint64_t cookie; /* random: nobody else's address is like it */
};
_Static_assert(sizeof(struct self_addr) == 16, "wire format");

struct self_rkey_wire {
    uint32_t magic, flags;
    uint64_t cookie, addr, len;
};
_Static_assert(sizeof(struct self_rkey_wire) == 32, "wire format");

struct message {
    struct hc_fifo_node node;
    uint32_t len;
    uint8_t id;
    bool large; /* from the pool of large messages */
    _Alignas(8) unsigned char data[];
};

struct self_iface {
    struct hc_iface base;
    struct hc_iface_params params;
    uint64_t cookie;
    struct hc_fifo queue;
    size_t queued, queued_bytes;
    struct hc_pool small, large;
    int event_fd;
    bool armed;
    HC_CACHE_ALIGNED unsigned char sync[HC_SYNC_AREA];
};

struct self_ep {
    struct hc_ep base;
};

struct self_mem {
    struct hc_mem base;
    uint64_t addr, len;
    uint32_t flags;
};

struct self_rkey {
    struct hc_rkey base;
    uint64_t addr, len;
    uint32_t flags;
};

static struct self_iface *self_of(const struct hc_iface *iface)
{
    return (struct self_iface *)hc_container_of(iface, struct self_iface, base);
}

static const struct hc_iface_attr self_attr = {
    .caps = HC_CAP_RMA | HC_CAP_EVENT | HC_CAP_SYNC,
    .addr_max = sizeof(struct self_addr),
    .rkey_max = sizeof(struct self_rkey_wire),
    .short_max = HC_SELF_SHORT_MAX,
    .bcopy_max = HC_SELF_BCOPY_MAX,
    .eager_max = HC_SELF_SHORT_MAX,
    .rma_max = SIZE_MAX,
    .get_min = HC_SELF_SHORT_MAX, /* one copy instead of two */
    .latency = 0.05e-6,
    .bandwidth = 20e9,
    .overhead = 0.05e-6,
};

static hcomm_status_t query(struct hc_resource_list *list)
{
    if (list->count == HC_RESOURCE_MAX)
        return hc_error(HCOMM_ERR_LIMIT, "self: more than %d resources", HC_RESOURCE_MAX);
    struct hc_resource *resource = &list->entries[list->count];
    *resource = (struct hc_resource){
        .transport = &hc_transport_self,
        .name = "self",
        .reason = "messages of a rank to itself",
        .usable = true,
        .latency = 0.05e-6,
        .bandwidth = 20e9,
        .thresholds = hc_transport_text(list),
    };
    list->count++;
    hc_transport_tell(resource, "eager up to %s (fixed)", hc_transport_size_text(self_attr.eager_max).text);
    hc_transport_tell(resource, "rendezvous in one copy from %s (fixed: one copy instead of two)",
                      hc_transport_size_text(self_attr.get_min).text);
    return HCOMM_OK;
}

static void self_close(struct hc_iface *base)
{
    if (!base)
        return;
    struct self_iface *self = self_of(base);
    hc_pool_fini(&self->small);
    hc_pool_fini(&self->large);
    if (self->event_fd >= 0)
        (void)close(self->event_fd);
    free(self);
}

static hcomm_status_t self_open(const struct hc_resource *resource, const struct hc_iface_params *params,
                                struct hc_iface **iface)
{
    (void)resource;
    struct self_iface *self = aligned_alloc(HC_CACHE_LINE, sizeof(*self));
    if (!self)
        return hc_error(HCOMM_ERR_NO_MEMORY, "self: no memory for an iface");
    memset(self, 0, sizeof(*self));
    self->base = (struct hc_iface){.transport = &hc_transport_self, .attr = self_attr};
    self->params = *params;
    hc_fifo_init(&self->queue);
    hc_pool_init(&self->small, sizeof(struct message) + HC_SELF_SHORT_MAX, 16);
    hc_pool_init(&self->large, sizeof(struct message) + HC_SELF_BCOPY_MAX, 1);
    self->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->event_fd < 0 ||
        getrandom(&self->cookie, sizeof(self->cookie), 0) != (ssize_t)sizeof(self->cookie)) {
        hcomm_status_t status =
            hc_error(HCOMM_ERR_IO, "self: eventfd or getrandom: %s", hc_errno_text(errno));
        self_close(&self->base);
        return status;
    }
    *iface = &self->base;
    return HCOMM_OK;
}

/* Write to the own event descriptor when a thread of this process may be sleeping on it. */
static void notify(struct self_iface *self)
{
    uint64_t one = 1;
    if (hc_likely(!self->armed))
        return;
    /* Fails only when the counter is full, and then the descriptor is readable. */
    ssize_t ignored = write(self->event_fd, &one, sizeof(one));
    (void)ignored;
}

static void disarm(struct self_iface *self)
{
    uint64_t count;
    self->armed = false;
    /* Fails only when nothing was written, and that is as good. */
    ssize_t ignored = read(self->event_fd, &count, sizeof(count));
    (void)ignored;
}

static void deliver(struct self_iface *self)
{
    struct message *message = hc_container_of(hc_fifo_pop(&self->queue), struct message, node);
    self->params.am(self->params.arg, self->params.world_rank, message->id, message->data, message->len);
    self->queued--;
    self->queued_bytes -= message->len;
    hc_pool_put(message->large ? &self->large : &self->small, message);
}

static unsigned progress(struct hc_iface *base)
{
    struct self_iface *self = self_of(base);
    if (hc_unlikely(self->armed))
        disarm(self);
    /* Only what is there now: upcalls that send to themselves must not keep this call going for ever. */
    unsigned count = (unsigned)self->queued;
    for (unsigned i = 0; i < count; i++)
        deliver(self);
    return count;
}

static int event_fd(struct hc_iface *base)
{
    return self_of(base)->event_fd;
}

static hcomm_status_t arm(struct hc_iface *base)
{
    struct self_iface *self = self_of(base);
    if (self->queued)
        return HCOMM_AGAIN;
    self->armed = true;
    return HCOMM_OK;
}

static hcomm_status_t address(const struct hc_iface *base, void *addr, size_t *len)
{
    struct self_addr wire = {.magic = ADDR_MAGIC, .cookie = self_of(base)->cookie};
    if (*len < sizeof(wire))
        return hc_error(HCOMM_ERR_INVALID, "self: %zu bytes are too few for an address", *len);
    memcpy(addr, &wire, sizeof(wire));
    *len = sizeof(wire);
    return HCOMM_OK;
}

static bool reachable(const struct hc_iface *base, const void *addr, size_t len)
{
    struct self_addr wire;
    if (!addr || len != sizeof(wire))
        return false;
    memcpy(&wire, addr, sizeof(wire));
    return wire.magic == ADDR_MAGIC && !wire.reserved && wire.cookie == self_of(base)->cookie;
}

static hcomm_status_t ep_create(struct hc_iface *base, uint32_t peer, const void *addr, size_t len,
                                struct hc_ep **ep)
{
    if (!reachable(base, addr, len))
        return hc_error(HCOMM_ERR_UNREACHABLE, "self: the address of rank %u is not this process'", peer);
    struct self_ep *e = malloc(sizeof(*e));
    if (!e)
        return hc_error(HCOMM_ERR_NO_MEMORY, "self: no memory for an endpoint");
    e->base = (struct hc_ep){.iface = base, .peer = peer};
    *ep = &e->base;
    return HCOMM_OK;
}

static void ep_destroy(struct hc_ep *ep)
{
    if (ep)
        free(hc_container_of(ep, struct self_ep, base));
}

static hcomm_status_t flush(struct hc_ep *ep, struct hc_op *op)
{
    (void)ep;
    (void)op;
    return HCOMM_OK; /* the queue is the peer's */
}

static struct message *message_new(struct self_iface *self, bool large, size_t room)
{
    if (self->queued >= HC_SELF_QUEUE_MAX || self->queued_bytes + room > HC_SELF_QUEUE_BYTES)
        return NULL;
    struct message *message = hc_pool_get(large ? &self->large : &self->small);
    if (message)
        message->large = large;
    return message;
}

static void message_queue(struct self_iface *self, struct message *message, uint8_t id, size_t len)
{
    message->id = id;
    message->len = (uint32_t)len;
    self->queued++;
    self->queued_bytes += len;
    hc_fifo_push(&self->queue, &message->node);
    notify(self);
}

static hcomm_status_t am_short(struct hc_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len)
{
    struct self_iface *self = self_of(ep->iface);
    if (hdr_len + len > HC_SELF_SHORT_MAX)
        return hc_error(HCOMM_ERR_INVALID, "self: %zu bytes are too long for a short message", hdr_len + len);
    struct message *message = message_new(self, false, hdr_len + len);
    if (!message)
        return HCOMM_AGAIN;
    memcpy(message->data, hdr, hdr_len);
    if (len)
        memcpy(message->data + hdr_len, data, len);
    message_queue(self, message, id, hdr_len + len);
    return HCOMM_OK;
}

static hcomm_status_t am_bcopy(struct hc_ep *ep, uint8_t id, hc_pack_fn pack, void *arg)
{
    struct self_iface *self = self_of(ep->iface);
    struct message *message = message_new(self, true, HC_SELF_BCOPY_MAX);
    if (!message)
        return HCOMM_AGAIN;
    size_t len = pack(message->data, arg);
    hc_assert(len <= HC_SELF_BCOPY_MAX);
    message_queue(self, message, id, len);
    return HCOMM_OK;
}

/* The address that `remote` stands for, checked against the rkey. */
static hcomm_status_t check_access(const struct self_rkey *rkey, uint64_t remote, size_t len, uint32_t flag)
{
    if (!(rkey->flags & flag))
        return hc_error(HCOMM_ERR_INVALID, "self: the memory is not registered for this");
    if (remote < rkey->addr || remote - rkey->addr > rkey->len || len > rkey->len - (remote - rkey->addr))
        return hc_error(HCOMM_ERR_INVALID, "self: %zu bytes are outside the registered memory", len);
    return HCOMM_OK;
}

static hcomm_status_t put(struct hc_ep *ep, const void *local, size_t len, struct hc_mem *mem,
                          uint64_t remote, struct hc_rkey *rkey, struct hc_op *op)
{
    (void)ep;
    (void)mem;
    (void)op;
    hcomm_status_t status =
        check_access(hc_container_of(rkey, struct self_rkey, base), remote, len, RKEY_WRITE);
    if (status == HCOMM_OK && len)
        memmove((void *)(uintptr_t)remote, local, len); /* NOLINT */
    return status;
}

static hcomm_status_t get(struct hc_ep *ep, void *local, size_t len, struct hc_mem *mem, uint64_t remote,
                          struct hc_rkey *rkey, struct hc_op *op)
{
    (void)ep;
    (void)mem;
    (void)op;
    hcomm_status_t status =
        check_access(hc_container_of(rkey, struct self_rkey, base), remote, len, RKEY_READ);
    if (status == HCOMM_OK && len)
        memmove(local, (const void *)(uintptr_t)remote, len); /* NOLINT */
    return status;
}

static hcomm_status_t mem_reg(struct hc_iface *iface, void *addr, size_t len, const struct hc_mem_attr *attr,
                              struct hc_mem **mem)
{
    if (attr->type != HC_MEMORY_HOST)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "self: device memory cannot be registered");
    struct self_mem *m = malloc(sizeof(*m));
    if (!m)
        return hc_error(HCOMM_ERR_NO_MEMORY, "self: no memory for a registration");
    *m = (struct self_mem){
        .base.iface = iface,
        .addr = (uintptr_t)addr,
        .len = len,
        .flags = (attr->remote_read ? RKEY_READ : 0u) | (attr->remote_write ? RKEY_WRITE : 0u),
    };
    *mem = &m->base;
    return HCOMM_OK;
}

static void mem_dereg(struct hc_mem *mem)
{
    if (mem)
        free(hc_container_of(mem, struct self_mem, base));
}

static hcomm_status_t rkey_pack(const struct hc_mem *base, void *buf, size_t *len)
{
    const struct self_mem *mem = hc_container_of(base, const struct self_mem, base);
    struct self_rkey_wire wire = {
        .magic = RKEY_MAGIC,
        .flags = mem->flags,
        .cookie = self_of(base->iface)->cookie,
        .addr = mem->addr,
        .len = mem->len,
    };
    if (*len < sizeof(wire))
        return hc_error(HCOMM_ERR_INVALID, "self: %zu bytes are too few for a remote key", *len);
    memcpy(buf, &wire, sizeof(wire));
    *len = sizeof(wire);
    return HCOMM_OK;
}

static hcomm_status_t rkey_unpack(struct hc_ep *ep, const void *buf, size_t len, struct hc_rkey **rkey)
{
    struct self_rkey_wire wire;
    if (len != sizeof(wire))
        return hc_error(HCOMM_ERR_PROTOCOL, "self: a remote key of %zu bytes", len);
    memcpy(&wire, buf, sizeof(wire));
    if (wire.magic != RKEY_MAGIC || wire.cookie != self_of(ep->iface)->cookie ||
        wire.flags & ~(RKEY_READ | RKEY_WRITE) || wire.addr + wire.len < wire.addr)
        return hc_error(HCOMM_ERR_PROTOCOL, "self: a malformed remote key");
    struct self_rkey *key = malloc(sizeof(*key));
    if (!key)
        return hc_error(HCOMM_ERR_NO_MEMORY, "self: no memory for a remote key");
    *key =
        (struct self_rkey){.base.iface = ep->iface, .addr = wire.addr, .len = wire.len, .flags = wire.flags};
    *rkey = &key->base;
    return HCOMM_OK;
}

static void rkey_release(struct hc_rkey *rkey)
{
    if (rkey)
        free(hc_container_of(rkey, struct self_rkey, base));
}

static void *sync_area(struct hc_iface *iface)
{
    return self_of(iface)->sync;
}

static void *ep_sync_area(struct hc_ep *ep)
{
    return self_of(ep->iface)->sync;
}

static void ep_wake(struct hc_ep *ep)
{
    notify(self_of(ep->iface));
}

const struct hc_transport hc_transport_self = {
    .name = "self",
    .query = query,
    .open = self_open,
    .close = self_close,
    .progress = progress,
    .event_fd = event_fd,
    .arm = arm,
    .address = address,
    .reachable = reachable,
    .ep_create = ep_create,
    .ep_destroy = ep_destroy,
    .flush = flush,
    .am_short = am_short,
    .am_bcopy = am_bcopy,
    .am_zcopy = NULL,
    .put = put,
    .get = get,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .rkey_pack = rkey_pack,
    .rkey_unpack = rkey_unpack,
    .rkey_release = rkey_release,
    .sync_area = sync_area,
    .ep_sync_area = ep_sync_area,
    .ep_wake = ep_wake,
};
