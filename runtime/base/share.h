/*
 * Sharing out one transfer between two processes that copy at the same time. The transfer is cut into parts
 * as it goes: each side claims the next one from a word in shared memory until nothing is left, so who is
 * late, slow, or computes just claims less. A half first, then smaller ones, so that both finish together
 * (guided self-scheduling: Polychronopoulos, Kuck, IEEE ToC 1987).
 *
 * One side claims from the front, the other from the back: of a buffer that is used again each finds its own
 * part in its caches. Parts that either side may get cost the lines' way from one core to the other each
 * time.
 *
 * The receiver owns the word: it opens it for a transfer, and closes it when the transfer is over or given
 * up, after which the sender can claim nothing more.
 *
 * Threads: claiming from any; a pool is used by one thread at a time.
 */
#ifndef HC_SHARE_H
#define HC_SHARE_H

#include "runtime/base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HC_SHARES = 63,       /* of a pool; they and their pool's other words fit a page */
    HC_SHARE_UNIT = 4096, /* bytes: parts are multiples of it, except at the end; twice that and so on of
                             transfers of more than 2^16 of them */
};

#define HC_SHARE_MAX ((uint64_t)1 << 35) /* bytes of a transfer: parts of it can be as small as 1 MiB */

/* Where a side claims its parts. */
enum hc_share_end { HC_SHARE_FRONT, HC_SHARE_BACK };

/*
 * The high half is the generation, 0 while closed; below are the units that have been claimed from the back,
 * and those from the front, 16 bits each. In memory that the peer may write: nothing in it is trusted beyond
 * the one transfer.
 */
struct hc_share {
    HC_CACHE_ALIGNED _Atomic uint64_t word;
};

/* The owner's side: which shares are free. */
struct hc_share_pool {
    struct hc_share *shares; /* HC_SHARES, in shared memory, zero at first */
    uint64_t free;           /* bit per share */
    uint32_t generation;     /* of the share opened last */
};

void hc_share_pool_init(struct hc_share_pool *pool, struct hc_share *shares);
/* Take a share for one transfer: its index, and its generation. False: all are in use. */
bool hc_share_open(struct hc_share_pool *pool, uint32_t *index, uint32_t *generation);
/* Nobody can claim from it any more. Returns how many bytes of the transfer of `total` had been claimed. */
size_t hc_share_close(struct hc_share_pool *pool, uint32_t index, size_t total);

/* Whether it is open still for that transfer; also for who does not own it. */
static inline bool hc_share_is_open(const struct hc_share *share, uint32_t generation)
{
    /* acquire: partner is hc_share_close */
    return atomic_load_explicit(&share->word, memory_order_acquire) >> 32 == generation;
}

/* Claim the next part of a transfer of `total` bytes: at most `most`, at least `least` while that much is
 * left. False: nothing is left, or the share was closed. */
bool hc_share_claim(struct hc_share *share, uint32_t generation, enum hc_share_end end, size_t total,
                    size_t least, size_t most, size_t *from, size_t *len);

#endif
