/*
 * How to write payloads into shared memory, learned per peer while sending.
 *
 * Where the receiver's core is far away (another cache complex or socket), every line is fetched from its
 * cache before it is written, and later fetched back from ours; streaming stores avoid both. Where the cores
 * share a cache, streaming stores lose. Which loop writes best what lies in a near core's cache differs
 * between makes. Neither the distance nor what a virtual machine makes of it is known in advance, and both
 * change when processes move. So the sender times its copies, stays with the fastest way, and tries the
 * others from time to time.
 *
 * Measured: 64 KiB pieces, two copies, line latency 285 ns: 4-5 GB/s through the caches, 13-16 past them;
 * line latency 55 ns: 30 and 12. 4 KiB, near: by lines 0.67 us, in pieces 0.86 on one make; the other way
 * round on another.
 */
#ifndef HC_SHM_TUNER_H
#define HC_SHM_TUNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <x86intrin.h>

enum hc_shm_way {
    HC_SHM_WAY_LINES,  /* through the caches, line by line: hc_copy_long() */
    HC_SHM_WAY_PAST,   /* past the caches: hc_copy_past() */
    HC_SHM_WAY_PIECES, /* through the caches, by the C library: hc_copy_through(); not for chunks */
    HC_SHM_WAYS,
};

enum {
    HC_SHM_TUNER_MIN = 2048,   /* bytes: shorter ones say nothing */
    HC_SHM_TUNER_PERIOD = 512, /* copies between trials of the slower ways */
    HC_SHM_TUNER_TRIALS = 4,   /* consecutive: the first ones after a change pay for the change */
    HC_SHM_TUNER_START = 32,   /* copies at the start that alternate in groups of TRIALS */
};

/* Zero-initialised, but for `ways`: by lines first. */
struct hc_shm_tuner {
    uint32_t ways; /* the first so many are tried */
    uint32_t count;
    uint32_t cost[HC_SHM_WAYS]; /* cycles per KiB; 0: unknown */
    enum hc_shm_way way;        /* of the copy being made */
    uint64_t start;
};

/*
 * What counts for the choice, in quarters of the cost: what is written past the caches costs the receiver
 * more, and of two loops that write through them the sender does not see all of the difference.
 */
static inline uint32_t hc_shm_tuner_weight(const struct hc_shm_tuner *tuner, uint32_t way)
{
    static const uint8_t quarters[HC_SHM_WAYS] = {
        [HC_SHM_WAY_LINES] = 4, [HC_SHM_WAY_PAST] = 6, [HC_SHM_WAY_PIECES] = 5};
    return tuner->cost[way] / 4 * quarters[way];
}

static inline enum hc_shm_way hc_shm_tuner_best(const struct hc_shm_tuner *tuner)
{
    uint32_t best = HC_SHM_WAY_LINES;
    for (uint32_t way = 1; way < tuner->ways; way++)
        if (hc_shm_tuner_weight(tuner, way) < hc_shm_tuner_weight(tuner, best))
            best = way;
    return (enum hc_shm_way)best;
}

/* Begin a copy; how to make it. */
static inline enum hc_shm_way hc_shm_tuner_begin(struct hc_shm_tuner *tuner)
{
    uint32_t group = tuner->count % HC_SHM_TUNER_PERIOD / HC_SHM_TUNER_TRIALS;
    if (tuner->count < HC_SHM_TUNER_START || group < tuner->ways)
        tuner->way = (enum hc_shm_way)(group % tuner->ways);
    else if (tuner->count % HC_SHM_TUNER_TRIALS == 0)
        tuner->way = hc_shm_tuner_best(tuner);
    tuner->start = __rdtsc();
    return tuner->way;
}

/* The copy of len bytes took so many cycles. */
static inline void hc_shm_tuner_learn(struct hc_shm_tuner *tuner, uint64_t cycles, size_t len)
{
    if (len < HC_SHM_TUNER_MIN)
        return;
    cycles = cycles * 1024 / len + 1;
    uint32_t *cost = &tuner->cost[tuner->way];
    /* Losing the processor, or touching memory for the first time, must not count for long. */
    uint64_t limit = *cost ? (uint64_t)*cost * 2 : UINT32_MAX / 4;
    cycles = cycles > limit ? limit : cycles;
    *cost = *cost && cycles > *cost ? (uint32_t)((*cost * UINT64_C(7) + cycles + 7) / 8)
                                    : (uint32_t)((*cost + cycles + 1) / 2);
    tuner->count++;
}

/* End a copy of len bytes. */
static inline void hc_shm_tuner_end(struct hc_shm_tuner *tuner, size_t len)
{
    hc_shm_tuner_learn(tuner, __rdtsc() - tuner->start, len);
}

#endif
