#include "runtime/core/blob.h"

#include <criterion/criterion.h>
#include <hcomm/types.h>
#include <stdlib.h>
#include <string.h>

static const struct hc_blob sample = {
    .host_id = 0x1122334455667788,
    .pid = 4711,
    .eager_window = 262144,
    .numa_node = -1,
    .device = 3,
    .device_pid = 77,
    .hostname = "node17",
    .hostname_len = 6,
    .cpuset = "0-3,8",
    .cpuset_len = 5,
    .num_addresses = 2,
    .addresses = {{"shm", 3, "abcd", 4}, {"ofi:tcp", 7, "", 0}},
};

static size_t pack(uint8_t *bytes)
{
    size_t size = 0;
    cr_assert_eq(hc_blob_pack(&sample, bytes, HC_BLOB_MAX, &size), HCOMM_OK);
    return size;
}

Test(core_blob, what_is_packed_is_parsed)
{
    uint8_t bytes[HC_BLOB_MAX];
    size_t size = pack(bytes);
    struct hc_blob blob;
    cr_assert_eq(hc_blob_parse(bytes, size, &blob), HCOMM_OK);
    cr_assert(blob.host_id == sample.host_id && blob.pid == sample.pid);
    cr_assert(blob.eager_window == sample.eager_window);
    cr_assert(blob.numa_node == -1 && blob.device == 3 && blob.device_pid == 77);
    cr_assert(blob.hostname_len == 6 && memcmp(blob.hostname, "node17", 6) == 0);
    cr_assert(blob.cpuset_len == 5 && memcmp(blob.cpuset, "0-3,8", 5) == 0);
    const struct hc_blob_address *shm = hc_blob_find(&blob, "shm");
    cr_assert(shm && shm->addr_len == 4 && memcmp(shm->addr, "abcd", 4) == 0);
    cr_assert(hc_blob_find(&blob, "ofi:tcp") && hc_blob_find(&blob, "ofi:tcp")->addr_len == 0);
    cr_assert(!hc_blob_find(&blob, "ofi") && !hc_blob_find(&blob, "ofi:tcp2"));
}

Test(core_blob, every_shorter_or_longer_one_is_refused)
{
    uint8_t bytes[HC_BLOB_MAX + 1];
    size_t size = pack(bytes);
    for (size_t length = 0; length <= size + 1; length++) {
        if (length == size)
            continue;
        uint8_t *exact = malloc(length ? length : 1); /* so that reading too far shows */
        cr_assert(exact);
        bytes[size] = 0;
        memcpy(exact, bytes, length);
        struct hc_blob blob = {.pid = 1};
        cr_assert_eq(hc_blob_parse(exact, length, &blob), HCOMM_ERR_PROTOCOL);
        cr_assert_eq(blob.pid, 1); /* untouched */
        free(exact);
    }
}

Test(core_blob, other_magic_version_and_counts_are_refused)
{
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{0, 0}, {4, 1}, {31, 128}, {39, 128}, {6, 17}, {6, 3}, {6, 1}, {32, 255}, {34, 255}};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        uint8_t bytes[HC_BLOB_MAX];
        size_t size = pack(bytes);
        struct hc_blob blob;
        bytes[changes[i].at] = changes[i].value;
        cr_assert_eq(hc_blob_parse(bytes, size, &blob), HCOMM_ERR_PROTOCOL, "change %zu", i);
    }
}

Test(core_blob, too_little_room_is_an_error)
{
    uint8_t bytes[HC_BLOB_MAX];
    size_t size = pack(bytes), used = 77;
    for (size_t room = 0; room < size; room++)
        cr_assert_eq(hc_blob_pack(&sample, bytes, room, &used), HCOMM_ERR_LIMIT);
    cr_assert_eq(used, 77);
}
