/*
 * Topology of this host: hwloc's room. Loading costs milliseconds, so it happens at first need.
 * Processor sets are text, lists as in "0-3,8" (the form of cpuset files and taskset -c).
 * Threads: one hc_topo is used by one thread at a time.
 */
#ifndef HC_TOPO_H
#define HC_TOPO_H

#include "runtime/base/status.h"

#include <hcomm/comm.h>

struct hc_topo;

/* Load the host's topology. */
hcomm_status_t hc_topo_load(struct hc_topo **topo) HC_MUST_CHECK;
void hc_topo_free(struct hc_topo *topo); /* NULL is accepted */

/* The processors the calling process may run on, as a list; cut never: HCOMM_ERR_LIMIT when size is too
 * small. */
hcomm_status_t hc_topo_own_cpuset(char *list, size_t size) HC_MUST_CHECK;
/* How many processors the calling process may run on; at least 1. */
unsigned hc_topo_cpu_count(void);
/*
 * Move the calling thread off a processor, if it may run on others: to one that is not among the `count`
 * taken ones, where there is such a one. It may run where it could before, also on that processor, when this
 * returns. False: it is bound to the processor, or the system refuses.
 */
bool hc_topo_leave_cpu(unsigned cpu, const unsigned *taken, size_t count);

/* The closest hardware that both sets lie inside: HOST when only the host. Sets come from peers: checked. */
hcomm_status_t hc_topo_locality(const struct hc_topo *topo, const char *a, const char *b,
                                hcomm_locality_t *locality) HC_MUST_CHECK;

/*
 * The object of the given level that the set lies inside: its index among the host's objects of that level,
 * or -1 when it lies in none alone (it spans several). HCOMM_LOCALITY_HOST gives 0.
 */
hcomm_status_t hc_topo_object_index(const struct hc_topo *topo, const char *list, hcomm_locality_t level,
                                    int *index) HC_MUST_CHECK;

/* Operating system index of the NUMA node that the set lies inside, -1 when it spans several. */
hcomm_status_t hc_topo_numa_node(const struct hc_topo *topo, const char *list, int *node) HC_MUST_CHECK;

/* Version of the interface of the hwloc library in use, a constant string. Any thread. */
const char *hc_topo_library_version(void);

#endif
