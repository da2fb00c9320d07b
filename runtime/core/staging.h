/*
 * Staging memory: equal pieces that copies pass through when memory cannot be reached directly. The set grows
 * when all pieces are in use, up to a bound, and shrinks again when pieces were not needed for a while; while
 * use stays the same nothing is allocated or freed.
 *
 * Any thread; a lock of its own, which is a leaf. The functions that provide the memory are called with it
 * held.
 */
#ifndef HC_STAGING_H
#define HC_STAGING_H

#include "runtime/base/lock.h"
#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Where pieces come from. */
struct hc_staging_memory {
    hcomm_status_t (*alloc)(void *arg, size_t size, void **ptr); /* sets the error detail when it fails */
    void (*release)(void *arg, void *ptr);
    void *arg;
};

struct hc_staging_stats {
    size_t in_use;      /* pieces given out */
    size_t held;        /* pieces allocated */
    size_t most_in_use; /* at any time */
    uint64_t gets;      /* pieces given out so far */
    uint64_t allocations, releases;
};

struct hc_staging {
    struct hc_lock lock;
    struct hc_staging_memory memory;
    size_t piece_size;
    size_t least, most; /* pieces held, once there were as many; and at most */
    void **unused;      /* stack of num_unused pieces, room for `most` */
    size_t num_unused;
    size_t least_unused; /* since the window began */
    unsigned puts;       /* since then */
    struct hc_staging_stats stats;
};

/* Nothing is allocated from `memory` yet. most >= 1, least <= most. HCOMM_ERR_NO_MEMORY. */
hcomm_status_t hc_staging_init(struct hc_staging *staging, size_t piece_size, size_t least, size_t most,
                               const struct hc_staging_memory *memory) HC_MUST_CHECK;
/* Every piece must have been put back. Zeroed structures are accepted. */
void hc_staging_fini(struct hc_staging *staging);

/*
 * A piece of piece_size bytes, the one put back last if possible (it is in the cache). HCOMM_AGAIN: all that
 * may exist are in use; put one back first. Otherwise what the memory's alloc returned.
 */
hcomm_status_t hc_staging_get(struct hc_staging *staging, void **piece) HC_MUST_CHECK;
/* The same for who can do without: HCOMM_AGAIN when half of all that may be held is in use. */
hcomm_status_t hc_staging_get_spare(struct hc_staging *staging, void **piece) HC_MUST_CHECK;
void hc_staging_put(struct hc_staging *staging, void *piece);

void hc_staging_stats(struct hc_staging *staging, struct hc_staging_stats *stats);

#endif
