/* Choice of network interfaces: HCOMM_NET_IF, and what is chosen without it. */
#include "transports/ofi/netif.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>

#include "runtime/base/status.h"

static struct hc_netif netif(const char *name, const char *address)
{
    struct hc_netif made = {.name = name};
    struct sockaddr_in *in = (struct sockaddr_in *)&made.address;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&made.address;
    if (inet_pton(AF_INET, address, &in->sin_addr) == 1)
        in->sin_family = AF_INET;
    else if (inet_pton(AF_INET6, address, &in6->sin6_addr) == 1)
        in6->sin6_family = AF_INET6;
    return made;
}

static enum hc_netif_verdict judge(const char *name, const char *address, const char *selector)
{
    struct hc_netif candidate = netif(name, address);
    const char *reason = NULL;
    enum hc_netif_verdict verdict = hc_netif_judge(&candidate, selector, &reason);
    cr_expect_not_null(reason);
    return verdict;
}

Test(ofi_netif, ordinary_address_is_usable)
{
    cr_expect_eq(judge("eth0", "192.0.2.1", NULL), HC_NETIF_USABLE);
    cr_expect_eq(judge("eth0", "fd00::1", ""), HC_NETIF_USABLE);
}

Test(ofi_netif, link_local_is_never_used)
{
    cr_expect_eq(judge("eth0", "fe80::1", NULL), HC_NETIF_REJECTED);
    cr_expect_eq(judge("eth0", "169.254.3.4", NULL), HC_NETIF_REJECTED);
    cr_expect_eq(judge("eth0", "fe80::1", "eth0"), HC_NETIF_REJECTED);
}

Test(ofi_netif, loopback_is_for_one_host_unless_selected)
{
    cr_expect_eq(judge("lo", "127.0.0.1", NULL), HC_NETIF_LOOPBACK);
    cr_expect_eq(judge("lo", "::1", NULL), HC_NETIF_LOOPBACK);
    cr_expect_eq(judge("lo", "127.0.0.1", "lo"), HC_NETIF_USABLE);
    cr_expect_eq(judge("lo", "127.0.0.1", "^eth0"), HC_NETIF_LOOPBACK);
}

Test(ofi_netif, bridge_is_used_only_when_named)
{
    struct hc_netif bridge = netif("docker0", "172.17.0.1");
    const char *reason;
    bridge.bridge = true;
    cr_expect_eq(hc_netif_judge(&bridge, NULL, &reason), HC_NETIF_REJECTED);
    cr_expect_eq(hc_netif_judge(&bridge, "^eth0", &reason), HC_NETIF_REJECTED);
    cr_expect_eq(hc_netif_judge(&bridge, "docker0", &reason), HC_NETIF_USABLE);
}

Test(ofi_netif, selector_takes_names)
{
    cr_expect_eq(judge("eth0", "192.0.2.1", "eth1, eth0"), HC_NETIF_USABLE);
    cr_expect_eq(judge("eth2", "192.0.2.1", "eth1,eth0"), HC_NETIF_REJECTED);
    cr_expect_eq(judge("eth", "192.0.2.1", "eth0"), HC_NETIF_REJECTED);
}

Test(ofi_netif, selector_takes_networks_to_the_bit)
{
    cr_expect_eq(judge("a", "10.1.2.3", "10.0.0.0/8"), HC_NETIF_USABLE);
    cr_expect_eq(judge("a", "11.1.2.3", "10.0.0.0/8"), HC_NETIF_REJECTED);
    cr_expect_eq(judge("a", "192.0.2.129", "192.0.2.128/25"), HC_NETIF_USABLE);
    cr_expect_eq(judge("a", "192.0.2.127", "192.0.2.128/25"), HC_NETIF_REJECTED);
    cr_expect_eq(judge("a", "192.0.2.1", "0.0.0.0/0"), HC_NETIF_USABLE);
    cr_expect_eq(judge("a", "fd00:0:0:1::5", "fd00:0:0:1::/64"), HC_NETIF_USABLE);
    cr_expect_eq(judge("a", "fd00:0:0:2::5", "fd00:0:0:1::/64"), HC_NETIF_REJECTED);
    cr_expect_eq(judge("a", "fd00::5", "10.0.0.0/8"), HC_NETIF_REJECTED);
}

Test(ofi_netif, selector_excludes)
{
    cr_expect_eq(judge("eth0", "192.0.2.1", "^eth1,^10.0.0.0/8"), HC_NETIF_USABLE);
    cr_expect_eq(judge("eth1", "192.0.2.1", "^eth1,^10.0.0.0/8"), HC_NETIF_REJECTED);
    cr_expect_eq(judge("eth0", "10.9.9.9", "^eth1,^10.0.0.0/8"), HC_NETIF_REJECTED);
}

Test(ofi_netif, interface_without_internet_address_is_rejected)
{
    cr_expect_eq(judge("eth0", "", NULL), HC_NETIF_REJECTED);
}

Test(ofi_netif, bad_selector_is_named)
{
    static const char *const bad[] = {"eth0,,eth1", ",",          "^",          "10.0.0.0/33", "10.0.0/8",
                                      "10.0.0.0/",  "fd00::/129", "eth0,^eth1", "10.0.0.0/8x", "/8"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(hc_netif_selector_check(bad[i]), HCOMM_ERR_CONFIG, "%s", bad[i]);
        cr_expect_not_null(strstr(hc_error_detail(), bad[i]), "%s: %s", bad[i], hc_error_detail());
    }
    static const char *const good[] = {"", "eth0", "^eth0,^eth1", "10.0.0.0/8,eth0", "fd00::/64"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_expect_eq(hc_netif_selector_check(good[i]), HCOMM_OK, "%s", good[i]);
    cr_expect_eq(hc_netif_selector_check(NULL), HCOMM_OK);
}

Test(ofi_netif, selector_without_any_existing_interface_is_refused_with_those_there_are)
{
    cr_assert(hc_netif_selector_match("nope", "lo, eth0") == HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), "lo, eth0") && strstr(hc_error_detail(), "nope"));
    cr_assert(hc_netif_selector_match("eth", "lo, eth0") == HCOMM_ERR_CONFIG);
    cr_assert(hc_netif_selector_match("nope,eth0", "lo, eth0") == HCOMM_OK);
    cr_assert(hc_netif_selector_match("lo", "lo, eth0") == HCOMM_OK);
    cr_assert(hc_netif_selector_match("^nope", "lo, eth0") == HCOMM_OK);
    cr_assert(hc_netif_selector_match("10.0.0.0/8", "lo") == HCOMM_OK);
    cr_assert(hc_netif_selector_match(NULL, "") == HCOMM_OK);
}

Test(ofi_netif, list_holds_the_loopback_interface)
{
    char list[256], small[2];
    cr_assert(strstr(hc_netif_list(list, sizeof(list)), "lo"));
    cr_assert(strlen(hc_netif_list(small, sizeof(small))) < sizeof(small));
}

Test(ofi_netif, chosen_address_is_one_that_the_selector_allows)
{
    struct sockaddr_storage address;
    const char *reason = NULL;
    cr_assert(hc_netif_choose("lo", &address, &reason));
    cr_expect(address.ss_family == AF_INET || address.ss_family == AF_INET6);
    cr_expect_str_eq(reason, "selected by HCOMM_NET_IF");
    cr_assert(hc_netif_choose(NULL, &address, &reason));
    cr_assert_not(hc_netif_choose("nope", &address, &reason));
    cr_expect_str_eq(reason, "not selected by HCOMM_NET_IF");
}
