/*
 * A bare ring for one sender and one receiver, slots of one line that carry up to 56 bytes: a ping-pong
 * through two rings, and the rate through one. The receiver tells how far it is once per quarter of the ring.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "raw.h"

#include <string.h>

enum { SLOTS = 256, PAYLOAD_MAX = 56 };

struct slot {
    _Alignas(RAW_LINE) char payload[PAYLOAD_MAX];
    _Atomic uint64_t number; /* of the message in it, from 1 */
};

struct ring {
    struct slot slots[SLOTS];
    struct raw_turn taken; /* messages the receiver has taken, given back a quarter at a time */
};

struct shared {
    struct raw_agreement agreement;
    struct ring rings[2]; /* [side that sends] */
};

struct context {
    struct shared *shared;
    size_t size;
    uint64_t sent, received;
    char data[PAYLOAD_MAX];
};

static void put(struct ring *ring, struct context *context)
{
    struct slot *slot = &ring->slots[context->sent % SLOTS];
    if (context->sent % (SLOTS / 4) == 0 && context->sent >= SLOTS)
        raw_turn_wait(&ring->taken, context->sent - SLOTS + SLOTS / 4);
    memcpy(slot->payload, context->data, context->size);
    atomic_store_explicit(&slot->number, ++context->sent, memory_order_release); /* get() acquires */
}

static void get(struct ring *ring, struct context *context)
{
    struct slot *slot = &ring->slots[context->received % SLOTS];
    context->received++;
    while (atomic_load_explicit(&slot->number, memory_order_acquire) != context->received)
        raw_relax();
    memcpy(context->data, slot->payload, context->size);
    if (context->received % (SLOTS / 4) == 0)
        raw_turn_give(&ring->taken, context->received);
}

static void ping_pong(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    struct ring *rings = context->shared->rings;
    for (uint64_t i = 0; i < iterations; i++) {
        if (raw->side == 0)
            put(&rings[0], context);
        get(&rings[1 - raw->side], context);
        if (raw->side == 1)
            put(&rings[1], context);
    }
}

static void stream(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    struct ring *ring = &context->shared->rings[0];
    for (uint64_t i = 0; i < iterations * SLOTS; i++) {
        if (raw->side == 0)
            put(ring, context);
        else
            get(ring, context);
    }
}

int main(int argc, char **argv)
{
    struct raw raw;
    uint64_t iterations;
    raw_start(&raw, argc, argv, sizeof(struct shared));
    struct context context = {.shared = (struct shared *)raw.shared};
    for (context.size = 8; context.size <= 32; context.size *= 2) {
        double elapsed = raw_time(&raw, &context.shared->agreement, ping_pong, &context, &iterations);
        raw_row(&raw, "latency", "ring", context.size, "average", "us",
                elapsed / (2.0 * (double)iterations) * 1e6);
    }
    context.size = 8;
    double elapsed = raw_time(&raw, &context.shared->agreement, stream, &context, &iterations);
    double rate = (double)iterations * SLOTS / elapsed;
    raw_row(&raw, "bw", "ring", context.size, "bandwidth", "MB/s", rate * (double)context.size * 1e-6);
    raw_row(&raw, "bw", "ring", context.size, "rate", "msg/s", rate);
    return raw_end(&raw);
}
