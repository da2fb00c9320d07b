#include "tests/unit/core_fake.h"

enum { SIZE = 2048, LENT = 5 };

static uint8_t buf[SIZE];

static void lend(struct hcomm_context *context, hcomm_request_t *requests)
{
    for (int i = 0; i < LENT; i++)
        cr_assert_eq(hcomm_isend(buf, SIZE, 1, i, context->world, &requests[i]), HCOMM_OK);
    cr_assert_eq(context->peers[1]->num_lent, LENT);
    cr_assert_eq(fake.sent[HC_WIRE_RTS], LENT);
}

/* What is lent has been for too long. */
static void let_time_pass(struct hcomm_context *context)
{
    struct hc_list *node;
    hc_list_for_each(node, &context->lent)
    {
        hc_list_entry(node, struct hcomm_request, stream_node)->lent_at = 1;
    }
}

Test(core_lend, what_finds_no_room_is_tried_once_per_progress)
{
    struct hcomm_context *context = fake_context();
    hcomm_request_t requests[LENT];
    lend(context, requests);
    let_time_pass(context);
    fake.full = true;
    for (unsigned i = 1; i <= 3; i++) {
        (void)hc_progress(context);
        cr_assert_eq(fake.tried[HC_WIRE_PAYLOAD], i);
        cr_assert(!requests[0]->complete);
    }
    fake.full = false;
    (void)hc_progress(context);
    cr_assert_eq(fake.sent[HC_WIRE_PAYLOAD], LENT);
    for (int i = 0; i < LENT; i++)
        cr_assert_eq(hcomm_wait(&requests[i], NULL), HCOMM_OK);
    hand_context_free(context);
}

static struct hc_wire_rts lent_rts(const struct hcomm_context *context)
{
    return (struct hc_wire_rts){
        .match = {.comm = context->world->id, .source = 1, .tag = 7},
        .size = SIZE,
        .send_id = 42,
        .rkey_len = 8,
        .guard_generation = 1,
    };
}

Test(core_lend, fetching_that_is_not_possible_now_is_tried_again)
{
    struct hcomm_context *context = fake_context();
    const struct hc_wire_rts rts = lent_rts(context);
    hcomm_request_t request;
    atomic_store(&fake.peers[0].word, UINT64_C(1) << 32); /* generation 1 is open */
    cr_assert_eq(hcomm_irecv(buf, SIZE, 1, 7, context->world, &request), HCOMM_OK);
    fake.get = HCOMM_AGAIN;
    fake_arrive(context, HC_WIRE_RTS, &rts, sizeof(rts), rts.rkey_len);
    for (unsigned i = 1; i <= 3; i++) {
        (void)hc_progress(context);
        cr_assert_eq(fake.gets, i);
        cr_assert(!request->complete);
    }
    cr_assert_eq(fake.sent[HC_WIRE_FIN], 0);
    fake.get = HCOMM_OK;
    cr_assert_eq(hcomm_wait(&request, NULL), HCOMM_OK);
    cr_assert_eq(fake.sent[HC_WIRE_FIN], 1);
    cr_assert(buf[0] == 'g' && buf[SIZE - 1] == 'g');
    hand_context_free(context);
}

/* ---- both sides copy ---- */

enum { LONG = 65536, GUARD = 5, REMOTE_ID = 99 };

static uint8_t long_buf[LONG];

/* Rank 1 lends a message, for which a receive waits that invites it to share the work. */
static struct hcomm_context *receive_shared(hcomm_request_t *request)
{
    struct hcomm_context *context = fake_context();
    struct hc_wire_rts rts = lent_rts(context);
    rts.size = LONG;
    rts.guard = GUARD;
    fake_iface.attr.share_min = LONG;
    atomic_store(&fake.peers[GUARD].word, UINT64_C(1) << 32);
    cr_assert_eq(hcomm_irecv(long_buf, LONG, 1, 7, context->world, request), HCOMM_OK);
    fake_arrive(context, HC_WIRE_RTS, &rts, sizeof(rts), rts.rkey_len);
    cr_assert_eq(fake.sent[HC_WIRE_CTS], 1);
    return context;
}

/* Rank 1 takes its part; how long it is. */
static size_t claim_back(void)
{
    size_t from = 0, len = 0;
    uint32_t generation = (uint32_t)(atomic_load(&fake.own[0].word) >> 32);
    cr_assert(hc_share_claim(&fake.own[0], generation, HC_SHARE_BACK, LONG, LONG / 4, SIZE_MAX, &from, &len));
    cr_assert_eq(from + len, LONG);
    return len;
}

static void arrive_placed(struct hcomm_context *context, hcomm_request_t request, size_t bytes)
{
    const struct hc_wire_placed placed = {.recv_id = request->id, .bytes = bytes};
    fake_arrive(context, HC_WIRE_PLACED, &placed, sizeof(placed), 0);
}

static void expect_over(struct hcomm_context *context, hcomm_request_t *request)
{
    cr_assert_eq(hcomm_wait(request, NULL), HCOMM_OK);
    struct hc_peer *peer = context->peers[1];
    unsigned guards = peer->guard_generation != 0;
    cr_assert_eq((unsigned)__builtin_popcountll(fake.pool.free), HC_SHARES - guards);
    cr_assert_eq(peer->num_lent + peer->num_joined, 0);
    hand_context_free(context);
}

Test(core_lend, receiver_fetches_all_that_the_sender_leaves)
{
    hcomm_request_t request;
    struct hcomm_context *context = receive_shared(&request);
    (void)hc_progress(context);
    cr_assert(request->complete);
    cr_assert_eq(fake.sent[HC_WIRE_FIN], 1);
    cr_assert(long_buf[0] == 'g' && long_buf[LONG - 1] == 'g');
    expect_over(context, &request);
}

Test(core_lend, receiver_waits_for_the_senders_part)
{
    hcomm_request_t request;
    struct hcomm_context *context = receive_shared(&request);
    size_t len = claim_back();
    (void)hc_progress(context);
    cr_assert(!request->complete);
    cr_assert(long_buf[LONG - len - 1] == 'g' && long_buf[LONG - len] == 0);
    arrive_placed(context, request, len);
    cr_assert(request->complete);
    cr_assert_eq(fake.sent[HC_WIRE_FIN], 1);
    expect_over(context, &request);
}

Test(core_lend, what_was_overtaken_comes_as_payload_whatever_was_placed)
{
    hcomm_request_t request;
    struct hcomm_context *context = receive_shared(&request);
    const struct hc_wire_payload head = {.send_id = 42};
    size_t len = claim_back();
    atomic_store(&fake.peers[GUARD].word, 0);
    (void)hc_progress(context);
    (void)hc_progress(context);
    cr_assert_eq(fake.gets, 1);
    arrive_placed(context, request, len);
    cr_assert(!request->complete);
    fake_arrive(context, HC_WIRE_PAYLOAD, &head, sizeof(head), LONG);
    cr_assert(request->complete);
    cr_assert_eq(fake.sent[HC_WIRE_FIN], 0);
    cr_assert(long_buf[0] == 0 && long_buf[LONG - 1] == 0);
    expect_over(context, &request);
}

Test(core_lend, what_cannot_be_fetched_comes_in_pieces_whatever_was_placed)
{
    hcomm_request_t request;
    struct hcomm_context *context = receive_shared(&request);
    size_t len = claim_back();
    fake.get = HCOMM_ERR_UNSUPPORTED;
    (void)hc_progress(context);
    cr_assert_eq(fake.sent[HC_WIRE_CTS], 2);
    arrive_placed(context, request, len);
    const struct hc_wire_data data = {.recv_id = request->id};
    fake_arrive(context, HC_WIRE_DATA, &data, sizeof(data), LONG - 1);
    cr_assert(!request->complete);
    const struct hc_wire_data last = {.recv_id = request->id, .offset = LONG - 1};
    fake_arrive(context, HC_WIRE_DATA, &last, sizeof(last), 1);
    expect_over(context, &request);
}

/* This rank has lent a message, and rank 1 invites it to share the work. */
static struct hcomm_context *lend_shared(hcomm_request_t *request)
{
    struct hcomm_context *context = fake_context();
    cr_assert_eq(hcomm_isend(buf, SIZE, 1, 7, context->world, request), HCOMM_OK);
    cr_assert_eq(context->peers[1]->num_lent, 1);
    atomic_store(&fake.peers[GUARD].word, UINT64_C(3) << 32);
    return context;
}

static void arrive_invitation(struct hcomm_context *context, hcomm_request_t request)
{
    const struct hc_wire_cts cts = {.send_id = request->id,
                                    .recv_id = REMOTE_ID,
                                    .accept = SIZE,
                                    .share = GUARD,
                                    .generation = 3,
                                    .flags = HC_CTS_FLAG_SHARE,
                                    .rkey_len = 8};
    fake_arrive(context, HC_WIRE_CTS, &cts, sizeof(cts), cts.rkey_len);
}

Test(core_lend, sender_places_its_part_and_is_lending_still)
{
    hcomm_request_t request;
    struct hcomm_context *context = lend_shared(&request);
    arrive_invitation(context, request);
    cr_assert_eq(fake.puts, 1);
    cr_assert_eq(fake.sent[HC_WIRE_PLACED], 1);
    cr_assert(!request->complete && context->peers[1]->num_joined == 1);
    const struct hc_wire_fin fin = {.id = request->id, .ns = 1000};
    fake_arrive(context, HC_WIRE_FIN, &fin, sizeof(fin), 0);
    cr_assert_eq(context->peers[1]->num_joined, 0);
    expect_over(context, &request);
}

Test(core_lend, sender_leaves_what_is_closed)
{
    hcomm_request_t request;
    struct hcomm_context *context = lend_shared(&request);
    atomic_store(&fake.peers[GUARD].word, 0);
    arrive_invitation(context, request);
    cr_assert_eq(fake.puts + fake.sent[HC_WIRE_PLACED], 0);
    let_time_pass(context);
    expect_over(context, &request);
}

Test(core_lend, what_cannot_be_placed_is_sent)
{
    hcomm_request_t request;
    struct hcomm_context *context = lend_shared(&request);
    fake.put = HCOMM_ERR_UNSUPPORTED;
    arrive_invitation(context, request);
    cr_assert_eq(fake.puts, 1);
    (void)hc_progress(context);
    cr_assert_eq(fake.sent[HC_WIRE_PAYLOAD], 1);
    cr_assert_eq(fake.sent[HC_WIRE_PLACED], 0);
    expect_over(context, &request);
}

Test(core_lend, second_invitation_is_dropped)
{
    hcomm_request_t request;
    struct hcomm_context *context = lend_shared(&request);
    arrive_invitation(context, request);
    arrive_invitation(context, request);
    cr_assert_eq(fake.puts, 1);
    cr_assert_eq(fake.sent[HC_WIRE_PLACED], 1);
    cr_assert_eq(context->peers[1]->num_joined, 1);
    let_time_pass(context);
    expect_over(context, &request);
}
