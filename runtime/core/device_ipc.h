/*
 * Device memory of other processes of the host, by the device runtime's keys. The owner exports memory to
 * named processes; whoever imports it closes it again before the message that used it counts as received, so
 * the owner may free its memory as soon as its sends are complete. Lock held.
 */
#ifndef HC_DEVICE_IPC_H
#define HC_DEVICE_IPC_H

#include "runtime/core/device.h"
#include "runtime/core/wire.h"

/*
 * The process id by which the device runtime knows this process; 0 when it does not tell. Published with the
 * rank's description.
 */
uint32_t hc_device_pid(struct hc_device *device);

/*
 * Let process `pid` import [ptr, ptr + size) of the device's memory. Memory known from hcomm_mem_alloc() or
 * hcomm_mem_register() is exported once, as a whole, until it is freed; other memory for this message only:
 * *temporary, to be withdrawn with hc_device_unexport(). Any error: stage the message.
 */
hcomm_status_t hc_device_export(struct hc_device *device, void *ptr, size_t size, uint32_t pid,
                                struct hc_wire_device *offer, bool *temporary) HC_MUST_CHECK;
void hc_device_unexport(struct hc_device *device, const struct hc_wire_device *offer);
/* The memory at base is about to be freed: withdraw its export. HCOMM_ERR_PENDING when it is imported now. */
hcomm_status_t hc_device_withdraw(struct hc_device *device, const void *base) HC_MUST_CHECK;

/*
 * Map what a peer offers; *ptr is where its message begins, valid until hc_device_close_import(). Every field
 * is checked. Counted: messages from one export share a mapping. Any error: the message must be staged.
 */
hcomm_status_t hc_device_import(struct hc_device *device, const struct hc_wire_device *offer, size_t size,
                                void **ptr) HC_MUST_CHECK;
void hc_device_close_import(struct hc_device *device, const struct hc_wire_device *offer);

/* The end of the device: what is left of exports and imports goes. The device is current. */
void hc_device_ipc_fini(struct hc_device *device);

#endif
