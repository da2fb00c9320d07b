/*
 * What hcomm_perf prints, by rank 0 alone: rows on stdout as a table, CSV or JSON, and on stderr a sign of
 * life when nothing was printed for a while.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <stdio.h>
#include <unistd.h>

static const double progress_after_tty = 1.0, progress_after_file = 10.0; /* seconds of silence */

static double last_output;
static bool progress_shown; /* a line without an end stands on the terminal */
static size_t rows;

static const char *axis_name(enum perf_axis axis)
{
    static const char *const names[] = {
        [PERF_AXIS_BYTES] = "bytes", [PERF_AXIS_QUEUE] = "queue", [PERF_AXIS_RANKS] = "ranks"};
    return names[axis];
}

static const char *mode_name(hcomm_mode_t mode)
{
    static const char *const names[] = {
        [HCOMM_MODE_AUTO] = "auto", [HCOMM_MODE_SMALL_MSG] = "small", [HCOMM_MODE_LARGE_MSG] = "large"};
    return names[mode];
}

static size_t num_columns(const struct perf_test *test)
{
    size_t n = 0;
    while (n < PERF_COLUMNS_MAX && test->columns[n].name)
        n++;
    return n;
}

bool perf_output_start(const struct perf_options *options)
{
    last_output = perf_now();
    if (perf_rank_hint() != 0)
        return true;
    if (options->plot && !perf_plot_is_possible(options->plot))
        return false;
    if (options->format == PERF_FORMAT_CSV)
        (void)puts("test,transport,mode,memory,progress_thread,ranks,axis,x,measure,unit,value");
    if (options->format == PERF_FORMAT_JSON)
        (void)fputs("[", stdout);
    return true;
}

static void print_header(const struct perf *perf)
{
    const struct perf_test *test = perf->test;
    (void)printf("# %s: %s, %d rank%s, mode %s, memory %s, progress thread %s\n%12s", test->name,
                 perf->transport, perf->ranks, perf->ranks == 1 ? "" : "s", mode_name(perf->mode),
                 perf_memory_names[perf->options->memory], perf->thread ? "on" : "off",
                 axis_name(test->axis));
    for (size_t i = 0; i < num_columns(test); i++) {
        char title[32];
        (void)snprintf(title, sizeof(title), "%s %s", test->columns[i].name, test->columns[i].unit);
        (void)printf(" %16s", title);
    }
    (void)putchar('\n');
}

static void print_table(const struct perf *perf, size_t x, const double *values)
{
    if (perf->header_due)
        print_header(perf);
    (void)printf("%12zu", x);
    for (size_t i = 0; i < num_columns(perf->test); i++)
        (void)printf(" %16.*f", perf->test->columns[i].decimals, values[i]);
    (void)putchar('\n');
}

static void print_csv(const struct perf *perf, size_t x, const double *values)
{
    const struct perf_test *test = perf->test;
    for (size_t i = 0; i < num_columns(test); i++)
        (void)printf("%s,%s,%s,%s,%s,%d,%s,%zu,%s,%s,%.6g\n", test->name, perf->transport,
                     mode_name(perf->mode), perf_memory_names[perf->options->memory],
                     perf->thread ? "on" : "off", perf->ranks, axis_name(test->axis), x,
                     test->columns[i].name, test->columns[i].unit, values[i]);
}

/* Transport names hold no character that JSON or CSV would quote. */
static void print_json(const struct perf *perf, size_t x, const double *values)
{
    const struct perf_test *test = perf->test;
    (void)printf("%s\n {\"test\": \"%s\", \"transport\": \"%s\", \"mode\": \"%s\", \"memory\": \"%s\", "
                 "\"progress_thread\": %s, \"ranks\": %d, \"axis\": \"%s\", \"x\": %zu, \"measures\": {",
                 rows ? "," : "", test->name, perf->transport, mode_name(perf->mode),
                 perf_memory_names[perf->options->memory], perf->thread ? "true" : "false", perf->ranks,
                 axis_name(test->axis), x);
    for (size_t i = 0; i < num_columns(test); i++)
        (void)printf("%s\"%s\": {\"value\": %.6g, \"unit\": \"%s\"}", i ? ", " : "", test->columns[i].name,
                     values[i], test->columns[i].unit);
    (void)fputs("}}", stdout);
}

static void clear_progress(void)
{
    if (progress_shown)
        (void)fputs("\r\033[K", stderr);
    progress_shown = false;
}

void perf_output_row(struct perf *perf, size_t x, const double *values)
{
    if (perf->rank != 0)
        return;
    clear_progress();
    switch (perf->options->format) {
    case PERF_FORMAT_TABLE:
        print_table(perf, x, values);
        break;
    case PERF_FORMAT_CSV:
        print_csv(perf, x, values);
        break;
    case PERF_FORMAT_JSON:
        print_json(perf, x, values);
        break;
    }
    if (fflush(stdout) != 0)
        perf_die(perf, "cannot write the results: %m");
    if (perf->options->plot)
        perf_plot_add(perf, x, values[0]);
    perf->header_due = false;
    rows++;
    if (isatty(STDOUT_FILENO))
        last_output = perf_now();
}

void perf_output_progress(const struct perf *perf, size_t x)
{
    bool terminal = isatty(STDERR_FILENO);
    if (perf->rank != 0 || perf_now() - last_output < (terminal ? progress_after_tty : progress_after_file))
        return;
    (void)fprintf(stderr, "%shcomm_perf: %s over %s, %s %zu%s", terminal ? "\r\033[K" : "", perf->test->name,
                  perf->transport, axis_name(perf->test->axis), x, terminal ? "" : "\n");
    (void)fflush(stderr);
    progress_shown = terminal;
    last_output = perf_now();
}

bool perf_output_end(const struct perf_options *options)
{
    if (perf_rank_hint() != 0)
        return true;
    clear_progress();
    if (options->format == PERF_FORMAT_JSON)
        (void)puts("\n]");
    return !options->plot || rows == 0 || perf_plot_draw(options->plot);
}
