#include "launcher/feed.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { BACKGROUND_CHECK_MS = 250, FILLS_PER_TURN = 16 };

static void on_input(struct hc_loop_source *source, uint32_t events);
static void on_target(struct hc_loop_source *source, uint32_t events);
static void on_background_check(struct hc_loop_timer *timer);

hcomm_status_t hc_feed_init(struct hc_feed *feed, struct hc_loop *loop, uint32_t num_ranks)
{
    feed->targets = calloc(num_ranks, sizeof(*feed->targets));
    if (!feed->targets)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the standard input of %u ranks", num_ranks);
    feed->source = (struct hc_loop_source){.fd = STDIN_FILENO, .ready = on_input};
    feed->loop = loop;
    hc_loop_timer_init(&feed->background, on_background_check);
    feed->num_targets = num_ranks;
    feed->started = feed->always_ready = feed->ended = false;
    feed->size = 0;
    for (uint32_t i = 0; i < num_ranks; i++)
        feed->targets[i] = (struct hc_feed_target){.source = {.fd = -1, .ready = on_target}, .feed = feed};
    return HCOMM_OK;
}

static void close_target(struct hc_feed *feed, struct hc_feed_target *target)
{
    if (target->source.fd < 0)
        return;
    hc_loop_forget(feed->loop, &target->source);
    (void)close(target->source.fd);
    target->source.fd = -1;
}

void hc_feed_fini(struct hc_feed *feed)
{
    for (uint32_t i = 0; i < feed->num_targets; i++)
        close_target(feed, &feed->targets[i]);
    hc_loop_forget(feed->loop, &feed->source);
    hc_loop_timer_stop(&feed->background);
    free(feed->targets);
    feed->targets = NULL;
    feed->num_targets = 0;
}

hcomm_status_t hc_feed_no_pipe(uint32_t rank, int error)
{
    return hc_error(HCOMM_ERR_IO, "no pipe for rank %u: %s%s", rank, hc_errno_text(error),
                    error == EMFILE ? "; raise the limit of open files (ulimit -Hn), about 4 per rank" : "");
}

hcomm_status_t hc_feed_open(struct hc_feed *feed, uint32_t rank, int *child_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return hc_feed_no_pipe(rank, errno);
    (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
    feed->targets[rank].source.fd = ends[1];
    *child_fd = ends[0];
    return HCOMM_OK;
}

static bool all_taken(const struct hc_feed *feed)
{
    for (uint32_t i = 0; i < feed->num_targets; i++)
        if (feed->targets[i].source.fd >= 0 && feed->targets[i].taken < feed->size)
            return false;
    return true;
}

static bool has_target(const struct hc_feed *feed)
{
    for (uint32_t i = 0; i < feed->num_targets; i++)
        if (feed->targets[i].source.fd >= 0)
            return true;
    return false;
}

static void end_input(struct hc_feed *feed)
{
    feed->ended = true;
    hc_loop_forget(feed->loop, &feed->source);
    for (uint32_t i = 0; i < feed->num_targets; i++)
        close_target(feed, &feed->targets[i]);
}

/* Write what the target has not taken yet; waits for its pipe when that is full. */
static void serve_target(struct hc_feed *feed, struct hc_feed_target *target)
{
    while (target->source.fd >= 0 && target->taken < feed->size) {
        ssize_t n = write(target->source.fd, feed->buffer + target->taken, feed->size - target->taken);
        if (n >= 0)
            target->taken += (size_t)n;
        else if (errno == EAGAIN && hc_loop_watch(feed->loop, &target->source, EPOLLOUT) == HCOMM_OK)
            return;
        else if (errno != EINTR) /* EPIPE: the rank does not read any more */
            close_target(feed, target);
    }
    hc_loop_forget(feed->loop, &target->source);
}

/* Reading a terminal from the background would stop hcommrun (SIGTTIN). */
static bool in_background(void)
{
    pid_t foreground = tcgetpgrp(STDIN_FILENO);
    return foreground >= 0 && foreground != getpgrp();
}

static void fill(struct hc_feed *feed)
{
    ssize_t n = read(STDIN_FILENO, feed->buffer, sizeof(feed->buffer));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0 && errno != EIO && errno != EBADF)
        hc_log_warn("cannot read standard input: %s", hc_errno_text(errno));
    if (n <= 0) {
        end_input(feed);
        return;
    }
    feed->size = (size_t)n;
    for (uint32_t i = 0; i < feed->num_targets; i++) {
        feed->targets[i].taken = 0;
        serve_target(feed, &feed->targets[i]);
    }
}

/* Come back here when a receiver can take more: at once, but after the loop's other business. */
static void continue_later(struct hc_feed *feed)
{
    for (uint32_t i = 0; i < feed->num_targets; i++) {
        if (feed->targets[i].source.fd < 0)
            continue;
        if (hc_loop_watch(feed->loop, &feed->targets[i].source, EPOLLOUT) != HCOMM_OK)
            end_input(feed);
        return;
    }
    end_input(feed);
}

static void pump_file(struct hc_feed *feed)
{
    for (int i = 0; i < FILLS_PER_TURN && !feed->ended && all_taken(feed); i++)
        fill(feed);
    if (!feed->ended && all_taken(feed))
        continue_later(feed);
}

/* Read on while everything read so far is delivered. */
static void pump(struct hc_feed *feed)
{
    if (!feed->started || feed->ended)
        return;
    if (!has_target(feed)) {
        end_input(feed);
        return;
    }
    if (feed->always_ready) {
        pump_file(feed);
        return;
    }
    bool wanted = all_taken(feed) && feed->background.deadline == HC_NEVER;
    if (hc_loop_watch(feed->loop, &feed->source, wanted ? EPOLLIN : 0) != HCOMM_OK)
        end_input(feed);
}

static void on_input(struct hc_loop_source *source, uint32_t events)
{
    (void)events;
    struct hc_feed *feed = hc_container_of(source, struct hc_feed, source);
    if (in_background())
        hc_loop_timer_start(feed->loop, &feed->background, hc_deadline_ms(BACKGROUND_CHECK_MS));
    else
        fill(feed);
    pump(feed);
}

static void on_background_check(struct hc_loop_timer *timer)
{
    pump(hc_container_of(timer, struct hc_feed, background));
}

static void on_target(struct hc_loop_source *source, uint32_t events)
{
    struct hc_feed_target *target = hc_container_of(source, struct hc_feed_target, source);
    if (events & EPOLLERR)
        close_target(target->feed, target);
    else
        serve_target(target->feed, target);
    pump(target->feed);
}

hcomm_status_t hc_feed_start(struct hc_feed *feed)
{
    feed->started = true;
    if (!has_target(feed)) {
        feed->ended = true;
        return HCOMM_OK;
    }
    hcomm_status_t status = hc_loop_watch(feed->loop, &feed->source, EPOLLIN);
    if (status == HCOMM_ERR_UNSUPPORTED) {
        feed->always_ready = true;
        pump(feed);
        return HCOMM_OK;
    }
    if (status != HCOMM_OK) /* descriptor 0 is closed */
        end_input(feed);
    return HCOMM_OK;
}

void hc_feed_close(struct hc_feed *feed, uint32_t rank)
{
    close_target(feed, &feed->targets[rank]);
    pump(feed);
}

hcomm_status_t hc_feed_push(struct hc_feed *feed, uint32_t rank, const char *data, size_t size, size_t *taken)
{
    int fd = rank < feed->num_targets ? feed->targets[rank].source.fd : -1;
    if (fd < 0)
        return hc_error(HCOMM_ERR_UNREACHABLE, "rank %u reads no standard input", rank);
    ssize_t n = write(fd, data, size);
    if (n < 0)
        return hc_error(HCOMM_ERR_IO, "standard input of rank %u: %s", rank, hc_errno_text(errno));
    *taken = (size_t)n;
    return HCOMM_OK;
}
