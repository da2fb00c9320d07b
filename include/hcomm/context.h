/*
 * Start, end and statistics of a context.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_CONTEXT_H
#define HCOMM_CONTEXT_H

#include <hcomm/config.h>
#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Start a context: bootstrap through PMIx (alone, without a launcher, the process is a job of one rank), open
 * transports, build the world communicator. NULL or a zeroed config means all defaults; it and its texts are
 * copied. Several contexts may exist in one process; all ranks of the job create them in the same order. The
 * first does not wait for other ranks: peers are reached at first use. Further ones wait until every rank has
 * started its own. On success *handle is owned by the caller until hcomm_finalize(); a child that the process
 * forks cannot use it: its calls return HCOMM_ERR_INVALID, and the parent goes on undisturbed. Errors:
 * HCOMM_ERR_CONFIG (a field or an HCOMM_ variable out of range), HCOMM_ERR_BOOTSTRAP, HCOMM_ERR_NO_MEMORY,
 * HCOMM_ERR_UNREACHABLE (no transport is left after `protocol` and `transports`), HCOMM_ERR_TIMEOUT (further
 * contexts only).
 */
HCOMM_API hcomm_status_t hcomm_init(hcomm_handle_t *handle, const hcomm_config_t *config);

/*
 * End a context. Collective: outstanding sends are flushed, then all surviving ranks are waited for until
 * the deadline. Frees every object of the context, communicators and requests too: using one of them
 * afterwards is undefined, and nothing checks it. No other thread may be using the context. NULL is
 * accepted. Refused with HCOMM_ERR_INVALID, and then nothing has happened: a handle that is finalized
 * already (so is any other call on it), a call in the callback of a transfer or in a host function of a
 * stream of the context, which it would wait for; the same in a child that the process forked. With any
 * other error the context is gone all the same: HCOMM_ERR_TIMEOUT (the detail names the missing ranks),
 * HCOMM_ERR_PEER_LOST, HCOMM_ERR_BOOTSTRAP.
 */
HCOMM_API hcomm_status_t hcomm_finalize(hcomm_handle_t handle);

/*
 * End the whole job with an exit code (1–255; others become 1). Asks the launcher to stop every rank, then
 * exits this process. Does not return. handle may be NULL before hcomm_init() succeeded.
 */
HCOMM_API void hcomm_abort(hcomm_handle_t handle, int code);

/* The communicator of all ranks, and of this rank alone. Owned by the context; NULL for a NULL handle. Any
 * thread. */
HCOMM_API hcomm_comm_t hcomm_comm_world(hcomm_handle_t handle);
HCOMM_API hcomm_comm_t hcomm_comm_self(hcomm_handle_t handle);

/* Rank in, and size of, the world. -1 for a NULL handle. */
HCOMM_API int hcomm_rank(hcomm_handle_t handle);
HCOMM_API int hcomm_size(hcomm_handle_t handle);

/*
 * Progress communication once without blocking: messages move and requests complete. Useful while computing
 * when the progress thread is off. Returns HCOMM_OK when something moved, HCOMM_AGAIN when nothing did. Any
 * thread.
 */
HCOMM_API hcomm_status_t hcomm_progress(hcomm_handle_t handle);

/*
 * Read one statistics counter by name, e.g. "eager_sent", "rndv_sent", "unexpected_bytes",
 * "coalesced_messages". `hcomm_info --counters` lists names and meanings. Errors: HCOMM_ERR_INVALID for an
 * unknown name. Any thread.
 */
HCOMM_API hcomm_status_t hcomm_counter_get(hcomm_handle_t handle, const char *name, uint64_t *value);

/* Name and meaning of counter number `index`; NULL name past the last. Constant strings. Any thread. */
HCOMM_API const char *hcomm_counter_name(unsigned index, const char **meaning);

/* The settings in force in this context, every field explicit; texts are the context's. Errors:
 * HCOMM_ERR_INVALID. Any thread. */
HCOMM_API hcomm_status_t hcomm_get_config(hcomm_handle_t handle, hcomm_config_t *config);

/*
 * Settings, one at a time, as `hcomm_info --config` prints them. Fills *info for setting number `index`;
 * returns HCOMM_ERR_INVALID past the last. Strings are owned by the context (handle) or constant; handle may
 * be NULL, then `current` and `origin` tell what hcomm_init(NULL config) would use. Not thread-safe with a
 * NULL handle.
 */
typedef struct hcomm_setting_info {
    const char *name;  /* as in hcomm_config_t and, in capitals with HCOMM_ before it, in the environment */
    const char *type;  /* "enum", "int", "size", "bool", "string" */
    const char *range; /* legal values in words */
    const char *default_value; /* as text */
    const char *current;       /* as text */
    const char *origin;        /* "default", "environment", "call" */
    const char *help;          /* one line of meaning */
} hcomm_setting_info_t;
HCOMM_API hcomm_status_t hcomm_setting_get(hcomm_handle_t handle, unsigned index, hcomm_setting_info_t *info);

/*
 * Versions at run time of hcomm and of the libraries that this context uses: "hcomm", "PMIx" (client and
 * server), "hwloc" (of its interface), then transports with a library of their own ("not loaded" until
 * needed: hcomm_transport_get() loads all). Fills name and version, strings of the context, for component
 * number `index`; HCOMM_ERR_INVALID past the last. Any thread.
 */
HCOMM_API hcomm_status_t hcomm_component_version(hcomm_handle_t handle, unsigned index, const char **name,
                                                 const char **version);

#ifdef __cplusplus
}
#endif

#endif
