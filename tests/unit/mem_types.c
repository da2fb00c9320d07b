/* hcomm_mem_alloc() and what works on its memory, with and without a device. */
#include "tests/unit/device_open.h"

enum { SIZE = 100000 };

static const hcomm_memory_type_t types[] = {HCOMM_MEMORY_HOST, HCOMM_MEMORY_HOST_PINNED, HCOMM_MEMORY_DEVICE,
                                            HCOMM_MEMORY_SHARED};

static void *get(hcomm_handle_t handle, size_t size, hcomm_memory_type_t type)
{
    void *ptr = NULL;
    cr_assert_eq(hcomm_mem_alloc(handle, size, type, &ptr), HCOMM_OK, "%s", hcomm_error_detail());
    cr_assert_eq((uintptr_t)ptr % handle->settings.align_size, 0);
    return ptr;
}

static hcomm_handle_t open_host_only(void)
{
    hcomm_handle_t handle = NULL;
    leave_launcher();
    cr_assert_eq(hcomm_init(&handle, NULL), HCOMM_OK);
    return handle;
}

static void check_copies(hcomm_handle_t handle, void *a, void *b, unsigned seed)
{
    unsigned char *expected = malloc(SIZE), *got = malloc(SIZE);
    fill(expected, SIZE, seed);
    cr_assert_eq(hcomm_memcpy(handle, a, expected, SIZE, HCOMM_COPY_AUTO), HCOMM_OK);
    cr_assert_eq(hcomm_memset(handle, b, 0xee, SIZE), HCOMM_OK);
    cr_assert_eq(hcomm_memcpy(handle, got, b, SIZE, HCOMM_COPY_AUTO), HCOMM_OK);
    cr_assert(got[0] == 0xee && got[SIZE - 1] == 0xee);
    cr_assert_eq(hcomm_memcpy(handle, b, a, SIZE, HCOMM_COPY_AUTO), HCOMM_OK);
    cr_assert_eq(hcomm_memcpy(handle, got, b, SIZE, HCOMM_COPY_AUTO), HCOMM_OK);
    cr_assert(holds(got, SIZE, seed));
    free(expected);
    free(got);
}

Test(mem_types, every_type_is_copied_to_every_other_and_aligned)
{
    (void)setenv("HCOMM_ALIGN_SIZE", "65536", 1);
    hcomm_handle_t handle = open_device(1);
    for (unsigned i = 0; i < hc_array_len(types); i++)
        for (unsigned j = 0; j < hc_array_len(types); j++) {
            void *a = get(handle, SIZE, types[i]), *b = get(handle, SIZE, types[j]);
            check_copies(handle, a, b, 4 * i + j);
            cr_assert_eq(hcomm_mem_free(handle, a), HCOMM_OK, "%s", hcomm_error_detail());
            cr_assert_eq(hcomm_mem_free(handle, b), HCOMM_OK, "%s", hcomm_error_detail());
        }
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(mem_types, without_a_device_all_but_device_memory_exists)
{
    hcomm_handle_t handle = open_host_only();
    void *ptr = NULL;
    check_copies(handle, get(handle, SIZE, HCOMM_MEMORY_HOST), get(handle, SIZE, HCOMM_MEMORY_SHARED), 1);
    check_copies(handle, get(handle, SIZE, HCOMM_MEMORY_HOST_PINNED), get(handle, SIZE, HCOMM_MEMORY_HOST),
                 2);
    cr_assert_eq(hcomm_mem_alloc(handle, SIZE, HCOMM_MEMORY_DEVICE, &ptr), HCOMM_ERR_UNSUPPORTED);
    cr_assert(strstr(hcomm_error_detail(), "HCOMM_DEVICE_ID"), "%s", hcomm_error_detail());
    cr_assert_eq(hcomm_memcpy(handle, handle, handle, 1, HCOMM_COPY_HOST_TO_DEVICE), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK); /* frees what is left, as the leak checker sees */
}

Test(mem_types, wrong_arguments_are_refused)
{
    hcomm_handle_t handle = open_device(0);
    void *ptr = NULL;
    char *block = get(handle, SIZE, HCOMM_MEMORY_HOST), local;
    cr_assert_eq(hcomm_mem_alloc(NULL, 1, HCOMM_MEMORY_HOST, &ptr), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_alloc(handle, 0, HCOMM_MEMORY_HOST, &ptr), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_alloc(handle, 1, HCOMM_MEMORY_HOST, NULL), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_alloc(handle, 1, (hcomm_memory_type_t)9, &ptr), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_alloc(handle, SIZE_MAX, HCOMM_MEMORY_HOST, &ptr), HCOMM_ERR_NO_MEMORY);
    cr_assert_null(ptr);
    cr_assert_eq(hcomm_mem_free(handle, NULL), HCOMM_OK);
    cr_assert_eq(hcomm_mem_free(handle, &local), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_free(handle, block + 64), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_free(handle, block), HCOMM_OK);
    cr_assert_eq(hcomm_memset(handle, &local, 256, 1), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_memcpy(handle, NULL, &local, 1, HCOMM_COPY_AUTO), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_memcpy(handle, NULL, NULL, 0, HCOMM_COPY_AUTO), HCOMM_OK);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(mem_types, kind_that_does_not_fit_and_device_memory_that_is_gone_are_refused)
{
    hcomm_handle_t handle = open_device(0);
    char *device = get(handle, SIZE, HCOMM_MEMORY_DEVICE), host[64];
    cr_assert_eq(hcomm_memcpy(handle, device, host, 64, HCOMM_COPY_HOST_TO_DEVICE), HCOMM_OK);
    cr_assert_eq(hcomm_memcpy(handle, device, host, 64, HCOMM_COPY_DEVICE_TO_DEVICE), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_memcpy(handle, host, device, 64, HCOMM_COPY_HOST_TO_HOST), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_memcpy(handle, host, host, 1, (hcomm_copy_kind_t)17), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_memcpy(handle, device + SIZE - 10, host, 11, HCOMM_COPY_AUTO), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_memset(handle, device + SIZE - 10, 1, 11), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_free(handle, device), HCOMM_OK);
    cr_assert_eq(hcomm_memcpy(handle, host, device, 64, HCOMM_COPY_AUTO), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_free(handle, device), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(mem_types, registered_memory_is_pinned_until_it_is_deregistered)
{
    hcomm_handle_t handle = open_device(0);
    char *host = aligned_alloc(4096, 4 * 4096) /* of whose pages two are registered */;
    void *foreign = NULL;
    enum hc_place place;
    cr_assert_eq(hcomm_mem_register(handle, host + 100, 8000), HCOMM_OK, "%s", hcomm_error_detail());
    cr_assert_eq(hc_device_locate(handle, host + 100, 8000, &place), HCOMM_OK);
    cr_assert_eq(place, HC_PLACE_PINNED);
    cr_assert_eq(hcomm_mem_register(handle, host + 200, 10), HCOMM_ERR_INVALID, "overlaps");
    cr_assert_eq(hcomm_mem_deregister(handle, host + 101), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_mem_deregister(handle, host + 100), HCOMM_OK, "%s", hcomm_error_detail());
    cr_assert_eq(hc_device_locate(handle, host + 100, 8000, &place), HCOMM_OK);
    cr_assert_eq(place, HC_PLACE_HOST);
    cr_assert_eq(hc_device_acl(handle->device)->aclrtMalloc(&foreign, 5000, HC_ACL_HUGE_FIRST), HC_ACL_OK);
    cr_assert_eq(hcomm_mem_register(handle, foreign, 5000), HCOMM_OK);
    cr_assert_eq(hcomm_mem_free(handle, foreign), HCOMM_ERR_INVALID, "it is its owner's");
    cr_assert_eq(hcomm_mem_register(handle, host, 4096), HCOMM_OK);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
    free(host);
}
