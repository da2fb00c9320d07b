/* The ring of the shm transport, both ends in one process. */
#include "transports/shm/ring.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct hc_shm_line *lines;
static _Atomic uint32_t head;
static struct hc_shm_producer out;
static struct hc_shm_consumer in;
static struct hc_shm_consumer back; /* of the ring the other way */

static void use_ring(uint32_t size)
{
    back = (struct hc_shm_consumer){0};
    hc_shm_producer_init(&out, lines, size, &head, &back, 2);
    hc_shm_consumer_init(&in, lines, size, &head);
    hc_shm_consumer_reset(&in);
}

static void setup(void)
{
    lines = aligned_alloc(HC_SHM_LINE, HC_SHM_RING_BYTES);
    cr_assert(lines);
    /* as bad as stale payload can be, except that nothing was ever published at line 0 */
    memset(lines, 0xff, HC_SHM_RING_BYTES);
    atomic_store(&head, 0);
    use_ring(HC_SHM_RING_LINES);
}

static void teardown(void)
{
    free(lines);
}

TestSuite(shm_ring, .init = setup, .fini = teardown);

static void check_clear(void)
{
    for (uint32_t pos = out.pos + 1; (int32_t)(out.clear - pos) > 0; pos++)
        cr_assert(atomic_load(&lines[pos & (out.size - 1)].header) == 0, "line %u is not clear", pos);
}

static bool push(uint32_t len, unsigned char mark)
{
    uint32_t count = hc_shm_lines_for(len);
    struct hc_shm_line *line = hc_shm_reserve(&out, count);
    if (!line)
        return false;
    memset(line->data, mark, len);
    hc_shm_commit(&out, line, count, hc_shm_header(HC_SHM_INLINE, mark, len), true);
    check_clear();
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
        (void)hc_shm_advance(&in, count, header);
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

Test(shm_ring, burst_clears_headers_ahead_and_none_that_is_unread)
{
    uint32_t len;
    unsigned char mark;
    out.ahead = HC_SHM_CLEAR_AHEAD; /* whatever suits this processor */
    cr_assert(push(8, 1) && push(8, 2));
    cr_assert(out.clear - out.pos > 1, "nothing was cleared ahead");
    while (push(8, 3))
        cr_assert((int32_t)(out.limit + 1 - out.clear) >= 0, "a line was cleared that may be being read");
    for (int taken = 0; taken < HC_SHM_RING_LINES - 1; taken++)
        cr_assert(pop(&len, &mark) && len == 8);
}

Test(shm_ring, burst_clears_no_more_than_the_next_header_where_that_suits)
{
    uint32_t len;
    unsigned char mark;
    out.ahead = 0;
    while (push(8, 3))
        cr_assert(out.clear - out.pos == 1, "%u headers are clear", out.clear - out.pos);
    for (int taken = 0; taken < HC_SHM_RING_LINES - 1; taken++)
        cr_assert(pop(&len, &mark) && len == 8);
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

/* Messages of all lengths, several under way or none, through a ring of that size. */
static void send_all_lengths(uint32_t size, uint8_t ahead)
{
    uint32_t seed = 12345, next_in = 0, next_out = 0, sizes[HC_SHM_RING_LINES];
    use_ring(size);
    out.ahead = ahead;
    for (int round = 0; round < 200000; round++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t len = seed >> 30 ? (seed >> 8) % 200 : (seed >> 8) % (HC_SHM_INLINE_MAX + 1);
        if (seed >> 4 & 1 && push(len, (unsigned char)next_out)) {
            sizes[next_out++ % size] = len;
            continue;
        }
        unsigned char mark;
        if (!pop(&len, &mark))
            continue;
        cr_assert(mark == (unsigned char)next_in && len == sizes[next_in % size]);
        next_in++;
    }
    cr_assert(next_out > 10000 && next_out - next_in < size);
    for (uint32_t i = size; i < HC_SHM_RING_LINES; i++)
        cr_assert(atomic_load(&lines[i].header) == UINT64_MAX, "line %u is behind the ring's end", i);
}

Test(shm_ring, every_length_survives_every_position)
{
    send_all_lengths(HC_SHM_RING_LINES, HC_SHM_CLEAR_AHEAD);
}

Test(shm_ring, every_length_survives_without_clearing_ahead)
{
    send_all_lengths(HC_SHM_RING_LINES, 0);
}

Test(shm_ring, every_length_survives_in_the_shortest_ring)
{
    send_all_lengths(HC_SHM_RING_LEAST, HC_SHM_CLEAR_AHEAD);
}

Test(shm_ring, rings_of_many_peers_take_no_more_memory_than_those_of_a_few)
{
    cr_assert(hc_shm_ring_size(1) == HC_SHM_RING_LINES && hc_shm_ring_size(2) == HC_SHM_RING_LINES);
    for (uint32_t count = 1; count <= 4096; count++) {
        uint32_t size = hc_shm_ring_size(count);
        cr_assert(size >= HC_SHM_RING_LEAST && size <= HC_SHM_RING_LINES && (size & (size - 1)) == 0);
        cr_assert(size == HC_SHM_RING_LEAST || size * count <= HC_SHM_RING_LINES * HC_SHM_RINGS_LONG);
    }
}

Test(shm_ring, positions_may_overflow)
{
    uint32_t len;
    unsigned char mark;
    in.pos = in.published = out.pos = out.clear = UINT32_MAX - 100 - (UINT32_MAX - 100) % HC_SHM_RING_LINES;
    atomic_store(&head, in.pos);
    out.limit = in.pos + HC_SHM_RING_LINES - 1;
    const int count = 3 * HC_SHM_RING_LINES;
    for (int i = 0; i < count; i++) {
        cr_assert(push(8, (unsigned char)i));
        cr_assert(pop(&len, &mark) && mark == (unsigned char)i);
    }
    cr_assert(out.pos < (uint32_t)count);
}

/* The other side says that it has read everything. */
static void answer(void)
{
    back.heard = hc_shm_stamp(hc_shm_life(2), in.pos);
}

/* Exchange a message of `len` bytes and its answer, and tell at which line it lay. */
static uint32_t exchange(uint32_t len, unsigned char mark)
{
    uint32_t got, at;
    unsigned char seen;
    cr_assert(push(len, mark));
    at = in.pos & (HC_SHM_RING_LINES - 1);
    cr_assert(pop(&got, &seen) && got == len && seen == mark);
    answer();
    return at;
}

Test(shm_ring, questions_and_answers_stay_where_they_are)
{
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t at = exchange(8, 1);
        cr_assert(at == (i < HC_SHM_CALM_MIN + 1 ? i : HC_SHM_CALM_MIN + 1), "message %u at line %u", i, at);
    }
}

Test(shm_ring, lengths_may_change_while_staying)
{
    uint32_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        (void)exchange((seed >> 8) % (HC_SHM_INLINE_MAX + 1), 1);
        if (seed >> 28 == 0)
            back.heard = 0; /* as if the answer had come before the question was read */
    }
}

Test(shm_ring, record_that_stays_is_not_overwritten_before_it_is_read)
{
    uint32_t len;
    unsigned char mark;
    for (int i = 0; i < 100; i++)
        (void)exchange(8, 1);
    cr_assert(push(8, 1));
    cr_assert(!push(9, 1), "the other side has not read the one before");
    cr_assert(pop(&len, &mark) && len == 8);
    cr_assert(!pop(&len, &mark), "a record was taken twice");
    cr_assert(push(9, 1), "without an answer, too");
    cr_assert(pop(&len, &mark) && len == 9);
}

Test(shm_ring, another_kind_of_message_does_not_stay)
{
    for (int i = 0; i < 100; i++)
        (void)exchange(8, 1);
    uint32_t at = exchange(8, 1);
    cr_assert(exchange(8, 2) == at);
    cr_assert(push(8, 1));
    cr_assert(push(8, 1), "it was only in between");
}

Test(shm_ring, who_stayed_too_soon_hesitates)
{
    uint32_t len, refused = 0;
    unsigned char mark;
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 20; i++)
            (void)exchange(8, 1);
        cr_assert(push(8, 1));
        refused += !push(8, 1);
        while (pop(&len, &mark))
            continue;
        answer();
    }
    cr_assert(refused > 0 && refused < 200, "%u refused", refused);
}

Test(shm_ring, stream_after_staying_overwrites_nothing)
{
    uint32_t seed = 1, len;
    unsigned char mark, next_out = 0, next_in = 0;
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 40; i++) {
            (void)exchange(8, next_out);
        }
        while (push((seed = seed * 1664525u + 1013904223u) >> 21, next_out))
            next_out++;
        while (pop(&len, &mark))
            cr_assert(mark == next_in++);
        cr_assert(next_in == next_out);
        answer();
    }
}

Test(shm_ring, without_answers_it_goes_all_the_way_round)
{
    uint32_t len, highest = 0;
    unsigned char mark;
    for (int i = 0; i < 5000; i++) {
        cr_assert(push(8, (unsigned char)i));
        highest = (in.pos & (HC_SHM_RING_LINES - 1)) > highest ? in.pos & (HC_SHM_RING_LINES - 1) : highest;
        cr_assert(pop(&len, &mark) && mark == (unsigned char)i);
    }
    cr_assert(highest == (HC_SHM_RING_LINES - 1));
}

Test(shm_ring, old_stamp_gives_no_room)
{
    uint32_t len, first = 0, last = 0;
    unsigned char mark;
    (void)exchange(8, 1);
    for (int round = 0; round < 3000; round++) {
        while (push(300, (unsigned char)first))
            first++;
        cr_assert(pop(&len, &mark) && mark == (unsigned char)last++, "an unread record was overwritten");
    }
}

Test(shm_ring, stamp_of_another_life_tells_nothing)
{
    while (push(8, 1))
        continue;
    back.heard = hc_shm_stamp(hc_shm_life(4), out.pos);
    cr_assert(!push(8, 1));
    back.heard = hc_shm_stamp(0, out.pos);
    cr_assert(!push(8, 1));
    back.heard = hc_shm_stamp(hc_shm_life(2), out.pos);
    cr_assert(push(8, 1), "a stamp gives room");
}

Test(shm_ring, records_carry_a_stamp_of_the_ring_the_other_way)
{
    back.life = hc_shm_life(6);
    back.pos = 5000;
    cr_assert(push(8, 1));
    hc_shm_consumer_hear(&in, hc_shm_peek(&in));
    cr_assert(in.heard == hc_shm_stamp(hc_shm_life(6), 5000));
}

Test(shm_ring, malformed_headers_are_recognised)
{
    cr_assert(hc_shm_record_lines(&in, hc_shm_header(HC_SHM_INLINE, 0, HC_SHM_INLINE_MAX + 1)) == 0);
    cr_assert(hc_shm_record_lines(&in, hc_shm_header(HC_SHM_INLINE, 0, UINT32_MAX)) == 0);
    cr_assert(hc_shm_record_lines(&in, UINT64_C(7) << HC_SHM_KIND_SHIFT) == 0);
    cr_assert(hc_shm_record_lines(&in, UINT64_MAX) == 0);
    cr_assert(hc_shm_record_lines(&in, 1) == 0);
    cr_assert(hc_shm_record_lines(&in, HC_SHM_STAY | hc_shm_header(HC_SHM_INLINE, 0, UINT32_MAX)) == 0);
    cr_assert(hc_shm_record_lines(&in, HC_SHM_TURN | hc_shm_header(HC_SHM_INLINE, 0, 8)) == 1);
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
