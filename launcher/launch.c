#include "launcher/launch.h"

#include "launcher/bind.h"
#include "launcher/end.h"
#include "launcher/pmix/server.h"
#include "launcher/reap.h"
#include "launcher/shm_sweep.h"
#include "launcher/start.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void interrupt(struct hc_launch *launch, int signal)
{
    (void)hc_job_fail(&launch->job, 128 + signal);
    if (launch->phase != HC_END_NONE && signal == SIGINT) /* Ctrl-C while the job is being ended */
        hc_launch_end(launch, HC_END_KILL);
    else
        hc_launch_end(launch, signal == SIGINT ? HC_END_INTERRUPT : HC_END_TERMINATE);
}

static void handle_signal(struct hc_launch *launch, int signal)
{
    hc_log_info("received signal %d (%s)", signal, strsignal(signal));
    switch (signal) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
        interrupt(launch, signal);
        break;
    case SIGTSTP:
        hc_launch_signal_all(launch, SIGSTOP);
        break;
    default:
        hc_launch_signal_all(launch, signal);
        break;
    }
}

static void on_control(struct hc_loop_source *source, uint32_t events)
{
    (void)events;
    struct hc_launch *launch = hc_container_of(source, struct hc_launch, control);
    int signal = 0;
    ssize_t n = recv(source->fd, &signal, sizeof(signal), MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(signal)) {
        handle_signal(launch, signal);
    } else if (n == 0) {
        /* Nobody waits for the job any more, and nobody reads its output. */
        launch->guard_lost = true;
        hc_loop_forget(&launch->loop, source);
        (void)hc_job_fail(&launch->job, 128 + SIGKILL);
        hc_launch_end(launch, HC_END_KILL);
        hc_loop_stop(&launch->loop); /* cleaning up kills what is left, as often as it takes */
    }
}

/* Children that are no ranks are orphans of ranks, or a rank whose start failed. */
static void reap(struct hc_launch *launch)
{
    int status = 0;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    while (pid > 0) {
        hc_pmix_drain(launch->pmix); /* what the rank told before it ended counts first */
        struct hc_rank *rank = hc_job_find_process(&launch->job, pid);
        if (rank)
            hc_end_rank(launch, rank, status);
        pid = waitpid(-1, &status, WNOHANG);
    }
}

static void on_child(struct hc_loop_source *source, uint32_t events)
{
    (void)events;
    struct signalfd_siginfo info;
    while (read(source->fd, &info, sizeof(info)) > 0) {
    }
    reap(hc_container_of(source, struct hc_launch, children));
}

static hcomm_status_t place_ranks(struct hc_launch *launch)
{
    const struct hc_run_settings *settings = &launch->options->settings;
    struct hc_job *job = &launch->job;
    launch->cpus = calloc(job->num_ranks, sizeof(*launch->cpus));
    if (!launch->cpus)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the places of %u ranks", job->num_ranks);
    hcomm_status_t status = hc_map_place(launch->map, (enum hc_map_by)settings->map_by,
                                         (enum hc_bind_to)settings->bind_to, job->num_ranks, launch->cpus);
    if (status != HCOMM_OK)
        return status;
    for (uint32_t rank = 0; rank < job->num_ranks; rank++)
        job->ranks[rank].cpus = launch->cpus[rank];
    if (settings->report_bindings)
        hc_bind_report(launch->cpus, job->num_ranks, job->hostname);
    if (!settings->oversubscribe)
        hc_bind_warn_oversubscribed(launch->map, job->num_ranks);
    return HCOMM_OK;
}

static hcomm_status_t watch_processes(struct hc_launch *launch, int control_fd)
{
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    int fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return hc_error(HCOMM_ERR_IO, "signalfd: %s", hc_errno_text(errno));
    launch->children = (struct hc_loop_source){.fd = fd, .ready = on_child};
    launch->control = (struct hc_loop_source){.fd = control_fd, .ready = on_control};
    hcomm_status_t status = hc_loop_watch(&launch->loop, &launch->control, EPOLLIN);
    return status == HCOMM_OK ? hc_loop_watch(&launch->loop, &launch->children, EPOLLIN) : status;
}

static hcomm_status_t prepare(struct hc_launch *launch, const struct hc_launch_context *context,
                              int control_fd)
{
    hcomm_status_t status = hc_start_raise_limits(launch);
    if (status == HCOMM_OK)
        status = watch_processes(launch, control_fd);
    if (status == HCOMM_OK)
        status = hc_session_create(context->session);
    if (status == HCOMM_OK)
        status = hc_job_init(&launch->job, context->options, context->session->path);
    if (status == HCOMM_OK)
        status = hc_map_load(&launch->map);
    if (status == HCOMM_OK)
        status = place_ranks(launch);
    if (status == HCOMM_OK)
        status = hc_iof_init(&launch->iof, &launch->loop, launch->options, launch->job.hostname);
    if (status == HCOMM_OK) {
        launch->iof.broken = hc_end_on_output_broken;
        status = hc_pmix_start(launch, &launch->pmix);
    }
    return status;
}

/* All ranks are gone: kill what they left, so that their pipes end, and write the rest of the output. */
static hcomm_status_t settle(struct hc_launch *launch)
{
    hcomm_status_t status = HCOMM_OK;
    hc_reap_all_descendants();
    while (status == HCOMM_OK && !launch->guard_lost && launch->phase != HC_END_KILL &&
           !hc_iof_done(&launch->iof))
        status = hc_loop_turn(&launch->loop, -1);
    return status;
}

static hcomm_status_t run(struct hc_launch *launch, const struct hc_launch_context *context, int control_fd)
{
    hcomm_status_t status = prepare(launch, context, control_fd);
    if (status == HCOMM_OK)
        status = hc_start_ranks(launch);
    if (status == HCOMM_OK)
        status = hc_loop_run(&launch->loop);
    if (status == HCOMM_OK)
        status = settle(launch);
    return status;
}

/* Whoever ran has ended now, also without having been waited for one by one. */
static void end_all(struct hc_launch *launch)
{
    hc_reap_all_descendants();
    for (uint32_t rank = 0; launch->job.ranks && rank < launch->job.num_ranks; rank++)
        if (launch->job.ranks[rank].state == HC_RANK_RUNNING)
            launch->job.ranks[rank].state = HC_RANK_ENDED;
}

static void clean_up(struct hc_launch *launch)
{
    end_all(launch);
    hc_shm_sweep(&launch->job);
    hc_pmix_stop(launch->pmix);
    hc_iof_fini(&launch->iof);
    hc_map_free(launch->map);
    free(launch->cpus);
    hc_job_fini(&launch->job);
    if (launch->children.fd > 0)
        (void)close(launch->children.fd);
    hc_loop_fini(&launch->loop);
    free(launch);
}

int hc_launch_serve(void *opaque, int control_fd, const struct hc_guard_signals *signals)
{
    const struct hc_launch_context *context = opaque;
    struct hc_launch *launch = calloc(1, sizeof(*launch));
    if (!launch || hc_loop_init(&launch->loop) != HCOMM_OK) {
        hc_log_error("cannot start: %s", launch ? hc_error_detail() : "no memory");
        free(launch);
        return HC_EXIT_LAUNCHER;
    }
    launch->options = context->options;
    launch->signals = signals;
    hc_loop_timer_init(&launch->timeout, hc_end_on_timeout);
    hc_loop_timer_init(&launch->end_timer, hc_end_on_timer);
    hcomm_status_t status = run(launch, context, control_fd);
    if (status != HCOMM_OK) {
        hc_log_error("%s", hc_error_detail());
        (void)hc_job_fail(&launch->job, HC_EXIT_LAUNCHER);
    }
    int code = launch->job.exit_code;
    clean_up(launch);
    return code;
}
