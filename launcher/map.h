/*
 * Where ranks go on this host: the machine's topology as hwloc sees it, and the placement of ranks on it.
 * Only processors that hcommrun itself may use (cgroup and affinity mask) are ever given to a rank.
 */
#ifndef HC_LAUNCHER_MAP_H
#define HC_LAUNCHER_MAP_H

#include "launcher/options.h"

#include <sched.h>
#include <stdbool.h>

/* A set of processors that one or more ranks may run on. */
struct hc_cpus {
    char *list;       /* text as in "0-3,8" */
    cpu_set_t *mask;  /* the same for sched_setaffinity(2) */
    size_t mask_size; /* bytes of mask */
    void *bitmap;     /* the same as hwloc_bitmap_t, for the PMIx library */
    bool bound;       /* less than everything allowed was asked for: apply the mask */
    char where[48];   /* in words: "core 3", "all processors" */
};

struct hc_map;

/* Load the topology (a few milliseconds). */
hcomm_status_t hc_map_load(struct hc_map **map) HC_MUST_CHECK;
void hc_map_free(struct hc_map *map); /* NULL is accepted */

/* The loaded hwloc_topology_t, for the PMIx library; owned by the map. */
void *hc_map_topology(const struct hc_map *map);

/* The topology as XML, which saves ranks their own discovery; free(3) it. */
hcomm_status_t hc_map_export(const struct hc_map *map, char **xml) HC_MUST_CHECK;

/* How many processors (hardware threads) the job may use. */
unsigned hc_map_processors(const struct hc_map *map);

/*
 * Choose a set for every rank: cpus[rank] for num_ranks entries, owned by the map. Places wrap around when
 * there are more ranks than cores; levels that the machine does not have count as the whole machine.
 */
hcomm_status_t hc_map_place(struct hc_map *map, enum hc_map_by map_by, enum hc_bind_to bind_to,
                            uint32_t num_ranks, const struct hc_cpus **cpus) HC_MUST_CHECK;

#endif
