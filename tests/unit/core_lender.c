#include "runtime/core/lender.h"

#include <criterion/criterion.h>

enum { SIZE = 32 << 10, MANY = 20000 };

/* Copying and lending take so long; how many messages were lent. */
static unsigned run(struct hc_lender *lender, unsigned messages, size_t size, uint64_t copy_ns,
                    uint64_t fetch_ns)
{
    unsigned lent = 0;
    for (unsigned i = 0; i < messages; i++) {
        if (hc_lender_choose(lender, size)) {
            lent++;
            hc_lender_fetched(lender, size, fetch_ns, true, fetch_ns + 500);
        } else {
            hc_lender_copied(lender, size, copy_ns);
        }
    }
    return lent;
}

Test(lender, faster_way_is_taken_but_for_trials)
{
    struct hc_lender a = {0}, b = {0};
    (void)run(&a, HC_LENDER_PERIOD, SIZE, 3000, 1500);
    cr_assert_geq(run(&a, MANY, SIZE, 3000, 1500), MANY - MANY / 100);
    (void)run(&b, HC_LENDER_PERIOD, SIZE, 1500, 3000);
    cr_assert_leq(run(&b, MANY, SIZE, 1500, 3000), MANY / 100);
}

Test(lender, first_messages_are_copied_and_the_other_way_is_tried)
{
    struct hc_lender lender = {0};
    cr_assert_eq(run(&lender, HC_LENDER_FIRST, SIZE, 1500, 9000), 0);
    cr_assert_gt(run(&lender, 4 * HC_LENDER_RARELY * HC_LENDER_PERIOD, SIZE, 1500, 9000), 4);
}

Test(lender, far_slower_way_is_tried_less_often)
{
    struct hc_lender close = {0}, far = {0};
    unsigned often = run(&close, MANY, SIZE, 1500, 2000), rarely = run(&far, MANY, SIZE, 1500, 9000);
    cr_assert_gt(often, 2 * rarely, "%u, %u", often, rarely);
}

Test(lender, handshake_counts_with_small_messages)
{
    struct hc_lender lender = {0};
    (void)run(&lender, HC_LENDER_PERIOD, 16384, 100, 100);
    cr_assert_leq(run(&lender, MANY, 16384, 100, 100), MANY / 100);
}

Test(lender, change_of_the_faster_way_is_noticed)
{
    struct hc_lender lender = {0};
    (void)run(&lender, MANY, SIZE, 3000, 1500);
    (void)run(&lender, MANY, SIZE, 3000, 9000);
    cr_assert_leq(run(&lender, MANY, SIZE, 3000, 9000), MANY / 100);
    (void)run(&lender, MANY, SIZE, 3000, 1500);
    cr_assert_geq(run(&lender, MANY, SIZE, 3000, 1500), MANY - MANY / 100);
}

Test(lender, one_outlier_changes_nothing)
{
    struct hc_lender lender = {0};
    (void)run(&lender, HC_LENDER_PERIOD + HC_LENDER_TRIALS, SIZE, 3000, 1500);
    hc_lender_fetched(&lender, SIZE, 10000000, false, 10000000);
    cr_assert_geq(run(&lender, 100, SIZE, 3000, 1500), 100);
}

Test(lender, sizes_learn_apart)
{
    struct hc_lender lender = {0};
    (void)run(&lender, HC_LENDER_PERIOD, 16384, 1500, 3000);
    (void)run(&lender, HC_LENDER_PERIOD, 65536, 6000, 3000);
    cr_assert_leq(run(&lender, 100, 16384, 1500, 3000), HC_LENDER_TRIALS);
    cr_assert_geq(run(&lender, 100, 65536, 6000, 3000), 100 - HC_LENDER_TRIALS);
}

Test(lender, given_up_messages_end_lending_for_longer_each_time)
{
    struct hc_lender lender = {0};
    (void)run(&lender, HC_LENDER_PERIOD + HC_LENDER_TRIALS, SIZE, 3000, 1500);
    lender.trust = 0;
    hc_lender_gave_up(&lender);
    cr_assert_eq(run(&lender, HC_LENDER_REST, SIZE, 3000, 1500), 0);
    cr_assert(hc_lender_choose(&lender, SIZE));
    hc_lender_gave_up(&lender);
    cr_assert_eq(run(&lender, 2 * HC_LENDER_REST, SIZE, 3000, 1500), 0);
    for (int i = 0; i < 100; i++)
        hc_lender_gave_up(&lender);
    cr_assert_eq(lender.rest, HC_LENDER_REST_MAX);
}

Test(lender, late_receivers_end_lending_unless_others_wait_too)
{
    struct hc_lender a = {0}, b = {0};
    hc_lender_fetched(&a, SIZE, 1500, false, 1500 + 2 * HC_LENDER_LATE_NS);
    cr_assert_eq(a.rest, 0);
    hc_lender_fetched(&b, SIZE, 1500, true, 1500 + 2 * HC_LENDER_LATE_NS);
    cr_assert_eq(b.rest, HC_LENDER_REST);
}

Test(lender, now_and_then_a_receiver_may_be_late)
{
    struct hc_lender lender = {0};
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < HC_LENDER_TRUST_GAVE_UP; i++)
            hc_lender_fetched(&lender, SIZE, 1500, true, 2000);
        hc_lender_gave_up(&lender);
        cr_assert_eq(lender.rest, 0);
    }
    hc_lender_gave_up(&lender);
    cr_assert_eq(lender.rest, HC_LENDER_REST);
}
