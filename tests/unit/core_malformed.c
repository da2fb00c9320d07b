#include "tests/unit/core_fake.h"

#include "runtime/base/status.h"

enum { SIZE = 64, LONG = 8192, TAG = 7 };

static uint8_t buf[LONG], out[LONG];

/* Rank 1 sent something after which nothing more is taken from it: the receive that waits for it ends, too.
 */
static void expect_end(struct hcomm_context *context, const char *what)
{
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    struct hc_peer *peer = context->peers[1];
    cr_assert_eq(peer->state, HC_PEER_FAILED, "%s", what);
    cr_assert_eq(peer->failure, HCOMM_ERR_PROTOCOL, "%s", what);
    (void)hc_progress(context);
    cr_assert_eq(hcomm_irecv(buf, SIZE, 1, TAG, context->world, &request), HCOMM_OK);
    cr_assert_eq(hcomm_wait(&request, NULL), HCOMM_ERR_PROTOCOL, "%s", what);
    cr_assert_not_null(strstr(hcomm_error_detail(), "rank 1"), "%s: %s", what, hcomm_error_detail());
    cr_assert_not_null(strstr(hcomm_error_detail(), what), "%s: %s", what, hcomm_error_detail());
}

/* Of each kind, its least length less one, or one byte more where the length is fixed. */
static const struct {
    const char *name;
    uint8_t id;
    size_t len;
} wrong_lengths[] = {
    {"EAGER", HC_WIRE_EAGER, 15},
    {"EAGER_SYNC", HC_WIRE_EAGER_SYNC, 23},
    {"BATCH", HC_WIRE_BATCH, 15},
    {"BATCH", HC_WIRE_BATCH, 17},
    {"RTS", HC_WIRE_RTS, 55},
    {"RTS", HC_WIRE_RTS, 57},
    {"CTS", HC_WIRE_CTS, 47},
    {"CTS", HC_WIRE_CTS, 49},
    {"DATA", HC_WIRE_DATA, 16},
    {"FIN", HC_WIRE_FIN, 15},
    {"FIN", HC_WIRE_FIN, 17},
    {"FIN", HC_WIRE_SYNC_ACK, 15},
    {"NACK", HC_WIRE_NACK, 15},
    {"CREDIT", HC_WIRE_CREDIT, 7},
    {"BARRIER", HC_WIRE_BARRIER, 25},
    {"WITHDRAW", HC_WIRE_WITHDRAW, 15},
    {"PLACED", HC_WIRE_PLACED, 17},
    {"RECALL", HC_WIRE_RECALL, 15},
    {"RELEASED", HC_WIRE_RELEASED, 17},
    {"PAYLOAD", HC_WIRE_PAYLOAD, 8},
    {"kind is 0", 0, SIZE},
    {"kind is 17", HC_WIRE_PAYLOAD + 1, SIZE},
    {"kind is 255", UINT8_MAX, SIZE},
};

Test(core_malformed, wrong_lengths_and_unknown_kinds_end_the_connection)
{
    for (size_t i = 0; i < hc_array_len(wrong_lengths); i++) {
        struct hcomm_context *context = fake_context();
        hcomm_request_t waiting = HCOMM_REQUEST_NULL;
        cr_assert_eq(hcomm_irecv(buf, SIZE, 1, TAG, context->world, &waiting), HCOMM_OK);
        fake_arrive(context, wrong_lengths[i].id, NULL, 0, wrong_lengths[i].len);
        expect_end(context, wrong_lengths[i].name);
        cr_assert_eq(hcomm_wait(&waiting, NULL), HCOMM_ERR_PROTOCOL);
        hand_context_free(context);
    }
}

/* What a transport itself finds, as shm in a ring. */
Test(core_malformed, what_a_transport_finds_malformed_is_no_lost_peer)
{
    struct hcomm_context *context = fake_context();
    hc_core_ep_failed(context, context->peers[1]->ep, HCOMM_ERR_PROTOCOL);
    expect_end(context, "broke");
    hand_context_free(context);
    context = fake_context();
    hc_core_ep_failed(context, context->peers[1]->ep, HCOMM_ERR_IO);
    cr_assert_eq(context->peers[1]->failure, HCOMM_ERR_PEER_LOST);
    hand_context_free(context);
}

static struct hc_wire_rts rts_of(const struct hcomm_context *context, bool lent)
{
    return (struct hc_wire_rts){
        .match = {.comm = context->world->id, .source = 1, .tag = TAG},
        .size = LONG,
        .send_id = 42,
        .guard_generation = lent,
    };
}

Test(core_malformed, impossible_envelopes_end_the_connection)
{
    struct hc_wire_match match = {.source = 1, .tag = -1};
    struct hcomm_context *context = fake_context();
    fake_arrive(context, HC_WIRE_EAGER, &match, sizeof(match), SIZE);
    expect_end(context, "EAGER");
    hand_context_free(context);
    context = fake_context();
    struct hc_wire_rts rts = rts_of(context, false);
    rts.offer = HC_OFFER_SELF + 1;
    fake_arrive(context, HC_WIRE_RTS, &rts, sizeof(rts), 0);
    expect_end(context, "offer is unknown");
    hand_context_free(context);
}

/* A receive that has asked for the pieces of its message. */
static hcomm_request_t receive_in_pieces(struct hcomm_context *context)
{
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    const struct hc_wire_rts rts = rts_of(context, false);
    cr_assert_eq(hcomm_irecv(buf, LONG, 1, TAG, context->world, &request), HCOMM_OK);
    fake_arrive(context, HC_WIRE_RTS, &rts, sizeof(rts), 0);
    cr_assert_eq(fake.sent[HC_WIRE_CTS], 1);
    return request;
}

Test(core_malformed, data_beyond_the_message_ends_the_connection)
{
    const uint64_t offsets[] = {LONG, LONG - SIZE + 1, UINT64_MAX};
    for (size_t i = 0; i < hc_array_len(offsets); i++) {
        struct hcomm_context *context = fake_context();
        hcomm_request_t request = receive_in_pieces(context);
        const struct hc_wire_data data = {.recv_id = request->id, .offset = offsets[i]};
        fake_arrive(context, HC_WIRE_DATA, &data, sizeof(data), SIZE);
        expect_end(context, "beyond the message");
        cr_assert_eq(hcomm_wait(&request, NULL), HCOMM_ERR_PROTOCOL);
        hand_context_free(context);
    }
}

Test(core_malformed, cts_for_more_than_was_announced_ends_the_connection)
{
    const uint64_t accepts[] = {0, LONG + 1, UINT64_MAX};
    for (size_t i = 0; i < hc_array_len(accepts); i++) {
        struct hcomm_context *context = fake_context();
        hcomm_request_t request = HCOMM_REQUEST_NULL;
        cr_assert_eq(hcomm_isend(out, LONG, 1, TAG, context->world, &request), HCOMM_OK);
        cr_assert_eq(fake.sent[HC_WIRE_RTS], 1);
        const struct hc_wire_cts cts = {.send_id = request->id, .recv_id = 1, .accept = accepts[i]};
        fake_arrive(context, HC_WIRE_CTS, &cts, sizeof(cts), 0);
        expect_end(context, "CTS");
        cr_assert_eq(hcomm_wait(&request, NULL), HCOMM_ERR_PROTOCOL);
        hand_context_free(context);
    }
}

Test(core_malformed, payload_that_was_not_announced_ends_the_connection)
{
    for (unsigned lent = 0; lent < 2; lent++) {
        struct hcomm_context *context = fake_context();
        const struct hc_wire_rts rts = rts_of(context, lent);
        const struct hc_wire_payload payload = {.send_id = rts.send_id};
        fake_arrive(context, HC_WIRE_RTS, &rts, sizeof(rts), 0);
        cr_assert_eq(context->peers[1]->state, HC_PEER_READY);
        fake_arrive(context, HC_WIRE_PAYLOAD, &payload, sizeof(payload), lent ? LONG - 1 : LONG);
        expect_end(context, "not what was announced");
        hand_context_free(context);
    }
}

/* Each may be under way while its request ends: withdrawn, timed out, cancelled. */
static void deliver_late(struct hcomm_context *context, uint64_t id)
{
    const struct hc_wire_cts cts = {.send_id = id, .recv_id = 1, .accept = UINT64_MAX};
    const struct hc_wire_data data = {.recv_id = id, .offset = UINT64_MAX};
    const struct hc_wire_placed placed = {.recv_id = id, .bytes = UINT64_MAX};
    const struct hc_wire_fin fin = {.id = id};
    const struct hc_wire_payload payload = {.send_id = id};
    const uint8_t kinds[] = {HC_WIRE_FIN, HC_WIRE_SYNC_ACK, HC_WIRE_NACK, HC_WIRE_WITHDRAW};
    fake_arrive(context, HC_WIRE_CTS, &cts, sizeof(cts), 0);
    fake_arrive(context, HC_WIRE_DATA, &data, sizeof(data), SIZE);
    fake_arrive(context, HC_WIRE_PLACED, &placed, sizeof(placed), 0);
    fake_arrive(context, HC_WIRE_PAYLOAD, &payload, sizeof(payload), SIZE);
    for (size_t i = 0; i < hc_array_len(kinds); i++)
        fake_arrive(context, kinds[i], &fin, sizeof(fin), 0);
}

Test(core_malformed, messages_to_requests_that_are_gone_are_dropped)
{
    struct hcomm_context *context = fake_context();
    hcomm_request_t request = receive_in_pieces(context);
    const struct hc_wire_fin nack = {.id = request->id};
    uint64_t id = request->id;
    fake_arrive(context, HC_WIRE_NACK, &nack, sizeof(nack), 0);
    cr_assert_eq(hcomm_wait(&request, NULL), HCOMM_ERR_CANCELLED);
    deliver_late(context, id);
    deliver_late(context, UINT64_MAX);
    cr_assert_eq(context->peers[1]->state, HC_PEER_READY);
    hand_context_free(context);
}

/* A second CTS, which is not certain to be wrong, is dropped, and the message goes on as the first said. */
Test(core_malformed, second_cts_is_dropped)
{
    struct hcomm_context *context = fake_context();
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    cr_assert_eq(hcomm_isend(out, LONG, 1, TAG, context->world, &request), HCOMM_OK);
    const struct hc_wire_cts cts = {.send_id = request->id, .recv_id = 1, .accept = LONG};
    fake_arrive(context, HC_WIRE_CTS, &cts, sizeof(cts), 0);
    fake_arrive(context, HC_WIRE_CTS, &cts, sizeof(cts), 0);
    cr_assert_eq(hcomm_wait(&request, NULL), HCOMM_OK);
    cr_assert_eq(context->peers[1]->state, HC_PEER_READY);
    cr_assert_eq(fake.sent[HC_WIRE_DATA], LONG / FAKE_EAGER);
    hand_context_free(context);
}
