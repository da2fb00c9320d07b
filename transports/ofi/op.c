#include "transports/ofi/ofi.h"

#include <string.h>

struct hc_ofi_op *hc_ofi_op_get(struct hc_ofi_ep *ep, enum hc_ofi_op_kind kind, struct hc_op *user)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    struct hc_ofi_op *op = hc_pool_get(&iface->ops);
    if (!op)
        return NULL;
    *op = (struct hc_ofi_op){.kind = kind, .iface = iface, .ep = ep, .user = user, .serial = ++ep->serial};
    hc_list_init(&op->link);
    return op;
}

bool hc_ofi_op_add_buffer(struct hc_ofi_op *op)
{
    struct hc_ofi_buffer *buffer = hc_ofi_buffer_get(op->ep);
    if (!buffer)
        return false;
    op->buffer = buffer;
    op->iov_count = 1;
    op->iov[0].iov_base = buffer->data;
    op->desc[0] = buffer->desc;
    return true;
}

static void drop_buffer(struct hc_ofi_op *op)
{
    op->buffer->next = op->iface->free_buffers;
    op->iface->free_buffers = op->buffer;
    if (op->ep)
        op->ep->buffers--;
}

void hc_ofi_op_put(struct hc_ofi_op *op)
{
    hc_list_remove(&op->link);
    if (op->mr)
        (void)fi_close(&op->mr->fid);
    if (op->buffer)
        drop_buffer(op);
    hc_pool_put(&op->iface->ops, op);
}

static ssize_t post_send(struct hc_ofi_op *op, struct fid_ep *rail, fi_addr_t to)
{
    if (op->iov_count == 1)
        return fi_send(rail, op->iov[0].iov_base, op->iov[0].iov_len, op->desc[0], to, &op->context);
    return fi_sendv(rail, op->iov, op->desc, op->iov_count, to, &op->context);
}

static ssize_t post_write(struct hc_ofi_op *op, struct fid_ep *rail, fi_addr_t to)
{
    struct fi_rma_iov remote = {.addr = op->remote, .len = op->iov[0].iov_len, .key = op->key};
    struct fi_msg_rma msg = {
        .msg_iov = op->iov,
        .desc = op->desc,
        .iov_count = 1,
        .addr = to,
        .rma_iov = &remote,
        .rma_iov_count = 1,
        .context = &op->context,
    };
    return fi_writemsg(rail, &msg, op->iface->profile->put_flags | FI_COMPLETION);
}

static ssize_t post(struct hc_ofi_op *op)
{
    struct fid_ep *rail = op->iface->rails[op->rail];
    fi_addr_t to = op->ep->peer->address;
    if (op->kind == HC_OFI_OP_SEND)
        return post_send(op, rail, to);
    if (op->kind == HC_OFI_OP_READ)
        return fi_read(rail, op->iov[0].iov_base, op->iov[0].iov_len, op->desc[0], to, op->remote, op->key,
                       &op->context);
    return post_write(op, rail, to);
}

static void count_rail(struct hc_ofi_op *op)
{
    uint32_t bit = UINT32_C(1) << op->rail;
    if (op->ep->rails_used & bit)
        return;
    op->ep->rails_used |= bit;
    hc_counter_add(op->iface->params.counters, HC_COUNTER_CONNECTIONS, 1);
}

ssize_t hc_ofi_op_post(struct hc_ofi_op *op)
{
    if (op->iface->tx_credits == 0)
        return -FI_EAGAIN;
    ssize_t result = post(op);
    if (result == -FI_EAGAIN)
        hc_ofi_ep_refused(op->ep);
    if (result)
        return result;
    op->iface->tx_credits--;
    hc_list_remove(&op->link);
    hc_list_append(&op->ep->pending, &op->link);
    if (op->kind == HC_OFI_OP_SEND)
        op->ep->injected = 0;
    hc_ofi_ep_accepted(op->ep);
    count_rail(op);
    return 0;
}

static hcomm_status_t fail(struct hc_ofi_op *op, ssize_t result)
{
    struct hc_ofi_ep *ep = op->ep;
    hcomm_status_t status = hc_ofi_error(op->iface, "posting an operation", result);
    hc_ofi_op_put(op);
    hc_ofi_ep_break(ep, status);
    return status;
}

hcomm_status_t hc_ofi_op_try(struct hc_ofi_op *op)
{
    ssize_t result = hc_ofi_op_post(op);
    if (result == 0)
        return HCOMM_IN_PROGRESS;
    if (result != -FI_EAGAIN)
        return fail(op, result);
    hc_ofi_op_put(op);
    return HCOMM_AGAIN;
}

static void defer(struct hc_ofi_op *op)
{
    hc_list_append(&op->ep->deferred, &op->link);
    if (op->kind == HC_OFI_OP_SEND)
        op->ep->peer->deferred_sends++;
    hc_ofi_ep_refused(op->ep);
}

hcomm_status_t hc_ofi_op_submit(struct hc_ofi_op *op)
{
    ssize_t result = -FI_EAGAIN;
    if (op->kind != HC_OFI_OP_SEND || !op->ep->peer->deferred_sends)
        result = hc_ofi_op_post(op);
    if (result && result != -FI_EAGAIN)
        return fail(op, result);
    if (result)
        defer(op);
    return HCOMM_IN_PROGRESS;
}

/* Post one deferred op; sends stay in order among themselves, the rest may pass them. */
static bool post_deferred(struct hc_ofi_op *op, bool *sends_blocked)
{
    bool send = op->kind == HC_OFI_OP_SEND;
    if (send && *sends_blocked)
        return false;
    ssize_t result = hc_ofi_op_post(op);
    if (result == 0) {
        op->ep->peer->deferred_sends -= send;
        return true;
    }
    *sends_blocked = *sends_blocked || send;
    if (result != -FI_EAGAIN)
        hc_ofi_ep_break(op->ep, hc_ofi_error(op->iface, "posting a deferred operation", result));
    return false;
}

unsigned hc_ofi_ep_post_deferred(struct hc_ofi_ep *ep)
{
    unsigned posted = 0;
    bool sends_blocked = false;
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &ep->deferred) posted +=
        post_deferred(hc_list_entry(node, struct hc_ofi_op, link), &sends_blocked);
    return posted;
}

void hc_ofi_op_stripe_done(struct hc_ofi_op *parent, hcomm_status_t status)
{
    if (status != HCOMM_OK && parent->status == HCOMM_OK)
        parent->status = status;
    if (--parent->left > 0)
        return;
    struct hc_op *user = parent->user;
    status = parent->status;
    hc_ofi_op_put(parent);
    if (user)
        user->done(user, status);
}

/* Tell whoever waits for op, which is not used afterwards; both pointers are the caller's copies. */
static void notify(struct hc_op *user, struct hc_ofi_op *parent, hcomm_status_t status)
{
    if (parent)
        hc_ofi_op_stripe_done(parent, status);
    else if (user)
        user->done(user, status);
}

void hc_ofi_op_complete(struct hc_ofi_op *op, hcomm_status_t status)
{
    struct hc_op *user = op->user;
    struct hc_ofi_op *parent = op->parent;
    struct hc_ofi_ep *ep = op->ep;
    hc_ofi_op_put(op);
    if (ep && hc_unlikely(!hc_list_empty(&ep->flushes)))
        hc_ofi_flush_check(ep);
    notify(user, parent, status);
}

static void move_all(struct hc_list *from, struct hc_list *to)
{
    for (struct hc_list *node; (node = hc_list_pop(from));)
        hc_list_append(to, node);
}

static bool still_told(const struct hc_ofi_iface *iface, bool tell)
{
    return tell && iface->reporting;
}

/* End one op whose ep is forgotten: the provider's go to the orphans, others are released. */
static void end_op(struct hc_ofi_op *op, bool posted, hcomm_status_t status, bool tell)
{
    struct hc_ofi_iface *iface = op->iface;
    struct hc_op *user = tell ? op->user : NULL;
    struct hc_ofi_op *parent = op->parent;
    if (parent && !tell)
        parent->user = NULL;
    op->user = NULL;
    op->parent = NULL;
    if (posted)
        hc_list_append(&iface->orphans, &op->link);
    else
        hc_ofi_op_put(op);
    notify(user, parent, status);
}

static void detach(struct hc_list *list)
{
    struct hc_list *node;
    hc_list_for_each(node, list) hc_list_entry(node, struct hc_ofi_op, link)->ep = NULL;
}

static void end_flush(struct hc_ofi_iface *iface, struct hc_ofi_flush *flush, hcomm_status_t status,
                      bool tell)
{
    struct hc_op *user = flush->user;
    hc_pool_put(&iface->flushes, flush);
    if (tell)
        user->done(user, status);
}

/* Whom to tell of a message in a batch; NULL: nobody. */
static struct hc_op *end_held(struct hc_ofi_iface *iface, struct hc_list *node, bool tell)
{
    struct hc_op *user = hc_ofi_gather_release(iface, node);
    return still_told(iface, tell) ? user : NULL;
}

static unsigned count_sends(const struct hc_list *list)
{
    unsigned sends = 0;
    struct hc_list *node;
    hc_list_for_each(node, list) sends += hc_list_entry(node, struct hc_ofi_op, link)->kind == HC_OFI_OP_SEND;
    return sends;
}

void hc_ofi_ep_abandon(struct hc_ofi_ep *ep, hcomm_status_t status, bool tell)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    struct hc_list posted, waiting, held, flushes, *node;
    hc_list_init(&posted);
    hc_list_init(&waiting);
    hc_list_init(&held);
    hc_list_init(&flushes);
    /* Users may destroy the ep from their done(): nothing below refers to it any more. */
    move_all(&ep->pending, &posted);
    unsigned unsent = count_sends(&ep->deferred);
    ep->peer->deferred_sends -= unsent;
    if (ep->state == HC_OFI_EP_UP && !ep->peer->deferred_sends)
        ep->peer->tx_sequence -= unsent; /* they were the last ones, and the peer would wait for them */
    move_all(&ep->deferred, &waiting);
    move_all(&ep->flushes, &flushes);
    detach(&posted);
    detach(&waiting);
    hc_ofi_gather_take(ep, &held);
    while ((node = hc_list_pop(&posted)))
        end_op(hc_list_entry(node, struct hc_ofi_op, link), true, status, still_told(iface, tell));
    while ((node = hc_list_pop(&waiting)))
        end_op(hc_list_entry(node, struct hc_ofi_op, link), false, status, still_told(iface, tell));
    while ((node = hc_list_pop(&held)))
        notify(end_held(iface, node, tell), NULL, status);
    while ((node = hc_list_pop(&flushes)))
        end_flush(iface, hc_list_entry(node, struct hc_ofi_flush, link), status, still_told(iface, tell));
}
