/* Notifies: one flag each, set by one stream, waited for and cleared by another. */
#include "transports/npu/sim/sim.h"

#include <stdlib.h>

struct npusim_notify {
    struct hc_list node; /* of the device's notifies */
    struct npusim_device *device;
    hc_acl_notify_t handle; /* NULL: destroyed */
    int references;         /* the handle, and operations */
    bool set;
    struct hc_list waiting; /* operations of streams, in the order in which they got there */
};

/* Operations that wait with a time limit, over all notifies: few, so that they are looked through. */
static struct hc_list timed = {&timed, &timed};

void npusim_notify_unref(struct npusim_notify *notify)
{
    if (!--notify->references)
        free(notify);
}

static void end_wait(struct npusim_op *op, int status)
{
    struct npusim_notify *notify = op->notify;
    hc_list_remove(&op->queue);
    npusim_op_finish(op, status);
    npusim_notify_unref(notify);
}

static struct npusim_op *first_waiting(const struct npusim_notify *notify)
{
    return hc_list_empty(&notify->waiting) ? NULL
                                           : hc_list_entry(notify->waiting.next, struct npusim_op, queue);
}

void npusim_notify_set(struct npusim_notify *notify)
{
    struct npusim_op *op = first_waiting(notify);
    if (op)
        end_wait(op, HC_ACL_OK);
    else
        notify->set = true;
}

bool npusim_notify_wait(struct npusim_op *op)
{
    struct npusim_notify *notify = op->notify;
    if (notify->set) {
        notify->set = false;
        return true;
    }
    if (op->timeout) {
        op->due_at = npusim_now() + (uint64_t)op->timeout * 1000000000;
        hc_list_append(&timed, &op->timed);
    }
    hc_list_append(&notify->waiting, &op->queue);
    return false;
}

/* An operation whose time is over, or NULL; and when the next one's is. */
static struct npusim_op *find_late(uint64_t *next)
{
    struct hc_list *node;
    uint64_t now = hc_list_empty(&timed) ? 0 : npusim_now();
    *next = NPUSIM_NEVER;
    hc_list_for_each(node, &timed)
    {
        struct npusim_op *op = hc_list_entry(node, struct npusim_op, timed);
        if (op->due_at <= now)
            return op;
        if (op->due_at < *next)
            *next = op->due_at;
    }
    return NULL;
}

uint64_t npusim_notifies_expire(void)
{
    struct npusim_op *late;
    uint64_t next;
    while ((late = find_late(&next)))
        end_wait(late, HC_ACL_WAIT_TIMEOUT);
    return next;
}

static int find(hc_acl_notify_t handle, struct npusim_notify **notify)
{
    struct npusim_notify *found = npusim_handle_object(NPUSIM_HANDLE_NOTIFY, handle);
    if (!found)
        return npusim_fail(HC_ACL_INVALID_HANDLE, "%p is no notify, or was destroyed", handle);
    *notify = found;
    return HC_ACL_OK;
}

static int create(struct npusim_device *device, hc_acl_notify_t *handle)
{
    if (device->notify_count >= npusim.settings.notifies)
        return npusim_fail(HC_ACL_NO_NOTIFY, "device %d: all %llu notifies are in use (NPUSIM_NOTIFIES)",
                           device->id, (unsigned long long)npusim.settings.notifies);
    struct npusim_notify *notify = calloc(1, sizeof(*notify));
    if (!notify || !(notify->handle = npusim_handle_create(NPUSIM_HANDLE_NOTIFY, notify))) {
        free(notify);
        return npusim_fail(HC_ACL_NO_RESOURCE, "device %d: no memory for a notify", device->id);
    }
    notify->device = device;
    notify->references = 1;
    hc_list_init(&notify->waiting);
    hc_list_append(&device->notifies, &notify->node);
    device->notify_count++;
    *handle = notify->handle;
    return HC_ACL_OK;
}

int aclrtCreateNotify(hc_acl_notify_t *notify, uint64_t flag)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!notify || flag)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtCreateNotify: NULL, or flag not 0"));
    return npusim_leave(create(device, notify));
}

/* Waits for a notify that goes fail; operations that will set it do no harm. */
static void notify_destroy(struct npusim_notify *notify)
{
    struct npusim_op *op;
    npusim_handle_destroy(notify->handle);
    hc_list_remove(&notify->node);
    notify->device->notify_count--;
    while ((op = first_waiting(notify)))
        end_wait(op, HC_ACL_INVALID_HANDLE);
    npusim_notify_unref(notify);
}

void npusim_notifies_close(struct npusim_device *device)
{
    struct hc_list *node;
    while ((node = hc_list_first(&device->notifies)))
        notify_destroy(hc_list_entry(node, struct npusim_notify, node));
}

int aclrtDestroyNotify(hc_acl_notify_t handle)
{
    struct npusim_device *device = NULL;
    struct npusim_notify *notify = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    code = find(handle, &notify);
    if (!code)
        notify_destroy(notify);
    return npusim_leave(code);
}

static int enqueue(enum npusim_op_kind kind, hc_acl_notify_t handle, hc_acl_stream_t stream_handle,
                   uint32_t timeout)
{
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    struct npusim_notify *notify = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if ((code = find(handle, &notify)) || (code = npusim_stream_get(device, stream_handle, &stream)))
        return npusim_leave(code);
    struct npusim_op *op = npusim_op_create(kind, device);
    if (!op)
        return npusim_leave(npusim_fail(HC_ACL_NO_RESOURCE, "no memory for an operation"));
    op->notify = notify;
    op->timeout = timeout;
    notify->references++;
    npusim_stream_enqueue(stream, op);
    return npusim_leave(HC_ACL_OK);
}

int aclrtRecordNotify(hc_acl_notify_t notify, hc_acl_stream_t stream)
{
    return enqueue(NPUSIM_OP_NOTIFY, notify, stream, 0);
}

int aclrtWaitAndResetNotify(hc_acl_notify_t notify, hc_acl_stream_t stream, uint32_t timeout)
{
    return enqueue(NPUSIM_OP_NOTIFY_WAIT, notify, stream, timeout);
}
