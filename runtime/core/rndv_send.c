/* Rendezvous: what announces a message, and eager messages that have an id because they are answered at
 * match. */
#include "runtime/core/rndv_impl.h"

#include "runtime/base/copy.h"
#include "runtime/core/device_registration.h"
#include "runtime/core/lend.h"
#include "runtime/core/mapped.h"
#include "runtime/core/progress.h"
#include "runtime/core/request.h"
#include "runtime/core/send.h"
#include "runtime/core/staged.h"

#include <stdlib.h>
#include <string.h>

struct rts_pack {
    struct hc_wire_rts head;
    uint8_t rkey[HC_RKEY_MAX];
};

static size_t pack_rts(void *dest, void *arg)
{
    const struct rts_pack *pack = arg;
    size_t size = sizeof(pack->head) + pack->head.rkey_len;
    (void)memcpy(dest, pack, size);
    return size;
}

/* What the receiver fetches, this rank's bandwidth limit could not hold back. */
static bool wants_rma(const struct hcomm_request *request)
{
    const struct hc_iface_attr *attr = request->peer->attr;
    if (attr->rkey_max > HC_RKEY_MAX || request->context->settings.bandwidth_limit)
        return false;
    return ((attr->caps & HC_CAP_RMA) && request->capacity >= attr->get_min) ||
           ((attr->caps & HC_CAP_SHARE) && request->capacity >= attr->fetch_min) ||
           hc_mapped_offers(request->peer, request->buf, request->capacity);
}

/* Without a registration the message still travels, in pieces. */
static void offer_rma(struct hcomm_request *request, struct rts_pack *pack)
{
    if (hc_unlikely(request->context->device != NULL))
        pack->head.rkey_len =
            (uint32_t)hc_staged_offer(request, pack->rkey, sizeof(pack->rkey), &pack->head.offer);
    request->offer_kind = pack->head.offer;
    if (hc_unlikely(pack->head.rkey_len || !hc_rndv_is_reached(request)))
        return;
    if (!wants_rma(request) || (!request->mem && hc_request_register(request) != HCOMM_OK))
        return;
    size_t room = HC_RKEY_MAX;
    if (request->peer->ops->rkey_pack(request->mem, pack->rkey, &room) != HCOMM_OK)
        return;
    pack->head.rkey_len = (uint32_t)room;
    pack->head.address = (uint64_t)(uintptr_t)request->buf;
}

static hcomm_status_t transmit_rts(struct hc_peer *peer, struct rts_pack *pack)
{
    if (sizeof(pack->head) + pack->head.rkey_len <= peer->attr->short_max)
        return peer->ops->am_short(peer->ep, HC_WIRE_RTS, &pack->head, sizeof(pack->head), pack->rkey,
                                   pack->head.rkey_len);
    return peer->ops->am_bcopy(peer->ep, HC_WIRE_RTS, pack_rts, pack);
}

static hcomm_status_t with_id(struct hcomm_request *request)
{
    if (request->id)
        return HCOMM_OK;
    hc_list_init(&request->stream_node);
    return hc_request_assign_id(request);
}

static hcomm_status_t send_rts(struct hcomm_request *request, const struct hc_wire_match *match, bool lend)
{
    const struct hc_peer *peer = request->peer;
    hcomm_status_t status = with_id(request);
    if (status != HCOMM_OK)
        return status;
    struct rts_pack pack = {
        .head = {.match = *match,
                 .size = request->capacity,
                 .send_id = request->id,
                 .guard = lend ? peer->guard : 0,
                 .guard_generation = lend ? peer->guard_generation : 0},
    };
    offer_rma(request, &pack);
    status = transmit_rts(request->peer, &pack);
    request->started = status == HCOMM_OK;
    if (status == HCOMM_OK)
        hc_counter_add(&request->context->counters, HC_COUNTER_RNDV_SENT, 1);
    else if (status != HCOMM_AGAIN)
        hc_rndv_release(request, false);
    return status;
}

hcomm_status_t hc_rndv_send_rts(struct hcomm_request *request, const struct hc_wire_match *match)
{
    return send_rts(request, match, false);
}

hcomm_status_t hc_rndv_lend(struct hcomm_request *request, const struct hc_wire_match *match)
{
    hcomm_status_t status = send_rts(request, match, true);
    if (status == HCOMM_OK)
        hc_lend_begin(request);
    return status;
}

void hc_rndv_end_lent(struct hcomm_request *request)
{
    hc_counter_add(&request->context->counters, HC_COUNTER_BYTES_SENT, request->capacity);
    hc_rndv_finish(request, HCOMM_OK);
}

struct sync_pack {
    struct hc_wire_eager_sync head;
    const struct hcomm_request *request;
};

static size_t pack_sync(void *dest, void *arg)
{
    const struct sync_pack *pack = arg;
    (void)memcpy(dest, &pack->head, sizeof(pack->head));
    hc_copy((uint8_t *)dest + sizeof(pack->head), pack->request->buf, pack->request->capacity);
    return sizeof(pack->head) + pack->request->capacity;
}

hcomm_status_t hc_rndv_send_eager_sync(struct hcomm_request *request, const struct hc_wire_match *match)
{
    struct hc_peer *peer = request->peer;
    hcomm_status_t status = with_id(request);
    if (status != HCOMM_OK)
        return status;
    if (!hc_bandwidth_take(peer->context, request->capacity))
        return HCOMM_AGAIN;
    struct sync_pack pack = {{.match = *match, .send_id = request->id}, request};
    status = peer->ops->am_bcopy(peer->ep, HC_WIRE_EAGER_SYNC, pack_sync, &pack);
    if (status == HCOMM_OK) {
        peer->credit -= (int64_t)request->capacity + HC_EAGER_OVERHEAD;
        request->started = true;
        request->finished = request->capacity;
        hc_counter_add(&peer->context->counters, HC_COUNTER_EAGER_SENT, 1);
        hc_counter_add(&peer->context->counters, HC_COUNTER_BYTES_SENT, request->capacity);
    } else if (status != HCOMM_AGAIN) {
        hc_rndv_release(request, false);
    }
    return status;
}

hcomm_status_t hc_rndv_send_owned(struct hc_peer *peer, const struct hc_wire_match *match,
                                  const void *payload, size_t size)
{
    struct hcomm_request *request = hc_request_new(peer->context->world, HC_REQUEST_SEND);
    if (!request)
        return HCOMM_ERR_NO_MEMORY;
    request->peer = peer;
    request->orphan = true;
    request->owns_buf = true;
    request->capacity = size;
    request->source = (int)peer->rank;
    request->tag = match->tag;
    request->buf = malloc(size ? size : 1);
    hcomm_status_t status =
        request->buf ? HCOMM_OK : hc_error(HCOMM_ERR_NO_MEMORY, "copied send: out of memory");
    if (status == HCOMM_OK) {
        if (size)
            (void)memcpy(request->buf, payload, size);
        status = hc_rndv_send_rts(request, match);
    }
    if (status == HCOMM_OK)
        return HCOMM_OK;
    hc_list_init(&request->stream_node);
    hc_rndv_release(request, false);
    peer->context->world->busy--;
    hc_request_free(request);
    return status;
}
