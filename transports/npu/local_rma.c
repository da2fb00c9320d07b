/*
 * RMA and atomics over a channel. The initiator's requests travel in the ring among its messages; the target
 * serves them in that order, one at a time, before it reads what follows. So all orders between them hold.
 *
 * Bytes move in one of these ways, which the target chooses:
 * - Short writes and operands come with the request. Short answers go back through the `back` stream.
 * - Long transfers between host memories are copied across processes by the target (process_vm_readv(2),
 *   process_vm_writev(2)), where that is allowed.
 * - Long transfers between memories of devices are copied by an engine of the target's device (dma.c).
 * - Else a write asks the initiator (CTS) to send through the `forth` stream, and a read's bytes come in
 *   pieces through the `back` stream.
 * Every request is answered (DONE) with its error, or 0.
 */
#include "transports/npu/chan.h"
#include "transports/npu/rma.h"

#include <stdlib.h>
#include <string.h>

enum {
    DIRECT_PIECE = 1 << 20, /* copied per progress call */
    RESULT_MAX = NPU_RMA_INLINE_MAX,
};

/* ---- Streams of bytes, one each way ---- */

/* Room for writing at `pos`; at most what lies before the buffer's end. false: the reader is not honest. */
static bool stream_room(struct npu_stream *stream, uint64_t pos, size_t *room)
{
    /* acquire: partner is the release of the reader; what it has read may be overwritten */
    uint64_t consumed = atomic_load_explicit(&stream->consumed, memory_order_acquire);
    if (pos - consumed > NPU_STREAM_BYTES)
        return false;
    *room = NPU_STREAM_BYTES - (size_t)(pos - consumed);
    return true;
}

static size_t till_end(uint64_t pos)
{
    return NPU_STREAM_BYTES - pos % NPU_STREAM_BYTES;
}

static size_t smaller(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

/* ---- The initiator ---- */

static void set_record(struct npu_record *record, const struct npu_tx *tx)
{
    record->tag = 0;
    record->data = tx->data;
    record->id = npu_tx_id(tx);
}

static void publish(struct npu_chan *chan, struct npu_record *record, struct npu_tx *tx, size_t size)
{
    unsigned flags = tx->flags & FI_REMOTE_CQ_DATA ? NPU_RECORD_DATA : 0;
    npu_ring_publish(&chan->writer, record, npu_record_lines(size),
                     npu_record_word(NPU_RECORD_RMA, flags, (uint32_t)size));
    npu_chan_kick(chan);
    tx->state = NPU_TX_RMA;
    chan->awaiting++;
}

/* Keep the request until there is room for it. tx->base: its bytes. */
static int queue(struct npu_chan *chan, struct npu_tx *tx, const struct npu_rma *op, size_t size)
{
    tx->bounce = malloc(size);
    int rc = tx->bounce ? npu_rma_build(op, tx->bounce) : -FI_ENOMEM;
    if (rc < 0)
        return rc;
    tx->base = size;
    tx->state = NPU_TX_QUEUED;
    hc_list_append(&chan->queue, &tx->node);
    return 0;
}

/* Tell the target of a long buffer on a device, so that the engines can copy. */
static bool tell_ipc(struct npu_chan *chan, const struct npu_rma *op, struct npu_ipc_range *range)
{
    struct npu_buf buf;
    int32_t pid = atomic_load_explicit(&chan->memory->head.receiver_pid, memory_order_relaxed);
    if (op->op > NPU_RMA_READ || op->len <= NPU_RMA_INLINE_MAX ||
        !npu_desc_on_device(op->desc, op->iov_count))
        return false;
    return npu_buf_init(&buf, op->iov, op->desc, op->iov_count) == 0 && npu_dma_export(&buf, pid, range);
}

int npu_chan_rma(struct npu_peer *peer, const struct npu_rma *described)
{
    struct npu_chan *chan = npu_chan_of(peer);
    struct npu_ipc_range range;
    struct npu_rma copy, *op = &copy;
    copy = *described;
    if (hc_unlikely(tell_ipc(chan, op, &range)))
        copy.ipc = &range;
    struct npu_tx *tx;
    struct npu_record *record = NULL;
    size_t size = npu_rma_size(op);
    int rc = npu_rma_make(peer, op, &tx);
    if (rc < 0)
        return rc;
    if (hc_list_empty(&chan->queue) && !npu_chan_fenced(chan, op->flags))
        record = npu_ring_reserve(&chan->writer, npu_record_lines(size));
    if (record)
        rc = npu_rma_build(op, record->payload);
    else
        rc = queue(chan, tx, op, size);
    if (rc < 0) {
        npu_tx_put(tx);
        return rc;
    }
    if (record) {
        set_record(record, tx);
        publish(chan, record, tx, size);
    }
    npu_chan_busy(chan);
    return 0;
}

uint32_t npu_chan_rma_lines(const struct npu_tx *tx)
{
    return npu_record_lines(tx->base);
}

bool npu_chan_start_rma(struct npu_chan *chan, struct npu_tx *tx)
{
    struct npu_record *record = npu_ring_reserve(&chan->writer, npu_chan_rma_lines(tx));
    if (!record)
        return false;
    memcpy(record->payload, tx->bounce, tx->base);
    set_record(record, tx);
    publish(chan, record, tx, tx->base);
    return true;
}

static void finish(struct npu_chan *chan, struct npu_tx *tx, int err)
{
    chan->awaiting--;
    npu_tx_finish(tx, err ? err : (tx->failed ? FI_EIO : 0));
}

/* Take n bytes of an answer. False: more than was asked for, or than there is. */
static bool take_answer(struct npu_chan *chan, struct npu_tx *tx, uint64_t n)
{
    struct npu_stream *back = &chan->memory->head.back;
    /* acquire: partner is the release in give_answer */
    uint64_t ready = atomic_load_explicit(&back->written, memory_order_acquire) - chan->back_pos;
    if (n > tx->end - tx->at || n > ready || n > NPU_STREAM_BYTES)
        return false;
    while (n) {
        size_t part = smaller(n, till_end(chan->back_pos));
        const unsigned char *from = chan->memory->back + chan->back_pos % NPU_STREAM_BYTES;
        if (npu_buf_write(&tx->buf, tx->at, from, part) < 0)
            tx->failed = true;
        tx->at += part;
        chan->back_pos += part;
        n -= part;
    }
    /* release: partner is the acquire in stream_room */
    atomic_store_explicit(&back->consumed, chan->back_pos, memory_order_release);
    npu_chan_kick(chan);
    return true;
}

/* The target wants the bytes of a write. */
static bool start_forth(struct npu_chan *chan, struct npu_tx *tx)
{
    if (tx->state != NPU_TX_RMA || chan->forth || !(tx->flags & FI_WRITE) || (tx->flags & FI_ATOMIC))
        return false;
    tx->state = NPU_TX_RMA_STREAM;
    tx->base = chan->forth_pos;
    tx->at = 0;
    chan->forth_pos += tx->buf.len;
    chan->forth = tx;
    return true;
}

static bool on_done(struct npu_chan *chan, struct npu_tx *tx, uint64_t err, uint64_t n)
{
    if (tx->state != NPU_TX_RMA && tx->state != NPU_TX_RMA_STREAM)
        return false;
    if (chan->forth == tx) {
        /* The target wants no more. */
        atomic_store_explicit(&chan->memory->head.forth.written, chan->forth_pos, memory_order_release);
        chan->forth = NULL;
    }
    if (err > INT32_MAX || !take_answer(chan, tx, n))
        return false;
    /* Either the target wrote all of it directly, or all of it came back. */
    if (!err && tx->at && tx->end && tx->at != tx->end)
        return false;
    finish(chan, tx, (int)err);
    return true;
}

bool npu_chan_rma_reply(struct npu_chan *chan, struct npu_tx *tx, const struct npu_reply *reply)
{
    /* relaxed: a copy of our own */
    switch (atomic_load_explicit(&reply->word, memory_order_relaxed)) {
    case NPU_REPLY_RMA_DONE:
        return on_done(chan, tx, reply->a, reply->b);
    case NPU_REPLY_RMA_PIECE:
        return tx->state == NPU_TX_RMA && take_answer(chan, tx, reply->b);
    case NPU_REPLY_RMA_CTS:
        return start_forth(chan, tx);
    default:
        return false;
    }
}

bool npu_chan_rma_send(struct npu_chan *chan)
{
    struct npu_tx *tx = chan->forth;
    struct npu_stream *stream = &chan->memory->head.forth;
    bool moved = false;
    size_t room;
    while (tx && tx->at < tx->buf.len) {
        uint64_t pos = tx->base + tx->at;
        if (!stream_room(stream, pos, &room))
            return moved; /* the target jumped to the end: its answer is on the way */
        size_t n = smaller(tx->buf.len - tx->at, NPU_PIECE);
        n = smaller(n, till_end(pos));
        if (room < n)
            break;
        if (npu_buf_read(&tx->buf, tx->at, chan->memory->forth + pos % NPU_STREAM_BYTES, n) < 0)
            tx->failed = true; /* what the target gets is wrong, but it gets it; this side tells */
        tx->at += n;
        /* release: partner is the acquire in receive_forth */
        atomic_store_explicit(&stream->written, pos + n, memory_order_release);
        npu_chan_kick(chan);
        moved = true;
    }
    return moved;
}

bool npu_chan_rma_send_pending(struct npu_chan *chan)
{
    const struct npu_tx *tx = chan->forth;
    size_t room;
    return tx && tx->at < tx->buf.len && stream_room(&chan->memory->head.forth, tx->base + tx->at, &room) &&
           room >= NPU_PIECE;
}

/* ---- The target: answers ---- */

static void answer(struct npu_chan *chan, enum npu_reply_kind kind, uint64_t a, uint64_t b)
{
    npu_chan_reply(chan, kind, chan->serve->id, a, b);
}

/* The end of a request; n: bytes in the back stream that belong to it. */
static void done(struct npu_chan *chan, int err, uint64_t n)
{
    struct npu_serve *serve = chan->serve;
    if (!err)
        npu_rma_served(chan->peer.ep, &serve->request, serve->has_data ? &serve->data : NULL);
    answer(chan, NPU_REPLY_RMA_DONE, (uint64_t)err, n);
    serve->how = NPU_SERVE_NONE;
}

/* ---- The target: copies across processes ---- */

static ssize_t copy_across(struct npu_chan *chan, const struct npu_buf *buf, uint64_t offset, size_t n)
{
    const struct npu_serve *serve = chan->serve;
    struct iovec there[NPU_IOV_LIMIT];
    unsigned locals = serve->request.head.locals;
    for (unsigned i = 0; i < locals; i++)
        there[i] =
            (struct iovec){(void *)(uintptr_t)serve->request.locals[i].addr, serve->request.locals[i].len};
    return npu_chan_copy(chan, buf, offset, there, locals, serve->at, n, npu_rma_is_read(&serve->request));
}

/* Copy a piece. False: the request has ended. */
static bool step_direct(struct npu_chan *chan)
{
    struct npu_serve *serve = chan->serve;
    struct npu_target target;
    uint64_t offset;
    const struct npu_rma_target *range = npu_rma_at(&serve->request, serve->at, &offset);
    size_t n = smaller(range->len - offset, DIRECT_PIECE);
    int err = npu_target_hold(chan->peer.ep, range,
                              npu_rma_is_read(&serve->request) ? FI_REMOTE_READ : FI_REMOTE_WRITE, &target);
    if (!err) {
        ssize_t got = copy_across(chan, &target.buf, offset, n);
        npu_target_drop(&target);
        err = got > 0 ? 0 : (int)-got;
        serve->at += got > 0 ? (uint64_t)got : 0;
    }
    if (err || serve->at == serve->request.head.len) {
        done(chan, err, 0);
        return false;
    }
    return true;
}

/* ---- The target: copies by devices ---- */

/* Both buffers are on devices, in one piece each. */
static bool start_dma(struct npu_chan *chan)
{
    struct npu_serve *serve = chan->serve;
    struct npu_target target;
    bool read = npu_rma_is_read(&serve->request);
    if (!(serve->request.head.flags & NPU_RMA_IPC) || serve->request.head.targets != 1)
        return false;
    if (npu_target_hold(chan->peer.ep, &serve->request.targets[0], read ? FI_REMOTE_READ : FI_REMOTE_WRITE,
                        &target))
        return false;
    if (target.buf.device && target.buf.count == 1)
        serve->dma = npu_dma_start(target.mr, target.buf.iov[0].iov_base, &serve->request.ipc,
                                   serve->request.head.len, read);
    npu_target_drop(&target);
    return serve->dma;
}

static bool step_dma(struct npu_chan *chan, bool *moved)
{
    int rc = npu_dma_poll(chan->serve->dma);
    if (rc == -FI_EAGAIN)
        return true;
    chan->serve->dma = NULL;
    *moved = true;
    done(chan, -rc, 0);
    return false;
}

void npu_chan_stop_serving(struct npu_chan *chan)
{
    struct npu_serve *serve = chan->serve;
    if (!serve)
        return;
    if (serve->dma)
        npu_dma_abandon(serve->dma);
    serve->dma = NULL;
    serve->how = NPU_SERVE_NONE;
}

/* ---- The target: streams ---- */

/* Put up to n bytes of a read, or a result, into the back stream. Returns how many. */
static size_t put_back(struct npu_chan *chan, const unsigned char *result, size_t n, int *err)
{
    struct npu_serve *serve = chan->serve;
    struct npu_stream *back = &chan->memory->head.back;
    size_t room = 0, put = 0;
    if (!stream_room(back, chan->back_pos, &room))
        npu_chan_fail(chan, "a stream ran past its end");
    n = smaller(n, room);
    while (put < n && !*err) {
        unsigned char *to = chan->memory->back + chan->back_pos % NPU_STREAM_BYTES;
        size_t part = smaller(n - put, till_end(chan->back_pos));
        if (result)
            memcpy(to, result + put, part);
        else
            *err = npu_rma_copy_out(chan->peer.ep, &serve->request, serve->at, to, part);
        serve->at += part;
        chan->back_pos += part;
        put += part;
    }
    /* release: partner is the acquire in take_answer */
    atomic_store_explicit(&back->written, chan->back_pos, memory_order_release);
    return put;
}

/* Send pieces of a read while there is room. False: the request has ended. */
static bool step_back(struct npu_chan *chan, bool *moved)
{
    struct npu_serve *serve = chan->serve;
    uint64_t len = serve->request.head.len;
    while (!chan->peer.dead) {
        size_t room = 0;
        int err = 0;
        size_t n = smaller(len - serve->at, NPU_PIECE);
        if (!stream_room(&chan->memory->head.back, chan->back_pos, &room) || room < n)
            return true;
        n = put_back(chan, NULL, n, &err);
        *moved = true;
        if (err || serve->at == len) {
            done(chan, err, err ? 0 : n);
            return false;
        }
        answer(chan, NPU_REPLY_RMA_PIECE, 0, n);
    }
    return true;
}

/* The end of a write through the stream, maybe before its time. */
static void end_forth(struct npu_chan *chan, int err)
{
    struct npu_serve *serve = chan->serve;
    /* release: partner is the acquire in stream_room */
    atomic_store_explicit(&chan->memory->head.forth.consumed, serve->base + serve->request.head.len,
                          memory_order_release);
    done(chan, err, 0);
}

/* Take what has come of a write. False: the request has ended. */
static bool step_forth(struct npu_chan *chan, bool *moved)
{
    struct npu_serve *serve = chan->serve;
    struct npu_stream *stream = &chan->memory->head.forth;
    uint64_t len = serve->request.head.len;
    while (serve->at < len) {
        uint64_t pos = serve->base + serve->at;
        /* acquire: partner is the release in npu_chan_rma_send */
        int64_t ready = (int64_t)(atomic_load_explicit(&stream->written, memory_order_acquire) - pos);
        if (ready <= 0)
            return true; /* a write that was cut short is behind for a moment */
        size_t n = smaller(smaller((uint64_t)ready, len - serve->at), till_end(pos));
        int err = npu_rma_copy_in(chan->peer.ep, &serve->request, serve->at,
                                  chan->memory->forth + pos % NPU_STREAM_BYTES, n);
        serve->at += n;
        *moved = true;
        if (err) {
            end_forth(chan, err);
            return false;
        }
        atomic_store_explicit(&stream->consumed, pos + n, memory_order_release);
        npu_chan_kick(chan);
    }
    end_forth(chan, 0);
    return false;
}

bool npu_chan_serve(struct npu_chan *chan)
{
    bool moved = true, going = true;
    struct npu_serve *serve = chan->serve;
    if (serve->how == NPU_SERVE_DIRECT) {
        going = step_direct(chan);
    } else if (serve->how == NPU_SERVE_DMA) {
        moved = false;
        going = step_dma(chan, &moved);
    } else {
        moved = false;
        going = npu_rma_is_read(&serve->request) ? step_back(chan, &moved) : step_forth(chan, &moved);
    }
    if (going && !moved && (chan->closing || chan->peer.dead))
        npu_chan_stop_serving(chan); /* nobody waits for the rest */
    return moved;
}

bool npu_chan_serve_pending(struct npu_chan *chan)
{
    const struct npu_serve *serve = chan->serve;
    size_t room = 0;
    if (serve->how != NPU_SERVE_STREAM || chan->closing || chan->peer.dead)
        return true;
    if (npu_rma_is_read(&serve->request))
        return stream_room(&chan->memory->head.back, chan->back_pos, &room) && room >= NPU_PIECE;
    uint64_t written = atomic_load_explicit(&chan->memory->head.forth.written, memory_order_acquire);
    return (int64_t)(written - (serve->base + serve->at)) > 0;
}

/* ---- The target: requests ---- */

static bool on_devices(struct npu_chan *chan, const struct npu_rma_request *request)
{
    for (unsigned i = 0; i < request->head.targets; i++) {
        struct npu_mr *mr = npu_mr_hold(chan->peer.ep->domain, request->targets[i].key);
        bool device = mr && mr->device >= 0;
        if (mr)
            npu_mr_drop(mr);
        if (device)
            return true;
    }
    return false;
}

static void serve_atomic(struct npu_chan *chan)
{
    struct npu_serve *serve = chan->serve;
    unsigned char result[NPU_ATOMIC_MAX];
    bool returns = npu_rma_returns(&serve->request);
    size_t n = 0;
    int err = npu_rma_compute(chan->peer.ep, &serve->request, returns ? result : NULL);
    if (!err && returns)
        n = put_back(chan, result, serve->request.head.len, &err);
    done(chan, err, n);
}

/* The request has passed the checks. */
static void begin(struct npu_chan *chan)
{
    struct npu_serve *serve = chan->serve;
    struct npu_rma_request *request = &serve->request;
    bool moved;
    if (npu_rma_is_atomic(request)) {
        serve_atomic(chan);
    } else if (request->head.flags & NPU_RMA_INLINE) {
        done(chan, npu_rma_copy_in(chan->peer.ep, request, 0, request->operands, request->head.len), 0);
    } else if (request->head.locals && !on_devices(chan, request) && npu_chan_may_copy(chan)) {
        serve->how = NPU_SERVE_DIRECT;
        (void)step_direct(chan);
    } else if (start_dma(chan)) {
        serve->how = NPU_SERVE_DMA;
    } else if (npu_rma_is_read(request)) {
        serve->how = NPU_SERVE_STREAM;
        (void)step_back(chan, &moved);
    } else {
        serve->how = NPU_SERVE_STREAM;
        serve->base = chan->forth_pos;
        chan->forth_pos += request->head.len;
        answer(chan, NPU_REPLY_RMA_CTS, 0, 0);
    }
}

static int make_serve(struct npu_chan *chan)
{
    if (chan->serve)
        return 0;
    chan->serve = calloc(1, sizeof(*chan->serve));
    return chan->serve ? 0 : -FI_ENOMEM;
}

int npu_chan_on_rma(struct npu_chan *chan, const struct npu_record *record, uint64_t word)
{
    size_t len = npu_record_len(word), room = 0;
    int rc = make_serve(chan);
    if (rc < 0)
        return rc;
    struct npu_serve *serve = chan->serve;
    if (len > NPU_RMA_RECORD_MAX || !npu_ring_fits(&chan->reader, npu_record_lines(len)) ||
        !npu_rma_parse(record->payload, len, &serve->request)) {
        npu_chan_fail(chan, "a malformed request");
        return -FI_EIO;
    }
    /* A short answer goes in one piece. */
    if (npu_rma_returns(&serve->request) &&
        (!stream_room(&chan->memory->head.back, chan->back_pos, &room) || room < RESULT_MAX))
        return -FI_EAGAIN;
    serve->id = record->id;
    serve->data = record->data;
    serve->has_data = npu_record_flags(word) & NPU_RECORD_DATA;
    serve->at = 0;
    int err = npu_rma_check(chan->peer.ep, &serve->request);
    if (err)
        done(chan, err, 0);
    else
        begin(chan);
    return 0;
}
