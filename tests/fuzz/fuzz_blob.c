/*
 * Descriptions that ranks publish: refused, or every pointer inside the bytes, and packing gives the bytes
 * back but for the fields that must be zero. fuzz-sources: runtime/core/blob.c runtime/base/status.c
 */
#include "runtime/core/blob.h"

#include "tests/fuzz/fuzz.h"

static void check_inside(const void *part, size_t part_size, const uint8_t *whole, size_t size)
{
    const uint8_t *p = part;
    FUZZ_CHECK(part_size == 0 || (p >= whole && p + part_size <= whole + size));
}

static void check_parsed(const struct hc_blob *blob, const uint8_t *bytes, size_t size)
{
    check_inside(blob->hostname, blob->hostname_len, bytes, size);
    check_inside(blob->cpuset, blob->cpuset_len, bytes, size);
    FUZZ_CHECK(blob->num_addresses <= HC_BLOB_ADDRESSES_MAX);
    for (size_t i = 0; i < blob->num_addresses; i++) {
        check_inside(blob->addresses[i].name, blob->addresses[i].name_len, bytes, size);
        check_inside(blob->addresses[i].addr, blob->addresses[i].addr_len, bytes, size);
    }
    (void)hc_blob_find(blob, "shm");
}

static void check_packs_again(const struct hc_blob *blob, size_t size)
{
    size_t packed = 0;
    struct hc_blob again;
    uint8_t *room = malloc(size);
    FUZZ_CHECK(room && hc_blob_pack(blob, room, size, &packed) == HCOMM_OK && packed == size);
    FUZZ_CHECK(hc_blob_parse(room, packed, &again) == HCOMM_OK);
    FUZZ_CHECK(again.pid == blob->pid && again.num_addresses == blob->num_addresses);
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hc_blob blob;
    uint8_t *bytes = malloc(size ? size : 1); /* its end is guarded, the fuzzer's own buffer's is not */
    FUZZ_CHECK(bytes != NULL);
    if (size > 0)
        (void)memcpy(bytes, data, size);
    if (hc_blob_parse(bytes, size, &blob) == HCOMM_OK) {
        check_parsed(&blob, bytes, size);
        check_packs_again(&blob, size);
    }
    free(bytes);
    return 0;
}
