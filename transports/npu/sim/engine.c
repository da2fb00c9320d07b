/*
 * DMA engines: one per device and direction, each with a thread of its own once it is needed. An engine takes
 * one copy after another; with a modelled bandwidth the link is busy for size / bandwidth from when it was
 * free and the copy was ready, and the copy ends a latency later, while the next may already be on the link.
 * The model's times do not depend on when threads wake up, so that lateness does not add up.
 *
 * Whoever waits for a copy may do the engine's work itself (npusim_op_wait), because waking a thread costs
 * more than a short copy; `claimed` lets one thread at a time.
 */
#include "transports/npu/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum { SPIN_NS = 15000 }; /* the end of a modelled time is not slept for: waking up takes longer */

void npusim_engine_init(struct npusim_engine *engine, struct npusim_device *device,
                        enum npusim_direction direction)
{
    *engine = (struct npusim_engine){.device = device, .direction = direction};
    hc_list_init(&engine->ready);
    hc_list_init(&engine->flying);
    (void)pthread_cond_init(&engine->wake, NULL);
}

/* Nanoseconds that n bytes take; exact for any n and bandwidth below 2^50. */
static uint64_t transfer_time(size_t n, uint64_t bandwidth)
{
    return bandwidth ? (uint64_t)((unsigned __int128)n * 1000000000 / bandwidth) : 0;
}

/* When the model lets a copy end; takes the link for it. */
static uint64_t model_end(struct npusim_engine *engine, const struct npusim_op *op)
{
    const struct npusim_settings *settings = &npusim.settings;
    bool host = engine->direction != NPUSIM_INSIDE;
    if (!host && !op->between_devices)
        return 0; /* inside a device: as fast as it goes */
    uint64_t bandwidth = host ? settings->host_bandwidth : settings->peer_bandwidth;
    uint64_t latency = host ? settings->host_latency : settings->peer_latency;
    if (!bandwidth && !latency)
        return 0;
    uint64_t begin = engine->free_at > op->ready_at ? engine->free_at : op->ready_at;
    engine->free_at = begin + transfer_time(op->n, bandwidth);
    return engine->free_at + latency;
}

static void start_copy(struct npusim_engine *engine, struct npusim_op *op)
{
    op->due_at = model_end(engine, op);
    op->status = npusim_copy_move(op);
    if (op->due_at)
        hc_list_append(&engine->flying, &op->queue);
    else
        npusim_op_finish(op, op->status);
}

static struct npusim_op *first(const struct hc_list *queue)
{
    return hc_list_empty(queue) ? NULL : hc_list_entry(queue->next, struct npusim_op, queue);
}

/* Do what is due; returns when there is more to do: 0 at once, NPUSIM_NEVER when nothing is queued. */
static uint64_t engine_step(struct npusim_engine *engine)
{
    struct npusim_op *flying = first(&engine->flying), *ready = first(&engine->ready);
    uint64_t now = flying || engine->free_at ? npusim_now() : 0;
    if (flying && flying->due_at <= now) {
        hc_list_remove(&flying->queue);
        npusim_op_finish(flying, flying->status);
        npusim_streams_run();
        return 0;
    }
    if (ready && engine->free_at <= now) {
        hc_list_remove(&ready->queue);
        start_copy(engine, ready);
        npusim_streams_run();
        return 0;
    }
    uint64_t next = flying ? flying->due_at : NPUSIM_NEVER;
    return ready && engine->free_at < next ? engine->free_at : next;
}

/* Wait for a condition, or until `until`, on time to some microseconds. */
static void wait_precisely(pthread_cond_t *condition, uint64_t until)
{
    uint64_t now = until == NPUSIM_NEVER ? 0 : npusim_now();
    if (until == NPUSIM_NEVER || until > now + SPIN_NS) {
        (void)npusim_wait(condition, until == NPUSIM_NEVER ? until : until - SPIN_NS);
        return;
    }
    (void)pthread_mutex_unlock(&npusim.lock);
    while (npusim_now() < until)
        hc_cpu_relax();
    (void)pthread_mutex_lock(&npusim.lock);
}

static void *engine_run(void *arg);

/* See that the engine's thread goes on with what is queued. */
static bool wake_thread(struct npusim_engine *engine)
{
    static const char *const directions[] = {
        [NPUSIM_TO_DEVICE] = "h2d", [NPUSIM_TO_HOST] = "d2h", [NPUSIM_INSIDE] = "d2d"};
    char name[16];
    if (engine->started) {
        (void)pthread_cond_signal(&engine->wake);
        return true;
    }
    (void)snprintf(name, sizeof(name), "npusim-%d-%s", engine->device->id, directions[engine->direction]);
    engine->started = npusim_thread_start(&engine->thread, engine_run, engine, name);
    return engine->started;
}

static bool is_idle(const struct npusim_engine *engine)
{
    return !engine->claimed && hc_list_empty(&engine->ready) && hc_list_empty(&engine->flying);
}

bool npusim_engine_help(struct npusim_engine *engine, uint64_t *when)
{
    *when = NPUSIM_NEVER;
    if (engine->claimed) {
        engine->passed = true;
        return false;
    }
    engine->claimed = true;
    *when = engine_step(engine);
    engine->claimed = false;
    if (engine->passed && !is_idle(engine))
        (void)wake_thread(engine); /* whoever found it claimed sleeps, and may be the one to go on */
    engine->passed = false;
    return *when == 0;
}

static void *engine_run(void *arg)
{
    struct npusim_engine *engine = arg;
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    (void)pthread_mutex_lock(&npusim.lock);
    while (!engine->stop) {
        uint64_t when;
        if (!npusim_engine_help(engine, &when) && !engine->stop)
            wait_precisely(&engine->wake, when);
    }
    (void)pthread_mutex_unlock(&npusim.lock);
    return NULL;
}

void npusim_engine_submit(struct npusim_engine *engine, struct npusim_op *op)
{
    bool idle = is_idle(engine);
    op->engine = engine;
    op->ready_at = npusim_now();
    hc_list_append(&engine->ready, &op->queue);
    if (op->waited && idle) {
        (void)pthread_cond_signal(&op->finished); /* its waiter does the work */
    } else if (!wake_thread(engine)) {
        hc_list_remove(&op->queue);
        npusim_op_finish(
            op, npusim_fail(HC_ACL_NO_RESOURCE, "device %d: no thread for an engine", engine->device->id));
    }
}

int npusim_op_wait(struct npusim_op *op)
{
    struct npusim_device *device = op->device;
    uint64_t when = NPUSIM_NEVER;
    device->waiters++;
    while (!op->done)
        if (!op->engine)
            (void)npusim_wait(&op->finished, NPUSIM_NEVER);
        else if (!npusim_engine_help(op->engine, &when))
            wait_precisely(&op->finished, when);
    if (!--device->waiters)
        (void)pthread_cond_broadcast(&device->quiet);
    int status = op->status;
    (void)pthread_cond_destroy(&op->finished);
    free(op);
    return status;
}

void npusim_engine_stop(struct npusim_engine *engine)
{
    if (engine->started) {
        engine->stop = true;
        (void)pthread_cond_signal(&engine->wake);
        (void)pthread_mutex_unlock(&npusim.lock);
        (void)pthread_join(engine->thread, NULL);
        (void)pthread_mutex_lock(&npusim.lock);
        engine->started = engine->stop = false;
    }
    (void)pthread_cond_destroy(&engine->wake);
}
