/* Making things move: transports, queues, connections, liveness. Lock held. */
#ifndef HC_PROGRESS_H
#define HC_PROGRESS_H

#include "runtime/core/core.h"

/* Take in what the launcher reported: lost ranks, lost server. */
void hc_progress_boot_events(struct hcomm_context *context);

/* Whether something waits for time to pass rather than for a descriptor (retries, the bandwidth limit). */
bool hc_progress_is_short_of_events(const struct hcomm_context *context);

/*
 * Bandwidth limit: take `bytes` from the bucket (token bucket, refilled by the clock; a send may overdraw it,
 * the next waits). False: not now.
 */
bool hc_bandwidth_take(struct hcomm_context *context, size_t bytes);

#endif
