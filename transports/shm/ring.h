/*
 * The ring of the shm transport: one producer, one consumer, in two processes, over shared memory of 64-byte
 * lines.
 *
 * A record occupies consecutive lines. Its first 8 bytes are the header word; the consumer polls exactly that
 * word, so a message that fits one line costs one cache line transfer and nothing else. Zero means "nothing
 * here yet": before a record is published the producer clears the header word of the line behind it, so bytes
 * left from the previous round can never be taken for a header. Records never wrap around the end; a pad
 * record fills what is left there.
 *
 * Positions count lines since the ring's reset, modulo 2^32. The consumer publishes its position only once
 * per quarter of the ring, in a line of its own; the producer looks at it only when its last knowledge says
 * full. Besides, two processes that talk have a ring each way, and the header word of every record tells the
 * other one how far the writer is in reading the other ring (its stamp).
 *
 * A question and its answer need no more than one place: a producer that has repeatedly found all it had
 * sent consumed says, in the header word, that it stays, and writes the next record over this one, once that
 * is consumed, too. Lines that are used again and again lie in the innermost caches of both cores and cross
 * in two thirds of the time of those that come round with the ring, and no line but the message's own is
 * touched. To stay counts as a whole round. The consumer takes the word it has just read for "nothing here
 * yet"; the one that follows differs in its turn bit. Records of 4 KiB and more go on: so many lines cross
 * faster out of the second-level caches.
 *
 * A stream of records goes all the way round, and there the length of the ring counts: lines cross twice as
 * fast when those that come round have left the first-level caches of both cores (a bare loop of two copies,
 * 48 KiB of cache each, near: 9 GB/s in a rotation of 128 KiB, 18 to 20 in 256 KiB to 4 MiB). No more of the
 * ring is touched than a stream needs.
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
    HC_SHM_RING_LINES = 4096, /* of a ring at most */
    HC_SHM_RING_LEAST = 512,  /* and at least: three of the longest records and what is left at the end */
    HC_SHM_RINGS_LONG = 16,   /* rings of a process that have the full length */
    HC_SHM_RING_BYTES = HC_SHM_RING_LINES * HC_SHM_LINE,
    HC_SHM_HEADER = 8,
    HC_SHM_LINE_MAX = HC_SHM_LINE - HC_SHM_HEADER, /* longest message in one line */
    HC_SHM_CLEAR_AHEAD = 8,                        /* lines whose headers are cleared at a time */
    HC_SHM_STAY_LINES =
        64, /* of a record that may stay; where longer ones go on, lines leave the first-level caches */
    HC_SHM_CALM_MIN = 3, /* records that found everything consumed, before a producer stays */
    HC_SHM_CALM_MAX = HC_SHM_CALM_MIN << 6,
    HC_SHM_STAY_REWARD = 16, /* records that stayed without harm, before it takes fewer calm ones again */
    /* Bits of a stamp that are a position. A stamp may be old when it is looked at, but not by so many lines:
     * the core's window (at most 1 GiB) is opened again by messages that bring newer ones. */
    HC_SHM_STAMP_POS = (1 << 26) - 1,
    HC_SHM_INLINE_LINES = 129,
    HC_SHM_INLINE_PAYLOAD = (HC_SHM_INLINE_LINES - 1) * HC_SHM_LINE,
    /* 8 KiB of payload and 56 bytes of the caller's header */
    HC_SHM_INLINE_MAX = HC_SHM_INLINE_LINES * HC_SHM_LINE - HC_SHM_HEADER,
};

/* Kinds of records; never zero, so that a header word never is. */
enum hc_shm_kind {
    HC_SHM_INLINE = 1, /* len bytes of message follow the header word */
    HC_SHM_CHUNK = 2,  /* a struct hc_shm_chunk_ref follows; the first len bytes are in the sender's chunk */
    HC_SHM_PAD = 3,    /* nothing: the record ends at the ring's end */
    HC_SHM_MORE = 4,   /* len further bytes of the message are in the chunk of the HC_SHM_CHUNK before */
};

struct hc_shm_line {
    _Atomic uint64_t header;
    unsigned char data[HC_SHM_LINE_MAX];
};
_Static_assert(sizeof(struct hc_shm_line) == HC_SHM_LINE, "a line is a cache line");

/*
 * A header word, from its low end: 18 bits of length, 8 of the message's id, 3 of the kind, two flags, one
 * that is 0, and a stamp of 32.
 */
enum {
    HC_SHM_LEN_BITS = 18,
    HC_SHM_ID_SHIFT = 18,
    HC_SHM_KIND_SHIFT = 26,
    HC_SHM_LEN_MASK = (1 << HC_SHM_LEN_BITS) - 1,
    HC_SHM_KIND_MASK = 7 << HC_SHM_KIND_SHIFT,
    HC_SHM_TURN = 1 << 29, /* differs between a record that stays and the next one */
    HC_SHM_STAY = 1 << 30, /* the next record begins where this one does, when this one is consumed */
    HC_SHM_STAMP_SHIFT = 32,
};

/* Without a stamp: hc_shm_commit() adds it. */
static inline uint64_t hc_shm_header(enum hc_shm_kind kind, uint8_t id, uint32_t len)
{
    return (uint64_t)kind << HC_SHM_KIND_SHIFT | (uint64_t)id << HC_SHM_ID_SHIFT | (len & HC_SHM_LEN_MASK);
}

static inline unsigned hc_shm_header_kind(uint64_t header)
{
    return (unsigned)(header & HC_SHM_KIND_MASK) >> HC_SHM_KIND_SHIFT;
}

static inline uint8_t hc_shm_header_id(uint64_t header)
{
    return (uint8_t)(header >> HC_SHM_ID_SHIFT);
}

static inline uint32_t hc_shm_header_len(uint64_t header)
{
    return (uint32_t)header & HC_SHM_LEN_MASK;
}

static inline uint32_t hc_shm_header_stamp(uint64_t header)
{
    return (uint32_t)(header >> HC_SHM_STAMP_SHIFT);
}

/* Lines that a record with `len` bytes behind its header word occupies. */
static inline uint32_t hc_shm_lines_for(size_t len)
{
    return (uint32_t)((len + HC_SHM_HEADER + HC_SHM_LINE - 1) / HC_SHM_LINE);
}

struct hc_shm_consumer {
    struct hc_shm_line *lines;
    _Atomic uint32_t *head;
    uint32_t size;      /* lines of the ring, a power of two */
    uint32_t pos;       /* next line to read */
    uint32_t published; /* value of *head */
    uint32_t life;      /* of the ring's use by this producer, as in a stamp; 0: none yet */
    uint32_t heard;     /* the last stamp */
    uint64_t stale;     /* header word of the record before, when its producer stays; else 0 */
};

struct hc_shm_producer {
    struct hc_shm_line *lines;
    const _Atomic uint32_t *head;       /* the consumer's published position */
    uint32_t size;                      /* lines of the ring, a power of two */
    uint32_t pos;                       /* next line to write */
    uint32_t limit;                     /* first position that must not be written yet, as last known */
    uint32_t clear;                     /* headers behind pos are 0 up to here, as far as is known */
    const struct hc_shm_consumer *back; /* of the ring from there to here; never NULL */
    uint32_t life;
    uint8_t calm;      /* goes up with records before which all had been consumed, down with others */
    uint8_t calm_need; /* at which it stays; grows when that was too soon */
    uint8_t stayed;    /* records since then */
    uint8_t id;        /* of the last record */
    uint8_t ahead;     /* lines whose headers are cleared at a time in a burst; 0: only the next one's */
    uint32_t turn;     /* HC_SHM_TURN or 0 */
};

/*
 * The life of a ring in stamps: a ring is used by one producer after the other, and a stamp that was under
 * way meanwhile must not be taken for one about the new life. Never 0.
 */
static inline uint32_t hc_shm_life(uint32_t epoch)
{
    return (epoch / 2 % 63 + 1) * (HC_SHM_STAMP_POS + 1u);
}

/*
 * Lines of each ring of a process that hears from `count` others: of more than HC_SHM_RINGS_LONG of them, all
 * rings together take no more memory than so many, as far as the least length allows.
 */
static inline uint32_t hc_shm_ring_size(uint32_t count)
{
    uint32_t size = HC_SHM_RING_LINES;
    while (size > HC_SHM_RING_LEAST && size / HC_SHM_RINGS_LONG * count > HC_SHM_RING_LINES)
        size /= 2;
    return size;
}

/*
 * How many headers a producer clears at a time. None on Intel's processors: they fetch ahead while they read,
 * and take back what was cleared but is not written yet (8 B near: 17 M/s with 8, 20 with 4, 28 with 2 or
 * none). On AMD's it is the other way round (hc_shm_clear_ahead).
 */
static inline uint8_t hc_shm_clear_lines(void)
{
    return __builtin_cpu_is("intel") ? 0 : HC_SHM_CLEAR_AHEAD;
}

static inline void hc_shm_producer_init(struct hc_shm_producer *p, struct hc_shm_line *lines, uint32_t size,
                                        const _Atomic uint32_t *head, const struct hc_shm_consumer *back,
                                        uint32_t epoch)
{
    *p = (struct hc_shm_producer){.lines = lines,
                                  .head = head,
                                  .size = size,
                                  .limit = size - 1,
                                  .back = back,
                                  .life = hc_shm_life(epoch),
                                  .calm_need = HC_SHM_CALM_MIN,
                                  .ahead = hc_shm_clear_lines()};
}

/* Let nothing be written until hc_shm_producer_refresh(): the ring is still somebody else's. */
static inline void hc_shm_producer_bar(struct hc_shm_producer *p)
{
    p->limit = p->pos;
}

static inline void hc_shm_consumer_init(struct hc_shm_consumer *c, struct hc_shm_line *lines, uint32_t size,
                                        _Atomic uint32_t *head)
{
    *c = (struct hc_shm_consumer){.lines = lines, .head = head, .size = size};
}

/* What the other side is told of a consumer. */
static inline uint32_t hc_shm_stamp(uint32_t life, uint32_t pos)
{
    return life | (pos & HC_SHM_STAMP_POS);
}

/* Whether the other side has said that it has consumed everything. */
static inline bool hc_shm_producer_is_calm(const struct hc_shm_producer *p)
{
    return p->back->heard == hc_shm_stamp(p->life, p->pos);
}

/* Learn from the last stamp. */
static inline void hc_shm_producer_listen(struct hc_shm_producer *p)
{
    uint32_t heard = p->back->heard;
    uint32_t unread = (p->pos - heard) & HC_SHM_STAMP_POS;
    uint32_t limit = p->pos - unread + p->size - 1;
    if ((heard & ~(uint32_t)HC_SHM_STAMP_POS) == p->life && unread < p->size &&
        (int32_t)(limit - p->limit) > 0)
        p->limit = limit;
}

/* A record wants to follow before the one that stays was consumed; told as often as it tries. */
static inline void hc_shm_stayed_too_soon(struct hc_shm_producer *p)
{
    if (!p->calm)
        return;
    p->calm = p->stayed = 0;
    if (p->calm_need < HC_SHM_CALM_MAX)
        p->calm_need *= 2;
}

/* Look at the published position, if need be; whether `need` more lines may be written now. */
static inline bool hc_shm_producer_refresh(struct hc_shm_producer *p, uint32_t need)
{
    hc_shm_producer_listen(p);
    if (p->limit - p->pos >= need)
        return true;
    /* acquire: partner is the release in hc_shm_consumer_publish; lines read there may be overwritten here */
    uint32_t head = atomic_load_explicit(p->head, memory_order_acquire);
    if (p->pos - head >= p->size) { /* never writes over what may be being read */
        hc_shm_stayed_too_soon(p);
        return false;
    }
    if ((int32_t)(head + p->size - 1 - p->limit) > 0) /* a stamp may have told more */
        p->limit = head + p->size - 1;
    return p->limit - p->pos >= need;
}

/*
 * Whether the record at the write position shall stay there. One of another kind of message than the last one
 * does not: it comes in between, and what it came before follows at once.
 */
static inline bool hc_shm_stays(struct hc_shm_producer *p, uint8_t id)
{
    bool same = id == p->id;
    p->id = id;
    if (!hc_shm_producer_is_calm(p)) {
        p->calm /= 2;
        return false;
    }
    if (hc_likely(p->calm >= p->calm_need))
        return same;
    p->calm++;
    return false;
}

static inline void hc_shm_clear(struct hc_shm_producer *p, uint32_t pos)
{
    /* relaxed: before the record in front of it is published, by a release */
    atomic_store_explicit(&p->lines[pos & (p->size - 1)].header, 0, memory_order_relaxed);
}

/* Whether the header at the write position is known to be 0. */
static inline bool hc_shm_is_clear(const struct hc_shm_producer *p)
{
    return (int32_t)(p->clear - p->pos) > 0;
}

/* The next record is to begin `count` lines further on: nothing is there yet. */
static inline void hc_shm_go_on(struct hc_shm_producer *p, uint32_t count)
{
    p->pos += count;
    if (hc_likely(hc_shm_is_clear(p)))
        return;
    hc_shm_clear(p, p->pos);
    p->clear = p->pos + 1;
}

/*
 * Clear more headers, when a burst has used up those that are: at once, because a processor keeps its stores
 * in order, and one to a line that the other side has read waits for it for as long as a line travels. Of
 * several in a row all lines travel together; a message each apart there are more stores in between than the
 * processor can hold back (a bare loop of 45 stores per line: 40 ns a line one by one, 17 in groups of 8; far
 * 144 and 33). Fetching lines ahead by prefetchw does nothing here. After the record was published: it waits
 * for none of them. Not for records of several lines: theirs travel together anyway, and a receiver's
 * processor that fetches ahead takes back what was cleared too early (512 B far: a tenth slower).
 */
static inline void hc_shm_clear_ahead(struct hc_shm_producer *p)
{
    if (hc_likely(p->clear != p->pos + 1) || p->calm)
        return;
    for (unsigned i = 0; i < p->ahead && (int32_t)(p->limit - p->clear) > 0; i++)
        hc_shm_clear(p, p->clear++);
}

/* The next record is to begin where this one, of `count` lines, does. */
static inline void hc_shm_stay(struct hc_shm_producer *p, uint32_t count)
{
    p->turn ^= HC_SHM_TURN;
    p->pos += p->size;
    p->limit = p->pos;
    p->clear = count == 1 ? p->clear + p->size : p->pos; /* it was written over what was clear */
    if (hc_likely(++p->stayed % HC_SHM_STAY_REWARD || p->calm_need == HC_SHM_CALM_MIN))
        return;
    p->calm_need /= 2;
}

/* Let the consumer see a record. */
static inline void hc_shm_publish(struct hc_shm_producer *p, struct hc_shm_line *line, uint64_t header)
{
    uint64_t stamp = hc_shm_stamp(p->back->life, p->back->pos);
    /* release: partner is the acquire in hc_shm_peek; covers the payload, and the zero behind it */
    atomic_store_explicit(&line->header, header | stamp << HC_SHM_STAMP_SHIFT, memory_order_release);
}

/*
 * Make the record of `count` lines at `line` (from hc_shm_reserve) visible. `header` must hold a valid kind.
 * Without `may_stay` the next record does not follow in the same place: where this one was written past the
 * caches, its lines are best left alone.
 */
static HC_INLINE void hc_shm_commit(struct hc_shm_producer *p, struct hc_shm_line *line, uint32_t count,
                                    uint64_t header, bool may_stay)
{
    header |= p->turn;
    if (hc_shm_stays(p, hc_shm_header_id(header)) && may_stay) {
        hc_shm_stay(p, count);
        hc_shm_publish(p, line, header | HC_SHM_STAY);
        return;
    }
    hc_shm_go_on(p, count);
    hc_shm_publish(p, line, header);
    if (count == 1 && p->ahead)
        hc_shm_clear_ahead(p);
}

/* Whether a line may be written now, as far as is known. */
static inline bool hc_shm_producer_has_line(struct hc_shm_producer *p)
{
    if (p->pos == p->limit && hc_shm_producer_is_calm(p))
        p->limit = p->pos + p->size - 1;
    return p->pos != p->limit;
}

/* The line at the write position. */
static inline struct hc_shm_line *hc_shm_producer_line(const struct hc_shm_producer *p)
{
    return &p->lines[p->pos & (p->size - 1)];
}

/* How many lines must be free for a record of `count` lines: with the pad record, where one is needed. */
static inline uint32_t hc_shm_need(const struct hc_shm_producer *p, uint32_t count)
{
    uint32_t left = p->size - (p->pos & (p->size - 1));
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
        struct hc_shm_line *line = &p->lines[p->pos & (p->size - 1)];
        hc_shm_go_on(p, need - count);
        hc_shm_publish(p, line, hc_shm_header(HC_SHM_PAD, 0, 0) | p->turn);
    }
    return &p->lines[p->pos & (p->size - 1)];
}

/* The line at the read position. */
static inline struct hc_shm_line *hc_shm_front(const struct hc_shm_consumer *c)
{
    return &c->lines[c->pos & (c->size - 1)];
}

/* Header word of the next record, with its stamp, 0 when there is none yet. */
static inline uint64_t hc_shm_peek(const struct hc_shm_consumer *c)
{
    /* acquire: partner is the release in hc_shm_commit */
    uint64_t header = atomic_load_explicit(&hc_shm_front(c)->header, memory_order_acquire);
    return header != c->stale ? header : 0;
}

/* Lines that the record at the read position occupies; 0 when the header is malformed. */
static inline uint32_t hc_shm_record_lines(const struct hc_shm_consumer *c, uint64_t header)
{
    uint32_t left = c->size - (c->pos & (c->size - 1));
    uint32_t len = hc_shm_header_len(header);
    switch (hc_shm_header_kind(header)) {
    case HC_SHM_INLINE:
        return len <= HC_SHM_INLINE_MAX && hc_shm_lines_for(len) <= left ? hc_shm_lines_for(len) : 0;
    case HC_SHM_CHUNK:
    case HC_SHM_MORE:
        return 1;
    case HC_SHM_PAD:
        return left;
    default:
        return 0;
    }
}

/* Take note of the stamp in a header word. */
static inline void hc_shm_consumer_hear(struct hc_shm_consumer *c, uint64_t header)
{
    c->heard = hc_shm_header_stamp(header);
}

/* Tell the producer how far the consumer is. */
static inline void hc_shm_consumer_publish(struct hc_shm_consumer *c)
{
    c->published = c->pos;
    /* release: partner is the acquire in hc_shm_producer_refresh */
    atomic_store_explicit(c->head, c->pos, memory_order_release);
}

/* Done with the record of `count` lines at the read position. True when the new position was published. */
static inline bool hc_shm_advance(struct hc_shm_consumer *c, uint32_t count, uint64_t header)
{
    bool stays = header & HC_SHM_STAY;
    c->stale = stays ? header : 0;
    c->pos += stays ? c->size : count;
    if (hc_likely(c->pos - c->published < c->size / 4))
        return false;
    hc_shm_consumer_publish(c);
    return true;
}

/* Start over at line 0; only while no producer uses the ring. */
static inline void hc_shm_consumer_reset(struct hc_shm_consumer *c)
{
    c->pos = 0;
    c->stale = 0;
    atomic_store_explicit(&c->lines[0].header, 0, memory_order_relaxed);
    hc_shm_consumer_publish(c);
}

#endif
