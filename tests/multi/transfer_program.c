/*
 * Buffers, transfers, pools and prefetching as one program of a user would combine them: rows of a matrix go
 * through a pipeline of callbacks, batches, pools and the device, if there is one, and come out complete.
 */
#include "tests/multi/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { ROWS = 64, ROW = 1000, DEPTH = 4, LARGE = 8 << 20, BATCHES = 12 };

static hcomm_handle_t handle;
static size_t stride;
static bool have_device;

static unsigned char *host(size_t size)
{
    hcomm_config_t config;
    unsigned char *memory = hcomm_alloc_host_mem(handle, size);
    CALL(hcomm_get_config(handle, &config));
    CHECK(memory && (uintptr_t)memory % config.align_size == 0);
    return memory;
}

/* Where results are: the device, if there is one. */
static void *target(size_t size)
{
    void *memory = NULL;
    CALL(hcomm_mem_alloc(handle, size, have_device ? HCOMM_MEMORY_DEVICE : HCOMM_MEMORY_HOST, &memory));
    return memory;
}

static void expect_filled(const void *memory, size_t size, int value)
{
    static unsigned char bytes[LARGE];
    CALL(hcomm_memcpy(handle, bytes, memory, size, HCOMM_COPY_AUTO));
    for (size_t i = 0; i < size; i++)
        CHECK(bytes[i] == value);
}

/* ---- rows of a matrix ---- */

struct pipeline {
    unsigned char *from, *to;
    atomic_int next, done;
};

static void row_is_there(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data);

static hcomm_transfer_t row_transfer(struct pipeline *pipeline, int row)
{
    return (hcomm_transfer_t){.src_ptr = pipeline->from + (size_t)row * stride,
                              .dst_ptr = pipeline->to + (size_t)row * stride,
                              .size = ROW,
                              .callback = row_is_there,
                              .user_data = pipeline};
}

/* Each row that arrives sends the next one on its way, also while the queue is full. */
static void row_is_there(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    struct pipeline *pipeline = user_data;
    CHECK(id != 0 && status == HCOMM_OK);
    int row = atomic_fetch_add(&pipeline->next, 1);
    if (row < ROWS) {
        hcomm_transfer_t transfer = row_transfer(pipeline, row);
        CALL(hcomm_submit_transfer(handle, &transfer));
    }
    atomic_fetch_add(&pipeline->done, 1);
}

static void rows_follow_each_other(void)
{
    struct pipeline pipeline = {.from = host(ROWS * stride), .to = target(ROWS * stride), .next = DEPTH};
    hcomm_transfer_t first[DEPTH];
    for (int row = 0; row < ROWS; row++)
        memset(pipeline.from + (size_t)row * stride, row, ROW);
    for (int row = 0; row < DEPTH; row++)
        first[row] = row_transfer(&pipeline, row);
    CALL(hcomm_submit_batch(handle, first, DEPTH));
    CALL(hcomm_wait_completion(handle, first[0].id));
    while (atomic_load(&pipeline.done) < ROWS)
        (void)sched_yield();
    for (int row = 0; row < ROWS; row++)
        expect_filled(pipeline.to + (size_t)row * stride, ROW, row);
    CALL(hcomm_free_host_mem(handle, pipeline.from));
    CALL(hcomm_mem_free(handle, pipeline.to));
}

static void stride_keeps_rows_aligned(void)
{
    hcomm_config_t config;
    CALL(hcomm_get_config(handle, &config));
    stride = hcomm_aligned_stride(handle, ROW);
    CHECK(stride >= ROW && stride < ROW + config.align_size && stride % config.align_size == 0);
    CHECK(hcomm_aligned_stride(handle, stride) == stride);
    CHECK(hcomm_aligned_stride(NULL, ROW) == 0 && hcomm_aligned_stride(handle, SIZE_MAX) == 0);
}

/* ---- a full queue, and memory that is freed too early ---- */

static atomic_bool gate_open;

static void at_gate(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    (void)id, (void)user_data;
    CHECK(status == HCOMM_OK);
    while (!atomic_load(&gate_open))
        (void)sched_yield();
}

/* Transfers are in flight until their callbacks have returned: these stay until the gate opens. */
static void full_queue_blocks_or_says_again(void)
{
    unsigned char *from = host(ROW);
    void *to = target(ROW);
    hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = ROW, .callback = at_gate};
    atomic_store(&gate_open, false);
    for (int i = 0; i < DEPTH; i++)
        CALL(hcomm_submit_transfer(handle, &transfer));
    transfer.flags = HCOMM_TRANSFER_NO_WAIT;
    EXPECT(HCOMM_AGAIN, hcomm_submit_transfer(handle, &transfer));
    atomic_store(&gate_open, true);
    transfer.flags = 0;
    CALL(hcomm_submit_transfer(handle, &transfer));
    CALL(hcomm_wait_completion(handle, transfer.id));
    CALL(hcomm_free_host_mem(handle, from));
    CALL(hcomm_mem_free(handle, to));
}

static void memory_may_be_freed_under_a_transfer(void)
{
    void *to = target(LARGE);
    hcomm_transfer_t transfers[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        unsigned char *from = host(LARGE / DEPTH);
        memset(from, 0x42, LARGE / DEPTH);
        transfers[i] = (hcomm_transfer_t){
            .src_ptr = from, .dst_ptr = (char *)to + (size_t)i * LARGE / DEPTH, .size = LARGE / DEPTH};
        CALL(hcomm_submit_transfer(handle, &transfers[i]));
        CALL(hcomm_free_host_mem(handle, from));
        unsigned char *other = host(LARGE / DEPTH); /* not the same memory while it is being read */
        memset(other, 0x66, LARGE / DEPTH);
        CALL(hcomm_free_host_mem(handle, other));
    }
    CALL(hcomm_wait_batch(handle, transfers, DEPTH));
    expect_filled(to, LARGE, 0x42);
    CALL(hcomm_mem_free(handle, to));
}

/* ---- a pool ---- */

struct waiter {
    hcomm_buffer_pool_t pool;
    atomic_bool has_it;
};

static void *acquire_and_release(void *arg)
{
    struct waiter *waiter = arg;
    void *buffer = NULL;
    CALL(hcomm_buffer_pool_acquire(waiter->pool, &buffer));
    atomic_store(&waiter->has_it, true);
    CALL(hcomm_buffer_pool_release(waiter->pool, buffer));
    return NULL;
}

static void acquire_waits_for_a_release(void)
{
    static const struct timespec pause = {.tv_nsec = 20000000};
    struct waiter waiter = {.pool = hcomm_buffer_pool_create(handle, 1, ROW, HCOMM_MEMORY_SHARED)};
    hcomm_buffer_pool_stats_t stats;
    pthread_t thread;
    void *buffer = NULL;
    CHECK(waiter.pool);
    CALL(hcomm_buffer_pool_acquire(waiter.pool, &buffer));
    CHECK(pthread_create(&thread, NULL, acquire_and_release, &waiter) == 0);
    (void)nanosleep(&pause, NULL);
    CHECK(!atomic_load(&waiter.has_it));
    CALL(hcomm_buffer_pool_release(waiter.pool, buffer));
    CHECK(pthread_join(thread, NULL) == 0 && atomic_load(&waiter.has_it));
    CALL(hcomm_buffer_pool_timed_acquire(waiter.pool, 1000, &buffer));
    CALL(hcomm_buffer_pool_stats(waiter.pool, &stats));
    CHECK(stats.count == 1 && stats.size == ROW && stats.acquired == 1 && stats.free == 0);
    CHECK(stats.acquisitions == 3 && stats.waits <= 1 && stats.allocations == 1);
    CALL(hcomm_buffer_pool_release(waiter.pool, buffer));
    CALL(hcomm_buffer_pool_destroy(waiter.pool));
}

/* ---- prefetching ---- */

static const void *batch_at(void *user_data, uint64_t index, size_t *size)
{
    unsigned char *rows = user_data;
    *size = ROW;
    return index < BATCHES ? rows + index * stride : NULL;
}

static void batches_come_while_computing(void)
{
    unsigned char *rows = host(BATCHES * stride);
    const hcomm_prefetch_config_t config = {.source = batch_at,
                                            .user_data = rows,
                                            .batch_size = ROW,
                                            .memory_type =
                                                have_device ? HCOMM_MEMORY_DEVICE : HCOMM_MEMORY_HOST};
    hcomm_prefetch_t prefetch;
    hcomm_prefetch_batch_t batch;
    for (int i = 0; i < BATCHES; i++)
        memset(rows + (size_t)i * stride, 100 + i, ROW);
    CALL(hcomm_prefetch_create(handle, &config, &prefetch));
    for (int i = 0; i < BATCHES; i++) {
        CALL(hcomm_prefetch_next(prefetch, &batch));
        CHECK(batch.ptr && batch.index == (uint64_t)i && batch.size == ROW);
        expect_filled(batch.ptr, ROW, 100 + i);
    }
    CALL(hcomm_prefetch_next(prefetch, &batch));
    CHECK(!batch.ptr);
    CALL(hcomm_prefetch_destroy(prefetch));
    CALL(hcomm_free_host_mem(handle, rows));
}

int main(int argc, char **argv)
{
    have_device = argc > 1 && strcmp(argv[1], "device") == 0;
    check_init(&(hcomm_config_t){.device_id = have_device ? HCOMM_DEVICE(0) : 0, .queue_depth = DEPTH});
    handle = check_handle;
    stride_keeps_rows_aligned();
    rows_follow_each_other();
    full_queue_blocks_or_says_again();
    memory_may_be_freed_under_a_transfer();
    acquire_waits_for_a_release();
    batches_come_while_computing();
    CALL(hcomm_finalize(handle));
    return 0;
}
