#include "runtime/core/staging.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { PIECE = 4096, LEAST = 2, MOST = 16, ROUNDS = 4096 };

struct source {
    size_t alive, limit;
};

static hcomm_status_t take(void *arg, size_t size, void **ptr)
{
    struct source *source = arg;
    cr_assert_eq(size, PIECE);
    if (source->alive == source->limit)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no more");
    source->alive++;
    *ptr = malloc(size);
    return HCOMM_OK;
}

static void give(void *arg, void *ptr)
{
    ((struct source *)arg)->alive--;
    free(ptr);
}

static void make(struct hc_staging *staging, struct source *source)
{
    const struct hc_staging_memory memory = {take, give, source};
    cr_assert_eq(hc_staging_init(staging, PIECE, LEAST, MOST, &memory), HCOMM_OK);
}

static void use_at_once(struct hc_staging *staging, size_t count)
{
    void *pieces[MOST];
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(hc_staging_get(staging, &pieces[i]), HCOMM_OK);
    for (size_t i = 0; i < count; i++)
        hc_staging_put(staging, pieces[i]);
}

static struct hc_staging_stats stats_of(struct hc_staging *staging)
{
    struct hc_staging_stats stats;
    hc_staging_stats(staging, &stats);
    return stats;
}

Test(staging_growth, grows_to_the_bound_and_then_says_again)
{
    struct source source = {.limit = MOST};
    struct hc_staging staging;
    make(&staging, &source);
    cr_assert_eq(source.alive, 0, "nothing is allocated before it is needed");
    void *pieces[MOST], *extra = &source;
    for (size_t i = 0; i < MOST; i++)
        cr_assert_eq(hc_staging_get(&staging, &pieces[i]), HCOMM_OK);
    cr_assert_eq(hc_staging_get(&staging, &extra), HCOMM_AGAIN);
    cr_assert_eq(extra, &source);
    hc_staging_put(&staging, pieces[3]);
    cr_assert_eq(hc_staging_get(&staging, &extra), HCOMM_OK);
    cr_assert_eq(extra, pieces[3]);
    for (size_t i = 0; i < MOST; i++)
        hc_staging_put(&staging, pieces[i]);
    hc_staging_fini(&staging);
    cr_assert_eq(source.alive, 0);
}

Test(staging_growth, steady_use_allocates_and_frees_nothing)
{
    struct source source = {.limit = MOST};
    struct hc_staging staging;
    make(&staging, &source);
    for (int i = 0; i < ROUNDS; i++) /* until it has settled */
        use_at_once(&staging, 1 + (size_t)i % 5);
    struct hc_staging_stats before = stats_of(&staging);
    for (int i = 0; i < ROUNDS; i++)
        use_at_once(&staging, 1 + (size_t)i % 5);
    struct hc_staging_stats after = stats_of(&staging);
    cr_assert_gt(after.gets, before.gets);
    cr_assert_eq(after.allocations, before.allocations);
    cr_assert_eq(after.releases, before.releases);
    cr_assert_eq(after.held, 5);
    hc_staging_fini(&staging);
}

Test(staging_growth, shrinks_to_what_is_used_but_not_below_the_least)
{
    struct source source = {.limit = MOST};
    struct hc_staging staging;
    make(&staging, &source);
    use_at_once(&staging, MOST);
    cr_assert_eq(source.alive, MOST);
    for (int i = 0; i < ROUNDS; i++)
        use_at_once(&staging, 4);
    cr_assert_eq(source.alive, 4);
    for (int i = 0; i < ROUNDS; i++)
        use_at_once(&staging, 1);
    cr_assert_eq(source.alive, LEAST);
    use_at_once(&staging, MOST);
    cr_assert_eq(stats_of(&staging).most_in_use, MOST);
    hc_staging_fini(&staging);
    cr_assert_eq(source.alive, 0);
}

Test(staging_growth, failed_allocation_is_reported_and_changes_nothing)
{
    struct source source = {.limit = 1};
    struct hc_staging staging;
    make(&staging, &source);
    void *piece = NULL, *other = NULL;
    cr_assert_eq(hc_staging_get(&staging, &piece), HCOMM_OK);
    cr_assert_eq(hc_staging_get(&staging, &other), HCOMM_ERR_NO_MEMORY);
    cr_assert_null(other);
    cr_assert_eq(stats_of(&staging).in_use, 1);
    hc_staging_put(&staging, piece);
    cr_assert_eq(hc_staging_get(&staging, &other), HCOMM_OK);
    cr_assert_eq(other, piece);
    hc_staging_put(&staging, other);
    hc_staging_fini(&staging);
}
