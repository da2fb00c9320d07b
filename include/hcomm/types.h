/*
 * Basic types: status codes, opaque handles, constants, version.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_TYPES_H
#define HCOMM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HCOMM_VERSION_MAJOR 0
#define HCOMM_VERSION_MINOR 1
#define HCOMM_VERSION_PATCH 0

#if defined(__GNUC__)
#define HCOMM_API __attribute__((visibility("default")))
#else
#define HCOMM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a call reports: zero is success, positive is "not yet", negative is an error. */
typedef enum hcomm_status_code {
    HCOMM_OK = 0,
    HCOMM_IN_PROGRESS = 1, /* started, not complete */
    HCOMM_AGAIN = 2,       /* nothing was started for want of resources: try again */

    HCOMM_ERR_INVALID = -1,     /* an argument is wrong */
    HCOMM_ERR_NO_MEMORY = -2,   /* host memory is exhausted */
    HCOMM_ERR_UNSUPPORTED = -3, /* this build, transport or machine cannot do it */
    HCOMM_ERR_TRUNCATED = -4,   /* the message is longer than the receive buffer */
    HCOMM_ERR_TIMEOUT = -5,     /* the deadline (setting timeout_ms) passed */
    HCOMM_ERR_PEER_LOST = -6,   /* the other rank died or left */
    HCOMM_ERR_UNREACHABLE = -7, /* no usable transport leads to the rank */
    HCOMM_ERR_LIMIT = -8,       /* a limit of the system or of a setting is reached */
    HCOMM_ERR_IO = -9,          /* a system call or a provider failed */
    HCOMM_ERR_CANCELLED = -10,  /* the request was cancelled */
    HCOMM_ERR_BOOTSTRAP = -11,  /* PMIx failed or its server is gone */
    HCOMM_ERR_CONFIG = -12,     /* a setting has a bad value */
    HCOMM_ERR_PROTOCOL = -13,   /* a peer sent something malformed */
    HCOMM_ERR_PENDING = -14,    /* the object is still in use */
    HCOMM_ERR_IN_STATUS = -15,  /* of several requests at least one failed: see the statuses */
    HCOMM_ERR_INTERNAL = -16    /* a defect in hcomm */
} hcomm_status_t;

/* One runtime instance of this process. */
typedef struct hcomm_context *hcomm_handle_t;
/* An ordered group of ranks with a message space of its own. */
typedef struct hcomm_comm *hcomm_comm_t;
/* An operation in flight; HCOMM_REQUEST_NULL when there is none. */
typedef struct hcomm_request *hcomm_request_t;
/* A message that mprobe matched and mrecv has not received yet. */
typedef struct hcomm_message *hcomm_message_t;

#define HCOMM_REQUEST_NULL ((hcomm_request_t)0)
#define HCOMM_MESSAGE_NULL ((hcomm_message_t)0)
#define HCOMM_COMM_NULL    ((hcomm_comm_t)0)

enum {
    HCOMM_ANY_SOURCE = -1, /* receive or probe: from whomever */
    HCOMM_RANK_NULL = -2,  /* no peer: the operation completes at once, with no data */
    HCOMM_UNDEFINED = -3   /* split: this rank joins no group; translation: not a member */
};
enum { HCOMM_ANY_TAG = -1 };

/* Tags of messages are 0 … HCOMM_TAG_MAX. */
#define HCOMM_TAG_MAX 0x7fffffff

/* How a completed receive, or a probed message, looks. */
typedef struct hcomm_message_status {
    int source;           /* rank in the communicator; HCOMM_RANK_NULL for a null-rank operation */
    int tag;              /* tag of the message; HCOMM_ANY_TAG for a null-rank operation */
    size_t size;          /* bytes of the message as sent; at most that many were written */
    hcomm_status_t error; /* outcome of this operation */
    bool cancelled;       /* true when a cancel took effect */
} hcomm_message_status_t;

/* Version of the library at run time, which may be newer than the headers'. Never fails; any thread. */
HCOMM_API void hcomm_version(int *major, int *minor, int *patch);

/* Name and meaning of a status, a constant string; never NULL, also for unknown values. Any thread. */
HCOMM_API const char *hcomm_strerror(hcomm_status_t status);

/*
 * The calling thread's last error in words: operation, rank, host, cause and remedy where known. The string
 * is owned by the thread and stays valid until its next hcomm call; empty when nothing failed yet. Never
 * NULL.
 */
HCOMM_API const char *hcomm_error_detail(void);

#ifdef __cplusplus
}
#endif

#endif
