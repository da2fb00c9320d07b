#include "transports/ofi/netif.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ELEMENT_MAX = 64 };

/* A network in CIDR notation: an address of `len` bytes, of which `bits` count. */
struct network {
    sa_family_t family;
    uint8_t bytes[16];
    unsigned bits;
};

/* Copy the next element of *rest, without blanks, and move on; false at the end. */
static bool next_element(const char **rest, char element[ELEMENT_MAX], bool *too_long)
{
    const char *p = *rest;
    if (!p)
        return false;
    size_t len = strcspn(p, ",");
    *rest = p[len] == ',' ? p + len + 1 : NULL;
    while (len > 0 && *p == ' ')
        p++, len--;
    while (len > 0 && p[len - 1] == ' ')
        len--;
    *too_long = len >= ELEMENT_MAX;
    if (*too_long)
        len = ELEMENT_MAX - 1;
    memcpy(element, p, len);
    element[len] = '\0';
    return true;
}

static bool parse_network(const char *text, struct network *network)
{
    char host[ELEMENT_MAX];
    const char *slash = strchr(text, '/');
    if (!slash || (size_t)(slash - text) >= sizeof(host))
        return false;
    memcpy(host, text, (size_t)(slash - text));
    host[slash - text] = '\0';
    struct network parsed = {.family = strchr(host, ':') ? AF_INET6 : AF_INET};
    char *end;
    unsigned long bits = strtoul(slash + 1, &end, 10);
    if (slash[1] < '0' || slash[1] > '9' || *end || bits > (parsed.family == AF_INET ? 32 : 128) ||
        inet_pton(parsed.family, host, parsed.bytes) != 1)
        return false;
    parsed.bits = (unsigned)bits;
    *network = parsed;
    return true;
}

static const uint8_t *address_bytes(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr;
    return (const uint8_t *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

static bool network_contains(const struct network *network, const struct sockaddr_storage *address)
{
    if (network->family != address->ss_family)
        return false;
    const uint8_t *bytes = address_bytes(address);
    unsigned whole = network->bits / 8, rest = network->bits % 8;
    if (memcmp(bytes, network->bytes, whole) != 0)
        return false;
    return rest == 0 || (bytes[whole] ^ network->bytes[whole]) >> (8 - rest) == 0;
}

static hcomm_status_t check_element(const char *selector, const char *element, bool too_long, int *excludes)
{
    bool exclude = element[0] == '^';
    const char *what = element + exclude;
    struct network network;
    if (*what == '\0')
        return hc_error(HCOMM_ERR_CONFIG,
                        "HCOMM_NET_IF=%s has an empty element; give names or networks, comma-separated",
                        selector);
    if (too_long)
        return hc_error(HCOMM_ERR_CONFIG, "HCOMM_NET_IF=%s: the element %s… is too long", selector, what);
    if (strchr(what, '/') && !parse_network(what, &network))
        return hc_error(HCOMM_ERR_CONFIG, "HCOMM_NET_IF=%s: %s is not a network like 10.0.0.0/8 or fd00::/64",
                        selector, what);
    if (*excludes >= 0 && *excludes != exclude)
        return hc_error(HCOMM_ERR_CONFIG, "HCOMM_NET_IF=%s mixes elements with and without ^; use one kind",
                        selector);
    *excludes = exclude;
    return HCOMM_OK;
}

hcomm_status_t hc_netif_selector_check(const char *selector)
{
    if (!selector || !*selector)
        return HCOMM_OK;
    char element[ELEMENT_MAX];
    bool too_long;
    int excludes = -1;
    for (const char *rest = selector; next_element(&rest, element, &too_long);) {
        hcomm_status_t status = check_element(selector, element, too_long, &excludes);
        if (status != HCOMM_OK)
            return status;
    }
    return HCOMM_OK;
}

/* Whether `name` is an element of the list. */
static bool list_has(const char *list, const char *name)
{
    size_t len = strlen(name);
    while (*list) {
        size_t element = strcspn(list, ",");
        if (element == len && strncmp(list, name, len) == 0)
            return true;
        list += element + strspn(list + element, ", ");
    }
    return false;
}

hcomm_status_t hc_netif_selector_match(const char *selector, const char *interfaces)
{
    if (!selector || !*selector)
        return HCOMM_OK;
    char element[ELEMENT_MAX];
    bool too_long;
    for (const char *rest = selector; next_element(&rest, element, &too_long);)
        if (element[0] == '^' || strchr(element, '/') || list_has(interfaces, element))
            return HCOMM_OK;
    return hc_error(HCOMM_ERR_CONFIG,
                    "HCOMM_NET_IF=%s names no network interface of this machine; there are %s", selector,
                    interfaces);
}

const char *hc_netif_list(char *buf, size_t size)
{
    struct if_nameindex *all = if_nameindex();
    size_t used = 0;
    buf[0] = '\0';
    for (const struct if_nameindex *one = all; one && one->if_name && used < size; one++)
        used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "", one->if_name);
    if (all)
        if_freenameindex(all);
    return buf;
}

static bool element_matches(const char *element, const struct hc_netif *netif)
{
    struct network network;
    if (parse_network(element, &network))
        return network_contains(&network, &netif->address);
    return !strcmp(element, netif->name);
}

/* -1: no selector, 0: left out by it, 1: named by it, 2: not among those it leaves out. */
static int selection(const struct hc_netif *netif, const char *selector)
{
    if (!selector || !*selector)
        return -1;
    char element[ELEMENT_MAX];
    bool too_long, exclude = false;
    for (const char *rest = selector; next_element(&rest, element, &too_long);) {
        exclude = element[0] == '^';
        if (element_matches(element + exclude, netif))
            return exclude ? 0 : 1;
    }
    return exclude ? 2 : 0;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return address_bytes(address)[0] == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static bool is_link_local(const struct sockaddr_storage *address)
{
    const uint8_t *bytes = address_bytes(address);
    if (address->ss_family == AF_INET)
        return bytes[0] == 169 && bytes[1] == 254;
    return IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

enum hc_netif_verdict hc_netif_judge(const struct hc_netif *netif, const char *selector, const char **reason)
{
    if (netif->address.ss_family != AF_INET && netif->address.ss_family != AF_INET6) {
        *reason = "no internet address";
        return HC_NETIF_REJECTED;
    }
    int selected = selection(netif, selector);
    if (selected == 0) {
        *reason = "not selected by HCOMM_NET_IF";
        return HC_NETIF_REJECTED;
    }
    if (is_link_local(&netif->address)) {
        *reason = "a link-local address leads nowhere by itself";
        return HC_NETIF_REJECTED;
    }
    if (selected == 1) {
        *reason = "selected by HCOMM_NET_IF";
        return HC_NETIF_USABLE;
    }
    if (is_loopback(&netif->address)) {
        *reason = "loopback, for ranks of one host";
        return HC_NETIF_LOOPBACK;
    }
    if (netif->bridge) {
        *reason = "a bridge, whose address other hosts may have too; name it in HCOMM_NET_IF to use it";
        return HC_NETIF_REJECTED;
    }
    *reason = "automatic choice";
    return HC_NETIF_USABLE;
}

const char *hc_netif_address_text(const struct sockaddr_storage *address, char *buf, size_t size)
{
    if ((address->ss_family != AF_INET && address->ss_family != AF_INET6) ||
        !inet_ntop(address->ss_family, address_bytes(address), buf, (socklen_t)size))
        (void)snprintf(buf, size, "?");
    return buf;
}

bool hc_netif_is_bridge(const char *name)
{
    char path[64 + IFNAMSIZ];
    if (strlen(name) >= IFNAMSIZ || strchr(name, '/'))
        return false;
    (void)snprintf(path, sizeof(path), "/sys/class/net/%s/bridge", name);
    return access(path, F_OK) == 0;
}

/* One address of the machine; false when the entry has none. */
static bool netif_at(const struct ifaddrs *at, struct hc_netif *netif)
{
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP))
        return false;
    size_t len = at->ifa_addr->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
                 : at->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                       : 0;
    *netif = (struct hc_netif){.name = at->ifa_name};
    (void)memcpy(&netif->address, at->ifa_addr, len);
    netif->bridge = hc_netif_is_bridge(at->ifa_name);
    return len > 0;
}

bool hc_netif_choose(const char *selector, struct sockaddr_storage *address, const char **reason)
{
    struct ifaddrs *all = NULL;
    int best = 0;
    *reason = "there is no network interface with an internet address";
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        struct hc_netif netif;
        const char *why;
        if (!netif_at(at, &netif))
            continue;
        enum hc_netif_verdict verdict = hc_netif_judge(&netif, selector, &why);
        int rank = verdict == HC_NETIF_REJECTED ? 0 : 2 * (int)verdict + (netif.address.ss_family == AF_INET);
        if (rank > best)
            *address = netif.address;
        if (rank > best || !best)
            *reason = why;
        best = rank > best ? rank : best;
    }
    freeifaddrs(all);
    return best > 0;
}
