/* Event registrations: the library keeps them, and every event of this host passes through it. */
#include "launcher/pmix/internal.h"

pmix_status_t hc_pmix_upcall_register_events(pmix_status_t *codes, size_t ncodes, const pmix_info_t info[],
                                             size_t ninfo, pmix_op_cbfunc_t done, void *data)
{
    (void)codes;
    (void)ncodes;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)data;
    return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t hc_pmix_upcall_deregister_events(pmix_status_t *codes, size_t ncodes, pmix_op_cbfunc_t done,
                                               void *data)
{
    (void)codes;
    (void)ncodes;
    (void)done;
    (void)data;
    return PMIX_OPERATION_SUCCEEDED;
}
