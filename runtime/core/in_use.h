/* Whether operations are under way on memory. */
#ifndef HC_IN_USE_H
#define HC_IN_USE_H

#include "runtime/core/core.h"

/*
 * Whether a message, a transfer, or an operation enqueued on a stream of the context touches the range. Looks
 * at everything that is under way. Context's lock held.
 */
bool hc_memory_in_use(struct hcomm_context *context, const void *ptr, size_t size);

static inline bool hc_ranges_touch(const void *ptr, size_t size, const void *other, size_t other_size)
{
    uintptr_t a = (uintptr_t)ptr, b = (uintptr_t)other;
    return a < b + other_size && b < a + size;
}

#endif
