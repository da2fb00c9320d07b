/* PMIx_Unpublish: a rank withdraws its own values, the given ones or all. */
#include "launcher/pmix/internal.h"

#include <stdlib.h>
#include <string.h>

struct unpublish_call {
    struct hc_pmix_call base;
    pmix_proc_t proc;
    char **keys; /* NULL: all */
    pmix_op_cbfunc_t done;
    void *data;
};

static bool is_meant(const struct unpublish_call *call, const struct hc_pmix_item *item)
{
    if (!PMIX_CHECK_PROCID(&item->owner, &call->proc))
        return false;
    if (!call->keys)
        return true;
    for (char **key = call->keys; *key; key++)
        if (strncmp(item->info.key, *key, PMIX_MAX_KEYLEN) == 0)
            return true;
    return false;
}

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct unpublish_call *call = hc_container_of(base, struct unpublish_call, base);
    struct hc_list *node;
    struct hc_list *following;
    hc_list_for_each_safe(node, following, &pmix->items)
    {
        struct hc_pmix_item *item = hc_list_entry(node, struct hc_pmix_item, node);
        if (is_meant(call, item))
            hc_pmix_store_remove(item);
    }
    call->done(PMIX_SUCCESS, call->data);
    free(call);
}

pmix_status_t hc_pmix_upcall_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                       size_t ninfo, pmix_op_cbfunc_t done, void *data)
{
    (void)info;
    (void)ninfo;
    struct unpublish_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct unpublish_call){
        .base = {.run = run}, .proc = *proc, .keys = keys, .done = done, .data = data};
    return hc_pmix_post(&call->base);
}
