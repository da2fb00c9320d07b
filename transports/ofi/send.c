#include "transports/ofi/ofi.h"

#include <endian.h>
#include <string.h>

/* Whether the ep takes messages now; posting one may still be refused. */
static hcomm_status_t ready(struct hc_ofi_ep *ep)
{
    if (hc_likely(ep->state == HC_OFI_EP_UP && !ep->peer->deferred_sends))
        return HCOMM_OK;
    if (ep->state >= HC_OFI_EP_BROKEN)
        return ep->error;
    return !ep->peer->deferred_sends && hc_ofi_ep_connect(ep) ? HCOMM_OK : HCOMM_AGAIN;
}

/* The same, and nothing that was accepted before is held back any more. */
static hcomm_status_t free_for_next(struct hc_ofi_ep *ep)
{
    hcomm_status_t status = ready(ep);
    if (hc_likely(status != HCOMM_OK || !ep->gather.op))
        return status;
    status = hc_ofi_gather_post(ep);
    return status == HCOMM_OK ? ready(ep) : status;
}

static hcomm_status_t too_long(const struct hc_ep *base, size_t len, size_t max)
{
    return hc_error(HCOMM_ERR_INVALID, "a message of %zu bytes exceeds the %zu of %s", len, max,
                    hc_ofi_iface_of(base->iface)->profile->name);
}

static void write_header(const struct hc_ofi_iface *iface, uint8_t id, size_t len, uint32_t sequence,
                         void *dest)
{
    struct hc_ofi_header header = {
        .id = id,
        .job = iface->job,
        .from = iface->params.world_rank,
        .length = (uint32_t)len,
        .sequence = sequence,
    };
    hc_ofi_header_pack(&header, dest);
}

/* Copy a part of a message, which may be empty and then NULL; returns where the next part goes. */
static char *copy_part(char *dest, const void *part, size_t len)
{
    if (len)
        memcpy(dest, part, len);
    return dest + len;
}

hcomm_status_t hc_ofi_send_op_get(struct hc_ofi_ep *ep, struct hc_op *user, struct hc_ofi_op **op)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    if (!iface->tx_credits || ep->buffers == HC_OFI_BUFFERS_PER_EP)
        return HCOMM_AGAIN;
    struct hc_ofi_op *got = hc_ofi_op_get(ep, HC_OFI_OP_SEND, user);
    if (!got)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for an operation of %s", iface->profile->name);
    if (!hc_ofi_op_add_buffer(got)) {
        hc_ofi_op_put(got);
        return HCOMM_AGAIN;
    }
    *op = got;
    return HCOMM_OK;
}

hcomm_status_t hc_ofi_send_packed(struct hc_ofi_op *op, uint8_t id, size_t len)
{
    struct hc_ofi_peer *peer = op->ep->peer;
    write_header(op->iface, id, len, peer->tx_sequence, op->buffer->data);
    op->iov[0].iov_len = HC_OFI_HEADER_SIZE + len;
    peer->tx_sequence++;
    struct hc_ofi_iface *iface = op->iface;
    hcomm_status_t status = hc_ofi_op_submit(op);
    /* its buffer, still in the caches, is then the next message's */
    if (status == HCOMM_IN_PROGRESS && iface->profile->quick_sends)
        hc_ofi_reap(iface);
    return status == HCOMM_IN_PROGRESS ? HCOMM_OK : status;
}

static hcomm_status_t send_inject(struct hc_ofi_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                  const void *data, size_t len)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    _Alignas(8) char message[HC_OFI_INJECT_MAX];
    write_header(iface, id, hdr_len + len, ep->peer->tx_sequence, message);
    (void)copy_part(copy_part(message + HC_OFI_HEADER_SIZE, hdr, hdr_len), data, len);
    ssize_t result =
        fi_inject(iface->rails[0], message, HC_OFI_HEADER_SIZE + hdr_len + len, ep->peer->address);
    if (hc_likely(result == 0)) {
        ep->peer->tx_sequence++;
        ep->injected++;
        hc_ofi_ep_accepted(ep);
        return HCOMM_OK;
    }
    if (result == -FI_EAGAIN) {
        hc_ofi_ep_refused(ep);
        return HCOMM_AGAIN;
    }
    hcomm_status_t status = hc_ofi_error(iface, "sending", result);
    hc_ofi_ep_break(ep, status);
    return status;
}

static hcomm_status_t send_copied(struct hc_ofi_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                  const void *data, size_t len)
{
    /* A provider may queue injected messages without end; those with a completion bound them. */
    if (HC_OFI_HEADER_SIZE + hdr_len + len <= hc_ofi_ep_iface(ep)->inject_max &&
        ep->injected < HC_OFI_INJECT_RUN)
        return send_inject(ep, id, hdr, hdr_len, data, len);
    struct hc_ofi_op *op;
    hcomm_status_t status = hc_ofi_send_op_get(ep, NULL, &op);
    if (status != HCOMM_OK)
        return status;
    (void)copy_part(copy_part(op->buffer->data + HC_OFI_HEADER_SIZE, hdr, hdr_len), data, len);
    return hc_ofi_send_packed(op, id, hdr_len + len);
}

hcomm_status_t hc_ofi_am_short(struct hc_ep *base, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    hc_assert(hdr_len % 8 == 0);
    if (hc_unlikely(hdr_len + len > base->iface->attr.short_max))
        return too_long(base, hdr_len + len, base->iface->attr.short_max);
    hcomm_status_t status = free_for_next(ep);
    if (hc_unlikely(status != HCOMM_OK))
        return status;
    hc_ofi_gather_count(ep);
    status = send_copied(ep, id, hdr, hdr_len, data, len);
    hc_ofi_gather_sent(ep);
    return status;
}

hcomm_status_t hc_ofi_am_bcopy(struct hc_ep *base, uint8_t id, hc_pack_fn pack, void *arg)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    hcomm_status_t status = free_for_next(ep);
    if (hc_unlikely(status != HCOMM_OK))
        return status;
    struct hc_ofi_op *op;
    status = hc_ofi_send_op_get(ep, NULL, &op);
    if (status != HCOMM_OK)
        return status;
    size_t len = pack(op->buffer->data + HC_OFI_HEADER_SIZE, arg);
    hc_assert(len <= base->iface->attr.bcopy_max);
    return hc_ofi_send_packed(op, id, len);
}

/* Put the caller's data behind the header in the bounce buffer. */
static hcomm_status_t attach_data(struct hc_ofi_op *op, const void *data, size_t len, struct hc_mem *mem)
{
    op->iov[1] = (struct iovec){.iov_base = (void *)data, .iov_len = len};
    op->iov_count = 2;
    if (mem) {
        op->desc[1] = hc_container_of(mem, struct hc_ofi_mem, base)->desc;
    } else if (op->iface->mr_local) {
        hcomm_status_t status = hc_ofi_register(op->iface, data, len, FI_SEND, &op->mr);
        if (status != HCOMM_OK)
            return status;
        op->desc[1] = fi_mr_desc(op->mr);
    }
    return HCOMM_OK;
}

/* Post, and look whether that was all: HCOMM_OK when the data have left. */
static hcomm_status_t send_zero_copy(struct hc_ofi_op *op)
{
    struct hc_ofi_ep *ep = op->ep;
    struct hc_ofi_iface *iface = op->iface;
    bool over = false;
    hcomm_status_t status = hc_ofi_op_try(op);
    if (status != HCOMM_IN_PROGRESS)
        return status;
    ep->peer->tx_sequence++;
    if (!iface->profile->quick_sends)
        return status;
    op->over = &over;
    hc_ofi_reap(iface);
    if (over)
        return HCOMM_OK;
    op->over = NULL;
    return status;
}

/* Header and data as two parts, the data where they are. */
static hcomm_status_t send_in_place(struct hc_ofi_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                    const void *data, size_t len, struct hc_mem *mem, struct hc_op *user)
{
    struct hc_ofi_op *op;
    hcomm_status_t status = hc_ofi_send_op_get(ep, user, &op);
    if (status != HCOMM_OK)
        return status;
    write_header(op->iface, id, hdr_len + len, ep->peer->tx_sequence, op->buffer->data);
    (void)copy_part(op->buffer->data + HC_OFI_HEADER_SIZE, hdr, hdr_len);
    op->iov[0].iov_len = HC_OFI_HEADER_SIZE + hdr_len;
    status = len ? attach_data(op, data, len, mem) : HCOMM_OK;
    if (status != HCOMM_OK) {
        hc_ofi_op_put(op);
        return status;
    }
    return send_zero_copy(op);
}

hcomm_status_t hc_ofi_am_zcopy(struct hc_ep *base, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len, struct hc_mem *mem, struct hc_op *user)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    hc_assert(hdr_len % 8 == 0);
    if (hc_unlikely(hdr_len + len > base->iface->attr.zcopy_max))
        return too_long(base, hdr_len + len, base->iface->attr.zcopy_max);
    hcomm_status_t status = ready(ep);
    if (hc_unlikely(status != HCOMM_OK))
        return status;
    hc_ofi_gather_count(ep);
    if (ep->base.holds && hdr_len + len <= hc_ofi_ep_iface(ep)->profile->gather_max)
        return hc_ofi_gather_add(ep, id, hdr, hdr_len, data, len, user);
    status = free_for_next(ep);
    if (hc_unlikely(status != HCOMM_OK))
        return status;
    if (len < hc_ofi_ep_iface(ep)->profile->zcopy_min)
        status = send_copied(ep, id, hdr, hdr_len, data, len);
    else
        status = send_in_place(ep, id, hdr, hdr_len, data, len, mem, user);
    hc_ofi_gather_sent(ep);
    return status;
}

/* Deferred stripes are posted out of turn, so the lists are not sorted by serial. */
static bool older_in(const struct hc_list *list, uint64_t serial)
{
    struct hc_list *node;
    hc_list_for_each(node,
                     list) if (hc_list_entry(node, struct hc_ofi_op, link)->serial <= serial) return true;
    return false;
}

static bool flush_over(const struct hc_ofi_ep *ep, uint64_t serial)
{
    return !older_in(&ep->pending, serial) && !older_in(&ep->deferred, serial);
}

static size_t pack_nothing(void *dest, void *arg)
{
    (void)dest;
    (void)arg;
    return 0;
}

/* Injected messages have no completion: send one behind them that has. */
static hcomm_status_t mark(struct hc_ofi_ep *ep)
{
    return ep->injected ? hc_ofi_am_bcopy(&ep->base, HC_OFI_ID_MARK, pack_nothing, NULL) : HCOMM_OK;
}

/*
 * A send completes when the provider has handed the message to the network or the peer's queue, in order, so
 * that the completion of the last one says it of all.
 */
hcomm_status_t hc_ofi_flush(struct hc_ep *base, struct hc_op *user)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    if (ep->state >= HC_OFI_EP_BROKEN)
        return ep->error;
    hcomm_status_t status = hc_ofi_gather_post(ep);
    if (status == HCOMM_OK)
        status = mark(ep);
    if (status != HCOMM_OK)
        return status;
    if (ep->gather.untold) /* what has left is told with the next progress */
        return HCOMM_AGAIN;
    if (flush_over(ep, ep->serial))
        return HCOMM_OK;
    struct hc_ofi_flush *flush = hc_pool_get(&iface->flushes);
    if (!flush)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a flush of %s", iface->profile->name);
    *flush = (struct hc_ofi_flush){.user = user, .serial = ep->serial};
    hc_list_append(&ep->flushes, &flush->link);
    return HCOMM_IN_PROGRESS;
}

void hc_ofi_flush_check(struct hc_ofi_ep *ep)
{
    struct hc_list over, *node;
    hc_list_init(&over);
    while ((node = hc_list_first(&ep->flushes)) &&
           flush_over(ep, hc_list_entry(node, struct hc_ofi_flush, link)->serial)) {
        hc_list_remove(node);
        hc_list_append(&over, node);
    }
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    while ((node = hc_list_pop(&over))) {
        struct hc_ofi_flush *flush = hc_list_entry(node, struct hc_ofi_flush, link);
        struct hc_op *user = flush->user;
        hc_pool_put(&iface->flushes, flush);
        user->done(user, HCOMM_OK);
    }
}

size_t hc_ofi_hello_pack(const struct hc_ofi_peer *peer, void *dest)
{
    const struct hc_ofi_iface *iface = peer->iface;
    char *payload = (char *)dest + HC_OFI_HEADER_SIZE;
    uint64_t job = htole64(iface->job_hash);
    memcpy(payload, &job, sizeof(job));
    size_t len = sizeof(job) + hc_ofi_address_pack(&iface->name, payload + sizeof(job));
    write_header(iface, HC_OFI_ID_HELLO, len, peer->tx_sequence, dest);
    return HC_OFI_HEADER_SIZE + len;
}
