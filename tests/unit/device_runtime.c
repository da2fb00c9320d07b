/* Opening a device, and everything that can be wrong about it. */
#include "tests/unit/device_open.h"

#include <pthread.h>

#define assert_detail(...)                                                                                   \
    do {                                                                                                     \
        const char *const parts_[] = {__VA_ARGS__};                                                          \
        for (size_t i_ = 0; i_ < hc_array_len(parts_); i_++)                                                 \
            cr_assert(strstr(hcomm_error_detail(), parts_[i_]), "no '%s' in: %s", parts_[i_],                \
                      hcomm_error_detail());                                                                 \
    } while (0)

Test(device_runtime, context_without_device_loads_nothing_and_knows_host_memory_only)
{
    hcomm_handle_t handle = NULL;
    enum hc_place place = HC_PLACE_DEVICE;
    leave_launcher();
    (void)setenv("HCOMM_NPU", "/nonexistent/lib.so", 1);
    cr_assert_eq(hcomm_init(&handle, NULL), HCOMM_OK);
    cr_assert_null(handle->device);
    cr_assert_null(hc_acl_loaded());
    cr_assert_eq(hc_device_locate(handle, &place, sizeof(place), &place), HCOMM_OK);
    cr_assert_eq(place, HC_PLACE_HOST);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_runtime, missing_library_is_named_with_a_remedy)
{
    hcomm_handle_t handle = NULL;
    cr_assert_eq(try_device(0, "/nonexistent/lib.so", &handle), HCOMM_ERR_UNSUPPORTED);
    cr_assert_null(handle);
    assert_detail("rank 0", "device_id is 0", "/nonexistent/lib.so", "device_id -1");
}

Test(device_runtime, library_without_a_function_is_named_with_the_function)
{
    hcomm_handle_t handle = NULL;
    cr_assert_eq(try_device(0, ".libs/libhcommrt.so", &handle), HCOMM_ERR_UNSUPPORTED);
    assert_detail("rank 0", "device_id is 0", "libhcommrt.so", "aclInit", "HCOMM_NPU=sim");
}

Test(device_runtime, off_and_unknown_words_are_refused)
{
    hcomm_handle_t handle = NULL;
    cr_assert_eq(try_device(0, "off", &handle), HCOMM_ERR_UNSUPPORTED);
    assert_detail("HCOMM_NPU=off");
    cr_assert_eq(try_device(0, "simulator", &handle), HCOMM_ERR_UNSUPPORTED);
    assert_detail("'simulator'", "auto, sim, off");
}

Test(device_runtime, device_that_does_not_exist_is_refused_with_the_number_of_visible_ones)
{
    hcomm_handle_t handle = NULL;
    (void)setenv("ASCEND_RT_VISIBLE_DEVICES", "2,3", 1);
    cr_assert_eq(try_device(2, ".libs/libnpusim.so", &handle), HCOMM_ERR_INVALID);
    assert_detail("rank 0", "no device 2", "2 are visible", "ASCEND_RT_VISIBLE_DEVICES=2,3");
    handle = open_device(1);
    cr_assert_eq(hc_device_id(handle->device), 1);
    cr_assert_eq(hc_device_physical(handle->device), 3);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_runtime, no_visible_device_is_told)
{
    hcomm_handle_t handle = NULL;
    (void)setenv("ASCEND_RT_VISIBLE_DEVICES", "", 1);
    cr_assert_eq(try_device(0, ".libs/libnpusim.so", &handle), HCOMM_ERR_INVALID);
    assert_detail("no device 0", "0 are visible");
}

Test(device_runtime, bad_setting_of_the_simulator_is_told)
{
    hcomm_handle_t handle = NULL;
    (void)setenv("NPUSIM_DEVICES", "many", 1);
    cr_assert_eq(try_device(0, ".libs/libnpusim.so", &handle), HCOMM_ERR_UNSUPPORTED);
    assert_detail("aclInit", "107000");
}

Test(device_runtime, memory_is_recognised_exactly)
{
    hcomm_handle_t handle = open_device(0);
    const struct hc_acl *acl = hc_device_acl(handle->device);
    enum hc_place place = HC_PLACE_HOST;
    char *device = take(handle, 10000, HC_PLACE_DEVICE), *pinned = take(handle, 10000, HC_PLACE_PINNED);
    char host[16];
    void *foreign = NULL;
    cr_assert_eq(acl->aclrtMalloc(&foreign, 5000, HC_ACL_HUGE_FIRST), HC_ACL_OK);
    const struct {
        const void *ptr;
        size_t size;
        enum hc_place place;
    } known[] = {
        {device, 10000, HC_PLACE_DEVICE},    {device + 9999, 1, HC_PLACE_DEVICE},
        {pinned, 10000, HC_PLACE_PINNED},    {pinned + 5, 7, HC_PLACE_PINNED},
        {host, sizeof(host), HC_PLACE_HOST}, {foreign, 5000, HC_PLACE_DEVICE},
        {handle, 8, HC_PLACE_HOST},          {device, 0, HC_PLACE_HOST},
    };
    for (size_t i = 0; i < hc_array_len(known); i++) {
        cr_assert_eq(hc_device_locate(handle, known[i].ptr, known[i].size, &place), HCOMM_OK, "%zu: %s", i,
                     hcomm_error_detail());
        cr_assert_eq(place, known[i].place, "%zu", i);
    }
    cr_assert_eq(acl->aclrtFree(foreign), HC_ACL_OK);
    cr_assert_eq(hc_device_locate(handle, foreign, 10, &place), HCOMM_ERR_INVALID, "freed behind our back");
    assert_detail("rank 0", "device 0 (physical 0)", "freed");
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_runtime, freed_and_too_long_device_memory_is_refused)
{
    hcomm_handle_t handle = open_device(1);
    enum hc_place place;
    char *ptr = take(handle, 4096, HC_PLACE_DEVICE);
    cr_assert_eq(hc_device_locate(handle, ptr + 1, 4096, &place), HCOMM_ERR_INVALID);
    assert_detail("rank 0", "device 1", "4095 are left", "use no more, or allocate more");
    cr_assert_eq(hc_device_free(handle->device, ptr + 1), HCOMM_ERR_INVALID);
    cr_assert_eq(hc_device_free(handle->device, ptr), HCOMM_OK);
    cr_assert_eq(hc_device_free(handle->device, ptr), HCOMM_ERR_INVALID);
    cr_assert_eq(hc_device_locate(handle, ptr, 1, &place), HCOMM_ERR_INVALID);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_runtime, foreign_memory_that_ends_too_early_is_refused)
{
    hcomm_handle_t handle = open_device(0);
    enum hc_place place;
    void *foreign = NULL;
    cr_assert_eq(hc_device_acl(handle->device)->aclrtMalloc(&foreign, 8192, HC_ACL_HUGE_FIRST), HC_ACL_OK);
    cr_assert_eq(hc_device_locate(handle, foreign, 3 * 8192, &place), HCOMM_ERR_INVALID);
    assert_detail("rank 0", "device 0", "reach past their allocation", "use fewer bytes, or allocate more");
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_runtime, memory_of_another_device_is_refused_with_its_number)
{
    hcomm_handle_t first = open_device(0), second = open_device(3);
    enum hc_place place;
    char *ptr = take(second, 100, HC_PLACE_DEVICE);
    cr_assert_eq(hc_device_locate(first, ptr, 100, &place), HCOMM_ERR_INVALID);
    assert_detail("memory of device 3", "device_id 3");
    cr_assert_eq(hcomm_finalize(first), HCOMM_OK);
    cr_assert_eq(hc_device_locate(second, ptr, 100, &place), HCOMM_OK);
    cr_assert_eq(hcomm_finalize(second), HCOMM_OK);
}

Test(device_runtime, device_out_of_memory_is_told)
{
    (void)setenv("NPUSIM_MEMORY", "1M", 1);
    hcomm_handle_t handle = open_device(0);
    void *ptr = handle;
    cr_assert_eq(hc_device_alloc(handle->device, 2 << 20, HC_PLACE_DEVICE, &ptr), HCOMM_ERR_NO_MEMORY);
    cr_assert_eq(ptr, handle);
    assert_detail("rank 0", "device 0", "2097152", "207001", "free memory of the device");
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

struct other_thread {
    hcomm_handle_t handle;
    void *from;
    unsigned char to[64];
    hcomm_status_t status;
    int32_t device_after;
};

static void *copy_on_thread(void *arg)
{
    struct other_thread *thread = arg;
    const struct hc_acl *acl = hc_device_acl(thread->handle->device);
    if (acl->aclrtSetDevice(5) == HC_ACL_OK)
        thread->status = hc_copy_any(thread->handle, thread->to, thread->from, sizeof(thread->to));
    if (acl->aclrtGetDevice(&thread->device_after) != HC_ACL_OK)
        thread->device_after = -1;
    return NULL;
}

Test(device_runtime, thread_keeps_its_own_current_device)
{
    hcomm_handle_t handle = open_device(2);
    unsigned char bytes[64];
    pthread_t id;
    fill(bytes, sizeof(bytes), 9);
    struct other_thread thread = {.handle = handle, .from = take(handle, 64, HC_PLACE_DEVICE)};
    thread.status = HCOMM_ERR_INTERNAL;
    cr_assert_eq(hc_copy_any(handle, thread.from, bytes, sizeof(bytes)), HCOMM_OK);
    cr_assert_eq(pthread_create(&id, NULL, copy_on_thread, &thread), 0);
    cr_assert_eq(pthread_join(id, NULL), 0);
    cr_assert_eq(thread.status, HCOMM_OK);
    cr_assert(holds(thread.to, sizeof(thread.to), 9));
    cr_assert_eq(thread.device_after, 5);
    cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
}

Test(device_runtime, closing_gives_back_everything)
{
    (void)setenv("NPUSIM_MEMORY", "4M", 1);
    for (int i = 0; i < 3; i++) {
        hcomm_handle_t handle = open_device(0);
        (void)take(handle, 3 << 20, HC_PLACE_DEVICE); /* not freed: the next needs it */
        cr_assert_eq(hcomm_finalize(handle), HCOMM_OK);
    }
}
