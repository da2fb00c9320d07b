/*
 * Large data between two processes without a protocol: the receiver copies out of the sender's memory, from a
 * shared mapping ("copy") and by process_vm_readv ("vmread"). A ping-pong of such copies, and their bandwidth
 * with one side copying, and with the two sides copying a half each ("+both").
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "raw.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>

enum { SIZE_MIN = 4096, SIZE_MAX_BYTES = 4 << 20 };

struct shared {
    struct raw_agreement agreement;
    struct raw_turn turns[2];
    char *private_buffers[2]; /* addresses in their own processes */
    _Alignas(RAW_PAGE) char mapped[2][SIZE_MAX_BYTES];
};

struct context;
typedef void (*copy_fn)(struct raw *raw, struct context *context, size_t from, size_t length);

struct context {
    struct shared *shared;
    copy_fn copy;
    char *target; /* private */
    size_t size;
    uint64_t turn;
};

static void copy_mapped(struct raw *raw, struct context *context, size_t from, size_t length)
{
    memcpy(context->target + from, context->shared->mapped[1 - raw->side] + from, length);
}

static void copy_vmread(struct raw *raw, struct context *context, size_t from, size_t length)
{
    struct iovec local = {context->target + from, length};
    struct iovec remote = {context->shared->private_buffers[1 - raw->side] + from, length};
    if (process_vm_readv(raw->other, &local, 1, &remote, 1, 0) != (ssize_t)length)
        raw_die(raw, "process_vm_readv");
}

static void ping_pong(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    struct raw_turn *turns = context->shared->turns;
    for (uint64_t i = 0; i < iterations; i++) {
        context->turn++;
        if (raw->side == 0)
            raw_turn_give(&turns[0], context->turn);
        raw_turn_wait(&turns[1 - raw->side], context->turn);
        context->copy(raw, context, 0, context->size);
        if (raw->side == 1)
            raw_turn_give(&turns[1], context->turn);
    }
}

static void one_side(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    for (uint64_t i = 0; raw->side == 0 && i < iterations; i++)
        context->copy(raw, context, 0, context->size);
}

static void both_sides(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    size_t half = context->size / 2;
    for (uint64_t i = 0; i < iterations; i++)
        context->copy(raw, context, raw->side == 0 ? 0 : half, half);
}

static void measure(struct raw *raw, struct context *context, const char *name)
{
    uint64_t iterations;
    struct raw_agreement *agreement = &context->shared->agreement;
    char both[32];
    (void)snprintf(both, sizeof(both), "%s+both", name);
    for (context->size = SIZE_MIN; context->size <= SIZE_MAX_BYTES; context->size *= 2) {
        double elapsed = raw_time(raw, agreement, ping_pong, context, &iterations);
        raw_row(raw, "latency", name, context->size, "average", "us",
                elapsed / (2.0 * (double)iterations) * 1e6);
        elapsed = raw_time(raw, agreement, one_side, context, &iterations);
        raw_row(raw, "bw", name, context->size, "bandwidth", "MB/s",
                (double)iterations * (double)context->size / elapsed * 1e-6);
        elapsed = raw_time(raw, agreement, both_sides, context, &iterations);
        raw_row(raw, "bw", both, context->size, "bandwidth", "MB/s",
                (double)iterations * (double)context->size / elapsed * 1e-6);
    }
}

int main(int argc, char **argv)
{
    struct raw raw;
    raw_start(&raw, argc, argv, sizeof(struct shared));
    struct context context = {.shared = (struct shared *)raw.shared, .copy = copy_mapped};
    char *buffer = raw_memory(&raw, SIZE_MAX_BYTES);
    context.target = raw_memory(&raw, SIZE_MAX_BYTES);
    context.shared->private_buffers[raw.side] = buffer;
    memset(context.shared->mapped[raw.side], 1, SIZE_MAX_BYTES);
    (void)prctl(PR_SET_PTRACER,
                PR_SET_PTRACER_ANY); /* where Yama asks for it; elsewhere it fails, unneeded */
    measure(&raw, &context, "copy");
    context.copy = copy_vmread;
    measure(&raw, &context, "vmread");
    return raw_end(&raw);
}
