#include "launcher/launch.h"

#include "launcher/bind.h"
#include "launcher/environment.h"
#include "launcher/oom.h"
#include "launcher/pmix/server.h"
#include "launcher/reap.h"
#include "launcher/spawn.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- ending ---- */

static const struct {
    int signal;
    const char *name;
} end_steps[] = {
    [HC_END_INTERRUPT] = {SIGINT, "INT"},
    [HC_END_TERMINATE] = {SIGTERM, "TERM"},
    [HC_END_KILL] = {SIGKILL, "KILL"},
};

void hc_launch_signal_rank(struct hc_launch *launch, uint32_t rank, int signal)
{
    const struct hc_rank *target = &launch->job.ranks[rank];
    /* Not reaped yet, so the number still names this process and its group. */
    if (target->state == HC_RANK_RUNNING)
        (void)kill(-target->pid, signal);
}

static void signal_all(struct hc_launch *launch, int signal)
{
    for (uint32_t rank = 0; rank < launch->job.num_ranks; rank++)
        hc_launch_signal_rank(launch, rank, signal);
}

void hc_launch_end(struct hc_launch *launch, enum hc_end_phase phase)
{
    if (phase <= launch->phase)
        return;
    launch->phase = phase;
    hc_log_info("ending the job: signal %s to all ranks", end_steps[phase].name);
    signal_all(launch, end_steps[phase].signal);
    if (phase != HC_END_KILL) {
        signal_all(launch, SIGCONT); /* a stopped rank could not react */
        hc_loop_timer_start(&launch->loop, &launch->end_timer,
                            hc_deadline_ms((unsigned)launch->options->settings.grace));
    }
}

static void on_end_timer(struct hc_loop_timer *timer)
{
    struct hc_launch *launch = hc_container_of(timer, struct hc_launch, end_timer);
    hc_launch_end(launch, launch->phase + 1);
}

static void on_timeout(struct hc_loop_timer *timer)
{
    struct hc_launch *launch = hc_container_of(timer, struct hc_launch, timeout);
    if (launch->phase != HC_END_NONE)
        return;
    hc_log_error("the job did not end within %d s (--timeout); %u of %u ranks are still running",
                 launch->options->settings.timeout, launch->job.num_ranks - launch->job.num_ended,
                 launch->job.num_ranks);
    (void)hc_job_fail(&launch->job, HC_EXIT_TIMEOUT);
    hc_launch_end(launch, HC_END_TERMINATE);
}

static void on_output_broken(struct hc_iof *iof, const char *name, int error)
{
    struct hc_launch *launch = hc_container_of(iof, struct hc_launch, iof);
    if (error != EPIPE) /* a reader that left, as in "| head", is no error worth a line */
        hc_log_error("cannot write %s: %s; the job is ended", name, hc_errno_text(error));
    (void)hc_job_fail(&launch->job, error == EPIPE ? 128 + SIGPIPE : HC_EXIT_LAUNCHER);
    hc_launch_end(launch, HC_END_TERMINATE);
}

void hc_launch_abort(struct hc_launch *launch, uint32_t rank, int code, const char *message)
{
    int exit_code = (code & 0xff) ? (code & 0xff) : 1;
    if (hc_job_fail(&launch->job, exit_code))
        hc_log_error("rank %u on %s (pid %d) aborted the job with code %d%s%s", rank, launch->job.hostname,
                     (int)launch->job.ranks[rank].pid, code, *message ? ": " : "", message);
    hc_launch_end(launch, HC_END_TERMINATE);
}

/* ---- signals from the guard ---- */

static void interrupt(struct hc_launch *launch, int signal)
{
    (void)hc_job_fail(&launch->job, 128 + signal);
    if (launch->phase == HC_END_INTERRUPT && signal == SIGINT)
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
        signal_all(launch, SIGSTOP);
        break;
    default:
        signal_all(launch, signal);
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
    }
}

/* ---- ranks that end ---- */

static bool is_abnormal(const struct hc_rank *rank)
{
    return !WIFEXITED(rank->wait_status) || WEXITSTATUS(rank->wait_status) != 0 ||
           (rank->connected && !rank->finalized);
}

/* Said in one line, with everything known about the cause. */
static void describe_failure(const struct hc_launch *launch, const struct hc_rank *rank)
{
    const char *host = launch->job.hostname;
    int status = rank->wait_status;
    if (WIFSIGNALED(status)) {
        bool oom = WTERMSIG(status) == SIGKILL && hc_oom_kills() > launch->oom_kills;
        hc_log_error(
            "rank %u on %s (pid %d) was ended by signal %d (%s)%s%s", rank->rank, host, (int)rank->pid,
            WTERMSIG(status), strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "",
            oom ? ": the kernel's out-of-memory killer was at work; the host has too little memory" : "");
    } else if (WEXITSTATUS(status) != 0) {
        hc_log_error("rank %u on %s (pid %d) exited with code %d", rank->rank, host, (int)rank->pid,
                     WEXITSTATUS(status));
    } else {
        hc_log_error("rank %u on %s (pid %d) exited with code 0 but without PMIx_Finalize (hcomm_finalize, "
                     "MPI_Finalize); other ranks may wait for it",
                     rank->rank, host, (int)rank->pid);
    }
}

static void handle_failure(struct hc_launch *launch, const struct hc_rank *rank)
{
    int code = hc_job_exit_code(rank->wait_status);
    bool first = hc_job_fail(&launch->job, code ? code : 1);
    bool goes_on = launch->options->settings.on_failure == HC_ON_FAILURE_CONTINUE;
    if (first || (goes_on && launch->phase == HC_END_NONE))
        describe_failure(launch, rank);
    if (launch->phase == HC_END_NONE)
        hc_pmix_notify_failure(launch->pmix, rank);
    if (!goes_on)
        hc_launch_end(launch, HC_END_TERMINATE);
}

static void handle_end(struct hc_launch *launch, struct hc_rank *rank, int wait_status)
{
    rank->state = HC_RANK_ENDED;
    rank->wait_status = wait_status;
    launch->job.num_ended++;
    hc_iof_rank_ended(&launch->iof, rank->rank);
    hc_log_info("rank %u (pid %d) ended, wait status 0x%x", rank->rank, (int)rank->pid,
                (unsigned)wait_status);
    if (is_abnormal(rank))
        handle_failure(launch, rank);
    if (launch->job.num_ended == launch->job.num_ranks)
        hc_loop_stop(&launch->loop);
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
            handle_end(launch, rank, status);
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

/* ---- starting ---- */

struct starter {
    struct hc_environment environment; /* of the present program */
    char *path;
    struct rlimit files;
};

static hcomm_status_t cannot_start(struct hc_launch *launch, const struct hc_app *app, const char *step,
                                   int error)
{
    int code = error == ENOENT || error == ENOTDIR ? HC_EXIT_NOT_FOUND : HC_EXIT_NOT_EXEC;
    (void)hc_job_fail(&launch->job, code);
    return hc_error(HCOMM_ERR_IO, "cannot %s '%s'%s%s on %s: %s", step, app->argv[0], app->wdir ? " in " : "",
                    app->wdir ? app->wdir : "", launch->job.hostname, hc_errno_text(error));
}

static hcomm_status_t start_rank(struct hc_launch *launch, struct starter *starter, struct hc_rank *rank)
{
    const struct hc_app *app = &launch->options->apps[rank->app_index];
    struct hc_spawn spawn = {
        .path = starter->path,
        .argv = app->argv,
        .wdir = app->wdir,
        .cpus = rank->cpus,
        .signals = launch->signals,
        .files = starter->files,
    };
    hcomm_status_t status = hc_pmix_set_environment(launch->pmix, rank->rank, &starter->environment);
    if (status != HCOMM_OK)
        return status;
    spawn.env = starter->environment.list;
    status = hc_iof_open_rank(&launch->iof, launch->options, rank->rank, &spawn.stdio);
    if (status != HCOMM_OK)
        return status;
    struct hc_spawn_failure failure;
    status = hc_spawn_process(&spawn, &rank->pid, &failure);
    hc_iof_close_child(&spawn.stdio);
    if (status != HCOMM_OK)
        return cannot_start(launch, app, failure.step, failure.error);
    rank->state = HC_RANK_RUNNING;
    hc_log_info("rank %u: pid %d, %s", rank->rank, (int)rank->pid, starter->path);
    return HCOMM_OK;
}

static hcomm_status_t start_app(struct hc_launch *launch, const struct hc_app *app, struct rlimit files)
{
    struct starter starter = {.files = files};
    int error = 0;
    hcomm_status_t status = hc_environment_init(&starter.environment, app);
    if (status != HCOMM_OK)
        return status;
    status = hc_environment_guide_open_mpi(&starter.environment,
                                           launch->job.num_ranks > hc_map_processors(launch->map));
    if (status == HCOMM_OK)
        status = hc_spawn_find(app->argv[0], app->wdir, starter.environment.list, &starter.path, &error);
    if (status == HCOMM_ERR_IO)
        status = cannot_start(launch, app, "execute", error);
    for (uint32_t i = 0; status == HCOMM_OK && i < (uint32_t)app->count; i++)
        status = start_rank(launch, &starter, &launch->job.ranks[app->first_rank + i]);
    free(starter.path);
    hc_environment_fini(&starter.environment);
    return status;
}

/* Descriptors for all ranks' pipes and connections; ranks keep the limit that the user set. */
static struct rlimit raise_file_limit(void)
{
    struct rlimit old = {.rlim_cur = 1024, .rlim_max = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &old);
    struct rlimit raised = {.rlim_cur = old.rlim_max, .rlim_max = old.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &raised);
    return old;
}

static hcomm_status_t start_ranks(struct hc_launch *launch)
{
    struct rlimit files = raise_file_limit();
    launch->oom_kills = hc_oom_kills();
    for (size_t i = 0; i < launch->options->num_apps; i++) {
        hcomm_status_t status = start_app(launch, &launch->options->apps[i], files);
        if (status != HCOMM_OK)
            return status;
    }
    if (launch->options->settings.timeout > 0)
        hc_loop_timer_start(&launch->loop, &launch->timeout,
                            hc_clock_ns() +
                                (uint64_t)launch->options->settings.timeout * UINT64_C(1000000000));
    return hc_feed_start(&launch->iof.feed);
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

/* ---- the life of the server process ---- */

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
    hcomm_status_t status = watch_processes(launch, control_fd);
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
        launch->iof.broken = on_output_broken;
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
        status = start_ranks(launch);
    if (status == HCOMM_OK)
        status = hc_loop_run(&launch->loop);
    if (status == HCOMM_OK)
        status = settle(launch);
    return status;
}

static void clean_up(struct hc_launch *launch)
{
    hc_reap_all_descendants();
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
    hc_loop_timer_init(&launch->timeout, on_timeout);
    hc_loop_timer_init(&launch->end_timer, on_end_timer);
    hcomm_status_t status = run(launch, context, control_fd);
    if (status != HCOMM_OK) {
        hc_log_error("%s", hc_error_detail());
        (void)hc_job_fail(&launch->job, HC_EXIT_LAUNCHER);
    }
    int code = launch->job.exit_code;
    clean_up(launch);
    return code;
}
