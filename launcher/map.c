#include "launcher/map.h"

#include <hwloc.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hc_map {
    hwloc_topology_t topology;
    hwloc_bitmap_t allowed;
    struct hc_cpus *sets; /* one per core in the order of ranks, or one for all when unbound */
    unsigned num_sets;
};

static const struct {
    hwloc_obj_type_t type;
    const char *name;
} bind_levels[] = {
    [HC_BIND_TO_NONE] = {HWLOC_OBJ_MACHINE, "all processors"},
    [HC_BIND_TO_CORE] = {HWLOC_OBJ_CORE, "core"},
    [HC_BIND_TO_NUMA] = {HWLOC_OBJ_NUMANODE, "NUMA node"},
    [HC_BIND_TO_SOCKET] = {HWLOC_OBJ_PACKAGE, "socket"},
};

static const hwloc_obj_type_t map_levels[] = {
    [HC_MAP_BY_SLOT] = HWLOC_OBJ_MACHINE,
    [HC_MAP_BY_CORE] = HWLOC_OBJ_MACHINE,
    [HC_MAP_BY_NUMA] = HWLOC_OBJ_NUMANODE,
    [HC_MAP_BY_SOCKET] = HWLOC_OBJ_PACKAGE,
};

/*
 * Debian's hwloc opens its plugins (OpenCL, GL, CUDA: they dial display servers and drivers) when the first
 * topology is made; processors are all that is needed here. The variable is gone again before ranks start.
 */
static int init_without_plugins(hwloc_topology_t *topology)
{
    static const char variable[] = "HWLOC_PLUGINS_PATH";
    bool ours = setenv(variable, "/dev/null", 0) == 0 && strcmp(getenv(variable), "/dev/null") == 0;
    int result = hwloc_topology_init(topology);
    if (ours)
        (void)unsetenv(variable);
    return result;
}

static hcomm_status_t load_topology(hwloc_topology_t *topology)
{
    if (init_without_plugins(topology) != 0)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the machine's topology");
    (void)hwloc_topology_set_io_types_filter(*topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(*topology) != 0) {
        hcomm_status_t status =
            hc_error(HCOMM_ERR_IO, "hwloc cannot read the machine's topology: %s", hc_errno_text(errno));
        hwloc_topology_destroy(*topology);
        return status;
    }
    return HCOMM_OK;
}

/* What this process may use; everything in the topology when the kernel does not tell. */
static hwloc_bitmap_t load_allowed(hwloc_topology_t topology)
{
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (!allowed)
        return NULL;
    hwloc_const_bitmap_t known = hwloc_topology_get_allowed_cpuset(topology);
    if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) != 0)
        (void)hwloc_bitmap_copy(allowed, known);
    (void)hwloc_bitmap_and(allowed, allowed, known);
    if (hwloc_bitmap_iszero(allowed))
        (void)hwloc_bitmap_copy(allowed, known);
    return allowed;
}

hcomm_status_t hc_map_load(struct hc_map **result)
{
    struct hc_map *map = calloc(1, sizeof(*map));
    if (!map)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the map");
    hcomm_status_t status = load_topology(&map->topology);
    if (status != HCOMM_OK)
        goto free_map;
    map->allowed = load_allowed(map->topology);
    if (!map->allowed) {
        status = hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the map");
        goto destroy_topology;
    }
    *result = map;
    return HCOMM_OK;

destroy_topology:
    hwloc_topology_destroy(map->topology);
free_map:
    free(map);
    return status;
}

static void cpus_fini(struct hc_cpus *cpus)
{
    free(cpus->list);
    free(cpus->mask);
    hwloc_bitmap_free(cpus->bitmap);
}

static void free_sets(struct hc_map *map)
{
    for (unsigned i = 0; i < map->num_sets; i++)
        cpus_fini(&map->sets[i]);
    free(map->sets);
    map->sets = NULL;
    map->num_sets = 0;
}

void hc_map_free(struct hc_map *map)
{
    if (!map)
        return;
    free_sets(map);
    hwloc_bitmap_free(map->allowed);
    hwloc_topology_destroy(map->topology);
    free(map);
}

void *hc_map_topology(const struct hc_map *map)
{
    return map->topology;
}

hcomm_status_t hc_map_export(const struct hc_map *map, char **xml)
{
    char *buffer = NULL;
    int size = 0;
    if (hwloc_topology_export_xmlbuffer(map->topology, &buffer, &size, 0) != 0)
        return hc_error(HCOMM_ERR_IO, "hwloc cannot export the topology: %s", hc_errno_text(errno));
    char *copy = strdup(buffer);
    hwloc_free_xmlbuffer(map->topology, buffer);
    if (!copy)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the topology");
    *xml = copy;
    return HCOMM_OK;
}

unsigned hc_map_processors(const struct hc_map *map)
{
    int count = hwloc_bitmap_weight(map->allowed);
    return count > 0 ? (unsigned)count : 1;
}

static hcomm_status_t cpus_init(struct hc_cpus *cpus, hwloc_const_bitmap_t set)
{
    int last = hwloc_bitmap_last(set);
    int count = last < 0 ? 1 : last + 1;
    cpus->mask_size = CPU_ALLOC_SIZE((size_t)count);
    cpus->mask = calloc(1, cpus->mask_size);
    cpus->bitmap = hwloc_bitmap_dup(set);
    if (!cpus->mask || !cpus->bitmap || hwloc_bitmap_list_asprintf(&cpus->list, set) < 0) {
        cpus_fini(cpus);
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a processor set");
    }
    for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
        CPU_SET_S((size_t)cpu, cpus->mask_size, cpus->mask);
    return HCOMM_OK;
}

/* The smallest object of the type that covers the core; NULL when there is none: the whole machine. */
static hwloc_obj_t enclosing(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t core)
{
    hwloc_obj_t object = NULL;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)))
        if (hwloc_bitmap_isincluded(core->cpuset, object->cpuset))
            return object;
    return NULL;
}

static hcomm_status_t set_for_core(const struct hc_map *map, enum hc_bind_to bind_to, hwloc_obj_t core,
                                   struct hc_cpus *cpus)
{
    hwloc_obj_t object =
        bind_to == HC_BIND_TO_NONE ? NULL : enclosing(map->topology, bind_levels[bind_to].type, core);
    hwloc_bitmap_t set = hwloc_bitmap_dup(map->allowed);
    if (!set)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a processor set");
    if (object)
        (void)hwloc_bitmap_and(set, set, object->cpuset);
    *cpus = (struct hc_cpus){.bound = object != NULL};
    if (object)
        (void)snprintf(cpus->where, sizeof(cpus->where), "%s %u", bind_levels[bind_to].name,
                       object->logical_index);
    else
        (void)snprintf(cpus->where, sizeof(cpus->where), "%s", bind_levels[HC_BIND_TO_NONE].name);
    hcomm_status_t status = cpus_init(cpus, set);
    hwloc_bitmap_free(set);
    return status;
}

/* The cores that have an allowed processor, grouped round robin over the objects of the mapping level. */
struct order {
    hwloc_obj_t *cores;
    unsigned *group;    /* of each core */
    unsigned *position; /* how many cores of the same group come before */
    unsigned count;
};

static void order_fini(struct order *order)
{
    free(order->cores);
    free(order->group);
    free(order->position);
}

static void order_add(struct order *order, hwloc_obj_t core, unsigned group)
{
    unsigned position = 0;
    for (unsigned i = 0; i < order->count; i++)
        position += order->group[i] == group;
    order->cores[order->count] = core;
    order->group[order->count] = group;
    order->position[order->count++] = position;
}

/* Machines without cores in their topology (some virtual ones) are mapped by hardware thread. */
static hwloc_obj_type_t core_type(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

static hcomm_status_t collect_cores(const struct hc_map *map, hwloc_obj_type_t level, struct order *order)
{
    hwloc_obj_type_t type = core_type(map->topology);
    size_t room = (size_t)hwloc_get_nbobjs_by_type(map->topology, type);
    *order = (struct order){.cores = calloc(room, sizeof(*order->cores)),
                            .group = calloc(room, sizeof(*order->group)),
                            .position = calloc(room, sizeof(*order->position))};
    if (!order->cores || !order->group || !order->position) {
        order_fini(order);
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the list of cores");
    }
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(map->topology, type, core))) {
        if (!hwloc_bitmap_intersects(core->cpuset, map->allowed))
            continue;
        hwloc_obj_t object = enclosing(map->topology, level, core);
        order_add(order, core, object ? object->logical_index : 0);
    }
    if (order->count > 0)
        return HCOMM_OK;
    order_fini(order);
    return hc_error(HCOMM_ERR_INTERNAL, "the machine's topology has no core that hcommrun may use");
}

/* Deal the cores out: first the first core of every group, then the second of every group, and so on. */
static void deal(const struct order *order, hwloc_obj_t *dealt)
{
    unsigned count = 0;
    for (unsigned turn = 0; count < order->count; turn++)
        for (unsigned i = 0; i < order->count; i++)
            if (order->position[i] == turn)
                dealt[count++] = order->cores[i];
}

static hcomm_status_t make_sets(struct hc_map *map, enum hc_bind_to bind_to, hwloc_obj_t *cores,
                                unsigned count)
{
    free_sets(map);
    map->sets = calloc(count, sizeof(*map->sets));
    if (!map->sets)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for processor sets");
    for (; map->num_sets < count; map->num_sets++) {
        hcomm_status_t status = set_for_core(map, bind_to, cores[map->num_sets], &map->sets[map->num_sets]);
        if (status != HCOMM_OK)
            return status;
    }
    return HCOMM_OK;
}

hcomm_status_t hc_map_place(struct hc_map *map, enum hc_map_by map_by, enum hc_bind_to bind_to,
                            uint32_t num_ranks, const struct hc_cpus **cpus)
{
    struct order order;
    hcomm_status_t status = collect_cores(map, map_levels[map_by], &order);
    if (status != HCOMM_OK)
        return status;
    hwloc_obj_t *dealt = calloc(order.count, sizeof(hwloc_obj_t));
    if (!dealt) {
        status = hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the list of cores");
        goto free_order;
    }
    deal(&order, dealt);
    unsigned distinct = bind_to == HC_BIND_TO_NONE ? 1 : order.count;
    status = make_sets(map, bind_to, dealt, distinct);
    for (uint32_t rank = 0; status == HCOMM_OK && rank < num_ranks; rank++)
        cpus[rank] = &map->sets[rank % distinct];
    free(dealt);

free_order:
    order_fini(&order);
    return status;
}
