/*
 * Pools of buffers: what each call does and refuses, reuse that waits for operations, and threads that share
 * a pool. Works with and without a device.
 */
#include "tests/multi/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { COUNT = 4, SIZE = 100000, LARGE = 4 << 20, THREADS = 8, ROUNDS = 300, TAG = 5 };

static hcomm_buffer_pool_t make(size_t count, size_t size, hcomm_memory_type_t type)
{
    hcomm_buffer_pool_t pool = hcomm_buffer_pool_create(check_handle, count, size, type);
    if (!pool)
        check_failed(__FILE__, __LINE__, "hcomm_buffer_pool_create", HCOMM_ERR_NO_MEMORY);
    return pool;
}

static hcomm_buffer_pool_stats_t stats_of(hcomm_buffer_pool_t pool)
{
    hcomm_buffer_pool_stats_t stats;
    CALL(hcomm_buffer_pool_stats(pool, &stats));
    return stats;
}

static void buffers_are_aligned_distinct_and_limited(hcomm_memory_type_t type)
{
    hcomm_config_t config;
    void *buffers[COUNT], *extra = &config;
    hcomm_buffer_pool_t pool = make(COUNT, SIZE, type);
    CALL(hcomm_get_config(check_handle, &config));
    for (int i = 0; i < COUNT; i++) {
        CALL(hcomm_buffer_pool_acquire(pool, &buffers[i]));
        CHECK((uintptr_t)buffers[i] % config.align_size == 0);
        CALL(hcomm_memset(check_handle, buffers[i], i, SIZE));
    }
    EXPECT(HCOMM_AGAIN, hcomm_buffer_pool_try_acquire(pool, &extra));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_buffer_pool_timed_acquire(pool, 5, &extra));
    CHECK(strstr(hcomm_error_detail(), "4 are acquired") && extra == &config);
    for (int i = 0; i < COUNT; i++) {
        static unsigned char bytes[SIZE];
        CALL(hcomm_memcpy(check_handle, bytes, buffers[i], SIZE, HCOMM_COPY_AUTO));
        CHECK(bytes[0] == i && bytes[SIZE - 1] == i);
    }
    EXPECT(HCOMM_ERR_PENDING, hcomm_buffer_pool_destroy(pool));
    for (int i = 0; i < COUNT; i++)
        CALL(hcomm_buffer_pool_release(pool, buffers[i]));
    hcomm_buffer_pool_stats_t stats = stats_of(pool);
    CHECK(stats.free == COUNT && stats.acquired == 0 && stats.most_acquired == COUNT);
    CHECK(stats.acquisitions == COUNT && stats.allocations == COUNT);
    CALL(hcomm_buffer_pool_destroy(pool));
}

static void bad_arguments_are_refused(void)
{
    void *buffer = NULL;
    char foreign;
    CHECK(!hcomm_buffer_pool_create(NULL, 1, 1, HCOMM_MEMORY_HOST));
    CHECK(!hcomm_buffer_pool_create(check_handle, 0, 1, HCOMM_MEMORY_HOST));
    CHECK(!hcomm_buffer_pool_create(check_handle, 1, 0, HCOMM_MEMORY_HOST));
    CHECK(!hcomm_buffer_pool_create(check_handle, 1, 1, (hcomm_memory_type_t)99));
    CHECK(!hcomm_buffer_pool_create(check_handle, 3, SIZE_MAX / 2, HCOMM_MEMORY_SHARED));
    CHECK(strstr(hcomm_error_detail(), "buffer 1 of 3"));
    hcomm_buffer_pool_t pool = make(1, SIZE, HCOMM_MEMORY_HOST);
    EXPECT(HCOMM_ERR_INVALID, hcomm_buffer_pool_acquire(NULL, &buffer));
    EXPECT(HCOMM_ERR_INVALID, hcomm_buffer_pool_acquire(pool, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_buffer_pool_timed_acquire(pool, -1, &buffer));
    EXPECT(HCOMM_ERR_INVALID, hcomm_buffer_pool_release(pool, &foreign));
    EXPECT(HCOMM_ERR_INVALID, hcomm_buffer_pool_stats(pool, NULL));
    CALL(hcomm_buffer_pool_acquire(pool, &buffer));
    EXPECT(HCOMM_ERR_INVALID, hcomm_buffer_pool_release(pool, (char *)buffer + 1));
    CALL(hcomm_buffer_pool_release(pool, buffer));
    EXPECT(HCOMM_ERR_INVALID, hcomm_buffer_pool_release(pool, buffer));
    CHECK(strstr(hcomm_error_detail(), "released already"));
    CALL(hcomm_buffer_pool_destroy(pool));
    CALL(hcomm_buffer_pool_destroy(NULL));
}

/* A send to the own rank that nobody has received is under way for as long as we like. */
static void reuse_waits_for_messages(void)
{
    static unsigned char room[LARGE];
    void *buffer = NULL, *again = NULL;
    hcomm_comm_t self = hcomm_comm_self(check_handle);
    hcomm_request_t request;
    hcomm_buffer_pool_t pool = make(1, LARGE, HCOMM_MEMORY_SHARED);
    CALL(hcomm_buffer_pool_acquire(pool, &buffer));
    memset(buffer, 0x31, LARGE);
    CALL(hcomm_issend(buffer, LARGE, 0, TAG, self, &request));
    CALL(hcomm_buffer_pool_release(pool, buffer));
    CHECK(stats_of(pool).in_use == 1);
    EXPECT(HCOMM_AGAIN, hcomm_buffer_pool_try_acquire(pool, &again));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_buffer_pool_timed_acquire(pool, 5, &again));
    CHECK(strstr(hcomm_error_detail(), "1 in use by operations"));
    CALL(hcomm_recv(room, LARGE, 0, TAG, self, NULL));
    CALL(hcomm_wait(&request, NULL));
    CALL(hcomm_buffer_pool_try_acquire(pool, &again));
    CHECK(again == buffer && room[0] == 0x31 && room[LARGE - 1] == 0x31);
    CALL(hcomm_irecv(again, LARGE, 0, TAG, self, &request));
    CALL(hcomm_buffer_pool_release(pool, again));
    EXPECT(HCOMM_AGAIN, hcomm_buffer_pool_try_acquire(pool, &again));
    CALL(hcomm_cancel(request));
    EXPECT(HCOMM_ERR_CANCELLED, hcomm_wait(&request, NULL));
    CALL(hcomm_buffer_pool_try_acquire(pool, &again));
    CALL(hcomm_buffer_pool_release(pool, again));
    CALL(hcomm_buffer_pool_destroy(pool));
}

/* The transfers read what the buffer held when they were submitted, however often it is used again. */
static void reuse_waits_for_transfers(hcomm_memory_type_t type)
{
    static unsigned char results[ROUNDS / 10][LARGE / 8];
    hcomm_transfer_t transfers[ROUNDS / 10];
    hcomm_buffer_pool_t pool = make(2, LARGE / 8, type);
    for (int i = 0; i < ROUNDS / 10; i++) {
        void *buffer = NULL;
        CALL(hcomm_buffer_pool_acquire(pool, &buffer));
        CALL(hcomm_memset(check_handle, buffer, i, LARGE / 8));
        transfers[i] = (hcomm_transfer_t){.src_ptr = buffer, .dst_ptr = results[i], .size = LARGE / 8};
        CALL(hcomm_submit_transfer(check_handle, &transfers[i]));
        CALL(hcomm_buffer_pool_release(pool, buffer));
    }
    CALL(hcomm_buffer_pool_destroy(pool)); /* waits, too */
    CALL(hcomm_wait_batch(check_handle, transfers, ROUNDS / 10));
    for (int i = 0; i < ROUNDS / 10; i++)
        CHECK(results[i][0] == i && results[i][LARGE / 8 - 1] == i);
}

static void update_changes_count_and_size(void)
{
    void *old[2], *buffer = NULL;
    hcomm_buffer_pool_t pool = make(2, SIZE, HCOMM_MEMORY_SHARED);
    CALL(hcomm_buffer_pool_acquire(pool, &old[0]));
    CALL(hcomm_buffer_pool_acquire(pool, &old[1]));
    CALL(hcomm_buffer_pool_update(pool, 3, 0));
    CHECK(stats_of(pool).free == 1);
    CALL(hcomm_buffer_pool_update(pool, 0, 2 * SIZE));
    hcomm_buffer_pool_stats_t stats = stats_of(pool);
    CHECK(stats.count == 3 && stats.size == 2 * SIZE && stats.free == 3 && stats.acquired == 2);
    CALL(hcomm_buffer_pool_acquire(pool, &buffer));
    memset(buffer, 1, 2 * SIZE);
    memset(old[0], 1, SIZE); /* acquired before: as it was */
    CALL(hcomm_buffer_pool_release(pool, old[0]));
    CALL(hcomm_buffer_pool_release(pool, old[1]));
    CHECK(stats_of(pool).free == 2);
    CALL(hcomm_buffer_pool_update(pool, 1, 0));
    CHECK(stats_of(pool).free == 0);
    CALL(hcomm_buffer_pool_release(pool, buffer));
    CHECK(stats_of(pool).free == 1);
    EXPECT(HCOMM_ERR_NO_MEMORY,
           hcomm_buffer_pool_update(pool, 0, SIZE_MAX / 4)); /* more than mem_pool_size */
    CHECK(stats_of(pool).size == 2 * SIZE && stats_of(pool).free == 1);
    CALL(hcomm_buffer_pool_destroy(pool));
}

static hcomm_buffer_pool_t shared;

static void *use_shared(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        size_t *buffer = NULL;
        CALL(hcomm_buffer_pool_acquire(shared, (void **)&buffer));
        buffer[0] = (size_t)arg;
        (void)sched_yield();
        CHECK(buffer[0] == (size_t)arg);
        CALL(hcomm_buffer_pool_release(shared, buffer));
    }
    return NULL;
}

static void threads_share_a_pool_and_nothing_is_allocated(void)
{
    pthread_t threads[THREADS];
    shared = make(2, SIZE, HCOMM_MEMORY_HOST);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_shared, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    hcomm_buffer_pool_stats_t stats = stats_of(shared);
    CHECK(stats.acquisitions == THREADS * ROUNDS && stats.allocations == 2 && stats.free == 2);
    CHECK(stats.most_acquired <= 2);
    CALL(hcomm_buffer_pool_destroy(shared));
}

int main(int argc, char **argv)
{
    bool device = argc > 1 && strcmp(argv[1], "device") == 0;
    check_init(&(hcomm_config_t){.device_id = device ? HCOMM_DEVICE(0) : 0, .queue_depth = 128});
    buffers_are_aligned_distinct_and_limited(HCOMM_MEMORY_HOST);
    buffers_are_aligned_distinct_and_limited(HCOMM_MEMORY_HOST_PINNED);
    buffers_are_aligned_distinct_and_limited(HCOMM_MEMORY_SHARED);
    reuse_waits_for_transfers(HCOMM_MEMORY_SHARED);
    if (device) {
        buffers_are_aligned_distinct_and_limited(HCOMM_MEMORY_DEVICE);
        reuse_waits_for_transfers(HCOMM_MEMORY_DEVICE);
        reuse_waits_for_transfers(HCOMM_MEMORY_HOST_PINNED);
    } else {
        CHECK(!hcomm_buffer_pool_create(check_handle, 1, SIZE, HCOMM_MEMORY_DEVICE));
    }
    bad_arguments_are_refused();
    reuse_waits_for_messages();
    update_changes_count_and_size();
    threads_share_a_pool_and_nothing_is_allocated();
    (void)make(3, SIZE, HCOMM_MEMORY_SHARED); /* left to the context's end */
    CALL(hcomm_finalize(check_handle));
    return 0;
}
