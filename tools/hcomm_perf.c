/*
 * hcomm_perf: what messages, rates and barriers cost. See hcomm_perf(1), and hcomm_perf.h for the files.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A wait of the looking-on ranks lasts as long as a measured point. */
enum { PERF_TIMEOUT_MS = 300000 };
enum { TRANSPORTS_MAX = 256 };

const struct perf_test *const perf_tests[] = {
    &perf_test_latency,
    &perf_test_multi_lat,
    &perf_test_bw,
    &perf_test_bibw,
    &perf_test_mbw_mr,
    &perf_test_one_to_many,
    &perf_test_many_to_one,
    &perf_test_barrier,
    &perf_test_overlap,
    &perf_test_match_posted,
    &perf_test_match_unexpected,
    &perf_test_match_rate,
    NULL,
};

void perf_die(const struct perf *perf, const char *format, ...)
{
    va_list arguments;
    (void)fflush(stdout);
    (void)fprintf(stderr, "hcomm_perf: rank %d: ", perf->rank);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    hcomm_abort(perf->hcomm, PERF_EXIT_FAILED);
    abort(); /* hcomm_abort does not return */
}

void perf_must(const struct perf *perf, hcomm_status_t status, const char *what)
{
    if (status == HCOMM_OK)
        return;
    const char *detail = hcomm_error_detail();
    perf_die(perf, "%s: %s", what, *detail ? detail : hcomm_strerror(status));
}

static void pin_rank(const struct perf_options *options)
{
    cpu_set_t allowed, chosen;
    int processor = -1;
    unsigned index = perf_rank_hint();
    CPU_ZERO(&chosen);
    if (options->pin_list) {
        processor = perf_options_processor(options->pin_list, index);
    } else if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
        index %= (unsigned)CPU_COUNT(&allowed);
        for (processor = 0; !CPU_ISSET(processor, &allowed) || index-- > 0;)
            processor++;
    }
    if (processor >= 0)
        CPU_SET(processor, &chosen);
    if (sched_setaffinity(0, sizeof(chosen), &chosen) != 0)
        (void)fprintf(stderr, "hcomm_perf: --pin: cannot run on processor %d: %m; measuring unpinned\n",
                      processor);
}

/* Tests with the progress thread off or on: as the command line says, else as the test says. */
static bool wants(const struct perf_options *options, const struct perf_test *test, bool thread)
{
    switch (options->thread) {
    case PERF_THREAD_OFF:
        return !thread;
    case PERF_THREAD_ON:
        return thread;
    case PERF_THREAD_BOTH:
        return true;
    case PERF_THREAD_AS_TEST:
        break;
    }
    return !thread || test->both_threads;
}

static bool wants_any(const struct perf_options *options, bool thread)
{
    for (size_t i = 0; i < options->num_tests; i++)
        if (wants(options, options->tests[i], thread))
            return true;
    return false;
}

/* The range of a test's axis, then the value after x: 0, 1, 2, 4 … for bytes, 0, 1, 10, 100 … for queues. */
static struct perf_range axis_range(const struct perf *perf)
{
    const struct perf_test *test = perf->test;
    if (test->axis == PERF_AXIS_RANKS)
        return (struct perf_range){.min = (size_t)perf->ranks, .max = (size_t)perf->ranks};
    if (test->axis == PERF_AXIS_QUEUE)
        return perf->options->queues;
    if (perf->options->sizes.given)
        return perf->options->sizes;
    return (struct perf_range){.min = test->size_min, .max = test->size_max};
}

static size_t axis_next(const struct perf *perf, size_t x)
{
    size_t factor = perf->test->axis == PERF_AXIS_QUEUE ? 10 : 2;
    if (x == 0)
        return 1;
    return x > SIZE_MAX / factor ? SIZE_MAX : x * factor;
}

static void run_test(struct perf *perf)
{
    struct perf_range range = axis_range(perf);
    perf->header_due = true;
    for (size_t x = range.min; x <= range.max && x != SIZE_MAX; x = axis_next(perf, x)) {
        perf_output_progress(perf, x);
        perf->test->point(perf, x);
    }
}

/* Why a test cannot run with so many ranks; NULL when it can. */
static const char *misfit(const struct perf_test *test, int ranks)
{
    if (ranks < test->min_ranks)
        return "needs more ranks: hcommrun -n 2 hcomm_perf …";
    if (test->pairs && ranks % 2 != 0)
        return "pairs the ranks: start an even number of them";
    return NULL;
}

static void learn_transport(struct perf *perf)
{
    const hcomm_topology_t *topology;
    perf_barrier(perf); /* all are there, so the topology is complete */
    perf_must(perf, hcomm_get_topology(perf->hcomm, &topology), "topology");
    perf->transport = topology->ranks[(perf->rank + 1) % perf->ranks].transport;
}

static int check_fit(const struct perf *perf)
{
    const struct perf_options *options = perf->options;
    for (size_t i = 0; i < options->num_tests && !options->all; i++) {
        const char *reason = misfit(options->tests[i], perf->ranks);
        if (!reason)
            continue;
        if (perf->rank == 0)
            (void)fprintf(stderr, "hcomm_perf: %s does not run with a job of %d: it %s\n",
                          options->tests[i]->name, perf->ranks, reason);
        else
            (void)sleep(PERF_AFTER_RANK_0_S);
        return PERF_EXIT_USAGE;
    }
    return PERF_EXIT_OK;
}

/* One context: over the transports named (NULL: hcomm's choice), with or without the progress thread. */
static int run_context(const struct perf_options *options, const char *transports, bool thread)
{
    struct perf perf = {.options = options, .thread = thread};
    hcomm_config_t config = {.mode = options->mode,
                             .transports = transports,
                             .timeout_ms = PERF_TIMEOUT_MS,
                             .device_id = perf_memory_device(options),
                             .progress_thread = thread ? HCOMM_SWITCH_ON : HCOMM_SWITCH_OFF};
    perf.rank = (int)perf_rank_hint(); /* until hcomm tells it: for the words when it does not start */
    perf_must(&perf, hcomm_init(&perf.hcomm, &config), "start");
    perf_must(&perf, hcomm_get_config(perf.hcomm, &config), "settings");
    perf.mode = config.mode;
    perf.world = hcomm_comm_world(perf.hcomm);
    perf.rank = hcomm_rank(perf.hcomm);
    perf.ranks = hcomm_size(perf.hcomm);
    int code = check_fit(&perf);
    if (code == PERF_EXIT_OK)
        learn_transport(&perf);
    for (size_t i = 0; i < options->num_tests && code == PERF_EXIT_OK; i++) {
        perf.test = options->tests[i];
        if (wants(options, perf.test, thread) && !misfit(perf.test, perf.ranks))
            run_test(&perf);
    }
    perf_must(&perf, hcomm_finalize(perf.hcomm), "end");
    return code;
}

static int run_threads(const struct perf_options *options, const char *transports)
{
    int code = PERF_EXIT_OK;
    for (int thread = 0; thread <= 1 && code == PERF_EXIT_OK; thread++)
        if (wants_any(options, thread))
            code = run_context(options, transports, thread);
    return code;
}

/* The list's items one after another; '+' inside an item joins transports that are used together. */
static int run_transports(const struct perf_options *options)
{
    const char *item = options->transports;
    if (!item)
        return run_threads(options, NULL);
    int code = PERF_EXIT_OK;
    while (*item && code == PERF_EXIT_OK) {
        char name[TRANSPORTS_MAX];
        size_t length = strcspn(item, ",");
        (void)snprintf(name, sizeof(name), "%.*s", (int)length, item);
        for (char *plus = name; (plus = strchr(plus, '+'));)
            *plus = ',';
        code = run_threads(options, name);
        item += length + (item[length] == ',');
    }
    return code;
}

int main(int argc, char **argv)
{
    struct perf_options options;
    int code = perf_options_read(argc, argv, &options);
    if (code != PERF_EXIT_OK)
        return code < 0 ? PERF_EXIT_OK : code;
    if (options.pin)
        pin_rank(&options);
    if (!perf_output_start(&options))
        return PERF_EXIT_FAILED;
    code = run_transports(&options);
    if (!perf_output_end(&options) && code == PERF_EXIT_OK)
        code = PERF_EXIT_FAILED;
    return code;
}
