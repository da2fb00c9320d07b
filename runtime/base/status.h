/*
 * Status codes and the thread's last error in words. The public hcomm_status_t is the one status enum
 * everywhere. Rule: whoever finds an error sets the detail (once, with the cause); callers only pass the
 * status on, or add context with hc_error_prefix().
 */
#ifndef HC_STATUS_H
#define HC_STATUS_H

#include "runtime/base/compiler.h"

#include <hcomm/types.h>

/* Set the calling thread's error detail and return `status`, so that errors read: return hc_error(STATUS,
 * "..."). */
hcomm_status_t hc_error(hcomm_status_t status, const char *format, ...) HC_PRINTF(2, 3) HC_COLD;

/* Put words before the current detail ("operation X: " + cause). */
void hc_error_prefix(const char *format, ...) HC_PRINTF(1, 2) HC_COLD;

/* The calling thread's detail; the same string as hcomm_error_detail(). */
const char *hc_error_detail(void);

/* Name of a status: "HCOMM_ERR_TIMEOUT: the deadline passed" is hcomm_strerror(); this is the part after the
 * colon. */
const char *hc_status_text(hcomm_status_t status);

/* strerror(3) of an errno in a buffer of the calling thread. */
const char *hc_errno_text(int error);

#endif
