#include "runtime/base/log.h"

#include "tests/unit/capture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

enum { THREADS = 4, LINES = 500 };

static int evaluated;

static int evaluate(void)
{
    return ++evaluated;
}

static void log_each_level(void *arg)
{
    (void)arg;
    hc_log_error("e%d", evaluate());
    hc_log_warn("w%d", evaluate());
    hc_log_info("i%d", evaluate());
    hc_log_debug("d%d", evaluate());
}

Test(log, level_decides_what_appears_and_what_is_evaluated)
{
    char text[1024];
    capture_stderr(log_each_level, NULL, text, sizeof(text));
    cr_assert_str_eq(text, "[hcomm] error: e1\n[hcomm] warn: w2\n");
    cr_assert_eq(evaluated, 2);
    hc_log_set_level(HC_LOG_DEBUG);
    capture_stderr(log_each_level, NULL, text, sizeof(text));
    cr_assert(strstr(text, "info: i5\n") && strstr(text, "debug: d6\n"), "%s", text);
    hc_log_set_level(HC_LOG_ERROR);
    capture_stderr(log_each_level, NULL, text, sizeof(text));
    cr_assert_str_eq(text, "[hcomm] error: e7\n");
}

static void log_long(void *arg)
{
    hc_log_error("%s", (const char *)arg);
}

Test(log, long_line_is_cut_and_still_ends_in_one_newline)
{
    char message[5000], text[8192];
    (void)memset(message, 'x', sizeof(message) - 1);
    message[sizeof(message) - 1] = '\0';
    capture_stderr(log_long, message, text, sizeof(text));
    cr_assert_eq(strchr(text, '\n'), text + strlen(text) - 1);
    cr_assert_lt(strlen(text), 1100);
    cr_assert_gt(strlen(text), 900);
}

Test(log, name_tells_who_speaks)
{
    char text[1024];
    hc_log_set_name("hcomm rank %d@%s", 2, "node1");
    capture_stderr(log_long, "hello", text, sizeof(text));
    cr_assert_str_eq(text, "[hcomm rank 2@node1] error: hello\n");
}

static void *log_many(void *arg)
{
    for (int i = 0; i < LINES; i++)
        hc_log_error("thread %ld says the same long line again and again", (long)(size_t)arg);
    return NULL;
}

static void log_from_threads(void *arg)
{
    (void)arg;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, log_many, (void *)i);
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
}

Test(log, lines_of_threads_are_never_mixed)
{
    static char text[THREADS * LINES * 100];
    int lines = 0;
    capture_stderr(log_from_threads, NULL, text, sizeof(text));
    for (char *rest = text, *line; (line = strtok_r(rest, "\n", &rest)); lines++) {
        int thread = -1, used = 0;
        (void)sscanf(line, "[hcomm] error: thread %d says the same long line again and again%n", &thread,
                     &used);
        cr_assert(thread >= 0 && thread < THREADS && line[used] == '\0' && used > 0, "%s", line);
    }
    cr_assert_eq(lines, THREADS * LINES);
}
