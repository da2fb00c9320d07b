#include "transports/ofi/ofi.h"

#include "runtime/base/log.h"
#include "transports/ofi/netif.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void hints_fill(struct fi_info *hints, uint64_t caps)
{
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
}

static int getinfo(const struct hc_ofi_lib *lib, const struct hc_ofi_profile *profile, uint64_t caps,
                   struct fi_info **infos)
{
    struct hc_ofi_variables variables;
    struct fi_info *hints = lib->dupinfo(NULL);
    if (!hints)
        return -FI_ENOMEM;
    hints_fill(hints, caps);
    hints->fabric_attr->prov_name = strdup(profile->provider);
    int result = -FI_ENOMEM;
    hc_ofi_variables_set(&variables);
    if (hints->fabric_attr->prov_name)
        result = lib->getinfo(HC_OFI_VERSION, NULL, NULL, 0, hints, infos);
    hc_ofi_variables_unset(&variables);
    lib->freeinfo(hints);
    return result;
}

static bool is_internet(const struct fi_info *info)
{
    return info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6 ||
           info->addr_format == FI_SOCKADDR;
}

/* The interface behind an info: for tcp the domain is called after it; for verbs it is not, and may stay so.
 */
static struct hc_netif netif_of(const struct fi_info *info)
{
    struct hc_netif netif = {.name = info->domain_attr->name ? info->domain_attr->name : ""};
    if (is_internet(info) && info->src_addr && info->src_addrlen <= sizeof(netif.address))
        memcpy(&netif.address, info->src_addr, info->src_addrlen);
    netif.bridge = hc_netif_is_bridge(netif.name);
    return netif;
}

/* Ranks of candidates: what is rejected below what is only for one host, IPv6 below IPv4. */
enum { RANK_REJECTED = 0, RANK_LOOPBACK = 2, RANK_USABLE = 4, RANK_IPV4 = 1 };

static void judge_ip(const struct fi_info *info, const char *selector, struct hc_ofi_candidate *candidate)
{
    struct hc_netif netif = netif_of(info);
    const char *reason;
    enum hc_netif_verdict verdict = hc_netif_judge(&netif, selector, &reason);
    char text[INET6_ADDRSTRLEN];
    (void)snprintf(candidate->reason, sizeof(candidate->reason), "%s through provider %s: %s",
                   hc_netif_address_text(&netif.address, text, sizeof(text)), info->fabric_attr->prov_name,
                   reason);
    candidate->usable = verdict != HC_NETIF_REJECTED;
    candidate->rank = verdict == HC_NETIF_USABLE     ? RANK_USABLE
                      : verdict == HC_NETIF_LOOPBACK ? RANK_LOOPBACK
                                                     : RANK_REJECTED;
    if (netif.address.ss_family == AF_INET)
        candidate->rank += RANK_IPV4;
}

static void judge(const struct fi_info *info, const struct hc_ofi_profile *profile, const char *selector,
                  struct hc_ofi_candidate *candidate)
{
    *candidate = (struct hc_ofi_candidate){.usable = true, .rank = RANK_USABLE};
    (void)snprintf(candidate->device, sizeof(candidate->device), "%s",
                   info->domain_attr->name ? info->domain_attr->name : "");
    if (profile->scope == HC_OFI_SCOPE_IP)
        judge_ip(info, selector, candidate);
    else
        (void)snprintf(candidate->reason, sizeof(candidate->reason), "provider %s",
                       info->fabric_attr->prov_name);
}

static struct hc_ofi_candidate *find_device(struct hc_ofi_candidate *candidates, size_t count,
                                            const char *device)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(candidates[i].device, device))
            return &candidates[i];
    return NULL;
}

/* Of the infos of one device keep the best; the first of equals, as libfabric lists the preferred ones first.
 */
static size_t collect(struct fi_info *infos, const struct hc_ofi_profile *profile, const char *selector,
                      struct hc_ofi_candidate *candidates)
{
    size_t count = 0;
    for (struct fi_info *info = infos; info; info = info->next) {
        struct hc_ofi_candidate candidate;
        judge(info, profile, selector, &candidate);
        candidate.info = info;
        struct hc_ofi_candidate *same = find_device(candidates, count, candidate.device);
        if (!same && count < HC_OFI_CANDIDATE_MAX)
            candidates[count++] = candidate;
        else if (same && candidate.rank > same->rank)
            *same = candidate;
    }
    return count;
}

/* The loopback interface is for a machine without any other, or for who asks for it by name. */
static void drop_loopback(struct hc_ofi_candidate *candidates, size_t count)
{
    bool better = false;
    for (size_t i = 0; i < count; i++)
        better = better || candidates[i].rank >= RANK_USABLE;
    for (size_t i = 0; better && i < count; i++)
        if (candidates[i].usable && candidates[i].rank < RANK_USABLE) {
            candidates[i].usable = false;
            (void)snprintf(candidates[i].reason, sizeof(candidates[i].reason),
                           "loopback, and another interface is there, which serves one host as well; "
                           "HCOMM_NET_IF=%s selects it",
                           candidates[i].device);
        }
}

hcomm_status_t hc_ofi_discover(const struct hc_ofi_lib *lib, const struct hc_ofi_profile *profile,
                               const struct hc_settings *settings, struct hc_ofi_candidate *candidates,
                               size_t *count, struct fi_info **infos)
{
    hcomm_status_t status = hc_netif_selector_check(settings->net_if);
    if (status != HCOMM_OK)
        return status;
    struct fi_info *found = NULL;
    int result = getinfo(lib, profile, FI_MSG | FI_RMA, &found);
    if (result == -FI_ENODATA)
        result = getinfo(lib, profile, FI_MSG, &found);
    if (result == -FI_ENODATA)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "libfabric finds no %s device on this machine",
                        profile->provider);
    if (result)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "libfabric cannot list %s: %s", profile->provider,
                        lib->strerror(-result));
    *count = collect(found, profile, settings->net_if, candidates);
    drop_loopback(candidates, *count);
    *infos = found;
    return HCOMM_OK;
}

static void append(struct hc_resource_list *list, const struct hc_ofi_profile *profile,
                   const struct hc_ofi_candidate *candidate)
{
    hc_log_debug("%s %s: %s, %s", profile->name, candidate->device, candidate->usable ? "usable" : "rejected",
                 candidate->reason);
    if (list->count == HC_RESOURCE_MAX) {
        hc_log_warn("more than %d transport resources; %s %s is left out", HC_RESOURCE_MAX, profile->name,
                    candidate->device);
        return;
    }
    struct hc_resource *resource = &list->entries[list->count++];
    *resource = (struct hc_resource){
        .transport = &hc_transport_ofi,
        .usable = candidate->usable,
        .latency = profile->latency,
        .bandwidth = profile->bandwidth,
    };
    (void)snprintf(resource->name, sizeof(resource->name), "%s", profile->name);
    memcpy(resource->device, candidate->device, sizeof(resource->device));
    memcpy(resource->reason, candidate->reason, sizeof(resource->reason));
}

static void append_rejected(struct hc_resource_list *list, const struct hc_ofi_profile *profile)
{
    struct hc_ofi_candidate none = {.usable = false};
    (void)snprintf(none.reason, sizeof(none.reason), "%s", hc_error_detail());
    append(list, profile, &none);
}

static void query_profile(struct hc_resource_list *list, const struct hc_ofi_lib *lib,
                          const struct hc_ofi_profile *profile)
{
    struct hc_ofi_candidate candidates[HC_OFI_CANDIDATE_MAX];
    size_t count;
    struct fi_info *infos;
    if (hc_ofi_discover(lib, profile, list->settings, candidates, &count, &infos) != HCOMM_OK) {
        append_rejected(list, profile);
        return;
    }
    for (size_t i = 0; i < count; i++)
        append(list, profile, &candidates[i]);
    lib->freeinfo(infos);
}

hcomm_status_t hc_ofi_query(struct hc_resource_list *list)
{
    char interfaces[512];
    hcomm_status_t status = hc_netif_selector_check(list->settings->net_if);
    if (status == HCOMM_OK && list->settings->net_if)
        status =
            hc_netif_selector_match(list->settings->net_if, hc_netif_list(interfaces, sizeof(interfaces)));
    if (status != HCOMM_OK)
        return status;
    const struct hc_ofi_lib *lib;
    bool missing = hc_ofi_lib_load(&lib) != HCOMM_OK;
    for (size_t i = 0; i < hc_ofi_profile_count; i++) {
        if (missing)
            append_rejected(list, &hc_ofi_profiles[i]);
        else
            query_profile(list, lib, &hc_ofi_profiles[i]);
    }
    return HCOMM_OK;
}

static uint64_t hash_inode(uint64_t hash, const char *path)
{
    struct stat st = {0};
    if (stat(path, &st) == 0) {
        uint64_t id[2] = {(uint64_t)st.st_dev, (uint64_t)st.st_ino};
        hash = hc_ofi_hash(hash, id, sizeof(id));
    }
    return hash;
}

static uint64_t hash_boot_id(uint64_t hash)
{
    char id[64];
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return hash;
    size_t len = fread(id, 1, sizeof(id), file);
    (void)fclose(file);
    return hc_ofi_hash(hash, id, len);
}

uint64_t hc_ofi_scope_id(enum hc_ofi_scope scope)
{
    uint64_t hash = hash_boot_id(HC_OFI_HASH_START);
    if (scope == HC_OFI_SCOPE_IP)
        return hash_inode(hash, "/proc/self/ns/net");
    return hash_inode(hash_inode(hash, "/proc/self/ns/pid"), "/dev/shm");
}
