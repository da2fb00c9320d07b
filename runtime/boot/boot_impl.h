/*
 * Inside of the bootstrap: what its implementations share. A call is the indirection between the caller's
 * hc_boot_op and a server that may answer at any time, or never: the server's side refers to the call only,
 * and completing, cancelling and expiring meet under the call's lock.
 */
#ifndef HC_BOOT_IMPL_H
#define HC_BOOT_IMPL_H

#include "runtime/base/list.h"
#include "runtime/base/lock.h"
#include "runtime/boot/boot.h"

enum { HC_BOOT_KEY_MAX = 32 };

struct hc_boot_call;

/* One implementation. issue: hand a call to the server, which takes over one reference when HCOMM_OK. */
struct hc_boot_ops {
    const char *name;
    void (*close)(struct hc_boot *boot);
    hcomm_status_t (*put)(struct hc_boot *boot, const char *key, const void *blob, size_t size) HC_MUST_CHECK;
    hcomm_status_t (*issue)(struct hc_boot *boot, struct hc_boot_call *call) HC_MUST_CHECK;
    hcomm_status_t (*hosts)(struct hc_boot *boot, uint32_t *host_of) HC_MUST_CHECK;
    hcomm_status_t (*call_rank)(struct hc_boot *boot, uint32_t rank) HC_MUST_CHECK;
};

/* Ranks that ended abnormally, in the order noticed, each once; written by one side, read by others. */
struct hc_boot_losses {
    uint32_t *ranks;
    atomic_size_t count; /* release: entries below are written; partner: acquire in hc_boot_next_event */
    /* The server is gone. release; partner: acquire in hc_boot_next_event and hc_boot_drain */
    atomic_bool server;
    /* Calls of other ranks so far. release; partner: acquire in hc_boot_next_event */
    atomic_uint calls;
};

struct hc_boot {
    const struct hc_boot_ops *ops;
    struct hc_boot_job job;
    unsigned instance;
    int timeout_ms;
    int timer;                     /* timerfd: readable at the next deadline, or at once when signalled */
    struct hc_lock lock;           /* guards signalled and armed, and the timer's state with them */
    bool signalled;                /* news since the last drain */
    uint64_t armed;                /* when the timer fires; HC_NEVER when not */
    struct hc_list calls;          /* of struct hc_boot_call, the caller's threads only */
    struct hc_boot_losses *losses; /* NULL when nothing can be lost */
    size_t losses_told;
    bool server_loss_told;
    unsigned calls_told;
};

struct hc_boot_call {
    struct hc_list link;   /* in hc_boot.calls */
    atomic_int refs;       /* one for the list, one for the server while it works; last one frees (acq_rel) */
    struct hc_lock lock;   /* guards the three below */
    struct hc_boot_op *op; /* NULL once completed or cancelled: then boot may be gone as well */
    uint64_t retry_at;     /* when to issue again; HC_NEVER while the server works */
    unsigned retries;
    struct hc_boot *boot;
    uint64_t deadline;
    bool fence;
    uint32_t rank; /* get */
    char key[HC_BOOT_KEY_MAX];
};

/* The common part of an hc_boot; hc_boot_base_fini() also cancels what is pending. */
hcomm_status_t hc_boot_base_init(struct hc_boot *boot, const struct hc_boot_ops *ops,
                                 int timeout_ms) HC_MUST_CHECK;
void hc_boot_base_fini(struct hc_boot *boot);

/* Make the boot's descriptor readable. Any thread. */
void hc_boot_signal(struct hc_boot *boot);

/* Start a call for op: a fence when key is NULL, else a get. */
hcomm_status_t hc_boot_call_start(struct hc_boot *boot, struct hc_boot_op *op, uint32_t rank,
                                  const char *key) HC_MUST_CHECK;
/* The server's side, any thread: the outcome. Drops the server's reference; data becomes the op's. */
void hc_boot_call_complete(struct hc_boot_call *call, hcomm_status_t status, const char *reason, void *data,
                           size_t size);
/* The server's side, any thread: nothing there yet, ask again later. Drops the server's reference. */
void hc_boot_call_retry_later(struct hc_boot_call *call);

hcomm_status_t hc_boot_single_open(int timeout_ms, struct hc_boot **boot) HC_MUST_CHECK;

/* Whether a PMIx server has left its marks in the environment. */
bool hc_boot_pmix_present(void);
hcomm_status_t hc_boot_pmix_open(int timeout_ms, struct hc_boot **boot) HC_MUST_CHECK;
/* PMIx_Abort when PMIx is in use, else nothing. */
void hc_boot_pmix_abort(int code, const char *message);

/*
 * Parse a list of ranks as launchers give it, "0,1,5", in any order; each below job_size, none twice, `own`
 * among them. *ranks (ascending, free(3)), *count and own's index are the results.
 */
hcomm_status_t hc_boot_parse_ranks(const char *text, uint32_t job_size, uint32_t own, uint32_t **ranks,
                                   uint32_t *count, uint32_t *own_index) HC_MUST_CHECK;

/* Turn host ids (any numbers, one per rank) into indices in order of first appearance. */
hcomm_status_t hc_boot_number_hosts(const uint32_t *ids, uint32_t count, uint32_t *host_of,
                                    uint32_t *num_hosts) HC_MUST_CHECK;

/*
 * Run a function that may block for ever on a thread of its own and wait at most timeout_ms. `argument`
 * (argument_size bytes) is copied in, and copied back when the function returned in time. HCOMM_ERR_TIMEOUT:
 * it has not, and goes on with its copy.
 */
hcomm_status_t hc_boot_run_bounded(void (*function)(void *argument), void *argument, size_t argument_size,
                                   int timeout_ms) HC_MUST_CHECK;

#endif
