/* For tests with a device: a context of this process alone, on the simulator. */
#ifndef TESTS_UNIT_DEVICE_OPEN_H
#define TESTS_UNIT_DEVICE_OPEN_H

#include "runtime/core/device_impl.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

__attribute__((unused)) static void leave_launcher(void)
{
    static const char *const variables[] = {"PMIX_NAMESPACE", "PMIX_RANK", "SLURM_NTASKS",
                                            "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < hc_array_len(variables); i++)
        (void)unsetenv(variables[i]);
}

__attribute__((unused)) static hcomm_status_t try_device(int id, const char *npu, hcomm_handle_t *handle)
{
    const hcomm_config_t config = {.device_id = HCOMM_DEVICE(id)};
    leave_launcher();
    (void)setenv("HCOMM_NPU", npu, 1);
    return hcomm_init(handle, &config);
}

__attribute__((unused)) static hcomm_handle_t open_device(int id)
{
    hcomm_handle_t handle = NULL;
    cr_assert_eq(try_device(id, ".libs/libnpusim.so", &handle), HCOMM_OK, "%s", hcomm_error_detail());
    return handle;
}

__attribute__((unused)) static void *take(hcomm_handle_t handle, size_t size, enum hc_place place)
{
    void *ptr = NULL;
    cr_assert_eq(hc_device_alloc(handle->device, size, place, &ptr), HCOMM_OK, "%s", hcomm_error_detail());
    return ptr;
}

__attribute__((unused)) static void fill(void *bytes, size_t n, unsigned seed)
{
    unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        at[i] = (unsigned char)((i * 31 + seed) ^ (i >> 8));
}

__attribute__((unused)) static bool holds(const void *bytes, size_t n, unsigned seed)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        if (at[i] != (unsigned char)((i * 31 + seed) ^ (i >> 8)))
            return false;
    return true;
}

#endif
