#include "runtime/core/staging.h"

#include <stdlib.h>

/* After so many pieces came back, those that were unused all the time are surplus. */
enum { WINDOW = 256 };

hcomm_status_t hc_staging_init(struct hc_staging *staging, size_t piece_size, size_t least, size_t most,
                               const struct hc_staging_memory *memory)
{
    void **unused = calloc(most, sizeof(*unused));
    if (!unused)
        return hc_error(HCOMM_ERR_NO_MEMORY, "staging: out of memory for %zu pieces", most);
    *staging = (struct hc_staging){
        .memory = *memory,
        .piece_size = piece_size,
        .least = least,
        .most = most,
        .unused = unused,
    };
    hc_lock_init(&staging->lock);
    return HCOMM_OK;
}

/* Free unused pieces until so many are left; the lock is held, or nobody else is there. */
static void release_down_to(struct hc_staging *staging, size_t count)
{
    while (staging->num_unused > count) {
        staging->memory.release(staging->memory.arg, staging->unused[--staging->num_unused]);
        staging->stats.held--;
        staging->stats.releases++;
    }
}

void hc_staging_fini(struct hc_staging *staging)
{
    hc_assert(staging->stats.in_use == 0);
    release_down_to(staging, 0);
    free(staging->unused);
    staging->unused = NULL;
}

static hcomm_status_t allocate(struct hc_staging *staging, void **piece)
{
    if (staging->stats.held >= staging->most)
        return HCOMM_AGAIN;
    hcomm_status_t status = staging->memory.alloc(staging->memory.arg, staging->piece_size, piece);
    if (status != HCOMM_OK)
        return status;
    staging->stats.held++;
    staging->stats.allocations++;
    return HCOMM_OK;
}

static hcomm_status_t get_locked(struct hc_staging *staging, void **piece)
{
    if (staging->num_unused) {
        *piece = staging->unused[--staging->num_unused];
    } else {
        hcomm_status_t status = allocate(staging, piece);
        if (status != HCOMM_OK)
            return status;
    }
    if (staging->num_unused < staging->least_unused)
        staging->least_unused = staging->num_unused;
    staging->stats.gets++;
    if (++staging->stats.in_use > staging->stats.most_in_use)
        staging->stats.most_in_use = staging->stats.in_use;
    return HCOMM_OK;
}

hcomm_status_t hc_staging_get(struct hc_staging *staging, void **piece)
{
    hc_lock_acquire(&staging->lock);
    hcomm_status_t status = get_locked(staging, piece);
    hc_lock_release(&staging->lock);
    return status;
}

hcomm_status_t hc_staging_get_spare(struct hc_staging *staging, void **piece)
{
    hc_lock_acquire(&staging->lock);
    hcomm_status_t status =
        staging->stats.in_use >= staging->most / 2 ? HCOMM_AGAIN : get_locked(staging, piece);
    hc_lock_release(&staging->lock);
    return status;
}

/* At the end of a window: half of what nobody needed goes, so that a short pause costs little. */
static void shrink(struct hc_staging *staging)
{
    size_t keep = staging->num_unused - (staging->least_unused + 1) / 2;
    size_t least = staging->least > staging->stats.in_use ? staging->least - staging->stats.in_use : 0;
    release_down_to(staging, keep > least ? keep : least);
    staging->least_unused = staging->num_unused;
    staging->puts = 0;
}

void hc_staging_put(struct hc_staging *staging, void *piece)
{
    hc_lock_acquire(&staging->lock);
    staging->unused[staging->num_unused++] = piece;
    staging->stats.in_use--;
    if (++staging->puts == WINDOW)
        shrink(staging);
    hc_lock_release(&staging->lock);
}

void hc_staging_stats(struct hc_staging *staging, struct hc_staging_stats *stats)
{
    hc_lock_acquire(&staging->lock);
    *stats = staging->stats;
    hc_lock_release(&staging->lock);
}
