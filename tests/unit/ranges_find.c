#include "runtime/core/ranges.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct hc_range range(uintptr_t base, size_t size)
{
    return (struct hc_range){.base = base, .size = size, .kind = (int)base};
}

static bool add(struct hc_ranges *ranges, uintptr_t base, size_t size)
{
    const struct hc_range entry = range(base, size);
    return hc_ranges_add(ranges, &entry) == HCOMM_OK;
}

static uintptr_t find(const struct hc_ranges *ranges, uintptr_t address)
{
    const struct hc_range *found = hc_ranges_find(ranges, (void *)address);
    return found ? found->base : 0;
}

Test(ranges, inner_addresses_find_their_range_and_the_end_does_not)
{
    struct hc_ranges ranges = {0};
    cr_assert_eq(find(&ranges, 100), 0);
    cr_assert(add(&ranges, 300, 50) && add(&ranges, 100, 50) && add(&ranges, 150, 10));
    cr_assert_eq(find(&ranges, 99), 0);
    cr_assert_eq(find(&ranges, 100), 100);
    cr_assert_eq(find(&ranges, 149), 100);
    cr_assert_eq(find(&ranges, 150), 150);
    cr_assert_eq(find(&ranges, 160), 0);
    cr_assert_eq(find(&ranges, 349), 300);
    cr_assert_eq(find(&ranges, 350), 0);
    hc_ranges_fini(&ranges);
}

Test(ranges, overlapping_ranges_are_refused)
{
    struct hc_ranges ranges = {0};
    cr_assert(add(&ranges, 100, 50));
    const struct hc_range bad[] = {range(100, 50), range(120, 1), range(149, 9), range(90, 11),
                                   range(1, 900)};
    for (size_t i = 0; i < hc_array_len(bad); i++)
        cr_assert_eq(hc_ranges_add(&ranges, &bad[i]), HCOMM_ERR_INVALID, "%zu", i);
    cr_assert(add(&ranges, 90, 10) && add(&ranges, UINTPTR_MAX - 5, 5));
    hc_ranges_fini(&ranges);
}

Test(ranges, only_the_start_of_a_range_removes_it)
{
    struct hc_ranges ranges = {0};
    cr_assert(add(&ranges, 100, 50));
    cr_assert_not(hc_ranges_remove(&ranges, (void *)101));
    cr_assert_not(hc_ranges_remove(&ranges, (void *)99));
    cr_assert(hc_ranges_remove(&ranges, (void *)100));
    cr_assert_not(hc_ranges_remove(&ranges, (void *)100));
    cr_assert_eq(find(&ranges, 120), 0);
    hc_ranges_fini(&ranges);
}

Test(ranges, random_changes_agree_with_a_plain_table)
{
    enum { SLOTS = 200, STEPS = 20000 };
    bool there[SLOTS] = {false};
    struct hc_ranges ranges = {0};
    srand(20261130);
    for (int step = 0; step < STEPS; step++) {
        size_t slot = (size_t)rand() % SLOTS;
        uintptr_t base = 1000 + slot * 10;
        cr_assert_eq(find(&ranges, base + 7), there[slot] ? base : 0);
        cr_assert_eq(find(&ranges, base + 8), 0);
        if (there[slot])
            cr_assert(hc_ranges_remove(&ranges, (void *)base));
        else
            cr_assert(add(&ranges, base, 8));
        there[slot] = !there[slot];
    }
    hc_ranges_fini(&ranges);
}
