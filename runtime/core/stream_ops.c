/* The calls that enqueue: arguments are checked, then described to hc_stream_submit(). */
#include "runtime/core/stream.h"

/* A failed call spoils the thread's group, if there is one. */
static hcomm_status_t submit(const char *call, hcomm_stream_t stream, const struct hc_stream_op *parts, int n)
{
    hcomm_status_t status = hc_stream_submit(call, stream, parts, n);
    return status == HCOMM_OK ? status : hc_group_spoil(status);
}

static struct hc_stream_op describe_send(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm)
{
    return (struct hc_stream_op){
        .kind = dest == HCOMM_RANK_NULL ? HC_STREAM_NOTHING : HC_STREAM_SEND,
        .comm = comm,
        .buf = (void *)(uintptr_t)buf, /* only read from */
        .size = size,
        .rank = dest,
        .tag = tag,
    };
}

static struct hc_stream_op describe_recv(void *buf, size_t capacity, int source, int tag, hcomm_comm_t comm,
                                         hcomm_message_status_t *status)
{
    return (struct hc_stream_op){
        .kind = source == HCOMM_RANK_NULL ? HC_STREAM_NOTHING : HC_STREAM_RECV,
        .comm = comm,
        .buf = buf,
        .size = capacity,
        .rank = source,
        .tag = tag,
        .status = status,
    };
}

HCOMM_API hcomm_status_t hcomm_send_on(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm,
                                       hcomm_stream_t stream)
{
    static const char call[] = "hcomm_send_on";
    hcomm_status_t status = hc_p2p_check_send(call, buf, size, dest, tag, comm);
    if (status != HCOMM_OK)
        return hc_group_spoil(status);
    const struct hc_stream_op op = describe_send(buf, size, dest, tag, comm);
    return submit(call, stream, &op, 1);
}

HCOMM_API hcomm_status_t hcomm_recv_on(void *buf, size_t capacity, int source, int tag, hcomm_comm_t comm,
                                       hcomm_message_status_t *message_status, hcomm_stream_t stream)
{
    static const char call[] = "hcomm_recv_on";
    hcomm_status_t status = hc_p2p_check_recv(call, buf, capacity, source, tag, comm);
    if (status != HCOMM_OK)
        return hc_group_spoil(status);
    const struct hc_stream_op op = describe_recv(buf, capacity, source, tag, comm, message_status);
    return submit(call, stream, &op, 1);
}

HCOMM_API hcomm_status_t hcomm_sendrecv_on(const void *sendbuf, size_t sendsize, int dest, int sendtag,
                                           void *recvbuf, size_t capacity, int source, int recvtag,
                                           hcomm_comm_t comm, hcomm_message_status_t *message_status,
                                           hcomm_stream_t stream)
{
    static const char call[] = "hcomm_sendrecv_on";
    hcomm_status_t status = hc_p2p_check_send(call, sendbuf, sendsize, dest, sendtag, comm);
    if (status == HCOMM_OK)
        status = hc_p2p_check_recv(call, recvbuf, capacity, source, recvtag, comm);
    if (status != HCOMM_OK)
        return hc_group_spoil(status);
    /* the receive first: what comes finds its place */
    const struct hc_stream_op parts[2] = {
        describe_recv(recvbuf, capacity, source, recvtag, comm, message_status),
        describe_send(sendbuf, sendsize, dest, sendtag, comm),
    };
    return submit(call, stream, parts, 2);
}

HCOMM_API hcomm_status_t hcomm_barrier_on(hcomm_comm_t comm, hcomm_stream_t stream)
{
    static const char call[] = "hcomm_barrier_on";
    if (!comm)
        return hc_group_spoil(hc_error(HCOMM_ERR_INVALID, "%s: comm is NULL", call));
    const struct hc_stream_op op = {.kind = HC_STREAM_BARRIER, .comm = comm};
    return submit(call, stream, &op, 1);
}

HCOMM_API hcomm_status_t hcomm_launch_host(hcomm_stream_t stream, hcomm_host_fn_t fn, void *arg)
{
    static const char call[] = "hcomm_launch_host";
    if (hc_group_is_open())
        return hc_group_forbids(call);
    if (!fn)
        return hc_error(HCOMM_ERR_INVALID, "%s: fn is NULL", call);
    const struct hc_stream_op op = {.kind = HC_STREAM_CALL, .fn = fn, .arg = arg};
    return hc_stream_submit(call, stream, &op, 1);
}

/* Without a device there is host memory only. */
static hcomm_status_t check_host_kind(const char *call, hcomm_copy_kind_t kind)
{
    if (kind == HCOMM_COPY_AUTO || kind == HCOMM_COPY_HOST_TO_HOST)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_INVALID,
                    "%s: the kind names device memory, but this context has no device; set device_id, or use "
                    "HCOMM_COPY_AUTO",
                    call);
}

HCOMM_API hcomm_status_t hcomm_memcpy_async(void *dst, const void *src, size_t size, hcomm_copy_kind_t kind,
                                            hcomm_stream_t handle)
{
    static const char call[] = "hcomm_memcpy_async";
    struct hcomm_stream *stream = hc_stream_find(call, handle);
    if (!stream)
        return HCOMM_ERR_INVALID;
    if (hc_group_is_open())
        return hc_group_forbids(call);
    if (size && (!dst || !src))
        return hc_error(HCOMM_ERR_INVALID, "%s: %s is NULL", call, dst ? "src" : "dst");
    if ((uintptr_t)dst + size < (uintptr_t)dst || (uintptr_t)src + size < (uintptr_t)src)
        return hc_error(HCOMM_ERR_INVALID, "%s: %zu bytes reach past the end of the address space", call,
                        size);
    if ((unsigned)kind > HCOMM_COPY_DEVICE_TO_DEVICE)
        return hc_error(HCOMM_ERR_INVALID, "%s: kind %d is none of hcomm_copy_kind_t", call, (int)kind);
    if (!size)
        return HCOMM_OK;
    struct hc_stream_op op = {
        .kind = HC_STREAM_COPY,
        .to = {.ptr = dst},
        .from = {.ptr = (void *)(uintptr_t)src}, /* only read from */
        .size = size,
    };
    hcomm_status_t status = stream->gate ? hc_gate_copy(stream, &op, kind) : check_host_kind(call, kind);
    if (status < 0 || (stream->gate && status == HCOMM_OK))
        return status;
    return hc_stream_submit(call, handle, &op, 1);
}
