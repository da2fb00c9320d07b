/*
 * Topology: where every rank runs and how near it is.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_TOPO_H
#define HCOMM_TOPO_H

#include <hcomm/comm.h>
#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hcomm_rank_info {
    int rank;                  /* in the world */
    int host;                  /* index of its host, 0 … num_hosts-1, in order of the lowest rank */
    const char *hostname;      /* as its operating system names it */
    int numa_node;             /* operating system index; -1 when it may run on several */
    const char *cpuset;        /* processors it may run on, as a list: "0-3,8" */
    int distance;              /* 0 = same host, 1 = one hop, more = switch levels where known */
    hcomm_locality_t locality; /* the closest hardware shared with the calling rank */
    const char *transport;     /* that messages to it use, e.g. "shm", "ofi:tcp"; "none" when unreachable */
} hcomm_rank_info_t;

typedef struct hcomm_topology {
    int rank;                       /* of the caller */
    int num_ranks;                  /* in the world */
    int num_hosts;                  /* that the ranks run on */
    const hcomm_rank_info_t *ranks; /* num_ranks entries */
    const int *local_ranks;         /* ranks on the caller's host, itself included, ascending */
    int num_local;                  /* how many */
    const int *remote_ranks;        /* ranks on other hosts, ascending */
    int num_remote;                 /* how many */
} hcomm_topology_t;

/*
 * The world as the calling rank sees it. Fetches what is not known yet from the launcher, so the first call
 * may block until every rank has started its context (at most timeout_ms). *topology and all it points to
 * belong to the context and stay valid and unchanged until hcomm_finalize(). Any thread. Errors:
 * HCOMM_ERR_INVALID, HCOMM_ERR_TIMEOUT, HCOMM_ERR_BOOTSTRAP, HCOMM_ERR_NO_MEMORY.
 */
HCOMM_API hcomm_status_t hcomm_get_topology(hcomm_handle_t handle, const hcomm_topology_t **topology);

/*
 * Transports of this process, one at a time: name ("shm", "ofi:tcp;ofi_rxm" …), device, whether usable, and
 * why not. Strings belong to the context. HCOMM_ERR_INVALID past the last. The first call probes libfabric:
 * it may take a fraction of a second.
 */
typedef struct hcomm_transport_info {
    const char *name;
    const char *device;
    bool usable;
    const char *reason; /* why rejected, or what was chosen and why; never NULL */
    double latency;     /* seconds, as estimated for selection */
    double bandwidth;   /* bytes per second, as estimated for selection */
} hcomm_transport_info_t;
HCOMM_API hcomm_status_t hcomm_transport_get(hcomm_handle_t handle, unsigned index,
                                             hcomm_transport_info_t *info);

#ifdef __cplusplus
}
#endif

#endif
