/*
 * PMIx_Notify_event of a rank. The library has told the other ranks of this host already, and there is no
 * other host.
 */
#include "launcher/pmix/internal.h"

#include "runtime/base/log.h"

pmix_status_t hc_pmix_upcall_notify(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                    pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t done, void *data)
{
    (void)range;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)data;
    hc_log_info("rank %u raised event %d", source ? source->rank : PMIX_RANK_UNDEF, code);
    return PMIX_OPERATION_SUCCEEDED;
}
