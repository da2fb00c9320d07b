/* The world as this rank sees it, and the transports of this process. */
#include "runtime/core/core.h"
#include "runtime/core/device.h"
#include "runtime/core/select.h"
#include "runtime/topo/topo.h"

#include <stdlib.h>
#include <string.h>

/* What hcomm_get_topology() hands out, with all that it points to. */
struct topology {
    hcomm_topology_t public;
    hcomm_rank_info_t *ranks; /* hostname and cpuset of each are its own allocations */
    int *local_ranks, *remote_ranks;
};

/* The exchange that tells about the ranks; one entry per rank of the world. */
struct survey {
    uint32_t size;
    struct hc_boot_op *ops;
    bool *asked; /* ops[rank] was started */
};

static void free_survey(struct hcomm_context *context, struct survey *survey)
{
    for (uint32_t rank = 0; survey->asked && rank < survey->size; rank++) {
        if (!survey->asked[rank])
            continue;
        hc_boot_op_cancel(context->boot, &survey->ops[rank]);
        free(survey->ops[rank].data);
    }
    free(survey->asked);
    free(survey->ops);
}

/* Own facts are at hand; a peer's are when it was reached before. */
static bool is_known(const struct hcomm_context *context, uint32_t rank)
{
    const struct hc_peer *peer = context->peers[rank];
    return rank == context->job->rank || (peer && peer->blob && peer->info.hostname);
}

static hcomm_status_t ask(struct hcomm_context *context, struct survey *survey)
{
    survey->ops = calloc(survey->size, sizeof(*survey->ops));
    survey->asked = calloc(survey->size, sizeof(*survey->asked));
    if (!survey->ops || !survey->asked)
        return hc_error(HCOMM_ERR_NO_MEMORY, "topology: no memory for %u ranks", survey->size);
    for (uint32_t rank = 0; rank < survey->size; rank++) {
        if (is_known(context, rank))
            continue;
        hcomm_status_t status = hc_boot_get(context->boot, rank, context->key, &survey->ops[rank]);
        if (status != HCOMM_OK)
            return status;
        survey->asked[rank] = true;
    }
    return HCOMM_OK;
}

static bool all_answered(void *arg)
{
    struct survey *survey = arg;
    for (uint32_t rank = 0; rank < survey->size; rank++)
        if (survey->asked[rank] && !hc_boot_op_done(&survey->ops[rank]))
            return false;
    return true;
}

static hcomm_status_t check_answers(const struct survey *survey)
{
    for (uint32_t rank = 0; rank < survey->size; rank++) {
        struct hc_boot_op *op = &survey->ops[rank];
        if (!survey->asked[rank])
            continue;
        if (!hc_boot_op_done(op))
            return hc_error(HCOMM_ERR_TIMEOUT, "topology: rank %u has not started its context yet", rank);
        if (op->status != HCOMM_OK)
            return hc_error(op->status, "topology: rank %u: %s", rank, op->reason);
    }
    return HCOMM_OK;
}

static void describe_self(const struct hcomm_context *context, struct hc_blob *blob)
{
    *blob = (struct hc_blob){
        .device = context->device ? hc_device_physical(context->device) : -1,
        .nic_distance = context->nic_distance,
        .hostname = context->job->hostname,
        .hostname_len = strlen(context->job->hostname),
        .cpuset = context->cpuset,
        .cpuset_len = strlen(context->cpuset),
    };
}

static hcomm_status_t blob_of(struct hcomm_context *context, const struct survey *survey, uint32_t rank,
                              struct hc_blob *blob)
{
    if (survey->asked[rank])
        return hc_blob_parse(survey->ops[rank].data, survey->ops[rank].size, blob);
    if (rank == context->job->rank)
        describe_self(context, blob);
    else
        *blob = context->peers[rank]->info;
    return HCOMM_OK;
}

static const char *transport_of_ep(const struct hcomm_context *context, const struct hc_ep *ep)
{
    for (unsigned i = 0; i < context->num_ifaces; i++)
        if (context->ifaces[i].iface == ep->iface)
            return context->ifaces[i].resource.name;
    return "none";
}

/* What messages to the rank use, or would use. */
static const char *transport_to(struct hcomm_context *context, uint32_t rank, const struct hc_blob *blob)
{
    const struct hc_peer *peer = context->peers[rank];
    if (rank == context->job->rank)
        return "self";
    if (peer && peer->state == HC_PEER_FAILED)
        return "none";
    if (peer && peer->state == HC_PEER_READY)
        return transport_of_ep(context, peer->ep);
    const struct hc_blob_address *address = NULL;
    const struct hc_iface_slot *slot = hc_select_iface(context, rank, blob, NULL, &address);
    return slot ? slot->resource.name : "none";
}

/* Ranks of this host are judged by its hardware, others by what they say about themselves. */
static hcomm_status_t place(struct hcomm_context *context, const struct hc_blob *blob,
                            hcomm_rank_info_t *info)
{
    if (context->host_of[info->rank] != context->host_of[context->job->rank]) {
        info->distance = 1;
        info->locality = HCOMM_LOCALITY_NONE;
        info->numa_node = blob->numa_node;
        return HCOMM_OK;
    }
    info->distance = 0;
    hcomm_status_t status = hc_topo_locality(context->topo, context->cpuset, info->cpuset, &info->locality);
    return status == HCOMM_OK ? hc_topo_numa_node(context->topo, info->cpuset, &info->numa_node) : status;
}

static hcomm_device_link_t device_link(const struct hcomm_context *context, uint32_t rank, int device)
{
    if (!context->device || device < 0)
        return HCOMM_LINK_UNKNOWN;
    if (context->host_of[rank] != context->host_of[context->job->rank])
        return HCOMM_LINK_NETWORK;
    return hc_device_link(context->device, device);
}

static hcomm_status_t describe_rank(struct hcomm_context *context, const struct survey *survey, uint32_t rank,
                                    hcomm_rank_info_t *info)
{
    struct hc_blob blob;
    hcomm_status_t status = blob_of(context, survey, rank, &blob);
    if (status != HCOMM_OK)
        return status;
    info->rank = (int)rank;
    info->host = (int)context->host_of[rank];
    info->hostname = strndup(blob.hostname, blob.hostname_len);
    info->cpuset = strndup(blob.cpuset, blob.cpuset_len);
    if (!info->hostname || !info->cpuset)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for its description");
    info->transport = transport_to(context, rank, &blob);
    info->device = blob.device;
    info->nic_distance = blob.nic_distance;
    info->device_link = device_link(context, rank, blob.device);
    return place(context, &blob, info);
}

static void free_topology(struct topology *topology)
{
    for (int rank = 0; topology->ranks && rank < topology->public.num_ranks; rank++) {
        free((char *)topology->ranks[rank].hostname);
        free((char *)topology->ranks[rank].cpuset);
    }
    free(topology->ranks);
    free(topology->local_ranks);
    free(topology->remote_ranks);
    free(topology);
}

static struct topology *allocate_topology(const struct hcomm_context *context)
{
    struct topology *topology = calloc(1, sizeof(*topology));
    if (!topology)
        return NULL;
    size_t size = context->job->size;
    topology->ranks = calloc(size, sizeof(*topology->ranks));
    topology->local_ranks = calloc(size, sizeof(*topology->local_ranks));
    topology->remote_ranks = calloc(size, sizeof(*topology->remote_ranks));
    topology->public = (hcomm_topology_t){
        .rank = (int)context->job->rank,
        .num_ranks = (int)size,
        .num_hosts = (int)context->job->num_hosts,
        .ranks = topology->ranks,
        .local_ranks = topology->local_ranks,
        .remote_ranks = topology->remote_ranks,
    };
    if (topology->ranks && topology->local_ranks && topology->remote_ranks)
        return topology;
    free_topology(topology);
    return NULL;
}

static void group_ranks(struct topology *topology)
{
    hcomm_topology_t *public = &topology->public;
    for (int rank = 0; rank < public->num_ranks; rank++) {
        if (topology->ranks[rank].distance == 0)
            topology->local_ranks[public->num_local++] = rank;
        else
            topology->remote_ranks[public->num_remote++] = rank;
    }
}

static hcomm_status_t build(struct hcomm_context *context, const struct survey *survey)
{
    struct topology *topology = allocate_topology(context);
    if (!topology)
        return hc_error(HCOMM_ERR_NO_MEMORY, "topology: no memory for %u ranks", context->job->size);
    for (uint32_t rank = 0; rank < context->job->size; rank++) {
        hcomm_status_t status = describe_rank(context, survey, rank, &topology->ranks[rank]);
        if (status != HCOMM_OK) {
            hc_error_prefix("topology: rank %u: ", rank);
            free_topology(topology);
            return status;
        }
    }
    group_ranks(topology);
    context->topology = &topology->public;
    return HCOMM_OK;
}

/* What is there without asking other ranks. */
static hcomm_status_t prepare(struct hcomm_context *context)
{
    if (!hc_context_hosts(context))
        return HCOMM_ERR_BOOTSTRAP;
    return context->topo ? HCOMM_OK : hc_topo_load(&context->topo);
}

/* Lock held, but for the wait inside: another thread may have finished the same meanwhile. */
static hcomm_status_t survey_world(struct hcomm_context *context)
{
    struct survey survey = {.size = context->job->size};
    hcomm_status_t status = prepare(context);
    if (status == HCOMM_OK)
        status = ask(context, &survey);
    if (status == HCOMM_OK) {
        status = hc_wait(context, all_answered, &survey, NULL, context->settings.timeout_ms);
        if (status == HCOMM_OK || status == HCOMM_ERR_TIMEOUT)
            status = check_answers(&survey);
    }
    if (status == HCOMM_OK && !context->topology)
        status = build(context, &survey);
    free_survey(context, &survey);
    return status;
}

HCOMM_API hcomm_status_t hcomm_get_topology(hcomm_handle_t handle, const hcomm_topology_t **topology)
{
    if (!handle || !topology)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_get_topology: an argument is NULL");
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = handle->topology ? HCOMM_OK : survey_world(handle);
    if (status == HCOMM_OK)
        *topology = handle->topology;
    hc_lock_release(&handle->lock);
    return status;
}

struct resources {
    struct hc_resource_list list;
    char texts[HC_RESOURCE_MAX][HC_THRESHOLDS_MAX];
};

/* Lock held. */
static hcomm_status_t query_resources(struct hcomm_context *context)
{
    struct resources *resources = calloc(1, sizeof(*resources));
    if (!resources)
        return hc_error(HCOMM_ERR_NO_MEMORY, "transports: no memory for the list");
    struct hc_resource_list *list = &resources->list;
    list->texts = resources->texts;
    list->settings = &context->settings;
    list->local_size = context->job->local_size;
    hcomm_status_t status = hc_transport_query(list);
    if (status == HCOMM_OK)
        context->resources = list;
    else
        free(resources);
    return status;
}

HCOMM_API hcomm_status_t hcomm_transport_get(hcomm_handle_t handle, unsigned index,
                                             hcomm_transport_info_t *info)
{
    if (!handle || !info)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_transport_get: an argument is NULL");
    hc_lock_acquire(&handle->lock);
    hcomm_status_t status = handle->resources ? HCOMM_OK : query_resources(handle);
    if (status == HCOMM_OK && index >= handle->resources->count) {
        status = hc_error(HCOMM_ERR_INVALID, "hcomm_transport_get: no transport number %u", index);
    } else if (status == HCOMM_OK) {
        const struct hc_resource *resource = &handle->resources->entries[index];
        *info = (hcomm_transport_info_t){
            .name = resource->name,
            .device = resource->device,
            .usable = resource->usable,
            .reason = resource->reason,
            .latency = resource->latency,
            .bandwidth = resource->bandwidth,
            .thresholds = resource->usable && resource->thresholds ? resource->thresholds : "",
        };
    }
    hc_lock_release(&handle->lock);
    return status;
}

void hc_topology_fini(struct hcomm_context *context)
{
    if (context->topology)
        free_topology(hc_container_of(context->topology, struct topology, public));
    context->topology = NULL;
    if (context->resources)
        free(hc_container_of(context->resources, struct resources, list));
    context->resources = NULL;
    hc_topo_free(context->topo);
    context->topo = NULL;
}
