#include "launcher/loop.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <unistd.h>

hcomm_status_t hc_loop_init(struct hc_loop *loop)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return hc_error(HCOMM_ERR_IO, "epoll_create1: %s", hc_errno_text(errno));
    *loop = (struct hc_loop){.epoll_fd = fd};
    hc_list_init(&loop->timers);
    return HCOMM_OK;
}

void hc_loop_fini(struct hc_loop *loop)
{
    (void)close(loop->epoll_fd);
}

hcomm_status_t hc_loop_watch(struct hc_loop *loop, struct hc_loop_source *source, uint32_t events)
{
    if (events == 0) {
        hc_loop_forget(loop, source);
        return HCOMM_OK;
    }
    if (source->added && source->events == events)
        return HCOMM_OK;
    struct epoll_event event = {.events = events, .data = {.ptr = source}};
    if (epoll_ctl(loop->epoll_fd, source->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, source->fd, &event) != 0) {
        if (errno == EPERM)
            return HCOMM_ERR_UNSUPPORTED;
        return hc_error(HCOMM_ERR_IO, "epoll_ctl on descriptor %d: %s", source->fd, hc_errno_text(errno));
    }
    source->added = true;
    source->events = events;
    return HCOMM_OK;
}

void hc_loop_forget(struct hc_loop *loop, struct hc_loop_source *source)
{
    if (source->added)
        (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->added = false;
    for (int i = 0; i < loop->batch_count; i++)
        if (loop->batch[i].data.ptr == source)
            loop->batch[i].data.ptr = NULL;
}

void hc_loop_timer_init(struct hc_loop_timer *timer, void (*expired)(struct hc_loop_timer *timer))
{
    hc_list_init(&timer->node);
    timer->expired = expired;
    timer->deadline = HC_NEVER;
}

void hc_loop_timer_start(struct hc_loop *loop, struct hc_loop_timer *timer, uint64_t deadline)
{
    hc_list_remove(&timer->node);
    timer->deadline = deadline;
    hc_list_append(&loop->timers, &timer->node);
}

void hc_loop_timer_stop(struct hc_loop_timer *timer)
{
    hc_list_remove(&timer->node);
    timer->deadline = HC_NEVER;
}

static struct hc_loop_timer *nearest_timer(const struct hc_loop *loop)
{
    struct hc_loop_timer *nearest = NULL;
    struct hc_list *node;
    hc_list_for_each(node, &loop->timers)
    {
        struct hc_loop_timer *timer = hc_list_entry(node, struct hc_loop_timer, node);
        if (!nearest || timer->deadline < nearest->deadline)
            nearest = timer;
    }
    return nearest;
}

static void run_timers(struct hc_loop *loop)
{
    uint64_t now = hc_clock_ns();
    struct hc_loop_timer *timer = nearest_timer(loop);
    while (timer && timer->deadline <= now) {
        hc_loop_timer_stop(timer);
        timer->expired(timer);
        timer = nearest_timer(loop);
    }
}

hcomm_status_t hc_loop_turn(struct hc_loop *loop, int max_ms)
{
    struct hc_loop_timer *timer = nearest_timer(loop);
    int wait_ms = timer ? hc_deadline_poll_ms(timer->deadline, max_ms < 0 ? INT32_MAX : max_ms) : max_ms;
    int count = epoll_wait(loop->epoll_fd, loop->batch, HC_LOOP_BATCH, wait_ms);
    if (count < 0 && errno != EINTR)
        return hc_error(HCOMM_ERR_IO, "epoll_wait: %s", hc_errno_text(errno));
    loop->batch_count = count > 0 ? count : 0;
    for (int i = 0; i < loop->batch_count; i++) {
        struct hc_loop_source *source = loop->batch[i].data.ptr;
        if (source)
            source->ready(source, loop->batch[i].events);
    }
    loop->batch_count = 0;
    run_timers(loop);
    return HCOMM_OK;
}

hcomm_status_t hc_loop_run(struct hc_loop *loop)
{
    loop->stopped = false;
    while (!loop->stopped) {
        hcomm_status_t status = hc_loop_turn(loop, -1);
        if (status != HCOMM_OK)
            return status;
    }
    return HCOMM_OK;
}

void hc_loop_stop(struct hc_loop *loop)
{
    loop->stopped = true;
}
