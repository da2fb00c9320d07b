#include "runtime/base/pool.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

enum { COUNT = 100, PER_SLAB = 7, BYTES = 100 };

Test(pool, objects_are_distinct_aligned_and_whole)
{
    struct hc_pool pool;
    unsigned char *objects[COUNT];
    hc_pool_init(&pool, BYTES, PER_SLAB);
    for (int i = 0; i < COUNT; i++) {
        objects[i] = hc_pool_get(&pool);
        cr_assert_not_null(objects[i]);
        cr_assert_eq((uintptr_t)objects[i] % HC_CACHE_LINE, 0);
        (void)memset(objects[i], i, BYTES);
    }
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < BYTES; k++)
            cr_assert_eq(objects[i][k], i);
    cr_assert_eq(pool.in_use, COUNT);
    hc_pool_fini(&pool);
}

Test(pool, returned_objects_are_used_again_without_growing)
{
    struct hc_pool pool;
    void *objects[PER_SLAB];
    hc_pool_init(&pool, BYTES, PER_SLAB);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < PER_SLAB; i++)
            objects[i] = hc_pool_get(&pool);
        for (int i = 0; i < PER_SLAB; i++)
            hc_pool_put(&pool, objects[i]);
        cr_assert_eq(pool.total, PER_SLAB);
        cr_assert_eq(pool.in_use, 0);
    }
    hc_pool_fini(&pool);
    cr_assert_eq(pool.total, 0);
}
