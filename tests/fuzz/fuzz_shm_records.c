/* clang-format off */
/*
 * Records in a ring of shm as a peer might write them: messages in lines and in chunks, whole and in parts (HC_SHM_MORE),
 * and any other header word. What is handed up lies in the ring or in one chunk, all of it; parts of a message grow to
 * its end and no further; one that breaks the rules is heard no more.
 * fuzz-sources: transports/shm/source.c transports/shm/segment.c transports/shm/identity.c runtime/base/status.c runtime/base/log.c
 */
/* clang-format on */
#include "runtime/base/log.h"
#include "transports/shm/shm.h"

#include "tests/fuzz/fuzz.h"

enum { CHUNKS = 4, COOKIE = 99, RECORD_BYTES = 10, FIRST_LIFE = 2, POLLS_MAX = 100 };

static struct hc_shm_segment own;
static struct hc_shm_peer peer;
static struct hc_shm_doorbell doorbell;

/* What has been handed up. */
static bool take;                 /* answer to the first question about a message */
static const void *arriving;      /* its bytes; NULL: none is arriving in parts */
static size_t arrived, announced; /* of it */
static bool taken;
static unsigned failures;

/* What source.c calls besides: no claim is served, nobody sleeps, nothing is flushed. */
hcomm_status_t hc_shm_peer_get(struct hc_shm_iface *iface, const struct hc_shm_addr *addr,
                               struct hc_shm_peer **found)
{
    (void)iface;
    (void)addr;
    *found = &peer;
    return HCOMM_OK;
}

void hc_shm_peer_put(struct hc_shm_peer *put)
{
    (void)put;
}

void hc_shm_peer_wake(struct hc_shm_peer *woken)
{
    (void)woken;
    FUZZ_CHECK(false);
}

void hc_shm_disarm(struct hc_shm_iface *iface)
{
    (void)iface;
    FUZZ_CHECK(false);
}

unsigned hc_shm_flush_progress(struct hc_shm_iface *iface)
{
    (void)iface;
    FUZZ_CHECK(false);
    return 0;
}

static bool is_inside(const void *data, size_t len, const void *start, size_t size)
{
    uintptr_t at = (uintptr_t)data, from = (uintptr_t)start;
    return at >= from && len <= size && at - from <= size - len;
}

/* It may not leave a chunk. */
static void check_bytes(const void *data, size_t len)
{
    bool inside = is_inside(data, len, own.rings[0].lines, HC_SHM_RING_BYTES);
    for (size_t i = 0; i < CHUNKS; i++)
        inside |= is_inside(data, len, own.chunks + i * HC_SHM_CHUNK_BYTES, HC_SHM_CHUNK_BYTES);
    FUZZ_CHECK(inside);
}

static void on_am(void *arg, uint32_t from, uint8_t id, const void *data, size_t len)
{
    (void)arg;
    (void)id;
    FUZZ_CHECK(from == 0 && !failures);
    check_bytes(data, len);
    if (is_inside(data, len, own.rings[0].lines, HC_SHM_RING_BYTES)) /* also between the parts of another */
        return;
    FUZZ_CHECK(!taken);
    if (arriving)
        FUZZ_CHECK(data == arriving && len == announced && arrived < len);
    arriving = NULL;
}

static bool on_part(void *arg, uint32_t from, uint8_t id, const void *data, size_t ready, size_t len)
{
    (void)arg;
    (void)id;
    FUZZ_CHECK(from == 0 && ready <= len && !failures);
    check_bytes(data, len);
    if (arriving)
        FUZZ_CHECK(data == arriving && len == announced && ready > arrived);
    taken |= take;
    arriving = ready < len ? data : NULL;
    arrived = ready;
    announced = len;
    if (ready < len)
        return taken;
    FUZZ_CHECK(taken); /* else it comes as a whole */
    taken = false;
    return true;
}

/* The next record of the input; false: there is none. */
static bool publish(struct hc_shm_producer *out, const uint8_t **data, size_t *left)
{
    if (*left < RECORD_BYTES)
        return false;
    struct hc_shm_line *line = hc_shm_reserve(out, 1);
    if (!line)
        return false;
    const uint8_t *in = *data;
    uint32_t len = in[2] | in[3] << 8u, total = in[4] | in[5] << 8u;
    struct hc_shm_chunk_ref ref = {
        .index = in[1] % (CHUNKS + 1u),
        .cookie = COOKIE + (in[1] >> 7),
        .total = total + (in[9] & 1u) * len,
        .offset = (in[6] | in[7] << 8u) * 8u,
    };
    uint64_t header = hc_shm_header((enum hc_shm_kind)(in[0] % 6), in[8], len);
    (void)memcpy(line->data, &ref, sizeof(ref));
    hc_shm_commit(out, line, 1, header, in[9] & 2);
    *data += RECORD_BYTES;
    *left -= RECORD_BYTES;
    return true;
}

static void on_failed(void *arg, struct hc_ep *ep, hcomm_status_t status)
{
    (void)arg;
    (void)ep;
    FUZZ_CHECK(status == HCOMM_ERR_PROTOCOL && !failures);
    failures++;
}

static void make_segment(void)
{
    int fd = -1;
    hc_log_set_level(HC_LOG_ERROR);
    FUZZ_CHECK(hc_shm_segment_create(1, CHUNKS, COOKIE, &own, &fd) == HCOMM_OK);
    peer.segment = own;
    peer.doorbell = &doorbell;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct hc_shm_consumer back;
    if (!own.header)
        make_segment();
    arriving = NULL;
    taken = false;
    failures = 0;
    struct hc_shm_source source = {.burst = 1, .peer = &peer, .addr.cookie = COOKIE};
    struct hc_shm_source *active[] = {&source};
    struct hc_shm_ep ep = {0};
    struct hc_shm_iface iface = {.am = on_am,
                                 .am_part = on_part,
                                 .ep_failed = on_failed,
                                 .doorbell = &doorbell,
                                 .active = active,
                                 .active_count = 1};
    struct hc_shm_producer out;
    hc_list_init(&iface.flushes);
    hc_list_init(&iface.eps);
    hc_list_append(&iface.eps, &ep.link);
    hc_shm_consumer_init(&source.in, own.rings[0].lines, HC_SHM_RING_LINES, &own.rings[0].head);
    hc_shm_consumer_reset(&source.in);
    hc_shm_producer_init(&out, own.rings[0].lines, HC_SHM_RING_LINES, &own.rings[0].head, &back, FIRST_LIFE);
    take = size && data[0] & 0x80;
    while (publish(&out, &data, &size))
        if (!size || data[0] & 0x40) /* else some are there before the receiver looks */
            (void)hc_shm_progress(&iface.base);
    /* what a false record leads back to is read again and again, but no poll takes for ever */
    for (unsigned i = 0; i < POLLS_MAX && hc_shm_progress(&iface.base); i++)
        continue;
    FUZZ_CHECK(source.broken == (failures > 0));
    return 0;
}
