/*
 * What the raw programs share: two processes on two processors, a mapping between them, a clock, and rows as
 * hcomm_perf --csv prints them. They show what the machine allows, without matching, queues or flow control.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HC_BENCH_RAW_H
#define HC_BENCH_RAW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum { RAW_LINE = 64, RAW_PAGE = 4096 };

/* A turn counter in a line of its own. The writer releases, the waiter acquires: what was written before a
 * turn is seen after it. */
struct raw_turn {
    _Alignas(RAW_LINE) _Atomic uint64_t value;
    char rest[RAW_LINE - sizeof(uint64_t)];
};

struct raw {
    const char *program; /* for messages */
    int side;            /* 0 is the parent, 1 its child */
    pid_t other;         /* process of the other side */
    double seconds;      /* per measured point */
    char *shared;        /* mapping of both, zeroed */
    size_t shared_size;
};

/*
 * Reads [SECONDS], maps shared_size bytes and forks; each side runs on a processor of its own, the first and
 * the last allowed one. Ends the program on failure. raw_end() joins the child and returns the exit code.
 */
void raw_start(struct raw *raw, int argc, char **argv, size_t shared_size);
int raw_end(struct raw *raw);

/* Ends the program with words and the error in errno. */
void raw_die(const struct raw *raw, const char *what) __attribute__((noreturn));

/* Prints one value; side 0 only. */
void raw_row(const struct raw *raw, const char *test, const char *transport, size_t bytes,
             const char *measure, const char *unit, double value);

/* Page-aligned, touched. */
char *raw_memory(const struct raw *raw, size_t size);

/*
 * Iterations that last raw->seconds, from the time of a few; both sides call it with the same loop and get
 * the same number, agreed through turns[2] and *agreed, which lie in shared memory and start at zero.
 */
typedef void (*raw_loop_fn)(struct raw *raw, void *context, uint64_t iterations);
struct raw_agreement {
    struct raw_turn arrived[2];
    _Atomic uint64_t iterations;
};
/* Side 0 learns the seconds that *iterations of the loop took. */
double raw_time(struct raw *raw, struct raw_agreement *agreement, raw_loop_fn loop, void *context,
                uint64_t *iterations);

static inline double raw_now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static inline void raw_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static inline void raw_turn_wait(struct raw_turn *turn, uint64_t value)
{
    while (atomic_load_explicit(&turn->value, memory_order_acquire) < value)
        raw_relax();
}

static inline void raw_turn_give(struct raw_turn *turn, uint64_t value)
{
    atomic_store_explicit(&turn->value, value, memory_order_release);
}

#endif
