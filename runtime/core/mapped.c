#include "runtime/core/mapped.h"

bool hc_mapped_is_direct(const struct hcomm_request *request)
{
    return (request->peer->attr->caps & HC_CAP_MAP) && request->peer->ops->rkey_control(request->rkey);
}

bool hc_mapped_invite(struct hcomm_request *request, struct hc_mapped_cts *cts)
{
    size_t room = sizeof(cts->rkey);
    uint32_t index = 0, generation = 0;
    struct hc_arena *arena = hc_arena_find(request->buf, request->accept);
    if (!arena || request->peer->ops->rkey_pack(request->mem, cts->rkey, &room) != HCOMM_OK ||
        !hc_share_open(arena, &index, &generation))
        return false;
    request->share_arena = arena;
    request->share_index = index;
    request->share_generation = generation;
    request->share = &arena->control->shares[index];
    cts->head = (struct hc_wire_cts){
        .send_id = request->remote_id,
        .recv_id = request->id,
        .accept = request->accept,
        .address = (uintptr_t)request->buf,
        .share = index,
        .generation = generation,
        .flags = cts->head.flags,
        .rkey_len = (uint32_t)room,
    };
    return true;
}

bool hc_mapped_accept(struct hcomm_request *request, const struct hc_wire_cts *cts, const void *rkey)
{
    struct hc_peer *peer = request->peer;
    if (!(peer->attr->caps & HC_CAP_MAP) || cts->share >= HC_ARENA_SHARES ||
        peer->ops->rkey_unpack(peer->ep, rkey, cts->rkey_len, &request->rkey) != HCOMM_OK)
        return false;
    struct hc_arena_control *control = peer->ops->rkey_control(request->rkey);
    if (!control) {
        peer->ops->rkey_release(request->rkey);
        request->rkey = NULL;
        return false;
    }
    request->share = &control->shares[cts->share];
    request->share_generation = cts->generation;
    request->remote_address = cts->address;
    request->placing = true;
    return true;
}

static hcomm_status_t copy(struct hcomm_request *request, size_t from, size_t size)
{
    struct hc_peer *peer = request->peer;
    uint8_t *local = (uint8_t *)request->buf + from;
    uint64_t remote = request->remote_address + from;
    if (request->kind == HC_REQUEST_RECV)
        return peer->ops->get(peer->ep, local, size, request->mem, remote, request->rkey, NULL);
    hcomm_status_t status = peer->ops->put(peer->ep, local, size, request->mem, remote, request->rkey, NULL);
    if (status == HCOMM_OK) {
        hc_counter_add(&request->context->counters, HC_COUNTER_BYTES_SENT, size);
        hc_counter_add(&request->context->counters, HC_COUNTER_BYTES_PLACED, size);
    }
    return status;
}

hcomm_status_t hc_mapped_copy_part(struct hcomm_request *request, size_t *size)
{
    size_t from = 0, len = 0;
    if (!hc_share_claim(request->share, request->share_generation, request->accept,
                        request->peer->attr->rma_max, &from, &len)) {
        *size = 0;
        return HCOMM_OK;
    }
    hcomm_status_t status = copy(request, from, len);
    if (status == HCOMM_OK)
        *size = len;
    return status;
}

bool hc_mapped_end(struct hcomm_request *request)
{
    size_t claimed = 0;
    if (request->share_arena)
        claimed = hc_share_close(request->share_arena, request->share_index, request->accept);
    request->share_arena = NULL;
    request->share = NULL;
    return claimed > request->finished;
}
