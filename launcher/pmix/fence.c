/*
 * All participants on this host have arrived, and this host is all: the fence is complete, and its data is
 * what was collected. It is handed back as it is.
 */
#include "launcher/pmix/internal.h"

#include <stdlib.h>

pmix_status_t hc_pmix_upcall_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                                   size_t ninfo, char *blob, size_t size, pmix_modex_cbfunc_t done,
                                   void *data)
{
    (void)procs;
    (void)nprocs;
    /* The library's own finding, when a participant is gone. */
    const pmix_value_t *found = hc_pmix_find(info, ninfo, PMIX_LOCAL_COLLECTIVE_STATUS);
    pmix_status_t status = found && found->type == PMIX_STATUS ? found->data.status : PMIX_SUCCESS;
    done(status, blob, size, data, free, blob);
    return PMIX_SUCCESS;
}
