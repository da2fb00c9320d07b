#include "runtime/core/chooser.h"

#include <criterion/criterion.h>

enum { SIZE = 1 << 20 };

/* Messages one after another, each as long as its way takes; returns how many took the shared way. */
static unsigned run(struct hc_chooser *chooser, uint64_t *clock, unsigned messages, uint64_t pieces_ns,
                    uint64_t shared_ns)
{
    unsigned shared = 0;
    for (unsigned i = 0; i < messages; i++) {
        enum hc_way way = hc_chooser_pick(chooser, SIZE);
        uint64_t began = *clock;
        *clock += way == HC_WAY_SHARED ? shared_ns : pieces_ns;
        hc_chooser_learn(chooser, way, SIZE, began, *clock);
        shared += way == HC_WAY_SHARED;
    }
    return shared;
}

Test(chooser, faster_way_is_taken_but_for_trials)
{
    enum { MESSAGES = 16 * HC_CHOOSER_PERIOD };
    struct hc_chooser a = {0}, b = {0};
    uint64_t clock = 1000;
    unsigned trials = MESSAGES / HC_CHOOSER_PERIOD * HC_CHOOSER_TRIALS + HC_CHOOSER_START;
    cr_assert_geq(run(&a, &clock, MESSAGES, 50000, 40000), MESSAGES - trials);
    cr_assert_leq(run(&b, &clock, MESSAGES, 40000, 50000), trials);
}

Test(chooser, change_of_the_faster_way_is_noticed)
{
    struct hc_chooser chooser = {0};
    uint64_t clock = 1000;
    (void)run(&chooser, &clock, 1000, 40000, 80000);
    (void)run(&chooser, &clock, 20 * HC_CHOOSER_PERIOD, 80000, 40000);
    cr_assert_geq(run(&chooser, &clock, HC_CHOOSER_PERIOD, 80000, 40000),
                  HC_CHOOSER_PERIOD - HC_CHOOSER_TRIALS);
}

Test(chooser, one_outlier_changes_nothing)
{
    struct hc_chooser chooser = {0};
    uint64_t clock = 1000;
    (void)run(&chooser, &clock, 1000, 80000, 40000);
    hc_chooser_learn(&chooser, HC_WAY_SHARED, SIZE, clock, clock + UINT64_C(10000000000));
    clock += UINT64_C(10000000000);
    cr_assert_geq(run(&chooser, &clock, HC_CHOOSER_PERIOD, 80000, 40000),
                  HC_CHOOSER_PERIOD - HC_CHOOSER_TRIALS);
}

Test(chooser, messages_in_flight_together_are_charged_what_they_add)
{
    struct hc_chooser chooser = {0};
    for (unsigned i = 1; i <= 8; i++)
        hc_chooser_learn(&chooser, HC_WAY_PIECES, SIZE, 0, i * UINT64_C(40000));
    uint32_t cost = chooser.classes[hc_chooser_class(SIZE)].cost[0];
    cr_assert(cost > 30 && cost < 50, "40 us per MiB are 38 ps per byte, not %u", cost);
}

Test(chooser, sizes_learn_apart)
{
    cr_assert_eq(hc_chooser_class(1), 0);
    cr_assert_eq(hc_chooser_class(256 << 10), 0);
    cr_assert_eq(hc_chooser_class(1 << 20), 1);
    cr_assert_eq(hc_chooser_class((4 << 20) - 1), 1);
    cr_assert_eq(hc_chooser_class(4 << 20), 2);
    cr_assert_eq(hc_chooser_class((size_t)1 << 40), HC_CHOOSER_CLASSES - 1);
}
