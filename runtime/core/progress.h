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
/* What is wrong with a handle that the application gave; NULL: nothing. */
const char *hc_progress_fault(const struct hcomm_context *context);
/* Whose process this is, for errors that are of no context: "rank 3, device 0 (physical 4)"; every context
 * that has a device adds it. */
enum { HC_IDENTITY_MAX = 160 };
void hc_progress_identify(char *text, size_t size);
/* Whether the process has contexts beside the one that asks. */
bool hc_progress_has_others(void);
/* Progress the others whose lock is free; `context` is the caller's. */
void hc_progress_others(const struct hcomm_context *context);

/*
 * Bandwidth limit: take `bytes` from the bucket (token bucket, refilled by the clock; a send may overdraw it,
 * the next waits). False: not now.
 */
bool hc_bandwidth_take(struct hcomm_context *context, size_t bytes);

enum { HC_PROGRESS_POLLS_PER_CHECK = 1024 };

/* What hc_progress() does after polling, where something asks for it; returns how much moved, `moved`
 * included. */
unsigned hc_progress_rest(struct hcomm_context *context, unsigned moved);
/* Look after dead peers and the launcher if it is time. */
void hc_progress_check(struct hcomm_context *context) HC_COLD;

/* hc_progress() without a call. */
static inline unsigned hc_progress_once(struct hcomm_context *context)
{
    unsigned moved = 0;
    context->rounds++;
    for (unsigned i = 0; i < context->num_polled; i++) {
        struct hc_iface *iface = context->polled[i];
        moved += iface->transport->progress(iface);
    }
    if (hc_unlikely(context->armed || context->has_work || context->num_barriers))
        moved = hc_progress_rest(context, moved);
    if (!moved && hc_unlikely(++context->idle_polls % HC_PROGRESS_POLLS_PER_CHECK == 0))
        hc_progress_check(context);
    return moved;
}

/*
 * What completed sends have left gathered or queued here goes on: nobody may call again for a long time.
 * Before an error is explained to the caller, or without one: others may come up meanwhile. Lock held.
 */
static inline void hc_push_out(struct hcomm_context *context)
{
    if (hc_unlikely(context->has_work))
        (void)hc_progress(context);
}

#endif
