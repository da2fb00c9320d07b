/*
 * Requests: completion of nonblocking operations.
 *
 * A request handle is set by the call that starts an operation and belongs to the caller until a test or wait
 * call reports it complete, which sets the handle to HCOMM_REQUEST_NULL. One request is tested or waited for
 * by one thread at a time; different requests by different threads freely. test calls never block. Wait calls
 * progress communication, spin briefly, then yield, then sleep. status arguments may be NULL.
 *
 * A wait without progress for timeout_ms returns HCOMM_ERR_TIMEOUT with a detail naming the operation, the
 * peer and how long; the request stays valid and may be waited for again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_REQUEST_H
#define HCOMM_REQUEST_H

#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns the operation's outcome when complete, HCOMM_IN_PROGRESS when not. A null request is complete:
 * source HCOMM_RANK_NULL, tag HCOMM_ANY_TAG, size 0.
 */
HCOMM_API hcomm_status_t hcomm_test(hcomm_request_t *request, hcomm_message_status_t *status);
HCOMM_API hcomm_status_t hcomm_wait(hcomm_request_t *request, hcomm_message_status_t *status);

/*
 * Several requests (null ones are complete). statuses is NULL or has n entries. When one failed:
 * HCOMM_ERR_IN_STATUS, and each status's error field tells. testall completes all or none
 * (HCOMM_IN_PROGRESS).
 */
HCOMM_API hcomm_status_t hcomm_testall(size_t n, hcomm_request_t *requests, hcomm_message_status_t *statuses);
HCOMM_API hcomm_status_t hcomm_waitall(size_t n, hcomm_request_t *requests, hcomm_message_status_t *statuses);

/*
 * One of several: *index is the completed one, or SIZE_MAX when all requests are null. Returns that
 * operation's outcome; testany HCOMM_IN_PROGRESS when none is complete.
 */
HCOMM_API hcomm_status_t hcomm_testany(size_t n, hcomm_request_t *requests, size_t *index,
                                       hcomm_message_status_t *status);
HCOMM_API hcomm_status_t hcomm_waitany(size_t n, hcomm_request_t *requests, size_t *index,
                                       hcomm_message_status_t *status);

/*
 * At least one (waitsome) or any number (testsome) of several: *count completed ones, their positions in
 * indices (room for n), their statuses in the same order. *count is SIZE_MAX when all requests are null.
 * HCOMM_ERR_IN_STATUS when one of the completed failed.
 */
HCOMM_API hcomm_status_t hcomm_testsome(size_t n, hcomm_request_t *requests, size_t *count, size_t *indices,
                                        hcomm_message_status_t *statuses);
HCOMM_API hcomm_status_t hcomm_waitsome(size_t n, hcomm_request_t *requests, size_t *count, size_t *indices,
                                        hcomm_message_status_t *statuses);

/*
 * Cancel a receive. Local and never blocks. The request must still be completed by test or wait; its status
 * says whether the cancel took effect (cancelled, error HCOMM_ERR_CANCELLED) or the message came first. Sends
 * cannot be cancelled: HCOMM_ERR_UNSUPPORTED.
 */
HCOMM_API hcomm_status_t hcomm_cancel(hcomm_request_t request);

/* Give a request up: it completes on its own and frees itself; its buffer must stay valid until then. Sets
 * NULL. */
HCOMM_API hcomm_status_t hcomm_request_free(hcomm_request_t *request);

#ifdef __cplusplus
}
#endif

#endif
