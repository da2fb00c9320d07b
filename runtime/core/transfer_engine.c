/* Transfers: slots, identifiers, completion, the engine's beginning and end. */
#include "runtime/core/transfer.h"

#include "runtime/core/in_use.h"
#include "runtime/core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- slots ---- */

/* A callback may put one transfer in the place of the one it is called for. */
static bool has_credit(const struct hc_transfers *engine)
{
    return engine->callback_credit && hc_transfers_in_callback(engine);
}

unsigned hc_transfer_room(const struct hc_transfers *engine)
{
    unsigned room = engine->used < engine->depth ? engine->depth - engine->used : 0;
    return room + has_credit(engine);
}

void hc_transfer_reserve(struct hc_transfers *engine, unsigned count)
{
    engine->used += count;
    if (engine->used > engine->depth)
        engine->callback_credit = false;
}

void hc_transfer_unreserve(struct hc_transfers *engine, unsigned count)
{
    engine->used -= count;
    hc_transfers_wake_waiters(engine);
}

struct hc_transfer *hc_transfer_take(struct hc_transfers *engine)
{
    struct hc_transfer *transfer = engine->free_slot;
    if (transfer)
        engine->free_slot = transfer->next_free;
    else
        transfer = &engine->slots[engine->fresh++];
    hc_counter_add(&engine->context->counters, HC_COUNTER_TRANSFERS, 1);
    uint64_t slot = (uint64_t)(transfer - engine->slots);
    transfer->id = (++transfer->generation << HC_TRANSFER_SLOT_BITS) | (slot + 1);
    hc_list_init(&transfer->queue);
    hc_list_append(&engine->live, &transfer->live);
    return transfer;
}

static void give_back(struct hc_transfers *engine, struct hc_transfer *transfer)
{
    transfer->id = 0;
    transfer->next_free = engine->free_slot;
    engine->free_slot = transfer;
    engine->used--;
}

/* ---- failures ---- */

static struct hc_transfer *slot_of(const struct hc_transfers *engine, uint64_t id)
{
    uint64_t slot = (id & ((UINT64_C(1) << HC_TRANSFER_SLOT_BITS) - 1)) - 1;
    return slot < engine->fresh ? &engine->slots[slot] : NULL;
}

static void forget(struct hc_transfers *engine, const struct hc_transfer_failure *failure)
{
    if (!failure->id)
        return;
    struct hc_transfer *slot = slot_of(engine, failure->id);
    slot->forgotten = failure->id >> HC_TRANSFER_SLOT_BITS;
    slot->failures--;
}

/* The calling thread's error detail tells why. */
static void remember_failure(struct hc_transfers *engine, struct hc_transfer *transfer, hcomm_status_t status)
{
    transfer->status = status;
    struct hc_transfer_failure *failure = &engine->failures[engine->next_failure];
    engine->next_failure = (engine->next_failure + 1) % HC_TRANSFER_FAILURES;
    forget(engine, failure);
    failure->id = transfer->id;
    failure->status = transfer->status;
    (void)snprintf(failure->detail, sizeof(failure->detail), "%s", hc_error_detail());
    transfer->failures++;
}

static hcomm_status_t recall_failure(const struct hc_transfers *engine, uint64_t id)
{
    for (size_t i = 0; i < HC_TRANSFER_FAILURES; i++)
        if (engine->failures[i].id == id)
            return hc_error(engine->failures[i].status, "%s", engine->failures[i].detail);
    return HCOMM_OK;
}

static hcomm_status_t past_outcome(const struct hc_transfers *engine, const struct hc_transfer *slot,
                                   uint64_t id)
{
    uint64_t generation = id >> HC_TRANSFER_SLOT_BITS;
    hcomm_status_t status = slot->failures ? recall_failure(engine, id) : HCOMM_OK;
    if (status == HCOMM_OK && generation <= slot->forgotten)
        return hc_error(HCOMM_ERR_INVALID,
                        "transfer %llu is complete for so long that its outcome is not known any more: only "
                        "the last %d failures are remembered",
                        (unsigned long long)id, HC_TRANSFER_FAILURES);
    return status;
}

struct hc_transfer *hc_transfer_find(struct hc_transfers *engine, uint64_t id, hcomm_status_t *status)
{
    struct hc_transfer *slot = slot_of(engine, id);
    uint64_t generation = id >> HC_TRANSFER_SLOT_BITS;
    if (!slot || !generation || generation > slot->generation) {
        *status = hc_error(HCOMM_ERR_INVALID, "%llu is not the identifier of a transfer of this context",
                           (unsigned long long)id);
        return NULL;
    }
    if (slot->id == id && !slot->complete)
        return slot;
    *status = past_outcome(engine, slot, id);
    return NULL;
}

/* ---- memory freed under a transfer ---- */

static bool uses(const struct hc_transfer *transfer, const void *ptr, size_t size)
{
    return hc_ranges_touch(transfer->src, transfer->size, ptr, size) ||
           hc_ranges_touch(transfer->dst, transfer->size, ptr, size);
}

static unsigned count_uses(struct hc_transfers *engine, const void *ptr, size_t size)
{
    unsigned count = 0;
    struct hc_list *node;
    (void)hc_transfer_device_poll(engine);
    hc_list_for_each(node, &engine->live) count +=
        uses(hc_list_entry(node, struct hc_transfer, live), ptr, size);
    return count;
}

bool hc_transfers_use(struct hcomm_context *context, const void *ptr, size_t size)
{
    struct hc_transfers *engine = context->transfers;
    if (!engine)
        return false;
    hc_lock_acquire(&engine->lock);
    unsigned count = count_uses(engine, ptr, size);
    hc_lock_release(&engine->lock);
    return count > 0;
}

bool hc_transfers_defer_free(struct hcomm_context *context, struct hc_doomed *block)
{
    struct hc_transfers *engine = context->transfers;
    if (!engine)
        return false;
    hc_lock_acquire(&engine->lock);
    block->uses = count_uses(engine, block->ptr, block->size);
    bool deferred = block->uses > 0;
    if (deferred)
        hc_list_append(&engine->doomed, &block->node);
    hc_lock_release(&engine->lock);
    return deferred;
}

static bool starts_in(const struct hc_list *blocks, const void *ptr)
{
    struct hc_list *node;
    hc_list_for_each(node, blocks)
    {
        if (hc_list_entry(node, struct hc_doomed, node)->ptr == ptr)
            return true;
    }
    return false;
}

bool hc_transfers_is_doomed(struct hcomm_context *context, const void *ptr)
{
    struct hc_transfers *engine = context->transfers;
    if (!engine)
        return false;
    hc_lock_acquire(&engine->lock);
    bool doomed = starts_in(&engine->doomed, ptr) || starts_in(&engine->released, ptr);
    hc_lock_release(&engine->lock);
    return doomed;
}

/* A transfer does not use memory any more. */
static void end_uses(struct hc_transfers *engine, const struct hc_transfer *transfer)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &engine->doomed)
    {
        struct hc_doomed *block = hc_list_entry(node, struct hc_doomed, node);
        if (!uses(transfer, block->ptr, block->size) || --block->uses)
            continue;
        hc_list_remove(&block->node);
        hc_list_append(&engine->released, &block->node);
    }
}

static struct hc_list *pop_released(struct hc_transfers *engine)
{
    hc_lock_acquire(&engine->lock);
    struct hc_list *node = hc_list_pop(&engine->released);
    hc_lock_release(&engine->lock);
    return node;
}

bool hc_transfers_release(struct hc_transfers *engine)
{
    if (hc_list_empty(&engine->released))
        return false;
    struct hcomm_context *context = engine->context;
    hc_lock_release(&engine->lock);
    hc_lock_acquire(&context->lock);
    struct hc_list *node;
    while ((node = pop_released(engine))) { /* without the lock: the device's runtime may take its time */
        struct hc_doomed *block = hc_list_entry(node, struct hc_doomed, node);
        block->release(context, block);
    }
    hc_lock_release(&context->lock);
    hc_lock_acquire(&engine->lock);
    return true;
}

/* For who does not hold the context's lock; NULL before the first submission. */
static struct hc_transfers *engine_of(struct hcomm_context *context)
{
    hc_lock_acquire(&context->lock);
    struct hc_transfers *engine = context->transfers;
    hc_lock_release(&context->lock);
    return engine;
}

void hc_transfers_progress(struct hcomm_context *context)
{
    struct hc_transfers *engine = engine_of(context);
    if (!engine)
        return;
    hc_lock_acquire(&engine->lock);
    (void)hc_transfers_help(engine);
    hc_lock_release(&engine->lock);
}

bool hc_transfers_release_freed(struct hcomm_context *context)
{
    struct hc_transfers *engine = engine_of(context);
    if (!engine)
        return false;
    hc_lock_acquire(&engine->lock);
    (void)hc_transfer_device_poll(engine);
    bool released = hc_transfers_release(engine);
    hc_lock_release(&engine->lock);
    return released;
}

bool hc_transfers_is_freed(const struct hc_transfers *engine, const void *ptr, size_t size)
{
    struct hc_list *node;
    hc_list_for_each(node, &engine->doomed)
    {
        const struct hc_doomed *block = hc_list_entry(node, struct hc_doomed, node);
        if (hc_ranges_touch(ptr, size, block->ptr, block->size))
            return true;
    }
    return false;
}

/* ---- completion ---- */

void hc_transfer_complete(struct hc_transfers *engine, struct hc_transfer *transfer, hcomm_status_t status)
{
    engine->activity = hc_clock_ns();
    if (status < 0 && transfer->status >= 0)
        remember_failure(engine, transfer, status);
    transfer->complete = true;
    hc_counter_add(&engine->context->counters, HC_COUNTER_TRANSFER_BYTES, status < 0 ? 0 : transfer->size);
    hc_list_remove(&transfer->live);
    if (hc_unlikely(!hc_list_empty(&engine->doomed)))
        end_uses(engine, transfer);
    hc_list_remove(&transfer->queue);
    if (transfer->callback) {
        engine->called_device -= transfer->on_device;
        hc_list_append(&engine->callbacks, &transfer->queue);
        hc_transfers_wake_caller(engine);
    } else {
        give_back(engine, transfer);
    }
    hc_transfers_wake_waiters(engine);
}

void hc_transfer_advance(struct hc_transfers *engine, struct hc_transfer *transfer, size_t bytes,
                         hcomm_status_t status)
{
    engine->activity = hc_clock_ns();
    transfer->finished += bytes;
    if (status < 0 && transfer->status >= 0) {
        remember_failure(engine, transfer, status);
        /* what nobody has taken yet will not be copied */
        hc_list_remove(&transfer->queue);
        transfer->finished += transfer->size - transfer->issued;
        transfer->issued = transfer->size;
    }
    if (transfer->finished == transfer->size)
        hc_transfer_complete(engine, transfer, transfer->status);
}

bool hc_transfer_call_next(struct hc_transfers *engine)
{
    struct hc_list *node = hc_list_pop(&engine->callbacks);
    if (!node)
        return false;
    struct hc_transfer *transfer = hc_list_entry(node, struct hc_transfer, queue);
    hcomm_status_t status = transfer->status;
    engine->in_callback = engine->callback_credit = true;
    if (status < 0)
        (void)recall_failure(engine, transfer->id);
    hc_lock_release(&engine->lock);
    transfer->callback(transfer->id, status, transfer->user_data);
    hc_lock_acquire(&engine->lock);
    engine->in_callback = engine->callback_credit = false;
    give_back(engine, transfer);
    hc_transfers_wake_waiters(engine);
    return true;
}

/* ---- beginning and end ---- */

static void destroy(struct hc_transfers *engine)
{
    if (engine->device)
        hc_transfer_device_destroy(engine->device);
    free(engine->failures);
    free(engine->slots);
    free(engine);
}

static hcomm_status_t create(struct hcomm_context *context, struct hc_transfers **out)
{
    struct hc_transfers *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return hc_error(HCOMM_ERR_NO_MEMORY, "transfers: out of memory");
    hc_lock_init(&engine->lock);
    engine->context = context;
    engine->depth = (unsigned)context->settings.queue_depth;
    hc_list_init(&engine->live);
    hc_list_init(&engine->doomed);
    hc_list_init(&engine->released);
    hc_list_init(&engine->host_queue);
    hc_list_init(&engine->staged_queue);
    hc_list_init(&engine->callbacks);
    /* one more than the depth: a callback may submit before its own slot is free */
    engine->slots = calloc(engine->depth + 1, sizeof(*engine->slots));
    engine->failures = calloc(HC_TRANSFER_FAILURES, sizeof(*engine->failures));
    if (!engine->slots || !engine->failures) {
        destroy(engine);
        return hc_error(HCOMM_ERR_NO_MEMORY, "transfers: out of memory for queue_depth %d",
                        context->settings.queue_depth);
    }
    *out = engine;
    return HCOMM_OK;
}

hcomm_status_t hc_transfers_get(struct hcomm_context *context, struct hc_transfers **engine)
{
    hcomm_status_t status = HCOMM_OK;
    hc_lock_acquire(&context->lock);
    if (!context->transfers)
        status = create(context, &context->transfers);
    *engine = context->transfers;
    hc_lock_release(&context->lock);
    return status;
}

bool hc_transfers_in_callback(const struct hc_transfers *engine)
{
    return engine->caller_runs && pthread_equal(pthread_self(), engine->caller);
}

bool hc_transfers_is_callback_thread(struct hcomm_context *context)
{
    struct hc_transfers *engine = engine_of(context);
    if (!engine)
        return false;
    hc_lock_acquire(&engine->lock);
    bool is = hc_transfers_in_callback(engine);
    hc_lock_release(&engine->lock);
    return is;
}

static bool all_returned(struct hc_transfers *engine, const void *arg)
{
    (void)arg;
    return engine->used == 0;
}

/* What is doomed goes even if the device never finished with it: the context ends, and its memory with it. */
static void release_all(struct hc_transfers *engine)
{
    if (engine->device)
        hc_transfer_device_destroy(engine->device);
    engine->device = NULL;
    hc_lock_acquire(&engine->lock);
    struct hc_list *node;
    while ((node = hc_list_pop(&engine->doomed)))
        hc_list_append(&engine->released, node);
    (void)hc_transfers_release(engine);
    hc_lock_release(&engine->lock);
}

hcomm_status_t hc_transfers_finish(struct hcomm_context *context)
{
    struct hc_transfers *engine = context->transfers;
    if (!engine)
        return HCOMM_OK;
    hc_lock_acquire(&engine->lock);
    engine->closing = true;
    hcomm_status_t status = hc_transfers_wait(engine, all_returned, NULL);
    (void)hc_transfers_release(engine);
    unsigned left = engine->used;
    hc_lock_release(&engine->lock);
    bool joined = hc_transfers_join(engine, status == HCOMM_OK ? HC_NEVER : hc_clock_ns());
    if (joined)
        release_all(engine);
    context->transfers = NULL;
    if (status != HCOMM_OK)
        status = hc_error(HCOMM_ERR_TIMEOUT,
                          "hcomm_finalize: %u transfers did not complete, or their callbacks did not return, "
                          "within %d ms (setting timeout_ms)",
                          left, context->settings.timeout_ms);
    if (joined)
        destroy(engine); /* else its thread is inside the application and will come back to it */
    return status;
}
