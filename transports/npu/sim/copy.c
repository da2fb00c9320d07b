/* What may be copied by whom, and the copying itself. */
#include "transports/npu/sim/sim.h"

#include "runtime/base/copy.h"

#include <string.h>

struct copy {
    void *dst;
    const void *src;
    size_t n;
    int kind;
    bool async;
    struct npusim_place to, from;
};

static const char *const kind_names[] = {[HC_ACL_H2H] = "host to host",
                                         [HC_ACL_H2D] = "host to device",
                                         [HC_ACL_D2H] = "device to host",
                                         [HC_ACL_D2D] = "device to device",
                                         [HC_ACL_COPY_DEFAULT] = "default"};

static bool on_device(const struct npusim_place *place)
{
    return place->where == NPUSIM_LOCAL || place->where == NPUSIM_IMPORTED;
}

/* An imported mapping of another device: the runtime gives it an address, but no device to copy through. */
static bool is_foreign(const struct npusim_device *device, const struct npusim_place *place)
{
    return place->where == NPUSIM_IMPORTED && place->physical != device->physical;
}

static int check_arguments(const struct copy *copy, size_t dst_max)
{
    if (copy->kind < HC_ACL_H2H || copy->kind > HC_ACL_COPY_DEFAULT)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "copy of kind %d: there are 0 to 4", copy->kind);
    if (!copy->dst || !copy->src)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "copy: NULL");
    if (copy->n > dst_max)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "copy of %zu bytes: the destination has %zu", copy->n,
                           dst_max);
    return HC_ACL_OK;
}

static int check_foreign(const struct npusim_device *device, const struct copy *copy)
{
    if (!is_foreign(device, &copy->to) && !is_foreign(device, &copy->from))
        return HC_ACL_OK;
    if (copy->kind == HC_ACL_D2D && copy->async)
        return HC_ACL_OK;
    return npusim_fail(
        HC_ACL_INVALID_PARAMETER,
        "%s copy, kind %s: memory imported from another device takes only aclrtMemcpyAsync device to "
        "device: use it, or a buffer in between",
        copy->async ? "asynchronous" : "synchronous", kind_names[copy->kind]);
}

/* Find the kind of a default copy, and whether the given kind is what the memory is. */
static int check_kind(struct copy *copy)
{
    int actual = on_device(&copy->from) ? (on_device(&copy->to) ? HC_ACL_D2D : HC_ACL_D2H)
                                        : (on_device(&copy->to) ? HC_ACL_H2D : HC_ACL_H2H);
    if (copy->kind != HC_ACL_COPY_DEFAULT && copy->kind != actual)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "copy from %p to %p is %s, not %s", copy->src, copy->dst,
                           kind_names[actual], kind_names[copy->kind]);
    copy->kind = actual;
    return HC_ACL_OK;
}

static int check_reach(const struct npusim_device *device, const struct npusim_place *place)
{
    if (npusim_peer_reaches(device, place))
        return HC_ACL_OK;
    return npusim_fail(HC_ACL_NO_PERMISSION,
                       "device %d has no access to memory of physical device %d: enable it with "
                       "aclrtDeviceEnablePeerAccess and wait until aclrtDevicePeerAccessStatus says 1",
                       device->id, place->physical);
}

static int check_place(const struct npusim_place *place, const void *ptr, size_t n)
{
    if (place->where != NPUSIM_NOWHERE)
        return HC_ACL_OK;
    return npusim_fail(HC_ACL_INVALID_PARAMETER,
                       "%p: %zu bytes of physical device %d that were freed or reach past their aclrtMalloc",
                       ptr, n, place->physical);
}

static int check(const struct npusim_device *device, struct copy *copy, size_t dst_max)
{
    int code = check_arguments(copy, dst_max);
    if (code)
        return code;
    copy->to = npusim_place_find(copy->dst, copy->n);
    copy->from = npusim_place_find(copy->src, copy->n);
    if ((code = check_place(&copy->to, copy->dst, copy->n)) ||
        (code = check_place(&copy->from, copy->src, copy->n)) || (code = check_foreign(device, copy)) ||
        (code = check_kind(copy)) || (code = check_reach(device, &copy->to)))
        return code;
    return check_reach(device, &copy->from);
}

static struct npusim_op *copy_op(struct npusim_device *device, const struct copy *copy)
{
    struct npusim_op *op = npusim_op_create(NPUSIM_OP_COPY, device);
    if (!op)
        return NULL;
    op->dst = copy->dst;
    op->src = copy->src;
    op->n = copy->n;
    op->between_devices = copy->kind == HC_ACL_D2D && copy->to.physical != copy->from.physical;
    op->direction = copy->kind == HC_ACL_H2D   ? NPUSIM_TO_DEVICE
                    : copy->kind == HC_ACL_D2H ? NPUSIM_TO_HOST
                                               : NPUSIM_INSIDE;
    return op;
}

static int no_memory(void)
{
    return npusim_fail(HC_ACL_NO_RESOURCE, "no memory for an operation");
}

/* Carry out an operation that belongs to no stream. */
static int run_now(struct npusim_device *device, struct npusim_op *op)
{
    if (!op)
        return no_memory();
    npusim_op_await(op);
    npusim_engine_submit(&device->engines[op->direction], op);
    return npusim_op_wait(op);
}

static int copy_now(struct npusim_device *device, const struct copy *copy)
{
    return copy->n ? run_now(device, copy_op(device, copy)) : HC_ACL_OK;
}

int aclrtMemcpy(void *dst, size_t dst_max, const void *src, size_t n, int kind)
{
    struct copy copy = {.dst = dst, .src = src, .n = n, .kind = kind};
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    code = check(device, &copy, dst_max);
    if (code || copy.kind != HC_ACL_H2H)
        return npusim_leave(code ? code : copy_now(device, &copy));
    (void)npusim_leave(HC_ACL_OK);
    memmove(dst, src, n); /* without the lock */
    return HC_ACL_OK;
}

/* Whether the engines reach the host's side of a copy by themselves. */
static bool is_pinned(const struct copy *copy)
{
    return copy->to.where != NPUSIM_PAGEABLE && copy->from.where != NPUSIM_PAGEABLE;
}

static int enqueue(struct npusim_device *device, const struct copy *copy, struct npusim_stream *stream)
{
    if (copy->kind == HC_ACL_H2H)
        return npusim_fail(HC_ACL_NOT_SUPPORTED, "aclrtMemcpyAsync: not from host to host");
    if (!copy->n)
        return HC_ACL_OK;
    struct npusim_op *op = copy_op(device, copy);
    if (!op)
        return no_memory();
    if (is_pinned(copy)) {
        npusim_stream_enqueue(stream, op);
        return HC_ACL_OK;
    }
    npusim_op_await(op);
    npusim_stream_enqueue(stream, op);
    npusim_streams_run();
    return npusim_op_wait(op);
}

int aclrtMemcpyAsync(void *dst, size_t dst_max, const void *src, size_t n, int kind, hc_acl_stream_t handle)
{
    struct copy copy = {.dst = dst, .src = src, .n = n, .kind = kind, .async = true};
    struct npusim_device *device = NULL;
    struct npusim_stream *stream = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if ((code = npusim_stream_get(device, handle, &stream)) || (code = check(device, &copy, dst_max)))
        return npusim_leave(code);
    return npusim_leave(enqueue(device, &copy, stream));
}

static int set_now(struct npusim_device *device, const struct npusim_place *place, void *ptr, int value,
                   size_t n)
{
    if (is_foreign(device, place))
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtMemset: %p is imported from another device", ptr);
    int code = check_reach(device, place);
    if (code || !n)
        return code;
    struct npusim_op *op = npusim_op_create(NPUSIM_OP_SET, device);
    if (op) {
        op->dst = ptr;
        op->n = n;
        op->value = value;
        op->direction = NPUSIM_INSIDE;
    }
    return run_now(device, op);
}

int aclrtMemset(void *ptr, size_t max, int32_t value, size_t n)
{
    struct npusim_device *device = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    if (!ptr || n > max)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtMemset: NULL, or %zu bytes where there are %zu", n, max));
    struct npusim_place place = npusim_place_find(ptr, n);
    if ((code = check_place(&place, ptr, n)))
        return npusim_leave(code);
    if (on_device(&place))
        return npusim_leave(set_now(device, &place, ptr, value, n));
    (void)npusim_leave(HC_ACL_OK);
    memset(ptr, value, n); /* without the lock */
    return HC_ACL_OK;
}

/* ---- On an engine ---- */

static bool pin(const struct npusim_place *place)
{
    if (place->where == NPUSIM_NOWHERE)
        return false;
    return place->where != NPUSIM_IMPORTED || npusim_import_pin(place->import);
}

static void unpin(const struct npusim_place *place)
{
    if (place->where == NPUSIM_IMPORTED)
        npusim_import_unpin(place->import);
}

static void move_bytes(char *to, const char *from, size_t n)
{
    if (to + n <= from || from + n <= to)
        hc_copy(to, from, n);
    else
        memmove(to, from, n);
}

/* Between what was queued and now, memory may have been freed and exporters may have died: look again. */
static int move_between(struct npusim_op *op)
{
    struct npusim_place to = npusim_place_find(op->dst, op->n), from = npusim_place_find(op->src, op->n);
    if (!pin(&to))
        return npusim_fail(HC_ACL_DRIVER_ERROR, "copy to %p: the memory is gone", op->dst);
    if (!pin(&from)) {
        unpin(&to);
        return npusim_fail(HC_ACL_DRIVER_ERROR, "copy from %p: the memory is gone", op->src);
    }
    (void)pthread_mutex_unlock(&npusim.lock);
    move_bytes(to.bytes, from.bytes, op->n);
    (void)pthread_mutex_lock(&npusim.lock);
    unpin(&from);
    unpin(&to);
    return HC_ACL_OK;
}

static int set_bytes(struct npusim_op *op)
{
    struct npusim_place to = npusim_place_find(op->dst, op->n);
    if (!pin(&to))
        return npusim_fail(HC_ACL_DRIVER_ERROR, "memset of %p: the memory is gone", op->dst);
    (void)pthread_mutex_unlock(&npusim.lock);
    memset(to.bytes, op->value, op->n);
    (void)pthread_mutex_lock(&npusim.lock);
    unpin(&to);
    return HC_ACL_OK;
}

int npusim_copy_move(struct npusim_op *op)
{
    int code = npusim_fault_copy(op->device);
    if (code)
        return npusim_fail(code, "device %d: an operation made to fail by NPUSIM_FAULT", op->device->id);
    return op->kind == NPUSIM_OP_SET ? set_bytes(op) : move_between(op);
}
