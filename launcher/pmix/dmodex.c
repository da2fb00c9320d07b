/*
 * The library asks for the data of a process it does not host. Every rank of the job is on this host and
 * known to it, so nobody else has such a process.
 */
#include "launcher/pmix/internal.h"

pmix_status_t hc_pmix_upcall_dmodex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                    pmix_modex_cbfunc_t done, void *data)
{
    (void)proc;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)data;
    return PMIX_ERR_NOT_FOUND;
}
