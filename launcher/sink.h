/*
 * Where output goes: hcommrun's own stdout or stderr, or a file. Writes never block the loop: what a slow
 * reader does not take yet is queued, and whoever produces stops producing while hc_sink_full(). The
 * descriptor that hcommrun inherited is shared with other programs and keeps its flags: pipes and terminals
 * are opened anew without blocking, sockets are written with MSG_DONTWAIT, files just written.
 */
#ifndef HC_LAUNCHER_SINK_H
#define HC_LAUNCHER_SINK_H

#include "launcher/loop.h"

#include <stddef.h>

struct hc_sink {
    struct hc_loop_source source; /* source.fd is the descriptor written to */
    struct hc_loop *loop;
    const char *name; /* for messages: "standard output" or the file */
    bool is_socket;
    bool mid_line; /* the last byte accepted was not a newline */
    int error;     /* errno that ended it, 0 while usable; everything is dropped from then on */
    char *queue;
    size_t head, tail, capacity;           /* queued bytes are queue[head..tail) */
    void (*drained)(struct hc_sink *sink); /* the queue became empty; may be NULL */
    void (*broken)(struct hc_sink *sink);  /* once, when error is set; may be NULL */
};

/* Write to the inherited descriptor fd. Callbacks are set by the caller afterwards. */
hcomm_status_t hc_sink_open_inherited(struct hc_sink *sink, struct hc_loop *loop, int fd,
                                      const char *name) HC_MUST_CHECK;
/* Write to a new file. The name must outlive the sink. */
hcomm_status_t hc_sink_open_file(struct hc_sink *sink, struct hc_loop *loop, const char *path) HC_MUST_CHECK;
void hc_sink_close(struct hc_sink *sink);

/* Write or queue all of it. */
void hc_sink_write(struct hc_sink *sink, const char *data, size_t size);

bool hc_sink_full(const struct hc_sink *sink);
static inline bool hc_sink_empty(const struct hc_sink *sink)
{
    return sink->head == sink->tail;
}

#endif
