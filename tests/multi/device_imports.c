/*
 * Imports of device memory that the receiver keeps: how their owner frees, and that only so many are kept.
 * Two ranks on the simulator; rank 0 owns, rank 1 imports. Files in DIR tell what happens outside hcomm.
 *
 *     device_imports outside DIR | many | dies DIR      NPUSIM_MEMORY: 64M, so that two LARGE find no room
 */
#include "tests/multi/check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 40 << 20, SIZE = 128 << 10, TAG = 1, ACK = 2, KEPT = 64, BLOCKS = 100 };

static int rank;
static hcomm_comm_t world;
static const char *folder;
static unsigned char bounce[SIZE];

static void pause_ms(int ms)
{
    const struct timespec time = {.tv_nsec = (long)ms * 1000000};
    (void)nanosleep(&time, NULL);
}

static const char *path_of(const char *name)
{
    static char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static bool has_happened(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static void tell(const char *name)
{
    int fd = open(path_of(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    (void)close(fd);
}

static uint64_t imports(void)
{
    uint64_t value = 0;
    CALL(hcomm_counter_get(check_handle, "device_imports", &value));
    return value;
}

static void *device_memory(size_t size)
{
    void *ptr = NULL;
    CALL(hcomm_mem_alloc(check_handle, size, HCOMM_MEMORY_DEVICE, &ptr));
    return ptr;
}

/* One message out of rank 0's memory into rank 1's, which checks it and says so. */
static void pass(void *memory, int value)
{
    char ack = 0;
    if (rank == 0) {
        CALL(hcomm_memset(check_handle, memory, value, SIZE));
        CALL(hcomm_send(memory, SIZE, 1, TAG, world));
        CALL(hcomm_recv(&ack, 1, 1, ACK, world, NULL));
        return;
    }
    CALL(hcomm_recv(memory, SIZE, 0, TAG, world, NULL));
    CALL(hcomm_memcpy(check_handle, bounce, memory, SIZE, HCOMM_COPY_AUTO));
    for (int i = 0; i < SIZE; i++)
        CHECK(bounce[i] == value);
    CALL(hcomm_send(&ack, 1, 0, ACK, world));
}

/* Rank 1 is not in hcomm from its last message until after the file; to be in vain is an error of rank 0. */
static void stay_outside_until(const char *name)
{
    for (int i = 0; i < 2000 && !has_happened(name); i++)
        pause_ms(10);
    CHECK(has_happened(name));
    pause_ms(200);
}

static void memory_open_elsewhere_is_freed_at_once_and_comes_back_later(void)
{
    void *memory = device_memory(rank ? SIZE : LARGE);
    pass(memory, 7);
    if (rank) {
        CHECK(imports() == 1);
        stay_outside_until("freed");
        tell("inside");
    } else {
        CALL(hcomm_mem_free(check_handle, memory));
        CHECK(!has_happened("inside"));
        tell("freed");
        memory = device_memory(LARGE);
        CHECK(has_happened("inside")); /* it had to wait for that */
    }
    pass(memory, 8);
    CALL(hcomm_mem_free(check_handle, memory));
}

static void memory_open_in_a_process_that_dies_comes_back(void)
{
    void *memory = device_memory(rank ? SIZE : LARGE);
    pass(memory, 7);
    if (rank) {
        CHECK(imports() == 1);
        stay_outside_until("freed");
        (void)kill(getpid(), SIGKILL);
    }
    CALL(hcomm_mem_free(check_handle, memory));
    tell("freed");
    memory = device_memory(LARGE);
    CALL(hcomm_memset(check_handle, memory, 1, LARGE));
    CALL(hcomm_mem_free(check_handle, memory));
    puts("freed");
}

static void pass_range(void *const *blocks, void *into, int first, int end)
{
    for (int i = first; i < end; i++)
        pass(rank ? into : blocks[i], i);
}

/* Passing these blocks takes so many imports. */
static void expect_imports(void *const *blocks, void *into, int first, int end, unsigned expected)
{
    uint64_t before = imports();
    pass_range(blocks, into, first, end);
    CHECK(imports() - before == (rank ? expected : 0));
}

static void the_imports_used_last_are_kept(void)
{
    void *blocks[BLOCKS] = {NULL}, *into = device_memory(SIZE);
    for (int i = 0; rank == 0 && i < BLOCKS; i++)
        blocks[i] = device_memory(SIZE);
    expect_imports(blocks, into, 0, BLOCKS, BLOCKS);
    expect_imports(blocks, into, BLOCKS - KEPT, BLOCKS, 0);
    expect_imports(blocks, into, BLOCKS - KEPT, BLOCKS - KEPT + 1,
                   0); /* used again: now the second is the oldest */
    expect_imports(blocks, into, 0, 1, 1);
    expect_imports(blocks, into, BLOCKS - KEPT, BLOCKS - KEPT + 1, 0);
    expect_imports(blocks, into, BLOCKS - KEPT + 2, BLOCKS, 0);
    expect_imports(blocks, into, BLOCKS - KEPT + 1, BLOCKS - KEPT + 2, 1);
    for (int i = 0; rank == 0 && i < BLOCKS; i++)
        CALL(hcomm_mem_free(check_handle, blocks[i])); /* both those that are kept and those that went */
    CALL(hcomm_mem_free(check_handle, into));
}

int main(int argc, char **argv)
{
    const char *text = getenv("PMIX_RANK"), *mode = argc > 1 ? argv[1] : "";
    const hcomm_config_t config = {.device_id = HCOMM_DEVICE(text ? atoi(text) : 0)};
    check_init(&config);
    folder = argc > 2 ? argv[2] : "";
    rank = hcomm_rank(check_handle);
    world = hcomm_comm_world(check_handle);
    CHECK(hcomm_size(check_handle) == 2);
    if (strcmp(mode, "dies") == 0) {
        memory_open_in_a_process_that_dies_comes_back();
        hcomm_status_t end = hcomm_finalize(check_handle);
        return end != HCOMM_OK && end != HCOMM_ERR_PEER_LOST;
    }
    if (strcmp(mode, "many") == 0)
        the_imports_used_last_are_kept();
    else
        memory_open_elsewhere_is_freed_at_once_and_comes_back_later();
    CALL(hcomm_finalize(check_handle));
    return 0;
}
