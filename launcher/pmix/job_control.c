/* PMIx_Job_control: kill, terminate, pause, resume, and signal ranks. */
#include "launcher/pmix/internal.h"

#include <stdlib.h>
#include <string.h>

struct control_call {
    struct hc_pmix_call base;
    const pmix_proc_t *targets;
    size_t num_targets; /* 0: all ranks */
    int signal;
    pmix_info_cbfunc_t done;
    void *data;
};

static const struct {
    const char *key;
    int signal;
} actions[] = {
    {PMIX_JOB_CTRL_KILL, SIGKILL},
    {PMIX_JOB_CTRL_TERMINATE, SIGTERM},
    {PMIX_JOB_CTRL_PAUSE, SIGSTOP},
    {PMIX_JOB_CTRL_RESUME, SIGCONT},
};

/* The signal that the directives ask for, 0 when they ask for something else. */
static int find_signal(const pmix_info_t directives[], size_t ndirs)
{
    const pmix_value_t *number = hc_pmix_find(directives, ndirs, PMIX_JOB_CTRL_SIGNAL);
    if (number && number->type == PMIX_INT && number->data.integer > 0 && number->data.integer < NSIG)
        return number->data.integer;
    for (size_t i = 0; i < hc_array_len(actions); i++)
        if (hc_pmix_find(directives, ndirs, actions[i].key))
            return actions[i].signal;
    return 0;
}

static bool is_target(const struct control_call *call, struct hc_pmix *pmix, const struct hc_rank *rank)
{
    for (size_t i = 0; i < call->num_targets; i++)
        if (call->targets[i].rank == PMIX_RANK_WILDCARD || hc_pmix_rank_of(pmix, &call->targets[i]) == rank)
            return true;
    return call->num_targets == 0;
}

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct control_call *call = hc_container_of(base, struct control_call, base);
    const struct hc_job *job = &pmix->launch->job;
    for (uint32_t i = 0; i < job->num_ranks; i++)
        if (is_target(call, pmix, &job->ranks[i]))
            hc_launch_signal_rank(pmix->launch, i, call->signal);
    call->done(PMIX_SUCCESS, NULL, 0, call->data, NULL, NULL);
    free(call);
}

pmix_status_t hc_pmix_upcall_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                         size_t ntargets, const pmix_info_t directives[], size_t ndirs,
                                         pmix_info_cbfunc_t done, void *data)
{
    (void)requestor;
    int signal = find_signal(directives, ndirs);
    if (signal == 0)
        return PMIX_ERR_NOT_SUPPORTED;
    struct control_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct control_call){.base = {.run = run},
                                  .targets = targets,
                                  .num_targets = targets ? ntargets : 0,
                                  .signal = signal,
                                  .done = done,
                                  .data = data};
    return hc_pmix_post(&call->base);
}
