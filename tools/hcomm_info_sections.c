#include "tools/hcomm_info_sections.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

hcomm_status_t fill_versions(hcomm_handle_t hcomm, struct table *table)
{
    static const struct column columns[] = {{"component", false}, {"version", false}, {NULL, false}};
    table_init(table, "version", columns);
    const char *name = NULL, *version = NULL;
    hcomm_transport_info_t info;
    hcomm_status_t status = hcomm_transport_get(hcomm, 0, &info); /* loads what transports stand on */
    for (unsigned i = 0; status == HCOMM_OK && hcomm_component_version(hcomm, i, &name, &version) == HCOMM_OK;
         i++)
        table_add(table, (const char *const[]){name, version});
    return status;
}

hcomm_status_t fill_config(hcomm_handle_t hcomm, struct table *table)
{
    static const struct column columns[] = {
        {"name", false},    {"type", false},   {"range", false}, {"default", false},
        {"current", false}, {"origin", false}, {"help", false},  {NULL, false},
    };
    table_init(table, "config", columns);
    hcomm_setting_info_t info;
    for (unsigned i = 0; hcomm_setting_get(hcomm, i, &info) == HCOMM_OK; i++)
        table_add(table, (const char *const[]){info.name, info.type, info.range, info.default_value,
                                               info.current, info.origin, info.help});
    return HCOMM_OK;
}

hcomm_status_t fill_transports(hcomm_handle_t hcomm, struct table *table)
{
    static const struct column columns[] = {
        {"name", false},          {"device", false}, {"usable", false},     {"latency_us", true},
        {"bandwidth_mb_s", true}, {"reason", false}, {"thresholds", false}, {NULL, false},
    };
    table_init(table, "transports", columns);
    table->text_columns--; /* text tells thresholds in lines of their own */
    hcomm_transport_info_t info;
    hcomm_status_t status = hcomm_transport_get(hcomm, 0, &info);
    for (unsigned i = 0; status == HCOMM_OK; status = hcomm_transport_get(hcomm, ++i, &info)) {
        char latency[32], bandwidth[32];
        (void)snprintf(latency, sizeof(latency), "%.2f", info.latency * 1e6);
        (void)snprintf(bandwidth, sizeof(bandwidth), "%.0f", info.bandwidth / 1e6);
        table_add(table, (const char *const[]){info.name, info.device, info.usable ? "yes" : "no", latency,
                                               bandwidth, info.reason, info.thresholds});
    }
    return status == HCOMM_ERR_INVALID ? HCOMM_OK : status; /* invalid: past the last */
}

/* Clauses, each on a line of its own. */
static void print_clauses(const char *text, FILE *out)
{
    static const char separator[] = "; ";
    for (const char *end; (end = strstr(text, separator)); text = end + strlen(separator))
        (void)fprintf(out, "    %.*s\n", (int)(end - text), text);
    (void)fprintf(out, "    %s\n", text);
}

hcomm_status_t print_thresholds(hcomm_handle_t hcomm, FILE *out)
{
    hcomm_transport_info_t info;
    hcomm_status_t status = hcomm_transport_get(hcomm, 0, &info);
    (void)fprintf(out, "which way messages go, by bytes of payload:\n");
    for (unsigned i = 0; status == HCOMM_OK; status = hcomm_transport_get(hcomm, ++i, &info)) {
        if (!*info.thresholds)
            continue;
        (void)fprintf(out, "  %s%s%s\n", info.name, *info.device ? " on " : "", info.device);
        print_clauses(info.thresholds, out);
    }
    return status == HCOMM_ERR_INVALID ? HCOMM_OK : status; /* invalid: past the last */
}

hcomm_status_t fill_counters(hcomm_handle_t hcomm, struct table *table)
{
    static const struct column columns[] = {
        {"name", false}, {"value", true}, {"meaning", false}, {NULL, false}};
    table_init(table, "counters", columns);
    const char *name = NULL, *meaning = NULL;
    for (unsigned i = 0; (name = hcomm_counter_name(i, &meaning)); i++) {
        uint64_t value = 0;
        char text[32];
        hcomm_status_t status = hcomm_counter_get(hcomm, name, &value);
        if (status != HCOMM_OK)
            return status;
        (void)snprintf(text, sizeof(text), "%" PRIu64, value);
        table_add(table, (const char *const[]){name, text, meaning});
    }
    return HCOMM_OK;
}

hcomm_status_t fill_devices(hcomm_handle_t hcomm, struct table *table)
{
    static const struct column columns[] = {
        {"device", true},  {"physical", true}, {"name", false}, {"pci", false},
        {"opened", false}, {"link", false},    {NULL, false},
    };
    table_init(table, "devices", columns);
    hcomm_device_info_t info;
    for (unsigned i = 0; hcomm_device_get(hcomm, i, &info) == HCOMM_OK; i++) {
        char device[16], physical[16];
        (void)snprintf(device, sizeof(device), "%u", i);
        (void)snprintf(physical, sizeof(physical), "%d", info.physical);
        table_add(table,
                  (const char *const[]){device, physical, info.name, *info.pci ? info.pci : "unknown",
                                        info.opened ? "yes" : "no", hcomm_device_link_name(info.link)});
    }
    return HCOMM_OK;
}

hcomm_status_t print_device_library(hcomm_handle_t hcomm, FILE *out)
{
    hcomm_device_info_t info;
    const char *name = NULL, *version = NULL;
    hcomm_status_t status = hcomm_device_get(hcomm, 0, &info);
    if (status != HCOMM_OK)
        (void)fprintf(out, "no devices: %s\n", hcomm_error_detail());
    for (unsigned i = 0; status == HCOMM_OK && hcomm_component_version(hcomm, i, &name, &version) == HCOMM_OK;
         i++)
        if (strcmp(name, "npu") == 0)
            (void)fprintf(out, "device runtime: %s\n", version);
    return HCOMM_OK;
}

static const char *locality_name(hcomm_locality_t locality)
{
    static const char *const names[] = {
        [HCOMM_LOCALITY_HOST] = "host", [HCOMM_LOCALITY_SOCKET] = "socket", [HCOMM_LOCALITY_NUMA] = "numa",
        [HCOMM_LOCALITY_L3] = "l3",     [HCOMM_LOCALITY_L2] = "l2",         [HCOMM_LOCALITY_CORE] = "core",
    };
    return locality == HCOMM_LOCALITY_NONE ? "none" : names[locality];
}

static void add_rank(struct table *table, const hcomm_rank_info_t *info)
{
    char rank[16], host[16], numa[16], distance[16];
    (void)snprintf(rank, sizeof(rank), "%d", info->rank);
    (void)snprintf(host, sizeof(host), "%d", info->host);
    (void)snprintf(numa, sizeof(numa), "%d", info->numa_node);
    (void)snprintf(distance, sizeof(distance), "%d", info->distance);
    char device[16];
    (void)snprintf(device, sizeof(device), "%d", info->device);
    table_add(table, (const char *const[]){rank, host, info->hostname, numa, distance,
                                           locality_name(info->locality), info->transport, device,
                                           hcomm_device_link_name(info->device_link), info->cpuset});
}

hcomm_status_t fill_topology(hcomm_handle_t hcomm, struct table *table)
{
    static const struct column columns[] = {
        {"rank", true},     {"host", true},    {"hostname", false},  {"numa", true},
        {"distance", true}, {"shared", false}, {"transport", false}, {"device", true},
        {"link", false},    {"cpus", false},   {NULL, false},
    };
    table_init(table, "topology", columns);
    const hcomm_topology_t *topology = NULL;
    hcomm_status_t status = hcomm_get_topology(hcomm, &topology);
    for (int i = 0; status == HCOMM_OK && i < topology->num_ranks; i++)
        add_rank(table, &topology->ranks[i]);
    return status;
}

/* The next rank on `host` after `from` that is bound inside NUMA node `numa` (-1: inside none alone). */
static int next_on_node(const hcomm_topology_t *topology, int from, int host, int numa)
{
    for (int rank = from + 1; rank < topology->num_ranks; rank++)
        if (topology->ranks[rank].host == host && topology->ranks[rank].numa_node == numa)
            return rank;
    return -1;
}

/* The smallest NUMA node number above `from` that a rank on `host` has; -2 when there is none. */
static int next_node(const hcomm_topology_t *topology, int host, int from)
{
    int best = -2;
    for (int rank = 0; rank < topology->num_ranks; rank++) {
        int numa = topology->ranks[rank].numa_node;
        if (topology->ranks[rank].host == host && numa > from && (best == -2 || numa < best))
            best = numa;
    }
    return best;
}

static void print_node(const hcomm_topology_t *topology, int host, int numa, const char *host_indent,
                       bool last, FILE *out)
{
    if (numa < 0)
        (void)fprintf(out, "%s%s several NUMA nodes\n", host_indent, last ? "`--" : "|--");
    else
        (void)fprintf(out, "%s%s NUMA node %d\n", host_indent, last ? "`--" : "|--", numa);
    int rank = next_on_node(topology, -1, host, numa);
    while (rank >= 0) {
        const hcomm_rank_info_t *info = &topology->ranks[rank];
        int next = next_on_node(topology, rank, host, numa);
        (void)fprintf(out, "%s%s%s rank %d on processors %s, through %s\n", host_indent,
                      last ? "    " : "|   ", next < 0 ? "`--" : "|--", rank, info->cpuset, info->transport);
        rank = next;
    }
}

static void print_host(const hcomm_topology_t *topology, int host, FILE *out)
{
    bool last = host == topology->num_hosts - 1;
    const char *name = "";
    for (int rank = 0; rank < topology->num_ranks && !*name; rank++)
        if (topology->ranks[rank].host == host)
            name = topology->ranks[rank].hostname;
    (void)fprintf(out, "%s host %d: %s\n", last ? "`--" : "|--", host, name);
    int numa = next_node(topology, host, -2);
    while (numa != -2) {
        int next = next_node(topology, host, numa);
        print_node(topology, host, numa, last ? "    " : "|   ", next == -2, out);
        numa = next;
    }
}

hcomm_status_t print_topology_tree(hcomm_handle_t hcomm, FILE *out)
{
    const hcomm_topology_t *topology = NULL;
    hcomm_status_t status = hcomm_get_topology(hcomm, &topology);
    if (status != HCOMM_OK)
        return status;
    (void)fprintf(out, "job of %d %s on %d %s, as rank %d sees it\n", topology->num_ranks,
                  topology->num_ranks == 1 ? "rank" : "ranks", topology->num_hosts,
                  topology->num_hosts == 1 ? "host" : "hosts", topology->rank);
    for (int host = 0; host < topology->num_hosts; host++)
        print_host(topology, host, out);
    return HCOMM_OK;
}
