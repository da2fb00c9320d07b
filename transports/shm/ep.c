/* Endpoints: claiming the peer's ring, flush, giving up. */
#include "transports/shm/shm.h"

#include <stdlib.h>
#include <string.h>

/*
 * Write our claim on the ring; returns its number. Only processes with our local rank write here, one after
 * the other.
 */
static uint32_t write_claim(struct hc_shm_claim *claim, const struct hc_shm_iface *iface)
{
    uint32_t old = atomic_load_explicit(&claim->epoch, memory_order_relaxed);
    uint32_t epoch = (old | 1) + 1;
    atomic_store_explicit(&claim->epoch, old | 1, memory_order_relaxed);
    /* orders the odd number before the fields; partner: the fence in read_claim (source.c) */
    atomic_thread_fence(memory_order_release);
    claim->world_rank = iface->world_rank;
    memcpy(&claim->addr, &iface->addr, sizeof(claim->addr));
    /* release: partner is the acquire in read_claim */
    atomic_store_explicit(&claim->epoch, epoch, memory_order_release);
    return epoch;
}

/* Tell the owner that there is a claim to look at. */
static void announce(struct hc_shm_peer *peer, uint32_t local_rank)
{
    /* release twice: partner is the acquires in accept_claims (source.c); the claim is seen with the bit */
    atomic_fetch_or_explicit(&peer->segment.header->active[local_rank / 64], UINT64_C(1) << local_rank % 64,
                             memory_order_release);
    atomic_fetch_add_explicit(&peer->doorbell->connects, 1, memory_order_release);
    hc_shm_peer_notify(peer, HC_SHM_SLEEP_MESSAGE);
}

static bool have_ep(const struct hc_shm_iface *iface, uint32_t peer)
{
    struct hc_list *node;
    hc_list_for_each(node, &iface->eps)
    {
        const struct hc_shm_ep *ep = hc_list_entry(node, struct hc_shm_ep, link);
        if (!ep->retired && ep->base.peer == peer)
            return true;
    }
    return false;
}

static void connect_ring(struct hc_shm_iface *iface, struct hc_shm_ep *ep)
{
    ep->ring = &ep->peer->segment.rings[iface->addr.local_rank];
    uint32_t epoch = write_claim(&ep->ring->claim, iface);
    ep->epoch = epoch;
    /* The first claimant finds the ring as the kernel made it, so it need not wait for the owner. */
    ep->granted = epoch == 2;
    hc_shm_producer_init(&ep->out, ep->ring->lines, hc_shm_ring_size(ep->peer->addr.ring_count),
                         &ep->ring->head, &iface->sources[ep->peer->addr.local_rank].in, epoch);
    if (!ep->granted)
        hc_shm_producer_bar(&ep->out);
    announce(ep->peer, iface->addr.local_rank);
}

hcomm_status_t hc_shm_ep_create(struct hc_iface *base, uint32_t peer, const void *blob, size_t len,
                                struct hc_ep **ep)
{
    struct hc_shm_iface *iface = hc_container_of(base, struct hc_shm_iface, base);
    struct hc_shm_addr addr;
    const char *why = hc_shm_addr_check(&iface->addr, blob, len, &addr);
    if (why)
        return hc_error(HCOMM_ERR_UNREACHABLE, "shm: rank %u cannot be reached: %s", peer, why);
    if (have_ep(iface, peer))
        return hc_error(HCOMM_ERR_INVALID, "shm: rank %u has an endpoint already", peer);
    struct hc_shm_ep *e = calloc(1, sizeof(*e));
    if (!e)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for an endpoint");
    e->base = (struct hc_ep){.iface = base, .peer = peer};
    e->tuner.ways = e->put_tuner.ways = HC_SHM_WAY_PAST + 1;
    e->short_tuner.ways = HC_SHM_WAYS;
    hcomm_status_t status = hc_shm_peer_get(iface, &addr, &e->peer);
    if (status != HCOMM_OK) {
        free(e);
        return status;
    }
    e->cross = (base->attr.caps & HC_CAP_RMA) && hc_shm_cross_probe(e->peer);
    connect_ring(iface, e);
    hc_list_append(&iface->eps, &e->link);
    *ep = &e->base;
    return HCOMM_OK;
}

void hc_shm_ep_free(struct hc_shm_ep *ep)
{
    hc_list_remove(&ep->link);
    hc_shm_peer_put(ep->peer);
    free(ep);
}

/* Free a retired ep unless its receiver lives and may still read the chunks. */
static void settle_retired(struct hc_shm_iface *iface, struct hc_shm_ep *ep)
{
    hc_shm_pool_reclaim(&iface->pool, &ep->inflight);
    if (ep->inflight.count && hc_shm_start_time(ep->peer->addr.pid) == ep->peer->addr.start)
        return;
    hc_shm_pool_abandon(&iface->pool, &ep->inflight);
    hc_shm_ep_free(ep);
}

void hc_shm_reclaim_all(struct hc_shm_iface *iface)
{
    struct hc_list *node, *tmp;
    hc_list_for_each_safe(node, tmp, &iface->eps)
    {
        struct hc_shm_ep *ep = hc_list_entry(node, struct hc_shm_ep, link);
        if (ep->retired)
            settle_retired(iface, ep);
        else
            hc_shm_pool_reclaim(&iface->pool, &ep->inflight);
    }
}

static void forget_flushes(struct hc_shm_iface *iface, const struct hc_shm_ep *ep)
{
    struct hc_list *node, *tmp;
    hc_list_for_each_safe(node, tmp, &iface->flushes)
    {
        struct hc_shm_flush *flush = hc_list_entry(node, struct hc_shm_flush, link);
        if (flush->ep != ep)
            continue;
        hc_list_remove(node);
        hc_pool_put(&iface->flush_pool, flush);
    }
}

void hc_shm_ep_destroy(struct hc_ep *base)
{
    if (!base)
        return;
    struct hc_shm_ep *ep = hc_container_of(base, struct hc_shm_ep, base);
    struct hc_shm_iface *iface = hc_container_of(base->iface, struct hc_shm_iface, base);
    forget_flushes(iface, ep);
    ep->retired = true;
    settle_retired(iface, ep);
}

static bool flush_done(struct hc_shm_iface *iface, struct hc_shm_ep *ep, uint64_t target)
{
    hc_shm_pool_reclaim(&iface->pool, &ep->inflight);
    return ep->inflight.sent - ep->inflight.count >= target;
}

hcomm_status_t hc_shm_flush(struct hc_ep *base, struct hc_op *op)
{
    struct hc_shm_ep *ep = hc_container_of(base, struct hc_shm_ep, base);
    struct hc_shm_iface *iface = hc_container_of(base->iface, struct hc_shm_iface, base);
    /* What went into the ring is in the peer's memory; what lies in chunks goes away with our segment. */
    uint64_t target = ep->inflight.sent;
    if (flush_done(iface, ep, target))
        return HCOMM_OK;
    struct hc_shm_flush *flush = hc_pool_get(&iface->flush_pool);
    if (!flush)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for a flush");
    *flush = (struct hc_shm_flush){.ep = ep, .op = op, .target = target};
    hc_list_append(&iface->flushes, &flush->link);
    return HCOMM_IN_PROGRESS;
}

static struct hc_shm_flush *find_done_flush(struct hc_shm_iface *iface)
{
    struct hc_list *node;
    hc_list_for_each(node, &iface->flushes)
    {
        struct hc_shm_flush *flush = hc_list_entry(node, struct hc_shm_flush, link);
        if (flush_done(iface, flush->ep, flush->target))
            return flush;
    }
    return NULL;
}

bool hc_shm_flush_ready(struct hc_shm_iface *iface)
{
    return find_done_flush(iface) != NULL;
}

unsigned hc_shm_flush_progress(struct hc_shm_iface *iface)
{
    unsigned handled = 0;
    struct hc_shm_flush *flush;
    /* From the start every time: the upcall may flush, and destroy eps. */
    while ((flush = find_done_flush(iface))) {
        struct hc_op *op = flush->op;
        hc_list_remove(&flush->link);
        hc_pool_put(&iface->flush_pool, flush);
        op->done(op, HCOMM_OK);
        handled++;
    }
    return handled;
}

bool hc_shm_ep_check_grant(struct hc_shm_ep *ep)
{
    /* acquire: partner is the release in serve_claim (source.c); the ring has been reset */
    ep->granted = atomic_load_explicit(&ep->ring->granted, memory_order_acquire) == ep->epoch;
    return ep->granted;
}

hcomm_status_t hc_shm_ep_block(struct hc_shm_ep *ep, uint32_t need)
{
    hc_container_of(ep->base.iface, struct hc_shm_iface, base)->starved = true;
    ep->blocked = need;
    return HCOMM_AGAIN;
}

bool hc_shm_ep_unblocked(struct hc_shm_ep *ep)
{
    struct hc_shm_iface *iface = hc_container_of(ep->base.iface, struct hc_shm_iface, base);
    uint32_t lines = ep->blocked & (HC_SHM_BLOCKED_CHUNK - 1);
    if (!ep->granted && !hc_shm_ep_check_grant(ep))
        return false;
    if (lines && !hc_shm_producer_refresh(&ep->out, hc_shm_need(&ep->out, lines)))
        return false;
    if (!(ep->blocked & HC_SHM_BLOCKED_CHUNK))
        return true;
    hc_shm_reclaim_all(iface);
    return ep->inflight.count < iface->ep_chunks && hc_shm_pool_peek(&iface->pool) != HC_SHM_NO_CHUNK;
}

void *hc_shm_ep_sync_area(struct hc_ep *ep)
{
    return hc_container_of(ep, struct hc_shm_ep, base)->peer->segment.sync;
}

struct hc_share *hc_shm_ep_share(struct hc_ep *ep, uint32_t index)
{
    return index < HC_SHARES ? &hc_container_of(ep, struct hc_shm_ep, base)->peer->segment.shares[index]
                             : NULL;
}

void hc_shm_ep_wake(struct hc_ep *ep)
{
    hc_shm_peer_notify(hc_container_of(ep, struct hc_shm_ep, base)->peer, HC_SHM_SLEEP_MESSAGE);
}
