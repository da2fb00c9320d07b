/* The ring of the shm transport, both ends in one process. */
#include "transports/shm/ring.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct hc_shm_line *lines;
static _Atomic uint32_t head;
static struct hc_shm_producer out;
static struct hc_shm_consumer in;

static void setup(void)
{
    lines = aligned_alloc(HC_SHM_LINE, HC_SHM_RING_BYTES);
    cr_assert(lines);
    /* as bad as stale payload can be, except that nothing was ever published at line 0 */
    memset(lines, 0xff, HC_SHM_RING_BYTES);
    atomic_store(&head, 0);
    hc_shm_producer_init(&out, lines, &head);
    hc_shm_consumer_init(&in, lines, &head);
    hc_shm_consumer_reset(&in);
}

static void teardown(void)
{
    free(lines);
}

TestSuite(shm_ring, .init = setup, .fini = teardown);

static bool push(uint32_t len, unsigned char mark)
{
    uint32_t count = hc_shm_lines_for(len);
    struct hc_shm_line *line = hc_shm_reserve(&out, count);
    if (!line)
        return false;
    memset(line->data, mark, len);
    hc_shm_commit(&out, line, count, hc_shm_header(HC_SHM_INLINE, mark, len));
    return true;
}

/* Take one message, skipping pads; false when there is none. */
static bool pop(uint32_t *len, unsigned char *mark)
{
    for (;;) {
        uint64_t header = hc_shm_peek(&in);
        if (!header)
            return false;
        uint32_t count = hc_shm_record_lines(&in, header);
        cr_assert(count > 0, "malformed header %#llx", (unsigned long long)header);
        bool pad = hc_shm_header_kind(header) == HC_SHM_PAD;
        *len = hc_shm_header_len(header);
        *mark = hc_shm_header_id(header);
        for (uint32_t i = 0; !pad && i < *len; i++)
            cr_assert(hc_shm_front(&in)->data[i] == *mark, "byte %u of a message is wrong", i);
        (void)hc_shm_advance(&in, count);
        if (!pad)
            return true;
    }
}

Test(shm_ring, empty_ring_has_nothing)
{
    cr_assert(hc_shm_peek(&in) == 0);
}

Test(shm_ring, forty_bytes_and_the_core_header_take_one_line)
{
    cr_assert(hc_shm_lines_for(16 + 40) == 1);
    cr_assert(hc_shm_lines_for(16 + 41) == 2);
    cr_assert(hc_shm_lines_for(0) == 1);
    cr_assert(hc_shm_lines_for(HC_SHM_INLINE_MAX) == HC_SHM_INLINE_LINES);
}

Test(shm_ring, stale_payload_is_never_a_header)
{
    uint32_t len;
    unsigned char mark;
    cr_assert(push(8, 3));
    cr_assert(pop(&len, &mark) && len == 8 && mark == 3);
    cr_assert(hc_shm_peek(&in) == 0, "bytes from before were taken for a record");
}

Test(shm_ring, reservation_alone_publishes_nothing)
{
    cr_assert(hc_shm_reserve(&out, 4) != NULL);
    cr_assert(hc_shm_peek(&in) == 0);
}

Test(shm_ring, full_ring_refuses_and_recovers)
{
    uint32_t count = 0, len, taken = 0;
    unsigned char mark;
    while (push(8, (unsigned char)count))
        count++;
    cr_assert(count == HC_SHM_RING_LINES - 1, "%u messages fitted", count);
    while (pop(&len, &mark))
        cr_assert(mark == (unsigned char)taken++);
    cr_assert(taken == count);
    cr_assert(push(HC_SHM_INLINE_MAX, 1), "the emptied ring has room for the longest record");
}

Test(shm_ring, every_length_survives_every_position)
{
    uint32_t seed = 12345, next_in = 0, next_out = 0, sizes[HC_SHM_RING_LINES];
    for (int round = 0; round < 200000; round++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t len = seed >> 30 ? (seed >> 8) % 200 : (seed >> 8) % (HC_SHM_INLINE_MAX + 1);
        if (seed >> 4 & 1 && push(len, (unsigned char)next_out)) {
            sizes[next_out++ % HC_SHM_RING_LINES] = len;
            continue;
        }
        unsigned char mark;
        if (!pop(&len, &mark))
            continue;
        cr_assert(mark == (unsigned char)next_in && len == sizes[next_in % HC_SHM_RING_LINES]);
        next_in++;
    }
    cr_assert(next_out > 10000 && next_out - next_in < HC_SHM_RING_LINES);
}

Test(shm_ring, positions_may_overflow)
{
    uint32_t len;
    unsigned char mark;
    in.pos = in.published = out.pos = UINT32_MAX - 100 - (UINT32_MAX - 100) % HC_SHM_RING_LINES;
    atomic_store(&head, in.pos);
    out.limit = in.pos + HC_SHM_RING_LINES - 1;
    for (int i = 0; i < 3000; i++) {
        cr_assert(push(8, (unsigned char)i));
        cr_assert(pop(&len, &mark) && mark == (unsigned char)i);
    }
    cr_assert(out.pos < 10000);
}

Test(shm_ring, malformed_headers_are_recognised)
{
    cr_assert(hc_shm_record_lines(&in, hc_shm_header(HC_SHM_INLINE, 0, HC_SHM_INLINE_MAX + 1)) == 0);
    cr_assert(hc_shm_record_lines(&in, hc_shm_header(HC_SHM_INLINE, 0, UINT32_MAX)) == 0);
    cr_assert(hc_shm_record_lines(&in, UINT64_C(9) << 40) == 0);
    cr_assert(hc_shm_record_lines(&in, UINT64_MAX) == 0);
    cr_assert(hc_shm_record_lines(&in, 1) == 0);
    in.pos = HC_SHM_RING_LINES - 2; /* a record may not reach over the end */
    cr_assert(hc_shm_record_lines(&in, hc_shm_header(HC_SHM_INLINE, 0, 120)) == 2);
    cr_assert(hc_shm_record_lines(&in, hc_shm_header(HC_SHM_INLINE, 0, 121)) == 0);
}

Test(shm_ring, impossible_position_of_the_consumer_gives_no_room)
{
    while (push(8, 1))
        continue;
    atomic_store(&head, out.pos + 1); /* ahead of what was written */
    cr_assert(!push(8, 1));
    atomic_store(&head, out.pos - 3 * HC_SHM_RING_LINES);
    cr_assert(!push(8, 1));
}
