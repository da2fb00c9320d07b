/* Copies between host and device. */
#include "runtime/core/device_impl.h"

#include "runtime/base/copy.h"

#include <string.h>

static bool on_device(const struct hc_side *side)
{
    return side->place == HC_PLACE_DEVICE;
}

static int kind_of(const struct hc_side *to, const struct hc_side *from)
{
    if (on_device(to))
        return on_device(from) ? HC_ACL_D2D : HC_ACL_H2D;
    return on_device(from) ? HC_ACL_D2H : HC_ACL_H2H;
}

static const char *kind_text(int kind)
{
    return kind == HC_ACL_H2D   ? "from host to device"
           : kind == HC_ACL_D2H ? "from device to host"
                                : "from device to device";
}

/* ---- copies under way ---- */

void hc_device_copies_init(struct hc_device *device)
{
    for (size_t i = 0; i < HC_DEVICE_COPIES; i++) {
        struct hc_device_copy *copy = &device->copies[i];
        *copy = (struct hc_device_copy){.device = device, .next_free = device->free_copy};
        device->free_copy = copy;
    }
    device->copies_left = HC_DEVICE_COPIES;
}

void hc_device_copies_fini(struct hc_device *device)
{
    for (size_t i = 0; i < HC_DEVICE_COPIES; i++)
        if (device->copies[i].stream)
            (void)device->acl->aclrtDestroyStream(device->copies[i].stream); /* a lost device has none */
}

static void put_back(struct hc_device_copy *copy)
{
    copy->next_free = copy->device->free_copy;
    copy->device->free_copy = copy;
    copy->device->copies_left++;
}

static hcomm_status_t make_stream(struct hc_device_copy *copy)
{
    if (copy->stream)
        return HCOMM_OK;
    int code = copy->device->acl->aclrtCreateStream(&copy->stream);
    if (code == HC_ACL_OK)
        return HCOMM_OK;
    copy->stream = NULL;
    return hc_device_error(copy->device, code, "making a stream for copies");
}

/* The failure of an operation stays on its stream: the next copy gets a new one. */
static void drop_stream(struct hc_device_copy *copy)
{
    if (copy->stream && copy->device->acl->aclrtDestroyStream(copy->stream) != HC_ACL_OK)
        hc_log_debug("device %d: a stream that failed cannot be destroyed", copy->device->id);
    copy->stream = NULL;
}

/* The device is current. */
static hcomm_status_t enqueue(struct hc_device_copy *copy, const struct hc_side *to,
                              const struct hc_side *from, size_t size)
{
    hcomm_status_t status = make_stream(copy);
    if (status != HCOMM_OK)
        return status;
    copy->size = size;
    copy->kind = kind_of(to, from);
    int code = copy->device->acl->aclrtMemcpyAsync(to->ptr, size, from->ptr, size, copy->kind, copy->stream);
    if (code == HC_ACL_OK)
        return HCOMM_OK;
    status = hc_device_error(copy->device, code, "copying %zu bytes %s", size, kind_text(copy->kind));
    drop_stream(copy);
    return status;
}

hcomm_status_t hc_device_copy_start(struct hc_device *device, const struct hc_side *to,
                                    const struct hc_side *from, size_t size, struct hc_device_copy **out)
{
    *out = NULL;
    if (!size)
        return HCOMM_OK;
    if (!on_device(to) && !on_device(from)) { /* which the device runtime refuses */
        hc_copy(to->ptr, from->ptr, size);
        return HCOMM_OK;
    }
    struct hc_device_copy *copy = device->free_copy;
    if (!copy)
        return HCOMM_AGAIN;
    int previous;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    status = enqueue(copy, to, from, size);
    hc_device_leave(device, previous);
    if (status != HCOMM_OK)
        return status;
    device->free_copy = copy->next_free;
    device->copies_left--;
    *out = copy;
    return HCOMM_IN_PROGRESS;
}

/* The device is current. */
static hcomm_status_t outcome(struct hc_device_copy *copy)
{
    int state = HC_ACL_STREAM_NOT_READY;
    int code = copy->device->acl->aclrtStreamQuery(copy->stream, &state);
    if (code == HC_ACL_OK)
        return state == HC_ACL_STREAM_COMPLETE ? HCOMM_OK : HCOMM_IN_PROGRESS;
    hcomm_status_t status =
        hc_device_error(copy->device, code, "copying %zu bytes %s", copy->size, kind_text(copy->kind));
    drop_stream(copy);
    return status;
}

hcomm_status_t hc_device_copy_poll(struct hc_device_copy *copy)
{
    int previous;
    hcomm_status_t status = hc_device_enter(copy->device, &previous);
    if (status == HCOMM_OK) {
        status = outcome(copy);
        hc_device_leave(copy->device, previous);
    } else {
        copy->stream = NULL; /* lost with its device */
    }
    if (status != HCOMM_IN_PROGRESS)
        put_back(copy);
    return status;
}

void hc_device_copy_end(struct hc_device_copy *copy)
{
    int previous;
    if (hc_device_enter(copy->device, &previous) == HCOMM_OK) {
        /* an error ends it, too */
        if (copy->device->acl->aclrtSynchronizeStream(copy->stream) != HC_ACL_OK)
            drop_stream(copy);
        hc_device_leave(copy->device, previous);
    } else {
        copy->stream = NULL;
    }
    put_back(copy);
}

unsigned hc_device_copies_left(const struct hc_device *device)
{
    return device->copies_left;
}

/* ---- copies now ---- */

/* Memory of another process takes no synchronous copies. */
static hcomm_status_t copy_imported(struct hc_device *device, const struct hc_side *to,
                                    const struct hc_side *from, size_t size)
{
    struct hc_device_copy *copy = NULL;
    hcomm_status_t status = hc_device_copy_start(device, to, from, size, &copy);
    if (status == HCOMM_AGAIN)
        return hc_error(HCOMM_ERR_LIMIT, "device %d: all %d copies at a time are under way", device->id,
                        HC_DEVICE_COPIES);
    while (status == HCOMM_IN_PROGRESS)
        status = hc_device_copy_poll(copy);
    return status;
}

hcomm_status_t hc_device_copy(struct hc_device *device, const struct hc_side *to, const struct hc_side *from,
                              size_t size)
{
    if (!size)
        return HCOMM_OK;
    int kind = kind_of(to, from), previous;
    if (kind == HC_ACL_H2H) {
        hc_copy(to->ptr, from->ptr, size);
        return HCOMM_OK;
    }
    if (to->imported || from->imported)
        return copy_imported(device, to, from, size);
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = device->acl->aclrtMemcpy(to->ptr, size, from->ptr, size, kind);
    if (code != HC_ACL_OK)
        status = hc_device_error(device, code, "copying %zu bytes %s", size, kind_text(kind));
    hc_device_leave(device, previous);
    return status;
}

hcomm_status_t hc_copy_any(struct hcomm_context *context, void *to, const void *from, size_t size)
{
    struct hc_side dest = {.ptr = to}, source = {.ptr = (void *)(uintptr_t)from};
    if (!context->device) {
        hc_copy(to, from, size);
        return HCOMM_OK;
    }
    hcomm_status_t status = hc_device_locate(context, to, size, &dest.place);
    if (status == HCOMM_OK)
        status = hc_device_locate(context, from, size, &source.place);
    return status == HCOMM_OK ? hc_device_copy(context->device, &dest, &source, size) : status;
}

hcomm_status_t hc_device_fill(struct hc_device *device, const struct hc_side *to, int value, size_t size)
{
    if (!on_device(to) || !size) {
        if (size)
            (void)memset(to->ptr, value, size);
        return HCOMM_OK;
    }
    int previous;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = device->acl->aclrtMemset(to->ptr, size, value, size);
    if (code != HC_ACL_OK)
        status = hc_device_error(device, code, "filling %zu bytes", size);
    hc_device_leave(device, previous);
    return status;
}
