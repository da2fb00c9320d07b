/*
 * Windows of messages: bw, bibw, mbw_mr (as osu_bw, osu_bibw, osu_mbw_mr define them), and the same from one
 * rank to many and from many to one.
 *
 * A sender starts `window` nonblocking sends, waits for them, and after that for an acknowledgement of the
 * receiver, which had as many receives posted. Bandwidth counts 10^6 bytes. All ends of a window are timed:
 * the last acknowledgement is part of it.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

enum { ACK_SIZE = 4 };

static void start_sends(struct perf_case *point, int peer, hcomm_request_t *requests)
{
    for (size_t i = 0; i < point->window; i++)
        perf_must(point->perf,
                  hcomm_isend(perf_walk_next(&point->send), point->size, peer, PERF_TAG_DATA,
                              point->perf->world, &requests[i]),
                  "send");
}

static void start_recvs(struct perf_case *point, int peer, hcomm_request_t *requests)
{
    for (size_t i = 0; i < point->window; i++)
        perf_must(point->perf,
                  hcomm_irecv(perf_walk_next(&point->recv), point->size, peer, PERF_TAG_DATA,
                              point->perf->world, &requests[i]),
                  "receive");
}

static void finish(struct perf_case *point, hcomm_request_t *requests, size_t n)
{
    perf_must(point->perf, hcomm_waitall(n, requests, NULL), "waiting for a window");
}

static void send_ack(struct perf_case *point, int peer)
{
    char ack[ACK_SIZE] = {0};
    perf_must(point->perf, hcomm_send(ack, ACK_SIZE, peer, PERF_TAG_ACK, point->perf->world), "acknowledge");
}

static void recv_ack(struct perf_case *point, int peer)
{
    char ack[ACK_SIZE];
    perf_must(point->perf, hcomm_recv(ack, ACK_SIZE, peer, PERF_TAG_ACK, point->perf->world, NULL),
              "acknowledgement");
}

static void one_way(struct perf_case *point, uint64_t iterations)
{
    if (point->peer < 0)
        return;
    for (uint64_t i = 0; i < iterations; i++) {
        if (point->first) {
            start_sends(point, point->peer, point->requests);
            finish(point, point->requests, point->window);
            recv_ack(point, point->peer);
        } else {
            start_recvs(point, point->peer, point->requests);
            finish(point, point->requests, point->window);
            send_ack(point, point->peer);
        }
    }
}

static void both_ways(struct perf_case *point, uint64_t iterations)
{
    if (point->peer < 0)
        return;
    for (uint64_t i = 0; i < iterations; i++) {
        start_recvs(point, point->peer, point->requests);
        start_sends(point, point->peer, point->requests + point->window);
        finish(point, point->requests, 2 * point->window);
        if (point->first)
            recv_ack(point, point->peer);
        else
            send_ack(point, point->peer);
    }
}

static double timed(struct perf_case *point, perf_loop_fn loop, bool receives)
{
    perf_case_windows(point);
    perf_check_exchange(point);
    perf_check_fill(point);
    double seconds = perf_case_time(point, loop);
    if (receives && point->peer >= 0)
        perf_check_verify(point, point->peer);
    return seconds;
}

static void bw_point(struct perf *perf, size_t size)
{
    struct perf_case point;
    int peer = perf->rank < 2 ? 1 - perf->rank : HCOMM_RANK_NULL;
    perf_case_init(perf, &point, size, peer, perf->rank == 0);
    double seconds = timed(&point, one_way, perf->rank == 1);
    double rate = (double)(point.iterations * point.window) / seconds;
    perf_output_row(perf, size, (double[]){rate * (double)size * 1e-6, rate});
    perf_case_fini(&point);
}

static void bibw_point(struct perf *perf, size_t size)
{
    struct perf_case point;
    int peer = perf->rank < 2 ? 1 - perf->rank : HCOMM_RANK_NULL;
    perf_case_init(perf, &point, size, peer, perf->rank == 0);
    double seconds = timed(&point, both_ways, true);
    double rate = 2.0 * (double)(point.iterations * point.window) / seconds;
    perf_output_row(perf, size, (double[]){rate * (double)size * 1e-6, rate});
    perf_case_fini(&point);
}

static void mbw_mr_point(struct perf *perf, size_t size)
{
    struct perf_case point;
    int half = perf->ranks / 2;
    bool first = perf->rank < half;
    perf_case_init(perf, &point, size, first ? perf->rank + half : perf->rank - half, first);
    double seconds = perf_sum(perf, timed(&point, one_way, !first)).greatest;
    double rate = (double)(point.iterations * point.window) * half / seconds;
    perf_output_row(perf, size, (double[]){rate * (double)size * 1e-6, rate});
    perf_case_fini(&point);
}

/* Rank 0 sends a window to each other rank in turn, then waits for all. */
static void fan_out(struct perf_case *point, uint64_t iterations)
{
    int ranks = point->perf->ranks;
    if (point->perf->rank != 0) {
        one_way(point, iterations);
        return;
    }
    for (uint64_t i = 0; i < iterations; i++) {
        for (int rank = 1; rank < ranks; rank++) {
            start_sends(point, rank, point->requests);
            finish(point, point->requests, point->window);
        }
        for (int rank = 1; rank < ranks; rank++)
            recv_ack(point, rank);
    }
}

/* Rank 0 takes everybody's window, from whomever it comes first. */
static void fan_in(struct perf_case *point, uint64_t iterations)
{
    int ranks = point->perf->ranks;
    if (point->perf->rank != 0) {
        one_way(point, iterations);
        return;
    }
    for (uint64_t i = 0; i < iterations; i++) {
        for (int rank = 1; rank < ranks; rank++) {
            start_recvs(point, HCOMM_ANY_SOURCE, point->requests);
            finish(point, point->requests, point->window);
        }
        for (int rank = 1; rank < ranks; rank++)
            send_ack(point, rank);
    }
}

static void fan_point(struct perf *perf, size_t size, perf_loop_fn loop, bool senders_first)
{
    struct perf_case point;
    perf_case_init(perf, &point, size, 0, (perf->rank != 0) == senders_first);
    perf_case_windows(&point);
    perf_check_fill(&point);
    double seconds = perf_sum(perf, perf_case_time(&point, loop)).greatest;
    if (!senders_first && perf->rank != 0)
        perf_check_verify(&point, 0);
    if (senders_first && perf->rank == 0 && perf->ranks == 2)
        perf_check_verify(&point, 1); /* with more ranks a slot holds whoever came last */
    double rate = (double)(point.iterations * point.window) * (perf->ranks - 1) / seconds;
    perf_output_row(perf, size, (double[]){rate * (double)size * 1e-6, rate});
    perf_case_fini(&point);
}

static void one_to_many_point(struct perf *perf, size_t size)
{
    fan_point(perf, size, fan_out, false);
}

static void many_to_one_point(struct perf *perf, size_t size)
{
    fan_point(perf, size, fan_in, true);
}

const struct perf_test perf_test_bw = {
    .name = "bw",
    .help = "bandwidth of windows of messages from rank 0 to rank 1 (osu_bw)",
    .axis = PERF_AXIS_BYTES,
    .min_ranks = 2,
    .size_min = 1,
    .size_max = (size_t)4 << 20,
    .columns = {{"bandwidth", "MB/s", 2}, {"rate", "msg/s", 0}},
    .point = bw_point,
};

const struct perf_test perf_test_bibw = {
    .name = "bibw",
    .help = "the same both ways at once (osu_bibw)",
    .axis = PERF_AXIS_BYTES,
    .min_ranks = 2,
    .size_min = 1,
    .size_max = (size_t)4 << 20,
    .columns = {{"bandwidth", "MB/s", 2}, {"rate", "msg/s", 0}},
    .point = bibw_point,
};

const struct perf_test perf_test_mbw_mr = {
    .name = "mbw_mr",
    .help = "bandwidth and message rate of all pairs together (osu_mbw_mr)",
    .axis = PERF_AXIS_BYTES,
    .min_ranks = 2,
    .pairs = true,
    .size_min = 1,
    .size_max = (size_t)4 << 20,
    .columns = {{"bandwidth", "MB/s", 2}, {"rate", "msg/s", 0}},
    .point = mbw_mr_point,
};

const struct perf_test perf_test_one_to_many = {
    .name = "one_to_many",
    .help = "windows of messages from rank 0 to every other rank",
    .axis = PERF_AXIS_BYTES,
    .min_ranks = 2,
    .size_min = 1,
    .size_max = (size_t)1 << 20,
    .columns = {{"bandwidth", "MB/s", 2}, {"rate", "msg/s", 0}},
    .point = one_to_many_point,
};

const struct perf_test perf_test_many_to_one = {
    .name = "many_to_one",
    .help = "windows of messages from every other rank to rank 0, which takes any source",
    .axis = PERF_AXIS_BYTES,
    .min_ranks = 2,
    .size_min = 1,
    .size_max = (size_t)1 << 20,
    .columns = {{"bandwidth", "MB/s", 2}, {"rate", "msg/s", 0}},
    .point = many_to_one_point,
};
