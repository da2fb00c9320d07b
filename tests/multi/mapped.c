/*
 * Messages between memory of the system and memory of hcomm, in all four combinations, of sizes around the
 * limits: what arrives is what was sent, and the way taken is the one meant. Any even number of ranks.
 */
#include "check.h"

#include <string.h>

enum { TAG = 3, ROUNDS = 3, LARGEST = (4 << 20) + 4097 };

static const size_t sizes[] = {1,      4096,   16383,  16384,  16385,  65536,   65537,
                               131071, 131072, 200001, 262144, 262145, 1 << 20, LARGEST};

static hcomm_comm_t world;
static unsigned char *plain, *ours;

static unsigned seed_of(size_t size, int round)
{
    return (unsigned)size * 7 + (unsigned)round + 1;
}

static void exchange(unsigned char *buffer, size_t size, int round)
{
    int rank = hcomm_rank(check_handle), peer = rank ^ 1;
    unsigned seed = seed_of(size, round);
    if (rank % 2 == 0) {
        check_fill(buffer, size, seed);
        CALL(hcomm_send(buffer, size, peer, TAG, world));
        memset(buffer, 0, size);
        CALL(hcomm_recv(buffer, size, peer, TAG, world, NULL));
        check_verify(buffer, size, seed + 1);
    } else {
        memset(buffer, 0, size);
        CALL(hcomm_recv(buffer, size, peer, TAG, world, NULL));
        check_verify(buffer, size, seed);
        check_fill(buffer, size, seed + 1);
        CALL(hcomm_send(buffer, size, peer, TAG, world));
    }
}

/* Even ranks use one kind of memory, odd ranks perhaps the other. */
static void combination(int even_ours, int odd_ours)
{
    int mine = hcomm_rank(check_handle) % 2 == 0 ? even_ours : odd_ours;
    uint64_t before = check_counter("rndv_mapped");
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            exchange(mine ? ours : plain, sizes[i], round);
    if (getenv("EXPECT_MAPPED") && even_ours && odd_ours)
        CHECK(check_counter("rndv_mapped") > before);
    if (!even_ours && !odd_ours)
        CHECK(check_counter("rndv_mapped") == before);
}

/* Many at once, both ways, more than there are shares. */
static void flood(void)
{
    enum { MESSAGES = 80, SIZE = 140000 };
    hcomm_request_t requests[2 * MESSAGES];
    int rank = hcomm_rank(check_handle), peer = rank ^ 1;
    unsigned char *out = hcomm_alloc_host_mem(check_handle, (size_t)MESSAGES * SIZE);
    unsigned char *in = hcomm_alloc_host_mem(check_handle, (size_t)MESSAGES * SIZE);
    CHECK(out && in);
    for (int i = 0; i < MESSAGES; i++) {
        check_fill(out + (size_t)i * SIZE, SIZE, seed_of((size_t)rank, i));
        CALL(hcomm_irecv(in + (size_t)i * SIZE, SIZE, peer, i, world, &requests[i]));
    }
    CALL(hcomm_barrier(world));
    for (int i = 0; i < MESSAGES; i++)
        CALL(hcomm_isend(out + (size_t)i * SIZE, SIZE, peer, i, world, &requests[MESSAGES + i]));
    CALL(hcomm_waitall(2 * MESSAGES, requests, NULL));
    for (int i = 0; i < MESSAGES; i++)
        check_verify(in + (size_t)i * SIZE, SIZE, seed_of((size_t)peer, i));
    CALL(hcomm_free_host_mem(check_handle, out));
    CALL(hcomm_free_host_mem(check_handle, in));
}

/* The receive is shorter than the message. */
static void truncated(void)
{
    enum { SIZE = 1 << 20, ROOM = 300001 };
    int rank = hcomm_rank(check_handle), peer = rank ^ 1;
    if (rank % 2 == 0) {
        check_fill(ours, SIZE, 5);
        CALL(hcomm_send(ours, SIZE, peer, TAG, world));
        return;
    }
    memset(ours, 0x77, LARGEST);
    EXPECT(HCOMM_ERR_TRUNCATED, hcomm_recv(ours, ROOM, peer, TAG, world, NULL));
    check_verify(ours, ROOM, 5);
    for (size_t i = ROOM; i < SIZE; i++)
        CHECK(ours[i] == 0x77);
}

/* Memory that is given back and taken again between messages. */
static void reused(void)
{
    int rank = hcomm_rank(check_handle), peer = rank ^ 1;
    for (int round = 0; round < 20; round++) {
        size_t size = 20000 + (size_t)round * 30000;
        unsigned char *memory = hcomm_alloc_host_mem(check_handle, size);
        CHECK(memory);
        unsigned seed = seed_of(size, round);
        if (rank % 2 == 0) {
            check_fill(memory, size, seed);
            CALL(hcomm_send(memory, size, peer, TAG, world));
        } else {
            CALL(hcomm_recv(memory, size, HCOMM_ANY_SOURCE, TAG, world, NULL));
        }
        CALL(hcomm_free_host_mem(check_handle, memory));
    }
}

/* When the pool is used up there is a clear answer, and memory of the system serves. */
static void exhausted(void)
{
    CHECK(!hcomm_alloc_host_mem(check_handle, (size_t)1 << 40));
    CHECK(strstr(hcomm_error_detail(), "mem_pool_size"));
    exchange(plain, 1 << 20, 0);
}

int main(void)
{
    check_init(NULL);
    world = hcomm_comm_world(check_handle);
    CHECK(hcomm_size(check_handle) % 2 == 0);
    plain = malloc(LARGEST);
    ours = hcomm_alloc_host_mem(check_handle, LARGEST);
    CHECK(plain && ours);
    for (int i = 0; i < 4; i++)
        combination(i & 1, i >> 1);
    flood();
    reused();
    exhausted();
    /* pairs do not wait for each other above: nobody may take another's messages by ANY_SOURCE below */
    CALL(hcomm_barrier(world));
    if (hcomm_size(check_handle) == 2)
        truncated();
    CALL(hcomm_free_host_mem(check_handle, ours));
    free(plain);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
