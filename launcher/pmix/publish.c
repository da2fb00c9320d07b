/* PMIx_Publish: keys are unique in the job, a second publication of one is refused. */
#include "launcher/pmix/internal.h"

#include <stdlib.h>

struct publish_call {
    struct hc_pmix_call base;
    pmix_proc_t proc;
    const pmix_info_t *info;
    size_t count;
    pmix_op_cbfunc_t done;
    void *data;
};

static bool is_directive(const pmix_info_t *info)
{
    return PMIX_CHECK_RESERVED_KEY(info->key);
}

static bool has_duplicate(struct hc_pmix *pmix, const struct publish_call *call)
{
    for (size_t i = 0; i < call->count; i++)
        if (!is_directive(&call->info[i]) && hc_pmix_store_find(pmix, call->info[i].key))
            return true;
    return false;
}

static pmix_status_t store_one(struct hc_pmix *pmix, const struct publish_call *call, const pmix_info_t *info)
{
    const pmix_value_t *persistence = hc_pmix_find(call->info, call->count, PMIX_PERSISTENCE);
    struct hc_pmix_item *item = calloc(1, sizeof(*item));
    if (!item)
        return PMIX_ERR_NOMEM;
    item->owner = call->proc;
    item->persistence =
        persistence && persistence->type == PMIX_PERSIST ? persistence->data.persist : PMIX_PERSIST_SESSION;
    PMIX_INFO_XFER(&item->info, info);
    hc_list_append(&pmix->items, &item->node);
    return PMIX_SUCCESS;
}

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct publish_call *call = hc_container_of(base, struct publish_call, base);
    pmix_status_t status = has_duplicate(pmix, call) ? PMIX_ERR_DUPLICATE_KEY : PMIX_SUCCESS;
    for (size_t i = 0; i < call->count && status == PMIX_SUCCESS; i++)
        if (!is_directive(&call->info[i]))
            status = store_one(pmix, call, &call->info[i]);
    call->done(status, call->data);
    free(call);
    hc_pmix_lookup_retry(pmix);
}

pmix_status_t hc_pmix_upcall_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                     pmix_op_cbfunc_t done, void *data)
{
    struct publish_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct publish_call){
        .base = {.run = run}, .proc = *proc, .info = info, .count = ninfo, .done = done, .data = data};
    return hc_pmix_post(&call->base);
}
