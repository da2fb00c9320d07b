#include "transports/npu/npu.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t npu_addr_len(const struct npu_addr *addr)
{
    return addr->sa.sa_family == AF_INET6 ? sizeof(addr->in6) : sizeof(addr->in);
}

uint32_t npu_addr_format(const struct npu_addr *addr)
{
    return addr->sa.sa_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
}

uint16_t npu_addr_port(const struct npu_addr *addr)
{
    return ntohs(addr->sa.sa_family == AF_INET6 ? addr->in6.sin6_port : addr->in.sin_port);
}

void npu_addr_set_port(struct npu_addr *addr, uint16_t port)
{
    if (addr->sa.sa_family == AF_INET6)
        addr->in6.sin6_port = htons(port);
    else
        addr->in.sin_port = htons(port);
}

int npu_addr_copy(const void *bytes, size_t len, struct npu_addr *addr)
{
    sa_family_t family = AF_UNSPEC;
    struct npu_addr copy = {0};
    if (!bytes || len < sizeof(copy.in))
        return -FI_EINVAL;
    memcpy(&family, (const char *)bytes + offsetof(struct sockaddr, sa_family), sizeof(family));
    if (family == AF_INET)
        memcpy(&copy.in, bytes, sizeof(copy.in));
    else if (family == AF_INET6 && len >= sizeof(copy.in6))
        memcpy(&copy.in6, bytes, sizeof(copy.in6));
    else
        return -FI_EINVAL;
    *addr = copy;
    return 0;
}

static int family_of(uint32_t format)
{
    switch (format) {
    case FI_SOCKADDR_IN:
        return AF_INET;
    case FI_SOCKADDR_IN6:
        return AF_INET6;
    default:
        return AF_UNSPEC;
    }
}

/* getaddrinfo() cuts a number down to 16 bits, which would be another endpoint's port. */
static bool is_no_port(const char *service)
{
    char *end = NULL;
    return service && *service && strtoull(service, &end, 10) > UINT16_MAX && !*end;
}

int npu_addr_resolve(const char *node, const char *service, uint64_t flags, uint32_t format, bool passive,
                     struct npu_addr *addr)
{
    struct addrinfo hints = {
        .ai_family = family_of(format),
        .ai_socktype = SOCK_STREAM,
        .ai_flags = ((flags & FI_NUMERICHOST) ? AI_NUMERICHOST : 0) | (passive ? AI_PASSIVE : 0),
    };
    struct addrinfo *found = NULL;
    if (is_no_port(service)) {
        npu_info(CORE, "service \"%s\": ports end at %d\n", service, UINT16_MAX);
        return -FI_ENODATA;
    }
    int rc = getaddrinfo(node, service, &hints, &found);
    if (rc != 0) {
        npu_info(CORE, "node \"%s\", service \"%s\": %s\n", node ? node : "", service ? service : "",
                 gai_strerror(rc));
        return -FI_ENODATA;
    }
    rc = npu_addr_copy(found->ai_addr, found->ai_addrlen, addr);
    freeaddrinfo(found);
    return rc < 0 ? -FI_ENODATA : 0;
}

bool npu_addr_is_loopback(const struct npu_addr *addr)
{
    if (addr->sa.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
    return ntohl(addr->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool is_wildcard(const struct npu_addr *addr)
{
    if (addr->sa.sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
    return addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
}

static bool is_link_local(const struct npu_addr *addr)
{
    return addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr);
}

static bool same_host_part(const struct npu_addr *a, const struct npu_addr *b)
{
    if (a->sa.sa_family != b->sa.sa_family)
        return false;
    if (a->sa.sa_family == AF_INET6)
        return IN6_ARE_ADDR_EQUAL(&a->in6.sin6_addr, &b->in6.sin6_addr);
    return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
}

/* The address of one interface, where it has one of a family we use. */
static bool interface_addr(const struct ifaddrs *at, struct npu_addr *addr)
{
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP))
        return false;
    size_t len = at->ifa_addr->sa_family == AF_INET6 ? sizeof(addr->in6) : sizeof(addr->in);
    return npu_addr_copy(at->ifa_addr, len, addr) == 0;
}

void npu_addr_default(uint32_t format, struct npu_addr *addr)
{
    struct npu_addr best = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    struct ifaddrs *list = NULL;
    int best_rank = 0;
    if (format == FI_SOCKADDR_IN6)
        best = (struct npu_addr){.in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
    if (getifaddrs(&list) < 0)
        list = NULL;
    for (struct ifaddrs *at = list; at; at = at->ifa_next) {
        struct npu_addr found;
        if (!interface_addr(at, &found) || npu_addr_is_loopback(&found) || is_link_local(&found))
            continue;
        if (family_of(format) != AF_UNSPEC && family_of(format) != found.sa.sa_family)
            continue;
        /* IPv4 first: every program that passes addresses on can print it. */
        int rank = found.sa.sa_family == AF_INET ? 2 : 1;
        if (rank > best_rank) {
            best = found;
            best_rank = rank;
        }
    }
    freeifaddrs(list);
    npu_addr_set_port(&best, 0);
    *addr = best;
}

bool npu_addr_is_local(const struct npu_addr *addr)
{
    struct ifaddrs *list = NULL;
    bool local = npu_addr_is_loopback(addr) || is_wildcard(addr);
    if (local || getifaddrs(&list) < 0)
        return local;
    for (struct ifaddrs *at = list; at && !local; at = at->ifa_next) {
        struct npu_addr own;
        local = interface_addr(at, &own) && same_host_part(&own, addr);
    }
    freeifaddrs(list);
    return local;
}

bool npu_addr_equal(const struct npu_addr *a, const struct npu_addr *b)
{
    return npu_addr_port(a) == npu_addr_port(b) && same_host_part(a, b);
}

size_t npu_addr_print(const struct npu_addr *addr, char *text, size_t len)
{
    char host[INET6_ADDRSTRLEN] = "?";
    int written;
    if (addr->sa.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &addr->in6.sin6_addr, host, sizeof(host));
        written = snprintf(text, len, "fi_sockaddr_in6://[%s]:%u", host, npu_addr_port(addr));
    } else {
        (void)inet_ntop(AF_INET, &addr->in.sin_addr, host, sizeof(host));
        written = snprintf(text, len, "fi_sockaddr_in://%s:%u", host, npu_addr_port(addr));
    }
    return (size_t)written + 1;
}
