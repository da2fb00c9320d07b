/*
 * The PMIx server of a job: what the rest of the launcher sees of it. No PMIx type passes this header.
 *
 * Threads: the PMIx library calls upcalls on a thread of its own. Those that only answer (fence, direct
 * modex) answer there; those that touch the launcher's state are handed to its main thread through a queue.
 */
#ifndef HC_LAUNCHER_PMIX_SERVER_H
#define HC_LAUNCHER_PMIX_SERVER_H

#include "launcher/environment.h"
#include "launcher/launch.h"

struct hc_pmix;

/* Start the server and register the job and all its ranks, whose places must be known. One per process. */
hcomm_status_t hc_pmix_start(struct hc_launch *launch, struct hc_pmix **pmix) HC_MUST_CHECK;

/*
 * Stop serving; the process is to end with _exit(2) soon. PMIx_server_finalize() is not called on purpose:
 * with clients that died in the middle of a request, PMIx 4.2 waits in it for a lock of theirs for ever. Its
 * files are in the session directory, which is removed whole. NULL is accepted.
 */
void hc_pmix_stop(struct hc_pmix *pmix);

/* Put what a rank needs to find the server into its environment. */
hcomm_status_t hc_pmix_set_environment(struct hc_pmix *pmix, uint32_t rank,
                                       struct hc_environment *environment) HC_MUST_CHECK;

/* Handle what the upcalls have queued so far. */
void hc_pmix_drain(struct hc_pmix *pmix);

/* Tell the other ranks that this one ended abnormally. */
void hc_pmix_notify_failure(struct hc_pmix *pmix, const struct hc_rank *rank);

#endif
