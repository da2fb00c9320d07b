/*
 * Point-to-point messages with MPI's semantics, in bytes.
 *
 * Messages between two ranks on one communicator do not overtake each other; a receive takes the oldest
 * message that matches (communicator, source, tag). Sources and tags of receives may be wildcards. A message
 * longer than the receive's capacity is an error of that receive only (HCOMM_ERR_TRUNCATED; the first
 * `capacity` bytes are written). dest/source HCOMM_RANK_NULL completes at once. Messages to the own rank are
 * allowed. size 0 is allowed, with NULL.
 *
 * Buffers may be host memory, or memory of the context's device (mem.h): which is found out. A buffer that is
 * neither, or ends too early on the device, is HCOMM_ERR_INVALID; a device that fails is HCOMM_ERR_IO.
 *
 * Ownership: a buffer given to a nonblocking call belongs to hcomm until the request completes.
 * Threads: any thread, any call. Blocking calls progress communication; for deadlines see request.h: a
 * blocking call that times out has given its buffer back (a receive is cancelled, a send abandoned). When
 * that happens in the middle of a transfer, the rank is given up as lost, because nothing less keeps its data
 * out of the buffer. A large message that was announced and not yet received is withdrawn: the receiver is
 * asked to leave the buffer alone, and the call returns when it has confirmed that (HCOMM_OK if it had
 * fetched all meanwhile); a receive that matches such a message ends with HCOMM_ERR_CANCELLED. A receiver
 * that does not communicate confirms nothing: after one second the call returns all the same, and the error's
 * detail says that the buffer is to be kept unchanged until that rank has communicated again.
 *
 * Errors, all calls: HCOMM_ERR_INVALID (rank or tag out of range, NULL buffer), HCOMM_ERR_PEER_LOST,
 * HCOMM_ERR_UNREACHABLE, HCOMM_ERR_NO_MEMORY, HCOMM_ERR_TIMEOUT (blocking calls). Receives and probes from
 * HCOMM_ANY_SOURCE end with HCOMM_ERR_PEER_LOST when all other members of the communicator are lost; as long
 * as one lives they wait, and the detail of HCOMM_ERR_TIMEOUT names those that are lost. What came before is
 * received all the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_P2P_H
#define HCOMM_P2P_H

#include <hcomm/request.h>
#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns when buf may be reused; the message may still be under way. The first to a rank is waited for, at
 * most 100 ms, until it is handed to the transport. */
HCOMM_API hcomm_status_t hcomm_send(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm);
/* Returns when the receiver has matched the message (and buf may be reused). */
HCOMM_API hcomm_status_t hcomm_ssend(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm);
/* Returns when a matching message is in buf. */
HCOMM_API hcomm_status_t hcomm_recv(void *buf, size_t capacity, int source, int tag, hcomm_comm_t comm,
                                    hcomm_message_status_t *status);
/* Sends and receives at the same time, free of deadlock; the buffers must not overlap. */
HCOMM_API hcomm_status_t hcomm_sendrecv(const void *sendbuf, size_t sendsize, int dest, int sendtag,
                                        void *recvbuf, size_t capacity, int source, int recvtag,
                                        hcomm_comm_t comm, hcomm_message_status_t *status);

/*
 * The same without waiting: each sets *request, which completes (request.h) when the blocking call would have
 * returned. Never blocks.
 */
HCOMM_API hcomm_status_t hcomm_isend(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm,
                                     hcomm_request_t *request);
HCOMM_API hcomm_status_t hcomm_issend(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm,
                                      hcomm_request_t *request);
HCOMM_API hcomm_status_t hcomm_irecv(void *buf, size_t capacity, int source, int tag, hcomm_comm_t comm,
                                     hcomm_request_t *request);

/* Wait for a matching message and describe it without receiving it. */
HCOMM_API hcomm_status_t hcomm_probe(int source, int tag, hcomm_comm_t comm, hcomm_message_status_t *status);
/* HCOMM_OK when a matching message is there, HCOMM_AGAIN when not. Never blocks. */
HCOMM_API hcomm_status_t hcomm_iprobe(int source, int tag, hcomm_comm_t comm, hcomm_message_status_t *status);

/*
 * Matched probe: takes the message out of matching, so that only hcomm_mrecv()/hcomm_imrecv() with *message
 * receive it. *message is owned by the caller until then. improbe: HCOMM_AGAIN when there is none.
 */
HCOMM_API hcomm_status_t hcomm_mprobe(int source, int tag, hcomm_comm_t comm, hcomm_message_t *message,
                                      hcomm_message_status_t *status);
HCOMM_API hcomm_status_t hcomm_improbe(int source, int tag, hcomm_comm_t comm, hcomm_message_t *message,
                                       hcomm_message_status_t *status);
/* Receive a matched message; sets *message to HCOMM_MESSAGE_NULL. */
HCOMM_API hcomm_status_t hcomm_mrecv(void *buf, size_t capacity, hcomm_message_t *message,
                                     hcomm_message_status_t *status);
HCOMM_API hcomm_status_t hcomm_imrecv(void *buf, size_t capacity, hcomm_message_t *message,
                                      hcomm_request_t *request);

#ifdef __cplusplus
}
#endif

#endif
