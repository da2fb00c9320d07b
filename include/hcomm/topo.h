/*
 * Topology: where every rank runs, its device, and how near both are.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_TOPO_H
#define HCOMM_TOPO_H

#include <hcomm/comm.h>
#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What connects two devices, the fastest first. */
typedef enum hcomm_device_link {
    HCOMM_LINK_UNKNOWN = 0, /* one of them has no device, or the own process does not see the other's */
    HCOMM_LINK_SAME,        /* both are the same device */
    HCOMM_LINK_HCCS,        /* direct */
    HCOMM_LINK_SIO,         /* two halves of one package */
    HCOMM_LINK_PIX,         /* one PCIe switch */
    HCOMM_LINK_PIB,         /* several PCIe switches */
    HCOMM_LINK_PHB,         /* the PCIe host bridge of a processor */
    HCOMM_LINK_SYS,         /* the link between processors */
    HCOMM_LINK_NETWORK      /* they are in different hosts */
} hcomm_device_link_t;

typedef struct hcomm_rank_info {
    int rank;                  /* in the world */
    int host;                  /* index of its host, 0 … num_hosts-1, in order of the lowest rank */
    const char *hostname;      /* as its operating system names it */
    int numa_node;             /* operating system index; -1 when it may run on several */
    const char *cpuset;        /* processors it may run on, as a list: "0-3,8" */
    int distance;              /* 0 = same host, 1 = one hop, more = switch levels where known */
    hcomm_locality_t locality; /* the closest hardware shared with the calling rank */
    const char *transport;     /* that messages to it use, e.g. "shm", "ofi:tcp"; "none" when unreachable */
    int device;                /* its NPU as its host counts them (not as its process does), -1: none */
    hcomm_device_link_t device_link; /* from the calling rank's device to this one's */
    int nic_distance; /* PCIe bridges between its device and the network interface it uses; -1: not known */
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
    /* From which sizes on messages go which way, and how that is chosen, in clauses that "; " separates; ""
     * of a transport that is not usable. */
    const char *thresholds;
} hcomm_transport_info_t;
HCOMM_API hcomm_status_t hcomm_transport_get(hcomm_handle_t handle, unsigned index,
                                             hcomm_transport_info_t *info);

/*
 * Devices (NPUs) that this process sees, one at a time; loads the device runtime of the setting npu if that
 * has not happened yet. Any thread. Errors: HCOMM_ERR_UNSUPPORTED (no device runtime; the detail says what is
 * missing), HCOMM_ERR_INVALID past the last.
 */
typedef struct hcomm_device_info {
    int physical;             /* its number in the host; `index` is what device_id takes */
    char name[32];            /* of the kind of device */
    char pci[32];             /* address, "" when not known */
    bool opened;              /* the context has it */
    hcomm_device_link_t link; /* from the context's device; UNKNOWN when that has none */
} hcomm_device_info_t;
HCOMM_API hcomm_status_t hcomm_device_get(hcomm_handle_t handle, unsigned index, hcomm_device_info_t *info);

/* "HCCS", "PIX" …; a constant string, "unknown" for anything else. Any thread. */
HCOMM_API const char *hcomm_device_link_name(hcomm_device_link_t link);

#ifdef __cplusplus
}
#endif

#endif
