/*
 * --check: every byte of a message is a function of its sender, its number and its place, so that a message
 * that is lost, doubled, mixed up, cut or shifted shows.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <stdlib.h>

enum { EXCHANGES_MAX = 64 };
static const size_t exchange_bytes = (size_t)64 << 20; /* of messages in flight at once, at most */

/* One byte of message `number` from rank `from`. The multiplier is Knuth's, 2^32 over the golden ratio. */
static unsigned char pattern(int from, uint64_t number, size_t place)
{
    uint64_t mixed = ((uint64_t)from * 1000003u + number * 7919u + place) * 2654435761u;
    return (unsigned char)(mixed >> 24);
}

static void fill(char *bytes, size_t size, int from, uint64_t number)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)pattern(from, number, i);
}

static void verify(const struct perf *perf, const char *bytes, size_t size, int from, uint64_t number)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)bytes[i] != pattern(from, number, i))
            perf_die(perf, "%s over %s: message of %zu bytes from rank %d: byte %zu is 0x%02x, not 0x%02x",
                     perf->test->name, perf->transport, size, from, i, (unsigned char)bytes[i],
                     pattern(from, number, i));
}

/* Host memory to make up a message in, or to look at one. */
static char *take_scratch(const struct perf *perf, size_t size)
{
    char *scratch = malloc(size + 1); /* also for an empty message */
    if (!scratch)
        perf_die(perf, "no memory to check a message of %zu bytes", size);
    return scratch;
}

void perf_check_fill(struct perf_case *point)
{
    if (!point->perf->options->check)
        return;
    char *message = take_scratch(point->perf, point->size);
    fill(message, point->size, point->perf->rank, 0);
    for (size_t slot = 0; slot < point->send.slots; slot++)
        perf_memory_copy(point->perf, point->send.base + slot * point->send.stride, message, point->size);
    free(message);
    perf_memory_clear(point->perf, point->recv.base, point->recv.slots * point->recv.stride);
    perf_barrier(point->perf); /* no message arrives before its place is cleared */
}

/* The slots that the loop has certainly written: all of them after one turn of the walk, else those passed.
 */
void perf_check_verify(struct perf_case *point, int from)
{
    if (!point->perf->options->check)
        return;
    char *message = take_scratch(point->perf, point->size);
    for (size_t slot = 0; slot < point->recv.slots; slot++) {
        bool written = point->recv.slots == 1 || slot < point->recv.at;
        if (!written)
            continue;
        perf_memory_copy(point->perf, message, point->recv.base + slot * point->recv.stride, point->size);
        verify(point->perf, message, point->size, from, 0);
    }
    free(message);
}

/* Message number i of n has the point's size, and every second one is shorter. */
static size_t exchange_size(const struct perf_case *point, size_t i)
{
    return i % 2 == 0 ? point->size : point->size - point->size * i / (2 * EXCHANGES_MAX);
}

static void exchange_start(struct perf_case *point, char *out, char *in, size_t n, hcomm_request_t *requests)
{
    const struct perf *perf = point->perf;
    for (size_t i = 0; i < n; i++)
        perf_must(perf,
                  hcomm_irecv(in + i * point->size, point->size, point->peer, PERF_TAG_DATA, perf->world,
                              &requests[i]),
                  "receive");
    char *message = take_scratch(perf, point->size);
    for (size_t i = 0; i < n; i++) {
        fill(message, exchange_size(point, i), perf->rank, i + 1);
        perf_memory_copy(perf, out + i * point->size, message, exchange_size(point, i));
        perf_must(perf,
                  hcomm_isend(out + i * point->size, exchange_size(point, i), point->peer, PERF_TAG_DATA,
                              perf->world, &requests[n + i]),
                  "send");
    }
    free(message);
}

static void exchange_end(struct perf_case *point, const char *in, size_t n, hcomm_request_t *requests)
{
    const struct perf *perf = point->perf;
    hcomm_message_status_t statuses[2 * EXCHANGES_MAX];
    perf_must(perf, hcomm_waitall(2 * n, requests, statuses), "exchange");
    char *message = take_scratch(perf, point->size);
    for (size_t i = 0; i < n; i++) {
        if (statuses[i].size != exchange_size(point, i))
            perf_die(perf, "%s over %s: message %zu has %zu bytes, not %zu", perf->test->name,
                     perf->transport, i, statuses[i].size, exchange_size(point, i));
        perf_memory_copy(perf, message, in + i * point->size, exchange_size(point, i));
        verify(perf, message, exchange_size(point, i), point->peer, i + 1);
    }
    free(message);
}

void perf_check_exchange(struct perf_case *point)
{
    if (!point->perf->options->check || point->peer < 0)
        return;
    size_t fit = point->size ? exchange_bytes / point->size : EXCHANGES_MAX;
    size_t n = fit > EXCHANGES_MAX ? EXCHANGES_MAX : fit < 1 ? 1 : fit;
    hcomm_request_t requests[2 * EXCHANGES_MAX];
    char *out = perf_memory_take(point->perf, n * point->size + 1);
    char *in = perf_memory_take(point->perf, n * point->size + 1);
    exchange_start(point, out, in, n, requests);
    exchange_end(point, in, n, requests);
    perf_memory_give(point->perf, in);
    perf_memory_give(point->perf, out);
}
