#include "runtime/core/chooser.h"

#include <criterion/criterion.h>

enum { SIZE = 1 << 20, WINDOW = 64, WINDOWS = 100 };

/* Messages one after another, each as long as its way takes; returns how many took the shared way. */
static unsigned run_size(struct hc_chooser *chooser, size_t size, uint64_t *clock, unsigned messages,
                         uint64_t pieces_ns, uint64_t shared_ns)
{
    unsigned shared = 0;
    for (unsigned i = 0; i < messages; i++) {
        struct hc_choice choice = hc_chooser_pick(chooser, size, *clock);
        *clock += choice.way == HC_WAY_ONE_COPY ? shared_ns : pieces_ns;
        hc_chooser_learn(chooser, choice, size, *clock);
        *clock += 1000000; /* what the ranks do between messages counts for nothing */
        shared += choice.way == HC_WAY_ONE_COPY;
    }
    return shared;
}

static unsigned run(struct hc_chooser *chooser, uint64_t *clock, unsigned messages, uint64_t pieces_ns,
                    uint64_t shared_ns)
{
    return run_size(chooser, SIZE, clock, messages, pieces_ns, shared_ns);
}

/* Of that many messages, those of trials, and of the start. */
static unsigned trials(unsigned messages)
{
    enum { TRIAL = HC_CHOOSER_BLOCK + 1 };
    return (messages / (HC_CHOOSER_PERIOD * HC_CHOOSER_BLOCK) + 1) * TRIAL + HC_CHOOSER_START * TRIAL;
}

/* A window: all messages start together. Those in pieces end one after the other; those shared end all at
 * once, after the time of all. Returns how many took the shared way. */
static unsigned run_window(struct hc_chooser *chooser, uint64_t *clock, uint64_t pieces_ns,
                           uint64_t shared_ns)
{
    struct hc_choice choices[WINDOW];
    unsigned shared = 0;
    for (unsigned i = 0; i < WINDOW; i++) {
        choices[i] = hc_chooser_pick(chooser, SIZE, *clock);
        shared += choices[i].way == HC_WAY_ONE_COPY;
    }
    for (unsigned i = 0; i < WINDOW; i++) {
        if (choices[i].way == HC_WAY_ONE_COPY)
            continue;
        *clock += pieces_ns;
        hc_chooser_learn(chooser, choices[i], SIZE, *clock);
    }
    *clock += shared * shared_ns;
    for (unsigned i = 0; i < WINDOW; i++)
        if (choices[i].way == HC_WAY_ONE_COPY)
            hc_chooser_learn(chooser, choices[i], SIZE, ++*clock);
    return shared;
}

static unsigned run_windows(struct hc_chooser *chooser, uint64_t *clock, uint64_t pieces_ns,
                            uint64_t shared_ns)
{
    unsigned shared = 0;
    for (unsigned i = 0; i < WINDOWS; i++)
        shared += run_window(chooser, clock, pieces_ns, shared_ns);
    return shared;
}

Test(chooser, faster_way_is_taken_but_for_trials)
{
    enum { MESSAGES = 2048 };
    struct hc_chooser a = {0}, b = {0};
    uint64_t clock = 1000;
    cr_assert_geq(run(&a, &clock, MESSAGES, 50000, 40000), MESSAGES - trials(MESSAGES));
    cr_assert_leq(run(&b, &clock, MESSAGES, 40000, 50000), trials(MESSAGES));
}

Test(chooser, both_ways_are_tried_now_and_then)
{
    struct hc_chooser a = {0}, b = {0};
    uint64_t clock = 1000;
    cr_assert_lt(run(&a, &clock, 10000, 50000, 40000), 10000 - 20 * HC_CHOOSER_BLOCK);
    cr_assert_gt(run(&b, &clock, 10000, 40000, 50000), 20 * HC_CHOOSER_BLOCK);
}

Test(chooser, trials_of_a_far_slower_way_are_rarer)
{
    struct hc_chooser a = {0}, b = {0};
    uint64_t clock = 1000;
    unsigned little = run(&a, &clock, 10000, 40000, 50000), far = run(&b, &clock, 10000, 40000, 500000);
    cr_assert_lt(far, little / 2);
}

Test(chooser, start_is_short_where_one_way_takes_twice_as_long)
{
    struct hc_chooser a = {0}, b = {0};
    uint64_t clock = 1000;
    unsigned far = run(&a, &clock, 100, 30000, 90000), near = run(&b, &clock, 100, 30000, 40000);
    cr_assert_eq(far, HC_CHOOSER_START / 4 * (HC_CHOOSER_BLOCK + 1));
    cr_assert_eq(near, HC_CHOOSER_START / 2 * (HC_CHOOSER_BLOCK + 1));
}

Test(chooser, trials_cost_a_hundredth_whatever_the_slower_way_takes)
{
    enum { MESSAGES = 100000 };
    for (uint64_t times = 2; times <= 4; times++) {
        struct hc_chooser chooser = {0};
        uint64_t clock = 1000;
        (void)run(&chooser, &clock, 1000, 30000, 30000 * times);
        unsigned trials = run(&chooser, &clock, MESSAGES, 30000, 30000 * times);
        cr_assert_lt(trials * (times - 1), MESSAGES * 3 / 200, "%u trials", trials);
        cr_assert_gt(trials, 0);
    }
}

Test(chooser, longer_messages_begin_with_what_shorter_ones_have_shown)
{
    struct hc_chooser chooser = {0};
    uint64_t clock = 1000;
    (void)run(&chooser, &clock, 1000, 90000, 40000);
    cr_assert_eq(run_size(&chooser, 4 * SIZE, &clock, 100, 360000, 160000), 100);
    (void)run_size(&chooser, 16 * SIZE, &clock, 4000, 640000, 1280000);
    cr_assert_leq(run_size(&chooser, 16 * SIZE, &clock, 128, 640000, 1280000), trials(0),
                  "where shorter ones were wrong it is learned");
}

Test(chooser, longer_messages_find_out_themselves_where_shorter_ones_show_little)
{
    struct hc_chooser chooser = {0};
    uint64_t clock = 1000;
    (void)run(&chooser, &clock, 1000, 30000, 40000);
    cr_assert_geq(run_size(&chooser, 4 * SIZE, &clock, 200, 320000, 160000), 200 - trials(0));
}

Test(chooser, change_of_the_faster_way_is_noticed)
{
    struct hc_chooser chooser = {0};
    uint64_t clock = 1000;
    (void)run(&chooser, &clock, 1000, 40000, 80000);
    (void)run(&chooser, &clock, 2000, 80000, 40000);
    cr_assert_geq(run(&chooser, &clock, 128, 80000, 40000), 128 - trials(0));
}

Test(chooser, one_outlier_changes_nothing)
{
    struct hc_chooser chooser = {0};
    uint64_t clock = 1000;
    (void)run(&chooser, &clock, 1000, 80000, 40000);
    struct hc_choice choice = hc_chooser_pick(&chooser, SIZE, clock);
    clock += UINT64_C(10000000000);
    hc_chooser_learn(&chooser, choice, SIZE, clock);
    cr_assert_geq(run(&chooser, &clock, 128, 80000, 40000), 128 - 2 * trials(0));
}

Test(chooser, windows_take_the_faster_way_whatever_the_order_of_the_ends)
{
    struct hc_chooser a = {0}, b = {0};
    uint64_t clock = 1000;
    cr_assert_leq(run_windows(&a, &clock, 30000, 40000), WINDOWS * WINDOW / 10);
    cr_assert_geq(run_windows(&b, &clock, 40000, 30000), WINDOWS * WINDOW * 9 / 10);
}

Test(chooser, a_window_of_one_way_is_charged_its_whole_time)
{
    struct hc_chooser chooser = {0};
    uint64_t clock = 1000;
    (void)run_windows(&chooser, &clock, 30000, 40000);
    const uint32_t *cost = chooser.classes[hc_chooser_class(SIZE)].cost;
    cr_assert(cost[0] >= 28 && cost[0] <= 31, "30 us per MiB are 29 ps per byte, not %u", cost[0]);
    cr_assert(cost[1] >= 37 && cost[1] <= 41, "40 us per MiB are 38 ps per byte, not %u", cost[1]);
}

/* One message is always under way when the next starts: the times of the ways mix at each change. */
Test(chooser, messages_in_flight_all_the_time_do_not_confuse)
{
    enum { DEPTH = 8, MESSAGES = 4000 };
    struct hc_chooser chooser = {0};
    struct hc_choice choices[DEPTH];
    uint64_t clock = 1000;
    unsigned shared = 0;
    for (unsigned i = 0; i < MESSAGES + DEPTH; i++) {
        struct hc_choice *choice = &choices[i % DEPTH];
        if (i >= DEPTH) {
            clock += choice->way == HC_WAY_ONE_COPY ? 40000 : 30000;
            hc_chooser_learn(&chooser, *choice, SIZE, clock);
        }
        *choice = hc_chooser_pick(&chooser, SIZE, clock);
        shared += choice->way == HC_WAY_ONE_COPY;
    }
    cr_assert_leq(shared, MESSAGES / 6);
    cr_assert_geq(shared, DEPTH);
}

Test(chooser, messages_that_fail_are_forgotten)
{
    struct hc_chooser chooser = {0};
    uint64_t clock = 1000;
    struct hc_choice choices[WINDOW];
    for (unsigned i = 0; i < WINDOW; i++)
        choices[i] = hc_chooser_pick(&chooser, SIZE, clock);
    for (unsigned i = 0; i < WINDOW; i++)
        hc_chooser_drop(&chooser, choices[i], SIZE);
    cr_assert_eq(chooser.in_flight, 0);
    cr_assert_eq(chooser.classes[hc_chooser_class(SIZE)].in_flight, 0);
    cr_assert_eq(chooser.classes[hc_chooser_class(SIZE)].ended, 0);
    (void)run(&chooser, &clock, 2000, 40000, 50000);
    cr_assert_leq(run(&chooser, &clock, 128, 40000, 50000), 2 * trials(0));
}

Test(chooser, sizes_learn_apart)
{
    cr_assert_eq(hc_chooser_class(1), 0);
    cr_assert_eq(hc_chooser_class(8 << 10), 0);
    cr_assert_eq(hc_chooser_class(16 << 10), 1);
    cr_assert_eq(hc_chooser_class((64 << 10) - 1), 1);
    cr_assert_eq(hc_chooser_class(64 << 10), 2);
    cr_assert_eq(hc_chooser_class(256 << 10), 3);
    cr_assert_eq(hc_chooser_class(1 << 20), 4);
    cr_assert_eq(hc_chooser_class((4 << 20) - 1), 4);
    cr_assert_eq(hc_chooser_class(4 << 20), 5);
    cr_assert_eq(hc_chooser_class((size_t)1 << 40), HC_CHOOSER_CLASSES - 1);
}
