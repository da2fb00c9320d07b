/*
 * Address vectors. A table and a map are the same here: an fi_addr_t is the index of an entry, the lowest
 * free one at its insertion.
 */
#include "transports/npu/ep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256, FIRST_ROOM = 16 };

static struct npu_av *av_of(struct fid_av *fid)
{
    return hc_container_of(fid, struct npu_av, fid);
}

/* ---- Entries; the lock is held ---- */

static uint32_t *bucket_of(struct npu_av *av, const struct npu_addr *addr)
{
    return &av->buckets[npu_addr_port(addr) % BUCKETS];
}

static int make_room(struct npu_av *av)
{
    if (av->first_free < av->room)
        return 0;
    if (av->room > UINT32_MAX / 4)
        return -FI_ENOSPC;
    uint32_t room = av->room ? 2 * av->room : FIRST_ROOM;
    struct npu_av_entry *grown = realloc(av->entries, room * sizeof(*grown));
    if (!grown)
        return -FI_ENOMEM;
    memset(grown + av->room, 0, (room - av->room) * sizeof(*grown));
    av->entries = grown;
    av->room = room;
    return 0;
}

static void find_free(struct npu_av *av)
{
    while (av->first_free < av->room && av->entries[av->first_free].used)
        av->first_free++;
}

static int insert(struct npu_av *av, const struct npu_addr *addr, bool local, fi_addr_t *index)
{
    int rc = make_room(av);
    if (rc < 0)
        return rc;
    uint32_t at = av->first_free, *bucket = bucket_of(av, addr);
    av->entries[at] =
        (struct npu_av_entry){.addr = *addr, .user_id = at, .used = true, .local = local, .next = *bucket};
    *bucket = at;
    av->count++;
    find_free(av);
    (void)atomic_fetch_add_explicit(&av->generation, 1, memory_order_release);
    *index = at;
    return 0;
}

static void unlink_entry(struct npu_av *av, uint32_t index)
{
    uint32_t *at = bucket_of(av, &av->entries[index].addr);
    while (*at != index)
        at = &av->entries[*at].next;
    *at = av->entries[index].next;
    av->entries[index].used = false;
    av->count--;
    if (index < av->first_free)
        av->first_free = index;
    (void)atomic_fetch_add_explicit(&av->generation, 1, memory_order_release);
}

bool npu_av_get(struct npu_av *av, fi_addr_t index, struct npu_addr *addr, bool *local)
{
    npu_lock(&av->lock);
    bool found = index < av->room && av->entries[index].used;
    if (found) {
        *addr = av->entries[index].addr;
        *local = av->entries[index].local;
    }
    npu_unlock(&av->lock);
    return found;
}

/* Endpoints of this namespace are told apart by their port alone: they may be known by any of its addresses.
 */
static bool names(const struct npu_av_entry *entry, const struct npu_addr *addr, bool local)
{
    if (entry->local && local)
        return npu_addr_port(&entry->addr) == npu_addr_port(addr);
    return npu_addr_equal(&entry->addr, addr);
}

fi_addr_t npu_av_find(struct npu_av *av, const struct npu_addr *addr, fi_addr_t *id)
{
    bool local = npu_addr_is_local(addr);
    fi_addr_t found = FI_ADDR_NOTAVAIL;
    npu_lock(&av->lock);
    for (uint32_t at = *bucket_of(av, addr); at != NPU_AV_NONE; at = av->entries[at].next) {
        if (!names(&av->entries[at], addr, local))
            continue;
        found = at;
        *id = av->entries[at].user_id;
    }
    npu_unlock(&av->lock);
    if (found == FI_ADDR_NOTAVAIL)
        *id = FI_ADDR_NOTAVAIL;
    return found;
}

/* ---- Insertion ---- */

struct insertion {
    struct npu_av *av;
    fi_addr_t *fi_addr; /* may be NULL */
    uint64_t flags;
    void *context;
    size_t done, good;
};

static int begin(struct insertion *work, size_t count)
{
    struct npu_av *av = work->av;
    if (work->flags & ~(FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID))
        return -FI_EBADFLAGS;
    if ((work->flags & FI_AV_USER_ID) && !work->fi_addr)
        return -FI_EINVAL;
    if (av->flags & FI_EVENT) {
        if (!av->eq)
            return -FI_ENOEQ;
        if (work->flags & FI_SYNC_ERR)
            return -FI_EBADFLAGS;
    }
    if ((work->flags & FI_SYNC_ERR) && count && !work->context)
        return -FI_EINVAL;
    return av->type == FI_AV_MAP && count && !work->fi_addr ? -FI_EINVAL : 0;
}

/* The endpoints that can connect to an address, now rather than with the first message. */
static void meet(struct npu_av *av, fi_addr_t index)
{
    struct hc_list *node;
    npu_lock(&av->eps_lock);
    hc_list_for_each(node, &av->eps)
    {
        struct npu_ep *ep = hc_list_entry(node, struct npu_ep, av_node);
        npu_lock(&ep->lock);
        npu_ep_meet(ep, index);
        npu_unlock(&ep->lock);
    }
    npu_unlock(&av->eps_lock);
}

/* Insert one address (NULL: it could not be resolved) and report what became of it. */
static void insert_one(struct insertion *work, const struct npu_addr *addr)
{
    struct npu_av *av = work->av;
    fi_addr_t index = FI_ADDR_NOTAVAIL;
    size_t at = work->done++;
    int rc = -FI_EINVAL;
    if (addr) {
        bool local = av->domain->shared_memory && npu_addr_is_local(addr);
        npu_lock(&av->lock);
        rc = insert(av, addr, local, &index);
        if (rc == 0 && (work->flags & FI_AV_USER_ID))
            av->entries[index].user_id = work->fi_addr[at];
        npu_unlock(&av->lock);
        if (rc == 0 && local)
            meet(av, index);
    }
    work->good += rc == 0;
    if (work->fi_addr)
        work->fi_addr[at] = index;
    if (work->flags & FI_SYNC_ERR)
        ((int *)work->context)[at] = -rc;
    if (rc < 0 && (av->flags & FI_EVENT))
        npu_eq_report_error(av->eq, &av->fid.fid, work->context, at, -rc);
}

static int finish(struct insertion *work)
{
    struct npu_av *av = work->av;
    if (!(av->flags & FI_EVENT))
        return (int)work->good;
    struct fi_eq_entry entry = {.fid = &av->fid.fid, .context = work->context, .data = work->good};
    npu_eq_report(av->eq, FI_AV_COMPLETE, &entry, sizeof(entry));
    return 0;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags,
                     void *context)
{
    struct insertion work = {.av = av_of(fid), .fi_addr = fi_addr, .flags = flags, .context = context};
    int rc = begin(&work, count);
    if (rc == 0 && count && !addr)
        rc = -FI_EINVAL;
    if (rc < 0)
        return rc;
    bool wide = work.av->domain->format == FI_SOCKADDR_IN6;
    size_t stride = wide ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    for (size_t i = 0; i < count; i++) {
        struct npu_addr one;
        rc = npu_addr_copy((const char *)addr + i * stride, stride, &one);
        insert_one(&work, rc == 0 && npu_addr_port(&one) ? &one : NULL);
    }
    return finish(&work);
}

static void insert_named(struct insertion *work, const char *node, const char *service)
{
    struct npu_addr addr;
    int rc = npu_addr_resolve(node, service, 0, work->av->domain->format, false, &addr);
    insert_one(work, rc == 0 ? &addr : NULL);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr,
                        uint64_t flags, void *context)
{
    struct insertion work = {.av = av_of(fid), .fi_addr = fi_addr, .flags = flags, .context = context};
    int rc = begin(&work, 1);
    if (rc == 0 && (!node || !service))
        rc = -FI_EINVAL;
    if (rc < 0)
        return rc;
    insert_named(&work, node, service);
    return finish(&work);
}

/* The address `node` and `service` stand for, moved on by so many hosts and ports; false if that is none. */
static bool addr_step(const struct npu_addr *first, size_t hosts, size_t ports, struct npu_addr *addr)
{
    size_t port = npu_addr_port(first) + ports;
    *addr = *first;
    if (port > UINT16_MAX)
        return false;
    npu_addr_set_port(addr, (uint16_t)port);
    unsigned char *bytes = (unsigned char *)&addr->in.sin_addr;
    size_t len = sizeof(addr->in.sin_addr);
    if (addr->sa.sa_family == AF_INET6) {
        bytes = addr->in6.sin6_addr.s6_addr;
        len = sizeof(addr->in6.sin6_addr);
    }
    size_t carry = hosts;
    for (size_t i = len; i-- && carry; carry >>= 8) {
        carry += bytes[i];
        bytes[i] = (unsigned char)carry;
    }
    return carry == 0;
}

/* "host10" moved on by 2 is "host12". */
static bool name_step(const char *node, size_t hosts, char *text, size_t len)
{
    size_t stem = strlen(node);
    while (stem && node[stem - 1] >= '0' && node[stem - 1] <= '9')
        stem--;
    if (!node[stem])
        return hosts == 0 && snprintf(text, len, "%s", node) < (int)len;
    unsigned long long number = strtoull(node + stem, NULL, 10) + hosts;
    int digits = (int)strlen(node + stem);
    return snprintf(text, len, "%.*s%0*llu", (int)stem, node, digits, number) < (int)len;
}

/* Insert the ports of one host. */
static void insert_host(struct insertion *work, const char *node, size_t host, const char *service,
                        size_t svccnt)
{
    enum { NAME_MAX_LEN = 256 };
    char text[NAME_MAX_LEN];
    struct npu_addr first, addr;
    uint32_t format = work->av->domain->format;
    size_t hosts = 0;
    /* A numeric address is counted up itself, a name by its number. */
    bool known = npu_addr_resolve(node, service, FI_NUMERICHOST, format, false, &first) == 0;
    if (known)
        hosts = host;
    else
        known = name_step(node, host, text, sizeof(text)) &&
                npu_addr_resolve(text, service, 0, format, false, &first) == 0;
    for (size_t i = 0; i < svccnt; i++)
        insert_one(work, known && addr_step(&first, hosts, i, &addr) ? &addr : NULL);
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
                        size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct insertion work = {.av = av_of(fid), .fi_addr = fi_addr, .flags = flags, .context = context};
    int rc = begin(&work, nodecnt * svccnt);
    if (rc == 0 && (!node || !service))
        rc = -FI_EINVAL;
    if (rc < 0)
        return rc;
    for (size_t host = 0; host < nodecnt; host++)
        insert_host(&work, node, host, service, svccnt);
    return finish(&work);
}

/* ---- The other operations ---- */

/* The endpoints forget the connection of an index that may get another address. */
static void forget_index(struct npu_av *av, fi_addr_t index)
{
    struct hc_list *node;
    npu_lock(&av->eps_lock);
    hc_list_for_each(node, &av->eps)
    {
        struct npu_ep *ep = hc_list_entry(node, struct npu_ep, av_node);
        npu_lock(&ep->lock);
        if (index < ep->peer_room)
            ep->peers[index] = NULL;
        npu_unlock(&ep->lock);
    }
    npu_unlock(&av->eps_lock);
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    struct npu_av *av = av_of(fid);
    int rc = 0;
    if (flags)
        return -FI_EBADFLAGS;
    for (size_t i = 0; i < count; i++) {
        npu_lock(&av->lock);
        bool known = fi_addr[i] < av->room && av->entries[fi_addr[i]].used;
        if (known)
            unlink_entry(av, (uint32_t)fi_addr[i]);
        npu_unlock(&av->lock);
        if (known)
            forget_index(av, fi_addr[i]);
        else
            rc = -FI_EINVAL;
    }
    return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    struct npu_addr found;
    bool local = false;
    if (!npu_av_get(av_of(fid), fi_addr, &found, &local))
        return -FI_EINVAL;
    size_t len = npu_addr_len(&found);
    memcpy(addr, &found, *addrlen < len ? *addrlen : len);
    *addrlen = len;
    return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
    enum { TEXT_MAX = 80 };
    char text[TEXT_MAX] = "unknown address";
    struct npu_addr copy;
    sa_family_t family = AF_UNSPEC;
    (void)fid;
    memcpy(&family, addr, sizeof(family));
    size_t needed = strlen(text) + 1;
    if (npu_addr_copy(addr, family == AF_INET6 ? sizeof(copy.in6) : sizeof(copy.in), &copy) == 0)
        needed = npu_addr_print(&copy, text, sizeof(text));
    if (*len)
        (void)snprintf(buf, *len, "%s", text);
    *len = needed;
    return buf;
}

static int no_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context)
{
    (void)av, (void)attr, (void)set, (void)context;
    return -FI_ENOSYS;
}

static int av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct npu_av *av = hc_container_of(fid, struct npu_av, fid.fid);
    if (flags)
        return -FI_EBADFLAGS;
    if (other->fclass != FI_CLASS_EQ || av->eq)
        return -FI_EINVAL;
    av->eq = hc_container_of(other, struct npu_eq, fid.fid);
    npu_get(&av->eq->refs);
    return 0;
}

static int av_close(struct fid *fid)
{
    struct npu_av *av = hc_container_of(fid, struct npu_av, fid.fid);
    if (npu_in_use(&av->refs))
        return -FI_EBUSY;
    if (av->eq)
        npu_put(&av->eq->refs);
    npu_put(&av->domain->refs);
    free(av->entries);
    free(av->buckets);
    free(av);
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof(av_fid_ops),
    .close = av_close,
    .bind = av_bind,
    .control = npu_no_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_av av_ops = {
    .size = sizeof(av_ops),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
    .av_set = no_av_set,
};

static int check_attr(const struct fi_av_attr *attr)
{
    if (attr->name || (attr->flags & FI_READ))
        return -FI_ENOSYS; /* address vectors are not shared between processes */
    if (attr->flags & ~(FI_EVENT | FI_SYMMETRIC))
        return -FI_EBADFLAGS;
    return attr->rx_ctx_bits || attr->type > FI_AV_TABLE ? -FI_EINVAL : 0;
}

int npu_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    int rc = attr ? check_attr(attr) : -FI_EINVAL;
    if (rc < 0)
        return rc;
    struct npu_av *made = calloc(1, sizeof(*made));
    uint32_t *buckets = malloc(BUCKETS * sizeof(*buckets));
    if (!made || !buckets) {
        free(made);
        free(buckets);
        return -FI_ENOMEM;
    }
    for (size_t i = 0; i < BUCKETS; i++)
        buckets[i] = NPU_AV_NONE;
    if (attr->type == FI_AV_UNSPEC)
        attr->type = FI_AV_TABLE;
    made->type = attr->type;
    made->flags = attr->flags;
    made->buckets = buckets;
    hc_list_init(&made->eps);
    made->domain = hc_container_of(domain, struct npu_domain, fid);
    npu_get(&made->domain->refs);
    made->fid.fid.fclass = FI_CLASS_AV;
    made->fid.fid.context = context;
    made->fid.fid.ops = &av_fid_ops;
    made->fid.ops = &av_ops;
    *av = &made->fid;
    return 0;
}
