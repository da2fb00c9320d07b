/*
 * Log lines on stderr: "[hcomm rank 2@host] warn: …", one write(2) each. Level by HCOMM_LOG (error, warn,
 * info, debug; default warn). Any thread.
 */
#ifndef HC_LOG_H
#define HC_LOG_H

#include "runtime/base/compiler.h"

#include <stdbool.h>

enum hc_log_level { HC_LOG_ERROR, HC_LOG_WARN, HC_LOG_INFO, HC_LOG_DEBUG };

/* Set the level, and who speaks, e.g. "hcomm rank 2@node1"; the name is copied. */
void hc_log_set_level(enum hc_log_level level);
void hc_log_set_name(const char *format, ...) HC_PRINTF(1, 2);

bool hc_log_enabled(enum hc_log_level level);
void hc_log_write(enum hc_log_level level, const char *format, ...) HC_PRINTF(2, 3) HC_COLD;

/* The arguments are evaluated only when the level is enabled. */
#define hc_log(level, ...) (hc_log_enabled(level) ? hc_log_write(level, __VA_ARGS__) : (void)0)
#define hc_log_error(...)  hc_log(HC_LOG_ERROR, __VA_ARGS__)
#define hc_log_warn(...)   hc_log(HC_LOG_WARN, __VA_ARGS__)
#define hc_log_info(...)   hc_log(HC_LOG_INFO, __VA_ARGS__)
#define hc_log_debug(...)  hc_log(HC_LOG_DEBUG, __VA_ARGS__)

#endif
