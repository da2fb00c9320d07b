/*
 * Addresses, message headers and batches of the ofi transport: refused, or within their limits, and packing
 * gives back what was parsed but for the fields that must be zero. fuzz-sources: transports/ofi/wire.c
 * runtime/base/status.c
 */
#include "transports/ofi/wire.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>

enum { WORLD = 5 };

static void check_address(const struct hc_ofi_address *address, const uint8_t *bytes, size_t size)
{
    uint8_t packed[HC_OFI_ADDRESS_MAX];
    char text[64];
    struct hc_ofi_address again;
    FUZZ_CHECK(address->name_len >= 1 && address->name_len <= HC_OFI_NAME_MAX);
    FUZZ_CHECK(hc_ofi_address_pack(address, packed) == size);
    FUZZ_CHECK(memcmp(packed + HC_OFI_ADDRESS_FIXED, bytes + HC_OFI_ADDRESS_FIXED, address->name_len) == 0);
    FUZZ_CHECK(hc_ofi_address_parse(packed, size, &again) == HCOMM_OK);
    FUZZ_CHECK(again.pid == address->pid && again.scope == address->scope && again.format == address->format);
    FUZZ_CHECK(strlen(hc_ofi_address_text(address, text, sizeof(text))) < sizeof(text));
    FUZZ_CHECK(hc_ofi_address_same_host(address, &again));
    (void)hc_ofi_address_is_loopback(address);
}

static void check_header(const struct hc_ofi_header *header, const uint8_t *bytes, size_t size)
{
    uint8_t packed[HC_OFI_HEADER_SIZE];
    FUZZ_CHECK(header->from < WORLD && header->length + HC_OFI_HEADER_SIZE == size);
    hc_ofi_header_pack(header, packed);
    FUZZ_CHECK(memcmp(packed, bytes, sizeof(packed)) == 0);
}

/* Walking through a batch stays inside it and comes to an end. */
static void check_batch(const uint8_t *batch, size_t size)
{
    struct hc_ofi_record record;
    while (hc_ofi_record_parse(batch, size, &record)) {
        FUZZ_CHECK(record.id < HC_OFI_ID_FIRST && record.length <= size - HC_OFI_RECORD_SIZE);
        batch += hc_ofi_record_size(record.length);
        size -= hc_ofi_record_size(record.length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hc_ofi_address address;
    struct hc_ofi_header header;
    uint16_t job = 0;
    if (hc_ofi_address_parse(data, size, &address) == HCOMM_OK)
        check_address(&address, data, size);
    if (size >= 4) /* a header of another job is always refused: take the one it names */
        job = (uint16_t)(data[2] | data[3] << 8);
    if (hc_ofi_header_parse(data, size, job, WORLD, &header) == HCOMM_OK)
        check_header(&header, data, size);
    check_batch(data, size);
    return 0;
}
