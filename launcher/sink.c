#include "launcher/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUEUE_LIMIT = 1 << 20 };

static void on_writable(struct hc_loop_source *source, uint32_t events);

static int open_anew(int fd)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

/* Where a pipe or terminal cannot be opened anew (it belongs to another user), its duplicate blocks: so be
 * it. */
static int own_descriptor(int fd, mode_t mode)
{
    int own = S_ISFIFO(mode) || S_ISCHR(mode) ? open_anew(fd) : -1;
    return own >= 0 ? own : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

hcomm_status_t hc_sink_open_inherited(struct hc_sink *sink, struct hc_loop *loop, int fd, const char *name)
{
    struct stat info;
    *sink = (struct hc_sink){.loop = loop, .name = name, .source = {.fd = -1, .ready = on_writable}};
    if (fstat(fd, &info) != 0) {
        sink->error = errno; /* started with the descriptor closed: output is dropped, as by any program */
        return HCOMM_OK;
    }
    sink->is_socket = S_ISSOCK(info.st_mode);
    sink->source.fd = own_descriptor(fd, info.st_mode);
    if (sink->source.fd < 0)
        return hc_error(HCOMM_ERR_IO, "cannot duplicate %s: %s", name, hc_errno_text(errno));
    return HCOMM_OK;
}

hcomm_status_t hc_sink_open_file(struct hc_sink *sink, struct hc_loop *loop, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return hc_error(HCOMM_ERR_IO, "--output-dir: cannot write %s: %s", path, hc_errno_text(errno));
    *sink = (struct hc_sink){.loop = loop, .name = path, .source = {.fd = fd, .ready = on_writable}};
    return HCOMM_OK;
}

void hc_sink_close(struct hc_sink *sink)
{
    if (sink->source.fd >= 0) {
        hc_loop_forget(sink->loop, &sink->source);
        (void)close(sink->source.fd);
    }
    free(sink->queue);
    *sink = (struct hc_sink){.source = {.fd = -1}};
}

static void break_sink(struct hc_sink *sink, int error)
{
    sink->error = error;
    sink->head = sink->tail = 0;
    hc_loop_forget(sink->loop, &sink->source);
    if (sink->broken)
        sink->broken(sink);
    if (sink->drained)
        sink->drained(sink);
}

/* Bytes accepted by the descriptor now; sets sink->error only through break_sink. */
static size_t write_some(struct hc_sink *sink, const char *data, size_t size)
{
    size_t written = 0;
    while (written < size && !sink->error) {
        ssize_t n = sink->is_socket ? send(sink->source.fd, data + written, size - written, MSG_DONTWAIT)
                                    : write(sink->source.fd, data + written, size - written);
        if (n >= 0)
            written += (size_t)n;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            break_sink(sink, errno);
    }
    return written;
}

static bool reserve(struct hc_sink *sink, size_t size)
{
    if (sink->capacity - sink->tail >= size)
        return true;
    size_t used = sink->tail - sink->head;
    if (sink->capacity - used < size) {
        size_t capacity = 2 * (used + size);
        char *grown = realloc(sink->queue, capacity);
        if (!grown)
            return false;
        sink->queue = grown;
        sink->capacity = capacity;
    }
    (void)memmove(sink->queue, sink->queue + sink->head, used);
    sink->head = 0;
    sink->tail = used;
    return true;
}

static void enqueue(struct hc_sink *sink, const char *data, size_t size)
{
    if (!reserve(sink, size)) {
        break_sink(sink, ENOMEM);
        return;
    }
    (void)memcpy(sink->queue + sink->tail, data, size);
    sink->tail += size;
    if (hc_loop_watch(sink->loop, &sink->source, EPOLLOUT) != HCOMM_OK)
        break_sink(sink, EIO);
}

void hc_sink_write(struct hc_sink *sink, const char *data, size_t size)
{
    if (sink->error || size == 0)
        return;
    sink->mid_line = data[size - 1] != '\n';
    size_t written = hc_sink_empty(sink) ? write_some(sink, data, size) : 0;
    if (written < size && !sink->error)
        enqueue(sink, data + written, size - written);
}

static void on_writable(struct hc_loop_source *source, uint32_t events)
{
    (void)events;
    struct hc_sink *sink = hc_container_of(source, struct hc_sink, source);
    sink->head += write_some(sink, sink->queue + sink->head, sink->tail - sink->head);
    if (sink->error || !hc_sink_empty(sink))
        return;
    sink->head = sink->tail = 0;
    hc_loop_forget(sink->loop, &sink->source);
    if (sink->drained)
        sink->drained(sink);
}

bool hc_sink_full(const struct hc_sink *sink)
{
    return sink->tail - sink->head >= QUEUE_LIMIT;
}
