#include "transports/npu/ep.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

enum {
    EVENTS = 16,
    SERVICE_EVERY = 4096, /* idle calls; a system call among so many costs nothing */
};

void npu_ep_service(struct npu_ep *ep)
{
    struct epoll_event events[EVENTS];
    int got;
    ep->attention = false;
    ep->idle = 0;
    do {
        got = epoll_wait(ep->epoll, events, EVENTS, 0);
        for (int i = 0; i < got; i++) {
            struct npu_watch *watch = events[i].data.ptr;
            watch->ready(ep, watch, events[i].events);
        }
    } while (got == EVENTS);
    if (got < 0 && errno != EINTR)
        npu_warn(EP_CTRL, "epoll_wait: %s\n", strerror(errno));
    npu_local_reap(ep);
}

static void run_workers(struct npu_ep *ep)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &ep->workers)
    {
        struct npu_worker *worker = hc_list_entry(node, struct npu_worker, node);
        worker->run(worker);
    }
}

/* Peers that woke this process have lowered their flags: raise them for those who still sleep. */
static void stay_armed(struct npu_ep *ep)
{
    npu_ep_service(ep);
    npu_local_sleep(ep, true);
    if (ep->net && !npu_net_sleep(ep))
        ep->attention = true;
}

bool npu_ep_progress(struct npu_ep *ep)
{
    if (hc_unlikely(!ep->enabled))
        return false;
    if (hc_unlikely(ep->armed))
        stay_armed(ep);
    bool moved = npu_local_progress(ep);
    if (hc_likely(!moved))
        ep->idle++;
    if (hc_unlikely(ep->net && !npu_net_idle(ep)))
        moved |= npu_net_progress(ep);
    if (hc_unlikely(!hc_list_empty(&ep->workers)))
        run_workers(ep);
    if (hc_unlikely(ep->idle >= SERVICE_EVERY || ep->attention))
        npu_ep_service(ep);
    return moved;
}

bool npu_ep_arm(struct npu_ep *ep)
{
    if (!ep->enabled)
        return true;
    npu_ep_service(ep);
    npu_local_sleep(ep, true);
    bool awake = ep->net && !npu_net_sleep(ep);
    if (awake || npu_local_pending(ep) || ep->attention || !hc_list_empty(&ep->workers)) {
        if (ep->armed == 0)
            npu_local_sleep(ep, false);
        return false;
    }
    ep->armed++;
    return true;
}

void npu_ep_disarm(struct npu_ep *ep)
{
    if (ep->enabled && ep->armed && --ep->armed == 0)
        npu_local_sleep(ep, false);
}
