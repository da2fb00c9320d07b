/* Which transports a process opens, and which of them reaches a peer. */
#include "runtime/core/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ofi is asked only when shared memory may not serve everybody: asking libfabric costs tens of milliseconds.
 */
static bool shm_serves_all(const struct hcomm_context *context)
{
    if (context->job->num_hosts > 1 || context->settings.protocol == HC_PROTOCOL_TCP ||
        context->settings.protocol == HC_PROTOCOL_RDMA)
        return false;
    if (context->job->local_size == 1)
        return true;
    size_t shm = hc_transport_preference(&context->settings, "shm");
    return shm != SIZE_MAX && shm <= hc_transport_preference(&context->settings, "ofi");
}

static bool have_shm(const struct hcomm_context *context)
{
    for (unsigned i = 0; i < context->num_ifaces; i++)
        if (strcmp(context->ifaces[i].resource.name, "shm") == 0)
            return true;
    return false;
}

static bool is_needed(const struct hcomm_context *context, const struct hc_transport *transport)
{
    if (strcmp(transport->name, "shm") == 0)
        return context->job->local_size > 1;
    if (strcmp(transport->name, "ofi") == 0 && shm_serves_all(context))
        return context->job->size > 1 && !have_shm(context);
    return true;
}

static const char *cause_or(const char *cause)
{
    return *cause ? cause : "no reason given";
}

/* A resource that looked usable but does not open is rejected like the others, with its cause. */
static void open_resource(struct hcomm_context *context, struct hc_resource *resource,
                          const struct hc_iface_params *params)
{
    if (context->num_ifaces == HC_IFACE_MAX)
        return;
    struct hc_iface_slot *slot = &context->ifaces[context->num_ifaces];
    hcomm_status_t status = resource->transport->open(resource, params, &slot->iface);
    if (status != HCOMM_OK) {
        resource->usable = false;
        (void)snprintf(resource->reason, sizeof(resource->reason), "does not open: %s",
                       cause_or(hc_error_detail()));
        hc_log_info("transport %s (%s) %s", resource->name, resource->device, resource->reason);
        return;
    }
    slot->resource = *resource;
    slot->quiet = strcmp(resource->name, "self") == 0;
    context->num_ifaces++;
}

static bool name_is_open(const struct hcomm_context *context, const char *name)
{
    for (unsigned i = 0; i < context->num_ifaces; i++)
        if (strcmp(context->ifaces[i].resource.name, name) == 0)
            return true;
    return false;
}

static void open_usable(struct hcomm_context *context, struct hc_resource_list *list,
                        const struct hc_iface_params *params)
{
    for (size_t i = 0; i < list->count; i++) {
        struct hc_resource *resource = &list->entries[i];
        if (!resource->usable) {
            hc_log_debug("transport %s (%s) rejected: %s", resource->name, resource->device,
                         resource->reason);
        } else if (name_is_open(context, resource->name)) {
            hc_log_debug("transport %s (%s) not needed: a better device of it is open", resource->name,
                         resource->device);
        } else {
            open_resource(context, resource, params);
        }
    }
}

/* Why others cannot be reached, for check_reach(): what was rejected, in the order in which it was asked, and
 * the names of what each setting excludes; as much as there is room for. */
struct rejections {
    char text[240];
    char excluded[HC_EXCLUSIONS][64];
};

/* None is told in half. */
static void append_text(char *text, size_t size, const char *added)
{
    size_t used = strlen(text);
    if (used + strlen(added) < size)
        (void)memcpy(text + used, added, strlen(added) + 1);
}

/* What a setting excludes is named only: its own reason would lead away from the setting. */
static void note_rejection(struct rejections *rejections, const struct hc_resource *resource)
{
    char text[320];
    char *names = rejections->excluded[resource->excluded];
    if (resource->excluded) {
        (void)snprintf(text, sizeof(text), "%s%s", *names ? ", " : "", resource->name);
        append_text(names, sizeof(rejections->excluded[0]), text);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s%s%s%s: %s", *rejections->text ? "; " : ": ", resource->name,
                   *resource->device ? " on " : "", resource->device, resource->reason);
    append_text(rejections->text, sizeof(rejections->text), text);
}

/* Whether a resource before this one has the same name, and is excluded with it. */
static bool is_named_already(const struct hc_resource_list *list, size_t i)
{
    for (size_t j = 0; j < i && list->entries[i].excluded; j++)
        if (strcmp(list->entries[j].name, list->entries[i].name) == 0)
            return true;
    return false;
}

static void note_rejections(struct rejections *rejections, const struct hc_resource_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (!list->entries[i].usable && !is_named_already(list, i))
            note_rejection(rejections, &list->entries[i]);
}

/* All of them, the machine's reasons first. */
struct rejections_text {
    char text[440];
};

static struct rejections_text rejections_text(const struct rejections *rejections)
{
    static const char *const variables[HC_EXCLUSIONS] = {
        [HC_EXCLUDED_BY_PROTOCOL] = "HCOMM_PROTOCOL",
        [HC_EXCLUDED_BY_TRANSPORTS] = "HCOMM_TRANSPORTS",
    };
    struct rejections_text all;
    (void)snprintf(all.text, sizeof(all.text), "%s", rejections->text);
    for (size_t i = HC_NOT_EXCLUDED + 1; i < HC_EXCLUSIONS; i++) {
        char part[128];
        if (!*rejections->excluded[i])
            continue;
        (void)snprintf(part, sizeof(part), "%s excluded by %s: %s", *all.text ? ";" : ":", variables[i],
                       rejections->excluded[i]);
        append_text(all.text, sizeof(all.text), part);
    }
    return all;
}

static int by_estimate(const void *left, const void *right)
{
    const struct hc_resource *a = left, *b = right;
    if (a->latency != b->latency)
        return a->latency < b->latency ? -1 : 1;
    return (a->bandwidth < b->bandwidth) - (a->bandwidth > b->bandwidth);
}

/* For hc_select_add_ofi(): what shared memory does not reach, ofi's does not reach, either. */
static void leave_out_shared_memory(struct hc_resource_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct hc_resource *resource = &list->entries[i];
        if (!resource->usable || strcmp(resource->name, "ofi:shm") != 0)
            continue;
        resource->usable = false;
        (void)snprintf(resource->reason, sizeof(resource->reason), "shared memory does not reach every rank");
    }
}

static hcomm_status_t open_transport(struct hcomm_context *context, const struct hc_transport *transport,
                                     const struct hc_iface_params *params, bool beyond_host,
                                     struct rejections *rejections)
{
    struct hc_resource_list *list = calloc(1, sizeof(*list));
    if (!list)
        return hc_error(HCOMM_ERR_NO_MEMORY, "transports: out of memory");
    list->settings = &context->settings;
    list->local_size = context->job->local_size;
    hcomm_status_t status = hc_transport_query_one(transport, list);
    if (status == HCOMM_OK && beyond_host)
        leave_out_shared_memory(list);
    if (status == HCOMM_OK) {
        qsort(list->entries, list->count, sizeof(list->entries[0]), by_estimate);
        open_usable(context, list, params);
        note_rejections(rejections, list);
    }
    free(list);
    return status;
}

/* Position in setting `transports` first, then estimated latency. */
static void sort_ifaces(struct hcomm_context *context)
{
    for (unsigned i = 1; i < context->num_ifaces; i++) {
        for (unsigned j = i; j > 0; j--) {
            struct hc_iface_slot *a = &context->ifaces[j - 1], *b = &context->ifaces[j];
            size_t rank_a = hc_transport_preference(&context->settings, a->resource.name);
            size_t rank_b = hc_transport_preference(&context->settings, b->resource.name);
            if (rank_a < rank_b || (rank_a == rank_b && by_estimate(&a->resource, &b->resource) <= 0))
                break;
            struct hc_iface_slot swap = *a;
            *a = *b;
            *b = swap;
        }
    }
}

static void list_polled(struct hcomm_context *context)
{
    context->num_polled = 0;
    for (unsigned i = 0; i < context->num_ifaces; i++)
        if (!context->ifaces[i].quiet)
            context->polled[context->num_polled++] = context->ifaces[i].iface;
}

void hc_select_poll(struct hcomm_context *context, struct hc_iface_slot *slot)
{
    slot->quiet = false;
    list_polled(context);
}

static hcomm_status_t check_reach(const struct hcomm_context *context, const struct rejections *rejections)
{
    unsigned others = context->num_ifaces - (name_is_open(context, "self") ? 1 : 0);
    if (context->job->size == 1 || others > 0)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_UNREACHABLE,
                    "no transport to other ranks is usable%s; change HCOMM_PROTOCOL or HCOMM_TRANSPORTS; "
                    "hcomm_info --transports tells of all",
                    rejections_text(rejections).text);
}

/* What is wrong in the settings of a transport that is not asked; once per host. */
static void warn_of_settings(const struct hcomm_context *context, const struct hc_transport *transport)
{
    if (context->job->local_rank == 0 && transport->check_settings &&
        transport->check_settings(&context->settings) != HCOMM_OK)
        hc_log_warn("%s; it is not needed here", hc_error_detail());
}

hcomm_status_t hc_select_open(struct hcomm_context *context, const struct hc_iface_params *params)
{
    struct rejections rejections = {0};
    for (size_t i = 0; hc_transports[i]; i++) {
        if (!is_needed(context, hc_transports[i])) {
            warn_of_settings(context, hc_transports[i]);
            continue;
        }
        hcomm_status_t status = open_transport(context, hc_transports[i], params, false, &rejections);
        if (status != HCOMM_OK)
            return status;
    }
    sort_ifaces(context);
    list_polled(context);
    return check_reach(context, &rejections);
}

static const struct hc_transport *find_transport(const char *name)
{
    for (size_t i = 0; hc_transports[i]; i++)
        if (strcmp(hc_transports[i]->name, name) == 0)
            return hc_transports[i];
    return NULL;
}

bool hc_select_allows_ofi(const struct hcomm_context *context)
{
    return find_transport("ofi") && context->job->size > 1 &&
           hc_transport_preference(&context->settings, "ofi") != SIZE_MAX;
}

bool hc_select_may_add_ofi(const struct hcomm_context *context)
{
    const struct hc_transport *ofi = find_transport("ofi");
    for (unsigned i = 0; i < context->num_ifaces; i++)
        if (context->ifaces[i].iface->transport == ofi)
            return false;
    return hc_select_allows_ofi(context);
}

hcomm_status_t hc_select_add_ofi(struct hcomm_context *context, const struct hc_iface_params *params)
{
    struct rejections rejections = {0};
    unsigned before = context->num_ifaces;
    if (!hc_select_may_add_ofi(context))
        return hc_error(HCOMM_ERR_UNREACHABLE, "the setting transports leaves out ofi");
    hcomm_status_t status = open_transport(context, find_transport("ofi"), params, true, &rejections);
    if (status != HCOMM_OK)
        return status;
    if (context->num_ifaces == before)
        return hc_error(HCOMM_ERR_UNREACHABLE, "no other transport is usable%s",
                        rejections_text(&rejections).text);
    list_polled(context);
    return HCOMM_OK;
}

void hc_select_close(struct hcomm_context *context)
{
    context->num_polled = 0;
    while (context->num_ifaces > 0) {
        struct hc_iface *iface = context->ifaces[--context->num_ifaces].iface;
        iface->transport->close(iface);
    }
}

struct hc_iface_slot *hc_select_iface(struct hcomm_context *context, uint32_t rank,
                                      const struct hc_blob *info, const struct hc_iface_slot *after,
                                      const struct hc_blob_address **address)
{
    bool is_self = rank == context->job->rank;
    for (unsigned i = after ? (unsigned)(after - context->ifaces) + 1 : 0; i < context->num_ifaces; i++) {
        struct hc_iface_slot *slot = &context->ifaces[i];
        if (is_self != (strcmp(slot->resource.name, "self") == 0))
            continue;
        const struct hc_blob_address *candidate = hc_blob_find(info, slot->resource.name);
        if (!candidate ||
            !slot->iface->transport->reachable(slot->iface, candidate->addr, candidate->addr_len))
            continue;
        *address = candidate;
        return slot;
    }
    return NULL;
}
