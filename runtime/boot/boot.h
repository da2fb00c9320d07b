/*
 * Bootstrap: who am I, who are the others, and the exchange of one small blob per rank. Implementations:
 * PMIx, and a single process without a launcher. Results of gets, fences and events are collected here and
 * reported by calls, so that callers' code never runs on PMIx's thread.
 *
 * Threads: calls on one hc_boot are serialised by the caller, except where said otherwise.
 */
#ifndef HC_BOOT_H
#define HC_BOOT_H

#include "runtime/base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hc_boot;

/* Facts of the job; strings and arrays belong to the hc_boot. */
struct hc_boot_job {
    uint32_t rank, size;
    uint32_t local_rank, local_size;
    uint32_t num_hosts;
    const uint32_t
        *local_ranks; /* local_size world ranks on this host, ascending; local_ranks[local_rank] == rank */
    const char *name_space; /* of the job; unique on the machine also for a single process */
    const char *hostname;   /* of this process */
    const char *launcher; /* "hcommrun", "slurm", "prte", …, as far as known; "none" for a single process */
    const char *version;  /* PMIx client and server version in words */
    bool launched;        /* false: started without a launcher */
};

enum hc_boot_event_kind {
    HC_BOOT_EVENT_NONE,
    HC_BOOT_EVENT_RANK_LOST,   /* a rank ended abnormally */
    HC_BOOT_EVENT_SERVER_LOST, /* the launcher's server is gone: the job is over */
    HC_BOOT_EVENT_CALLED,      /* some rank called this one: hc_boot_call_rank() */
};

struct hc_boot_event {
    enum hc_boot_event_kind kind;
    uint32_t rank; /* RANK_LOST */
};

/* An exchange in flight. Storage is the caller's and must stay until done or cancelled. */
struct hc_boot_op {
    atomic_int done;       /* set with release by the implementation; partner: acquire in hc_boot_op_done */
    hcomm_status_t status; /* valid when done */
    const char *reason;    /* when failed: the cause in words, a constant string */
    void *data;            /* get: the blob, owned by the caller (free(3)), NULL on failure */
    size_t size;
    void *impl; /* the implementation's */
};

static inline bool hc_boot_op_done(struct hc_boot_op *op)
{
    return atomic_load_explicit(&op->done, memory_order_acquire);
}

/*
 * Join the job. Several may be open in one process (PMIx is initialised once). Blocks for the launcher's
 * answer. Outside a launcher: a job of one rank; with SLURM_NTASKS > 1 or the like, one warning says how to
 * launch.
 */
hcomm_status_t hc_boot_open(int timeout_ms, struct hc_boot **boot) HC_MUST_CHECK;

/* Leave the job; pending operations must be done or cancelled. NULL is accepted. */
void hc_boot_close(struct hc_boot *boot);

const struct hc_boot_job *hc_boot_job(const struct hc_boot *boot);

/* Number of hc_boot_open() calls before this one in the process: makes the keys of several contexts distinct.
 */
unsigned hc_boot_instance(const struct hc_boot *boot);

/* Make a blob known to the other ranks under `key` (at most 31 bytes). Does not wait for anybody. */
hcomm_status_t hc_boot_put(struct hc_boot *boot, const char *key, const void *blob,
                           size_t size) HC_MUST_CHECK;

/* Start fetching `key` of a rank, also one that has not put it yet; done when it has, or at the deadline
 * (error). */
hcomm_status_t hc_boot_get(struct hc_boot *boot, uint32_t rank, const char *key,
                           struct hc_boot_op *op) HC_MUST_CHECK;

/*
 * Start waiting for all ranks of the job to start the same fence. Fences have no names: all ranks start them
 * in the same order, over all open hc_boots.
 */
hcomm_status_t hc_boot_fence(struct hc_boot *boot, struct hc_boot_op *op) HC_MUST_CHECK;

/* Forget an operation: after return nothing touches *op any more. Harmless when done. */
void hc_boot_op_cancel(struct hc_boot *boot, struct hc_boot_op *op);

/*
 * A descriptor that polls readable when an operation is done, an event is waiting, or an operation's deadline
 * has come; hc_boot_drain() resets it. Drain is also what ends operations at their deadline and repeats gets
 * that came too early, so whoever waits for an operation calls it now and then, also when not polling. Cheap
 * (no system call) when there is nothing to do.
 */
int hc_boot_fd(const struct hc_boot *boot);
void hc_boot_drain(struct hc_boot *boot);

/*
 * The next event, HC_BOOT_EVENT_NONE when there is none. Each rank is reported lost at most once per hc_boot,
 * the server as well. Cheap: two plain loads when there is none.
 */
struct hc_boot_event hc_boot_next_event(struct hc_boot *boot);

/*
 * Tell a rank of the job that something is wanted of it: it gets HC_BOOT_EVENT_CALLED, once for any number of
 * calls before it looks. Does not wait; whether the call arrives, only an answer of another kind can tell.
 */
hcomm_status_t hc_boot_call_rank(struct hc_boot *boot, uint32_t rank) HC_MUST_CHECK;

/* Host index of every rank (size entries), hosts numbered in order of their lowest rank. May ask the server.
 */
hcomm_status_t hc_boot_hosts(struct hc_boot *boot, uint32_t *host_of) HC_MUST_CHECK;

/* Ask the launcher to end the job with an exit code. boot may be NULL. Returns when asked; any thread. */
void hc_boot_abort(struct hc_boot *boot, int code, const char *message);

#endif
