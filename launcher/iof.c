#include "launcher/iof.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    READ_SIZE = 65536,
    FLUSH_MS = 250,
    TAG_MAX = 320,
    TAGGED_LINE_MAX = 64 * 1024,     /* the tag tells whose a part is */
    UNTAGGED_LINE_MAX = 1024 * 1024, /* nothing does */
};

static const char *const channel_names[] = {
    [HC_IOF_STDOUT] = "standard output",
    [HC_IOF_STDERR] = "standard error",
};
static const char *const file_suffixes[] = {[HC_IOF_STDOUT] = "out", [HC_IOF_STDERR] = "err"};

static void on_readable(struct hc_loop_source *source, uint32_t events);

static void report_broken(struct hc_iof *iof, const char *name, int error)
{
    if (iof->broken_reported || !iof->broken)
        return;
    iof->broken_reported = true;
    iof->broken(iof, name, error);
}

static void on_output_broken(struct hc_sink *sink)
{
    report_broken(hc_container_of(sink, struct hc_output, sink)->iof, sink->name, sink->error);
}

/* Read the stream again, or stop reading it while its output is congested. */
static void regulate(struct hc_stream *stream)
{
    if (stream->source.fd < 0)
        return;
    uint32_t events = hc_sink_full(&stream->output->sink) ? 0 : EPOLLIN;
    if (hc_loop_watch(stream->iof->loop, &stream->source, events) != HCOMM_OK)
        report_broken(stream->iof, channel_names[stream->channel], EIO);
}

static void on_output_drained(struct hc_sink *sink)
{
    struct hc_output *output = hc_container_of(sink, struct hc_output, sink);
    for (size_t i = 0; i < (size_t)output->iof->num_ranks * HC_IOF_CHANNELS; i++)
        if (output->iof->streams[i].output == output)
            regulate(&output->iof->streams[i]);
}

static void output_attach(struct hc_output *output, struct hc_iof *iof)
{
    output->iof = iof;
    output->sink.broken = on_output_broken;
    output->sink.drained = on_output_drained;
}

/* Write one whole line, a part of one that is too long, or the unfinished rest of a stream, with its tag. */
static void write_tagged(struct hc_stream *stream, const char *line, size_t size)
{
    char tag[TAG_MAX];
    struct hc_sink *sink = &stream->output->sink;
    int length = snprintf(tag, sizeof(tag), "%s[%u@%s] ", sink->mid_line ? "\n" : "", stream->rank,
                          stream->iof->hostname);
    hc_sink_write(sink, tag, (size_t)length);
    hc_sink_write(sink, line, size);
}

static void write_lines(struct hc_stream *stream, const char *text, size_t size)
{
    if (!stream->iof->tagged || stream->output == &stream->file) {
        hc_sink_write(&stream->output->sink, text, size);
        return;
    }
    while (size > 0) {
        const char *newline = memchr(text, '\n', size);
        size_t length = newline ? (size_t)(newline - text) + 1 : size;
        write_tagged(stream, text, length);
        text += length;
        size -= length;
    }
}

/* Pass on the first `size` bytes of what is held. */
static void pass_on(struct hc_stream *stream, size_t size)
{
    if (size == 0)
        return;
    write_lines(stream, stream->line, size);
    stream->used -= size;
    (void)memmove(stream->line, stream->line + size, stream->used);
}

/* An unfinished untagged line that got no more bytes for a while is a prompt: pass it on, and look after the
 * rest. */
static void on_flush(struct hc_loop_timer *timer)
{
    struct hc_iof *iof = hc_container_of(timer, struct hc_iof, flush);
    uint64_t next = HC_NEVER;
    uint64_t now = hc_clock_ns();
    for (size_t i = 0; i < (size_t)iof->num_ranks * HC_IOF_CHANNELS; i++) {
        struct hc_stream *stream = &iof->streams[i];
        if (stream->used > 0 && stream->flush_at <= now)
            pass_on(stream, stream->used);
        else if (stream->used > 0 && stream->flush_at < next)
            next = stream->flush_at;
    }
    if (next != HC_NEVER)
        hc_loop_timer_start(iof->loop, &iof->flush, next);
}

/* A line that does not end must not fill the memory. */
static bool is_too_long(const struct hc_stream *stream)
{
    return stream->used >= (stream->iof->tagged ? TAGGED_LINE_MAX : UNTAGGED_LINE_MAX);
}

/* New bytes are in the buffer from `old` on: pass on what is complete. */
static void digest(struct hc_stream *stream, size_t old)
{
    struct hc_iof *iof = stream->iof;
    const char *fresh = stream->line + old;
    const char *newline = memrchr(fresh, '\n', stream->used - old);
    if (newline)
        pass_on(stream, (size_t)(newline - stream->line) + 1);
    if (is_too_long(stream))
        pass_on(stream, stream->used);
    if (stream->used == 0 || iof->tagged)
        return;
    stream->flush_at = hc_deadline_ms(FLUSH_MS);
    if (iof->flush.deadline == HC_NEVER)
        hc_loop_timer_start(iof->loop, &iof->flush, stream->flush_at);
}

static void end_stream(struct hc_stream *stream)
{
    if (stream->source.fd < 0)
        return;
    hc_loop_forget(stream->iof->loop, &stream->source);
    (void)close(stream->source.fd);
    stream->source.fd = -1;
    stream->iof->open_streams--;
    if (stream->used > 0)
        pass_on(stream, stream->used);
    free(stream->line);
    stream->line = NULL;
    stream->capacity = 0;
}

static bool make_room(struct hc_stream *stream)
{
    if (stream->capacity - stream->used >= READ_SIZE)
        return true;
    size_t capacity = 2 * stream->capacity + READ_SIZE;
    char *grown = realloc(stream->line, capacity);
    if (!grown)
        return false;
    stream->line = grown;
    stream->capacity = capacity;
    return true;
}

/* One read; false when there is nothing to read now. */
static bool read_once(struct hc_stream *stream)
{
    if (!make_room(stream)) {
        report_broken(stream->iof, channel_names[stream->channel], ENOMEM);
        end_stream(stream);
        return false;
    }
    ssize_t n = read(stream->source.fd, stream->line + stream->used, READ_SIZE);
    if (n > 0) {
        size_t old = stream->used;
        stream->used += (size_t)n;
        digest(stream, old);
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        end_stream(stream);
    return false;
}

static void on_readable(struct hc_loop_source *source, uint32_t events)
{
    (void)events;
    struct hc_stream *stream = hc_container_of(source, struct hc_stream, source);
    (void)read_once(stream);
    regulate(stream);
}

static hcomm_status_t make_output_dir(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_IO, "--output-dir: cannot make %s: %s", path, hc_errno_text(errno));
}

static hcomm_status_t open_outputs(struct hc_iof *iof)
{
    for (int i = 0; i < HC_IOF_CHANNELS; i++) {
        hcomm_status_t status =
            hc_sink_open_inherited(&iof->outputs[i].sink, iof->loop, STDOUT_FILENO + i, channel_names[i]);
        if (status != HCOMM_OK)
            return status;
        output_attach(&iof->outputs[i], iof);
    }
    return HCOMM_OK;
}

static hcomm_status_t init_streams(struct hc_iof *iof)
{
    size_t count = (size_t)iof->num_ranks * HC_IOF_CHANNELS;
    iof->streams = calloc(count, sizeof(*iof->streams));
    if (!iof->streams)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the output of %u ranks", iof->num_ranks);
    for (size_t i = 0; i < count; i++)
        iof->streams[i] = (struct hc_stream){
            .source = {.fd = -1, .ready = on_readable},
            .iof = iof,
            .rank = (uint32_t)(i / HC_IOF_CHANNELS),
            .channel = (enum hc_iof_channel)(i % HC_IOF_CHANNELS),
            .output = &iof->outputs[i % HC_IOF_CHANNELS],
            .file = {.sink = {.source = {.fd = -1}}},
        };
    return HCOMM_OK;
}

hcomm_status_t hc_iof_init(struct hc_iof *iof, struct hc_loop *loop, const struct hc_options *options,
                           const char *hostname)
{
    *iof = (struct hc_iof){
        .loop = loop,
        .hostname = hostname,
        .tagged = options->settings.tag_output != 0,
        .output_dir = options->settings.output_dir,
        .num_ranks = options->num_ranks,
        .outputs = {{.sink = {.source = {.fd = -1}}}, {.sink = {.source = {.fd = -1}}}},
    };
    hc_loop_timer_init(&iof->flush, on_flush);
    hcomm_status_t status = hc_feed_init(&iof->feed, loop, iof->num_ranks);
    if (status != HCOMM_OK) {
        iof->loop = NULL;
        return status;
    }
    if (iof->output_dir)
        status = make_output_dir(iof->output_dir);
    if (status == HCOMM_OK)
        status = init_streams(iof);
    if (status == HCOMM_OK)
        status = open_outputs(iof);
    if (status != HCOMM_OK)
        hc_iof_fini(iof);
    return status;
}

void hc_iof_fini(struct hc_iof *iof)
{
    if (!iof->loop)
        return;
    hc_loop_timer_stop(&iof->flush);
    for (size_t i = 0; iof->streams && i < (size_t)iof->num_ranks * HC_IOF_CHANNELS; i++) {
        end_stream(&iof->streams[i]);
        hc_sink_close(&iof->streams[i].file.sink);
        free(iof->streams[i].file_name);
    }
    free(iof->streams);
    iof->streams = NULL;
    hc_feed_fini(&iof->feed);
    for (int i = 0; i < HC_IOF_CHANNELS; i++)
        hc_sink_close(&iof->outputs[i].sink);
    iof->loop = NULL;
}

static hcomm_status_t open_file(struct hc_stream *stream)
{
    if (asprintf(&stream->file_name, "%s/rank.%u.%s", stream->iof->output_dir, stream->rank,
                 file_suffixes[stream->channel]) < 0) {
        stream->file_name = NULL;
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the name of an output file");
    }
    hcomm_status_t status = hc_sink_open_file(&stream->file.sink, stream->iof->loop, stream->file_name);
    if (status != HCOMM_OK)
        return status;
    output_attach(&stream->file, stream->iof);
    stream->output = &stream->file;
    return HCOMM_OK;
}

static hcomm_status_t open_stream(struct hc_stream *stream, int *child_fd)
{
    int ends[2];
    hcomm_status_t status = stream->iof->output_dir ? open_file(stream) : HCOMM_OK;
    if (status != HCOMM_OK)
        return status;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return hc_feed_no_pipe(stream->rank, errno);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    stream->source.fd = ends[0];
    stream->iof->open_streams++;
    *child_fd = ends[1];
    return hc_loop_watch(stream->iof->loop, &stream->source, EPOLLIN);
}

static hcomm_status_t open_input(struct hc_iof *iof, const struct hc_options *options, uint32_t rank,
                                 int *child_fd)
{
    if (options->stdin_rank == HC_STDIN_ALL || options->stdin_rank == (int)rank)
        return hc_feed_open(&iof->feed, rank, child_fd);
    *child_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *child_fd >= 0 ? HCOMM_OK
                          : hc_error(HCOMM_ERR_IO, "cannot open /dev/null: %s", hc_errno_text(errno));
}

hcomm_status_t hc_iof_open_rank(struct hc_iof *iof, const struct hc_options *options, uint32_t rank,
                                struct hc_iof_child *child)
{
    struct hc_iof_child opened = {.fds = {-1, -1, -1}};
    hcomm_status_t status = open_input(iof, options, rank, &opened.fds[STDIN_FILENO]);
    for (int i = 0; status == HCOMM_OK && i < HC_IOF_CHANNELS; i++)
        status =
            open_stream(&iof->streams[rank * HC_IOF_CHANNELS + (uint32_t)i], &opened.fds[STDOUT_FILENO + i]);
    if (status != HCOMM_OK) {
        hc_iof_close_child(&opened);
        return status;
    }
    *child = opened;
    return HCOMM_OK;
}

void hc_iof_close_child(struct hc_iof_child *child)
{
    for (size_t i = 0; i < hc_array_len(child->fds); i++)
        if (child->fds[i] >= 0)
            (void)close(child->fds[i]);
    *child = (struct hc_iof_child){.fds = {-1, -1, -1}};
}

void hc_iof_rank_ended(struct hc_iof *iof, uint32_t rank)
{
    hc_feed_close(&iof->feed, rank);
    for (int i = 0; i < HC_IOF_CHANNELS; i++) {
        struct hc_stream *stream = &iof->streams[rank * HC_IOF_CHANNELS + (uint32_t)i];
        while (stream->source.fd >= 0 && !hc_sink_full(&stream->output->sink) && read_once(stream)) {
        }
        regulate(stream);
    }
}

void hc_iof_write(struct hc_iof *iof, uint32_t rank, enum hc_iof_channel channel, const char *data,
                  size_t size)
{
    write_lines(&iof->streams[rank * HC_IOF_CHANNELS + (uint32_t)channel], data, size);
}

bool hc_iof_done(const struct hc_iof *iof)
{
    return iof->open_streams == 0 && hc_sink_empty(&iof->outputs[HC_IOF_STDOUT].sink) &&
           hc_sink_empty(&iof->outputs[HC_IOF_STDERR].sink);
}
