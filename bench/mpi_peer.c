/*
 * The peers' side of bench/compare: hcomm_perf's measures through MPI, with the same definitions, buffers,
 * windows and calibration, printed as hcomm_perf --csv prints them. Compiled with each MPI's own compiler.
 *
 *     mpirun -n 2 mpi_peer NAME SECONDS MIN:MAX TEST…    tests: latency multi_lat bw mbw_mr barrier
 *                                                        match_posted match_unexpected match_rate
 *
 * NAME stands in the transport column; SECONDS is the time per point; MIN:MAX are bytes, doubling, for
 * match_* queue lengths, times ten. MPI ends the job at any error, as its default says.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <mpi.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG_DATA = 100, TAG_ACK = 101, TAG_QUEUE = 1000 };
enum { WINDOW = 64, SMALL_MAX = 8192, FEWEST = 10, ACK_SIZE = 4, PING_SIZE = 8, PINGS = 2000 };
static const double iterations_max = 1e8;

struct point {
    size_t size;
    int peer;   /* MPI_PROC_NULL: no part in it */
    bool first; /* this side begins */
    char *send, *recv;
    MPI_Request requests[WINDOW];
    long warmup, iterations;
};

typedef void (*loop_fn)(struct point *point, long iterations);

static int rank, ranks;
static const char *name;
static double seconds;

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void print_value(const char *test, const char *axis, size_t x, const char *measure, const char *unit,
                        double value)
{
    if (rank == 0)
        printf("%s,%s,,malloc,off,%d,%s,%zu,%s,%s,%.6g\n", test, name, ranks, axis, x, measure, unit, value);
    if (rank == 0 && fflush(stdout) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static char *take_memory(size_t size)
{
    void *memory;
    size_t rounded = (size + 63) / 64 * 64;
    if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), rounded ? rounded : 64) != 0) {
        fprintf(stderr, "mpi_peer: no memory for %zu bytes\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
        abort();
    }
    memset(memory, 0, rounded ? rounded : 64);
    return memory;
}

static void point_init(struct point *point, size_t size, int peer, bool first, long divisor)
{
    bool small = size <= SMALL_MAX;
    memset(point, 0, sizeof(*point));
    point->size = size;
    point->peer = peer;
    point->first = first;
    point->warmup = (small ? 100 : 10) / divisor;
    point->send = take_memory(size);
    point->recv = take_memory(size);
}

static void point_fini(struct point *point)
{
    free(point->recv);
    free(point->send);
}

/* This rank's seconds for point->iterations of the loop, as many as fit into `seconds`. */
static double point_time(struct point *point, loop_fn loop)
{
    long few = point->warmup < FEWEST ? FEWEST : point->warmup;
    MPI_Barrier(MPI_COMM_WORLD);
    loop(point, point->warmup);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    loop(point, few);
    double fit = seconds / ((now() - start) / (double)few);
    point->iterations = fit > iterations_max ? (long)iterations_max : fit < FEWEST ? FEWEST : (long)fit;
    MPI_Bcast(&point->iterations, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    start = now();
    loop(point, point->iterations);
    return now() - start;
}

static void send_one(struct point *point)
{
    MPI_Send(point->send, (int)point->size, MPI_BYTE, point->peer, TAG_DATA, MPI_COMM_WORLD);
}

static void recv_one(struct point *point)
{
    MPI_Recv(point->recv, (int)point->size, MPI_BYTE, point->peer, TAG_DATA, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

static void ping_pong(struct point *point, long iterations)
{
    if (point->peer == MPI_PROC_NULL)
        return;
    for (long i = 0; i < iterations; i++) {
        if (point->first)
            send_one(point);
        recv_one(point);
        if (!point->first)
            send_one(point);
    }
}

/* From the first of a pair to the other, which receives from source with tag. */
static void windows(struct point *point, long iterations, int source, int tag)
{
    char ack[ACK_SIZE] = {0};
    for (long i = 0; i < iterations && point->peer != MPI_PROC_NULL; i++) {
        for (int k = 0; k < WINDOW; k++) {
            if (point->first)
                MPI_Isend(point->send, (int)point->size, MPI_BYTE, point->peer, TAG_DATA, MPI_COMM_WORLD,
                          &point->requests[k]);
            else
                MPI_Irecv(point->recv, (int)point->size, MPI_BYTE, source, tag, MPI_COMM_WORLD,
                          &point->requests[k]);
        }
        MPI_Waitall(WINDOW, point->requests, MPI_STATUSES_IGNORE);
        if (point->first)
            MPI_Recv(ack, ACK_SIZE, MPI_BYTE, point->peer, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(ack, ACK_SIZE, MPI_BYTE, point->peer, TAG_ACK, MPI_COMM_WORLD);
    }
}

static void one_way(struct point *point, long iterations)
{
    windows(point, iterations, point->peer, TAG_DATA);
}

static void barriers(struct point *point, long iterations)
{
    (void)point;
    for (long i = 0; i < iterations; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void latency(size_t size)
{
    struct point point;
    point_init(&point, size, rank < 2 ? 1 - rank : MPI_PROC_NULL, rank == 0, 1);
    double elapsed = point_time(&point, ping_pong);
    print_value("latency", "bytes", size, "average", "us", elapsed / (2.0 * (double)point.iterations) * 1e6);
    point_fini(&point);
}

static void set_warmup_of_many(struct point *point)
{
    if (ranks > 2)
        point->warmup = FEWEST; /* processes that spin in turn need a time slice each */
}

static double mean_of(double each)
{
    double sum = 0;
    MPI_Reduce(&each, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return sum / ranks;
}

static void multi_lat(size_t size)
{
    struct point point;
    int half = ranks / 2;
    bool first = rank < half;
    point_init(&point, size, first ? rank + half : rank - half, first, 1);
    set_warmup_of_many(&point);
    double each = point_time(&point, ping_pong) / (2.0 * (double)point.iterations);
    print_value("multi_lat", "bytes", size, "average", "us", mean_of(each) * 1e6);
    point_fini(&point);
}

static void print_rate(const char *test, const struct point *point, int pairs, double elapsed)
{
    double rate = (double)point->iterations * WINDOW * pairs / elapsed;
    print_value(test, "bytes", point->size, "bandwidth", "MB/s", rate * (double)point->size * 1e-6);
    print_value(test, "bytes", point->size, "rate", "msg/s", rate);
}

static void bw(size_t size)
{
    struct point point;
    point_init(&point, size, rank < 2 ? 1 - rank : MPI_PROC_NULL, rank == 0, 10);
    print_rate("bw", &point, 1, point_time(&point, one_way));
    point_fini(&point);
}

static void mbw_mr(size_t size)
{
    struct point point;
    int half = ranks / 2;
    bool first = rank < half;
    point_init(&point, size, first ? rank + half : rank - half, first, 10);
    double elapsed = point_time(&point, one_way), slowest = elapsed;
    MPI_Reduce(&elapsed, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    print_rate("mbw_mr", &point, half, slowest);
    point_fini(&point);
}

static void barrier(size_t size)
{
    struct point point;
    (void)size;
    point_init(&point, 0, MPI_PROC_NULL, false, 1);
    set_warmup_of_many(&point);
    double each = point_time(&point, barriers) / (double)point.iterations;
    print_value("barrier", "ranks", (size_t)ranks, "average", "us", mean_of(each) * 1e6);
    point_fini(&point);
}

/* The queue stands at rank 0, as in hcomm_perf's tests of that name. */
static void ping(int source)
{
    char data[PING_SIZE] = {0};
    if (rank == 0)
        MPI_Send(data, PING_SIZE, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
    MPI_Recv(data, PING_SIZE, MPI_BYTE, source, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(data, PING_SIZE, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
}

static double pings(int source)
{
    int n = PINGS;
    for (int i = 0; i < n / 10; i++)
        ping(source);
    double start = now();
    for (int i = 0; i < n; i++)
        ping(source);
    return (now() - start) / (2.0 * n) * 1e6;
}

static void start(bool receives, size_t i, int peer, MPI_Request *request)
{
    if (receives)
        MPI_Irecv(NULL, 0, MPI_BYTE, peer, (int)(TAG_QUEUE + i), MPI_COMM_WORLD, request);
    else
        MPI_Isend(NULL, 0, MPI_BYTE, peer, (int)(TAG_QUEUE + i), MPI_COMM_WORLD, request);
}

/* One side fills the queue (the owner of posted receives, the feeder of unexpected messages), the other one
 * empties it in the reverse order. */
static void match(const char *test, size_t length, bool unexpected)
{
    int peer = 1 - rank;
    MPI_Request *requests = malloc((length ? length : 1) * sizeof(*requests));
    bool fills = (rank == 0) != unexpected;
    if (rank > 1 || !requests) {
        free(requests);
        return;
    }
    double begin = now();
    for (size_t i = 0; fills && i < length; i++)
        start(rank == 0, i, peer, &requests[i]);
    if (unexpected)
        ping(peer);
    print_value(test, "queue", length, "fill", "us", (now() - begin) / (double)length * 1e6);
    print_value(test, "queue", length, "exact", "us", pings(peer));
    print_value(test, "queue", length, "any_source", "us", pings(MPI_ANY_SOURCE));
    if (!unexpected)
        ping(peer);
    begin = now();
    for (size_t i = length; !fills && i-- > 0;)
        start(rank == 0, i, peer, &requests[i]);
    MPI_Waitall((int)length, requests, MPI_STATUSES_IGNORE);
    print_value(test, "queue", length, "empty", "us", (now() - begin) / (double)length * 1e6);
    free(requests);
}

static void wildcard_windows(struct point *point, long iterations)
{
    windows(point, iterations, MPI_ANY_SOURCE, MPI_ANY_TAG);
}

static double match_rate_of(loop_fn loop)
{
    struct point point;
    point_init(&point, PING_SIZE, rank < 2 ? 1 - rank : MPI_PROC_NULL, rank == 1, 10);
    double elapsed = point_time(&point, loop);
    point_fini(&point);
    return (double)point.iterations * WINDOW / elapsed;
}

static void match_rate(size_t length)
{
    MPI_Request *requests = malloc((length ? length : 1) * sizeof(*requests));
    if (!requests)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; rank == 0 && i < length; i++)
        start(true, i, 1, &requests[i]);
    print_value("match_rate", "queue", length, "exact", "msg/s", match_rate_of(one_way));
    print_value("match_rate", "queue", length, "any", "msg/s", match_rate_of(wildcard_windows));
    for (size_t i = length; rank == 1 && i-- > 0;)
        start(false, i, 0, &requests[i]);
    if (rank < 2)
        MPI_Waitall((int)length, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

static void match_posted(size_t length)
{
    match("match_posted", length, false);
}

static void match_unexpected(size_t length)
{
    match("match_unexpected", length, true);
}

static const struct test {
    const char *name;
    void (*run)(size_t x);
    size_t factor; /* from one point to the next; 0: a single point */
} tests[] = {
    {"latency", latency, 2},
    {"multi_lat", multi_lat, 2},
    {"bw", bw, 2},
    {"mbw_mr", mbw_mr, 2},
    {"barrier", barrier, 0},
    {"match_posted", match_posted, 10},
    {"match_unexpected", match_unexpected, 10},
    {"match_rate", match_rate, 10},
};

static bool run(const char *word, size_t min, size_t max)
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        const struct test *test = &tests[i];
        if (strcmp(test->name, word) != 0)
            continue;
        for (size_t x = min; x <= max; x = x ? x * test->factor : 1) {
            test->run(x);
            if (test->factor == 0)
                break;
        }
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    size_t min = 0, max = 0;
    int code = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 5 || !((seconds = atof(argv[2])) > 0) || sscanf(argv[3], "%zu:%zu", &min, &max) != 2) {
        if (rank == 0)
            fprintf(stderr, "usage: mpi_peer NAME SECONDS MIN:MAX TEST...\n");
        MPI_Finalize();
        return 2;
    }
    name = argv[1];
    for (int i = 4; i < argc && code == 0; i++) {
        if (!run(argv[i], min, max)) {
            fprintf(stderr, "mpi_peer: there is no test '%s'\n", argv[i]);
            code = 2;
        }
    }
    MPI_Finalize();
    return code;
}
