/* Long messages of the shm transport as their receiver sees them: part by part, and what it refuses. */
#include "transports/shm/shm.h"

#include <criterion/criterion.h>
#include <string.h>

enum { PARTS_MAX = 32, ID = 7, SIZE = 50000, MEDIUM = 4096 };

static struct hc_settings settings;
static struct hc_counters counters;
static struct hc_iface *sender, *receiver;
static struct hc_ep *ep;
static unsigned char message[SIZE];

/* What the receiver was told. */
static bool take; /* answer to the first question */
static size_t ready[PARTS_MAX];
static unsigned parts, wholes, failures, cuts;
static unsigned char got[HC_SHM_MESSAGE_MAX];
static size_t got_len;

static void on_am(void *arg, uint32_t from, uint8_t id, const void *data, size_t len)
{
    (void)arg;
    cr_assert(from == 0 && id == ID && len <= sizeof(got));
    (void)memcpy(got, data, len);
    got_len = len;
    wholes++;
}

static bool on_part(void *arg, uint32_t from, uint8_t id, const void *data, size_t now, size_t len)
{
    (void)arg;
    cr_assert(from == 0 && id == ID && now <= len && len <= sizeof(got) && parts < PARTS_MAX);
    if (!data) {
        cuts++;
        return true;
    }
    ready[parts++] = now;
    (void)memcpy(got, data, now);
    got_len = now;
    return take;
}

static void on_failed(void *arg, struct hc_ep *failed, hcomm_status_t status)
{
    (void)arg;
    (void)failed;
    cr_assert(status == HCOMM_ERR_PROTOCOL);
    failures++;
}

static struct hc_iface *open_iface(uint32_t rank)
{
    struct hc_iface *iface = NULL;
    const struct hc_resource resource = {.transport = &hc_transport_shm, .name = "shm", .usable = true};
    struct hc_iface_params params = {.am = on_am,
                                     .am_part = on_part,
                                     .ep_failed = on_failed,
                                     .settings = &settings,
                                     .counters = &counters,
                                     .world_rank = rank,
                                     .world_size = 2,
                                     .local_rank = rank,
                                     .local_size = 2,
                                     .job_id = "parts"};
    cr_assert(hc_transport_shm.open(&resource, &params, &iface) == HCOMM_OK, "%s", hc_error_detail());
    return iface;
}

static struct hc_ep *connect_to(struct hc_iface *from, struct hc_iface *to, uint32_t rank)
{
    struct hc_ep *made = NULL;
    struct hc_shm_addr addr;
    size_t len = sizeof(addr);
    cr_assert(hc_transport_shm.address(to, &addr, &len) == HCOMM_OK);
    cr_assert(hc_transport_shm.ep_create(from, rank, &addr, len, &made) == HCOMM_OK, "%s", hc_error_detail());
    return made;
}

static void setup(void)
{
    for (size_t i = 0; i < SIZE; i++)
        message[i] = (unsigned char)(i * 31 + (i >> 8));
    sender = open_iface(0);
    receiver = open_iface(1);
    ep = connect_to(sender, receiver, 1);
    (void)connect_to(receiver, sender, 0); /* whose failure tells of a sender that breaks the rules */
}

static void teardown(void)
{
    hc_transport_shm.close(sender);
    hc_transport_shm.close(receiver);
}

TestSuite(shm_parts, .init = setup, .fini = teardown);

static void poll_all(void)
{
    while (hc_transport_shm.progress(receiver))
        continue;
}

static void send_message(void)
{
    const uint64_t header = 1;
    cr_assert(hc_transport_shm.am_short(ep, ID, &header, sizeof(header), message, SIZE) == HCOMM_OK);
}

/* A record written by hand. */
static void publish(enum hc_shm_kind kind, uint32_t len, const struct hc_shm_chunk_ref *ref)
{
    struct hc_shm_ep *e = hc_container_of(ep, struct hc_shm_ep, base);
    struct hc_shm_line *line = hc_shm_reserve(&e->out, 1);
    if (ref)
        (void)memcpy(line->data, ref, sizeof(*ref));
    hc_shm_commit(&e->out, line, 1, hc_shm_header(kind, ID, len), false);
}

static struct hc_shm_chunk_ref right_ref(void)
{
    const struct hc_shm_iface *iface = hc_container_of(sender, struct hc_shm_iface, base);
    return (struct hc_shm_chunk_ref){.cookie = (uint32_t)iface->addr.cookie, .total = 1000, .offset = 64};
}

Test(shm_parts, idle_receiver_is_told_of_every_part)
{
    take = true;
    send_message();
    poll_all();
    cr_assert(parts >= 4 && wholes == 0);
    for (unsigned i = 1; i < parts; i++)
        cr_assert(ready[i] > ready[i - 1]);
    cr_assert(ready[parts - 1] == SIZE + 8 && memcmp(got + 8, message, SIZE) == 0);
}

Test(shm_parts, message_not_taken_in_parts_comes_as_a_whole)
{
    send_message();
    poll_all();
    cr_assert(parts >= 3 && ready[parts - 1] < SIZE + 8); /* it was asked for before the end only */
    cr_assert(wholes == 1 && got_len == SIZE + 8 && memcmp(got + 8, message, SIZE) == 0);
}

Test(shm_parts, busy_receiver_gets_whole_messages)
{
    send_message();
    send_message(); /* the first is not read yet */
    poll_all();
    unsigned asked = parts;
    parts = 0;
    send_message();
    cr_assert(wholes == 2);
    poll_all();
    cr_assert(wholes == 3 && asked == parts, "only the first message came in parts");
}

Test(shm_parts, header_and_payload_of_any_length_arrive)
{
    static const size_t headers[] = {0, 8, 48, 56, 64, 120, 256};
    static const size_t payloads[] = {0, 1, 8, 40, 56, 57, 1000, 2000, 8000, 9000};
    unsigned char header[256];
    for (size_t i = 0; i < sizeof(header); i++)
        header[i] = (unsigned char)(0xc0 + i);
    for (size_t h = 0; h < hc_array_len(headers); h++)
        for (size_t p = 0; p < hc_array_len(payloads); p++) {
            size_t total = headers[h] + payloads[p];
            wholes = parts = 0;
            (void)memset(got, 0, sizeof(got));
            cr_assert(hc_transport_shm.am_short(ep, ID, header, headers[h], message, payloads[p]) ==
                      HCOMM_OK);
            poll_all();
            cr_assert(wholes == 1 && got_len == total, "%zu and %zu bytes", headers[h], payloads[p]);
            cr_assert(memcmp(got, header, headers[h]) == 0 &&
                          memcmp(got + headers[h], message, payloads[p]) == 0,
                      "%zu and %zu bytes", headers[h], payloads[p]);
        }
}

/* Make the rotation complete, and the receiver seem near or far. */
static void settle(bool far)
{
    struct hc_shm_ep *e = hc_container_of(ep, struct hc_shm_ep, base);
    struct hc_shm_iface *iface = hc_container_of(sender, struct hc_shm_iface, base);
    while (!hc_shm_pool_is_warm(&iface->pool))
        hc_shm_pool_count(&iface->pool, HC_SHM_GROW_BYTES);
    e->distance = (struct hc_shm_distance){.cycles = far ? HC_SHM_DISTANCE_MOST : 1};
}

Test(shm_parts, short_messages_take_one_place_after_the_other)
{
    struct hc_shm_iface *iface = hc_container_of(sender, struct hc_shm_iface, base);
    const struct hc_shm_pool *pool = &iface->pool;
    size_t end = 0, last = 0;
    settle(false);
    for (unsigned i = 0; i < pool->count * 2; i++) {
        const uint64_t header = 1;
        uint32_t index = hc_shm_pool_peek(pool);
        parts = 0;
        last = pool->used[index];
        cr_assert(hc_transport_shm.am_short(ep, ID, &header, sizeof(header), message, 16384) == HCOMM_OK);
        poll_all();
        end = pool->used[index];
        cr_assert(end > last && end - last >= 16384 && end <= HC_SHM_CHUNK_BYTES);
    }
    cr_assert(end > (size_t)2 * 16384);
}

/* Messages of a few KiB; how many of them came through chunks. */
static uint64_t send_medium_messages(unsigned count)
{
    const struct hc_shm_ep *e = hc_container_of(ep, struct hc_shm_ep, base);
    const uint64_t header = 1, before = e->inflight.sent;
    for (unsigned i = 0; i < count; i++) {
        message[0] = (unsigned char)i;
        cr_assert(hc_transport_shm.am_short(ep, ID, &header, sizeof(header), message, MEDIUM) == HCOMM_OK);
        poll_all();
        cr_assert(got_len == MEDIUM + 8 && memcmp(got + 8, message, MEDIUM) == 0);
    }
    return e->inflight.sent - before;
}

Test(shm_parts, a_few_kib_go_through_chunks_to_a_near_receiver_only)
{
    const unsigned count = HC_SHM_DISTANCE_NEAR_PERIOD - 1; /* without a sample */
    settle(true);
    cr_assert(send_medium_messages(count) == 0);
    settle(false);
    cr_assert(send_medium_messages(count) == count);
}

Test(shm_parts, a_few_kib_stay_in_the_ring_while_few_chunks_are_in_rotation)
{
    cr_assert(send_medium_messages(HC_SHM_DISTANCE_NEAR_PERIOD - 1) == 0);
}

Test(shm_parts, distance_is_sampled_with_a_message_through_a_chunk)
{
    struct hc_shm_ep *e = hc_container_of(ep, struct hc_shm_ep, base);
    cr_assert(send_medium_messages(2 * HC_SHM_DISTANCE_NEAR_PERIOD) == 2);
    cr_assert(e->distance.cycles > 0);
}

Test(shm_parts, a_few_kib_find_the_ring_when_no_chunk_is_free)
{
    const struct hc_shm_ep *e = hc_container_of(ep, struct hc_shm_ep, base);
    const uint64_t header = 1;
    settle(false);
    uint32_t limit = hc_container_of(sender, struct hc_shm_iface, base)->ep_chunks;
    for (unsigned i = 0; i < limit + 2; i++)
        cr_assert(hc_transport_shm.am_short(ep, ID, &header, sizeof(header), message, MEDIUM) == HCOMM_OK);
    cr_assert(e->inflight.count == limit);
    poll_all();
    cr_assert(wholes == limit + 2);
}

Test(shm_parts, more_without_a_beginning_is_refused)
{
    publish(HC_SHM_MORE, 100, NULL);
    poll_all();
    cr_assert(failures == 1 && wholes + parts == 0);
}

Test(shm_parts, more_than_the_message_lacks_is_refused)
{
    const struct hc_shm_chunk_ref ref = right_ref();
    publish(HC_SHM_CHUNK, 500, &ref);
    publish(HC_SHM_MORE, 501, NULL);
    poll_all();
    cr_assert(failures == 1 && wholes == 0 && parts == 1 && ready[0] == 500);
}

Test(shm_parts, nothing_more_is_refused)
{
    const struct hc_shm_chunk_ref ref = right_ref();
    publish(HC_SHM_CHUNK, 500, &ref);
    publish(HC_SHM_MORE, 0, NULL);
    poll_all();
    cr_assert(failures == 1 && wholes == 0);
}

Test(shm_parts, message_within_a_message_is_refused)
{
    const struct hc_shm_chunk_ref ref = right_ref();
    publish(HC_SHM_CHUNK, 500, &ref);
    publish(HC_SHM_CHUNK, 1000, &ref);
    poll_all();
    cr_assert(failures == 1 && wholes == 0);
}

Test(shm_parts, references_out_of_the_chunk_are_refused)
{
    struct hc_shm_chunk_ref wrong[6];
    for (size_t i = 0; i < hc_array_len(wrong); i++)
        wrong[i] = right_ref();
    wrong[0].index = UINT32_MAX;
    wrong[1].offset = HC_SHM_CHUNK_BYTES - 992;
    wrong[2].offset = UINT32_MAX - 7;
    wrong[3].offset = 4;
    wrong[4].total = HC_SHM_MESSAGE_MAX + 1;
    wrong[5].total = 499; /* less than the first part */
    for (size_t i = 0; i < hc_array_len(wrong); i++) {
        publish(HC_SHM_CHUNK, 500, &wrong[i]);
        poll_all();
        cr_assert(failures == 1 && wholes + parts == 0, "reference %zu", i);
        failures = 0;
        hc_container_of(receiver, struct hc_shm_iface, base)->sources[0].broken = false;
        hc_shm_advance(&hc_container_of(receiver, struct hc_shm_iface, base)->sources[0].in, 1, 0);
    }
}

Test(shm_parts, message_of_an_earlier_life_is_dropped_with_all_its_parts)
{
    struct hc_shm_chunk_ref ref = right_ref();
    ref.cookie++;
    publish(HC_SHM_CHUNK, 500, &ref);
    publish(HC_SHM_MORE, 500, NULL);
    poll_all();
    cr_assert(failures + wholes + parts == 0);
    send_message();
    poll_all();
    cr_assert(wholes == 1);
}

/* The sender claims the ring again, as another process does when the one before was killed. */
static void begin_another_life(void)
{
    hc_transport_shm.ep_destroy(ep);
    ep = connect_to(sender, receiver, 1);
    poll_all();
}

Test(shm_parts, message_that_its_sender_does_not_end_is_cut_once)
{
    const struct hc_shm_chunk_ref ref = right_ref();
    take = true;
    publish(HC_SHM_CHUNK, 500, &ref);
    poll_all();
    cr_assert(parts == 1 && cuts == 0);
    begin_another_life();
    cr_assert(parts == 1 && cuts == 1 && failures == 0);
    send_message();
    poll_all();
    begin_another_life();
    cr_assert(cuts == 1 && wholes == 0 && got_len == SIZE + 8 && memcmp(got + 8, message, SIZE) == 0);
}

Test(shm_parts, message_not_taken_needs_no_cut)
{
    const struct hc_shm_chunk_ref ref = right_ref();
    publish(HC_SHM_CHUNK, 500, &ref);
    poll_all();
    begin_another_life();
    send_message();
    poll_all();
    cr_assert(cuts == 0 && failures == 0 && wholes == 1);
}
