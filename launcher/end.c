#include "launcher/end.h"

#include "launcher/oom.h"
#include "launcher/pmix/server.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

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

void hc_launch_signal_all(struct hc_launch *launch, int signal)
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
    hc_launch_signal_all(launch, end_steps[phase].signal);
    if (phase != HC_END_KILL) {
        hc_launch_signal_all(launch, SIGCONT); /* a stopped rank could not react */
        hc_loop_timer_start(&launch->loop, &launch->end_timer,
                            hc_deadline_ms((unsigned)launch->options->settings.grace));
    }
}

void hc_end_on_timer(struct hc_loop_timer *timer)
{
    struct hc_launch *launch = hc_container_of(timer, struct hc_launch, end_timer);
    hc_launch_end(launch, launch->phase + 1);
}

void hc_end_on_timeout(struct hc_loop_timer *timer)
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

void hc_end_on_output_broken(struct hc_iof *iof, const char *name, int error)
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

void hc_end_rank(struct hc_launch *launch, struct hc_rank *rank, int wait_status)
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
