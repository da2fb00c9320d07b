#include "runtime/topo/cpulist.h"

#include <criterion/criterion.h>
#include <string.h>

Test(cpulist, well_formed_lists_are_accepted)
{
    static const char *const lists[] = {"0", "0-3", "0,2", "0-3,8", "5,7-9,100-200,65535", "0-65535", "007"};
    for (size_t i = 0; i < hc_array_len(lists); i++)
        cr_assert(hc_cpulist_valid(lists[i]), "%s", lists[i]);
}

Test(cpulist, anything_else_is_refused)
{
    static const char *const lists[] = {"",          ",",   "-",     "1,",  ",1",
                                        "1,,2",      "1-",  "-1",    "3-2", "3-3",
                                        "2,1",       "1,1", "1-3,3", "1 ",  " 1",
                                        "1, 2",      "a",   "1a",    "0x1", "65536",
                                        "0-65536",   "+1",  "1-2-3", "1\n", "18446744073709551616",
                                        "4294967296"};
    for (size_t i = 0; i < hc_array_len(lists); i++)
        cr_assert_not(hc_cpulist_valid(lists[i]), "'%s'", lists[i]);
}

Test(cpulist, ranges_come_in_order_and_the_end_is_told_from_an_error)
{
    const char *good = "1-2,5", *bad = "1-2,x";
    unsigned next_free = 0, first = 0, last = 0;
    cr_assert(hc_cpulist_next(&good, &next_free, &first, &last));
    cr_assert(first == 1 && last == 2);
    cr_assert(hc_cpulist_next(&good, &next_free, &first, &last));
    cr_assert(first == 5 && last == 5);
    cr_assert_not(hc_cpulist_next(&good, &next_free, &first, &last));
    cr_assert_eq(*good, '\0');
    next_free = 0;
    cr_assert(hc_cpulist_next(&bad, &next_free, &first, &last));
    cr_assert_not(hc_cpulist_next(&bad, &next_free, &first, &last));
    cr_assert_neq(*bad, '\0');
}

Test(cpulist, format_joins_neighbours)
{
    static const struct {
        unsigned char bits[4];
        const char *list;
    } cases[] = {
        {{0x01, 0, 0, 0}, "0"},         {{0x0f, 0x01, 0, 0}, "0-3,8"},
        {{0x80, 0x01, 0, 0}, "7-8"},    {{0xff, 0xff, 0xff, 0xff}, "0-31"},
        {{0x05, 0, 0, 0x80}, "0,2,31"}, {{0, 0, 0, 0}, ""},
    };
    char list[64];
    for (size_t i = 0; i < hc_array_len(cases); i++) {
        cr_assert(hc_cpulist_format(cases[i].bits, 32, list, sizeof(list)));
        cr_assert_str_eq(list, cases[i].list);
    }
}

Test(cpulist, format_that_does_not_fit_is_refused_never_cut)
{
    static const unsigned char bits[] = {0x55};
    char list[8] = "zzzzzzz";
    for (size_t size = 0; size < sizeof("0,2,4,6"); size++)
        cr_assert_not(hc_cpulist_format(bits, 8, list, size));
    cr_assert(hc_cpulist_format(bits, 8, list, sizeof("0,2,4,6")));
    cr_assert_str_eq(list, "0,2,4,6");
}
