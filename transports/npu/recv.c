/* Receives: posting, matching, completion, and the messages that came before their receive. */
#include "transports/npu/ep.h"

#include <stdlib.h>
#include <string.h>

enum { SLAB = 64 };

struct slab {
    struct hc_list node;
    struct npu_rx rx[SLAB];
};

int npu_recv_init(struct npu_ep *ep)
{
    (void)ep; /* lists are empty, memory comes when needed */
    return 0;
}

void npu_recv_fini(struct npu_ep *ep)
{
    struct hc_list *lists[] = {&ep->kept[0], &ep->kept[1], &ep->claimed};
    struct hc_list *node;
    for (size_t i = 0; i < hc_array_len(lists); i++)
        while ((node = hc_list_pop(lists[i])))
            free(hc_list_entry(node, struct npu_kept, node));
    while ((node = hc_list_pop(&ep->rx_slabs)))
        free(hc_list_entry(node, struct slab, node));
}

/* ---- The pool ---- */

static int add_slab(struct npu_ep *ep)
{
    struct slab *slab = calloc(1, sizeof(*slab));
    if (!slab)
        return -FI_ENOMEM;
    hc_list_append(&ep->rx_slabs, &slab->node);
    for (size_t i = 0; i < SLAB; i++)
        hc_list_append(&ep->rx_free, &slab->rx[i].node);
    return 0;
}

static struct npu_rx *rx_get(struct npu_ep *ep)
{
    if (hc_unlikely(hc_list_empty(&ep->rx_free)) && add_slab(ep) < 0)
        return NULL;
    struct npu_rx *rx = hc_list_entry(hc_list_pop(&ep->rx_free), struct npu_rx, node);
    rx->parent = NULL;
    rx->children = 0;
    rx->used = 0;
    rx->exhausted = false;
    return rx;
}

static void rx_put(struct npu_ep *ep, struct npu_rx *rx)
{
    hc_list_remove(&rx->node);
    hc_list_append(ep->rx_free.next, &rx->node); /* in front */
}

/* ---- Sources ---- */

fi_addr_t npu_peer_source(struct npu_peer *peer, fi_addr_t *index)
{
    struct npu_av *av = peer->ep->av;
    unsigned generation = atomic_load_explicit(&av->generation, memory_order_acquire);
    if (hc_unlikely(peer->source_generation != generation || peer->source == FI_ADDR_NOTAVAIL)) {
        peer->source = npu_av_find(av, &peer->addr, &peer->reported);
        peer->source_generation = generation;
    }
    *index = peer->source;
    return peer->reported;
}

static fi_addr_t source_of(const struct npu_ep *ep, const struct npu_arrival *arrival)
{
    fi_addr_t index;
    if (!(ep->caps & (FI_SOURCE | FI_SOURCE_ERR)))
        return FI_ADDR_NOTAVAIL;
    return npu_peer_source(arrival->peer, &index);
}

/* ---- Completion ---- */

/* What became of a receive. */
struct outcome {
    const struct npu_arrival *arrival; /* NULL: no message */
    uint64_t flags;                    /* of the operation */
    void *context;
    void *buf;
    size_t len, olen;
    int err;
    bool released; /* a multi-receive buffer goes back to the application */
};

static uint64_t completion_flags(const struct outcome *out)
{
    uint64_t flags = (out->flags & (FI_MSG | FI_TAGGED)) | FI_RECV;
    if (out->arrival)
        flags |= out->arrival->flags & FI_REMOTE_CQ_DATA;
    return out->released ? flags | FI_MULTI_RECV : flags;
}

static void report_error(struct npu_ep *ep, const struct outcome *out, int err, fi_addr_t source)
{
    struct npu_cq_error error = {
        .entry =
            {
                .op_context = out->context,
                .flags = completion_flags(out),
                .len = out->len,
                .buf = out->buf,
                .data = out->arrival ? out->arrival->data : 0,
                .tag = out->arrival ? out->arrival->tag : 0,
                .olen = out->olen,
                .err = err,
                .prov_errno = err,
            },
        .source = source,
    };
    if (err == FI_EADDRNOTAVAIL) {
        error.entry.err_data_size = npu_addr_len(&out->arrival->peer->addr);
        memcpy(error.data, &out->arrival->peer->addr, error.entry.err_data_size);
    }
    npu_cq_push_error(ep->rx_cq, &error);
}

static void complete(struct npu_ep *ep, const struct outcome *out)
{
    struct npu_cntr *cntr = ep->cntr[NPU_CNTR_RECV];
    if (cntr)
        npu_cntr_count(cntr, out->err);
    if (!ep->rx_cq)
        return;
    fi_addr_t source = out->arrival ? source_of(ep, out->arrival) : FI_ADDR_NOTAVAIL;
    int err = out->err;
    if (!err && ep->rx_selective && !(out->flags & FI_COMPLETION) && !out->released)
        return;
    if (!err && (ep->caps & FI_SOURCE_ERR) && source == FI_ADDR_NOTAVAIL && out->arrival)
        err = FI_EADDRNOTAVAIL;
    if (hc_unlikely(err)) {
        report_error(ep, out, err, source);
        return;
    }
    struct npu_completion completion = {
        .entry =
            {
                .op_context = out->context,
                .flags = completion_flags(out),
                .len = out->len,
                .buf = out->buf,
                .data = out->arrival ? out->arrival->data : 0,
                .tag = out->arrival ? out->arrival->tag : 0,
            },
        .source = source,
    };
    npu_cq_push(ep->rx_cq, &completion);
}

/* The last child of an exhausted multi-receive buffer gives it back. */
static bool release_parent(struct npu_ep *ep, struct npu_rx *parent)
{
    parent->children--;
    if (!parent->exhausted || parent->children)
        return false;
    ep->rx_count--;
    rx_put(ep, parent);
    return true;
}

static void finish(struct npu_ep *ep, struct npu_rx *rx, const struct npu_arrival *arrival, int err)
{
    size_t wanted = arrival->len < rx->buf.len ? arrival->len : rx->buf.len;
    struct outcome out = {
        .arrival = arrival,
        .flags = rx->flags,
        .context = rx->context,
        .buf = rx->buf.iov[0].iov_base,
        .len = wanted,
        .olen = arrival->len - wanted,
        .err = err ? err : (arrival->len > wanted ? FI_ETRUNC : 0),
    };
    if (rx->parent)
        out.released = release_parent(ep, rx->parent);
    else
        ep->rx_count--;
    complete(ep, &out);
    rx_put(ep, rx);
}

void npu_rx_finish(struct npu_ep *ep, struct npu_rx *rx, int err)
{
    struct npu_arrival arrival = rx->arrival;
    arrival.peer->users--;
    finish(ep, rx, &arrival, err);
}

/* ---- Matching ---- */

static bool source_matches(const struct npu_arrival *arrival, fi_addr_t addr)
{
    fi_addr_t index;
    if (addr == FI_ADDR_UNSPEC)
        return true;
    (void)npu_peer_source(arrival->peer, &index);
    return index == addr;
}

static bool matches(const struct npu_arrival *arrival, uint64_t tag, uint64_t ignore, fi_addr_t addr)
{
    return ((arrival->tag ^ tag) & ~ignore) == 0 && source_matches(arrival, addr);
}

static unsigned queue_of(uint64_t flags)
{
    return flags & FI_TAGGED ? 1 : 0;
}

/* Take the next piece of a multi-receive buffer for a message; NULL: no memory. */
static struct npu_rx *take_piece(struct npu_ep *ep, struct npu_rx *parent, size_t len)
{
    struct npu_rx *piece = rx_get(ep);
    if (!piece)
        return NULL;
    size_t left = parent->buf.len - parent->used;
    size_t part = len < left ? len : left;
    piece->flags = parent->flags;
    piece->context = parent->context;
    piece->parent = parent;
    piece->buf = (struct npu_buf){
        .iov[0] = {(char *)parent->buf.iov[0].iov_base + parent->used, part},
        .count = 1,
        .len = part,
        .device = parent->buf.device,
    };
    parent->used += part;
    parent->children++;
    if (left - part < ep->min_multi_recv || left == part) {
        parent->exhausted = true;
        hc_list_remove(&parent->node);
    }
    return piece;
}

/* A receive and a message have found each other; the payload may come later. */
static void join(struct npu_ep *ep, struct npu_rx *rx, const struct npu_arrival *arrival)
{
    struct npu_peer *peer = arrival->peer;
    if (hc_likely(arrival->payload)) {
        size_t wanted = arrival->len < rx->buf.len ? arrival->len : rx->buf.len;
        int err = -npu_buf_write(&rx->buf, 0, arrival->payload, wanted);
        if (hc_unlikely(arrival->flags & FI_DELIVERY_COMPLETE))
            peer->path->delivered(peer, arrival);
        finish(ep, rx, arrival, err);
        return;
    }
    rx->arrival = *arrival;
    peer->users++;
    peer->path->fetch(peer, arrival, rx);
}

static int match_posted(struct npu_ep *ep, struct npu_rx *rx, const struct npu_arrival *arrival)
{
    if (hc_unlikely(rx->flags & FI_MULTI_RECV)) {
        rx = take_piece(ep, rx, arrival->len);
        if (!rx)
            return -FI_ENOMEM;
    } else {
        hc_list_remove(&rx->node);
    }
    join(ep, rx, arrival);
    return 0;
}

static int keep(struct npu_ep *ep, const struct npu_arrival *arrival)
{
    size_t bytes = arrival->payload ? arrival->len : 0;
    struct npu_kept *kept = malloc(sizeof(*kept) + bytes);
    if (!kept)
        return -FI_ENOMEM;
    kept->arrival = *arrival;
    if (arrival->payload) {
        hc_copy(kept->bytes, arrival->payload, bytes);
        kept->arrival.payload = kept->bytes;
    }
    arrival->peer->users++;
    hc_list_append(&ep->kept[queue_of(arrival->flags)], &kept->node);
    return 1;
}

int npu_arrive(struct npu_ep *ep, const struct npu_arrival *arrival)
{
    struct hc_list *node, *queue = &ep->posted[queue_of(arrival->flags)];
    hc_list_for_each(node, queue)
    {
        struct npu_rx *rx = hc_list_entry(node, struct npu_rx, node);
        if (matches(arrival, rx->tag, rx->ignore, rx->addr))
            return match_posted(ep, rx, arrival);
    }
    return keep(ep, arrival);
}

/* ---- Kept messages ---- */

static void kept_free(struct npu_kept *kept)
{
    struct npu_peer *peer = kept->arrival.peer;
    hc_list_remove(&kept->node);
    peer->users--;
    if (kept->arrival.payload)
        peer->path->release(peer, kept->arrival.cost);
    free(kept);
}

static void discard(struct npu_kept *kept)
{
    struct npu_peer *peer = kept->arrival.peer;
    peer->path->fetch(peer, &kept->arrival, NULL);
    kept_free(kept);
}

static struct npu_kept *find_kept(struct npu_ep *ep, const struct npu_recv *recv)
{
    struct hc_list *node, *queue = &ep->kept[queue_of(recv->flags)];
    hc_list_for_each(node, queue)
    {
        struct npu_kept *kept = hc_list_entry(node, struct npu_kept, node);
        if (matches(&kept->arrival, recv->tag, recv->ignore, recv->addr))
            return kept;
    }
    return NULL;
}

void npu_recv_forget(struct npu_ep *ep, struct npu_peer *peer)
{
    struct hc_list *lists[] = {&ep->kept[0], &ep->kept[1], &ep->claimed};
    struct hc_list *node, *next;
    for (size_t i = 0; i < hc_array_len(lists); i++)
        hc_list_for_each_safe(node, next, lists[i])
        {
            struct npu_kept *kept = hc_list_entry(node, struct npu_kept, node);
            if (kept->arrival.peer == peer && !kept->arrival.payload &&
                peer->path->lost(peer, &kept->arrival))
                kept_free(kept);
        }
}

static void join_kept(struct npu_ep *ep, struct npu_rx *rx, struct npu_kept *kept)
{
    join(ep, rx, &kept->arrival);
    kept_free(kept);
}

/* ---- fi_trecvmsg with FI_PEEK, FI_CLAIM, FI_DISCARD ---- */

static struct npu_kept *find_claimed(struct npu_ep *ep, const struct fi_context *context)
{
    struct hc_list *node;
    hc_list_for_each(node, &ep->claimed) if (context->internal[0] ==
                                             hc_list_entry(node, struct npu_kept,
                                                           node)) return hc_list_entry(node, struct npu_kept,
                                                                                       node);
    return NULL;
}

/* Give the payload, or its start, along with a peek, where it is at hand. */
static void *peek_payload(const struct npu_recv *recv, const struct npu_arrival *arrival)
{
    struct npu_buf buf;
    if (!arrival->payload || !recv->iov_count || (recv->flags & (FI_CLAIM | FI_DISCARD)))
        return NULL;
    if (npu_buf_init(&buf, recv->iov, recv->desc, recv->iov_count) < 0)
        return NULL;
    size_t n = arrival->len < buf.len ? arrival->len : buf.len;
    if (n == 0 || npu_buf_write(&buf, 0, arrival->payload, n) < 0)
        return NULL;
    return buf.iov[0].iov_base;
}

static ssize_t peek(struct npu_ep *ep, const struct npu_recv *recv)
{
    struct outcome out = {.flags = recv->flags, .context = recv->context};
    struct fi_context *context = recv->context;
    if ((recv->flags & FI_CLAIM) && (!context || (recv->flags & FI_DISCARD)))
        return -FI_EINVAL;
    (void)npu_ep_progress(ep);
    struct npu_kept *kept = find_kept(ep, recv);
    if (!kept) {
        npu_ep_service(ep); /* the message may be its sender's first */
        (void)npu_ep_progress(ep);
        kept = find_kept(ep, recv);
    }
    if (!kept) {
        out.err = FI_ENOMSG;
        if (ep->rx_cq)
            report_error(ep, &out, FI_ENOMSG, FI_ADDR_NOTAVAIL);
        return 0;
    }
    struct npu_arrival arrival = kept->arrival;
    out.arrival = &arrival;
    out.len = arrival.len;
    out.buf = peek_payload(recv, &arrival);
    if (recv->flags & FI_CLAIM) {
        context->internal[0] = kept;
        hc_list_remove(&kept->node);
        hc_list_append(&ep->claimed, &kept->node);
    }
    complete(ep, &out);
    if (recv->flags & FI_DISCARD)
        discard(kept);
    return 0;
}

static ssize_t discard_claimed(struct npu_ep *ep, const struct npu_recv *recv)
{
    struct npu_kept *kept = recv->context ? find_claimed(ep, recv->context) : NULL;
    if (!kept)
        return -FI_EINVAL;
    struct npu_arrival arrival = kept->arrival;
    struct outcome out = {.arrival = &arrival, .flags = recv->flags, .context = recv->context};
    complete(ep, &out);
    discard(kept);
    return 0;
}

/* ---- Posting ---- */

static int check(const struct npu_ep *ep, const struct npu_recv *recv)
{
    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    if (!(ep->caps & FI_RECV) || !(ep->caps & recv->flags & (FI_MSG | FI_TAGGED)))
        return -FI_EOPNOTSUPP;
    if ((recv->flags & FI_MULTI_RECV) && (!(ep->caps & FI_MULTI_RECV) || recv->iov_count != 1))
        return -FI_EINVAL;
    return ep->rx_count >= ep->rx_size ? -FI_EAGAIN : 0;
}

static int rx_make(struct npu_ep *ep, const struct npu_recv *recv, struct npu_rx **made)
{
    struct npu_rx *rx = rx_get(ep);
    if (!rx)
        return -FI_ENOMEM;
    int rc = npu_buf_init(&rx->buf, recv->iov, recv->desc, recv->iov_count);
    if (rc < 0) {
        rx_put(ep, rx);
        return rc;
    }
    rx->flags = recv->flags;
    rx->context = recv->context;
    rx->addr = recv->addr;
    rx->tag = recv->tag;
    rx->ignore = recv->ignore;
    ep->rx_count++;
    *made = rx;
    return 0;
}

/* A multi-receive takes as many kept messages as fit. */
static void fill_multi(struct npu_ep *ep, struct npu_rx *rx, const struct npu_recv *recv)
{
    struct npu_kept *kept;
    while (!rx->exhausted && (kept = find_kept(ep, recv))) {
        struct npu_rx *piece = take_piece(ep, rx, kept->arrival.len);
        if (!piece)
            return; /* no memory: it stays for the next receive */
        bool last = rx->exhausted;
        join_kept(ep, piece, kept);
        if (last)
            return; /* rx may be gone */
    }
}

static ssize_t post(struct npu_ep *ep, const struct npu_recv *recv)
{
    struct npu_kept *kept = NULL;
    struct npu_rx *rx = NULL;
    if (hc_unlikely(recv->flags & FI_CLAIM)) {
        kept = recv->context ? find_claimed(ep, recv->context) : NULL;
        if (!kept)
            return -FI_EINVAL;
    }
    int rc = rx_make(ep, recv, &rx);
    if (rc < 0)
        return rc;
    if (hc_unlikely(recv->flags & FI_MULTI_RECV)) {
        hc_list_append(&ep->posted[queue_of(recv->flags)], &rx->node);
        fill_multi(ep, rx, recv);
        return 0;
    }
    if (!kept)
        kept = find_kept(ep, recv);
    if (kept)
        join_kept(ep, rx, kept);
    else
        hc_list_append(&ep->posted[queue_of(recv->flags)], &rx->node);
    return 0;
}

ssize_t npu_recv_post(struct npu_ep *ep, struct npu_recv *recv)
{
    npu_lock(&ep->lock);
    ssize_t rc = check(ep, recv);
    if (!(ep->caps & FI_DIRECTED_RECV))
        recv->addr = FI_ADDR_UNSPEC;
    if (hc_unlikely(rc == 0 && (recv->flags & FI_PEEK)))
        rc = peek(ep, recv);
    else if (hc_unlikely(rc == 0 && (recv->flags & FI_DISCARD)))
        rc = recv->flags & FI_CLAIM ? discard_claimed(ep, recv) : -FI_EBADFLAGS;
    else if (hc_likely(rc == 0))
        rc = post(ep, recv);
    npu_unlock(&ep->lock);
    return rc;
}

/* ---- fi_cancel ---- */

bool npu_recv_cancel(struct npu_ep *ep, void *context)
{
    struct hc_list *node;
    for (size_t i = 0; i < hc_array_len(ep->posted); i++) {
        hc_list_for_each(node, &ep->posted[i])
        {
            struct npu_rx *rx = hc_list_entry(node, struct npu_rx, node);
            if (rx->context != context)
                continue;
            hc_list_remove(&rx->node);
            if (rx->children) {
                rx->exhausted = true; /* its last piece reports it */
                return true;
            }
            struct outcome out = {.flags = rx->flags, .context = context, .err = FI_ECANCELED};
            out.released = rx->flags & FI_MULTI_RECV;
            ep->rx_count--;
            rx_put(ep, rx);
            complete(ep, &out);
            return true;
        }
    }
    return false;
}
