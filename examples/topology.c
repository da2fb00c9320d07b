/*
 * Where the ranks of the job run and how rank 0 reaches them.
 *
 *     hcommrun -n 4 topology
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <hcomm.h>

#include <stdio.h>

static void check(hcomm_handle_t hcomm, hcomm_status_t status)
{
    if (status == HCOMM_OK)
        return;
    fprintf(stderr, "topology: %s\n", hcomm_error_detail());
    hcomm_abort(hcomm, 1);
}

static const char *locality_name(hcomm_locality_t locality)
{
    switch (locality) {
    case HCOMM_LOCALITY_HOST:
        return "host";
    case HCOMM_LOCALITY_SOCKET:
        return "socket";
    case HCOMM_LOCALITY_NUMA:
        return "numa";
    case HCOMM_LOCALITY_L3:
        return "l3";
    case HCOMM_LOCALITY_L2:
        return "l2";
    case HCOMM_LOCALITY_CORE:
        return "core";
    case HCOMM_LOCALITY_NONE:
        break;
    }
    return "none";
}

static void print_topology(const hcomm_topology_t *topology)
{
    printf("ranks: %d, hosts: %d; ranks here: %d, elsewhere: %d\n", topology->num_ranks, topology->num_hosts,
           topology->num_local, topology->num_remote);
    printf("%4s  %4s  %-16s  %4s  %8s  %-8s  %-12s  %s\n", "rank", "host", "name", "numa", "distance",
           "shared", "transport", "processors");
    for (int i = 0; i < topology->num_ranks; i++) {
        const hcomm_rank_info_t *info = &topology->ranks[i];
        printf("%4d  %4d  %-16s  %4d  %8d  %-8s  %-12s  %s\n", info->rank, info->host, info->hostname,
               info->numa_node, info->distance, locality_name(info->locality), info->transport, info->cpuset);
    }
}

int main(void)
{
    hcomm_handle_t hcomm = NULL;
    check(hcomm, hcomm_init(&hcomm, NULL));
    const hcomm_topology_t *topology = NULL;
    check(hcomm, hcomm_get_topology(hcomm, &topology));
    if (topology->rank == 0)
        print_topology(topology);
    check(hcomm, hcomm_finalize(hcomm));
    return 0;
}
