/*
 * --plot: the points measured, drawn by gnuplot into an SVG image. gnuplot reads its commands and data from a
 * pipe; nothing but the image is written to disk.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LABEL_MAX = 96, CHART_WIDTH = 800, CHART_HEIGHT = 450 };

struct plot_point {
    const struct perf_test *test;
    char curve[LABEL_MAX];
    size_t x;
    double value;
};

static struct plot_point *points;
static size_t num_points, room;

void perf_plot_add(const struct perf *perf, size_t x, double value)
{
    if (num_points == room) {
        room = room ? 2 * room : 64;
        struct plot_point *more = realloc(points, room * sizeof(*more));
        if (!more)
            perf_die(perf, "no memory for the points of the plot");
        points = more;
    }
    struct plot_point *point = &points[num_points++];
    *point = (struct plot_point){.test = perf->test, .x = x, .value = value};
    (void)snprintf(point->curve, sizeof(point->curve), "%s%s", perf->transport,
                   perf->thread ? ", progress thread" : "");
}

static bool same_curve(const struct plot_point *a, const struct plot_point *b)
{
    return a->test == b->test && strcmp(a->curve, b->curve) == 0;
}

/* The first point of its chart (or of its curve) stands for all that follow. */
static bool opens_chart(size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (points[k].test == points[i].test)
            return false;
    return true;
}

static bool opens_curve(size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (same_curve(&points[k], &points[i]))
            return false;
    return true;
}

/* gnuplot's single quotes take everything; a quote inside is doubled. */
static void write_quoted(FILE *out, const char *text)
{
    (void)fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            (void)fputc('\'', out);
        (void)fputc(*text, out);
    }
    (void)fputc('\'', out);
}

/* One data block per curve, named after its first point. Logarithmic axes have no zero: it is left out. */
static void write_data(FILE *out)
{
    for (size_t i = 0; i < num_points; i++) {
        if (!opens_curve(i))
            continue;
        (void)fprintf(out, "$c%zu << END\n", i);
        for (size_t k = i; k < num_points; k++)
            if (same_curve(&points[k], &points[i]) && points[k].x > 0 && points[k].value > 0)
                (void)fprintf(out, "%zu %.6g\n", points[k].x, points[k].value);
        (void)fputs("END\n", out);
    }
}

static void write_chart(FILE *out, size_t first)
{
    static const char *const axes[] = {
        [PERF_AXIS_BYTES] = "bytes", [PERF_AXIS_QUEUE] = "queue length", [PERF_AXIS_RANKS] = "ranks"};
    const struct perf_test *test = points[first].test;
    const char *separator = "plot ";
    (void)fprintf(out, "set title '%s'\nset xlabel '%s'\nset ylabel '%s, %s'\n", test->name, axes[test->axis],
                  test->columns[0].name, test->columns[0].unit);
    for (size_t i = first; i < num_points; i++) {
        if (points[i].test != test || !opens_curve(i))
            continue;
        (void)fprintf(out, "%s$c%zu with linespoints title ", separator, i);
        write_quoted(out, points[i].curve);
        separator = ", ";
    }
    (void)fputc('\n', out);
}

static void write_script(FILE *out, const char *path)
{
    int charts = 0;
    for (size_t i = 0; i < num_points; i++)
        charts += opens_chart(i);
    (void)fprintf(out, "set terminal svg size %d,%d noenhanced\nset output ", CHART_WIDTH,
                  CHART_HEIGHT * charts);
    write_quoted(out, path);
    (void)fprintf(out, "\nset logscale x 2\nset logscale y\nset key left top\nset grid\n");
    write_data(out);
    (void)fprintf(out, "set multiplot layout %d,1\n", charts);
    for (size_t i = 0; i < num_points; i++)
        if (opens_chart(i))
            write_chart(out, i);
    (void)fputs("unset multiplot\nunset output\n", out);
}

bool perf_plot_is_possible(const char *path)
{
    if (system("command -v gnuplot >/dev/null") != 0) {
        (void)fprintf(stderr,
                      "hcomm_perf: --plot: there is no gnuplot in PATH: install the package gnuplot\n");
        return false;
    }
    FILE *image = fopen(path, "wx");
    bool created = image; /* for the trial only: a run that ends early leaves no empty file */
    if (!image && errno == EEXIST)
        image = fopen(path, "a"); /* what is there stays until there is something to draw */
    if (image && fclose(image) == 0 && (!created || unlink(path) == 0))
        return true;
    (void)fprintf(stderr, "hcomm_perf: --plot: cannot write '%s': %m\n", path);
    return false;
}

bool perf_plot_draw(const char *path)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a gnuplot that ends early shows in its exit code */
    FILE *gnuplot = popen("gnuplot", "w");
    if (gnuplot)
        write_script(gnuplot, path);
    int status = gnuplot ? pclose(gnuplot) : -1;
    free(points);
    points = NULL;
    if (status != 0)
        (void)fprintf(stderr, "hcomm_perf: --plot: gnuplot did not draw '%s'\n", path);
    return status == 0;
}
