/* What streams, events and groups promise, one case each; with one rank, messages go to itself. */
#include "tests/multi/streams_cases.h"

#include <stdatomic.h>

static int peer, from;
static atomic_int gate_open; /* a host function waits for it */
static atomic_int calls;

static void wait_for_gate(void *arg)
{
    (void)arg;
    while (!atomic_load(&gate_open))
        streams_pause_ms(1);
}

static void count_call(void *arg)
{
    *(int *)arg = atomic_fetch_add(&calls, 1);
}

static void increment(void *arg)
{
    ++*(int *)arg;
}

static hcomm_stream_t new_stream(void)
{
    hcomm_stream_t stream = HCOMM_STREAM_NULL;
    CALL(hcomm_stream_create(check_handle, 0, &stream));
    return stream;
}

static hcomm_event_t new_event(void)
{
    hcomm_event_t event = HCOMM_EVENT_NULL;
    CALL(hcomm_event_create(check_handle, &event));
    return event;
}

static void close_gate(hcomm_stream_t stream)
{
    atomic_store(&gate_open, 0);
    CALL(hcomm_launch_host(stream, wait_for_gate, NULL));
}

static void functions_run_in_order_of_their_stream(void)
{
    hcomm_stream_t stream = new_stream();
    int order[50];
    atomic_store(&calls, 0);
    for (int i = 0; i < 50; i++)
        CALL(hcomm_launch_host(stream, count_call, &order[i]));
    CALL(hcomm_stream_synchronize(stream));
    for (int i = 0; i < 50; i++)
        CHECK(order[i] == i);
    CALL(hcomm_stream_destroy(&stream));
    CHECK(stream == HCOMM_STREAM_NULL);
}

static void a_send_sends_what_was_enqueued_before_it(void)
{
    hcomm_stream_t stream = new_stream();
    int *value = streams_pinned(sizeof(int)), *got = streams_pinned(sizeof(int));
    hcomm_message_status_t status = {.size = 99};
    for (int i = 0; i < 10; i++) {
        CALL(hcomm_launch_host(stream, increment, value));
        CALL(hcomm_sendrecv_on(value, sizeof(int), peer, i, got, sizeof(int), from, i, world, &status,
                               stream));
        CALL(hcomm_launch_host(stream, increment, got));
    }
    CALL(hcomm_stream_synchronize(stream));
    CHECK(*value == 10 && *got == 11);
    CHECK(status.source == from && status.tag == 9 && status.size == sizeof(int) && status.error == HCOMM_OK);
    CALL(hcomm_stream_destroy(&stream));
}

static void an_enqueued_call_returns_before_what_is_ahead_of_it_is_done(void)
{
    hcomm_stream_t stream = new_stream();
    char *big = streams_pinned(1 << 20), *copy = streams_pinned(1 << 20);
    memset(big, 7, 1 << 20);
    close_gate(stream);
    CALL(hcomm_memcpy_async(copy, big, 1 << 20, HCOMM_COPY_AUTO, stream));
    CALL(hcomm_sendrecv_on(copy, 1 << 20, peer, 0, big, 1 << 20, from, 0, world, NULL, stream));
    CALL(hcomm_barrier_on(world, stream));
    EXPECT(HCOMM_IN_PROGRESS, hcomm_stream_query(stream));
    CHECK(copy[0] == 0);
    atomic_store(&gate_open, 1);
    CALL(hcomm_stream_synchronize(stream));
    CALL(hcomm_stream_query(stream));
    CHECK(memcmp(big, copy, 1 << 20) == 0 && copy[12345] == 7);
    CALL(hcomm_stream_destroy(&stream));
}

static void streams_run_in_parallel(void)
{
    hcomm_stream_t stuck = new_stream(), free_one = new_stream();
    int number = 0;
    close_gate(stuck);
    CALL(hcomm_launch_host(free_one, increment, &number));
    CALL(hcomm_sendrecv_on(&number, sizeof(int), peer, 1, &number, 0, HCOMM_RANK_NULL, 1, world, NULL,
                           free_one));
    CALL(hcomm_recv_on(&number, sizeof(int), from, 1, world, NULL, free_one));
    CALL(hcomm_stream_synchronize(free_one));
    CHECK(number == 1);
    EXPECT(HCOMM_IN_PROGRESS, hcomm_stream_query(stuck));
    atomic_store(&gate_open, 1);
    CALL(hcomm_stream_synchronize(stuck));
    CALL(hcomm_stream_destroy(&stuck));
    CALL(hcomm_stream_destroy(&free_one));
}

static void a_wait_is_for_the_record_before_it(void)
{
    hcomm_stream_t first = new_stream(), second = new_stream(), third = new_stream();
    hcomm_event_t event = new_event();
    int number = 0;
    CALL(hcomm_event_query(event));
    CALL(hcomm_stream_wait_event(second, event)); /* never recorded: no wait */
    CALL(hcomm_stream_synchronize(second));
    CALL(hcomm_event_record(event, first));
    CALL(hcomm_stream_synchronize(first));
    close_gate(third);
    CALL(hcomm_stream_wait_event(second, event)); /* the record on the first stream */
    CALL(hcomm_event_record(event, third));       /* recorded again: not for the wait above */
    CALL(hcomm_launch_host(second, increment, &number));
    CALL(hcomm_stream_synchronize(second));
    CHECK(number == 1);
    EXPECT(HCOMM_IN_PROGRESS, hcomm_event_query(event));
    CALL(hcomm_stream_wait_event(second, event));
    CALL(hcomm_launch_host(second, increment, &number));
    EXPECT(HCOMM_IN_PROGRESS, hcomm_stream_query(second));
    CALL(hcomm_event_destroy(&event)); /* while pending: the wait keeps the record */
    atomic_store(&gate_open, 1);
    CALL(hcomm_stream_synchronize(second));
    CHECK(number == 2);
    CALL(hcomm_stream_destroy(&first));
    CALL(hcomm_stream_destroy(&second));
    CALL(hcomm_stream_destroy(&third));
}

static void a_complete_event_means_visible_data(void)
{
    hcomm_stream_t stream = new_stream();
    hcomm_event_t event = new_event();
    int *in = streams_pinned(sizeof(int)), *out = streams_pinned(sizeof(int));
    for (int i = 1; i < 200; i++) {
        *out = i;
        CALL(hcomm_sendrecv_on(out, sizeof(int), peer, 5, in, sizeof(int), from, 5, world, NULL, stream));
        CALL(hcomm_event_record(event, stream));
        if (i % 2) {
            CALL(hcomm_event_synchronize(event));
        } else {
            hcomm_status_t status;
            while ((status = hcomm_event_query(event)) == HCOMM_IN_PROGRESS)
                ;
            CALL(status);
        }
        CHECK(*in == i);
    }
    CALL(hcomm_event_destroy(&event));
    CALL(hcomm_stream_destroy(&stream));
}

static void nap_and_wait_for_gate(void *arg)
{
    streams_pause_ms(20);
    wait_for_gate(arg);
}

static void elapsed_is_the_time_between_records(void)
{
    hcomm_stream_t stream = new_stream();
    hcomm_event_t start = new_event(), end = new_event();
    double ms = -1;
    EXPECT(HCOMM_ERR_INVALID, hcomm_event_elapsed(start, end, &ms));
    CALL(hcomm_event_record(start, stream));
    atomic_store(&gate_open, 0);
    CALL(hcomm_launch_host(stream, nap_and_wait_for_gate, NULL));
    CALL(hcomm_event_record(end, stream));
    EXPECT(HCOMM_IN_PROGRESS, hcomm_event_elapsed(start, end, &ms));
    atomic_store(&gate_open, 1);
    CALL(hcomm_event_synchronize(end));
    CALL(hcomm_event_elapsed(start, end, &ms));
    CHECK(ms >= 19);
    CALL(hcomm_event_destroy(&start));
    CALL(hcomm_event_destroy(&end));
    CALL(hcomm_stream_destroy(&stream));
}

static void a_destroyed_stream_still_does_its_work(void)
{
    hcomm_stream_t stream = new_stream(), other = new_stream();
    hcomm_event_t event = new_event();
    int number = 0;
    close_gate(stream);
    CALL(hcomm_launch_host(stream, increment, &number));
    CALL(hcomm_event_record(event, stream));
    hcomm_stream_t copy = stream;
    CALL(hcomm_stream_destroy(&stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_query(copy));
    CHECK(number == 0);
    atomic_store(&gate_open, 1);
    CALL(hcomm_stream_wait_event(other, event));
    CALL(hcomm_stream_synchronize(other));
    CHECK(number == 1);
    CALL(hcomm_event_destroy(&event));
    CALL(hcomm_stream_destroy(&other));
}

static void groups_of_two_communicators_in_opposite_order_do_not_deadlock(void)
{
    enum { EACH = 1 << 18 };
    hcomm_stream_t stream = new_stream();
    hcomm_comm_t comms[2] = {world, HCOMM_COMM_NULL};
    char *in[2], *out[2];
    CALL(hcomm_comm_dup(world, &comms[1]));
    for (int i = 0; i < 2; i++) {
        in[i] = streams_pinned(EACH);
        out[i] = streams_pinned(EACH);
        memset(out[i], rank * 2 + i + 1, EACH);
    }
    for (int round = 0; round < 20; round++) {
        CALL(hcomm_group_start());
        for (int i = 0; i < 2; i++) {
            int which = rank % 2 ? 1 - i : i; /* opposite order on neighbours */
            CALL(hcomm_group_start());
            CALL(hcomm_send_on(out[which], EACH, peer, 0, comms[which], stream));
            CALL(hcomm_barrier_on(comms[which], stream));
            CALL(hcomm_recv_on(in[which], EACH, from, 0, comms[which], NULL, stream));
            CALL(hcomm_group_end());
        }
        CALL(hcomm_group_end());
    }
    EXPECT(HCOMM_ERR_INVALID, hcomm_group_end());
    CALL(hcomm_stream_synchronize(stream));
    for (int i = 0; i < 2; i++)
        CHECK(in[i][0] == from * 2 + i + 1 && in[i][EACH - 1] == in[i][0]);
    CALL(hcomm_comm_free(&comms[1]));
    CALL(hcomm_stream_destroy(&stream));
}

static void a_group_may_span_streams(void)
{
    hcomm_stream_t streams[3] = {new_stream(), new_stream(), new_stream()};
    int in[3] = {0}, out[3];
    CALL(hcomm_group_start());
    for (int i = 0; i < 3; i++) {
        out[i] = 10 * rank + i;
        int which = rank % 2 ? 2 - i : i;
        CALL(hcomm_recv_on(&in[which], sizeof(int), from, which, world, NULL, streams[which]));
    }
    for (int i = 0; i < 3; i++)
        CALL(hcomm_send_on(&out[i], sizeof(int), peer, i, world, streams[(i + 1) % 3]));
    CALL(hcomm_group_end());
    for (int i = 0; i < 3; i++) {
        CALL(hcomm_stream_synchronize(streams[i]));
        CHECK(in[i] == 10 * from + i);
        CALL(hcomm_stream_destroy(&streams[i]));
    }
}

static void a_group_with_a_bad_call_enqueues_nothing(void)
{
    hcomm_stream_t stream = new_stream();
    int number = 0;
    CALL(hcomm_group_start());
    CALL(hcomm_recv_on(&number, sizeof(int), from, 77, world, NULL, stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_send_on(&number, sizeof(int), size, 77, world, stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_group_end());
    CHECK(strstr(hcomm_error_detail(), "dest"));
    CALL(hcomm_stream_query(stream));
    CALL(hcomm_group_start());
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_synchronize(stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_group_end());
    CALL(hcomm_stream_synchronize(stream));
    CALL(hcomm_stream_destroy(&stream));
}

static void messages_of_streams_match_those_of_other_calls(void)
{
    hcomm_stream_t stream = new_stream();
    hcomm_request_t request;
    int out = rank, next = rank + 100, in = -1;
    CALL(hcomm_irecv(&in, sizeof(in), HCOMM_ANY_SOURCE, 3, world, &request));
    CALL(hcomm_send_on(&out, sizeof(out), peer, 3, world, stream));
    CALL(hcomm_wait(&request, NULL));
    CHECK(in == from);
    CALL(hcomm_recv_on(&in, sizeof(in), HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, world, NULL, stream));
    CALL(hcomm_send(&next, sizeof(next), peer, 4, world));
    CALL(hcomm_stream_synchronize(stream));
    CHECK(in == from + 100);
    CALL(hcomm_stream_destroy(&stream));
}

static void an_error_stays_until_synchronize_reports_it(void)
{
    hcomm_stream_t stream = new_stream();
    hcomm_event_t event = new_event();
    hcomm_message_status_t status = {.error = HCOMM_OK}, skipped = {.error = HCOMM_OK};
    int large[2] = {1, 2}, small = 0, number = 0;
    CALL(hcomm_recv_on(&small, sizeof(small), from, 6, world, &status, stream));
    CALL(hcomm_launch_host(stream, increment, &number));
    CALL(hcomm_recv_on(&small, sizeof(small), from, 999, world, &skipped, stream));
    CALL(hcomm_event_record(event, stream));
    CALL(hcomm_send(large, sizeof(large), peer, 6, world));
    CALL(hcomm_event_synchronize(event));
    EXPECT(HCOMM_ERR_TRUNCATED, hcomm_stream_query(stream));
    EXPECT(HCOMM_ERR_TRUNCATED, hcomm_stream_query(stream));
    CHECK(number == 0 && status.error == HCOMM_ERR_TRUNCATED && skipped.error == HCOMM_ERR_CANCELLED);
    EXPECT(HCOMM_ERR_TRUNCATED, hcomm_stream_synchronize(stream));
    CHECK(strstr(hcomm_error_detail(), "stream ") && strstr(hcomm_error_detail(), "8 bytes"));
    CALL(hcomm_launch_host(stream, increment, &number));
    CALL(hcomm_stream_synchronize(stream));
    CHECK(number == 1);
    CALL(hcomm_event_destroy(&event));
    CALL(hcomm_stream_destroy(&stream));
}

static hcomm_stream_t own_stream;
static hcomm_status_t own_status;

static void wait_for_own_stream(void *arg)
{
    own_status = hcomm_stream_synchronize(own_stream);
    CALL(hcomm_launch_host(own_stream, increment, arg)); /* enqueuing is allowed */
}

static void a_host_function_must_not_wait_for_its_stream(void)
{
    int number = 0;
    own_stream = new_stream();
    CALL(hcomm_launch_host(own_stream, wait_for_own_stream, &number));
    CALL(hcomm_stream_synchronize(own_stream));
    CALL(hcomm_stream_synchronize(own_stream));
    CHECK(own_status == HCOMM_ERR_INVALID && number == 1);
    CALL(hcomm_stream_destroy(&own_stream));
}

static void bad_handles_are_refused(void)
{
    hcomm_stream_t stream = new_stream(), old = stream;
    hcomm_event_t event = new_event(), old_event = event;
    int number = 0;
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_create(NULL, 0, &stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_create(check_handle, HCOMM_STREAM_PRIORITY_MAX + 1, &stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_synchronize((hcomm_stream_t)&number));
    CHECK(strstr(hcomm_error_detail(), "hcomm_stream_adopt"));
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_query(NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_query((hcomm_stream_t)event));
    EXPECT(HCOMM_ERR_INVALID, hcomm_event_query((hcomm_event_t)stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_launch_host(stream, NULL, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_memcpy_async(NULL, &number, 4, HCOMM_COPY_AUTO, stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_recv_on(&number, 4, from, -5, world, NULL, stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_barrier_on(NULL, stream));
    CALL(hcomm_stream_destroy(&stream));
    CALL(hcomm_stream_destroy(&stream)); /* NULL */
    EXPECT(HCOMM_ERR_INVALID, hcomm_send_on(&number, 4, peer, 0, world, old));
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_destroy(&old));
    CALL(hcomm_event_destroy(&event));
    EXPECT(HCOMM_ERR_INVALID, hcomm_event_destroy(&old_event));
    if (!acl)
        EXPECT(HCOMM_ERR_UNSUPPORTED, hcomm_stream_adopt(check_handle, NULL, &stream));
}

static void a_communicator_in_use_by_a_stream_cannot_be_freed(void)
{
    hcomm_stream_t stream = new_stream();
    hcomm_comm_t dup = HCOMM_COMM_NULL;
    CALL(hcomm_comm_dup(world, &dup));
    close_gate(stream);
    CALL(hcomm_barrier_on(dup, stream));
    EXPECT(HCOMM_ERR_PENDING, hcomm_comm_free(&dup));
    atomic_store(&gate_open, 1);
    CALL(hcomm_stream_synchronize(stream));
    CALL(hcomm_comm_free(&dup));
    CALL(hcomm_stream_destroy(&stream));
}

static void events_hold_between_contexts(void)
{
    hcomm_config_t config = {.device_id = acl ? HCOMM_DEVICE(rank % 8 ? 0 : 1) : HCOMM_DEVICE_NONE};
    hcomm_handle_t other = NULL;
    hcomm_stream_t here = new_stream(), there = HCOMM_STREAM_NULL;
    hcomm_event_t event = new_event();
    int number = 0;
    CALL(hcomm_init(&other, &config));
    CALL(hcomm_stream_create(other, 0, &there));
    EXPECT(HCOMM_ERR_INVALID, hcomm_event_record(event, there));
    EXPECT(HCOMM_ERR_INVALID, hcomm_barrier_on(world, there));
    close_gate(here);
    CALL(hcomm_event_record(event, here));
    CALL(hcomm_stream_wait_event(there, event));
    CALL(hcomm_launch_host(there, increment, &number));
    streams_pause_ms(5);
    EXPECT(HCOMM_IN_PROGRESS, hcomm_stream_query(there));
    CHECK(number == 0);
    atomic_store(&gate_open, 1);
    CALL(hcomm_stream_synchronize(there));
    CHECK(number == 1);
    CALL(hcomm_finalize(other)); /* destroys its stream */
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_query(there));
    CALL(hcomm_event_destroy(&event));
    CALL(hcomm_stream_destroy(&here));
}

int main(void)
{
    streams_init(0);
    peer = (rank + 1) % size;
    from = (rank + size - 1) % size;
    functions_run_in_order_of_their_stream();
    a_send_sends_what_was_enqueued_before_it();
    an_enqueued_call_returns_before_what_is_ahead_of_it_is_done();
    streams_run_in_parallel();
    a_wait_is_for_the_record_before_it();
    a_complete_event_means_visible_data();
    elapsed_is_the_time_between_records();
    a_destroyed_stream_still_does_its_work();
    groups_of_two_communicators_in_opposite_order_do_not_deadlock();
    a_group_may_span_streams();
    a_group_with_a_bad_call_enqueues_nothing();
    messages_of_streams_match_those_of_other_calls();
    an_error_stays_until_synchronize_reports_it();
    a_host_function_must_not_wait_for_its_stream();
    bad_handles_are_refused();
    a_communicator_in_use_by_a_stream_cannot_be_freed();
    events_hold_between_contexts();
    CALL(hcomm_finalize(check_handle));
    return 0;
}
