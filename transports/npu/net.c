/* The path to other hosts: what an endpoint has of the inner provider, its events, and its progress. */
#include "transports/npu/net.h"

#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    COMPLETIONS = 16, /* read at a time */
    EVENTS_EVERY = 1024,
    TRIES = 16,
    FLUSH_MILLISECONDS = 1000, /* what was injected may take so long to go when its endpoint is closed */
};

/* Whatever was not read before its connection ended. */
static bool lost(struct npu_peer *peer, const struct npu_arrival *arrival)
{
    (void)peer, (void)arrival;
    return true;
}

const struct npu_path_ops npu_net_path = {
    .name = "net",
    .send = npu_net_send,
    .rma = npu_net_rma,
    .fetch = npu_net_fetch,
    .delivered = npu_net_delivered,
    .lost = lost,
    .release = npu_net_release,
    .cancel = npu_net_cancel,
};

/* ---- The inner provider ---- */

static const char *provider_name(void)
{
    char *name = NULL;
    if (fi_param_get_str(&npu_provider, "net_provider", &name) == 0 && name)
        return name;
    return "tcp";
}

static struct fi_info *make_hints(void)
{
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        return NULL;
    hints->caps = FI_MSG | FI_SEND | FI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(provider_name());
    if (!hints->fabric_attr->prov_name) {
        fi_freeinfo(hints);
        return NULL;
    }
    return hints;
}

/* Ask for the inner provider at an address (NULL: at any). */
static int ask(const struct npu_addr *addr, struct fi_info **info)
{
    char node[NI_MAXHOST], service[NI_MAXSERV];
    struct fi_info *hints = make_hints();
    int rc = 0;
    if (!hints)
        return -FI_ENOMEM;
    if (!addr)
        rc = fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, info);
    else if (getnameinfo(&addr->sa, (socklen_t)npu_addr_len(addr), node, sizeof(node), service,
                         sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV))
        rc = -FI_EINVAL;
    else
        rc = fi_getinfo(FI_VERSION(1, 9), node, service, FI_SOURCE | FI_NUMERICHOST, hints, info);
    fi_freeinfo(hints);
    return rc;
}

bool npu_net_available(void)
{
    struct fi_info *info = NULL;
    if (strcmp(provider_name(), "none") == 0 || ask(NULL, &info) < 0)
        return false;
    fi_freeinfo(info);
    return true;
}

static int open_queues(struct npu_net *net)
{
    struct fi_eq_attr eq = {.wait_obj = FI_WAIT_FD};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD, .size = 8192};
    int rc = fi_eq_open(net->fabric, &eq, &net->eq, NULL);
    if (rc == 0)
        rc = fi_cq_open(net->domain, &cq, &net->cq, NULL);
    if (rc == 0)
        rc = fi_control(&net->eq->fid, FI_GETWAIT, &net->eq_watch.fd);
    if (rc == 0)
        rc = npu_ep_watch(net->ep, &net->eq_watch);
    if (rc == 0)
        rc = fi_control(&net->cq->fid, FI_GETWAIT, &net->cq_watch.fd);
    return rc == 0 ? npu_ep_watch(net->ep, &net->cq_watch) : rc;
}

static int start_listening(struct npu_net *net)
{
    int rc = fi_passive_ep(net->fabric, net->info, &net->pep, NULL);
    if (rc == 0)
        rc = fi_pep_bind(net->pep, &net->eq->fid, 0);
    return rc == 0 ? fi_listen(net->pep) : rc;
}

static int open_inner(struct npu_net *net)
{
    int rc = ask(&net->ep->addr, &net->info);
    if (rc == 0)
        rc = fi_fabric(net->info->fabric_attr, &net->fabric, NULL);
    if (rc == 0)
        rc = fi_domain(net->fabric, net->info, &net->domain, NULL);
    if (rc == 0)
        rc = open_queues(net);
    return rc == 0 ? start_listening(net) : rc;
}

static void ready(struct npu_ep *ep, struct npu_watch *watch, uint32_t events)
{
    (void)watch, (void)events;
    ep->net->turn = 0; /* events, too */
    (void)npu_net_progress(ep);
}

int npu_net_open(struct npu_ep *ep)
{
    struct npu_net *net = calloc(1, sizeof(*net));
    if (!net)
        return -FI_ENOMEM;
    net->ep = ep;
    net->eq_watch = (struct npu_watch){.fd = -1, .ready = ready};
    net->cq_watch = net->eq_watch;
    hc_list_init(&net->conns);
    hc_list_init(&net->gone);
    hc_list_init(&net->copies_idle);
    hc_list_init(&net->copies_busy);
    ep->net = net;
    int rc = open_inner(net);
    if (rc < 0) {
        npu_warn(EP_CTRL, "provider %s cannot serve other hosts: %s; choose one with FI_NPU_NET_PROVIDER\n",
                 provider_name(), fi_strerror(-rc));
        npu_net_close(ep);
    }
    return rc;
}

/* ---- Connecting ---- */

static struct npu_net_hello hello_of(const struct npu_net *net)
{
    return (struct npu_net_hello){
        .magic = NPU_NET_MAGIC, .version = NPU_NET_VERSION, .slots = NPU_NET_SLOTS, .addr = net->ep->addr};
}

/* What to open an endpoint with that connects to the address from ours, with a port of its own. */
static struct fi_info *info_to(const struct npu_net *net, const struct npu_addr *addr)
{
    struct fi_info *info = fi_dupinfo(net->info);
    struct npu_addr from = net->ep->addr;
    if (!info)
        return NULL;
    npu_addr_set_port(&from, 0);
    free(info->src_addr);
    free(info->dest_addr);
    info->src_addrlen = npu_addr_len(&from);
    info->dest_addrlen = npu_addr_len(addr);
    info->src_addr = malloc(info->src_addrlen);
    info->dest_addr = malloc(info->dest_addrlen);
    if (!info->src_addr || !info->dest_addr) {
        fi_freeinfo(info);
        return NULL;
    }
    memcpy(info->src_addr, &from, info->src_addrlen);
    memcpy(info->dest_addr, addr, info->dest_addrlen);
    return info;
}

static void add(struct npu_net *net, struct npu_net_conn *conn)
{
    hc_list_append(&net->conns, &conn->node);
    net->count++;
    net->connecting++;
}

static int start_connecting(struct npu_net_conn *conn, const struct npu_addr *addr)
{
    struct npu_net_hello hello = hello_of(conn->net);
    struct fi_info *info = info_to(conn->net, addr);
    if (!info)
        return -FI_ENOMEM;
    int rc = npu_net_conn_open(conn, info);
    if (rc == 0)
        rc = fi_connect(conn->ep, info->dest_addr, &hello, sizeof(hello));
    if (rc == 0)
        npu_net_guard(conn, addr);
    fi_freeinfo(info);
    return rc;
}

static struct npu_net_conn *find_out(struct npu_net *net, const struct npu_addr *addr)
{
    struct hc_list *node;
    hc_list_for_each(node, &net->conns)
    {
        struct npu_net_conn *conn = hc_list_entry(node, struct npu_net_conn, node);
        if (conn->outgoing && !conn->peer.dead && !conn->closing && npu_addr_equal(&conn->peer.addr, addr))
            return conn;
    }
    return NULL;
}

int npu_net_connect(struct npu_ep *ep, const struct npu_addr *addr, struct npu_peer **peer)
{
    struct npu_net *net = ep->net;
    if (!net)
        return -FI_EHOSTUNREACH;
    struct npu_net_conn *conn = find_out(net, addr);
    if (conn) {
        *peer = &conn->peer;
        return 0;
    }
    conn = npu_net_conn_new(net, true);
    if (!conn)
        return -FI_ENOMEM;
    conn->peer.addr = *addr;
    int rc = start_connecting(conn, addr);
    if (rc < 0) {
        npu_net_conn_free(conn);
        return rc;
    }
    add(net, conn);
    *peer = &conn->peer;
    return 0;
}

/* ---- Events ---- */

/* A connection request or its acceptance, as fi_eq_read gives it. */
union event {
    struct fi_eq_cm_entry cm;
    unsigned char bytes[sizeof(struct fi_eq_cm_entry) + 256];
};

static struct npu_net_conn *conn_of(struct npu_net *net, const struct fid *fid)
{
    struct hc_list *node;
    hc_list_for_each(node, &net->conns)
    {
        struct npu_net_conn *conn = hc_list_entry(node, struct npu_net_conn, node);
        if (conn->ep && &conn->ep->fid == fid)
            return conn;
    }
    return NULL;
}

/* Whether who connects has the address it claims. The inner provider may not tell: then it is believed. */
static bool is_from(const struct fi_info *info, const struct npu_addr *claimed)
{
    struct npu_addr from;
    if (!info->dest_addr || npu_addr_copy(info->dest_addr, info->dest_addrlen, &from) < 0)
        return true;
    npu_addr_set_port(&from, npu_addr_port(claimed));
    return npu_addr_equal(&from, claimed);
}

static int accept_one(struct npu_net *net, struct fi_info *info, const struct npu_net_hello *theirs)
{
    struct npu_net_hello hello = hello_of(net);
    struct npu_net_conn *conn = npu_net_conn_new(net, false);
    if (!conn)
        return -FI_ENOMEM;
    conn->peer.addr = theirs->addr;
    int rc = npu_net_conn_open(conn, info);
    if (rc == 0)
        rc = fi_accept(conn->ep, &hello, sizeof(hello));
    if (rc < 0) {
        npu_net_conn_free(conn);
        return rc;
    }
    struct npu_addr from;
    if (npu_addr_copy(info->dest_addr, info->dest_addrlen, &from) == 0)
        npu_net_guard(conn, &from);
    add(net, conn);
    return 0;
}

static void requested(struct npu_net *net, const struct fi_eq_cm_entry *event, size_t len)
{
    struct npu_net_hello hello;
    int rc = -FI_ECONNREFUSED;
    if (npu_net_hello_ok(event->data, len)) {
        memcpy(&hello, event->data, sizeof(hello));
        if (!is_from(event->info, &hello.addr))
            rc = -FI_EACCES;
        else
            rc = net->count < NPU_NET_MAX_CONNS ? accept_one(net, event->info, &hello) : -FI_EMFILE;
    }
    if (rc < 0) {
        npu_warn(EP_CTRL, "a connection from another host is refused: %s\n", fi_strerror(-rc));
        (void)fi_reject(net->pep, event->info->handle, NULL, 0);
    }
    fi_freeinfo(event->info);
}

static void connected(struct npu_net *net, const struct fi_eq_cm_entry *event, size_t len)
{
    struct npu_net_conn *conn = conn_of(net, event->fid);
    if (!conn || conn->open || conn->peer.dead)
        return;
    if (conn->outgoing && !npu_net_hello_ok(event->data, len)) {
        npu_net_fail(conn, FI_ECONNREFUSED, "no provider npu of this version answers there");
        return;
    }
    conn->open = true;
    net->connecting--;
}

static void ended(struct npu_net *net, const struct fid *fid)
{
    struct npu_net_conn *conn = conn_of(net, fid);
    if (conn)
        conn->closing = true;
}

/* What to call the end of a connection: inner providers tell of a host, or of whatever failed last in them.
 */
static int loss(int err)
{
    static const int of_network[] = {FI_ECONNREFUSED, FI_ECONNABORTED, FI_ETIMEDOUT,
                                     FI_EHOSTUNREACH, FI_ENETUNREACH,  FI_EACCES};
    for (size_t i = 0; i < hc_array_len(of_network); i++)
        if (err == of_network[i])
            return err;
    return FI_ECONNRESET;
}

static void failed(struct npu_net *net)
{
    struct fi_eq_err_entry entry = {0};
    if (fi_eq_readerr(net->eq, &entry, 0) < 0)
        return;
    struct npu_net_conn *conn = conn_of(net, entry.fid);
    if (conn)
        npu_net_fail(conn, loss(entry.err), conn->open ? "lost" : "cannot be connected");
}

static bool read_events(struct npu_net *net)
{
    union event event;
    uint32_t kind = 0;
    bool moved = false;
    for (;;) {
        ssize_t got = fi_eq_read(net->eq, &kind, &event, sizeof(event), 0);
        if (got == -FI_EAVAIL) {
            failed(net);
            moved = true;
            continue;
        }
        if (got < (ssize_t)sizeof(event.cm))
            return moved;
        size_t len = (size_t)got - sizeof(event.cm);
        if (kind == FI_CONNREQ)
            requested(net, &event.cm, len);
        else if (kind == FI_CONNECTED)
            connected(net, &event.cm, len);
        else if (kind == FI_SHUTDOWN)
            ended(net, event.cm.fid);
        moved = true;
    }
}

/* ---- Completions ---- */

static void completed(const struct fi_cq_msg_entry *entry)
{
    struct npu_net_slot *slot = hc_container_of(entry->op_context, struct npu_net_slot, context);
    struct npu_net_conn *conn = slot->conn;
    if (!slot->receives)
        conn->posted--;
    if (!conn->ep)
        return; /* closed meanwhile */
    if (!slot->receives) {
        npu_net_slot_sent(slot);
        return;
    }
    slot->len = entry->len;
    npu_net_take_in(slot);
    /* At once, so that credits are on their way back while more comes in. */
    (void)npu_net_read_inbox(conn);
    npu_net_flush(conn);
}

static void completed_badly(struct npu_net *net)
{
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(net->cq, &entry, 0) < 1 || !entry.op_context)
        return;
    struct npu_net_slot *slot = hc_container_of(entry.op_context, struct npu_net_slot, context);
    struct npu_net_conn *conn = slot->conn;
    if (!slot->receives)
        conn->posted--;
    if (!conn->ep)
        return;
    if (!conn->closing)
        conn->err = loss(entry.err);
    conn->closing = true; /* what came before it is read first */
}

static bool read_completions(struct npu_net *net)
{
    struct fi_cq_msg_entry entries[COMPLETIONS];
    bool moved = false;
    for (;;) {
        ssize_t got = fi_cq_read(net->cq, entries, COMPLETIONS);
        if (got == -FI_EAVAIL) {
            completed_badly(net);
            moved = true;
            continue;
        }
        if (got <= 0)
            return moved;
        for (ssize_t i = 0; i < got; i++)
            completed(&entries[i]);
        moved = true;
    }
}

/* ---- Progress ---- */

static bool move_conns(struct npu_net *net)
{
    struct hc_list *node, *next;
    bool moved = false;
    hc_list_for_each_safe(node, next, &net->conns)
    {
        struct npu_net_conn *conn = hc_list_entry(node, struct npu_net_conn, node);
        if (!hc_list_empty(&conn->inbox) || conn->serve)
            moved |= npu_net_read_inbox(conn);
        if (conn->outgoing)
            npu_net_pump(conn);
        else
            npu_net_pump_answers(conn);
    }
    return moved;
}

bool npu_net_progress(struct npu_ep *ep)
{
    struct npu_net *net = ep->net;
    bool moved = false;
    if (net->inside)
        return false;
    net->inside = true;
    if (net->connecting || net->turn++ % EVENTS_EVERY == 0)
        moved |= read_events(net);
    if (net->count || !hc_list_empty(&net->gone)) {
        moved |= npu_net_copies_poll(net);
        moved |= read_completions(net);
        moved |= move_conns(net);
        npu_net_reap(net);
    }
    net->inside = false;
    return moved;
}

void npu_net_settle(struct npu_ep *ep)
{
    if (ep->net)
        (void)npu_net_copies_poll(ep->net);
}

bool npu_net_idle(const struct npu_ep *ep)
{
    return ep->net->count == 0 && hc_list_empty(&ep->net->gone);
}

bool npu_net_sleep(struct npu_ep *ep)
{
    struct npu_net *net = ep->net;
    struct fid *fids[] = {&net->eq->fid, &net->cq->fid};
    for (int i = 0; i < TRIES; i++) {
        net->turn = 0;
        bool moved = npu_net_progress(ep);
        if (!hc_list_empty(&net->copies_busy))
            return false; /* nothing tells of their end */
        if (!moved && fi_trywait(net->fabric, fids, hc_array_len(fids)) == 0)
            return true;
    }
    return false;
}

/* ---- The end ---- */

static bool is_sending(const struct npu_net_conn *conn)
{
    return conn->posted || !hc_list_empty(&conn->unsent) || !hc_list_empty(&conn->queue);
}

/*
 * The other side has so much to take that it will tell of credits. A connection that is closed while such a
 * message lies unread in it is reset, and what the other side has not read by then is lost to it.
 */
static bool expects_credits(const struct npu_net_conn *conn)
{
    return !conn->peer.dead && conn->open &&
           (NPU_NET_SLOTS - conn->credits >= NPU_NET_SLOTS / 2 || conn->charged >= NPU_NET_WINDOW / 4);
}

static bool unsent(const struct npu_net *net)
{
    struct hc_list *node;
    hc_list_for_each(node, &net->conns)
    {
        const struct npu_net_conn *conn = hc_list_entry(node, struct npu_net_conn, node);
        if (conn->outgoing && (is_sending(conn) || expects_credits(conn)))
            return true;
    }
    return false;
}

static int64_t milliseconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What was injected is nobody's to wait for, and goes out, and is taken, before the connections end. */
static void flush(struct npu_net *net)
{
    int64_t until = milliseconds() + FLUSH_MILLISECONDS;
    while (unsent(net) && milliseconds() < until)
        if (!npu_net_progress(net->ep))
            (void)sched_yield();
}

static void free_conns(struct hc_list *list)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, list) npu_net_conn_free(hc_list_entry(node, struct npu_net_conn, node));
}

static void close_one(struct fid *fid, const char *what)
{
    int rc = fi_close(fid);
    if (rc < 0)
        npu_warn(EP_CTRL, "an inner %s cannot be closed: %s\n", what, fi_strerror(-rc));
}

static void close_inner(struct npu_net *net)
{
    if (net->pep)
        close_one(&net->pep->fid, "passive endpoint");
    if (net->cq_watch.fd >= 0)
        npu_ep_unwatch(net->ep, &net->cq_watch);
    if (net->eq_watch.fd >= 0)
        npu_ep_unwatch(net->ep, &net->eq_watch);
    if (net->cq)
        close_one(&net->cq->fid, "completion queue");
    if (net->eq)
        close_one(&net->eq->fid, "event queue");
    if (net->domain)
        close_one(&net->domain->fid, "domain");
    if (net->fabric)
        close_one(&net->fabric->fid, "fabric");
}

void npu_net_close(struct npu_ep *ep)
{
    struct npu_net *net = ep->net;
    if (!net)
        return;
    if (net->cq)
        flush(net);
    free_conns(&net->conns);
    free_conns(&net->gone);
    npu_net_copies_fini(net);
    close_inner(net);
    fi_freeinfo(net->info);
    free(net);
    ep->net = NULL;
}
