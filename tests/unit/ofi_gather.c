/* Messages that the ofi transport holds back, between two ifaces of one process. */
#include "runtime/base/clock.h"
#include "tests/unit/ofi_tcp.h"
#include "transports/ofi/ofi.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAIT_MS = 60000, MESSAGES = 4096, ID = 7 };

struct side {
    struct hc_settings settings;
    struct hc_counters counters;
    struct hc_iface *iface;
    struct hc_ep *ep; /* to the other side */
};

struct message {
    struct hc_op op;
    unsigned done;
    hcomm_status_t status;
};

static const struct hc_transport *const ofi = &hc_transport_ofi;
static struct side sides[2];
static struct message messages[MESSAGES];
static uint64_t sent, received;

/* Message number n has 8 + n % 100 bytes, the number and then its low byte. */
static size_t fill(uint64_t n, uint64_t *payload)
{
    size_t len = sizeof(n) + n % 100;
    memset(payload, (int)(n & 0xff), len);
    *payload = n;
    return len;
}

static void on_am(void *arg, uint32_t from, uint8_t id, const void *data, size_t len)
{
    uint64_t expected[16];
    (void)arg;
    (void)from;
    cr_assert_eq(id, ID);
    cr_assert_eq((uintptr_t)data % 8, 0);
    cr_assert_eq(len, fill(received, expected), "message %llu has %zu bytes", (unsigned long long)received,
                 len);
    cr_assert_eq(memcmp(data, expected, len), 0, "message %llu", (unsigned long long)received);
    received++;
}

static void on_failed(void *arg, struct hc_ep *ep, hcomm_status_t status)
{
    (void)arg;
    (void)ep;
    (void)status;
}

static void on_done(struct hc_op *op, hcomm_status_t status)
{
    struct message *message = hc_container_of(op, struct message, op);
    message->done++;
    message->status = status;
}

static void side_open(struct side *side, uint32_t rank)
{
    const struct hc_iface_params params = {
        .am = on_am,
        .ep_failed = on_failed,
        .arg = side,
        .settings = &side->settings,
        .counters = &side->counters,
        .job_id = "ofi_gather",
    };
    cr_assert_eq(hc_settings_load(NULL, &side->settings, NULL), HCOMM_OK, "%s", hc_error_detail());
    side->iface = ofi_tcp_open(ofi, params, rank);
}

static void progress_both(void)
{
    (void)ofi->progress(sides[0].iface);
    (void)ofi->progress(sides[1].iface);
}

static void receive_all(void)
{
    for (uint64_t deadline = hc_deadline_ms(WAIT_MS); received < sent; progress_both())
        cr_assert(hc_clock_ns() < deadline, "%llu of %llu messages", (unsigned long long)received,
                  (unsigned long long)sent);
}

static hcomm_status_t send_one(bool with_op)
{
    uint64_t payload[16];
    cr_assert(sent < MESSAGES);
    struct message *message = &messages[sent];
    message->op.done = on_done;
    size_t len = fill(sent, payload);
    hcomm_status_t status =
        with_op ? ofi->am_zcopy(sides[0].ep, ID, payload, 8, payload + 1, len - 8, NULL, &message->op)
                : ofi->am_short(sides[0].ep, ID, payload, 8, payload + 1, len - 8);
    sent += status == HCOMM_OK || status == HCOMM_IN_PROGRESS;
    return status;
}

static struct hc_ofi_ep *sender(void)
{
    return hc_ofi_ep_of(sides[0].ep);
}

static void both_open(void)
{
    unsigned char address[1024];
    size_t len = sizeof(address);
    side_open(&sides[0], 0);
    side_open(&sides[1], 1);
    cr_assert_eq(ofi->address(sides[1].iface, address, &len), HCOMM_OK);
    cr_assert_eq(ofi->ep_create(sides[0].iface, 1, address, len, &sides[0].ep), HCOMM_OK);
    hcomm_status_t status;
    for (uint64_t deadline = hc_deadline_ms(WAIT_MS); (status = send_one(false)) == HCOMM_AGAIN;
         progress_both())
        cr_assert(hc_clock_ns() < deadline, "not connected");
    cr_assert_eq(status, HCOMM_OK);
    receive_all();
}

static void both_close(void)
{
    for (size_t i = 0; i < 2; i++) {
        ofi->ep_destroy(sides[i].ep);
        ofi->close(sides[i].iface);
    }
}

TestSuite(ofi_gather, .init = both_open, .fini = both_close, .timeout = 120);

/* Send until a message is held back, as from a sender that is trusted: the first one of those that are held.
 */
static uint64_t hold_one(void)
{
    for (;;) {
        progress_both();
        (void)send_one(true);
        (void)send_one(true);
        sender()->gather.prompt = sender()->gather.patience;
        sender()->gather.last = hc_clock_ns();
        sides[0].ep->holds = true;
        if (send_one(true) == HCOMM_IN_PROGRESS && sender()->gather.op)
            return sent - 1;
        receive_all();
    }
}

static unsigned long done_from(uint64_t first)
{
    unsigned long done = 0;
    for (uint64_t n = first; n < sent; n++)
        done += messages[n].done;
    return done;
}

Test(ofi_gather, held_message_leaves_with_the_next_progress)
{
    uint64_t held = hold_one();
    cr_expect_eq(messages[held].done, 0);
    (void)ofi->progress(sides[0].iface);
    cr_expect_eq(messages[held].done, 1);
    cr_expect_eq(messages[held].status, HCOMM_OK);
    receive_all();
}

Test(ofi_gather, order_holds_between_held_messages_and_others)
{
    for (int round = 0; round < 20; round++) {
        uint64_t held = hold_one();
        for (int i = 0; i < 20; i++)
            (void)send_one(i % 7 != 3);
        receive_all();
        cr_expect_eq(messages[held].done, 1);
    }
}

Test(ofi_gather, prompt_sender_is_held_after_some_bursts)
{
    uint64_t deadline = hc_deadline_ms(WAIT_MS);
    cr_expect_not(sides[0].ep->holds);
    for (bool holds = false; !holds; sent = received = 0) {
        cr_assert(hc_clock_ns() < deadline, "never held");
        for (int i = 0; i < 8; i++)
            (void)send_one(false);
        holds = sides[0].ep->holds;
        (void)ofi->progress(sides[0].iface);
        receive_all();
    }
}

Test(ofi_gather, sender_that_hesitates_is_not_held)
{
    (void)hold_one();
    cr_expect(sides[0].ep->holds);
    unsigned patience = sender()->gather.patience;
    (void)usleep(1000);
    cr_expect_eq(send_one(true), HCOMM_OK);
    cr_expect_not(sides[0].ep->holds);
    cr_expect_null(sender()->gather.op);
    cr_expect_gt(sender()->gather.patience, patience);
    receive_all();
}

Test(ofi_gather, who_waits_does_not_sleep_and_flush_waits_for_the_ops)
{
    struct message flush = {.op.done = on_done};
    uint64_t held = hold_one();
    cr_expect_eq(ofi->arm(sides[0].iface), HCOMM_AGAIN);
    cr_expect_eq(ofi->flush(sides[0].ep, &flush.op), HCOMM_AGAIN);
    cr_expect_null(sender()->gather.op);
    cr_expect_eq(messages[held].done, 0);
    progress_both();
    cr_expect_eq(messages[held].done, 1);
    receive_all();
}

Test(ofi_gather, broken_ep_fails_what_is_held)
{
    uint64_t held = hold_one();
    hc_ofi_ep_break(sender(), hc_error(HCOMM_ERR_PEER_LOST, "for the test"));
    (void)ofi->progress(sides[0].iface);
    cr_expect_eq(messages[held].done, 1);
    cr_expect_eq(messages[held].status, HCOMM_ERR_PEER_LOST);
    cr_expect_eq(hc_ofi_iface_of(sides[0].iface)->held.in_use, 0);
}

Test(ofi_gather, destroyed_ep_tells_nobody)
{
    uint64_t held = hold_one();
    cr_expect_eq(send_one(false), HCOMM_OK); /* the batch has left, its op is still to complete */
    ofi->ep_destroy(sides[0].ep);
    sides[0].ep = NULL;
    progress_both();
    cr_expect_eq(done_from(held), 0);
    cr_expect_eq(hc_ofi_iface_of(sides[0].iface)->held.in_use, 0);
}
