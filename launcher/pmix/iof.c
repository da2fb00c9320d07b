/*
 * PMIx_IOF_push: text from a client for the standard input of ranks. PMIx_IOF_pull by a rank is left unset,
 * so that the library refuses it: in libpmix 4.2.2 its server deadlocks on the answer to it, and a rank's
 * output reaches hcommrun's own in any case.
 */
#include "launcher/pmix/internal.h"

#include <stdlib.h>

struct push_call {
    struct hc_pmix_call base;
    const pmix_proc_t *targets;
    size_t num_targets;
    const pmix_byte_object_t *bytes;
    pmix_op_cbfunc_t done;
    void *data;
};

static pmix_status_t push_to(struct hc_pmix *pmix, const struct hc_rank *rank,
                             const pmix_byte_object_t *bytes)
{
    size_t taken = 0;
    if (!rank ||
        hc_feed_push(&pmix->launch->iof.feed, rank->rank, bytes->bytes, bytes->size, &taken) != HCOMM_OK)
        return PMIX_ERR_UNREACH;
    return taken == bytes->size ? PMIX_SUCCESS : PMIX_ERR_RESOURCE_BUSY;
}

static void run_push(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct push_call *call = hc_container_of(base, struct push_call, base);
    pmix_status_t status = PMIX_SUCCESS;
    for (size_t i = 0; call->bytes && i < call->num_targets && status == PMIX_SUCCESS; i++)
        status = push_to(pmix, hc_pmix_rank_of(pmix, &call->targets[i]), call->bytes);
    call->done(status, call->data);
    free(call);
}

pmix_status_t hc_pmix_upcall_push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[],
                                        size_t ntargets, const pmix_info_t directives[], size_t ndirs,
                                        const pmix_byte_object_t *bytes, pmix_op_cbfunc_t done, void *data)
{
    (void)source;
    (void)directives;
    (void)ndirs;
    struct push_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct push_call){.base = {.run = run_push},
                               .targets = targets,
                               .num_targets = ntargets,
                               .bytes = bytes,
                               .done = done,
                               .data = data};
    return hc_pmix_post(&call->base);
}
