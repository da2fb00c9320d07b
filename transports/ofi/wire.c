#include "transports/ofi/wire.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { ADDRESS_MAGIC = 0xa7 };

struct address_wire {
    uint8_t magic, version, profile, format;
    uint16_t name_len, reserved;
    uint32_t pid, reserved2;
    uint64_t scope;
    uint8_t name[];
};
_Static_assert(sizeof(struct address_wire) == HC_OFI_ADDRESS_FIXED, "layout is part of the protocol");

struct header_wire {
    uint8_t version, id;
    uint16_t job;
    uint32_t from, length, sequence;
};
_Static_assert(sizeof(struct header_wire) == HC_OFI_HEADER_SIZE, "layout is part of the protocol");

struct record_wire {
    uint32_t length;
    uint8_t id, reserved[3];
};
_Static_assert(sizeof(struct record_wire) == HC_OFI_RECORD_SIZE, "layout is part of the protocol");

uint64_t hc_ofi_hash(uint64_t hash, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

size_t hc_ofi_address_pack(const struct hc_ofi_address *address, void *dest)
{
    struct address_wire wire = {
        .magic = ADDRESS_MAGIC,
        .version = HC_OFI_WIRE_VERSION,
        .profile = address->profile,
        .format = address->format,
        .name_len = htole16((uint16_t)address->name_len),
        .pid = htole32(address->pid),
        .scope = htole64(address->scope),
    };
    memcpy(dest, &wire, sizeof(wire));
    memcpy((char *)dest + sizeof(wire), address->name, address->name_len);
    return sizeof(wire) + address->name_len;
}

/* Whether the provider can be handed the name without reading beyond it. */
static bool name_valid(const struct hc_ofi_address *address)
{
    sa_family_t family;
    memcpy(&family, address->name, sizeof(family));
    switch (address->format) {
    case HC_OFI_FORMAT_IPV4:
        return address->name_len == sizeof(struct sockaddr_in) && family == AF_INET;
    case HC_OFI_FORMAT_IPV6:
        return address->name_len == sizeof(struct sockaddr_in6) && family == AF_INET6;
    case HC_OFI_FORMAT_TEXT:
        return memchr(address->name, '\0', address->name_len) == address->name + address->name_len - 1;
    default:
        return false;
    }
}

hcomm_status_t hc_ofi_address_parse(const void *blob, size_t len, struct hc_ofi_address *address)
{
    struct address_wire wire;
    if (len < sizeof(wire))
        return HCOMM_ERR_PROTOCOL;
    memcpy(&wire, blob, sizeof(wire));
    struct hc_ofi_address parsed = {
        .profile = wire.profile,
        .format = wire.format,
        .pid = le32toh(wire.pid),
        .scope = le64toh(wire.scope),
        .name_len = le16toh(wire.name_len),
    };
    if (wire.magic != ADDRESS_MAGIC || wire.version != HC_OFI_WIRE_VERSION || parsed.name_len == 0 ||
        parsed.name_len > HC_OFI_NAME_MAX || len != sizeof(wire) + parsed.name_len)
        return HCOMM_ERR_PROTOCOL;
    memcpy(parsed.name, (const char *)blob + sizeof(wire), parsed.name_len);
    if (!name_valid(&parsed))
        return HCOMM_ERR_PROTOCOL;
    *address = parsed;
    return HCOMM_OK;
}

static struct sockaddr_in name_ipv4(const struct hc_ofi_address *address)
{
    struct sockaddr_in in;
    memcpy(&in, address->name, sizeof(in));
    return in;
}

static struct sockaddr_in6 name_ipv6(const struct hc_ofi_address *address)
{
    struct sockaddr_in6 in6;
    memcpy(&in6, address->name, sizeof(in6));
    return in6;
}

const char *hc_ofi_address_text(const struct hc_ofi_address *address, char *buf, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->format == HC_OFI_FORMAT_IPV4) {
        struct sockaddr_in in = name_ipv4(address);
        (void)inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
        (void)snprintf(buf, size, "%s port %u", host, ntohs(in.sin_port));
    } else if (address->format == HC_OFI_FORMAT_IPV6) {
        struct sockaddr_in6 in6 = name_ipv6(address);
        (void)inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host));
        (void)snprintf(buf, size, "%s port %u", host, ntohs(in6.sin6_port));
    } else {
        (void)snprintf(buf, size, "%.*s", (int)address->name_len, (const char *)address->name);
    }
    return buf;
}

bool hc_ofi_address_is_loopback(const struct hc_ofi_address *address)
{
    if (address->format == HC_OFI_FORMAT_IPV4)
        return (ntohl(name_ipv4(address).sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    if (address->format != HC_OFI_FORMAT_IPV6)
        return false;
    struct sockaddr_in6 in6 = name_ipv6(address);
    return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

bool hc_ofi_address_same_host(const struct hc_ofi_address *a, const struct hc_ofi_address *b)
{
    if (a->format != b->format)
        return false;
    if (a->format == HC_OFI_FORMAT_IPV4)
        return name_ipv4(a).sin_addr.s_addr == name_ipv4(b).sin_addr.s_addr;
    if (a->format == HC_OFI_FORMAT_IPV6) {
        struct sockaddr_in6 left = name_ipv6(a), right = name_ipv6(b);
        return IN6_ARE_ADDR_EQUAL(&left.sin6_addr, &right.sin6_addr);
    }
    return a->scope == b->scope;
}

void hc_ofi_header_pack(const struct hc_ofi_header *header, void *dest)
{
    struct header_wire wire = {
        .version = HC_OFI_WIRE_VERSION,
        .id = header->id,
        .job = htole16(header->job),
        .from = htole32(header->from),
        .length = htole32(header->length),
        .sequence = htole32(header->sequence),
    };
    memcpy(dest, &wire, sizeof(wire));
}

hcomm_status_t hc_ofi_header_parse(const void *message, size_t len, uint16_t job, uint32_t world_size,
                                   struct hc_ofi_header *header)
{
    struct header_wire wire;
    if (len < sizeof(wire))
        return HCOMM_ERR_PROTOCOL;
    memcpy(&wire, message, sizeof(wire));
    if (wire.version != HC_OFI_WIRE_VERSION || le16toh(wire.job) != job || le32toh(wire.from) >= world_size ||
        le32toh(wire.length) != len - sizeof(wire))
        return HCOMM_ERR_PROTOCOL;
    *header = (struct hc_ofi_header){
        .id = wire.id,
        .job = job,
        .from = le32toh(wire.from),
        .length = le32toh(wire.length),
        .sequence = le32toh(wire.sequence),
    };
    return HCOMM_OK;
}

void hc_ofi_record_pack(uint8_t id, size_t length, void *dest)
{
    struct record_wire wire = {.length = htole32((uint32_t)length), .id = id};
    memcpy(dest, &wire, sizeof(wire));
}

bool hc_ofi_record_parse(const void *batch, size_t len, struct hc_ofi_record *record)
{
    struct record_wire wire;
    if (len < sizeof(wire))
        return false;
    memcpy(&wire, batch, sizeof(wire));
    *record = (struct hc_ofi_record){.id = wire.id, .length = le32toh(wire.length)};
    return wire.id < HC_OFI_ID_FIRST && hc_ofi_record_size(record->length) <= len;
}
