#include "transports/npu/npu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_EVENTS = 256 };

struct event {
    struct hc_list node;
    uint32_t type;
    bool failed; /* bytes hold a struct fi_eq_err_entry */
    size_t len;
    _Alignas(max_align_t) unsigned char bytes[];
};

static struct npu_eq *eq_of(struct fid_eq *fid)
{
    return hc_container_of(fid, struct npu_eq, fid);
}

static int append(struct npu_eq *eq, uint32_t type, bool failed, const void *bytes, size_t len)
{
    struct event *event = malloc(sizeof(*event) + len);
    if (!event)
        return -FI_ENOMEM;
    event->type = type;
    event->failed = failed;
    event->len = len;
    memcpy(event->bytes, bytes, len);
    npu_lock(&eq->lock);
    int rc = eq->overrun || eq->count >= eq->size ? -FI_EOVERRUN : 0;
    if (rc == 0) {
        hc_list_append(&eq->events, &event->node);
        eq->count++;
    }
    eq->overrun |= rc < 0;
    npu_unlock(&eq->lock);
    if (rc < 0)
        free(event);
    npu_wait_signal(&eq->wait);
    return rc;
}

void npu_eq_report(struct npu_eq *eq, uint32_t event, const void *entry, size_t len)
{
    if (append(eq, event, false, entry, len) < 0)
        npu_warn(EQ, "an event was lost: the queue of %zu is full\n", eq->size);
}

void npu_eq_report_error(struct npu_eq *eq, struct fid *fid, void *context, uint64_t data, int err)
{
    struct fi_eq_err_entry entry = {.fid = fid, .context = context, .data = data, .err = err};
    if (append(eq, 0, true, &entry, sizeof(entry)) < 0)
        npu_warn(EQ, "an error event was lost: the queue of %zu is full\n", eq->size);
}

/* Take the oldest event if it is of the wanted kind; the lock is held. */
static ssize_t first_event(struct npu_eq *eq, bool failed, struct event **event)
{
    struct hc_list *node = hc_list_first(&eq->events);
    if (!node)
        return eq->overrun ? -FI_EOVERRUN : -FI_EAGAIN;
    *event = hc_list_entry(node, struct event, node);
    if ((*event)->failed != failed)
        return failed ? -FI_EAGAIN : -FI_EAVAIL;
    return 0;
}

static void drop_event(struct npu_eq *eq, struct event *event)
{
    hc_list_remove(&event->node);
    free(event);
    if (--eq->count == 0)
        npu_wait_drain(&eq->wait);
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *type, void *buf, size_t len, uint64_t flags)
{
    struct npu_eq *eq = eq_of(fid);
    struct event *event = NULL;
    if (flags & ~FI_PEEK)
        return -FI_EBADFLAGS;
    npu_lock(&eq->lock);
    ssize_t got = first_event(eq, false, &event);
    if (got == 0 && len < event->len)
        got = -FI_ETOOSMALL;
    if (got == 0) {
        *type = event->type;
        got = (ssize_t)event->len;
        memcpy(buf, event->bytes, event->len);
        if (!(flags & FI_PEEK))
            drop_event(eq, event);
    }
    npu_unlock(&eq->lock);
    return got;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry, uint64_t flags)
{
    struct npu_eq *eq = eq_of(fid);
    struct event *event = NULL;
    if (flags & ~FI_PEEK)
        return -FI_EBADFLAGS;
    npu_lock(&eq->lock);
    ssize_t got = first_event(eq, true, &event);
    if (got == 0) {
        void *err_data = entry->err_data;
        memcpy(entry, event->bytes, sizeof(*entry));
        /* No event here carries data: what the caller gave stays unused. */
        entry->err_data = err_data;
        entry->err_data_size = 0;
        got = sizeof(*entry);
        if (!(flags & FI_PEEK))
            drop_event(eq, event);
    }
    npu_unlock(&eq->lock);
    return got;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t type, const void *buf, size_t len, uint64_t flags)
{
    struct npu_eq *eq = eq_of(fid);
    if (!eq->writable || flags)
        return -FI_EINVAL;
    int rc = append(eq, type, false, buf, len);
    return rc < 0 ? rc : (ssize_t)len;
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *type, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    struct npu_eq *eq = eq_of(fid);
    if (eq->wait.epoll < 0)
        return -FI_EINVAL;
    int64_t end = timeout < 0 ? 0 : now_ms() + timeout;
    for (;;) {
        ssize_t got = eq_read(fid, type, buf, len, flags);
        if (got != -FI_EAGAIN)
            return got;
        int64_t left = timeout < 0 ? -1 : end - now_ms();
        if (timeout >= 0 && left <= 0)
            return -FI_EAGAIN;
        int rc = npu_wait_sleep(&eq->wait, (int)left);
        if (rc < 0 && rc != -FI_EAGAIN)
            return rc;
    }
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    (void)fid, (void)err_data;
    const char *text = fi_strerror(prov_errno);
    if (buf && len)
        (void)snprintf(buf, len, "%s", text);
    return text;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
    return npu_wait_control(&hc_container_of(fid, struct npu_eq, fid.fid)->wait, command, arg);
}

static int eq_close(struct fid *fid)
{
    struct npu_eq *eq = hc_container_of(fid, struct npu_eq, fid.fid);
    struct hc_list *node;
    if (npu_in_use(&eq->refs))
        return -FI_EBUSY;
    while ((node = hc_list_pop(&eq->events)))
        free(hc_list_entry(node, struct event, node));
    npu_wait_fini(&eq->wait);
    npu_put(&eq->fabric->refs);
    free(eq);
    return 0;
}

static struct fi_ops eq_fid_ops = {
    .size = sizeof(eq_fid_ops),
    .close = eq_close,
    .bind = npu_no_bind,
    .control = eq_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_eq eq_ops = {
    .size = sizeof(eq_ops),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

int npu_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
    struct npu_eq *made = calloc(1, sizeof(*made));
    if (!made)
        return -FI_ENOMEM;
    enum fi_wait_obj obj = attr ? attr->wait_obj : FI_WAIT_NONE;
    int rc = attr && (attr->flags & ~(FI_WRITE | FI_AFFINITY)) ? -FI_EBADFLAGS : 0;
    if (rc == 0)
        rc = npu_wait_init(&made->wait, obj, attr ? attr->wait_set : NULL, &made->fid.fid);
    if (rc < 0) {
        free(made);
        return rc;
    }
    hc_list_init(&made->events);
    made->size = attr && attr->size ? attr->size : DEFAULT_EVENTS;
    made->writable = attr && (attr->flags & FI_WRITE);
    made->fabric = hc_container_of(fabric, struct npu_fabric, fid);
    npu_get(&made->fabric->refs);
    made->fid.fid.fclass = FI_CLASS_EQ;
    made->fid.fid.context = context;
    made->fid.fid.ops = &eq_fid_ops;
    made->fid.ops = &eq_ops;
    *eq = &made->fid;
    return 0;
}
