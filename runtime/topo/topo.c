#include "runtime/topo/topo.h"

#include "runtime/topo/cpulist.h"

#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct hc_topo {
    hwloc_topology_t hwloc;
};

static const hwloc_obj_type_t level_types[] = {
    [HCOMM_LOCALITY_HOST] = HWLOC_OBJ_MACHINE,  [HCOMM_LOCALITY_SOCKET] = HWLOC_OBJ_PACKAGE,
    [HCOMM_LOCALITY_NUMA] = HWLOC_OBJ_NUMANODE, [HCOMM_LOCALITY_L3] = HWLOC_OBJ_L3CACHE,
    [HCOMM_LOCALITY_L2] = HWLOC_OBJ_L2CACHE,    [HCOMM_LOCALITY_CORE] = HWLOC_OBJ_CORE,
};

/*
 * Only the objects asked for, no I/O, and not the x86 back end: it visits every processor with cpuid, which
 * takes milliseconds, to learn what Linux already tells in sysfs. Processors that this process may not use
 * are kept, because peers of the same host may.
 */
static int configure(hwloc_topology_t hwloc)
{
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_NO_DISTANCES |
                          HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
    if (hwloc_topology_set_flags(hwloc, flags) < 0 ||
        hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86") < 0 ||
        hwloc_topology_set_all_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_NONE) < 0)
        return -1;
    for (int level = HCOMM_LOCALITY_SOCKET; level <= HCOMM_LOCALITY_CORE; level++)
        if (hwloc_topology_set_type_filter(hwloc, level_types[level], HWLOC_TYPE_FILTER_KEEP_ALL) < 0)
            return -1;
    return 0;
}

hcomm_status_t hc_topo_load(struct hc_topo **topo)
{
    struct hc_topo *loaded = calloc(1, sizeof(*loaded));
    if (!loaded)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the host's topology");
    if (hwloc_topology_init(&loaded->hwloc) < 0)
        goto free_loaded;
    if (configure(loaded->hwloc) < 0 || hwloc_topology_load(loaded->hwloc) < 0)
        goto destroy_hwloc;
    *topo = loaded;
    return HCOMM_OK;

destroy_hwloc:
    hwloc_topology_destroy(loaded->hwloc);
free_loaded:
    free(loaded);
    return hc_error(HCOMM_ERR_IO, "hwloc cannot read this host's topology: %s", hc_errno_text(errno));
}

void hc_topo_free(struct hc_topo *topo)
{
    if (!topo)
        return;
    hwloc_topology_destroy(topo->hwloc);
    free(topo);
}

static hcomm_status_t parse_set(const char *list, hwloc_bitmap_t *set)
{
    if (!hc_cpulist_valid(list))
        return hc_error(HCOMM_ERR_PROTOCOL, "'%.64s' is not a processor list such as 0-3,8", list);
    hwloc_bitmap_t bitmap = hwloc_bitmap_alloc();
    if (!bitmap)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a processor set");
    const char *cursor = list;
    unsigned next_free = 0, first = 0, last = 0;
    while (hc_cpulist_next(&cursor, &next_free, &first, &last)) {
        if (hwloc_bitmap_set_range(bitmap, first, (int)last) < 0) {
            hwloc_bitmap_free(bitmap);
            return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a processor set");
        }
    }
    *set = bitmap;
    return HCOMM_OK;
}

/* The object of a level that contains the set; NULL when none does. */
static hwloc_obj_t object_around(const struct hc_topo *topo, hwloc_const_bitmap_t set, int level)
{
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(topo->hwloc, level_types[level], object)))
        if (hwloc_bitmap_isincluded(set, object->cpuset))
            return object;
    return NULL;
}

static hcomm_locality_t closest_level(const struct hc_topo *topo, hwloc_const_bitmap_t both)
{
    for (int level = HCOMM_LOCALITY_CORE; level > HCOMM_LOCALITY_HOST; level--)
        if (object_around(topo, both, level))
            return (hcomm_locality_t)level;
    return HCOMM_LOCALITY_HOST;
}

hcomm_status_t hc_topo_locality(const struct hc_topo *topo, const char *a, const char *b,
                                hcomm_locality_t *locality)
{
    hwloc_bitmap_t set_a = NULL, set_b = NULL;
    hcomm_status_t status = parse_set(a, &set_a);
    if (status != HCOMM_OK)
        return status;
    status = parse_set(b, &set_b);
    if (status != HCOMM_OK)
        goto free_a;
    if (hwloc_bitmap_or(set_a, set_a, set_b) < 0)
        status = hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a processor set");
    else
        *locality = closest_level(topo, set_a);
    hwloc_bitmap_free(set_b);
free_a:
    hwloc_bitmap_free(set_a);
    return status;
}

/* Which of an object's two numbers is wanted. */
enum number { LOGICAL, OPERATING_SYSTEM };

static hcomm_status_t object_number(const struct hc_topo *topo, const char *list, int level,
                                    enum number which, int *number)
{
    hwloc_bitmap_t set = NULL;
    hcomm_status_t status = parse_set(list, &set);
    if (status != HCOMM_OK)
        return status;
    hwloc_obj_t object = object_around(topo, set, level);
    hwloc_bitmap_free(set);
    if (!object)
        *number = -1;
    else
        *number = (int)(which == LOGICAL ? object->logical_index : object->os_index);
    return HCOMM_OK;
}

hcomm_status_t hc_topo_object_index(const struct hc_topo *topo, const char *list, hcomm_locality_t level,
                                    int *index)
{
    if (level < HCOMM_LOCALITY_HOST || level > HCOMM_LOCALITY_CORE)
        return hc_error(HCOMM_ERR_INVALID, "locality level %d: use HCOMM_LOCALITY_HOST … _CORE", (int)level);
    if (level != HCOMM_LOCALITY_HOST)
        return object_number(topo, list, level, LOGICAL, index);
    if (!hc_cpulist_valid(list))
        return hc_error(HCOMM_ERR_PROTOCOL, "'%.64s' is not a processor list such as 0-3,8", list);
    *index = 0;
    return HCOMM_OK;
}

hcomm_status_t hc_topo_numa_node(const struct hc_topo *topo, const char *list, int *node)
{
    return object_number(topo, list, HCOMM_LOCALITY_NUMA, OPERATING_SYSTEM, node);
}

static char library_version[32];

static void write_library_version(void)
{
    unsigned version = hwloc_get_api_version(); /* 0x00XXYYZZ */
    (void)snprintf(library_version, sizeof(library_version), "interface %u.%u.%u", version >> 16,
                   (version >> 8) & 0xff, version & 0xff);
}

const char *hc_topo_library_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, write_library_version);
    return library_version;
}
