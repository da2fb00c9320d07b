#include "transports/npu/npu.h"

#include <stdlib.h>

struct poll_set {
    struct fid_poll fid;
    struct npu_domain *domain;
    struct npu_lock lock;
    struct fid **members;
    size_t count, room;
};

static struct poll_set *poll_of(struct fid_poll *fid)
{
    return hc_container_of(fid, struct poll_set, fid);
}

/* The use count of something that can be in a poll set; NULL for anything else. */
static atomic_int *refs_of(struct fid *fid)
{
    if (fid->fclass == FI_CLASS_CQ)
        return &hc_container_of(fid, struct npu_cq, fid.fid)->refs;
    if (fid->fclass == FI_CLASS_CNTR)
        return &hc_container_of(fid, struct npu_cntr, fid.fid)->refs;
    return NULL;
}

static bool has_events(struct fid *fid)
{
    if (fid->fclass == FI_CLASS_CQ) {
        struct npu_cq *cq = hc_container_of(fid, struct npu_cq, fid.fid);
        npu_hub_progress(&cq->hub);
        return npu_cq_count(cq) > 0;
    }
    struct npu_cntr *cntr = hc_container_of(fid, struct npu_cntr, fid.fid);
    npu_hub_progress(&cntr->hub);
    uint64_t value = atomic_load(&cntr->value), errors = atomic_load(&cntr->errors);
    bool changed = value != cntr->seen || errors != cntr->seen_errors;
    cntr->seen = value;
    cntr->seen_errors = errors;
    return changed;
}

static int poll_poll(struct fid_poll *fid, void **context, int count)
{
    struct poll_set *set = poll_of(fid);
    int found = 0;
    npu_lock(&set->lock);
    for (size_t i = 0; i < set->count && found < count; i++)
        if (has_events(set->members[i]))
            context[found++] = set->members[i]->context;
    npu_unlock(&set->lock);
    return found;
}

static int poll_add(struct fid_poll *fid, struct fid *event, uint64_t flags)
{
    struct poll_set *set = poll_of(fid);
    atomic_int *refs = refs_of(event);
    int rc = 0;
    if (flags || !refs)
        return flags ? -FI_EBADFLAGS : -FI_EINVAL;
    npu_lock(&set->lock);
    if (set->count == set->room) {
        size_t room = set->room ? 2 * set->room : 8;
        struct fid **grown = realloc(set->members, room * sizeof(struct fid *));
        rc = grown ? 0 : -FI_ENOMEM;
        set->members = grown ? grown : set->members;
        set->room = grown ? room : set->room;
    }
    if (rc == 0) {
        set->members[set->count++] = event;
        npu_get(refs);
    }
    npu_unlock(&set->lock);
    return rc;
}

static int poll_del(struct fid_poll *fid, struct fid *event, uint64_t flags)
{
    struct poll_set *set = poll_of(fid);
    int rc = -FI_EINVAL;
    if (flags)
        return -FI_EBADFLAGS;
    npu_lock(&set->lock);
    for (size_t i = 0; i < set->count && rc < 0; i++) {
        if (set->members[i] != event)
            continue;
        set->members[i] = set->members[--set->count];
        npu_put(refs_of(event));
        rc = 0;
    }
    npu_unlock(&set->lock);
    return rc;
}

static int poll_close(struct fid *fid)
{
    struct poll_set *set = hc_container_of(fid, struct poll_set, fid.fid);
    if (set->count)
        return -FI_EBUSY;
    npu_put(&set->domain->refs);
    free(set->members);
    free(set);
    return 0;
}

static struct fi_ops poll_fid_ops = {
    .size = sizeof(poll_fid_ops),
    .close = poll_close,
    .bind = npu_no_bind,
    .control = npu_no_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_poll poll_ops = {
    .size = sizeof(poll_ops),
    .poll = poll_poll,
    .poll_add = poll_add,
    .poll_del = poll_del,
};

int npu_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll)
{
    if (attr && attr->flags)
        return -FI_EINVAL;
    struct poll_set *set = calloc(1, sizeof(*set));
    if (!set)
        return -FI_ENOMEM;
    set->domain = hc_container_of(domain, struct npu_domain, fid);
    set->lock.off = set->domain->serial;
    npu_get(&set->domain->refs);
    set->fid.fid.fclass = FI_CLASS_POLL;
    set->fid.fid.ops = &poll_fid_ops;
    set->fid.ops = &poll_ops;
    *poll = &set->fid;
    return 0;
}
