/*
 * Threads that run host functions and large copies: one more whenever an operation is submitted and none is
 * idle, so never more than streams, of which each has one such operation under way. Idle ones sleep.
 *
 * A function of the user cannot be stopped. At the end of the context a thread inside one is left to itself;
 * the structure here belongs to all threads together, and the last one to leave frees it.
 */
#include "runtime/core/stream.h"

#include "runtime/base/copy.h"

#include <signal.h>
#include <stdlib.h>

struct hc_workers {
    pthread_mutex_t mutex; /* of everything here; taken after a context's lock, never before */
    pthread_cond_t wake;
    struct hc_streams *streams;
    struct hc_list queue;   /* hc_stream_op.job */
    struct hc_list threads; /* struct worker */
    unsigned idle, users;   /* users: threads, and the context */
    bool stop;
};

struct worker {
    struct hc_list node;
    struct hc_workers *workers;
    pthread_t thread;
    bool inside; /* a function of the user */
    bool left;   /* to itself: nobody joins it */
};

static _Thread_local const struct hcomm_stream *current;

const struct hcomm_stream *hc_workers_current(void)
{
    return current;
}

/* Mutex held; it is released. */
static void leave(struct hc_workers *workers)
{
    bool last = --workers->users == 0;
    (void)pthread_mutex_unlock(&workers->mutex);
    if (!last)
        return;
    (void)pthread_cond_destroy(&workers->wake);
    (void)pthread_mutex_destroy(&workers->mutex);
    free(workers);
}

/* Copies are joined before their context ends: it is there. */
static void copy(struct hc_stream_op *op)
{
    struct hcomm_stream *stream = op->stream;
    struct hcomm_context *context = stream->streams->context;
    if (!context->device) {
        hc_copy(op->to.ptr, op->from.ptr, op->size);
        return;
    }
    hcomm_status_t status = hc_device_copy(context->device, &op->to, &op->from, op->size);
    if (status == HCOMM_OK)
        return;
    hc_error_prefix("stream %u: ", stream->number);
    hc_lock_acquire(&context->lock);
    hc_stream_fail(stream, status);
    hc_lock_release(&context->lock);
}

/* Mutex held; released meanwhile. False: the context has ended, and op with it. */
static bool serve(struct worker *self, struct hc_stream_op *op)
{
    struct hc_workers *workers = self->workers;
    bool function = op->kind == HC_STREAM_CALL;
    hcomm_host_fn_t fn = op->fn;
    void *fn_arg = op->arg;
    current = op->stream;
    self->inside = function;
    (void)pthread_mutex_unlock(&workers->mutex);
    if (function)
        fn(fn_arg);
    else
        copy(op);
    (void)pthread_mutex_lock(&workers->mutex);
    current = NULL;
    self->inside = false;
    if (self->left)
        return false;
    /* release: partner is the acquire in stream_run.c */
    atomic_store_explicit(&op->called, true, memory_order_release);
    hc_streams_signal(workers->streams);
    return true;
}

static void *run_worker(void *arg)
{
    struct worker *self = arg;
    struct hc_workers *workers = self->workers;
    bool alive = true;
    (void)pthread_mutex_lock(&workers->mutex);
    while (alive && !workers->stop) {
        struct hc_list *node = hc_list_pop(&workers->queue);
        if (node) {
            alive = serve(self, hc_list_entry(node, struct hc_stream_op, job));
            continue;
        }
        workers->idle++;
        (void)pthread_cond_wait(&workers->wake, &workers->mutex);
        workers->idle--;
    }
    if (self->left)
        free(self);
    leave(workers);
    return NULL;
}

static hcomm_status_t create_workers(struct hc_streams *streams)
{
    struct hc_workers *workers = calloc(1, sizeof(*workers));
    if (!workers)
        return hc_error(HCOMM_ERR_NO_MEMORY, "host function: out of memory");
    (void)pthread_mutex_init(&workers->mutex, NULL);
    (void)pthread_cond_init(&workers->wake, NULL);
    workers->streams = streams;
    workers->users = 1;
    hc_list_init(&workers->queue);
    hc_list_init(&workers->threads);
    streams->workers = workers;
    return HCOMM_OK;
}

/* Mutex held. */
static hcomm_status_t add_thread(struct hc_workers *workers)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    if (!worker)
        return hc_error(HCOMM_ERR_NO_MEMORY, "host function: out of memory for a thread");
    worker->workers = workers;
    sigset_t all, old;
    (void)sigfillset(&all);
    /* the application's signals are for its own threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&worker->thread, NULL, run_worker, worker);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error) {
        free(worker);
        return hc_error(HCOMM_ERR_LIMIT, "host function: %u threads run, one more: pthread_create: %s",
                        workers->users - 1, hc_errno_text(error));
    }
    hc_list_append(&workers->threads, &worker->node);
    workers->users++;
    return HCOMM_OK;
}

static unsigned length(const struct hc_list *queue)
{
    unsigned count = 0;
    const struct hc_list *node;
    hc_list_for_each(node, queue) count++;
    return count;
}

hcomm_status_t hc_workers_submit(struct hc_streams *streams, struct hc_stream_op *op)
{
    hcomm_status_t status = streams->workers ? HCOMM_OK : create_workers(streams);
    if (status != HCOMM_OK)
        return status;
    struct hc_workers *workers = streams->workers;
    (void)pthread_mutex_lock(&workers->mutex);
    if (workers->idle <= length(&workers->queue))
        status = add_thread(workers);
    if (status != HCOMM_OK && !hc_list_empty(&workers->threads)) {
        hc_log_debug("%s: one of the threads there are will do it", hc_error_detail());
        status = HCOMM_OK;
    }
    if (status == HCOMM_OK) {
        hc_list_append(&workers->queue, &op->job);
        (void)pthread_cond_signal(&workers->wake);
    }
    (void)pthread_mutex_unlock(&workers->mutex);
    return status;
}

bool hc_workers_cancel(struct hc_streams *streams, struct hc_stream_op *op)
{
    struct hc_workers *workers = streams->workers;
    bool found = false;
    struct hc_list *node;
    (void)pthread_mutex_lock(&workers->mutex);
    hc_list_for_each(node, &workers->queue) found = found || node == &op->job;
    if (found)
        hc_list_remove(&op->job);
    (void)pthread_mutex_unlock(&workers->mutex);
    return found;
}

/* Leave those inside a function to themselves; mutex held. */
static void let_go(struct hc_workers *workers)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &workers->threads)
    {
        struct worker *worker = hc_list_entry(node, struct worker, node);
        if (!worker->inside)
            continue;
        hc_list_remove(&worker->node);
        worker->left = true;
        (void)pthread_detach(worker->thread);
    }
}

void hc_workers_stop(struct hc_workers *workers)
{
    struct hc_list *node;
    if (!workers)
        return;
    (void)pthread_mutex_lock(&workers->mutex);
    workers->stop = true;
    let_go(workers);
    (void)pthread_cond_broadcast(&workers->wake);
    (void)pthread_mutex_unlock(&workers->mutex);
    while ((node = hc_list_pop(&workers->threads))) {
        struct worker *worker = hc_list_entry(node, struct worker, node);
        (void)pthread_join(worker->thread, NULL);
        free(worker);
    }
    (void)pthread_mutex_lock(&workers->mutex);
    leave(workers);
}
