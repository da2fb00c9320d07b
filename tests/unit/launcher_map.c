/* Where ranks go, on machines that hwloc makes up (HWLOC_SYNTHETIC). */
#include "launcher/map.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

/* Two sockets with a NUMA node each, four cores in each, two threads per core: 16 processors. */
static struct hc_map *two_sockets(void)
{
    struct hc_map *map = NULL;
    cr_assert_eq(setenv("HWLOC_SYNTHETIC", "pack:2 [numa] core:4 pu:2", 1), 0);
    cr_assert_eq(hc_map_load(&map), HCOMM_OK);
    return map;
}

static void expect_places(enum hc_map_by map_by, enum hc_bind_to bind_to, uint32_t num_ranks,
                          const char *const *expected)
{
    struct hc_map *map = two_sockets();
    const struct hc_cpus *cpus[64];
    cr_assert_eq(hc_map_place(map, map_by, bind_to, num_ranks, cpus), HCOMM_OK);
    for (uint32_t i = 0; i < num_ranks; i++)
        cr_assert_str_eq(cpus[i]->list, expected[i], "rank %u: %s, expected %s", i, cpus[i]->list,
                         expected[i]);
    hc_map_free(map);
}

Test(launcher_map, unbound_ranks_may_use_everything)
{
    expect_places(HC_MAP_BY_SLOT, HC_BIND_TO_NONE, 3, (const char *const[]){"0-15", "0-15", "0-15"});
}

Test(launcher_map, ranks_fill_cores_in_order)
{
    expect_places(HC_MAP_BY_CORE, HC_BIND_TO_CORE, 5,
                  (const char *const[]){"0-1", "2-3", "4-5", "6-7", "8-9"});
    expect_places(HC_MAP_BY_SLOT, HC_BIND_TO_CORE, 2, (const char *const[]){"0-1", "2-3"});
}

Test(launcher_map, ranks_take_turns_over_sockets)
{
    expect_places(HC_MAP_BY_SOCKET, HC_BIND_TO_CORE, 5,
                  (const char *const[]){"0-1", "8-9", "2-3", "10-11", "4-5"});
    expect_places(HC_MAP_BY_NUMA, HC_BIND_TO_SOCKET, 3, (const char *const[]){"0-7", "8-15", "0-7"});
}

Test(launcher_map, binding_to_a_wider_object_than_the_mapping)
{
    expect_places(HC_MAP_BY_CORE, HC_BIND_TO_NUMA, 5,
                  (const char *const[]){"0-7", "0-7", "0-7", "0-7", "8-15"});
}

Test(launcher_map, more_ranks_than_cores_wrap_around)
{
    struct hc_map *map = two_sockets();
    const struct hc_cpus *cpus[20];
    cr_assert_eq(hc_map_place(map, HC_MAP_BY_CORE, HC_BIND_TO_CORE, 20, cpus), HCOMM_OK);
    cr_assert_eq(cpus[8], cpus[0]);
    cr_assert_eq(cpus[19], cpus[3]);
    cr_assert_eq(hc_map_processors(map), 16);
    hc_map_free(map);
}

Test(launcher_map, masks_hold_what_lists_say)
{
    struct hc_map *map = two_sockets();
    const struct hc_cpus *cpus[2];
    cr_assert_eq(hc_map_place(map, HC_MAP_BY_SOCKET, HC_BIND_TO_CORE, 2, cpus), HCOMM_OK);
    cr_assert_eq(CPU_COUNT_S(cpus[1]->mask_size, cpus[1]->mask), 2);
    cr_assert(CPU_ISSET_S(8, cpus[1]->mask_size, cpus[1]->mask));
    cr_assert(CPU_ISSET_S(9, cpus[1]->mask_size, cpus[1]->mask));
    cr_assert(cpus[1]->bound);
    cr_assert_str_eq(cpus[1]->where, "core 4");
    hc_map_free(map);
}

Test(launcher_map, levels_that_are_missing_count_as_the_machine)
{
    struct hc_map *map = NULL;
    const struct hc_cpus *cpus[3];
    cr_assert_eq(setenv("HWLOC_SYNTHETIC", "pu:3", 1), 0);
    cr_assert_eq(hc_map_load(&map), HCOMM_OK);
    cr_assert_eq(hc_map_place(map, HC_MAP_BY_SOCKET, HC_BIND_TO_SOCKET, 3, cpus), HCOMM_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_str_eq(cpus[i]->list, "0-2");
        cr_assert_not(cpus[i]->bound);
    }
    cr_assert_eq(hc_map_place(map, HC_MAP_BY_CORE, HC_BIND_TO_CORE, 3, cpus), HCOMM_OK);
    hc_map_free(map);
}

Test(launcher_map, topology_is_exported_as_xml)
{
    struct hc_map *map = two_sockets();
    char *xml = NULL;
    cr_assert_eq(hc_map_export(map, &xml), HCOMM_OK);
    cr_assert(strstr(xml, "<topology"));
    free(xml);
    hc_map_free(map);
}

Test(launcher_map, the_real_machine_has_a_place_for_every_rank)
{
    struct hc_map *map = NULL;
    const struct hc_cpus *cpus[9];
    cr_assert_eq(hc_map_load(&map), HCOMM_OK);
    cr_assert_geq(hc_map_processors(map), 1);
    for (int map_by = HC_MAP_BY_SLOT; map_by <= HC_MAP_BY_SOCKET; map_by++) {
        for (int bind_to = HC_BIND_TO_NONE; bind_to <= HC_BIND_TO_SOCKET; bind_to++) {
            cr_assert_eq(hc_map_place(map, map_by, bind_to, 9, cpus), HCOMM_OK);
            for (int i = 0; i < 9; i++)
                cr_assert_geq(CPU_COUNT_S(cpus[i]->mask_size, cpus[i]->mask), 1);
        }
    }
    hc_map_free(map);
}
