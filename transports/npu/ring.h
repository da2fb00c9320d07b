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
 */
#ifndef NPU_RING_H
#define NPU_RING_H

#include "runtime/base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    NPU_LINE = 64,
    NPU_RING_LINES = 1024,
    NPU_RING_MASK = NPU_RING_LINES - 1,
    NPU_RECORD_HEAD = 32, /* bytes before the payload of a record */
    NPU_OWN_AHEAD = 8,    /* lines the writer claims before it writes them */
};

/* Kinds of records; never zero. */
enum npu_record_kind {
    NPU_RECORD_PAD = 1,   /* len: lines to skip */
    NPU_RECORD_EAGER = 2, /* the payload follows */
    NPU_RECORD_RTS = 3,   /* struct npu_rts follows; the payload comes through a stream */
    NPU_RECORD_RMA = 16,  /* a request follows (rma.h) */
};

enum npu_record_flag {
    NPU_RECORD_TAGGED = 1,
    NPU_RECORD_DATA = 2,   /* remote CQ data */
    NPU_RECORD_ACK = 4,    /* answer when the payload is in the receiver's buffer */
    NPU_RECORD_STREAM = 8, /* RTS: the payload is coming already */
    NPU_RECORD_IPC = 16,   /* RTS: a struct npu_ipc_range follows (dma.h) */
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
    uint32_t unused;
};
_Static_assert(sizeof(struct npu_rts) == 16, "an RTS fits the first line");

static inline uint64_t npu_record_word(enum npu_record_kind kind, unsigned flags, uint32_t len)
{
    return (uint64_t)kind << 56 | (uint64_t)flags << 48 | len;
}

static inline unsigned npu_record_kind(uint64_t word)
{
    return (unsigned)(word >> 56);
}

static inline unsigned npu_record_flags(uint64_t word)
{
    return (unsigned)(word >> 48) & 0xff;
}

static inline uint32_t npu_record_len(uint64_t word)
{
    return (uint32_t)word;
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

struct npu_ring_writer {
    struct npu_record *lines;
    const _Atomic uint32_t *head; /* published by the reader */
    uint32_t pos;
    uint32_t limit; /* first line that must not be written, as last known */
};

struct npu_ring_reader {
    struct npu_record *lines;
    _Atomic uint32_t *head;
    uint32_t pos, published;
};

static inline void npu_ring_writer_init(struct npu_ring_writer *w, struct npu_record *lines,
                                        const _Atomic uint32_t *head)
{
    *w = (struct npu_ring_writer){.lines = lines, .head = head, .limit = NPU_RING_LINES - 1};
}

static inline void npu_ring_reader_init(struct npu_ring_reader *r, struct npu_record *lines,
                                        _Atomic uint32_t *head)
{
    *r = (struct npu_ring_reader){.lines = lines, .head = head};
}

/* Look at the reader's position; whether so many lines are free now. */
static inline bool npu_ring_refresh(struct npu_ring_writer *w, uint32_t need)
{
    /* acquire: partner is the release in npu_ring_consume; what was read there may be overwritten here */
    uint32_t head = atomic_load_explicit(w->head, memory_order_acquire);
    if (w->pos - head >= NPU_RING_LINES)
        return false; /* no honest reader is there */
    w->limit = head + NPU_RING_LINES - 1;
    return w->limit - w->pos >= need;
}

static inline void npu_ring_publish(struct npu_ring_writer *w, struct npu_record *record, uint32_t lines,
                                    uint64_t word)
{
    w->pos += lines;
    struct npu_record *next = &w->lines[w->pos & NPU_RING_MASK];
    atomic_store_explicit(&next->word, 0, memory_order_relaxed);
    /* release: partner is the acquire in npu_ring_peek; covers the payload and the zero above */
    atomic_store_explicit(&record->word, word, memory_order_release);
    __builtin_prefetch(&w->lines[(w->pos + NPU_OWN_AHEAD) & NPU_RING_MASK], 1);
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
    return atomic_load_explicit(&r->lines[r->pos & NPU_RING_MASK].word, memory_order_acquire);
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

static inline void npu_ring_consume(struct npu_ring_reader *r, uint32_t lines)
{
    r->pos += lines;
    if (r->pos - r->published < NPU_RING_LINES / 4)
        return;
    r->published = r->pos;
    /* release: partner is the acquire in npu_ring_refresh */
    atomic_store_explicit(r->head, r->pos, memory_order_release);
}

#endif
