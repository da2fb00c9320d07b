#include "tests/npusim/npusim.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct npusim_functions acl;

void npusim_failed(const char *file, int line, const char *what, long long got, long long want)
{
    (void)fprintf(stderr, "%s:%d: %s", file, line, what);
    if (got != want)
        (void)fprintf(stderr, " gave %lld, not %lld; last error: %s", got, want, acl.aclGetRecentErrMsg());
    (void)fprintf(stderr, "\n");
    _exit(1);
}

static void load(void)
{
    const char *path = getenv("TEST_NPUSIM_LIBRARY");
    void *library = dlopen(path ? path : ".libs/libnpusim.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        (void)fprintf(stderr, "%s\n", dlerror());
        exit(99);
    }
#define LOAD(name)                                                                                           \
    *(void **)&acl.name = dlsym(library, #name);                                                             \
    if (!acl.name)                                                                                           \
        (void)fprintf(stderr, "no %s\n", #name), exit(1);
    HC_ACL_FUNCTIONS(LOAD)
    HC_ACL_OPTIONAL_FUNCTIONS(LOAD)
#undef LOAD
}

static bool is_wanted(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc < 2;
}

static bool run_one(const struct npusim_test *test)
{
    int status = 0;
    pid_t pid = fork();
    if (!pid) {
        alarm(300);
        load();
        test->run();
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        exit(99);
    bool passed = WIFEXITED(status) && !WEXITSTATUS(status);
    if (WIFSIGNALED(status))
        (void)fprintf(stderr, "%s: ended by signal %d\n", test->name, WTERMSIG(status));
    (void)printf("%s: %s\n", passed ? "ok" : "FAILED", test->name);
    (void)fflush(stdout);
    return passed;
}

int npusim_run(int argc, char **argv, const struct npusim_test *tests, size_t count)
{
    size_t run = 0, failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(argc, argv, tests[i].name))
            continue;
        run++;
        failed += !run_one(&tests[i]);
    }
    return failed || !run;
}

void npusim_open(int32_t device)
{
    expect_ok(acl.aclInit(NULL));
    expect_ok(acl.aclrtSetDevice(device));
}

void npusim_await_peer(int32_t device, int32_t peer)
{
    int32_t up = 0;
    while (!up)
        expect_ok(acl.aclrtDevicePeerAccessStatus(device, peer, &up));
}

hc_acl_stream_t npusim_stream(void)
{
    hc_acl_stream_t stream = NULL;
    expect_ok(acl.aclrtCreateStream(&stream));
    return stream;
}

hc_acl_event_t npusim_event(void)
{
    hc_acl_event_t event = NULL;
    expect_ok(acl.aclrtCreateEventExWithFlag(&event, HC_ACL_EVENT_SYNC | HC_ACL_EVENT_TIME_LINE));
    return event;
}

void *npusim_device_alloc(size_t size)
{
    void *ptr = NULL;
    expect_ok(acl.aclrtMalloc(&ptr, size, HC_ACL_HUGE_FIRST));
    return ptr;
}

void *npusim_host_alloc(size_t size)
{
    void *ptr = NULL;
    expect_ok(acl.aclrtMallocHost(&ptr, size));
    return ptr;
}

void npusim_fill(void *bytes, size_t n, unsigned seed)
{
    unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        at[i] = (unsigned char)((i * 31 + seed) ^ (i >> 8));
}

bool npusim_holds(const void *bytes, size_t n, unsigned seed)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        if (at[i] != (unsigned char)((i * 31 + seed) ^ (i >> 8)))
            return false;
    return true;
}
