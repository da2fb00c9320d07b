#include "runtime/core/parts.h"

#include "runtime/base/copy.h"
#include "runtime/core/mapped.h"
#include "runtime/core/recv.h"
#include "runtime/core/rndv.h"

#include <string.h>

/* The receive that takes the parts, as long as it is not given up. */
static struct hcomm_request *receive_of(struct hc_peer *peer, uint64_t id)
{
    struct hcomm_request *request = hc_request_by_id(peer->context, id);
    bool fits = request && request->kind == HC_REQUEST_RECV && request->peer == peer &&
                !request->transferring && !request->on_device;
    return fits ? request : NULL;
}

/* Without an id the receive has failed, and the parts go nowhere. */
static uint64_t start_receive(struct hcomm_request *request, size_t size)
{
    hc_list_init(&request->stream_node);
    request->accept = hc_smaller(size, request->capacity);
    hcomm_status_t status = hc_request_assign_id(request);
    if (status == HCOMM_OK)
        return request->id;
    hc_request_complete(request, status);
    return 0;
}

static bool begin_eager(struct hc_peer *peer, const void *data, size_t ready, size_t len)
{
    struct hc_wire_match match; /* a copy: the sender can still write there */
    if (ready < sizeof(match))
        return false;
    (void)memcpy(&match, data, sizeof(match));
    struct hcomm_request *request = hc_recv_begin(peer, &match, len - sizeof(match));
    if (!request)
        return false;
    hc_peer_connect(peer); /* its end is to be noticed */
    peer->parts = (struct hc_parts){
        .recv_id = start_receive(request, len - sizeof(match)),
        .payload = sizeof(match),
        .taken = sizeof(match),
        .eager = true,
    };
    return true;
}

/* What is not right is left to hc_rndv_data_arrived(). */
static bool begin_data(struct hc_peer *peer, const void *data, size_t ready, size_t len)
{
    struct hc_wire_data head;
    if (ready <= sizeof(head))
        return false;
    (void)memcpy(&head, data, sizeof(head));
    const struct hcomm_request *request = receive_of(peer, head.recv_id);
    if (!request || head.offset > request->accept || len - sizeof(head) > request->accept - head.offset)
        return false;
    peer->parts = (struct hc_parts){
        .recv_id = head.recv_id,
        .offset = (size_t)head.offset,
        .payload = sizeof(head),
        .taken = sizeof(head),
    };
    return true;
}

static bool begin(struct hc_peer *peer, uint8_t id, const void *data, size_t ready, size_t len)
{
    if (peer->state == HC_PEER_FAILED || peer->context->device)
        return false;
    if (id == HC_WIRE_EAGER)
        return begin_eager(peer, data, ready, len);
    return id == HC_WIRE_DATA && begin_data(peer, data, ready, len);
}

/* Bytes taken..ready of the message; what the receive has no room for is left out. */
static void copy_part(struct hcomm_request *request, const struct hc_parts *parts, const void *data,
                      size_t ready)
{
    size_t at = parts->offset + (parts->taken - parts->payload);
    if (at >= request->accept)
        return;
    size_t size = hc_smaller(ready - parts->taken, request->accept - at);
    hc_copy((uint8_t *)request->buf + at, (const uint8_t *)data + parts->taken, size);
    request->finished += size;
}

static void end(struct hc_peer *peer, struct hcomm_request *request, size_t size)
{
    if (peer->parts.eager)
        hc_recv_ended(peer, size);
    else
        hc_counter_add(&peer->context->counters, HC_COUNTER_BYTES_RECEIVED, size);
    if (!request)
        return;
    request->activity = hc_clock_ns();
    if (request->finished == request->accept)
        hc_mapped_learn(request);
    hc_rndv_end_if_over(request);
}

static void take(struct hc_peer *peer, const void *data, size_t ready, size_t len)
{
    struct hc_parts *parts = &peer->parts;
    struct hcomm_request *request = receive_of(peer, parts->recv_id);
    if (request)
        copy_part(request, parts, data, ready);
    parts->taken = ready;
    if (ready < len)
        return;
    end(peer, request, len - parts->payload);
    *parts = (struct hc_parts){0};
}

/* What has come of the message is all there will be of it. */
static void cut(struct hc_peer *peer)
{
    struct hcomm_request *request = peer->parts.taken ? receive_of(peer, peer->parts.recv_id) : NULL;
    peer->parts = (struct hc_parts){0};
    if (!request)
        return;
    request->status = HCOMM_ERR_PEER_LOST;
    hc_rndv_end_if_over(request);
}

bool hc_core_am_part(void *arg, uint32_t from, uint8_t id, const void *data, size_t ready, size_t len)
{
    struct hcomm_context *context = arg;
    struct hc_peer *peer = from < context->job->size ? context->peers[from] : NULL;
    if (peer && !data) {
        cut(peer);
        return true;
    }
    if (!peer || (!peer->parts.taken && !begin(peer, id, data, ready, len)))
        return false;
    take(peer, data, ready, len);
    return true;
}
