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
    cr_assert_eq(run(&lender, HC_LENDER_COPIED, SIZE, 1500, 9000), 0);
    cr_assert_gt(run(&lender, 4 * HC_LENDER_RARELY * HC_LENDER_PERIOD, SIZE, 1500, 9000), 4);
}

Test(lender, first_messages_that_touch_new_memory_do_not_count)
{
    struct hc_lender lender = {0};
    (void)run(&lender, 1, SIZE, 200000, 0);
    (void)run(&lender, HC_LENDER_COPIED - 1, SIZE, 3000, 0);
    (void)run(&lender, 1, SIZE, 3000, 100000);
    (void)run(&lender, HC_LENDER_FIRST - HC_LENDER_COPIED - 1, SIZE, 3000, 1500);
    cr_assert_geq(run(&lender, 100, SIZE, 3000, 1500), 100);
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

/* Lending loses until it ends. */
static void give_up_until_rest(struct hc_lender *lender)
{
    int times = 0;
    while (!lender->rest) {
        hc_lender_gave_up(lender);
        cr_assert_lt(times++, 100);
    }
}

Test(lender, given_up_messages_end_lending_for_longer_each_time)
{
    struct hc_lender lender = {0};
    (void)run(&lender, HC_LENDER_PERIOD + HC_LENDER_TRIALS, SIZE, 3000, 1500);
    give_up_until_rest(&lender);
    cr_assert_eq(run(&lender, HC_LENDER_REST, SIZE, 3000, 1500), 0);
    cr_assert(hc_lender_choose(&lender, SIZE));
    hc_lender_gave_up(&lender);
    cr_assert_eq(run(&lender, 2 * HC_LENDER_REST, SIZE, 3000, 1500), 0);
    for (int i = 0; i < 100; i++)
        hc_lender_gave_up(&lender);
    cr_assert_eq(lender.rest, HC_LENDER_REST_MAX);
}

Test(lender, prompt_receiver_is_trusted_again)
{
    struct hc_lender lender = {0};
    (void)run(&lender, HC_LENDER_PERIOD + HC_LENDER_TRIALS, SIZE, 3000, 1500);
    for (int i = 0; i < 100; i++)
        hc_lender_gave_up(&lender);
    (void)run(&lender, 2 * HC_LENDER_REST_MAX, SIZE, 3000, 1500);
    hc_lender_gave_up(&lender);
    cr_assert_eq(lender.rest, 0, "what was saved outweighs it");
    give_up_until_rest(&lender);
    cr_assert_eq(lender.rest, HC_LENDER_REST, "the rests begin anew");
}

Test(lender, late_receivers_end_lending_unless_others_wait_too)
{
    struct hc_lender a = {0}, b = {0};
    for (int i = 0; i < 3; i++)
        hc_lender_fetched(&a, SIZE, 1500, false, 1500 + HC_LENDER_WAIT_NS);
    cr_assert_eq(a.rest, 0);
    for (int i = 0; i < 3; i++)
        hc_lender_fetched(&b, SIZE, 1500, true, 1500 + HC_LENDER_WAIT_NS);
    cr_assert_eq(b.rest, HC_LENDER_REST);
}

Test(lender, receiver_may_be_late_as_often_as_lending_saves_what_that_costs)
{
    struct hc_lender often = {0}, rarely = {0};
    unsigned lent_often = 0, lent_rarely = 0;
    for (int round = 0; round < 500; round++) {
        lent_rarely += run(&rarely, 40, SIZE, 3000, 1500);
        hc_lender_gave_up(&rarely);
        lent_often += run(&often, 4, SIZE, 3000, 1500);
        if (!often.rest)
            hc_lender_gave_up(&often);
    }
    cr_assert_geq(lent_rarely, 500 * 38);
    cr_assert_leq(lent_often, 500);
}
