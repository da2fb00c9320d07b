#include "runtime/base/arena.h"
#include "runtime/base/share.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { HUGE = 2 << 20 };

static struct hc_arena *make(size_t size)
{
    struct hc_arena *arena = NULL;
    cr_assert_eq(hc_arena_create(size, 64, &arena), HCOMM_OK, "%s", hcomm_error_detail());
    cr_assert_not_null(arena->control, "memfds are not to be had on this machine");
    return arena;
}

static struct hc_arena_map reach(const struct hc_arena *arena)
{
    struct hc_arena_map map;
    cr_assert_eq(hc_arena_map_open(arena->fd, arena->inode, arena->size, arena->id, &map), HCOMM_OK, "%s",
                 hcomm_error_detail());
    return map;
}

static unsigned open_files(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    cr_assert_not_null(folder);
    while (readdir(folder))
        count++;
    (void)closedir(folder);
    return count;
}

Test(arena, what_one_side_writes_the_other_reads)
{
    struct hc_arena *arena = make(HUGE);
    struct hc_arena_map map = reach(arena);
    cr_assert_neq(map.base, arena->base);
    memset(arena->base, 0x5a, arena->size);
    cr_assert_eq(map.base[0], 0x5a);
    map.base[arena->size - 1] = 7;
    cr_assert_eq(arena->base[arena->size - 1], 7);
    hc_arena_map_close(&map);
    hc_arena_destroy(arena);
}

Test(arena, sizes_are_rounded_up_and_alignment_is_kept)
{
    for (size_t alignment = 64; alignment <= (size_t)64 << 20; alignment *= 8) {
        struct hc_arena *arena = NULL;
        cr_assert_eq(hc_arena_create(1, alignment, &arena), HCOMM_OK);
        cr_assert_eq(arena->size, HUGE);
        cr_assert_eq((uintptr_t)arena->base % alignment, 0);
        hc_arena_destroy(arena);
    }
}

Test(arena, another_inode_size_or_id_is_refused)
{
    struct hc_arena *arena = make(HUGE), *other = make(2 * (size_t)HUGE);
    struct hc_arena_map map = {0};
    cr_assert_eq(hc_arena_map_open(arena->fd, arena->inode + 1, arena->size, arena->id, &map),
                 HCOMM_ERR_PROTOCOL);
    cr_assert_eq(hc_arena_map_open(arena->fd, arena->inode, arena->size * 2, arena->id, &map),
                 HCOMM_ERR_PROTOCOL);
    cr_assert_eq(hc_arena_map_open(arena->fd, arena->inode, arena->size + 1, arena->id, &map),
                 HCOMM_ERR_PROTOCOL);
    cr_assert_eq(hc_arena_map_open(arena->fd, arena->inode, arena->size, other->id, &map),
                 HCOMM_ERR_PROTOCOL);
    cr_assert_eq(hc_arena_map_open(-1, arena->inode, arena->size, arena->id, &map), HCOMM_ERR_PROTOCOL);
    cr_assert_null(map.base, "the result was written though the call failed");
    hc_arena_destroy(other);
    hc_arena_destroy(arena);
}

Test(arena, memory_of_a_destroyed_arena_is_dead_zero_and_still_safe_to_touch)
{
    struct hc_arena *arena = make(HUGE);
    memset(arena->base, 1, arena->size);
    struct hc_arena_map map = reach(arena);
    cr_assert(hc_arena_map_alive(&map));
    hc_arena_destroy(arena);
    cr_assert_not(hc_arena_map_alive(&map));
    for (size_t i = 0; i < map.size; i++)
        cr_assert_eq(map.base[i], 0, "byte %zu was kept", i);
    map.base[0] = 1;
    hc_arena_map_close(&map);
    hc_arena_map_close(&map);
}

Test(arena, destroying_closes_what_creating_opened)
{
    unsigned before = open_files();
    for (int i = 0; i < 100; i++) {
        struct hc_arena *arena = make(HUGE);
        struct hc_arena_map map = reach(arena);
        hc_arena_destroy(arena);
        hc_arena_map_close(&map);
    }
    cr_assert_eq(open_files(), before);
}

Test(arena, lookup_finds_ranges_inside_only)
{
    struct hc_arena *a = make(HUGE), *b = make(HUGE);
    int local = 0;
    cr_assert_eq(hc_arena_find(a->base, a->size), a);
    cr_assert_eq(hc_arena_find(b->base + b->size - 1, 1), b);
    cr_assert_null(hc_arena_find(a->base + a->size - 1, 2));
    cr_assert_null(hc_arena_find(a->base - 1, 2));
    cr_assert_null(hc_arena_find(a->base, SIZE_MAX));
    cr_assert_null(hc_arena_find(a->control, 1), "the control page is nobody's buffer");
    cr_assert_null(hc_arena_find(&local, sizeof(local)));
    const void *gone = a->base;
    hc_arena_destroy(a);
    cr_assert_null(hc_arena_find(gone, 1));
    hc_arena_destroy(b);
    hc_arena_destroy(NULL);
}

Test(arena, preparing_keeps_contents)
{
    struct hc_arena *arena = make(3 * (size_t)HUGE);
    for (size_t i = 0; i < arena->size; i += 97)
        arena->base[i] = (unsigned char)(i * 31);
    hc_arena_prepare(arena, arena->base + 5, arena->size - 5);
    hc_arena_prepare(arena, arena->base, arena->size);
    for (size_t i = 0; i < arena->size; i += 97)
        cr_assert_eq(arena->base[i], (unsigned char)(i * 31));
    hc_arena_destroy(arena);
}

/* ---- sharing out ---- */

struct worker {
    struct hc_share *share;
    uint32_t generation;
    enum hc_share_end end;
    size_t total;
    atomic_uchar *times; /* per byte of the transfer, how often it was claimed */
    size_t claimed;
};

static void *claim_all(void *arg)
{
    enum { LEAST = 8192, MOST = 1 << 20 };
    struct worker *worker = arg;
    size_t from, len;
    while (hc_share_claim(worker->share, worker->generation, worker->end, worker->total, LEAST, MOST, &from,
                          &len)) {
        cr_assert(len > 0 && len <= MOST && from + len <= worker->total);
        cr_assert(len >= LEAST / 2 || from + len == worker->total || worker->total < 2 * LEAST);
        for (size_t i = from; i < from + len; i++)
            atomic_fetch_add(&worker->times[i], 1);
        worker->claimed += len;
    }
    return NULL;
}

static void share_between_two(struct hc_share_pool *pool, size_t total)
{
    uint32_t index, generation;
    pthread_t thread;
    cr_assert(hc_share_open(pool, &index, &generation));
    struct worker here = {&pool->shares[index], generation, HC_SHARE_FRONT, total, calloc(total, 1), 0};
    struct worker there = here;
    there.end = HC_SHARE_BACK;
    cr_assert_eq(pthread_create(&thread, NULL, claim_all, &there), 0);
    (void)claim_all(&here);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(here.claimed + there.claimed, total);
    for (size_t i = 0; i < total; i++)
        cr_assert_eq(atomic_load(&here.times[i]), 1, "byte %zu of %zu", i, total);
    cr_assert_eq(hc_share_close(pool, index, total), total);
    free(here.times);
}

static struct hc_share words[HC_SHARES];

Test(share, two_claim_every_byte_once)
{
    struct hc_share_pool pool;
    hc_share_pool_init(&pool, words);
    const size_t totals[] = {1, 4095, 4096, 4097, 32768, 131072, 131073, (1 << 20) - 1, 5 << 20};
    for (size_t i = 0; i < hc_array_len(totals); i++)
        share_between_two(&pool, totals[i]);
}

/* Expected parts, in turn from the front and the back. */
static void expect_part(struct worker *worker, enum hc_share_end end, size_t from, size_t len)
{
    enum { LEAST = 32768, MOST = 1 << 20 };
    size_t at = 1, got = 0;
    cr_assert(hc_share_claim(worker->share, worker->generation, end, worker->total, LEAST, MOST, &at, &got));
    cr_assert_eq(at, from, "%zu, not %zu", at, from);
    cr_assert_eq(got, len, "%zu, not %zu", got, len);
}

static struct worker open_one(struct hc_share_pool *pool, size_t total)
{
    uint32_t index, generation;
    hc_share_pool_init(pool, words);
    cr_assert(hc_share_open(pool, &index, &generation));
    return (struct worker){&pool->shares[index], generation, HC_SHARE_FRONT, total, NULL, 0};
}

Test(share, each_side_gets_the_same_half_every_time)
{
    struct hc_share_pool pool;
    struct worker one = open_one(&pool, 100000);
    expect_part(&one, HC_SHARE_FRONT, 0, 49152);
    cr_assert_eq(hc_share_close(&pool, 0, one.total), 49152);
    one = open_one(&pool, 100000);
    expect_part(&one, HC_SHARE_BACK, 53248, 46752);
    cr_assert_eq(hc_share_close(&pool, 0, one.total), 46752);
    one = open_one(&pool, 131072);
    expect_part(&one, HC_SHARE_BACK, 65536, 65536);
    expect_part(&one, HC_SHARE_FRONT, 0, 65536);
    cr_assert_eq(hc_share_close(&pool, 0, one.total), one.total);
}

Test(share, who_is_alone_gets_everything)
{
    struct hc_share_pool pool;
    struct worker one = open_one(&pool, 196608);
    expect_part(&one, HC_SHARE_BACK, 98304, 98304);
    expect_part(&one, HC_SHARE_BACK, 65536, 32768);
    expect_part(&one, HC_SHARE_BACK, 32768, 32768);
    expect_part(&one, HC_SHARE_BACK, 0, 32768);
    cr_assert_eq(hc_share_close(&pool, 0, one.total), one.total);
}

Test(share, a_transfer_of_very_many_units_is_shared_in_larger_ones)
{
    struct hc_share_pool pool;
    struct worker one = open_one(&pool, HC_SHARE_MAX);
    expect_part(&one, HC_SHARE_FRONT, 0, 1 << 20);
    expect_part(&one, HC_SHARE_BACK, HC_SHARE_MAX - (1 << 20), 1 << 20);
    expect_part(&one, HC_SHARE_FRONT, 1 << 20, 1 << 20);
    cr_assert_eq(hc_share_close(&pool, 0, one.total), 3 << 20);
}

Test(share, nothing_is_left_over_where_a_unit_is_larger_than_the_least_part)
{
    struct hc_share_pool pool;
    struct worker one = open_one(&pool, UINT32_MAX);
    size_t from, len, claimed = 0;
    while (hc_share_claim(one.share, one.generation, one.end, one.total, 4096, 1 << 20, &from, &len)) {
        cr_assert_eq(from, claimed);
        claimed += len;
    }
    cr_assert_eq(claimed, one.total);
}

Test(share, nothing_is_claimed_after_closing_or_with_another_generation)
{
    struct hc_share_pool pool;
    uint32_t index, generation, again, next_generation;
    size_t from = 0, len = 0;
    hc_share_pool_init(&pool, words);
    cr_assert_not(hc_share_claim(&words[0], 0, HC_SHARE_FRONT, HUGE, 4096, HUGE, &from, &len),
                  "none was ever opened");
    cr_assert(hc_share_open(&pool, &index, &generation));
    struct hc_share *share = &words[index];
    cr_assert_not(hc_share_claim(share, generation + 1, HC_SHARE_FRONT, HUGE, 4096, HUGE, &from, &len));
    cr_assert(hc_share_claim(share, generation, HC_SHARE_FRONT, HUGE, 4096, HUGE, &from, &len));
    cr_assert_eq(hc_share_close(&pool, index, HUGE), len, "what was claimed is told");
    cr_assert_not(hc_share_claim(share, generation, HC_SHARE_FRONT, HUGE, 4096, HUGE, &from, &len));
    cr_assert_not(hc_share_claim(share, 0, HC_SHARE_FRONT, HUGE, 4096, HUGE, &from, &len),
                  "0 is no generation");
    cr_assert(hc_share_open(&pool, &again, &next_generation));
    cr_assert_eq(again, index, "the first free one is taken");
    cr_assert_neq(next_generation, generation);
    cr_assert_not(hc_share_claim(share, generation, HC_SHARE_FRONT, HUGE, 4096, HUGE, &from, &len));
}

Test(share, shares_run_out_and_come_back)
{
    struct hc_share_pool pool;
    uint32_t index, generation;
    uint64_t seen = 0;
    hc_share_pool_init(&pool, words);
    for (int i = 0; i < HC_SHARES; i++) {
        cr_assert(hc_share_open(&pool, &index, &generation));
        seen |= UINT64_C(1) << index;
    }
    cr_assert_eq(seen, (UINT64_C(1) << HC_SHARES) - 1, "each is given once");
    cr_assert_not(hc_share_open(&pool, &index, &generation));
    (void)hc_share_close(&pool, 17, 1);
    cr_assert(hc_share_open(&pool, &index, &generation));
    cr_assert_eq(index, 17);
}
