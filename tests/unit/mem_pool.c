#include "runtime/core/mem.h"

#include <criterion/criterion.h>
#include <hcomm.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 1 << 20, ALIGNMENT = 64, BLOCKS = 200, STEPS = 20000 };

static struct hc_host_pool *make(size_t limit, size_t alignment)
{
    struct hc_host_pool *pool = NULL;
    cr_assert_eq(hc_host_pool_create(limit, alignment, &pool), HCOMM_OK);
    return pool;
}

static void *take(struct hc_host_pool *pool, size_t size)
{
    void *ptr = NULL;
    cr_assert_eq(hc_host_pool_alloc(pool, size, &ptr), HCOMM_OK, "%s", hcomm_error_detail());
    return ptr;
}

Test(mem_pool, blocks_are_aligned_to_any_legal_alignment)
{
    for (size_t alignment = 8; alignment <= (size_t)2 << 20; alignment *= 2) {
        struct hc_host_pool *pool = make((size_t)8 << 20, alignment);
        char *a = take(pool, 1), *b = take(pool, alignment + 1);
        cr_assert_eq((uintptr_t)a % alignment, 0);
        cr_assert_eq((uintptr_t)b % alignment, 0);
        cr_assert_eq(hc_host_pool_used(pool), 3 * alignment, "lengths are rounded up");
        a[alignment - 1] = 1;
        b[2 * alignment - 1] = 2;
        hc_host_pool_destroy(pool);
    }
}

Test(mem_pool, limit_is_reached_exactly_and_the_error_tells_used_and_limit)
{
    struct hc_host_pool *pool = make(LIMIT + ALIGNMENT - 1, ALIGNMENT);
    void *ptr = take(pool, LIMIT - ALIGNMENT), *last = take(pool, ALIGNMENT), *untouched = pool;
    cr_assert_eq(hc_host_pool_alloc(pool, 1, &untouched), HCOMM_ERR_LIMIT);
    cr_assert_eq(untouched, pool);
    cr_assert(strstr(hcomm_error_detail(), "1048576 of 1048576"), "%s", hcomm_error_detail());
    cr_assert_eq(hc_host_pool_free(pool, last), HCOMM_OK);
    cr_assert_eq(take(pool, 1), last);
    cr_assert_eq(hc_host_pool_free(pool, ptr), HCOMM_OK);
    hc_host_pool_destroy(pool);
}

Test(mem_pool, sizes_near_the_end_of_size_t_are_refused)
{
    struct hc_host_pool *pool = make(LIMIT, ALIGNMENT);
    void *ptr = NULL;
    cr_assert_eq(hc_host_pool_alloc(pool, SIZE_MAX, &ptr), HCOMM_ERR_LIMIT);
    cr_assert_eq(hc_host_pool_alloc(pool, SIZE_MAX - ALIGNMENT, &ptr), HCOMM_ERR_LIMIT);
    cr_assert_eq(hc_host_pool_alloc(pool, LIMIT + 1, &ptr), HCOMM_ERR_LIMIT);
    cr_assert_null(ptr);
    hc_host_pool_destroy(pool);
}

Test(mem_pool, foreign_inner_and_freed_pointers_are_refused)
{
    struct hc_host_pool *pool = make(LIMIT, ALIGNMENT);
    char *ptr = take(pool, 1000), local;
    cr_assert_eq(hc_host_pool_free(pool, &local), HCOMM_ERR_INVALID);
    cr_assert_eq(hc_host_pool_free(pool, ptr + ALIGNMENT), HCOMM_ERR_INVALID);
    cr_assert_eq(hc_host_pool_free(pool, ptr + 1), HCOMM_ERR_INVALID);
    cr_assert_eq(hc_host_pool_free(pool, ptr), HCOMM_OK);
    cr_assert_eq(hc_host_pool_free(pool, ptr), HCOMM_ERR_INVALID);
    cr_assert(hc_host_pool_is_consistent(pool));
    hc_host_pool_destroy(pool);
}

Test(mem_pool, freed_neighbours_join_into_the_whole_again)
{
    struct hc_host_pool *pool = make(LIMIT, ALIGNMENT);
    void *blocks[16];
    for (int i = 0; i < 16; i++)
        blocks[i] = take(pool, LIMIT / 16);
    for (int i = 0; i < 16; i += 2)
        cr_assert_eq(hc_host_pool_free(pool, blocks[i]), HCOMM_OK);
    void *ptr = NULL;
    cr_assert_eq(hc_host_pool_alloc(pool, LIMIT / 8, &ptr), HCOMM_ERR_LIMIT,
                 "no two neighbours are free yet");
    for (int i = 1; i < 16; i += 2)
        cr_assert_eq(hc_host_pool_free(pool, blocks[i]), HCOMM_OK);
    cr_assert_eq(take(pool, LIMIT), blocks[0]);
    hc_host_pool_destroy(pool);
}

struct piece {
    unsigned char *ptr;
    size_t size;
    unsigned char fill;
};

static void drop(struct hc_host_pool *pool, struct piece *piece)
{
    for (size_t i = 0; i < piece->size; i++)
        cr_assert_eq(piece->ptr[i], piece->fill, "blocks overlap");
    cr_assert_eq(hc_host_pool_free(pool, piece->ptr), HCOMM_OK);
    piece->ptr = NULL;
}

Test(mem_pool, random_use_keeps_blocks_apart_and_records_consistent)
{
    struct hc_host_pool *pool = make(LIMIT, ALIGNMENT);
    struct piece pieces[BLOCKS] = {{0}};
    unsigned refused = 0;
    srand(20261130);
    for (int step = 0; step < STEPS; step++) {
        struct piece *piece = &pieces[rand() % BLOCKS];
        if (piece->ptr) {
            drop(pool, piece);
        } else {
            size_t size = 1 + (size_t)rand() % (rand() % 20 ? 4000 : 200000);
            void *ptr = NULL;
            hcomm_status_t status = hc_host_pool_alloc(pool, size, &ptr);
            cr_assert(status == HCOMM_OK || status == HCOMM_ERR_LIMIT);
            refused += status == HCOMM_ERR_LIMIT;
            if (status == HCOMM_OK) {
                *piece = (struct piece){.ptr = ptr, .size = size, .fill = (unsigned char)rand()};
                (void)memset(ptr, piece->fill, size);
            }
        }
        if (step % 64 == 0)
            cr_assert(hc_host_pool_is_consistent(pool));
    }
    cr_assert_gt(refused, 0, "the pool was never full: the test is too gentle");
    for (int i = 0; i < BLOCKS; i++)
        if (pieces[i].ptr)
            drop(pool, &pieces[i]);
    cr_assert_eq(hc_host_pool_used(pool), 0);
    cr_assert_not_null(take(pool, LIMIT));
    hc_host_pool_destroy(pool);
}

Test(mem_public, pool_size_and_alignment_settings_hold)
{
    hcomm_config_t config = {.mem_pool_size = 1 << 20, .align_size = 4096};
    hcomm_handle_t handle = NULL;
    cr_assert_eq(hcomm_init(&handle, &config), HCOMM_OK, "%s", hcomm_error_detail());
    cr_assert_null(hcomm_alloc_host_mem(handle, 0));
    cr_assert_null(hcomm_alloc_host_mem(NULL, 8));
    char local = 0;
    cr_assert_eq(hcomm_free_host_mem(handle, &local), HCOMM_ERR_INVALID);
    char *ptr = hcomm_alloc_host_mem(handle, (1 << 20) - 1);
    cr_assert_not_null(ptr);
    cr_assert_eq((uintptr_t)ptr % 4096, 0);
    cr_assert_null(hcomm_alloc_host_mem(handle, 1));
    cr_assert(strstr(hcomm_error_detail(), "mem_pool_size"), "%s", hcomm_error_detail());
    cr_assert_eq(hcomm_free_host_mem(handle, NULL), HCOMM_OK);
    cr_assert_eq(hcomm_free_host_mem(handle, ptr), HCOMM_OK);
    cr_assert_eq(hcomm_free_host_mem(handle, ptr), HCOMM_ERR_INVALID);
    cr_assert_not_null(hcomm_alloc_host_mem(handle, 1 << 20), "what finalize finds in use it frees");
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}
