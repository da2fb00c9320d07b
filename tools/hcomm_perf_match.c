/*
 * match_posted, match_unexpected: what a long queue costs. The queue holds receives (or unexpected messages)
 * of other tags; then a ping-pong of 8 bytes goes past it, received from the exact source and from any.
 * Filling it, and emptying it in the reverse order, tells what finding the last entry costs. match_rate: how
 * many messages go past it, in windows, received by source and tag, and by any source and any tag.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <stdlib.h>

enum { PING_SIZE = 8, PINGS = 2000, ACK_SIZE = 4 };

struct queue {
    struct perf *perf;
    int peer;
    bool owner; /* the queue stands at this rank; the other one feeds it */
    size_t length;
    hcomm_request_t *requests; /* of the owner's receives, or of the feeder's sends */
    double filled, emptied;    /* seconds per entry, measured by the owner */
};

static void ping(struct queue *queue, int source)
{
    struct perf *perf = queue->perf;
    char data[PING_SIZE] = {0};
    hcomm_status_t status = HCOMM_OK;
    if (queue->owner)
        status = hcomm_send(data, sizeof(data), queue->peer, PERF_TAG_DATA, perf->world);
    if (status == HCOMM_OK)
        status = hcomm_recv(data, sizeof(data), source, PERF_TAG_DATA, perf->world, NULL);
    if (status == HCOMM_OK && !queue->owner)
        status = hcomm_send(data, sizeof(data), queue->peer, PERF_TAG_DATA, perf->world);
    perf_must(perf, status, "ping-pong");
}

/* Seconds one way, by a ping-pong whose queue stands on one side. */
static double pings(struct queue *queue, int source)
{
    uint64_t n = queue->perf->options->iterations ? queue->perf->options->iterations : PINGS;
    for (uint64_t i = 0; i < n / 10; i++)
        ping(queue, source);
    double start = perf_now();
    for (uint64_t i = 0; i < n; i++)
        ping(queue, source);
    return (perf_now() - start) / (2.0 * (double)n);
}

static int queue_tag(size_t i)
{
    return (int)(PERF_TAG_QUEUE + i);
}

static void start_recv(struct queue *queue, size_t i)
{
    perf_must(queue->perf,
              hcomm_irecv(NULL, 0, queue->peer, queue_tag(i), queue->perf->world, &queue->requests[i]),
              "posting");
}

static void start_send(struct queue *queue, size_t i)
{
    perf_must(queue->perf,
              hcomm_isend(NULL, 0, queue->peer, queue_tag(i), queue->perf->world, &queue->requests[i]),
              "feeding");
}

static void finish(struct queue *queue)
{
    perf_must(queue->perf, hcomm_waitall(queue->length, queue->requests, NULL), "emptying the queue");
}

/* Posted receives, matched by messages in the reverse order. */
static void posted_fill(struct queue *queue)
{
    double start = perf_now();
    for (size_t i = 0; queue->owner && i < queue->length; i++)
        start_recv(queue, i);
    queue->filled = (perf_now() - start) / (double)queue->length;
}

static void posted_empty(struct queue *queue)
{
    ping(queue, queue->peer); /* the feeder starts together with the clock */
    double start = perf_now();
    for (size_t i = queue->length; !queue->owner && i-- > 0;)
        start_send(queue, i);
    finish(queue);
    queue->emptied = (perf_now() - start) / (double)queue->length;
}

/* Unexpected messages: a ping behind them is received only after all of them have been put aside. */
static void unexpected_fill(struct queue *queue)
{
    double start = perf_now();
    for (size_t i = 0; !queue->owner && i < queue->length; i++)
        start_send(queue, i);
    ping(queue, queue->peer);
    queue->filled = (perf_now() - start) / (double)queue->length;
}

static void unexpected_empty(struct queue *queue)
{
    double start = perf_now();
    for (size_t i = queue->length; queue->owner && i-- > 0;)
        start_recv(queue, i);
    finish(queue);
    queue->emptied = (perf_now() - start) / (double)queue->length;
}

static void match_point(struct perf *perf, size_t length, void (*fill)(struct queue *),
                        void (*empty)(struct queue *))
{
    double values[4] = {0};
    if (perf->rank < 2 && length > 0) {
        struct queue queue = {
            .perf = perf, .peer = 1 - perf->rank, .owner = perf->rank == 0, .length = length};
        queue.requests = calloc(length, sizeof(queue.requests[0]));
        if (!queue.requests)
            perf_die(perf, "no memory for a queue of %zu", length);
        fill(&queue);
        values[0] = pings(&queue, queue.peer) * 1e6;
        values[1] = pings(&queue, HCOMM_ANY_SOURCE) * 1e6;
        empty(&queue);
        values[2] = queue.filled * 1e6;
        values[3] = queue.emptied * 1e6;
        free(queue.requests);
    }
    perf_barrier(perf);
    perf_output_row(perf, length, values);
}

static void match_posted_point(struct perf *perf, size_t length)
{
    match_point(perf, length, posted_fill, posted_empty);
}

static void match_unexpected_point(struct perf *perf, size_t length)
{
    match_point(perf, length, unexpected_fill, unexpected_empty);
}

static hcomm_status_t start_window(struct perf_case *point, int source, int tag)
{
    struct perf *perf = point->perf;
    hcomm_status_t status = HCOMM_OK;
    for (size_t i = 0; i < point->window && status == HCOMM_OK; i++)
        status = point->first ? hcomm_isend(perf_walk_next(&point->send), point->size, point->peer,
                                            PERF_TAG_DATA, perf->world, &point->requests[i])
                              : hcomm_irecv(perf_walk_next(&point->recv), point->size, source, tag,
                                            perf->world, &point->requests[i]);
    return status;
}

static hcomm_status_t acknowledge(struct perf_case *point)
{
    char ack[ACK_SIZE] = {0};
    hcomm_comm_t world = point->perf->world;
    return point->first ? hcomm_recv(ack, sizeof(ack), point->peer, PERF_TAG_ACK, world, NULL)
                        : hcomm_send(ack, sizeof(ack), point->peer, PERF_TAG_ACK, world);
}

/* From rank 1 to rank 0, where the queue stands; as bw has them. */
static void windows(struct perf_case *point, uint64_t iterations, int source, int tag)
{
    for (uint64_t i = 0; i < iterations && point->peer >= 0; i++) {
        hcomm_status_t status = start_window(point, source, tag);
        if (status == HCOMM_OK)
            status = hcomm_waitall(point->window, point->requests, NULL);
        if (status == HCOMM_OK)
            status = acknowledge(point);
        perf_must(point->perf, status, "a window past the queue");
    }
}

static void exact_windows(struct perf_case *point, uint64_t iterations)
{
    windows(point, iterations, point->peer, PERF_TAG_DATA);
}

static void wildcard_windows(struct perf_case *point, uint64_t iterations)
{
    windows(point, iterations, HCOMM_ANY_SOURCE, HCOMM_ANY_TAG);
}

/* Messages per second. */
static double rate(struct perf *perf, perf_loop_fn loop)
{
    struct perf_case point;
    int peer = perf->rank < 2 ? 1 - perf->rank : HCOMM_RANK_NULL;
    perf_case_init(perf, &point, PING_SIZE, peer, perf->rank == 1);
    perf_case_windows(&point);
    perf_check_fill(&point);
    double seconds = perf_case_time(&point, loop);
    if (perf->rank == 0)
        perf_check_verify(&point, peer);
    double messages = (double)(point.iterations * point.window);
    perf_case_fini(&point);
    return messages / seconds;
}

static void match_rate_point(struct perf *perf, size_t length)
{
    double values[2];
    struct queue queue = {.perf = perf, .peer = 1 - perf->rank, .owner = perf->rank == 0, .length = length};
    bool has_part = perf->rank < 2 && length > 0;
    if (has_part) {
        queue.requests = calloc(length, sizeof(queue.requests[0]));
        if (!queue.requests)
            perf_die(perf, "no memory for a queue of %zu", length);
        posted_fill(&queue);
    }
    values[0] = rate(perf, exact_windows);
    values[1] = rate(perf, wildcard_windows);
    if (has_part)
        posted_empty(&queue);
    free(queue.requests);
    perf_barrier(perf);
    perf_output_row(perf, length, values);
}

const struct perf_test perf_test_match_posted = {
    .name = "match_posted",
    .help = "8-byte latency past a queue of posted receives, and the queue's cost per entry",
    .axis = PERF_AXIS_QUEUE,
    .min_ranks = 2,
    .columns = {{"exact", "us", 3}, {"any_source", "us", 3}, {"fill", "us", 3}, {"empty", "us", 3}},
    .point = match_posted_point,
};

const struct perf_test perf_test_match_unexpected = {
    .name = "match_unexpected",
    .help = "the same past a queue of unexpected messages",
    .axis = PERF_AXIS_QUEUE,
    .min_ranks = 2,
    .columns = {{"exact", "us", 3}, {"any_source", "us", 3}, {"fill", "us", 3}, {"empty", "us", 3}},
    .point = match_unexpected_point,
};

const struct perf_test perf_test_match_rate = {
    .name = "match_rate",
    .help = "8-byte message rate past a queue of posted receives, also into wildcards",
    .axis = PERF_AXIS_QUEUE,
    .min_ranks = 2,
    .columns = {{"exact", "msg/s", 0}, {"any", "msg/s", 0}},
    .point = match_rate_point,
};
