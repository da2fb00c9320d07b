/*
 * What travels between two ofi ifaces: the address blob of the modex and the header of every message. Fixed
 * width, little-endian. Parsing is pure: it trusts nothing in its input and touches nothing else.
 */
#ifndef HC_OFI_WIRE_H
#define HC_OFI_WIRE_H

#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HC_OFI_WIRE_VERSION = 2,
    HC_OFI_NAME_MAX = 128, /* bytes of a provider's address */
    HC_OFI_HEADER_SIZE = 16,
    HC_OFI_RECORD_SIZE = 8,
    HC_OFI_ADDRESS_FIXED = 24,
    HC_OFI_ADDRESS_MAX = HC_OFI_ADDRESS_FIXED + HC_OFI_NAME_MAX,
};

/* Message ids of the transport itself; the runtime's are below. */
enum hc_ofi_id {
    HC_OFI_ID_FIRST = 0xfc,
    /* Payload: u64 job hash, the sender's address blob. Its sequence starts here. */
    HC_OFI_ID_HELLO = 0xfc,
    /* No payload: a message with a completion, behind those that have none. */
    HC_OFI_ID_MARK = 0xfd,
    /* Messages that were sent one after the other, each behind a record head, padded to 8 bytes. */
    HC_OFI_ID_BATCH = 0xfe,
};

/* Kinds of provider addresses (libfabric's FI_SOCKADDR_IN, _IN6, FI_ADDR_STR). */
enum hc_ofi_format { HC_OFI_FORMAT_IPV4 = 1, HC_OFI_FORMAT_IPV6 = 2, HC_OFI_FORMAT_TEXT = 3 };

struct hc_ofi_address {
    uint8_t profile; /* hc_ofi_profile.id */
    uint8_t format;  /* enum hc_ofi_format */
    uint32_t pid;
    uint64_t scope;  /* equal where addresses bound to one machine can be used: see hc_ofi_scope_id() */
    size_t name_len; /* 1 … HC_OFI_NAME_MAX, and what the format needs */
    _Alignas(8) uint8_t name[HC_OFI_NAME_MAX];
};

struct hc_ofi_header {
    uint8_t id;
    uint16_t job;      /* low bits of the job's hash: messages of another job are dropped */
    uint32_t from;     /* world rank */
    uint32_t length;   /* payload bytes, equal to what arrived */
    uint32_t sequence; /* per pair of ranks: shows a message lost with a broken connection */
};

/* Write the blob at dest (HC_OFI_ADDRESS_MAX bytes of room); returns its length. */
size_t hc_ofi_address_pack(const struct hc_ofi_address *address, void *dest);
/* HCOMM_ERR_PROTOCOL, without a detail, when blob is not an address of this version. */
hcomm_status_t hc_ofi_address_parse(const void *blob, size_t len,
                                    struct hc_ofi_address *address) HC_MUST_CHECK;
/* The address in words, cut at size; returns buf. */
const char *hc_ofi_address_text(const struct hc_ofi_address *address, char *buf, size_t size);
/* An internet address of the loopback network. */
bool hc_ofi_address_is_loopback(const struct hc_ofi_address *address);
/* The same host part, whatever the port. */
bool hc_ofi_address_same_host(const struct hc_ofi_address *a, const struct hc_ofi_address *b);

/* Write the header at dest (HC_OFI_HEADER_SIZE bytes). */
void hc_ofi_header_pack(const struct hc_ofi_header *header, void *dest);
/*
 * Read the header of a message of `len` bytes in all. HCOMM_ERR_PROTOCOL, without a detail, for another
 * version, another job, a rank outside the world, or a length that does not match.
 */
hcomm_status_t hc_ofi_header_parse(const void *message, size_t len, uint16_t job, uint32_t world_size,
                                   struct hc_ofi_header *header) HC_MUST_CHECK;

/* One of the messages in a batch. */
struct hc_ofi_record {
    uint8_t id;
    uint32_t length; /* payload bytes, behind the head */
};

/* Bytes that a message takes in a batch: its head, its payload, and what fills that up to 8 bytes. */
static inline size_t hc_ofi_record_size(size_t length)
{
    return HC_OFI_RECORD_SIZE + ((length + 7) & ~(size_t)7);
}

/* Write the head of a message in a batch at dest (HC_OFI_RECORD_SIZE bytes). */
void hc_ofi_record_pack(uint8_t id, size_t length, void *dest);
/* Read the head of the message at the start of the `len` bytes that are left of a batch; false: there is no
 * whole one, or not one of the runtime's. */
bool hc_ofi_record_parse(const void *batch, size_t len, struct hc_ofi_record *record);

/* 64-bit FNV-1a (G. Fowler, L. C. Noll, P. Vo) of len bytes, continuing from `hash`. */
#define HC_OFI_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t hc_ofi_hash(uint64_t hash, const void *data, size_t len);

#endif
