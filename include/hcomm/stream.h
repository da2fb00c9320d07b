/*
 * Streams, events, groups: communication, copies and host functions in the order of a queue.
 *
 * A stream is an ordered queue of operations; different streams run in parallel. A call that enqueues returns
 * at once, with HCOMM_OK when the operation is in the queue; the operation starts when everything before it
 * in its stream is complete, and is carried out by a thread of hcomm's, which the first stream of a context
 * starts and which sleeps while there is nothing to do. In a context with a device, a stream is one of the
 * device runtime's (created by hcomm, or adopted from the caller), and the device waits for what hcomm does:
 * a kernel or copy that the caller enqueues there afterwards sees the data received, and a send sends what
 * was enqueued before it. Without a device, hcomm carries out the stream itself; the calls are the same.
 *
 * Errors of operations. The first failure stays on the stream until hcomm_stream_synchronize() reports it.
 * Until then the stream's further operations of hcomm are not carried out (messages are not sent, functions
 * not called; a message status gets HCOMM_ERR_CANCELLED), except that events are recorded and waits for
 * events end, so that others go on. A send, receive or barrier that makes no progress for timeout_ms fails
 * with HCOMM_ERR_TIMEOUT; the words name operation, peer and stream. What was said of time-outs of blocking
 * calls in p2p.h holds for it.
 *
 * Ownership: buffers, message statuses and arguments of an enqueued operation belong to hcomm until it is
 * complete, which an event recorded after it, hcomm_stream_query() or hcomm_stream_synchronize() tells. A
 * communicator with operations enqueued cannot be freed (HCOMM_ERR_PENDING). hcomm_finalize() waits for all
 * streams, at most timeout_ms without progress; what is left then is given up, and it returns
 * HCOMM_ERR_TIMEOUT. It also returns an error of a stream that nobody was told of.
 *
 * Order between streams is what events make it. Two operations of the same communicator on different streams
 * (messages of one tag to one peer, barriers) that no event orders may start in either order.
 *
 * Threads: any thread, any call, also from inside a function of hcomm_launch_host(), which however must not
 * wait for its own stream. Two threads that enqueue on one stream at the same time get either order. A stream
 * or event must not be destroyed while another thread uses it. Handles are checked: one that was never given,
 * was destroyed, or is a device runtime's own, gives HCOMM_ERR_INVALID. In a forked child every call gives
 * HCOMM_ERR_INVALID.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_STREAM_H
#define HCOMM_STREAM_H

#include <hcomm/mem.h>
#include <hcomm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An ordered queue of operations; belongs to the context it was created in. */
typedef struct hcomm_stream *hcomm_stream_t;
/* A point in a stream that others can wait for; belongs to the context it was created in. */
typedef struct hcomm_event *hcomm_event_t;
/* A function to be called in stream order. */
typedef void (*hcomm_host_fn_t)(void *arg);

#define HCOMM_STREAM_NULL ((hcomm_stream_t)0)
#define HCOMM_EVENT_NULL  ((hcomm_event_t)0)

/* Priorities of streams: 0 (usual) … HCOMM_STREAM_PRIORITY_MAX (most urgent). */
#define HCOMM_STREAM_PRIORITY_MAX 3

/* ---- streams ---- */

/*
 * A new, empty stream. Of several streams with operations ready to start, hcomm starts those of higher
 * priority first; the device runtime itself is not told of priorities, as its interface that hcomm uses has
 * none. *stream belongs to the caller until hcomm_stream_destroy(); what is left is destroyed by
 * hcomm_finalize(). Errors: HCOMM_ERR_INVALID (NULL, priority out of range), HCOMM_ERR_LIMIT (hcomm's or the
 * device's streams are used up: the detail tells used and limit; or no thread), HCOMM_ERR_NO_MEMORY,
 * HCOMM_ERR_UNSUPPORTED (the device runtime is too old for streams), HCOMM_ERR_IO.
 */
HCOMM_API hcomm_status_t hcomm_stream_create(hcomm_handle_t handle, int priority, hcomm_stream_t *stream);

/*
 * Make a stream of the device runtime (aclrtStream; NULL: the device's default stream) usable here. It must
 * be of the context's device, must stay the caller's, and must not be destroyed before the adopting handle is
 * and its work is complete; the caller may go on enqueuing on it directly. Errors: as hcomm_stream_create();
 * HCOMM_ERR_UNSUPPORTED in a context without a device, HCOMM_ERR_INVALID when the runtime does not know it.
 */
HCOMM_API hcomm_status_t hcomm_stream_adopt(hcomm_handle_t handle, void *native, hcomm_stream_t *stream);

/* The device runtime's stream behind it, to enqueue kernels on; NULL without a device, or for a bad handle.
 */
HCOMM_API void *hcomm_stream_native(hcomm_stream_t stream);

/*
 * Give a stream up and set *stream to NULL; NULL is accepted. Returns at once: what is enqueued is still
 * carried out, then the stream is released (an adopted one stays the caller's). Errors that nobody was told
 * of are logged. HCOMM_ERR_INVALID: no stream, or inside a group.
 */
HCOMM_API hcomm_status_t hcomm_stream_destroy(hcomm_stream_t *stream);

/*
 * Wait until everything enqueued on the stream before the call is complete. Returns the stream's first error,
 * with its words in hcomm_error_detail(), and clears it: the stream works again. (Not after an operation of
 * the device itself failed: such a stream keeps its error and can only be destroyed.) HCOMM_ERR_TIMEOUT when
 * timeout_ms pass in which nothing of the stream completes, for instance because a host function takes
 * longer: its operations go on, and it can be waited for again. HCOMM_ERR_INVALID: no stream, inside a group,
 * or in a host function of the same stream.
 */
HCOMM_API hcomm_status_t hcomm_stream_synchronize(hcomm_stream_t stream);

/* HCOMM_OK when everything enqueued is complete, HCOMM_IN_PROGRESS when not; or the stream's error, which
 * stays. Never blocks; moves communication on. HCOMM_ERR_INVALID: no stream. */
HCOMM_API hcomm_status_t hcomm_stream_query(hcomm_stream_t stream);

/* ---- events ---- */

/*
 * A new event, not recorded: complete. Events come from pools. *event belongs to the caller until
 * hcomm_event_destroy(); what is left is destroyed by hcomm_finalize(). Errors: HCOMM_ERR_INVALID,
 * HCOMM_ERR_LIMIT (the detail tells used and limit), HCOMM_ERR_NO_MEMORY.
 */
HCOMM_API hcomm_status_t hcomm_event_create(hcomm_handle_t handle, hcomm_event_t *event);

/*
 * Give an event up and set *event to NULL; NULL is accepted. Also legal while the event is pending: waits
 * already enqueued, and hcomm_event_synchronize() under way in no other thread, are for the record and keep
 * it. HCOMM_ERR_INVALID: no event.
 */
HCOMM_API hcomm_status_t hcomm_event_destroy(hcomm_event_t *event);

/*
 * Enqueue the event's record: it is complete when everything enqueued on the stream before is complete and
 * what that wrote is visible. Recording again replaces the record for later calls; waits enqueued before are
 * still for the earlier record. Errors: HCOMM_ERR_INVALID (bad handle, stream of another context than the
 * event's, inside a group), HCOMM_ERR_NO_MEMORY, HCOMM_ERR_LIMIT (the device has no event left: the detail
 * tells how many are used here).
 */
HCOMM_API hcomm_status_t hcomm_event_record(hcomm_event_t event, hcomm_stream_t stream);

/* HCOMM_OK when the event's latest record is complete or it was never recorded, HCOMM_IN_PROGRESS when not.
 * Never blocks; moves communication on. HCOMM_ERR_INVALID: no event. */
HCOMM_API hcomm_status_t hcomm_event_query(hcomm_event_t event);

/*
 * Wait until the latest record is complete; at once when it was never recorded. Errors of the stream are not
 * reported here. HCOMM_ERR_TIMEOUT when timeout_ms pass in which nothing of the recording stream completes;
 * HCOMM_ERR_INVALID: no event, or inside a group.
 */
HCOMM_API hcomm_status_t hcomm_event_synchronize(hcomm_event_t event);

/*
 * Milliseconds between two completed records of one context. HCOMM_ERR_INVALID: bad handle, never recorded,
 * of different contexts; HCOMM_IN_PROGRESS: one is not complete yet.
 */
HCOMM_API hcomm_status_t hcomm_event_elapsed(hcomm_event_t start, hcomm_event_t end, double *milliseconds);

/*
 * Enqueue a wait: what is enqueued on the stream afterwards starts when the event's record, the latest at the
 * time of this call, is complete. An event never recorded does not hold anything up. The event may be of
 * another context, and so of another device. Errors: HCOMM_ERR_INVALID (bad handle, inside a group),
 * HCOMM_ERR_NO_MEMORY.
 */
HCOMM_API hcomm_status_t hcomm_stream_wait_event(hcomm_stream_t stream, hcomm_event_t event);

/* ---- operations on streams ---- */

/*
 * Point-to-point messages and barriers as in p2p.h and comm.h, carried out in the order of the stream. They
 * match those of any other call. comm must be of the stream's context. *status (NULL allowed) is written when
 * the receive is complete. Errors of the calls: HCOMM_ERR_INVALID, HCOMM_ERR_NO_MEMORY, and with a device
 * HCOMM_ERR_IO when it does not take the operation; what goes wrong later is the stream's error.
 */
HCOMM_API hcomm_status_t hcomm_send_on(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm,
                                       hcomm_stream_t stream);
HCOMM_API hcomm_status_t hcomm_recv_on(void *buf, size_t capacity, int source, int tag, hcomm_comm_t comm,
                                       hcomm_message_status_t *status, hcomm_stream_t stream);
HCOMM_API hcomm_status_t hcomm_sendrecv_on(const void *sendbuf, size_t sendsize, int dest, int sendtag,
                                           void *recvbuf, size_t capacity, int source, int recvtag,
                                           hcomm_comm_t comm, hcomm_message_status_t *status,
                                           hcomm_stream_t stream);
HCOMM_API hcomm_status_t hcomm_barrier_on(hcomm_comm_t comm, hcomm_stream_t stream);

/*
 * Call fn(arg) in stream order, on a thread of hcomm's that does nothing else meanwhile: functions of
 * different streams run at the same time, and communication goes on. fn may call hcomm, also to enqueue on
 * its own stream, but must not wait for its own stream. Errors: HCOMM_ERR_INVALID, HCOMM_ERR_NO_MEMORY.
 */
HCOMM_API hcomm_status_t hcomm_launch_host(hcomm_stream_t stream, hcomm_host_fn_t fn, void *arg);

/*
 * Copy size bytes in stream order, between any two kinds of memory; they must not overlap. Between device and
 * pinned host memory, and inside the device, its own engines copy; for other host memory hcomm does, so that
 * the call returns at once there, too. Errors: HCOMM_ERR_INVALID (NULL, device memory that does not hold size
 * bytes, a kind that is not what the addresses are), HCOMM_ERR_NO_MEMORY, HCOMM_ERR_IO.
 */
HCOMM_API hcomm_status_t hcomm_memcpy_async(void *dst, const void *src, size_t size, hcomm_copy_kind_t kind,
                                            hcomm_stream_t stream);

/* ---- groups ---- */

/*
 * Between start and end, the calling thread's hcomm_send_on(), hcomm_recv_on(), hcomm_sendrecv_on() and
 * hcomm_barrier_on() are collected; the outermost end enqueues them. Those of one stream become one operation
 * of it: they start together, in the order of the calls, and progress together, so whatever order other ranks
 * list theirs in, none waits for another. It is complete when all are. Groups may span streams,
 * communicators and contexts, and may be nested. Other calls that enqueue, and those that wait for streams or
 * events, are errors inside a group.
 *
 * When a call inside the group fails, the outermost end enqueues nothing and returns that error.
 * hcomm_group_end() without a start: HCOMM_ERR_INVALID. While a group is open, its stream must not be
 * destroyed nor its context finalized.
 */
HCOMM_API hcomm_status_t hcomm_group_start(void);
HCOMM_API hcomm_status_t hcomm_group_end(void);

#ifdef __cplusplus
}
#endif

#endif
