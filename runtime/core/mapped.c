#include "runtime/core/mapped.h"

/* The least part: claiming moves a cache line to and fro, and a system call costs 0.5 us; neither must count.
 */
enum { MAPPED_PART_MIN = 16 * 1024, SYSCALL_PART_MIN = 32 * 1024 };

bool hc_mapped_is_direct(const struct hcomm_request *request)
{
    return (request->peer->attr->caps & HC_CAP_MAP) && request->peer->ops->rkey_is_mapped(request->rkey);
}

bool hc_mapped_shares(const struct hcomm_request *request)
{
    const struct hc_iface_attr *attr = request->peer->attr;
    if (!(attr->caps & HC_CAP_SHARE))
        return false;
    bool mapped =
        hc_mapped_is_direct(request) && hc_mapped_offers(request->peer, request->buf, request->accept);
    return request->accept >= (mapped ? attr->share_map_min : attr->share_min);
}

/* Whether one copy by the kernel and pieces compete. */
static bool is_learned(const struct hcomm_request *request)
{
    const struct hc_iface_attr *attr = request->peer->attr;
    return (attr->caps & HC_CAP_SHARE) && request->accept >= attr->fetch_min && !hc_mapped_is_direct(request);
}

enum hc_way hc_mapped_choose(struct hcomm_request *request)
{
    if (!is_learned(request))
        return HC_WAY_NONE;
    request->choice = hc_chooser_pick(&request->peer->chooser, request->accept, hc_clock_ns());
    return request->choice.way;
}

void hc_mapped_learn(struct hcomm_request *request)
{
    if (request->choice.way != HC_WAY_NONE)
        hc_chooser_learn(&request->peer->chooser, request->choice, request->accept, hc_clock_ns());
    request->choice.way = HC_WAY_NONE;
}

bool hc_mapped_invite(struct hcomm_request *request, struct hc_mapped_cts *cts)
{
    size_t room = sizeof(cts->rkey);
    uint32_t index = 0, generation = 0;
    struct hc_share_pool *pool = request->peer->ops->shares(request->peer->ep->iface);
    if (request->accept > HC_SHARE_MAX ||
        request->peer->ops->rkey_pack(request->mem, cts->rkey, &room) != HCOMM_OK ||
        !hc_share_open(pool, &index, &generation))
        return false;
    request->share_pool = pool;
    request->share_index = index;
    request->share_generation = generation;
    request->share = &pool->shares[index];
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
    if (!(peer->attr->caps & HC_CAP_SHARE))
        return false;
    struct hc_share *share = peer->ops->ep_share(peer->ep, cts->share);
    if (!share || peer->ops->rkey_unpack(peer->ep, rkey, cts->rkey_len, &request->rkey) != HCOMM_OK)
        return false;
    request->share = share;
    request->share_generation = cts->generation;
    request->remote_address = cts->address;
    request->placing = true;
    return true;
}

void hc_mapped_decline(struct hcomm_request *request)
{
    request->peer->ops->rkey_release(request->rkey);
    request->rkey = NULL;
    request->share = NULL;
    request->placing = request->shared = false;
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
    size_t least = hc_mapped_is_direct(request) ? (size_t)MAPPED_PART_MIN
                                                : hc_smaller(SYSCALL_PART_MIN, request->accept / 4);
    enum hc_share_end end = request->kind == HC_REQUEST_RECV ? HC_SHARE_FRONT : HC_SHARE_BACK;
    if (!hc_share_claim(request->share, request->share_generation, end, request->accept, least,
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
    if (request->choice.way != HC_WAY_NONE)
        hc_chooser_drop(&request->peer->chooser, request->choice, request->accept);
    request->choice.way = HC_WAY_NONE;
    if (request->share_pool)
        claimed = hc_share_close(request->share_pool, request->share_index, request->accept);
    request->share_pool = NULL;
    request->share = NULL;
    return claimed > request->finished;
}
