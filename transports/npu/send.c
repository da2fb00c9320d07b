/* Outgoing operations: finding the peer, the pool, completion. */
#include "transports/npu/ep.h"

#include <stdlib.h>
#include <string.h>

int npu_send_init(struct npu_ep *ep)
{
    ep->tx_pool = calloc(ep->tx_size, sizeof(*ep->tx_pool));
    if (!ep->tx_pool)
        return -FI_ENOMEM;
    for (size_t i = 0; i < ep->tx_size; i++) {
        ep->tx_pool[i].index = (uint32_t)i;
        hc_list_append(&ep->tx_free, &ep->tx_pool[i].node);
    }
    return 0;
}

void npu_send_fini(struct npu_ep *ep)
{
    for (size_t i = 0; ep->tx_pool && i < ep->tx_size; i++)
        free(ep->tx_pool[i].bounce);
    free(ep->tx_pool);
}

/* ---- Peers ---- */

static int grow_peers(struct npu_ep *ep, fi_addr_t dest)
{
    size_t room = ep->peer_room ? ep->peer_room : 16;
    while (room <= dest)
        room *= 2;
    struct npu_peer **grown = realloc(ep->peers, room * sizeof(struct npu_peer *));
    if (!grown)
        return -FI_ENOMEM;
    memset(grown + ep->peer_room, 0, (room - ep->peer_room) * sizeof(struct npu_peer *));
    ep->peers = grown;
    ep->peer_room = room;
    return 0;
}

static HC_COLD int connect_peer(struct npu_ep *ep, fi_addr_t dest, struct npu_peer **peer)
{
    struct npu_addr addr;
    bool local = false;
    if (!npu_av_get(ep->av, dest, &addr, &local))
        return -FI_EINVAL;
    int rc = dest < ep->peer_room ? 0 : grow_peers(ep, dest);
    if (rc == 0)
        rc = local ? npu_local_connect(ep, &addr, peer) : npu_net_connect(ep, &addr, peer);
    if (rc == 0)
        ep->peers[dest] = *peer;
    return rc;
}

int npu_ep_peer(struct npu_ep *ep, fi_addr_t dest, struct npu_peer **peer)
{
    if (hc_likely(dest < ep->peer_room && ep->peers[dest])) {
        *peer = ep->peers[dest];
        return 0;
    }
    return connect_peer(ep, dest, peer);
}

void npu_ep_meet(struct npu_ep *ep, fi_addr_t dest)
{
    struct npu_peer *peer = NULL;
    struct npu_addr addr;
    bool local = false;
    if (!ep->enabled || !(ep->caps & (FI_SEND | FI_READ | FI_WRITE)) || ep->met >= NPU_MEET_MAX)
        return;
    if (!npu_av_get(ep->av, dest, &addr, &local) || !local ||
        npu_addr_port(&addr) == npu_addr_port(&ep->addr))
        return;
    ep->met++;
    npu_local_hear(ep);                 /* the peer may be at the door, with an offer */
    (void)npu_ep_peer(ep, dest, &peer); /* whoever cannot be reached yet is told of by the first message */
    npu_local_hear(ep);                 /* it may have connected at the same time */
}

void npu_ep_meet_all(struct npu_ep *ep)
{
    enum { LOOK_AT = 4 * NPU_MEET_MAX };
    for (fi_addr_t i = 0; i < LOOK_AT; i++)
        npu_ep_meet(ep, i);
}

void npu_ep_forget(struct npu_ep *ep, struct npu_peer *peer)
{
    for (size_t i = 0; i < ep->peer_room; i++)
        if (ep->peers[i] == peer)
            ep->peers[i] = NULL;
}

/* ---- The pool ---- */

struct npu_tx *npu_tx_get(struct npu_peer *peer)
{
    struct npu_ep *ep = peer->ep;
    struct hc_list *node = hc_list_pop(&ep->tx_free);
    if (hc_unlikely(!node))
        return NULL;
    struct npu_tx *tx = hc_list_entry(node, struct npu_tx, node);
    ep->tx_count++;
    tx->peer = peer;
    tx->generation++;
    tx->bounce = NULL;
    tx->state = 0;
    tx->failed = false;
    tx->copies = 0;
    tx->stream = -1;
    tx->at = tx->end = 0;
    return tx;
}

void npu_tx_put(struct npu_tx *tx)
{
    struct npu_ep *ep = tx->peer->ep;
    free(tx->bounce);
    tx->bounce = NULL;
    tx->peer = NULL;
    ep->tx_count--;
    hc_list_remove(&tx->node);
    /* In front: what was used last is in the cache. */
    hc_list_append(ep->tx_free.next, &tx->node);
}

/* Copy an injected payload, so that the caller has its buffer back. */
static int keep_payload(struct npu_tx *tx, const struct npu_send *send)
{
    tx->bounce = malloc(send->len ? send->len : 1);
    if (!tx->bounce)
        return -FI_ENOMEM;
    int rc = npu_buf_read(&tx->buf, 0, tx->bounce, send->len);
    tx->buf = (struct npu_buf){.iov[0] = {tx->bounce, send->len}, .count = 1, .len = send->len};
    return rc;
}

int npu_tx_make(struct npu_peer *peer, const struct npu_send *send, struct npu_tx **made)
{
    struct npu_tx *tx = npu_tx_get(peer);
    if (!tx)
        return -FI_EAGAIN;
    int rc = npu_buf_init(&tx->buf, send->iov, send->desc, send->iov_count);
    if (rc == 0 && (send->flags & FI_INJECT))
        rc = keep_payload(tx, send);
    if (rc < 0) {
        npu_tx_put(tx);
        return rc;
    }
    tx->flags = send->flags;
    tx->context = send->context;
    tx->tag = send->tag;
    tx->data = send->data;
    *made = tx;
    return 0;
}

struct npu_tx *npu_tx_find(struct npu_ep *ep, const struct npu_peer *peer, uint64_t id)
{
    uint64_t index = (id & UINT32_MAX) - 1;
    if (index >= ep->tx_size)
        return NULL;
    struct npu_tx *tx = &ep->tx_pool[index];
    return tx->peer == peer && npu_tx_id(tx) == id ? tx : NULL;
}

/* ---- Completion ---- */

static enum npu_cntr_use use_of(uint64_t flags)
{
    if (flags & FI_READ)
        return NPU_CNTR_READ;
    return flags & FI_WRITE ? NPU_CNTR_WRITE : NPU_CNTR_SEND;
}

/* What a completion tells of the kind of operation. */
static uint64_t completion_flags(uint64_t flags)
{
    uint64_t kind = flags & (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE);
    return kind & (FI_MSG | FI_TAGGED) ? kind | FI_SEND : kind;
}

static bool reports(const struct npu_ep *ep, uint64_t flags)
{
    return ep->tx_cq && !(flags & NPU_SILENT) && (!ep->tx_selective || (flags & FI_COMPLETION));
}

void npu_sent(struct npu_ep *ep, uint64_t flags, void *context)
{
    struct npu_cntr *cntr = ep->cntr[use_of(flags)];
    if (cntr)
        npu_cntr_count(cntr, false);
    if (!reports(ep, flags))
        return;
    struct npu_completion completion = {
        .entry = {.op_context = context, .flags = completion_flags(flags)},
        .source = FI_ADDR_NOTAVAIL,
    };
    npu_cq_push(ep->tx_cq, &completion);
}

static void sent_badly(struct npu_ep *ep, const struct npu_tx *tx, int err)
{
    struct npu_cntr *cntr = ep->cntr[use_of(tx->flags)];
    if (cntr)
        npu_cntr_count(cntr, true);
    if (!ep->tx_cq)
        return;
    bool anonymous = tx->flags & NPU_SILENT;
    struct npu_cq_error error = {
        .entry =
            {
                .op_context = anonymous ? ep->port.fid.fid.context : tx->context,
                .flags = completion_flags(tx->flags),
                .tag = tx->tag,
                .err = err,
                .prov_errno = err,
            },
        .source = FI_ADDR_NOTAVAIL,
    };
    npu_cq_push_error(ep->tx_cq, &error);
}

void npu_tx_finish(struct npu_tx *tx, int err)
{
    struct npu_ep *ep = tx->peer->ep;
    if (err)
        sent_badly(ep, tx, err);
    else
        npu_sent(ep, tx->flags, tx->context);
    npu_tx_put(tx);
}

/* ---- Posting ---- */

static int check(const struct npu_ep *ep, const struct npu_send *send)
{
    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    if (!(ep->caps & FI_SEND) || !(ep->caps & send->flags & (FI_MSG | FI_TAGGED)))
        return -FI_EOPNOTSUPP;
    if (ep->tx_cq && !npu_cq_has_room(ep->tx_cq))
        return -FI_EAGAIN;
    return 0;
}

static int check_len(struct npu_send *send)
{
    if (send->iov_count > NPU_IOV_LIMIT)
        return -FI_EINVAL;
    if (!npu_iov_len(send->iov, send->iov_count, &send->len))
        return -FI_EMSGSIZE;
    return (send->flags & FI_INJECT) && send->len > NPU_INJECT_MAX ? -FI_EINVAL : 0;
}

ssize_t npu_send_post(struct npu_ep *ep, fi_addr_t dest, struct npu_send *send)
{
    struct npu_peer *peer = NULL;
    int rc = check_len(send);
    if (hc_unlikely(rc < 0))
        return rc;
    npu_lock(&ep->lock);
    rc = check(ep, send);
    if (hc_likely(rc == 0))
        rc = npu_ep_peer(ep, dest, &peer);
    if (hc_likely(rc == 0))
        rc = peer->path->send(peer, send);
    npu_unlock(&ep->lock);
    return rc;
}

void npu_send_cancel(struct npu_ep *ep, void *context)
{
    for (size_t i = 0; i < ep->tx_size; i++) {
        struct npu_tx *tx = &ep->tx_pool[i];
        if (!tx->peer || tx->context != context || (tx->flags & NPU_SILENT))
            continue;
        if (tx->peer->path->cancel(tx->peer, tx)) {
            npu_tx_finish(tx, FI_ECANCELED);
            return;
        }
    }
}
