/* A rank called PMIx_Finalize: from now on it may end without being missed. */
#include "launcher/pmix/internal.h"

#include "runtime/base/log.h"

#include <stdlib.h>

struct finalized_call {
    struct hc_pmix_call base;
    pmix_proc_t proc;
};

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct finalized_call *call = hc_container_of(base, struct finalized_call, base);
    struct hc_rank *rank = hc_pmix_rank_of(pmix, &call->proc);
    if (rank) {
        rank->finalized = true;
        hc_log_info("rank %u finalized", rank->rank);
    }
    free(call);
}

pmix_status_t hc_pmix_upcall_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                       void *data)
{
    (void)object;
    (void)done;
    (void)data;
    struct finalized_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct finalized_call){.base = {.run = run}, .proc = *proc};
    /* Queued before the rank is let go, so the main thread knows before it sees the process end. */
    pmix_status_t status = hc_pmix_post(&call->base);
    return status == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : status;
}
