/* Waiting: spin, yield, sleep. */
#ifndef HC_WAIT_H
#define HC_WAIT_H

#include "runtime/core/core.h"

struct hc_wait_params {
    bool (*done)(void *arg);
    void *arg;
    const uint64_t *activity; /* clock of the last progress; NULL: none */
    int timeout_ms;
    struct hc_peer *watch;   /* whose death must be noticed; NULL: nobody in particular */
    struct hc_peer *partner; /* whose answer ends the wait; NULL: nobody in particular */
};

hcomm_status_t hc_wait_for(struct hcomm_context *context, const struct hc_wait_params *params) HC_MUST_CHECK;

/* Give the processor away once; releases and retakes the lock. */
void hc_wait_yield(struct hcomm_context *context);

/* What an epoll entry of the context stands for. */
enum hc_wait_source { HC_WAIT_WAKE, HC_WAIT_BOOT, HC_WAIT_IFACE, HC_WAIT_PEER, HC_WAIT_STREAMS };

hcomm_status_t hc_wait_init(struct hcomm_context *context) HC_MUST_CHECK;
void hc_wait_fini(struct hcomm_context *context);
/* Watch a descriptor: iface number or world rank in `index`. */
hcomm_status_t hc_wait_add(struct hcomm_context *context, int fd, enum hc_wait_source source,
                           uint32_t index) HC_MUST_CHECK;
void hc_wait_remove(struct hcomm_context *context, int fd);

/*
 * Sleep until something happens or max_ms pass; releases and retakes the lock. Returns at once when a
 * transport has events waiting.
 */
void hc_wait_sleep(struct hcomm_context *context, int max_ms);
/* Look, without sleeping, whether a peer died or the launcher has something to say. */
void hc_wait_check_events(struct hcomm_context *context);

#endif
