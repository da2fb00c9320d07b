/* Test helper: a context of rank 0 of 2, by hand; rank 1 is reached through a transport that only counts. */
#ifndef TESTS_UNIT_CORE_FAKE_H
#define TESTS_UNIT_CORE_FAKE_H

#include "runtime/core/barrier.h"
#include "runtime/core/comm.h"
#include "runtime/core/core.h"
#include "runtime/core/lend.h"
#include "runtime/core/peer.h"
#include "runtime/core/progress.h"
#include "runtime/core/request.h"
#include "runtime/core/wait.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_WINDOW = 1 << 20, FAKE_EAGER = 2048, FAKE_SENT_MAX = 256 };

/* What the transport does, and what it was asked for. */
static struct {
    bool full; /* no room for messages */
    hcomm_status_t get, put;
    unsigned tried[FAKE_SENT_MAX], sent[FAKE_SENT_MAX], gets, puts; /* messages by id */
    struct hc_share own[HC_SHARES], peers[HC_SHARES];
    struct hc_share_pool pool;
} fake;

static hcomm_status_t fake_send(uint8_t id)
{
    fake.tried[id]++;
    fake.sent[id] += !fake.full;
    return fake.full ? HCOMM_AGAIN : HCOMM_OK;
}

static hcomm_status_t fake_short(struct hc_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                 const void *data, size_t len)
{
    (void)ep, (void)hdr, (void)hdr_len, (void)data, (void)len;
    return fake_send(id);
}

static hcomm_status_t fake_bcopy(struct hc_ep *ep, uint8_t id, hc_pack_fn pack, void *arg)
{
    static _Alignas(64) uint8_t room[2 * FAKE_EAGER];
    hcomm_status_t status = fake_send(id);
    cr_assert(status != HCOMM_OK || pack(room, arg) <= ep->iface->attr.bcopy_max);
    return status;
}

static hcomm_status_t fake_get(struct hc_ep *ep, void *local, size_t len, struct hc_mem *mem, uint64_t remote,
                               struct hc_rkey *rkey, struct hc_op *op)
{
    (void)ep, (void)mem, (void)remote, (void)rkey, (void)op;
    fake.gets++;
    if (fake.get == HCOMM_OK)
        (void)memset(local, 'g', len);
    return fake.get;
}

static hcomm_status_t fake_put(struct hc_ep *ep, const void *local, size_t len, struct hc_mem *mem,
                               uint64_t remote, struct hc_rkey *rkey, struct hc_op *op)
{
    (void)ep, (void)local, (void)len, (void)mem, (void)remote, (void)rkey, (void)op;
    fake.puts++;
    return fake.put;
}

static struct hc_share_pool *fake_shares(struct hc_iface *iface)
{
    (void)iface;
    return &fake.pool;
}

static struct hc_share *fake_ep_share(struct hc_ep *ep, uint32_t index)
{
    (void)ep;
    return index < HC_SHARES ? &fake.peers[index] : NULL;
}

static hcomm_status_t fake_mem_reg(struct hc_iface *iface, void *addr, size_t len,
                                   const struct hc_mem_attr *attr, struct hc_mem **mem)
{
    (void)addr, (void)len, (void)attr;
    *mem = malloc(sizeof(**mem));
    (*mem)->iface = iface;
    return HCOMM_OK;
}

static void fake_mem_dereg(struct hc_mem *mem)
{
    free(mem);
}

static hcomm_status_t fake_rkey_pack(const struct hc_mem *mem, void *buf, size_t *len)
{
    (void)mem;
    (void)memset(buf, 0, 8);
    *len = 8;
    return HCOMM_OK;
}

static hcomm_status_t fake_rkey_unpack(struct hc_ep *ep, const void *buf, size_t len, struct hc_rkey **rkey)
{
    (void)buf, (void)len;
    *rkey = malloc(sizeof(**rkey));
    (*rkey)->iface = ep->iface;
    return HCOMM_OK;
}

static void fake_rkey_release(struct hc_rkey *rkey)
{
    free(rkey);
}

static unsigned fake_progress(struct hc_iface *iface)
{
    (void)iface;
    return 0;
}

static void fake_ep_destroy(struct hc_ep *ep)
{
    (void)ep;
}

static const struct hc_transport fake_transport = {
    .name = "fake",
    .progress = fake_progress,
    .am_short = fake_short,
    .am_bcopy = fake_bcopy,
    .get = fake_get,
    .put = fake_put,
    .shares = fake_shares,
    .ep_share = fake_ep_share,
    .mem_reg = fake_mem_reg,
    .mem_dereg = fake_mem_dereg,
    .rkey_pack = fake_rkey_pack,
    .rkey_unpack = fake_rkey_unpack,
    .rkey_release = fake_rkey_release,
    .ep_destroy = fake_ep_destroy,
};

static struct hc_iface fake_iface = {
    .transport = &fake_transport,
    .attr = {.caps = HC_CAP_RMA | HC_CAP_SHARE,
             .rkey_max = 64,
             .short_max = 128,
             .bcopy_max = 2 * FAKE_EAGER,
             .eager_max = FAKE_EAGER,
             .rma_max = SIZE_MAX,
             .get_min = SIZE_MAX,
             .fetch_min = SIZE_MAX,
             .lend_min = 1024,
             .share_map_min = SIZE_MAX,
             .share_min = SIZE_MAX},
};
static struct hc_ep fake_ep = {.iface = &fake_iface, .peer = 1};

static const struct hc_boot_job fake_job = {
    .rank = 0, .size = 2, .local_size = 2, .num_hosts = 1, .name_space = "fake", .hostname = "nowhere"};

/* Messages to rank 1 that may be lent are. */
static void fake_reach_peer(struct hcomm_context *context)
{
    struct hc_peer *peer = hc_peer_get(context, 1);
    cr_assert_not_null(peer);
    peer->ep = &fake_ep;
    fake_ep.user = peer;
    peer->ops = &fake_transport;
    peer->attr = &fake_iface.attr;
    peer->eager_max = FAKE_EAGER;
    peer->zcopy_min = SIZE_MAX;
    peer->credit = peer->window = FAKE_WINDOW;
    peer->state = HC_PEER_READY;
    peer->lend_min = hc_lend_min(peer);
    for (int i = 0; i < HC_LENDER_CLASSES; i++)
        peer->lender.classes[i] =
            (struct hc_lender_class){.count = HC_LENDER_FIRST, .copy_cost = 1000000, .lend_cost = 1};
}

static struct hcomm_context *fake_context(void)
{
    struct hcomm_context *context = aligned_alloc(64, hc_align_up(sizeof(*context), 64));
    cr_assert_not_null(context);
    (void)memset(context, 0, sizeof(*context));
    (void)memset(&fake, 0, sizeof(fake));
    hc_share_pool_init(&fake.pool, fake.own);
    cr_assert_eq(hc_settings_load(NULL, &context->settings, NULL), HCOMM_OK);
    context->job = &fake_job;
    context->eager_window = FAKE_WINDOW;
    hc_pool_init(&context->request_pool, sizeof(struct hcomm_request), 4);
    hc_pool_init(&context->message_pool, sizeof(struct hcomm_message) + 256, 4);
    hc_pool_init(&context->op_pool, 64, 4);
    hc_list_init(&context->pending);
    hc_list_init(&context->fetching);
    hc_list_init(&context->failing);
    hc_list_init(&context->lent);
    hc_list_init(&context->taken);
    context->peers = calloc(2, sizeof(struct hc_peer *));
    context->done_send = (struct hcomm_request){
        .kind = HC_REQUEST_SEND, .complete = true, .immortal = true, .context = context};
    context->done_recv = (struct hcomm_request){
        .kind = HC_REQUEST_RECV, .complete = true, .immortal = true, .context = context};
    context->ifaces[0].iface = &fake_iface;
    context->num_ifaces = 1;
    cr_assert_eq(hc_match_init(&context->match), HCOMM_OK);
    cr_assert_eq(hc_wait_init(context), HCOMM_OK);
    cr_assert_eq(hc_comm_create_builtin(context), HCOMM_OK);
    fake_reach_peer(context);
    return context;
}

static void fake_free_messages(struct hc_list *list)
{
    struct hc_list *node;
    while ((node = hc_list_pop(list))) {
        struct hcomm_message *message = hc_list_entry(node, struct hcomm_message, match.all);
        free(message->taken_back);
        if (!message->pooled)
            free(message);
    }
}

static void fake_context_free(struct hcomm_context *context)
{
    hc_peer_end_operations(context->peers[1]);
    cr_assert(hc_list_empty(&context->lent));
    hc_comm_destroy(context->world);
    hc_comm_destroy(context->self);
    hc_barrier_fini(context);
    fake_free_messages(&context->match.all);
    fake_free_messages(&context->taken);
    hc_match_fini(&context->match);
    hc_peer_free(context->peers[1]);
    hc_wait_fini(context);
    hc_pool_fini(&context->request_pool);
    hc_pool_fini(&context->message_pool);
    hc_pool_fini(&context->op_pool);
    free(context->ids);
    free(context->id_generation);
    free(context->id_next);
    free(context->peers);
    free(context);
}

/* A message of rank 1 in memory of exactly its size. */
static void fake_arrive(struct hcomm_context *context, uint8_t id, const void *head, size_t head_len,
                        size_t payload)
{
    uint8_t *exact = calloc(1, head_len + payload + !(head_len + payload));
    cr_assert_not_null(exact);
    if (head_len)
        (void)memcpy(exact, head, head_len);
    hc_core_am(context, 1, id, exact, head_len + payload);
    free(exact);
}

#endif
