/* IOF for clients: ranks' output to whoever asked (PMIx_IOF_pull), and text for ranks' input (PMIx_IOF_push).
 */
#include "launcher/pmix/internal.h"

#include "runtime/base/log.h"

#include <stdlib.h>
#include <string.h>

struct pull_call {
    struct hc_pmix_call base;
    pmix_iof_channel_t channels;
    bool stop;
    pmix_op_cbfunc_t done;
    void *data;
};

/* Output on its way through the library, which reads it until it is done. */
struct delivery {
    pmix_byte_object_t bytes;
    char data[];
};

static void on_delivered(pmix_status_t status, void *data)
{
    (void)status; /* nobody reads any more: nothing to tell */
    free(data);
}

void hc_pmix_iof_copy(struct hc_iof *iof, uint32_t rank, enum hc_iof_channel channel, const char *data,
                      size_t size)
{
    static const pmix_iof_channel_t channels[] = {
        [HC_IOF_STDOUT] = PMIX_FWD_STDOUT_CHANNEL,
        [HC_IOF_STDERR] = PMIX_FWD_STDERR_CHANNEL,
    };
    (void)iof;
    struct hc_pmix *pmix = hc_pmix_server();
    if (!(pmix->iof_channels & channels[channel]))
        return;
    struct delivery *delivery = malloc(sizeof(*delivery) + size);
    if (!delivery) {
        hc_log_error("no memory to pass on %zu bytes of rank %u's output", size, rank);
        return;
    }
    (void)memcpy(delivery->data, data, size);
    delivery->bytes = (pmix_byte_object_t){.bytes = delivery->data, .size = size};
    pmix_proc_t source;
    PMIX_LOAD_PROCID(&source, pmix->launch->job.name_space, rank);
    pmix_status_t status = PMIx_server_IOF_deliver(&source, channels[channel], &delivery->bytes, NULL, 0,
                                                   on_delivered, delivery);
    if (status != PMIX_SUCCESS)
        on_delivered(status, delivery);
}

/* The library filters by process and client; here only the channels count. */
static void run_pull(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct pull_call *call = hc_container_of(base, struct pull_call, base);
    if (!call->stop)
        pmix->iof_channels |= call->channels;
    pmix->launch->iof.copy = pmix->iof_channels ? hc_pmix_iof_copy : NULL;
    call->done(PMIX_SUCCESS, call->data);
    free(call);
}

pmix_status_t hc_pmix_upcall_iof_pull(const pmix_proc_t procs[], size_t nprocs,
                                      const pmix_info_t directives[], size_t ndirs,
                                      pmix_iof_channel_t channels, pmix_op_cbfunc_t done, void *data)
{
    (void)procs;
    (void)nprocs;
    if (channels & PMIX_FWD_STDIN_CHANNEL)
        return PMIX_ERR_NOT_SUPPORTED;
    struct pull_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct pull_call){.base = {.run = run_pull},
                               .channels = channels,
                               .stop = hc_pmix_find(directives, ndirs, PMIX_IOF_STOP) != NULL,
                               .done = done,
                               .data = data};
    return hc_pmix_post(&call->base);
}

struct push_call {
    struct hc_pmix_call base;
    const pmix_proc_t *targets;
    size_t num_targets;
    const pmix_byte_object_t *bytes;
    pmix_op_cbfunc_t done;
    void *data;
};

static pmix_status_t push_to(struct hc_pmix *pmix, const struct hc_rank *rank,
                             const pmix_byte_object_t *bytes)
{
    size_t taken = 0;
    if (!rank ||
        hc_feed_push(&pmix->launch->iof.feed, rank->rank, bytes->bytes, bytes->size, &taken) != HCOMM_OK)
        return PMIX_ERR_UNREACH;
    return taken == bytes->size ? PMIX_SUCCESS : PMIX_ERR_RESOURCE_BUSY;
}

static void run_push(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct push_call *call = hc_container_of(base, struct push_call, base);
    pmix_status_t status = PMIX_SUCCESS;
    for (size_t i = 0; call->bytes && i < call->num_targets && status == PMIX_SUCCESS; i++)
        status = push_to(pmix, hc_pmix_rank_of(pmix, &call->targets[i]), call->bytes);
    call->done(status, call->data);
    free(call);
}

pmix_status_t hc_pmix_upcall_push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[],
                                        size_t ntargets, const pmix_info_t directives[], size_t ndirs,
                                        const pmix_byte_object_t *bytes, pmix_op_cbfunc_t done, void *data)
{
    (void)source;
    (void)directives;
    (void)ndirs;
    struct push_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct push_call){.base = {.run = run_push},
                               .targets = targets,
                               .num_targets = ntargets,
                               .bytes = bytes,
                               .done = done,
                               .data = data};
    return hc_pmix_post(&call->base);
}
