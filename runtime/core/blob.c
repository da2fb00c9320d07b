#include "runtime/core/blob.h"

#include <string.h>

enum { BLOB_MAGIC = 0x62636368 /* "hccb" */, BLOB_VERSION = 4 };

struct blob_head {
    uint32_t magic;
    uint16_t version;
    uint16_t num_addresses;
    uint64_t host_id;
    uint32_t pid;
    uint32_t eager_window;
    int32_t numa_node;
    int32_t device;
    uint16_t hostname_len;
    uint16_t cpuset_len;
    uint32_t device_pid;
    int32_t nic_distance;
    uint32_t reserved;
};
_Static_assert(sizeof(struct blob_head) == 48, "wire size");

/* Before each address. */
struct address_head {
    uint16_t addr_len;
    uint8_t name_len;
    uint8_t zero;
};
_Static_assert(sizeof(struct address_head) == 4, "wire size");

/* Bytes not yet written or read. */
struct cursor {
    uint8_t *next;
    size_t left;
};

static bool put_bytes(struct cursor *cursor, const void *bytes, size_t size)
{
    if (size > cursor->left)
        return false;
    if (size)
        (void)memcpy(cursor->next, bytes, size);
    cursor->next += size;
    cursor->left -= size;
    return true;
}

static bool put_address(struct cursor *cursor, const struct hc_blob_address *address)
{
    if (address->addr_len > UINT16_MAX || address->name_len > UINT8_MAX)
        return false;
    const struct address_head head = {
        .addr_len = (uint16_t)address->addr_len,
        .name_len = (uint8_t)address->name_len,
    };
    return put_bytes(cursor, &head, sizeof(head)) && put_bytes(cursor, address->name, address->name_len) &&
           put_bytes(cursor, address->addr, address->addr_len);
}

static bool put_all(struct cursor *cursor, const struct hc_blob *blob)
{
    const struct blob_head head = {
        .magic = BLOB_MAGIC,
        .version = BLOB_VERSION,
        .num_addresses = (uint16_t)blob->num_addresses,
        .host_id = blob->host_id,
        .pid = blob->pid,
        .eager_window = blob->eager_window,
        .numa_node = blob->numa_node,
        .device = blob->device,
        .device_pid = blob->device_pid,
        .nic_distance = blob->nic_distance,
        .hostname_len = (uint16_t)blob->hostname_len,
        .cpuset_len = (uint16_t)blob->cpuset_len,
    };
    bool fits = put_bytes(cursor, &head, sizeof(head)) &&
                put_bytes(cursor, blob->hostname, blob->hostname_len) &&
                put_bytes(cursor, blob->cpuset, blob->cpuset_len);
    for (size_t i = 0; fits && i < blob->num_addresses; i++)
        fits = put_address(cursor, &blob->addresses[i]);
    return fits;
}

hcomm_status_t hc_blob_pack(const struct hc_blob *blob, void *buf, size_t room, size_t *size)
{
    struct cursor cursor = {buf, room};
    if (blob->hostname_len > UINT16_MAX || blob->cpuset_len > UINT16_MAX || !put_all(&cursor, blob))
        return hc_error(HCOMM_ERR_LIMIT, "description of this rank needs more than %zu bytes", room);
    *size = room - cursor.left;
    return HCOMM_OK;
}

struct reader {
    const uint8_t *next;
    size_t left;
};

static bool take(struct reader *reader, size_t size, const void **bytes)
{
    if (size > reader->left)
        return false;
    *bytes = reader->next;
    reader->next += size;
    reader->left -= size;
    return true;
}

static bool take_copy(struct reader *reader, void *dest, size_t size)
{
    const void *bytes = NULL;
    if (!take(reader, size, &bytes))
        return false;
    (void)memcpy(dest, bytes, size);
    return true;
}

static bool take_address(struct reader *reader, struct hc_blob_address *address)
{
    struct address_head head;
    if (!take_copy(reader, &head, sizeof(head)) || head.name_len == 0)
        return false;
    address->name_len = head.name_len;
    address->addr_len = head.addr_len;
    return take(reader, head.name_len, (const void **)&address->name) &&
           take(reader, head.addr_len, &address->addr);
}

static hcomm_status_t malformed(const char *what)
{
    return hc_error(HCOMM_ERR_PROTOCOL,
                    "description of a rank is malformed (%s): are all ranks of one hcomm version?", what);
}

static hcomm_status_t check_head(const struct blob_head *head)
{
    if (head->magic != BLOB_MAGIC)
        return malformed("not one of hcomm");
    if (head->version != BLOB_VERSION)
        return hc_error(HCOMM_ERR_PROTOCOL,
                        "description of a rank has version %u, this library reads %u: use one hcomm "
                        "version for all ranks",
                        head->version, BLOB_VERSION);
    if (head->num_addresses > HC_BLOB_ADDRESSES_MAX)
        return malformed("too many addresses");
    if (head->pid == 0 || head->pid > INT32_MAX)
        return malformed("process id");
    if (head->nic_distance < -1)
        return malformed("distance of the device");
    if (head->device < -1 || head->device_pid > INT32_MAX || (head->device == -1 && head->device_pid))
        return malformed("device");
    return HCOMM_OK;
}

hcomm_status_t hc_blob_parse(const void *bytes, size_t size, struct hc_blob *blob)
{
    struct reader reader = {bytes, size};
    struct blob_head head;
    if (!take_copy(&reader, &head, sizeof(head)))
        return malformed("too short");
    hcomm_status_t status = check_head(&head);
    if (status != HCOMM_OK)
        return status;
    struct hc_blob parsed = {
        .host_id = head.host_id,
        .pid = head.pid,
        .eager_window = head.eager_window,
        .numa_node = head.numa_node,
        .device = head.device,
        .device_pid = head.device_pid,
        .nic_distance = head.nic_distance,
        .hostname_len = head.hostname_len,
        .cpuset_len = head.cpuset_len,
        .num_addresses = head.num_addresses,
    };
    if (!take(&reader, head.hostname_len, (const void **)&parsed.hostname) ||
        !take(&reader, head.cpuset_len, (const void **)&parsed.cpuset))
        return malformed("names");
    for (size_t i = 0; i < parsed.num_addresses; i++)
        if (!take_address(&reader, &parsed.addresses[i]))
            return malformed("addresses");
    if (reader.left)
        return malformed("bytes left over");
    *blob = parsed;
    return HCOMM_OK;
}

const struct hc_blob_address *hc_blob_find(const struct hc_blob *blob, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < blob->num_addresses; i++) {
        const struct hc_blob_address *address = &blob->addresses[i];
        if (address->name_len == length && memcmp(address->name, name, length) == 0)
            return address;
    }
    return NULL;
}
