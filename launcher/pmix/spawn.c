/* PMIx_Spawn (MPI_Comm_spawn): the job's ranks are fixed when it starts. */
#include "launcher/pmix/internal.h"

#include "runtime/base/log.h"

pmix_status_t hc_pmix_upcall_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                   const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t done,
                                   void *data)
{
    (void)info;
    (void)ninfo;
    (void)done;
    (void)data;
    hc_log_error(
        "rank %u asked to start '%s' (PMIx_Spawn, MPI_Comm_spawn): hcommrun does not start ranks later; "
        "give all programs on its command line, with ':' between them",
        proc->rank, napps > 0 && apps[0].cmd ? apps[0].cmd : "?");
    return PMIX_ERR_NOT_SUPPORTED;
}
