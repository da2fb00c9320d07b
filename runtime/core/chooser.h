/*
 * Which of two ways a large message takes, learned per peer while receiving: in pieces through the
 * transport's own memory (two copies, each side makes one), or in one copy by the kernel that both sides
 * share. Which is faster depends on how far apart the processors are and on the pages of the buffers; neither
 * is known in advance and both change. So the receiver times its messages, stays with the faster way, and
 * tries the other one from time to time.
 *
 * What is timed is the time a message adds to those before it: from its start, or from the end of the message
 * before if that was later. Lock held.
 */
#ifndef HC_CHOOSER_H
#define HC_CHOOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hc_way { HC_WAY_NONE, HC_WAY_PIECES, HC_WAY_SHARED };

enum {
    HC_CHOOSER_CLASSES = 4,   /* of sizes, each four times the one before */
    HC_CHOOSER_SMALLEST = 18, /* the first begins at 2^18 bytes */
    HC_CHOOSER_PERIOD = 128,  /* messages between trials of the slower way */
    HC_CHOOSER_TRIALS = 4,    /* consecutive: the first after a change pays for the change */
    HC_CHOOSER_START = 16,    /* messages at the start that alternate in groups of TRIALS */
};

/* Zero-initialised. */
struct hc_chooser {
    uint64_t last_end; /* ns, when the last message ended */
    struct {
        uint32_t count;
        uint32_t cost[2]; /* ps per byte: pieces, shared; 0: unknown */
    } classes[HC_CHOOSER_CLASSES];
};

static inline unsigned hc_chooser_class(size_t size)
{
    unsigned bits = 63 - (unsigned)__builtin_clzll(size | 1);
    unsigned index = bits < HC_CHOOSER_SMALLEST ? 0 : (bits - HC_CHOOSER_SMALLEST) / 2;
    return index < HC_CHOOSER_CLASSES ? index : HC_CHOOSER_CLASSES - 1;
}

/* The way for the next message of that size. */
static inline enum hc_way hc_chooser_pick(struct hc_chooser *chooser, size_t size)
{
    unsigned class = hc_chooser_class(size);
    const uint32_t *cost = chooser->classes[class].cost;
    uint32_t count = chooser->classes[class].count++;
    bool shared = cost[1] < cost[0];
    if (count < HC_CHOOSER_START)
        shared = count / HC_CHOOSER_TRIALS % 2;
    else if (count % HC_CHOOSER_PERIOD < HC_CHOOSER_TRIALS)
        shared = !shared;
    return shared ? HC_WAY_SHARED : HC_WAY_PIECES;
}

/* A message of that size has ended, all of it received. Times in ns. */
static inline void hc_chooser_learn(struct hc_chooser *chooser, enum hc_way way, size_t size, uint64_t began,
                                    uint64_t ended)
{
    uint64_t from = began > chooser->last_end ? began : chooser->last_end;
    chooser->last_end = ended;
    if (ended <= from)
        return;
    uint32_t *cost = &chooser->classes[hc_chooser_class(size)].cost[way == HC_WAY_SHARED];
    uint64_t value = (ended - from) * 1000 / size + 1;
    /* Losing the processor, or touching memory for the first time, must not count for long. */
    uint64_t limit = *cost ? (uint64_t)*cost * 2 : UINT32_MAX / 4;
    value = value > limit ? limit : value;
    *cost = *cost && value > *cost ? (uint32_t)((*cost * UINT64_C(7) + value + 7) / 8)
                                   : (uint32_t)((*cost + value + 1) / 2);
}

#endif
