/* The sending side of a channel. */
#include "transports/npu/chan.h"

#include <string.h>

enum state {
    QUEUED = NPU_TX_QUEUED,
    ANNOUNCED = NPU_TX_ANNOUNCED,
    SHARING = NPU_TX_SHARING,
    WAITING_ACK,
    STREAMING,
};

enum { STAY_LINES = NPU_PACK_MIN / NPU_LINE }; /* longer records do not stay (ring.h) */

/* ---- Eager messages ---- */

static bool has_credit(struct npu_chan *chan, size_t cost)
{
    if (hc_likely(chan->charged + cost - chan->released <= NPU_WINDOW))
        return true;
    uint64_t released = atomic_load_explicit(&chan->memory->head.released, memory_order_relaxed);
    if (released > chan->charged)
        return false; /* no honest receiver */
    chan->released = released;
    return chan->charged + cost - released <= NPU_WINDOW;
}

static unsigned record_flags(uint64_t flags)
{
    unsigned out = 0;
    if (flags & FI_TAGGED)
        out |= NPU_RECORD_TAGGED;
    if (flags & FI_REMOTE_CQ_DATA)
        out |= NPU_RECORD_DATA;
    return out;
}

/* A record for a message whose payload of `len` follows; NULL: no room in the ring or the window. */
static inline struct npu_record *begin_eager(struct npu_chan *chan, size_t len, uint32_t *lines)
{
    *lines = npu_eager_lines(len);
    if (!has_credit(chan, (size_t)*lines * NPU_LINE))
        return NULL;
    return npu_ring_reserve(&chan->writer, *lines);
}

static inline void end_eager(struct npu_chan *chan, struct npu_record *record, uint32_t lines, uint64_t word)
{
    chan->charged += (size_t)lines * NPU_LINE;
    if (hc_likely(lines < STAY_LINES))
        npu_ring_publish_staying(&chan->writer, record, lines, word);
    else
        npu_ring_publish(&chan->writer, record, lines, word);
    npu_chan_kick(chan);
}

static void pack_by(enum npu_pack pack, const struct npu_send *send, unsigned char *payload)
{
    const void *from = send->iov[0].iov_base;
    hc_copy_bypass = pack == NPU_PACK_PAST;
    if (send->iov_count != 1)
        npu_iov_gather(send->iov, send->iov_count, payload);
    else if (pack == NPU_PACK_PIECES)
        hc_copy_through(payload, from, send->len);
    else
        hc_copy_long(payload, from, send->len);
    hc_copy_bypass = false;
}

/* Copy a long payload into the ring. Returns the flag of a copy that the receiver is asked about, with
 * record->id, or 0. */
static unsigned pack_long(struct npu_chan *chan, const struct npu_send *send, struct npu_record *record)
{
    bool timed;
    /* relaxed: nothing else is told by it */
    npu_pack_learn(&chan->packer, atomic_load_explicit(&chan->memory->head.unpacked, memory_order_relaxed));
    enum npu_pack pack = npu_pack_pick(&chan->packer, send->len, &timed);
    uint64_t began = timed ? npu_cycles() : 0;
    pack_by(pack, send, npu_eager_payload(record, send->len));
    if (hc_likely(!timed))
        return 0;
    record->id = npu_pack_made(&chan->packer, send->len, pack, npu_cycles() - began);
    return NPU_RECORD_TIMED;
}

/* As pack_long(). */
static inline unsigned pack(struct npu_chan *chan, const struct npu_send *send, struct npu_record *record)
{
    if (send->len >= NPU_PACK_MIN)
        return pack_long(chan, send, record);
    unsigned char *payload = npu_eager_payload(record, send->len);
    if (hc_likely(send->iov_count == 1))
        hc_copy(payload, send->iov[0].iov_base, send->len);
    else
        npu_iov_gather(send->iov, send->iov_count, payload);
    return 0;
}

/* Send at once, straight from the caller's memory. */
static inline bool send_now(struct npu_chan *chan, const struct npu_send *send)
{
    uint32_t lines;
    struct npu_record *record = begin_eager(chan, send->len, &lines);
    if (hc_unlikely(!record))
        return false;
    record->tag = send->tag;
    record->data = send->data;
    record->id = 0;
    unsigned flags = record_flags(send->flags) | pack(chan, send, record);
    end_eager(chan, record, lines, npu_record_word(NPU_RECORD_EAGER, flags, (uint32_t)send->len));
    return true;
}

/* ---- Streams ---- */

static struct npu_stream *stream_of(const struct npu_tx *tx)
{
    return &npu_chan_of(tx->peer)->memory->head.streams[tx->stream];
}

/* How far the receiver has read; acquire: partner is its release; what it has read may be overwritten. */
static uint64_t consumed_of(const struct npu_tx *tx)
{
    uint64_t consumed = atomic_load_explicit(&stream_of(tx)->consumed, memory_order_acquire);
    return consumed < tx->base ? tx->base : consumed; /* the message before ended earlier */
}

/* Copy what fits into the stream. tx->at counts from the message's start, tx->base the stream's bytes before
 * it. */
static bool fill(struct npu_chan *chan, struct npu_tx *tx, uint64_t consumed)
{
    struct npu_stream *stream = stream_of(tx);
    unsigned char *bytes = chan->memory->streams[tx->stream];
    size_t piece = npu_piece(tx->end);
    bool moved = false;
    while (tx->at < tx->end) {
        uint64_t pos = tx->base + tx->at;
        size_t room = NPU_STREAM_BYTES - (size_t)(pos - consumed);
        size_t offset = pos % NPU_STREAM_BYTES;
        size_t n = tx->end - tx->at < piece ? tx->end - tx->at : piece;
        n = n < NPU_STREAM_BYTES - offset ? n : NPU_STREAM_BYTES - offset;
        if (room < n) {
            uint64_t now = consumed_of(tx);
            if (now == consumed || now > pos)
                break;
            consumed = now;
            continue;
        }
        hc_copy_bypass = npu_past_begin(&chan->past);
        if (npu_buf_read(&tx->buf, tx->at, bytes + offset, n) < 0)
            tx->failed = true; /* what the receiver gets is wrong, but it gets it; this side tells */
        hc_copy_bypass = false;
        npu_past_end(&chan->past, n);
        tx->at += n;
        /* release: partner is the acquire in npu_chan_read_stream */
        atomic_store_explicit(&stream->written, pos + n, memory_order_release);
        npu_chan_kick(chan);
        moved = true;
    }
    return moved;
}

static void finish(struct npu_tx *tx)
{
    npu_tx_finish(tx, tx->failed ? FI_EIO : 0);
}

/* Move an operation in a stream; true: something happened (the operation may be gone). */
static bool stream_step(struct npu_chan *chan, struct npu_tx *tx)
{
    if (tx->state == SHARING)
        return npu_chan_help(chan, tx);
    struct npu_stream *stream = stream_of(tx);
    uint64_t consumed = consumed_of(tx);
    uint64_t last = tx->base + tx->end;
    /* The receiver may have given the stream to a later message already. */
    if (hc_unlikely(consumed > chan->stream_pos[tx->stream] ||
                    (tx->at < tx->end && consumed + NPU_STREAM_BYTES < tx->base + tx->at))) {
        npu_chan_fail(chan, "a stream ran past its end");
        return true;
    }
    bool moved = false;
    if (tx->at < tx->end && consumed > tx->base + tx->at) {
        /* The receiver wants no more. */
        tx->at = tx->end;
        atomic_store_explicit(&stream->written, last, memory_order_release);
    } else {
        moved = fill(chan, tx, consumed);
    }
    if (tx->at < tx->end)
        return moved;
    if ((tx->flags & FI_DELIVERY_COMPLETE) && consumed_of(tx) < last)
        return moved;
    finish(tx);
    return true;
}

static void start_stream(struct npu_chan *chan, struct npu_tx *tx, int stream, bool fresh, uint64_t len)
{
    tx->state = STREAMING;
    tx->stream = stream;
    tx->base = npu_stream_next(chan, stream, fresh);
    tx->at = 0;
    tx->end = len;
    npu_stream_give(chan, stream, fresh, len);
    hc_list_append(&chan->sending, &tx->node);
    npu_chan_prepare(chan, stream, tx->base, len);
    (void)stream_step(chan, tx);
}

/* A free stream of the sender's, -1: none. */
static int early_stream(struct npu_chan *chan)
{
    for (int i = 0; i < NPU_EARLY; i++)
        if (atomic_load_explicit(&chan->memory->head.streams[i].consumed, memory_order_acquire) ==
            chan->stream_pos[i])
            return i;
    return -1;
}

/* ---- Operations ---- */

static bool start_eager(struct npu_chan *chan, struct npu_tx *tx)
{
    uint32_t lines;
    bool ack = tx->flags & FI_DELIVERY_COMPLETE;
    struct npu_record *record = begin_eager(chan, tx->buf.len, &lines);
    if (!record)
        return false;
    record->tag = tx->tag;
    record->data = tx->data;
    record->id = ack ? npu_tx_id(tx) : 0;
    if (npu_buf_read(&tx->buf, 0, npu_eager_payload(record, tx->buf.len), tx->buf.len) < 0)
        tx->failed = true;
    end_eager(chan, record, lines,
              npu_record_word(NPU_RECORD_EAGER, record_flags(tx->flags) | (ack ? NPU_RECORD_ACK : 0),
                              (uint32_t)tx->buf.len));
    if (ack) {
        tx->state = WAITING_ACK;
        chan->awaiting++;
    } else {
        finish(tx);
    }
    return true;
}

/* What an announcement tells of the message beside its length. */
struct offer {
    unsigned flag; /* NPU_RECORD_IPC, NPU_RECORD_DIRECT, or 0 */
    size_t size;
    union {
        struct npu_ipc_range range;
        struct npu_rma_local pieces[NPU_IOV_LIMIT];
    };
};

static bool goes_direct(struct npu_chan *chan, const struct npu_tx *tx)
{
    /* relaxed: nothing else is told by it */
    uint32_t ways = atomic_load_explicit(&chan->memory->head.ways, memory_order_relaxed);
    return (ways & NPU_WAYS_OFFERED) && !tx->buf.device && npu_way_pick(&chan->picker, tx->buf.len, ways);
}

static void make_offer(struct npu_chan *chan, const struct npu_tx *tx, struct offer *offer)
{
    int32_t pid = atomic_load_explicit(&chan->memory->head.receiver_pid, memory_order_relaxed);
    offer->flag = 0;
    offer->size = 0;
    if (tx->buf.len <= NPU_EAGER_MAX)
        return;
    if (tx->buf.device && npu_dma_export(&tx->buf, pid, &offer->range)) {
        offer->flag = NPU_RECORD_IPC;
        offer->size = sizeof(offer->range);
    } else if (goes_direct(chan, tx)) {
        offer->flag = NPU_RECORD_DIRECT;
        offer->size = tx->buf.count * sizeof(offer->pieces[0]);
        for (unsigned i = 0; i < tx->buf.count; i++)
            offer->pieces[i] = (struct npu_rma_local){.addr = (uintptr_t)tx->buf.iov[i].iov_base,
                                                      .len = tx->buf.iov[i].iov_len};
    }
}

static bool start_rts(struct npu_chan *chan, struct npu_tx *tx)
{
    struct offer offer;
    make_offer(chan, tx, &offer);
    size_t size = sizeof(struct npu_rts) + offer.size;
    struct npu_record *record = npu_ring_reserve(&chan->writer, npu_record_lines(size));
    if (!record)
        return false;
    int stream = tx->buf.len > NPU_EAGER_MAX && !offer.flag ? early_stream(chan) : -1;
    struct npu_rts rts = {.len = tx->buf.len, .stream = stream < 0 ? 0 : (uint32_t)stream};
    rts.pieces = offer.flag == NPU_RECORD_DIRECT ? tx->buf.count : 0;
    record->tag = tx->tag;
    record->data = tx->data;
    record->id = npu_tx_id(tx);
    memcpy(record->payload, &rts, sizeof(rts));
    if (offer.flag)
        memcpy(record->payload + sizeof(rts), &offer.range, offer.size);
    bool fresh = stream >= 0 && npu_stream_is_fresh(chan, stream);
    unsigned flags = record_flags(tx->flags) | (stream >= 0 ? NPU_RECORD_STREAM : 0) |
                     (fresh ? NPU_RECORD_FRESH : 0) | offer.flag;
    npu_ring_publish(&chan->writer, record, npu_record_lines(size),
                     npu_record_word(NPU_RECORD_RTS, flags, (uint32_t)size));
    npu_chan_kick(chan);
    if (stream >= 0) {
        start_stream(chan, tx, stream, fresh, tx->buf.len);
    } else {
        tx->state = ANNOUNCED;
        chan->awaiting++;
    }
    return true;
}

/* Let an operation begin; false: no room yet. */
static bool start(struct npu_chan *chan, struct npu_tx *tx)
{
    hc_list_remove(&tx->node);
    if (npu_chan_fenced(chan, tx->flags))
        return false;
    if (tx->flags & (FI_RMA | FI_ATOMIC))
        return npu_chan_start_rma(chan, tx);
    bool is_short = tx->buf.len <= NPU_EAGER_MAX;
    if (is_short && start_eager(chan, tx))
        return true;
    /* A short message is announced only when the window is used up; else it waits for the ring. */
    if (is_short && has_credit(chan, (size_t)npu_eager_lines(tx->buf.len) * NPU_LINE))
        return false;
    return start_rts(chan, tx);
}

static HC_COLD int send_later(struct npu_chan *chan, const struct npu_send *send)
{
    struct npu_tx *tx;
    int rc = npu_tx_make(&chan->peer, send, &tx);
    if (rc < 0)
        return rc;
    tx->state = QUEUED;
    if (!hc_list_empty(&chan->queue) || !start(chan, tx))
        hc_list_append(&chan->queue, &tx->node);
    npu_chan_busy(chan);
    return 0;
}

int npu_chan_send(struct npu_peer *peer, const struct npu_send *send)
{
    struct npu_chan *chan = npu_chan_of(peer);
    if (hc_likely(send->len <= NPU_EAGER_MAX && !(send->flags & (FI_DELIVERY_COMPLETE | FI_FENCE)) &&
                  hc_list_empty(&chan->queue) && !npu_desc_on_device(send->desc, send->iov_count)) &&
        send_now(chan, send)) {
        npu_sent(peer->ep, send->flags, send->context);
        return 0;
    }
    return send_later(chan, send);
}

bool npu_chan_cancel(struct npu_peer *peer, struct npu_tx *tx)
{
    (void)peer;
    if (tx->state != QUEUED)
        return false;
    hc_list_remove(&tx->node);
    return true;
}

/* ---- Answers ---- */

/* The receiver wants so much of a message through a stream, or is done with it. */
static bool on_cts(struct npu_chan *chan, struct npu_tx *tx, uint64_t wanted, uint64_t stream)
{
    if ((tx->state != ANNOUNCED && tx->state != SHARING) || wanted > tx->buf.len ||
        (wanted && (stream < NPU_EARLY || stream >= NPU_STREAMS)))
        return false;
    chan->awaiting--;
    hc_list_remove(&tx->node);
    if (wanted)
        start_stream(chan, tx, (int)stream, true, wanted);
    else
        finish(tx);
    return true;
}

static bool on_fail(struct npu_chan *chan, struct npu_tx *tx, uint64_t err)
{
    if ((tx->state != ANNOUNCED && tx->state != SHARING) || !err || err > INT32_MAX)
        return false;
    chan->awaiting--;
    npu_tx_finish(tx, (int)err);
    return true;
}

static bool on_ack(struct npu_chan *chan, struct npu_tx *tx)
{
    if (tx->state != WAITING_ACK)
        return false;
    chan->awaiting--;
    finish(tx);
    return true;
}

static bool on_reply(struct npu_chan *chan, struct npu_tx *tx, const struct npu_reply *reply)
{
    /* relaxed: a copy of our own */
    switch (atomic_load_explicit(&reply->word, memory_order_relaxed)) {
    case NPU_REPLY_ACK:
        return on_ack(chan, tx);
    case NPU_REPLY_CTS:
        return on_cts(chan, tx, reply->a, reply->b);
    case NPU_REPLY_SHARE:
        return npu_chan_on_share(chan, tx, reply);
    case NPU_REPLY_FAIL:
        return on_fail(chan, tx, reply->a);
    default:
        return npu_chan_rma_reply(chan, tx, reply);
    }
}

static bool read_reply(struct npu_chan *chan)
{
    struct npu_reply *at = &chan->memory->replies[chan->reply_pos & NPU_REPLY_MASK];
    /* acquire: partner is the release in put_reply */
    uint64_t kind = atomic_load_explicit(&at->word, memory_order_acquire);
    if (kind == 0)
        return false;
    struct npu_reply reply = {
        .word = kind, .id = at->id, .a = at->a, .b = at->b, .index = at->index, .generation = at->generation};
    struct npu_tx *tx = npu_tx_find(chan->peer.ep, &chan->peer, reply.id);
    chan->reply_pos++;
    /* release: partner is the acquire in put_reply, which may then write again */
    atomic_store_explicit(&at->word, 0, memory_order_release);
    if (chan->reply_pos % (NPU_REPLIES / 4) == 0)
        npu_chan_kick(chan); /* there may be more that found no room */
    if (!tx || !on_reply(chan, tx, &reply))
        npu_chan_fail(chan, "a wrong answer");
    return true;
}

/* ---- Progress ---- */

bool npu_chan_progress_out(struct npu_chan *chan)
{
    bool moved = false;
    struct hc_list *node, *next;
    while (chan->awaiting && !chan->peer.dead && read_reply(chan))
        moved = true;
    if (hc_unlikely(chan->forth) && !chan->peer.dead)
        moved |= npu_chan_rma_send(chan);
    hc_list_for_each_safe(node, next, &chan->sending)
    {
        if (chan->peer.dead)
            return true;
        moved |= stream_step(chan, hc_list_entry(node, struct npu_tx, node));
    }
    while (!chan->peer.dead && (node = hc_list_first(&chan->queue))) {
        if (!start(chan, hc_list_entry(node, struct npu_tx, node))) {
            hc_list_append(chan->queue.next, node); /* back to the front */
            break;
        }
        moved = true;
    }
    if (!chan->awaiting && hc_list_empty(&chan->sending) && hc_list_empty(&chan->queue))
        hc_list_remove(&chan->busy_node);
    return moved;
}

static bool stream_pending(const struct npu_tx *tx)
{
    if (tx->state == SHARING)
        return true;
    uint64_t consumed = consumed_of(tx);
    if (tx->at == tx->end)
        return consumed >= tx->base + tx->end;
    return tx->base + tx->at - consumed < NPU_STREAM_BYTES;
}

/* Whether the first operation that waits for room would find it. */
static bool could_start(struct npu_chan *chan)
{
    struct hc_list *node = hc_list_first(&chan->queue);
    if (!node)
        return false;
    const struct npu_tx *tx = hc_list_entry(node, struct npu_tx, node);
    if (npu_chan_fenced(chan, tx->flags))
        return false;
    if (tx->flags & (FI_RMA | FI_ATOMIC))
        return npu_ring_refresh(&chan->writer, npu_chan_rma_lines(tx));
    size_t len = tx->buf.len;
    return npu_ring_refresh(&chan->writer, len <= NPU_EAGER_MAX ? npu_eager_lines(len) : 1);
}

bool npu_chan_pending_out(struct npu_chan *chan)
{
    struct hc_list *node;
    const struct npu_reply *reply = &chan->memory->replies[chan->reply_pos & NPU_REPLY_MASK];
    if (chan->awaiting && atomic_load_explicit(&reply->word, memory_order_acquire))
        return true;
    hc_list_for_each(
        node, &chan->sending) if (stream_pending(hc_list_entry(node, struct npu_tx, node))) return true;
    return npu_chan_rma_send_pending(chan) || could_start(chan);
}

void npu_chan_abort(struct npu_chan *chan, int err)
{
    struct npu_ep *ep = chan->peer.ep;
    for (size_t i = 0; i < ep->tx_size; i++)
        if (ep->tx_pool[i].peer == &chan->peer)
            npu_tx_finish(&ep->tx_pool[i], err);
    chan->awaiting = 0;
    chan->forth = NULL;
}
