/* The receiving side of a channel. */
#include "transports/npu/chan.h"

#include <stdlib.h>
#include <string.h>

enum { BUDGET = 32 }; /* records of one channel per call, so that all channels have their turn */

/* ---- Giving room back ---- */

static void give_back(struct npu_chan *chan, size_t cost)
{
    chan->freed += cost;
    if (chan->freed - chan->freed_published < NPU_WINDOW / 8)
        return;
    chan->freed_published = chan->freed;
    atomic_store_explicit(&chan->memory->head.released, chan->freed, memory_order_relaxed);
    npu_chan_kick(chan);
}

void npu_chan_release(struct npu_peer *peer, size_t cost)
{
    give_back(npu_chan_of(peer), cost);
}

static void consume(struct npu_chan *chan, uint32_t lines, uint64_t word)
{
    uint32_t before = chan->reader.published;
    npu_ring_consume(&chan->reader, lines, word);
    if (chan->reader.published != before)
        npu_chan_kick(chan);
}

/* ---- Answers ---- */

/* Write an answer; false: the sender has not read the one that was there before. */
static bool put_reply(struct npu_chan *chan, const struct npu_reply *reply)
{
    struct npu_reply *at = &chan->memory->replies[chan->reply_pos & NPU_REPLY_MASK];
    /* acquire: partner is the release in the sender's read_reply */
    if (atomic_load_explicit(&at->word, memory_order_acquire))
        return false;
    at->id = reply->id;
    at->a = reply->a;
    at->b = reply->b;
    at->index = reply->index;
    at->generation = reply->generation;
    chan->reply_pos++;
    /* release: partner is the acquire in read_reply */
    atomic_store_explicit(&at->word, reply->word, memory_order_release);
    npu_chan_kick(chan);
    return true;
}

/* Keep an answer until there is room. */
static HC_COLD void owe(struct npu_chan *chan, const struct npu_reply *reply)
{
    struct npu_owed *owed = chan->num_owed < NPU_OWED_MAX ? malloc(sizeof(*owed)) : NULL;
    if (!owed) {
        npu_chan_fail(chan, "no room for its answers");
        return;
    }
    owed->reply = *reply;
    chan->num_owed++;
    hc_list_append(&chan->owed, &owed->node);
}

void npu_chan_answer(struct npu_chan *chan, const struct npu_reply *reply)
{
    if (chan->peer.dead || chan->closing)
        return;
    if (hc_unlikely(chan->num_owed) || !put_reply(chan, reply))
        owe(chan, reply);
}

static HC_COLD bool pay(struct npu_chan *chan)
{
    bool moved = false;
    while (chan->num_owed) {
        struct npu_owed *owed = hc_list_entry(hc_list_first(&chan->owed), struct npu_owed, node);
        if (!put_reply(chan, &owed->reply))
            break;
        hc_list_remove(&owed->node);
        free(owed);
        chan->num_owed--;
        moved = true;
    }
    return moved;
}

static bool could_pay(const struct npu_chan *chan)
{
    const struct npu_reply *at = &chan->memory->replies[chan->reply_pos & NPU_REPLY_MASK];
    return chan->num_owed && !atomic_load_explicit(&at->word, memory_order_acquire);
}

void npu_chan_delivered(struct npu_peer *peer, const struct npu_arrival *arrival)
{
    npu_chan_reply(npu_chan_of(peer), NPU_REPLY_ACK, arrival->id, 0, 0);
}

/* ---- Streams ---- */

static struct npu_chan *chan_of(const struct npu_rx *rx)
{
    return npu_chan_of(rx->arrival.peer);
}

static void grant_next(struct npu_chan *chan);

void npu_chan_publish_ways(struct npu_chan *chan)
{
    uint32_t ways = 0;
    if (chan->copies == NPU_COPIES_WORK)
        ways = npu_way_preference(&chan->costs) | NPU_WAYS_OFFERED;
    _Atomic uint32_t *published = &chan->memory->head.ways;
    /* relaxed, both: nothing else is told by it */
    if (atomic_load_explicit(published, memory_order_relaxed) != ways)
        atomic_store_explicit(published, ways, memory_order_relaxed);
}

void npu_chan_learn(struct npu_chan *chan, enum npu_way way, size_t size, uint64_t began)
{
    if (!began)
        return;
    npu_way_learn(&chan->costs, way, size, began);
    npu_chan_publish_ways(chan);
}

/* A receive in a stream has ended. */
static void end_stream(struct npu_rx *rx, int err)
{
    struct npu_chan *chan = chan_of(rx);
    struct npu_stream *stream = &chan->memory->head.streams[rx->stream];
    uint64_t total = rx->stream < NPU_EARLY ? rx->arrival.len : rx->end;
    /* release: partner is the acquire in the sender's stream_step; jumps over what is not wanted */
    atomic_store_explicit(&stream->consumed, rx->arrival.base + total, memory_order_release);
    npu_chan_kick(chan);
    if (rx->stream >= NPU_EARLY)
        chan->granted &= ~(1U << rx->stream);
    hc_list_remove(&rx->node);
    if (!err)
        npu_chan_learn(chan, NPU_WAY_STREAM, rx->end, rx->began);
    npu_rx_finish(chan->peer.ep, rx, err);
    grant_next(chan);
}

/* How much of the receive's stream may be read, from rx->at on; false: the sender broke the protocol. */
static bool available(const struct npu_rx *rx, uint64_t *bytes)
{
    const struct npu_stream *stream = &chan_of(rx)->memory->head.streams[rx->stream];
    /* acquire: partner is the release in the sender's fill */
    uint64_t written = atomic_load_explicit(&stream->written, memory_order_acquire);
    int64_t ahead = (int64_t)(written - (rx->arrival.base + rx->at));
    uint64_t left = rx->end - rx->at;
    if (ahead <= 0) {
        *bytes = 0; /* a stream that was cut short last time is behind for a moment */
        return true;
    }
    *bytes = (uint64_t)ahead < left ? (uint64_t)ahead : left;
    return *bytes <= NPU_STREAM_BYTES || (uint64_t)ahead <= NPU_STREAM_BYTES;
}

/* ---- Messages that stay in the sender's memory ---- */

/* Where a message is, from its announcement; false: malformed. */
static bool parse_held(const struct npu_rts *rts, unsigned flags, const unsigned char *bytes,
                       struct npu_held *held)
{
    uint64_t len = 0;
    held->count = flags & NPU_RECORD_DIRECT ? rts->pieces : 0;
    if (flags & NPU_RECORD_IPC)
        memcpy(&held->range, bytes, sizeof(held->range));
    for (unsigned i = 0; i < held->count; i++) {
        struct npu_rma_local piece;
        memcpy(&piece, bytes + i * sizeof(piece), sizeof(piece));
        held->pieces[i] = (struct iovec){(void *)(uintptr_t)piece.addr, piece.len};
        if (__builtin_add_overflow(len, piece.len, &len))
            return false;
    }
    return !held->count || len == rts->len;
}

/* Keep that until the message is matched. */
static int hold(struct npu_chan *chan, const struct npu_rts *rts, unsigned flags, const unsigned char *bytes,
                struct npu_arrival *arrival)
{
    struct npu_held *held = malloc(sizeof(*held));
    if (!held)
        return -FI_ENOMEM;
    if (!parse_held(rts, flags, bytes, held)) {
        free(held);
        npu_chan_fail(chan, "a malformed announcement");
        return -FI_EIO;
    }
    hc_list_append(&chan->held, &held->node);
    arrival->base = (uintptr_t)held;
    return 0;
}

/* Take what was held of a message; NULL: nothing. The caller frees it. */
static struct npu_held *take_held(const struct npu_arrival *arrival)
{
    struct npu_held *held = arrival->stream < 0 ? (void *)(uintptr_t)arrival->base : NULL;
    if (held)
        hc_list_remove(&held->node);
    return held;
}

/* False: the message has to come another way. */
static bool begin_dma(struct npu_chan *chan, struct npu_rx *rx, const struct npu_ipc_range *range)
{
    if (!rx->buf.device || rx->buf.count != 1)
        return false;
    rx->dma = npu_dma_start(rx->buf.device, rx->buf.iov[0].iov_base, range, npu_rx_wanted(rx), false);
    if (!rx->dma)
        return false;
    rx->stream = NPU_STREAM_DMA;
    hc_list_append(&chan->local->reading, &rx->node);
    return true;
}

/* The same. Takes `held` over. */
static bool begin_held(struct npu_chan *chan, struct npu_rx *rx, struct npu_held *held)
{
    if (held->count && npu_chan_begin_direct(chan, rx, held))
        return true;
    bool dma = !held->count && begin_dma(chan, rx, &held->range);
    free(held);
    return dma;
}

static bool step_dma(struct npu_rx *rx)
{
    struct npu_chan *chan = chan_of(rx);
    int rc = npu_dma_poll(rx->dma);
    if (rc == -FI_EAGAIN)
        return false;
    rx->dma = NULL;
    hc_list_remove(&rx->node);
    npu_chan_reply(chan, NPU_REPLY_CTS, rx->arrival.id, 0, 0); /* the sender's buffer is no longer needed */
    npu_rx_finish(chan->peer.ep, rx, -rc);
    return true;
}

bool npu_chan_stream_pending(const struct npu_rx *rx)
{
    if (rx->stream < 0)
        return true; /* nothing wakes for it */
    uint64_t bytes = 0;
    return !available(rx, &bytes) || bytes || rx->at == rx->end || chan_of(rx)->peer.dead ||
           chan_of(rx)->closing;
}

bool npu_chan_read_stream(struct npu_rx *rx)
{
    if (rx->stream < 0)
        return rx->stream == NPU_STREAM_DMA ? step_dma(rx) : npu_chan_step_direct(rx);
    struct npu_chan *chan = chan_of(rx);
    struct npu_stream *stream = &chan->memory->head.streams[rx->stream];
    const unsigned char *bytes = chan->memory->streams[rx->stream];
    size_t piece = npu_piece(rx->end);
    uint64_t ready = 0;
    bool moved = false;
    while (rx->at < rx->end) {
        if (!available(rx, &ready)) {
            npu_chan_fail(chan, "a stream ran past its end");
            end_stream(rx, FI_EIO);
            return true;
        }
        if (ready == 0)
            break;
        uint64_t pos = rx->arrival.base + rx->at;
        size_t offset = pos % NPU_STREAM_BYTES;
        size_t n = ready < piece ? (size_t)ready : piece;
        n = n < NPU_STREAM_BYTES - offset ? n : NPU_STREAM_BYTES - offset;
        if (npu_buf_write(&rx->buf, rx->at, bytes + offset, n) < 0) {
            end_stream(rx, FI_EIO);
            return true;
        }
        rx->at += n;
        moved = true;
        if (rx->at < rx->end) {
            /* release: partner is the acquire in the sender's stream_step */
            atomic_store_explicit(&stream->consumed, pos + n, memory_order_release);
            npu_chan_kick(chan);
        }
    }
    if (rx->at == rx->end) {
        end_stream(rx, 0);
        return true;
    }
    if (chan->peer.dead || chan->closing) {
        end_stream(rx, FI_ECONNRESET);
        return true;
    }
    return moved;
}

static void begin_stream(struct npu_chan *chan, struct npu_rx *rx, int stream)
{
    rx->stream = stream;
    rx->at = 0;
    rx->end = npu_rx_wanted(rx);
    rx->began = chan->arriving && stream < NPU_EARLY ? npu_cycles() : 0;
    hc_list_append(&chan->local->reading, &rx->node);
    npu_chan_prepare(chan, stream, rx->arrival.base, rx->end);
    (void)npu_chan_read_stream(rx);
}

/* Give free streams to matched receives that wait for one. */
static void grant_next(struct npu_chan *chan)
{
    for (int i = NPU_EARLY; i < NPU_STREAMS; i++) {
        if (chan->granted & (1U << i))
            continue;
        struct hc_list *node = hc_list_pop(&chan->waiting);
        if (!node)
            return;
        struct npu_rx *rx = hc_list_entry(node, struct npu_rx, node);
        size_t wanted = npu_rx_wanted(rx);
        chan->granted |= 1U << i;
        rx->arrival.base = npu_stream_next(chan, i, true);
        npu_stream_give(chan, i, true, wanted);
        npu_chan_reply(chan, NPU_REPLY_CTS, rx->arrival.id, wanted, (uint64_t)i);
        begin_stream(chan, rx, i);
    }
}

void npu_chan_request(struct npu_chan *chan, struct npu_rx *rx)
{
    hc_list_append(&chan->waiting, &rx->node);
    grant_next(chan);
}

static void skip_stream(struct npu_chan *chan, const struct npu_arrival *arrival)
{
    struct npu_stream *stream = &chan->memory->head.streams[arrival->stream];
    atomic_store_explicit(&stream->consumed, arrival->base + arrival->len, memory_order_release);
    npu_chan_kick(chan);
}

static void discard(struct npu_chan *chan, const struct npu_arrival *arrival)
{
    free(take_held(arrival));
    if (arrival->payload) {
        if (arrival->flags & FI_DELIVERY_COMPLETE)
            npu_chan_delivered(&chan->peer, arrival);
    } else if (arrival->stream >= 0) {
        skip_stream(chan, arrival);
    } else {
        npu_chan_reply(chan, NPU_REPLY_CTS, arrival->id, 0, 0);
    }
}

void npu_chan_fetch(struct npu_peer *peer, const struct npu_arrival *arrival, struct npu_rx *rx)
{
    struct npu_chan *chan = npu_chan_of(peer);
    if (!rx) {
        discard(chan, arrival);
        return;
    }
    if (arrival->stream >= 0) {
        begin_stream(chan, rx, arrival->stream);
        return;
    }
    struct npu_held *held = take_held(arrival);
    if (npu_rx_wanted(rx) == 0) {
        free(held);
        npu_chan_reply(chan, NPU_REPLY_CTS, arrival->id, 0, 0);
        npu_rx_finish(peer->ep, rx, 0);
    } else if (peer->dead || chan->closing) {
        free(held);
        npu_rx_finish(peer->ep, rx, FI_ECONNRESET);
    } else if (!held || !begin_held(chan, rx, held)) {
        npu_chan_request(chan, rx);
    }
}

bool npu_chan_lost(struct npu_peer *peer, const struct npu_arrival *arrival)
{
    const struct npu_chan *chan = npu_chan_of(peer);
    if (arrival->stream < 0) {
        free(take_held(arrival));
        return true;
    }
    uint64_t written =
        atomic_load_explicit(&chan->memory->head.streams[arrival->stream].written, memory_order_acquire);
    int64_t come = (int64_t)(written - arrival->base); /* negative: the message before ended earlier */
    return come < (int64_t)arrival->len;
}

/* ---- Records ---- */

static void fill_head(struct npu_chan *chan, const struct npu_record *record, unsigned flags,
                      struct npu_arrival *arrival)
{
    *arrival = (struct npu_arrival){
        .peer = &chan->peer,
        .flags = flags & NPU_RECORD_TAGGED ? FI_TAGGED : FI_MSG,
        .tag = flags & NPU_RECORD_TAGGED ? record->tag : 0,
        .stream = -1,
    };
    if (flags & NPU_RECORD_DATA) {
        arrival->flags |= FI_REMOTE_CQ_DATA;
        arrival->data = record->data;
    }
}

/* As npu_arrive(); tells the sender how long it took, if it asks and the receive was there. */
static int eager_arrives(struct npu_chan *chan, const struct npu_record *record, unsigned flags,
                         const struct npu_arrival *arrival)
{
    if (hc_likely(!(flags & NPU_RECORD_TIMED)))
        return npu_arrive(chan->peer.ep, arrival);
    uint32_t id = (uint32_t)record->id;
    uint64_t began = npu_cycles();
    int rc = npu_arrive(chan->peer.ep, arrival);
    if (rc == 0) /* relaxed: nothing else is told by it */
        atomic_store_explicit(&chan->memory->head.unpacked, npu_pack_answer(id, npu_cycles() - began),
                              memory_order_relaxed);
    return rc;
}

/* 0: read; negative: come back later. */
static int on_eager(struct npu_chan *chan, struct npu_record *record, uint64_t word)
{
    struct npu_arrival arrival;
    uint32_t len = npu_record_len(word);
    uint32_t lines = npu_eager_lines(len);
    if (len > NPU_EAGER_MAX || !npu_ring_fits(&chan->reader, lines)) {
        npu_chan_fail(chan, "a message too long for the ring");
        return -FI_EIO;
    }
    fill_head(chan, record, npu_record_flags(word), &arrival);
    arrival.len = len;
    arrival.payload = npu_eager_payload(record, len);
    arrival.cost = (size_t)lines * NPU_LINE;
    if (hc_unlikely(npu_record_flags(word) & NPU_RECORD_ACK)) {
        arrival.flags |= FI_DELIVERY_COMPLETE;
        arrival.id = record->id;
    }
    int rc = eager_arrives(chan, record, npu_record_flags(word), &arrival);
    if (hc_unlikely(rc < 0))
        return rc;
    consume(chan, lines, word);
    if (rc == 0)
        give_back(chan, arrival.cost);
    return 0;
}

/* Bytes of an announcement; 0: malformed. */
static size_t rts_size(const struct npu_rts *rts, unsigned flags)
{
    size_t extra = 0;
    switch (flags & (NPU_RECORD_STREAM | NPU_RECORD_IPC | NPU_RECORD_DIRECT)) {
    case 0:
        break;
    case NPU_RECORD_STREAM:
        if (rts->stream >= NPU_EARLY || rts->len == 0)
            return 0;
        break;
    case NPU_RECORD_IPC:
        extra = sizeof(struct npu_ipc_range);
        break;
    case NPU_RECORD_DIRECT:
        if (rts->pieces == 0 || rts->pieces > NPU_IOV_LIMIT)
            return 0;
        extra = rts->pieces * sizeof(struct npu_rma_local);
        break;
    default:
        return 0;
    }
    return rts->len > NPU_MAX_MSG_SIZE ? 0 : sizeof(*rts) + extra;
}

/* Offer it to the receives. As npu_arrive(). */
static int rts_arrives(struct npu_chan *chan, const struct npu_rts *rts, unsigned flags,
                       const unsigned char *more, struct npu_arrival *arrival)
{
    int rc = 0;
    if (flags & (NPU_RECORD_IPC | NPU_RECORD_DIRECT))
        rc = hold(chan, rts, flags, more, arrival);
    if (rc < 0)
        return rc;
    chan->arriving = true;
    rc = npu_arrive(chan->peer.ep, arrival);
    chan->arriving = false;
    if (hc_unlikely(rc < 0))
        free(take_held(arrival));
    return rc;
}

static int on_rts(struct npu_chan *chan, struct npu_record *record, uint64_t word)
{
    struct npu_arrival arrival;
    struct npu_rts rts;
    unsigned flags = npu_record_flags(word);
    memcpy(&rts, record->payload, sizeof(rts));
    size_t size = rts_size(&rts, flags);
    if (size == 0 || npu_record_len(word) != size || !npu_ring_fits(&chan->reader, npu_record_lines(size))) {
        npu_chan_fail(chan, "a malformed announcement");
        return -FI_EIO;
    }
    fill_head(chan, record, flags, &arrival);
    arrival.len = rts.len;
    arrival.id = record->id;
    if (flags & NPU_RECORD_STREAM) {
        arrival.stream = (int)rts.stream;
        arrival.base = npu_stream_next(chan, (int)rts.stream, flags & NPU_RECORD_FRESH);
    }
    int rc = rts_arrives(chan, &rts, flags, record->payload + sizeof(rts), &arrival);
    if (hc_unlikely(rc < 0))
        return rc;
    if (flags & NPU_RECORD_STREAM)
        npu_stream_give(chan, (int)rts.stream, flags & NPU_RECORD_FRESH, rts.len);
    consume(chan, npu_record_lines(size), word);
    return 0;
}

static int on_rma(struct npu_chan *chan, struct npu_record *record, uint64_t word)
{
    int rc = npu_chan_on_rma(chan, record, word);
    if (rc < 0)
        return rc;
    consume(chan, npu_record_lines(npu_record_len(word)), word);
    return npu_chan_serving(chan) ? -FI_EAGAIN : 0; /* what follows waits for it */
}

static int read_record(struct npu_chan *chan, uint64_t word)
{
    struct npu_record *record = npu_ring_at(&chan->reader);
    npu_ring_hear(&chan->reader, word);
    switch (npu_record_kind(word)) {
    case NPU_RECORD_EAGER:
        return on_eager(chan, record, word);
    case NPU_RECORD_RTS:
        return on_rts(chan, record, word);
    case NPU_RECORD_RMA:
        return on_rma(chan, record, word);
    case NPU_RECORD_PAD:
        if (npu_ring_fits(&chan->reader, npu_record_len(word))) {
            consume(chan, npu_record_len(word), word);
            return 0;
        }
        break;
    default:
        break;
    }
    npu_chan_fail(chan, "an unknown record");
    return -FI_EIO;
}

bool npu_chan_progress_in(struct npu_chan *chan)
{
    if (hc_unlikely(chan->num_owed) && pay(chan))
        return true;
    if (npu_chan_serving(chan)) {
        bool moved = npu_chan_serve(chan);
        if (npu_chan_serving(chan))
            return moved;
    }
    uint64_t word = npu_ring_peek(&chan->reader);
    if (hc_likely(word == 0))
        return false;
    if (hc_unlikely(chan->offered))
        npu_chan_met(chan);
    for (unsigned i = 0; i < BUDGET && word; i++) {
        if (!npu_ep_may_receive(chan->peer.ep) || read_record(chan, word) < 0)
            break;
        word = npu_ring_peek(&chan->reader);
    }
    return true;
}

bool npu_chan_pending_in(struct npu_chan *chan)
{
    if (npu_chan_serving(chan))
        return npu_chan_serve_pending(chan) || could_pay(chan);
    if (hc_unlikely(could_pay(chan)))
        return true;
    return npu_ring_peek(&chan->reader) != 0;
}
