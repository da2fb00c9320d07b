/*
 * Streams that get stuck: the error names what and whom, stays until reported, and others go on; the end of
 * the context comes all the same.
 *
 *     streams_failures stuck | finalize | forever
 */
#include "tests/multi/streams_cases.h"

#include <stdatomic.h>

enum { TIMEOUT_MS = 2000 };

static atomic_int released;

static void wait_for_release(void *arg)
{
    (void)arg;
    while (!atomic_load(&released))
        streams_pause_ms(1);
}

static hcomm_stream_t new_stream(void)
{
    hcomm_stream_t stream = HCOMM_STREAM_NULL;
    CALL(hcomm_stream_create(check_handle, 0, &stream));
    return stream;
}

static void increment(void *arg)
{
    ++*(int *)arg;
}

static void a_stuck_receive_names_operation_and_peer(void)
{
    hcomm_stream_t stuck = new_stream(), other = new_stream();
    hcomm_event_t event = HCOMM_EVENT_NULL;
    int buffer = 0, number = 0;
    CALL(hcomm_event_create(check_handle, &event));
    CALL(hcomm_recv_on(&buffer, sizeof(buffer), 1, 5, world, NULL, stuck));
    CALL(hcomm_launch_host(stuck, increment, &number));
    CALL(hcomm_event_record(event, stuck));
    CALL(hcomm_stream_wait_event(other, event));
    CALL(hcomm_launch_host(other, increment, &number));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_stream_synchronize(stuck));
    CHECK(strstr(hcomm_error_detail(), "stream ") && strstr(hcomm_error_detail(), "receive from rank 1"));
    CALL(hcomm_stream_synchronize(other));
    CHECK(number == 1); /* the other's: the stuck stream's was dropped */
    CALL(hcomm_launch_host(stuck, increment, &number));
    CALL(hcomm_stream_synchronize(stuck));
    CHECK(number == 2);
    CALL(hcomm_event_destroy(&event));
    CALL(hcomm_stream_destroy(&stuck));
    CALL(hcomm_stream_destroy(&other));
}

static void a_stuck_barrier_names_who_is_missing(void)
{
    hcomm_stream_t stream = new_stream();
    CALL(hcomm_barrier_on(world, stream));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_stream_synchronize(stream));
    CHECK(strstr(hcomm_error_detail(), "barrier") && strstr(hcomm_error_detail(), "rank 1"));
    CALL(hcomm_stream_destroy(&stream));
}

static void a_long_function_is_waited_for_again(void)
{
    hcomm_stream_t stream = new_stream();
    int number = 0;
    atomic_store(&released, 0);
    CALL(hcomm_launch_host(stream, wait_for_release, NULL));
    CALL(hcomm_launch_host(stream, increment, &number));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_stream_synchronize(stream));
    CHECK(strstr(hcomm_error_detail(), "host function"));
    atomic_store(&released, 1);
    CALL(hcomm_stream_synchronize(stream));
    CHECK(number == 1);
    CALL(hcomm_stream_destroy(&stream));
}

static void finalize_from_inside(void *arg)
{
    *(hcomm_status_t *)arg = hcomm_finalize(check_handle);
}

static void a_function_cannot_finalize_its_own_context(void)
{
    hcomm_status_t status = HCOMM_OK;
    hcomm_stream_t stream = new_stream();
    CALL(hcomm_launch_host(stream, finalize_from_inside, &status));
    CALL(hcomm_stream_synchronize(stream));
    CHECK(status == HCOMM_ERR_INVALID);
    CALL(hcomm_stream_destroy(&stream));
}

static void get_stuck(void)
{
    int over = 1;
    if (rank == 0) {
        a_stuck_receive_names_operation_and_peer();
        a_long_function_is_waited_for_again();
        a_function_cannot_finalize_its_own_context();
        a_stuck_barrier_names_who_is_missing();
        CALL(hcomm_send(&over, sizeof(over), 1, 9, world));
    } else {
        hcomm_status_t status;
        while ((status = hcomm_recv(&over, sizeof(over), 0, 9, world, NULL)) == HCOMM_ERR_TIMEOUT)
            ; /* the other rank lets several time-outs pass */
        CALL(status);
        CALL(hcomm_barrier(world)); /* rank 0 has entered it already */
    }
}

/* What rank 0 enqueues never comes. */
static void finalize_with_work_pending(void)
{
    static int buffer[4];
    hcomm_stream_t stream = new_stream(), second = new_stream();
    CALL(hcomm_recv_on(&buffer[0], sizeof(int), HCOMM_ANY_SOURCE, 5, world, NULL, stream));
    CALL(hcomm_launch_host(stream, increment, &buffer[1]));
    CALL(hcomm_recv_on(&buffer[2], sizeof(int), HCOMM_ANY_SOURCE, 6, world, NULL, second));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_finalize(check_handle));
    CHECK(strstr(hcomm_error_detail(), "receive from any source"));
    CHECK(buffer[1] == 0);
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_query(stream));
}

static void finalize_with_a_function_that_does_not_return(void)
{
    static int number;
    hcomm_stream_t stream = new_stream();
    CALL(hcomm_launch_host(stream, wait_for_release, NULL));
    CALL(hcomm_launch_host(stream, increment, &number));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_finalize(check_handle));
    CHECK(strstr(hcomm_error_detail(), "host function"));
    atomic_store(&released, 1); /* its thread ends now, and must not touch what is gone */
    streams_pause_ms(50);
    CHECK(number == 0);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "stuck";
    streams_init(TIMEOUT_MS);
    if (strcmp(mode, "finalize") == 0) {
        finalize_with_work_pending();
    } else if (strcmp(mode, "forever") == 0) {
        finalize_with_a_function_that_does_not_return();
    } else {
        get_stuck();
        hcomm_status_t status = hcomm_finalize(check_handle);
        CHECK(status == HCOMM_OK || status == HCOMM_ERR_TIMEOUT); /* ranks are far apart in time here */
    }
    return 0;
}
