#include "launcher/job.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill_ranks(struct hc_job *job)
{
    uint32_t rank = 0;
    for (uint32_t app = 0; app < job->options->num_apps; app++)
        for (int i = 0; i < job->options->apps[app].count; i++, rank++)
            job->ranks[rank] = (struct hc_rank){.rank = rank, .app_index = app, .app_rank = (uint32_t)i};
}

hcomm_status_t hc_job_init(struct hc_job *job, const struct hc_options *options, const char *session_path)
{
    *job = (struct hc_job){.options = options, .session_path = session_path, .num_ranks = options->num_ranks};
    if (gethostname(job->hostname, sizeof(job->hostname) - 1) != 0)
        return hc_error(HCOMM_ERR_IO, "gethostname: %s", hc_errno_text(errno));
    /* Unique on the machine also after process numbers wrap around. */
    (void)snprintf(job->name_space, sizeof(job->name_space), "hcommrun-%d-%llx", (int)getpid(),
                   (unsigned long long)hc_clock_ns());
    job->ranks = calloc(job->num_ranks, sizeof(*job->ranks));
    if (!job->ranks)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for %u ranks", job->num_ranks);
    fill_ranks(job);
    return HCOMM_OK;
}

void hc_job_fini(struct hc_job *job)
{
    free(job->ranks);
    job->ranks = NULL;
}

struct hc_rank *hc_job_find_process(struct hc_job *job, pid_t pid)
{
    for (uint32_t i = 0; i < job->num_ranks; i++)
        if (job->ranks[i].state == HC_RANK_RUNNING && job->ranks[i].pid == pid)
            return &job->ranks[i];
    return NULL;
}

bool hc_job_fail(struct hc_job *job, int exit_code)
{
    if (job->failed)
        return false;
    job->failed = true;
    job->exit_code = exit_code;
    return true;
}

int hc_job_exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}
