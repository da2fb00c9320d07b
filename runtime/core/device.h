/*
 * The device of a context: an NPU, reached through the table of transports/npu/acl. A context opened without
 * one (device_id -1) has context->device NULL; then all memory is host memory, nothing here is called, and
 * nothing was loaded.
 *
 * Locking: as core.h; hc_device_enter(), hc_device_leave(), hc_device_error(), hc_device_acl(),
 * hc_device_copy() of memory that is not imported, and hc_device_fill() may also be called without the lock.
 * Errors: every failure sets the thread's detail, naming rank, device and remedy.
 */
#ifndef HC_DEVICE_H
#define HC_DEVICE_H

#include "runtime/base/status.h"

#include <hcomm/mem.h>
#include <hcomm/topo.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hcomm_context;
struct hc_acl; /* transports/npu/acl/table.h */
struct hc_device;

/* ---- the device ---- */

/*
 * Open the device of the setting device_id (>= 0) into context->device. HCOMM_ERR_UNSUPPORTED: no device
 * runtime (the detail tells which library or function is missing); HCOMM_ERR_INVALID: no such device (the
 * detail tells how many are visible); HCOMM_ERR_IO: it cannot be used.
 */
hcomm_status_t hc_device_open(struct hcomm_context *context) HC_MUST_CHECK;
/* Release all that the context holds of its device; nothing is in flight any more. No device: does nothing.
 */
void hc_device_close(struct hcomm_context *context);

/* The device runtime's functions; never NULL. Calls that work on a device need hc_device_enter() before. */
const struct hc_acl *hc_device_acl(const struct hc_device *device);
/* Its number among the visible devices of this process, and in the machine. */
int hc_device_id(const struct hc_device *device);
int hc_device_physical(const struct hc_device *device);

/*
 * Make the device the calling thread's current one, as the device runtime's calls need it, and give the
 * thread its own back. A thread that had none keeps this one. *previous is for hc_device_leave().
 */
hcomm_status_t hc_device_enter(struct hc_device *device, int *previous) HC_MUST_CHECK;
void hc_device_leave(struct hc_device *device, int previous);
/* A thread makes the device its current one by itself. */
void hc_device_count_set(struct hc_device *device);

/*
 * Set the thread's detail to "rank R: device D (physical P): WHAT: meaning (code, the runtime's words);
 * remedy" and return the status that the code stands for: HCOMM_ERR_INVALID, _UNSUPPORTED, _NO_MEMORY,
 * _LIMIT, _TIMEOUT or _IO; never HCOMM_OK. what in words: "copying 4096 bytes to the device".
 */
hcomm_status_t hc_device_error(struct hc_device *device, int code, const char *what, ...)
    HC_PRINTF(3, 4) HC_COLD;

/* What connects the device with another of this host, by its physical number; any device that the process
 * does not see is UNKNOWN. */
hcomm_device_link_t hc_device_link(struct hc_device *device, int physical);
/* Its PCI address into text, "" when the device runtime does not tell. */
void hc_device_pci(const struct hc_device *device, char *text, size_t size);

/* The device runtime's library as it was loaded, NULL while it is not. Any thread. */
const char *hc_device_library(void);

/* ---- memory ---- */

enum hc_place {
    HC_PLACE_HOST,   /* pageable: the device's engines do not reach it, copies of it block */
    HC_PLACE_PINNED, /* host memory that the engines reach */
    HC_PLACE_DEVICE, /* of the context's device; not to be touched by the processor */
};

/*
 * What `size` bytes at ptr are. Ranges known from hcomm_mem_alloc() and hcomm_mem_register() are answered
 * from records; for others the device runtime is asked each time, because nothing would tell when they are
 * freed. HCOMM_ERR_INVALID: device memory that was freed, ends before size bytes, or is another device's.
 * Without a device everything is HC_PLACE_HOST: test context->device before calling where it matters.
 */
hcomm_status_t hc_device_locate(struct hcomm_context *context, const void *ptr, size_t size,
                                enum hc_place *place) HC_MUST_CHECK;

/* Memory of the device, or pinned host memory, aligned to align_size; remembered. Size > 0.
 * HCOMM_ERR_NO_MEMORY, _IO. */
hcomm_status_t hc_device_alloc(struct hc_device *device, size_t size, enum hc_place place,
                               void **ptr) HC_MUST_CHECK;
/* HCOMM_ERR_INVALID when ptr was not given by hc_device_alloc(), or was freed. */
hcomm_status_t hc_device_free(struct hc_device *device, void *ptr) HC_MUST_CHECK;
/* The size of what hc_device_free() would free, 0 when it would refuse. */
size_t hc_device_size(const struct hc_device *device, const void *ptr);
/* It is freed, but transfers use it: device memory is refused everywhere from now on, until… */
void hc_device_doom(struct hc_device *device, void *ptr);
/* …they are complete, and it really is freed. Failures are logged. */
void hc_device_free_doomed(struct hc_device *device, void *ptr);

/* hcomm_mem_register(), hcomm_mem_deregister(): pin host memory, remember it. */
hcomm_status_t hc_device_register(struct hc_device *device, void *ptr, size_t size) HC_MUST_CHECK;
hcomm_status_t hc_device_deregister(struct hc_device *device, void *ptr) HC_MUST_CHECK;

/* ---- copies ---- */

/* One side of a copy. */
struct hc_side {
    void *ptr; /* of a source: only read */
    enum hc_place place;
    bool imported; /* device memory of another process: copies to and from device memory only */
};

/* Copy now, between any two kinds of memory; returns when done. May block as long as the device is busy. */
hcomm_status_t hc_device_copy(struct hc_device *device, const struct hc_side *to, const struct hc_side *from,
                              size_t size) HC_MUST_CHECK;
/* The same with both sides found out; host memory without a device is copied, too. */
hcomm_status_t hc_copy_any(struct hcomm_context *context, void *to, const void *from,
                           size_t size) HC_MUST_CHECK;
/* Fill with a byte, of either kind; the places as hc_device_locate() gives them. */
hcomm_status_t hc_device_fill(struct hc_device *device, const struct hc_side *to, int value,
                              size_t size) HC_MUST_CHECK;

/* A copy under way: one of a fixed number, each with a stream of its own, so that none waits for, or fails
 * with, another. */
struct hc_device_copy;

/*
 * Start a copy. HCOMM_OK: done already, *copy is NULL. HCOMM_IN_PROGRESS: poll *copy until it is over;
 * both memories stay as they are until then. HCOMM_AGAIN: too many are under way, nothing was started.
 */
hcomm_status_t hc_device_copy_start(struct hc_device *device, const struct hc_side *to,
                                    const struct hc_side *from, size_t size,
                                    struct hc_device_copy **copy) HC_MUST_CHECK;
/* HCOMM_IN_PROGRESS, or the outcome; then *copy is gone. Never blocks. */
hcomm_status_t hc_device_copy_poll(struct hc_device_copy *copy) HC_MUST_CHECK;
/* Wait until the copy touches no memory any more, whatever its outcome (a peer failed, its request ends). */
void hc_device_copy_end(struct hc_device_copy *copy);
/* Copies that can still be started now. */
unsigned hc_device_copies_left(const struct hc_device *device);

#endif
