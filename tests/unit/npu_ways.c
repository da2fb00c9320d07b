/* What the provider npu learns about the ways of its messages. */
#include "transports/npu/ways.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { SIZE = 128 << 10, MANY = 1 << 14 };

static struct npu_way_costs costs;
static struct npu_packer packer;

static void setup(void)
{
    costs = (struct npu_way_costs){0};
    packer = (struct npu_packer){0};
}

TestSuite(npu_ways, .init = setup);

Test(npu_ways, the_first_value_counts_fully_an_outlier_not_for_long)
{
    uint32_t cost = 0;
    npu_way_average(&cost, 1000);
    cr_assert_eq(cost, 1000);
    npu_way_average(&cost, 1000 * 1000);
    cr_assert_leq(cost, 1125 + 1);
    npu_way_average(&cost, 1000);
    cr_assert_leq(cost, 1064);
}

Test(npu_ways, trials_become_rare)
{
    const uint32_t begins[] = {64, 256, 1024, 2048, 3072, 4096};
    size_t next = 0;
    cr_assert_eq(npu_trial_age(63, 64), UINT32_MAX);
    for (uint32_t i = 64; i <= begins[5]; i++)
        if (npu_trial_age(i, 64) == 0)
            cr_assert_eq(i, begins[next++], "trial at %u", i);
    cr_assert_eq(next, 6);
}

Test(npu_ways, two_hundred_messages_try_the_other_way_six_times)
{
    struct npu_way_picker picker = {0};
    uint32_t direct = UINT32_C(1) << npu_way_class(SIZE);
    unsigned streams = 0;
    for (unsigned i = 0; i < 200; i++)
        streams += !npu_way_pick(&picker, SIZE, direct);
    cr_assert_eq(streams, NPU_WAY_TRIALS);
}

Test(npu_ways, what_is_much_slower_is_only_glanced_at)
{
    struct npu_way_picker picker = {0};
    uint32_t class = npu_way_class(SIZE);
    uint32_t direct = UINT32_C(1) << class, slow = UINT32_C(1) << (NPU_WAY_CLASSES + class);
    unsigned streams = 0;
    for (unsigned i = 0; i < NPU_TRIAL_PERIOD; i++)
        streams += !npu_way_pick(&picker, SIZE, direct | slow);
    cr_assert_eq(streams, 0);
    for (unsigned i = 0; i < NPU_TRIAL_PERIOD; i++)
        streams += !npu_way_pick(&picker, SIZE, direct | slow);
    cr_assert_eq(streams, NPU_WAY_GLANCE);
}

Test(npu_ways, a_glance_is_measured)
{
    uint64_t now = npu_cycles();
    for (unsigned i = 0; i < NPU_WAY_GLANCE; i++)
        npu_way_learn(&costs, NPU_WAY_SHARED, SIZE, now);
    cr_assert_neq(costs.classes[npu_way_class(SIZE)].cost[NPU_WAY_SHARED], 0);
}

static bool is_direct(unsigned class)
{
    return npu_way_preference(&costs) >> class & 1;
}

static bool is_clear(unsigned class)
{
    return npu_way_preference(&costs) >> (NPU_WAY_CLASSES + class) & 1;
}

Test(npu_ways, a_stream_is_preferred_where_it_is_faster)
{
    struct npu_way_cost *class = &costs.classes[3];
    cr_assert(is_direct(3), "what is unknown goes direct");
    class->cost[NPU_WAY_ALONE] = 1000;
    class->cost[NPU_WAY_STREAM] = 900;
    cr_assert_not(is_direct(3));
    cr_assert_not(is_clear(3));
    class->cost[NPU_WAY_SHARED] = 700;
    cr_assert(is_direct(3), "the better of both direct ways counts");
    class->cost[NPU_WAY_STREAM] = 400;
    cr_assert_not(is_direct(3));
    cr_assert(is_clear(3));
}

Test(npu_ways, that_direct_is_much_faster_is_presumed_of_longer_messages)
{
    costs.classes[2].cost[NPU_WAY_ALONE] = 100;
    costs.classes[2].cost[NPU_WAY_STREAM] = 160;
    cr_assert(is_clear(2) && is_clear(3) && is_clear(NPU_WAY_CLASSES - 1));
    cr_assert_not(is_clear(1));
    costs.classes[3].cost[NPU_WAY_ALONE] = 100;
    costs.classes[3].cost[NPU_WAY_STREAM] = 130;
    cr_assert_not(is_clear(3));
    cr_assert_not(is_clear(4), "until a longer one is known");
    costs.classes[2].cost[NPU_WAY_STREAM] = 50;
    costs.classes[3].cost[NPU_WAY_STREAM] = 0;
    cr_assert(is_clear(2));
    cr_assert_not(is_clear(3), "not of streams, which have a limit");
}

Test(npu_ways, the_receiver_shares_where_that_is_faster)
{
    const size_t longer = NPU_SHARE_LIKELY;
    struct npu_way_cost *class = &costs.classes[npu_way_class(SIZE)];
    cr_assert_not(npu_way_share(&costs, NPU_SHARE_MIN - 1));
    cr_assert_not(npu_way_share(&costs, SIZE));
    cr_assert(npu_way_share(&costs, longer));
    class->cost[NPU_WAY_ALONE] = 100;
    class->cost[NPU_WAY_SHARED] = 90;
    cr_assert(npu_way_share(&costs, SIZE));
    class->cost[NPU_WAY_SHARED] = 110;
    unsigned shared = 0;
    for (unsigned i = 2; i < 200; i++)
        shared += npu_way_share(&costs, SIZE);
    cr_assert_eq(shared, 2 * NPU_SHARE_TRIALS, "at 32 and 128");
}

/* Send a message whose copies take so many cycles on each side. */
static enum npu_pack send_one(const uint64_t cycles[NPU_PACKS])
{
    static uint64_t answer;
    bool timed;
    npu_pack_learn(&packer, answer);
    enum npu_pack pack = npu_pack_pick(&packer, 4096, &timed);
    if (timed)
        answer = npu_pack_answer(npu_pack_made(&packer, 4096, pack, cycles[pack]), cycles[pack]);
    return pack;
}

static unsigned count_of(enum npu_pack pack, unsigned messages, const uint64_t cycles[NPU_PACKS])
{
    unsigned count = 0;
    for (unsigned i = 0; i < messages; i++)
        count += send_one(cycles) == pack;
    return count;
}

Test(npu_ways, messages_are_copied_by_the_fastest_loop)
{
    for (unsigned fast = 0; fast < NPU_PACKS; fast++) {
        uint64_t cycles[NPU_PACKS] = {2000, 2000, 2000};
        cycles[fast] = 1000;
        (void)count_of(fast, NPU_TRIAL_PERIOD, cycles);
        cr_assert_geq(count_of(fast, NPU_TRIAL_PERIOD, cycles),
                      NPU_TRIAL_PERIOD - NPU_PACKS * NPU_PACK_TRIALS, "loop %u", fast);
    }
}

Test(npu_ways, another_class_of_sizes_keeps_its_loop)
{
    const uint64_t cycles[NPU_PACKS] = {2000, 1000, 2000};
    bool timed;
    (void)count_of(0, 200, cycles);
    cr_assert_eq(packer.classes[npu_pack_class(4096)].best, NPU_PACK_PIECES);
    cr_assert_eq(npu_pack_pick(&packer, 2048, &timed), NPU_PACK_LOOP);
}

Test(npu_ways, no_answer_of_the_other_side_does_harm)
{
    bool timed;
    srand(1);
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t answer = (uint64_t)rand() << 32 | (uint64_t)rand();
        npu_pack_learn(&packer, i % 2 ? answer : npu_pack_answer(packer.id, UINT64_MAX - i));
        size_t len = NPU_PACK_MIN + (size_t)rand() % (8192 - NPU_PACK_MIN + 1);
        enum npu_pack pack = npu_pack_pick(&packer, len, &timed);
        cr_assert_lt(pack, NPU_PACKS);
        if (timed)
            cr_assert_neq(npu_pack_made(&packer, len, pack, (uint64_t)rand()), 0);
    }
}

Test(npu_ways, streams_are_written_through_the_caches_until_past_is_known)
{
    struct npu_past tuner = {0};
    for (unsigned i = 0; i < NPU_PAST_FIRST; i++)
        cr_assert_not(npu_past_begin(&tuner));
    unsigned past = 0;
    for (unsigned i = 0; i < 2 * NPU_PAST_TRIALS; i++) {
        past += npu_past_begin(&tuner);
        cr_assert_neq(tuner.start, 0);
        npu_past_end(&tuner, 16 << 10);
    }
    cr_assert_eq(past, NPU_PAST_TRIALS);
    cr_assert(tuner.cost[0] || tuner.cost[1]);
    tuner.cost[0] = 1000, tuner.cost[1] = 100;
    cr_assert(npu_past_begin(&tuner));
    cr_assert_eq(tuner.start, 0);
}
