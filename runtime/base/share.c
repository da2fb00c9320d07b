#include "runtime/base/share.h"

static uint64_t share_word(uint32_t generation, uint32_t claimed)
{
    return (uint64_t)generation << 32 | claimed;
}

void hc_share_pool_init(struct hc_share_pool *pool, struct hc_share *shares)
{
    *pool = (struct hc_share_pool){.shares = shares, .free = (UINT64_C(1) << HC_SHARES) - 1};
}

bool hc_share_open(struct hc_share_pool *pool, uint32_t *index, uint32_t *generation)
{
    if (!pool->free)
        return false;
    *index = (uint32_t)__builtin_ctzll(pool->free);
    pool->free &= pool->free - 1;
    pool->generation += pool->generation == UINT32_MAX ? 2 : 1; /* 0 means closed */
    *generation = pool->generation;
    /* relaxed: the message that names the share publishes it */
    atomic_store_explicit(&pool->shares[*index].word, share_word(*generation, 0), memory_order_relaxed);
    return true;
}

size_t hc_share_close(struct hc_share_pool *pool, uint32_t index, size_t total)
{
    /* acq_rel: partner is the other side's claim */
    uint64_t last =
        atomic_exchange_explicit(&pool->shares[index].word, share_word(0, UINT32_MAX), memory_order_acq_rel);
    size_t claimed = (size_t)(uint32_t)last * HC_SHARE_UNIT;
    pool->free |= UINT64_C(1) << index;
    return claimed < total ? claimed : total;
}

/* Units of the next part when so many are left. */
static uint32_t part_of(uint32_t left, size_t least, size_t most)
{
    enum { PORTION = 3 }; /* more than the two sides, because they do not start at the same time */
    uint32_t part = left / PORTION, limit = (uint32_t)(most / HC_SHARE_UNIT);
    if (part < least / HC_SHARE_UNIT)
        part = (uint32_t)(least / HC_SHARE_UNIT);
    if (part > limit)
        part = limit;
    return part > left ? left : part;
}

bool hc_share_claim(struct hc_share *share, uint32_t generation, size_t total, size_t least, size_t most,
                    size_t *from, size_t *len)
{
    uint32_t units = (uint32_t)((total + HC_SHARE_UNIT - 1) / HC_SHARE_UNIT);
    uint64_t word = atomic_load_explicit(&share->word, memory_order_relaxed);
    for (;;) {
        uint32_t claimed = (uint32_t)word;
        if (!generation || word >> 32 != generation || claimed >= units)
            return false;
        uint32_t part = part_of(units - claimed, least, most);
        /* acq_rel: partner is the other side's claim, and hc_share_close */
        if (!atomic_compare_exchange_weak_explicit(&share->word, &word,
                                                   share_word(generation, claimed + part),
                                                   memory_order_acq_rel, memory_order_relaxed))
            continue;
        *from = (size_t)claimed * HC_SHARE_UNIT;
        *len = (size_t)part * HC_SHARE_UNIT;
        if (*len > total - *from)
            *len = total - *from;
        return true;
    }
}
