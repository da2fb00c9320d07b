#include "runtime/base/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const mode_names[] = {"auto", "small_msg", "large_msg", NULL};
static const char *const protocol_names[] = {"auto", "tcp", "rdma", "shm", NULL};
static const char *const switch_names[] = {"off", "on", NULL};
static const char *const log_names[] = {"error", "warn", "info", "debug", NULL};

#define KIB INT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

#define AT(field) .name = #field, .offset = offsetof(struct hc_settings, field)

static const struct hc_setting settings[] = {
    {AT(mode), .type = HC_SETTING_ENUM, .choices = mode_names,
     .help = "how message sizes choose protocols: small_msg gathers small messages, large_msg always uses "
             "rendezvous"},
    {AT(protocol), .type = HC_SETTING_ENUM, .choices = protocol_names,
     .help =
         "family of transports: the best per pair, libfabric tcp, libfabric verbs, or shared memory only"},
    {AT(bandwidth_limit), .type = HC_SETTING_INT, .min = 1, .max = 1000, .def = 0, .has_special = true,
     .special = 0, .special_text = "no limit",
     .help = "MB/s (10^6 bytes) that a rank may put on its transports"},
    {AT(num_qp), .type = HC_SETTING_INT, .min = 1, .max = 32, .def = 8,
     .help = "endpoints per peer that large messages are striped over (libfabric)"},
    {AT(retry_count), .type = HC_SETTING_INT, .min = 0, .max = 10, .def = 3,
     .help = "further attempts, with doubling pauses, when reaching a peer fails"},
    {AT(timeout_ms), .type = HC_SETTING_INT, .min = 1000, .max = 86400000, .def = 30000,
     .help = "milliseconds without progress after which a wait fails"},
    {AT(buffer_size), .type = HC_SETTING_SIZE, .min = MIB, .max = 64 * MIB, .def = 8 * MIB,
     .help =
         "staging memory for pipelined large messages; as much again for device memory and for transfers"},
    {AT(send_buffer_size), .type = HC_SETTING_SIZE, .min = 64 * KIB, .max = GIB, .def = MIB,
     .help = "bytes of small messages queued per peer before a send waits instead of copying"},
    {AT(recv_buffer_size), .type = HC_SETTING_SIZE, .min = 64 * KIB, .max = GIB, .def = 4 * MIB,
     .help = "eager window: bytes one peer may send ahead of the receives, rendezvous beyond"},
    {AT(buffer_pool_size), .type = HC_SETTING_SIZE, .min = MIB, .max = 64 * GIB, .def = 64 * MIB,
     .help = "bytes of unexpected messages a process holds before it stops granting eager window"},
    {AT(mem_pool_size), .type = HC_SETTING_SIZE, .min = 64 * KIB, .max = 1024 * GIB, .def = 256 * MIB,
     .help = "bytes that hcomm_alloc_host_mem may hand out"},
    {AT(queue_depth), .type = HC_SETTING_INT, .min = 1, .max = 65536, .def = 64,
     .help = "large messages in flight to one peer at a time, and transfers in flight; further ones wait"},
    {AT(align_size), .type = HC_SETTING_SIZE, .min = 8, .max = 2 * MIB, .def = 64, .power_of_two = true,
     .help = "alignment, in bytes, of memory from hcomm"},
    {AT(device_id), .type = HC_SETTING_INT, .min = -1, .max = 1023, .def = -1,
     .help = "NPU to use, -1 for host only"},
    {AT(npu), .type = HC_SETTING_STRING, .def_text = "auto",
     .help = "device runtime: auto (Ascend's, else the simulator), sim, off, or the path of a library"},
    {AT(device_ipc), .type = HC_SETTING_ENUM, .choices = switch_names, .def = 1,
     .help = "device memory is copied straight between devices of a host; off: staged, as between hosts"},
    {AT(progress_thread), .type = HC_SETTING_ENUM, .choices = switch_names,
     .help = "a thread that progresses communication while the application computes"},
    {AT(transports), .type = HC_SETTING_STRING,
     .help =
         "transports to use, in order of preference, e.g. shm,ofi:tcp; empty: all but ofi:npu, best first"},
    {AT(net_if), .type = HC_SETTING_STRING,
     .help = "network interfaces to use: name, CIDR, or ^name to exclude, comma-separated; empty: automatic"},
    {AT(log), .type = HC_SETTING_ENUM, .choices = log_names, .def = 1,
     .help = "which log lines appear on stderr"},
    {AT(fault_connect), .type = HC_SETTING_INT, .min = 0, .max = 1000, .def = 0,
     .help = "testing: let the first N attempts to reach each peer fail"},
};

_Static_assert(hc_array_len(settings) <= HC_SETTING_COUNT_MAX, "grow HC_SETTING_COUNT_MAX");

const struct hc_setting_table hc_settings_table = {
    .prefix = "HCOMM_",
    .settings = settings,
    .count = hc_array_len(settings),
};

/* One non-zero field of the public structure, already turned into the internal encoding. */
struct field {
    const char *name;
    bool given;
    int64_t number;
};

static hcomm_status_t set_fields(const struct field *fields, size_t count, struct hc_settings *values,
                                 enum hc_setting_origin *origins)
{
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].given)
            continue;
        const struct hc_setting *setting = hc_config_find(&hc_settings_table, fields[i].name);
        char where[64];
        (void)snprintf(where, sizeof(where), "hcomm_config_t.%s", fields[i].name);
        hcomm_status_t status = hc_config_set_number(setting, where, fields[i].number, values);
        if (status != HCOMM_OK)
            return status;
        if (origins)
            origins[setting - settings] = HC_ORIGIN_CALL;
    }
    return HCOMM_OK;
}

/* Explicit-zero constants become 0; other values are checked against the table as they are. */
static int64_t explicit_zero(int value, int constant)
{
    return value == constant ? 0 : value;
}

static hcomm_status_t apply_call(const hcomm_config_t *c, struct hc_settings *values,
                                 enum hc_setting_origin *origins)
{
    const struct field fields[] = {
        {"mode", c->mode != 0, (int64_t)c->mode - 1},
        {"protocol", c->protocol != 0, (int64_t)c->protocol - 1},
        {"bandwidth_limit", c->bandwidth_limit != 0,
         explicit_zero(c->bandwidth_limit, HCOMM_BANDWIDTH_UNLIMITED)},
        {"num_qp", c->num_qp != 0, c->num_qp},
        {"retry_count", c->retry_count != 0, explicit_zero(c->retry_count, HCOMM_RETRY_NONE)},
        {"timeout_ms", c->timeout_ms != 0, c->timeout_ms},
        {"buffer_size", c->buffer_size != 0, (int64_t)c->buffer_size},
        {"send_buffer_size", c->send_buffer_size != 0, (int64_t)c->send_buffer_size},
        {"recv_buffer_size", c->recv_buffer_size != 0, (int64_t)c->recv_buffer_size},
        {"buffer_pool_size", c->buffer_pool_size != 0, (int64_t)c->buffer_pool_size},
        {"mem_pool_size", c->mem_pool_size != 0, (int64_t)c->mem_pool_size},
        {"queue_depth", c->queue_depth != 0, c->queue_depth},
        {"align_size", c->align_size != 0, (int64_t)c->align_size},
        {"device_id", c->device_id != 0, c->device_id == HCOMM_DEVICE_NONE ? -1 : (int64_t)c->device_id - 1},
        {"progress_thread", c->progress_thread != 0,
         c->progress_thread == HCOMM_SWITCH_ON    ? 1
         : c->progress_thread == HCOMM_SWITCH_OFF ? 0
                                                  : -1},
    };
    return set_fields(fields, hc_array_len(fields), values, origins);
}

static void apply_strings(const hcomm_config_t *config, struct hc_settings *values,
                          enum hc_setting_origin *origins)
{
    if (config->transports) {
        values->transports = config->transports;
        if (origins)
            origins[hc_config_find(&hc_settings_table, "transports") - settings] = HC_ORIGIN_CALL;
    }
    if (config->net_if) {
        values->net_if = config->net_if;
        if (origins)
            origins[hc_config_find(&hc_settings_table, "net_if") - settings] = HC_ORIGIN_CALL;
    }
}

static hcomm_status_t check_reserved(const hcomm_config_t *config)
{
    for (size_t i = 0; i < hc_array_len(config->reserved); i++)
        if (config->reserved[i])
            return hc_error(HCOMM_ERR_CONFIG,
                            "hcomm_config_t.reserved[%zu] is not zero; zero the whole structure first", i);
    return HCOMM_OK;
}

hcomm_status_t hc_settings_load(const hcomm_config_t *config, struct hc_settings *values,
                                enum hc_setting_origin *origins)
{
    struct hc_settings loaded = {0};
    hc_config_defaults(&hc_settings_table, &loaded, origins);
    hcomm_status_t status = hc_config_read_environment(&hc_settings_table, &loaded, origins);
    if (status != HCOMM_OK)
        return status;
    if (config) {
        status = check_reserved(config);
        if (status != HCOMM_OK)
            return status;
        status = apply_call(config, &loaded, origins);
        if (status != HCOMM_OK)
            return status;
        apply_strings(config, &loaded, origins);
    }
    *values = loaded;
    return HCOMM_OK;
}

static const char **text_of(const struct hc_setting *setting, struct hc_settings *values)
{
    return (const char **)((char *)values + setting->offset);
}

hcomm_status_t hc_settings_copy_texts(struct hc_settings *values)
{
    hcomm_status_t status = HCOMM_OK;
    for (size_t i = 0; i < hc_array_len(settings); i++) {
        const char **text = settings[i].type == HC_SETTING_STRING ? text_of(&settings[i], values) : NULL;
        if (!text || !*text)
            continue;
        *text = strdup(*text);
        if (!*text)
            status = hc_error(HCOMM_ERR_NO_MEMORY, "settings: no memory for %s", settings[i].name);
    }
    return status;
}

void hc_settings_free_texts(struct hc_settings *values)
{
    for (size_t i = 0; i < hc_array_len(settings); i++)
        if (settings[i].type == HC_SETTING_STRING)
            free((void *)*text_of(&settings[i], values));
}

void hc_settings_export(const struct hc_settings *values, hcomm_config_t *config)
{
    *config = (hcomm_config_t){
        .mode = (hcomm_mode_t)(values->mode + 1),
        .protocol = (hcomm_protocol_t)(values->protocol + 1),
        .bandwidth_limit = values->bandwidth_limit ? values->bandwidth_limit : HCOMM_BANDWIDTH_UNLIMITED,
        .num_qp = values->num_qp,
        .retry_count = values->retry_count ? values->retry_count : HCOMM_RETRY_NONE,
        .timeout_ms = values->timeout_ms,
        .buffer_size = values->buffer_size,
        .send_buffer_size = values->send_buffer_size,
        .recv_buffer_size = values->recv_buffer_size,
        .buffer_pool_size = values->buffer_pool_size,
        .mem_pool_size = values->mem_pool_size,
        .queue_depth = values->queue_depth,
        .align_size = values->align_size,
        .device_id = values->device_id < 0 ? HCOMM_DEVICE_NONE : HCOMM_DEVICE(values->device_id),
        .progress_thread = values->progress_thread ? HCOMM_SWITCH_ON : HCOMM_SWITCH_OFF,
        .transports = values->transports,
        .net_if = values->net_if,
    };
}
