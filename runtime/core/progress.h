/* Making things move: transports, queues, connections, liveness. Lock held. */
#ifndef HC_PROGRESS_H
#define HC_PROGRESS_H

#include "runtime/core/core.h"

/* Take in what the launcher reported: lost ranks, lost server. */
void hc_progress_boot_events(struct hcomm_context *context);

/* Whether something waits for time to pass rather than for a descriptor (retries, the bandwidth limit). */
bool hc_progress_is_short_of_events(const struct hcomm_context *context);

/*
 * A thread that waits in one context also moves the messages of the others of this process: a peer may wait
 * for those before it answers. Register when ready for hc_progress(), unregister (lock not held) before the
 * end.
 */
void hc_progress_register(struct hcomm_context *context);
void hc_progress_unregister(struct hcomm_context *context);
/* Whether the handle is of a registered context; the pointer is only compared. */
bool hc_progress_is_registered(const struct hcomm_context *context);
/* Whether the process has contexts beside the one that asks. */
bool hc_progress_has_others(void);
/* Progress the others whose lock is free; `context` is the caller's. */
void hc_progress_others(const struct hcomm_context *context);

/*
 * Bandwidth limit: take `bytes` from the bucket (token bucket, refilled by the clock; a send may overdraw it,
 * the next waits). False: not now.
 */
bool hc_bandwidth_take(struct hcomm_context *context, size_t bytes);

#endif
