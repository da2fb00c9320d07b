/*
 * The ring of the shm transport: one producer, one consumer, in two processes, over shared memory of 64-byte
 * lines.
 *
 * A record occupies consecutive lines. Its first 8 bytes are the header word; the consumer polls exactly that
 * word, so a message that fits one line costs one cache line transfer and nothing else. Zero means "nothing
 * here yet": before a record is published the producer zeroes the header word of the line behind it, so bytes
 * left from the previous round can never be taken for a header. Records never wrap around the end; a pad
 * record fills what is left there.
 *
 * Positions count lines since the ring's reset, modulo 2^32. The consumer publishes its position only once
 * per quarter of the ring, in a line of its own; the producer looks at it only when its last knowledge says
 * full.
 *
 * Trust: the other side may write anything. The consumer checks every header before use (hc_shm_record_lines)
 * and the producer checks the published position. Threads: each side is used by one thread at a time.
 *
 * The technique of polling the message itself instead of an index goes back to Giacomoni, Moseley,
 * Vachharajani, "FastForward for Efficient Pipeline Parallelism" (PPoPP 2008).
 */
#ifndef HC_SHM_RING_H
#define HC_SHM_RING_H

#include "runtime/base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HC_SHM_LINE = 64,
    HC_SHM_RING_LINES = 1024,
    HC_SHM_RING_BYTES = HC_SHM_RING_LINES * HC_SHM_LINE,
    HC_SHM_RING_MASK = HC_SHM_RING_LINES - 1,
    HC_SHM_HEADER = 8,
    HC_SHM_LINE_MAX = HC_SHM_LINE - HC_SHM_HEADER, /* longest message in one line */
    HC_SHM_OWN_AHEAD = 8, /* lines that the producer claims before it writes them: 3 times the rate */
    HC_SHM_INLINE_LINES = 129,
    /* 8 KiB of payload and 56 bytes of the caller's header */
    HC_SHM_INLINE_MAX = HC_SHM_INLINE_LINES * HC_SHM_LINE - HC_SHM_HEADER,
};

/* Kinds of records; never zero, so that a header word never is. */
enum hc_shm_kind {
    HC_SHM_INLINE = 1, /* len bytes of message follow the header word */
    HC_SHM_CHUNK = 2,  /* a struct hc_shm_chunk_ref follows; len bytes of message are in the sender's chunk */
    HC_SHM_PAD = 3,    /* nothing: the record ends at the ring's end */
};

struct hc_shm_line {
    _Atomic uint64_t header;
    unsigned char data[HC_SHM_LINE_MAX];
};
_Static_assert(sizeof(struct hc_shm_line) == HC_SHM_LINE, "a line is a cache line");

static inline uint64_t hc_shm_header(enum hc_shm_kind kind, uint8_t id, uint32_t len)
{
    return (uint64_t)kind << 40 | (uint64_t)id << 32 | len;
}

static inline unsigned hc_shm_header_kind(uint64_t header)
{
    return (unsigned)(header >> 40);
}

static inline uint8_t hc_shm_header_id(uint64_t header)
{
    return (uint8_t)(header >> 32);
}

static inline uint32_t hc_shm_header_len(uint64_t header)
{
    return (uint32_t)header;
}

/* Lines that a record with `len` bytes behind its header word occupies. */
static inline uint32_t hc_shm_lines_for(size_t len)
{
    return (uint32_t)((len + HC_SHM_HEADER + HC_SHM_LINE - 1) / HC_SHM_LINE);
}

/* Begin to fetch a line for writing, without waiting for it. */
static inline void hc_shm_own(struct hc_shm_line *line)
{
    __asm__ volatile("prefetchw %0" : : "m"(*line));
}

struct hc_shm_producer {
    struct hc_shm_line *lines;
    const _Atomic uint32_t *head; /* the consumer's published position */
    uint32_t pos;                 /* next line to write */
    uint32_t limit;               /* first position that must not be written yet, as last known */
};

struct hc_shm_consumer {
    struct hc_shm_line *lines;
    _Atomic uint32_t *head;
    uint32_t pos;       /* next line to read */
    uint32_t published; /* value of *head */
};

static inline void hc_shm_producer_init(struct hc_shm_producer *p, struct hc_shm_line *lines,
                                        const _Atomic uint32_t *head)
{
    *p = (struct hc_shm_producer){.lines = lines, .head = head, .limit = HC_SHM_RING_LINES - 1};
}

/* Let nothing be written until hc_shm_producer_refresh(): the ring is still somebody else's. */
static inline void hc_shm_producer_bar(struct hc_shm_producer *p)
{
    p->limit = p->pos;
}

static inline void hc_shm_consumer_init(struct hc_shm_consumer *c, struct hc_shm_line *lines,
                                        _Atomic uint32_t *head)
{
    *c = (struct hc_shm_consumer){.lines = lines, .head = head};
}

/* Look at the published position; whether `need` more lines may be written now. */
static inline bool hc_shm_producer_refresh(struct hc_shm_producer *p, uint32_t need)
{
    /* acquire: partner is the release in hc_shm_consumer_publish; lines read there may be overwritten here */
    uint32_t head = atomic_load_explicit(p->head, memory_order_acquire);
    if (p->pos - head >= HC_SHM_RING_LINES)
        return false; /* no honest consumer is there; never writes over what it may be reading */
    p->limit = head + HC_SHM_RING_LINES - 1;
    return p->limit - p->pos >= need;
}

/*
 * Make the record of `count` lines at `line` (from hc_shm_reserve) visible. `header` must hold a valid kind.
 */
static inline void hc_shm_commit(struct hc_shm_producer *p, struct hc_shm_line *line, uint32_t count,
                                 uint64_t header)
{
    p->pos += count;
    atomic_store_explicit(&p->lines[p->pos & HC_SHM_RING_MASK].header, 0, memory_order_relaxed);
    /* release: partner is the acquire in hc_shm_peek; covers the payload and the zero above */
    atomic_store_explicit(&line->header, header, memory_order_release);
    hc_shm_own(&p->lines[(p->pos + HC_SHM_OWN_AHEAD) & HC_SHM_RING_MASK]);
}

/* Whether a line may be written now, as far as is known. */
static inline bool hc_shm_producer_has_line(const struct hc_shm_producer *p)
{
    return p->pos != p->limit;
}

/* The line at the write position. */
static inline struct hc_shm_line *hc_shm_producer_line(const struct hc_shm_producer *p)
{
    return &p->lines[p->pos & HC_SHM_RING_MASK];
}

/* How many lines must be free for a record of `count` lines: with the pad record, where one is needed. */
static inline uint32_t hc_shm_need(const struct hc_shm_producer *p, uint32_t count)
{
    uint32_t left = HC_SHM_RING_LINES - (p->pos & HC_SHM_RING_MASK);
    return count <= left ? count : left + count;
}

/*
 * Room for a record of `count` lines (at most HC_SHM_INLINE_LINES), contiguous, or NULL when the ring is too
 * full. May publish a pad record. Nothing is promised until hc_shm_commit(): a reservation may just be
 * forgotten.
 */
static inline struct hc_shm_line *hc_shm_reserve(struct hc_shm_producer *p, uint32_t count)
{
    uint32_t need = hc_shm_need(p, count);
    if (hc_unlikely(p->limit - p->pos < need) && !hc_shm_producer_refresh(p, need))
        return NULL;
    if (hc_unlikely(need != count)) {
        struct hc_shm_line *line = &p->lines[p->pos & HC_SHM_RING_MASK];
        hc_shm_commit(p, line, need - count, hc_shm_header(HC_SHM_PAD, 0, 0));
    }
    return &p->lines[p->pos & HC_SHM_RING_MASK];
}

/* The line at the read position. */
static inline struct hc_shm_line *hc_shm_front(const struct hc_shm_consumer *c)
{
    return &c->lines[c->pos & HC_SHM_RING_MASK];
}

/* Header word of the next record, 0 when there is none yet. */
static inline uint64_t hc_shm_peek(const struct hc_shm_consumer *c)
{
    /* acquire: partner is the release in hc_shm_commit */
    return atomic_load_explicit(&hc_shm_front(c)->header, memory_order_acquire);
}

/* Lines that the record at the read position occupies; 0 when the header is malformed. */
static inline uint32_t hc_shm_record_lines(const struct hc_shm_consumer *c, uint64_t header)
{
    uint32_t left = HC_SHM_RING_LINES - (c->pos & HC_SHM_RING_MASK);
    uint32_t len = hc_shm_header_len(header);
    switch (hc_shm_header_kind(header)) {
    case HC_SHM_INLINE:
        return len <= HC_SHM_INLINE_MAX && hc_shm_lines_for(len) <= left ? hc_shm_lines_for(len) : 0;
    case HC_SHM_CHUNK:
        return 1;
    case HC_SHM_PAD:
        return left;
    default:
        return 0;
    }
}

/* Tell the producer how far the consumer is. */
static inline void hc_shm_consumer_publish(struct hc_shm_consumer *c)
{
    c->published = c->pos;
    /* release: partner is the acquire in hc_shm_producer_refresh */
    atomic_store_explicit(c->head, c->pos, memory_order_release);
}

/* Done with the record at the read position. True when the new position was published. */
static inline bool hc_shm_advance(struct hc_shm_consumer *c, uint32_t count)
{
    c->pos += count;
    if (hc_likely(c->pos - c->published < HC_SHM_RING_LINES / 4))
        return false;
    hc_shm_consumer_publish(c);
    return true;
}

/* Start over at line 0; only while no producer uses the ring. */
static inline void hc_shm_consumer_reset(struct hc_shm_consumer *c)
{
    c->pos = 0;
    atomic_store_explicit(&c->lines[0].header, 0, memory_order_relaxed);
    hc_shm_consumer_publish(c);
}

#endif
