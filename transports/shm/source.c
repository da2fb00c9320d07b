/* The receiving side: claims, polling, delivery. */
#include "runtime/base/log.h"
#include "transports/shm/shm.h"

#include <string.h>

static struct hc_shm_ep *find_ep(struct hc_shm_iface *iface, uint32_t rank)
{
    struct hc_list *node;
    hc_list_for_each(node, &iface->eps)
    {
        struct hc_shm_ep *ep = hc_list_entry(node, struct hc_shm_ep, link);
        if (!ep->retired && ep->base.peer == rank)
            return ep;
    }
    return NULL;
}

/* Stop listening to a source that does not keep to the rules, and say so. */
static HC_COLD void give_up(struct hc_shm_iface *iface, struct hc_shm_source *source, hcomm_status_t status)
{
    source->broken = true;
    hc_log(status == HCOMM_ERR_PEER_LOST ? HC_LOG_DEBUG : HC_LOG_WARN,
           "shm: nothing more is taken from rank %u: %s", source->from, hc_error_detail());
    struct hc_shm_ep *ep = find_ep(iface, source->from);
    if (ep)
        iface->ep_failed(iface->arg, &ep->base, status);
}

static hcomm_status_t attach(struct hc_shm_iface *iface, struct hc_shm_source *source)
{
    return source->peer ? HCOMM_OK : hc_shm_peer_get(iface, &source->addr, &source->peer);
}

static void give_back(struct hc_shm_peer *peer, uint32_t index)
{
    /* release: partner is the acquire in hc_shm_pool_reclaim */
    atomic_store_explicit(&peer->segment.flags[index].busy, 0, memory_order_release);
    hc_shm_peer_notify(peer, HC_SHM_SLEEP_ROOM);
}

/* More of the arriving message is there: offer it in parts, or deliver the whole. */
static void advance_arrival(struct hc_shm_iface *iface, struct hc_shm_source *source, uint32_t more)
{
    struct hc_shm_arrival *arrival = &source->arrival;
    arrival->ready += more;
    bool whole = arrival->ready == arrival->total;
    if (arrival->data && (arrival->taken || !whole) && iface->am_part)
        arrival->taken |= iface->am_part(iface->arg, source->from, arrival->id, arrival->data, arrival->ready,
                                         arrival->total);
    if (!whole)
        return;
    if (arrival->data && !arrival->taken)
        iface->am(iface->arg, source->from, arrival->id, arrival->data, arrival->total);
    if (arrival->data)
        give_back(source->peer, arrival->index);
    arrival->total = 0;
}

static hcomm_status_t check_chunk(const struct hc_shm_source *source, const struct hc_shm_chunk_ref *ref,
                                  uint32_t len)
{
    if (source->arrival.total)
        return hc_error(HCOMM_ERR_PROTOCOL, "a message begins within another, %u bytes before its end",
                        source->arrival.total - source->arrival.ready);
    if (!len || len > ref->total || ref->total > HC_SHM_MESSAGE_MAX || ref->offset % 8 ||
        ref->offset > HC_SHM_CHUNK_BYTES - ref->total)
        return hc_error(HCOMM_ERR_PROTOCOL, "%u bytes are no part of a message of %u", len, ref->total);
    return HCOMM_OK;
}

/* The first part, or all, of a message that lies in a chunk of the sender. */
static hcomm_status_t begin_arrival(struct hc_shm_iface *iface, struct hc_shm_source *source, uint64_t header)
{
    struct hc_shm_chunk_ref ref;
    memcpy(&ref, hc_shm_front(&source->in)->data, sizeof(ref));
    hcomm_status_t status = check_chunk(source, &ref, hc_shm_header_len(header));
    if (status == HCOMM_OK)
        status = attach(iface, source);
    if (status != HCOMM_OK)
        return status;
    const struct hc_shm_segment *segment = &source->peer->segment;
    bool current = ref.cookie == (uint32_t)source->addr.cookie;
    if (current && ref.index >= segment->chunk_count)
        return hc_error(HCOMM_ERR_PROTOCOL, "chunk %u does not exist", ref.index);
    if (!current)
        hc_log_debug("shm: dropped a message of an earlier life of rank %u", source->from);
    source->arrival = (struct hc_shm_arrival){
        .data = current ? segment->chunks + (size_t)ref.index * HC_SHM_CHUNK_BYTES + ref.offset : NULL,
        .index = ref.index,
        .total = ref.total,
        .id = hc_shm_header_id(header),
    };
    advance_arrival(iface, source, hc_shm_header_len(header));
    return HCOMM_OK;
}

static hcomm_status_t continue_arrival(struct hc_shm_iface *iface, struct hc_shm_source *source,
                                       uint64_t header)
{
    uint32_t more = hc_shm_header_len(header), left = source->arrival.total - source->arrival.ready;
    if (!source->arrival.total || !more || more > left)
        return hc_error(HCOMM_ERR_PROTOCOL, "%u bytes more of a message that lacks %u", more,
                        source->arrival.total ? left : 0);
    advance_arrival(iface, source, more);
    return HCOMM_OK;
}

/* The position was published: a sender that sleeps for want of room must hear of it. */
static HC_COLD void tell_room(struct hc_shm_iface *iface, struct hc_shm_source *source)
{
    if (attach(iface, source) == HCOMM_OK)
        hc_shm_peer_notify(source->peer, HC_SHM_SLEEP_ROOM);
}

/* Whether the record is a message that fits one line: nearly all are. */
static inline bool is_one_line(uint64_t header)
{
    /* without what does not matter: the stamp, the flags, the id */
    uint64_t kind_and_len = header & (HC_SHM_KIND_MASK | HC_SHM_LEN_MASK);
    return kind_and_len - hc_shm_header(HC_SHM_INLINE, 0, 0) <= HC_SHM_LINE_MAX;
}

static inline void advance(struct hc_shm_iface *iface, struct hc_shm_source *source, uint32_t lines,
                           uint64_t header)
{
    if (hc_likely(!hc_shm_advance(&source->in, lines, header)))
        return;
    if (hc_likely(source->peer != NULL))
        hc_shm_peer_notify(source->peer, HC_SHM_SLEEP_ROOM);
    else
        tell_room(iface, source);
}

/* All lines of a record travel at once, while the runtime looks at the first one. */
static inline void fetch_lines(const struct hc_shm_line *line, uint32_t lines)
{
    uint32_t count = lines < HC_SHM_FETCH_LINES ? lines : HC_SHM_FETCH_LINES;
    for (uint32_t i = 1; i < count; i++)
        __builtin_prefetch(line + i);
}

static hcomm_status_t deliver_kind(struct hc_shm_iface *iface, struct hc_shm_source *source, uint64_t header)
{
    switch (hc_shm_header_kind(header)) {
    case HC_SHM_INLINE:
        iface->am(iface->arg, source->from, hc_shm_header_id(header), hc_shm_front(&source->in)->data,
                  hc_shm_header_len(header));
        return HCOMM_OK;
    case HC_SHM_CHUNK:
        return begin_arrival(iface, source, header);
    case HC_SHM_MORE:
        return continue_arrival(iface, source, header);
    default:
        return HCOMM_OK;
    }
}

/* Deliver any record at the read position; false when the source is broken. */
static bool deliver_any(struct hc_shm_iface *iface, struct hc_shm_source *source, uint64_t header)
{
    uint32_t lines = hc_shm_record_lines(&source->in, header);
    hcomm_status_t status;
    if (hc_unlikely(!lines))
        status = hc_error(HCOMM_ERR_PROTOCOL, "a record with header %#llx is malformed",
                          (unsigned long long)header);
    else {
        fetch_lines(hc_shm_front(&source->in), lines);
        status = deliver_kind(iface, source, header);
    }
    if (hc_unlikely(status != HCOMM_OK)) {
        give_up(iface, source, status);
        return false;
    }
    advance(iface, source, lines, header);
    return true;
}

/* Deliver the record at the read position; false when the source is broken. */
static inline bool deliver(struct hc_shm_iface *iface, struct hc_shm_source *source, uint64_t header)
{
    if (hc_unlikely(!is_one_line(header)))
        return deliver_any(iface, source, header);
    iface->am(iface->arg, source->from, hc_shm_header_id(header), hc_shm_front(&source->in)->data,
              hc_shm_header_len(header));
    advance(iface, source, 1, header);
    return true;
}

/* Poll one source; returns the number of messages delivered. */
static inline unsigned poll_source(struct hc_shm_iface *iface, struct hc_shm_source *source)
{
    unsigned handled = 0;
    while (handled < source->burst) {
        uint64_t header = hc_shm_peek(&source->in);
        if (hc_likely(!header) || hc_unlikely(source->broken)) {
            source->burst = 1;
            return handled;
        }
        hc_shm_consumer_hear(&source->in, header);
        if (hc_unlikely(!deliver(iface, source, header)))
            return handled;
        handled++;
    }
    if (source->burst < HC_SHM_BATCH)
        source->burst *= 2;
    return handled;
}

/* A consistent copy of a claim; its number, or 0 when there is none or it is being written. */
static uint32_t read_claim(const struct hc_shm_claim *claim, uint32_t *world_rank, struct hc_shm_addr *addr)
{
    /* acquire: partner is the release in hc_shm_ep_create's write_claim */
    uint32_t epoch = atomic_load_explicit(&claim->epoch, memory_order_acquire);
    if (!epoch || epoch & 1)
        return 0;
    *world_rank = claim->world_rank;
    memcpy(addr, &claim->addr, sizeof(*addr));
    /* orders the copy before the second look; partner: the fence in write_claim */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&claim->epoch, memory_order_relaxed) == epoch ? epoch : 0;
}

static hcomm_status_t check_claim(const struct hc_shm_iface *iface, uint32_t slot, uint32_t world_rank,
                                  const struct hc_shm_addr *blob, struct hc_shm_addr *addr)
{
    const char *why = hc_shm_addr_check(&iface->addr, blob, sizeof(*blob), addr);
    if (!why && (addr->local_rank != slot || world_rank >= iface->world_size))
        why = "it claims to be somebody else";
    if (why)
        return hc_error(HCOMM_ERR_PROTOCOL, "shm: refused the sender with local rank %u: %s", slot, why);
    return HCOMM_OK;
}

/* Take what an earlier user of the ring left; it writes no more, or it would not have been replaced. */
static unsigned drain(struct hc_shm_iface *iface, struct hc_shm_source *source)
{
    unsigned total = 0, handled = 0;
    while (!source->broken && (handled = poll_source(iface, source)) > 0)
        total += handled;
    return total;
}

/* Who began the message that is arriving will not end it. */
static void cut_arrival(struct hc_shm_iface *iface, struct hc_shm_source *source)
{
    const struct hc_shm_arrival *arrival = &source->arrival;
    if (hc_unlikely(arrival->total && arrival->taken))
        (void)iface->am_part(iface->arg, source->from, arrival->id, NULL, 0, 0);
    source->arrival = (struct hc_shm_arrival){0};
}

static void adopt_claim(struct hc_shm_iface *iface, struct hc_shm_source *source, uint32_t epoch,
                        uint32_t world_rank, const struct hc_shm_addr *addr)
{
    cut_arrival(iface, source);
    if (source->peer && source->addr.cookie != addr->cookie) {
        hc_shm_peer_put(source->peer);
        source->peer = NULL;
    }
    source->from = world_rank;
    source->addr = *addr;
    source->epoch = epoch;
    source->in.life = hc_shm_life(epoch);
    source->burst = 1;
}

/* Serve the claim on one ring. The very first claimant has begun to write; later ones wait for the grant. */
static unsigned serve_claim(struct hc_shm_iface *iface, uint32_t slot)
{
    enum { FIRST_EPOCH = 2 };
    struct hc_shm_ring *ring = &iface->segment.rings[slot];
    struct hc_shm_source *source = &iface->sources[slot];
    struct hc_shm_addr blob, addr;
    uint32_t world_rank = 0;
    uint32_t epoch = read_claim(&ring->claim, &world_rank, &blob);
    if (!epoch || epoch == source->epoch)
        return 0;
    if (check_claim(iface, slot, world_rank, &blob, &addr) != HCOMM_OK) {
        hc_log_warn("%s", hc_error_detail());
        return 0;
    }
    if (!source->epoch) {
        hc_shm_consumer_init(&source->in, ring->lines, hc_shm_ring_size(iface->segment.ring_count),
                             &ring->head);
        iface->active[iface->active_count++] = source;
        adopt_claim(iface, source, epoch, world_rank, &addr);
    }
    unsigned handled = 0;
    if (epoch != FIRST_EPOCH) {
        handled = drain(iface, source);
        hc_shm_consumer_reset(&source->in);
        source->broken = false;
        adopt_claim(iface, source, epoch, world_rank, &addr);
    }
    /* release: partner is the acquire in the sender's wait for the grant; covers the reset */
    atomic_store_explicit(&ring->granted, epoch, memory_order_release);
    if (epoch != FIRST_EPOCH)
        tell_room(iface, source);
    return handled;
}

/* Serve new claims; returns the number of messages delivered meanwhile. */
HC_COLD static unsigned accept_claims(struct hc_shm_iface *iface)
{
    unsigned handled = 0;
    /* acquire: partner is the release in announce (ep.c); what is claimed is seen below */
    iface->connects_seen = atomic_load_explicit(&iface->doorbell->connects, memory_order_acquire);
    for (uint32_t word = 0; word * 64 < iface->segment.ring_count; word++) {
        uint64_t bits = atomic_load_explicit(&iface->segment.header->active[word], memory_order_acquire);
        for (; bits; bits &= bits - 1) {
            uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
            if (slot < iface->segment.ring_count)
                handled += serve_claim(iface, slot);
        }
    }
    return handled;
}

unsigned hc_shm_progress(struct hc_iface *base)
{
    struct hc_shm_iface *iface = hc_container_of(base, struct hc_shm_iface, base);
    unsigned handled = 0;
    if (hc_unlikely(iface->armed))
        hc_shm_disarm(iface);
    if (hc_unlikely(atomic_load_explicit(&iface->doorbell->connects, memory_order_relaxed) !=
                    iface->connects_seen))
        handled += accept_claims(iface);
    for (uint32_t i = 0; i < iface->active_count; i++)
        handled += poll_source(iface, iface->active[i]);
    if (hc_unlikely(!hc_list_empty(&iface->flushes)))
        handled += hc_shm_flush_progress(iface);
    return handled;
}

void hc_shm_sources_fini(struct hc_shm_iface *iface)
{
    for (uint32_t i = 0; i < iface->active_count; i++)
        hc_shm_peer_put(iface->active[i]->peer);
}
