/* Streams, events, notifies, host functions: order, and who may use what. */
#include "tests/npusim/npusim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 65536 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void pass_gate(void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
}

/* Hold a stream at this point until the gate is unlocked. */
static void hold(hc_acl_stream_t stream)
{
    expect_ok(acl.aclrtLaunchHostFunc(stream, pass_gate, NULL));
}

static bool event_is_complete(hc_acl_event_t event)
{
    int status = -1;
    expect_ok(acl.aclrtQueryEventStatus(event, &status));
    expect(status == HC_ACL_EVENT_COMPLETE || status == HC_ACL_EVENT_NOT_READY);
    return status == HC_ACL_EVENT_COMPLETE;
}

static void *call_without_device(void *arg)
{
    void *ptr = NULL;
    hc_acl_stream_t stream = NULL;
    int32_t device;
    expect_code(acl.aclrtMalloc(&ptr, 1, 0), HC_ACL_NO_CONTEXT);
    expect_code(acl.aclrtCreateStream(&stream), HC_ACL_NO_CONTEXT);
    expect_code(acl.aclrtSynchronizeStream(arg), HC_ACL_NO_CONTEXT);
    expect_code(acl.aclrtGetDevice(&device), HC_ACL_NO_CONTEXT);
    expect_ok(acl.aclrtSetDevice(1));
    expect_ok(acl.aclrtGetDevice(&device));
    expect(device == 1);
    return NULL;
}

static void current_device_is_the_threads_own(void)
{
    pthread_t thread;
    int32_t device;
    npusim_open(2);
    hc_acl_stream_t stream = npusim_stream();
    expect(!pthread_create(&thread, NULL, call_without_device, stream));
    expect(!pthread_join(thread, NULL));
    expect_ok(acl.aclrtGetDevice(&device));
    expect(device == 2);
    expect_ok(acl.aclrtResetDevice(2));
    expect_code(acl.aclrtGetDevice(&device), HC_ACL_NO_CONTEXT);
    expect_ok(acl.aclrtSetDevice(2));
    expect_code(acl.aclrtSynchronizeStream(stream), HC_ACL_INVALID_HANDLE); /* went with the reset */
}

static void device_stays_until_the_last_reset(void)
{
    npusim_open(0);
    expect_ok(acl.aclrtSetDevice(0));
    void *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtResetDevice(0));
    expect_ok(acl.aclrtMemset(device, SIZE, 0, SIZE));
    expect_ok(acl.aclrtResetDevice(0));
    expect_code(acl.aclrtResetDevice(0), HC_ACL_NO_CONTEXT);
    expect_ok(acl.aclrtSetDevice(0));
    expect_code(acl.aclrtFree(device), HC_ACL_INVALID_PARAMETER);
}

static void stream_of_another_device_is_not_in_context(void)
{
    int status;
    npusim_open(0);
    hc_acl_stream_t stream = npusim_stream();
    expect_ok(acl.aclrtSetDevice(1));
    expect_code(acl.aclrtSynchronizeStream(stream), HC_ACL_STREAM_NOT_IN_CONTEXT);
    expect_code(acl.aclrtStreamQuery(stream, &status), HC_ACL_STREAM_NOT_IN_CONTEXT);
    expect_code(acl.aclrtRecordEvent(npusim_event(), stream), HC_ACL_STREAM_NOT_IN_CONTEXT);
    expect_code(acl.aclrtDestroyStream(stream), HC_ACL_STREAM_NOT_IN_CONTEXT);
}

static void destroyed_handles_are_invalid(void)
{
    int status;
    npusim_open(0);
    hc_acl_stream_t stream = npusim_stream();
    hc_acl_event_t event = npusim_event();
    expect_ok(acl.aclrtDestroyStream(stream));
    expect_ok(acl.aclrtDestroyEvent(event));
    for (int i = 0; i < 200; i++) /* new ones do not take their place */
        (void)npusim_stream(), (void)npusim_event();
    expect_code(acl.aclrtStreamQuery(stream, &status), HC_ACL_INVALID_HANDLE);
    expect_code(acl.aclrtDestroyStream(stream), HC_ACL_INVALID_HANDLE);
    expect_code(acl.aclrtQueryEventStatus(event, &status), HC_ACL_INVALID_HANDLE);
    expect_code(acl.aclrtDestroyEvent(event), HC_ACL_INVALID_HANDLE);
    expect_code(acl.aclrtDestroyStream(npusim_event()), HC_ACL_INVALID_HANDLE);
    expect_code(acl.aclrtDestroyEvent(&status), HC_ACL_INVALID_HANDLE);
    expect_code(acl.aclrtDestroyStream(NULL), HC_ACL_INVALID_HANDLE);
}

static void null_is_the_default_stream(void)
{
    npusim_open(0);
    char *host = npusim_host_alloc(SIZE), *device = npusim_device_alloc(SIZE);
    npusim_fill(host, SIZE, 5);
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, NULL));
    expect_ok(acl.aclrtSynchronizeStream(NULL));
    memset(host, 0, SIZE);
    expect_ok(acl.aclrtMemcpy(host, SIZE, device, SIZE, HC_ACL_D2H));
    expect(npusim_holds(host, SIZE, 5));
}

static int calls[1000], call_count;
static pthread_t caller;

static void note_call(void *arg)
{
    calls[call_count++] = (int)(intptr_t)arg;
    caller = pthread_self();
}

static void host_functions_run_in_stream_order_on_another_thread(void)
{
    npusim_open(0);
    char *host = npusim_host_alloc(SIZE), *device = npusim_device_alloc(SIZE);
    hc_acl_stream_t stream = npusim_stream();
    for (int i = 0; i < 1000; i++) {
        if (i % 3 == 0)
            expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, stream));
        expect_ok(acl.aclrtLaunchHostFunc(stream, note_call, (void *)(intptr_t)i));
    }
    expect_ok(acl.aclrtSynchronizeStream(stream));
    expect(call_count == 1000);
    for (int i = 0; i < 1000; i++)
        expect(calls[i] == i);
    expect(!pthread_equal(caller, pthread_self()));
    expect_code(acl.aclrtLaunchHostFunc(stream, NULL, NULL), HC_ACL_INVALID_PARAMETER);
}

static char *seen_host;
static bool seen_right;

static void look(void *arg)
{
    (void)arg;
    seen_right = npusim_holds(seen_host, SIZE, 6);
}

static void host_function_sees_what_was_copied_before(void)
{
    npusim_open(0);
    char *host = npusim_host_alloc(SIZE), *device = npusim_device_alloc(SIZE);
    hc_acl_stream_t stream = npusim_stream();
    npusim_fill(host, SIZE, 6);
    seen_host = npusim_host_alloc(SIZE);
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, stream));
    expect_ok(acl.aclrtMemcpyAsync(seen_host, SIZE, device, SIZE, HC_ACL_D2H, stream));
    expect_ok(acl.aclrtLaunchHostFunc(stream, look, NULL));
    expect_ok(acl.aclrtSynchronizeStream(stream));
    expect(seen_right);
}

static hc_acl_stream_t own_stream;
static int own_codes[4];

static void end_oneself(void *arg)
{
    (void)arg;
    own_codes[0] = acl.aclrtSetDevice(0);
    own_codes[0] = own_codes[0] ? own_codes[0] : acl.aclrtResetDevice(0); /* not the last one */
    (void)acl.aclrtSetDevice(0);
    own_codes[1] = acl.aclrtDestroyStream(own_stream);
    own_codes[2] = acl.aclrtSynchronizeStream(own_stream);
    own_codes[3] = acl.aclFinalize();
}

static void host_function_that_would_wait_for_itself_is_refused(void)
{
    npusim_open(0);
    own_stream = npusim_stream();
    expect_ok(acl.aclrtLaunchHostFunc(own_stream, end_oneself, NULL));
    expect_ok(acl.aclrtSynchronizeStream(own_stream));
    expect(own_codes[0] == 0);
    for (int i = 1; i < 4; i++)
        expect(own_codes[i] == HC_ACL_NOT_SUPPORTED);
    expect_ok(acl.aclrtDestroyStream(own_stream));
}

static void held_host_function_holds_its_stream_only(void)
{
    npusim_open(0);
    hc_acl_stream_t held = npusim_stream(), other = npusim_stream();
    (void)pthread_mutex_lock(&gate);
    hold(held);
    expect_ok(acl.aclrtLaunchHostFunc(other, note_call, NULL));
    expect_ok(acl.aclrtSynchronizeStream(other));
    expect_code(acl.aclrtSynchronizeStreamWithTimeout(held, 20), HC_ACL_WAIT_TIMEOUT);
    (void)pthread_mutex_unlock(&gate);
    expect_ok(acl.aclrtSynchronizeStreamWithTimeout(held, 30000));
    expect_code(acl.aclrtSynchronizeStreamWithTimeout(held, -2), HC_ACL_INVALID_PARAMETER);
}

static void per_device_callback_threads_run_one_at_a_time(void)
{
    expect(!setenv("NPUSIM_CALLBACK_THREADS", "device", 1));
    npusim_open(0);
    hc_acl_stream_t held = npusim_stream(), other = npusim_stream();
    (void)pthread_mutex_lock(&gate);
    hold(held);
    expect_ok(acl.aclrtLaunchHostFunc(other, note_call, NULL));
    expect_code(acl.aclrtSynchronizeStreamWithTimeout(other, 20), HC_ACL_WAIT_TIMEOUT);
    (void)pthread_mutex_unlock(&gate);
    expect_ok(acl.aclrtSynchronizeStream(other));
}

static void event_never_recorded_is_complete(void)
{
    npusim_open(0);
    hc_acl_event_t event = npusim_event();
    hc_acl_stream_t stream = npusim_stream();
    float ms;
    expect(event_is_complete(event));
    expect_ok(acl.aclrtSynchronizeEvent(event));
    expect_ok(acl.aclrtStreamWaitEvent(stream, event));
    expect_ok(acl.aclrtSynchronizeStream(stream));
    expect_code(acl.aclrtEventElapsedTime(&ms, event, event), HC_ACL_EVENT_NO_TIME);
}

static void event_completes_after_what_was_before_it(void)
{
    npusim_open(0);
    hc_acl_stream_t stream = npusim_stream();
    hc_acl_event_t event = npusim_event();
    (void)pthread_mutex_lock(&gate);
    hold(stream);
    expect_ok(acl.aclrtRecordEvent(event, stream));
    expect(!event_is_complete(event));
    (void)pthread_mutex_unlock(&gate);
    expect_ok(acl.aclrtSynchronizeEvent(event));
    expect(event_is_complete(event));
}

static void stream_wait_is_for_the_record_of_its_time(void)
{
    npusim_open(0);
    hc_acl_stream_t done = npusim_stream(), held = npusim_stream(), waiting = npusim_stream();
    hc_acl_event_t event = npusim_event();
    expect_ok(acl.aclrtRecordEvent(event, done));
    expect_ok(acl.aclrtStreamWaitEvent(waiting, event));
    (void)pthread_mutex_lock(&gate);
    hold(held);
    expect_ok(acl.aclrtRecordEvent(event, held)); /* again, later: not waited for */
    expect_ok(acl.aclrtSynchronizeStreamWithTimeout(waiting, 30000));
    expect(!event_is_complete(event));
    expect_ok(acl.aclrtStreamWaitEvent(waiting, event));
    expect_ok(acl.aclrtDestroyEvent(event)); /* the wait stays */
    expect_code(acl.aclrtSynchronizeStreamWithTimeout(waiting, 20), HC_ACL_WAIT_TIMEOUT);
    (void)pthread_mutex_unlock(&gate);
    expect_ok(acl.aclrtSynchronizeStreamWithTimeout(waiting, 30000));
}

static void streams_of_different_devices_wait_for_each_other(void)
{
    npusim_open(0);
    char *host = npusim_host_alloc(SIZE), *back = npusim_host_alloc(SIZE),
         *device = npusim_device_alloc(SIZE);
    hc_acl_stream_t first = npusim_stream();
    hc_acl_event_t event = npusim_event();
    npusim_fill(host, SIZE, 7);
    (void)pthread_mutex_lock(&gate);
    hold(first);
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, first));
    expect_ok(acl.aclrtRecordEvent(event, first));
    expect_ok(acl.aclrtSetDevice(1));
    expect_ok(acl.aclrtDeviceEnablePeerAccess(0, 0));
    npusim_await_peer(1, 0);
    char *there = npusim_device_alloc(SIZE);
    hc_acl_stream_t second = npusim_stream();
    expect_ok(acl.aclrtStreamWaitEvent(second, event));
    expect_ok(acl.aclrtMemcpyAsync(there, SIZE, device, SIZE, HC_ACL_D2D, second));
    expect_ok(acl.aclrtMemcpyAsync(back, SIZE, there, SIZE, HC_ACL_D2H, second));
    expect_code(acl.aclrtSynchronizeStreamWithTimeout(second, 20), HC_ACL_WAIT_TIMEOUT);
    (void)pthread_mutex_unlock(&gate);
    expect_ok(acl.aclrtSynchronizeStream(second));
    expect(npusim_holds(back, SIZE, 7));
}

static void nap(void *arg)
{
    (void)arg;
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void elapsed_time_is_between_the_records(void)
{
    float ms = -1;
    hc_acl_event_t untimed = NULL;
    npusim_open(0);
    hc_acl_stream_t stream = npusim_stream();
    hc_acl_event_t start = npusim_event(), end = npusim_event();
    expect_ok(acl.aclrtCreateEventExWithFlag(&untimed, HC_ACL_EVENT_SYNC));
    expect_ok(acl.aclrtRecordEvent(start, stream));
    expect_ok(acl.aclrtLaunchHostFunc(stream, nap, NULL));
    expect_ok(acl.aclrtRecordEvent(end, stream));
    expect_ok(acl.aclrtRecordEvent(untimed, stream));
    expect_ok(acl.aclrtSynchronizeStream(stream));
    expect_ok(acl.aclrtEventElapsedTime(&ms, start, end));
    expect(ms >= 20);
    expect_code(acl.aclrtEventElapsedTime(&ms, end, start), HC_ACL_EVENT_REVERSED);
    expect_code(acl.aclrtEventElapsedTime(&ms, start, untimed), HC_ACL_EVENT_NO_TIME);
    expect_code(acl.aclrtCreateEventExWithFlag(&untimed, 0x40), HC_ACL_NOT_SUPPORTED); /* between processes */
}

static void notify_passes_one_wait_per_record(void)
{
    hc_acl_notify_t notify = NULL;
    npusim_open(0);
    hc_acl_stream_t a = npusim_stream(), b = npusim_stream();
    expect_ok(acl.aclrtCreateNotify(&notify, 0));
    expect_ok(acl.aclrtWaitAndResetNotify(notify, a, 0));
    expect_ok(acl.aclrtWaitAndResetNotify(notify, a, 0));
    expect_ok(acl.aclrtRecordNotify(notify, b));
    expect_ok(acl.aclrtSynchronizeStream(b));
    expect_code(acl.aclrtSynchronizeStreamWithTimeout(a, 20), HC_ACL_WAIT_TIMEOUT);
    expect_ok(acl.aclrtRecordNotify(notify, b));
    expect_ok(acl.aclrtSynchronizeStream(a));
    expect_ok(acl.aclrtRecordNotify(notify, b)); /* set ahead of the wait */
    expect_ok(acl.aclrtSynchronizeStream(b));
    expect_ok(acl.aclrtWaitAndResetNotify(notify, a, 0));
    expect_ok(acl.aclrtSynchronizeStream(a));
    expect_ok(acl.aclrtWaitAndResetNotify(notify, a, 1)); /* one second */
    expect_code(acl.aclrtSynchronizeStream(a), HC_ACL_WAIT_TIMEOUT);
    expect_ok(acl.aclrtWaitAndResetNotify(notify, b, 0));
    expect_ok(acl.aclrtDestroyNotify(notify));
    expect_code(acl.aclrtSynchronizeStream(b), HC_ACL_INVALID_HANDLE);
    expect_code(acl.aclrtRecordNotify(notify, b), HC_ACL_INVALID_HANDLE);
}

static void subscribed_thread_runs_the_callbacks(void)
{
    npusim_open(0);
    hc_acl_stream_t stream = npusim_stream();
    uint64_t self = (uint64_t)pthread_self();
    expect_code(acl.aclrtLaunchCallback(note_call, NULL, HC_ACL_CALLBACK_BLOCK, stream),
                HC_ACL_STREAM_NOT_SUBSCRIBED);
    expect_code(acl.aclrtProcessReport(1), HC_ACL_THREAD_NOT_SUBSCRIBED);
    expect_ok(acl.aclrtSubscribeReport(self, stream));
    expect_code(acl.aclrtSubscribeReport(self, stream), HC_ACL_STREAM_NOT_SUBSCRIBED);
    expect_code(acl.aclrtProcessReport(1), HC_ACL_REPORT_TIMEOUT);
    expect_ok(acl.aclrtLaunchCallback(note_call, (void *)1, HC_ACL_CALLBACK_BLOCK, stream));
    expect_code(acl.aclrtSynchronizeStreamWithTimeout(stream, 20), HC_ACL_WAIT_TIMEOUT);
    expect_code(acl.aclrtUnSubscribeReport(self, stream), HC_ACL_INVALID_PARAMETER); /* one is to be called */
    expect_ok(acl.aclrtProcessReport(1000));
    expect(call_count == 1 && calls[0] == 1 && pthread_equal(caller, pthread_self()));
    expect_ok(acl.aclrtSynchronizeStream(stream));
    expect_ok(acl.aclrtLaunchCallback(note_call, (void *)2, HC_ACL_CALLBACK_NO_BLOCK, stream));
    expect_ok(acl.aclrtSynchronizeStream(stream)); /* goes on before the call */
    expect(call_count == 1);
    expect_ok(acl.aclrtProcessReport(-1));
    expect(call_count == 2 && calls[1] == 2);
    expect_ok(acl.aclrtUnSubscribeReport(self, stream));
    expect_code(acl.aclrtUnSubscribeReport(self, stream), HC_ACL_THREAD_NOT_SUBSCRIBED);
}

static void reset_drops_what_waits_for_good(void)
{
    hc_acl_notify_t notify = NULL;
    npusim_open(0);
    hc_acl_stream_t stream = npusim_stream(), other = npusim_stream();
    hc_acl_event_t event = npusim_event();
    expect_ok(acl.aclrtCreateNotify(&notify, 0));
    expect_ok(acl.aclrtWaitAndResetNotify(notify, stream, 0)); /* nobody will set it */
    expect_ok(acl.aclrtRecordEvent(event, stream));
    expect_ok(acl.aclrtStreamWaitEvent(other, event));
    expect_ok(acl.aclrtSetDevice(1));
    hc_acl_stream_t elsewhere = npusim_stream();
    expect_ok(acl.aclrtStreamWaitEvent(elsewhere, event));
    expect_ok(acl.aclrtResetDevice(0));
    expect_ok(acl.aclrtSynchronizeStream(elsewhere)); /* other devices go on */
    expect_ok(acl.aclFinalize());
    expect_code(acl.aclFinalize(), HC_ACL_REPEAT_FINALIZE);
    expect_code(acl.aclrtSetDevice(0), HC_ACL_UNINITIALIZED);
    npusim_open(0); /* and anew */
    (void)npusim_device_alloc(SIZE);
}

static void *copy_until_reset(void *barrier)
{
    static char host[SIZE];
    expect_ok(acl.aclrtSetDevice(0));
    char *device = npusim_device_alloc(SIZE);
    int code;
    (void)pthread_barrier_wait(barrier);
    while (!(code = acl.aclrtMemcpy(device, SIZE, host, SIZE, HC_ACL_H2D)))
        ;
    expect(code == HC_ACL_NO_CONTEXT || code == HC_ACL_UNINITIALIZED || code == HC_ACL_DRIVER_ERROR);
    return NULL;
}

static void finalize_ends_what_other_threads_do(void)
{
    pthread_t threads[3];
    pthread_barrier_t barrier;
    npusim_open(0);
    expect(!pthread_barrier_init(&barrier, NULL, 4));
    for (int i = 0; i < 3; i++)
        expect(!pthread_create(&threads[i], NULL, copy_until_reset, &barrier));
    (void)pthread_barrier_wait(&barrier);
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    expect_ok(acl.aclFinalize());
    for (int i = 0; i < 3; i++)
        expect(!pthread_join(threads[i], NULL));
}

static const struct npusim_test tests[] = {
    {"current_device_is_the_threads_own", current_device_is_the_threads_own},
    {"device_stays_until_the_last_reset", device_stays_until_the_last_reset},
    {"stream_of_another_device_is_not_in_context", stream_of_another_device_is_not_in_context},
    {"destroyed_handles_are_invalid", destroyed_handles_are_invalid},
    {"null_is_the_default_stream", null_is_the_default_stream},
    {"host_functions_run_in_stream_order_on_another_thread",
     host_functions_run_in_stream_order_on_another_thread},
    {"host_function_sees_what_was_copied_before", host_function_sees_what_was_copied_before},
    {"host_function_that_would_wait_for_itself_is_refused",
     host_function_that_would_wait_for_itself_is_refused},
    {"held_host_function_holds_its_stream_only", held_host_function_holds_its_stream_only},
    {"per_device_callback_threads_run_one_at_a_time", per_device_callback_threads_run_one_at_a_time},
    {"event_never_recorded_is_complete", event_never_recorded_is_complete},
    {"event_completes_after_what_was_before_it", event_completes_after_what_was_before_it},
    {"stream_wait_is_for_the_record_of_its_time", stream_wait_is_for_the_record_of_its_time},
    {"streams_of_different_devices_wait_for_each_other", streams_of_different_devices_wait_for_each_other},
    {"elapsed_time_is_between_the_records", elapsed_time_is_between_the_records},
    {"notify_passes_one_wait_per_record", notify_passes_one_wait_per_record},
    {"subscribed_thread_runs_the_callbacks", subscribed_thread_runs_the_callbacks},
    {"finalize_ends_what_other_threads_do", finalize_ends_what_other_threads_do},
    {"reset_drops_what_waits_for_good", reset_drops_what_waits_for_good},
};

int main(int argc, char **argv)
{
    return npusim_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
