#include "runtime/core/handle.h"

#include "runtime/base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { CHUNK = 256, CHUNKS = HC_HANDLE_MAX / CHUNK, KIND_BITS = 2, INDEX_BITS = 16 };

struct slot {
    /* release when a handle is given, partner: acquire in hc_handle_object; NULL: free */
    _Atomic(void *) object;
    _Atomic uint32_t generation; /* of the handle last given; written before object */
    uint32_t next_free;          /* index + 1; 0: none */
};

struct table {
    /* release when added, partner: acquire in find_slot; never freed */
    _Atomic(struct slot *) chunks[CHUNKS];
    uint32_t first_free; /* index + 1 */
    uint32_t num_chunks;
};

static struct table tables[HC_HANDLE_KINDS];
static struct hc_lock lock = HC_LOCK_INIT; /* of everything but look-ups; a leaf */

static struct slot *find_slot(enum hc_handle_kind kind, uint32_t index)
{
    struct slot *chunk = atomic_load_explicit(&tables[kind].chunks[index / CHUNK], memory_order_acquire);
    return chunk ? &chunk[index % CHUNK] : NULL;
}

static void *encode(enum hc_handle_kind kind, uint32_t index, uint32_t generation)
{
    uintptr_t value = ((uintptr_t)generation << INDEX_BITS) | index;
    return (void *)((value << KIND_BITS) | ((uintptr_t)kind + 1));
}

static bool decode(enum hc_handle_kind kind, const void *handle, uint32_t *index, uint32_t *generation)
{
    uintptr_t value = (uintptr_t)handle;
    if ((value & ((1U << KIND_BITS) - 1)) != (uintptr_t)kind + 1)
        return false;
    value >>= KIND_BITS;
    *index = (uint32_t)(value & (HC_HANDLE_MAX - 1));
    *generation = (uint32_t)(value >> INDEX_BITS);
    return value >> INDEX_BITS == *generation;
}

static bool add_chunk(struct table *table)
{
    if (table->num_chunks == CHUNKS)
        return false;
    struct slot *chunk = calloc(CHUNK, sizeof(*chunk));
    if (!chunk)
        return false;
    uint32_t base = table->num_chunks * CHUNK;
    for (uint32_t i = CHUNK; i-- > 0;) {
        chunk[i].next_free = table->first_free;
        table->first_free = base + i + 1;
    }
    atomic_store_explicit(&table->chunks[table->num_chunks++], chunk, memory_order_release);
    return true;
}

void *hc_handle_create(enum hc_handle_kind kind, void *object)
{
    struct table *table = &tables[kind];
    void *handle = NULL;
    hc_lock_acquire(&lock);
    if (table->first_free || add_chunk(table)) {
        uint32_t index = table->first_free - 1;
        struct slot *slot = find_slot(kind, index);
        uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;
        table->first_free = slot->next_free;
        atomic_store_explicit(&slot->generation, generation, memory_order_relaxed);
        atomic_store_explicit(&slot->object, object, memory_order_release);
        handle = encode(kind, index, generation);
    }
    hc_lock_release(&lock);
    return handle;
}

void *hc_handle_object(enum hc_handle_kind kind, const void *handle)
{
    uint32_t index, generation;
    if (!decode(kind, handle, &index, &generation))
        return NULL;
    struct slot *slot = find_slot(kind, index);
    void *object = slot ? atomic_load_explicit(&slot->object, memory_order_acquire) : NULL;
    bool given = object && atomic_load_explicit(&slot->generation, memory_order_relaxed) == generation;
    return given ? object : NULL;
}

void hc_handle_destroy(enum hc_handle_kind kind, const void *handle)
{
    uint32_t index, generation;
    if (!decode(kind, handle, &index, &generation))
        return;
    hc_lock_acquire(&lock);
    struct slot *slot = find_slot(kind, index);
    atomic_store_explicit(&slot->object, NULL, memory_order_relaxed);
    slot->next_free = tables[kind].first_free;
    tables[kind].first_free = index + 1;
    hc_lock_release(&lock);
}
