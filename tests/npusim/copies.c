/* Memory and copies: what reaches what, and which traps close. */
#include "tests/npusim/npusim.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 100003 };

static void copy_goes_to_the_device_and_back(void)
{
    static char from[SIZE], to[SIZE];
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE), *other = npusim_device_alloc(SIZE);
    npusim_fill(from, SIZE, 1);
    expect_ok(acl.aclrtMemcpy(device, SIZE, from, SIZE, HC_ACL_H2D));
    expect_ok(acl.aclrtMemcpy(other, SIZE, device, SIZE, HC_ACL_D2D));
    expect_ok(acl.aclrtMemcpy(to, SIZE, other, SIZE, HC_ACL_COPY_DEFAULT));
    expect(npusim_holds(to, SIZE, 1));
    expect_ok(acl.aclrtMemset(device + 10, 100, 0x5a, 100));
    expect_ok(acl.aclrtMemcpy(to, SIZE, device, SIZE, HC_ACL_D2H));
    for (int i = 0; i < 100; i++)
        expect(to[10 + i] == 0x5a);
    expect(to[9] == from[9] && to[110] == from[110]);
    expect_ok(acl.aclrtMemcpy(to, SIZE, from, SIZE, HC_ACL_H2H));
    expect(npusim_holds(to, SIZE, 1));
    expect_ok(acl.aclrtFree(device));
    expect_ok(acl.aclFinalize());
}

static void copy_inside_a_device_may_overlap(void)
{
    static char from[SIZE], to[SIZE];
    npusim_open(0);
    char *device = npusim_device_alloc(2 * SIZE);
    npusim_fill(from, SIZE, 2);
    expect_ok(acl.aclrtMemcpy(device, SIZE, from, SIZE, HC_ACL_H2D));
    expect_ok(acl.aclrtMemcpy(device + 7, SIZE, device, SIZE, HC_ACL_D2D));
    expect_ok(acl.aclrtMemcpy(to, SIZE, device + 7, SIZE, HC_ACL_D2H));
    expect(npusim_holds(to, SIZE, 2));
}

/* Whether reading or writing one byte at the address ends a process by SIGSEGV. */
static bool faults(volatile char *address, bool write)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        (void)signal(SIGSEGV, SIG_DFL);
        if (write)
            *address = 1;
        else
            (void)*address;
        _exit(0);
    }
    expect(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void device_memory_faults_when_the_host_touches_it(void)
{
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtMemset(device, SIZE, 1, SIZE));
    expect(faults(device, false));
    expect(faults(device, true));
    expect(faults(device + SIZE - 1, false));
}

static void copy_beyond_the_block_is_refused(void)
{
    static char host[SIZE + 1];
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_code(acl.aclrtMemcpy(device, SIZE + 1, host, SIZE + 1, HC_ACL_H2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(device + 1, SIZE, host, SIZE, HC_ACL_H2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(host, SIZE, device - 1, 1, HC_ACL_D2H), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(device, SIZE - 1, host, SIZE, HC_ACL_H2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemset(device, SIZE + 1, 0, SIZE + 1), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(NULL, SIZE, host, 1, HC_ACL_H2D), HC_ACL_INVALID_PARAMETER);
    expect_ok(acl.aclrtMemcpy(device, SIZE, host, 0, HC_ACL_H2D));
}

static void freed_memory_is_no_longer_known(void)
{
    static char host[SIZE];
    struct hc_acl_pointer_attributes attributes;
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_code(acl.aclrtFree(device + 4096), HC_ACL_INVALID_PARAMETER);
    expect_ok(acl.aclrtFree(device));
    expect_code(acl.aclrtFree(device), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtFree(host), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(device, SIZE, host, SIZE, HC_ACL_H2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtPointerGetAttributes(device, &attributes), HC_ACL_INVALID_PARAMETER);
}

static void kind_must_be_what_the_memory_is(void)
{
    static char host[SIZE];
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_code(acl.aclrtMemcpy(device, SIZE, host, SIZE, HC_ACL_D2H), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(host, SIZE, device, SIZE, HC_ACL_H2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(host, SIZE, device, SIZE, HC_ACL_D2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(host, SIZE, device, SIZE, HC_ACL_H2H), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(host, SIZE, device, SIZE, 5), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(host, SIZE, device, SIZE, -1), HC_ACL_INVALID_PARAMETER);
}

static void async_copy_between_hosts_is_not_supported(void)
{
    npusim_open(0);
    char *a = npusim_host_alloc(SIZE), *b = npusim_host_alloc(SIZE);
    hc_acl_stream_t stream = npusim_stream();
    expect_code(acl.aclrtMemcpyAsync(a, SIZE, b, SIZE, HC_ACL_H2H, stream), HC_ACL_NOT_SUPPORTED);
    expect_code(acl.aclrtMemcpyAsync(a, SIZE, b, SIZE, HC_ACL_COPY_DEFAULT, stream), HC_ACL_NOT_SUPPORTED);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void pass_gate(void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
}

static void async_copy_from_pinned_memory_returns_at_once(void)
{
    int status;
    npusim_open(0);
    char *host = npusim_host_alloc(SIZE), *device = npusim_device_alloc(SIZE);
    hc_acl_stream_t stream = npusim_stream();
    npusim_fill(host, SIZE, 3);
    (void)pthread_mutex_lock(&gate);
    expect_ok(acl.aclrtLaunchHostFunc(stream, pass_gate, NULL));
    expect_ok(
        acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, stream)); /* would hang if it waited */
    expect_ok(acl.aclrtStreamQuery(stream, &status));
    expect(status == HC_ACL_STREAM_NOT_READY);
    (void)pthread_mutex_unlock(&gate);
    expect_ok(acl.aclrtSynchronizeStream(stream));
    expect_ok(acl.aclrtStreamQuery(stream, &status));
    expect(status == HC_ACL_STREAM_COMPLETE);
    memset(host, 0, SIZE);
    expect_ok(acl.aclrtMemcpy(host, SIZE, device, SIZE, HC_ACL_D2H));
    expect(npusim_holds(host, SIZE, 3));
}

static void async_copy_from_pageable_memory_is_synchronous(void)
{
    static char host[SIZE], back[SIZE];
    int status;
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    hc_acl_stream_t stream = npusim_stream();
    for (unsigned round = 0; round < 100; round++) {
        npusim_fill(host, SIZE, round);
        expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, stream));
        memset(host, 0xff, SIZE); /* has been read */
        expect_ok(acl.aclrtStreamQuery(stream, &status));
        expect(status == HC_ACL_STREAM_COMPLETE);
        expect_ok(acl.aclrtMemcpyAsync(back, SIZE, device, SIZE, HC_ACL_D2H, stream));
        expect(npusim_holds(back, SIZE, round));
    }
}

static void pointer_attributes_tell_the_memory(void)
{
    static _Alignas(HC_ACL_HOST_ALIGN) char aligned[8192];
    struct hc_acl_pointer_attributes attributes;
    void *mapped;
    npusim_open(3);
    char *device = npusim_device_alloc(SIZE), *host = npusim_host_alloc(SIZE);
    expect_ok(acl.aclrtPointerGetAttributes(device + 5, &attributes));
    expect(attributes.location.type == HC_ACL_MEMORY_DEVICE && attributes.location.id == 3);
    expect(attributes.page_size > 0);
    expect_ok(acl.aclrtPointerGetAttributes(host + SIZE - 1, &attributes));
    expect(attributes.location.type == HC_ACL_MEMORY_HOST);
    expect_ok(acl.aclrtPointerGetAttributes(aligned, &attributes));
    expect(attributes.location.type == HC_ACL_MEMORY_UNREGISTERED);
    expect_ok(acl.aclrtHostRegister(aligned, 4096, HC_ACL_HOST_REGISTER_MAPPED, &mapped));
    expect_ok(acl.aclrtPointerGetAttributes(aligned + 4095, &attributes));
    expect(attributes.location.type == HC_ACL_MEMORY_HOST);
    expect_ok(acl.aclrtPointerGetAttributes(aligned + 4096, &attributes));
    expect(attributes.location.type == HC_ACL_MEMORY_UNREGISTERED);
    expect_code(acl.aclrtPointerGetAttributes(NULL, &attributes), HC_ACL_INVALID_PARAMETER);
}

static void host_register_wants_aligned_memory_once(void)
{
    static _Alignas(HC_ACL_HOST_ALIGN) char aligned[16384];
    void *mapped = NULL;
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_code(acl.aclrtHostRegister(aligned + 64, 4096, 0, &mapped), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtHostRegister(aligned, 0, 0, &mapped), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtHostRegister(aligned, 4096, 1, &mapped), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtHostRegister(device, 4096, 0, &mapped), HC_ACL_INVALID_PARAMETER);
    expect(!mapped);
    expect_ok(acl.aclrtHostRegister(aligned + 4096, 8192, 0, &mapped));
    expect(mapped);
    expect_code(acl.aclrtHostRegister(aligned, 8192, 0, &mapped), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtHostUnregister(aligned), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtFreeHost(aligned + 4096), HC_ACL_INVALID_PARAMETER);
    expect_ok(acl.aclrtHostUnregister(aligned + 4096));
    expect_code(acl.aclrtHostUnregister(aligned + 4096), HC_ACL_INVALID_PARAMETER);
    expect_ok(acl.aclrtHostRegister(aligned, 8192, 0, &mapped));
}

static void memory_is_finite_and_reusable(void)
{
    enum { BLOCK = 1 << 20, COUNT = 16 };
    void *blocks[COUNT], *more = NULL;
    expect(!setenv("NPUSIM_MEMORY", "16M", 1));
    npusim_open(0);
    for (int i = 0; i < COUNT; i++)
        blocks[i] = npusim_device_alloc(BLOCK);
    expect_code(acl.aclrtMalloc(&more, 1, 0), HC_ACL_OUT_OF_MEMORY);
    expect_code(acl.aclrtMalloc(&more, 0, 0), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMalloc(&more, SIZE_MAX, 0), HC_ACL_OUT_OF_MEMORY);
    expect(!more);
    for (int i = 0; i < COUNT; i += 2)
        expect_ok(acl.aclrtFree(blocks[i]));
    expect_code(acl.aclrtMalloc(&more, BLOCK + 1, 0), HC_ACL_OUT_OF_MEMORY); /* free, but in pieces */
    for (int i = 0; i < COUNT; i += 2)
        blocks[i] = npusim_device_alloc(BLOCK);
    expect_ok(acl.aclrtSetDevice(1)); /* another device has its own */
    (void)npusim_device_alloc(16 * BLOCK);
}

static void peer_access_is_one_directional_and_polled(void)
{
    static char host[SIZE];
    int32_t can = 0, up = 1;
    expect(!setenv("NPUSIM_PEER_DELAY", "20000", 1));
    npusim_open(1);
    char *there = npusim_device_alloc(SIZE);
    npusim_fill(host, SIZE, 4);
    expect_ok(acl.aclrtMemcpy(there, SIZE, host, SIZE, HC_ACL_H2D));
    expect_ok(acl.aclrtSetDevice(0));
    char *here = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtDeviceCanAccessPeer(&can, 0, 1));
    expect(can == 1);
    expect_code(acl.aclrtMemcpy(here, SIZE, there, SIZE, HC_ACL_D2D), HC_ACL_NO_PERMISSION);
    expect_code(acl.aclrtDeviceEnablePeerAccess(1, 1), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtDeviceEnablePeerAccess(0, 0), HC_ACL_INVALID_PARAMETER);
    expect_ok(acl.aclrtDeviceEnablePeerAccess(1, 0));
    expect_ok(acl.aclrtDevicePeerAccessStatus(0, 1, &up));
    expect(up == 0); /* not yet: it takes 20 ms here */
    npusim_await_peer(0, 1);
    expect_ok(acl.aclrtMemcpy(here, SIZE, there, SIZE, HC_ACL_D2D));
    memset(host, 0, SIZE);
    expect_ok(acl.aclrtMemcpy(host, SIZE, here, SIZE, HC_ACL_D2H));
    expect(npusim_holds(host, SIZE, 4));
    expect_ok(acl.aclrtSetDevice(1));
    expect_code(acl.aclrtMemcpy(there, SIZE, here, SIZE, HC_ACL_D2D), HC_ACL_NO_PERMISSION);
    expect_ok(acl.aclrtDevicePeerAccessStatus(1, 0, &up));
    expect(up == 0);
    expect_ok(acl.aclrtSetDevice(0));
    expect_ok(acl.aclrtDeviceDisablePeerAccess(1));
    expect_code(acl.aclrtDeviceDisablePeerAccess(1), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(here, SIZE, there, SIZE, HC_ACL_D2D), HC_ACL_NO_PERMISSION);
}

static const struct npusim_test tests[] = {
    {"copy_goes_to_the_device_and_back", copy_goes_to_the_device_and_back},
    {"copy_inside_a_device_may_overlap", copy_inside_a_device_may_overlap},
    {"device_memory_faults_when_the_host_touches_it", device_memory_faults_when_the_host_touches_it},
    {"copy_beyond_the_block_is_refused", copy_beyond_the_block_is_refused},
    {"freed_memory_is_no_longer_known", freed_memory_is_no_longer_known},
    {"kind_must_be_what_the_memory_is", kind_must_be_what_the_memory_is},
    {"async_copy_between_hosts_is_not_supported", async_copy_between_hosts_is_not_supported},
    {"async_copy_from_pinned_memory_returns_at_once", async_copy_from_pinned_memory_returns_at_once},
    {"async_copy_from_pageable_memory_is_synchronous", async_copy_from_pageable_memory_is_synchronous},
    {"pointer_attributes_tell_the_memory", pointer_attributes_tell_the_memory},
    {"host_register_wants_aligned_memory_once", host_register_wants_aligned_memory_once},
    {"memory_is_finite_and_reusable", memory_is_finite_and_reusable},
    {"peer_access_is_one_directional_and_polled", peer_access_is_one_directional_and_polled},
};

int main(int argc, char **argv)
{
    return npusim_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
