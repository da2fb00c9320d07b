/* PMIx groups: the library has gathered the members on this host, which is all of them. */
#include "launcher/pmix/bag.h"
#include "launcher/pmix/internal.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_size_t next_context_id =
    1; /* only this file's thread-independent counter: relaxed, no partner */

static void release(void *data)
{
    struct hc_pmix_bag *bag = data;
    hc_pmix_bag_fini(bag);
    free(bag);
}

static bool wants_context_id(const pmix_info_t directives[], size_t ndirs)
{
    const pmix_value_t *wanted = hc_pmix_find(directives, ndirs, PMIX_GROUP_ASSIGN_CONTEXT_ID);
    return wanted && (wanted->type != PMIX_BOOL || wanted->data.flag);
}

pmix_status_t hc_pmix_upcall_group(pmix_group_operation_t op, char name[], const pmix_proc_t procs[],
                                   size_t nprocs, const pmix_info_t directives[], size_t ndirs,
                                   pmix_info_cbfunc_t done, void *data)
{
    (void)name;
    (void)procs;
    (void)nprocs;
    struct hc_pmix_bag *bag = calloc(1, sizeof(*bag));
    if (!bag)
        return PMIX_ERR_NOMEM;
    if (op == PMIX_GROUP_CONSTRUCT && wants_context_id(directives, ndirs)) {
        size_t id = atomic_fetch_add_explicit(&next_context_id, 1, memory_order_relaxed);
        hc_pmix_bag_put(bag, PMIX_GROUP_CONTEXT_ID, &id, PMIX_SIZE);
    }
    done(bag->failed ? PMIX_ERR_NOMEM : PMIX_SUCCESS, bag->info, bag->count, data, release, bag);
    return PMIX_SUCCESS;
}
