/* Cases: active messages. */
#include "harness.h"

#include "runtime/base/clock.h"

#include <sched.h>
#include <string.h>

static void send_around_sizes(struct cf *cf, enum cf_kind kind)
{
    size_t max = cf_max(cf, kind);
    const size_t centres[] = {0,   8,    16,   24,   32,   40,    48,    56,    64,       128, 256,
                              512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, max - 64, max};
    uint64_t sent = 0;
    for (size_t c = 0; c < hc_array_len(centres); c++) {
        for (size_t d = 0; d < 5; d++) {
            size_t size = centres[c] + d - (centres[c] < 2 ? 0 : 2);
            if (size > max)
                continue;
            cf_send(cf, cf_next(cf), kind, size);
            sent++;
        }
    }
    cf_progress_until(cf, &cf->received[cf_prev(cf)], sent, "messages");
}

static void am_short_carries_every_size(struct cf *cf)
{
    send_around_sizes(cf, CF_SHORT);
}

static void am_bcopy_carries_every_size(struct cf *cf)
{
    send_around_sizes(cf, CF_BCOPY);
}

static void am_zcopy_carries_every_size(struct cf *cf)
{
    send_around_sizes(cf, CF_ZCOPY);
}

/* To and fro, so that the receiver has nothing else to do. */
static void long_messages_come_in_parts(struct cf *cf)
{
    size_t max = cf_max(cf, CF_SHORT);
    uint64_t rounds = 0;
    for (size_t size = max; size > 256; size -= size / 16 + 1) {
        if (cf->rank == 0)
            cf_send(cf, cf_next(cf), CF_SHORT, size);
        cf_progress_until(cf, &cf->received[cf_prev(cf)], ++rounds, "the message");
        if (cf->rank != 0)
            cf_send(cf, cf_next(cf), CF_SHORT, size);
    }
    CF_CHECK(cf->parts > 0 || !strstr(cf->resource->name, "shm") || strchr(cf->resource->name, ':'),
             "messages of %zu bytes came as a whole", max);
}

static void am_too_long_is_refused(struct cf *cf)
{
    hcomm_status_t status = cf_try_send(cf, cf_next(cf), CF_SHORT, cf_max(cf, CF_SHORT) + 1);
    CF_CHECK(status == HCOMM_ERR_INVALID, "a short message one byte too long gave %s",
             hcomm_strerror(status));
    cf_send(cf, cf_next(cf), CF_SHORT, 8);
    cf_progress_until(cf, &cf->received[cf_prev(cf)], 1, "the message after it");
}

/* A kind that the iface has, and a size it takes; small ones more often. */
static size_t random_size(struct cf *cf, uint32_t *seed, enum cf_kind *kind)
{
    do
        *kind = (enum cf_kind)(cf_random(seed) % CF_KINDS);
    while (!cf_max(cf, *kind));
    size_t max = cf_max(cf, *kind);
    size_t limit = cf_random(seed) % 8 ? 512 : max;
    return cf_random(seed) % ((limit < max ? limit : max) + 1);
}

static void send_random(struct cf *cf, int rounds)
{
    uint32_t seed = 4711u + (uint32_t)cf->rank;
    for (int i = 0; i < rounds; i++) {
        for (int peer = 0; peer < cf->size; peer++) {
            enum cf_kind kind;
            size_t size = random_size(cf, &seed, &kind);
            if (cf->ep[peer])
                cf_send(cf, peer, kind, size);
        }
    }
    for (int peer = 0; peer < cf->size; peer++)
        if (cf->ep[peer])
            cf_progress_until(cf, &cf->received[peer], (uint64_t)rounds, "messages");
}

static void order_holds_over_mixed_kinds(struct cf *cf)
{
    send_random(cf, 4000);
}

static void many_peers_talk_at_once(struct cf *cf)
{
    send_random(cf, 1500);
}

/* Send until there is no room; the receiver does nothing meanwhile. */
static uint64_t fill_up(struct cf *cf, enum cf_kind kind, size_t size, size_t limit)
{
    uint64_t sent = 0;
    hcomm_status_t status = HCOMM_OK;
    unsigned quiet = 0;
    while (quiet < 100) {
        status = cf_try_send(cf, cf_next(cf), kind, size);
        CF_CHECK(status == HCOMM_OK || status == HCOMM_AGAIN, "sending: %s", hcomm_strerror(status));
        quiet = status == HCOMM_OK ? 0 : quiet + 1;
        sent += status == HCOMM_OK;
        CF_CHECK(sent * (size + 64) < limit, "%llu messages found room though nobody receives",
                 (unsigned long long)sent);
        if (status == HCOMM_AGAIN && cf->size > 1)
            cf_progress(cf);
    }
    return sent;
}

static void check_backpressure(struct cf *cf, enum cf_kind kind, size_t size)
{
    uint64_t before = cf->received[cf_prev(cf)];
    cf_barrier_silent(cf);
    if (cf->rank == 0)
        atomic_store(&cf->shared->flags[0], (int)fill_up(cf, kind, size, (size_t)1 << 28));
    cf_barrier_silent(cf);
    if (cf_prev(cf) == 0) {
        uint64_t sent = (uint64_t)atomic_load(&cf->shared->flags[0]);
        CF_CHECK(sent > 0, "nothing could be sent");
        cf_progress_until(cf, &cf->received[0], before + sent, "messages after the jam");
    }
    cf_barrier(cf);
    if (cf->rank == 0)
        for (int i = 0; i < 500; i++)
            cf_send(cf, cf_next(cf), kind, size);
    if (cf_prev(cf) == 0)
        cf_progress_until(cf, &cf->received[0], before + (uint64_t)atomic_load(&cf->shared->flags[0]) + 500,
                          "messages again");
    cf_barrier(cf);
}

static void no_room_is_told_and_passes(struct cf *cf)
{
    check_backpressure(cf, CF_SHORT, 8);
    check_backpressure(cf, CF_SHORT, cf_max(cf, CF_SHORT));
    check_backpressure(cf, CF_BCOPY, cf_max(cf, CF_BCOPY));
}

static void flush_completes_after_the_messages(struct cf *cf)
{
    size_t max = cf_max(cf, CF_BCOPY), size = max < 20000 ? max : 20000;
    for (int i = 0; i < 50; i++) {
        cf_send(cf, cf_next(cf), CF_SHORT, 100);
        cf_send(cf, cf_next(cf), CF_BCOPY, size);
        if (i % 10 == 0)
            cf_flush(cf, cf_next(cf));
    }
    cf_flush(cf, cf_next(cf));
    cf_progress_until(cf, &cf->received[cf_prev(cf)], 100, "messages");
}

enum { REPLIES = 2000 };

static void reply(struct cf *cf, int from, uint8_t id)
{
    (void)id;
    if (cf->received[from] < REPLIES)
        CF_CHECK(cf_try_send(cf, from, CF_SHORT, 24) == HCOMM_OK, "no room for one reply");
}

static void upcall_may_send(struct cf *cf)
{
    cf->on_message = reply;
    cf_send(cf, cf_next(cf), CF_SHORT, 24);
    cf_progress_until(cf, &cf->received[cf_next(cf)], REPLIES, "replies");
    cf_barrier(cf);
    cf->on_message = NULL;
}

const struct cf_case cf_cases_am[] = {
    {"am_short_carries_every_size", 2, 0, false, am_short_carries_every_size},
    {"am_bcopy_carries_every_size", 2, 0, false, am_bcopy_carries_every_size},
    {"am_zcopy_carries_every_size", 2, HC_CAP_ZCOPY, false, am_zcopy_carries_every_size},
    {"long_messages_come_in_parts", 2, 0, false, long_messages_come_in_parts},
    {"am_too_long_is_refused", 2, 0, false, am_too_long_is_refused},
    {"order_holds_over_mixed_kinds", 2, 0, false, order_holds_over_mixed_kinds},
    {"many_peers_talk_at_once", 4, 0, true, many_peers_talk_at_once},
    {"no_room_is_told_and_passes", 2, 0, false, no_room_is_told_and_passes},
    {"flush_completes_after_the_messages", 2, 0, false, flush_completes_after_the_messages},
    {"upcall_may_send", 2, 0, false, upcall_may_send},
    {0},
};
