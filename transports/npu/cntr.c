#include "transports/npu/ep.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

static struct npu_cntr *cntr_of(struct fid_cntr *fid)
{
    return hc_container_of(fid, struct npu_cntr, fid);
}

static void wake(struct npu_cntr *cntr)
{
    if (cntr->hub.wait.event < 0)
        return;
    /* seq_cst: partner is the store in npu_hub_arm, which looks at the values once more afterwards */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&cntr->hub.wait.armed, memory_order_relaxed))
        npu_wait_signal(&cntr->hub.wait);
}

void npu_cntr_count(struct npu_cntr *cntr, bool error)
{
    /* release: who reads the count sees the payload */
    (void)atomic_fetch_add_explicit(error ? &cntr->errors : &cntr->value, 1, memory_order_release);
    wake(cntr);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    struct npu_cntr *cntr = cntr_of(fid);
    npu_hub_progress(&cntr->hub);
    return atomic_load_explicit(&cntr->value, memory_order_acquire);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    struct npu_cntr *cntr = cntr_of(fid);
    npu_hub_progress(&cntr->hub);
    return atomic_load_explicit(&cntr->errors, memory_order_acquire);
}

/* fi_poll tells of changes by others only. */
static void remember(struct npu_cntr *cntr)
{
    cntr->seen = atomic_load_explicit(&cntr->value, memory_order_relaxed);
    cntr->seen_errors = atomic_load_explicit(&cntr->errors, memory_order_relaxed);
    wake(cntr);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    (void)atomic_fetch_add(&cntr_of(fid)->value, value);
    remember(cntr_of(fid));
    return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    atomic_store(&cntr_of(fid)->value, value);
    remember(cntr_of(fid));
    return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    (void)atomic_fetch_add(&cntr_of(fid)->errors, value);
    remember(cntr_of(fid));
    return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    atomic_store(&cntr_of(fid)->errors, value);
    remember(cntr_of(fid));
    return 0;
}

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Sleep until something may have changed, or until `end` (-1: for ever). */
static int nap(struct npu_cntr *cntr, uint64_t value, uint64_t errors, int64_t end)
{
    int left = end < 0 ? -1 : (int)((end - now_us() + 999) / 1000);
    if (end >= 0 && left < 0)
        left = 0; /* the end has passed meanwhile: -1 would be for ever */
    if (!npu_hub_arm(&cntr->hub))
        return 0;
    int rc = 0;
    if (atomic_load(&cntr->value) == value && atomic_load(&cntr->errors) == errors)
        rc = npu_wait_sleep(&cntr->hub.wait, left);
    npu_hub_disarm(&cntr->hub);
    return rc == -FI_EAGAIN ? 0 : rc;
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    enum { SPIN_US = 20, YIELD_US = 100 };
    struct npu_cntr *cntr = cntr_of(fid);
    if (cntr->obj == FI_WAIT_SET)
        return -FI_EINVAL;
    uint64_t errors = atomic_load_explicit(&cntr->errors, memory_order_acquire);
    int64_t start = now_us(), end = timeout < 0 ? -1 : start + (int64_t)timeout * 1000;
    for (;;) {
        uint64_t value = cntr_read(fid);
        if (value >= threshold)
            return 0;
        if (atomic_load_explicit(&cntr->errors, memory_order_acquire) != errors)
            return -FI_EAVAIL;
        int64_t now = now_us();
        if (end >= 0 && now >= end)
            return -FI_ETIMEDOUT;
        if (now - start < SPIN_US)
            continue;
        /* Without a wait object there is nothing to sleep on, but applications wait all the same. */
        if (cntr->obj == FI_WAIT_YIELD || cntr->obj == FI_WAIT_NONE || now - start < YIELD_US) {
            (void)sched_yield();
            continue;
        }
        int rc = nap(cntr, value, errors, end);
        if (rc < 0)
            return rc;
    }
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
    return npu_wait_control(&hc_container_of(fid, struct npu_cntr, fid.fid)->hub.wait, command, arg);
}

static int cntr_close(struct fid *fid)
{
    struct npu_cntr *cntr = hc_container_of(fid, struct npu_cntr, fid.fid);
    if (npu_in_use(&cntr->refs))
        return -FI_EBUSY;
    npu_cntr_unfollow(cntr);
    npu_wait_fini(&cntr->hub.wait);
    npu_put(&cntr->domain->refs);
    free(cntr->hub.eps);
    free(cntr);
    return 0;
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(cntr_fid_ops),
    .close = cntr_close,
    .bind = npu_no_bind,
    .control = cntr_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(cntr_ops),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

int npu_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context)
{
    enum fi_wait_obj obj = attr ? attr->wait_obj : FI_WAIT_UNSPEC;
    if (attr && (attr->events != FI_CNTR_EVENTS_COMP || attr->flags))
        return -FI_EINVAL;
    struct npu_cntr *made = calloc(1, sizeof(*made));
    if (!made)
        return -FI_ENOMEM;
    int rc = npu_wait_init(&made->hub.wait, obj, attr ? attr->wait_set : NULL, &made->fid.fid);
    if (rc < 0) {
        free(made);
        return rc;
    }
    made->obj = obj;
    hc_list_init(&made->follow_node);
    made->domain = hc_container_of(domain, struct npu_domain, fid);
    made->hub.lock.off = made->domain->serial;
    npu_get(&made->domain->refs);
    made->fid.fid.fclass = FI_CLASS_CNTR;
    made->fid.fid.context = context;
    made->fid.fid.ops = &cntr_fid_ops;
    made->fid.ops = &cntr_ops;
    *cntr = &made->fid;
    return 0;
}
