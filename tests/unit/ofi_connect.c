/* The ofi transport between two ifaces of one process: retries, giving up, striping, errors. */
#include "runtime/base/clock.h"
#include "tests/unit/ofi_tcp.h"
#include "transports/transport.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 60000 };

struct side {
    struct hc_settings settings;
    struct hc_counters counters;
    struct hc_iface *iface;
    struct hc_ep *ep; /* to the other side */
    unsigned received, failed;
    hcomm_status_t failure;
};

struct wait {
    struct hc_op op;
    unsigned done;
    hcomm_status_t status;
};

static const struct hc_transport *const ofi = &hc_transport_ofi;
static struct side sides[2];

static void on_am(void *arg, uint32_t from, uint8_t id, const void *data, size_t len)
{
    struct side *side = arg;
    (void)from;
    (void)data;
    cr_expect_eq(id, 7);
    cr_expect_eq(len, 8);
    side->received++;
}

static void on_failed(void *arg, struct hc_ep *ep, hcomm_status_t status)
{
    struct side *side = arg;
    cr_expect_eq(ep, side->ep);
    side->failed++;
    side->failure = status;
}

static void on_done(struct hc_op *op, hcomm_status_t status)
{
    struct wait *wait = hc_container_of(op, struct wait, op);
    wait->done++;
    wait->status = status;
}

static void side_open(struct side *side, uint32_t rank)
{
    const struct hc_iface_params params = {
        .am = on_am,
        .ep_failed = on_failed,
        .arg = side,
        .settings = &side->settings,
        .counters = &side->counters,
        .job_id = "ofi_connect",
    };
    side->iface = ofi_tcp_open(ofi, params, rank);
}

static void sides_open(int retry_count, int fault_connect, int num_qp)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct side *side = &sides[rank];
        cr_assert_eq(hc_settings_load(NULL, &side->settings, NULL), HCOMM_OK, "%s", hc_error_detail());
        side->settings.retry_count = retry_count;
        side->settings.num_qp = num_qp;
        side->settings.fault_connect = rank == 0 ? fault_connect : 0;
        side_open(side, rank);
    }
}

static void connect_to(struct side *from, struct side *to, uint32_t rank)
{
    unsigned char address[1024];
    size_t len = sizeof(address);
    cr_assert_eq(ofi->address(to->iface, address, &len), HCOMM_OK);
    cr_assert(ofi->reachable(from->iface, address, len));
    cr_assert_eq(ofi->ep_create(from->iface, rank, address, len, &from->ep), HCOMM_OK, "%s",
                 hc_error_detail());
}

static void sides_close(void)
{
    for (size_t i = 0; i < 2; i++) {
        ofi->ep_destroy(sides[i].ep);
        ofi->close(sides[i].iface);
    }
}

static void progress_both(void)
{
    for (size_t i = 0; i < 2; i++)
        if (sides[i].iface)
            (void)ofi->progress(sides[i].iface);
}

static void progress_until(const unsigned *counter, unsigned value)
{
    uint64_t deadline = hc_deadline_ms(WAIT_MS);
    while (*counter < value) {
        progress_both();
        cr_assert_lt(hc_clock_ns(), deadline, "%u of %u after %d ms", *counter, value, WAIT_MS);
    }
}

/* Send one message; the status that ended the attempts. */
static hcomm_status_t send_one(struct side *side)
{
    uint64_t header = 1, deadline = hc_deadline_ms(WAIT_MS);
    hcomm_status_t status;
    while ((status = ofi->am_short(side->ep, 7, &header, sizeof(header), NULL, 0)) == HCOMM_AGAIN) {
        progress_both();
        cr_assert_lt(hc_clock_ns(), deadline, "no room for %d ms", WAIT_MS);
    }
    return status;
}

static uint64_t counter(const struct side *side, enum hc_counter which)
{
    return atomic_load_explicit(&side->counters.value[which], memory_order_relaxed);
}

Test(ofi_connect, failed_attempts_are_repeated_and_counted)
{
    sides_open(3, 2, 1);
    connect_to(&sides[0], &sides[1], 1);
    cr_assert_eq(send_one(&sides[0]), HCOMM_OK, "%s", hc_error_detail());
    progress_until(&sides[1].received, 1);
    cr_expect_eq(counter(&sides[0], HC_COUNTER_CONNECT_RETRIES), 2);
    cr_expect_eq(counter(&sides[0], HC_COUNTER_CONNECTIONS), 1);
    cr_expect_eq(sides[0].failed, 0);
    sides_close();
}

Test(ofi_connect, ep_fails_once_when_all_attempts_have)
{
    sides_open(1, 5, 1);
    connect_to(&sides[0], &sides[1], 1);
    progress_until(&sides[0].failed, 1);
    cr_expect_eq(sides[0].failure, HCOMM_ERR_UNREACHABLE);
    cr_expect_eq(counter(&sides[0], HC_COUNTER_CONNECT_RETRIES), 1);
    cr_expect_eq(send_one(&sides[0]), HCOMM_ERR_UNREACHABLE);
    progress_both();
    cr_expect_eq(sides[0].failed, 1);
    sides_close();
}

Test(ofi_connect, without_retries_the_first_failure_counts)
{
    sides_open(0, 1, 1);
    connect_to(&sides[0], &sides[1], 1);
    progress_until(&sides[0].failed, 1);
    cr_expect_eq(counter(&sides[0], HC_COUNTER_CONNECT_RETRIES), 0);
    sides_close();
}

Test(ofi_connect, address_that_nobody_listens_on_is_given_up)
{
    sides_open(1, 0, 1);
    connect_to(&sides[0], &sides[1], 1);
    ofi->close(sides[1].iface);
    sides[1].iface = NULL;
    progress_until(&sides[0].failed, 1);
    cr_expect_eq(sides[0].failure, HCOMM_ERR_UNREACHABLE);
    cr_expect_eq(counter(&sides[0], HC_COUNTER_CONNECT_RETRIES), 1);
    sides_close();
}

Test(ofi_connect, vanished_peer_fails_its_ep_once)
{
    sides_open(1, 0, 1);
    connect_to(&sides[0], &sides[1], 1);
    cr_assert_eq(send_one(&sides[0]), HCOMM_OK);
    progress_until(&sides[1].received, 1);
    ofi->close(sides[1].iface);
    sides[1].iface = NULL;
    uint64_t header = 1, deadline = hc_deadline_ms(WAIT_MS);
    while (!sides[0].failed && hc_clock_ns() < deadline) {
        hcomm_status_t status = ofi->am_short(sides[0].ep, 7, &header, sizeof(header), NULL, 0);
        cr_assert(status == HCOMM_OK || status == HCOMM_AGAIN || status == HCOMM_ERR_PEER_LOST, "%d", status);
        progress_both();
    }
    cr_expect_eq(sides[0].failed, 1);
    cr_expect_eq(sides[0].failure, HCOMM_ERR_PEER_LOST);
    sides_close();
}

/* Get what one operation may carry of a region, from `at` on, and wait for it. */
static void get_piece(unsigned char *target, const unsigned char *source, size_t at, size_t len,
                      struct hc_mem *target_mem, struct hc_rkey *rkey)
{
    size_t most = sides[0].iface->attr.rma_max, size = len - at < most ? len - at : most;
    struct wait wait = {.op = {on_done}};
    hcomm_status_t status;
    while ((status = ofi->get(sides[0].ep, target + at, size, target_mem, (uintptr_t)source + at, rkey,
                              &wait.op)) == HCOMM_AGAIN)
        progress_both();
    cr_assert_eq(status, HCOMM_IN_PROGRESS, "%s", hc_error_detail());
    progress_until(&wait.done, 1);
    cr_expect_eq(wait.status, HCOMM_OK);
}

/* Get a large region and say over how many connections it came. */
static uint64_t connections_of_a_large_get(int num_qp)
{
    const size_t len = (size_t)32 << 20;
    const struct hc_mem_attr attr = {
        .type = HC_MEMORY_HOST, .device = -1, .remote_read = true, .remote_write = true};
    unsigned char *source = malloc(len), *target = calloc(1, len), key[256];
    size_t key_len = sizeof(key);
    struct hc_mem *source_mem, *target_mem;
    struct hc_rkey *rkey;
    cr_assert(source && target);
    for (size_t i = 0; i < len; i++)
        source[i] = (unsigned char)(i * 7 + (i >> 12));
    sides_open(3, 0, num_qp);
    connect_to(&sides[0], &sides[1], 1);
    cr_assert_eq(ofi->mem_reg(sides[1].iface, source, len, &attr, &source_mem), HCOMM_OK);
    cr_assert_eq(ofi->mem_reg(sides[0].iface, target, len, &attr, &target_mem), HCOMM_OK);
    cr_assert_eq(ofi->rkey_pack(source_mem, key, &key_len), HCOMM_OK);
    cr_assert_eq(ofi->rkey_unpack(sides[0].ep, key, key_len, &rkey), HCOMM_OK);
    for (size_t at = 0; at < len; at += sides[0].iface->attr.rma_max)
        get_piece(target, source, at, len, target_mem, rkey);
    cr_expect_eq(memcmp(source, target, len), 0);
    ofi->rkey_release(rkey);
    ofi->mem_dereg(source_mem);
    ofi->mem_dereg(target_mem);
    uint64_t connections = counter(&sides[0], HC_COUNTER_CONNECTIONS);
    sides_close();
    free(source);
    free(target);
    return connections;
}

Test(ofi_connect, large_transfer_uses_num_qp_connections)
{
    cr_expect_eq(connections_of_a_large_get(4), 4);
}

Test(ofi_connect, one_qp_means_one_connection)
{
    cr_expect_eq(connections_of_a_large_get(1), 1);
}

Test(ofi_connect, flush_of_an_unused_ep_is_complete)
{
    sides_open(3, 0, 1);
    connect_to(&sides[0], &sides[1], 1);
    struct wait wait = {.op = {on_done}};
    cr_expect_eq(ofi->flush(sides[0].ep, &wait.op), HCOMM_OK);
    sides_close();
}
