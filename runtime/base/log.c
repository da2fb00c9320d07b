#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static atomic_int log_level = HC_LOG_WARN;
static char log_name[128] = "hcomm";

void hc_log_set_level(enum hc_log_level level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

void hc_log_set_name(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(log_name, sizeof(log_name), format, args);
    va_end(args);
}

bool hc_log_enabled(enum hc_log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

static size_t clamp_length(int written, size_t room)
{
    if (written < 0)
        return 0;
    return (size_t)written < room ? (size_t)written : room - 1;
}

void hc_log_write(enum hc_log_level level, const char *format, ...)
{
    char line[1024];
    size_t room = sizeof(line) - 1; /* for the newline */
    size_t used = clamp_length(snprintf(line, room, "[%s] %s: ", log_name, level_names[level]), room);
    va_list args;
    va_start(args, format);
    used += clamp_length(vsnprintf(line + used, room - used, format, args), room - used);
    va_end(args);
    line[used++] = '\n';
    /* A log line that cannot be written has nowhere else to go. */
    ssize_t ignored = write(STDERR_FILENO, line, used);
    (void)ignored;
}
