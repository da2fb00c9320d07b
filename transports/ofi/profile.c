#include "transports/ofi/profile.h"

#include <string.h>

const struct hc_ofi_profile hc_ofi_profiles[] = {
    {
        .name = "ofi:verbs",
        .provider = "verbs;ofi_rxm",
        .id = 1,
        .scope = HC_OFI_SCOPE_IP,
        .probe = HC_OFI_PROBE_CLOCK,
        .rdma = true,
        .wait = HC_OFI_WAIT_QUEUE,
        /* A reliable connection completes a write when the peer's adapter has acknowledged it. */
        .put_flags = FI_TRANSMIT_COMPLETE,
        .bcopy_max = 8192,
        .eager_max = 8192 - 64,
        .get_min = 8192,
        .rma_max = (size_t)1 << 30,
        .stripe_min = 1 << 20,
        .rotate_min = SIZE_MAX,
        .receive_buffers = 128,
        .latency = 2e-6,
        .bandwidth = 12e9,
        .overhead = 0.3e-6,
    },
    {
        .name = "ofi:tcp",
        .provider = "net",
        .also_called = "tcp", /* from libfabric 1.18 on, into which net was merged */
        .id = 2,
        .scope = HC_OFI_SCOPE_IP,
        .probe = HC_OFI_PROBE_TCP,
        .wait = HC_OFI_WAIT_DOMAIN,
        .quick_sends = true,
        .put_flags = FI_DELIVERY_COMPLETE,
        .bcopy_max = 65536 + 64,
        .eager_max = 65536,
        .zcopy_min = 4096,
        .gather_max = 8192 + 64,
        .gather_limit = 32768,
        .get_min = 65536,
        /* Pieces of this size, over the rails in turn, take 0.8 of the time of one read over loopback, and of
         * stripes as long as the message allows; half the size costs 1.3 times as much. */
        .rma_max = 512 << 10,
        /* A segment of loopback has 64 KiB, headers included. What exceeds a segment by little waits for a
         * timer where the congestion control paces (BBR), a third of the bandwidth; 256 KiB and more, of many
         * segments, gain nothing. */
        .cut_max = 60 << 10,
        .cut_below = 256 << 10,
        .stripe_min = SIZE_MAX,
        .rotate_min = 256 << 10,
        .receive_buffers = 64,
        .latency = 15e-6,
        .bandwidth = 3e9,
        .overhead = 2e-6,
    },
    {
        /* Slower than net (docs/limits.md). Longer messages, with rxm's header, would exceed its buffer
         * of 16 KiB: it would fetch them, and others would overtake. */
        .name = "ofi:tcp:rxm",
        .provider = "tcp;ofi_rxm",
        .instead_of = "ofi:tcp",
        .id = 5,
        .scope = HC_OFI_SCOPE_IP,
        .probe = HC_OFI_PROBE_TCP,
        .wait = HC_OFI_WAIT_QUEUE,
        .put_flags = FI_DELIVERY_COMPLETE,
        .bcopy_max = 8192,
        .eager_max = 8192 - 64,
        .get_min = 8192,
        .rma_max = 512 << 10,
        .stripe_min = SIZE_MAX,
        .rotate_min = 256 << 10,
        .receive_buffers = 128,
        .latency = 20e-6,
        .bandwidth = 2e9,
        .overhead = 3e-6,
    },
    {
        .name = "ofi:shm",
        .provider = "shm",
        .id = 3,
        .scope = HC_OFI_SCOPE_HOST,
        .probe = HC_OFI_PROBE_PID,
        .wait = HC_OFI_WAIT_NONE,
        .put_flags = FI_DELIVERY_COMPLETE,
        .bcopy_max = 16384,
        .eager_max = 16384 - 64,
        .get_min = 16384,
        .rma_max = (size_t)1 << 30,
        .stripe_min = SIZE_MAX,
        .rotate_min = SIZE_MAX,
        .receive_buffers = 128,
        .latency = 0.8e-6,
        .bandwidth = 6e9,
        .overhead = 0.2e-6,
    },
    {
        .name = "ofi:npu",
        .provider = "npu",
        .id = 4,
        .by_name = true,
        .device_domain = "npu%d",
        .host_domain = "host",
        .device_iface = 0x6e7075,
        .scope = HC_OFI_SCOPE_IP,
        .probe = HC_OFI_PROBE_CLOCK, /* the provider itself tells of peers that are gone */
        .wait = HC_OFI_WAIT_QUEUE,
        .overtakes = true,
        .put_flags = FI_DELIVERY_COMPLETE,
        .bcopy_max = 16384,
        .eager_max = 16384 - 64,
        .get_min = 16384,
        .rma_max = (size_t)1 << 30,
        .stripe_min = SIZE_MAX,
        .rotate_min = SIZE_MAX,
        .receive_buffers = 128,
        /* Of connections to other hosts, which are its reason to be there. */
        .latency = 20e-6,
        .bandwidth = 2.5e9,
        .overhead = 2e-6,
    },
};

const size_t hc_ofi_profile_count = hc_array_len(hc_ofi_profiles);

const char *hc_ofi_resource_name(size_t i)
{
    return i < hc_ofi_profile_count ? hc_ofi_profiles[i].name : NULL;
}

const struct hc_ofi_profile *hc_ofi_profile_find(const char *name)
{
    for (size_t i = 0; i < hc_ofi_profile_count; i++)
        if (!strcmp(hc_ofi_profiles[i].name, name))
            return &hc_ofi_profiles[i];
    return NULL;
}
