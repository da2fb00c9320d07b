/* Device memory between processes: keys, who may import, what an import takes, and who ends first. */
#include "tests/npusim/npusim.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 100003, KEY = HC_ACL_IPC_KEY_LEN };
enum { EXPORTS = 512, PIDS = 64, IMPORTERS = 64 /* the limits that npusim(7) tells */ };

/* The other process of a test, forked before either uses the simulator. */
struct peer {
    pid_t pid;
    int in, out;
};

static void put(const struct peer *peer, const void *bytes, size_t n)
{
    expect(write(peer->out, bytes, n) == (ssize_t)n);
}

static void get(const struct peer *peer, void *bytes, size_t n)
{
    char *at = bytes;
    while (n) {
        ssize_t got = read(peer->in, at, n);
        expect(got > 0);
        at += got;
        n -= (size_t)got;
    }
}

static void step(const struct peer *peer)
{
    put(peer, "", 1);
}

static void await_step(const struct peer *peer)
{
    char byte;
    get(peer, &byte, 1);
}

/* Fork; the child runs `child` and exits. */
static struct peer start(void (*child)(const struct peer *parent))
{
    int down[2], up[2];
    expect(!pipe(down) && !pipe(up));
    pid_t parent = getpid(), pid = fork();
    expect(pid >= 0);
    if (!pid) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(down[1]), (void)close(up[0]);
        child(&(struct peer){.pid = parent, .in = down[0], .out = up[1]});
        exit(0);
    }
    (void)close(down[0]), (void)close(up[1]);
    return (struct peer){.pid = pid, .in = up[0], .out = down[1]};
}

static void finish(const struct peer *peer)
{
    int status;
    expect(waitpid(peer->pid, &status, 0) == peer->pid);
    expect(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void *import_ok(const char *key, uint64_t flags)
{
    void *ptr = NULL;
    expect_ok(acl.aclrtIpcMemImportByKey(&ptr, key, flags));
    expect(ptr);
    return ptr;
}

static void refuse_import(const char *key, uint64_t flags, int code)
{
    void *ptr = NULL;
    expect_code(acl.aclrtIpcMemImportByKey(&ptr, key, flags), code);
    expect(!ptr);
}

static void key_has_exactly_65_bytes(void)
{
    char key[KEY + 1];
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    memset(key, 0x7f, sizeof(key));
    expect_code(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY - 1, 1), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY + 1, 1), HC_ACL_INVALID_PARAMETER);
    expect(key[0] == 0x7f);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    expect(strlen(key) == KEY - 1 && key[KEY] == 0x7f);
    expect_code(acl.aclrtIpcMemGetExportKey(device, SIZE + 1, key, KEY, 1), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtIpcMemGetExportKey(device + 1, SIZE, key, KEY, 1), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtIpcMemGetExportKey(key, 1, key, KEY, 1), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 2), HC_ACL_INVALID_PARAMETER);
}

static void damaged_keys_are_refused(void)
{
    char key[KEY], bad[KEY];
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    for (int i = 0; i < KEY; i++) {
        memcpy(bad, key, KEY);
        bad[i] = bad[i] == '1' ? '2' : '1';
        void *ptr = NULL;
        expect(acl.aclrtIpcMemImportByKey(&ptr, bad, 0) != HC_ACL_OK);
        expect(acl.aclrtIpcMemClose(bad) != HC_ACL_OK);
        expect(!ptr);
    }
    refuse_import("", 0, HC_ACL_INVALID_PARAMETER);
    refuse_import(NULL, 0, HC_ACL_INVALID_PARAMETER);
    refuse_import(key, 4, HC_ACL_INVALID_PARAMETER);
    expect_ok(acl.aclrtIpcMemClose(key)); /* by the exporter: the key ends */
    refuse_import(key, 0, HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtIpcMemClose(key), HC_ACL_INVALID_PARAMETER);
}

static void importer_with_permission(const struct peer *parent)
{
    char key[KEY], host[SIZE];
    int32_t pid = 0;
    npusim_open(0);
    expect_ok(acl.aclrtDeviceGetBareTgid(&pid));
    expect(pid == getpid());
    get(parent, key, KEY);
    refuse_import(key, 0, HC_ACL_NO_PERMISSION);
    put(parent, &pid, sizeof(pid));
    await_step(parent);
    char *ptr = import_ok(key, 0);
    expect_ok(acl.aclrtMemcpy(host, SIZE, ptr, SIZE, HC_ACL_D2H)); /* the same device: all kinds */
    expect(npusim_holds(host, SIZE, 1));
    npusim_fill(host, SIZE, 2);
    expect_ok(acl.aclrtMemcpy(ptr, SIZE, host, SIZE, HC_ACL_COPY_DEFAULT));
    expect_code(acl.aclrtMemcpy(ptr, SIZE + 1, host, SIZE + 1, HC_ACL_H2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtFree(ptr), HC_ACL_INVALID_PARAMETER);
    step(parent);
    await_step(parent);
    expect_ok(acl.aclrtIpcMemClose(key));
    expect_code(acl.aclrtIpcMemClose(key), HC_ACL_INVALID_PARAMETER);
    step(parent);
}

static void importer_must_be_allowed_and_close_before_the_free(void)
{
    char key[KEY], host[SIZE];
    int32_t pid, nobody = 0;
    struct peer child = start(importer_with_permission);
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    npusim_fill(host, SIZE, 1);
    expect_ok(acl.aclrtMemcpy(device, SIZE, host, SIZE, HC_ACL_H2D));
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 0));
    put(&child, key, KEY);
    get(&child, &pid, sizeof(pid));
    expect_code(acl.aclrtIpcMemSetImportPid(key, &nobody, 1), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtIpcMemSetImportPid("no key", &pid, 1), HC_ACL_INVALID_PARAMETER);
    expect_ok(acl.aclrtIpcMemSetImportPid(key, &pid, 1));
    step(&child);
    await_step(&child);
    expect_ok(acl.aclrtMemcpy(host, SIZE, device, SIZE, HC_ACL_D2H));
    expect(npusim_holds(host, SIZE, 2));
    expect_code(acl.aclrtFree(device), HC_ACL_FREE_FAILED);
    step(&child);
    await_step(&child);
    expect_ok(acl.aclrtFree(device));
    finish(&child);
}

static void importer_on_another_device(const struct peer *parent)
{
    char key[KEY], pageable[SIZE];
    npusim_open(1);
    get(parent, key, KEY);
    hc_acl_stream_t stream = npusim_stream();
    char *host = npusim_host_alloc(SIZE), *device = npusim_device_alloc(SIZE);
    char *ptr = import_ok(key, 0);
    /* Without peer access not even the right call goes. */
    expect_code(acl.aclrtMemcpyAsync(device, SIZE, ptr, SIZE, HC_ACL_D2D, stream), HC_ACL_NO_PERMISSION);
    expect_ok(acl.aclrtIpcMemClose(key));
    ptr = import_ok(key, HC_ACL_IPC_ENABLE_PEER);
    expect_code(acl.aclrtMemcpy(host, SIZE, ptr, SIZE, HC_ACL_D2H), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(pageable, SIZE, ptr, SIZE, HC_ACL_COPY_DEFAULT), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(ptr, SIZE, host, SIZE, HC_ACL_H2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpy(device, SIZE, ptr, SIZE, HC_ACL_D2D), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpyAsync(ptr, SIZE, host, SIZE, HC_ACL_H2D, stream), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpyAsync(host, SIZE, ptr, SIZE, HC_ACL_D2H, stream), HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemcpyAsync(device, SIZE, ptr, SIZE, HC_ACL_COPY_DEFAULT, stream),
                HC_ACL_INVALID_PARAMETER);
    expect_code(acl.aclrtMemset(ptr, SIZE, 0, SIZE), HC_ACL_INVALID_PARAMETER);
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, ptr, SIZE, HC_ACL_D2D, stream));
    expect_ok(acl.aclrtMemcpyAsync(host, SIZE, device, SIZE, HC_ACL_D2H, stream));
    expect_ok(acl.aclrtSynchronizeStream(stream));
    expect(npusim_holds(host, SIZE, 3));
    npusim_fill(host, SIZE, 4);
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, stream));
    expect_ok(acl.aclrtMemcpyAsync(ptr, SIZE, device, SIZE, HC_ACL_D2D, stream));
    expect_ok(acl.aclrtSynchronizeStream(stream));
    step(parent);
    await_step(parent);
}

static void import_of_another_device_takes_only_async_device_copies(void)
{
    char key[KEY], host[SIZE];
    struct peer child = start(importer_on_another_device);
    npusim_open(0);
    char *device = (char *)npusim_device_alloc(2 * SIZE) + 5000; /* inside a block, off the page */
    npusim_fill(host, SIZE, 3);
    expect_ok(acl.aclrtMemcpy(device, SIZE, host, SIZE, HC_ACL_H2D));
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, HC_ACL_IPC_NO_PID_CHECK));
    put(&child, key, KEY);
    await_step(&child);
    expect_ok(acl.aclrtMemcpy(host, SIZE, device, SIZE, HC_ACL_D2H));
    expect(npusim_holds(host, SIZE, 4));
    step(&child);
    finish(&child);
}

static void importer_seeing_two_devices(const struct peer *parent)
{
    char key[KEY], host[SIZE];
    int32_t physical = -1;
    expect(!setenv("ASCEND_RT_VISIBLE_DEVICES", "3,2", 1));
    npusim_open(1);
    expect_ok(acl.aclrtGetPhyDevIdByLogicDevId(1, &physical));
    expect(physical == 2);
    get(parent, key, KEY);
    char *ptr = import_ok(key, 0);
    expect_ok(acl.aclrtMemcpy(host, SIZE, ptr, SIZE, HC_ACL_D2H)); /* physical 2 on both sides */
    expect(npusim_holds(host, SIZE, 5));
}

static void device_identity_is_physical(void)
{
    char key[KEY], host[SIZE];
    struct peer child = start(importer_seeing_two_devices);
    npusim_open(2);
    char *device = npusim_device_alloc(SIZE);
    npusim_fill(host, SIZE, 5);
    expect_ok(acl.aclrtMemcpy(device, SIZE, host, SIZE, HC_ACL_H2D));
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    put(&child, key, KEY);
    finish(&child);
}

static void exporter_until_killed(const struct peer *parent)
{
    char key[KEY];
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtMemset(device, SIZE, 9, SIZE));
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    put(parent, key, KEY);
    await_step(parent);
}

static void memory_is_gone_when_its_owner_is_gone(void)
{
    char key[KEY], host[SIZE];
    struct peer child = start(exporter_until_killed);
    npusim_open(0);
    get(&child, key, KEY);
    char *ptr = import_ok(key, 0), *device = npusim_device_alloc(SIZE);
    hc_acl_stream_t stream = npusim_stream();
    expect_ok(acl.aclrtMemcpy(host, SIZE, ptr, SIZE, HC_ACL_D2H));
    expect(host[SIZE - 1] == 9);
    expect(!kill(child.pid, SIGKILL) && waitpid(child.pid, NULL, 0) == child.pid);
    expect_code(acl.aclrtMemcpy(host, SIZE, ptr, SIZE, HC_ACL_D2H), HC_ACL_DRIVER_ERROR);
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, ptr, SIZE, HC_ACL_D2D, stream));
    expect_code(acl.aclrtSynchronizeStream(stream), HC_ACL_DRIVER_ERROR);
    expect_code(acl.aclrtSynchronizeStream(stream), HC_ACL_DRIVER_ERROR); /* stays on the stream */
    expect_ok(acl.aclrtIpcMemClose(key));
    refuse_import(key, 0, HC_ACL_INVALID_PARAMETER);
}

static void importer_until_killed(const struct peer *parent)
{
    char key[KEY];
    npusim_open(0);
    get(parent, key, KEY);
    (void)import_ok(key, 0);
    step(parent);
    await_step(parent);
}

static void killed_importer_does_not_keep_the_memory(void)
{
    char key[KEY];
    struct peer child = start(importer_until_killed);
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    put(&child, key, KEY);
    await_step(&child);
    expect_code(acl.aclrtFree(device), HC_ACL_FREE_FAILED);
    expect(!kill(child.pid, SIGKILL) && waitpid(child.pid, NULL, 0) == child.pid);
    expect_ok(acl.aclrtFree(device));
}

static void import_faults_when_the_host_touches_it(void)
{
    char key[KEY];
    int status;
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    volatile char *ptr = import_ok(key, 0);
    pid_t pid = fork();
    if (!pid) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)*ptr;
        _exit(0);
    }
    expect(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void importer_without_link(const struct peer *parent)
{
    char key[KEY];
    npusim_open(2);
    get(parent, key, KEY);
    refuse_import(key, HC_ACL_IPC_ENABLE_PEER, HC_ACL_NOT_SUPPORTED);
    char *ptr = import_ok(key, 0), *device = npusim_device_alloc(SIZE);
    expect_code(acl.aclrtMemcpyAsync(device, SIZE, ptr, SIZE, HC_ACL_D2D, NULL), HC_ACL_NO_PERMISSION);
}

static void import_needs_a_link_between_the_devices(void)
{
    char key[KEY];
    expect(!setenv("NPUSIM_TOPOLOGY", "pairs", 1));
    struct peer child = start(importer_without_link);
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    put(&child, key, KEY);
    finish(&child);
}

static void no_more_than_512_parts_are_exported(void)
{
    static char keys[EXPORTS + 1][KEY];
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    for (int i = 0; i < EXPORTS; i++)
        expect_ok(acl.aclrtIpcMemGetExportKey(device + i, 1, keys[i], KEY, 1));
    expect_code(acl.aclrtIpcMemGetExportKey(device + EXPORTS, 1, keys[EXPORTS], KEY, 1), HC_ACL_NO_RESOURCE);
    expect(!keys[EXPORTS][0]);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, 1, keys[EXPORTS], KEY, 1)); /* the first one again */
    expect(!memcmp(keys[EXPORTS], keys[0], KEY));
    expect_ok(acl.aclrtIpcMemClose(keys[7])); /* makes room for one */
    expect_ok(acl.aclrtIpcMemGetExportKey(device + EXPORTS, 1, keys[7], KEY, 1));
    expect_code(acl.aclrtIpcMemGetExportKey(device + EXPORTS + 1, 1, keys[EXPORTS], KEY, 1),
                HC_ACL_NO_RESOURCE);
}

static void no_more_than_64_pids_are_named(void)
{
    char key[KEY];
    int32_t pids[PIDS + 1];
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 0));
    for (int i = 0; i <= PIDS; i++)
        pids[i] = i + 1;
    expect_ok(acl.aclrtIpcMemSetImportPid(key, pids, PIDS));
    expect_ok(acl.aclrtIpcMemSetImportPid(key, pids, PIDS)); /* they are named already */
    expect_code(acl.aclrtIpcMemSetImportPid(key, pids + PIDS, 1), HC_ACL_NO_RESOURCE);
}

static void importer_among_many(const struct peer *parent)
{
    char key[KEY];
    npusim_open(0);
    get(parent, key, KEY);
    (void)import_ok(key, 0);
    step(parent);
    await_step(parent);
    expect_ok(acl.aclrtIpcMemClose(key));
    step(parent);
}

static void importer_too_many(const struct peer *parent)
{
    char key[KEY];
    npusim_open(0);
    get(parent, key, KEY);
    refuse_import(key, 0, HC_ACL_NO_RESOURCE);
    step(parent);
    await_step(parent);
    (void)import_ok(key, 0);
}

static void no_more_than_64_processes_import_a_key(void)
{
    char key[KEY];
    struct peer children[IMPORTERS], last;
    for (int i = 0; i < IMPORTERS; i++)
        children[i] = start(importer_among_many);
    last = start(importer_too_many);
    npusim_open(0);
    char *device = npusim_device_alloc(SIZE);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    for (int i = 0; i < IMPORTERS; i++)
        put(&children[i], key, KEY);
    for (int i = 0; i < IMPORTERS; i++)
        await_step(&children[i]);
    put(&last, key, KEY);
    await_step(&last);
    step(&children[0]); /* closes: there is room for the other one */
    await_step(&children[0]);
    step(&last);
    finish(&last);
    for (int i = 1; i < IMPORTERS; i++)
        step(&children[i]);
    for (int i = 0; i < IMPORTERS; i++)
        finish(&children[i]);
}

static void foreign_event(const struct peer *parent)
{
    hc_acl_event_t event;
    int status;
    npusim_open(0);
    (void)npusim_event();
    get(parent, &event, sizeof(event));
    expect_code(acl.aclrtQueryEventStatus(event, &status), HC_ACL_INVALID_HANDLE);
    expect_code(acl.aclrtStreamWaitEvent(npusim_stream(), event), HC_ACL_INVALID_HANDLE);
}

static void events_are_not_shared_between_processes(void)
{
    struct peer child = start(foreign_event);
    npusim_open(0);
    hc_acl_event_t event = npusim_event();
    put(&child, &event, sizeof(event));
    finish(&child);
}

/* Nothing with a name: what is mapped is a memfd, so that a kill leaves nothing behind. */
static void memory_has_no_name(void)
{
    char line[512];
    int found = 0;
    npusim_open(0);
    (void)npusim_device_alloc(SIZE);
    FILE *maps = fopen("/proc/self/maps", "r");
    expect(maps);
    while (fgets(line, sizeof(line), maps)) {
        expect(!strstr(line, "/dev/shm/"));
        found += strstr(line, " /memfd:npusim (deleted)\n") != NULL;
    }
    (void)fclose(maps);
    expect(found > 0);
}

static void forked_child_is_told_so(void)
{
    int status;
    npusim_open(0);
    (void)npusim_device_alloc(SIZE);
    pid_t pid = fork();
    if (!pid) {
        void *ptr;
        expect_code(acl.aclrtMalloc(&ptr, 1, 0), HC_ACL_DRIVER_ERROR);
        expect_code(acl.aclInit(NULL), HC_ACL_DRIVER_ERROR);
        _exit(0);
    }
    expect(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    expect(folder);
    while (readdir(folder))
        count++;
    (void)closedir(folder);
    return count;
}

static int count_maps(void)
{
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    expect(maps);
    for (int c = fgetc(maps); c != EOF; c = fgetc(maps))
        count += c == '\n';
    (void)fclose(maps);
    return count;
}

static void no_call(void *arg)
{
    (void)arg;
}

/* Everything once: memory, import, copies on all engines, a host function, an event. */
static void use_everything(void)
{
    char key[KEY];
    expect_ok(acl.aclInit(NULL));
    expect_ok(acl.aclrtSetDevice(0));
    char *device = npusim_device_alloc(SIZE), *host = npusim_host_alloc(SIZE);
    expect_ok(acl.aclrtIpcMemGetExportKey(device, SIZE, key, KEY, 1));
    char *ptr = import_ok(key, 0);
    hc_acl_stream_t stream = npusim_stream();
    hc_acl_event_t event = npusim_event();
    expect_ok(acl.aclrtMemcpyAsync(device, SIZE, host, SIZE, HC_ACL_H2D, stream));
    expect_ok(acl.aclrtMemcpyAsync(npusim_device_alloc(SIZE), SIZE, ptr, SIZE, HC_ACL_D2D, stream));
    expect_ok(acl.aclrtMemcpyAsync(host, SIZE, device, SIZE, HC_ACL_D2H, stream));
    expect_ok(acl.aclrtLaunchHostFunc(stream, no_call, NULL));
    expect_ok(acl.aclrtRecordEvent(event, stream));
    expect_ok(acl.aclrtSynchronizeEvent(event));
    expect_ok(acl.aclFinalize()); /* gives back what was not freed */
}

static void nothing_leaks_over_many_rounds(void)
{
    for (int i = 0; i < 20; i++) /* the C library keeps stacks and arenas of ended threads */
        use_everything();
    int fds = count_entries("/proc/self/fd"), maps = count_maps();
    for (int i = 0; i < 100; i++)
        use_everything();
    expect_code(count_entries("/proc/self/fd"), fds);
    expect(count_maps() <= maps + 20);
}

static const struct npusim_test tests[] = {
    {"key_has_exactly_65_bytes", key_has_exactly_65_bytes},
    {"damaged_keys_are_refused", damaged_keys_are_refused},
    {"importer_must_be_allowed_and_close_before_the_free",
     importer_must_be_allowed_and_close_before_the_free},
    {"import_of_another_device_takes_only_async_device_copies",
     import_of_another_device_takes_only_async_device_copies},
    {"device_identity_is_physical", device_identity_is_physical},
    {"memory_is_gone_when_its_owner_is_gone", memory_is_gone_when_its_owner_is_gone},
    {"killed_importer_does_not_keep_the_memory", killed_importer_does_not_keep_the_memory},
    {"import_faults_when_the_host_touches_it", import_faults_when_the_host_touches_it},
    {"import_needs_a_link_between_the_devices", import_needs_a_link_between_the_devices},
    {"no_more_than_512_parts_are_exported", no_more_than_512_parts_are_exported},
    {"no_more_than_64_pids_are_named", no_more_than_64_pids_are_named},
    {"no_more_than_64_processes_import_a_key", no_more_than_64_processes_import_a_key},
    {"events_are_not_shared_between_processes", events_are_not_shared_between_processes},
    {"memory_has_no_name", memory_has_no_name},
    {"nothing_leaks_over_many_rounds", nothing_leaks_over_many_rounds},
    {"forked_child_is_told_so", forked_child_is_told_so},
};

int main(int argc, char **argv)
{
    return npusim_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
