/*
 * Transfers: copies between memories of this process, host or device, that run while the caller does
 * something else.
 *
 *     hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = size, .callback = done};
 *     hcomm_submit_transfer(handle, &transfer);
 *     ...
 *     hcomm_wait_completion(handle, transfer.id);
 *
 * Both buffers belong to hcomm from the submission until the completion; freeing one that came from hcomm in
 * between, whatever its type, is safe: it is released after the completion (see mem.h). Transfers are
 * independent: they may overlap in time and complete in any order. Copies that need an order are enqueued on
 * a stream. What kind of memory a pointer is, is found out.
 *
 * Completion. A transfer is complete when its data is in place and its callback, if it has one, may be
 * called. An identifier stays valid until hcomm_finalize(): asking again for the outcome of a complete
 * transfer gives it again. (Failures are remembered for the last 1024 that failed; for one before these
 * HCOMM_ERR_INVALID tells so.)
 *
 * Callbacks run one at a time on a thread of the context that exists for them alone (the callback thread),
 * never inside a call of the application, in the order of completion. A callback may take its time, which
 * delays other callbacks but no transfers, and may call everything but hcomm_finalize(). Submitting in it
 * never blocks: the first transfer submitted in it takes over the room of the one that is complete, further
 * ones get HCOMM_AGAIN when the queue is full. Waiting in it is possible, too: hcomm_wait_completion() waits
 * for data, not for callbacks.
 *
 * Bounds. At most queue_depth transfers are in flight: from submission until completion, or until the
 * callback has returned. A submission to a full queue waits for room, or with HCOMM_TRANSFER_NO_WAIT returns
 * HCOMM_AGAIN.
 *
 * Threads: any thread, any call. Deadlines: a wait in which no transfer of the context moves for timeout_ms
 * returns HCOMM_ERR_TIMEOUT; the transfer stays in flight and may be waited for again. Errors, all calls:
 * HCOMM_ERR_INVALID for a NULL handle, or one that is not of a context in use (finalized, or the parent's in
 * a forked child).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_TRANSFER_H
#define HCOMM_TRANSFER_H

#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names a transfer of one context; 0 names none. */
typedef uint64_t hcomm_transfer_id_t;

/*
 * Called on the callback thread when the transfer is complete. status: its outcome; when it is an error,
 * hcomm_error_detail() tells why. user_data: from the transfer.
 */
typedef void (*hcomm_transfer_callback_t)(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data);

/* Flags of a transfer. */
enum {
    HCOMM_TRANSFER_NO_WAIT = 1 /* when the queue is full, return HCOMM_AGAIN instead of waiting */
};

/*
 * What to copy. Zero the structure, then set src_ptr, dst_ptr and size; the rest is optional, and zero is the
 * default. It is read, and id written, by the submission only: it may be on the caller's stack and used
 * again.
 */
typedef struct hcomm_transfer {
    const void *src_ptr;                /* host or device memory; NULL only when size is 0 */
    void *dst_ptr;                      /* likewise; the two may not overlap */
    size_t size;                        /* bytes; 0: completes at once */
    hcomm_transfer_callback_t callback; /* NULL: none */
    void *user_data;                    /* for the callback */
    unsigned flags;                     /* HCOMM_TRANSFER_… */
    hcomm_transfer_id_t id;             /* set by the submission when it returns HCOMM_OK */
    hcomm_status_t
        status; /* set by hcomm_submit_…(): HCOMM_IN_PROGRESS; by hcomm_wait_batch(): the outcome */
    uint64_t reserved[4]; /* must be zero */
} hcomm_transfer_t;

/*
 * Start one transfer; its identifier is in transfer->id. Returns HCOMM_OK when it is under way or done,
 * whatever its outcome will be. Errors, with which nothing was started: HCOMM_ERR_INVALID (NULL, overlap, a
 * range beyond the end of the address space or of device memory, freed memory, unknown flags, reserved not
 * zero), HCOMM_AGAIN (queue full and NO_WAIT, or in a callback),
 * HCOMM_ERR_TIMEOUT (queue full, and nothing moved), HCOMM_ERR_NO_MEMORY, HCOMM_ERR_LIMIT (no thread),
 * HCOMM_ERR_IO (device).
 */
HCOMM_API hcomm_status_t hcomm_submit_transfer(hcomm_handle_t handle, hcomm_transfer_t *transfer);

/* The same, with the identifier in *id, which is written only on success. */
HCOMM_API hcomm_status_t hcomm_submit_transfer_id(hcomm_handle_t handle, hcomm_transfer_t *transfer,
                                                  hcomm_transfer_id_t *id);

/*
 * Start n transfers at the cost of little more than one: they are checked, queued, and handed to the device
 * together. All are checked first: when one is invalid, none is started and the detail tells which. More than
 * there is room for wait for it, as the transfers before them complete; with HCOMM_TRANSFER_NO_WAIT in the
 * first one's flags, all start or none: HCOMM_AGAIN, or HCOMM_ERR_LIMIT when n is more than queue_depth. When
 * another error stops the batch, those with id not 0 have been started. n 0 is allowed. Errors as
 * hcomm_submit_transfer().
 */
HCOMM_API hcomm_status_t hcomm_submit_batch(hcomm_handle_t handle, hcomm_transfer_t *transfers, size_t n);

/*
 * Wait until the transfer is complete, and return its outcome: HCOMM_OK, HCOMM_ERR_CANCELLED, HCOMM_ERR_IO
 * (device), HCOMM_ERR_INVALID (no such transfer was ever submitted), HCOMM_ERR_TIMEOUT. The callback may run
 * later than this returns. Waiting threads help to copy.
 */
HCOMM_API hcomm_status_t hcomm_wait_completion(hcomm_handle_t handle, hcomm_transfer_id_t id);

/* The same without waiting: HCOMM_IN_PROGRESS when not complete. Never blocks. */
HCOMM_API hcomm_status_t hcomm_test_completion(hcomm_handle_t handle, hcomm_transfer_id_t id);

/*
 * Wait for all of a batch, and write each one's outcome to its status. HCOMM_ERR_IN_STATUS when one failed;
 * HCOMM_ERR_TIMEOUT when nothing moved, those not complete have status HCOMM_IN_PROGRESS.
 */
HCOMM_API hcomm_status_t hcomm_wait_batch(hcomm_handle_t handle, hcomm_transfer_t *transfers, size_t n);

/*
 * Cancel a transfer that has not begun to move data: it completes with HCOMM_ERR_CANCELLED, and its callback
 * is called. HCOMM_ERR_PENDING: it has begun, and will complete. HCOMM_ERR_INVALID: it is complete already,
 * or was never submitted.
 */
HCOMM_API hcomm_status_t hcomm_cancel_transfer(hcomm_handle_t handle, hcomm_transfer_id_t id);

#ifdef __cplusplus
}
#endif

#endif
