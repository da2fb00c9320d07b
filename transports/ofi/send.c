#include "transports/ofi/ofi.h"

#include <endian.h>
#include <string.h>

struct hc_ofi_buffer *hc_ofi_buffer_get(struct hc_ofi_iface *iface)
{
    struct hc_ofi_buffer *buffer = iface->free_buffers;
    if (buffer)
        iface->free_buffers = buffer->next;
    return buffer;
}

void hc_ofi_buffer_put(struct hc_ofi_iface *iface, struct hc_ofi_buffer *buffer)
{
    buffer->next = iface->free_buffers;
    iface->free_buffers = buffer;
}

/* Whether the ep takes messages now; posting one may still be refused. */
static hcomm_status_t ready(const struct hc_ofi_ep *ep)
{
    if (hc_likely(ep->state == HC_OFI_EP_UP && !ep->peer->deferred_sends))
        return HCOMM_OK;
    return ep->state >= HC_OFI_EP_BROKEN ? ep->error : HCOMM_AGAIN;
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

/* A send op with a bounce buffer; HCOMM_AGAIN when either has run out. */
static hcomm_status_t send_op_get(struct hc_ofi_ep *ep, struct hc_op *user, struct hc_ofi_op **op)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    if (!iface->free_buffers || !iface->tx_credits)
        return HCOMM_AGAIN;
    struct hc_ofi_op *got = hc_ofi_op_get(ep, HC_OFI_OP_SEND, user);
    if (!got)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for an operation of %s", iface->profile->name);
    got->buffer = hc_ofi_buffer_get(iface);
    got->iov_count = 1;
    got->iov[0].iov_base = got->buffer->data;
    got->desc[0] = iface->slab_desc;
    *op = got;
    return HCOMM_OK;
}

/* Post a packed message that must not be packed twice: what the provider refuses now waits in the ep. */
static hcomm_status_t send_packed(struct hc_ofi_op *op, uint8_t id, size_t len)
{
    struct hc_ofi_peer *peer = op->ep->peer;
    write_header(op->iface, id, len, peer->tx_sequence, op->buffer->data);
    op->iov[0].iov_len = HC_OFI_HEADER_SIZE + len;
    peer->tx_sequence++;
    hcomm_status_t status = hc_ofi_op_submit(op);
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
        ep->serial++;
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

hcomm_status_t hc_ofi_am_short(struct hc_ep *base, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    hc_assert(hdr_len + len <= base->iface->attr.short_max && hdr_len % 8 == 0);
    hcomm_status_t status = ready(ep);
    if (hc_unlikely(status != HCOMM_OK))
        return status;
    if (HC_OFI_HEADER_SIZE + hdr_len + len <= hc_ofi_ep_iface(ep)->inject_max)
        return send_inject(ep, id, hdr, hdr_len, data, len);
    struct hc_ofi_op *op;
    status = send_op_get(ep, NULL, &op);
    if (status != HCOMM_OK)
        return status;
    (void)copy_part(copy_part(op->buffer->data + HC_OFI_HEADER_SIZE, hdr, hdr_len), data, len);
    return send_packed(op, id, hdr_len + len);
}

hcomm_status_t hc_ofi_am_bcopy(struct hc_ep *base, uint8_t id, hc_pack_fn pack, void *arg)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    hcomm_status_t status = ready(ep);
    if (hc_unlikely(status != HCOMM_OK))
        return status;
    struct hc_ofi_op *op;
    status = send_op_get(ep, NULL, &op);
    if (status != HCOMM_OK)
        return status;
    size_t len = pack(op->buffer->data + HC_OFI_HEADER_SIZE, arg);
    hc_assert(len <= base->iface->attr.bcopy_max);
    return send_packed(op, id, len);
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

hcomm_status_t hc_ofi_am_zcopy(struct hc_ep *base, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len, struct hc_mem *mem, struct hc_op *user)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    hc_assert(hdr_len + len <= base->iface->attr.zcopy_max && hdr_len % 8 == 0);
    hcomm_status_t status = ready(ep);
    if (hc_unlikely(status != HCOMM_OK))
        return status;
    struct hc_ofi_op *op;
    status = send_op_get(ep, user, &op);
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
    status = hc_ofi_op_try(op);
    if (status == HCOMM_IN_PROGRESS)
        ep->peer->tx_sequence++;
    return status;
}

hcomm_status_t hc_ofi_flush(struct hc_ep *base, struct hc_op *user)
{
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    struct hc_ofi_peer *peer = ep->peer;
    if (ep->state < HC_OFI_EP_BROKEN && ep->serial == 0)
        return HCOMM_OK; /* nothing was ever sent on it */
    hcomm_status_t status = ready(ep);
    if (status != HCOMM_OK)
        return status;
    struct hc_ofi_flush *flush = hc_pool_get(&iface->flushes);
    if (!flush)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a flush of %s", iface->profile->name);
    uint64_t serial = ep->serial, token = htole64(peer->flush_token + 1);
    status = hc_ofi_am_short(base, HC_OFI_ID_FLUSH, &token, sizeof(token), NULL, 0);
    if (status != HCOMM_OK) {
        hc_pool_put(&iface->flushes, flush);
        return status;
    }
    *flush = (struct hc_ofi_flush){.ep = ep, .user = user, .token = ++peer->flush_token, .serial = serial};
    hc_list_append(&peer->flushes, &flush->link);
    return HCOMM_IN_PROGRESS;
}

/* Deferred stripes are posted out of turn, so the lists are not sorted by serial. */
static bool older_in(const struct hc_list *list, uint64_t serial)
{
    struct hc_list *node;
    hc_list_for_each(node,
                     list) if (hc_list_entry(node, struct hc_ofi_op, link)->serial <= serial) return true;
    return false;
}

static bool flush_over(const struct hc_ofi_flush *flush)
{
    return flush->acknowledged && !older_in(&flush->ep->pending, flush->serial) &&
           !older_in(&flush->ep->deferred, flush->serial);
}

void hc_ofi_flush_check(struct hc_ofi_peer *peer)
{
    struct hc_list *node;
    while ((node = hc_list_first(&peer->flushes))) {
        struct hc_ofi_flush *flush = hc_list_entry(node, struct hc_ofi_flush, link);
        if (!flush_over(flush))
            return;
        struct hc_op *user = flush->user;
        hc_list_remove(node);
        hc_pool_put(&peer->iface->flushes, flush);
        user->done(user, HCOMM_OK);
    }
}

hcomm_status_t hc_ofi_ack_send(struct hc_ofi_peer *peer)
{
    struct hc_ofi_iface *iface = peer->iface;
    _Alignas(8) char message[HC_OFI_HEADER_SIZE + sizeof(uint64_t)];
    uint64_t token = htole64(peer->ack_token);
    write_header(iface, HC_OFI_ID_FLUSH_ACK, sizeof(token), 0, message);
    memcpy(message + HC_OFI_HEADER_SIZE, &token, sizeof(token));
    ssize_t result = fi_inject(iface->rails[0], message, sizeof(message), peer->address);
    if (result == 0)
        return HCOMM_OK;
    return result == -FI_EAGAIN ? HCOMM_AGAIN : hc_ofi_error(iface, "acknowledging a flush", result);
}

size_t hc_ofi_hello_pack(const struct hc_ofi_iface *iface, void *dest)
{
    char *payload = (char *)dest + HC_OFI_HEADER_SIZE;
    uint64_t job = htole64(iface->job_hash);
    memcpy(payload, &job, sizeof(job));
    size_t len = sizeof(job) + hc_ofi_address_pack(&iface->name, payload + sizeof(job));
    write_header(iface, HC_OFI_ID_HELLO, len, 0, dest);
    return HC_OFI_HEADER_SIZE + len;
}
