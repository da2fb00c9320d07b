/*
 * Communicators: ordered groups of ranks, each with a message space of its own. All calls may be made from
 * any thread; collective ones (dup, split, create, free, barrier) in the same order on all members of one
 * communicator.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_COMM_H
#define HCOMM_COMM_H

#include <hcomm/request.h>
#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What members of a communicator made by hcomm_comm_split_by_locality() have in common. */
typedef enum {
    HCOMM_LOCALITY_HOST = 0,   /* same host */
    HCOMM_LOCALITY_SOCKET = 1, /* same processor package */
    HCOMM_LOCALITY_NUMA = 2,   /* same NUMA node */
    HCOMM_LOCALITY_L3 = 3,     /* same third-level cache */
    HCOMM_LOCALITY_L2 = 4,     /* same second-level cache */
    HCOMM_LOCALITY_CORE = 5,   /* same core */
    HCOMM_LOCALITY_NONE = -1   /* different hosts */
} hcomm_locality_t;

#define HCOMM_COMM_NAME_MAX 64 /* bytes, the terminating NUL included */

HCOMM_API int hcomm_comm_rank(hcomm_comm_t comm); /* -1 for NULL */
HCOMM_API int hcomm_comm_size(hcomm_comm_t comm); /* -1 for NULL */
/* The context the communicator belongs to; NULL for NULL. */
HCOMM_API hcomm_handle_t hcomm_comm_context(hcomm_comm_t comm);

/*
 * Collective over comm: same members and order, a new message space. The new communicator is owned by the
 * caller until hcomm_comm_free(). Errors: HCOMM_ERR_INVALID, HCOMM_ERR_TIMEOUT and HCOMM_ERR_PEER_LOST naming
 * the ranks.
 */
HCOMM_API hcomm_status_t hcomm_comm_dup(hcomm_comm_t comm, hcomm_comm_t *dup);

/*
 * Collective over comm: ranks with equal color (>= 0) form one communicator, ordered by key, then by old
 * rank. color HCOMM_UNDEFINED: *out becomes HCOMM_COMM_NULL. Errors as hcomm_comm_dup().
 */
HCOMM_API hcomm_status_t hcomm_comm_split(hcomm_comm_t comm, int color, int key, hcomm_comm_t *out);

/*
 * Collective over comm: ranks that share hardware of the given level form one communicator, ordered by key. A
 * rank that may run on more than one object of the level (it is not bound inside one) ends up alone.
 */
HCOMM_API hcomm_status_t hcomm_comm_split_by_locality(hcomm_comm_t comm, hcomm_locality_t level, int key,
                                                      hcomm_comm_t *out);

/*
 * Collective over the listed ranks only (n ranks of comm, all distinct, the caller among them, same list on
 * each): a communicator in which listed rank i has rank i. Errors: as hcomm_comm_dup(), HCOMM_ERR_INVALID for
 * a bad list.
 */
HCOMM_API hcomm_status_t hcomm_comm_create(hcomm_comm_t comm, const int *ranks, int n, hcomm_comm_t *out);

/*
 * Release *comm and set it to HCOMM_COMM_NULL. Local: waits for nobody, but every operation on it must be
 * complete: HCOMM_ERR_PENDING otherwise. World and self cannot be freed (HCOMM_ERR_INVALID). NULL is
 * accepted.
 */
HCOMM_API hcomm_status_t hcomm_comm_free(hcomm_comm_t *comm);

/*
 * Ranks in `to` of the n given ranks of `from`; HCOMM_UNDEFINED where not a member. HCOMM_RANK_NULL maps to
 * itself. Local. Errors: HCOMM_ERR_INVALID (NULL, no rank of `from`, different contexts),
 * HCOMM_ERR_NO_MEMORY.
 */
HCOMM_API hcomm_status_t hcomm_comm_translate(hcomm_comm_t from, const int *ranks, int n, hcomm_comm_t to,
                                              int *out);

/* Name for messages and logs, cut at HCOMM_COMM_NAME_MAX - 1 bytes; copied. HCOMM_ERR_INVALID for NULL. */
HCOMM_API hcomm_status_t hcomm_comm_set_name(hcomm_comm_t comm, const char *name);
/* Copies the name into buf (at least HCOMM_COMM_NAME_MAX bytes). HCOMM_ERR_INVALID for NULL. */
HCOMM_API hcomm_status_t hcomm_comm_get_name(hcomm_comm_t comm, char *buf);

/*
 * Collective: returns when every member has entered. Inside a host through shared memory, then one leader per
 * host over the network (dissemination among leaders: Hensgen, Finkel, Manber 1988). Errors:
 * HCOMM_ERR_TIMEOUT (the detail names ranks not arrived where known), HCOMM_ERR_PEER_LOST. After a time-out
 * this rank has entered all the same, and a further call enters the next barrier; only the request of
 * hcomm_ibarrier() can be waited for again.
 */
HCOMM_API hcomm_status_t hcomm_barrier(hcomm_comm_t comm);
/* Starts a barrier; *request completes when every member has started the same one. Never blocks. */
HCOMM_API hcomm_status_t hcomm_ibarrier(hcomm_comm_t comm, hcomm_request_t *request);

#ifdef __cplusplus
}
#endif

#endif
