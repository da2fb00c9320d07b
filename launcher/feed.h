/*
 * Standard input of the ranks. hcommrun owns descriptor 0 alone: one buffer is filled from it and emptied
 * into the pipes of the receiving ranks (one of them, or all); it is filled again when every receiver has
 * taken it all. End of file is passed on. Terminals are read only while hcommrun is in the foreground.
 */
#ifndef HC_LAUNCHER_FEED_H
#define HC_LAUNCHER_FEED_H

#include "launcher/loop.h"

#include <stddef.h>
#include <sys/types.h>

enum { HC_FEED_BUFFER = 65536 };

struct hc_feed;

struct hc_feed_target {
    struct hc_loop_source source; /* fd -1: no pipe, or closed */
    struct hc_feed *feed;
    size_t taken; /* bytes of the buffer already written to it */
};

struct hc_feed {
    struct hc_loop_source source; /* descriptor 0 */
    struct hc_loop *loop;
    struct hc_loop_timer background; /* look again whether we are in the foreground */
    bool started, always_ready, ended;
    struct hc_feed_target *targets; /* one per rank */
    uint32_t num_targets;
    size_t size; /* bytes in buffer */
    char buffer[HC_FEED_BUFFER];
};

/* The error for a pipe of a rank that could not be made. */
hcomm_status_t hc_feed_no_pipe(uint32_t rank, int error);

hcomm_status_t hc_feed_init(struct hc_feed *feed, struct hc_loop *loop, uint32_t num_ranks) HC_MUST_CHECK;
void hc_feed_fini(struct hc_feed *feed);

/* A pipe to the rank: *child_fd is the reading end, the caller's to close. */
hcomm_status_t hc_feed_open(struct hc_feed *feed, uint32_t rank, int *child_fd) HC_MUST_CHECK;

/* Start reading descriptor 0. */
hcomm_status_t hc_feed_start(struct hc_feed *feed) HC_MUST_CHECK;

/* The rank ended: nothing goes to it any more. */
void hc_feed_close(struct hc_feed *feed, uint32_t rank);

/* Write bytes that came by another way (PMIx) to a rank, as far as its pipe takes them; the count in *taken.
 */
hcomm_status_t hc_feed_push(struct hc_feed *feed, uint32_t rank, const char *data, size_t size,
                            size_t *taken) HC_MUST_CHECK;

#endif
