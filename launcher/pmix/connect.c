/* PMIx_Connect and PMIx_Disconnect: all participants are on this host and have called, so it is done. */
#include "launcher/pmix/internal.h"

pmix_status_t hc_pmix_upcall_connect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                                     size_t ninfo, pmix_op_cbfunc_t done, void *data)
{
    (void)procs;
    (void)nprocs;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)data;
    return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t hc_pmix_upcall_disconnect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                                        size_t ninfo, pmix_op_cbfunc_t done, void *data)
{
    return hc_pmix_upcall_connect(procs, nprocs, info, ninfo, done, data);
}
