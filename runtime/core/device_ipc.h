/*
 * Device memory of other processes of the host, by the device runtime's keys. The owner exports memory to
 * named processes. What it allocated itself has a number (keep): importers keep it mapped for later messages,
 * and when the owner frees it, it recalls the number (RECALL), each answers when it has closed its import
 * (RELEASED), and then the memory is really freed: the device runtime wants imports closed before. Other
 * memory, whose end nobody tells us of, is closed before the message that used it counts as received. Lock
 * held.
 */
#ifndef HC_DEVICE_IPC_H
#define HC_DEVICE_IPC_H

#include "runtime/core/core.h"
#include "runtime/core/device.h"
#include "runtime/core/wire.h"

/*
 * The process id by which the device runtime knows this process; 0 when it does not tell. Published with the
 * rank's description.
 */
uint32_t hc_device_pid(struct hc_device *device);

/*
 * Let a peer import [ptr, ptr + size) of the device's memory. Memory known from hcomm_mem_alloc() or
 * hcomm_mem_register() is exported once, as a whole, until it is freed; other memory for this message only:
 * *temporary, to be withdrawn with hc_device_unexport(). Any error: stage the message.
 */
hcomm_status_t hc_device_export(struct hc_device *device, void *ptr, size_t size, struct hc_peer *peer,
                                struct hc_wire_device *offer, bool *temporary) HC_MUST_CHECK;
void hc_device_unexport(struct hc_device *device, const struct hc_wire_device *offer);
/* The memory at base is about to be freed: withdraw its export. HCOMM_ERR_PENDING when it is imported now. */
hcomm_status_t hc_device_withdraw(struct hc_device *device, const void *base) HC_MUST_CHECK;

/* The memory at base has been freed by its owner: recall it. False: nobody can have it open, free it now. */
bool hc_device_recall(struct hc_device *device, const void *base);
/* device.c: nobody has it open any more. */
void hc_device_free_recalled(struct hc_device *device, void *base);
/* Wait until all that is recalled is freed; false when there was none, or not in time. */
bool hc_device_await_recalled(struct hc_device *device);
void hc_device_recall_arrived(struct hc_peer *peer, const void *data, size_t len);
void hc_device_released_arrived(struct hc_peer *peer, const void *data, size_t len);
/* What is shared with a peer that failed ends. */
void hc_device_peer_failed(struct hc_device *device, const struct hc_peer *peer);

/*
 * Map what a peer offers; *ptr is where its message begins, valid until hc_device_close_import(). Every field
 * is checked. Counted: messages from one export share a mapping. Any error: the message must be staged.
 */
hcomm_status_t hc_device_import(struct hc_device *device, const struct hc_peer *owner,
                                const struct hc_wire_device *offer, size_t size, void **ptr) HC_MUST_CHECK;
void hc_device_close_import(struct hc_device *device, const struct hc_peer *owner,
                            const struct hc_wire_device *offer);
/* Close what is kept and not in use: before the final fence, or of an owner that is gone. */
void hc_device_imports_drop(struct hcomm_context *context);
void hc_device_imports_lose(struct hc_device *device, const struct hc_peer *owner);
/* The device is current. */
void hc_device_imports_fini(struct hc_device *device);
void hc_device_close_key(struct hc_device *device, const char *key);

/* The end of the device: what is left of exports and imports goes. The device is current. */
void hc_device_ipc_fini(struct hc_device *device);

#endif
