/*
 * libfabric alone, as hcomm opens it: an RDM endpoint of one provider, its completion queue polled, fi_send
 * and fi_recv of whole messages, no header, no matching. A ping-pong, and the bandwidth of windows of up to
 * 64 messages (16 MiB, but at least 4 messages) with an acknowledgement of 4 bytes. What hcomm takes longer
 * is what it adds.
 *
 *     raw_ofi [SECONDS per point [PROVIDER [MIN:MAX]]]      provider net by default
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "raw.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZE_DEFAULT = 4 << 20,
    SIZE_LARGEST = 64 << 20,
    WINDOW_MIN = 4,
    WINDOW_MAX = 64,
    WINDOW_BYTES = 16 << 20,
    ACK_SIZE = 4,
    NAME_MAX_SIZE = 128,
    CQ_SIZE = 512,
    BATCH = 16,
};

struct name {
    struct raw_turn written;
    size_t size;
    char bytes[NAME_MAX_SIZE]; /* valid once `written` is released */
};

struct shared {
    struct raw_agreement agreement;
    struct name names[2];
};

struct context {
    struct shared *shared;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq, *wake_cq;
    struct fid_ep *ep;
    fi_addr_t peer;
    struct fi_context2 send_contexts[WINDOW_MAX], recv_contexts[WINDOW_MAX];
    size_t sent, received; /* completions seen */
    char *out, *in;
    size_t size;
};

static void check(struct raw *raw, const char *what, ssize_t result)
{
    if (result == 0)
        return;
    errno = (int)-result;
    (void)fprintf(stderr, "%s: %s: %s\n", raw->program, what, fi_strerror((int)-result));
    exit(1);
}

static struct fi_info *make_hints(struct raw *raw, const char *provider)
{
    struct fi_info *hints = fi_allocinfo();
    if (!hints)
        raw_die(raw, "hints");
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(provider);
    return hints;
}

/* The interface that hcomm would take: one that other hosts reach, IPv4, else the first there is. */
static bool is_network(const struct fi_info *info)
{
    const struct sockaddr_in *address = info->src_addr;
    return address && info->src_addrlen == sizeof(*address) && address->sin_family == AF_INET &&
           ntohl(address->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET;
}

static struct fi_info *choose(struct raw *raw, const char *provider)
{
    struct fi_info *hints = make_hints(raw, provider), *infos, *chosen;
    check(raw, provider, fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &infos));
    for (chosen = infos; chosen && !is_network(chosen); chosen = chosen->next)
        continue;
    chosen = fi_dupinfo(chosen ? chosen : infos);
    fi_freeinfo(infos);
    fi_freeinfo(hints);
    if (!chosen)
        raw_die(raw, "info");
    return chosen;
}

static void open_queue(struct raw *raw, struct context *context, enum fi_wait_obj wait, struct fid_cq **cq)
{
    struct fi_cq_attr attr = {.size = CQ_SIZE, .format = FI_CQ_FORMAT_MSG, .wait_obj = wait};
    check(raw, "fi_cq_open", fi_cq_open(context->domain, &attr, cq, NULL));
}

/* Over net hcomm sleeps on the descriptor of a second queue, elsewhere on that of the only one. */
static void open_queues(struct raw *raw, struct context *context, const char *provider)
{
    bool second = strcmp(provider, "net") == 0;
    open_queue(raw, context, second ? FI_WAIT_NONE : FI_WAIT_FD, &context->cq);
    if (second)
        open_queue(raw, context, FI_WAIT_FD, &context->wake_cq);
}

static void open_all(struct raw *raw, struct context *context, const char *provider)
{
    struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC, .count = 2};
    context->info = choose(raw, provider);
    check(raw, "fi_fabric", fi_fabric(context->info->fabric_attr, &context->fabric, NULL));
    check(raw, "fi_domain", fi_domain(context->fabric, context->info, &context->domain, NULL));
    check(raw, "fi_av_open", fi_av_open(context->domain, &av_attr, &context->av, NULL));
    open_queues(raw, context, provider);
    check(raw, "fi_endpoint", fi_endpoint(context->domain, context->info, &context->ep, NULL));
    check(raw, "binding", fi_ep_bind(context->ep, &context->av->fid, 0));
    check(raw, "binding", fi_ep_bind(context->ep, &context->cq->fid, FI_TRANSMIT | FI_RECV));
    check(raw, "fi_enable", fi_enable(context->ep));
}

static void exchange_names(struct raw *raw, struct context *context)
{
    struct name *mine = &context->shared->names[raw->side], *peer = &context->shared->names[1 - raw->side];
    mine->size = sizeof(mine->bytes);
    check(raw, "fi_getname", fi_getname(&context->ep->fid, mine->bytes, &mine->size));
    raw_turn_give(&mine->written, 1);
    raw_turn_wait(&peer->written, 1);
    if (fi_av_insert(context->av, peer->bytes, 1, &context->peer, 0, NULL) != 1)
        check(raw, "fi_av_insert", -FI_EINVAL);
}

static void reap(struct raw *raw, struct context *context)
{
    struct fi_cq_msg_entry entries[BATCH];
    ssize_t count = fi_cq_read(context->cq, entries, BATCH);
    if (count == -FI_EAGAIN)
        return;
    if (count < 0)
        check(raw, "fi_cq_read", count);
    for (ssize_t i = 0; i < count; i++) {
        context->received += (entries[i].flags & FI_RECV) != 0;
        context->sent += (entries[i].flags & FI_SEND) != 0;
    }
}

static void post_recv(struct raw *raw, struct context *context, size_t index, size_t size)
{
    check(raw, "fi_recv",
          fi_recv(context->ep, context->in, size, NULL, FI_ADDR_UNSPEC, &context->recv_contexts[index]));
}

static void post_send(struct raw *raw, struct context *context, size_t index, size_t size)
{
    ssize_t result;
    while ((result = fi_send(context->ep, context->out, size, NULL, context->peer,
                             &context->send_contexts[index])) == -FI_EAGAIN)
        reap(raw, context);
    check(raw, "fi_send", result);
}

static void wait_for(struct raw *raw, struct context *context, const size_t *count, size_t wanted)
{
    while (*count < wanted)
        reap(raw, context);
}

static void send_one(struct raw *raw, struct context *context, size_t size)
{
    post_send(raw, context, 0, size);
    wait_for(raw, context, &context->sent, context->sent + 1);
}

/* The receive of the next message is posted ahead: hcomm's are, too. */
static void ping_pong(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    size_t sent = context->sent, received = context->received;
    for (uint64_t i = 0; i < iterations; i++) {
        post_recv(raw, context, i % WINDOW_MAX, context->size);
        if (raw->side == 0)
            post_send(raw, context, i % WINDOW_MAX, context->size);
        wait_for(raw, context, &context->received, ++received);
        if (raw->side == 1)
            post_send(raw, context, i % WINDOW_MAX, context->size);
        wait_for(raw, context, &context->sent, ++sent);
    }
}

static size_t window_of(const struct context *context)
{
    size_t fit = context->size ? WINDOW_BYTES / context->size : WINDOW_MAX;
    return fit < WINDOW_MIN ? WINDOW_MIN : fit < WINDOW_MAX ? fit : WINDOW_MAX;
}

static void send_window(struct raw *raw, struct context *context, size_t window)
{
    size_t sent = context->sent, received = context->received;
    post_recv(raw, context, 0, ACK_SIZE);
    for (size_t k = 0; k < window; k++)
        post_send(raw, context, k, context->size);
    wait_for(raw, context, &context->sent, sent + window);
    wait_for(raw, context, &context->received, received + 1);
}

static void recv_window(struct raw *raw, struct context *context, size_t window)
{
    size_t received = context->received;
    for (size_t k = 0; k < window; k++)
        post_recv(raw, context, k, context->size);
    wait_for(raw, context, &context->received, received + window);
    send_one(raw, context, ACK_SIZE);
}

static void stream(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    size_t window = window_of(context);
    for (uint64_t i = 0; i < iterations; i++) {
        if (raw->side == 0)
            send_window(raw, context, window);
        else
            recv_window(raw, context, window);
    }
}

static void measure(struct raw *raw, struct context *context, const char *provider)
{
    uint64_t iterations;
    double elapsed = raw_time(raw, &context->shared->agreement, ping_pong, context, &iterations);
    raw_row(raw, "latency", provider, context->size, "average", "us",
            elapsed / (2.0 * (double)iterations) * 1e6);
    elapsed = raw_time(raw, &context->shared->agreement, stream, context, &iterations);
    double rate = (double)iterations * (double)window_of(context) / elapsed;
    raw_row(raw, "bw", provider, context->size, "bandwidth", "MB/s", rate * (double)context->size * 1e-6);
    raw_row(raw, "bw", provider, context->size, "rate", "msg/s", rate);
}

static void close_all(struct context *context)
{
    struct fid *fids[] = {&context->ep->fid,     &context->av->fid,
                          &context->cq->fid,     context->wake_cq ? &context->wake_cq->fid : NULL,
                          &context->domain->fid, &context->fabric->fid};
    for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++)
        if (fids[i])
            (void)fi_close(fids[i]);
    fi_freeinfo(context->info);
}

static void read_sizes(struct raw *raw, const char *text, size_t *first, size_t *last)
{
    char *end;
    *first = *last = strtoull(text, &end, 10);
    if (*end == ':')
        *last = strtoull(end + 1, &end, 10);
    if (*end || *last > SIZE_LARGEST || *first > *last) {
        errno = EINVAL;
        raw_die(raw, text);
    }
}

int main(int argc, char **argv)
{
    struct raw raw;
    size_t first = 0, last = SIZE_DEFAULT;
    const char *provider = argc > 2 ? argv[2] : "net";
    raw_start(&raw, argc, argv, sizeof(struct shared));
    if (argc > 3)
        read_sizes(&raw, argv[3], &first, &last);
    struct context context = {.shared = (struct shared *)raw.shared,
                              .out = raw_memory(&raw, last < RAW_PAGE ? RAW_PAGE : last),
                              .in = raw_memory(&raw, last < RAW_PAGE ? RAW_PAGE : last)};
    open_all(&raw, &context, provider);
    exchange_names(&raw, &context);
    for (context.size = first; context.size <= last; context.size = context.size ? context.size * 2 : 1)
        measure(&raw, &context, provider);
    close_all(&context);
    return raw_end(&raw);
}
