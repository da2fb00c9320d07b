/*
 * Ranges of addresses that are known exactly: found by any address inside them. Kept sorted in one array, as
 * there are few and they are looked up far more often than they change. Not thread-safe: the context's lock
 * serialises calls.
 */
#ifndef HC_RANGES_H
#define HC_RANGES_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hc_range {
    uintptr_t base;
    size_t size;
    int kind;   /* the user's */
    void *data; /* the user's */
};

/* Zeroed: empty. */
struct hc_ranges {
    struct hc_range *entries; /* by base, disjoint */
    size_t count, room;
};

/* Add a range of size > 0. HCOMM_ERR_NO_MEMORY, or HCOMM_ERR_INVALID when it overlaps one that is there. */
hcomm_status_t hc_ranges_add(struct hc_ranges *ranges, const struct hc_range *range) HC_MUST_CHECK;
/* The range that holds the address, NULL when none does; valid until the next change. */
const struct hc_range *hc_ranges_find(const struct hc_ranges *ranges, const void *address);
/* Forget the range that starts at base; false when there is none. */
bool hc_ranges_remove(struct hc_ranges *ranges, const void *base);
void hc_ranges_fini(struct hc_ranges *ranges);

#endif
