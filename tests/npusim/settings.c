/* Settings, limits, faults, topology, and the model of bandwidth and latency. */
#include "tests/npusim/npusim.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 100003 };

/* aclInit with a variable set: what it returns must be `code`, what it writes on stderr one line. */
static void init_says(const char *name, const char *value, int code, char text[512])
{
    int ends[2], before = dup(2);
    expect(!setenv(name, value, 1));
    expect(!pipe(ends) && dup2(ends[1], 2) == 2);
    int got = acl.aclInit(NULL);
    expect(dup2(before, 2) == 2);
    (void)close(ends[1]);
    ssize_t len = read(ends[0], text, 511);
    (void)close(ends[0]), (void)close(before);
    expect_code(got, code);
    expect(len >= 0);
    size_t used = len > 0 ? (size_t)len : 0; /* compilers do not see that the line above ends the test */
    text[used] = '\0';
    expect(used == 0 || strchr(text, '\n') == text + used - 1);
}

static void refuse(const char *name, const char *value, const char *words)
{
    char text[512];
    init_says(name, value, HC_ACL_INVALID_PARAMETER, text);
    expect(strstr(text, name) && strstr(text, value) && strstr(text, words));
    expect(!unsetenv(name));
}

static void bad_values_are_named(void)
{
    refuse("NPUSIM_DEVICES", "65", "0 to 64");
    refuse("NPUSIM_DEVICES", "-1", "0 to 64");
    refuse("NPUSIM_DEVICES", "many", "0 to 64");
    refuse("NPUSIM_DEVICES", "8x", "0 to 64");
    refuse("NPUSIM_MEMORY", "1", "1048576");
    refuse("NPUSIM_MEMORY", "99999999999999999999G", "1048576");
    refuse("NPUSIM_TOPOLOGY", "ring", "hccs or pairs");
    refuse("NPUSIM_CALLBACK_THREADS", "none", "stream or device");
    refuse("NPUSIM_STREAMS", "0", "1 to 65536");
    refuse("NPUSIM_VISIBLE_DEVICES", "0,8", "NPUSIM_DEVICES=8");
    refuse("NPUSIM_VISIBLE_DEVICES", "1,1", "different");
    refuse("NPUSIM_VISIBLE_DEVICES", "1,", "different");
    refuse("ASCEND_RT_VISIBLE_DEVICES", "a", "different");
    refuse("NPUSIM_FAULT", "0:copy", "DEVICE:KIND@N");
    refuse("NPUSIM_FAULT", "0:copy@0", "DEVICE:KIND@N");
    refuse("NPUSIM_FAULT", "0:burn@1", "DEVICE:KIND@N");
    refuse("NPUSIM_FAULT", "0:copy@1=", "DEVICE:KIND@N");
    expect_code(acl.aclrtSetDevice(0), HC_ACL_UNINITIALIZED);
    expect_ok(acl.aclInit(NULL)); /* a failed one leaves nothing behind */
    expect_code(acl.aclInit(NULL), HC_ACL_REPEAT_INITIALIZE);
}

static void unknown_variable_gets_a_warning(void)
{
    char text[512];
    init_says("NPUSIM_DEVICE", "3", HC_ACL_OK, text);
    expect(strstr(text, "warn") && strstr(text, "NPUSIM_DEVICE "));
    expect_ok(acl.aclFinalize());
    expect(!setenv("PMIX_RANK", "1", 1)); /* rank 0 has told it */
    init_says("NPUSIM_DEVICE", "3", HC_ACL_OK, text);
    expect(!*text);
}

static void missing_configuration_file_is_refused(void)
{
    expect_code(acl.aclInit("/nonexistent/acl.json"), HC_ACL_INVALID_PARAMETER);
    expect(strstr(acl.aclGetRecentErrMsg(), "/nonexistent/acl.json"));
    expect_ok(acl.aclInit(""));
}

static void visible_devices_are_renumbered(void)
{
    uint32_t count = 0;
    int32_t physical = -1;
    char text[32];
    expect(!setenv("ASCEND_RT_VISIBLE_DEVICES", "0", 1)); /* the simulator's own goes first */
    expect(!setenv("NPUSIM_VISIBLE_DEVICES", "5,2,3", 1));
    npusim_open(2);
    expect_ok(acl.aclrtGetDeviceCount(&count));
    expect(count == 3);
    expect_ok(acl.aclrtGetPhyDevIdByLogicDevId(0, &physical));
    expect(physical == 5);
    expect_code(acl.aclrtSetDevice(3), HC_ACL_INVALID_DEVICE_ID);
    expect_code(acl.aclrtSetDevice(-1), HC_ACL_INVALID_DEVICE_ID);
    expect_ok(acl.aclrtDeviceGetPCIBusId(0, text, sizeof(text)));
    expect(!strcmp(text, "ffff:05:00.0"));
    expect_code(acl.aclrtDeviceGetPCIBusId(0, text, 12), HC_ACL_INVALID_PARAMETER);
    expect(acl.aclrtGetSocName()[0]);
}

static void no_visible_device_is_an_error(void)
{
    uint32_t count = 7;
    expect(!setenv("NPUSIM_VISIBLE_DEVICES", "", 1));
    expect_ok(acl.aclInit(NULL));
    expect_code(acl.aclrtGetDeviceCount(&count), HC_ACL_NO_DEVICE);
    expect_code(acl.aclrtSetDevice(0), HC_ACL_NO_DEVICE);
    expect(count == 7);
}

static uint64_t link_between(uint32_t device, uint32_t other)
{
    uint64_t links = 0;
    expect_ok(acl.aclrtGetDevicesTopo(device, other, &links));
    return links;
}

static void topology_is_a_mesh_or_pairs(void)
{
    int32_t can = -1;
    expect_ok(acl.aclInit(NULL));
    expect(link_between(0, 7) == HC_ACL_LINK_HCCS && link_between(3, 1) == HC_ACL_LINK_HCCS);
    expect_ok(acl.aclFinalize());
    expect(!setenv("NPUSIM_TOPOLOGY", "pairs", 1) && !setenv("NPUSIM_VISIBLE_DEVICES", "1,0,2", 1));
    npusim_open(1);
    expect(link_between(0, 1) == HC_ACL_LINK_HCCS && link_between(1, 2) == HC_ACL_LINK_SYS);
    expect_ok(acl.aclrtDeviceCanAccessPeer(&can, 1, 0));
    expect(can == 1);
    expect_ok(acl.aclrtDeviceCanAccessPeer(&can, 1, 2));
    expect(can == 0);
    expect_code(acl.aclrtDeviceEnablePeerAccess(2, 0), HC_ACL_NOT_SUPPORTED);
    expect_code(acl.aclrtDeviceEnablePeerAccess(3, 0), HC_ACL_INVALID_DEVICE_ID);
}

static void streams_events_and_notifies_run_out(void)
{
    hc_acl_stream_t streams[3], stream = NULL;
    hc_acl_event_t events[2], event = NULL;
    hc_acl_notify_t notify = NULL;
    expect(!setenv("NPUSIM_STREAMS", "3", 1) && !setenv("NPUSIM_EVENTS", "2", 1) &&
           !setenv("NPUSIM_NOTIFIES", "1", 1));
    npusim_open(0);
    for (int round = 0; round < 10; round++) { /* and what is given back can be had again */
        for (int i = 0; i < 3; i++)
            streams[i] = npusim_stream();
        for (int i = 0; i < 2; i++)
            events[i] = npusim_event();
        expect_code(acl.aclrtCreateStream(&stream), HC_ACL_NO_STREAM);
        expect_code(acl.aclrtCreateEventExWithFlag(&event, 1), HC_ACL_NO_EVENT);
        expect_ok(acl.aclrtSynchronizeStream(NULL)); /* the default stream does not count */
        expect_ok(acl.aclrtCreateNotify(&notify, 0));
        hc_acl_notify_t more = NULL;
        expect_code(acl.aclrtCreateNotify(&more, 0), HC_ACL_NO_NOTIFY);
        expect(!stream && !event && !more);
        expect_ok(acl.aclrtDestroyNotify(notify));
        for (int i = 0; i < 3; i++)
            expect_ok(acl.aclrtDestroyStream(streams[i]));
        for (int i = 0; i < 2; i++)
            expect_ok(acl.aclrtDestroyEvent(events[i]));
    }
}

static void never_called(void *arg)
{
    (void)arg;
    expect(!"called after a failure");
}

static void failed_copy_stays_on_its_stream(void)
{
    expect(!setenv("NPUSIM_FAULT", "0:copy@2=507013", 1));
    npusim_open(0);
    int status;
    char *host = npusim_host_alloc(SIZE), *device = npusim_device_alloc(SIZE);
    hc_acl_stream_t stream = npusim_stream(), other = npusim_stream();
    hc_acl_event_t event = npusim_event();
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, stream));
    expect_ok(acl.aclrtSynchronizeStream(stream));
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, stream)); /* the one that fails */
    expect_ok(acl.aclrtLaunchHostFunc(stream, never_called, NULL));
    expect_ok(acl.aclrtRecordEvent(event, stream));
    expect_ok(acl.aclrtStreamWaitEvent(other, event));
    expect_code(acl.aclrtSynchronizeStream(stream), 507013);
    expect_code(acl.aclrtStreamQuery(stream, &status), 507013);
    expect_ok(acl.aclrtSynchronizeEvent(event));
    expect_ok(acl.aclrtSynchronizeStream(other)); /* others go on */
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, other));
    expect_ok(acl.aclrtSynchronizeStream(other));
    expect_ok(acl.aclrtDestroyStream(stream));
}

static void lost_device_fails_and_others_go_on(void)
{
    expect(!setenv("NPUSIM_FAULT", "1:lost@3,0:malloc@2", 1));
    void *ptr = NULL;
    npusim_open(0);
    (void)npusim_device_alloc(SIZE);
    expect_code(acl.aclrtMalloc(&ptr, SIZE, 0), HC_ACL_OUT_OF_MEMORY);
    expect(!ptr);
    expect_ok(acl.aclrtSetDevice(1));
    char *host = npusim_host_alloc(SIZE), *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtMemcpy(device, SIZE, host, SIZE, HC_ACL_H2D));
    expect_ok(acl.aclrtMemset(device, SIZE, 0, SIZE));
    expect_code(acl.aclrtMemcpy(device, SIZE, host, SIZE, HC_ACL_H2D), HC_ACL_DRIVER_ERROR);
    expect_code(acl.aclrtMalloc(&ptr, SIZE, 0), HC_ACL_DRIVER_ERROR);
    expect_code(acl.aclrtSynchronizeStream(NULL), HC_ACL_DRIVER_ERROR);
    expect_ok(acl.aclrtSetDevice(0));
    expect_ok(acl.aclrtMalloc(&ptr, SIZE, 0));
    expect_ok(acl.aclrtMemcpy(ptr, SIZE, host, SIZE, HC_ACL_H2D));
    expect_ok(acl.aclrtResetDevice(1));
    expect_code(acl.aclrtSetDevice(1), HC_ACL_DRIVER_ERROR);
}

static double timed_copies(char *to, const char *from, size_t n, int count, int kind)
{
    struct timespec begin, end;
    hc_acl_stream_t stream = npusim_stream();
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < count; i++)
        expect_ok(acl.aclrtMemcpyAsync(to, n, from, n, kind, stream));
    expect_ok(acl.aclrtSynchronizeStream(stream));
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    expect_ok(acl.aclrtDestroyStream(stream));
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

/* Only lower bounds: how long it takes at least does not depend on the machine. */
static void modelled_links_take_their_time(void)
{
    expect(!setenv("NPUSIM_HOST_BANDWIDTH", "100M", 1) && !setenv("NPUSIM_HOST_LATENCY", "2000000", 1));
    expect(!setenv("NPUSIM_PEER_BANDWIDTH", "200M", 1) && !setenv("NPUSIM_PEER_DELAY", "0", 1));
    npusim_open(1);
    char *there = npusim_device_alloc(1 << 20);
    expect_ok(acl.aclrtSetDevice(0));
    expect_ok(acl.aclrtDeviceEnablePeerAccess(1, 0));
    char *host = npusim_host_alloc(1 << 20), *device = npusim_device_alloc(1 << 20);
    expect(timed_copies(device, host, 1 << 20, 5, HC_ACL_H2D) >= 5 * (0.01 + 0.002));
    expect(timed_copies(host, device, 1 << 20, 5, HC_ACL_D2H) >= 5 * (0.01 + 0.002));
    expect(timed_copies(host, device, 1, 10, HC_ACL_D2H) >= 10 * 0.002);
    expect(timed_copies(there, device, 1 << 20, 4, HC_ACL_D2D) >= 4 * 0.005);
}

/* Two copies of half a second each, in different directions: together they take less than both in turn. */
static void directions_work_at_the_same_time(void)
{
    float ms = 0;
    expect(!setenv("NPUSIM_HOST_BANDWIDTH", "2M", 1));
    npusim_open(0);
    char *host = npusim_host_alloc(2 << 20), *device = npusim_device_alloc(2 << 20);
    hc_acl_stream_t in = npusim_stream(), out = npusim_stream();
    hc_acl_event_t begin = npusim_event(), end = npusim_event();
    expect_ok(acl.aclrtRecordEvent(begin, in));
    expect_ok(acl.aclrtMemcpyAsync(device, 1 << 20, host, 1 << 20, HC_ACL_H2D, in));
    expect_ok(acl.aclrtMemcpyAsync(host + (1 << 20), 1 << 20, device + (1 << 20), 1 << 20, HC_ACL_D2H, out));
    expect_ok(acl.aclrtRecordEvent(end, out));
    expect_ok(acl.aclrtStreamWaitEvent(in, end));
    expect_ok(acl.aclrtRecordEvent(end, in));
    expect_ok(acl.aclrtSynchronizeStream(in));
    expect_ok(acl.aclrtEventElapsedTime(&ms, begin, end));
    expect(ms >= 500 && ms < 950);
}

static const struct npusim_test tests[] = {
    {"bad_values_are_named", bad_values_are_named},
    {"unknown_variable_gets_a_warning", unknown_variable_gets_a_warning},
    {"missing_configuration_file_is_refused", missing_configuration_file_is_refused},
    {"visible_devices_are_renumbered", visible_devices_are_renumbered},
    {"no_visible_device_is_an_error", no_visible_device_is_an_error},
    {"topology_is_a_mesh_or_pairs", topology_is_a_mesh_or_pairs},
    {"streams_events_and_notifies_run_out", streams_events_and_notifies_run_out},
    {"failed_copy_stays_on_its_stream", failed_copy_stays_on_its_stream},
    {"lost_device_fails_and_others_go_on", lost_device_fails_and_others_go_on},
    {"modelled_links_take_their_time", modelled_links_take_their_time},
    {"directions_work_at_the_same_time", directions_work_at_the_same_time},
};

int main(int argc, char **argv)
{
    return npusim_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
