#include "harness.h"

#include "runtime/base/clock.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct cf *current; /* for cf_fail: whose failure it is */

void cf_fail(const char *file, int line, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)snprintf(current->shared->failure[current->rank], sizeof(current->shared->failure[0]),
                   "%s:%d: %s (last error: %s)", file, line, text, hc_error_detail());
    _exit(1);
}

uint32_t cf_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static unsigned char pattern(size_t at, uint32_t from, uint32_t seq)
{
    return (unsigned char)(at * 7 + (at >> 8) * 13 + from * 101 + seq * 31 + 1);
}

void cf_fill(unsigned char *data, size_t size, uint32_t from, uint32_t seq)
{
    for (size_t i = 0; i < size; i++)
        data[i] = pattern(i, from, seq);
}

size_t cf_verify(const unsigned char *data, size_t size, uint32_t from, uint32_t seq)
{
    size_t i = 0;
    while (i < size && data[i] == pattern(i, from, seq))
        i++;
    return i;
}

static uint8_t id_of(uint32_t seq)
{
    return (uint8_t)(seq % 251);
}

/* Every message that arrives is checked completely. */
static void on_am(void *arg, uint32_t from, uint8_t id, const void *data, size_t len)
{
    struct cf *cf = arg;
    struct cf_header header;
    CF_CHECK(from < (uint32_t)cf->size, "a message from rank %u, which does not exist", from);
    CF_CHECK(!cf->part[from].data, "a message of rank %u came before the end of the one before", from);
    cf->part[from].ready = 0;
    CF_CHECK((uintptr_t)data % 8 == 0, "data %p is not aligned", data);
    CF_CHECK(len >= sizeof(header), "a message of %zu bytes has no header", len);
    memcpy(&header, data, sizeof(header));
    CF_CHECK(header.from == from, "a message of rank %u came as one of rank %u", header.from, from);
    CF_CHECK(len == sizeof(header) + header.size, "%zu bytes came instead of %zu", len,
             sizeof(header) + (size_t)header.size);
    CF_CHECK(header.seq == cf->next_seq_in[from] || (cf->loose && header.seq > cf->next_seq_in[from]),
             "message %u of rank %u came when %u was due", header.seq, from, cf->next_seq_in[from]);
    CF_CHECK(id == id_of(header.seq), "id %u came instead of %u", id, id_of(header.seq));
    size_t good = cf_verify((const unsigned char *)data + sizeof(header), header.size, from, header.seq);
    CF_CHECK(good == header.size, "byte %zu of %zu is wrong in message %u of rank %u", good,
             (size_t)header.size, header.seq, from);
    cf->next_seq_in[from] = header.seq + 1;
    cf->received[from]++;
    if (cf->on_message)
        cf->on_message(cf, (int)from, id);
}

/*
 * A part of a message: of three messages one is taken from its first part on, one when the question comes
 * again, and one as a whole. What has come is kept, and checked like others when it is complete.
 */
static bool on_am_part(void *arg, uint32_t from, uint8_t id, const void *data, size_t ready, size_t len)
{
    struct cf *cf = arg;
    CF_CHECK(from < (uint32_t)cf->size, "a part from rank %u, which does not exist", from);
    struct cf_part *part = &cf->part[from];
    CF_CHECK(ready >= sizeof(struct cf_header) && ready <= len, "%zu of %zu bytes are ready", ready, len);
    CF_CHECK(ready > part->ready && (!part->ready || len == part->len),
             "%zu of %zu bytes are ready after %zu of %zu", ready, len, part->ready, part->len);
    bool again = part->ready > 0;
    part->len = len;
    part->ready = ready;
    cf->parts += ready < len;
    uint32_t way = cf->next_seq_in[from] % 3;
    if (!part->data && (way == 0 || (way == 1 && !again))) {
        if (ready == len)
            part->ready = 0;
        return false;
    }
    if (!part->data) {
        part->data = aligned_alloc(HC_CACHE_LINE, hc_align_up(len, HC_CACHE_LINE));
        part->taken = 0;
    }
    CF_CHECK(part->data, "out of memory");
    memcpy(part->data + part->taken, (const unsigned char *)data + part->taken, ready - part->taken);
    part->taken = ready;
    if (ready < len)
        return true;
    unsigned char *whole = part->data;
    *part = (struct cf_part){0};
    on_am(arg, from, id, whole, len);
    free(whole);
    return true;
}

static void on_failed(void *arg, struct hc_ep *ep, hcomm_status_t status)
{
    struct cf *cf = arg;
    bool expected = atomic_load(&cf->shared->dead) >> ep->peer & 1;
    CF_CHECK(status < 0, "an ep failed with the status %d", (int)status);
    CF_CHECK(expected, "the ep to rank %u failed: %s", ep->peer, hcomm_strerror(status));
    CF_CHECK(!(cf->failed_eps >> ep->peer & 1), "the ep to rank %u failed twice", ep->peer);
    cf->failed_eps |= 1u << ep->peer;
}

void cf_open_iface(struct cf *cf)
{
    struct cf_shared *shared = cf->shared;
    char job[64];
    current = cf;
    (void)snprintf(job, sizeof(job), "conformance.%d", (int)getppid());
    struct hc_iface_params params = {
        .am = on_am,
        .am_part = on_am_part,
        .ep_failed = on_failed,
        .arg = cf,
        .settings = cf->settings,
        .counters = &cf->counters,
        .world_rank = (uint32_t)cf->rank,
        .world_size = (uint32_t)cf->size,
        .local_rank = (uint32_t)cf->rank,
        .local_size = (uint32_t)cf->size,
        .job_id = job,
    };
    hcomm_status_t status = cf->resource->transport->open(cf->resource, &params, &cf->iface);
    CF_CHECK(status == HCOMM_OK, "open: %s", hcomm_strerror(status));
    status = hc_transport_check(cf->iface);
    CF_CHECK(status == HCOMM_OK, "the iface breaks the interface's promises");
    shared->addr_len[cf->rank] = CF_ADDR_MAX;
    status = cf->iface->transport->address(cf->iface, shared->addr[cf->rank], &shared->addr_len[cf->rank]);
    CF_CHECK(status == HCOMM_OK, "address: %s", hcomm_strerror(status));
    CF_CHECK(shared->addr_len[cf->rank] <= cf->iface->attr.addr_max, "the address is longer than addr_max");
}

void cf_connect(struct cf *cf, int peer)
{
    const void *addr = cf->shared->addr[peer];
    size_t len = cf->shared->addr_len[peer];
    const struct hc_transport *transport = cf->iface->transport;
    CF_CHECK(transport->reachable(cf->iface, addr, len), "rank %d is not reachable", peer);
    hcomm_status_t status = transport->ep_create(cf->iface, (uint32_t)peer, addr, len, &cf->ep[peer]);
    CF_CHECK(status == HCOMM_OK, "ep_create to rank %d: %s", peer, hcomm_strerror(status));
    CF_CHECK(cf->ep[peer]->iface == cf->iface && cf->ep[peer]->peer == (uint32_t)peer,
             "the ep to rank %d does not know where it belongs", peer);
}

void cf_disconnect(struct cf *cf, int peer)
{
    cf->iface->transport->ep_destroy(cf->ep[peer]);
    cf->ep[peer] = NULL;
}

static void forget_messages(struct cf *cf)
{
    for (int peer = 0; peer < cf->size; peer++) /* of one that was killed in the middle */
        free(cf->part[peer].data);
    memset(cf->part, 0, sizeof(cf->part));
    memset(cf->next_seq_in, 0, sizeof(cf->next_seq_in));
    memset(cf->next_seq_out, 0, sizeof(cf->next_seq_out));
    memset(cf->received, 0, sizeof(cf->received));
}

/* A transport may need both sides' progress to connect: have that over before a case plays deaf. */
static void warm_up(struct cf *cf)
{
    for (int peer = 0; peer < cf->size; peer++)
        if (cf->ep[peer])
            cf_send(cf, peer, CF_SHORT, 0);
    for (int peer = 0; peer < cf->size; peer++)
        if (cf->ep[peer])
            cf_progress_until(cf, &cf->received[peer], 1, "the first message");
    forget_messages(cf);
    cf_barrier(cf);
}

void cf_open(struct cf *cf)
{
    cf_open_iface(cf);
    cf_barrier_silent(cf);
    for (int peer = 0; peer < cf->size; peer++)
        if (peer != cf->rank || cf->size == 1)
            cf_connect(cf, peer);
    warm_up(cf);
}

void cf_close(struct cf *cf)
{
    for (int peer = 0; peer < cf->size; peer++)
        if (cf->ep[peer] && !(atomic_load(&cf->shared->dead) >> peer & 1))
            cf_flush(cf, peer);
    cf_barrier(cf);
    for (int peer = 0; peer < cf->size; peer++)
        cf_disconnect(cf, peer);
    cf->iface->transport->close(cf->iface);
    cf->iface = NULL;
    cf->failed_eps = 0;
    forget_messages(cf);
    cf_barrier_silent(cf);
}

void cf_progress(struct cf *cf)
{
    if (!cf->iface || !cf->iface->transport->progress(cf->iface))
        (void)sched_yield();
}

void cf_progress_until(struct cf *cf, const uint64_t *counter, uint64_t value, const char *what)
{
    uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
    while (*counter < value) {
        cf_progress(cf);
        CF_CHECK(hc_clock_ns() < deadline, "%s: %llu of %llu after %d s", what, (unsigned long long)*counter,
                 (unsigned long long)value, CF_WAIT_MS / 1000);
    }
}

static int living(const struct cf *cf)
{
    return cf->size - __builtin_popcount(atomic_load(&cf->shared->dead));
}

static void barrier(struct cf *cf, bool silent)
{
    struct cf_shared *shared = cf->shared;
    uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
    int phase = atomic_load(&shared->phase);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == living(cf)) {
        atomic_store(&shared->arrived, 0);
        atomic_fetch_add(&shared->phase, 1);
        return;
    }
    while (atomic_load(&shared->phase) == phase) {
        if (silent)
            (void)sched_yield();
        else
            cf_progress(cf);
        CF_CHECK(hc_clock_ns() < deadline, "the other processes do not arrive");
    }
}

void cf_barrier(struct cf *cf)
{
    barrier(cf, false);
}

void cf_barrier_silent(struct cf *cf)
{
    barrier(cf, true);
}

int cf_next(const struct cf *cf)
{
    return (cf->rank + 1) % cf->size;
}

int cf_prev(const struct cf *cf)
{
    return (cf->rank + cf->size - 1) % cf->size;
}

size_t cf_max(const struct cf *cf, enum cf_kind kind)
{
    const struct hc_iface_attr *attr = &cf->iface->attr;
    size_t max[CF_KINDS] = {attr->short_max, attr->bcopy_max, attr->zcopy_max};
    return max[kind] ? max[kind] - sizeof(struct cf_header) : 0;
}

struct send {
    struct cf *cf;
    struct cf_header header;
};

static size_t pack(void *dest, void *arg)
{
    const struct send *send = arg;
    CF_CHECK((uintptr_t)dest % 8 == 0, "pack destination %p is not aligned", dest);
    memcpy(dest, &send->header, sizeof(send->header));
    cf_fill((unsigned char *)dest + sizeof(send->header), send->header.size, send->header.from,
            send->header.seq);
    return sizeof(send->header) + send->header.size;
}

struct zcopy {
    struct hc_op op;
    unsigned char data[];
};

static void zcopy_done(struct hc_op *op, hcomm_status_t status)
{
    CF_CHECK(status == HCOMM_OK || atomic_load(&current->shared->dead), "a zcopy ended with %s",
             hcomm_strerror(status));
    free(hc_container_of(op, struct zcopy, op));
}

static hcomm_status_t send_zcopy(struct send *send, struct hc_ep *ep, uint8_t id)
{
    struct zcopy *z = malloc(sizeof(*z) + send->header.size);
    CF_CHECK(z, "out of memory");
    z->op.done = zcopy_done;
    cf_fill(z->data, send->header.size, send->header.from, send->header.seq);
    hcomm_status_t status = ep->iface->transport->am_zcopy(ep, id, &send->header, sizeof(send->header),
                                                           z->data, send->header.size, NULL, &z->op);
    if (status != HCOMM_IN_PROGRESS) {
        memset(z->data, 0xee, send->header.size); /* it must have been read */
        free(z);
    }
    return status == HCOMM_IN_PROGRESS ? HCOMM_OK : status;
}

static hcomm_status_t send_short(struct send *send, struct hc_ep *ep, uint8_t id)
{
    unsigned char *data = malloc(send->header.size + 1);
    CF_CHECK(data, "out of memory");
    cf_fill(data, send->header.size, send->header.from, send->header.seq);
    hcomm_status_t status = ep->iface->transport->am_short(
        ep, id, &send->header, sizeof(send->header), send->header.size ? data : NULL, send->header.size);
    memset(data, 0xee, send->header.size); /* it must have been copied */
    free(data);
    return status;
}

hcomm_status_t cf_try_send(struct cf *cf, int dest, enum cf_kind kind, size_t size)
{
    struct hc_ep *ep = cf->ep[dest];
    struct send send = {cf, {.from = (uint32_t)cf->rank, .seq = cf->next_seq_out[dest], .size = size}};
    uint8_t id = id_of(send.header.seq);
    hcomm_status_t status = HCOMM_ERR_UNSUPPORTED;
    if (kind == CF_SHORT)
        status = send_short(&send, ep, id);
    else if (kind == CF_BCOPY)
        status = ep->iface->transport->am_bcopy(ep, id, pack, &send);
    else
        status = send_zcopy(&send, ep, id);
    if (status == HCOMM_OK)
        cf->next_seq_out[dest]++;
    return status;
}

void cf_send(struct cf *cf, int dest, enum cf_kind kind, size_t size)
{
    uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
    hcomm_status_t status;
    while ((status = cf_try_send(cf, dest, kind, size)) == HCOMM_AGAIN) {
        cf_progress(cf);
        CF_CHECK(hc_clock_ns() < deadline, "no room to send to rank %d", dest);
    }
    CF_CHECK(status == HCOMM_OK, "sending %zu bytes: %s", size, hcomm_strerror(status));
}

static void op_done(struct hc_op *base, hcomm_status_t status)
{
    struct cf_op *op = hc_container_of(base, struct cf_op, base);
    CF_CHECK(!op->done, "an operation completed twice");
    op->status = status;
    op->done = 1;
}

void cf_op_init(struct cf_op *op)
{
    *op = (struct cf_op){.base.done = op_done};
}

hcomm_status_t cf_op_wait(struct cf *cf, struct cf_op *op, hcomm_status_t started)
{
    if (started != HCOMM_IN_PROGRESS) {
        CF_CHECK(!op->done, "an operation completed that was not in progress");
        return started;
    }
    cf_progress_until(cf, &op->done, 1, "completion of an operation");
    return op->status;
}

void cf_flush(struct cf *cf, int dest)
{
    struct cf_op op;
    cf_op_init(&op);
    hcomm_status_t status = HCOMM_AGAIN;
    uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
    while ((status = cf->iface->transport->flush(cf->ep[dest], &op.base)) == HCOMM_AGAIN) {
        cf_progress(cf);
        CF_CHECK(hc_clock_ns() < deadline, "flush to rank %d finds no room", dest);
    }
    status = cf_op_wait(cf, &op, status);
    CF_CHECK(status == HCOMM_OK, "flush to rank %d: %s", dest, hcomm_strerror(status));
}
