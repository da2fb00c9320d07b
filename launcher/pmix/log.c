/* PMIx_Log: texts for standard output and error go the way of the rank's own output. */
#include "launcher/pmix/internal.h"

#include <stdlib.h>
#include <string.h>

struct log_call {
    struct hc_pmix_call base;
    pmix_proc_t proc;
    const pmix_info_t *info;
    size_t count;
    pmix_op_cbfunc_t done;
    void *data;
};

static bool write_one(struct hc_pmix *pmix, const struct hc_rank *rank, const pmix_info_t *info)
{
    enum hc_iof_channel channel = HC_IOF_STDOUT;
    if (strncmp(info->key, PMIX_LOG_STDERR, PMIX_MAX_KEYLEN) == 0)
        channel = HC_IOF_STDERR;
    else if (strncmp(info->key, PMIX_LOG_STDOUT, PMIX_MAX_KEYLEN) != 0)
        return false;
    if (info->value.type != PMIX_STRING || !info->value.data.string)
        return false;
    hc_iof_write(&pmix->launch->iof, rank->rank, channel, info->value.data.string,
                 strlen(info->value.data.string));
    return true;
}

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct log_call *call = hc_container_of(base, struct log_call, base);
    const struct hc_rank *rank = hc_pmix_rank_of(pmix, &call->proc);
    size_t written = 0;
    for (size_t i = 0; rank && i < call->count; i++)
        written += write_one(pmix, rank, &call->info[i]);
    call->done(written > 0 ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED, call->data);
    free(call);
}

void hc_pmix_upcall_log(const pmix_proc_t *client, const pmix_info_t info[], size_t ninfo,
                        const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t done, void *data)
{
    (void)directives;
    (void)ndirs;
    struct log_call *call = malloc(sizeof(*call));
    if (!call) {
        done(PMIX_ERR_NOMEM, data);
        return;
    }
    *call = (struct log_call){
        .base = {.run = run}, .proc = *client, .info = info, .count = ninfo, .done = done, .data = data};
    pmix_status_t status = hc_pmix_post(&call->base);
    if (status != PMIX_SUCCESS)
        done(status, data);
}
