#include "runtime/core/ranges.h"

#include <stdlib.h>
#include <string.h>

/* How many ranges start at or below the address. */
static size_t count_up_to(const struct hc_ranges *ranges, uintptr_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->entries[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct hc_range *hc_ranges_find(const struct hc_ranges *ranges, const void *address)
{
    size_t below = count_up_to(ranges, (uintptr_t)address);
    if (!below)
        return NULL;
    const struct hc_range *range = &ranges->entries[below - 1];
    return (uintptr_t)address - range->base < range->size ? range : NULL;
}

static bool overlaps(const struct hc_ranges *ranges, const struct hc_range *range, size_t place)
{
    const struct hc_range *before = place ? &ranges->entries[place - 1] : NULL;
    const struct hc_range *after = place < ranges->count ? &ranges->entries[place] : NULL;
    return (before && range->base - before->base < before->size) ||
           (after && after->base - range->base < range->size);
}

static hcomm_status_t grow(struct hc_ranges *ranges)
{
    enum { FIRST_ROOM = 16 };
    size_t room = ranges->room ? ranges->room * 2 : FIRST_ROOM;
    struct hc_range *entries = realloc(ranges->entries, room * sizeof(*entries));
    if (!entries)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for %zu records of memory", room);
    ranges->entries = entries;
    ranges->room = room;
    return HCOMM_OK;
}

hcomm_status_t hc_ranges_add(struct hc_ranges *ranges, const struct hc_range *range)
{
    size_t place = count_up_to(ranges, range->base);
    if (overlaps(ranges, range, place))
        return hc_error(HCOMM_ERR_INVALID, "memory at %p, %zu bytes, overlaps memory that is known already",
                        (void *)range->base, range->size);
    if (ranges->count == ranges->room) {
        hcomm_status_t status = grow(ranges);
        if (status != HCOMM_OK)
            return status;
    }
    struct hc_range *entry = &ranges->entries[place];
    (void)memmove(entry + 1, entry, (ranges->count - place) * sizeof(*entry));
    *entry = *range;
    ranges->count++;
    return HCOMM_OK;
}

bool hc_ranges_remove(struct hc_ranges *ranges, const void *base)
{
    size_t below = count_up_to(ranges, (uintptr_t)base);
    if (!below || ranges->entries[below - 1].base != (uintptr_t)base)
        return false;
    struct hc_range *entry = &ranges->entries[below - 1];
    (void)memmove(entry, entry + 1, (ranges->count - below) * sizeof(*entry));
    ranges->count--;
    return true;
}

void hc_ranges_fini(struct hc_ranges *ranges)
{
    free(ranges->entries);
    *ranges = (struct hc_ranges){0};
}
