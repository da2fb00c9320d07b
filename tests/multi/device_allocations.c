/*
 * device_allocations: what messages in device memory cost in steady state, counted: allocations of the
 * process, and mappings of the other device's memory. Two ranks take turns, with memory of both kinds and
 * sizes of all ways. The simulator's own allocations stand for a driver's and are left out.
 */
#include "tests/multi/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { WARM_UP = 40, ROUNDS = 125, MOST = 1 << 20, TAG = 1 };

/* Every allocation of the process passes here; relaxed: only the number counts. */
static _Atomic unsigned long allocations;
static _Atomic uintptr_t driver_start, driver_end; /* where the simulator's code is */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

static void count(const void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    if (from < atomic_load_explicit(&driver_start, memory_order_relaxed) ||
        from >= atomic_load_explicit(&driver_end, memory_order_relaxed))
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *malloc(size_t size)
{
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}

static void find_driver(void)
{
    char line[512];
    unsigned long start, end;
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "libnpusim") || sscanf(line, "%lx-%lx", &start, &end) != 2)
            continue;
        if (!driver_start)
            driver_start = start;
        driver_end = end;
    }
    (void)fclose(maps);
    CHECK(driver_start < driver_end);
}

static void turns(int rounds, char *buffer, size_t size)
{
    hcomm_comm_t world = hcomm_comm_world(check_handle);
    int rank = hcomm_rank(check_handle);
    for (int i = 0; i < rounds; i++) {
        if (rank == 0)
            CALL(hcomm_send(buffer, size, 1, TAG, world));
        CALL(hcomm_recv(buffer, size, 1 - rank, TAG, world, NULL));
        if (rank == 1)
            CALL(hcomm_send(buffer, size, 0, TAG, world));
    }
}

/* 1000 messages, both ways together, of each size. */
static void messages_allocate_nothing(hcomm_memory_type_t mine)
{
    static const size_t sizes[] = {8, 8192, 40000, 300000, MOST};
    void *buffer = NULL;
    CALL(hcomm_mem_alloc(check_handle, MOST, mine, &buffer));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        turns(WARM_UP, buffer, sizes[i]);
        unsigned long before = atomic_load(&allocations);
        uint64_t imports = check_counter("device_imports");
        turns(ROUNDS, buffer, sizes[i]);
        unsigned long made = atomic_load(&allocations) - before;
        if (made)
            fprintf(stderr, "rank %d: %lu allocations in %d messages of %zu bytes\n",
                    hcomm_rank(check_handle), made, 2 * ROUNDS, sizes[i]);
        CHECK(made == 0);
        CHECK(check_counter("device_imports") == imports);
    }
    CALL(hcomm_mem_free(check_handle, buffer));
}

int main(void)
{
    const char *text = getenv("PMIX_RANK");
    int rank = text ? atoi(text) : 0;
    const hcomm_config_t config = {.device_id = HCOMM_DEVICE(rank)};
    check_init(&config);
    CHECK(hcomm_size(check_handle) == 2);
    find_driver();
    unsigned long before = atomic_load(&allocations);
    void *volatile one = malloc(1); /* volatile: compilers leave out what nobody uses */
    free(one);
    CHECK(atomic_load(&allocations) == before + 1); /* they are counted */
    messages_allocate_nothing(HCOMM_MEMORY_DEVICE);
    CHECK(check_counter("device_imports") > 0);
    messages_allocate_nothing(rank ? HCOMM_MEMORY_HOST_PINNED : HCOMM_MEMORY_DEVICE);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
