/*
 * What a rank publishes about itself in the modex: one packed, versioned blob. Comes from a peer when read:
 * the parser checks every length and is a pure function.
 *
 * Layout, little-endian: struct hc_blob_head, host name, cpuset (not terminated), then per address one byte
 * name length, two bytes address length, name, address.
 */
#ifndef HC_BLOB_H
#define HC_BLOB_H

#include "runtime/base/status.h"

#include <stdint.h>

enum { HC_BLOB_ADDRESSES_MAX = 16, HC_BLOB_MAX = 8192 };

struct hc_blob_address {
    const char *name; /* of the transport resource, e.g. "shm", "ofi:tcp"; name_len bytes, not terminated */
    size_t name_len;
    const void *addr;
    size_t addr_len;
};

/* A parsed blob; pointers go into the parsed bytes. */
struct hc_blob {
    uint64_t host_id; /* equal on equal hosts: hash of boot id and pid name space */
    uint32_t pid;
    uint32_t eager_window; /* bytes a peer may send ahead */
    int32_t numa_node;
    int32_t device;       /* physical device id, -1 = none */
    int32_t nic_distance; /* of the device, in PCIe bridges; -1 = not known */
    uint32_t device_pid;  /* the process, as its device runtime knows it; 0 = none */
    const char *hostname, *cpuset;
    size_t hostname_len, cpuset_len;
    size_t num_addresses;
    struct hc_blob_address addresses[HC_BLOB_ADDRESSES_MAX];
};

/* Write the blob into buf (HC_BLOB_MAX bytes of room); *size is set to what was used. HCOMM_ERR_LIMIT when
 * too small. */
hcomm_status_t hc_blob_pack(const struct hc_blob *blob, void *buf, size_t room, size_t *size) HC_MUST_CHECK;

/* HCOMM_ERR_PROTOCOL with a detail for anything malformed or of another version. */
hcomm_status_t hc_blob_parse(const void *bytes, size_t size, struct hc_blob *blob) HC_MUST_CHECK;

/* The address called `name` (terminated), NULL when the peer has none. */
const struct hc_blob_address *hc_blob_find(const struct hc_blob *blob, const char *name);

#endif
