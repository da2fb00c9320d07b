/*
 * Prefetching: a ring of depth + 1 buffers. The one whose batch the caller gives back gets the batch that is
 * depth ahead of the one the caller is about to get.
 */
#include "runtime/core/core.h"
#include "runtime/core/progress.h"

#include <stdio.h>
#include <stdlib.h>

enum { DEPTH_DEFAULT = 2, DEPTH_MAX = 1024, DETAIL = 224 };

struct slot {
    void *buffer;
    hcomm_transfer_id_t id; /* 0: nothing was started */
    size_t size;
    hcomm_status_t status; /* of the submission */
    char detail[DETAIL];   /* if it failed */
};

struct hcomm_prefetch {
    struct hcomm_context *context;
    hcomm_prefetch_config_t config;
    struct slot *slots;
    size_t num_slots;
    uint64_t next;      /* batch to give out */
    uint64_t submitted; /* batches handed over, or failed */
    const void *data;   /* of batch `submitted`, where the source was asked already; NULL: not yet */
    size_t size;        /* of it */
    bool ended;         /* the source has no more */
};

static struct slot *slot_of(struct hcomm_prefetch *prefetch, uint64_t index)
{
    return &prefetch->slots[index % prefetch->num_slots];
}

/* Ask the source for batch `submitted`; false: there are no more. */
static bool ask_source(struct hcomm_prefetch *prefetch)
{
    if (prefetch->data)
        return true;
    prefetch->size = prefetch->config.batch_size;
    prefetch->data =
        prefetch->config.source(prefetch->config.user_data, prefetch->submitted, &prefetch->size);
    prefetch->ended = !prefetch->data;
    return prefetch->data;
}

/* A failed submission is told when the batch's turn comes. HCOMM_ERR_TIMEOUT: it is to be tried again. */
static hcomm_status_t submit_next(struct hcomm_prefetch *prefetch)
{
    struct slot *slot = slot_of(prefetch, prefetch->submitted);
    size_t size = prefetch->size;
    hcomm_transfer_t transfer = {.src_ptr = prefetch->data, .dst_ptr = slot->buffer, .size = size};
    slot->id = 0;
    slot->size = size;
    if (size > prefetch->config.batch_size)
        slot->status = hc_error(HCOMM_ERR_INVALID, "the source says %zu bytes, batch_size is %zu", size,
                                prefetch->config.batch_size);
    else
        slot->status = hcomm_submit_transfer_id(prefetch->context, &transfer, &slot->id);
    if (slot->status == HCOMM_ERR_TIMEOUT)
        return HCOMM_ERR_TIMEOUT;
    if (slot->status != HCOMM_OK)
        (void)snprintf(slot->detail, sizeof(slot->detail), "%s", hc_error_detail());
    prefetch->data = NULL;
    prefetch->submitted++;
    return HCOMM_OK;
}

static hcomm_status_t submit_ahead(struct hcomm_prefetch *prefetch)
{
    hcomm_status_t status = HCOMM_OK;
    while (status == HCOMM_OK && !prefetch->ended &&
           prefetch->submitted < prefetch->next + prefetch->num_slots && ask_source(prefetch))
        status = submit_next(prefetch);
    return status;
}

static void free_prefetch(struct hcomm_prefetch *prefetch)
{
    for (size_t i = 0; i < prefetch->num_slots; i++)
        if (hcomm_mem_free(prefetch->context, prefetch->slots[i].buffer) != HCOMM_OK)
            hc_log_warn("prefetch: %s", hc_error_detail());
    free(prefetch->slots);
    free(prefetch);
}

static hcomm_status_t check_config(hcomm_handle_t handle, const hcomm_prefetch_config_t *config)
{
    const char *fault = hc_progress_fault(handle);
    if (fault)
        return hc_error(HCOMM_ERR_INVALID, "%s", fault);
    if (!config || !config->source)
        return hc_error(HCOMM_ERR_INVALID, "%s is NULL", config ? "source" : "config");
    if (!config->batch_size)
        return hc_error(HCOMM_ERR_INVALID, "batch_size is 0");
    if (config->depth > DEPTH_MAX)
        return hc_error(HCOMM_ERR_INVALID, "depth is %u, at most %d are possible", config->depth, DEPTH_MAX);
    for (size_t i = 0; i < hc_array_len(config->reserved); i++)
        if (config->reserved[i])
            return hc_error(HCOMM_ERR_INVALID, "reserved is not zero; zero the whole structure first");
    return HCOMM_OK;
}

static hcomm_status_t alloc_buffers(struct hcomm_prefetch *prefetch)
{
    hcomm_status_t status = HCOMM_OK;
    prefetch->slots = calloc(prefetch->config.depth + 1, sizeof(*prefetch->slots));
    if (!prefetch->slots)
        return hc_error(HCOMM_ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; status == HCOMM_OK && i <= prefetch->config.depth; i++) {
        status = hcomm_mem_alloc(prefetch->context, prefetch->config.batch_size, prefetch->config.memory_type,
                                 &prefetch->slots[i].buffer);
        prefetch->num_slots += status == HCOMM_OK;
    }
    return status;
}

static hcomm_status_t create(hcomm_handle_t handle, const hcomm_prefetch_config_t *config,
                             hcomm_prefetch_t *out)
{
    hcomm_status_t status = check_config(handle, config);
    if (status != HCOMM_OK)
        return status;
    struct hcomm_prefetch *prefetch = calloc(1, sizeof(*prefetch));
    if (!prefetch)
        return hc_error(HCOMM_ERR_NO_MEMORY, "out of memory");
    prefetch->context = handle;
    prefetch->config = *config;
    if (!config->depth)
        prefetch->config.depth = DEPTH_DEFAULT;
    status = alloc_buffers(prefetch);
    if (status != HCOMM_OK) {
        free_prefetch(prefetch);
        return status;
    }
    (void)submit_ahead(prefetch); /* hcomm_prefetch_next() tries again */
    *out = prefetch;
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_prefetch_create(hcomm_handle_t handle, const hcomm_prefetch_config_t *config,
                                               hcomm_prefetch_t *prefetch)
{
    if (!prefetch)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_prefetch_create: prefetch is NULL");
    hcomm_status_t status = create(handle, config, prefetch);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_prefetch_create: ");
    return status;
}

static hcomm_status_t wait_for_batch(struct hcomm_prefetch *prefetch, const struct slot *slot)
{
    hcomm_status_t status = HCOMM_OK;
    if (slot->id)
        status = hcomm_wait_completion(prefetch->context, slot->id);
    else
        status = hc_error(slot->status, "%s", slot->detail);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_prefetch_next: batch %llu: ", (unsigned long long)prefetch->next);
    return status;
}

HCOMM_API hcomm_status_t hcomm_prefetch_next(hcomm_prefetch_t prefetch, hcomm_prefetch_batch_t *batch)
{
    if (!prefetch || !batch)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_prefetch_next: %s is NULL",
                        prefetch ? "batch" : "prefetch");
    hcomm_status_t status = submit_ahead(prefetch);
    if (prefetch->next == prefetch->submitted) {
        if (status != HCOMM_OK) {
            hc_error_prefix("hcomm_prefetch_next: batch %llu: ", (unsigned long long)prefetch->next);
            return status;
        }
        *batch = (hcomm_prefetch_batch_t){.index = prefetch->next};
        return HCOMM_OK;
    }
    const struct slot *slot = slot_of(prefetch, prefetch->next);
    status = wait_for_batch(prefetch, slot);
    if (status == HCOMM_OK)
        *batch = (hcomm_prefetch_batch_t){.ptr = slot->buffer, .size = slot->size, .index = prefetch->next};
    if (status != HCOMM_ERR_TIMEOUT)
        prefetch->next++;
    return status;
}

HCOMM_API hcomm_status_t hcomm_prefetch_destroy(hcomm_prefetch_t prefetch)
{
    if (!prefetch)
        return HCOMM_OK;
    for (; prefetch->next < prefetch->submitted; prefetch->next++) {
        const struct slot *slot = slot_of(prefetch, prefetch->next);
        if (slot->id && hcomm_wait_completion(prefetch->context, slot->id) == HCOMM_ERR_TIMEOUT) {
            hc_error_prefix("hcomm_prefetch_destroy: ");
            return HCOMM_ERR_TIMEOUT;
        }
    }
    free_prefetch(prefetch);
    return HCOMM_OK;
}
