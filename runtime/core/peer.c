/* Reaching peers, lazily, and noticing that they are gone. */
#include "runtime/core/peer.h"

#include "runtime/core/comm.h"
#include "runtime/core/device_ipc.h"
#include "runtime/core/lend.h"
#include "runtime/core/request.h"
#include "runtime/core/rndv.h"
#include "runtime/core/select.h"
#include "runtime/core/send.h"
#include "runtime/core/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST_PAUSE_MS = 10 };

static void disown(struct hc_peer *peer)
{
    char text[128];
    (void)snprintf(text, sizeof(text), HC_FORKED_TEXT, peer->context->job->rank);
    peer->state = HC_PEER_FAILED;
    peer->failure = HCOMM_ERR_INVALID;
    peer->direct_limit = 0;
    peer->detail = strdup(text);
}

void hc_peer_disown_all(struct hcomm_context *context)
{
    hc_lock_init(&context->lock); /* whoever held it is not in this process */
    context->forked = true;
    context->finalizing = true; /* communicators return nothing to their peers */
    context->num_polled = 0;
    context->num_ifaces = 0; /* rings and sockets are the parent's: neither polled nor slept on */
    context->num_barriers = 0;
    context->has_work = false;
    context->progress_thread_running = false;
    hc_wait_fini(context); /* the descriptors stay open in the parent */
    for (uint32_t rank = 0; rank < context->job->size; rank++)
        if (context->peers[rank]) {
            disown(context->peers[rank]);
            hc_barrier_fail_peer(context, context->peers[rank]);
        }
}

struct hc_peer *hc_peer_create(struct hcomm_context *context, uint32_t rank)
{
    struct hc_peer *peer = calloc(1, sizeof(*peer));
    if (!peer) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "peer %u: out of memory", rank);
        return NULL;
    }
    peer->context = context;
    peer->rank = rank;
    peer->pidfd = -1;
    hc_fifo_init(&peer->send_queue);
    hc_fifo_init(&peer->control_queue);
    hc_list_init(&peer->rndv_waiting);
    hc_list_init(&peer->streaming);
    hc_list_init(&peer->pending);
    hc_list_init(&peer->fetching);
    hc_list_init(&peer->failing);
    context->peers[rank] = peer;
    if (context->forked)
        disown(peer);
    return peer;
}

static void free_storage(struct hc_peer *peer)
{
    free(peer->detail);
    free(peer->blob);
    free(peer->batch);
    free(peer);
}

static void close_ep(struct hc_peer *peer)
{
    if (peer->ep)
        peer->ops->ep_destroy(peer->ep);
    peer->ep = NULL;
    if (peer->pidfd >= 0)
        (void)close(peer->pidfd);
    peer->pidfd = -1;
}

void hc_peer_end_operations(struct hc_peer *peer)
{
    if (peer->state != HC_PEER_FAILED)
        peer->failure = HCOMM_ERR_CANCELLED;
    hc_send_drop_queues(peer);
    hc_rndv_fail_peer(peer);
    hc_lend_close(peer);
}

void hc_peer_free(struct hc_peer *peer)
{
    if (!peer)
        return;
    if (peer->state == HC_PEER_FETCHING)
        hc_boot_op_cancel(peer->context->boot, &peer->boot_op);
    hc_send_drop_queues(peer);
    close_ep(peer);
    free_storage(peer);
}

const char *hc_peer_name(const struct hc_peer *peer)
{
    static _Thread_local char name[128];
    if (peer->info.hostname_len)
        (void)snprintf(name, sizeof(name), "rank %u on host %.*s", peer->rank, (int)peer->info.hostname_len,
                       peer->info.hostname);
    else if (peer->context->job->num_hosts == 1)
        (void)snprintf(name, sizeof(name), "rank %u on host %s", peer->rank, peer->context->job->hostname);
    else
        (void)snprintf(name, sizeof(name), "rank %u (not reached yet, host unknown)", peer->rank);
    return name;
}

hcomm_status_t hc_peer_error(const struct hc_peer *peer)
{
    return hc_error(peer->failure, "%s", peer->detail ? peer->detail : hc_status_text(peer->failure));
}

void hc_peer_malformed(struct hc_peer *peer, const char *message, const char *why)
{
    char detail[256];
    (void)snprintf(detail, sizeof(detail), "%s sent a malformed %s message: %s", hc_peer_name(peer), message,
                   why);
    if (peer->state != HC_PEER_FAILED)
        hc_log_warn("%s", detail); /* perhaps nothing that waits for this peer tells of it */
    hc_peer_fail(peer, HCOMM_ERR_PROTOCOL, detail);
}

void hc_peer_unsuited(const struct hc_peer *peer, const char *message)
{
    hc_log_warn("%s sent a %s message that does not suit its request: dropped", hc_peer_name(peer), message);
}

void hc_peer_set_pending(struct hc_peer *peer)
{
    peer->context->has_work = true;
    if (peer->is_pending)
        return;
    peer->is_pending = true;
    hc_list_append(&peer->context->pending, &peer->pending);
}

static void watch_fetching(struct hc_peer *peer)
{
    peer->state = HC_PEER_FETCHING;
    hc_list_append(&peer->context->fetching, &peer->fetching);
    peer->context->has_work = true;
}

static hcomm_status_t start_fetch(struct hc_peer *peer)
{
    peer->retry_at = 0;
    atomic_init(&peer->boot_op.done, 0);
    char more[HC_CONTEXT_KEY_MAX];
    const char *key = peer->more ? hc_context_more_key(peer->context, more) : peer->context->key;
    return hc_boot_get(peer->context->boot, peer->rank, key, &peer->boot_op);
}

void hc_peer_fail(struct hc_peer *peer, hcomm_status_t status, const char *detail)
{
    if (peer->state == HC_PEER_FAILED)
        return;
    struct hcomm_context *context = peer->context;
    if (peer->state == HC_PEER_FETCHING) {
        hc_boot_op_cancel(context->boot, &peer->boot_op);
        hc_list_remove(&peer->fetching);
    }
    peer->state = HC_PEER_FAILED;
    peer->direct_limit = 0;
    peer->failure = status;
    free(peer->detail);
    peer->detail = strdup(detail);
    hc_list_append(&context->failing, &peer->failing);
    context->has_work = true;
    hc_counter_add(&context->counters, HC_COUNTER_PEERS_LOST, 1);
    if (context->finalizing)
        hc_log_debug("%s", detail);
    else
        hc_log_info("%s", detail);
}

/* Another attempt after a pause that doubles, as long as retry_count allows; else the peer has failed. */
static void retry_or_fail(struct hc_peer *peer, hcomm_status_t status)
{
    struct hcomm_context *context = peer->context;
    if (peer->attempts >= (unsigned)context->settings.retry_count) {
        char detail[400];
        (void)snprintf(detail, sizeof(detail), "%s cannot be reached after %u attempts: %s",
                       hc_peer_name(peer), peer->attempts + 1, hc_error_detail());
        hc_peer_fail(peer, status, detail);
        return;
    }
    peer->retry_at = hc_deadline_ms(FIRST_PAUSE_MS << peer->attempts);
    peer->attempts++;
    hc_counter_add(&context->counters, HC_COUNTER_CONNECT_RETRIES, 1);
    hc_log_debug("attempt %u to reach rank %u failed: %s", peer->attempts, peer->rank, hc_error_detail());
}

/* A peer on this host is watched by its process id, whatever transport reaches it. */
static void watch_process(struct hc_peer *peer)
{
    struct hcomm_context *context = peer->context;
    if (peer->rank == context->job->rank || peer->info.host_id != context->host_id)
        return;
    peer->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)peer->info.pid, 0);
    if (peer->pidfd < 0) {
        if (errno == ESRCH)
            hc_peer_died(context, peer->rank);
        else
            hc_log_debug("%s is not watched: pidfd_open: %s", hc_peer_name(peer), hc_errno_text(errno));
        return;
    }
    if (hc_wait_add(context, peer->pidfd, HC_WAIT_PEER, peer->rank) != HCOMM_OK)
        hc_log_debug("%s is not watched: %s", hc_peer_name(peer), hc_error_detail());
}

static size_t eager_limit(const struct hc_peer *peer)
{
    return peer->context->settings.mode == HC_MODE_LARGE_MSG ? 0 : peer->attr->eager_max;
}

/* Gathering, the bandwidth limit and devices look at every message; without them small ones take the short
 * way. */
static size_t direct_limit(const struct hc_peer *peer)
{
    const struct hc_settings *settings = &peer->context->settings;
    if (settings->mode == HC_MODE_SMALL_MSG || settings->bandwidth_limit || peer->context->device)
        return 0;
    size_t limit = peer->attr->short_max - sizeof(struct hc_wire_match) + 1;
    if (peer->eager_max < limit)
        limit = peer->eager_max + 1;
    if (peer->zcopy_min < limit)
        limit = peer->zcopy_min;
    /* from there on it matters whose memory it is */
    return (peer->attr->caps & HC_CAP_MAP) && peer->attr->map_min < limit ? peer->attr->map_min : limit;
}

static void become_ready(struct hc_peer *peer, struct hc_ep *ep)
{
    peer->ep = ep;
    ep->user = peer;
    peer->ops = ep->iface->transport;
    peer->attr = &ep->iface->attr;
    peer->eager_max = eager_limit(peer);
    peer->zcopy_min = peer->attr->zcopy_min ? peer->attr->zcopy_min : SIZE_MAX;
    peer->direct_limit = direct_limit(peer);
    peer->gathers =
        peer->context->settings.mode == HC_MODE_SMALL_MSG && peer->rank != peer->context->job->rank;
    peer->lend_min = hc_lend_min(peer);
    peer->direct_limit = hc_smaller(peer->direct_limit, peer->lend_min);
    peer->window = peer->info.eager_window;
    peer->credit = peer->window;
    peer->state = HC_PEER_READY;
    hc_list_remove(&peer->fetching);
    hc_counter_add(&peer->context->counters, HC_COUNTER_CONNECTIONS, 1);
    hc_peer_set_pending(peer);
    watch_process(peer);
}

static hcomm_status_t injected_fault(const struct hc_peer *peer)
{
    if (peer->attempts >= (unsigned)peer->context->settings.fault_connect ||
        peer->rank == peer->context->job->rank)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_UNREACHABLE, "fault injected (setting fault_connect)");
}

/* Through the best transport, or the next best ones where access is denied. */
static hcomm_status_t find_way(struct hc_peer *peer, struct hc_iface_slot **slot, struct hc_ep **ep)
{
    struct hcomm_context *context = peer->context;
    const struct hc_blob_address *address = NULL;
    hcomm_status_t status = HCOMM_ERR_UNREACHABLE;
    *slot = hc_select_iface(context, peer->rank, &peer->info, NULL, &address);
    if (!*slot)
        return hc_error(HCOMM_ERR_UNREACHABLE,
                        "no transport is open on both sides; `hcomm_info --transports` lists "
                        "them, HCOMM_TRANSPORTS=ofi:tcp works everywhere");
    while (*slot && status == HCOMM_ERR_UNREACHABLE) {
        struct hc_iface *iface = (*slot)->iface;
        status = iface->transport->ep_create(iface, peer->rank, address->addr, address->addr_len, ep);
        if (status == HCOMM_ERR_UNREACHABLE)
            *slot = hc_select_iface(context, peer->rank, &peer->info, *slot, &address);
    }
    return status;
}

static hcomm_status_t create_ep(struct hc_peer *peer)
{
    struct hc_iface_slot *slot = NULL;
    struct hc_ep *ep = NULL;
    hcomm_status_t status = find_way(peer, &slot, &ep);
    if (status != HCOMM_OK)
        return status;
    if (slot->quiet)
        hc_select_poll(peer->context, slot);
    become_ready(peer, ep);
    hc_log_debug("%s is reached through %s", hc_peer_name(peer), slot->resource.name);
    return HCOMM_OK;
}

/* Takes the blob over. */
static hcomm_status_t take_blob(struct hc_peer *peer, void *blob, size_t size)
{
    peer->blob = blob;
    return hc_blob_parse(blob, size, &peer->info);
}

static void forget_blob(struct hc_peer *peer)
{
    free(peer->blob);
    peer->blob = NULL;
    peer->info = (struct hc_blob){0};
}

/*
 * Nothing that both have open leads there, as between ranks of one host in different name spaces of process
 * ids or users, which shared memory does not cross. Both open what else there is, and meet there; one that
 * has it open already, for want of shared memory, calls the other one all the same.
 */
static hcomm_status_t try_further(struct hc_peer *peer)
{
    struct hcomm_context *context = peer->context;
    if (peer->more || !hc_select_allows_ofi(context))
        return HCOMM_ERR_UNREACHABLE;
    hc_log_info("%s: %s; trying further transports", hc_peer_name(peer), hc_error_detail());
    free(peer->detail);                       /* of an attempt before */
    peer->detail = strdup(hc_error_detail()); /* the cause, if that does not help */
    hcomm_status_t status = hc_context_open_more(context);
    if (status == HCOMM_OK)
        status = hc_boot_call_rank(context->boot, peer->rank);
    if (status != HCOMM_OK)
        return status;
    peer->more = true;
    forget_blob(peer);
    return start_fetch(peer);
}

static hcomm_status_t reach(struct hc_peer *peer)
{
    hcomm_status_t status = injected_fault(peer);
    if (status != HCOMM_OK)
        return status;
    status = create_ep(peer);
    return status == HCOMM_ERR_UNREACHABLE ? try_further(peer) : status;
}

static hcomm_status_t fetch_failed(struct hc_peer *peer, hcomm_status_t status)
{
    if (!peer->more)
        return hc_error(status, "the launcher does not know its address: %s", hc_status_text(status));
    char detail[512];
    (void)snprintf(detail, sizeof(detail),
                   "%s cannot be reached: %s; it was asked to open another and did not answer",
                   hc_peer_name(peer), peer->detail ? peer->detail : hc_status_text(status));
    hc_peer_fail(peer, HCOMM_ERR_UNREACHABLE, detail);
    return HCOMM_ERR_UNREACHABLE;
}

/* The blob is here, or the fetch failed. */
static hcomm_status_t finish_fetch(struct hc_peer *peer)
{
    struct hc_boot_op *op = &peer->boot_op;
    if (peer->blob)
        return reach(peer);
    if (op->status != HCOMM_OK)
        return fetch_failed(peer, op->status);
    hcomm_status_t status = take_blob(peer, op->data, op->size);
    return status == HCOMM_OK ? reach(peer) : status;
}

/* Nobody needs to be asked about this rank itself. */
static hcomm_status_t reach_self(struct hc_peer *peer)
{
    size_t size = 0;
    void *blob = malloc(HC_BLOB_MAX);
    if (!blob)
        return hc_error(HCOMM_ERR_NO_MEMORY, "reaching the own rank: out of memory");
    hcomm_status_t status = hc_context_describe(peer->context, blob, &size);
    if (status != HCOMM_OK) {
        free(blob);
        return status;
    }
    status = take_blob(peer, blob, size);
    return status == HCOMM_OK ? create_ep(peer) : status;
}

void hc_peer_connect(struct hc_peer *peer)
{
    if (peer->state != HC_PEER_NEW)
        return;
    watch_fetching(peer);
    bool is_self = peer->rank == peer->context->job->rank;
    hcomm_status_t status = is_self ? reach_self(peer) : start_fetch(peer);
    if (status != HCOMM_OK)
        retry_or_fail(peer, status);
}

static bool retry_is_due(const struct hc_peer *peer)
{
    return !peer->retry_at || hc_clock_ns() >= peer->retry_at;
}

static bool advance_fetch(struct hc_peer *peer)
{
    if (!retry_is_due(peer))
        return false;
    hcomm_status_t status = HCOMM_OK;
    if (peer->retry_at && !peer->blob) {
        status = start_fetch(peer);
    } else if (peer->blob || hc_boot_op_done(&peer->boot_op)) {
        peer->retry_at = 0;
        status = finish_fetch(peer);
    } else {
        return false;
    }
    if (status != HCOMM_OK && peer->state == HC_PEER_FETCHING)
        retry_or_fail(peer, status);
    return true;
}

struct failure {
    struct hc_peer *peer;
    struct hc_list requests; /* receives that wait for it, or for anybody when nobody is left */
};

static bool collect_receive(struct hc_match_recv *recv, void *arg)
{
    struct failure *failure = arg;
    struct hcomm_request *request = hc_container_of(recv, struct hcomm_request, match);
    if (request->peer ? request->peer != failure->peer : !hc_comm_check_deserted(request->comm))
        return false;
    hc_list_append(&failure->requests, &request->stream_node);
    return true;
}

static void end_receive(struct hcomm_request *request, const struct hc_peer *lost)
{
    hc_request_complete(request, request->peer ? lost->failure : HCOMM_ERR_PEER_LOST);
}

static void fail_receives(struct hc_peer *peer)
{
    struct failure failure = {.peer = peer};
    hc_list_init(&failure.requests);
    hc_match_visit_posted(&peer->context->match, collect_receive, &failure);
    struct hc_list *node;
    while ((node = hc_list_pop(&failure.requests)))
        end_receive(hc_list_entry(node, struct hcomm_request, stream_node), peer);
}

/* Everything that waits for the peer ends; the ep goes first, so that no completion arrives afterwards. */
static void fail_operations(struct hc_peer *peer)
{
    hc_list_remove(&peer->failing);
    close_ep(peer);
    hc_send_drop_queues(peer);
    hc_rndv_fail_peer(peer);
    hc_lend_close(peer);
    fail_receives(peer);
    hc_barrier_fail_peer(peer->context, peer);
    if (peer->context->device)
        hc_device_peer_failed(peer->context->device, peer);
    peer->credit = 0;
}

unsigned hc_peer_progress(struct hcomm_context *context)
{
    unsigned changed = 0;
    struct hc_list *node, *next;
    if (!hc_list_empty(&context->fetching))
        hc_boot_drain(context->boot);
    hc_list_for_each_safe(node, next, &context->fetching) changed +=
        advance_fetch(hc_list_entry(node, struct hc_peer, fetching));
    while ((node = hc_list_first(&context->failing))) {
        fail_operations(hc_list_entry(node, struct hc_peer, failing));
        changed++;
    }
    return changed;
}

void hc_core_ep_failed(void *arg, struct hc_ep *ep, hcomm_status_t status)
{
    (void)arg;
    struct hc_peer *peer = ep->user;
    if (!peer)
        return;
    char detail[256];
    (void)snprintf(detail, sizeof(detail), "connection to %s broke: %s", hc_peer_name(peer),
                   hc_status_text(status));
    bool told = status == HCOMM_ERR_UNREACHABLE || status == HCOMM_ERR_PROTOCOL;
    hc_peer_fail(peer, told ? status : HCOMM_ERR_PEER_LOST, detail);
}
