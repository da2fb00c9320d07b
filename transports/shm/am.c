/* The sending side of active messages: the fast path. */
#include "runtime/base/copy.h"
#include "transports/shm/shm.h"

#include <string.h>

/* Copy a long payload the way that is faster to this peer. */
static void copy_tuned(struct hc_shm_tuner *tuner, unsigned char *to, const void *from, size_t len)
{
    if (hc_shm_tuner_begin(tuner))
        hc_copy_past(to, from, len);
    else
        hc_copy_through(to, from, len);
    hc_shm_tuner_end(tuner, len);
}

/* Room for a record, or NULL after remembering what was missing. */
static inline struct hc_shm_line *reserve(struct hc_shm_ep *ep, uint32_t lines)
{
    if (hc_unlikely(!ep->granted) && !hc_shm_ep_check_grant(ep))
        return NULL;
    return hc_shm_reserve(&ep->out, lines);
}

/* A message of any length, or one for which there may be no room. */
static hcomm_status_t send_lines(struct hc_shm_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                 const void *data, size_t len)
{
    size_t total = hdr_len + len;
    if (hc_unlikely(total > HC_SHM_INLINE_MAX))
        return hc_error(HCOMM_ERR_INVALID, "shm: %zu bytes are too long for a short message", total);
    uint32_t lines = hc_shm_lines_for(total);
    struct hc_shm_line *line = reserve(ep, lines);
    if (hc_unlikely(!line))
        return hc_shm_ep_block(ep, lines);
    hc_copy(line->data, hdr, hdr_len);
    if (hc_unlikely(len >= HC_SHM_TUNER_MIN))
        copy_tuned(&ep->short_tuner, line->data + hdr_len, data, len);
    else
        hc_copy(line->data + hdr_len, data, len);
    hc_shm_commit(&ep->out, line, lines, hc_shm_header(HC_SHM_INLINE, id, (uint32_t)total));
    hc_shm_peer_notify(ep->peer, HC_SHM_SLEEP_MESSAGE);
    return HCOMM_OK;
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
    hc_shm_commit(&ep->out, line, 1, hc_shm_header(HC_SHM_INLINE, id, (uint32_t)total));
    hc_shm_peer_notify(ep->peer, HC_SHM_SLEEP_MESSAGE);
    return HCOMM_OK;
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
    void *chunk = hc_shm_pool_chunk(&iface->pool, index);
    hc_copy_bypass = hc_shm_tuner_begin(&ep->tuner);
    size_t len = pack(chunk, arg);
    hc_copy_bypass = false;
    hc_shm_tuner_end(&ep->tuner, len);
    hc_assert(len <= base->iface->attr.bcopy_max);
    if (len <= HC_SHM_BCOPY_INLINE) {
        memcpy(line->data, chunk, len);
        hc_shm_commit(&ep->out, line, hc_shm_lines_for(len), hc_shm_header(HC_SHM_INLINE, id, (uint32_t)len));
    } else {
        struct hc_shm_chunk_ref ref = {.index = index, .cookie = (uint32_t)iface->addr.cookie};
        memcpy(line->data, &ref, sizeof(ref));
        hc_shm_pool_send(&iface->pool, &ep->inflight);
        hc_shm_commit(&ep->out, line, 1, hc_shm_header(HC_SHM_CHUNK, id, (uint32_t)len));
    }
    hc_shm_peer_notify(ep->peer, HC_SHM_SLEEP_MESSAGE);
    return HCOMM_OK;
}
