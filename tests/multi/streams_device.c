/*
 * Streams of a device together with what the application enqueues there itself. One rank; the simulator,
 * because it can be told to fail.
 *
 *     streams_device [fault | missing]      fault: NPUSIM_FAULT makes a copy fail; missing: the device
 * runtime has no functions that call the host
 */
#include "tests/multi/streams_cases.h"

#include <pthread.h>
#include <stdatomic.h>

enum { COUNT = 4096, BYTES = COUNT * sizeof(int) };

static atomic_int released;

static void wait_for_release(void *arg)
{
    (void)arg;
    while (!atomic_load(&released))
        streams_pause_ms(1);
}

static void increment(void *arg)
{
    ++*(int *)arg;
}

static void *device_memory(void)
{
    void *ptr = NULL;
    CHECK(acl->aclrtMalloc(&ptr, BYTES, HC_ACL_HUGE_FIRST) == 0);
    return ptr;
}

static void fill(int *values, int first)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = first + i;
}

static void what_is_enqueued_on_the_device_itself_keeps_the_order(void)
{
    hc_acl_stream_t native = NULL;
    hcomm_stream_t stream = HCOMM_STREAM_NULL;
    int *out = streams_pinned(BYTES), *in = streams_pinned(BYTES), *back = streams_pinned(BYTES);
    void *device = device_memory();
    CHECK(acl->aclrtCreateStream(&native) == 0);
    CALL(hcomm_stream_adopt(check_handle, native, &stream));
    CHECK(hcomm_stream_native(stream) == native);
    for (int round = 0; round < 20; round++) {
        atomic_store(&released, 0);
        fill(out, round);
        memset(in, 0, BYTES);
        CALL(hcomm_launch_host(stream, wait_for_release, NULL));
        CALL(hcomm_sendrecv_on(out, BYTES, 0, 1, in, BYTES, 0, 1, world, NULL, stream));
        /* as a kernel would be: the device must not get to it before the message is there */
        CHECK(acl->aclrtMemcpyAsync(device, BYTES, in, BYTES, HC_ACL_H2D, native) == 0);
        CHECK(acl->aclrtMemcpyAsync(back, BYTES, device, BYTES, HC_ACL_D2H, native) == 0);
        /* and a message sends what that wrote */
        CALL(hcomm_sendrecv_on(back, BYTES, 0, 2, out, BYTES, 0, 2, world, NULL, stream));
        atomic_store(&released, 1);
        if (round % 2)
            CHECK(acl->aclrtSynchronizeStream(native) == 0);
        else
            CALL(hcomm_stream_synchronize(stream));
        for (int i = 0; i < COUNT; i++)
            CHECK(back[i] == round + i && out[i] == round + i);
    }
    CALL(hcomm_stream_destroy(&stream));
    CHECK(acl->aclrtSynchronizeStream(native) == 0); /* still the application's */
    CHECK(acl->aclrtDestroyStream(native) == 0);
}

static void events_hold_between_streams_of_the_device(void)
{
    hcomm_stream_t first = HCOMM_STREAM_NULL, second = HCOMM_STREAM_NULL;
    hcomm_event_t event = HCOMM_EVENT_NULL;
    int *out = streams_pinned(BYTES), *in = streams_pinned(BYTES);
    void *device = device_memory();
    CALL(hcomm_stream_create(check_handle, 0, &first));
    CALL(hcomm_stream_create(check_handle, 0, &second));
    CALL(hcomm_event_create(check_handle, &event));
    for (int round = 0; round < 20; round++) {
        fill(out, 100 + round);
        atomic_store(&released, 0);
        CALL(hcomm_launch_host(first, wait_for_release, NULL));
        CALL(hcomm_memcpy_async(device, out, BYTES, HCOMM_COPY_HOST_TO_DEVICE, first));
        CALL(hcomm_event_record(event, first));
        CALL(hcomm_stream_wait_event(second, event));
        CALL(hcomm_memcpy_async(in, device, BYTES, HCOMM_COPY_AUTO, second));
        EXPECT(HCOMM_IN_PROGRESS, hcomm_event_query(event));
        EXPECT(HCOMM_IN_PROGRESS, hcomm_stream_query(second));
        atomic_store(&released, 1);
        CALL(hcomm_stream_synchronize(second));
        CALL(hcomm_event_query(event));
        CHECK(in[0] == 100 + round && in[COUNT - 1] == 100 + round + COUNT - 1);
    }
    CALL(hcomm_event_destroy(&event));
    CALL(hcomm_stream_destroy(&first));
    CALL(hcomm_stream_destroy(&second));
}

/* From and to memory that is not pinned the device's own call would wait for the whole stream. */
static void copies_of_any_memory_return_at_once(void)
{
    hcomm_stream_t stream = HCOMM_STREAM_NULL;
    static int out[COUNT], in[COUNT], last[COUNT];
    void *device = device_memory();
    fill(out, 3);
    CALL(hcomm_stream_create(check_handle, 0, &stream));
    atomic_store(&released, 0);
    CALL(hcomm_launch_host(stream, wait_for_release, NULL));
    CALL(hcomm_memcpy_async(device, out, BYTES, HCOMM_COPY_AUTO, stream));
    CALL(hcomm_memcpy_async(in, device, BYTES, HCOMM_COPY_DEVICE_TO_HOST, stream));
    CALL(hcomm_memcpy_async(last, in, BYTES, HCOMM_COPY_HOST_TO_HOST, stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_memcpy_async(device, out, BYTES, HCOMM_COPY_HOST_TO_HOST, stream));
    EXPECT(HCOMM_ERR_INVALID, hcomm_memcpy_async(device, out, BYTES + 1, HCOMM_COPY_AUTO, stream));
    EXPECT(HCOMM_IN_PROGRESS, hcomm_stream_query(stream));
    atomic_store(&released, 1);
    CALL(hcomm_stream_synchronize(stream));
    CHECK(memcmp(out, last, BYTES) == 0);
    CALL(hcomm_stream_destroy(&stream));
}

static void a_stream_can_be_adopted_again_and_again(void)
{
    hc_acl_stream_t native = NULL;
    int calls = 0;
    CHECK(acl->aclrtCreateStream(&native) == 0);
    for (int round = 1; round <= 20; round++) {
        hcomm_stream_t stream = HCOMM_STREAM_NULL;
        CALL(hcomm_stream_adopt(check_handle, native, &stream));
        CALL(hcomm_launch_host(stream, increment, &calls));
        if (round % 2)
            CALL(hcomm_stream_synchronize(stream));
        CALL(hcomm_stream_destroy(&stream));
        CHECK(acl->aclrtSynchronizeStream(native) == 0);
        CHECK(calls == round);
    }
    CHECK(acl->aclrtDestroyStream(native) == 0);
}

static atomic_int serving;

static void *serve_reports(void *arg)
{
    (void)arg;
    CHECK(acl->aclrtSetDevice(0) == 0);
    while (atomic_load(&serving))
        if (acl->aclrtProcessReport(10) == HC_ACL_THREAD_NOT_SUBSCRIBED)
            streams_pause_ms(1);
    return NULL;
}

/* As programs for older device runtimes have one: a stream takes no second thread. */
static void a_stream_whose_host_functions_the_application_runs_can_be_adopted(void)
{
    hc_acl_stream_t native = NULL;
    hcomm_stream_t stream = HCOMM_STREAM_NULL;
    pthread_t thread;
    int calls = 0;
    atomic_store(&serving, 1);
    CHECK(pthread_create(&thread, NULL, serve_reports, NULL) == 0);
    CHECK(acl->aclrtCreateStream(&native) == 0);
    CHECK(acl->aclrtSubscribeReport((uint64_t)thread, native) == 0);
    CALL(hcomm_stream_adopt(check_handle, native, &stream));
    for (int i = 0; i < 10; i++)
        CALL(hcomm_launch_host(stream, increment, &calls));
    CALL(hcomm_stream_synchronize(stream));
    CHECK(calls == 10);
    CALL(hcomm_stream_destroy(&stream));
    CHECK(acl->aclrtSynchronizeStream(native) == 0);
    CHECK(acl->aclrtUnSubscribeReport((uint64_t)thread, native) == 0);
    CHECK(acl->aclrtDestroyStream(native) == 0);
    atomic_store(&serving, 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void what_the_device_runtime_lacks_is_named(void)
{
    hcomm_stream_t stream = HCOMM_STREAM_NULL;
    EXPECT(HCOMM_ERR_UNSUPPORTED, hcomm_stream_create(check_handle, 0, &stream));
    CHECK(!stream &&
          strstr(hcomm_error_detail(), "aclrtLaunchHostFunc (or aclrtLaunchCallback and reports)"));
    CHECK(strstr(hcomm_error_detail(), acl->library) && !strstr(hcomm_error_detail(), "notifies"));
    CHECK(strstr(hcomm_error_detail(), "rank 0: device 0 (physical 0)"));
    CHECK(strstr(hcomm_error_detail(), "install a newer one"));
}

static void foreign_streams_are_refused(void)
{
    hc_acl_stream_t native = NULL;
    hcomm_stream_t stream = HCOMM_STREAM_NULL;
    CHECK(acl->aclrtSetDevice(1) == 0);
    CHECK(acl->aclrtCreateStream(&native) == 0);
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_adopt(check_handle, native, &stream));
    CHECK(strstr(hcomm_error_detail(), "rank 0: device 0 (physical 0)"));
    CHECK(strstr(hcomm_error_detail(), "use a stream of the context's device"));
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_query((hcomm_stream_t)native));
    CHECK(strstr(hcomm_error_detail(), "rank 0, device 0 (physical 0)"));
    CHECK(strstr(hcomm_error_detail(), "hcomm_stream_adopt()"));
    EXPECT(HCOMM_ERR_INVALID, hcomm_event_query((hcomm_event_t)native));
    CHECK(strstr(hcomm_error_detail(), "rank 0, device 0 (physical 0)"));
    CHECK(acl->aclrtDestroyStream(native) == 0);
    EXPECT(HCOMM_ERR_INVALID, hcomm_stream_adopt(check_handle, native, &stream));
    CHECK(acl->aclrtSetDevice(0) == 0);
}

static void streams_and_events_used_up_are_reported_with_figures(void)
{
    enum { STREAMS = 64 }; /* more than NPUSIM_STREAMS in streams.sh */
    hcomm_stream_t streams[STREAMS];
    int made = 0;
    hcomm_status_t status = HCOMM_OK;
    while (made < STREAMS && (status = hcomm_stream_create(check_handle, 0, &streams[made])) == HCOMM_OK)
        made++;
    CHECK(status == HCOMM_ERR_LIMIT && made > 1);
    CHECK(strstr(hcomm_error_detail(), " in use in this context") && strstr(hcomm_error_detail(), "all 40"));
    CALL(hcomm_stream_destroy(&streams[--made]));
    while (hcomm_stream_create(check_handle, 0, &streams[made]) != HCOMM_OK)
        streams_pause_ms(1); /* released once it is empty */
    for (int i = 0; i <= made; i++)
        CALL(hcomm_stream_destroy(&streams[i]));
}

/* The failure may have been noticed already. */
static void enqueued_or_refused(hcomm_status_t status)
{
    CHECK(status == HCOMM_OK || status == HCOMM_ERR_IO);
}

/* The device calls no functions of a stream that has failed, so nobody would ever hear of what is behind. */
static void a_failed_copy_fails_its_stream_only(void)
{
    hcomm_stream_t bad = HCOMM_STREAM_NULL, good = HCOMM_STREAM_NULL;
    hcomm_event_t event = HCOMM_EVENT_NULL;
    int *out = streams_pinned(BYTES), number = 0, buffer = 0;
    void *device = device_memory();
    CALL(hcomm_stream_create(check_handle, 0, &bad));
    CALL(hcomm_stream_create(check_handle, 0, &good));
    CALL(hcomm_event_create(check_handle, &event));
    CALL(hcomm_memcpy_async(device, out, BYTES, HCOMM_COPY_AUTO, bad)); /* NPUSIM_FAULT=0:copy@1 */
    enqueued_or_refused(hcomm_launch_host(bad, increment, &number));
    enqueued_or_refused(hcomm_recv_on(&buffer, sizeof(buffer), 0, 1, world, NULL, bad));
    enqueued_or_refused(hcomm_barrier_on(world, bad));
    enqueued_or_refused(hcomm_event_record(event, bad));
    EXPECT(HCOMM_ERR_IO, hcomm_stream_synchronize(bad));
    CHECK(strstr(hcomm_error_detail(), "rank 0") && strstr(hcomm_error_detail(), "device 0"));
    CALL(hcomm_stream_wait_event(good, event));
    CALL(hcomm_memcpy_async(device, out, BYTES, HCOMM_COPY_AUTO, good));
    CALL(hcomm_launch_host(good, increment, &number));
    CALL(hcomm_stream_synchronize(good));
    CHECK(number == 1);
    CHECK(hcomm_stream_synchronize(bad) < 0); /* stays failed */
    CALL(hcomm_stream_destroy(&bad));
    CALL(hcomm_stream_destroy(&good));
    CALL(hcomm_event_destroy(&event));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    streams_init(0);
    CHECK(acl);
    if (strcmp(mode, "missing") == 0) {
        what_the_device_runtime_lacks_is_named();
    } else if (strcmp(mode, "fault") == 0) {
        a_failed_copy_fails_its_stream_only();
    } else {
        what_is_enqueued_on_the_device_itself_keeps_the_order();
        events_hold_between_streams_of_the_device();
        copies_of_any_memory_return_at_once();
        a_stream_can_be_adopted_again_and_again();
        a_stream_whose_host_functions_the_application_runs_can_be_adopted();
        foreign_streams_are_refused();
        streams_and_events_used_up_are_reported_with_figures();
    }
    CALL(hcomm_finalize(check_handle));
    return 0;
}
