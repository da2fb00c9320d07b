/*
 * The optional progress thread (setting progress_thread). It progresses communication while no application
 * thread is inside a wait: those progress better, being on the processor that wants the result. It parks
 * while they do, and sleeps like a waiter when nothing moves.
 */
#include "runtime/core/core.h"

#include "runtime/core/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    PARK_NS = 1000000,         /* how long a waiter that has left goes unnoticed, unless it kicks */
    PARK_ASLEEP_NS = 50000000, /* a waiter that sleeps kicks when it leaves */
    POLLS_BEFORE_SLEEP = 50,
    SLEEP_MS = 500,
};

static bool must_stop(struct hcomm_context *context)
{
    /* acquire: partner is the release in hc_progress_thread_stop */
    return atomic_load_explicit(&context->progress_thread_stop, memory_order_acquire);
}

static long park_time(struct hcomm_context *context)
{
    hc_lock_acquire(&context->lock);
    long time = context->sleepers ? PARK_ASLEEP_NS : PARK_NS;
    hc_lock_release(&context->lock);
    return time;
}

/* Until kicked, or for a moment. */
static void park(struct hcomm_context *context)
{
    unsigned seen = atomic_load_explicit(&context->progress_kick, memory_order_acquire);
    const struct timespec moment = {.tv_nsec = park_time(context)};
    /* seq_cst: partner is the kick; either it sees the thread parked, or this sees its count */
    atomic_store_explicit(&context->progress_parked, true, memory_order_seq_cst);
    if (atomic_load_explicit(&context->waiters, memory_order_relaxed) > 0)
        (void)syscall(SYS_futex, &context->progress_kick, FUTEX_WAIT_PRIVATE, seen, &moment, NULL, 0);
    atomic_store_explicit(&context->progress_parked, false, memory_order_relaxed);
}

static void serve(struct hcomm_context *context, unsigned *idle)
{
    hc_lock_acquire(&context->lock);
    if (hc_progress(context) > 0)
        *idle = 0;
    else if (++*idle > POLLS_BEFORE_SLEEP && !must_stop(context)) {
        hc_wait_sleep(context, SLEEP_MS);
        *idle = 0;
    }
    hc_lock_release(&context->lock);
    if (*idle)
        (void)sched_yield();
}

static void *run(void *arg)
{
    struct hcomm_context *context = arg;
    unsigned idle = 0;
    while (!must_stop(context)) {
        if (atomic_load_explicit(&context->waiters, memory_order_relaxed) > 0)
            park(context);
        else
            serve(context, &idle);
    }
    return NULL;
}

hcomm_status_t hc_progress_thread_start(struct hcomm_context *context)
{
    sigset_t all, old;
    (void)sigfillset(&all);
    /* the application's signals are for its own threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&context->progress_thread, NULL, run, context);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return hc_error(HCOMM_ERR_LIMIT, "progress thread: pthread_create: %s", hc_errno_text(error));
    context->progress_thread_running = true;
    return HCOMM_OK;
}

void hc_progress_thread_unpark(struct hcomm_context *context)
{
    if (hc_likely(!context->progress_thread_running))
        return;
    /* seq_cst: partner is park */
    atomic_fetch_add_explicit(&context->progress_kick, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&context->progress_parked, memory_order_seq_cst))
        (void)syscall(SYS_futex, &context->progress_kick, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void hc_progress_thread_kick(struct hcomm_context *context)
{
    hc_progress_thread_unpark(context);
    if (hc_unlikely(
            context->sleepers)) /* also without the thread: who sleeps in a call makes progress for all */
        hc_wake_sleepers(context);
}

void hc_progress_thread_stop(struct hcomm_context *context)
{
    if (!context->progress_thread_running)
        return;
    /* release: partner is the acquire in must_stop */
    atomic_store_explicit(&context->progress_thread_stop, true, memory_order_release);
    hc_lock_acquire(&context->lock);
    hc_progress_thread_kick(context);
    hc_lock_release(&context->lock);
    (void)pthread_join(context->progress_thread, NULL);
    context->progress_thread_running = false;
}
