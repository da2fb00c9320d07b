#include "runtime/topo/cpulist.h"
#include "runtime/topo/topo.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A machine of 2 sockets with 1 NUMA node, 1 L3, 2 L2 and 2 cores of 2 threads each: processors 0-7. */
static const char synthetic[] = "pack:2 [numa] l3:1 l2:2 core:1 pu:2";

static struct hc_topo *load(void)
{
    struct hc_topo *topo = NULL;
    (void)setenv("HWLOC_SYNTHETIC", synthetic, 1);
    cr_assert_eq(hc_topo_load(&topo), HCOMM_OK, "%s", hc_error_detail());
    return topo;
}

Test(topo, locality_is_the_closest_common_hardware)
{
    static const struct {
        const char *a, *b;
        hcomm_locality_t locality;
    } cases[] = {
        {"0", "0", HCOMM_LOCALITY_CORE},   {"0", "1", HCOMM_LOCALITY_CORE},
        {"0", "2", HCOMM_LOCALITY_L3},     {"0-3", "1", HCOMM_LOCALITY_L3},
        {"0", "4", HCOMM_LOCALITY_HOST},   {"0-7", "0", HCOMM_LOCALITY_HOST},
        {"6-7", "6", HCOMM_LOCALITY_CORE}, {"0", "900", HCOMM_LOCALITY_HOST},
    };
    struct hc_topo *topo = load();
    for (size_t i = 0; i < hc_array_len(cases); i++) {
        hcomm_locality_t ab = HCOMM_LOCALITY_NONE, ba = HCOMM_LOCALITY_NONE;
        cr_assert_eq(hc_topo_locality(topo, cases[i].a, cases[i].b, &ab), HCOMM_OK);
        cr_assert_eq(hc_topo_locality(topo, cases[i].b, cases[i].a, &ba), HCOMM_OK);
        cr_assert_eq(ab, cases[i].locality, "%s %s: %d", cases[i].a, cases[i].b, (int)ab);
        cr_assert_eq(ba, ab);
    }
    hc_topo_free(topo);
}

Test(topo, object_index_is_minus_one_when_several_are_spanned)
{
    static const struct {
        const char *list;
        hcomm_locality_t level;
        int index;
    } cases[] = {
        {"0-7", HCOMM_LOCALITY_HOST, 0},   {"0-3", HCOMM_LOCALITY_SOCKET, 0},
        {"4-7", HCOMM_LOCALITY_SOCKET, 1}, {"3-4", HCOMM_LOCALITY_SOCKET, -1},
        {"5", HCOMM_LOCALITY_NUMA, 1},     {"2-3", HCOMM_LOCALITY_CORE, 1},
        {"7", HCOMM_LOCALITY_CORE, 3},     {"0,2", HCOMM_LOCALITY_CORE, -1},
        {"4-5", HCOMM_LOCALITY_L2, 2},     {"1,3", HCOMM_LOCALITY_L3, 0},
    };
    struct hc_topo *topo = load();
    for (size_t i = 0; i < hc_array_len(cases); i++) {
        int index = -2;
        cr_assert_eq(hc_topo_object_index(topo, cases[i].list, cases[i].level, &index), HCOMM_OK);
        cr_assert_eq(index, cases[i].index, "%s level %d: %d", cases[i].list, (int)cases[i].level, index);
    }
    int node = -2;
    cr_assert_eq(hc_topo_numa_node(topo, "4,6", &node), HCOMM_OK);
    cr_assert_eq(node, 1);
    cr_assert_eq(hc_topo_numa_node(topo, "0,6", &node), HCOMM_OK);
    cr_assert_eq(node, -1);
    hc_topo_free(topo);
}

Test(topo, malformed_lists_are_errors_and_write_nothing)
{
    struct hc_topo *topo = load();
    hcomm_locality_t locality = HCOMM_LOCALITY_NONE;
    int number = -7;
    cr_assert_eq(hc_topo_locality(topo, "0", "0-", &locality), HCOMM_ERR_PROTOCOL);
    cr_assert_eq(hc_topo_locality(topo, "", "0", &locality), HCOMM_ERR_PROTOCOL);
    cr_assert_eq(locality, HCOMM_LOCALITY_NONE);
    cr_assert_eq(hc_topo_object_index(topo, "x", HCOMM_LOCALITY_HOST, &number), HCOMM_ERR_PROTOCOL);
    cr_assert_eq(hc_topo_object_index(topo, "0", (hcomm_locality_t)17, &number), HCOMM_ERR_INVALID);
    cr_assert_eq(hc_topo_numa_node(topo, "1;2", &number), HCOMM_ERR_PROTOCOL);
    cr_assert_eq(number, -7);
    hc_topo_free(topo);
    hc_topo_free(NULL);
}

Test(topo, own_cpuset_is_what_the_kernel_allows)
{
    char list[4096], small[1];
    cpu_set_t one, before;
    cr_assert_eq(sched_getaffinity(0, sizeof(before), &before), 0);
    cr_assert_eq(hc_topo_own_cpuset(list, sizeof(list)), HCOMM_OK, "%s", hc_error_detail());
    cr_assert(hc_cpulist_valid(list), "%s", list);
    cr_assert_eq(hc_topo_cpu_count(), (unsigned)CPU_COUNT(&before));
    cr_assert_eq(hc_topo_own_cpuset(small, sizeof(small)), HCOMM_ERR_LIMIT);

    int cpu = (int)strtol(list, NULL, 10);
    char expected[16];
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    (void)snprintf(expected, sizeof(expected), "%d", cpu);
    cr_assert_eq(hc_topo_own_cpuset(list, sizeof(list)), HCOMM_OK);
    cr_assert_str_eq(list, expected);
    cr_assert_eq(hc_topo_cpu_count(), 1);
}

Test(topo, this_machine_loads_and_holds_its_own_processors)
{
    char list[4096];
    int index = -1;
    struct hc_topo *topo = NULL;
    cr_assert_eq(hc_topo_load(&topo), HCOMM_OK, "%s", hc_error_detail());
    cr_assert_eq(hc_topo_own_cpuset(list, sizeof(list)), HCOMM_OK);
    cr_assert_eq(hc_topo_object_index(topo, list, HCOMM_LOCALITY_HOST, &index), HCOMM_OK);
    cr_assert_eq(index, 0);
    list[strspn(list, "0123456789")] = '\0';
    hcomm_locality_t locality = HCOMM_LOCALITY_NONE;
    cr_assert_eq(hc_topo_locality(topo, list, list, &locality), HCOMM_OK);
    cr_assert_eq(locality, HCOMM_LOCALITY_CORE);
    hc_topo_free(topo);
}
