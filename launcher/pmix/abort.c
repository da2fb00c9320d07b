/* A rank called PMIx_Abort: for the whole job, or for some ranks. */
#include "launcher/pmix/internal.h"

#include "runtime/base/log.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MAX = 512 };

struct abort_call {
    struct hc_pmix_call base;
    pmix_proc_t caller;
    int code;
    char message[MESSAGE_MAX];
    pmix_op_cbfunc_t done;
    void *data;
    size_t num_targets; /* 0: everybody */
    pmix_proc_t targets[];
};

static void kill_targets(const struct abort_call *call, struct hc_pmix *pmix)
{
    for (size_t i = 0; i < call->num_targets; i++) {
        const struct hc_rank *target = hc_pmix_rank_of(pmix, &call->targets[i]);
        if (!target)
            continue;
        hc_log_info("rank %u ends rank %u (PMIx_Abort)", call->caller.rank, target->rank);
        hc_launch_signal_rank(pmix->launch, target->rank, SIGKILL);
    }
}

static bool means_everybody(const struct abort_call *call, const struct hc_pmix *pmix)
{
    if (call->num_targets == 0 || call->num_targets >= pmix->launch->job.num_ranks)
        return true;
    for (size_t i = 0; i < call->num_targets; i++)
        if (call->targets[i].rank == PMIX_RANK_WILDCARD)
            return true;
    return false;
}

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct abort_call *call = hc_container_of(base, struct abort_call, base);
    const struct hc_rank *caller = hc_pmix_rank_of(pmix, &call->caller);
    if (caller && means_everybody(call, pmix))
        hc_launch_abort(pmix->launch, caller->rank, call->code, call->message);
    else if (caller)
        kill_targets(call, pmix);
    call->done(caller ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, call->data);
    free(call);
}

/* A message is one line of ours: its line ends and other control characters become blanks. */
static void copy_message(char *to, const char *from)
{
    size_t length = from ? strnlen(from, MESSAGE_MAX - 1) : 0;
    for (size_t i = 0; i < length; i++)
        to[i] = (unsigned char)from[i] < ' ' ? ' ' : from[i];
    while (length > 0 && to[length - 1] == ' ')
        length--;
    to[length] = '\0';
}

pmix_status_t hc_pmix_upcall_abort(const pmix_proc_t *proc, void *object, int status, const char message[],
                                   pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *data)
{
    (void)object;
    size_t count = procs ? nprocs : 0;
    struct abort_call *call = malloc(sizeof(*call) + count * sizeof(*procs));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct abort_call){.base = {.run = run},
                                .caller = *proc,
                                .code = status,
                                .done = done,
                                .data = data,
                                .num_targets = count};
    copy_message(call->message, message);
    if (count > 0)
        (void)memcpy(call->targets, procs, count * sizeof(*procs));
    return hc_pmix_post(&call->base);
}
