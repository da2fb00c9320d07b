/*
 * hcomm_perf: shared declarations. One file per subject:
 *
 *     hcomm_perf.c           contexts (one per transport and progress thread), the list of tests, main
 *     hcomm_perf_options.c   command line
 *     hcomm_perf_output.c    table, CSV, JSON, the progress line
 *     hcomm_perf_plot.c      --plot, through gnuplot
 *     hcomm_perf_case.c      one measured point: buffers, warm-up, how often, the clock, sums over ranks
 *     hcomm_perf_memory.c    --memory: what buffers are made of
 *     hcomm_perf_check.c     --check: patterns and their verification
 *     hcomm_perf_latency.c   latency, multi_lat
 *     hcomm_perf_stream.c    bw, bibw, mbw_mr, one_to_many, many_to_one
 *     hcomm_perf_barrier.c   barrier
 *     hcomm_perf_overlap.c   overlap
 *     hcomm_perf_match.c     match_posted, match_unexpected, match_rate
 *
 * Every rank runs the same code through the same points in the same order; ranks without a part in a test
 * have no peer, and loops that do nothing. Any failure ends the whole job: a benchmark has nothing to save.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_PERF_H
#define HCOMM_PERF_H

#include <hcomm.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { PERF_TAG_DATA = 100, PERF_TAG_ACK = 101, PERF_TAG_CONTROL = 102, PERF_TAG_QUEUE = 1000 };
enum { PERF_COLUMNS_MAX = 5, PERF_TESTS_MAX = 16 };
enum { PERF_EXIT_OK = 0, PERF_EXIT_FAILED = 1, PERF_EXIT_USAGE = 2 };
/* For ranks that leave a complaint to rank 0: the launcher ends the job with the first that leaves. */
enum { PERF_AFTER_RANK_0_S = 2 };

enum perf_format { PERF_FORMAT_TABLE, PERF_FORMAT_CSV, PERF_FORMAT_JSON };
enum perf_memory { PERF_MEMORY_MALLOC, PERF_MEMORY_HCOMM, PERF_MEMORY_DEVICE };
extern const char *const perf_memory_names[]; /* by enum perf_memory, NULL at the end */
enum perf_thread { PERF_THREAD_AS_TEST, PERF_THREAD_OFF, PERF_THREAD_ON, PERF_THREAD_BOTH };

struct perf_range {
    size_t min, max;
    bool given; /* on the command line: it holds for every test */
};

/* The command line, read. Zero means "the test's own default" unless said otherwise. */
struct perf_options {
    const struct perf_test *tests[PERF_TESTS_MAX]; /* in the order asked for */
    size_t num_tests;
    bool all;                 /* the tests that do not fit the number of ranks are left out */
    struct perf_range sizes;  /* bytes */
    struct perf_range queues; /* queue lengths of match_* */
    uint64_t warmup;          /* iterations; warmup_given tells an explicit 0 apart */
    bool warmup_given;
    uint64_t iterations;
    double seconds;         /* per measured point; 0: by iterations */
    size_t window;          /* messages in flight */
    const char *transports; /* list as given, NULL: hcomm's choice */
    hcomm_mode_t mode;
    enum perf_thread thread;
    enum perf_memory memory;
    bool device_computes; /* overlap: the processor is free meanwhile */
    double compute_times; /* overlap: computing takes that many times as long as the transfer */
    size_t footprint;     /* bytes that successive messages walk through; 0: always the same buffer */
    bool pin;             /* to one processor per rank */
    const char *pin_list; /* processors in rank order; NULL: those allowed, in order */
    bool check;
    enum perf_format format;
    const char *plot; /* SVG file to draw into; NULL: none */
};

/* A value of a row. Rates and times keep their units in every format. */
struct perf_column {
    const char *name;
    const char *unit;
    int decimals; /* in tables */
};

/* What the rows of a test run over. */
enum perf_axis { PERF_AXIS_BYTES, PERF_AXIS_QUEUE, PERF_AXIS_RANKS };

struct perf;

struct perf_test {
    const char *name;
    const char *help; /* one line */
    enum perf_axis axis;
    int min_ranks;
    bool pairs;                /* ranks are paired: their number is even */
    bool both_threads;         /* without --progress-thread: measured without and with it */
    size_t size_min, size_max; /* bytes, default range */
    const struct perf_column columns[PERF_COLUMNS_MAX]; /* up to the first without a name */
    void (*point)(struct perf *perf, size_t x); /* measures one point of the axis and prints its row */
};

extern const struct perf_test perf_test_latency, perf_test_multi_lat, perf_test_bw, perf_test_bibw,
    perf_test_mbw_mr, perf_test_one_to_many, perf_test_many_to_one, perf_test_barrier, perf_test_overlap,
    perf_test_match_posted, perf_test_match_unexpected, perf_test_match_rate;
extern const struct perf_test *const perf_tests[]; /* all, NULL at the end */

/* A context under measurement. */
struct perf {
    const struct perf_options *options;
    hcomm_handle_t hcomm;
    hcomm_comm_t world;
    int rank, ranks;
    const char *transport; /* that leads to the next rank, as hcomm names it */
    hcomm_mode_t mode;     /* in force */
    bool thread;           /* the progress thread runs */
    const struct perf_test *test;
    bool header_due; /* the test's first row is not yet printed */
};

/* Where messages lie: `stride` bytes apart, `slots` of them, taken in turn. */
struct perf_walk {
    char *base;
    size_t stride, slots, at;
};

/* One measured point of this rank. */
struct perf_case {
    struct perf *perf;
    size_t size;
    size_t window;
    int peer;   /* rank of the other side; HCOMM_RANK_NULL: no part in it */
    bool first; /* this side begins */
    struct perf_walk send, recv;
    hcomm_request_t *requests; /* 2 × window */
    uint64_t warmup, iterations;
};

typedef void (*perf_loop_fn)(struct perf_case *point, uint64_t iterations);

/* Seconds on a clock that only moves forward. */
static inline double perf_now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* The next message's place. */
static inline char *perf_walk_next(struct perf_walk *walk)
{
    char *place = walk->base + walk->at * walk->stride;
    walk->at = walk->at + 1 < walk->slots ? walk->at + 1 : 0;
    return place;
}

/* Reads the command line. On a mistake prints one line (on rank 0) and returns PERF_EXIT_USAGE; for --help
 * and
 * --version prints and returns -1; PERF_EXIT_OK otherwise. */
int perf_options_read(int argc, char **argv, struct perf_options *options);
/* Processor number `index` (modulo their number) of a list as in "0,2-5"; -1 for a malformed list. */
int perf_options_processor(const char *list, unsigned index);
/* This process's rank before hcomm starts, as the launcher tells it; 0 without one. */
unsigned perf_rank_hint(void);

/* Ends the job with hcomm's words unless status is HCOMM_OK. */
void perf_must(const struct perf *perf, hcomm_status_t status, const char *what);
/* Ends the job with words of our own. */
void perf_die(const struct perf *perf, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Rank 0 prints; the others' calls do nothing. */
/* False when the plot that is asked for cannot be drawn; says why. */
bool perf_output_start(const struct perf_options *options);
void perf_output_row(struct perf *perf, size_t x, const double *values);
void perf_output_progress(const struct perf *perf, size_t x);
/* False when the plot that was asked for could not be drawn; says why. */
bool perf_output_end(const struct perf_options *options);

/* The plot: one chart per test, one curve per transport and progress thread, of each test's first column. */
/* Whether gnuplot is there, and path can be written; says what is wrong. */
bool perf_plot_is_possible(const char *path);
void perf_plot_add(const struct perf *perf, size_t x, double value);
bool perf_plot_draw(const char *path);

/*
 * Buffers of the chosen kind, cleared; and copies into and out of them, which the processor cannot always
 * reach. device: the setting device_id that the kind asks for.
 */
char *perf_memory_take(const struct perf *perf, size_t size);
void perf_memory_give(const struct perf *perf, char *memory);
void perf_memory_clear(const struct perf *perf, char *memory, size_t size);
void perf_memory_copy(const struct perf *perf, char *to, const char *from, size_t size);
int perf_memory_device(const struct perf_options *options);

/*
 * Prepares a point of `size` bytes with peer (or HCOMM_RANK_NULL): buffers of the chosen kind, touched, and
 * iteration counts, larger up to 8 KiB than above. perf_case_fini() releases what init made.
 */
void perf_case_init(struct perf *perf, struct perf_case *point, size_t size, int peer, bool first);
void perf_case_fini(struct perf_case *point);
/*
 * Collective over the world: warms up, agrees on the number of iterations (by time when --seconds is given),
 * starts all together, and returns this rank's seconds for point->iterations of the loop.
 */
double perf_case_time(struct perf_case *point, perf_loop_fn loop);
/* Iterations of a pass whose iterations are slow, where a test fixes their number itself. */
uint64_t perf_case_few(const struct perf_case *point, uint64_t most);
/* An iteration is a window of messages: unless the command line says how many, fewer do than of a ping-pong.
 */
void perf_case_windows(struct perf_case *point);

/* Collective over the world: rank 0 learns least, greatest and mean of the values given. */
struct perf_sum {
    double least, greatest, mean;
};
struct perf_sum perf_sum(struct perf *perf, double value);
void perf_barrier(struct perf *perf);

/* What one reading of the clock costs, seconds; and the value below which `part` of n sorted values lie. */
double perf_clock_cost(void);
void perf_sort(double *values, size_t n);
double perf_quantile(const double *sorted, size_t n, double part);

/*
 * --check (nothing otherwise). fill: every slot of the send buffers carries this rank's pattern, receive
 * buffers are cleared. verify: they hold `from`'s pattern. exchange: with the peer both ways, messages of
 * changing sizes up to the point's with a pattern of their own each, all in flight at once, verified.
 */
void perf_check_fill(struct perf_case *point);
void perf_check_verify(struct perf_case *point, int from);
void perf_check_exchange(struct perf_case *point);

#endif
