/*
 * Sending and receiving: every call, every size around a limit, wildcards, the null rank, the own rank,
 * truncation, synchronous completion, order, fairness, arguments that are refused.
 */
#include "tests/multi/p2p_cases.h"

enum { TAG = 5, NEXT = 6 };

static int right(void)
{
    return (p2p_rank + 1) % p2p_size;
}

static int left(void)
{
    return (p2p_rank + p2p_size - 1) % p2p_size;
}

/* ---- each pair of calls, around a ring ---- */

static void around_with_sendrecv(void)
{
    unsigned char *out = p2p_room(P2P_SIZE_MAX), *in = p2p_room(P2P_SIZE_MAX);
    for (unsigned i = 0; i < P2P_SIZES; i++) {
        size_t size = p2p_sizes[i];
        hcomm_message_status_t status;
        p2p_fill(out, size, (unsigned)p2p_rank + i);
        CALL(hcomm_sendrecv(size ? out : NULL, size, right(), (int)i, size ? in : NULL, size, left(), (int)i,
                            p2p_world, &status));
        p2p_check_status(&status, left(), (int)i, size, HCOMM_OK);
        VERIFY(in, size, (unsigned)left() + i);
    }
    free(in);
    free(out);
}

/* Start a send by the given call. */
static hcomm_status_t start(int sync, const void *buf, size_t size, int dest, int tag,
                            hcomm_request_t *request)
{
    return sync ? hcomm_issend(buf, size, dest, tag, p2p_world, request)
                : hcomm_isend(buf, size, dest, tag, p2p_world, request);
}

static void exchange_nonblocking(int sync, int receive_first)
{
    unsigned char *out = p2p_room(P2P_SIZE_MAX), *in = p2p_room(P2P_SIZE_MAX);
    for (unsigned i = 0; i < P2P_SIZES; i++) {
        size_t size = p2p_sizes[i];
        hcomm_request_t requests[2];
        hcomm_message_status_t statuses[2];
        p2p_fill(out, size, (unsigned)p2p_rank + i);
        if (receive_first)
            CALL(hcomm_irecv(in, P2P_SIZE_MAX, left(), TAG, p2p_world, &requests[0]));
        CALL(start(sync, out, size, right(), TAG, &requests[1]));
        if (!receive_first)
            CALL(hcomm_irecv(in, size, left(), TAG, p2p_world, &requests[0]));
        CALL(hcomm_waitall(2, requests, statuses));
        CHECK(!requests[0] && !requests[1]);
        p2p_check_status(&statuses[0], left(), TAG, size, HCOMM_OK);
        CHECK(statuses[1].error == HCOMM_OK);
        VERIFY(in, size, (unsigned)left() + i);
    }
    free(in);
    free(out);
}

static void around_with_isend(void)
{
    exchange_nonblocking(0, 1);
    exchange_nonblocking(0, 0);
}

static void around_with_issend(void)
{
    exchange_nonblocking(1, 1);
    exchange_nonblocking(1, 0);
}

/* Even ranks send; what they wrote into the buffer after the call must not arrive. Sizes that are eager
 * everywhere are received only after that has happened; larger sends may wait for their receive. */
static void blocking_send_gives_the_buffer_back(void)
{
    hcomm_config_t config;
    CALL(hcomm_get_config(check_handle, &config));
    const size_t eager_everywhere = config.mode == HCOMM_MODE_LARGE_MSG ? 0 : 4096;
    unsigned char *buf = p2p_room(P2P_SIZE_MAX);
    int peer = p2p_rank ^ 1;
    for (unsigned i = 0; i < P2P_SIZES && peer < p2p_size; i++) {
        size_t size = p2p_sizes[i];
        if (p2p_rank % 2 == 0) {
            p2p_fill(buf, size, i);
            CALL(hcomm_send(buf, size, peer, TAG, p2p_world));
            memset(buf, 0xee, size);
            CALL(hcomm_send(NULL, 0, peer, NEXT, p2p_world));
            CALL(hcomm_recv(NULL, 0, peer, NEXT, p2p_world, NULL));
        } else {
            if (size <= eager_everywhere)
                CALL(hcomm_recv(NULL, 0, peer, NEXT, p2p_world, NULL));
            CALL(hcomm_recv(buf, size, peer, TAG, p2p_world, NULL));
            if (size > eager_everywhere)
                CALL(hcomm_recv(NULL, 0, peer, NEXT, p2p_world, NULL));
            VERIFY(buf, size, i);
            CALL(hcomm_send(NULL, 0, peer, NEXT, p2p_world));
        }
    }
    free(buf);
}

/* ---- own rank, null rank ---- */

static void messages_to_the_own_rank(void)
{
    unsigned char *out = p2p_room(P2P_SIZE_MAX), *in = p2p_room(P2P_SIZE_MAX);
    hcomm_comm_t comms[] = {p2p_world, hcomm_comm_self(check_handle)};
    for (unsigned i = 0; i < 2 * P2P_SIZES; i++) {
        hcomm_comm_t comm = comms[i % 2];
        size_t size = p2p_sizes[i / 2];
        int me = hcomm_comm_rank(comm);
        hcomm_request_t send, recv;
        hcomm_message_status_t status;
        p2p_fill(out, size, i);
        if (i % 4 < 2)
            CALL(hcomm_irecv(in, size, me, TAG, comm, &recv));
        CALL((i % 3 ? hcomm_isend : hcomm_issend)(out, size, me, TAG, comm, &send));
        if (i % 4 >= 2)
            CALL(hcomm_irecv(in, size, HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, comm, &recv));
        CALL(hcomm_wait(&recv, &status));
        CALL(hcomm_wait(&send, NULL));
        p2p_check_status(&status, me, TAG, size, HCOMM_OK);
        VERIFY(in, size, i);
        CALL(hcomm_sendrecv(out, size, me, TAG, in, size, me, TAG, comm, &status));
        p2p_check_status(&status, me, TAG, size, HCOMM_OK);
    }
    free(in);
    free(out);
}

static void check_null(const hcomm_message_status_t *status)
{
    p2p_check_status(status, HCOMM_RANK_NULL, HCOMM_ANY_TAG, 0, HCOMM_OK);
}

static void null_rank_completes_at_once(void)
{
    char byte = 'x';
    hcomm_request_t request;
    hcomm_message_t message = (hcomm_message_t)&byte;
    hcomm_message_status_t status = {0};
    CALL(hcomm_send(&byte, 1, HCOMM_RANK_NULL, TAG, p2p_world));
    CALL(hcomm_ssend(&byte, 1, HCOMM_RANK_NULL, TAG, p2p_world));
    CALL(hcomm_recv(&byte, 1, HCOMM_RANK_NULL, HCOMM_ANY_TAG, p2p_world, &status));
    check_null(&status);
    CALL(hcomm_issend(&byte, 1, HCOMM_RANK_NULL, TAG, p2p_world, &request));
    CALL(hcomm_test(&request, NULL));
    CHECK(!request);
    CALL(hcomm_irecv(&byte, 1, HCOMM_RANK_NULL, TAG, p2p_world, &request));
    CALL(hcomm_cancel(request));
    CALL(hcomm_wait(&request, &status));
    check_null(&status);
    CALL(hcomm_sendrecv(&byte, 1, HCOMM_RANK_NULL, TAG, &byte, 1, HCOMM_RANK_NULL, TAG, p2p_world, &status));
    check_null(&status);
    CALL(hcomm_probe(HCOMM_RANK_NULL, TAG, p2p_world, &status));
    check_null(&status);
    CALL(hcomm_iprobe(HCOMM_RANK_NULL, TAG, p2p_world, &status));
    CALL(hcomm_mprobe(HCOMM_RANK_NULL, TAG, p2p_world, &message, &status));
    check_null(&status);
    CHECK(message == HCOMM_MESSAGE_NULL);
    CHECK(byte == 'x');
}

/* The halves of sendrecv may be null independently: a shift that ends at the last rank. */
static void shift_with_null_ends(void)
{
    int up = p2p_rank + 1 < p2p_size ? p2p_rank + 1 : HCOMM_RANK_NULL;
    int down = p2p_rank > 0 ? p2p_rank - 1 : HCOMM_RANK_NULL;
    int got = -1;
    hcomm_message_status_t status;
    CALL(hcomm_sendrecv(&p2p_rank, sizeof(int), up, TAG, &got, sizeof(int), down, TAG, p2p_world, &status));
    CHECK(got == p2p_rank - 1 || (p2p_rank == 0 && got == -1));
    p2p_check_status(&status, down, down == HCOMM_RANK_NULL ? HCOMM_ANY_TAG : TAG, down < 0 ? 0 : sizeof(int),
                     HCOMM_OK);
}

/* ---- truncation ---- */

/* The receive has room for part of it; what lies behind the room stays, and the next message is whole. */
static void receive_short(unsigned char *buf, size_t size, size_t room, int posted, unsigned seed)
{
    hcomm_message_status_t status;
    hcomm_request_t request;
    memset(buf, 0x5a, size + 1);
    if (posted) {
        CALL(hcomm_irecv(buf, room, 0, TAG, p2p_world, &request));
        CALL(hcomm_send(NULL, 0, 0, NEXT, p2p_world));
        EXPECT(HCOMM_ERR_TRUNCATED, hcomm_wait(&request, &status));
        CHECK(!request);
    } else {
        CALL(hcomm_send(NULL, 0, 0, NEXT, p2p_world));
        CALL(hcomm_probe(0, TAG, p2p_world, &status));
        CHECK(status.size == size);
        EXPECT(HCOMM_ERR_TRUNCATED, hcomm_recv(buf, room, 0, TAG, p2p_world, &status));
    }
    CHECK(strstr(hcomm_error_detail(), "from rank 0") && strstr(hcomm_error_detail(), "tag 5"));
    p2p_check_status(&status, 0, TAG, size, HCOMM_ERR_TRUNCATED);
    VERIFY(buf, room, seed);
    for (size_t i = room; i <= size; i++)
        CHECK(buf[i] == 0x5a);
    CALL(hcomm_recv(buf, size, 0, TAG, p2p_world, &status));
    p2p_check_status(&status, 0, TAG, size, HCOMM_OK);
    VERIFY(buf, size, seed + 1);
}

static void send_twice(unsigned char *buf, size_t size, int sync, unsigned seed)
{
    CALL(hcomm_recv(NULL, 0, 1, NEXT, p2p_world, NULL));
    p2p_fill(buf, size, seed);
    CALL((sync ? hcomm_ssend : hcomm_send)(buf, size, 1, TAG, p2p_world));
    p2p_fill(buf, size, seed + 1);
    CALL(hcomm_send(buf, size, 1, TAG, p2p_world));
}

static void truncation_is_an_error_of_that_receive_only(void)
{
    unsigned char *buf = p2p_room(P2P_SIZE_MAX + 1);
    for (unsigned i = 1; i < P2P_SIZES && p2p_rank < 2; i++) {
        const size_t rooms[] = {0, p2p_sizes[i] / 2, p2p_sizes[i] - 1};
        for (unsigned k = 0; k < 6; k++) {
            if (p2p_rank == 0)
                send_twice(buf, p2p_sizes[i], (int)(i + k) % 2, i + k);
            else
                receive_short(buf, p2p_sizes[i], rooms[k % 3], k >= 3, i + k);
        }
    }
    free(buf);
}

/* ---- synchronous completion ---- */

static void ssend_returns_only_after_the_match(void)
{
    unsigned char *buf = p2p_room(P2P_SIZE_MAX);
    for (unsigned i = 0; i < P2P_SIZES && p2p_rank < 2; i += 2) {
        hcomm_request_t request;
        if (p2p_rank == 0) {
            CALL(hcomm_issend(buf, p2p_sizes[i], 1, TAG, p2p_world, &request));
            for (int k = 0; k < 100; k++)
                EXPECT(HCOMM_IN_PROGRESS, hcomm_test(&request, NULL));
            CALL(hcomm_sendrecv(NULL, 0, 1, NEXT, NULL, 0, 1, NEXT, p2p_world, NULL));
            EXPECT(HCOMM_IN_PROGRESS,
                   hcomm_test(&request, NULL)); /* the peer has seen it, but matched nothing */
            CALL(hcomm_send(NULL, 0, 1, NEXT, p2p_world));
            CALL(hcomm_wait(&request, NULL));
        } else {
            CALL(hcomm_probe(0, TAG, p2p_world, NULL));
            CALL(hcomm_sendrecv(NULL, 0, 0, NEXT, NULL, 0, 0, NEXT, p2p_world, NULL));
            CALL(hcomm_recv(NULL, 0, 0, NEXT, p2p_world, NULL));
            CALL(hcomm_recv(buf, p2p_sizes[i], 0, TAG, p2p_world, NULL));
        }
    }
    free(buf);
}

/* ---- order ---- */

enum { BURST = 400 };

static size_t burst_size(unsigned i)
{
    size_t size = p2p_sizes[(i * 7) % P2P_SIZES];
    return size > 300000 ? i : size;
}

/* Eager, rendezvous, gathered and synchronous messages mixed, one tag: they match in the order of the sends.
 */
static void messages_do_not_overtake(void)
{
    static hcomm_request_t requests[BURST];
    static unsigned char *bufs[BURST];
    hcomm_message_status_t status;
    for (unsigned i = 0; i < BURST && p2p_rank < 2; i++) {
        size_t size = burst_size(i);
        bufs[i] = p2p_room(size);
        if (p2p_rank == 0) {
            p2p_fill(bufs[i], size, i);
            CALL(start(i % 5 == 0, bufs[i], size, 1, TAG, &requests[i]));
        } else if (i % 3) { /* some are posted before, some met unexpected, by every kind of pattern */
            CALL(hcomm_irecv(bufs[i], size, i % 2 ? HCOMM_ANY_SOURCE : 0, i % 4 < 2 ? HCOMM_ANY_TAG : TAG,
                             p2p_world, &requests[i]));
        } else {
            CALL(hcomm_recv(bufs[i], size, i % 2 ? 0 : HCOMM_ANY_SOURCE, i % 4 < 2 ? TAG : HCOMM_ANY_TAG,
                            p2p_world, &status));
            p2p_check_status(&status, 0, TAG, size, HCOMM_OK);
        }
    }
    if (p2p_rank < 2)
        CALL(hcomm_waitall(BURST, requests, NULL));
    for (unsigned i = 0; i < BURST && p2p_rank < 2; i++) {
        VERIFY(bufs[i], burst_size(i), i);
        free(bufs[i]);
    }
}

enum { AHEAD = 160, AHEAD_SIZE = 16384, LATE_NS = 30000000 };

/* Buffers are the caller's again one by one, whatever of the later messages is still being read from theirs.
 */
static void send_ahead(void)
{
    static hcomm_request_t requests[AHEAD];
    unsigned char *bufs = p2p_room((size_t)AHEAD * AHEAD_SIZE);
    for (unsigned i = 0; i < AHEAD; i++) {
        p2p_fill(bufs + (size_t)i * AHEAD_SIZE, AHEAD_SIZE, i);
        CALL(hcomm_isend(bufs + (size_t)i * AHEAD_SIZE, AHEAD_SIZE, 1, TAG, p2p_world, &requests[i]));
    }
    for (unsigned i = 0; i < AHEAD; i++) {
        CALL(hcomm_wait(&requests[i], NULL));
        memset(bufs + (size_t)i * AHEAD_SIZE, 0xee, AHEAD_SIZE);
    }
    free(bufs);
}

static void more_than_a_late_receiver_has_room_for_is_sent_ahead(void)
{
    unsigned char *buf = p2p_room(AHEAD_SIZE);
    if (p2p_rank == 0)
        send_ahead();
    if (p2p_rank == 1)
        nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    for (unsigned i = 0; i < AHEAD && p2p_rank == 1; i++) {
        CALL(hcomm_recv(buf, AHEAD_SIZE, 0, TAG, p2p_world, NULL));
        VERIFY(buf, AHEAD_SIZE, i);
    }
    free(buf);
}

/* A receive of another tag takes a later message; earlier ones keep their order. */
static void tags_pick_out_of_order(void)
{
    enum { TAGS = 10, EACH = 10 };
    hcomm_request_t requests[TAGS * EACH];
    int values[TAGS * EACH];
    for (int i = 0; i < TAGS * EACH && p2p_rank == 0; i++) {
        values[i] = i;
        CALL(hcomm_isend(&values[i], sizeof(int), 1, i % TAGS, p2p_world, &requests[i]));
    }
    if (p2p_rank == 0)
        CALL(hcomm_waitall(TAGS * EACH, requests, NULL));
    for (int tag = TAGS - 1; tag >= 0 && p2p_rank == 1; tag--) {
        for (int k = 0; k < EACH; k++) {
            int got = -1;
            CALL(hcomm_recv(&got, sizeof(got), 0, tag, p2p_world, NULL));
            CHECK(got == k * TAGS + tag);
        }
    }
}

/* ---- fairness ---- */

/* Every other rank sends without end until told to stop, which happens when a wildcard receiver has heard of
 * each: never, if one starves. */
static void receive_from_all(void)
{
    int *heard = calloc((size_t)p2p_size, sizeof(int));
    int missing = p2p_size - 1, stops = 0;
    CHECK(heard);
    while (stops < p2p_size - 1) {
        hcomm_message_status_t status;
        int more = 0;
        CALL(hcomm_recv(&more, sizeof(more), HCOMM_ANY_SOURCE, TAG, p2p_world, &status));
        stops += more == 0;
        if (heard[status.source]++ == 0 && --missing == 0)
            for (int rank = 1; rank < p2p_size; rank++)
                CALL(hcomm_send(NULL, 0, rank, NEXT, p2p_world));
    }
    free(heard);
}

static void wildcard_receives_starve_nobody(void)
{
    hcomm_request_t stop = HCOMM_REQUEST_NULL;
    if (p2p_rank == 0) {
        receive_from_all();
        return;
    }
    CALL(hcomm_irecv(NULL, 0, 0, NEXT, p2p_world, &stop));
    for (int more = 1; more;) {
        more = hcomm_test(&stop, NULL) == HCOMM_IN_PROGRESS;
        CALL(hcomm_send(&more, sizeof(more), 0, TAG, p2p_world));
    }
}

/* ---- arguments ---- */

/* The call was refused as invalid, and says so in one line that names itself and `word`. */
static void check_refused(const char *call, const char *word, hcomm_status_t status)
{
    EXPECT(HCOMM_ERR_INVALID, status);
    CHECK(strstr(hcomm_error_detail(), call) == hcomm_error_detail());
    if (!strstr(hcomm_error_detail(), word) || strchr(hcomm_error_detail(), '\n'))
        check_failed(__FILE__, __LINE__, word, status);
}

static void bad_send_arguments_are_refused(void)
{
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    char b = 0;
    check_refused("hcomm_send", "dest", hcomm_send(&b, 1, p2p_size, 0, p2p_world));
    check_refused("hcomm_send", "dest", hcomm_send(&b, 1, HCOMM_ANY_SOURCE, 0, p2p_world));
    check_refused("hcomm_ssend", "dest", hcomm_ssend(&b, 1, HCOMM_UNDEFINED, 0, p2p_world));
    check_refused("hcomm_ssend", "tag", hcomm_ssend(&b, 1, 0, HCOMM_ANY_TAG, p2p_world));
    check_refused("hcomm_send", "tag", hcomm_send(&b, 1, 0, INT32_MIN, p2p_world));
    check_refused("hcomm_send", "tag", hcomm_send(&b, 1, HCOMM_RANK_NULL, -7, p2p_world));
    check_refused("hcomm_send", "NULL", hcomm_send(NULL, 1, 0, 0, p2p_world));
    check_refused("hcomm_send", "comm", hcomm_send(&b, 1, 0, 0, HCOMM_COMM_NULL));
    check_refused("hcomm_isend", "request", hcomm_isend(&b, 1, 0, 0, p2p_world, NULL));
    check_refused("hcomm_isend", "dest", hcomm_isend(&b, 1, p2p_size, 0, p2p_world, &request));
    check_refused("hcomm_issend", "comm", hcomm_issend(&b, 1, 0, 0, NULL, &request));
    CHECK(request == HCOMM_REQUEST_NULL);
}

static void bad_receive_arguments_are_refused(void)
{
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    hcomm_message_t message = HCOMM_MESSAGE_NULL;
    char b = 0;
    check_refused("hcomm_recv", "source", hcomm_recv(&b, 1, p2p_size, 0, p2p_world, NULL));
    check_refused("hcomm_recv", "source", hcomm_recv(&b, 1, HCOMM_UNDEFINED, 0, p2p_world, NULL));
    check_refused("hcomm_recv", "tag", hcomm_recv(&b, 1, 0, -2, p2p_world, NULL));
    check_refused("hcomm_recv", "NULL", hcomm_recv(NULL, 1, 0, 0, p2p_world, NULL));
    check_refused("hcomm_recv", "comm", hcomm_recv(&b, 1, 0, 0, NULL, NULL));
    check_refused("hcomm_irecv", "request", hcomm_irecv(&b, 1, 0, 0, p2p_world, NULL));
    check_refused("hcomm_irecv", "tag", hcomm_irecv(&b, 1, 0, -2, p2p_world, &request));
    check_refused("hcomm_probe", "source", hcomm_probe(p2p_size, 0, p2p_world, NULL));
    check_refused("hcomm_iprobe", "tag", hcomm_iprobe(0, -2, p2p_world, NULL));
    check_refused("hcomm_mprobe", "message", hcomm_mprobe(0, 0, p2p_world, NULL, NULL));
    check_refused("hcomm_improbe", "comm", hcomm_improbe(0, 0, NULL, &message, NULL));
    check_refused("hcomm_mrecv", "message", hcomm_mrecv(&b, 1, &message, NULL));
    check_refused("hcomm_mrecv", "message", hcomm_mrecv(&b, 1, NULL, NULL));
    check_refused("hcomm_imrecv", "message", hcomm_imrecv(&b, 1, &message, &request));
    CHECK(request == HCOMM_REQUEST_NULL);
}

static void bad_sendrecv_arguments_leave_nothing_posted(void)
{
    char b = 0, c = 0;
    EXPECT(HCOMM_ERR_INVALID, hcomm_sendrecv(&b, 1, p2p_size, 0, &c, 1, p2p_rank, 0, p2p_world, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_sendrecv(&b, 1, 0, -1, &c, 1, p2p_rank, 0, p2p_world, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_sendrecv(&b, 1, 0, 0, &c, 1, p2p_size, 0, p2p_world, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_sendrecv(&b, 1, 0, 0, &c, 1, 0, 0, NULL, NULL));
    b = 'b';
    CALL(hcomm_sendrecv(&b, 1, p2p_rank, 0, &c, 1, p2p_rank, 0, p2p_world, NULL));
    CHECK(c == 'b'); /* a receive left over would have taken it */
}

static void every_status_has_a_text(void)
{
    for (int status = HCOMM_ERR_INTERNAL - 1; status <= HCOMM_AGAIN + 1; status++)
        for (int other = HCOMM_ERR_INTERNAL; other < status; other++)
            CHECK(status > HCOMM_AGAIN ||
                  strcmp(hcomm_strerror((hcomm_status_t)status), hcomm_strerror((hcomm_status_t)other)) != 0);
}

static const struct p2p_case cases[] = {
    {"around_with_sendrecv", around_with_sendrecv, 1},
    {"around_with_isend", around_with_isend, 1},
    {"around_with_issend", around_with_issend, 1},
    {"blocking_send_gives_the_buffer_back", blocking_send_gives_the_buffer_back, 2},
    {"messages_to_the_own_rank", messages_to_the_own_rank, 1},
    {"null_rank_completes_at_once", null_rank_completes_at_once, 1},
    {"shift_with_null_ends", shift_with_null_ends, 1},
    {"truncation_is_an_error_of_that_receive_only", truncation_is_an_error_of_that_receive_only, 2},
    {"ssend_returns_only_after_the_match", ssend_returns_only_after_the_match, 2},
    {"messages_do_not_overtake", messages_do_not_overtake, 2},
    {"more_than_a_late_receiver_has_room_for_is_sent_ahead",
     more_than_a_late_receiver_has_room_for_is_sent_ahead, 2},
    {"tags_pick_out_of_order", tags_pick_out_of_order, 2},
    {"wildcard_receives_starve_nobody", wildcard_receives_starve_nobody, 2},
    {"bad_send_arguments_are_refused", bad_send_arguments_are_refused, 1},
    {"bad_receive_arguments_are_refused", bad_receive_arguments_are_refused, 1},
    {"bad_sendrecv_arguments_leave_nothing_posted", bad_sendrecv_arguments_leave_nothing_posted, 1},
    {"every_status_has_a_text", every_status_has_a_text, 1},
};

int main(int argc, char **argv)
{
    return p2p_run(cases, sizeof(cases) / sizeof(cases[0]), NULL, argc, argv);
}
