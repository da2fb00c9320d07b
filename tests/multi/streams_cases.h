/* What the tests of streams share: a context with or without a device, threads' delays, memory the device
 * reaches. */
#ifndef TESTS_MULTI_STREAMS_CASES_H
#define TESTS_MULTI_STREAMS_CASES_H

#include "tests/multi/check.h"

#include "transports/npu/acl/table.h"

#include <string.h>
#include <time.h>

static int rank, size;
static hcomm_comm_t world;
static const struct hc_acl *acl; /* NULL: host only */

/* With STREAMS_DEVICE in the environment each rank has a device of its own. A short deadline holds for ranks
 * that have started and found each other. */
__attribute__((unused)) static void streams_init(int timeout_ms)
{
    hcomm_config_t config = {.timeout_ms = timeout_ms};
    hcomm_handle_t patient = NULL;
    if (timeout_ms) {
        CALL(hcomm_init(&patient, NULL));
        CALL(hcomm_barrier(hcomm_comm_world(patient)));
        CALL(hcomm_finalize(patient));
    }
    bool device = getenv("STREAMS_DEVICE") != NULL;
    const char *text = getenv("PMIX_RANK");
    int number = text ? atoi(text) : 0;
    if (device)
        config.device_id = HCOMM_DEVICE(number % 8);
    check_init(&config);
    rank = hcomm_rank(check_handle);
    size = hcomm_size(check_handle);
    world = hcomm_comm_world(check_handle);
    acl = device ? hc_acl_loaded() : NULL;
    CHECK(!device || acl);
    if (acl)
        CHECK(acl->aclrtSetDevice(number % 8) == 0);
}

/* Host memory that the device's engines reach, if there is one. */
__attribute__((unused)) static void *streams_pinned(size_t bytes)
{
    void *ptr = NULL;
    CALL(hcomm_mem_alloc(check_handle, bytes, HCOMM_MEMORY_HOST_PINNED, &ptr));
    memset(ptr, 0, bytes);
    return ptr;
}

__attribute__((unused)) static void streams_pause_ms(int ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

#endif
