/*
 * How far the receiver's core is, learned per peer while sending: how long a line takes that the receiver has
 * just written. Cores that share a cache answer within 40 to 80 ns, those of another cache complex or socket
 * take more than 100. Processes move, and a virtual machine's processors too, so the last samples count; high
 * ones more, for a line may have been fetched ahead.
 */
#ifndef HC_SHM_DISTANCE_H
#define HC_SHM_DISTANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <x86intrin.h>

enum {
    HC_SHM_DISTANCE_FAR = 250,  /* cycles of the time stamp counter, which count 2 to 4 per ns */
    HC_SHM_DISTANCE_MOST = 600, /* a sample that was interrupted tells no more than this */
    HC_SHM_DISTANCE_NEAR_PERIOD = 8,
    HC_SHM_DISTANCE_FAR_PERIOD = 1024, /* messages between samples; those that are sampled go slowly */
};

/* Zero-initialised: near. */
struct hc_shm_distance {
    uint32_t cycles, count;
};

static inline bool hc_shm_distance_is_far(const struct hc_shm_distance *distance)
{
    return distance->cycles >= HC_SHM_DISTANCE_FAR;
}

/* Count a message; whether a sample is due. */
static inline bool hc_shm_distance_due(struct hc_shm_distance *distance)
{
    uint32_t period =
        hc_shm_distance_is_far(distance) ? HC_SHM_DISTANCE_FAR_PERIOD : HC_SHM_DISTANCE_NEAR_PERIOD;
    return ++distance->count % period == 0;
}

/* Learn from a sample. */
static inline void hc_shm_distance_learn(struct hc_shm_distance *distance, uint64_t took)
{
    uint32_t cycles = took < HC_SHM_DISTANCE_MOST ? (uint32_t)took : HC_SHM_DISTANCE_MOST;
    if (cycles > distance->cycles)
        distance->cycles = (distance->cycles + cycles + 1) / 2;
    else
        distance->cycles = (distance->cycles * 7 + cycles) / 8;
}

/* Read a word that becomes 0 when the receiver has written it, and learn if it did. */
static inline void hc_shm_distance_sample(struct hc_shm_distance *distance, const _Atomic uint32_t *word)
{
    _mm_lfence();
    uint64_t start = __rdtsc();
    _mm_lfence();
    /* relaxed: looked at again by whoever relies on it */
    uint32_t value = atomic_load_explicit(word, memory_order_relaxed);
    _mm_lfence();
    uint64_t took = __rdtsc() - start;
    if (value == 0)
        hc_shm_distance_learn(distance, took);
}

#endif
