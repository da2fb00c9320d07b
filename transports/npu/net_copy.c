/*
 * Copies between staging slots and device memory that go on while the wire carries other slots. Each has a
 * stream of its own out of a small set, so they complete one by one, and one that fails does not fail the
 * others. A slot with a copy under way is neither sent nor posted again before its end.
 */
#include "transports/npu/device.h"
#include "transports/npu/net.h"

#include <stdlib.h>

enum { PATIENCE_MS = 10000 };

struct npu_net_copy {
    struct hc_list node; /* npu_net.copies_idle or .copies_busy */
    int device;
    hc_acl_stream_t stream;
    struct npu_net_slot *slot;
};

static void complain(int device, const char *what, int code)
{
    npu_warn(EP_DATA, "device %d: %s: %s %s\n", device, what, hc_acl_text(code),
             hc_acl_detail(npu_device_runtime()));
}

/* ---- The set ---- */

static struct npu_net_copy *make(struct npu_net *net, const struct hc_acl *acl, int device)
{
    struct npu_net_copy *copy = calloc(1, sizeof(*copy));
    if (!copy)
        return NULL;
    if (acl->aclrtCreateStream(&copy->stream) != HC_ACL_OK) {
        free(copy);
        return NULL;
    }
    copy->device = device;
    hc_list_init(&copy->node);
    net->copies++;
    return copy;
}

static void destroy(struct npu_net *net, const struct hc_acl *acl, struct npu_net_copy *copy)
{
    int32_t before;
    if (npu_device_enter(acl, copy->device, &before) == HC_ACL_OK) {
        (void)acl->aclrtDestroyStream(copy->stream);
        npu_device_leave(acl, copy->device, before);
    }
    net->copies--;
    free(copy);
}

static struct npu_net_copy *idle_one(struct npu_net *net, int device)
{
    struct hc_list *node;
    hc_list_for_each(node, &net->copies_idle)
    {
        struct npu_net_copy *copy = hc_list_entry(node, struct npu_net_copy, node);
        if (copy->device != device)
            continue;
        hc_list_remove(&copy->node);
        return copy;
    }
    return NULL;
}

static bool some_busy(const struct npu_net *net, int device)
{
    struct hc_list *node;
    hc_list_for_each(node, &net->copies_busy)
    {
        if (hc_list_entry(node, struct npu_net_copy, node)->device == device)
            return true;
    }
    return false;
}

/* ---- One copy ---- */

/* Queue the pieces of a range. A code of the device runtime. */
static int queue(const struct hc_acl *acl, const struct npu_net_copy *copy, const struct npu_net_span *span)
{
    size_t offset = span->offset, n = span->n;
    char *host = span->host;
    int code = HC_ACL_OK;
    for (unsigned i = 0; i < span->buf->count && n && code == HC_ACL_OK; i++) {
        size_t len = span->buf->iov[i].iov_len;
        if (offset >= len) {
            offset -= len;
            continue;
        }
        size_t part = len - offset < n ? len - offset : n;
        char *there = (char *)span->buf->iov[i].iov_base + offset;
        code = span->out ? acl->aclrtMemcpyAsync(host, part, there, part, HC_ACL_D2H, copy->stream)
                         : acl->aclrtMemcpyAsync(there, part, host, part, HC_ACL_H2D, copy->stream);
        host += part;
        n -= part;
        offset = 0;
    }
    return code;
}

/* The device is current. What was queued before a failure has ended when this returns. */
static int start(struct npu_net *net, const struct hc_acl *acl, struct npu_net_slot *slot,
                 const struct npu_net_span *span, int device)
{
    struct npu_net_copy *copy = idle_one(net, device);
    if (!copy && net->copies < NPU_NET_COPIES)
        copy = make(net, acl, device);
    if (!copy)
        return some_busy(net, device) ? -FI_EAGAIN : -FI_ENOSYS;
    int code = queue(acl, copy, span);
    if (code != HC_ACL_OK) {
        complain(device, "copying", code);
        (void)acl->aclrtSynchronizeStreamWithTimeout(copy->stream, PATIENCE_MS);
        destroy(net, acl, copy); /* a stream that failed stays failed */
        return -FI_EIO;
    }
    copy->slot = slot;
    slot->copy = copy;
    hc_list_append(&net->copies_busy, &copy->node);
    return 0;
}

/* Without a copy that goes on by itself. */
static int move_now(const struct npu_net_span *span)
{
    return span->out ? npu_buf_read(span->buf, span->offset, span->host, span->n)
                     : npu_buf_write(span->buf, span->offset, span->host, span->n);
}

int npu_net_move(struct npu_net_slot *slot, const struct npu_net_span *span)
{
    struct npu_net_conn *conn = slot->conn;
    const struct hc_acl *acl = span->buf->device && conn->pinned ? npu_device_runtime() : NULL;
    int32_t before;
    if (!acl)
        return move_now(span);
    int device = span->buf->device->device;
    if (npu_device_enter(acl, device, &before) != HC_ACL_OK)
        return move_now(span);
    int rc = start(conn->net, acl, slot, span, device);
    npu_device_leave(acl, device, before);
    return rc == -FI_ENOSYS ? move_now(span) : rc;
}

/* ---- The end ---- */

static void finish(struct npu_net *net, const struct hc_acl *acl, struct npu_net_copy *copy, int code)
{
    struct npu_net_slot *slot = copy->slot;
    hc_list_remove(&copy->node);
    if (code == HC_ACL_OK) {
        hc_list_append(&net->copies_idle, &copy->node);
    } else {
        complain(copy->device, "copying", code);
        destroy(net, acl, copy);
    }
    slot->copy = NULL;
    slot->moved(slot, code == HC_ACL_OK ? 0 : FI_EIO);
}

static int query(const struct hc_acl *acl, const struct npu_net_copy *copy, bool *done)
{
    int32_t before;
    int status = HC_ACL_STREAM_COMPLETE;
    int code = npu_device_enter(acl, copy->device, &before);
    if (code == HC_ACL_OK) {
        code = acl->aclrtStreamQuery(copy->stream, &status);
        npu_device_leave(acl, copy->device, before);
    }
    *done = code != HC_ACL_OK || status == HC_ACL_STREAM_COMPLETE;
    return code;
}

bool npu_net_copies_poll(struct npu_net *net)
{
    const struct hc_acl *acl = hc_list_empty(&net->copies_busy) ? NULL : npu_device_runtime();
    struct hc_list *node, *next;
    bool moved = false, done;
    if (!acl)
        return false;
    hc_list_for_each_safe(node, next, &net->copies_busy)
    {
        struct npu_net_copy *copy = hc_list_entry(node, struct npu_net_copy, node);
        int code = query(acl, copy, &done);
        if (!done)
            continue;
        finish(net, acl, copy, code);
        moved = true;
    }
    return moved;
}

void npu_net_copies_wait(struct npu_net_conn *conn)
{
    struct npu_net *net = conn->net;
    const struct hc_acl *acl = hc_list_empty(&net->copies_busy) ? NULL : npu_device_runtime();
    struct hc_list *node, *next;
    int32_t before;
    if (!acl)
        return;
    hc_list_for_each_safe(node, next, &net->copies_busy)
    {
        struct npu_net_copy *copy = hc_list_entry(node, struct npu_net_copy, node);
        if (copy->slot->conn != conn)
            continue;
        int code = npu_device_enter(acl, copy->device, &before);
        if (code == HC_ACL_OK) {
            code = acl->aclrtSynchronizeStreamWithTimeout(copy->stream, PATIENCE_MS);
            npu_device_leave(acl, copy->device, before);
        }
        finish(net, acl, copy, code);
    }
}

void npu_net_copies_fini(struct npu_net *net)
{
    const struct hc_acl *acl = net->copies ? npu_device_runtime() : NULL;
    struct hc_list *node;
    while (acl && (node = hc_list_pop(&net->copies_idle)))
        destroy(net, acl, hc_list_entry(node, struct npu_net_copy, node));
}
