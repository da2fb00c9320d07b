/*
 * The launcher's event loop: descriptors (epoll, level-triggered) and timers. One thread. Sources and timers
 * are embedded in the caller's structures; the loop owns none of them. Handlers may add and remove any source
 * or timer, themselves included.
 */
#ifndef HC_LAUNCHER_LOOP_H
#define HC_LAUNCHER_LOOP_H

#include "runtime/base/list.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

enum { HC_LOOP_BATCH = 64 };

struct hc_loop_source {
    int fd;
    uint32_t events; /* EPOLLIN, EPOLLOUT, or 0 while paused; set by hc_loop_watch */
    bool added;      /* known to epoll */
    void (*ready)(struct hc_loop_source *source, uint32_t events);
};

struct hc_loop_timer {
    struct hc_list node;
    uint64_t deadline; /* hc_clock_ns() */
    void (*expired)(struct hc_loop_timer *timer);
};

struct hc_loop {
    int epoll_fd;
    bool stopped;
    struct hc_list timers; /* unordered: there are few */
    struct epoll_event batch[HC_LOOP_BATCH];
    int batch_count;
};

hcomm_status_t hc_loop_init(struct hc_loop *loop) HC_MUST_CHECK;
void hc_loop_fini(struct hc_loop *loop);

/*
 * Watch source->fd for `events`; 0 pauses: nothing is reported, not even a hang-up. HCOMM_ERR_UNSUPPORTED for
 * descriptors that epoll cannot watch: regular files, which are always ready.
 */
hcomm_status_t hc_loop_watch(struct hc_loop *loop, struct hc_loop_source *source,
                             uint32_t events) HC_MUST_CHECK;
/* Forget the source: its handler is not called any more, also not in the current round. Close the fd after.
 */
void hc_loop_forget(struct hc_loop *loop, struct hc_loop_source *source);

/* Arm (or re-arm) a timer; timer->node must be initialised by hc_loop_timer_init. */
void hc_loop_timer_init(struct hc_loop_timer *timer, void (*expired)(struct hc_loop_timer *timer));
void hc_loop_timer_start(struct hc_loop *loop, struct hc_loop_timer *timer, uint64_t deadline);
void hc_loop_timer_stop(struct hc_loop_timer *timer);

/* Run handlers until hc_loop_stop(). */
hcomm_status_t hc_loop_run(struct hc_loop *loop) HC_MUST_CHECK;
/* One round: wait for events until the nearest timer or at most max_ms, and run their handlers. */
hcomm_status_t hc_loop_turn(struct hc_loop *loop, int max_ms) HC_MUST_CHECK;
void hc_loop_stop(struct hc_loop *loop);

#endif
