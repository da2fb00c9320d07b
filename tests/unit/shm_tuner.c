/* How the shm transport learns which way to write payloads is the fastest. */
#include "transports/shm/tuner.h"

#include <criterion/criterion.h>

enum { LEN = 4096, ROUNDS = 4 * HC_SHM_TUNER_PERIOD };

/* Make copies that take cost[way] cycles per KiB; how many took each way. */
static void copy(struct hc_shm_tuner *tuner, const unsigned *cost, unsigned copies, unsigned *taken)
{
    for (unsigned i = 0; i < copies; i++) {
        enum hc_shm_way way = hc_shm_tuner_begin(tuner);
        cr_assert(way < tuner->ways);
        taken[way]++;
        hc_shm_tuner_learn(tuner, cost[way] * (LEN / 1024), LEN);
    }
}

/* After the start, `way` is taken but for trials of the others. */
static void expect(uint32_t ways, const unsigned *cost, enum hc_shm_way way)
{
    struct hc_shm_tuner tuner = {.ways = ways};
    unsigned start[HC_SHM_WAYS] = {0}, taken[HC_SHM_WAYS] = {0};
    copy(&tuner, cost, HC_SHM_TUNER_PERIOD, start);
    copy(&tuner, cost, ROUNDS, taken);
    for (uint32_t other = 0; other < ways; other++) {
        cr_assert(start[other] >= HC_SHM_TUNER_TRIALS, "way %u was not tried at the start", other);
        if (other != (uint32_t)way)
            cr_assert_eq(taken[other], ROUNDS / HC_SHM_TUNER_PERIOD * HC_SHM_TUNER_TRIALS);
    }
}

Test(shm_tuner, the_fastest_way_is_taken_and_the_others_are_tried_from_time_to_time)
{
    expect(HC_SHM_WAYS, (unsigned[]){100, 300, 140}, HC_SHM_WAY_LINES);
    expect(HC_SHM_WAYS, (unsigned[]){160, 300, 100}, HC_SHM_WAY_PIECES);
    expect(HC_SHM_WAYS, (unsigned[]){500, 100, 400}, HC_SHM_WAY_PAST);
}

Test(shm_tuner, past_the_caches_must_be_clearly_faster)
{
    expect(HC_SHM_WAYS, (unsigned[]){140, 100, 150}, HC_SHM_WAY_LINES);
    expect(HC_SHM_WAYS, (unsigned[]){160, 100, 170}, HC_SHM_WAY_PAST);
}

Test(shm_tuner, another_loop_must_be_faster_by_a_quarter)
{
    expect(HC_SHM_WAYS, (unsigned[]){120, 300, 100}, HC_SHM_WAY_LINES);
    expect(HC_SHM_WAYS, (unsigned[]){140, 300, 100}, HC_SHM_WAY_PIECES);
}

Test(shm_tuner, of_two_ways_the_third_is_never_taken)
{
    expect(HC_SHM_WAY_PAST + 1, (unsigned[]){100, 300, 1}, HC_SHM_WAY_LINES);
    expect(HC_SHM_WAY_PAST + 1, (unsigned[]){300, 100, 1}, HC_SHM_WAY_PAST);
}

Test(shm_tuner, the_way_changes_when_the_costs_do)
{
    struct hc_shm_tuner tuner = {.ways = HC_SHM_WAYS};
    unsigned taken[HC_SHM_WAYS] = {0};
    copy(&tuner, (unsigned[]){100, 300, 140}, ROUNDS, taken);
    cr_assert_eq(hc_shm_tuner_best(&tuner), HC_SHM_WAY_LINES);
    copy(&tuner, (unsigned[]){900, 300, 800}, ROUNDS, taken);
    cr_assert_eq(hc_shm_tuner_best(&tuner), HC_SHM_WAY_PAST);
    copy(&tuner, (unsigned[]){100, 300, 140}, ROUNDS, taken);
    cr_assert_eq(hc_shm_tuner_best(&tuner), HC_SHM_WAY_LINES);
}

Test(shm_tuner, a_copy_that_was_interrupted_does_not_change_the_way)
{
    struct hc_shm_tuner tuner = {.ways = HC_SHM_WAYS};
    unsigned taken[HC_SHM_WAYS] = {0};
    copy(&tuner, (unsigned[]){100, 300, 140}, ROUNDS + HC_SHM_TUNER_PERIOD / 2, taken);
    cr_assert_eq(hc_shm_tuner_begin(&tuner), HC_SHM_WAY_LINES);
    hc_shm_tuner_learn(&tuner, 1000000000, LEN);
    cr_assert_eq(hc_shm_tuner_best(&tuner), HC_SHM_WAY_LINES);
}

Test(shm_tuner, short_copies_teach_nothing)
{
    struct hc_shm_tuner tuner = {.ways = HC_SHM_WAYS};
    (void)hc_shm_tuner_begin(&tuner);
    hc_shm_tuner_learn(&tuner, 1, HC_SHM_TUNER_MIN - 1);
    cr_assert(tuner.count == 0 && tuner.cost[HC_SHM_WAY_LINES] == 0);
}
