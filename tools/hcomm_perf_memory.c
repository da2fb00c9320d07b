/*
 * Where messages lie: memory of the system, of hcomm, or of an NPU.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <stdlib.h>
#include <unistd.h>

const char *const perf_memory_names[] = {
    [PERF_MEMORY_MALLOC] = "malloc", [PERF_MEMORY_HCOMM] = "hcomm", [PERF_MEMORY_DEVICE] = "device", NULL};

/* NULL when there is no room. Memory of the system begins with a page, as in other benchmarks of the kind. */
static void *allocate(const struct perf *perf, size_t size)
{
    void *memory = NULL;
    switch (perf->options->memory) {
    case PERF_MEMORY_MALLOC:
        return posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), size) == 0 ? memory : NULL;
    case PERF_MEMORY_HCOMM:
        return hcomm_alloc_host_mem(perf->hcomm, size);
    case PERF_MEMORY_DEVICE:
        perf_must(perf, hcomm_mem_alloc(perf->hcomm, size, HCOMM_MEMORY_DEVICE, &memory), "a buffer");
        return memory;
    }
    return NULL;
}

char *perf_memory_take(const struct perf *perf, size_t size)
{
    bool system = perf->options->memory == PERF_MEMORY_MALLOC;
    void *memory = allocate(perf, size);
    if (!memory)
        perf_die(perf, "no memory for a buffer of %zu bytes: %s", size,
                 system ? "the system has no room" : hcomm_error_detail());
    perf_memory_clear(perf, memory, size); /* pages are there, and near this rank */
    return memory;
}

void perf_memory_give(const struct perf *perf, char *memory)
{
    switch (perf->options->memory) {
    case PERF_MEMORY_MALLOC:
        free(memory);
        return;
    case PERF_MEMORY_HCOMM:
        perf_must(perf, hcomm_free_host_mem(perf->hcomm, memory), "giving a buffer back");
        return;
    case PERF_MEMORY_DEVICE:
        perf_must(perf, hcomm_mem_free(perf->hcomm, memory), "giving a buffer back");
        return;
    }
}

void perf_memory_clear(const struct perf *perf, char *memory, size_t size)
{
    perf_must(perf, hcomm_memset(perf->hcomm, memory, 0, size), "clearing a buffer");
}

void perf_memory_copy(const struct perf *perf, char *to, const char *from, size_t size)
{
    perf_must(perf, size ? hcomm_memcpy(perf->hcomm, to, from, size, HCOMM_COPY_AUTO) : HCOMM_OK,
              "copying a message");
}

static unsigned count_devices(const struct perf *perf)
{
    hcomm_device_info_t info;
    unsigned count = 0;
    while (hcomm_device_get(perf->hcomm, count, &info) == HCOMM_OK)
        count++;
    return count;
}

static unsigned place_on_host(const hcomm_topology_t *topology)
{
    unsigned place = 0;
    while (topology->local_ranks[place] != topology->rank)
        place++;
    return place;
}

/* The ranks of a host take its devices in turn, which a context without a device can tell. */
int perf_memory_device(const struct perf_options *options)
{
    if (options->memory != PERF_MEMORY_DEVICE)
        return 0; /* the default */
    struct perf perf = {.options = options};
    const hcomm_config_t config = {.device_id = HCOMM_DEVICE_NONE};
    const hcomm_topology_t *topology;
    perf_must(&perf, hcomm_init(&perf.hcomm, &config), "start");
    perf.rank = hcomm_rank(perf.hcomm);
    perf_must(&perf, hcomm_get_topology(perf.hcomm, &topology), "topology");
    unsigned devices = count_devices(&perf);
    if (devices == 0)
        perf_die(&perf, "there is no NPU for --memory device: %s", hcomm_error_detail());
    unsigned device = place_on_host(topology) % devices;
    perf_must(&perf, hcomm_finalize(perf.hcomm), "end");
    return HCOMM_DEVICE((int)device);
}
