/* What the kernel lets this process run on; no hwloc, so that start-up does not pay for loading it. */
#include "runtime/topo/cpulist.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/*
 * The kernel refuses (EINVAL) a set smaller than its own; grow until it fits. cpu_set_t is an array of longs,
 * on x86-64 (little-endian) the same bits in the same order as an array of bytes.
 */
static hcomm_status_t own_affinity(cpu_set_t **set, size_t *bytes)
{
    for (size_t cpus = 1024; cpus <= HC_CPULIST_MAX_CPU + 1; cpus *= 2) {
        cpu_set_t *allowed = CPU_ALLOC(cpus);
        if (!allowed)
            return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a set of %zu processors", cpus);
        size_t size = CPU_ALLOC_SIZE(cpus);
        CPU_ZERO_S(size, allowed);
        if (sched_getaffinity(0, size, allowed) == 0) {
            *set = allowed;
            *bytes = size;
            return HCOMM_OK;
        }
        CPU_FREE(allowed);
        if (errno != EINVAL)
            break;
    }
    return hc_error(HCOMM_ERR_IO, "sched_getaffinity: %s", hc_errno_text(errno));
}

hcomm_status_t hc_topo_own_cpuset(char *list, size_t size)
{
    cpu_set_t *set = NULL;
    size_t bytes = 0;
    hcomm_status_t status = own_affinity(&set, &bytes);
    if (status != HCOMM_OK)
        return status;
    if (!hc_cpulist_format((const unsigned char *)set, bytes * 8, list, size))
        status = hc_error(HCOMM_ERR_LIMIT, "the list of own processors needs more than %zu bytes", size);
    CPU_FREE(set);
    return status;
}

unsigned hc_topo_cpu_count(void)
{
    cpu_set_t *set = NULL;
    size_t bytes = 0;
    if (own_affinity(&set, &bytes) != HCOMM_OK)
        return 1;
    int count = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    return count > 0 ? (unsigned)count : 1;
}
