#include "transports/ofi/ofi.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

/*
 * Connecting: an attempt posts the HELLO again and again until the provider has a connection and takes it. An
 * attempt fails when the provider says so, when a probe finds nobody at the address, or, where no probe is
 * possible, when its share of timeout_ms is over; each attempt's share doubles. A peer that is alive but busy
 * is waited for: the runtime's own deadline covers that.
 */
enum {
    TRY_INTERVAL_MIN_US = 50, /* between posts of a HELLO; doubles: the provider connects meanwhile */
    TRY_INTERVAL_MAX_US = 5000,
    FIRST_PAUSE_MS = 50,  /* after the first failed attempt; doubles */
    PROBE_AFTER_MS = 100, /* of being refused */
    PROBE_INTERVAL_MAX_MS = 10000,
    FORGET_REFUSAL_MS = 1000, /* after the last try: whoever was refused has given up */
};

hcomm_status_t hc_ofi_address(const struct hc_iface *base, void *addr, size_t *len)
{
    const struct hc_ofi_iface *iface = hc_container_of(base, const struct hc_ofi_iface, base);
    if (*len < base->attr.addr_max)
        return hc_error(HCOMM_ERR_INVALID, "an address of %s takes %zu bytes, %zu are there",
                        iface->profile->name, base->attr.addr_max, *len);
    *len = hc_ofi_address_pack(&iface->name, addr);
    return HCOMM_OK;
}

static bool address_reachable(const struct hc_ofi_address *mine, const struct hc_ofi_address *peer)
{
    if (peer->profile != mine->profile || peer->format != mine->format)
        return false;
    bool same_scope = peer->scope == mine->scope;
    if (mine->format == HC_OFI_FORMAT_TEXT)
        return same_scope;
    if (hc_ofi_address_is_loopback(mine) || hc_ofi_address_is_loopback(peer))
        return same_scope && hc_ofi_address_is_loopback(mine) && hc_ofi_address_is_loopback(peer);
    /* Two machines with one address (a bridge of containers, say): it leads back to oneself. */
    return same_scope || !hc_ofi_address_same_host(mine, peer);
}

bool hc_ofi_reachable(const struct hc_iface *base, const void *addr, size_t len)
{
    const struct hc_ofi_iface *iface = hc_container_of(base, const struct hc_ofi_iface, base);
    struct hc_ofi_address peer;
    return hc_ofi_address_parse(addr, len, &peer) == HCOMM_OK && address_reachable(&iface->name, &peer);
}

static hcomm_status_t insert(struct hc_ofi_iface *iface, const struct hc_ofi_address *name,
                             fi_addr_t *address)
{
    fi_addr_t inserted = FI_ADDR_NOTAVAIL;
    int result = fi_av_insert(iface->av, name->name, 1, &inserted, 0, NULL);
    if (result != 1 || inserted == FI_ADDR_NOTAVAIL)
        return hc_ofi_error(iface, "inserting an address", result < 0 ? result : -FI_EINVAL);
    *address = inserted;
    return HCOMM_OK;
}

static bool same_name(const struct hc_ofi_address *a, const struct hc_ofi_address *b)
{
    return a->name_len == b->name_len && !memcmp(a->name, b->name, a->name_len);
}

static struct hc_ofi_peer *peer_new(struct hc_ofi_iface *iface, uint32_t rank)
{
    struct hc_ofi_peer *peer = calloc(1, sizeof(*peer));
    if (!peer)
        return NULL;
    peer->rank = rank;
    peer->iface = iface;
    hc_list_init(&peer->eps);
    hc_list_init(&peer->ahead);
    return peer;
}

hcomm_status_t hc_ofi_peer_get(struct hc_ofi_iface *iface, uint32_t rank, const struct hc_ofi_address *name,
                               struct hc_ofi_peer **peer)
{
    struct hc_ofi_peer *found = iface->peers[rank];
    if (found && same_name(&found->name, name)) {
        *peer = found;
        return HCOMM_OK;
    }
    fi_addr_t address;
    hcomm_status_t status = insert(iface, name, &address);
    if (status != HCOMM_OK)
        return status;
    if (!found)
        found = peer_new(iface, rank);
    if (!found) {
        (void)fi_av_remove(iface->av, &address, 1, 0);
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for rank %u", rank);
    }
    found->address = address;
    found->name = *name;
    iface->peers[rank] = found;
    *peer = found;
    return HCOMM_OK;
}

static void watch(struct hc_ofi_ep *ep)
{
    if (hc_list_empty(&ep->watch_link))
        hc_list_append(&hc_ofi_ep_iface(ep)->watched, &ep->watch_link);
}

hcomm_status_t hc_ofi_ep_create(struct hc_iface *base, uint32_t rank, const void *addr, size_t len,
                                struct hc_ep **ep)
{
    struct hc_ofi_iface *iface = hc_ofi_iface_of(base);
    struct hc_ofi_address name;
    if (rank >= iface->params.world_size || hc_ofi_address_parse(addr, len, &name) != HCOMM_OK ||
        !address_reachable(&iface->name, &name))
        return hc_error(HCOMM_ERR_UNREACHABLE, "rank %u's address is not one that %s reaches", rank,
                        iface->profile->name);
    struct hc_ofi_ep *made = calloc(1, sizeof(*made));
    if (!made)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for an endpoint of %s", iface->profile->name);
    hcomm_status_t status = hc_ofi_peer_get(iface, rank, &name, &made->peer);
    if (status != HCOMM_OK) {
        free(made);
        return status;
    }
    made->base = (struct hc_ep){.iface = base, .peer = rank};
    made->probe_fd = -1;
    hc_list_init(&made->watch_link);
    hc_ofi_gather_init(&made->gather);
    hc_list_init(&made->pending);
    hc_list_init(&made->deferred);
    hc_list_init(&made->flushes);
    hc_list_append(&made->peer->eps, &made->peer_link);
    watch(made);
    *ep = &made->base;
    return HCOMM_OK;
}

static void probe_end(struct hc_ofi_ep *ep)
{
    if (ep->probe_fd >= 0)
        (void)close(ep->probe_fd);
    ep->probe_fd = -1;
}

void hc_ofi_ep_destroy(struct hc_ep *base)
{
    if (!base)
        return;
    struct hc_ofi_ep *ep = hc_ofi_ep_of(base);
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    if (iface->reporting == ep)
        iface->reporting = NULL;
    hc_ofi_ep_abandon(ep, HCOMM_ERR_CANCELLED, false);
    probe_end(ep);
    hc_list_remove(&ep->watch_link);
    hc_list_remove(&ep->peer_link);
    free(ep);
}

void hc_ofi_ep_break(struct hc_ofi_ep *ep, hcomm_status_t error)
{
    if (ep->state >= HC_OFI_EP_BROKEN)
        return;
    if (ep->state == HC_OFI_EP_UP) /* what was on its way may never arrive: the next HELLO begins anew */
        ep->peer->tx_sequence += HC_OFI_SEQUENCE_LEAP;
    ep->state = HC_OFI_EP_BROKEN;
    ep->error = error;
    watch(ep);
}

void hc_ofi_ep_refused(struct hc_ofi_ep *ep)
{
    watch(ep);
    ep->last_refused = hc_clock_ns();
    if (ep->refused_since)
        return;
    ep->refused_since = ep->last_refused;
    ep->probe_interval = PROBE_AFTER_MS * MS;
    ep->next_probe = ep->refused_since + ep->probe_interval;
}

void hc_ofi_ep_accepted(struct hc_ofi_ep *ep)
{
    if (hc_likely(!ep->refused_since))
        return;
    ep->refused_since = 0;
    probe_end(ep);
}

/* What a probe has found out so far. */
enum found { FOUND_NOTHING, FOUND_ALIVE, FOUND_GONE };

static enum found probe_pid(const struct hc_ofi_ep *ep)
{
    pid_t pid = (pid_t)ep->peer->name.pid;
    if (pid <= 0)
        return FOUND_NOTHING;
    return kill(pid, 0) == 0 || errno != ESRCH ? FOUND_ALIVE : FOUND_GONE;
}

static enum found probe_tcp_result(int error)
{
    if (error == 0)
        return FOUND_ALIVE;
    if (error == EINPROGRESS || error == EALREADY || error == EINTR)
        return FOUND_NOTHING;
    return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT ||
                   error == ECONNRESET
               ? FOUND_GONE
               : FOUND_ALIVE; /* our own trouble says nothing about the peer */
}

static enum found probe_tcp_start(struct hc_ofi_ep *ep)
{
    const struct hc_ofi_address *name = &ep->peer->name;
    int family = name->format == HC_OFI_FORMAT_IPV4 ? AF_INET : AF_INET6;
    ep->probe_fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (ep->probe_fd < 0)
        return FOUND_NOTHING;
    const struct sockaddr *to = (const struct sockaddr *)name->name;
    return probe_tcp_result(connect(ep->probe_fd, to, (socklen_t)name->name_len) == 0 ? 0 : errno);
}

static enum found probe_tcp(struct hc_ofi_ep *ep)
{
    enum found found;
    if (ep->probe_fd < 0) {
        found = probe_tcp_start(ep);
    } else {
        struct pollfd pfd = {.fd = ep->probe_fd, .events = POLLOUT};
        int error = 0;
        socklen_t len = sizeof(error);
        if (poll(&pfd, 1, 0) <= 0 || getsockopt(ep->probe_fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
            return FOUND_NOTHING;
        found = probe_tcp_result(error);
    }
    if (found != FOUND_NOTHING)
        probe_end(ep);
    return found;
}

/* Probe a refused ep when it is time; intervals double, so that a busy peer is left in peace. */
static enum found probe(struct hc_ofi_ep *ep, uint64_t now)
{
    enum hc_ofi_probe kind = hc_ofi_ep_iface(ep)->profile->probe;
    if (!ep->refused_since || kind == HC_OFI_PROBE_CLOCK || now < ep->next_probe)
        return FOUND_NOTHING;
    enum found found = kind == HC_OFI_PROBE_PID ? probe_pid(ep) : probe_tcp(ep);
    if (found == FOUND_ALIVE) {
        ep->probe_interval *= 2;
        if (ep->probe_interval > PROBE_INTERVAL_MAX_MS * MS)
            ep->probe_interval = PROBE_INTERVAL_MAX_MS * MS;
        ep->next_probe = now + ep->probe_interval;
    }
    return found;
}

/* How long attempt number `attempts` may take: shares of timeout_ms that double from one attempt to the next.
 */
static uint64_t attempt_share(const struct hc_settings *settings, unsigned attempts)
{
    uint64_t shares = (UINT64_C(1) << (settings->retry_count + 1)) - 1;
    return (uint64_t)settings->timeout_ms * MS * (UINT64_C(1) << attempts) / shares;
}

static void attempt_failed(struct hc_ofi_ep *ep, hcomm_status_t status, const char *why)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    const struct hc_settings *settings = iface->params.settings;
    char where[160];
    hc_ofi_address_text(&ep->peer->name, where, sizeof(where));
    probe_end(ep);
    ep->refused_since = 0;
    ep->attempt_end = 0;
    if (ep->attempts++ >= (unsigned)settings->retry_count) {
        hc_log_debug("%s: rank %u at %s not reached in %u attempts: %s", iface->profile->name, ep->base.peer,
                     where, ep->attempts, why);
        hc_ofi_ep_break(ep, hc_error(status, "%s cannot reach rank %u at %s in %u attempts: %s",
                                     iface->profile->name, ep->base.peer, where, ep->attempts, why));
        return;
    }
    hc_log_debug("%s: attempt %u to reach rank %u at %s failed: %s", iface->profile->name, ep->attempts,
                 ep->base.peer, where, why);
    hc_counter_add(iface->params.counters, HC_COUNTER_CONNECT_RETRIES, 1);
    ep->next_attempt = hc_clock_ns() + ((uint64_t)FIRST_PAUSE_MS * MS << (ep->attempts - 1));
}

static ssize_t post_hello(struct hc_ofi_ep *ep)
{
    struct hc_ofi_op *op = hc_ofi_op_get(ep, HC_OFI_OP_SEND, NULL);
    if (!op)
        return -FI_EAGAIN;
    if (!hc_ofi_op_add_buffer(op)) {
        hc_ofi_op_put(op);
        return -FI_EAGAIN;
    }
    op->iov[0].iov_len = hc_ofi_hello_pack(ep->peer, op->buffer->data);
    ssize_t result = hc_ofi_op_post(op);
    if (result)
        hc_ofi_op_put(op);
    return result;
}

static bool attempt_begin(struct hc_ofi_ep *ep, uint64_t now)
{
    const struct hc_settings *settings = hc_ofi_ep_iface(ep)->params.settings;
    if (ep->attempts < (unsigned)settings->fault_connect) {
        attempt_failed(ep, HCOMM_ERR_UNREACHABLE, "failure asked for by fault_connect");
        return false;
    }
    ep->attempt_end = now + attempt_share(settings, ep->attempts);
    ep->try_interval_us = TRY_INTERVAL_MIN_US;
    return true;
}

/* The provider has no connection yet: find out whether it ever can. */
static void attempt_judge(struct hc_ofi_ep *ep, uint64_t now)
{
    enum found found = probe(ep, now);
    if (found == FOUND_GONE)
        attempt_failed(ep, HCOMM_ERR_UNREACHABLE, "nobody answers there");
    else if (found == FOUND_ALIVE)
        ep->attempt_end = now + attempt_share(hc_ofi_ep_iface(ep)->params.settings, ep->attempts);
    else if (now >= ep->attempt_end)
        attempt_failed(ep, HCOMM_ERR_TIMEOUT, "no answer in time");
}

/* One try within an attempt. The provider takes the HELLO only once it has a connection. */
static void connect_try(struct hc_ofi_ep *ep, uint64_t now)
{
    ssize_t result = post_hello(ep);
    if (result == 0) {
        ep->state = HC_OFI_EP_UP;
    } else if (result == -FI_EAGAIN) {
        ep->try_interval_us *= ep->try_interval_us < TRY_INTERVAL_MAX_US ? 2 : 1;
        ep->next_attempt = now + ep->try_interval_us * UINT64_C(1000);
        attempt_judge(ep, now);
    } else {
        attempt_failed(ep, HCOMM_ERR_UNREACHABLE, hc_ofi_ep_iface(ep)->lib->strerror((int)-result));
    }
}

static unsigned connect_ep(struct hc_ofi_ep *ep, uint64_t now)
{
    if (now < ep->next_attempt || (!ep->attempt_end && !attempt_begin(ep, now)))
        return 0;
    connect_try(ep, now);
    return ep->state != HC_OFI_EP_CONNECTING;
}

bool hc_ofi_ep_connect(struct hc_ofi_ep *ep)
{
    uint64_t now = hc_clock_ns();
    if (ep->state == HC_OFI_EP_CONNECTING && (ep->attempt_end || now >= ep->next_attempt) &&
        (ep->attempt_end || attempt_begin(ep, now)))
        connect_try(ep, now);
    return ep->state == HC_OFI_EP_UP;
}

/* A connection was there and the provider refuses for long: the peer is gone, or just slow to take messages.
 */
static void judge_refused(struct hc_ofi_ep *ep, uint64_t now)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    uint64_t limit = (uint64_t)iface->params.settings->timeout_ms * MS;
    enum found found = probe(ep, now);
    if (found == FOUND_GONE)
        hc_ofi_ep_break(
            ep, hc_error(HCOMM_ERR_PEER_LOST, "%s: rank %u is gone", iface->profile->name, ep->base.peer));
    else if (iface->profile->probe == HC_OFI_PROBE_CLOCK && ep->refused_since &&
             now - ep->refused_since > limit)
        hc_ofi_ep_break(ep,
                        hc_error(HCOMM_ERR_TIMEOUT, "%s: rank %u has taken nothing for %d ms",
                                 iface->profile->name, ep->base.peer, iface->params.settings->timeout_ms));
}

static void report(struct hc_ofi_ep *ep)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    hcomm_status_t error = ep->error;
    ep->state = HC_OFI_EP_FAILED;
    probe_end(ep);
    hc_ofi_sweep(iface);
    iface->reporting = ep;
    hc_ofi_ep_abandon(ep, error, true);
    if (iface->reporting)
        iface->params.ep_failed(iface->params.arg, &ep->base, error);
    iface->reporting = NULL;
}

static unsigned look(struct hc_ofi_ep *ep, uint64_t now)
{
    if (ep->state == HC_OFI_EP_CONNECTING)
        return connect_ep(ep, now);
    unsigned done = ep->state == HC_OFI_EP_UP ? hc_ofi_ep_post_deferred(ep) : 0;
    if (ep->state == HC_OFI_EP_UP && ep->refused_since)
        judge_refused(ep, now);
    return done;
}

/* Nothing left that only looking can move: no deferred ops, and no refusal that somebody still runs into. */
static bool watch_over(struct hc_ofi_ep *ep, uint64_t now)
{
    if (ep->state != HC_OFI_EP_UP || !hc_list_empty(&ep->deferred))
        return false;
    if (ep->refused_since && now > ep->last_refused + FORGET_REFUSAL_MS * MS)
        hc_ofi_ep_accepted(ep);
    return !ep->refused_since;
}

unsigned hc_ofi_watch(struct hc_ofi_iface *iface)
{
    uint64_t now = hc_clock_ns();
    unsigned done = 0;
    struct hc_list todo, *node;
    hc_list_init(&todo);
    while ((node = hc_list_pop(&iface->watched)))
        hc_list_append(&todo, node);
    /* Upcalls may destroy any ep, which takes it out of either list, so always take the first. */
    while ((node = hc_list_pop(&todo))) {
        struct hc_ofi_ep *ep = hc_list_entry(node, struct hc_ofi_ep, watch_link);
        done += look(ep, now);
        if (ep->state == HC_OFI_EP_BROKEN) {
            hc_list_remove(&ep->watch_link);
            report(ep);
            done++;
        } else if (!watch_over(ep, now)) {
            watch(ep);
        }
    }
    return done;
}
