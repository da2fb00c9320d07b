#include "runtime/base/clock.h"
#include "runtime/boot/boot_impl.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

Test(boot_util, rank_lists_are_sorted_and_own_rank_found)
{
    uint32_t *ranks = NULL, count = 0, index = 9;
    cr_assert_eq(hc_boot_parse_ranks("7,0,3", 8, 3, &ranks, &count, &index), HCOMM_OK);
    cr_assert(count == 3 && index == 1 && ranks[0] == 0 && ranks[1] == 3 && ranks[2] == 7);
    free(ranks);
}

Test(boot_util, bad_rank_lists_are_refused_with_the_text)
{
    static const char *const texts[] = {"",  ",",   "1,", ",1", "1,,0", "0,1,1",      "0,8",
                                        "0", "1-2", "1 ", "-1", "x1",   "4294967297", "0,1,2,3,4,5,6,7,8"};
    for (size_t i = 0; i < hc_array_len(texts); i++) {
        uint32_t *ranks = NULL, count = 77, index = 77;
        cr_assert_eq(hc_boot_parse_ranks(texts[i], 8, 1, &ranks, &count, &index), HCOMM_ERR_BOOTSTRAP, "'%s'",
                     texts[i]);
        cr_assert(!ranks && count == 77 && index == 77);
        cr_assert(strstr(hc_error_detail(), texts[i]), "%s", hc_error_detail());
    }
}

Test(boot_util, hosts_are_numbered_by_their_lowest_rank)
{
    static const uint32_t ids[] = {42, 7, 7, 42, 9, 7, UINT32_MAX, 9};
    static const uint32_t expected[] = {0, 1, 1, 0, 2, 1, 3, 2};
    uint32_t host_of[hc_array_len(ids)], hosts = 0;
    cr_assert_eq(hc_boot_number_hosts(ids, hc_array_len(ids), host_of, &hosts), HCOMM_OK);
    cr_assert_eq(hosts, 4);
    cr_assert_arr_eq(host_of, expected, sizeof(expected));
}

struct work {
    int in, out;
};

static void double_it(void *argument)
{
    struct work *work = argument;
    work->out = 2 * work->in;
}

Test(boot_util, bounded_run_gives_back_results)
{
    struct work work = {.in = 21};
    cr_assert_eq(hc_boot_run_bounded(double_it, &work, sizeof(work), 20000), HCOMM_OK, "%s",
                 hc_error_detail());
    cr_assert_eq(work.out, 42);
}

static sem_t given_up, worked;

static void double_it_late(void *argument)
{
    while (sem_wait(&given_up) != 0)
        continue;
    double_it(argument);
    (void)sem_post(&worked);
}

Test(boot_util, bounded_run_gives_up_at_its_deadline_and_the_late_worker_harms_nothing)
{
    struct work work = {.in = 21};
    uint64_t start = hc_clock_ns();
    cr_assert(sem_init(&given_up, 0, 0) == 0 && sem_init(&worked, 0, 0) == 0);
    cr_assert_eq(hc_boot_run_bounded(double_it_late, &work, sizeof(work), 100), HCOMM_ERR_TIMEOUT);
    cr_assert_geq(hc_clock_ns() - start, UINT64_C(100000000));
    cr_assert_eq(sem_post(&given_up), 0);
    while (sem_wait(&worked) != 0)
        continue;
    cr_assert_eq(work.out, 0);
}
