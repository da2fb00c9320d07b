/* The sender's bulk pool of the shm transport. */
#include "transports/shm/shm.h"

#include <criterion/criterion.h>
#include <unistd.h>

static struct hc_shm_segment segment;
static struct hc_shm_pool pool;
static struct hc_shm_inflight a, b;
static int fd;

static void setup(void)
{
    cr_assert(hc_shm_segment_create(1, 4, 1, &segment, &fd) == HCOMM_OK);
    cr_assert(hc_shm_pool_init(&pool, &segment, 16) == HCOMM_OK);
    a = b = (struct hc_shm_inflight){0};
}

static void teardown(void)
{
    hc_shm_pool_fini(&pool);
    hc_shm_segment_unmap(&segment);
    (void)close(fd);
}

TestSuite(shm_pool, .init = setup, .fini = teardown);

static uint32_t hand_out(struct hc_shm_inflight *to)
{
    uint32_t index = hc_shm_pool_peek(&pool);
    cr_assert(index < 4);
    hc_shm_pool_send(&pool, to, 0);
    return index;
}

static void give_back(uint32_t index)
{
    atomic_store(&segment.flags[index].busy, 0);
}

Test(shm_pool, chunks_are_distinct_until_none_is_left)
{
    unsigned seen = 0;
    for (int i = 0; i < 4; i++)
        seen |= 1u << hand_out(i % 2 ? &a : &b);
    cr_assert(seen == 0xf);
    cr_assert(hc_shm_pool_peek(&pool) == HC_SHM_NO_CHUNK);
}

Test(shm_pool, chunk_that_came_back_first_is_used_first)
{
    uint32_t index[4];
    for (int i = 0; i < 4; i++)
        index[i] = hand_out(&a);
    give_back(index[0]);
    give_back(index[1]);
    hc_shm_pool_reclaim(&pool, &a);
    cr_assert(a.count == 2);
    cr_assert(hand_out(&b) == index[0] && hand_out(&b) == index[1]);
    cr_assert(hc_shm_pool_peek(&pool) == HC_SHM_NO_CHUNK);
}

Test(shm_pool, chunk_in_the_middle_waits_for_the_older_ones)
{
    uint32_t first = hand_out(&a), second = hand_out(&a);
    give_back(second);
    hc_shm_pool_reclaim(&pool, &a);
    cr_assert(a.count == 2);
    give_back(first);
    hc_shm_pool_reclaim(&pool, &a);
    cr_assert(a.count == 0);
}

Test(shm_pool, peek_alone_takes_nothing)
{
    cr_assert(hc_shm_pool_peek(&pool) == hc_shm_pool_peek(&pool));
    cr_assert(pool.touched == 0 && pool.free_count == 0);
}

Test(shm_pool, chunks_of_a_dead_receiver_come_back)
{
    (void)hand_out(&a);
    (void)hand_out(&b);
    (void)hand_out(&a);
    hc_shm_pool_reclaim(&pool, &a);
    cr_assert(a.count == 2 && pool.free_count == 0);
    hc_shm_pool_abandon(&pool, &a);
    cr_assert(a.count == 0 && b.count == 1 && pool.free_count == 2);
}

Test(shm_pool, rotation_grows_with_what_is_sent_and_not_before)
{
    give_back(hand_out(&a));
    hc_shm_pool_reclaim(&pool, &a);
    hc_shm_pool_count(&pool, HC_SHM_GROW_BYTES - 1);
    cr_assert(pool.touched == 1 && !hc_shm_pool_is_warm(&pool));
    hc_shm_pool_count(&pool, 1);
    cr_assert(pool.touched == 2 && pool.free_count == 2);
    hc_shm_pool_count(&pool, HC_SHM_GROW_BYTES);
    hc_shm_pool_count(&pool, HC_SHM_GROW_BYTES);
    cr_assert(pool.touched == 4 && hc_shm_pool_is_warm(&pool));
    hc_shm_pool_count(&pool, HC_SHM_GROW_BYTES);
    cr_assert(pool.touched == 4);
}

Test(shm_pool, chunk_that_joins_the_rotation_is_used_like_the_others)
{
    uint32_t first = hand_out(&a);
    give_back(first);
    hc_shm_pool_reclaim(&pool, &a);
    hc_shm_pool_count(&pool, HC_SHM_GROW_BYTES);
    cr_assert(hand_out(&a) == first);
    cr_assert(hand_out(&a) == 1 && hand_out(&a) == 2, "a fresh one only when none is free");
}
