/*
 * Which way messages take, learned while they move, because what is faster depends on how far apart the two
 * processors are, which nobody tells and which changes.
 *
 * - Long messages: through a stream (two copies, each side makes one), or straight from the sender's buffer
 *   (one copy by the kernel, which both sides share when the message is long). The receiver times both, per
 *   class of sizes, and publishes which one is faster; the sender takes the other one from time to time.
 * - Copies into shared memory: through the caches, or past them, which is faster where the receiver's
 *   processor is far away. The sender times some, and stays with the faster way.
 */
#ifndef NPU_WAYS_H
#define NPU_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <x86intrin.h>

/* Time as it is cheapest to have. */
static inline uint64_t npu_cycles(void)
{
    return __rdtsc();
}

/* ---- Long messages ---- */

enum {
    NPU_WAY_CLASSES = 12,  /* of sizes, each twice the one before */
    NPU_WAY_SMALLEST = 13, /* the first begins at 2^13 bytes */
    NPU_WAY_START = 32,    /* messages of a class before the other way is tried, then after 64, 128, … */
    NPU_WAY_PERIOD = 512,  /* … and every so many */
    NPU_WAY_TRIALS = 8,    /* consecutive messages of a trial */
    NPU_WAY_SETTLED = 3,   /* the first ones after a change pay for the change, and do not count */
};

/* Of what a receiver publishes (npu_chan_head.ways); the other bits are classes that are faster direct. */
#define NPU_WAYS_OFFERED (UINT32_C(1) << 31)

static inline unsigned npu_way_class(size_t size)
{
    unsigned bits = 63 - (unsigned)__builtin_clzll(size | 1);
    unsigned index = bits < NPU_WAY_SMALLEST ? 0 : bits - NPU_WAY_SMALLEST;
    return index < NPU_WAY_CLASSES ? index : NPU_WAY_CLASSES - 1;
}

/* The sender's part: messages of each class so far. */
struct npu_way_picker {
    uint32_t count[NPU_WAY_CLASSES];
};

/* Whether the message with that number of its class is to try the other way. */
static inline bool npu_way_is_trial(uint32_t number)
{
    if (number < NPU_WAY_START)
        return false;
    uint32_t begin = number >= NPU_WAY_PERIOD ? number - number % NPU_WAY_PERIOD
                                              : UINT32_C(1) << (31 - __builtin_clz(number));
    return number - begin < NPU_WAY_TRIALS;
}

/* Whether the next message of that size goes direct, given what the receiver published. */
static inline bool npu_way_pick(struct npu_way_picker *picker, size_t size, uint32_t published)
{
    unsigned class = npu_way_class(size);
    bool direct = published >> class & 1;
    return npu_way_is_trial(picker->count[class]++) ? !direct : direct;
}

/* The receiver's part. Zero-initialised: nothing is known. */
struct npu_way_costs {
    uint64_t last_end; /* when the last message ended */
    struct {
        uint32_t cost[2]; /* cycles per KiB: stream, direct; 0: unknown */
        uint32_t run;     /* messages in a row that took the same way */
        bool direct;      /* which one */
    } classes[NPU_WAY_CLASSES];
};

/* What to publish about the classes. Direct is the way of which less must be known: it needs no memory. */
static inline uint32_t npu_way_preference(const struct npu_way_costs *costs)
{
    uint32_t bits = 0;
    for (unsigned i = 0; i < NPU_WAY_CLASSES; i++) {
        uint32_t stream = costs->classes[i].cost[0], direct = costs->classes[i].cost[1];
        /* an eighth for what the receiver does not see: telling the sender that its buffer is free */
        bool is_direct = !stream || direct + direct / 8 < stream;
        bits |= (uint32_t)is_direct << i;
    }
    return bits;
}

/* Take a measured value into account: lower ones soon, higher ones slowly. Losing the processor, or touching
 * memory for the first time, must not count for long. */
static inline void npu_way_average(uint32_t *cost, uint64_t value)
{
    uint64_t limit = *cost ? (uint64_t)*cost * 2 : UINT32_MAX / 4;
    value = value > limit ? limit : value;
    *cost = *cost && value > *cost ? (uint32_t)((*cost * UINT64_C(7) + value + 7) / 8)
                                   : (uint32_t)((*cost + value + 1) / 2);
}

/* A message has ended. It counts for the time that it added to those before it. began: npu_cycles(). */
static inline void npu_way_learn(struct npu_way_costs *costs, bool direct, size_t size, uint64_t began)
{
    uint64_t ended = npu_cycles(), from = began > costs->last_end ? began : costs->last_end;
    unsigned class = npu_way_class(size);
    costs->last_end = ended;
    if (costs->classes[class].direct != direct) {
        costs->classes[class].direct = direct;
        costs->classes[class].run = 0;
    }
    if (costs->classes[class].run++ < NPU_WAY_SETTLED || ended <= from || size == 0)
        return;
    npu_way_average(&costs->classes[class].cost[direct], (ended - from) * 1024 / size + 1);
}

/* ---- Copies into shared memory ---- */

enum {
    NPU_PAST_MIN = 2048,   /* bytes: shorter ones are written through */
    NPU_PAST_CLASSES = 3,  /* of copies into the ring: from 2048, 4096, 8192 bytes */
    NPU_PAST_PERIOD = 512, /* copies between trials of the slower way */
    NPU_PAST_TRIALS = 4,   /* of either way: the first ones after a change pay for the change */
    NPU_PAST_START = 8,    /* copies at the start, that alternate in groups of TRIALS */
    NPU_PAST_PRICE = 128,  /* cycles per KiB: what the receiver pays more for what is not in any cache */
};

/* Copies of that many bytes, at most of the longest eager message, are learned about together. */
static inline unsigned npu_past_class(size_t len)
{
    return 63 - (unsigned)__builtin_clzll(len / NPU_PAST_MIN);
}

/* Zero-initialised: through the caches first. */
struct npu_past {
    uint32_t count;
    uint32_t cost[2]; /* cycles per KiB: through, past the caches; 0: unknown */
    bool past;        /* the copy being made */
    uint64_t start;   /* 0: it is not timed */
};

static inline bool npu_past_is_faster(const struct npu_past *tuner)
{
    return tuner->cost[1] + NPU_PAST_PRICE < tuner->cost[0];
}

/* Begin a copy; whether to write it past the caches. */
static inline bool npu_past_begin(struct npu_past *tuner)
{
    uint32_t phase = tuner->count++ % NPU_PAST_PERIOD;
    bool faster = npu_past_is_faster(tuner);
    tuner->start = 0;
    tuner->past = faster;
    if (tuner->count > NPU_PAST_START && phase >= 2 * NPU_PAST_TRIALS)
        return faster;
    if (tuner->count <= NPU_PAST_START)
        tuner->past = phase / NPU_PAST_TRIALS % 2;
    else
        tuner->past = phase < NPU_PAST_TRIALS ? !faster : faster;
    tuner->start = npu_cycles();
    return tuner->past;
}

/* End a copy of len bytes: learn from it. */
static inline void npu_past_end(struct npu_past *tuner, size_t len)
{
    if (!tuner->start)
        return;
    npu_way_average(&tuner->cost[tuner->past], (npu_cycles() - tuner->start) * 1024 / len);
}

#endif
