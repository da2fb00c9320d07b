/*
 * Events. Each record of an event is an object of its own: a wait is for the record that was the latest when
 * the wait was enqueued, whatever is recorded later. Records are shared by contexts, so they come from one
 * pool of the process, with a lock of its own (a leaf), which also guards the device's events in them.
 */
#include "runtime/core/stream.h"

#include "runtime/core/progress.h"

#include "runtime/core/handle.h"

enum { RECORDS_PER_SLAB = 256 };

static struct hc_lock lock = HC_LOCK_INIT;
static struct hc_pool record_pool; /* object_size 0: not initialised yet */

/* ---- records ---- */

/* Lock held. */
static struct hc_record *take_record(struct hc_streams *owner, bool with_native)
{
    struct hc_list *spare = with_native ? hc_list_first(&owner->spares) : NULL;
    if (spare) {
        hc_list_remove(spare);
        hc_list_append(&owner->natives, spare);
        return hc_list_entry(spare, struct hc_record, native_node);
    }
    if (!record_pool.object_size)
        hc_pool_init(&record_pool, sizeof(struct hc_record), RECORDS_PER_SLAB);
    struct hc_record *record = hc_pool_get(&record_pool);
    if (record) {
        *record = (struct hc_record){.native = NULL};
        hc_list_init(&record->native_node);
    }
    return record;
}

struct hc_record *hc_record_new(struct hc_streams *owner, bool with_native)
{
    hc_lock_acquire(&lock);
    struct hc_record *record = take_record(owner, with_native);
    size_t used = record_pool.in_use;
    hc_lock_release(&lock);
    if (!record) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "event: out of memory with %zu records in use", used);
        return NULL;
    }
    record->owner = owner;
    atomic_store_explicit(&record->references, 1, memory_order_relaxed);
    atomic_store_explicit(&record->done, false, memory_order_relaxed);
    return record;
}

void hc_record_set_native(struct hc_record *record, void *native)
{
    hc_lock_acquire(&lock);
    record->native = native;
    hc_list_append(&record->owner->natives, &record->native_node);
    hc_lock_release(&lock);
}

void hc_record_ref(struct hc_record *record)
{
    atomic_fetch_add_explicit(&record->references, 1, memory_order_relaxed);
}

void hc_record_unref(struct hc_record *record)
{
    /* acq_rel: whoever gives back the last one sees what the others did */
    if (atomic_fetch_sub_explicit(&record->references, 1, memory_order_acq_rel) != 1)
        return;
    hc_lock_acquire(&lock);
    hc_list_remove(&record->native_node);
    if (record->native)
        hc_list_append(&record->owner->spares, &record->native_node);
    else
        hc_pool_put(&record_pool, record);
    hc_lock_release(&lock);
}

void hc_record_complete(struct hc_record *record)
{
    record->time = hc_clock_ns();
    /* release: partner is the acquire in hc_record_is_done; what was done before is visible */
    atomic_store_explicit(&record->done, true, memory_order_release);
}

bool hc_record_is_done(struct hc_record *record)
{
    if (atomic_load_explicit(&record->done, memory_order_acquire))
        return true;
    hc_lock_acquire(&lock);
    bool done = record->native && hc_gate_event_is_done(record);
    hc_lock_release(&lock);
    if (done)
        atomic_store_explicit(&record->done, true, memory_order_release);
    return done;
}

void hc_records_close(struct hc_streams *streams)
{
    struct hc_list *node;
    hc_lock_acquire(&lock);
    while ((node = hc_list_first(&streams->natives))) {
        struct hc_record *record = hc_list_entry(node, struct hc_record, native_node);
        hc_gate_event_destroy(record);
        atomic_store_explicit(&record->done, true, memory_order_release);
    }
    while ((node = hc_list_first(&streams->spares))) {
        struct hc_record *record = hc_list_entry(node, struct hc_record, native_node);
        hc_gate_event_destroy(record);
        hc_pool_put(&record_pool, record);
    }
    hc_lock_release(&lock);
}

/* ---- events ---- */

static void report_foreign(const char *call, hcomm_event_t handle)
{
    char who[HC_IDENTITY_MAX];
    hc_progress_identify(who, sizeof(who));
    (void)hc_error(
        HCOMM_ERR_INVALID,
        "%s: %s: %p is no event of hcomm: never created, destroyed, or of a context that has ended; "
        "use what hcomm_event_create() gave",
        call, who, (void *)handle);
}

/* Check a handle; NULL with an error detail. */
static struct hcomm_event *find(const char *call, hcomm_event_t handle)
{
    struct hcomm_event *event = hc_handle_object(HC_HANDLE_EVENT, handle);
    if (!event) {
        report_foreign(call, handle);
        return NULL;
    }
    const struct hcomm_context *context = event->streams->context;
    if (context->forked) {
        (void)hc_error(HCOMM_ERR_INVALID, "%s: " HC_FORKED_TEXT, call, context->job->rank);
        return NULL;
    }
    return event;
}

static hcomm_status_t create(struct hcomm_context *context, hcomm_event_t *out)
{
    struct hc_streams *streams = NULL;
    hcomm_status_t status = hc_streams_get(context, &streams);
    if (status != HCOMM_OK)
        return status;
    if (streams->num_events >= HC_EVENTS_MAX)
        return hc_error(HCOMM_ERR_LIMIT, "hcomm_event_create: %u of %d events are in use; destroy some first",
                        streams->num_events, HC_EVENTS_MAX);
    struct hcomm_event *event = hc_pool_get(&streams->event_pool);
    if (!event)
        return hc_error(HCOMM_ERR_NO_MEMORY, "hcomm_event_create: out of memory with %u events in use",
                        streams->num_events);
    *event = (struct hcomm_event){.streams = streams, .handle = hc_handle_create(HC_HANDLE_EVENT, event)};
    if (!event->handle) {
        hc_pool_put(&streams->event_pool, event);
        return hc_error(HCOMM_ERR_LIMIT,
                        "hcomm_event_create: %u events are in use here, and with those of other contexts "
                        "all %d of the process",
                        streams->num_events, HC_HANDLE_MAX);
    }
    hc_list_append(&streams->events, &event->all);
    streams->num_events++;
    *out = event->handle;
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_event_create(hcomm_handle_t handle, hcomm_event_t *event)
{
    const char *fault = hc_progress_fault(handle);
    if (fault || !event)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_event_create: %s", fault ? fault : "event is NULL");
    if (handle->forked)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_event_create: " HC_FORKED_TEXT, handle->job->rank);
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = create(handle, event);
    hc_lock_release(&handle->lock);
    return status;
}

void hc_event_free(struct hcomm_event *event)
{
    struct hc_streams *streams = event->streams;
    hc_handle_destroy(HC_HANDLE_EVENT, event->handle);
    if (event->latest)
        hc_record_unref(event->latest);
    hc_list_remove(&event->all);
    streams->num_events--;
    hc_pool_put(&streams->event_pool, event);
}

HCOMM_API hcomm_status_t hcomm_event_destroy(hcomm_event_t *handle)
{
    if (!handle)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_event_destroy: event is NULL");
    if (!*handle)
        return HCOMM_OK;
    struct hcomm_event *event = find("hcomm_event_destroy", *handle);
    if (!event)
        return HCOMM_ERR_INVALID;
    struct hcomm_context *context = event->streams->context;
    hc_lock_acquire(&context->lock);
    hc_event_free(event);
    hc_lock_release(&context->lock);
    *handle = HCOMM_EVENT_NULL;
    return HCOMM_OK;
}

/* A reference to the latest record; NULL: never recorded. Lock not held. */
static struct hc_record *latest_record(struct hcomm_event *event)
{
    struct hcomm_context *context = event->streams->context;
    hc_lock_acquire(&context->lock);
    struct hc_record *record = event->latest;
    if (record)
        hc_record_ref(record);
    hc_lock_release(&context->lock);
    return record;
}

/* ---- recording ---- */

/* Host only; lock held. */
static hcomm_status_t record_on_host(struct hcomm_event *event, struct hcomm_stream *stream)
{
    struct hc_record *record = hc_record_new(stream->streams, false);
    if (!record)
        return HCOMM_ERR_NO_MEMORY;
    const struct hc_stream_op template = {.kind = HC_STREAM_RECORD, .record = record};
    struct hc_stream_op *op = hc_stream_op_new(stream, &template);
    if (!op) {
        hc_record_unref(record);
        return HCOMM_ERR_NO_MEMORY;
    }
    if (event->latest)
        hc_record_unref(event->latest);
    event->latest = record;
    hc_stream_append(stream, op);
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_event_record(hcomm_event_t event_handle, hcomm_stream_t stream_handle)
{
    static const char call[] = "hcomm_event_record";
    struct hcomm_event *event = find(call, event_handle);
    struct hcomm_stream *stream = event ? hc_stream_find(call, stream_handle) : NULL;
    if (!event || !stream)
        return HCOMM_ERR_INVALID;
    if (hc_group_is_open())
        return hc_group_forbids(call);
    if (event->streams != stream->streams)
        return hc_error(HCOMM_ERR_INVALID,
                        "%s: the event is of another context than stream %u; create one in the stream's",
                        call, stream->number);
    if (stream->gate)
        return hc_gate_record(event, stream);
    struct hcomm_context *context = stream->streams->context;
    hc_lock_acquire(&context->lock);
    hcomm_status_t status = record_on_host(event, stream);
    hc_lock_release(&context->lock);
    return status;
}

/* ---- waiting ---- */

HCOMM_API hcomm_status_t hcomm_event_query(hcomm_event_t handle)
{
    struct hcomm_event *event = find("hcomm_event_query", handle);
    if (!event)
        return HCOMM_ERR_INVALID;
    struct hc_record *record = latest_record(event);
    if (!record)
        return HCOMM_OK;
    bool done = hc_record_is_done(record);
    if (!done) {
        (void)hcomm_progress(event->streams->context);
        done = hc_record_is_done(record);
    }
    hc_record_unref(record);
    return done ? HCOMM_OK : HCOMM_IN_PROGRESS;
}

static bool record_is_done(void *arg)
{
    return hc_record_is_done(arg);
}

/* Lock held. */
static hcomm_status_t wait_for_record(struct hc_streams *streams, struct hc_record *record)
{
    struct hcomm_context *context = streams->context;
    int timeout_ms = context->settings.timeout_ms;
    uint64_t completed = 0;
    (void)hc_streams_may_move(streams, &completed);
    while (hc_wait(context, record_is_done, record, NULL, timeout_ms) != HCOMM_OK)
        if (!hc_streams_may_move(streams, &completed))
            return hc_error(HCOMM_ERR_TIMEOUT,
                            "hcomm_event_synchronize: not complete, and nothing of the context's %u streams "
                            "completed for %d ms (setting timeout_ms)",
                            streams->num_streams, timeout_ms);
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_event_synchronize(hcomm_event_t handle)
{
    static const char call[] = "hcomm_event_synchronize";
    struct hcomm_event *event = find(call, handle);
    if (!event)
        return HCOMM_ERR_INVALID;
    if (hc_group_is_open())
        return hc_group_forbids(call);
    struct hc_record *record = latest_record(event);
    if (!record)
        return HCOMM_OK;
    struct hc_streams *streams = event->streams;
    hc_lock_acquire(&streams->context->lock);
    bool of_device = record->native != NULL; /* nothing announces its completion */
    streams->polled += of_device;
    hcomm_status_t status = wait_for_record(streams, record);
    streams->polled -= of_device;
    hc_lock_release(&streams->context->lock);
    hc_record_unref(record);
    return status;
}

HCOMM_API hcomm_status_t hcomm_stream_wait_event(hcomm_stream_t stream_handle, hcomm_event_t event_handle)
{
    static const char call[] = "hcomm_stream_wait_event";
    struct hcomm_stream *stream = hc_stream_find(call, stream_handle);
    struct hcomm_event *event = stream ? find(call, event_handle) : NULL;
    if (!event)
        return HCOMM_ERR_INVALID;
    if (hc_group_is_open())
        return hc_group_forbids(call);
    struct hc_record *record = latest_record(event);
    if (!record || hc_record_is_done(record)) {
        if (record)
            hc_record_unref(record);
        return HCOMM_OK;
    }
    if (stream->gate && event->streams == stream->streams) {
        hcomm_status_t status = hc_gate_wait_event(stream, record);
        hc_record_unref(record);
        return status;
    }
    const struct hc_stream_op wait = {.kind = HC_STREAM_WAIT, .record = record};
    hcomm_status_t status = hc_stream_submit(call, stream_handle, &wait, 1);
    hc_record_unref(record);
    return status;
}

/* ---- time ---- */

static hcomm_status_t elapsed(struct hcomm_event *start, struct hcomm_event *end, struct hc_record *first,
                              struct hc_record *second, double *ms)
{
    if (!first || !second)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_event_elapsed: the %s event was never recorded",
                        first ? "end" : "start");
    if (start->streams != end->streams)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_event_elapsed: the events are of different contexts");
    if (!hc_record_is_done(first) || !hc_record_is_done(second))
        return HCOMM_IN_PROGRESS;
    if (first->native || second->native)
        return hc_gate_elapsed(first, second, ms);
    *ms = (double)(int64_t)(second->time - first->time) * 1e-6;
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_event_elapsed(hcomm_event_t start_handle, hcomm_event_t end_handle,
                                             double *milliseconds)
{
    static const char call[] = "hcomm_event_elapsed";
    struct hcomm_event *start = find(call, start_handle);
    struct hcomm_event *end = start ? find(call, end_handle) : NULL;
    if (!end)
        return HCOMM_ERR_INVALID;
    if (!milliseconds)
        return hc_error(HCOMM_ERR_INVALID, "%s: milliseconds is NULL", call);
    struct hc_record *first = latest_record(start), *second = latest_record(end);
    hcomm_status_t status = elapsed(start, end, first, second, milliseconds);
    if (first)
        hc_record_unref(first);
    if (second)
        hc_record_unref(second);
    return status;
}
