/*
 * Completion queues. A queue is a ring that grows: what may be started is limited by its size
 * (npu_cq_has_room), and what was started finds room, so it is never overrun. Failed operations take their
 * place in the ring as a pointer to what fi_cq_readerr gives.
 */
#include "transports/npu/ep.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct npu_cq *cq_of(struct fid_cq *fid)
{
    return hc_container_of(fid, struct npu_cq, fid);
}

/* ---- Writing ---- */

/* Twice the room; the lock is held. */
static int grow(struct npu_cq *cq)
{
    size_t size = 2 * (cq->mask + 1);
    struct npu_completion *ring = malloc(size * sizeof(*ring));
    if (!ring)
        return -FI_ENOMEM;
    size_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    for (size_t i = head; i != tail; i++)
        ring[i & (size - 1)] = cq->ring[i & cq->mask];
    free(cq->ring);
    cq->ring = ring;
    cq->mask = size - 1;
    return 0;
}

static struct npu_completion *next_slot(struct npu_cq *cq)
{
    if (hc_unlikely(npu_cq_count(cq) > cq->mask) && grow(cq) < 0)
        return NULL;
    return &cq->ring[atomic_load_explicit(&cq->tail, memory_order_relaxed) & cq->mask];
}

static void publish(struct npu_cq *cq)
{
    size_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed) + 1;
    /* release: readers look at the count without the lock, but at the entries with it */
    atomic_store_explicit(&cq->tail, tail, memory_order_release);
}

/* seq_cst: partner is the store in npu_hub_arm, which looks at the queue once more afterwards */
static void wake(struct npu_cq *cq)
{
    if (cq->hub.wait.event < 0)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&cq->hub.wait.armed, memory_order_relaxed))
        npu_wait_signal(&cq->hub.wait);
}

/* False: it was lost, which has been told. */
static bool push(struct npu_cq *cq, const struct npu_completion *completion)
{
    npu_lock(&cq->lock);
    struct npu_completion *slot = next_slot(cq);
    if (hc_likely(slot)) {
        *slot = *completion;
        publish(cq);
    } else {
        npu_warn(CQ, "a completion was lost: no memory for %zu entries\n", 2 * (cq->mask + 1));
    }
    npu_unlock(&cq->lock);
    wake(cq);
    return slot != NULL;
}

void npu_cq_push(struct npu_cq *cq, const struct npu_completion *completion)
{
    (void)push(cq, completion);
}

void npu_cq_push_error(struct npu_cq *cq, const struct npu_cq_error *error)
{
    struct npu_cq_error *copy = malloc(sizeof(*copy));
    if (!copy) {
        npu_warn(CQ, "an error completion (%s) was lost: no memory\n", fi_strerror(error->entry.err));
        return;
    }
    *copy = *error;
    struct npu_completion completion = {.error = copy};
    if (!push(cq, &completion))
        free(copy);
}

/* ---- Reading ---- */

static ssize_t take(struct npu_cq *cq, void *buf, size_t count, fi_addr_t *source)
{
    size_t got = 0;
    npu_lock(&cq->lock);
    size_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    size_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    bool failed = false;
    for (; got < count && head != tail; got++, head++) {
        const struct npu_completion *slot = &cq->ring[head & cq->mask];
        failed = slot->error;
        if (failed)
            break;
        memcpy((char *)buf + got * cq->entry_size, &slot->entry, cq->entry_size);
        if (source)
            source[got] = slot->source;
    }
    atomic_store_explicit(&cq->head, head, memory_order_relaxed);
    npu_unlock(&cq->lock);
    if (got)
        return (ssize_t)got;
    return failed ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
    struct npu_cq *cq = cq_of(fid);
    if (hc_unlikely(atomic_load_explicit(&cq->hub.wait.armed, memory_order_relaxed)))
        npu_hub_awake(&cq->hub);
    if (count == 0 || npu_cq_count(cq) == 0) {
        npu_hub_progress(&cq->hub);
        if (npu_cq_count(cq) == 0)
            return -FI_EAGAIN;
    }
    if (count == 0)
        return 0;
    return take(cq, buf, count, source);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    return cq_readfrom(fid, buf, count, NULL);
}

static bool keeps_err_data(const struct npu_cq *cq, const struct fi_cq_err_entry *entry)
{
    return entry->err_data_size == 0 || FI_VERSION_LT(cq->domain->fabric->fid.api_version, FI_VERSION(1, 5));
}

/* Give an error to the caller; how much of the structure older callers have is told by the API's version. */
static void give_error(struct npu_cq *cq, const struct npu_cq_error *error, struct fi_cq_err_entry *entry)
{
    void *data = entry->err_data;
    size_t room = entry->err_data_size;
    bool old = FI_VERSION_LT(cq->domain->fabric->fid.api_version, FI_VERSION(1, 5));
    bool kept = old || keeps_err_data(cq, entry);
    size_t len = error->entry.err_data_size;
    memcpy(entry, &error->entry, old ? offsetof(struct fi_cq_err_entry, err_data_size) : sizeof(*entry));
    if (kept) {
        cq->last = *error;
        entry->err_data = len ? cq->last.data : NULL;
    } else {
        len = len < room ? len : room;
        entry->err_data = data;
        if (data)
            memcpy(data, error->data, len);
    }
    if (!old)
        entry->err_data_size = len;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct npu_cq *cq = cq_of(fid);
    struct npu_cq_error *error = NULL;
    (void)flags;
    if (npu_cq_count(cq) == 0)
        npu_hub_progress(&cq->hub);
    npu_lock(&cq->lock);
    size_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
    if (npu_cq_count(cq))
        error = cq->ring[head & cq->mask].error;
    if (error) {
        give_error(cq, error, entry);
        atomic_store_explicit(&cq->head, head + 1, memory_order_relaxed);
    }
    npu_unlock(&cq->lock);
    free(error);
    return error ? 1 : -FI_EAGAIN;
}

/* ---- Waiting ---- */

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Sleep until something may have come, or until `end` (-1: for ever). */
static int nap(struct npu_cq *cq, int64_t end)
{
    int left = end < 0 ? -1 : (int)((end - now_us() + 999) / 1000);
    if (end >= 0 && left < 0)
        left = 0; /* the end has passed meanwhile: -1 would be for ever */
    if (!npu_hub_arm(&cq->hub))
        return 0;
    int rc = 0;
    if (npu_cq_count(cq) == 0 && !atomic_load(&cq->signalled))
        rc = npu_wait_sleep(&cq->hub.wait, left);
    npu_hub_disarm(&cq->hub);
    return rc == -FI_EAGAIN ? 0 : rc;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source, const void *cond,
                            int timeout)
{
    enum { SPIN_US = 20, YIELD_US = 100 };
    struct npu_cq *cq = cq_of(fid);
    enum fi_wait_obj obj = cq->hub.wait.obj;
    (void)cond; /* an optimization, says fi_cq(3) */
    if (obj == FI_WAIT_NONE || obj == FI_WAIT_SET)
        return -FI_EINVAL;
    int64_t start = now_us(), end = timeout < 0 ? -1 : start + (int64_t)timeout * 1000;
    for (;;) {
        ssize_t got = cq_readfrom(fid, buf, count, source);
        if (got != -FI_EAGAIN)
            return got;
        if (atomic_exchange(&cq->signalled, false))
            return -FI_EAGAIN;
        int64_t now = now_us();
        if (end >= 0 && now >= end)
            return -FI_EAGAIN;
        if (now - start < SPIN_US)
            continue;
        if (obj == FI_WAIT_YIELD || now - start < YIELD_US) {
            (void)sched_yield();
            continue;
        }
        int rc = nap(cq, end);
        if (rc < 0)
            return rc;
    }
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
    struct npu_cq *cq = cq_of(fid);
    if (cq->hub.wait.obj == FI_WAIT_NONE)
        return -FI_EINVAL;
    atomic_store(&cq->signalled, true);
    npu_wait_signal(&cq->hub.wait);
    return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    (void)fid, (void)err_data;
    const char *text = fi_strerror(prov_errno);
    if (buf && len)
        (void)snprintf(buf, len, "%s", text);
    return text;
}

/* ---- Life ---- */

static int cq_control(struct fid *fid, int command, void *arg)
{
    return npu_wait_control(&hc_container_of(fid, struct npu_cq, fid.fid)->hub.wait, command, arg);
}

static int cq_close(struct fid *fid)
{
    struct npu_cq *cq = hc_container_of(fid, struct npu_cq, fid.fid);
    if (npu_in_use(&cq->refs))
        return -FI_EBUSY;
    size_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
    for (size_t i = atomic_load_explicit(&cq->head, memory_order_relaxed); i != tail; i++)
        free(cq->ring[i & cq->mask].error);
    npu_wait_fini(&cq->hub.wait);
    npu_put(&cq->domain->refs);
    free(cq->hub.eps);
    free(cq->ring);
    free(cq);
    return 0;
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(cq_fid_ops),
    .close = cq_close,
    .bind = npu_no_bind,
    .control = cq_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_cq cq_ops = {
    .size = sizeof(cq_ops),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

static int format_size(enum fi_cq_format format, size_t *size)
{
    switch (format) {
    case FI_CQ_FORMAT_UNSPEC:
    case FI_CQ_FORMAT_CONTEXT:
        *size = sizeof(struct fi_cq_entry);
        return 0;
    case FI_CQ_FORMAT_MSG:
        *size = sizeof(struct fi_cq_msg_entry);
        return 0;
    case FI_CQ_FORMAT_DATA:
        *size = sizeof(struct fi_cq_data_entry);
        return 0;
    case FI_CQ_FORMAT_TAGGED:
        *size = sizeof(struct fi_cq_tagged_entry);
        return 0;
    default:
        return -FI_EINVAL;
    }
}

/* Check the attributes, fill in the defaults, and allocate. */
static int cq_make(struct fi_cq_attr *attr, struct npu_cq *cq)
{
    size_t size = 1;
    if (attr->flags & ~FI_AFFINITY)
        return -FI_EBADFLAGS;
    if (attr->size > NPU_MAX_QUEUE || attr->wait_cond > FI_CQ_COND_THRESHOLD)
        return -FI_EINVAL;
    int rc = format_size(attr->format, &cq->entry_size);
    if (rc < 0)
        return rc;
    cq->limit = attr->size ? attr->size : NPU_DEFAULT_QUEUE;
    while (size < cq->limit)
        size *= 2;
    cq->mask = size - 1;
    cq->ring = malloc(size * sizeof(*cq->ring));
    if (!cq->ring)
        return -FI_ENOMEM;
    /* Have the pages of a usual queue now, not one by one under messages. */
    memset(cq->ring, 0, (size < NPU_DEFAULT_QUEUE ? size : NPU_DEFAULT_QUEUE) * sizeof(*cq->ring));
    return npu_wait_init(&cq->hub.wait, attr->wait_obj, attr->wait_set, &cq->fid.fid);
}

int npu_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    struct fi_cq_attr none = {0};
    struct npu_cq *made = calloc(1, sizeof(*made));
    if (!made)
        return -FI_ENOMEM;
    int rc = cq_make(attr ? attr : &none, made);
    if (rc < 0) {
        free(made->ring);
        free(made);
        return rc;
    }
    if (attr) {
        attr->size = made->limit;
        if (attr->format == FI_CQ_FORMAT_UNSPEC)
            attr->format = FI_CQ_FORMAT_CONTEXT;
    }
    made->domain = hc_container_of(domain, struct npu_domain, fid);
    made->lock.off = made->hub.lock.off = made->domain->serial;
    npu_get(&made->domain->refs);
    made->fid.fid.fclass = FI_CLASS_CQ;
    made->fid.fid.context = context;
    made->fid.fid.ops = &cq_fid_ops;
    made->fid.ops = &cq_ops;
    *cq = &made->fid;
    return 0;
}
