/*
 * Test helper: a context of rank 0 of 2 without a launcher, and the memory and keys of a transport that moves
 * nothing. Whoever includes it defines HAND_CHECK(condition), which ends the test when it does not hold.
 */
#ifndef TESTS_HAND_CONTEXT_H
#define TESTS_HAND_CONTEXT_H

#include "runtime/core/barrier.h"
#include "runtime/core/comm.h"
#include "runtime/core/core.h"
#include "runtime/core/lend.h"
#include "runtime/core/peer.h"
#include "runtime/core/wait.h"

#include <stdlib.h>
#include <string.h>

enum { HAND_RANKS = 2 };

static const struct hc_boot_job hand_job = {.rank = 0,
                                            .size = HAND_RANKS,
                                            .local_size = HAND_RANKS,
                                            .num_hosts = 1,
                                            .name_space = "hand",
                                            .hostname = "nowhere"};

static hcomm_status_t hand_mem_reg(struct hc_iface *iface, void *addr, size_t len,
                                   const struct hc_mem_attr *attr, struct hc_mem **mem)
{
    (void)addr, (void)len, (void)attr;
    *mem = malloc(sizeof(**mem));
    HAND_CHECK(*mem);
    (*mem)->iface = iface;
    return HCOMM_OK;
}

static void hand_mem_dereg(struct hc_mem *mem)
{
    free(mem);
}

static hcomm_status_t hand_rkey_pack(const struct hc_mem *mem, void *buf, size_t *len)
{
    (void)mem;
    (void)memset(buf, 0, 8);
    *len = 8;
    return HCOMM_OK;
}

static hcomm_status_t hand_rkey_unpack(struct hc_ep *ep, const void *buf, size_t len, struct hc_rkey **rkey)
{
    (void)buf, (void)len;
    *rkey = malloc(sizeof(**rkey));
    HAND_CHECK(*rkey);
    (*rkey)->iface = ep->iface;
    return HCOMM_OK;
}

static void hand_rkey_release(struct hc_rkey *rkey)
{
    free(rkey);
}

static struct hcomm_context *hand_context_new(struct hc_iface *iface, uint32_t eager_window)
{
    struct hcomm_context *context = aligned_alloc(64, hc_align_up(sizeof(*context), 64));
    HAND_CHECK(context);
    (void)memset(context, 0, sizeof(*context));
    HAND_CHECK(hc_settings_load(NULL, &context->settings, NULL) == HCOMM_OK);
    context->job = &hand_job;
    context->eager_window = eager_window;
    hc_pool_init(&context->request_pool, sizeof(struct hcomm_request), 4);
    hc_pool_init(&context->message_pool, sizeof(struct hcomm_message) + 256, 4);
    hc_pool_init(&context->op_pool, 64, 4);
    hc_list_init(&context->pending);
    hc_list_init(&context->fetching);
    hc_list_init(&context->failing);
    hc_list_init(&context->lent);
    hc_list_init(&context->taken);
    context->peers = calloc(HAND_RANKS, sizeof(struct hc_peer *));
    HAND_CHECK(context->peers);
    context->done_send = (struct hcomm_request){
        .kind = HC_REQUEST_SEND, .complete = true, .immortal = true, .context = context};
    context->done_recv = (struct hcomm_request){
        .kind = HC_REQUEST_RECV, .complete = true, .immortal = true, .context = context};
    context->ifaces[0].iface = iface;
    context->num_ifaces = 1;
    HAND_CHECK(hc_match_init(&context->match) == HCOMM_OK && hc_wait_init(context) == HCOMM_OK);
    HAND_CHECK(hc_comm_create_builtin(context) == HCOMM_OK);
    return context;
}

/* Rank 1 is reached through the endpoint of the context's transport. */
static struct hc_peer *hand_context_reach(struct hcomm_context *context, struct hc_ep *ep, uint32_t credit)
{
    struct hc_peer *peer = hc_peer_get(context, 1);
    HAND_CHECK(peer);
    peer->ep = ep;
    ep->user = peer;
    peer->ops = ep->iface->transport;
    peer->attr = &ep->iface->attr;
    peer->eager_max = ep->iface->attr.eager_max;
    peer->zcopy_min = SIZE_MAX;
    peer->credit = credit;
    peer->window = context->eager_window;
    peer->state = HC_PEER_READY;
    return peer;
}

/* Nearly all messages to it that may be lent are. */
static void hand_context_lend(struct hc_peer *peer)
{
    peer->lend_min = hc_lend_min(peer);
    for (int i = 0; i < HC_LENDER_CLASSES; i++)
        peer->lender.classes[i] =
            (struct hc_lender_class){.count = HC_LENDER_FIRST, .copy_cost = 1000000, .lend_cost = 1};
}

static void hand_free_messages(struct hc_list *list)
{
    struct hc_list *node;
    while ((node = hc_list_pop(list))) {
        struct hcomm_message *message = hc_list_entry(node, struct hcomm_message, match.all);
        free(message->taken_back);
        if (!message->pooled)
            free(message);
    }
}

static void hand_context_free(struct hcomm_context *context)
{
    struct hc_list *node;
    for (int rank = 0; rank < HAND_RANKS; rank++)
        if (context->peers[rank])
            hc_peer_end_operations(context->peers[rank]);
    HAND_CHECK(hc_list_empty(&context->lent));
    while ((node = hc_list_first(&context->comms)))
        hc_comm_destroy(hc_list_entry(node, struct hcomm_comm, all));
    hc_barrier_fini(context);
    hand_free_messages(&context->match.all);
    hand_free_messages(&context->taken);
    hc_match_fini(&context->match);
    for (int rank = 0; rank < HAND_RANKS; rank++)
        hc_peer_free(context->peers[rank]);
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

#endif
