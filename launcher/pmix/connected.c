/* A rank called PMIx_Init. It is let go at once; the main thread only takes note. */
#include "launcher/pmix/internal.h"

#include "runtime/base/log.h"

#include <stdlib.h>

struct connected_call {
    struct hc_pmix_call base;
    pmix_proc_t proc;
};

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct connected_call *call = hc_container_of(base, struct connected_call, base);
    struct hc_rank *rank = hc_pmix_rank_of(pmix, &call->proc);
    if (rank) {
        rank->connected = true;
        rank->finalized = false; /* PMIx_Init after PMIx_Finalize */
        hc_log_info("rank %u connected", rank->rank);
    }
    free(call);
}

pmix_status_t hc_pmix_upcall_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[],
                                       size_t ninfo, pmix_op_cbfunc_t done, void *data)
{
    (void)object;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)data;
    struct connected_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct connected_call){.base = {.run = run}, .proc = *proc};
    pmix_status_t status = hc_pmix_post(&call->base);
    return status == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : status;
}
