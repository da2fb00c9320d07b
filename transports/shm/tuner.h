/*
 * Whether to write chunks through or past the caches, learned per peer while sending.
 *
 * Where the receiver's core is far away (another cache complex or socket), every line of a chunk is fetched
 * from its cache before it is written, and later fetched back from ours; streaming stores avoid both. Where
 * the cores share a cache, streaming stores lose. Neither the distance nor what a virtual machine makes of it
 * is known in advance, and both change when processes move. So the sender times its packing, stays with the
 * faster way, and tries the other one from time to time.
 *
 * Measured, 64 KiB pieces, two copies, line latency 285 ns: 4–5 GB/s through the caches, 13–16 past them;
 * line latency 55 ns: 30 and 12.
 */
#ifndef HC_SHM_TUNER_H
#define HC_SHM_TUNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <x86intrin.h>

enum {
    HC_SHM_TUNER_MIN = 2048,   /* bytes: shorter ones say nothing */
    HC_SHM_TUNER_PERIOD = 512, /* chunks between trials of the slower way */
    HC_SHM_TUNER_TRIALS = 4,   /* consecutive: the first ones after a change pay for the change */
    HC_SHM_TUNER_START = 32,   /* chunks at the start that alternate in groups of TRIALS */
};

/* Zero-initialised: through the caches first. */
struct hc_shm_tuner {
    uint32_t count;
    uint32_t cost[2]; /* cycles per KiB: through, past the caches; 0: unknown */
    bool bypass;      /* way of the chunk being packed */
    uint64_t start;
};

/* Begin a chunk; whether to write it past the caches. */
static inline bool hc_shm_tuner_begin(struct hc_shm_tuner *tuner)
{
    uint32_t phase = tuner->count % HC_SHM_TUNER_PERIOD;
    /* clearly faster: what is written past the caches costs the receiver more */
    bool faster = tuner->cost[1] + tuner->cost[1] / 2 < tuner->cost[0];
    if (tuner->count < HC_SHM_TUNER_START)
        tuner->bypass = tuner->count / HC_SHM_TUNER_TRIALS % 2;
    else
        tuner->bypass = phase < HC_SHM_TUNER_TRIALS ? !faster : faster;
    tuner->start = __rdtsc();
    return tuner->bypass;
}

/* End a chunk of len bytes: learn from it. */
static inline void hc_shm_tuner_end(struct hc_shm_tuner *tuner, size_t len)
{
    if (len < HC_SHM_TUNER_MIN)
        return;
    uint64_t cycles = (__rdtsc() - tuner->start) * 1024 / len;
    uint32_t *cost = &tuner->cost[tuner->bypass];
    /* Losing the processor, or touching memory for the first time, must not count for long. */
    uint64_t limit = *cost ? (uint64_t)*cost * 2 : UINT32_MAX / 4;
    cycles = cycles > limit ? limit : cycles;
    *cost = *cost && cycles > *cost ? (uint32_t)((*cost * UINT64_C(7) + cycles + 7) / 8)
                                    : (uint32_t)((*cost + cycles + 1) / 2);
    tuner->count++;
}

#endif
