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
    fake_context_free(context);
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
    fake_context_free(context);
}
