#include "runtime/core/barrier.h"
#include "runtime/core/coll.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD = 100, MAX = 70 };

/* A context of one process that believes in a large world; nothing is ever sent. */
static struct hc_boot_job job = {.rank = 3, .size = WORLD, .local_size = 8, .num_hosts = 1};

static struct hcomm_context *make_context(void)
{
    struct hcomm_context *context = calloc(1, sizeof(*context));
    context->job = &job;
    cr_assert_eq(hc_match_init(&context->match), HCOMM_OK);
    cr_assert_eq(hc_comm_create_builtin(context), HCOMM_OK);
    return context;
}

static void free_context(struct hcomm_context *context)
{
    hc_comm_destroy(context->world);
    hc_comm_destroy(context->self);
    hc_barrier_fini(context);
    hc_match_fini(&context->match);
    free(context);
}

static struct hcomm_comm *make_comm(struct hcomm_context *context, uint64_t id, const uint32_t *world,
                                    int size)
{
    uint32_t *copy = malloc((size_t)size * sizeof(*copy));
    (void)memcpy(copy, world, (size_t)size * sizeof(*copy));
    struct hcomm_comm *comm = hc_comm_new(context, id, copy, size, 0);
    cr_assert_not_null(comm);
    return comm;
}

Test(comm_builtin, world_is_everybody_and_self_is_me)
{
    struct hcomm_context *context = make_context();
    cr_assert_eq(hcomm_comm_size(context->world), WORLD);
    cr_assert_eq(hcomm_comm_rank(context->world), 3);
    cr_assert_eq(hcomm_comm_size(context->self), 1);
    cr_assert_eq(hc_comm_find(context, 0), context->world);
    cr_assert_eq(hc_comm_find(context, context->self->id), context->self);
    cr_assert_null(hc_comm_find(context, 1));
    cr_assert_not(context->self->id & HC_COMM_INTERNAL);
    free_context(context);
}

Test(comm_translate, maps_between_subsets_and_marks_strangers)
{
    struct hcomm_context *context = make_context();
    const uint32_t odd[] = {9, 3, 7, 1, 5}, low[] = {0, 1, 2, 3};
    struct hcomm_comm *a = make_comm(context, 77, odd, 5), *b = make_comm(context, 78, low, 4);
    const int ranks[] = {0, 1, HCOMM_RANK_NULL, 2, 3, 4};
    const int expected[] = {HCOMM_UNDEFINED, 3, HCOMM_RANK_NULL, HCOMM_UNDEFINED, 1, HCOMM_UNDEFINED};
    int out[6];
    cr_assert_eq(hcomm_comm_translate(a, ranks, 6, b, out), HCOMM_OK);
    cr_assert_arr_eq(out, expected, sizeof(out));
    cr_assert_eq(hcomm_comm_translate(a, ranks, 2, context->world, out), HCOMM_OK);
    cr_assert_eq(out[0], 9);
    cr_assert_eq(out[1], 3);
    cr_assert_eq(hcomm_comm_translate(a, NULL, 0, b, NULL), HCOMM_OK);
    hc_comm_destroy(a);
    hc_comm_destroy(b);
    free_context(context);
}

Test(comm_translate, refuses_ranks_out_of_range_and_other_contexts)
{
    struct hcomm_context *context = make_context(), *other = make_context();
    int out = 42;
    const int bad[] = {-1, WORLD, -3, 1 << 30};
    for (size_t i = 0; i < hc_array_len(bad); i++)
        cr_assert_eq(hcomm_comm_translate(context->world, &bad[i], 1, context->self, &out),
                     HCOMM_ERR_INVALID);
    const int good = 0;
    cr_assert_eq(hcomm_comm_translate(context->world, &good, 1, other->world, &out), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_comm_translate(context->world, &good, -1, context->world, &out), HCOMM_ERR_INVALID);
    cr_assert_eq(out, 42);
    free_context(other);
    free_context(context);
}

Test(coll, every_block_reaches_everybody_in_the_announced_rounds)
{
    static int held[MAX][MAX]; /* by rank: blocks in the order of arrival, the own one first */
    for (int size = 1; size <= MAX; size++) {
        int counts[MAX];
        for (int rank = 0; rank < size; rank++) {
            held[rank][0] = rank;
            counts[rank] = 1;
        }
        for (unsigned round = 0; round < hc_coll_rounds(size); round++) {
            int before[MAX];
            (void)memcpy(before, counts, sizeof(before));
            for (int rank = 0; rank < size; rank++) {
                struct hc_coll_step step = hc_coll_allgather_step(rank, size, round);
                struct hc_coll_step theirs = hc_coll_allgather_step(step.from, size, round);
                cr_assert_eq(theirs.to, rank, "both sides must agree who talks to whom");
                cr_assert_leq(step.count, before[step.from], "only what is there can be sent");
                for (int i = 0; i < step.count; i++)
                    held[rank][counts[rank]++] = held[step.from][i];
            }
        }
        for (int rank = 0; rank < size; rank++) {
            cr_assert_eq(counts[rank], size);
            for (int i = 0; i < size; i++)
                cr_assert_eq(held[rank][i], (rank + i) % size);
        }
    }
}

/* ---- slots ---- */

static _Alignas(HC_CACHE_LINE) unsigned char area[HC_SYNC_AREA];

static void *fake_sync_area(struct hc_iface *iface)
{
    (void)iface;
    return area;
}

static const struct hc_transport fake_transport = {.name = "fake", .sync_area = fake_sync_area};
static struct hc_iface fake_iface = {.transport = &fake_transport, .attr = {.caps = HC_CAP_SYNC}};

static struct hcomm_context *make_context_with_area(void)
{
    struct hcomm_context *context = make_context();
    (void)memset(area, 0, sizeof(area));
    context->ifaces[0].iface = &fake_iface;
    (void)strcpy(context->ifaces[0].resource.name, "fake");
    context->num_ifaces = 1;
    return context;
}

Test(barrier_slots, none_without_a_sync_area)
{
    struct hcomm_context *context = make_context();
    cr_assert_eq(hc_slot_reserve(context), -1);
    hc_slot_cancel(context, -1);
    free_context(context);
}

Test(barrier_slots, are_distinct_until_they_run_out)
{
    struct hcomm_context *context = make_context_with_area();
    bool seen[HC_BARRIER_SLOTS] = {[HC_SLOT_WORLD] = true};
    for (int i = 1; i < HC_BARRIER_SLOTS; i++) {
        int slot = hc_slot_reserve(context);
        cr_assert(slot >= 0 && slot < HC_BARRIER_SLOTS && !seen[slot]);
        seen[slot] = true;
    }
    cr_assert_eq(hc_slot_reserve(context), -1);
    hc_slot_cancel(context, 5);
    cr_assert_eq(hc_slot_reserve(context), 5);
    free_context(context);
}

Test(barrier_slots, are_offered_again_only_when_every_member_left)
{
    struct hcomm_context *context = make_context_with_area();
    int slot = hc_slot_reserve(context);
    struct hc_barrier_slot *words = (struct hc_barrier_slot *)area + slot;
    hc_slot_bind(context, slot, 3);
    atomic_store(&words->released, 9);
    cr_assert_eq(hc_slot_return(context, slot), HCOMM_OK);
    cr_assert_eq(hc_slot_return(context, slot), HCOMM_OK);
    cr_assert_neq(hc_slot_reserve(context), slot);
    cr_assert_eq(atomic_load(&words->released), 9);
    cr_assert_eq(hc_slot_return(context, slot), HCOMM_OK);
    cr_assert_eq(atomic_load(&words->released), 0, "a new communicator starts at zero");
    cr_assert_eq(hc_slot_return(context, slot), HCOMM_ERR_PROTOCOL);
    cr_assert_eq(hc_slot_reserve(context), slot);
    free_context(context);
}

Test(barrier_slots, members_quicker_than_the_owner_are_counted)
{
    struct hcomm_context *context = make_context_with_area();
    int slot = hc_slot_reserve(context);
    cr_assert_eq(hc_slot_return(context, slot), HCOMM_OK);
    hc_slot_bind(context, slot, 2);
    cr_assert(context->slot_use[slot].used);
    cr_assert_eq(hc_slot_return(context, slot), HCOMM_OK);
    cr_assert_not(context->slot_use[slot].used);
    free_context(context);
}

/* ---- words, as the two members of one host would use them ---- */

Test(barrier_words, arrivals_are_told_apart_over_the_wrap_of_a_byte)
{
    struct hcomm_context *context = make_context_with_area();
    struct hcomm_comm members[2] = {{.context = context, .num_local = 2, .local_index = 0},
                                    {.context = context, .num_local = 2, .local_index = 1}};
    members[0].words = members[1].words = (struct hc_barrier_slot *)area;
    for (uint64_t generation = 2; generation < 1000; generation++) {
        cr_assert_eq(hc_words_missing_arrival(&members[0], generation, 0), 0);
        hc_words_arrive(&members[0], generation);
        cr_assert_eq(hc_words_missing_arrival(&members[0], generation, 0), 1);
        cr_assert_not(hc_words_released(&members[0], generation));
        hc_words_arrive(&members[1], generation);
        cr_assert_eq(hc_words_missing_arrival(&members[1], generation, 0), 2);
        hc_words_release(&members[1], generation);
        cr_assert(hc_words_released(&members[0], generation));
        hc_words_release(&members[0], generation - 1);
        cr_assert(hc_words_released(&members[0], generation), "a late finder does not turn time back");
    }
    free_context(context);
}

Test(barrier_messages, early_ones_wait_for_their_communicator)
{
    struct hcomm_context *context = make_context();
    const uint32_t pair[] = {3, 8};
    struct hc_wire_barrier message = {.comm = 99, .source = 1, .round = 0, .generation = 1};
    hc_barrier_arrive(context, 8, &message);
    message.generation = 2;
    hc_barrier_arrive(context, 8, &message);
    message.comm = 98;
    hc_barrier_arrive(context, 8, &message);
    cr_assert_eq(context->num_early_barriers, 3);
    struct hcomm_comm *comm = make_comm(context, 99, pair, 2);
    hc_barrier_claim(comm);
    cr_assert_eq(comm->arrived[0], 2);
    cr_assert_not(comm->shared_ok, "the sender said that it cannot");
    cr_assert_eq(context->num_early_barriers, 1);
    hc_comm_destroy(comm);
    free_context(context);
}
