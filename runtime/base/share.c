#include "runtime/base/share.h"

enum { CLAIMED_MAX = UINT16_MAX }; /* units, from either end */

/* What has been claimed of a transfer. */
struct claims {
    uint32_t front, back; /* units */
};

static uint64_t share_word(uint32_t generation, struct claims claims)
{
    return (uint64_t)generation << 32 | claims.back << 16 | claims.front;
}

static struct claims claims_of(uint64_t word)
{
    return (struct claims){.front = word & CLAIMED_MAX, .back = word >> 16 & CLAIMED_MAX};
}

static size_t unit_of(size_t total)
{
    size_t unit = HC_SHARE_UNIT;
    while (total / unit >= CLAIMED_MAX)
        unit *= 2;
    return unit;
}

static uint32_t units_of(size_t total, size_t unit)
{
    return (uint32_t)(total / unit + (total % unit != 0));
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
    atomic_store_explicit(&pool->shares[*index].word, share_word(*generation, (struct claims){0}),
                          memory_order_relaxed);
    return true;
}

/* Bytes before that many units of the transfer. */
static size_t offset_of(uint32_t units, size_t unit, size_t total)
{
    return units < units_of(total, unit) ? units * unit : total;
}

size_t hc_share_close(struct hc_share_pool *pool, uint32_t index, size_t total)
{
    /* acq_rel: partner is the other side's claim */
    struct claims last = claims_of(atomic_exchange_explicit(
        &pool->shares[index].word, share_word(0, (struct claims){0}), memory_order_acq_rel));
    size_t unit = unit_of(total);
    uint32_t units = units_of(total, unit);
    pool->free |= UINT64_C(1) << index;
    if (last.front + last.back >= units)
        return total;
    return last.front * unit + (total - offset_of(units - last.back, unit, total));
}

/* Units of the next part for a side that has claimed `own` of them: a half, then thirds of what is left.
 * A rest that is not worth a part of its own belongs to it. */
static uint32_t part_of(uint32_t units, uint32_t own, uint32_t left, uint32_t least, uint32_t most)
{
    uint32_t part = own || left < units / 2 ? left / 3 : units / 2;
    part = part < least ? least : part;
    if (left - (part < left ? part : left) < (least + 1) / 2)
        part = left;
    return part < most ? part : most;
}

/* The next part for that end; false: nothing is left. */
static bool next_part(struct claims *claims, enum hc_share_end end, uint32_t units, uint32_t least,
                      uint32_t most, uint32_t *from, uint32_t *count)
{
    uint32_t *own = end == HC_SHARE_FRONT ? &claims->front : &claims->back;
    if (claims->front + claims->back >= units)
        return false;
    *count = part_of(units, *own, units - claims->front - claims->back, least, most);
    *own += *count;
    *from = end == HC_SHARE_FRONT ? claims->front - *count : units - claims->back;
    return true;
}

bool hc_share_claim(struct hc_share *share, uint32_t generation, enum hc_share_end end, size_t total,
                    size_t least, size_t most, size_t *from, size_t *len)
{
    size_t unit = unit_of(total);
    uint32_t units = units_of(total, unit), first = 0, count = 0;
    uint32_t least_units = least > unit ? (uint32_t)(least / unit) : 1;
    uint32_t most_units = most / unit < units ? (uint32_t)(most / unit) : units;
    uint64_t word = atomic_load_explicit(&share->word, memory_order_relaxed);
    for (;;) {
        struct claims claims = claims_of(word);
        if (!generation || word >> 32 != generation ||
            !next_part(&claims, end, units, least_units, most_units, &first, &count))
            return false;
        /* acq_rel: partner is the other side's claim, and hc_share_close */
        if (atomic_compare_exchange_weak_explicit(&share->word, &word, share_word(generation, claims),
                                                  memory_order_acq_rel, memory_order_relaxed))
            break;
    }
    *from = first * unit;
    *len = offset_of(first + count, unit, total) - *from;
    return true;
}
