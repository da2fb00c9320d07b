/* The sending side of active messages: the fast path. */
#include "runtime/base/copy.h"
#include "transports/shm/shm.h"

#include <string.h>

enum { BCOPY_OFFSET = HC_SHM_PAGE / 2 }; /* in a chunk: sources lie at the start of pages rather than there */
_Static_assert(BCOPY_OFFSET + HC_SHM_MESSAGE_MAX <= HC_SHM_CHUNK_BYTES, "packed messages fit");
_Static_assert(HC_SHM_PAGE / 2 + 2 * HC_SHM_LINE + HC_SHM_MESSAGE_MAX <= HC_SHM_CHUNK_BYTES,
               "so do all others, wherever they come from");

/* Room for a record, or NULL after remembering what was missing. */
static inline struct hc_shm_line *reserve(struct hc_shm_ep *ep, uint32_t lines)
{
    if (hc_unlikely(!ep->granted) && !hc_shm_ep_check_grant(ep))
        return NULL;
    return hc_shm_reserve(&ep->out, lines);
}

/* The chunk to pack into, or HC_SHM_NO_CHUNK. */
static inline uint32_t find_chunk(struct hc_shm_iface *iface, struct hc_shm_ep *ep)
{
    hc_shm_pool_reclaim(&iface->pool, &ep->inflight);
    if (hc_unlikely(ep->inflight.count >= iface->ep_chunks))
        return HC_SHM_NO_CHUNK;
    if (hc_unlikely(hc_shm_pool_peek(&iface->pool) == HC_SHM_NO_CHUNK))
        hc_shm_reclaim_all(iface);
    return hc_shm_pool_peek(&iface->pool);
}

static void publish(struct hc_shm_ep *ep, struct hc_shm_line *line, enum hc_shm_kind kind, uint8_t id,
                    size_t len, bool may_stay)
{
    hc_shm_commit(&ep->out, line, 1, hc_shm_header(kind, id, (uint32_t)len), may_stay);
    hc_shm_peer_notify(ep->peer, HC_SHM_SLEEP_MESSAGE);
}

static void refer(const struct hc_shm_iface *iface, struct hc_shm_line *line, uint32_t index, size_t total,
                  size_t offset)
{
    const struct hc_shm_chunk_ref ref = {.index = index,
                                         .cookie = (uint32_t)iface->addr.cookie,
                                         .total = (uint32_t)total,
                                         .offset = (uint32_t)offset};
    memcpy(line->data, &ref, sizeof(ref));
}

/*
 * Copy into the chunk and tell of every part: all but the last end where a line ends, so that no line is
 * written that the receiver may be reading.
 */
static void write_parts(struct hc_shm_ep *ep, uint8_t id, unsigned char *chunk, size_t written,
                        const void *data, size_t total, size_t part)
{
    const unsigned char *from = data;
    enum hc_shm_kind kind = HC_SHM_CHUNK;
    bool past = hc_shm_tuner_begin(&ep->tuner) == HC_SHM_WAY_PAST;
    size_t told = 0;
    while (told < total) {
        size_t end = total - told < part + part / 2 ? total : told + part;
        if (past)
            hc_copy_past(chunk + written, from, end - written);
        else
            hc_copy_long(chunk + written, from, end - written);
        publish(ep, hc_shm_producer_line(&ep->out), kind, id, end - told, false);
        kind = HC_SHM_MORE;
        from += end - written;
        told = written = end;
    }
    hc_shm_tuner_end(&ep->tuner, total);
}

/* A message that is too long for the ring. */
static hcomm_status_t send_long(struct hc_shm_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                const void *data, size_t len)
{
    struct hc_shm_iface *iface = hc_container_of(ep->base.iface, struct hc_shm_iface, base);
    size_t total = hdr_len + len;
    if (hc_unlikely(total > HC_SHM_MESSAGE_MAX))
        return hc_error(HCOMM_ERR_INVALID, "shm: %zu bytes are too long for a message", total);
    uint32_t index = find_chunk(iface, ep);
    /* a receiver that has chunks to read gains nothing from parts */
    size_t part = ep->inflight.count ? HC_SHM_MESSAGE_MAX : HC_SHM_PART;
    uint32_t records = (uint32_t)((total + part - 1) / part);
    struct hc_shm_line *line = reserve(ep, records);
    if (hc_unlikely(!line || index == HC_SHM_NO_CHUNK))
        return hc_shm_ep_block(ep, records | (index == HC_SHM_NO_CHUNK ? HC_SHM_BLOCKED_CHUNK : 0));
    size_t offset = hc_shm_pool_place(&iface->pool, index, data, hdr_len, total) - hdr_len;
    refer(iface, line, index, total, offset);
    hc_shm_pool_send(&iface->pool, &ep->inflight, offset + total);
    unsigned char *chunk = (unsigned char *)hc_shm_pool_chunk(&iface->pool, index) + offset;
    memcpy(chunk, hdr, hdr_len);
    write_parts(ep, id, chunk, hdr_len, data, total, part);
    hc_shm_pool_count(&iface->pool, total);
    return HCOMM_OK;
}

/* Copy a payload the way that is faster to this peer; whether that was through the caches. */
static bool copy_payload(struct hc_shm_tuner *tuner, unsigned char *to, const void *from, size_t len)
{
    if (hc_likely(len < HC_SHM_TUNER_MIN)) {
        hc_copy(to, from, len);
        return true;
    }
    enum hc_shm_way way = hc_shm_tuner_begin(tuner);
    if (way == HC_SHM_WAY_LINES)
        hc_copy_long(to, from, len);
    else if (way == HC_SHM_WAY_PIECES)
        hc_copy_through(to, from, len);
    else
        hc_copy_past(to, from, len);
    hc_shm_tuner_end(tuner, len);
    return way != HC_SHM_WAY_PAST;
}

/*
 * The whole message in the ring. Its first line comes last: the receiver looks at it all the time, and would
 * take it away between the payload and the header.
 */
static hcomm_status_t send_inline(struct hc_shm_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                  const void *data, size_t len)
{
    size_t total = hdr_len + len;
    size_t first = hdr_len < HC_SHM_LINE_MAX ? HC_SHM_LINE_MAX - hdr_len : 0; /* of the payload */
    uint32_t lines = hc_shm_lines_for(total);
    struct hc_shm_line *line = reserve(ep, lines);
    if (hc_unlikely(!line))
        return hc_shm_ep_block(ep, lines);
    bool cached = true;
    if (hc_likely(len > first))
        cached = copy_payload(&ep->short_tuner, line->data + hdr_len + first,
                              (const unsigned char *)data + first, len - first);
    else
        first = len;
    hc_copy(line->data, hdr, hdr_len);
    hc_copy_line_part(line->data + hdr_len, data, first);
    hc_shm_commit(&ep->out, line, lines, hc_shm_header(HC_SHM_INLINE, id, (uint32_t)total),
                  cached && lines <= HC_SHM_STAY_LINES);
    hc_shm_peer_notify(ep->peer, HC_SHM_SLEEP_MESSAGE);
    return HCOMM_OK;
}

/* The whole message in the chunk from find_chunk(), through the caches. */
static hcomm_status_t send_in_chunk(struct hc_shm_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                    const void *data, size_t len, uint32_t index)
{
    struct hc_shm_iface *iface = hc_container_of(ep->base.iface, struct hc_shm_iface, base);
    size_t total = hdr_len + len;
    struct hc_shm_line *line = reserve(ep, 1);
    if (hc_unlikely(!line))
        return hc_shm_ep_block(ep, 1);
    size_t offset = hc_shm_pool_place(&iface->pool, index, data, hdr_len, total) - hdr_len;
    refer(iface, line, index, total, offset);
    hc_shm_pool_send(&iface->pool, &ep->inflight, offset + total);
    unsigned char *to = (unsigned char *)hc_shm_pool_chunk(&iface->pool, index) + offset;
    memcpy(to, hdr, hdr_len);
    hc_copy(to + hdr_len, data, len);
    publish(ep, line, HC_SHM_CHUNK, id, total, true);
    return HCOMM_OK;
}

/* Whether a message of a few KiB had better go through a chunk, where enough of them are in rotation. */
static bool gains_from_chunk(const struct hc_shm_ep *ep)
{
    return !hc_shm_distance_is_far(&ep->distance);
}

/* A sample is due: what comes back from the receiver now tells how far it is. */
static void sample_distance(const struct hc_shm_iface *iface, struct hc_shm_ep *ep)
{
    if (ep->inflight.count)
        hc_shm_distance_sample(&ep->distance, &iface->pool.flags[ep->inflight.head].busy);
}

/*
 * A message of a few KiB. To a near receiver it goes through a chunk, as soon as enough of them are in
 * rotation: their lines come out of the cache that both cores share, the ring's must be taken back from the
 * receiver. The ring is there, too, when no chunk is free. What is sampled goes through a chunk, and is the
 * next sample when it is back.
 */
static hcomm_status_t send_medium(struct hc_shm_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                  const void *data, size_t len)
{
    struct hc_shm_iface *iface = hc_container_of(ep->base.iface, struct hc_shm_iface, base);
    bool gains = gains_from_chunk(ep), sample = hc_shm_distance_due(&ep->distance);
    uint32_t index = HC_SHM_NO_CHUNK;
    if (hc_unlikely(sample))
        sample_distance(iface, ep);
    if (sample || (gains && hc_shm_pool_is_warm(&iface->pool)))
        index = find_chunk(iface, ep);
    hcomm_status_t status = index == HC_SHM_NO_CHUNK ? send_inline(ep, id, hdr, hdr_len, data, len)
                                                     : send_in_chunk(ep, id, hdr, hdr_len, data, len, index);
    if (gains)
        hc_shm_pool_count(&iface->pool, len / HC_SHM_MEDIUM_SHARE);
    return status;
}

/* A message of any length, or one for which there may be no room. */
static hcomm_status_t send_lines(struct hc_shm_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                 const void *data, size_t len)
{
    size_t total = hdr_len + len;
    if (hc_unlikely(total > HC_SHM_INLINE_MAX))
        return send_long(ep, id, hdr, hdr_len, data, len);
    if (hc_unlikely(len >= HC_SHM_MEDIUM_CALM) ||
        (hc_unlikely(len >= HC_SHM_MEDIUM_STREAM) && !hc_shm_producer_is_calm(&ep->out)))
        return send_medium(ep, id, hdr, hdr_len, data, len);
    return send_inline(ep, id, hdr, hdr_len, data, len);
}

/* Nearly all messages fit a line, and find one: that way has no calls but the last. */
hcomm_status_t hc_shm_am_short(struct hc_ep *base, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len)
{
    struct hc_shm_ep *ep = hc_container_of(base, struct hc_shm_ep, base);
    size_t total = hdr_len + len;
    hc_assert(hdr_len % 8 == 0);
    if (hc_unlikely(total > HC_SHM_LINE_MAX || !hc_shm_producer_has_line(&ep->out)))
        return send_lines(ep, id, hdr, hdr_len, data, len);
    struct hc_shm_line *line = hc_shm_producer_line(&ep->out);
    hc_copy_line_part(line->data, hdr, hdr_len);
    hc_copy_line_part(line->data + hdr_len, data, len);
    hc_shm_commit(&ep->out, line, 1, hc_shm_header(HC_SHM_INLINE, id, (uint32_t)total), true);
    hc_shm_peer_notify(ep->peer, HC_SHM_SLEEP_MESSAGE);
    return HCOMM_OK;
}

hcomm_status_t hc_shm_am_bcopy(struct hc_ep *base, uint8_t id, hc_pack_fn pack, void *arg)
{
    struct hc_shm_ep *ep = hc_container_of(base, struct hc_shm_ep, base);
    struct hc_shm_iface *iface = hc_container_of(base->iface, struct hc_shm_iface, base);
    struct hc_shm_line *line = reserve(ep, HC_SHM_BCOPY_INLINE_LINES);
    if (hc_unlikely(!line))
        return hc_shm_ep_block(ep, HC_SHM_BCOPY_INLINE_LINES);
    uint32_t index = find_chunk(iface, ep);
    if (hc_unlikely(index == HC_SHM_NO_CHUNK))
        return hc_shm_ep_block(ep, HC_SHM_BCOPY_INLINE_LINES | HC_SHM_BLOCKED_CHUNK);
    unsigned char *chunk = (unsigned char *)hc_shm_pool_chunk(&iface->pool, index) + BCOPY_OFFSET;
    hc_copy_bypass = hc_shm_tuner_begin(&ep->tuner) == HC_SHM_WAY_PAST;
    size_t len = pack(chunk, arg);
    hc_copy_bypass = false;
    hc_shm_tuner_end(&ep->tuner, len);
    hc_assert(len <= base->iface->attr.bcopy_max);
    if (len <= HC_SHM_BCOPY_INLINE) {
        memcpy(line->data, chunk, len);
        hc_shm_commit(&ep->out, line, hc_shm_lines_for(len), hc_shm_header(HC_SHM_INLINE, id, (uint32_t)len),
                      true);
    } else {
        refer(iface, line, index, len, BCOPY_OFFSET);
        hc_shm_pool_send(&iface->pool, &ep->inflight, BCOPY_OFFSET + len);
        hc_shm_commit(&ep->out, line, 1, hc_shm_header(HC_SHM_CHUNK, id, (uint32_t)len), true);
    }
    hc_shm_peer_notify(ep->peer, HC_SHM_SLEEP_MESSAGE);
    hc_shm_pool_count(&iface->pool, len);
    return HCOMM_OK;
}
