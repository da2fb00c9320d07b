#include "transports/npu/sim/sim.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct npusim npusim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local char last_error[512];
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

int npusim_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    return code;
}

const char *aclGetRecentErrMsg(void)
{
    return last_error;
}

uint64_t npusim_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool wait_until(pthread_cond_t *condition, uint64_t until)
{
    struct timespec deadline = {.tv_sec = (time_t)(until / 1000000000),
                                .tv_nsec = (long)(until % 1000000000)};
    return pthread_cond_clockwait(condition, &npusim.lock, CLOCK_MONOTONIC, &deadline) == 0;
}

bool npusim_wait(pthread_cond_t *condition, uint64_t until)
{
    uint64_t expiry = npusim_notifies_expire();
    uint64_t first = expiry < until ? expiry : until;
    bool woken = true;
    if (first == NPUSIM_NEVER)
        (void)pthread_cond_wait(condition, &npusim.lock);
    else
        woken = wait_until(condition, first);
    (void)npusim_notifies_expire();
    npusim_streams_run();
    return woken || first != until;
}

bool npusim_thread_start(pthread_t *thread, void *(*run)(void *), void *arg, const char *name)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return false;
    (void)pthread_setname_np(*thread, name);
    return true;
}

int npusim_enter(void)
{
    /* Written only in the child, between fork and its first other statement. */
    if (npusim.forked)
        return npusim_fail(HC_ACL_DRIVER_ERROR,
                           "this process was forked after aclInit: start it with exec, or "
                           "fork before aclInit");
    (void)pthread_mutex_lock(&npusim.lock);
    if (npusim.initialized)
        return HC_ACL_OK;
    (void)pthread_mutex_unlock(&npusim.lock);
    return npusim_fail(HC_ACL_UNINITIALIZED, "aclInit was not called");
}

int npusim_leave(int code)
{
    (void)npusim_notifies_expire();
    npusim_streams_run();
    (void)pthread_mutex_unlock(&npusim.lock);
    return code;
}

static void fork_child(void)
{
    npusim.forked = true;
    for (int i = 0; i < npusim.settings.visible_count; i++)
        npusim_memory_forked(&npusim.devices[i].memory);
}

static void fork_register(void)
{
    (void)pthread_atfork(NULL, NULL, fork_child);
}

static int start(void)
{
    if (!npusim_settings_read(&npusim.settings))
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "a variable NPUSIM_… has no legal value; see stderr");
    hc_list_init(&npusim.runnable);
    for (int i = 0; i < npusim.settings.visible_count; i++)
        npusim_device_init(&npusim.devices[i], i, npusim.settings.visible[i]);
    npusim.initialized = true;
    npusim.finalized = false;
    return HC_ACL_OK;
}

int aclInit(const char *config)
{
    if (npusim.forked)
        return npusim_fail(HC_ACL_DRIVER_ERROR, "this process was forked after aclInit");
    if (config && *config && access(config, R_OK) < 0)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclInit: %s cannot be read", config);
    (void)pthread_once(&fork_once, fork_register);
    (void)pthread_mutex_lock(&npusim.lock);
    int code =
        npusim.initialized ? npusim_fail(HC_ACL_REPEAT_INITIALIZE, "aclInit was called before") : start();
    (void)pthread_mutex_unlock(&npusim.lock);
    return code;
}

int aclFinalize(void)
{
    int code = npusim_enter();
    if (code)
        return code == HC_ACL_UNINITIALIZED && npusim.finalized ? HC_ACL_REPEAT_FINALIZE : code;
    for (int i = 0; i < npusim.settings.visible_count; i++)
        if (npusim_call_is_of_device(&npusim.devices[i]))
            return npusim_leave(npusim_fail(HC_ACL_NOT_SUPPORTED,
                                            "aclFinalize: by a host function, which it would wait for"));
    npusim.initialized = false; /* no call enters while the lock is let go of below */
    npusim.finalizing = true;
    for (int i = 0; i < npusim.settings.visible_count; i++)
        if (npusim.devices[i].sets)
            npusim_device_close(&npusim.devices[i]);
    npusim_host_close();
    npusim.finalizing = false;
    npusim.finalized = true;
    (void)pthread_mutex_unlock(&npusim.lock);
    return HC_ACL_OK;
}
