/* Links between devices, and access of one device to another's memory. */
#include "transports/npu/sim/sim.h"

bool npusim_peer_linked(int physical, int other)
{
    return npusim.settings.topology == NPUSIM_TOPOLOGY_HCCS || physical / 2 == other / 2;
}

static bool is_up(const struct npusim_device *device, int physical)
{
    const struct npusim_peer *peer = &device->peers[physical];
    return peer->enabled && npusim_now() >= peer->up_at;
}

bool npusim_peer_reaches(const struct npusim_device *device, const struct npusim_place *place)
{
    if (place->physical < 0 || place->physical == device->physical)
        return true;
    if (place->where == NPUSIM_IMPORTED && npusim_import_grants(place->import, device))
        return true;
    return is_up(device, place->physical);
}

/* Both devices, which must be visible and different. */
static int get_pair(const char *call, int64_t id, int64_t other_id, struct npusim_device **device,
                    struct npusim_device **other)
{
    *device = npusim_device_get(id);
    *other = npusim_device_get(other_id);
    if (!*device || !*other)
        return npusim_fail(HC_ACL_INVALID_DEVICE_ID,
                           "%s: devices %lld and %lld: the visible devices are 0 to %d", call, (long long)id,
                           (long long)other_id, npusim.settings.visible_count - 1);
    if (*device == *other)
        return npusim_fail(HC_ACL_INVALID_PARAMETER, "%s: device %lld twice", call, (long long)id);
    return HC_ACL_OK;
}

int aclrtGetDevicesTopo(uint32_t id, uint32_t other_id, uint64_t *links)
{
    struct npusim_device *device = NULL, *other = NULL;
    int code = npusim_enter();
    if (code)
        return code;
    code = get_pair("aclrtGetDevicesTopo", id, other_id, &device, &other);
    if (!code && !links)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtGetDevicesTopo: NULL");
    if (!code)
        *links = npusim_peer_linked(device->physical, other->physical) ? HC_ACL_LINK_HCCS : HC_ACL_LINK_SYS;
    return npusim_leave(code);
}

int aclrtDeviceCanAccessPeer(int32_t *can, int32_t id, int32_t peer)
{
    struct npusim_device *device = NULL, *other = NULL;
    int code = npusim_enter();
    if (code)
        return code;
    code = get_pair("aclrtDeviceCanAccessPeer", id, peer, &device, &other);
    if (!code && !can)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtDeviceCanAccessPeer: NULL");
    if (!code)
        *can = npusim_peer_linked(device->physical, other->physical);
    return npusim_leave(code);
}

int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags)
{
    struct npusim_device *device = NULL, *other = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    code = get_pair("aclrtDeviceEnablePeerAccess", device->id, peer, &device, &other);
    if (!code && flags)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtDeviceEnablePeerAccess: flags must be 0");
    if (!code && !npusim_peer_linked(device->physical, other->physical))
        code = npusim_fail(HC_ACL_NOT_SUPPORTED, "aclrtDeviceEnablePeerAccess: no link from device %d to %d",
                           device->id, other->id);
    if (!code && !device->peers[other->physical].enabled)
        device->peers[other->physical] =
            (struct npusim_peer){.enabled = true, .up_at = npusim_now() + npusim.settings.peer_delay * 1000};
    return npusim_leave(code);
}

int aclrtDeviceDisablePeerAccess(int32_t peer)
{
    struct npusim_device *device = NULL, *other = NULL;
    int code = npusim_enter_device(&device);
    if (code)
        return code;
    code = get_pair("aclrtDeviceDisablePeerAccess", device->id, peer, &device, &other);
    if (!code && !device->peers[other->physical].enabled)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER,
                           "aclrtDeviceDisablePeerAccess: not enabled from %d to %d", device->id, other->id);
    if (!code)
        device->peers[other->physical].enabled = false;
    return npusim_leave(code);
}

int aclrtDevicePeerAccessStatus(int32_t id, int32_t peer, int32_t *status)
{
    struct npusim_device *device = NULL, *other = NULL;
    int code = npusim_enter();
    if (code)
        return code;
    code = get_pair("aclrtDevicePeerAccessStatus", id, peer, &device, &other);
    if (!code && !status)
        code = npusim_fail(HC_ACL_INVALID_PARAMETER, "aclrtDevicePeerAccessStatus: NULL");
    if (!code)
        *status = is_up(device, other->physical);
    return npusim_leave(code);
}
