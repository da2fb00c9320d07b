/*
 * A ring between two processes: one writes records, one reads them. A record is a number of 64-byte lines;
 * its first 8 bytes, the word, are never zero. The reader polls the word itself, so that a message that fits
 * the line costs the transfer of that line and nothing else. Before a record is published the writer zeroes
 * the word behind it: bytes of the previous round are never taken for one. Records do not wrap; a pad fills
 * the end.
 *
 * Positions count lines, modulo 2^32. The reader publishes how far it is once per quarter of the ring; the
 * writer looks only when its last knowledge says full. The other side may write anything: the reader checks
 * each record's length, the writer the published position.
 *
 * Every word also tells how far its writer has read the ring the other way (the stamp), if there is one. So
 * in an exchange of single messages a writer learns for nothing that all it sent is read. While it keeps
 * finding that, its records stay: the next one is written over the last one, whose lines are still in both
 * processors' inner caches, not behind it. A position that stays moves on by the whole ring; the turn, which
 * changes with each record that stays, tells the next one from it. Long records never stay: many lines that
 * the other processor's innermost cache holds cost more to get back than others from the caches behind it.
 * Each ring of an endpoint has another number (its life), so that a stamp about one is not taken for one
 * about another.
 */
#ifndef NPU_RING_H
#define NPU_RING_H

#include "runtime/base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NPU_LINE = 64,
    NPU_RING_LINES = 2048, /* 128 KiB: what was written a round ago has left the first-level caches */
    NPU_RING_MASK = NPU_RING_LINES - 1,
    NPU_RECORD_HEAD = 32, /* bytes before the payload of a record */
    NPU_OWN_AHEAD = 8,    /* lines the writer claims before it writes them */
    NPU_LEN_MAX = UINT16_MAX,
    NPU_CALM_MIN = 3, /* records in a row that found everything read, before one stays */
    NPU_CALM_MAX = NPU_CALM_MIN << 6,
    NPU_STAY_REWARD = 16, /* records that stayed without harm, before fewer calm ones will do again */
};

/* Two bits above the kind. */
#define NPU_RECORD_STAY (UINT64_C(1) << 62) /* the next record is written over this one */
#define NPU_RECORD_TURN (UINT64_C(1) << 63) /* it differs between that one and this one */

/* Kinds of records; never zero, and below 64. */
enum npu_record_kind {
    NPU_RECORD_PAD = 1,   /* len: lines to skip */
    NPU_RECORD_EAGER = 2, /* the payload follows */
    NPU_RECORD_RTS = 3,   /* struct npu_rts follows; the payload comes through a stream */
    NPU_RECORD_RMA = 16,  /* a request follows (rma.h) */
};

enum npu_record_flag {
    NPU_RECORD_TAGGED = 1,
    NPU_RECORD_DATA = 2,    /* remote CQ data */
    NPU_RECORD_ACK = 4,     /* answer when the payload is in the receiver's buffer */
    NPU_RECORD_STREAM = 8,  /* RTS: the payload is coming already */
    NPU_RECORD_IPC = 16,    /* RTS: a struct npu_ipc_range follows (dma.h) */
    NPU_RECORD_FRESH = 64,  /* RTS: it begins where the stream's memory does (chan.h) */
    NPU_RECORD_TIMED = 128, /* eager: tell how long it took to copy the payload of `id` out (ways.h) */
    NPU_RECORD_DIRECT = 32, /* RTS: `pieces` struct npu_rma_local follow (rma.h): where the payload is */
};

struct npu_record {
    _Atomic uint64_t word; /* npu_record_word */
    uint64_t tag, data;
    uint64_t id; /* of the operation, for answers; 0: none */
    unsigned char payload[NPU_LINE - NPU_RECORD_HEAD];
};
_Static_assert(sizeof(struct npu_record) == NPU_LINE, "a record starts with one line");
_Static_assert(offsetof(struct npu_record, payload) == NPU_RECORD_HEAD, "head of a record");

struct npu_rts {
    uint64_t len;    /* of the message */
    uint32_t stream; /* NPU_RECORD_STREAM: which */
    uint32_t pieces; /* NPU_RECORD_DIRECT: of the sender's buffer */
};
_Static_assert(sizeof(struct npu_rts) == 16, "an RTS, and one piece, fit the first line");

/* The word of a record, all but the stamp and the bits of staying. */
static inline uint64_t npu_record_word(enum npu_record_kind kind, unsigned flags, uint32_t len)
{
    return (uint64_t)kind << 56 | (uint64_t)flags << 48 | len;
}

static inline unsigned npu_record_kind(uint64_t word)
{
    return (unsigned)(word >> 56) & 0x3f;
}

static inline unsigned npu_record_flags(uint64_t word)
{
    return (unsigned)(word >> 48) & 0xff;
}

static inline uint32_t npu_record_len(uint64_t word)
{
    return word & NPU_LEN_MAX;
}

static inline uint32_t npu_record_stamp(uint64_t word)
{
    return (uint32_t)(word >> 16);
}

/* What is told of the reader of a ring; a life is never zero, so this is not, either. */
static inline uint32_t npu_ring_stamp(uint16_t life, uint32_t pos)
{
    return (uint32_t)life << 16 | (uint16_t)pos;
}

/* Lines of a record with so many bytes behind its head. */
static inline uint32_t npu_record_lines(size_t len)
{
    return (uint32_t)((len + NPU_RECORD_HEAD + NPU_LINE - 1) / NPU_LINE);
}

/*
 * Messages: what does not fit the first line starts with the second, so that it is copied between addresses
 * that are aligned alike, if the application's are.
 */
static inline uint32_t npu_eager_lines(size_t len)
{
    return len <= NPU_LINE - NPU_RECORD_HEAD ? 1 : 1 + (uint32_t)((len + NPU_LINE - 1) / NPU_LINE);
}

static inline unsigned char *npu_eager_payload(struct npu_record *record, size_t len)
{
    return len <= NPU_LINE - NPU_RECORD_HEAD ? record->payload : (unsigned char *)(record + 1);
}

struct npu_ring_reader {
    struct npu_record *lines;
    _Atomic uint32_t *head;
    uint32_t pos, published;
    uint64_t stale; /* word of the record that stayed, which is still there; 0: none */
    uint32_t heard; /* the last stamp */
    uint16_t life;
};

struct npu_ring_writer {
    struct npu_record *lines;
    const _Atomic uint32_t *head;       /* published by the reader */
    const struct npu_ring_reader *back; /* of the ring the other way; NULL: not known */
    uint32_t pos;
    uint32_t limit; /* first line that must not be written, as last known */
    uint16_t life;
    bool staying; /* the last record stays */
    uint32_t calm, calm_need, stayed;
    uint64_t turn;
};

static inline void npu_ring_writer_init(struct npu_ring_writer *w, struct npu_record *lines,
                                        const _Atomic uint32_t *head, uint16_t life)
{
    *w = (struct npu_ring_writer){
        .lines = lines, .head = head, .limit = NPU_RING_LINES - 1, .life = life, .calm_need = NPU_CALM_MIN};
}

static inline void npu_ring_reader_init(struct npu_ring_reader *r, struct npu_record *lines,
                                        _Atomic uint32_t *head, uint16_t life)
{
    *r = (struct npu_ring_reader){.lines = lines, .head = head, .life = life};
}

/*
 * Whether the reader has said that it has read everything. A very old stamp may look as if; that only lets a
 * record stay. Once it stays, the last stamp is at most two rings old, and cannot deceive.
 */
static inline bool npu_ring_is_calm(const struct npu_ring_writer *w)
{
    return w->back && w->back->heard == npu_ring_stamp(w->life, w->pos);
}

/* Another record wants to follow before the one that stays was read. */
static inline void npu_ring_stayed_too_soon(struct npu_ring_writer *w)
{
    if (!w->staying || !w->calm)
        return;
    w->calm = w->stayed = 0;
    if (w->calm_need < NPU_CALM_MAX)
        w->calm_need *= 2;
}

/* Look at the reader's position; whether so many lines are free now. */
static inline bool npu_ring_refresh(struct npu_ring_writer *w, uint32_t need)
{
    if (w->staying && npu_ring_is_calm(w)) {
        w->limit = w->pos + NPU_RING_LINES - 1;
        return true;
    }
    /* acquire: partner is the release in npu_ring_consume; what was read there may be overwritten here */
    uint32_t head = atomic_load_explicit(w->head, memory_order_acquire);
    if (w->pos - head >= NPU_RING_LINES) { /* no honest reader is there, or not yet */
        npu_ring_stayed_too_soon(w);
        return false;
    }
    w->limit = head + NPU_RING_LINES - 1;
    return w->limit - w->pos >= need;
}

/* The next record begins so many lines further on; nothing is there yet. */
static inline void npu_ring_go_on(struct npu_ring_writer *w, uint32_t lines)
{
    w->staying = false;
    w->pos += lines;
    atomic_store_explicit(&w->lines[w->pos & NPU_RING_MASK].word, 0, memory_order_relaxed);
    __builtin_prefetch(&w->lines[(w->pos + NPU_OWN_AHEAD) & NPU_RING_MASK], 1);
}

/* The next record begins where this one does. */
static inline void npu_ring_stay(struct npu_ring_writer *w)
{
    w->staying = true;
    w->turn ^= NPU_RECORD_TURN;
    w->pos += NPU_RING_LINES;
    w->limit = w->pos;
    if (hc_unlikely(++w->stayed % NPU_STAY_REWARD == 0 && w->calm_need > NPU_CALM_MIN))
        w->calm_need /= 2;
}

/* Let the reader see a record. */
static inline void npu_ring_put(struct npu_ring_writer *w, struct npu_record *record, uint64_t word)
{
    uint64_t stamp = w->back ? npu_ring_stamp(w->back->life, w->back->pos) : 0;
    /* release: partner is the acquire in npu_ring_peek; covers the payload and the zero behind it */
    atomic_store_explicit(&record->word, word | stamp << 16, memory_order_release);
}

/* Publish a record of so many lines, from npu_ring_reserve(). */
static inline void npu_ring_publish(struct npu_ring_writer *w, struct npu_record *record, uint32_t lines,
                                    uint64_t word)
{
    word |= w->turn;
    npu_ring_go_on(w, lines);
    npu_ring_put(w, record, word);
}

/* Whether a record may stay: only after several that found everything read. */
static inline bool npu_ring_may_stay(struct npu_ring_writer *w)
{
    if (!npu_ring_is_calm(w)) {
        w->calm /= 2;
        return false;
    }
    if (hc_likely(w->calm >= w->calm_need))
        return true;
    w->calm++;
    return false;
}

/* The same; the record stays if that seems good. */
static inline void npu_ring_publish_staying(struct npu_ring_writer *w, struct npu_record *record,
                                            uint32_t lines, uint64_t word)
{
    if (!npu_ring_may_stay(w)) {
        npu_ring_publish(w, record, lines, word);
        return;
    }
    word |= w->turn | NPU_RECORD_STAY;
    npu_ring_stay(w);
    npu_ring_put(w, record, word);
}

/* Room for a record of so many lines; NULL: the ring is full. Publish it before the next one is reserved. */
static inline struct npu_record *npu_ring_reserve(struct npu_ring_writer *w, uint32_t lines)
{
    uint32_t at = w->pos & NPU_RING_MASK, to_end = NPU_RING_LINES - at;
    uint32_t pad = hc_unlikely(lines > to_end) ? to_end : 0;
    if (hc_unlikely(w->limit - w->pos < lines + pad) && !npu_ring_refresh(w, lines + pad))
        return NULL;
    if (hc_unlikely(pad))
        npu_ring_publish(w, &w->lines[at], pad, npu_record_word(NPU_RECORD_PAD, 0, pad));
    return &w->lines[w->pos & NPU_RING_MASK];
}

/* The word of the next record, 0: none yet. */
static inline uint64_t npu_ring_peek(const struct npu_ring_reader *r)
{
    /* acquire: partner is the release in npu_ring_put */
    uint64_t word = atomic_load_explicit(&r->lines[r->pos & NPU_RING_MASK].word, memory_order_acquire);
    return word != r->stale ? word : 0;
}

static inline struct npu_record *npu_ring_at(const struct npu_ring_reader *r)
{
    return &r->lines[r->pos & NPU_RING_MASK];
}

/* Whether a record of so many lines may start here. */
static inline bool npu_ring_fits(const struct npu_ring_reader *r, uint32_t lines)
{
    return lines >= 1 && lines <= NPU_RING_LINES - (r->pos & NPU_RING_MASK);
}

/* Take note of the stamp in a record's word. */
static inline void npu_ring_hear(struct npu_ring_reader *r, uint64_t word)
{
    r->heard = npu_record_stamp(word);
}

/* Done with the next record, of so many lines. */
static inline void npu_ring_consume(struct npu_ring_reader *r, uint32_t lines, uint64_t word)
{
    bool stays = word & NPU_RECORD_STAY;
    r->stale = stays ? word : 0;
    r->pos += stays ? NPU_RING_LINES : lines;
    if (r->pos - r->published < NPU_RING_LINES / 4)
        return;
    r->published = r->pos;
    /* release: partner is the acquire in npu_ring_refresh */
    atomic_store_explicit(r->head, r->pos, memory_order_release);
}

#endif
