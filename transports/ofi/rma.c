#include "transports/ofi/ofi.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { STRIPE_ALIGN = 4096 };

struct rkey_wire {
    uint8_t version, profile;
    uint16_t reserved;
    uint32_t check; /* of the numbers below, so that noise is told from a key */
    uint64_t key, start, len;
};
_Static_assert(sizeof(struct rkey_wire) == HC_OFI_RKEY_SIZE, "layout is part of the protocol");

static uint32_t rkey_check(const struct rkey_wire *wire)
{
    const uint64_t numbers[] = {wire->key, wire->start, wire->len};
    return (uint32_t)hc_ofi_hash(HC_OFI_HASH_START, numbers, sizeof(numbers));
}

static hcomm_status_t register_error(struct hc_ofi_iface *iface, size_t len, int result)
{
    struct rlimit limit;
    if (result == -FI_ENOMEM && iface->profile->rdma && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
        return hc_error(HCOMM_ERR_LIMIT,
                        "%s cannot register %zu bytes: locked memory is limited to %llu bytes; raise it "
                        "(ulimit -l unlimited, or memlock in /etc/security/limits.conf)",
                        iface->profile->name, len, (unsigned long long)limit.rlim_cur);
    return hc_ofi_error(iface, "registering memory", result);
}

static hcomm_status_t regattr(struct hc_ofi_iface *iface, const struct iovec *iov, int device,
                              uint64_t access, struct fid_mr **mr)
{
    struct fi_mr_attr attr = {
        .mr_iov = iov,
        .iov_count = 1,
        .access = access,
        .requested_key = iface->mr_provider_key ? 0 : iface->next_key++,
        .iface = device < 0 ? FI_HMEM_SYSTEM : (enum fi_hmem_iface)iface->profile->device_iface,
        .device.reserved = device < 0 ? 0 : (uint64_t)device,
    };
    struct fid_mr *registered;
    int result = fi_mr_regattr(iface->domain, &attr, 0, &registered);
    if (result)
        return register_error(iface, iov->iov_len, result);
    *mr = registered;
    return HCOMM_OK;
}

hcomm_status_t hc_ofi_register(struct hc_ofi_iface *iface, const void *addr, size_t len, uint64_t access,
                               struct fid_mr **mr)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)addr, .iov_len = len};
    return regattr(iface, &iov, -1, access, mr);
}

hcomm_status_t hc_ofi_mem_reg(struct hc_iface *base, void *addr, size_t len, const struct hc_mem_attr *attr,
                              struct hc_mem **mem)
{
    struct hc_ofi_iface *iface = hc_ofi_iface_of(base);
    bool on_device = attr->type == HC_MEMORY_DEVICE;
    const struct iovec iov = {.iov_base = addr, .iov_len = len};
    if (on_device && !(base->attr.caps & HC_CAP_DEVICE_MEM))
        return hc_error(HCOMM_ERR_UNSUPPORTED, "%s reaches host memory only", iface->profile->name);
    struct hc_ofi_mem *made = calloc(1, sizeof(*made));
    if (!made)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a registration of %s", iface->profile->name);
    uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | (attr->remote_read ? FI_REMOTE_READ : 0) |
                      (attr->remote_write ? FI_REMOTE_WRITE : 0);
    hcomm_status_t status = regattr(iface, &iov, on_device ? attr->device : -1, access, &made->mr);
    if (status != HCOMM_OK) {
        free(made);
        return status;
    }
    made->base.iface = base;
    made->desc = iface->mr_local || on_device ? fi_mr_desc(made->mr) : NULL;
    made->key = fi_mr_key(made->mr);
    made->start = (uintptr_t)addr;
    made->len = len;
    *mem = &made->base;
    return HCOMM_OK;
}

void hc_ofi_mem_dereg(struct hc_mem *base)
{
    if (!base)
        return;
    struct hc_ofi_mem *mem = hc_container_of(base, struct hc_ofi_mem, base);
    (void)fi_close(&mem->mr->fid);
    free(mem);
}

hcomm_status_t hc_ofi_rkey_pack(const struct hc_mem *base, void *buf, size_t *len)
{
    const struct hc_ofi_mem *mem = hc_container_of(base, const struct hc_ofi_mem, base);
    if (*len < HC_OFI_RKEY_SIZE)
        return hc_error(HCOMM_ERR_INVALID, "a remote key takes %d bytes, %zu are there", HC_OFI_RKEY_SIZE,
                        *len);
    struct rkey_wire wire = {
        .version = HC_OFI_WIRE_VERSION,
        .profile = hc_ofi_iface_of(base->iface)->profile->id,
        .key = htole64(mem->key),
        .start = htole64(mem->start),
        .len = htole64(mem->len),
    };
    wire.check = htole32(rkey_check(&wire));
    memcpy(buf, &wire, sizeof(wire));
    *len = sizeof(wire);
    return HCOMM_OK;
}

hcomm_status_t hc_ofi_rkey_unpack(struct hc_ep *ep, const void *buf, size_t len, struct hc_rkey **rkey)
{
    const struct hc_ofi_profile *profile = hc_ofi_iface_of(ep->iface)->profile;
    struct rkey_wire wire;
    if (len != sizeof(wire))
        return hc_error(HCOMM_ERR_PROTOCOL, "rank %u sent a remote key of %zu bytes instead of %zu", ep->peer,
                        len, sizeof(wire));
    memcpy(&wire, buf, sizeof(wire));
    if (wire.version != HC_OFI_WIRE_VERSION || wire.profile != profile->id ||
        le32toh(wire.check) != rkey_check(&wire))
        return hc_error(HCOMM_ERR_PROTOCOL, "rank %u sent a remote key that is not one of %s", ep->peer,
                        profile->name);
    struct hc_ofi_rkey *made = calloc(1, sizeof(*made));
    if (!made)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a remote key of %s", profile->name);
    made->base.iface = ep->iface;
    made->key = le64toh(wire.key);
    made->start = le64toh(wire.start);
    made->len = le64toh(wire.len);
    *rkey = &made->base;
    return HCOMM_OK;
}

void hc_ofi_rkey_release(struct hc_rkey *rkey)
{
    if (rkey)
        free(hc_container_of(rkey, struct hc_ofi_rkey, base));
}

/* What a put or get is to move. */
struct transfer {
    enum hc_ofi_op_kind kind;
    char *local;
    size_t len;
    struct hc_mem *mem;
    uint64_t remote;
    const struct hc_ofi_rkey *rkey;
};

/* An op for a piece of the transfer. */
static hcomm_status_t piece_get(struct hc_ofi_ep *ep, const struct transfer *transfer, size_t offset,
                                size_t len, struct hc_op *user, struct hc_ofi_op **op)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    struct hc_ofi_op *got = hc_ofi_op_get(ep, transfer->kind, user);
    if (!got)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for an operation of %s", iface->profile->name);
    got->iov_count = 1;
    got->iov[0] = (struct iovec){.iov_base = transfer->local + offset, .iov_len = len};
    got->remote = transfer->remote + offset - (iface->mr_virtual ? 0 : transfer->rkey->start);
    got->key = transfer->rkey->key;
    if (transfer->mem) {
        got->desc[0] = hc_container_of(transfer->mem, struct hc_ofi_mem, base)->desc;
    } else if (iface->mr_local) {
        uint64_t access = transfer->kind == HC_OFI_OP_READ ? FI_READ : FI_WRITE;
        hcomm_status_t status = hc_ofi_register(iface, transfer->local + offset, len, access, &got->mr);
        if (status != HCOMM_OK) {
            hc_ofi_op_put(got);
            return status;
        }
        got->desc[0] = fi_mr_desc(got->mr);
    }
    *op = got;
    return HCOMM_OK;
}

/* Open what num_qp allows, at the first transfer that has use for it; how many there are. */
static unsigned rail_count(struct hc_ofi_iface *iface)
{
    unsigned most = (unsigned)iface->params.settings->num_qp;
    if (iface->rail_count < most)
        hc_ofi_rails_open(iface, most);
    return iface->rail_count < most ? iface->rail_count : most;
}

/* Long transfers of one message and the next take turns over the rails. */
static uint8_t take_rail(struct hc_ofi_ep *ep, size_t len)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    return len < iface->profile->rotate_min ? 0 : (uint8_t)(ep->next_rail++ % rail_count(iface));
}

static hcomm_status_t start_whole(struct hc_ofi_ep *ep, const struct transfer *transfer, struct hc_op *user)
{
    struct hc_ofi_op *op;
    hcomm_status_t status = piece_get(ep, transfer, 0, transfer->len, user, &op);
    if (status != HCOMM_OK)
        return status;
    op->rail = take_rail(ep, transfer->len);
    return hc_ofi_op_try(op);
}

/* Further stripes after the first is on its way: whatever happens to one ends in the parent. */
static void start_stripe(struct hc_ofi_ep *ep, const struct transfer *transfer, size_t offset, size_t len,
                         unsigned rail, struct hc_ofi_op *parent)
{
    struct hc_ofi_op *op;
    hcomm_status_t status = piece_get(ep, transfer, offset, len, NULL, &op);
    if (status == HCOMM_OK) {
        op->rail = (uint8_t)rail;
        op->parent = parent;
        status = hc_ofi_op_submit(op);
    }
    if (status == HCOMM_IN_PROGRESS)
        return;
    /* done() must not run inside the call that took the op: the first stripe is still to complete. */
    parent->left--;
    if (parent->status == HCOMM_OK)
        parent->status = status;
}

static hcomm_status_t start_striped(struct hc_ofi_ep *ep, const struct transfer *transfer, unsigned stripes,
                                    struct hc_op *user)
{
    size_t piece = hc_align_up((transfer->len + stripes - 1) / stripes, STRIPE_ALIGN);
    struct hc_ofi_op *parent = hc_ofi_op_get(ep, HC_OFI_OP_PARENT, user), *first;
    if (!parent)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a striped transfer");
    parent->left = (transfer->len + piece - 1) / piece;
    hcomm_status_t status = piece_get(ep, transfer, 0, piece, NULL, &first);
    if (status == HCOMM_OK) {
        first->parent = parent;
        status = hc_ofi_op_try(first);
    }
    if (status != HCOMM_IN_PROGRESS) {
        hc_ofi_op_put(parent);
        return status;
    }
    unsigned rail = 1, rails = rail_count(hc_ofi_ep_iface(ep));
    for (size_t offset = piece; offset < transfer->len; offset += piece, rail++) {
        size_t len = transfer->len - offset < piece ? transfer->len - offset : piece;
        start_stripe(ep, transfer, offset, len, rail % rails, parent);
    }
    return HCOMM_IN_PROGRESS;
}

static unsigned stripe_count(struct hc_ofi_iface *iface, size_t len)
{
    const struct hc_ofi_profile *profile = iface->profile;
    if (len < profile->cut_below)
        return (unsigned)((len + profile->cut_max - 1) / profile->cut_max);
    size_t wanted = len / profile->stripe_min;
    unsigned most = (unsigned)iface->params.settings->num_qp;
    if (wanted < 2 || most < 2)
        return 1;
    unsigned count = rail_count(iface);
    return wanted < count ? (unsigned)wanted : count;
}

/* Checked here because a provider may answer a bad address by breaking the connection. */
static bool inside(const struct transfer *transfer)
{
    const struct hc_ofi_rkey *rkey = transfer->rkey;
    uint64_t offset = transfer->remote - rkey->start;
    return transfer->remote >= rkey->start && offset <= rkey->len && transfer->len <= rkey->len - offset;
}

static hcomm_status_t start(struct hc_ep *base, const struct transfer *transfer, struct hc_op *user)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    if (hc_unlikely(ep->state != HC_OFI_EP_UP))
        return ep->state >= HC_OFI_EP_BROKEN ? ep->error : HCOMM_AGAIN;
    if (transfer->len == 0)
        return HCOMM_OK;
    if (transfer->len > base->iface->attr.rma_max)
        return hc_error(HCOMM_ERR_INVALID, "a transfer of %zu bytes exceeds the %zu of %s", transfer->len,
                        base->iface->attr.rma_max, hc_ofi_ep_iface(ep)->profile->name);
    if (hc_unlikely(!inside(transfer)))
        return hc_error(HCOMM_ERR_INVALID,
                        "a transfer of %zu bytes at %#llx leaves rank %u's registered memory", transfer->len,
                        (unsigned long long)transfer->remote, base->peer);
    if (transfer->kind == HC_OFI_OP_WRITE && ep->gather.op) {
        hcomm_status_t status = hc_ofi_gather_post(ep);
        if (status != HCOMM_OK)
            return status;
    }
    unsigned stripes = stripe_count(hc_ofi_ep_iface(ep), transfer->len);
    return stripes > 1 ? start_striped(ep, transfer, stripes, user) : start_whole(ep, transfer, user);
}

hcomm_status_t hc_ofi_put(struct hc_ep *ep, const void *local, size_t len, struct hc_mem *mem,
                          uint64_t remote, struct hc_rkey *rkey, struct hc_op *op)
{
    struct transfer transfer = {
        HC_OFI_OP_WRITE, (char *)local, len, mem, remote, hc_container_of(rkey, struct hc_ofi_rkey, base)};
    return start(ep, &transfer, op);
}

hcomm_status_t hc_ofi_get(struct hc_ep *ep, void *local, size_t len, struct hc_mem *mem, uint64_t remote,
                          struct hc_rkey *rkey, struct hc_op *op)
{
    struct transfer transfer = {
        HC_OFI_OP_READ, local, len, mem, remote, hc_container_of(rkey, struct hc_ofi_rkey, base)};
    return start(ep, &transfer, op);
}
