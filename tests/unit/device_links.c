/* What connects two devices, as a device runtime tells it that knows every kind of link. */
#include "tests/unit/device_open.h"

/* Of device 0 with each of the others: one bit after the other, then several at once, then none. */
static const uint64_t bits_of[] = {
    0,
    HC_ACL_LINK_HCCS,
    HC_ACL_LINK_PIX,
    HC_ACL_LINK_PIB,
    HC_ACL_LINK_PHB,
    HC_ACL_LINK_SYS,
    HC_ACL_LINK_SIO,
    HC_ACL_LINK_HCCS_SW,
    HC_ACL_LINK_PHB | HC_ACL_LINK_PIB | HC_ACL_LINK_SYS,
    HC_ACL_LINK_PIX | HC_ACL_LINK_SIO,
    0,
};

enum { DEVICES = sizeof(bits_of) / sizeof(bits_of[0]), FIRST = 100 /* physical number of device 0 */ };

static int count_devices(uint32_t *count)
{
    *count = DEVICES;
    return HC_ACL_OK;
}

static int number_device(int32_t id, int32_t *physical)
{
    *physical = FIRST + id;
    return HC_ACL_OK;
}

static int tell_links(uint32_t id, uint32_t other, uint64_t *links)
{
    cr_assert_eq(id, 0);
    *links = bits_of[other];
    return HC_ACL_OK;
}

static int tell_nothing(uint32_t id, uint32_t other, uint64_t *links)
{
    (void)id, (void)other, (void)links;
    return HC_ACL_NOT_SUPPORTED;
}

static const struct hc_acl every_link = {.aclrtGetDeviceCount = count_devices,
                                         .aclrtGetPhyDevIdByLogicDevId = number_device,
                                         .aclrtGetDevicesTopo = tell_links};
static const struct hc_acl no_links = {.aclrtGetDeviceCount = count_devices,
                                       .aclrtGetPhyDevIdByLogicDevId = number_device,
                                       .aclrtGetDevicesTopo = tell_nothing};

Test(device_links, every_level_is_told_and_the_closest_of_several)
{
    static const hcomm_device_link_t wanted[DEVICES] = {
        HCOMM_LINK_SAME, HCOMM_LINK_HCCS, HCOMM_LINK_PIX, HCOMM_LINK_PIB, HCOMM_LINK_PHB,    HCOMM_LINK_SYS,
        HCOMM_LINK_SIO,  HCOMM_LINK_HCCS, HCOMM_LINK_PIB, HCOMM_LINK_SIO, HCOMM_LINK_UNKNOWN};
    struct hc_device device = {.acl = &every_link, .id = 0, .physical = FIRST};
    for (int i = 0; i < DEVICES; i++)
        cr_assert_eq(hc_device_link(&device, FIRST + i), wanted[i], "device %d", i);
    cr_assert_eq(hc_device_link(&device, FIRST + DEVICES), HCOMM_LINK_UNKNOWN, "not visible here");
}

Test(device_links, a_runtime_that_does_not_tell_leaves_them_unknown)
{
    struct hc_device device = {.acl = &no_links, .id = 0, .physical = FIRST};
    cr_assert_eq(hc_device_link(&device, FIRST), HCOMM_LINK_SAME);
    cr_assert_eq(hc_device_link(&device, FIRST + 1), HCOMM_LINK_UNKNOWN);
}

Test(device_links, every_level_has_a_name)
{
    static const struct {
        hcomm_device_link_t link;
        const char *name;
    } names[] = {{HCOMM_LINK_SAME, "same"}, {HCOMM_LINK_HCCS, "HCCS"},       {HCOMM_LINK_SIO, "SIO"},
                 {HCOMM_LINK_PIX, "PIX"},   {HCOMM_LINK_PIB, "PIB"},         {HCOMM_LINK_PHB, "PHB"},
                 {HCOMM_LINK_SYS, "SYS"},   {HCOMM_LINK_NETWORK, "network"}, {HCOMM_LINK_UNKNOWN, "unknown"}};
    for (size_t i = 0; i < hc_array_len(names); i++)
        cr_assert_str_eq(hcomm_device_link_name(names[i].link), names[i].name);
}
