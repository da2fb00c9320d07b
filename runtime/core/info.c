/* What a context tells about itself: settings, counters, and the libraries it stands on. */
#include "runtime/core/core.h"
#include "runtime/core/device.h"
#include "runtime/topo/topo.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *meaning;
} counter_texts[HC_COUNTER_COUNT] = {
    [HC_COUNTER_EAGER_SENT] = {"eager_sent", "messages sent eagerly, with their payload"},
    [HC_COUNTER_EAGER_RECEIVED] = {"eager_received", "messages received eagerly"},
    [HC_COUNTER_RNDV_SENT] = {"rndv_sent", "messages sent by rendezvous"},
    [HC_COUNTER_RNDV_RECEIVED] = {"rndv_received", "messages received by rendezvous"},
    [HC_COUNTER_RNDV_GET] = {"rndv_get", "rendezvous in which the receiver read the sender's memory"},
    [HC_COUNTER_RNDV_PIPELINE] = {"rndv_pipeline", "rendezvous in which the sender sent pieces"},
    [HC_COUNTER_RNDV_MAPPED] = {"rndv_mapped", "rendezvous through memory mapped by both sides"},
    [HC_COUNTER_BYTES_PLACED] = {"bytes_placed", "bytes that the sender put into a receiver's memory"},
    [HC_COUNTER_LENT] = {"lent", "messages of eager size whose buffer was lent to the receiver"},
    [HC_COUNTER_LENT_BACK] = {"lent_back", "of these, messages taken back and sent"},
    [HC_COUNTER_DEVICE_IMPORTS] = {"device_imports", "times memory of another process's device was mapped"},
    [HC_COUNTER_DEVICE_RDMA] = {"device_rdma", "messages to or from device memory that the network moved"},
    [HC_COUNTER_DEVICE_REGISTRATIONS] = {"device_registrations",
                                         "times device memory was registered with a transport to be kept"},
    [HC_COUNTER_DEVICE_DIRECT] = {"device_direct", "messages received by one copy of the device"},
    [HC_COUNTER_DEVICE_STAGED] = {"device_staged", "messages in pieces from or to device memory, per side"},
    [HC_COUNTER_DEVICE_SMALL] = {"device_small",
                                 "messages sent from device memory after copying them at once"},
    [HC_COUNTER_DEVICE_PIECES] = {"device_pieces",
                                  "pieces of staging memory allocated for messages from or to device memory"},
    [HC_COUNTER_BYTES_SENT] = {"bytes_sent", "payload bytes sent"},
    [HC_COUNTER_BYTES_RECEIVED] = {"bytes_received", "payload bytes received"},
    [HC_COUNTER_SELF_MESSAGES] = {"self_messages", "messages sent to the own rank"},
    [HC_COUNTER_COALESCED_MESSAGES] = {"coalesced_messages", "small messages that travelled gathered"},
    [HC_COUNTER_COALESCED_PACKETS] = {"coalesced_packets", "packets of gathered messages sent"},
    [HC_COUNTER_UNEXPECTED_MESSAGES] = {"unexpected_messages", "messages that came before their receive"},
    [HC_COUNTER_UNEXPECTED_BYTES] = {"unexpected_bytes", "bytes held now for messages without a receive"},
    [HC_COUNTER_UNEXPECTED_BYTES_MAX] = {"unexpected_bytes_max",
                                         "the most bytes ever held for such messages"},
    [HC_COUNTER_CREDIT_STALLS] = {"credit_stalls", "messages that waited because a peer's window was full"},
    [HC_COUNTER_CREDIT_MESSAGES] = {"credit_messages", "messages sent to reopen a peer's window"},
    [HC_COUNTER_QUEUED_BYTES_MAX] = {"queued_bytes_max", "the most bytes ever queued for one peer"},
    [HC_COUNTER_RNDV_INFLIGHT_MAX] = {"rndv_inflight_max", "the most rendezvous ever in flight to one peer"},
    [HC_COUNTER_BANDWIDTH_STALLS] = {"bandwidth_stalls", "sends delayed by bandwidth_limit"},
    [HC_COUNTER_CONNECTIONS] = {"connections", "peers reached"},
    [HC_COUNTER_CONNECT_RETRIES] = {"connect_retries", "further attempts to reach a peer"},
    [HC_COUNTER_SLEEPS] = {"sleeps", "times a waiting thread went to sleep"},
    [HC_COUNTER_WAKEUPS] = {"wakeups", "times a sleeping thread was woken"},
    [HC_COUNTER_MOVES] = {"moves", "times a waiting thread left a processor it shared with its partner"},
    [HC_COUNTER_PEERS_LOST] = {"peers_lost", "peers that died or became unreachable"},
    [HC_COUNTER_TRANSFERS] = {"transfers", "transfers submitted"},
    [HC_COUNTER_TRANSFER_BYTES] = {"transfer_bytes", "bytes of the transfers that are complete"},
    [HC_COUNTER_TRANSFERS_STAGED] = {"transfers_staged", "transfers that passed through staging memory"},
    [HC_COUNTER_STAGING_ALLOCATIONS] = {"staging_allocations",
                                        "pieces of staging memory allocated for transfers"},
};

HCOMM_API const char *hcomm_counter_name(unsigned index, const char **meaning)
{
    if (index >= HC_COUNTER_COUNT)
        return NULL;
    if (meaning)
        *meaning = counter_texts[index].meaning;
    return counter_texts[index].name;
}

HCOMM_API hcomm_status_t hcomm_counter_get(hcomm_handle_t handle, const char *name, uint64_t *value)
{
    if (!handle || !name || !value)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_counter_get: an argument is NULL");
    for (unsigned i = 0; i < HC_COUNTER_COUNT; i++) {
        if (strcmp(counter_texts[i].name, name) == 0) {
            *value = atomic_load_explicit(&handle->counters.value[i], memory_order_relaxed);
            return HCOMM_OK;
        }
    }
    return hc_error(HCOMM_ERR_INVALID, "hcomm_counter_get: no counter is called '%s'", name);
}

HCOMM_API hcomm_status_t hcomm_get_config(hcomm_handle_t handle, hcomm_config_t *config)
{
    if (!handle || !config)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_get_config: an argument is NULL");
    hc_settings_export(&handle->settings, config); /* constant since hcomm_init(): no lock */
    return HCOMM_OK;
}

/* The texts of one setting. */
struct setting_text {
    char range[256], default_value[64], current[64];
};

/* In context->infos: the texts of all settings, made at first use and handed out until the end. */
struct setting_texts {
    struct hc_list link;
    struct setting_text entries[HC_SETTING_COUNT_MAX];
};

static void describe(const struct hc_setting *setting, const struct hc_settings *values,
                     enum hc_setting_origin origin, struct setting_text *text, hcomm_setting_info_t *info)
{
    *info = (hcomm_setting_info_t){
        .name = setting->name,
        .type = hc_setting_type_name(setting->type),
        .range = hc_config_format_range(setting, text->range, sizeof(text->range)),
        .default_value = hc_config_format_default(setting, text->default_value, sizeof(text->default_value)),
        .origin = hc_setting_origin_name(origin),
        .help = setting->help,
    };
    if (setting->type == HC_SETTING_STRING) { /* of any length: the value itself instead of a copy */
        const char *value = *(const char *const *)((const char *)values + setting->offset);
        info->current = value ? value : "";
    } else {
        info->current = hc_config_format(setting, values, text->current, sizeof(text->current));
    }
}

/* What hcomm_init(NULL config) would use. Not thread-safe, as its caller documents. */
static hcomm_status_t describe_without_context(unsigned index, hcomm_setting_info_t *info)
{
    static struct setting_text text;
    struct hc_settings values;
    enum hc_setting_origin origins[HC_SETTING_COUNT_MAX];
    hcomm_status_t status = hc_settings_load(NULL, &values, origins);
    if (status == HCOMM_OK)
        describe(&hc_settings_table.settings[index], &values, origins[index], &text, info);
    return status;
}

/* Lock held. NULL when memory is exhausted. */
static struct setting_texts *texts_of(struct hcomm_context *context)
{
    struct hc_list *node = hc_list_first(&context->infos);
    if (node)
        return hc_list_entry(node, struct setting_texts, link);
    struct setting_texts *texts = calloc(1, sizeof(*texts));
    if (texts)
        hc_list_append(&context->infos, &texts->link);
    return texts;
}

HCOMM_API hcomm_status_t hcomm_setting_get(hcomm_handle_t handle, unsigned index, hcomm_setting_info_t *info)
{
    if (!info || index >= hc_settings_table.count)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_setting_get: no setting number %u, or info is NULL", index);
    if (!handle)
        return describe_without_context(index, info);
    hcomm_status_t status = HCOMM_OK;
    hc_lock_acquire(&handle->lock);
    struct setting_texts *texts = texts_of(handle);
    if (texts)
        describe(&hc_settings_table.settings[index], &handle->settings, handle->origins[index],
                 &texts->entries[index], info);
    else
        status = hc_error(HCOMM_ERR_NO_MEMORY, "hcomm_setting_get: no memory for the texts");
    hc_lock_release(&handle->lock);
    return status;
}

void hc_info_fini(struct hcomm_context *context)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&context->infos)))
        free(hc_list_entry(node, struct setting_texts, link));
}

static const char *own_version(void)
{
    static const char text[] =
        HC_STRING(HCOMM_VERSION_MAJOR) "." HC_STRING(HCOMM_VERSION_MINOR) "." HC_STRING(HCOMM_VERSION_PATCH);
    return text;
}

/* Transports that stand on a library of their own, counted from 0; NULL past the last. */
static const struct hc_transport *transport_with_library(unsigned index)
{
    for (size_t i = 0; hc_transports[i]; i++)
        if (hc_transports[i]->library && index-- == 0)
            return hc_transports[i];
    return NULL;
}

/* Libraries are loaded when first needed, so one may not be there yet. */
static const char *library_of(const struct hc_transport *transport)
{
    const char *text = transport->library();
    return text ? text : "not loaded";
}

HCOMM_API hcomm_status_t hcomm_component_version(hcomm_handle_t handle, unsigned index, const char **name,
                                                 const char **version)
{
    if (!handle || !name || !version)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_component_version: an argument is NULL");
    const char *library = hc_device_library();
    const struct {
        const char *name, *version;
    } fixed[] = {
        {"hcomm", own_version()},
        {"PMIx", handle->job->version},
        {"hwloc", hc_topo_library_version()},
        {"npu", library ? library : "not loaded"},
    };
    if (index < hc_array_len(fixed)) {
        *name = fixed[index].name;
        *version = fixed[index].version;
        return HCOMM_OK;
    }
    const struct hc_transport *transport = transport_with_library(index - (unsigned)hc_array_len(fixed));
    if (!transport)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_component_version: no component number %u", index);
    *name = transport->name;
    *version = library_of(transport);
    return HCOMM_OK;
}
