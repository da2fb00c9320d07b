/* Two processes on two processors. SPDX-License-Identifier: BSD-3-Clause */
#include "raw.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

enum { FEW = 20 };

void raw_die(const struct raw *raw, const char *what)
{
    (void)fprintf(stderr, "%s: %s: %s\n", raw->program, what, strerror(errno));
    exit(1);
}

static void pin(const struct raw *raw)
{
    cpu_set_t allowed, mine;
    int processor = -1;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        raw_die(raw, "sched_getaffinity");
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &allowed) && (raw->side == 1 || processor < 0))
            processor = i;
    CPU_ZERO(&mine);
    CPU_SET(processor, &mine);
    if (sched_setaffinity(0, sizeof(mine), &mine) != 0)
        raw_die(raw, "sched_setaffinity");
}

void raw_start(struct raw *raw, int argc, char **argv, size_t shared_size)
{
    *raw = (struct raw){.program = argv[0], .seconds = argc > 1 ? atof(argv[1]) : 0.1};
    if (!(raw->seconds > 0)) {
        (void)fprintf(stderr, "usage: %s [SECONDS per point]\n", argv[0]);
        exit(2);
    }
    raw->shared_size = shared_size;
    raw->shared = mmap(NULL, shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (raw->shared == MAP_FAILED)
        raw_die(raw, "mapping shared memory");
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        raw_die(raw, "fork");
    raw->side = child == 0;
    raw->other = child == 0 ? parent : child;
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
        _exit(1);
    pin(raw);
}

int raw_end(struct raw *raw)
{
    int status = 0;
    if (raw->side == 1)
        _exit(0);
    if (fflush(stdout) != 0 || waitpid(raw->other, &status, 0) < 0)
        raw_die(raw, "ending");
    return status != 0;
}

void raw_row(const struct raw *raw, const char *test, const char *transport, size_t bytes,
             const char *measure, const char *unit, double value)
{
    if (raw->side == 0)
        (void)printf("%s,%s,,malloc,off,2,bytes,%zu,%s,%s,%.6g\n", test, transport, bytes, measure, unit,
                     value);
}

char *raw_memory(const struct raw *raw, size_t size)
{
    void *memory;
    errno = posix_memalign(&memory, RAW_PAGE, size);
    if (errno)
        raw_die(raw, "memory");
    memset(memory, 0, size);
    return memory;
}

static void meet(struct raw *raw, struct raw_agreement *agreement)
{
    uint64_t mine = atomic_load_explicit(&agreement->arrived[raw->side].value, memory_order_relaxed) + 1;
    raw_turn_give(&agreement->arrived[raw->side], mine);
    raw_turn_wait(&agreement->arrived[1 - raw->side], mine);
}

double raw_time(struct raw *raw, struct raw_agreement *agreement, raw_loop_fn loop, void *context,
                uint64_t *iterations)
{
    meet(raw, agreement);
    loop(raw, context, FEW); /* warm */
    meet(raw, agreement);
    double start = raw_now();
    loop(raw, context, FEW);
    double fit = raw->seconds / ((raw_now() - start) / (FEW));
    if (raw->side == 0) /* published by the turns of meet() */
        atomic_store_explicit(&agreement->iterations, fit < FEW ? FEW : (uint64_t)fit, memory_order_relaxed);
    meet(raw, agreement);
    *iterations = atomic_load_explicit(&agreement->iterations, memory_order_relaxed);
    meet(raw, agreement);
    start = raw_now();
    loop(raw, context, *iterations);
    double elapsed = raw_now() - start;
    meet(raw, agreement); /* nobody leaves while the other side reads its memory */
    return elapsed;
}
