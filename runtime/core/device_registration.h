/*
 * Registrations with transports, of a message's buffer. Those of device memory that is known from
 * hcomm_mem_alloc() or hcomm_mem_register() are of all of it and kept for further messages; its end is known.
 * The context's lock serialises calls.
 */
#ifndef HC_DEVICE_REGISTRATION_H
#define HC_DEVICE_REGISTRATION_H

#include "runtime/core/core.h"

struct hc_device;

/* Let the peer's transport reach the request's buffer: request->mem. */
hcomm_status_t hc_request_register(struct hcomm_request *request);
/* The message is over, or never began. Without success the peer may still reach the buffer, and is kept from
 * it. */
void hc_request_deregister(struct hcomm_request *request, bool succeeded);
/* The memory at base is about to be freed. */
void hc_registrations_forget(struct hc_device *device, const void *base);
/* Before the transports are closed. */
void hc_registrations_fini(struct hc_device *device);

#endif
