/* Messages and tagged messages after fi_msg(3), fi_tagged(3), fi_cq(3): each case opens its own pair. */
#include "tests/npu/npu.h"

static const struct pair_options usual = {0};

static void sizes_arrive_unchanged_posted_before_and_after(void)
{
    static const size_t sizes[] = {0,    1,    31,   32,    33,    64,     1000,    4096,    8191,
                                   8192, 8193, 9000, 65536, 70001, 131073, 1048576, 1048577, 3000001};
    struct pair pair;
    char *out = malloc(3000001), *in = malloc(3000001);
    check(out && in);
    pair_open(&pair, &usual);
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fi_cq_tagged_entry entry;
        size_t len = sizes[i / 2];
        bool late = i % 2;
        fill(out, len, (unsigned)i);
        memset(in, 0, len);
        if (!late)
            check_is(fi_trecv(pair.b.ep, in, len, NULL, FI_ADDR_UNSPEC, i, 0, &pair), 0);
        check_is(fi_tsend(pair.a.ep, out, len, NULL, pair.a.peer, i, &out), 0);
        for (int turn = 0; late && turn < 100; turn++)
            check_is(fi_cq_read(pair.b.cq, NULL, 0), -FI_EAGAIN);
        if (late)
            check_is(fi_trecv(pair.b.ep, in, len, NULL, FI_ADDR_UNSPEC, i, 0, &pair), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.op_context == &pair && entry.len == len && entry.tag == i);
        check(entry.flags == (FI_TAGGED | FI_RECV));
        check(is_filled(in, len, (unsigned)i));
        await(&pair, &pair.a, &entry, NULL);
        check(entry.op_context == &out && entry.flags == (FI_TAGGED | FI_SEND));
    }
    pair_close(&pair);
    free(out);
    free(in);
}

static void pieces_are_gathered_and_scattered(void)
{
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char out[3][5000], in[4][5000];
    struct iovec from[3], to[4];
    pair_open(&pair, &usual);
    for (size_t total = 3; total <= 15000; total += 4999) {
        for (unsigned i = 0; i < 3; i++) {
            from[i] = (struct iovec){out[i], total / 3};
            fill(out[i], total / 3, i);
        }
        for (unsigned i = 0; i < 4; i++)
            to[i] = (struct iovec){in[i], total / 4 + 1};
        check_is(fi_recvv(pair.b.ep, to, NULL, 4, FI_ADDR_UNSPEC, NULL), 0);
        check_is(fi_sendv(pair.a.ep, from, NULL, 3, pair.a.peer, NULL), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.len == total / 3 * 3);
        for (size_t i = 0; i < entry.len; i++)
            check(in[i / (total / 4 + 1)][i % (total / 4 + 1)] == out[i / (total / 3)][i % (total / 3)]);
        await(&pair, &pair.a, &entry, NULL);
    }
    struct iovec many[16] = {{0}};
    check_is(fi_sendv(pair.a.ep, many, NULL, 16, pair.a.peer, NULL), -FI_EINVAL);
    pair_close(&pair);
}

static void long_messages_in_pieces_arrive(void)
{
    enum { PIECES = 3, EACH = 200001 };
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char *out = malloc((size_t)PIECES * EACH), *in = malloc((size_t)PIECES * EACH);
    struct iovec from[PIECES], to[2] = {{in, 300000}, {in + 300000, (size_t)PIECES * EACH - 300000}};
    check(out && in);
    pair_open(&pair, &usual);
    fill(out, (size_t)PIECES * EACH, 5);
    for (unsigned i = 0; i < PIECES; i++)
        from[i] = (struct iovec){out + (size_t)i * EACH, EACH};
    for (unsigned count = 1; count <= 2; count++) { /* pieces of the receiver: to one the sender may write */
        if (count == 1)
            to[0].iov_len = (size_t)PIECES * EACH;
        else
            to[0].iov_len = 300000;
        memset(in, 0, (size_t)PIECES * EACH);
        check_is(fi_recvv(pair.b.ep, to, NULL, count, FI_ADDR_UNSPEC, NULL), 0);
        check_is(fi_sendv(pair.a.ep, from, NULL, PIECES, pair.a.peer, NULL), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.len == (size_t)PIECES * EACH && is_filled(in, entry.len, 5));
        await(&pair, &pair.a, &entry, NULL);
    }
    pair_close(&pair);
    free(out);
    free(in);
}

/* Announce more long messages than fit anywhere, and take them from the last one on. */
static void a_long_message_is_found_behind_many_unmatched_ones(void)
{
    enum { MANY = 700, LEN = 9000 };
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char *out = malloc(LEN), *in = malloc(LEN);
    check(out && in);
    pair_open(&pair, &usual);
    fill(out, LEN, 1);
    for (unsigned i = 0; i < MANY; i++)
        check_is(fi_tsend(pair.a.ep, out, LEN, NULL, pair.a.peer, i, out), 0);
    for (unsigned i = MANY; i-- > 0;) {
        memset(in, 0, LEN);
        check_is(fi_trecv(pair.b.ep, in, LEN, NULL, FI_ADDR_UNSPEC, i, 0, in), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.tag == i && entry.len == LEN && is_filled(in, LEN, 1));
    }
    for (unsigned i = 0; i < MANY; i++)
        await(&pair, &pair.a, &entry, NULL);
    pair_close(&pair);
    free(out);
    free(in);
}

/* The receiver answers all before the sender reads any answer. */
static void answers_wait_for_a_sender_that_does_not_read_them(void)
{
    enum { MANY = 700 };
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char out = 1, in[MANY];
    struct iovec iov = {&out, 1};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1};
    pair_open(&pair, &usual);
    msg.addr = pair.a.peer;
    for (unsigned i = 0; i < MANY; i++) {
        check_is(fi_recv(pair.b.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
        check_is(fi_sendmsg(pair.a.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION), 0);
    }
    for (unsigned i = 0; i < MANY; i++)
        while (fi_cq_read(pair.b.cq, &entry, 1) != 1)
            continue;
    for (unsigned i = 0; i < MANY; i++)
        await(&pair, &pair.a, &entry, NULL);
    check_quiet(&pair);
    pair_close(&pair);
}

static void sends_beyond_the_declared_size_are_put_off(void)
{
    struct pair_options options = {.size = 64};
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char *out = calloc(1, 20000), *in = malloc(20000);
    unsigned posted = 0;
    pair_open(&pair, &options);
    while (fi_tsend(pair.a.ep, out, 20000, NULL, pair.a.peer, posted, NULL) == 0)
        posted++;
    check(posted >= pair.info->tx_attr->size && posted < 2 * pair.info->tx_attr->size);
    check_is(fi_tsend(pair.a.ep, out, 20000, NULL, pair.a.peer, 0, NULL), -FI_EAGAIN);
    for (unsigned i = posted; i-- > 0;) {
        check_is(fi_trecv(pair.b.ep, in, 20000, NULL, FI_ADDR_UNSPEC, i, 0, NULL), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.tag == i);
    }
    for (unsigned i = 0; i < posted; i++)
        await(&pair, &pair.a, &entry, NULL);
    check_is(fi_tsend(pair.a.ep, out, 20000, NULL, pair.a.peer, 0, NULL), 0);
    pair_close(&pair);
    free(out);
    free(in);
}

static void injected_buffers_may_change_at_once_and_complete_silently(void)
{
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char out[512], in[512];
    pair_open(&pair, &usual);
    for (unsigned i = 0; i < 50; i++) {
        fill(out, sizeof(out), i);
        check_is(fi_inject(pair.a.ep, out, sizeof(out), pair.a.peer), 0);
        memset(out, 0, sizeof(out));
    }
    for (unsigned i = 0; i < 50; i++) {
        check_is(fi_recv(pair.b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(is_filled(in, sizeof(in), i));
    }
    check_quiet(&pair);
    char *big = calloc(1, pair.info->tx_attr->inject_size + 1);
    check_is(fi_inject(pair.a.ep, big, pair.info->tx_attr->inject_size + 1, pair.a.peer), -FI_EINVAL);
    free(big);
    pair_close(&pair);
}

static void remote_data_and_source_are_told(void)
{
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    fi_addr_t source = 0;
    char out = 1, in = 0;
    pair_open(&pair, &usual);
    check_is(fi_recv(pair.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    check_is(fi_senddata(pair.a.ep, &out, 1, NULL, 0x1122334455667788, pair.a.peer, NULL), 0);
    await(&pair, &pair.b, &entry, &source);
    check(entry.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA) && entry.data == 0x1122334455667788);
    check(source == pair.b.peer);
    check_is(fi_av_remove(pair.b.av, &pair.b.peer, 1, 0), 0);
    check_is(fi_recv(pair.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    check_is(fi_tinjectdata(pair.a.ep, &out, 1, 7, pair.a.peer, 9), 0);
    check_is(fi_inject(pair.a.ep, &out, 1, pair.a.peer), 0);
    await(&pair, &pair.b, &entry, &source);
    check(entry.flags == (FI_MSG | FI_RECV) && source == FI_ADDR_NOTAVAIL);
    pair_close(&pair);
}

static void unknown_sources_are_errors_with_their_address(void)
{
    struct pair pair;
    struct fi_cq_err_entry error;
    struct pair_options options = {.caps = FI_MSG | FI_SOURCE | FI_SOURCE_ERR};
    char name[64], in = 0, out = 5;
    size_t len = sizeof(name);
    pair_open(&pair, &options);
    check_is(fi_getname(&pair.a.ep->fid, name, &len), 0);
    check_is(fi_av_remove(pair.b.av, &pair.b.peer, 1, 0), 0);
    check_is(fi_recv(pair.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in), 0);
    check_is(fi_inject(pair.a.ep, &out, 1, pair.a.peer), 0);
    await_error(&pair, &pair.b, &error);
    check(error.err == FI_EADDRNOTAVAIL && error.op_context == &in && in == 5);
    check(error.err_data_size == len && memcmp(error.err_data, name, len) == 0);
    pair_close(&pair);
}

static void directed_receives_take_only_their_source(void)
{
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char from_a = 'a', from_b = 'b', in[2] = "";
    pair_open(&pair, &usual);
    check_is(fi_recv(pair.b.ep, &in[0], 1, NULL, pair.b.self, &in[0]), 0);
    check_is(fi_recv(pair.b.ep, &in[1], 1, NULL, pair.b.peer, &in[1]), 0);
    check_is(fi_inject(pair.a.ep, &from_a, 1, pair.a.peer), 0);
    await(&pair, &pair.b, &entry, NULL);
    check(entry.op_context == &in[1] && in[1] == 'a');
    check_is(fi_inject(pair.b.ep, &from_b, 1, pair.b.self), 0);
    await(&pair, &pair.b, &entry, NULL);
    check(entry.op_context == &in[0] && in[0] == 'b');
    pair_close(&pair);
}

static void a_message_too_long_is_cut_and_the_next_is_fine(void)
{
    static const size_t sizes[] = {100, 9000, 500000, 3000000};
    struct pair pair;
    char *out = malloc(3000000), *in = malloc(3000000);
    pair_open(&pair, &usual);
    fill(out, 3000000, 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error;
        memset(in, 0, 3000000);
        check_is(fi_recv(pair.b.ep, in, 60, NULL, FI_ADDR_UNSPEC, in), 0);
        check_is(fi_send(pair.a.ep, out, sizes[i], NULL, pair.a.peer, out), 0);
        await_error(&pair, &pair.b, &error);
        check(error.err == FI_ETRUNC && error.op_context == in && error.len == 60);
        check(error.olen == sizes[i] - 60 && is_filled(in, 60, 1) && in[60] == 0);
        await(&pair, &pair.a, &entry, NULL);
        check_is(fi_recv(pair.b.ep, in, sizes[i], NULL, FI_ADDR_UNSPEC, in), 0);
        check_is(fi_send(pair.a.ep, out, sizes[i], NULL, pair.a.peer, out), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.len == sizes[i] && is_filled(in, sizes[i], 1));
        await(&pair, &pair.a, &entry, NULL);
    }
    pair_close(&pair);
    free(out);
    free(in);
}

static void tags_match_with_their_ignored_bits_in_order(void)
{
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char out = 1, in[3];
    pair_open(&pair, &usual);
    check_is(fi_trecv(pair.b.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, 0x10, 0, &in[0]), 0);
    check_is(fi_trecv(pair.b.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, 0x20, 0xf, &in[1]), 0);
    check_is(fi_trecv(pair.b.ep, &in[2], 1, NULL, FI_ADDR_UNSPEC, 0, ~UINT64_C(0), &in[2]), 0);
    check_is(fi_tinject(pair.a.ep, &out, 1, pair.a.peer, 0x2a), 0);
    check_is(fi_tinject(pair.a.ep, &out, 1, pair.a.peer, 0x2b), 0);
    check_is(fi_tinject(pair.a.ep, &out, 1, pair.a.peer, 0x10), 0);
    await(&pair, &pair.b, &entry, NULL);
    check(entry.op_context == &in[1] && entry.tag == 0x2a);
    await(&pair, &pair.b, &entry, NULL);
    check(entry.op_context == &in[2] && entry.tag == 0x2b);
    await(&pair, &pair.b, &entry, NULL);
    check(entry.op_context == &in[0] && entry.tag == 0x10);
    pair_close(&pair);
}

static void multi_receive_packs_messages_and_gives_the_buffer_back(void)
{
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char buffer[1000], out[300];
    struct iovec iov = {buffer, sizeof(buffer)};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buffer};
    size_t least = 150, len = sizeof(least), used = 0;
    pair_open(&pair, &usual);
    check_is(fi_setopt(&pair.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, len), 0);
    check_is(fi_recvmsg(pair.b.ep, &msg, FI_MULTI_RECV), 0);
    for (unsigned i = 0; i < 3; i++) {
        fill(out, sizeof(out), i);
        check_is(fi_inject(pair.a.ep, out, sizeof(out), pair.a.peer), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.op_context == buffer && entry.buf == buffer + used && entry.len == sizeof(out));
        check(is_filled(entry.buf, sizeof(out), i));
        used += entry.len;
        bool last = i == 2; /* 100 bytes are left, less than the least */
        check(!(entry.flags & FI_MULTI_RECV) == !last);
    }
    check_is(fi_inject(pair.a.ep, out, 1, pair.a.peer), 0);
    check_quiet(&pair);
    pair_close(&pair);
}

static void multi_receive_takes_long_messages_too(void)
{
    enum { LEN = 300000 };
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char *buffer = malloc(3 * LEN), *out = malloc(LEN);
    struct iovec iov = {buffer, 3 * LEN};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buffer};
    check(buffer && out);
    pair_open(&pair, &usual);
    check_is(fi_recvmsg(pair.b.ep, &msg, FI_MULTI_RECV), 0);
    for (unsigned i = 0; i < 3; i++) {
        fill(out, LEN, i);
        check_is(fi_send(pair.a.ep, out, LEN, NULL, pair.a.peer, out), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.op_context == buffer && entry.buf == buffer + (size_t)i * LEN && entry.len == LEN);
        check(is_filled(entry.buf, LEN, i) && !(entry.flags & FI_MULTI_RECV) == (i < 2));
        await(&pair, &pair.a, &entry, NULL);
        check(entry.op_context == out);
    }
    pair_close(&pair);
    free(buffer);
    free(out);
}

static ssize_t peek(struct pair *pair, uint64_t tag, uint64_t flags, struct fi_context *context)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = context};
    return fi_trecvmsg(pair->b.ep, &msg, FI_PEEK | flags);
}

static void a_peek_finds_claims_and_discards(void)
{
    static const size_t sizes[] = {100, 20000, 2000000};
    struct pair pair;
    char *out = malloc(2000000), *in = malloc(2000000);
    struct fi_context context;
    pair_open(&pair, &usual);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error;
        size_t len = sizes[i];
        struct iovec iov = {in, len};
        struct fi_msg_tagged msg = {
            .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 5, .context = &context};
        fill(out, len, 3);
        check_is(peek(&pair, 5, 0, &context), 0);
        await_error(&pair, &pair.b, &error);
        check(error.err == FI_ENOMSG && error.op_context == &context);
        for (int n = 0; n < 3; n++)
            check_is(fi_tsend(pair.a.ep, out, len, NULL, pair.a.peer, 5, NULL), 0);
        check_is(peek(&pair, 5, 0, &context), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.len == len && entry.tag == 5 && entry.buf == NULL);
        check_is(peek(&pair, 5, FI_DISCARD, &context), 0);
        await(&pair, &pair.b, &entry, NULL);
        check_is(peek(&pair, 5, FI_CLAIM, &context), 0);
        await(&pair, &pair.b, &entry, NULL);
        check_is(fi_trecvmsg(pair.b.ep, &msg, FI_CLAIM), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(entry.len == len && is_filled(in, len, 3) && entry.op_context == &context);
        check_is(peek(&pair, 5, FI_CLAIM, &context), 0);
        await(&pair, &pair.b, &entry, NULL);
        check_is(fi_trecvmsg(pair.b.ep, &msg, FI_CLAIM | FI_DISCARD), 0);
        await(&pair, &pair.b, &entry, NULL);
        check_is(fi_trecvmsg(pair.b.ep, &msg, FI_CLAIM), -FI_EINVAL);
        for (int n = 0; n < 3; n++)
            await(&pair, &pair.a, &entry, NULL);
        check_quiet(&pair);
    }
    pair_close(&pair);
    free(out);
    free(in);
}

static void cancelled_receives_report_it_and_match_no_more(void)
{
    struct pair pair;
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry entry;
    char in[2] = "", out = 'x';
    pair_open(&pair, &usual);
    check_is(fi_trecv(pair.b.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in[0]), 0);
    check_is(fi_trecv(pair.b.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in[1]), 0);
    check_is(fi_cancel(&pair.b.ep->fid, &in[0]), 0);
    await_error(&pair, &pair.b, &error);
    check(error.err == FI_ECANCELED && error.op_context == &in[0]);
    check_is(fi_tinject(pair.a.ep, &out, 1, pair.a.peer, 1), 0);
    await(&pair, &pair.b, &entry, NULL);
    check(entry.op_context == &in[1] && in[0] == 0);
    check_is(fi_cancel(&pair.b.ep->fid, &in[1]), 0); /* nothing to cancel, nothing reported */
    check_quiet(&pair);
    pair_close(&pair);
}

static void delivery_complete_waits_for_the_receive(void)
{
    static const size_t sizes[] = {0, 64, 8192, 50000, 3000000};
    struct pair pair;
    char *out = malloc(3000000), *in = malloc(3000000);
    pair_open(&pair, &usual);
    fill(out, 3000000, 9);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct fi_cq_tagged_entry entry;
        struct iovec iov = {out, sizes[i]};
        struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = pair.a.peer, .context = out};
        check_is(fi_sendmsg(pair.a.ep, &msg, FI_DELIVERY_COMPLETE), 0);
        check_quiet(&pair);
        check_is(fi_recv(pair.b.ep, in, sizes[i], NULL, FI_ADDR_UNSPEC, in), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(is_filled(in, sizes[i], 9));
        await(&pair, &pair.a, &entry, NULL);
        check(entry.op_context == out);
    }
    pair_close(&pair);
    free(out);
    free(in);
}

static void selective_completion_reports_what_asks_for_it(void)
{
    struct pair pair;
    struct pair_options options = {.bind = FI_SELECTIVE_COMPLETION};
    struct fi_cq_tagged_entry entry;
    char out = 'o', in = 0;
    struct iovec iov = {&out, 1}, to = {&in, 1};
    struct fi_msg send = {.msg_iov = &iov, .iov_count = 1, .context = &out};
    struct fi_msg recv = {.msg_iov = &to, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &in};
    pair_open(&pair, &options);
    send.addr = pair.a.peer;
    check_is(fi_recv(pair.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    check_is(fi_send(pair.a.ep, &out, 1, NULL, pair.a.peer, NULL), 0);
    check_quiet(&pair);
    check(in == 'o');
    check_is(fi_recvmsg(pair.b.ep, &recv, FI_COMPLETION), 0);
    check_is(fi_sendmsg(pair.a.ep, &send, FI_COMPLETION), 0);
    await(&pair, &pair.b, &entry, NULL);
    check(entry.op_context == &in);
    await(&pair, &pair.a, &entry, NULL);
    check(entry.op_context == &out);
    pair_close(&pair);
}

/* Send without a receive until the provider wants no more; then everything arrives, in order. */
static void a_flood_is_held_back_and_then_arrives(void)
{
    enum { LEN = 4000, MOST = 4000 };
    struct pair pair;
    struct fi_cq_tagged_entry entry;
    char *out = calloc(MOST, LEN), in[LEN];
    unsigned sent = 0;
    ssize_t rc = 0;
    pair_open(&pair, &usual);
    for (; sent < MOST && rc == 0; sent++) {
        fill(out + (size_t)sent * LEN, LEN, sent);
        rc = fi_send(pair.a.ep, out + (size_t)sent * LEN, LEN, NULL, pair.a.peer, NULL);
        ssize_t moved = fi_cq_read(pair.b.cq, NULL, 0);
        check(moved == 0 || moved == -FI_EAGAIN);
        while (rc == 0 && fi_cq_read(pair.a.cq, &entry, 1) == 1)
            continue;
    }
    check_is(rc, -FI_EAGAIN);
    sent--;
    check(sent >= pair.info->tx_attr->size);
    for (unsigned i = 0; i < sent; i++) {
        check_is(fi_recv(pair.b.ep, in, LEN, NULL, FI_ADDR_UNSPEC, NULL), 0);
        await(&pair, &pair.b, &entry, NULL);
        check(is_filled(in, LEN, i));
    }
    pair_close(&pair);
    free(out);
}

static void a_queue_takes_what_it_promises(void)
{
    enum { SIZE = 16 };
    struct pair pair;
    struct pair_options options = {.size = SIZE};
    char in[SIZE + 1], *out = calloc(SIZE, 1 << 20);
    pair_open(&pair, &options);
    for (int i = 0; i < SIZE; i++)
        check_is(fi_trecv(pair.b.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    check_is(fi_trecv(pair.b.ep, &in[SIZE], 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), -FI_EAGAIN);
    for (size_t i = 0; i < SIZE; i++)
        check_is(fi_send(pair.a.ep, out + (i << 20), 1 << 20, NULL, pair.a.peer, NULL), 0);
    pair_close(&pair); /* what is under way is dropped */
    free(out);
}

static void full_completion_queues_hold_back(void)
{
    enum { SIZE = 8 };
    struct pair pair;
    struct pair_options options = {.cq_size = SIZE};
    struct fi_cq_tagged_entry entry;
    char out = 1;
    ssize_t rc = 0;
    int sent = 0;
    pair_open(&pair, &options);
    while ((rc = fi_send(pair.a.ep, &out, 1, NULL, pair.a.peer, NULL)) == 0)
        sent++;
    check_is(rc, -FI_EAGAIN);
    check_is(sent, SIZE);
    for (int i = 0; i < SIZE; i++)
        check_is(fi_cq_read(pair.a.cq, &entry, 1), 1);
    check_is(fi_send(pair.a.ep, &out, 1, NULL, pair.a.peer, NULL), 0);
    pair_close(&pair);
}

static void an_alias_has_its_own_default_flags(void)
{
    struct pair pair;
    struct pair_options options = {.bind = FI_SELECTIVE_COMPLETION};
    struct fid_ep *alias = NULL;
    struct fi_cq_tagged_entry entry;
    uint64_t flags = FI_TRANSMIT;
    char out = 1;
    pair_open(&pair, &options);
    check_is(fi_ep_alias(pair.a.ep, &alias, FI_TRANSMIT | FI_COMPLETION), 0);
    check_is(fi_control(&alias->fid, FI_GETOPSFLAG, &flags), 0);
    check(flags == FI_COMPLETION);
    check_is(fi_send(alias, &out, 1, NULL, pair.a.peer, &out), 0);
    await(&pair, &pair.a, &entry, NULL);
    check(entry.op_context == &out);
    check_is(fi_send(pair.a.ep, &out, 1, NULL, pair.a.peer, &out), 0);
    check_quiet(&pair);
    check_is(fi_close(&pair.a.ep->fid), -FI_EBUSY);
    check_is(fi_close(&alias->fid), 0);
    pair_close(&pair);
}

static void wrong_use_is_refused_with_the_documented_code(void)
{
    struct pair pair;
    struct fid_ep *ep = NULL;
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1};
    pair_open(&pair, &usual);
    check_is(fi_endpoint(pair.domain, pair.info, &ep, NULL), 0);
    check_is(fi_send(ep, &byte, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
    check_is(fi_recv(ep, &byte, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
    check_is(fi_enable(ep), -FI_ENOAV);
    check_is(fi_ep_bind(ep, &pair.a.av->fid, 0), 0);
    check_is(fi_enable(ep), -FI_ENOCQ);
    check_is(fi_close(&pair.a.av->fid), -FI_EBUSY);
    check_is(fi_close(&ep->fid), 0);
    check_is(fi_close(&pair.a.cq->fid), -FI_EBUSY);
    check_is(fi_close(&pair.domain->fid), -FI_EBUSY);
    check_is(fi_close(&pair.fabric->fid), -FI_EBUSY);
    check_is(fi_send(pair.a.ep, &byte, 1, NULL, 77, NULL), -FI_EINVAL);
    msg.addr = pair.a.peer;
    check_is(fi_sendmsg(pair.a.ep, &msg, FI_FENCE), -FI_EBADFLAGS);
    check_is(fi_recvmsg(pair.a.ep, &msg, FI_PEEK), -FI_EBADFLAGS);
    pair_close(&pair);
    struct pair_options options = {.caps = FI_MSG | FI_SEND};
    pair_open(&pair, &options);
    check_is(fi_recv(pair.a.ep, &byte, 1, NULL, 0, NULL), -FI_EOPNOTSUPP);
    check_is(fi_tsend(pair.a.ep, &byte, 1, NULL, pair.a.peer, 0, NULL), -FI_EOPNOTSUPP);
    pair_close(&pair);
}

int main(void)
{
    sizes_arrive_unchanged_posted_before_and_after();
    pieces_are_gathered_and_scattered();
    long_messages_in_pieces_arrive();
    a_long_message_is_found_behind_many_unmatched_ones();
    answers_wait_for_a_sender_that_does_not_read_them();
    sends_beyond_the_declared_size_are_put_off();
    injected_buffers_may_change_at_once_and_complete_silently();
    remote_data_and_source_are_told();
    unknown_sources_are_errors_with_their_address();
    directed_receives_take_only_their_source();
    a_message_too_long_is_cut_and_the_next_is_fine();
    tags_match_with_their_ignored_bits_in_order();
    multi_receive_packs_messages_and_gives_the_buffer_back();
    multi_receive_takes_long_messages_too();
    a_peek_finds_claims_and_discards();
    cancelled_receives_report_it_and_match_no_more();
    delivery_complete_waits_for_the_receive();
    selective_completion_reports_what_asks_for_it();
    a_flood_is_held_back_and_then_arrives();
    a_queue_takes_what_it_promises();
    full_completion_queues_hold_back();
    an_alias_has_its_own_default_flags();
    wrong_use_is_refused_with_the_documented_code();
    puts("messages: all cases passed");
    return 0;
}
