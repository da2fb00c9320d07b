/* The ring of the provider npu, both ends in one process. */
#include "transports/npu/ring.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 8192, LIFE = 7 };

static struct npu_record *lines;
static _Atomic uint32_t head;
static struct npu_ring_writer out;
static struct npu_ring_reader in;
static struct npu_ring_reader back; /* of the ring the other way */

static void setup(void)
{
    const size_t size = NPU_RING_LINES * sizeof(*lines);
    lines = aligned_alloc(NPU_LINE, size);
    cr_assert(lines);
    memset(lines, 0xff, size); /* as bad as old payload can be */
    atomic_store(&lines[0].word, 0);
    atomic_store(&head, 0);
    back = (struct npu_ring_reader){0};
    npu_ring_writer_init(&out, lines, &head, LIFE);
    out.back = &back;
    npu_ring_reader_init(&in, lines, &head, LIFE);
}

static void teardown(void)
{
    free(lines);
}

TestSuite(npu_ring, .init = setup, .fini = teardown);

static bool push_as(uint32_t len, unsigned char mark, bool may_stay)
{
    uint32_t count = npu_eager_lines(len);
    struct npu_record *record = npu_ring_reserve(&out, count);
    if (!record)
        return false;
    record->tag = mark;
    memset(npu_eager_payload(record, len), mark, len);
    uint64_t word = npu_record_word(NPU_RECORD_EAGER, NPU_RECORD_TAGGED, len);
    if (may_stay)
        npu_ring_publish_staying(&out, record, count, word);
    else
        npu_ring_publish(&out, record, count, word);
    return true;
}

static bool push(uint32_t len, unsigned char mark)
{
    return push_as(len, mark, true);
}

/* Take the next message, skipping pads; false: there is none. */
static bool pop(uint32_t *len, unsigned char *mark)
{
    uint64_t word = npu_ring_peek(&in);
    if (word && npu_record_kind(word) == NPU_RECORD_PAD) {
        cr_assert(npu_ring_fits(&in, npu_record_len(word)));
        npu_ring_consume(&in, npu_record_len(word), word);
        word = npu_ring_peek(&in);
    }
    if (!word)
        return false;
    cr_assert(npu_record_kind(word) == NPU_RECORD_EAGER && npu_record_flags(word) == NPU_RECORD_TAGGED);
    struct npu_record *record = npu_ring_at(&in);
    *len = npu_record_len(word);
    *mark = (unsigned char)record->tag;
    for (uint32_t i = 0; i < *len; i++)
        cr_assert(npu_eager_payload(record, *len)[i] == *mark, "byte %u of a message is wrong", i);
    npu_ring_consume(&in, npu_eager_lines(*len), word);
    return true;
}

/* The other side says how far it has read. */
static void answer(void)
{
    back.heard = npu_ring_stamp(LIFE, in.pos);
}

/* A message and its answer; returns at which line it lay. */
static uint32_t exchange(uint32_t len, unsigned char mark)
{
    uint32_t got;
    unsigned char seen;
    cr_assert(push(len, mark));
    uint32_t at = in.pos & NPU_RING_MASK;
    cr_assert(pop(&got, &seen) && got == len && seen == mark);
    answer();
    return at;
}

static uint32_t next_random(uint32_t *seed)
{
    return *seed = *seed * 1664525U + 1013904223U;
}

Test(npu_ring, full_ring_refuses_and_recovers)
{
    uint32_t count = 0, taken = 0, len;
    unsigned char mark;
    while (push(8, (unsigned char)count))
        count++;
    cr_assert(count == NPU_RING_LINES - 1, "%u messages fitted", count);
    while (pop(&len, &mark))
        cr_assert(mark == (unsigned char)taken++);
    cr_assert(taken == count && push(LONGEST, 1));
}

Test(npu_ring, words_keep_what_they_are_given)
{
    uint64_t word = npu_record_word(NPU_RECORD_RMA, 0xff, NPU_LEN_MAX) | NPU_RECORD_STAY | NPU_RECORD_TURN |
                    (uint64_t)npu_ring_stamp(0xabcd, 0x54321) << 16;
    cr_assert(npu_record_kind(word) == NPU_RECORD_RMA && npu_record_flags(word) == 0xff);
    cr_assert(npu_record_len(word) == NPU_LEN_MAX && npu_record_stamp(word) == 0xabcd4321);
}

Test(npu_ring, questions_and_answers_stay_where_they_are)
{
    for (uint32_t i = 0; i < 5000; i++) {
        uint32_t at = exchange(8, (unsigned char)i);
        uint32_t expected = i < NPU_CALM_MIN + 1 ? i : NPU_CALM_MIN + 1;
        cr_assert(at == expected, "message %u at line %u", i, at);
    }
}

Test(npu_ring, equal_messages_are_told_apart)
{
    uint32_t len;
    unsigned char mark;
    for (int i = 0; i < 100; i++) {
        (void)exchange(8, 1);
        cr_assert(!pop(&len, &mark), "message %d was taken twice", i);
    }
}

Test(npu_ring, message_that_stays_is_not_overwritten_before_it_is_read)
{
    uint32_t len;
    unsigned char mark;
    for (int i = 0; i < 100; i++)
        (void)exchange(8, 1);
    cr_assert(push(8, 1));
    cr_assert(!push(9, 1), "the other side has not read the one before");
    cr_assert(pop(&len, &mark) && len == 8);
    cr_assert(push(9, 1), "without an answer, too");
    cr_assert(pop(&len, &mark) && len == 9);
}

Test(npu_ring, who_stayed_too_soon_hesitates)
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

Test(npu_ring, everything_arrives_once_and_in_order)
{
    uint32_t seed = 1, len;
    unsigned char mark, sent = 0, taken = 0;
    for (int round = 0; round < 20000; round++) {
        uint32_t burst = next_random(&seed) >> 28 == 0 ? 300 : 1;
        for (uint32_t i = 0; i < burst; i++) {
            uint32_t random = next_random(&seed) >> 8;
            if (push_as(random % 5 ? random % 200 : random % (LONGEST + 1), sent, random >> 16 & 31))
                sent++;
        }
        while (pop(&len, &mark))
            cr_assert(mark == taken++);
        cr_assert(taken == sent);
        if (next_random(&seed) >> 29)
            answer();
    }
}

Test(npu_ring, without_answers_it_goes_all_the_way_round)
{
    uint32_t len, highest = 0;
    unsigned char mark;
    for (int i = 0; i < 200000; i++) { /* longer than a stamp can tell */
        cr_assert(push(8, (unsigned char)i));
        highest = (in.pos & NPU_RING_MASK) > highest ? in.pos & NPU_RING_MASK : highest;
        cr_assert(pop(&len, &mark) && mark == (unsigned char)i);
    }
    cr_assert(highest == NPU_RING_MASK && !out.staying);
}

Test(npu_ring, old_stamp_gives_no_room)
{
    uint32_t first = 0, last = 0, len;
    unsigned char mark;
    (void)exchange(8, 1);
    for (int round = 0; round < 100000; round++) {
        while (push(300, (unsigned char)first))
            first++;
        cr_assert(pop(&len, &mark) && mark == (unsigned char)last++, "an unread message was overwritten");
    }
}

Test(npu_ring, stamp_of_another_ring_lets_nothing_stay)
{
    uint32_t len;
    unsigned char mark;
    for (int i = 0; i < 5000; i++) {
        cr_assert(push(8, 1) && pop(&len, &mark));
        back.heard = npu_ring_stamp(LIFE + i % 2 + 1, in.pos);
        cr_assert(!out.staying);
    }
}

Test(npu_ring, without_a_ring_the_other_way_nothing_stays)
{
    uint32_t len;
    unsigned char mark;
    out.back = NULL;
    for (int i = 0; i < 5000; i++) {
        cr_assert(push(8, 1));
        cr_assert(npu_record_stamp(npu_ring_peek(&in)) == 0 && !out.staying);
        cr_assert(pop(&len, &mark));
    }
}

Test(npu_ring, records_carry_a_stamp_of_the_ring_the_other_way)
{
    npu_ring_reader_init(&back, NULL, NULL, 9);
    back.pos = 70000;
    cr_assert(push(8, 1));
    npu_ring_hear(&in, npu_ring_peek(&in));
    cr_assert(in.heard == npu_ring_stamp(9, 70000));
}

Test(npu_ring, positions_may_overflow)
{
    in.pos = in.published = out.pos = UINT32_MAX - UINT32_MAX % NPU_RING_LINES - NPU_RING_LINES;
    atomic_store(&head, in.pos);
    out.limit = in.pos + NPU_RING_LINES - 1;
    for (int i = 0; i < 3000; i++)
        (void)exchange((uint32_t)i % 100, (unsigned char)i);
    cr_assert(out.pos < 3000 * NPU_RING_LINES);
}

Test(npu_ring, lying_reader_gives_no_room)
{
    while (push(8, 1))
        continue;
    atomic_store(&head, out.pos + 1);
    cr_assert(!push(8, 1), "it claims to have read what was not written");
    atomic_store(&head, out.pos - NPU_RING_LINES);
    cr_assert(!push(8, 1));
}
