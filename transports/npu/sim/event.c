/*
 * Events. Each aclrtRecordEvent makes a record of its own: a wait is for the record that was the latest when
 * the wait was enqueued, whatever is recorded later; an event without one is complete.
 */
#include "transports/npu/sim/sim.h"

#include <stdlib.h>

struct event {
    struct hc_list node; /* of the device's events */
    struct npusim_device *device;
    hc_acl_event_t handle;
    uint32_t flags;
    struct npusim_record *latest; /* NULL: never recorded */
};

static struct npusim_record *record_create(void)
{
    struct npusim_record *record = calloc(1, sizeof(*record));
    if (!record)
        return NULL;
    record->references = 1;
    hc_list_init(&record->waiting);
    (void)pthread_cond_init(&record->completed, NULL);
    return record;
}

void npusim_record_drop(struct npusim_record *record)
{
    if (--record->references)
        return;
    (void)pthread_cond_destroy(&record->completed);
    free(record);
}

void npusim_record_complete(struct npusim_record *record)
{
    struct hc_list *node;
    record->done = true;
    record->time = npusim_now();
    while ((node = hc_list_pop(&record->waiting))) {
        npusim_op_finish(hc_list_entry(node, struct npusim_op, queue), HC_ACL_OK);
        record->references--; /* the recording operation still holds one */
    }
    (void)pthread_cond_broadcast(&record->completed);
}

static int find(hc_acl_event_t handle, struct event **event)
{
    struct event *found = npusim_handle_object(NPUSIM_HANDLE_EVENT, handle);
    if (!found)
        return npusim_fail(HC_ACL_INVALID_HANDLE, "%p is no event, or was destroyed", handle);
    *event = found;
    return HC_ACL_OK;
}

static int create(struct npusim_device *device, uint32_t flags, hc_acl_event_t *handle)
{
    if (device->event_count >= npusim.settings.events)
        return npusim_fail(HC_ACL_NO_EVENT, "device %d: all %llu events are in use (NPUSIM_EVENTS)",
                           device->id, (unsigned long long)npusim.settings.events);
    struct event *event = calloc(1, sizeof(*event));
    if (!event || !(event->handle = npusim_handle_create(NPUSIM_HANDLE_EVENT, event))) {
        free(event);
        return npusim_fail(HC_ACL_NO_RESOURCE, "device %d: no memory for an event", device->id);
    }
    event->device = device;
    event->flags = flags;
    hc_list_append(&device->events, &event->node);
    device->event_count++;
    *handle = event->handle;
    return HC_ACL_OK;
}

int aclrtCreateEventExWithFlag(hc_acl_event_t *event, uint32_t flag)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!event)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtCreateEventExWithFlag: NULL"));
    if (flag & ~(uint32_t)(HC_ACL_EVENT_SYNC | HC_ACL_EVENT_TIME_LINE))
        return npusim_leave(npusim_fail(HC_ACL_NOT_SUPPORTED,
                                        "aclrtCreateEventExWithFlag: flags %x: there are 1 and 8", flag));
    return npusim_leave(create(device, flag, event));
}

static void event_destroy(struct event *event)
{
    npusim_handle_destroy(event->handle);
    hc_list_remove(&event->node);
    event->device->event_count--;
    if (event->latest)
        npusim_record_drop(event->latest);
    free(event);
}

void npusim_events_close(struct npusim_device *device)
{
    struct hc_list *node;
    while ((node = hc_list_first(&device->events)))
        event_destroy(hc_list_entry(node, struct event, node));
}

int aclrtDestroyEvent(hc_acl_event_t handle)
{
    struct npusim_device *device = NULL;
    struct event *event = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    code = find(handle, &event);
    if (!code)
        event_destroy(event);
    return npusim_leave(code);
}

static int record(struct event *event, struct npusim_stream *stream)
{
    struct npusim_record *made = record_create();
    struct npusim_op *op = made ? npusim_op_create(NPUSIM_OP_RECORD, stream->device) : NULL;
    if (!op) {
        if (made)
            npusim_record_drop(made);
        return npusim_fail(HC_ACL_NO_RESOURCE, "aclrtRecordEvent: no memory");
    }
    if (event->latest)
        npusim_record_drop(event->latest);
    event->latest = made;
    made->references++;
    op->record = made;
    npusim_stream_enqueue(stream, op);
    return HC_ACL_OK;
}

/* Enter, and find both; the lock is held on success only. */
static int enter_with(hc_acl_event_t event_handle, hc_acl_stream_t stream_handle, struct event **event,
                      struct npusim_stream **stream)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if ((code = find(event_handle, event)) || (code = npusim_stream_get(device, stream_handle, stream)))
        return npusim_leave(code);
    return HC_ACL_OK;
}

int aclrtRecordEvent(hc_acl_event_t handle, hc_acl_stream_t stream_handle)
{
    struct npusim_stream *stream = NULL;
    struct event *event = NULL;
    int code = enter_with(handle, stream_handle, &event, &stream);
    return code ? code : npusim_leave(record(event, stream));
}

static int stream_wait(struct npusim_stream *stream, struct npusim_record *latest)
{
    if (!latest)
        return HC_ACL_OK;
    struct npusim_op *op = npusim_op_create(NPUSIM_OP_WAIT, stream->device);
    if (!op)
        return npusim_fail(HC_ACL_NO_RESOURCE, "aclrtStreamWaitEvent: no memory");
    latest->references++;
    op->record = latest;
    npusim_stream_enqueue(stream, op);
    return HC_ACL_OK;
}

int aclrtStreamWaitEvent(hc_acl_stream_t stream_handle, hc_acl_event_t handle)
{
    struct npusim_stream *stream = NULL;
    struct event *event = NULL;
    int code = enter_with(handle, stream_handle, &event, &stream);
    return code ? code : npusim_leave(stream_wait(stream, event->latest));
}

int aclrtQueryEventStatus(hc_acl_event_t handle, int *status)
{
    struct npusim_device *device = NULL;
    struct event *event = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if ((code = find(handle, &event)))
        return npusim_leave(code);
    if (!status)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtQueryEventStatus: NULL"));
    *status = !event->latest || event->latest->done ? HC_ACL_EVENT_COMPLETE : HC_ACL_EVENT_NOT_READY;
    return npusim_leave(HC_ACL_OK);
}

int aclrtSynchronizeEvent(hc_acl_event_t handle)
{
    struct npusim_device *device = NULL;
    struct event *event = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if ((code = find(handle, &event)) || !event->latest)
        return npusim_leave(code);
    struct npusim_record *latest = event->latest;
    latest->references++;
    while (!latest->done)
        (void)npusim_wait(&latest->completed, NPUSIM_NEVER);
    npusim_record_drop(latest);
    return npusim_leave(HC_ACL_OK);
}

static bool has_time(const struct event *event)
{
    return event->flags & HC_ACL_EVENT_TIME_LINE && event->latest && event->latest->done;
}

static int elapsed(const struct event *start, const struct event *end, float *ms)
{
    if (!has_time(start) || !has_time(end))
        return npusim_fail(
            HC_ACL_EVENT_NO_TIME,
            "aclrtEventElapsedTime: both events need flag 8 and must be recorded and complete");
    if (end->latest->time < start->latest->time)
        return npusim_fail(HC_ACL_EVENT_REVERSED, "aclrtEventElapsedTime: the end was before the start");
    *ms = (float)((double)(end->latest->time - start->latest->time) / 1e6);
    return HC_ACL_OK;
}

int aclrtEventElapsedTime(float *ms, hc_acl_event_t start_handle, hc_acl_event_t end_handle)
{
    struct npusim_device *device = NULL;
    struct event *start = NULL, *end = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if ((code = find(start_handle, &start)) || (code = find(end_handle, &end)))
        return npusim_leave(code);
    if (!ms)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtEventElapsedTime: NULL"));
    return npusim_leave(elapsed(start, end, ms));
}
