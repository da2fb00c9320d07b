#include "transports/npu/sim/sim.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Thread_local int current_id = -1;
static _Thread_local uint64_t current_epoch;

struct npusim_device *npusim_device_get(int64_t id)
{
    return id >= 0 && id < npusim.settings.visible_count ? &npusim.devices[id] : NULL;
}

static int bad_id(const char *call, int64_t id)
{
    if (!npusim.settings.visible_count)
        return npusim_fail(HC_ACL_NO_DEVICE, "%s: no device is visible", call);
    return npusim_fail(HC_ACL_INVALID_DEVICE_ID, "%s: device %lld: the visible devices are 0 to %d", call,
                       (long long)id, npusim.settings.visible_count - 1);
}

void npusim_device_init(struct npusim_device *device, int id, int physical)
{
    uint64_t epoch = device->epoch;
    *device = (struct npusim_device){.id = id, .physical = physical, .epoch = epoch, .memory.fd = -1};
    for (int i = 0; i < NPUSIM_DIRECTIONS; i++)
        npusim_engine_init(&device->engines[i], device, i);
    npusim_worker_init(&device->worker);
    (void)pthread_cond_init(&device->quiet, NULL);
    hc_list_init(&device->streams);
    hc_list_init(&device->events);
    hc_list_init(&device->notifies);
}

/* The calling thread's device, or NULL. */
static struct npusim_device *current(void)
{
    struct npusim_device *device = npusim_device_get(current_id);
    return device && device->sets && !device->closing && device->epoch == current_epoch ? device : NULL;
}

int npusim_enter_device(struct npusim_device **device)
{
    int code = npusim_enter();
    if (code)
        return code;
    struct npusim_device *found = current();
    if (!found)
        return npusim_leave(
            npusim_fail(HC_ACL_NO_CONTEXT, "this thread has set no device: call aclrtSetDevice"));
    if (found->lost)
        return npusim_leave(npusim_fail(HC_ACL_DRIVER_ERROR, "device %d is lost", found->id));
    *device = found;
    return HC_ACL_OK;
}

int aclrtSetDevice(int32_t id)
{
    int code = npusim_enter();
    if (code)
        return code;
    struct npusim_device *device = npusim_device_get(id);
    if (!device)
        return npusim_leave(bad_id("aclrtSetDevice", id));
    if (device->closing || device->lost)
        return npusim_leave(npusim_fail(HC_ACL_DRIVER_ERROR, "device %d is %s", device->id,
                                        device->lost ? "lost" : "being reset"));
    if (!device->sets++)
        device->epoch++;
    current_id = id;
    current_epoch = device->epoch;
    return npusim_leave(HC_ACL_OK);
}

void npusim_device_close(struct npusim_device *device)
{
    device->closing = true;
    npusim_streams_close(device);
    npusim_notifies_close(device);
    npusim_events_close(device);
    while (device->waiters)
        (void)npusim_wait(&device->quiet, NPUSIM_NEVER);
    (void)pthread_cond_destroy(&device->quiet);
    for (int i = 0; i < NPUSIM_DIRECTIONS; i++)
        npusim_engine_stop(&device->engines[i]);
    npusim_worker_stop(&device->worker);
    npusim_imports_close(device);
    npusim_memory_close(&device->memory);
    bool lost = device->lost;
    npusim_device_init(device, device->id, device->physical);
    device->lost = lost;
}

int aclrtResetDevice(int32_t id)
{
    int code = npusim_enter();
    if (code)
        return code;
    struct npusim_device *device = npusim_device_get(id);
    if (!device)
        return npusim_leave(bad_id("aclrtResetDevice", id));
    if (!device->sets || device->closing)
        return npusim_leave(npusim_fail(HC_ACL_NO_CONTEXT, "aclrtResetDevice: device %d is not set", id));
    if (device->sets == 1 && npusim_call_is_of_device(device))
        return npusim_leave(npusim_fail(HC_ACL_NOT_SUPPORTED,
                                        "aclrtResetDevice: the last reset of device %d by one of "
                                        "its host functions, which it would wait for",
                                        id));
    if (device->sets == 1)
        npusim_device_close(device);
    else
        device->sets--;
    return npusim_leave(HC_ACL_OK);
}

int aclrtGetDevice(int32_t *id)
{
    int code = npusim_enter();
    if (code)
        return code;
    const struct npusim_device *device = current();
    if (!id)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtGetDevice: NULL");
    else if (!device)
        code = npusim_fail(HC_ACL_NO_CONTEXT, "this thread has set no device: call aclrtSetDevice");
    else
        *id = device->id;
    return npusim_leave(code);
}

int aclrtGetDeviceCount(uint32_t *count)
{
    int code = npusim_enter();
    if (code)
        return code;
    if (!count)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtGetDeviceCount: NULL"));
    if (!npusim.settings.visible_count)
        return npusim_leave(bad_id("aclrtGetDeviceCount", 0));
    *count = (uint32_t)npusim.settings.visible_count;
    return npusim_leave(HC_ACL_OK);
}

const char *aclrtGetSocName(void)
{
    return "Ascend910B-npusim";
}

int aclrtGetPhyDevIdByLogicDevId(int32_t id, int32_t *physical)
{
    int code = npusim_enter();
    if (code)
        return code;
    const struct npusim_device *device = npusim_device_get(id);
    if (!device)
        code = bad_id("aclrtGetPhyDevIdByLogicDevId", id);
    else if (!physical)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtGetPhyDevIdByLogicDevId: NULL");
    else
        *physical = device->physical;
    return npusim_leave(code);
}

int aclrtDeviceGetPCIBusId(int32_t id, char *text, int32_t len)
{
    char address[16];
    int code = npusim_enter();
    if (code)
        return code;
    const struct npusim_device *device = npusim_device_get(id);
    if (!device)
        return npusim_leave(bad_id("aclrtDeviceGetPCIBusId", id));
    int need = snprintf(address, sizeof(address), "ffff:%02x:00.0", (unsigned)device->physical);
    if (!text || len <= need)
        return npusim_leave(npusim_fail(HC_ACL_INVALID_PARAMETER,
                                        "aclrtDeviceGetPCIBusId: needs room for %d bytes", need + 1));
    memcpy(text, address, (size_t)need + 1);
    return npusim_leave(HC_ACL_OK);
}

int aclrtDeviceGetBareTgid(int32_t *pid)
{
    int code = npusim_enter();
    if (code)
        return code;
    if (!pid)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtDeviceGetBareTgid: NULL");
    else
        *pid = npusim.settings.bare_tgid ? (int32_t)npusim.settings.bare_tgid : (int32_t)getpid();
    return npusim_leave(code);
}

/* The fault that strikes at the count-th operation, or NULL. */
static const struct npusim_fault *fault_at(const struct npusim_device *device, enum npusim_fault_kind kind,
                                           uint64_t count)
{
    for (int i = 0; i < npusim.settings.fault_count; i++) {
        const struct npusim_fault *fault = &npusim.settings.faults[i];
        if (fault->kind == kind && fault->device == device->physical && fault->nth == count)
            return fault;
    }
    return NULL;
}

int npusim_fault_copy(struct npusim_device *device)
{
    const struct npusim_fault *fault;
    device->copies++;
    if ((fault = fault_at(device, NPUSIM_FAULT_LOST, device->copies)))
        device->lost = true;
    if (device->lost)
        return fault ? fault->code : HC_ACL_DRIVER_ERROR;
    fault = fault_at(device, NPUSIM_FAULT_COPY, device->copies);
    return fault ? fault->code : HC_ACL_OK;
}

int npusim_fault_malloc(struct npusim_device *device)
{
    const struct npusim_fault *fault = fault_at(device, NPUSIM_FAULT_MALLOC, ++device->memory.mallocs);
    return fault ? fault->code : HC_ACL_OK;
}
