/* What the kernel lets this process run on; no hwloc, so that start-up does not pay for loading it. */
#include "runtime/base/log.h"
#include "runtime/topo/cpulist.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Where else the thread may run; `set` is left alone when all of that is taken. */
static void avoid_taken(cpu_set_t *set, cpu_set_t *free, size_t bytes, const unsigned *taken, size_t count)
{
    (void)memcpy(free, set, bytes);
    for (size_t i = 0; i < count; i++)
        CPU_CLR_S(taken[i], bytes, free);
    if (CPU_COUNT_S(bytes, free) > 0)
        (void)memcpy(set, free, bytes);
}

/*
 * The kernel keeps what was asked for. A thread that may run everywhere goes on being allowed to when
 * processors are added: so everything is asked for.
 */
static void restore(cpu_set_t *own, size_t bytes)
{
    if (CPU_COUNT_S(bytes, own) == sysconf(_SC_NPROCESSORS_ONLN))
        (void)memset(own, 0xff, bytes);
    if (sched_setaffinity(0, bytes, own) != 0)
        hc_log_warn("sched_setaffinity: %s: a thread may run on fewer processors than before",
                    hc_errno_text(errno));
}

bool hc_topo_leave_cpu(unsigned cpu, const unsigned *taken, size_t count)
{
    cpu_set_t *own = NULL;
    size_t bytes = 0;
    if (own_affinity(&own, &bytes) != HCOMM_OK)
        return false;
    cpu_set_t *others = CPU_ALLOC(bytes * 8), *free = CPU_ALLOC(bytes * 8);
    bool moved = false;
    if (others && free) {
        (void)memcpy(others, own, bytes);
        CPU_CLR_S(cpu, bytes, others);
        avoid_taken(others, free, bytes, taken, count);
        moved = CPU_COUNT_S(bytes, others) > 0 && sched_setaffinity(0, bytes, others) == 0;
    }
    if (moved)
        restore(own, bytes);
    CPU_FREE(free);
    CPU_FREE(others);
    CPU_FREE(own);
    return moved;
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
