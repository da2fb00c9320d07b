/* Transfers: who copies, who waits, who calls callbacks. */
#include "runtime/core/transfer.h"

#include "runtime/base/copy.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    CHUNK = 512 << 10,     /* what a thread copies before it looks around */
    SPINS = 200,           /* looks before a waiter yields */
    YIELD_NS = 200000,     /* then it sleeps */
    POLL_FIRST_NS = 20000, /* sleep between two looks at the device, doubled up to… */
    POLL_LAST_NS = 500000,
    SLEEP_NS = 500000000, /* an upper bound only: wake-ups end sleeps */
};

/* ---- sleeping ---- */

static void change(atomic_uint *word, int wake)
{
    /* release: partner is the acquire load before sleep_on(); the kernel orders it against FUTEX_WAIT */
    atomic_fetch_add_explicit(word, 1, memory_order_release);
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, wake, NULL, NULL, 0);
}

/* Until the word changes or the time is over. The lock is released and retaken. */
static void sleep_on(struct hc_transfers *engine, atomic_uint *word, uint64_t ns)
{
    unsigned seen = atomic_load_explicit(word, memory_order_acquire); /* partner: change() */
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    hc_lock_release(&engine->lock);
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &time, NULL, 0);
    hc_lock_acquire(&engine->lock);
}

void hc_transfers_wake_waiters(struct hc_transfers *engine)
{
    if (!engine->done_sleepers || engine->done_woken)
        return;
    engine->done_woken = true;
    change(&engine->done_word, INT32_MAX);
}

void hc_transfers_wake_copier(struct hc_transfers *engine)
{
    if (!engine->copier_sleeps)
        return;
    engine->copier_sleeps = false; /* one wake-up is enough */
    change(&engine->work_word, 1);
}

void hc_transfers_wake_caller(struct hc_transfers *engine)
{
    if (!engine->caller_sleeps)
        return;
    engine->caller_sleeps = false;
    change(&engine->call_word, 1);
}

/* How long to sleep after `idle` looks in vain, with the device at work or not. */
static uint64_t nap(const struct hc_transfers *engine, unsigned *idle)
{
    if (!hc_transfer_device_busy(engine))
        return SLEEP_NS;
    uint64_t ns = (uint64_t)POLL_FIRST_NS << (*idle < 8 ? *idle : 8);
    ++*idle;
    return ns < POLL_LAST_NS ? ns : POLL_LAST_NS;
}

/* ---- copying ---- */

/* A chunk of the oldest transfer between host memories. */
static bool copy_chunk(struct hc_transfers *engine)
{
    struct hc_list *node = hc_list_first(&engine->host_queue);
    if (!node)
        return false;
    struct hc_transfer *transfer = hc_list_entry(node, struct hc_transfer, queue);
    size_t offset = transfer->issued;
    size_t len = transfer->size - offset < CHUNK ? transfer->size - offset : CHUNK;
    transfer->issued += len;
    if (transfer->issued == transfer->size)
        hc_list_remove(&transfer->queue);
    hc_lock_release(&engine->lock);
    hc_copy(transfer->dst + offset, transfer->src + offset, len);
    hc_lock_acquire(&engine->lock);
    hc_transfer_advance(engine, transfer, len, HCOMM_OK);
    return true;
}

bool hc_transfers_help(struct hc_transfers *engine)
{
    unsigned moved = hc_transfer_device_poll(engine);
    bool released = hc_transfers_release(engine);
    if (hc_transfer_device_stage(engine) || copy_chunk(engine))
        return true;
    return moved > 0 || released;
}

/* ---- waiting ---- */

struct patience {
    uint64_t since; /* the first look in vain; 0: none */
    unsigned looks, naps;
};

static bool timed_out(const struct hc_transfers *engine, const struct patience *patience, uint64_t now)
{
    uint64_t limit = (uint64_t)engine->context->settings.timeout_ms * UINT64_C(1000000);
    uint64_t last = engine->activity > patience->since ? engine->activity : patience->since;
    return now > last && now - last > limit;
}

/* Let others run; the lock is released and retaken. */
static void pause_once(struct hc_transfers *engine, struct patience *patience, uint64_t now)
{
    if (patience->looks < SPINS) {
        hc_lock_release(&engine->lock);
        hc_cpu_relax();
        hc_lock_acquire(&engine->lock);
    } else if (now - patience->since < YIELD_NS) {
        hc_lock_release(&engine->lock);
        (void)sched_yield();
        hc_lock_acquire(&engine->lock);
    } else {
        engine->done_sleepers++;
        engine->done_woken = false;
        sleep_on(engine, &engine->done_word, nap(engine, &patience->naps));
        engine->done_sleepers--;
    }
}

hcomm_status_t hc_transfers_wait(struct hc_transfers *engine,
                                 bool (*done)(struct hc_transfers *engine, const void *arg), const void *arg)
{
    struct patience patience = {0};
    while (!done(engine, arg)) {
        if (hc_transfers_help(engine)) {
            patience = (struct patience){0};
            continue;
        }
        uint64_t now = hc_clock_ns();
        if (!patience.since)
            patience.since = now;
        if (timed_out(engine, &patience, now))
            return HCOMM_ERR_TIMEOUT;
        patience.looks++;
        pause_once(engine, &patience, now);
    }
    return HCOMM_OK;
}

/* ---- threads ---- */

static void *run_copier(void *arg)
{
    struct hc_transfers *engine = arg;
    unsigned naps = 0;
    hc_lock_acquire(&engine->lock);
    while (!engine->stop) {
        if (hc_transfers_help(engine)) {
            naps = 0;
            continue;
        }
        engine->copier_sleeps = true;
        sleep_on(engine, &engine->work_word,
                 hc_transfer_device_staging(engine) ? nap(engine, &naps) : SLEEP_NS);
        engine->copier_sleeps = false;
    }
    hc_lock_release(&engine->lock);
    return NULL;
}

static void *run_caller(void *arg)
{
    struct hc_transfers *engine = arg;
    unsigned naps = 0;
    hc_lock_acquire(&engine->lock);
    while (!engine->stop) {
        if (hc_transfer_call_next(engine) || hc_transfers_release(engine) ||
            (engine->called_device && hc_transfer_device_poll(engine))) {
            naps = 0;
            continue;
        }
        engine->caller_sleeps = true;
        sleep_on(engine, &engine->call_word, engine->called_device ? nap(engine, &naps) : SLEEP_NS);
        engine->caller_sleeps = false;
    }
    hc_lock_release(&engine->lock);
    return NULL;
}

static hcomm_status_t start_thread(pthread_t *thread, bool *runs, void *(*body)(void *), void *arg,
                                   const char *what)
{
    if (*runs)
        return HCOMM_OK;
    sigset_t all, old;
    (void)sigfillset(&all);
    /* the application's signals are for its own threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(thread, NULL, body, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return hc_error(HCOMM_ERR_LIMIT, "%s thread: pthread_create: %s", what, hc_errno_text(error));
    *runs = true;
    return HCOMM_OK;
}

hcomm_status_t hc_transfers_need_copier(struct hc_transfers *engine)
{
    return start_thread(&engine->copier, &engine->copier_runs, run_copier, engine, "copy");
}

hcomm_status_t hc_transfers_need_caller(struct hc_transfers *engine)
{
    return start_thread(&engine->caller, &engine->caller_runs, run_caller, engine, "callback");
}

/* A callback may never return: then its thread is left to itself. */
static bool join_caller(struct hc_transfers *engine, uint64_t deadline)
{
    for (;;) {
        hc_lock_acquire(&engine->lock);
        bool inside = engine->in_callback;
        hc_lock_release(&engine->lock);
        if (!inside)
            return pthread_join(engine->caller, NULL) == 0;
        if (hc_clock_ns() >= deadline) {
            (void)pthread_detach(engine->caller);
            return false;
        }
        (void)sched_yield();
    }
}

bool hc_transfers_join(struct hc_transfers *engine, uint64_t deadline)
{
    hc_lock_acquire(&engine->lock);
    engine->stop = true;
    hc_transfers_wake_copier(engine);
    hc_transfers_wake_caller(engine);
    hc_lock_release(&engine->lock);
    if (engine->copier_runs)
        (void)pthread_join(engine->copier, NULL);
    return !engine->caller_runs || join_caller(engine, deadline);
}
