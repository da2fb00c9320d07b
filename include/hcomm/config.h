/*
 * Configuration of a context.
 *
 * Every field has a default that a zeroed structure selects; where zero is also a legal value, a named
 * constant asks for it explicitly. Every setting can also be given in the environment as HCOMM_<NAME IN
 * CAPITALS>. The order is: default, then environment, then a non-zero field given to hcomm_init(), which
 * wins. `hcomm_info --config` prints all settings with type, range, default, current value and origin.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_CONFIG_H
#define HCOMM_CONFIG_H

#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    HCOMM_MODE_DEFAULT = 0,
    HCOMM_MODE_AUTO = 1, /* eager up to the transport's limit, rendezvous above */
    /* Small messages to one peer are gathered and travel together; with the next call that waits, tests or
     * receives at the latest, but not before hcomm_send() returns. */
    HCOMM_MODE_SMALL_MSG = 2,
    HCOMM_MODE_LARGE_MSG = 3 /* every message of a byte or more goes straight to rendezvous */
} hcomm_mode_t;

typedef enum {
    HCOMM_PROTOCOL_DEFAULT = 0,
    HCOMM_PROTOCOL_AUTO = 1, /* the best path per pair of ranks */
    HCOMM_PROTOCOL_TCP = 2,  /* libfabric's tcp providers only */
    HCOMM_PROTOCOL_RDMA = 3, /* libfabric's RDMA providers only (verbs) */
    HCOMM_PROTOCOL_SHM = 4   /* shared memory only: all ranks must be on one host */
} hcomm_protocol_t;

typedef enum { HCOMM_SWITCH_DEFAULT = 0, HCOMM_SWITCH_ON = 1, HCOMM_SWITCH_OFF = 2 } hcomm_switch_t;

/* Explicit zeros, for fields whose zero means "default". */
#define HCOMM_RETRY_NONE          (-1) /* retry_count: never retry */
#define HCOMM_BANDWIDTH_UNLIMITED (-1) /* bandwidth_limit: no limit, also against the environment */

/* device_id: host only, also against the environment; or NPU number n as the user sees them (0, 1, …). */
#define HCOMM_DEVICE_NONE (-1)
#define HCOMM_DEVICE(n)   ((n) + 1)

typedef struct hcomm_config {
    hcomm_mode_t mode;         /* how message sizes choose protocols; default AUTO */
    hcomm_protocol_t protocol; /* which family of transports; default AUTO */
    int bandwidth_limit;       /* MB/s (10^6 bytes) this rank may put on transports, 1–1000; default none */
    int num_qp;      /* endpoints per peer that large messages are striped over, 1–32; default 8 */
    int retry_count; /* further attempts when reaching a peer fails, 1–10 or HCOMM_RETRY_NONE; default 3 */
    int timeout_ms;  /* milliseconds a wait may last without progress, 1000–86400000; default 30000 */
    size_t buffer_size;      /* bytes of staging for pipelined large messages, 1–64 MiB; default 8 MiB */
    size_t send_buffer_size; /* bytes queued inside hcomm per peer before sends block; default 1 MiB */
    size_t recv_buffer_size; /* eager window: bytes a peer may send ahead of receives; default 4 MiB */
    size_t buffer_pool_size; /* bytes of unexpected messages held per process; default 64 MiB */
    size_t mem_pool_size;    /* bytes that hcomm_alloc_host_mem() may hand out; default 256 MiB */
    int queue_depth;         /* large messages in flight to one peer; transfers in flight; default 64 */
    size_t align_size;       /* alignment of memory from hcomm in bytes, a power of two; default 64 */
    int device_id;           /* HCOMM_DEVICE(n) or HCOMM_DEVICE_NONE; default host only */
    hcomm_switch_t progress_thread; /* progresses communication while the caller computes; default OFF */
    const char *transports;         /* e.g. "shm,ofi:tcp", in order of preference; default NULL: best first */
    const char *net_if;             /* interfaces to use: name, CIDR, or ^name; default NULL: automatic */
    uint64_t reserved[8];           /* must be zero */
} hcomm_config_t;

#ifdef __cplusplus
}
#endif

#endif
