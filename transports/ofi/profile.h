/*
 * What differs between the fabrics that the ofi transport runs over, as data. The code has no other place
 * that knows a provider by name.
 */
#ifndef HC_OFI_PROFILE_H
#define HC_OFI_PROFILE_H

#include "transports/transport.h"

#include <rdma/fabric.h>

/* Who can reach whom through addresses of a profile. */
enum hc_ofi_scope {
    HC_OFI_SCOPE_IP,   /* internet addresses: across hosts, loopback inside one network name space */
    HC_OFI_SCOPE_HOST, /* processes that share /dev/shm and see each other's pids */
};

/* How to find out whether the process behind an address still exists when the provider does not say. */
enum hc_ofi_probe {
    HC_OFI_PROBE_TCP,   /* connect to the address: refused means gone */
    HC_OFI_PROBE_PID,   /* signal 0 to the process */
    HC_OFI_PROBE_CLOCK, /* no way: give up when all attempts' time is over */
};

/* Where a descriptor to sleep on comes from. */
enum hc_ofi_wait {
    HC_OFI_WAIT_NONE,  /* the provider has none */
    HC_OFI_WAIT_QUEUE, /* the completion queue's own, with fi_trywait */
    /*
     * A second, unused completion queue's: it shows the domain's network activity. For libfabric 1.17's net,
     * whose fi_trywait does not take back the wake-up token that each completion leaves in its queue's
     * descriptor, so that this one would be readable for ever.
     */
    HC_OFI_WAIT_DOMAIN,
};

struct hc_ofi_profile {
    const char *name; /* of the resource, as in HCOMM_TRANSPORTS */
    /* libfabric's provider string, and what else the same provider is called, asked for when that is not
     * there. */
    const char *provider, *also_called;
    /* Another profile: this one is for where that has no device, and for whoever names it. */
    const char *instead_of;
    uint8_t id;   /* on the wire: addresses of different profiles never meet */
    bool by_name; /* only for whoever names it in HCOMM_TRANSPORTS */
    /*
     * A provider whose domains are devices, which listens at the address that it is told: the domains of the
     * context's device and of a context without one. NULL: its domains are network interfaces.
     */
    const char *device_domain, *host_domain;
    uint32_t
        device_iface; /* its enum fi_hmem_iface for memory of the context's device; 0: host memory only */
    enum hc_ofi_scope scope;
    enum hc_ofi_probe probe;
    bool rdma; /* counts as protocol RDMA; registration is bound by the memlock limit */
    enum hc_ofi_wait wait;
    bool overtakes;     /* receives are matched in order, but may complete in another */
    bool quick_sends;   /* a send is usually complete once it has been posted: look at once */
    uint64_t put_flags; /* completion level at which a put is visible to the peer */
    size_t bcopy_max;   /* header and payload of one message */
    size_t eager_max;   /* see hc_iface_attr */
    size_t zcopy_min;   /* see hc_iface_attr */
    /* Messages of up to gather_max bytes, header and payload, may be gathered into batches of up to
     * gather_limit; 0: none are. */
    size_t gather_max, gather_limit;
    size_t get_min;                      /* see hc_iface_attr */
    size_t rma_max;                      /* see hc_iface_attr */
    /* Transfers of less than cut_below bytes are cut into pieces of at most cut_max, a multiple of 4 KiB, which
     * use the rails in turn. 0: none are. */
    size_t cut_max, cut_below;
    size_t stripe_min;                   /* bytes per endpoint below which striping does not pay */
    size_t rotate_min;                   /* transfers from this size on use the rails in turn */
    size_t receive_buffers;              /* posted receives */
    double latency, bandwidth, overhead; /* s, B/s, s */
};

extern const struct hc_ofi_profile hc_ofi_profiles[];
extern const size_t hc_ofi_profile_count;

/* Name of profile i, NULL after the last. */
const char *hc_ofi_resource_name(size_t i);

/* The profile called `name`, or NULL. */
const struct hc_ofi_profile *hc_ofi_profile_find(const char *name);

#endif
