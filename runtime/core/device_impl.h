/* What device.c and device_copy.c share. */
#ifndef HC_DEVICE_IMPL_H
#define HC_DEVICE_IMPL_H

#include "runtime/core/core.h"
#include "runtime/core/device.h"
#include "runtime/core/ranges.h"
#include "runtime/core/staging.h"
#include "transports/npu/acl/table.h"

enum { HC_DEVICE_COPIES = 32 };

/* Kind of a range of device memory that is freed, but that another process still has open, or transfers use.
 */
enum { HC_PLACE_RECALLED = HC_PLACE_DEVICE + 1 };

/* One copy under way, or a stream that waits for the next. */
struct hc_device_copy {
    struct hc_device *device;
    hc_acl_stream_t stream; /* made at first use; NULL again after a failure, which stays on a stream */
    size_t size;
    int kind;
    struct hc_device_copy *next_free;
};

struct hc_device {
    struct hcomm_context *context;
    const struct hc_acl *acl;
    int id, physical;
    atomic_int last_code; /* of the last error; relaxed, no partner */
    atomic_uint sets; /* times it was made current by us: reset as often at the end; relaxed, no partner */
    struct hc_ranges ranges;  /* kind: enum hc_place; data: struct hc_device_block or NULL */
    struct hc_ranges exports; /* device_ipc.c */
    struct hc_list imports;   /* device_import.c */
    unsigned num_imports;
    struct hc_list registrations; /* device_registration.c */
    unsigned num_registrations;
    uint32_t last_keep;        /* numbers of exports */
    unsigned num_recalled;     /* freed, but open elsewhere */
    struct hc_staging staging; /* staged.c: pinned pieces */
    struct hc_pool stage_pool, staged_pool;
    struct hc_device_copy copies[HC_DEVICE_COPIES];
    struct hc_device_copy *free_copy;
    unsigned copies_left;
};

/* The physical number of a visible device. */
int hc_acl_physical(const struct hc_acl *acl, int id);

void hc_device_copies_init(struct hc_device *device);
/* The device is current. */
void hc_device_copies_fini(struct hc_device *device);

#endif
