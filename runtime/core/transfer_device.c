/*
 * Transfers with device memory on a side. Per direction there are some streams of the device, lanes, which
 * take turns. Copies that are handed over together share an event per lane, which is what polling looks at.
 * What the device's engines do not reach, pageable host memory, passes through pieces of pinned staging
 * memory, several under way at a time.
 *
 * A failure stays on a stream of the device, and does not tell which copy it was. So everything that is under
 * way on the lane fails with it, and the lane gets a new stream.
 */
#include "runtime/core/transfer.h"

#include "runtime/base/copy.h"
#include "runtime/core/device.h"
#include "transports/npu/acl/table.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    DIRECTIONS = 3,
    WIDTH = 8, /* lanes of a direction: copies of one stream wait for each other's latency */
    LANES = DIRECTIONS * WIDTH,
    COPIES_PER_SLAB = 64,
    GROUP_BYTES = 4 << 20, /* copies that share an event: more would delay the first for the last */
    PIECES_SHARE = 16,     /* of buffer_size is a piece */
    PIECE_LEAST = 128 << 10,
    PIECE_MOST = 1 << 20,
};

/* Part of a transfer on a lane. */
struct copy {
    struct hc_list node; /* in a group, or in device->arrived */
    struct hc_transfer *transfer;
    uint8_t *piece; /* of staging memory, NULL: straight */
    size_t offset, len;
};

/* Copies that one event completes. */
struct group {
    struct hc_list node; /* in lane->groups or device->free_groups */
    hc_acl_event_t event;
    struct hc_list copies;
    size_t bytes;
};

struct lane {
    int kind;
    hc_acl_stream_t stream; /* NULL until needed, and after a failure */
    struct hc_list groups;  /* recorded, in order */
    struct group *open;     /* not recorded yet; NULL: none */
};

struct hc_transfer_device {
    struct hcomm_context *context;
    struct hc_device *device;
    const struct hc_acl *acl;
    struct lane lanes[LANES]; /* WIDTH for each direction */
    unsigned turn;
    struct hc_list free_groups;
    struct hc_pool copies;
    unsigned groups_in_flight;
    struct hc_staging staging;
    struct hc_list arrived; /* copies whose piece holds what is to be copied to the host */
    unsigned pieces;        /* of staging memory that are under way */
};

static bool is_to_device(const struct lane *lane)
{
    return lane->kind == HC_ACL_H2D;
}

/* ---- beginning and end ---- */

static hcomm_status_t alloc_pinned(void *arg, size_t size, void **ptr)
{
    struct hc_transfer_device *device = arg;
    int previous;
    hcomm_status_t status = hc_device_enter(device->device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = device->acl->aclrtMallocHost(ptr, size);
    if (code != HC_ACL_OK)
        status = hc_device_error(device->device, code, "allocating %zu bytes of staging memory", size);
    else /* staging pieces are taken with the engine's lock held */
        hc_counter_add(&device->context->counters, HC_COUNTER_STAGING_ALLOCATIONS, 1);
    hc_device_leave(device->device, previous);
    return status;
}

static void release_pinned(void *arg, void *ptr)
{
    struct hc_transfer_device *device = arg;
    int code = device->acl->aclrtFreeHost(ptr);
    if (code != HC_ACL_OK)
        hc_log_debug("staging memory %p cannot be freed: code %d", ptr, code);
}

static hcomm_status_t init_staging(struct hc_transfer_device *device, size_t bytes)
{
    const struct hc_staging_memory memory = {alloc_pinned, release_pinned, device};
    size_t size = bytes / PIECES_SHARE;
    size = size < PIECE_LEAST ? PIECE_LEAST : size > PIECE_MOST ? PIECE_MOST : size;
    return hc_staging_init(&device->staging, size, 2, bytes / size, &memory);
}

hcomm_status_t hc_transfer_device_create(struct hc_transfers *engine)
{
    struct hc_transfer_device *device = calloc(1, sizeof(*device));
    if (!device)
        return hc_error(HCOMM_ERR_NO_MEMORY, "transfers: out of memory");
    device->context = engine->context;
    device->device = engine->context->device;
    device->acl = hc_device_acl(device->device);
    static const int kinds[DIRECTIONS] = {HC_ACL_H2D, HC_ACL_D2H, HC_ACL_D2D};
    for (size_t i = 0; i < LANES; i++) {
        device->lanes[i].kind = kinds[i / WIDTH];
        hc_list_init(&device->lanes[i].groups);
    }
    hc_list_init(&device->free_groups);
    hc_list_init(&device->arrived);
    hc_pool_init(&device->copies, sizeof(struct copy), COPIES_PER_SLAB);
    hcomm_status_t status = init_staging(device, engine->context->settings.buffer_size);
    if (status != HCOMM_OK) {
        free(device);
        return status;
    }
    engine->device = device;
    return HCOMM_OK;
}

static void drop_group(struct hc_transfer_device *device, struct group *group)
{
    if (device->acl->aclrtDestroyEvent(group->event) != HC_ACL_OK)
        hc_log_debug("an event of a transfer cannot be destroyed");
    free(group);
}

/* What is left in a list of copies at the end. */
static void abandon_copies(struct hc_transfer_device *device, struct hc_list *copies)
{
    struct hc_list *node;
    while ((node = hc_list_pop(copies))) {
        struct copy *copy = hc_list_entry(node, struct copy, node);
        if (copy->piece)
            hc_staging_put(&device->staging, copy->piece);
    }
}

static void destroy_lane(struct hc_transfer_device *device, struct lane *lane)
{
    struct hc_list *node;
    if (lane->stream && device->acl->aclrtDestroyStream(lane->stream) != HC_ACL_OK)
        hc_log_debug("a stream of transfers cannot be destroyed");
    while ((node = hc_list_pop(&lane->groups))) {
        struct group *group = hc_list_entry(node, struct group, node);
        abandon_copies(device, &group->copies);
        drop_group(device, group);
    }
}

void hc_transfer_device_destroy(struct hc_transfer_device *device)
{
    int previous;
    struct hc_list *node;
    if (hc_device_enter(device->device, &previous) == HCOMM_OK) {
        for (size_t i = 0; i < LANES; i++)
            destroy_lane(device, &device->lanes[i]);
        while ((node = hc_list_pop(&device->free_groups)))
            drop_group(device, hc_list_entry(node, struct group, node));
        abandon_copies(device, &device->arrived);
        hc_staging_fini(&device->staging);
        hc_device_leave(device->device, previous);
    }
    hc_pool_fini(&device->copies);
    free(device);
}

/* ---- lanes; the device is the thread's current one ---- */

static hcomm_status_t make_stream(struct hc_transfer_device *device, struct lane *lane)
{
    if (lane->stream)
        return HCOMM_OK;
    int code = device->acl->aclrtCreateStream(&lane->stream);
    if (code == HC_ACL_OK)
        return HCOMM_OK;
    lane->stream = NULL;
    return hc_device_error(device->device, code, "making a stream for transfers");
}

static struct group *take_group(struct hc_transfer_device *device)
{
    struct hc_list *node = hc_list_pop(&device->free_groups);
    if (node)
        return hc_list_entry(node, struct group, node);
    struct group *group = calloc(1, sizeof(*group));
    if (!group) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "transfers: out of memory");
        return NULL;
    }
    int code = device->acl->aclrtCreateEventExWithFlag(&group->event, HC_ACL_EVENT_SYNC);
    if (code != HC_ACL_OK) {
        (void)hc_device_error(device->device, code, "making an event for transfers");
        free(group);
        return NULL;
    }
    hc_list_init(&group->copies);
    return group;
}

static void put_group(struct hc_transfer_device *device, struct group *group)
{
    group->bytes = 0;
    hc_list_append(&device->free_groups, &group->node);
}

/* A copy is over, one way or the other. */
static void end_copy(struct hc_transfers *engine, struct copy *copy, hcomm_status_t status)
{
    struct hc_transfer_device *device = engine->device;
    struct hc_transfer *transfer = copy->transfer;
    size_t len = copy->len;
    if (copy->piece) {
        hc_staging_put(&device->staging, copy->piece);
        device->pieces--;
    }
    hc_pool_put(&device->copies, copy);
    hc_transfer_advance(engine, transfer, len, status);
}

/* Take over what a group's event completed. */
static void end_group(struct hc_transfers *engine, const struct lane *lane, struct group *group,
                      hcomm_status_t status)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&group->copies))) {
        struct copy *copy = hc_list_entry(node, struct copy, node);
        if (status == HCOMM_OK && copy->piece && !is_to_device(lane))
            hc_list_append(&engine->device->arrived, &copy->node);
        else
            end_copy(engine, copy, status);
    }
    put_group(engine->device, group);
}

/* The thread's error detail tells why. */
static void fail_lane(struct hc_transfers *engine, struct lane *lane, hcomm_status_t status)
{
    struct hc_transfer_device *device = engine->device;
    char detail[HC_TRANSFER_DETAIL];
    (void)snprintf(detail, sizeof(detail), "%s", hc_error_detail());
    if (lane->stream && device->acl->aclrtDestroyStream(lane->stream) != HC_ACL_OK)
        hc_log_debug("a stream of transfers that failed cannot be destroyed");
    lane->stream = NULL;
    struct group *open = lane->open;
    lane->open = NULL;
    struct hc_list *node;
    while ((node = hc_list_pop(&lane->groups))) {
        device->groups_in_flight--;
        (void)hc_error(status, "%s", detail);
        end_group(engine, lane, hc_list_entry(node, struct group, node), status);
    }
    (void)hc_error(status, "%s", detail);
    if (open)
        end_group(engine, lane, open, status);
}

/* Record the open group's event. */
static void close_group(struct hc_transfers *engine, struct lane *lane)
{
    struct hc_transfer_device *device = engine->device;
    struct group *group = lane->open;
    if (!group)
        return;
    int code = device->acl->aclrtRecordEvent(group->event, lane->stream);
    if (code != HC_ACL_OK) {
        fail_lane(engine, lane, hc_device_error(device->device, code, "recording an event of transfers"));
        return;
    }
    lane->open = NULL;
    hc_list_append(&lane->groups, &group->node);
    device->groups_in_flight++;
}

static hcomm_status_t enqueue(struct hc_transfer_device *device, struct lane *lane, const struct copy *copy)
{
    const struct hc_transfer *transfer = copy->transfer;
    hcomm_status_t status = make_stream(device, lane);
    if (status != HCOMM_OK)
        return status;
    if (!lane->open && !(lane->open = take_group(device)))
        return HCOMM_ERR_LIMIT;
    uint8_t *dst = transfer->dst + copy->offset;
    const uint8_t *src = transfer->src + copy->offset;
    if (copy->piece && is_to_device(lane))
        src = copy->piece;
    else if (copy->piece)
        dst = copy->piece;
    int code = device->acl->aclrtMemcpyAsync(dst, copy->len, src, copy->len, lane->kind, lane->stream);
    return code == HC_ACL_OK ? HCOMM_OK
                             : hc_device_error(device->device, code, "transferring %zu bytes", copy->len);
}

/* Hand a copy to the device's engines. */
static void push(struct hc_transfers *engine, struct lane *lane, struct copy *copy)
{
    hcomm_status_t status = enqueue(engine->device, lane, copy);
    if (status != HCOMM_OK) {
        end_copy(engine, copy, status);
        return;
    }
    hc_list_append(&lane->open->copies, &copy->node);
    lane->open->bytes += copy->len;
    if (lane->open->bytes >= GROUP_BYTES)
        close_group(engine, lane);
}

static struct copy *new_copy(struct hc_transfers *engine, struct hc_transfer *transfer, uint8_t *piece,
                             size_t len)
{
    struct copy *copy = hc_pool_get(&engine->device->copies);
    if (!copy) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "transfers: out of memory");
        return NULL;
    }
    *copy = (struct copy){.transfer = transfer, .piece = piece, .offset = transfer->issued, .len = len};
    hc_list_init(&copy->node);
    transfer->issued += len;
    return copy;
}

/* The lane whose turn it is. */
static struct lane *lane_of(struct hc_transfer_device *device, bool to_device, bool from_device)
{
    unsigned direction = to_device && from_device ? 2 : to_device ? 0 : 1;
    return &device->lanes[direction * WIDTH + device->turn++ % WIDTH];
}

/* ---- starting ---- */

bool hc_transfer_device_stages(struct hc_transfer_places places)
{
    return (places.src == HC_PLACE_DEVICE && places.dst == HC_PLACE_HOST) ||
           (places.dst == HC_PLACE_DEVICE && places.src == HC_PLACE_HOST);
}

void hc_transfer_device_start(struct hc_transfers *engine, struct hc_transfer *transfer,
                              struct hc_transfer_places places)
{
    struct hc_transfer_device *device = engine->device;
    transfer->on_device = true;
    transfer->to_device = places.dst == HC_PLACE_DEVICE;
    if (transfer->callback && !engine->called_device++)
        hc_transfers_wake_caller(engine);
    if (hc_transfer_device_stages(places)) {
        hc_counter_add(&engine->context->counters, HC_COUNTER_TRANSFERS_STAGED, 1);
        hc_list_append(&engine->staged_queue, &transfer->queue);
        hc_transfers_wake_copier(engine);
        return;
    }
    struct copy *copy = new_copy(engine, transfer, NULL, transfer->size);
    if (copy)
        push(engine, lane_of(device, transfer->to_device, places.src == HC_PLACE_DEVICE), copy);
    else
        hc_transfer_complete(engine, transfer, HCOMM_ERR_NO_MEMORY);
}

void hc_transfer_device_flush(struct hc_transfers *engine)
{
    for (size_t i = 0; i < LANES; i++)
        close_group(engine, &engine->device->lanes[i]);
}

/* ---- polling ---- */

/* HCOMM_IN_PROGRESS, or how the lane's first group ended. */
static hcomm_status_t look_at(struct hc_transfer_device *device, const struct lane *lane,
                              const struct group *group)
{
    int event = HC_ACL_EVENT_NOT_READY, stream = HC_ACL_STREAM_NOT_READY;
    int code = device->acl->aclrtQueryEventStatus(group->event, &event);
    if (code == HC_ACL_OK && event != HC_ACL_EVENT_COMPLETE)
        return HCOMM_IN_PROGRESS;
    /* events are recorded after a failure, too: the stream tells */
    if (code == HC_ACL_OK)
        code = device->acl->aclrtStreamQuery(lane->stream, &stream);
    return code == HC_ACL_OK ? HCOMM_OK : hc_device_error(device->device, code, "a transfer");
}

static unsigned poll_lane(struct hc_transfers *engine, struct lane *lane)
{
    unsigned moved = 0;
    struct hc_list *node;
    while ((node = hc_list_first(&lane->groups))) {
        struct group *group = hc_list_entry(node, struct group, node);
        hcomm_status_t status = look_at(engine->device, lane, group);
        if (status == HCOMM_IN_PROGRESS)
            break;
        moved++;
        if (status != HCOMM_OK) {
            fail_lane(engine, lane, status);
            break;
        }
        hc_list_remove(&group->node);
        engine->device->groups_in_flight--;
        end_group(engine, lane, group, HCOMM_OK);
    }
    return moved;
}

bool hc_transfer_device_busy(const struct hc_transfers *engine)
{
    return engine->device && engine->device->groups_in_flight;
}

unsigned hc_transfer_device_poll(struct hc_transfers *engine)
{
    int previous;
    if (!hc_transfer_device_busy(engine))
        return 0;
    struct hc_transfer_device *device = engine->device;
    hcomm_status_t status = hc_device_enter(device->device, &previous);
    if (status != HCOMM_OK) { /* it is lost */
        for (size_t i = 0; i < LANES; i++)
            fail_lane(engine, &device->lanes[i], status);
        return 1;
    }
    unsigned moved = 0;
    for (size_t i = 0; i < LANES; i++)
        moved += poll_lane(engine, &device->lanes[i]);
    hc_device_leave(device->device, previous);
    return moved;
}

/* ---- staging ---- */

bool hc_transfer_device_staging(const struct hc_transfers *engine)
{
    return engine->device && (engine->device->pieces || !hc_list_empty(&engine->staged_queue));
}

/* Copy a piece that came from the device to where it belongs. */
static bool unload_piece(struct hc_transfers *engine)
{
    struct hc_list *node = hc_list_pop(&engine->device->arrived);
    if (!node)
        return false;
    struct copy *copy = hc_list_entry(node, struct copy, node);
    hc_lock_release(&engine->lock);
    hc_copy(copy->transfer->dst + copy->offset, copy->piece, copy->len);
    hc_lock_acquire(&engine->lock);
    end_copy(engine, copy, HCOMM_OK);
    return true;
}

/* The next part of the oldest staged transfer gets a piece; NULL: none to get one, or no piece. */
static struct copy *next_piece(struct hc_transfers *engine)
{
    struct hc_transfer_device *device = engine->device;
    struct hc_list *node = hc_list_first(&engine->staged_queue);
    void *piece = NULL;
    if (!node)
        return NULL;
    struct hc_transfer *transfer = hc_list_entry(node, struct hc_transfer, queue);
    hcomm_status_t status = hc_staging_get(&device->staging, &piece);
    if (status == HCOMM_AGAIN)
        return NULL;
    if (status != HCOMM_OK) {
        hc_transfer_advance(engine, transfer, 0, status);
        return NULL;
    }
    size_t left = transfer->size - transfer->issued, size = device->staging.piece_size;
    struct copy *copy = new_copy(engine, transfer, piece, left < size ? left : size);
    if (!copy) {
        hc_staging_put(&device->staging, piece);
        hc_transfer_advance(engine, transfer, 0, HCOMM_ERR_NO_MEMORY);
        return NULL;
    }
    if (transfer->issued == transfer->size)
        hc_list_remove(&transfer->queue);
    device->pieces++;
    return copy;
}

static void send_piece(struct hc_transfers *engine, struct copy *copy)
{
    struct lane *lane = lane_of(engine->device, copy->transfer->to_device, !copy->transfer->to_device);
    int previous;
    hcomm_status_t status = hc_device_enter(engine->device->device, &previous);
    if (status != HCOMM_OK) {
        end_copy(engine, copy, status);
        return;
    }
    push(engine, lane, copy);
    close_group(engine, lane);
    hc_device_leave(engine->device->device, previous);
}

bool hc_transfer_device_stage(struct hc_transfers *engine)
{
    if (!engine->device)
        return false;
    if (unload_piece(engine))
        return true;
    struct copy *copy = next_piece(engine);
    if (!copy)
        return false;
    if (copy->transfer->to_device) {
        hc_lock_release(&engine->lock);
        hc_copy(copy->piece, copy->transfer->src + copy->offset, copy->len);
        hc_lock_acquire(&engine->lock);
    }
    send_piece(engine, copy);
    return true;
}
