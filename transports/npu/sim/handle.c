/*
 * Handles are not addresses: kind, generation and slot of a table, so that a destroyed or made-up handle is
 * recognised. The generation has 28 bits and starts at random, so that handles of other processes are
 * recognised too; a slot is not reused before all older free slots were.
 */
#include "transports/npu/sim/sim.h"

#include <stdlib.h>
#include <sys/random.h>

struct slot {
    void *object; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
    enum npusim_handle_kind kind;
};

enum { KIND_SHIFT = 60, GENERATION_SHIFT = 32 };
static const uint32_t generation_mask = (UINT32_C(1) << 28) - 1;

/* Slot 0 is never used: its number ends the list of free slots. */
static struct slot *slots;
static uint32_t slot_count, first_free, last_free, first_generation;

static void append_free(uint32_t index)
{
    slots[index].next_free = 0;
    if (first_free)
        slots[last_free].next_free = index;
    else
        first_free = index;
    last_free = index;
}

static bool grow(void)
{
    uint32_t count = slot_count ? 2 * slot_count : 64;
    struct slot *grown = realloc(slots, count * sizeof(*grown));
    if (!grown)
        return false;
    slots = grown;
    if (!slot_count && getrandom(&first_generation, sizeof(first_generation), 0) < 0)
        first_generation = (uint32_t)npusim_now();
    for (uint32_t i = slot_count ? slot_count : 1; i < count; i++) {
        slots[i] = (struct slot){.generation = first_generation & generation_mask};
        append_free(i);
    }
    slot_count = count;
    return true;
}

void *npusim_handle_create(enum npusim_handle_kind kind, void *object)
{
    if (!first_free && !grow())
        return NULL;
    uint32_t index = first_free;
    struct slot *slot = &slots[index];
    first_free = slot->next_free;
    slot->object = object;
    slot->kind = kind;
    slot->generation = (slot->generation + 1) & generation_mask;
    return (void *)((uintptr_t)kind << KIND_SHIFT | (uintptr_t)slot->generation << GENERATION_SHIFT | index);
}

static struct slot *find(const void *handle)
{
    uint32_t index = (uint32_t)(uintptr_t)handle;
    return index && index < slot_count ? &slots[index] : NULL;
}

void *npusim_handle_object(enum npusim_handle_kind kind, const void *handle)
{
    uintptr_t value = (uintptr_t)handle;
    struct slot *slot = find(handle);
    if (!slot || !slot->object || slot->kind != kind || value >> KIND_SHIFT != (uintptr_t)kind ||
        slot->generation != (value >> GENERATION_SHIFT & generation_mask))
        return NULL;
    return slot->object;
}

void npusim_handle_destroy(const void *handle)
{
    struct slot *slot = find(handle);
    slot->object = NULL;
    append_free((uint32_t)(uintptr_t)handle);
}
