/*
 * Device memory is registered with the provider npu once, for any number of messages, and anew after it was
 * freed. For 2 ranks with HCOMM_TRANSPORTS=ofi:npu and HCOMM_DEVICE_IPC=off.
 */
#include "tests/multi/check.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 5, SIZE = 1 << 20, ROUNDS = 20, LIVES = 5 };

static void exchange(char *buffer, size_t at, size_t size)
{
    hcomm_comm_t world = hcomm_comm_world(check_handle);
    int rank = hcomm_rank(check_handle);
    if (rank == 0)
        CALL(hcomm_send(buffer + at, size, 1, TAG, world));
    CALL(hcomm_recv(buffer + at, size, 1 - rank, TAG, world, NULL));
    if (rank == 1)
        CALL(hcomm_send(buffer + at, size, 0, TAG, world));
}

/* Rank 0's bytes go to rank 1 and back: parts of the memory, each filled anew. */
static void round_trip(char *buffer, unsigned seed)
{
    static char bytes[SIZE], back[SIZE];
    size_t at = seed * 4096 % (SIZE / 2), size = SIZE / 2 - seed % 64;
    int rank = hcomm_rank(check_handle);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 7 + i / 512 + seed);
    if (rank == 0)
        CALL(hcomm_memcpy(check_handle, buffer + at, bytes, size, HCOMM_COPY_AUTO));
    exchange(buffer, at, size);
    CALL(hcomm_memcpy(check_handle, back, buffer + at, size, HCOMM_COPY_AUTO));
    CHECK(memcmp(bytes, back, size) == 0);
}

int main(void)
{
    const char *text = getenv("PMIX_RANK");
    const hcomm_config_t config = {.device_id = HCOMM_DEVICE(text ? atoi(text) : 0)};
    check_init(&config);
    CHECK(hcomm_size(check_handle) == 2);
    uint64_t last = 0;
    for (unsigned life = 0; life < LIVES; life++) {
        void *buffer = NULL;
        CALL(hcomm_mem_alloc(check_handle, SIZE, HCOMM_MEMORY_DEVICE, &buffer));
        round_trip(buffer, 1000 * life);
        uint64_t first = check_counter("device_registrations");
        CHECK(first > last);
        for (unsigned i = 1; i < ROUNDS; i++)
            round_trip(buffer, 1000 * life + i);
        last = check_counter("device_registrations");
        CHECK(last == first);
        CALL(hcomm_mem_free(check_handle, buffer));
    }
    CHECK(check_counter("device_rdma") > 0);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
