/*
 * Waiting. A hub's epoll set holds the epoll sets of its endpoints, which hold their sockets: peers that know
 * of a sleeper (npu_ep_arm) write to a socket. What happens inside this process signals the eventfd.
 */
#include "transports/npu/ep.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct npu_waitset {
    struct fid_wait fid;
    struct npu_fabric *fabric;
    atomic_int refs;
    struct npu_lock lock;
    struct hc_list members; /* of struct npu_member */
    struct npu_wait wait;
};

struct npu_member {
    struct hc_list node;
    struct npu_wait *wait;
};

static bool has_descriptor(enum fi_wait_obj obj)
{
    return obj == FI_WAIT_FD || obj == FI_WAIT_UNSPEC || obj == FI_WAIT_SET;
}

static int watch_fd(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int set_join(struct npu_waitset *set, struct npu_wait *wait)
{
    struct npu_member *member = calloc(1, sizeof(*member));
    if (!member)
        return -FI_ENOMEM;
    int rc = watch_fd(set->wait.epoll, wait->epoll);
    if (rc < 0) {
        free(member);
        return rc;
    }
    member->wait = wait;
    npu_lock(&set->lock);
    hc_list_append(&set->members, &member->node);
    npu_unlock(&set->lock);
    npu_get(&set->refs);
    wait->set = set;
    return 0;
}

static void set_leave(struct npu_waitset *set, struct npu_wait *wait)
{
    struct hc_list *node, *next;
    npu_lock(&set->lock);
    hc_list_for_each_safe(node, next, &set->members)
    {
        struct npu_member *member = hc_list_entry(node, struct npu_member, node);
        if (member->wait != wait)
            continue;
        hc_list_remove(node);
        free(member);
    }
    npu_unlock(&set->lock);
    npu_put(&set->refs);
}

int npu_wait_init(struct npu_wait *wait, enum fi_wait_obj obj, struct fid_wait *set, struct fid *owner)
{
    *wait = (struct npu_wait){.obj = obj, .epoll = -1, .event = -1, .owner = owner};
    if (obj == FI_WAIT_MUTEX_COND || obj == FI_WAIT_POLLFD)
        return -FI_ENOSYS;
    if (obj > FI_WAIT_POLLFD || (obj == FI_WAIT_SET && !set))
        return -FI_EINVAL;
    if (!has_descriptor(obj))
        return 0;
    wait->epoll = epoll_create1(EPOLL_CLOEXEC);
    wait->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = wait->epoll < 0 || wait->event < 0 ? -errno : watch_fd(wait->epoll, wait->event);
    if (rc == 0 && obj == FI_WAIT_SET)
        rc = set_join(hc_container_of(set, struct npu_waitset, fid), wait);
    if (rc < 0)
        npu_wait_fini(wait);
    return rc;
}

void npu_wait_fini(struct npu_wait *wait)
{
    if (wait->set)
        set_leave(wait->set, wait);
    if (wait->epoll >= 0)
        (void)close(wait->epoll);
    if (wait->event >= 0)
        (void)close(wait->event);
    wait->epoll = wait->event = -1;
    wait->set = NULL;
}

void npu_wait_signal(struct npu_wait *wait)
{
    uint64_t one = 1;
    /* Full already (EAGAIN) is signalled as well. */
    if (wait->event >= 0 && write(wait->event, &one, sizeof(one)) < 0 && errno != EAGAIN)
        npu_warn(CQ, "signalling a sleeper: %s\n", strerror(errno));
}

void npu_wait_drain(struct npu_wait *wait)
{
    uint64_t count;
    if (wait->event >= 0 && read(wait->event, &count, sizeof(count)) < 0 && errno != EAGAIN)
        npu_warn(CQ, "reading an eventfd: %s\n", strerror(errno));
}

int npu_wait_sleep(struct npu_wait *wait, int timeout)
{
    struct pollfd fd = {.fd = wait->epoll, .events = POLLIN};
    int got = poll(&fd, 1, timeout);
    if (got > 0)
        return 0;
    return got == 0 || errno == EINTR ? -FI_EAGAIN : -errno;
}

int npu_wait_control(struct npu_wait *wait, int command, void *arg)
{
    switch (command) {
    case FI_GETWAIT:
        if (wait->obj != FI_WAIT_FD)
            return -FI_ENODATA;
        memcpy(arg, &wait->epoll, sizeof(wait->epoll));
        return 0;
    case FI_GETWAITOBJ:
        memcpy(arg, &wait->obj, sizeof(wait->obj));
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

/* ---- Hubs ---- */

int npu_hub_add(struct npu_hub *hub, struct npu_ep *ep)
{
    int rc = 0;
    npu_lock(&hub->lock);
    for (unsigned i = 0; i < hub->count; i++)
        if (hub->eps[i] == ep)
            goto out;
    if (hub->count == hub->room) {
        unsigned room = hub->room ? 2 * hub->room : 4;
        struct npu_ep **grown = realloc(hub->eps, room * sizeof(struct npu_ep *));
        if (!grown) {
            rc = -FI_ENOMEM;
            goto out;
        }
        hub->eps = grown;
        hub->room = room;
    }
    if (hub->wait.epoll >= 0)
        rc = watch_fd(hub->wait.epoll, ep->epoll);
    if (rc == 0)
        hub->eps[hub->count++] = ep;
out:
    npu_unlock(&hub->lock);
    return rc;
}

void npu_hub_remove(struct npu_hub *hub, struct npu_ep *ep)
{
    npu_lock(&hub->lock);
    for (unsigned i = 0; i < hub->count; i++) {
        if (hub->eps[i] != ep)
            continue;
        hub->eps[i] = hub->eps[--hub->count];
        if (hub->wait.epoll >= 0)
            (void)epoll_ctl(hub->wait.epoll, EPOLL_CTL_DEL, ep->epoll, NULL);
        break;
    }
    npu_unlock(&hub->lock);
}

/* Whoever polls in vain for long lets others have the processor: the peer may be waiting for it. */
static HC_COLD void let_others_run(unsigned idle)
{
    enum { EVERY = 16 };
    if (idle % EVERY == 0)
        (void)sched_yield();
}

void npu_hub_progress(struct npu_hub *hub)
{
    enum { PATIENCE = 400 };
    bool moved = false;
    npu_lock(&hub->lock);
    for (unsigned i = 0; i < hub->count; i++) {
        struct npu_ep *ep = hub->eps[i];
        if (!npu_try_lock(&ep->lock))
            continue; /* whoever holds it moves it forward */
        moved |= npu_ep_progress(ep);
        npu_unlock(&ep->lock);
    }
    unsigned idle = moved ? 0 : hub->idle + 1;
    hub->idle = idle;
    npu_unlock(&hub->lock);
    if (hc_unlikely(idle > PATIENCE))
        let_others_run(idle);
}

static void disarm_some(struct npu_hub *hub, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        npu_lock(&hub->eps[i]->lock);
        npu_ep_disarm(hub->eps[i]);
        npu_unlock(&hub->eps[i]->lock);
    }
}

/* The hub's lock is held. */
static bool arm(struct npu_hub *hub)
{
    bool quiet = true;
    /* seq_cst: partner is the load in cq.c and cntr.c after something was added */
    if (atomic_exchange(&hub->wait.armed, true))
        return true;
    npu_wait_drain(&hub->wait);
    unsigned done = 0;
    for (; done < hub->count && quiet; done++) {
        npu_lock(&hub->eps[done]->lock);
        quiet = npu_ep_arm(hub->eps[done]);
        npu_unlock(&hub->eps[done]->lock);
    }
    if (!quiet) {
        disarm_some(hub, done - 1);
        atomic_store(&hub->wait.armed, false);
    }
    return quiet;
}

/* The hub's lock is held. While another thread sleeps, peers must go on waking it. */
static void disarm(struct npu_hub *hub)
{
    if (hub->sleepers == 0 && atomic_exchange(&hub->wait.armed, false))
        disarm_some(hub, hub->count);
}

bool npu_hub_arm(struct npu_hub *hub)
{
    npu_lock(&hub->lock);
    bool quiet = arm(hub);
    hub->sleepers += quiet;
    npu_unlock(&hub->lock);
    return quiet;
}

void npu_hub_disarm(struct npu_hub *hub)
{
    npu_lock(&hub->lock);
    hub->sleepers--;
    disarm(hub);
    npu_unlock(&hub->lock);
}

void npu_hub_awake(struct npu_hub *hub)
{
    npu_lock(&hub->lock);
    disarm(hub);
    npu_unlock(&hub->lock);
}

/* ---- fi_trywait, wait sets ---- */

/* Whether it is safe to sleep on a queue's or counter's descriptor. */
static int try_hub(struct npu_hub *hub, struct npu_cq *cq)
{
    if (hub->wait.epoll < 0)
        return -FI_EINVAL;
    npu_hub_awake(hub);
    npu_hub_progress(hub);
    if (cq && npu_cq_count(cq))
        return -FI_EAGAIN;
    npu_lock(&hub->lock);
    bool quiet = arm(hub);
    npu_unlock(&hub->lock);
    if (!quiet)
        return -FI_EAGAIN;
    if (cq && npu_cq_count(cq)) {
        npu_hub_awake(hub);
        return -FI_EAGAIN;
    }
    return 0;
}

static int try_eq(struct npu_eq *eq)
{
    npu_lock(&eq->lock);
    int rc = hc_list_empty(&eq->events) ? 0 : -FI_EAGAIN;
    npu_unlock(&eq->lock);
    return rc;
}

static int try_set(struct npu_waitset *set);

static int try_one(struct fid *fid)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ: {
        struct npu_cq *cq = hc_container_of(fid, struct npu_cq, fid.fid);
        return try_hub(&cq->hub, cq);
    }
    case FI_CLASS_CNTR:
        return try_hub(&hc_container_of(fid, struct npu_cntr, fid.fid)->hub, NULL);
    case FI_CLASS_EQ:
        return try_eq(hc_container_of(fid, struct npu_eq, fid.fid));
    case FI_CLASS_WAIT:
        return try_set(hc_container_of(fid, struct npu_waitset, fid.fid));
    default:
        return -FI_EINVAL;
    }
}

int npu_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    int rc = 0;
    (void)fabric;
    for (int i = 0; i < count && rc == 0; i++)
        rc = try_one(fids[i]);
    return rc;
}

static int try_set(struct npu_waitset *set)
{
    int rc = 0;
    struct hc_list *node;
    npu_lock(&set->lock);
    hc_list_for_each(node, &set->members)
    {
        rc = try_one(hc_list_entry(node, struct npu_member, node)->wait->owner);
        if (rc < 0)
            break;
    }
    npu_unlock(&set->lock);
    return rc;
}

static int waitset_wait(struct fid_wait *fid, int timeout)
{
    struct npu_waitset *set = hc_container_of(fid, struct npu_waitset, fid);
    int rc = try_set(set);
    if (rc == -FI_EAGAIN)
        return 0; /* something is there */
    if (rc < 0)
        return rc;
    rc = npu_wait_sleep(&set->wait, timeout);
    return rc == -FI_EAGAIN ? -FI_ETIMEDOUT : rc;
}

static int waitset_control(struct fid *fid, int command, void *arg)
{
    return npu_wait_control(&hc_container_of(fid, struct npu_waitset, fid.fid)->wait, command, arg);
}

static int waitset_close(struct fid *fid)
{
    struct npu_waitset *set = hc_container_of(fid, struct npu_waitset, fid.fid);
    if (npu_in_use(&set->refs))
        return -FI_EBUSY;
    npu_wait_fini(&set->wait);
    npu_put(&set->fabric->refs);
    free(set);
    return 0;
}

static struct fi_ops waitset_fid_ops = {
    .size = sizeof(waitset_fid_ops),
    .close = waitset_close,
    .bind = npu_no_bind,
    .control = waitset_control,
    .ops_open = npu_no_ops_open,
};

static struct fi_ops_wait waitset_ops = {.size = sizeof(waitset_ops), .wait = waitset_wait};

int npu_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset)
{
    if (!attr || attr->flags)
        return -FI_EINVAL;
    if (attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_FD)
        return -FI_ENOSYS;
    struct npu_waitset *set = calloc(1, sizeof(*set));
    if (!set)
        return -FI_ENOMEM;
    int rc = npu_wait_init(&set->wait, attr->wait_obj, NULL, NULL);
    if (rc < 0) {
        free(set);
        return rc;
    }
    hc_list_init(&set->members);
    set->fabric = hc_container_of(fabric, struct npu_fabric, fid);
    npu_get(&set->fabric->refs);
    set->fid.fid.fclass = FI_CLASS_WAIT;
    set->fid.fid.ops = &waitset_fid_ops;
    set->fid.ops = &waitset_ops;
    *waitset = &set->fid;
    return 0;
}
