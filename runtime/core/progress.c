#include "runtime/core/progress.h"

#include "runtime/core/device.h"
#include "runtime/core/lend.h"
#include "runtime/core/peer.h"
#include "runtime/core/send.h"
#include "runtime/core/stream.h"
#include "runtime/core/wait.h"

#include <stdio.h>
#include <string.h>

enum { BURST_MS = 2, DRAIN_TURNS = 1000 };

bool hc_progress_is_short_of_events(const struct hcomm_context *context)
{
    return !hc_list_empty(&context->pending) || !hc_list_empty(&context->fetching) ||
           !hc_list_empty(&context->failing) || !hc_list_empty(&context->lent) ||
           hc_streams_must_poll(context);
}

static void report_lost_server(struct hcomm_context *context)
{
    for (uint32_t rank = 0; rank < context->job->size; rank++) {
        struct hc_peer *peer = context->peers[rank];
        if (peer && rank != context->job->rank)
            hc_peer_fail(peer, HCOMM_ERR_BOOTSTRAP, "the launcher's PMIx server is gone: the job is over");
    }
    hc_log_error("the launcher's PMIx server is gone: the job is over");
}

/* What a peer sent before it died counts: take in what has arrived before it is given up, as nothing is taken
 * from a failed peer. In so many turns, because others may go on sending. */
static void drain_transports(struct hcomm_context *context)
{
    for (int turns = 0; turns < DRAIN_TURNS; turns++) {
        unsigned moved = 0;
        for (unsigned i = 0; i < context->num_ifaces; i++) {
            struct hc_iface *iface = context->ifaces[i].iface;
            moved += iface->transport->progress(iface);
        }
        if (!moved)
            return;
    }
}

static void report_lost_rank(struct hcomm_context *context, uint32_t rank)
{
    if (rank >= context->job->size || rank == context->job->rank)
        return;
    struct hc_peer *peer = hc_peer_get(context, rank);
    if (!peer)
        return;
    drain_transports(context);
    char detail[192];
    (void)snprintf(detail, sizeof(detail), "%s ended abnormally, as the launcher reports",
                   hc_peer_name(peer));
    hc_peer_fail(peer, HCOMM_ERR_PEER_LOST, detail);
}

/* A rank of this host cannot be reached by it through what is open. */
static void answer_call(struct hcomm_context *context)
{
    if (!context->finalizing && hc_context_open_more(context) != HCOMM_OK)
        hc_log_warn("a rank that does not reach this one gets no answer: %s", hc_error_detail());
}

void hc_progress_boot_events(struct hcomm_context *context)
{
    for (;;) {
        struct hc_boot_event event = hc_boot_next_event(context->boot);
        if (event.kind == HC_BOOT_EVENT_NONE)
            return;
        if (event.kind == HC_BOOT_EVENT_CALLED)
            answer_call(context);
        else if (event.kind == HC_BOOT_EVENT_RANK_LOST)
            report_lost_rank(context, event.rank);
        else
            report_lost_server(context);
    }
}

void hc_peer_died(struct hcomm_context *context, uint32_t rank)
{
    struct hc_peer *peer = rank < context->job->size ? context->peers[rank] : NULL;
    if (!peer)
        return;
    drain_transports(context);
    char detail[192];
    (void)snprintf(detail, sizeof(detail), "%s, process %u, has ended", hc_peer_name(peer), peer->info.pid);
    hc_wait_remove(context, peer->pidfd);
    hc_peer_fail(peer, HCOMM_ERR_PEER_LOST, detail);
}

static void refill_bucket(struct hcomm_context *context)
{
    int64_t bytes_per_ms = (int64_t)context->settings.bandwidth_limit * 1000;
    uint64_t now = hc_clock_ns();
    int64_t gained = (int64_t)((double)(now - context->tokens_at) * 1e-6 * (double)bytes_per_ms);
    if (gained <= 0)
        return; /* the clock value stays, so that short intervals add up */
    context->tokens_at = now;
    context->tokens += gained;
    if (context->tokens > bytes_per_ms * BURST_MS)
        context->tokens = bytes_per_ms * BURST_MS;
}

bool hc_bandwidth_take(struct hcomm_context *context, size_t bytes)
{
    if (hc_likely(!context->settings.bandwidth_limit))
        return true;
    refill_bucket(context);
    if (context->tokens < 0) {
        hc_counter_add(&context->counters, HC_COUNTER_BANDWIDTH_STALLS, 1);
        return false;
    }
    context->tokens -= (int64_t)bytes;
    return true;
}

static unsigned serve_pending(struct hcomm_context *context)
{
    unsigned moved = 0;
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &context->pending)
    {
        struct hc_peer *peer = hc_list_entry(node, struct hc_peer, pending);
        moved += hc_peer_advance(peer);
        if (hc_peer_is_idle(peer)) {
            hc_list_remove(&peer->pending);
            peer->is_pending = false;
        }
    }
    return moved;
}

/* Rare work; has_work stays set while any of it is left. */
static unsigned progress_queues(struct hcomm_context *context)
{
    unsigned moved = 0;
    if (!hc_list_empty(&context->fetching) || !hc_list_empty(&context->failing))
        moved += hc_peer_progress(context);
    moved += serve_pending(context);
    if (hc_unlikely(!hc_list_empty(&context->lent)))
        moved += hc_lend_progress(context);
    if (context->streams)
        moved += hc_streams_progress(context);
    context->has_work = !hc_list_empty(&context->pending) || !hc_list_empty(&context->fetching) ||
                        !hc_list_empty(&context->failing) || !hc_list_empty(&context->lent) ||
                        hc_streams_are_active(context);
    return moved;
}

/* This poll has disarmed transports that another thread sleeps on: let it arm them again. */
static void disarm(struct hcomm_context *context)
{
    context->armed = false;
    if (context->sleepers)
        hc_wake_sleepers(context);
}

/* All contexts of the process. */
static struct hc_lock registry_lock = HC_LOCK_INIT;
static struct hc_list registry = {&registry, &registry};
/* Read without the lock as a hint: relaxed, no partner. */
static atomic_uint registry_count;

static void before_fork(void)
{
    hc_lock_acquire(&registry_lock);
}

static void after_fork(void)
{
    hc_lock_release(&registry_lock);
}

static void in_forked_child(void)
{
    struct hc_list *node;
    hc_lock_init(&registry_lock); /* of another process */
    hc_list_for_each(node, &registry)
        hc_peer_disown_all(hc_list_entry(node, struct hcomm_context, registered));
}

static void watch_forks(void)
{
    int error = pthread_atfork(before_fork, after_fork, in_forked_child);
    if (error)
        hc_log_warn("children that this process forks must not use hcomm: pthread_atfork: %s",
                    hc_errno_text(error));
}

bool hc_progress_is_registered(const struct hcomm_context *context)
{
    bool found = false;
    struct hc_list *node;
    hc_lock_acquire(&registry_lock);
    hc_list_for_each(node, &registry) found =
        found || hc_list_entry(node, struct hcomm_context, registered) == context;
    hc_lock_release(&registry_lock);
    return found;
}

const char *hc_progress_fault(const struct hcomm_context *context)
{
    if (!context)
        return "handle is NULL";
    return hc_progress_is_registered(context)
               ? NULL
               : "the handle is not of a context in use; it may be finalized already";
}

/* All contexts of a process are of one rank. */
static void identify(const struct hcomm_context *context, char *text, size_t size)
{
    if (!*text)
        (void)snprintf(text, size, "rank %u", context->job->rank);
    size_t len = strlen(text);
    if (context->device)
        (void)snprintf(text + len, size - len, ", device %d (physical %d)", hc_device_id(context->device),
                       hc_device_physical(context->device));
}

void hc_progress_identify(char *text, size_t size)
{
    struct hc_list *node;
    text[0] = '\0';
    hc_lock_acquire(&registry_lock);
    hc_list_for_each(node, &registry)
        identify(hc_list_entry(node, struct hcomm_context, registered), text, size);
    hc_lock_release(&registry_lock);
    if (!*text)
        (void)snprintf(text, size, "no context is in use");
}

void hc_progress_register(struct hcomm_context *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    hc_lock_acquire(&registry_lock);
    hc_list_append(&registry, &context->registered);
    atomic_fetch_add_explicit(&registry_count, 1, memory_order_relaxed);
    hc_lock_release(&registry_lock);
}

void hc_progress_unregister(struct hcomm_context *context)
{
    hc_lock_acquire(&registry_lock);
    if (context->registered.next) {
        hc_list_remove(&context->registered);
        context->registered.next = NULL;
        atomic_fetch_sub_explicit(&registry_count, 1, memory_order_relaxed);
    }
    hc_lock_release(&registry_lock);
}

bool hc_progress_has_others(void)
{
    return atomic_load_explicit(&registry_count, memory_order_relaxed) > 1;
}

void hc_progress_others(const struct hcomm_context *context)
{
    if (hc_likely(!hc_progress_has_others()) || !hc_lock_try(&registry_lock))
        return;
    struct hc_list *node;
    hc_list_for_each(node, &registry)
    {
        struct hcomm_context *other = hc_list_entry(node, struct hcomm_context, registered);
        if (other == context || !hc_lock_try(&other->lock))
            continue;
        (void)hc_progress(other);
        hc_lock_release(&other->lock);
    }
    hc_lock_release(&registry_lock);
}

unsigned hc_progress_rest(struct hcomm_context *context, unsigned moved)
{
    if (context->armed)
        disarm(context);
    if (context->has_work)
        moved += progress_queues(context);
    if (context->num_barriers)
        moved += hc_barrier_progress(context);
    return moved;
}

void hc_progress_check(struct hcomm_context *context)
{
    if (hc_clock_ns() >= context->next_check)
        hc_wait_check_events(context);
}

unsigned hc_progress(struct hcomm_context *context)
{
    return hc_progress_once(context);
}
