/* Transfers: the public calls. */
#include "runtime/core/transfer.h"

#include "runtime/base/copy.h"
#include "runtime/core/device.h"
#include "runtime/core/progress.h"

#include <string.h>

enum {
    GROUP = 64,              /* transfers that are handed over together */
    COPY_AT_ONCE = 16 << 10, /* cheaper than waking a thread */
};

/* ---- arguments ---- */

static hcomm_status_t check_handle(hcomm_handle_t handle, const char *call)
{
    if (!handle || !hc_progress_is_registered(handle))
        return hc_error(HCOMM_ERR_INVALID, "%s: %s", call,
                        handle ? "the handle is not of a context in use; it may be finalized already"
                               : "handle is NULL");
    if (handle->forked)
        return hc_error(HCOMM_ERR_INVALID, "%s: " HC_FORKED_TEXT, call, handle->job->rank);
    return HCOMM_OK;
}

static const char *check_range(uintptr_t start, size_t size)
{
    if (!start)
        return "is NULL";
    return start + size < start ? "does not end before the address space does" : NULL;
}

static const char *check_fields(const hcomm_transfer_t *transfer)
{
    if (transfer->flags & ~(unsigned)HCOMM_TRANSFER_NO_WAIT)
        return "flags has bits without a meaning";
    for (size_t i = 0; i < hc_array_len(transfer->reserved); i++)
        if (transfer->reserved[i])
            return "reserved is not zero; zero the whole structure first";
    return NULL;
}

static hcomm_status_t check_transfer(const hcomm_transfer_t *transfer)
{
    const char *wrong = check_fields(transfer);
    if (wrong)
        return hc_error(HCOMM_ERR_INVALID, "%s", wrong);
    if (!transfer->size)
        return HCOMM_OK;
    uintptr_t src = (uintptr_t)transfer->src_ptr, dst = (uintptr_t)transfer->dst_ptr;
    if ((wrong = check_range(src, transfer->size)))
        return hc_error(HCOMM_ERR_INVALID, "src_ptr %s", wrong);
    if ((wrong = check_range(dst, transfer->size)))
        return hc_error(HCOMM_ERR_INVALID, "dst_ptr %s", wrong);
    if (src < dst + transfer->size && dst < src + transfer->size)
        return hc_error(HCOMM_ERR_INVALID, "source %p and destination %p overlap within %zu bytes",
                        transfer->src_ptr, transfer->dst_ptr, transfer->size);
    return HCOMM_OK;
}

static hcomm_status_t check_all(const hcomm_transfer_t *transfers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hcomm_status_t status = check_transfer(&transfers[i]);
        if (status == HCOMM_OK)
            continue;
        if (n > 1)
            hc_error_prefix("transfer %zu of %zu: ", i, n);
        return status;
    }
    return HCOMM_OK;
}

/* Where everything lies. The context's lock is held. */
static hcomm_status_t locate(struct hcomm_context *context, const hcomm_transfer_t *transfer,
                             struct hc_transfer_places *places)
{
    enum hc_place src = HC_PLACE_HOST, dst = HC_PLACE_HOST;
    hcomm_status_t status = hc_device_locate(context, transfer->src_ptr, transfer->size, &src);
    if (status == HCOMM_OK)
        status = hc_device_locate(context, transfer->dst_ptr, transfer->size, &dst);
    *places = (struct hc_transfer_places){(int)src, (int)dst};
    return status;
}

/* places has room for n, or is NULL: then only checked. */
static hcomm_status_t locate_all(struct hcomm_context *context, const hcomm_transfer_t *transfers, size_t n,
                                 struct hc_transfer_places *places)
{
    hcomm_status_t status = HCOMM_OK;
    struct hc_transfer_places ignored;
    hc_lock_acquire(&context->lock);
    for (size_t i = 0; status == HCOMM_OK && i < n; i++) {
        status = locate(context, &transfers[i], places ? &places[i] : &ignored);
        if (status != HCOMM_OK && n > 1)
            hc_error_prefix("transfer %zu of %zu: ", i, n);
    }
    hc_lock_release(&context->lock);
    return status;
}

static bool is_on_device(struct hc_transfer_places places)
{
    return places.src == HC_PLACE_DEVICE || places.dst == HC_PLACE_DEVICE;
}

/* ---- submission ---- */

/* Transfers on their way into the engine, at most GROUP. */
struct group {
    hcomm_transfer_t *transfers;
    struct hc_transfer_places places[GROUP];
    size_t count;
    struct hc_transfer *at_once[GROUP]; /* to be copied by the submitter */
    size_t num_at_once;
};

static bool has_room(struct hc_transfers *engine, const void *arg)
{
    (void)arg;
    return hc_transfer_room(engine) > 0 || engine->closing;
}

static hcomm_status_t check_open(const struct hc_transfers *engine)
{
    return engine->closing ? hc_error(HCOMM_ERR_INVALID, "the context is being finalized") : HCOMM_OK;
}

/* Reserve room for at least one of `count`; *got is how many. */
static hcomm_status_t wait_for_room(struct hc_transfers *engine, size_t count, size_t *got)
{
    if (!hc_transfer_room(engine) && hc_transfers_in_callback(engine))
        return hc_error(HCOMM_AGAIN,
                        "the queue is full (queue_depth %u), and a callback does not wait for room",
                        engine->depth);
    hcomm_status_t status = hc_transfers_wait(engine, has_room, NULL);
    if (status == HCOMM_ERR_TIMEOUT)
        return hc_error(
            status, "the queue is full (queue_depth %u) and no transfer moved for %d ms (setting timeout_ms)",
            engine->depth, engine->context->settings.timeout_ms);
    if (status == HCOMM_OK)
        status = check_open(engine);
    if (status != HCOMM_OK)
        return status;
    unsigned room = hc_transfer_room(engine);
    *got = count < room ? count : room;
    hc_transfer_reserve(engine, (unsigned)*got);
    return HCOMM_OK;
}

/* All or nothing. */
static hcomm_status_t reserve_now(struct hc_transfers *engine, size_t n)
{
    if (n > engine->depth)
        return hc_error(HCOMM_ERR_LIMIT, "%zu transfers never fit the queue at once: queue_depth is %u", n,
                        engine->depth);
    if (n > hc_transfer_room(engine))
        return hc_error(HCOMM_AGAIN,
                        "the queue has no room for %zu transfers: %u of queue_depth %u are in flight", n,
                        engine->used, engine->depth);
    hc_transfer_reserve(engine, (unsigned)n);
    return HCOMM_OK;
}

/* Before anything of a group starts: the threads that it will need. */
static hcomm_status_t need_threads(struct hc_transfers *engine, const struct group *group)
{
    bool copier = false, caller = false;
    for (size_t i = 0; i < group->count; i++) {
        bool on_device = is_on_device(group->places[i]);
        caller = caller || group->transfers[i].callback;
        copier = copier || (on_device ? hc_transfer_device_stages(group->places[i])
                                      : group->transfers[i].size > COPY_AT_ONCE);
    }
    hcomm_status_t status = caller ? hc_transfers_need_caller(engine) : HCOMM_OK;
    return status == HCOMM_OK && copier ? hc_transfers_need_copier(engine) : status;
}

static void describe(struct hc_transfer *slot, const hcomm_transfer_t *transfer)
{
    slot->src = transfer->src_ptr;
    slot->dst = transfer->dst_ptr;
    slot->size = transfer->size;
    slot->callback = transfer->callback;
    slot->user_data = transfer->user_data;
    slot->issued = slot->finished = 0;
    slot->status = HCOMM_OK;
    slot->complete = slot->on_device = false;
}

static void start(struct hc_transfers *engine, struct group *group, struct hc_transfer *slot,
                  struct hc_transfer_places places)
{
    if (is_on_device(places) && slot->size) {
        hc_transfer_device_start(engine, slot, places);
    } else if (slot->size <= COPY_AT_ONCE) {
        slot->issued = slot->size;
        group->at_once[group->num_at_once++] = slot;
    } else {
        hc_list_append(&engine->host_queue, &slot->queue);
        hc_transfers_wake_copier(engine);
    }
}

/* The lock is released and retaken. */
static void copy_at_once(struct hc_transfers *engine, struct group *group)
{
    if (!group->num_at_once)
        return;
    hc_lock_release(&engine->lock);
    for (size_t i = 0; i < group->num_at_once; i++)
        hc_copy(group->at_once[i]->dst, group->at_once[i]->src, group->at_once[i]->size);
    hc_lock_acquire(&engine->lock);
    for (size_t i = 0; i < group->num_at_once; i++)
        hc_transfer_complete(engine, group->at_once[i], HCOMM_OK);
    group->num_at_once = 0;
}

/* Start the first `count` of the group, for which room is reserved. The device is the thread's current one.
 */
static void start_some(struct hc_transfers *engine, struct group *group, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct hc_transfer *slot = hc_transfer_take(engine);
        describe(slot, &group->transfers[i]);
        group->transfers[i].id = slot->id;
        group->transfers[i].status = HCOMM_IN_PROGRESS;
        start(engine, group, slot, group->places[i]);
    }
    if (engine->device)
        hc_transfer_device_flush(engine);
    copy_at_once(engine, group);
    group->transfers += count;
    group->count -= count;
    memmove(group->places, group->places + count, group->count * sizeof(group->places[0]));
}

/* The engine's lock is held. Room for all is reserved already, or is waited for. */
static hcomm_status_t submit_group(struct hc_transfers *engine, struct group *group, bool reserved)
{
    hcomm_status_t status = need_threads(engine, group);
    while (group->count && status == HCOMM_OK) {
        size_t count = group->count;
        if (!reserved)
            status = wait_for_room(engine, group->count, &count);
        if (status == HCOMM_OK)
            start_some(engine, group, count);
    }
    return status;
}

/* The same with the device made the thread's current one. */
static hcomm_status_t submit_located(struct hc_transfers *engine, struct group *group, bool reserved)
{
    int previous;
    hcomm_status_t status = check_open(engine);
    if (status == HCOMM_OK && engine->context->device && !engine->device)
        status = hc_transfer_device_create(engine);
    if (status != HCOMM_OK || !engine->device)
        return status == HCOMM_OK ? submit_group(engine, group, reserved) : status;
    status = hc_device_enter(engine->context->device, &previous);
    if (status != HCOMM_OK)
        return status;
    status = submit_group(engine, group, reserved);
    hc_device_leave(engine->context->device, previous);
    return status;
}

static hcomm_status_t check_not_freed(const struct hc_transfers *engine, const hcomm_transfer_t *transfers,
                                      size_t n)
{
    if (hc_likely(hc_list_empty(&engine->doomed)))
        return HCOMM_OK;
    for (size_t i = 0; i < n; i++)
        if (hc_transfers_is_freed(engine, transfers[i].src_ptr, transfers[i].size) ||
            hc_transfers_is_freed(engine, transfers[i].dst_ptr, transfers[i].size))
            return hc_error(HCOMM_ERR_INVALID,
                            "rank %u: transfer %zu of %zu uses memory that was freed (hcomm_free_host_mem(), "
                            "hcomm_mem_free()); submit it before",
                            engine->context->job->rank, i, n);
    return HCOMM_OK;
}

/* Up to GROUP of them. *reserve: room for so many is to be reserved first, once. */
static hcomm_status_t submit_some(struct hc_transfers *engine, hcomm_transfer_t *transfers, size_t n,
                                  bool at_once, size_t *reserve)
{
    struct group group = {.transfers = transfers, .count = n, .num_at_once = 0};
    hcomm_status_t status = locate_all(engine->context, transfers, n, group.places);
    if (status != HCOMM_OK)
        return status;
    hc_lock_acquire(&engine->lock);
    status = check_not_freed(engine, transfers, n);
    if (status == HCOMM_OK && *reserve)
        status = reserve_now(engine, *reserve);
    if (status == HCOMM_OK) {
        *reserve = 0;
        status = submit_located(engine, &group, at_once);
    }
    hc_lock_release(&engine->lock);
    return status;
}

/* A batch that stopped half-way: nobody else would ever use the room that was reserved for the rest. */
static void unreserve_rest(struct hc_transfers *engine, const hcomm_transfer_t *transfers, size_t n)
{
    unsigned rest = 0;
    for (size_t i = 0; i < n; i++)
        rest += transfers[i].id == 0;
    hc_lock_acquire(&engine->lock);
    hc_transfer_unreserve(engine, rest);
    hc_lock_release(&engine->lock);
}

static hcomm_status_t submit_all(struct hcomm_context *context, hcomm_transfer_t *transfers, size_t n)
{
    struct hc_transfers *engine = NULL;
    hcomm_status_t status = hc_transfers_get(context, &engine);
    bool at_once = transfers[0].flags & HCOMM_TRANSFER_NO_WAIT;
    size_t reserve = at_once ? n : 0;
    if (status == HCOMM_OK && n > GROUP) /* all are valid, or nothing starts */
        status = locate_all(context, transfers, n, NULL);
    for (size_t i = 0; status == HCOMM_OK && i < n; i += GROUP)
        status = submit_some(engine, transfers + i, n - i < GROUP ? n - i : GROUP, at_once, &reserve);
    if (status != HCOMM_OK && at_once && !reserve)
        unreserve_rest(engine, transfers, n);
    return status;
}

static hcomm_status_t submit(hcomm_handle_t handle, hcomm_transfer_t *transfers, size_t n, const char *call)
{
    hcomm_status_t status = check_handle(handle, call);
    if (status != HCOMM_OK)
        return status;
    if (n && !transfers)
        return hc_error(HCOMM_ERR_INVALID, "%s: %s is NULL", call, n == 1 ? "transfer" : "transfers");
    for (size_t i = 0; i < n; i++)
        transfers[i].id = 0;
    status = check_all(transfers, n);
    if (status == HCOMM_OK && n)
        status = submit_all(handle, transfers, n);
    if (status < 0)
        hc_error_prefix("%s: ", call);
    return status;
}

HCOMM_API hcomm_status_t hcomm_submit_transfer(hcomm_handle_t handle, hcomm_transfer_t *transfer)
{
    return submit(handle, transfer, 1, "hcomm_submit_transfer");
}

HCOMM_API hcomm_status_t hcomm_submit_transfer_id(hcomm_handle_t handle, hcomm_transfer_t *transfer,
                                                  hcomm_transfer_id_t *id)
{
    if (!id)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_submit_transfer_id: id is NULL");
    hcomm_status_t status = submit(handle, transfer, 1, "hcomm_submit_transfer_id");
    if (status == HCOMM_OK)
        *id = transfer->id;
    return status;
}

HCOMM_API hcomm_status_t hcomm_submit_batch(hcomm_handle_t handle, hcomm_transfer_t *transfers, size_t n)
{
    return submit(handle, transfers, n, "hcomm_submit_batch");
}

/* ---- completion ---- */

/* What a wait is for. */
struct awaited {
    uint64_t id;
};

static bool is_complete(struct hc_transfers *engine, const void *arg)
{
    const struct awaited *awaited = arg;
    hcomm_status_t status;
    return !hc_transfer_find(engine, awaited->id, &status);
}

static hcomm_status_t wait_one(struct hc_transfers *engine, uint64_t id)
{
    const struct awaited awaited = {id};
    hcomm_status_t status = hc_transfers_wait(engine, is_complete, &awaited), outcome = HCOMM_OK;
    const struct hc_transfer *transfer = hc_transfer_find(engine, id, &outcome);
    if (!transfer)
        return outcome;
    return hc_error(status,
                    "transfer %llu, %zu bytes from %p to %p: nothing moved for %d ms (setting timeout_ms)",
                    (unsigned long long)id, transfer->size, (const void *)transfer->src,
                    (void *)transfer->dst, engine->context->settings.timeout_ms);
}

static hcomm_status_t test_one(struct hc_transfers *engine, uint64_t id)
{
    hcomm_status_t outcome = HCOMM_OK;
    (void)hc_transfer_device_poll(engine);
    (void)hc_transfers_release(engine);
    return hc_transfer_find(engine, id, &outcome) ? HCOMM_IN_PROGRESS : outcome;
}

static hcomm_status_t cancel_one(struct hc_transfers *engine, uint64_t id)
{
    hcomm_status_t outcome = HCOMM_OK;
    struct hc_transfer *transfer = hc_transfer_find(engine, id, &outcome);
    if (!transfer)
        return outcome == HCOMM_OK
                   ? hc_error(HCOMM_ERR_INVALID, "transfer %llu is complete", (unsigned long long)id)
                   : HCOMM_ERR_INVALID;
    if (transfer->issued)
        return hc_error(HCOMM_ERR_PENDING, "transfer %llu has begun to move data", (unsigned long long)id);
    (void)hc_error(HCOMM_ERR_CANCELLED, "cancelled by the caller");
    hc_transfer_complete(engine, transfer, HCOMM_ERR_CANCELLED);
    return HCOMM_OK;
}

/* The call with the engine's lock held. */
static hcomm_status_t with_engine(hcomm_handle_t handle, uint64_t id, const char *call,
                                  hcomm_status_t (*body)(struct hc_transfers *engine, uint64_t id))
{
    struct hc_transfers *engine = NULL;
    hcomm_status_t status = check_handle(handle, call);
    if (status == HCOMM_OK)
        status = hc_transfers_get(handle, &engine);
    if (status != HCOMM_OK)
        return status;
    hc_lock_acquire(&engine->lock);
    status = body(engine, id);
    hc_lock_release(&engine->lock);
    if (status < 0)
        hc_error_prefix("%s: ", call);
    return status;
}

HCOMM_API hcomm_status_t hcomm_wait_completion(hcomm_handle_t handle, hcomm_transfer_id_t id)
{
    return with_engine(handle, id, "hcomm_wait_completion", wait_one);
}

HCOMM_API hcomm_status_t hcomm_test_completion(hcomm_handle_t handle, hcomm_transfer_id_t id)
{
    return with_engine(handle, id, "hcomm_test_completion", test_one);
}

HCOMM_API hcomm_status_t hcomm_cancel_transfer(hcomm_handle_t handle, hcomm_transfer_id_t id)
{
    return with_engine(handle, id, "hcomm_cancel_transfer", cancel_one);
}

static hcomm_status_t wait_each(struct hc_transfers *engine, hcomm_transfer_t *transfers, size_t n)
{
    hcomm_status_t overall = HCOMM_OK;
    for (size_t i = 0; i < n; i++) {
        /* after a time-out the others are only looked at */
        hcomm_status_t status = overall == HCOMM_ERR_TIMEOUT ? test_one(engine, transfers[i].id)
                                                             : wait_one(engine, transfers[i].id);
        transfers[i].status = status == HCOMM_ERR_TIMEOUT ? HCOMM_IN_PROGRESS : status;
        if (status == HCOMM_ERR_TIMEOUT)
            overall = HCOMM_ERR_TIMEOUT;
        else if (status < 0 && overall == HCOMM_OK)
            overall = HCOMM_ERR_IN_STATUS;
    }
    return overall;
}

HCOMM_API hcomm_status_t hcomm_wait_batch(hcomm_handle_t handle, hcomm_transfer_t *transfers, size_t n)
{
    struct hc_transfers *engine = NULL;
    hcomm_status_t status = check_handle(handle, "hcomm_wait_batch");
    if (status != HCOMM_OK)
        return status;
    if (n && !transfers)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_wait_batch: transfers is NULL");
    status = hc_transfers_get(handle, &engine);
    if (status != HCOMM_OK)
        return status;
    hc_lock_acquire(&engine->lock);
    status = wait_each(engine, transfers, n);
    hc_lock_release(&engine->lock);
    if (status < 0)
        hc_error_prefix("hcomm_wait_batch: ");
    return status;
}
