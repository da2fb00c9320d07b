/*
 * Output of the ranks: a pipe per rank and stream, gathered into hcommrun's own standard output and error, or
 * into files per rank. A line is the unit: lines of different ranks never mix. With tags every line starts
 * with "[rank@host] ". An unfinished line waits for its end (tagged), or a quarter of a second for more
 * (untagged: prompts), and is written when the stream ends, or in parts when it is longer than 64 KiB
 * (tagged; each part is tagged) or 1 MiB. Bytes are never changed or lost; the only byte ever added besides
 * tags is a newline between an unfinished line and the next tag.
 */
#ifndef HC_LAUNCHER_IOF_H
#define HC_LAUNCHER_IOF_H

#include "launcher/feed.h"
#include "launcher/loop.h"
#include "launcher/options.h"
#include "launcher/sink.h"

enum hc_iof_channel { HC_IOF_STDOUT, HC_IOF_STDERR, HC_IOF_CHANNELS };

struct hc_iof;

struct hc_output {
    struct hc_sink sink; /* first: a sink's callbacks get back to the output */
    struct hc_iof *iof;
};

/* One stream of one rank. */
struct hc_stream {
    struct hc_loop_source source; /* reading end of the pipe; -1 when ended */
    struct hc_iof *iof;
    uint32_t rank;
    enum hc_iof_channel channel;
    struct hc_output *output; /* shared, or `file` */
    struct hc_output file;    /* of its own, with --output-dir */
    char *file_name;
    char *line; /* bytes read and not yet passed on: an unfinished line */
    size_t used, capacity;
    uint64_t flush_at; /* untagged: when the unfinished line is passed on unless more of it comes */
};

struct hc_iof {
    struct hc_loop *loop; /* NULL: not initialised */
    const char *hostname;
    bool tagged;
    const char *output_dir;
    uint32_t num_ranks;
    struct hc_stream *streams; /* [rank * HC_IOF_CHANNELS + channel] */
    size_t open_streams;
    struct hc_output outputs[HC_IOF_CHANNELS];
    struct hc_loop_timer flush; /* of unfinished untagged lines */
    struct hc_feed feed;
    /* The output cannot be written any more: called once, with the errno. */
    void (*broken)(struct hc_iof *iof, const char *name, int error);
    bool broken_reported;
};

/* Descriptors 0, 1 and 2 of a rank, the child's ends. */
struct hc_iof_child {
    int fds[3];
};

/* Opens hcommrun's sinks and makes the output directory. The callbacks are set by the caller afterwards. */
hcomm_status_t hc_iof_init(struct hc_iof *iof, struct hc_loop *loop, const struct hc_options *options,
                           const char *hostname) HC_MUST_CHECK;
void hc_iof_fini(struct hc_iof *iof); /* harmless on zeroed storage and when called twice */

/* Make the pipes of a rank (before it is started), and close the child's ends (after). */
hcomm_status_t hc_iof_open_rank(struct hc_iof *iof, const struct hc_options *options, uint32_t rank,
                                struct hc_iof_child *child) HC_MUST_CHECK;
void hc_iof_close_child(struct hc_iof_child *child);

/* The rank was reaped: take what its pipes still hold; they close when the last writer is gone. */
void hc_iof_rank_ended(struct hc_iof *iof, uint32_t rank);

/* Write a text in the name of a rank (PMIx_Log), whole lines. */
void hc_iof_write(struct hc_iof *iof, uint32_t rank, enum hc_iof_channel channel, const char *data,
                  size_t size);

/* Whether all streams have ended and everything is written. */
bool hc_iof_done(const struct hc_iof *iof);

#endif
