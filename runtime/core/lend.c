#include "runtime/core/lend.h"

#include "runtime/base/copy.h"
#include "runtime/core/mapped.h"
#include "runtime/core/progress.h"
#include "runtime/core/request.h"
#include "runtime/core/rndv.h"
#include "runtime/core/send.h"

#include <string.h>

enum {
    PATIENCE_NS = 15000,  /* since the peer fetched anything; again for each that it is fetching */
    OVERDUE_NS = 1000000, /* whatever else it fetches meanwhile */
};

size_t hc_lend_min(const struct hc_peer *peer)
{
    const struct hcomm_context *context = peer->context;
    bool able = (peer->attr->caps & HC_CAP_SHARE) && peer->attr->rkey_max <= HC_RKEY_MAX &&
                !context->settings.bandwidth_limit && !context->device && !peer->gathers;
    return able ? peer->attr->lend_min : SIZE_MAX;
}

static bool open_guard(struct hc_peer *peer)
{
    if (peer->guard_generation)
        return true;
    peer->guard_pool = peer->ops->shares(peer->ep->iface);
    /* those of receives come first */
    return __builtin_popcountll(peer->guard_pool->free) > HC_SHARES / 2 &&
           hc_share_open(peer->guard_pool, &peer->guard, &peer->guard_generation);
}

bool hc_lend_choose(struct hc_peer *peer, size_t size)
{
    return hc_lender_choose(&peer->lender, size) && !peer->taking_back && open_guard(peer);
}

void hc_lend_begin(struct hcomm_request *request)
{
    struct hc_peer *peer = request->peer;
    struct hcomm_context *context = request->context;
    request->lent_at = hc_clock_ns();
    peer->num_lent++;
    peer->credit -= hc_eager_cost(request->capacity);
    hc_list_append(&context->lent, &request->stream_node);
    context->has_work = true;
    hc_counter_add(&context->counters, HC_COUNTER_LENT, 1);
}

void hc_lend_end(struct hcomm_request *request)
{
    if (!request->lent_at)
        return;
    struct hc_peer *peer = request->peer;
    request->lent_at = 0;
    peer->num_joined -= request->joined;
    request->joined = false;
    hc_list_remove(&request->stream_node);
    if (--peer->num_lent == 0)
        peer->taking_back = false; /* also when the rest was fetched before there was room for it */
    if (!request->payload_sent)    /* which the receiver gives back */
        peer->credit += hc_eager_cost(request->capacity);
}

void hc_lend_refused(struct hcomm_request *request)
{
    if (!request->lent_at)
        return;
    hc_lender_gave_up(&request->peer->lender);
    hc_lend_end(request);
    request->placed = 0; /* and sent once more */
}

void hc_lend_fetched(struct hcomm_request *request, uint32_t ns)
{
    struct hc_peer *peer = request->peer;
    if (!peer->num_lent)
        return;
    peer->fetched_at = hc_clock_ns();
    if (!request->lent_at || !ns)
        return;
    hc_lender_fetched(&peer->lender, request->capacity, ns, peer->num_lent == 1,
                      peer->fetched_at - request->lent_at);
}

static hcomm_status_t place_parts(struct hcomm_request *request)
{
    size_t size = 0;
    hcomm_status_t status;
    do {
        status = hc_mapped_copy_part(request, &size);
        request->placed += status == HCOMM_OK ? size : 0;
    } while (status == HCOMM_OK && size);
    return status;
}

void hc_lend_join(struct hcomm_request *request, const struct hc_wire_cts *cts, const void *rkey)
{
    struct hc_peer *peer = request->peer;
    if (request->joined) {
        hc_peer_unsuited(peer, "CTS");
        return;
    }
    request->joined = true;
    peer->num_joined++;
    peer->fetched_at = hc_clock_ns();
    if (!hc_mapped_accept(request, cts, rkey)) /* the receiver does it alone */
        return;
    request->accept = (size_t)cts->accept;
    hcomm_status_t status = place_parts(request);
    hc_mapped_decline(request);
    const struct hc_wire_placed placed = {.recv_id = cts->recv_id, .bytes = request->placed};
    if (status != HCOMM_OK) {
        hc_log_debug("lent to %s: %s; its payload is sent", hc_peer_name(peer), hc_error_detail());
        request->lent_at = 1; /* overdue: what was claimed is missing */
    } else if (placed.bytes) {
        hc_control_send(peer, HC_WIRE_PLACED, &placed, sizeof(placed));
    }
}

/* ---- taking back ---- */

struct payload_pack {
    struct hc_wire_payload head;
    const struct hcomm_request *request;
};

static size_t pack_payload(void *dest, void *arg)
{
    const struct payload_pack *pack = arg;
    (void)memcpy(dest, &pack->head, sizeof(pack->head));
    hc_copy((uint8_t *)dest + sizeof(pack->head), pack->request->buf, pack->request->capacity);
    return sizeof(pack->head) + pack->request->capacity;
}

/* False: there is no room now. */
static bool send_payload(struct hcomm_request *request)
{
    struct hc_peer *peer = request->peer;
    struct payload_pack pack = {{.send_id = request->id}, request};
    if (peer->state != HC_PEER_READY ||
        peer->ops->am_bcopy(peer->ep, HC_WIRE_PAYLOAD, pack_payload, &pack) != HCOMM_OK)
        return false;
    request->payload_sent = true;
    hc_counter_add(&peer->context->counters, HC_COUNTER_LENT_BACK, 1);
    return true;
}

/* From here on nothing that is fetched counts. */
static void end_guard(struct hc_peer *peer)
{
    (void)hc_share_close(peer->guard_pool, peer->guard, 0);
    /* seq_cst: partner is the fence in hc_lend_is_valid(); the caller writes to the buffers next */
    atomic_thread_fence(memory_order_seq_cst);
    peer->guard_generation = 0;
}

static bool is_sent_back(struct hc_peer *peer)
{
    struct hc_list *node;
    hc_list_for_each(node, &peer->context->lent)
    {
        struct hcomm_request *request = hc_list_entry(node, struct hcomm_request, stream_node);
        if (request->peer == peer && !request->payload_sent && !send_payload(request))
            return false;
    }
    return true;
}

static unsigned complete_lent(struct hc_peer *peer)
{
    struct hc_list *node, *next;
    unsigned count = 0;
    hc_list_for_each_safe(node, next, &peer->context->lent)
    {
        struct hcomm_request *request = hc_list_entry(node, struct hcomm_request, stream_node);
        if (request->peer != peer)
            continue;
        hc_rndv_end_lent(request);
        count++;
    }
    return count;
}

/* All that is lent to the peer; again, if there is no room now. */
static unsigned take_back(struct hc_peer *peer)
{
    if (!peer->taking_back)
        hc_lender_gave_up(&peer->lender);
    peer->taking_back = !is_sent_back(peer);
    if (peer->taking_back)
        return 0;
    end_guard(peer);
    return complete_lent(peer);
}

static bool is_late(const struct hcomm_request *request, uint64_t now)
{
    const struct hc_peer *peer = request->peer;
    uint64_t since = request->lent_at > peer->fetched_at ? request->lent_at : peer->fetched_at;
    uint64_t patience = (uint64_t)PATIENCE_NS * (1 + peer->num_joined); /* they may all end together */
    return now > since + patience || now > request->lent_at + OVERDUE_NS;
}

unsigned hc_lend_progress(struct hcomm_context *context)
{
    uint64_t now = hc_clock_ns();
    struct hc_list *node;
    hc_list_for_each(node, &context->lent)
    {
        struct hcomm_request *request = hc_list_entry(node, struct hcomm_request, stream_node);
        struct hc_peer *peer = request->peer;
        if (!is_late(request, now) || peer->no_room_at == now)
            continue;
        unsigned moved = take_back(peer);
        if (moved) /* the list has changed; the next progress looks after others */
            return moved;
        peer->no_room_at = now;
    }
    return 0;
}

void hc_lend_close(struct hc_peer *peer)
{
    if (peer->guard_generation)
        end_guard(peer);
    peer->taking_back = false;
}

/* ---- receiver ---- */

bool hc_lend_is_valid(const struct hcomm_request *request)
{
    const struct hc_share *guard = request->peer->ops->ep_share(request->peer->ep, request->guard);
    /* seq_cst: partner is the fence in end_guard(); what was read before is read before the word is */
    atomic_thread_fence(memory_order_seq_cst);
    return guard && hc_share_is_open(guard, request->guard_generation);
}
