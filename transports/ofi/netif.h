/*
 * Which network interface to use: the HCOMM_NET_IF selector and the automatic choice. Pure functions over
 * facts that the caller has collected, so that they can be tested with any set of interfaces.
 */
#ifndef HC_OFI_NETIF_H
#define HC_OFI_NETIF_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* One address of one interface. */
struct hc_netif {
    const char *name; /* "eth0" */
    struct sockaddr_storage address;
    bool bridge; /* a software bridge: often carries the same address on several hosts */
};

enum hc_netif_verdict {
    HC_NETIF_REJECTED, /* never: not selected, link-local, no address */
    HC_NETIF_LOOPBACK, /* only where nothing better is there: one host */
    HC_NETIF_USABLE,
};

/*
 * Check a selector: a comma-separated list of interface names and CIDR networks to use, or, each with a
 * leading
 * ^, to leave out. HCOMM_ERR_CONFIG with a detail for an empty element, a bad network, or a mixture of both
 * kinds.
 */
hcomm_status_t hc_netif_selector_check(const char *selector) HC_MUST_CHECK;

/*
 * Whether a checked selector can select anything: it holds a network, leaves out, or names at least one of
 * the interfaces given (names separated by ", "). HCOMM_ERR_CONFIG with a detail that lists those otherwise.
 */
hcomm_status_t hc_netif_selector_match(const char *selector, const char *interfaces) HC_MUST_CHECK;

/* Names of this machine's interfaces, separated by ", ", as far as they fit; returns buf. */
const char *hc_netif_list(char *buf, size_t size);

/*
 * Judge one address against a checked selector (NULL or "": automatic). reason (a static string) says why
 * not, or how it was chosen. A selected loopback or bridge counts as usable.
 */
enum hc_netif_verdict hc_netif_judge(const struct hc_netif *netif, const char *selector, const char **reason);

/*
 * The best address of this machine by the same judgement, without a port: IPv4 before IPv6, loopback where
 * nothing else is there. False: none is allowed; *reason says why the last one is not.
 */
bool hc_netif_choose(const char *selector, struct sockaddr_storage *address, const char **reason);

/* The address without port, in words; returns buf. */
const char *hc_netif_address_text(const struct sockaddr_storage *address, char *buf, size_t size);

/* Whether the kernel calls the interface a bridge. */
bool hc_netif_is_bridge(const char *name);

#endif
