/* Device memory that is registered with a transport once, for all messages until it is freed. */
#include "runtime/core/device_registration.h"

#include "runtime/core/device_impl.h"

#include <stdlib.h>

enum { KEPT_MAX = 64 /* each takes a place in the transport's tables */ };

/* In device->registrations, the one used last at the end. */
struct hc_registration {
    struct hc_list node;
    struct hc_device *device;
    struct hc_mem *mem;
    uintptr_t base; /* of the range */
    bool remote_read;
    bool dropped; /* goes when it is not in use any more */
    unsigned uses;
};

static void end(struct hc_registration *registration)
{
    registration->mem->iface->transport->mem_dereg(registration->mem);
    hc_list_remove(&registration->node);
    registration->device->num_registrations--;
    free(registration);
}

static void drop(struct hc_registration *registration)
{
    registration->dropped = true;
    if (registration->uses == 0)
        end(registration);
}

static struct hc_registration *find(const struct hc_device *device, const struct hc_iface *iface,
                                    uintptr_t base, bool remote_read)
{
    struct hc_list *node;
    hc_list_for_each(node, &device->registrations)
    {
        struct hc_registration *one = hc_list_entry(node, struct hc_registration, node);
        if (one->base == base && one->mem->iface == iface && one->remote_read == remote_read && !one->dropped)
            return one;
    }
    return NULL;
}

/* Make room by what was not used for longest; what is in use stays. */
static void evict(struct hc_device *device)
{
    struct hc_list *node;
    hc_list_for_each(node, &device->registrations)
    {
        struct hc_registration *one = hc_list_entry(node, struct hc_registration, node);
        if (one->uses)
            continue;
        end(one);
        return;
    }
}

static struct hc_registration *make(struct hc_device *device, struct hc_iface *iface,
                                    const struct hc_range *range, bool remote_read)
{
    const struct hc_mem_attr attr = {
        .type = HC_MEMORY_DEVICE, .device = device->id, .remote_read = remote_read};
    if (device->num_registrations >= KEPT_MAX)
        evict(device);
    struct hc_registration *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    if (iface->transport->mem_reg(iface, (void *)range->base, range->size, &attr, &made->mem) != HCOMM_OK) {
        free(made);
        return NULL;
    }
    made->device = device;
    made->base = range->base;
    made->remote_read = remote_read;
    hc_list_append(&device->registrations, &made->node);
    device->num_registrations++;
    hc_counter_add(&device->context->counters, HC_COUNTER_DEVICE_REGISTRATIONS, 1);
    return made;
}

/* The registration that covers [ptr, ptr + size), for one message; NULL when there is none. */
static struct hc_registration *get(struct hc_device *device, struct hc_iface *iface, const void *ptr,
                                   size_t size, bool remote_read)
{
    const struct hc_range *range = hc_ranges_find(&device->ranges, ptr);
    if (!range || range->kind != HC_PLACE_DEVICE || size > range->size - ((uintptr_t)ptr - range->base))
        return NULL;
    struct hc_registration *got = find(device, iface, range->base, remote_read);
    if (!got)
        got = make(device, iface, range, remote_read);
    if (!got)
        return NULL;
    got->uses++;
    hc_list_remove(&got->node);
    hc_list_append(&device->registrations, &got->node);
    return got;
}

hcomm_status_t hc_request_register(struct hcomm_request *request)
{
    struct hc_iface *iface = request->peer->ep->iface;
    bool send = request->kind == HC_REQUEST_SEND;
    size_t size = send ? request->capacity : request->accept;
    const struct hc_mem_attr attr = {
        .type = request->on_device ? HC_MEMORY_DEVICE : HC_MEMORY_HOST,
        .device = request->on_device ? hc_device_id(request->context->device) : -1,
        .remote_read = send,
        .remote_write = !send && (iface->attr.caps & HC_CAP_SHARE),
    };
    if (hc_unlikely(request->on_device) && !attr.remote_write)
        request->registration = get(request->context->device, iface, request->buf, size, attr.remote_read);
    if (hc_likely(request->registration == NULL))
        return iface->transport->mem_reg(iface, request->buf, size, &attr, &request->mem);
    request->mem = request->registration->mem;
    return HCOMM_OK;
}

/* One message less; a peer that may still reach the memory must not do so by the next message's time. */
static void put(struct hc_registration *registration, bool keep)
{
    registration->uses--;
    if (!keep || registration->dropped)
        drop(registration);
}

void hc_request_deregister(struct hcomm_request *request, bool succeeded)
{
    if (hc_unlikely(request->registration != NULL))
        put(request->registration, succeeded);
    else if (request->mem)
        request->mem->iface->transport->mem_dereg(request->mem);
    request->registration = NULL;
    request->mem = NULL;
}

void hc_registrations_forget(struct hc_device *device, const void *base)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &device->registrations)
    {
        struct hc_registration *one = hc_list_entry(node, struct hc_registration, node);
        if (one->base == (uintptr_t)base)
            drop(one);
    }
}

void hc_registrations_fini(struct hc_device *device)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &device->registrations)
        end(hc_list_entry(node, struct hc_registration, node));
}
