/*
 * Requests and probes: test and wait in all their forms, null requests, thousands pending, cancel, giving a
 * request up, probes and matched probes.
 */
#include "tests/multi/p2p_cases.h"

enum { TAG = 5, NEXT = 6, MANY = 20000, FEW = 16 };

static void check_null(const hcomm_message_status_t *status)
{
    p2p_check_status(status, HCOMM_RANK_NULL, HCOMM_ANY_TAG, 0, HCOMM_OK);
}

/* ---- null requests ---- */

static void null_requests_are_complete(void)
{
    hcomm_request_t none[3] = {HCOMM_REQUEST_NULL, HCOMM_REQUEST_NULL, HCOMM_REQUEST_NULL};
    hcomm_message_status_t statuses[3] = {{.size = 9}, {.size = 9}, {.size = 9}};
    size_t index = 0, count = 0, indices[3];
    CALL(hcomm_test(&none[0], &statuses[0]));
    check_null(&statuses[0]);
    CALL(hcomm_wait(&none[0], &statuses[1]));
    check_null(&statuses[1]);
    statuses[0].size = statuses[1].size = 9;
    CALL(hcomm_waitall(3, none, statuses));
    CALL(hcomm_testall(3, none, NULL));
    for (int i = 0; i < 3; i++)
        check_null(&statuses[i]);
    CALL(hcomm_testany(3, none, &index, NULL));
    CHECK(index == SIZE_MAX);
    index = 0;
    CALL(hcomm_waitany(3, none, &index, &statuses[0]));
    CHECK(index == SIZE_MAX);
    check_null(&statuses[0]);
    CALL(hcomm_testsome(3, none, &count, indices, statuses));
    CHECK(count == SIZE_MAX);
    count = 0;
    CALL(hcomm_waitsome(3, none, &count, indices, NULL));
    CHECK(count == SIZE_MAX);
    CALL(hcomm_request_free(&none[0]));
}

static void no_requests_at_all_are_complete(void)
{
    size_t index = 0, count = 0;
    CALL(hcomm_waitall(0, NULL, NULL));
    CALL(hcomm_testall(0, NULL, NULL));
    CALL(hcomm_waitany(0, NULL, &index, NULL));
    CHECK(index == SIZE_MAX);
    index = 0;
    CALL(hcomm_testany(0, NULL, &index, NULL));
    CHECK(index == SIZE_MAX);
    CALL(hcomm_waitsome(0, NULL, &count, NULL, NULL));
    CHECK(count == SIZE_MAX);
    count = 0;
    CALL(hcomm_testsome(0, NULL, &count, NULL, NULL));
    CHECK(count == SIZE_MAX);
}

static void bad_request_arguments_are_refused(void)
{
    hcomm_request_t none = HCOMM_REQUEST_NULL;
    size_t count = 0;
    EXPECT(HCOMM_ERR_INVALID, hcomm_test(NULL, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_wait(NULL, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_waitall(1, NULL, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_testall(1, NULL, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_waitany(1, &none, NULL, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_testany(1, &none, NULL, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_waitsome(1, &none, &count, NULL, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_testsome(1, &none, NULL, &count, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_cancel(HCOMM_REQUEST_NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_request_free(NULL));
    CHECK(strstr(hcomm_error_detail(), "hcomm_request_free"));
}

/* ---- several at once, all within the own rank: the order of completion is then known ---- */

static void post_few(hcomm_request_t *requests, int *values)
{
    for (int i = 0; i < FEW; i++)
        CALL(hcomm_irecv(&values[i], sizeof(int), p2p_rank, i, p2p_world, &requests[i]));
}

static void send_own(int tag, size_t size)
{
    const int values[2] = {tag * 11, 0};
    CALL(hcomm_send(values, size, p2p_rank, tag, p2p_world));
}

static void testall_completes_all_or_none(void)
{
    hcomm_request_t requests[FEW];
    hcomm_message_status_t statuses[FEW];
    int values[FEW];
    post_few(requests, values);
    for (int i = 0; i < FEW; i++) {
        EXPECT(HCOMM_IN_PROGRESS, hcomm_testall(FEW, requests, statuses));
        for (int k = 0; k < FEW; k++)
            CHECK(requests[k]);
        send_own(FEW - 1 - i, sizeof(int));
    }
    while (hcomm_testall(FEW, requests, statuses) == HCOMM_IN_PROGRESS)
        ;
    for (int i = 0; i < FEW; i++) {
        CHECK(!requests[i] && values[i] == i * 11);
        p2p_check_status(&statuses[i], p2p_rank, i, sizeof(int), HCOMM_OK);
    }
}

static void one_failure_shows_in_the_statuses(void)
{
    hcomm_request_t requests[FEW];
    hcomm_message_status_t statuses[FEW];
    int values[FEW];
    post_few(requests, values);
    for (int i = 0; i < FEW; i++)
        send_own(i, i == 3 ? 2 * sizeof(int) : sizeof(int));
    EXPECT(HCOMM_ERR_IN_STATUS, hcomm_waitall(FEW, requests, statuses));
    for (int i = 0; i < FEW; i++) {
        CHECK(!requests[i]);
        p2p_check_status(&statuses[i], p2p_rank, i, i == 3 ? 2 * sizeof(int) : sizeof(int),
                         i == 3 ? HCOMM_ERR_TRUNCATED : HCOMM_OK);
    }
}

static void any_reports_each_once(void)
{
    hcomm_request_t requests[FEW];
    int values[FEW], seen[FEW] = {0};
    size_t index = 77;
    hcomm_message_status_t status;
    post_few(requests, values);
    EXPECT(HCOMM_IN_PROGRESS, hcomm_testany(FEW, requests, &index, &status));
    CHECK(index == 77);
    for (int i = 0; i < FEW; i++) {
        int tag = (i * 5) % FEW;
        hcomm_status_t expected = i == 2 ? HCOMM_ERR_TRUNCATED : HCOMM_OK;
        send_own(tag, i == 2 ? 2 * sizeof(int) : sizeof(int));
        if (i % 2) {
            EXPECT(expected, hcomm_waitany(FEW, requests, &index, &status));
        } else {
            hcomm_status_t got;
            while ((got = hcomm_testany(FEW, requests, &index, &status)) == HCOMM_IN_PROGRESS)
                ;
            EXPECT(expected, got);
        }
        CHECK(index == (size_t)tag && !requests[tag] && !seen[tag]++);
        CHECK(status.tag == tag && values[tag] == tag * 11 && status.error == expected);
    }
    CALL(hcomm_waitany(FEW, requests, &index, NULL));
    CHECK(index == SIZE_MAX);
}

static void some_reports_those_that_are_complete(void)
{
    hcomm_request_t requests[FEW];
    hcomm_message_status_t statuses[FEW];
    size_t indices[FEW], count = 0, total = 0;
    int values[FEW], seen[FEW] = {0};
    post_few(requests, values);
    CALL(hcomm_testsome(FEW, requests, &count, indices, statuses));
    CHECK(count == 0);
    for (int i = 0; i < FEW; i++)
        send_own(i, i == 4 ? 2 * sizeof(int) : sizeof(int));
    int failed = 0;
    while (total < FEW) {
        hcomm_status_t status =
            (total % 2 ? hcomm_testsome : hcomm_waitsome)(FEW, requests, &count, indices, statuses);
        CHECK(status == HCOMM_OK || status == HCOMM_ERR_IN_STATUS);
        failed += status == HCOMM_ERR_IN_STATUS;
        for (size_t k = 0; k < count; k++) {
            CHECK(indices[k] < FEW && !seen[indices[k]]++ && !requests[indices[k]]);
            CHECK(statuses[k].tag == (int)indices[k]);
            CHECK(statuses[k].error == (indices[k] == 4 ? HCOMM_ERR_TRUNCATED : HCOMM_OK));
        }
        total += count;
    }
    CHECK(failed == 1);
    CALL(hcomm_waitsome(FEW, requests, &count, indices, statuses));
    CHECK(count == SIZE_MAX);
}

/* ---- many ---- */

static void receive_many(int posted)
{
    int *values = calloc(MANY, sizeof(int));
    hcomm_request_t *requests = calloc(MANY, sizeof(*requests));
    CHECK(values && requests);
    for (int i = MANY - 1; posted && i >= 0; i--)
        CALL(hcomm_irecv(&values[i], sizeof(int), 0, i, p2p_world, &requests[i]));
    CALL(hcomm_send(NULL, 0, 0, MANY, p2p_world));
    for (int i = MANY - 1; !posted && i >= 0; i--)
        CALL(hcomm_irecv(&values[i], sizeof(int), 0, i, p2p_world, &requests[i]));
    CALL(hcomm_waitall(MANY, requests, NULL));
    for (int i = 0; i < MANY; i++)
        CHECK(values[i] == i * 3);
    free(requests);
    free(values);
}

static void send_many(int sync)
{
    int *values = calloc(MANY, sizeof(int));
    hcomm_request_t *requests = calloc(MANY, sizeof(*requests));
    CHECK(values && requests);
    CALL(hcomm_recv(NULL, 0, 1, MANY, p2p_world, NULL));
    for (int i = 0; i < MANY; i++) {
        values[i] = i * 3;
        CALL((sync ? hcomm_issend : hcomm_isend)(&values[i], sizeof(int), 1, i, p2p_world, &requests[i]));
    }
    CALL(hcomm_waitall(MANY, requests, NULL));
    free(requests);
    free(values);
}

static void thousands_are_pending_at_once(void)
{
    for (int i = 0; i < 4; i++) {
        if (p2p_rank == 0)
            send_many(i / 2);
        else if (p2p_rank == 1)
            receive_many(i % 2);
    }
}

/* ---- cancel and free ---- */

static void cancel_takes_effect_before_a_match(void)
{
    int value = 1;
    hcomm_request_t request;
    hcomm_message_status_t status;
    const int sources[] = {p2p_rank, HCOMM_ANY_SOURCE};
    for (int i = 0; i < 4; i++) {
        CALL(hcomm_irecv(&value, sizeof(value), sources[i % 2], i / 2 ? HCOMM_ANY_TAG : TAG, p2p_world,
                         &request));
        CALL(hcomm_cancel(request));
        CALL(hcomm_cancel(request)); /* a second time changes nothing */
        EXPECT(HCOMM_ERR_CANCELLED, (i % 2 ? hcomm_wait : hcomm_test)(&request, &status));
        CHECK(!request && status.cancelled && status.error == HCOMM_ERR_CANCELLED && status.size == 0);
    }
    CALL(hcomm_sendrecv(&(int){42}, sizeof(int), p2p_rank, TAG, &value, sizeof(value), p2p_rank, TAG,
                        p2p_world, NULL));
    CHECK(value == 42); /* no cancelled receive took it */
}

static void cancel_comes_too_late_after_a_match(void)
{
    int value = 0;
    hcomm_request_t request;
    hcomm_message_status_t status;
    CALL(hcomm_irecv(&value, sizeof(value), p2p_rank, TAG, p2p_world, &request));
    CALL(hcomm_ssend(&(int){43}, sizeof(int), p2p_rank, TAG, p2p_world));
    CALL(hcomm_cancel(request));
    CALL(hcomm_wait(&request, &status));
    p2p_check_status(&status, p2p_rank, TAG, sizeof(int), HCOMM_OK);
    CHECK(value == 43);
}

/* Rendezvous: cancelled while the payload may be under way; one of both outcomes, and a whole one. */
static void cancel_during_a_transfer_is_all_or_nothing(void)
{
    unsigned char *buf = p2p_room(P2P_SIZE_MAX);
    int other = 1 - p2p_rank;
    for (unsigned i = 0; i < 40 && p2p_rank < 2; i++) {
        hcomm_request_t request;
        hcomm_message_status_t status;
        if (p2p_rank == 0) {
            p2p_fill(buf, P2P_SIZE_MAX, i);
            CALL(hcomm_send(buf, P2P_SIZE_MAX, other, TAG, p2p_world));
            continue;
        }
        CALL(hcomm_irecv(buf, P2P_SIZE_MAX, other, TAG, p2p_world, &request));
        for (unsigned k = 0; k < i * 20; k++)
            (void)hcomm_progress(check_handle);
        CALL(hcomm_cancel(request));
        hcomm_status_t outcome = hcomm_wait(&request, &status);
        CHECK((outcome == HCOMM_ERR_CANCELLED) == status.cancelled);
        if (outcome == HCOMM_ERR_CANCELLED)
            outcome = hcomm_recv(buf, P2P_SIZE_MAX, other, TAG, p2p_world, NULL);
        CALL(outcome);
        VERIFY(buf, P2P_SIZE_MAX, i);
    }
    free(buf);
}

static void sends_cannot_be_cancelled(void)
{
    hcomm_request_t request;
    const size_t sizes[] = {1, P2P_SIZE_MAX};
    unsigned char *out = p2p_room(P2P_SIZE_MAX), *in = p2p_room(P2P_SIZE_MAX);
    for (int i = 0; i < 4; i++) {
        CALL((i / 2 ? hcomm_isend : hcomm_issend)(out, sizes[i % 2], p2p_rank, TAG, p2p_world, &request));
        EXPECT(HCOMM_ERR_UNSUPPORTED, hcomm_cancel(request));
        CALL(hcomm_recv(in, P2P_SIZE_MAX, p2p_rank, TAG, p2p_world, NULL));
        CALL(hcomm_wait(&request, NULL));
    }
    free(in);
    free(out);
}

/* Sends and receives given up still happen, of every size: the communicator can be freed only then. */
static void freed_requests_complete_on_their_own(void)
{
    unsigned char *out = p2p_room(P2P_SIZE_MAX), *in = p2p_room(P2P_SIZE_MAX);
    int peer = p2p_rank ^ 1;
    for (unsigned i = 0; i < P2P_SIZES; i++) {
        hcomm_comm_t comm;
        CALL(hcomm_comm_dup(p2p_world, &comm));
        if (peer < p2p_size) {
            hcomm_request_t send, recv;
            p2p_fill(out, p2p_sizes[i], i + (unsigned)p2p_rank);
            CALL(hcomm_irecv(in, p2p_sizes[i], peer, TAG, comm, &recv));
            CALL((i % 2 ? hcomm_isend : hcomm_issend)(out, p2p_sizes[i], peer, TAG, comm, &send));
            CALL(hcomm_request_free(&send));
            CALL(hcomm_request_free(&recv));
            CHECK(!send && !recv);
        }
        hcomm_status_t freed;
        while ((freed = hcomm_comm_free(&comm)) == HCOMM_ERR_PENDING)
            (void)hcomm_progress(check_handle);
        CALL(freed);
        if (peer < p2p_size)
            VERIFY(in, p2p_sizes[i], i + (unsigned)peer);
    }
    free(in);
    free(out);
}

/* ---- probes ---- */

static void probes_describe_and_leave_the_message(void)
{
    unsigned char *buf = p2p_room(P2P_SIZE_MAX);
    int peer = p2p_rank ^ 1;
    for (unsigned i = 0; i < P2P_SIZES && peer < p2p_size; i++) {
        hcomm_message_status_t status;
        if (p2p_rank % 2 == 0) {
            p2p_fill(buf, p2p_sizes[i], i);
            CALL(hcomm_send(buf, p2p_sizes[i], peer, (int)i, p2p_world));
            continue;
        }
        int source = i % 2 ? HCOMM_ANY_SOURCE : peer, tag = i % 4 < 2 ? HCOMM_ANY_TAG : (int)i;
        if (i % 3) {
            CALL(hcomm_probe(source, tag, p2p_world, &status));
        } else {
            while (hcomm_iprobe(source, tag, p2p_world, &status) == HCOMM_AGAIN)
                ;
        }
        p2p_check_status(&status, peer, (int)i, p2p_sizes[i], HCOMM_OK);
        EXPECT(HCOMM_AGAIN, hcomm_iprobe(peer, P2P_SIZES, p2p_world, NULL)); /* another tag: none */
        CALL(hcomm_recv(buf, status.size, status.source, status.tag, p2p_world, NULL));
        VERIFY(buf, status.size, i);
    }
    free(buf);
}

static hcomm_message_t take_matched(int blocking, int source, int tag, hcomm_message_status_t *status)
{
    hcomm_message_t message = HCOMM_MESSAGE_NULL;
    if (blocking) {
        CALL(hcomm_mprobe(source, tag, p2p_world, &message, status));
    } else {
        while (hcomm_improbe(source, tag, p2p_world, &message, status) == HCOMM_AGAIN)
            CHECK(!message);
    }
    CHECK(message);
    return message;
}

/* Two messages of one tag: the first is taken by mprobe, the second by recv, and the first received last. */
static void receive_second_first(int peer, unsigned i, unsigned char *buf)
{
    size_t size = p2p_sizes[i];
    hcomm_message_status_t status;
    hcomm_message_t message = take_matched((int)i % 2, i % 3 ? HCOMM_ANY_SOURCE : peer, TAG, &status);
    p2p_check_status(&status, peer, TAG, size, HCOMM_OK);
    CALL(hcomm_recv(buf, size, HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, p2p_world, NULL));
    VERIFY(buf, size, i + 1);
    if (i % 4 < 2) {
        CALL(hcomm_mrecv(buf, size, &message, &status));
    } else {
        hcomm_request_t request;
        CALL(hcomm_imrecv(buf, size, &message, &request));
        CHECK(!message);
        CALL(hcomm_wait(&request, &status));
    }
    CHECK(!message);
    p2p_check_status(&status, peer, TAG, size, HCOMM_OK);
    VERIFY(buf, size, i);
}

static void matched_probe_takes_the_message_out(void)
{
    unsigned char *buf = p2p_room(P2P_SIZE_MAX), *second = p2p_room(P2P_SIZE_MAX);
    int peer = p2p_rank ^ 1;
    for (unsigned i = 0; i < P2P_SIZES && peer < p2p_size; i++) {
        hcomm_request_t requests[2];
        if (p2p_rank % 2) {
            receive_second_first(peer, i, buf);
            continue;
        }
        p2p_fill(buf, p2p_sizes[i], i);
        p2p_fill(second, p2p_sizes[i], i + 1);
        CALL(hcomm_isend(buf, p2p_sizes[i], peer, TAG, p2p_world, &requests[0]));
        CALL(hcomm_issend(second, p2p_sizes[i], peer, TAG, p2p_world, &requests[1]));
        CALL(hcomm_waitall(2, requests, NULL));
    }
    free(second);
    free(buf);
}

static void matched_receive_truncates_like_any(void)
{
    unsigned char *buf = p2p_room(P2P_SIZE_MAX);
    for (unsigned i = 1; i < P2P_SIZES; i++) {
        size_t size = p2p_sizes[i];
        hcomm_message_status_t status;
        hcomm_request_t send;
        unsigned char *out = p2p_room(size);
        p2p_fill(out, size, i);
        CALL(hcomm_issend(out, size, p2p_rank, TAG, p2p_world, &send));
        hcomm_message_t message = take_matched(1, p2p_rank, TAG, &status);
        EXPECT(HCOMM_ERR_TRUNCATED, hcomm_mrecv(buf, size / 2, &message, &status));
        p2p_check_status(&status, p2p_rank, TAG, size, HCOMM_ERR_TRUNCATED);
        VERIFY(buf, size / 2, i);
        CALL(hcomm_wait(&send, NULL));
        free(out);
    }
    free(buf);
}

/* A matched message is an operation on its communicator. */
static void communicator_with_a_matched_message_is_busy(void)
{
    hcomm_comm_t comm;
    hcomm_message_t message;
    CALL(hcomm_comm_dup(p2p_world, &comm));
    CALL(hcomm_send(NULL, 0, p2p_rank, TAG, comm));
    CALL(hcomm_mprobe(p2p_rank, TAG, comm, &message, NULL));
    EXPECT(HCOMM_ERR_PENDING, hcomm_comm_free(&comm));
    CALL(hcomm_mrecv(NULL, 0, &message, NULL));
    CALL(hcomm_comm_free(&comm));
    CHECK(comm == HCOMM_COMM_NULL);
}

static const struct p2p_case cases[] = {
    {"null_requests_are_complete", null_requests_are_complete, 1},
    {"no_requests_at_all_are_complete", no_requests_at_all_are_complete, 1},
    {"bad_request_arguments_are_refused", bad_request_arguments_are_refused, 1},
    {"testall_completes_all_or_none", testall_completes_all_or_none, 1},
    {"one_failure_shows_in_the_statuses", one_failure_shows_in_the_statuses, 1},
    {"any_reports_each_once", any_reports_each_once, 1},
    {"some_reports_those_that_are_complete", some_reports_those_that_are_complete, 1},
    {"thousands_are_pending_at_once", thousands_are_pending_at_once, 2},
    {"cancel_takes_effect_before_a_match", cancel_takes_effect_before_a_match, 1},
    {"cancel_comes_too_late_after_a_match", cancel_comes_too_late_after_a_match, 1},
    {"cancel_during_a_transfer_is_all_or_nothing", cancel_during_a_transfer_is_all_or_nothing, 2},
    {"sends_cannot_be_cancelled", sends_cannot_be_cancelled, 1},
    {"freed_requests_complete_on_their_own", freed_requests_complete_on_their_own, 1},
    {"probes_describe_and_leave_the_message", probes_describe_and_leave_the_message, 2},
    {"matched_probe_takes_the_message_out", matched_probe_takes_the_message_out, 2},
    {"matched_receive_truncates_like_any", matched_receive_truncates_like_any, 1},
    {"communicator_with_a_matched_message_is_busy", communicator_with_a_matched_message_is_busy, 1},
};

int main(int argc, char **argv)
{
    return p2p_run(cases, sizeof(cases) / sizeof(cases[0]), NULL, argc, argv);
}
