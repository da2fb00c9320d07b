/*
 * The core-to-core probe, and the limit of any message: one cache line goes to and fro between two
 * processors. Prints the time one way. bench/compare runs it beside every measurement to see how far apart
 * the processors are just then. SPDX-License-Identifier: BSD-3-Clause
 */
#include "raw.h"

struct shared {
    struct raw_agreement agreement;
    struct raw_turn line;
};

struct context {
    struct raw_turn *line;
    uint64_t turn;
};

static void ping_pong(struct raw *raw, void *argument, uint64_t iterations)
{
    struct context *context = argument;
    for (uint64_t i = 0; i < iterations; i++) {
        if (raw->side == 0) {
            raw_turn_give(context->line, context->turn + 1);
            raw_turn_wait(context->line, context->turn + 2);
        } else {
            raw_turn_wait(context->line, context->turn + 1);
            raw_turn_give(context->line, context->turn + 2);
        }
        context->turn += 2;
    }
}

int main(int argc, char **argv)
{
    struct raw raw;
    uint64_t iterations;
    raw_start(&raw, argc, argv, sizeof(struct shared));
    struct shared *shared = (struct shared *)raw.shared;
    struct context context = {.line = &shared->line};
    double elapsed = raw_time(&raw, &shared->agreement, ping_pong, &context, &iterations);
    raw_row(&raw, "latency", "line", 8, "average", "us", elapsed / (2.0 * (double)iterations) * 1e6);
    return raw_end(&raw);
}
