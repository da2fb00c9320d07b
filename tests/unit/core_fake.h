/* Test helper: a context of rank 0 of 2, by hand; rank 1 is reached through a transport that only counts. */
#ifndef TESTS_UNIT_CORE_FAKE_H
#define TESTS_UNIT_CORE_FAKE_H

#include <criterion/criterion.h>

#define HAND_CHECK(condition) cr_assert(condition)
#include "tests/hand_context.h"

#include "runtime/core/progress.h"
#include "runtime/core/request.h"

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
    .mem_reg = hand_mem_reg,
    .mem_dereg = hand_mem_dereg,
    .rkey_pack = hand_rkey_pack,
    .rkey_unpack = hand_rkey_unpack,
    .rkey_release = hand_rkey_release,
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

static struct hcomm_context *fake_context(void)
{
    (void)memset(&fake, 0, sizeof(fake));
    hc_share_pool_init(&fake.pool, fake.own);
    struct hcomm_context *context = hand_context_new(&fake_iface, FAKE_WINDOW);
    hand_context_lend(hand_context_reach(context, &fake_ep, FAKE_WINDOW));
    return context;
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
