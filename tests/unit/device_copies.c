/* Copies between all kinds of memory, at once and under way, and failing ones. */
#include "tests/unit/device_open.h"

enum { SIZE = 300000, SMALL = 1000 };

static void *memory(hcomm_handle_t handle, enum hc_place place)
{
    void *ptr = place == HC_PLACE_HOST ? malloc(SIZE) : take(handle, SIZE, place);
    cr_assert_not_null(ptr);
    return ptr;
}

static void give_back(hcomm_handle_t handle, enum hc_place place, void *ptr)
{
    if (place == HC_PLACE_HOST)
        free(ptr);
    else
        cr_assert_eq(hc_device_free(handle->device, ptr), HCOMM_OK);
}

static const struct {
    enum hc_place to, from;
} pairs[] = {
    {HC_PLACE_HOST, HC_PLACE_HOST},   {HC_PLACE_HOST, HC_PLACE_PINNED},   {HC_PLACE_HOST, HC_PLACE_DEVICE},
    {HC_PLACE_PINNED, HC_PLACE_HOST}, {HC_PLACE_PINNED, HC_PLACE_PINNED}, {HC_PLACE_PINNED, HC_PLACE_DEVICE},
    {HC_PLACE_DEVICE, HC_PLACE_HOST}, {HC_PLACE_DEVICE, HC_PLACE_PINNED}, {HC_PLACE_DEVICE, HC_PLACE_DEVICE},
};

Test(device_copies, copy_between_any_two_kinds_of_memory)
{
    hcomm_handle_t handle = open_device(0);
    char *expected = malloc(SIZE), *got = malloc(SIZE);
    for (size_t i = 0; i < hc_array_len(pairs); i++) {
        char *to = memory(handle, pairs[i].to), *from = memory(handle, pairs[i].from);
        fill(expected, SIZE, (unsigned)i);
        cr_assert_eq(hc_copy_any(handle, from, expected, SIZE), HCOMM_OK, "%s", hcomm_error_detail());
        cr_assert_eq(hc_copy_any(handle, to, from, SIZE), HCOMM_OK, "%s", hcomm_error_detail());
        cr_assert_eq(hc_copy_any(handle, got, to, SIZE), HCOMM_OK, "%s", hcomm_error_detail());
        cr_assert(holds(got, SIZE, (unsigned)i), "pair %zu", i);
        give_back(handle, pairs[i].to, to);
        give_back(handle, pairs[i].from, from);
    }
    free(expected);
    free(got);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

static hcomm_status_t run(hcomm_handle_t handle, const struct hc_side *to, const struct hc_side *from,
                          size_t size)
{
    struct hc_device_copy *copy = NULL;
    hcomm_status_t status = hc_device_copy_start(handle->device, to, from, size, &copy);
    while (status == HCOMM_IN_PROGRESS)
        status = hc_device_copy_poll(copy);
    return status;
}

Test(device_copies, copies_under_way_complete_between_any_two_kinds_of_memory)
{
    hcomm_handle_t handle = open_device(0);
    char *expected = malloc(SIZE), *got = malloc(SIZE);
    for (size_t i = 0; i < hc_array_len(pairs); i++) {
        const struct hc_side to = {memory(handle, pairs[i].to), pairs[i].to, false};
        const struct hc_side from = {memory(handle, pairs[i].from), pairs[i].from, false};
        fill(expected, SIZE, (unsigned)i + 50);
        cr_assert_eq(hc_copy_any(handle, from.ptr, expected, SIZE), HCOMM_OK);
        cr_assert_eq(run(handle, &to, &from, SIZE), HCOMM_OK, "%s", hcomm_error_detail());
        cr_assert_eq(hc_copy_any(handle, got, to.ptr, SIZE), HCOMM_OK);
        cr_assert(holds(got, SIZE, (unsigned)i + 50), "pair %zu", i);
        give_back(handle, pairs[i].to, to.ptr);
        give_back(handle, pairs[i].from, from.ptr);
    }
    free(expected);
    free(got);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_copies, bounded_number_is_under_way_and_the_next_is_told_to_wait)
{
    (void)setenv("NPUSIM_HOST_LATENCY", "50000000", 1);
    hcomm_handle_t handle = open_device(0);
    const struct hc_side to = {take(handle, SIZE, HC_PLACE_DEVICE), HC_PLACE_DEVICE, false};
    const struct hc_side from = {take(handle, SIZE, HC_PLACE_PINNED), HC_PLACE_PINNED, false};
    struct hc_device_copy *copies[HC_DEVICE_COPIES], *one_more = NULL;
    for (int i = 0; i < HC_DEVICE_COPIES; i++) {
        cr_assert_eq(hc_device_copies_left(handle->device), (unsigned)(HC_DEVICE_COPIES - i));
        cr_assert_eq(hc_device_copy_start(handle->device, &to, &from, SMALL, &copies[i]), HCOMM_IN_PROGRESS);
    }
    cr_assert_eq(hc_device_copy_start(handle->device, &to, &from, SMALL, &one_more), HCOMM_AGAIN);
    cr_assert_null(one_more);
    for (int i = 0; i < HC_DEVICE_COPIES; i++)
        hc_device_copy_end(copies[i]);
    cr_assert_eq(run(handle, &to, &from, SMALL), HCOMM_OK);
    cr_assert_eq(hc_device_copies_left(handle->device), (unsigned)HC_DEVICE_COPIES);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_copies, failed_copy_harms_none_beside_or_after_it)
{
    (void)setenv("NPUSIM_FAULT", "0:copy@2", 1);
    (void)setenv("NPUSIM_HOST_LATENCY", "1000000", 1);
    hcomm_handle_t handle = open_device(0);
    const struct hc_side to = {take(handle, SIZE, HC_PLACE_DEVICE), HC_PLACE_DEVICE, false};
    const struct hc_side from = {take(handle, SIZE, HC_PLACE_PINNED), HC_PLACE_PINNED, false};
    struct hc_device_copy *copies[3];
    int failed = 0;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(hc_device_copy_start(handle->device, &to, &from, SMALL, &copies[i]), HCOMM_IN_PROGRESS);
    for (int i = 0; i < 3; i++) {
        hcomm_status_t status;
        while ((status = hc_device_copy_poll(copies[i])) == HCOMM_IN_PROGRESS)
            continue;
        failed += status == HCOMM_ERR_IO;
        cr_assert(status == HCOMM_OK || status == HCOMM_ERR_IO);
    }
    cr_assert_eq(failed, 1);
    cr_assert(
        strstr(hcomm_error_detail(), "rank 0: device 0 (physical 0): copying 1000 bytes from host to device"),
        "%s", hcomm_error_detail());
    cr_assert_eq(run(handle, &to, &from, SMALL), HCOMM_OK, "%s", hcomm_error_detail());
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_copies, lost_device_fails_every_call_and_can_be_closed)
{
    (void)setenv("NPUSIM_FAULT", "0:lost@2", 1);
    hcomm_handle_t handle = open_device(0);
    const struct hc_side to = {take(handle, SIZE, HC_PLACE_DEVICE), HC_PLACE_DEVICE, false};
    const struct hc_side from = {take(handle, SIZE, HC_PLACE_PINNED), HC_PLACE_PINNED, false};
    cr_assert_eq(run(handle, &to, &from, SMALL), HCOMM_OK);
    cr_assert_eq(run(handle, &to, &from, SMALL), HCOMM_ERR_IO);
    cr_assert(strstr(hcomm_error_detail(), "device 0"), "%s", hcomm_error_detail());
    cr_assert_eq(run(handle, &to, &from, SMALL), HCOMM_ERR_IO);
    cr_assert_eq(hc_device_copy(handle->device, &to, &from, SMALL), HCOMM_ERR_IO);
    cr_assert(strstr(hcomm_error_detail(), "lost"), "%s", hcomm_error_detail());
    (void)hcomm_finalize(handle);
}

Test(device_copies, memory_is_filled_with_a_byte)
{
    hcomm_handle_t handle = open_device(0);
    unsigned char got[SMALL];
    const struct hc_side to = {take(handle, SMALL, HC_PLACE_DEVICE), HC_PLACE_DEVICE, false};
    cr_assert_eq(hc_device_fill(handle->device, &to, 0x5a, SMALL), HCOMM_OK);
    cr_assert_eq(hc_copy_any(handle, got, to.ptr, SMALL), HCOMM_OK);
    for (size_t i = 0; i < SMALL; i++)
        cr_assert_eq(got[i], 0x5a);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}
