/*
 * Host functions in streams of a device runtime too old for aclrtLaunchHostFunc: a thread of the context
 * subscribes to each stream and runs the functions, which do next to nothing, inside aclrtProcessReport.
 */
#include "runtime/core/stream.h"

#include "transports/npu/acl/table.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    REPORT_MS = 100, /* a thread that has to end may stay inside so long: not every runtime calls it out */
    PAUSE_NS = 10000000,   /* after a failure that says nothing about when to try again */
    UNSUBSCRIBE_TRIES = 20 /* of a millisecond; the context's lock may be held */
};

struct hc_reporter {
    const struct hc_acl *acl;
    int device;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t wake;
    unsigned subscribed; /* how often a stream was */
    bool stop;
    bool left; /* to itself: nobody joins it */
};

bool hc_reporter_is_needed(const struct hc_acl *acl)
{
    return !acl->aclrtLaunchHostFunc;
}

bool hc_reporter_is_possible(const struct hc_acl *acl)
{
    return acl->aclrtSubscribeReport && acl->aclrtUnSubscribeReport && acl->aclrtLaunchCallback &&
           acl->aclrtProcessReport;
}

/* ---- the thread ---- */

static void destroy(struct hc_reporter *reporter)
{
    (void)pthread_cond_destroy(&reporter->wake);
    (void)pthread_mutex_destroy(&reporter->mutex);
    free(reporter);
}

static void pause_briefly(struct hc_reporter *reporter)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PAUSE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&reporter->wake, &reporter->mutex, &until);
}

/* Mutex held. Without a stream there is nothing to do until one is subscribed that was not when we looked. */
static void rest(struct hc_reporter *reporter, int code, unsigned seen)
{
    if (code == HC_ACL_OK || code == HC_ACL_REPORT_TIMEOUT)
        return;
    if (code != HC_ACL_THREAD_NOT_SUBSCRIBED)
        pause_briefly(reporter);
    else if (reporter->left)
        reporter->stop = true; /* the device was reset: no stream is left to go on */
    else
        while (!reporter->stop && !reporter->left && reporter->subscribed == seen)
            (void)pthread_cond_wait(&reporter->wake, &reporter->mutex);
}

static void *run_reporter(void *arg)
{
    struct hc_reporter *reporter = arg;
    int code = reporter->acl->aclrtSetDevice(reporter->device);
    if (code != HC_ACL_OK)
        hc_log_warn("host functions of the device's streams may not be called: %s (code %d)",
                    hc_acl_text(code), code);
    (void)pthread_mutex_lock(&reporter->mutex);
    while (!reporter->stop) {
        unsigned seen = reporter->subscribed;
        (void)pthread_mutex_unlock(&reporter->mutex);
        code = reporter->acl->aclrtProcessReport(REPORT_MS);
        (void)pthread_mutex_lock(&reporter->mutex);
        rest(reporter, code, seen);
    }
    bool left = reporter->left;
    (void)pthread_mutex_unlock(&reporter->mutex);
    if (left)
        destroy(reporter);
    return NULL;
}

/* ---- its life ---- */

static int start(struct hc_reporter *reporter)
{
    sigset_t all, old;
    (void)sigfillset(&all);
    /* the application's signals are for its own threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&reporter->thread, NULL, run_reporter, reporter);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

hcomm_status_t hc_reporter_create(struct hc_device *device, struct hc_reporter **out)
{
    struct hc_reporter *reporter = calloc(1, sizeof(*reporter));
    if (!reporter)
        return hc_error(HCOMM_ERR_NO_MEMORY, "stream: out of memory");
    reporter->acl = hc_device_acl(device);
    reporter->device = hc_device_id(device);
    (void)pthread_mutex_init(&reporter->mutex, NULL);
    (void)pthread_cond_init(&reporter->wake, NULL);
    int error = start(reporter);
    if (error) {
        destroy(reporter);
        return hc_error(HCOMM_ERR_LIMIT, "stream: no thread for its host functions: pthread_create: %s",
                        hc_errno_text(error));
    }
    hc_device_count_set(device); /* what the thread has set is reset with the device */
    *out = reporter;
    return HCOMM_OK;
}

void hc_reporter_destroy(struct hc_reporter *reporter)
{
    if (!reporter)
        return;
    (void)pthread_mutex_lock(&reporter->mutex);
    reporter->stop = true;
    (void)pthread_cond_signal(&reporter->wake);
    (void)pthread_mutex_unlock(&reporter->mutex);
    (void)pthread_join(reporter->thread, NULL);
    destroy(reporter);
}

void hc_reporter_leave(struct hc_reporter *reporter)
{
    if (!reporter)
        return;
    pthread_t thread = reporter->thread;
    (void)pthread_mutex_lock(&reporter->mutex);
    reporter->left = true;
    (void)pthread_cond_signal(&reporter->wake);
    (void)pthread_mutex_unlock(&reporter->mutex);
    (void)pthread_detach(thread);
}

/* ---- streams ---- */

static uint64_t id_of(const struct hc_reporter *reporter)
{
    return (uint64_t)reporter->thread;
}

int hc_reporter_subscribe(struct hc_reporter *reporter, void *native)
{
    int code = reporter->acl->aclrtSubscribeReport(id_of(reporter), native);
    if (code != HC_ACL_OK)
        return code;
    (void)pthread_mutex_lock(&reporter->mutex);
    reporter->subscribed++;
    (void)pthread_cond_signal(&reporter->wake);
    (void)pthread_mutex_unlock(&reporter->mutex);
    return HC_ACL_OK;
}

/* Refused while the thread has functions to run, of any stream: soon it has not. */
bool hc_reporter_unsubscribe(struct hc_reporter *reporter, void *native)
{
    for (int i = 0; i < UNSUBSCRIBE_TRIES; i++) {
        int code = reporter->acl->aclrtUnSubscribeReport(id_of(reporter), native);
        if (code == HC_ACL_OK)
            return true;
        if (code == HC_ACL_INVALID_HANDLE)
            return true; /* its owner has destroyed it */
        (void)usleep(1000);
    }
    return false;
}
