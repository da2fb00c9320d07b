/*
 * Long messages between host memories, copied straight from the sender's buffer to the receiver's. The
 * announcement tells where the buffer is. The receiver copies; when the message is long enough to be worth
 * it, it asks the sender to help: both claim parts (share.h) until nothing is left, the receiver reads and
 * the sender writes. The receiver then tells the sender that its buffer is free.
 *
 * Where the kernel refuses, the receiver asks for the message through a stream, as if nothing had been said.
 * A part that the sender could not write it gives back: the receiver reads that, too.
 */
#include "transports/npu/chan.h"

#include <stdlib.h>
#include <string.h>

enum {
    PART_MAX = 1 << 20,  /* the other side may have to wait for the end of one when it closes */
    PART_MIN = 32 << 10, /* of a shared message */
    NO_SHARE = UINT32_MAX,
};

static struct npu_chan *chan_of(const struct npu_rx *rx)
{
    return npu_chan_of(rx->arrival.peer);
}

/* ---- The receiver ---- */

static void let_go(struct npu_rx *rx)
{
    if (rx->share != NO_SHARE)
        (void)hc_share_close(&chan_of(rx)->shares, rx->share, rx->end);
    free(rx->held);
    rx->held = NULL;
    hc_list_remove(&rx->node);
}

static void end(struct npu_rx *rx, int err)
{
    struct npu_chan *chan = chan_of(rx);
    enum npu_way way = rx->share == NO_SHARE ? NPU_WAY_ALONE : NPU_WAY_SHARED;
    let_go(rx);
    if (err == FI_ECONNRESET)
        npu_chan_revoke(chan); /* the sender may be writing still */
    npu_chan_reply(chan, err ? NPU_REPLY_FAIL : NPU_REPLY_CTS, rx->arrival.id, (uint64_t)err, 0);
    if (!err)
        npu_chan_learn(chan, way, rx->end, rx->began);
    npu_rx_finish(chan->peer.ep, rx, err);
}

/* The kernel refuses: all of it through a stream. The sender must have ended what it had claimed. */
static bool start_over(struct npu_rx *rx)
{
    struct npu_chan *chan = chan_of(rx);
    if (rx->share != NO_SHARE) {
        struct npu_placed *placed = &chan->memory->placed[rx->share];
        /* acquire, both: partners are the releases in npu_chan_help */
        uint64_t failed = atomic_load_explicit(&placed->failed, memory_order_acquire);
        uint64_t bytes = atomic_load_explicit(&placed->bytes, memory_order_acquire);
        if (rx->at + failed + bytes < rx->end)
            return false;
    }
    let_go(rx);
    npu_chan_publish_ways(chan);
    npu_chan_request(chan, rx);
    return true;
}

/* Ask the sender to help, if that is the faster way. */
static void invite(struct npu_chan *chan, struct npu_rx *rx)
{
    if (chan->alone || rx->end > HC_SHARE_MAX || rx->buf.count != 1 ||
        !npu_way_share(&chan->costs, rx->end) || !hc_share_open(&chan->shares, &rx->share, &rx->generation)) {
        rx->share = NO_SHARE;
        return;
    }
    struct npu_placed *placed = &chan->memory->placed[rx->share];
    /* relaxed: the answer publishes them */
    atomic_store_explicit(&placed->bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&placed->failed, 0, memory_order_relaxed);
    struct npu_reply reply = {
        .word = NPU_REPLY_SHARE,
        .id = rx->arrival.id,
        .a = rx->end,
        .b = (uintptr_t)rx->buf.iov[0].iov_base,
        .index = rx->share,
        .generation = rx->generation,
    };
    npu_chan_answer(chan, &reply);
}

/* The next bytes that this side has to copy; false: none. rx->at counts what this side is done with. */
static bool next_part(struct npu_chan *chan, struct npu_rx *rx, size_t *from, size_t *len)
{
    if (rx->share != NO_SHARE)
        return hc_share_claim(&chan->memory->shares[rx->share], rx->generation, HC_SHARE_FRONT, rx->end,
                              PART_MIN, PART_MAX, from, len);
    *from = rx->at;
    *len = rx->end - rx->at < PART_MAX ? rx->end - rx->at : PART_MAX;
    return *len > 0;
}

/* 0 or a negative fabric errno. */
static int copy_part(struct npu_chan *chan, struct npu_rx *rx, size_t from, size_t len)
{
    while (len > 0) {
        ssize_t got =
            npu_chan_copy(chan, &rx->buf, from, rx->held->pieces, rx->held->count, from, len, false);
        if (got == -FI_EPERM)
            rx->at += len; /* refuse() has all of it copied again */
        if (got < 0)
            return (int)got;
        from += (size_t)got;
        len -= (size_t)got;
        rx->at += (uint64_t)got;
    }
    return 0;
}

/* The kernel refuses. Nothing more is claimed; what the sender has claimed already comes to its end. */
static bool refuse(struct npu_chan *chan, struct npu_rx *rx)
{
    size_t from, len;
    rx->refused = true;
    rx->began = 0;
    while (next_part(chan, rx, &from, &len))
        rx->at += len;
    return start_over(rx);
}

/* What the sender has placed, and could not: that is copied here. 0 or a negative fabric errno. */
static int look_at_placed(struct npu_chan *chan, struct npu_rx *rx, uint64_t *bytes)
{
    struct npu_placed *placed = &chan->memory->placed[rx->share];
    /* acquire, both: partners are the releases in npu_chan_help */
    uint64_t failed = atomic_load_explicit(&placed->failed, memory_order_acquire);
    if (hc_unlikely(failed)) {
        uint64_t at = placed->failed_at;
        if (at > rx->end || failed > rx->end - at)
            return -FI_EIO;
        atomic_store_explicit(&placed->failed, 0, memory_order_relaxed);
        chan->alone = true;
        int rc = copy_part(chan, rx, at, failed);
        if (rc < 0)
            return rc;
    }
    *bytes = atomic_load_explicit(&placed->bytes, memory_order_acquire);
    return 0;
}

/* This side has nothing left to copy. 0: all is there; -FI_EAGAIN: not yet. */
static int await_sender(struct npu_chan *chan, struct npu_rx *rx)
{
    uint64_t placed = 0;
    int rc = rx->share == NO_SHARE ? 0 : look_at_placed(chan, rx, &placed);
    if (rc < 0 || rx->at + placed == rx->end)
        return rc;
    return rx->at + placed > rx->end ? -FI_EIO : -FI_EAGAIN;
}

bool npu_chan_step_direct(struct npu_rx *rx)
{
    struct npu_chan *chan = chan_of(rx);
    size_t from, len;
    if (hc_unlikely(chan->peer.dead || chan->closing)) {
        end(rx, FI_ECONNRESET); /* its buffer may be used for other things by now */
        return true;
    }
    if (hc_unlikely(rx->refused))
        return start_over(rx);
    bool more = next_part(chan, rx, &from, &len);
    int rc = more ? copy_part(chan, rx, from, len) : 0;
    if (rc == 0)
        rc = await_sender(chan, rx);
    if (rc == -FI_EAGAIN)
        return more;
    if (hc_unlikely(rc == -FI_EPERM))
        return refuse(chan, rx);
    end(rx, -rc);
    return true;
}

bool npu_chan_begin_direct(struct npu_chan *chan, struct npu_rx *rx, struct npu_held *held)
{
    if (rx->buf.device || !npu_chan_may_copy(chan))
        return false;
    rx->stream = NPU_STREAM_DIRECT;
    rx->held = held;
    rx->refused = false;
    rx->at = 0;
    rx->end = npu_rx_wanted(rx);
    rx->began = chan->arriving ? npu_cycles() : 0;
    hc_list_append(&chan->local->reading, &rx->node);
    invite(chan, rx);
    (void)npu_chan_step_direct(rx);
    return true;
}

/* ---- The sender ---- */

bool npu_chan_on_share(struct npu_chan *chan, struct npu_tx *tx, const struct npu_reply *reply)
{
    if (tx->state != NPU_TX_ANNOUNCED || reply->a > tx->buf.len || reply->index >= HC_SHARES ||
        reply->b + reply->a < reply->b)
        return false;
    if (!npu_chan_may_copy(chan))
        return true; /* the receiver claims everything itself */
    tx->state = NPU_TX_SHARING;
    tx->end = reply->a;
    tx->base = reply->b;
    tx->stream = (int)reply->index;
    tx->at = reply->generation;
    hc_list_append(&chan->sending, &tx->node);
    return true;
}

/* Write one part. Returns what could not be written of it; *from: where that begins. */
static size_t place(struct npu_chan *chan, struct npu_tx *tx, size_t *from, size_t len)
{
    struct iovec there = {(void *)(uintptr_t)tx->base, tx->end};
    while (len > 0) {
        ssize_t got = npu_chan_copy(chan, &tx->buf, *from, &there, 1, *from, len, true);
        if (got < 0)
            break;
        *from += (size_t)got;
        len -= (size_t)got;
    }
    return len;
}

bool npu_chan_help(struct npu_chan *chan, struct npu_tx *tx)
{
    struct npu_placed *placed = &chan->memory->placed[tx->stream];
    size_t from = 0, len = 0;
    bool claimed = hc_share_claim(&chan->memory->shares[tx->stream], (uint32_t)tx->at, HC_SHARE_BACK, tx->end,
                                  PART_MIN, PART_MAX, &from, &len);
    size_t start = from, left = claimed ? place(chan, tx, &from, len) : 0;
    if (left) {
        placed->failed_at = from;
        /* release, both: partners are the acquires in look_at_placed */
        atomic_store_explicit(&placed->failed, left, memory_order_release);
    }
    (void)atomic_fetch_add_explicit(&placed->bytes, from - start, memory_order_release);
    npu_chan_kick(chan);
    if (!claimed || left) {
        hc_list_remove(&tx->node);
        tx->state = NPU_TX_ANNOUNCED;
    }
    return claimed;
}
