/* Prefetching: every batch arrives, in order, whatever its size, depth and place; what is wrong is told. */
#include "tests/multi/check.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { BATCHES = 50, BYTES = 70000 };

static unsigned char *data;

static size_t size_of(uint64_t index)
{
    return index % 7 == 3 ? 0 : BYTES - (size_t)index * 100;
}

static const void *batch_at(void *user_data, uint64_t index, size_t *size)
{
    uint64_t *expected = user_data;
    CHECK(index == *expected && *size == BYTES);
    ++*expected;
    if (index == BATCHES)
        return NULL;
    *size = size_of(index);
    return data + index * BYTES;
}

static hcomm_prefetch_t start(unsigned depth, hcomm_memory_type_t type, hcomm_prefetch_source_t source,
                              void *user_data)
{
    hcomm_prefetch_t prefetch = NULL;
    const hcomm_prefetch_config_t config = {
        .source = source, .user_data = user_data, .batch_size = BYTES, .depth = depth, .memory_type = type};
    CALL(hcomm_prefetch_create(check_handle, &config, &prefetch));
    return prefetch;
}

static void check_batch(const hcomm_prefetch_batch_t *batch, uint64_t index)
{
    static unsigned char bytes[BYTES];
    CHECK(batch->ptr && batch->index == index && batch->size == size_of(index));
    CALL(hcomm_memcpy(check_handle, bytes, batch->ptr, batch->size, HCOMM_COPY_AUTO));
    CHECK(memcmp(bytes, data + index * BYTES, batch->size) == 0);
}

static void batches_arrive_in_order(unsigned depth, hcomm_memory_type_t type)
{
    uint64_t asked = 0;
    hcomm_prefetch_batch_t batch;
    hcomm_prefetch_t prefetch = start(depth, type, batch_at, &asked);
    for (uint64_t i = 0; i < BATCHES; i++) {
        CALL(hcomm_prefetch_next(prefetch, &batch));
        check_batch(&batch, i);
    }
    for (int again = 0; again < 2; again++) {
        CALL(hcomm_prefetch_next(prefetch, &batch));
        CHECK(!batch.ptr && batch.index == BATCHES);
    }
    CHECK(asked == BATCHES + 1);
    CALL(hcomm_prefetch_destroy(prefetch));
}

static void destroying_half_way_waits_for_what_is_under_way(hcomm_memory_type_t type)
{
    uint64_t asked = 0;
    hcomm_prefetch_batch_t batch;
    hcomm_prefetch_t prefetch = start(8, type, batch_at, &asked);
    CALL(hcomm_prefetch_next(prefetch, &batch));
    check_batch(&batch, 0);
    CALL(hcomm_prefetch_destroy(prefetch));
    CALL(hcomm_prefetch_destroy(NULL));
}

/* The second of three is too long. */
static const void *one_too_long(void *user_data, uint64_t index, size_t *size)
{
    (void)user_data;
    *size = index == 1 ? BYTES + 1 : 10;
    return index < 3 ? data : NULL;
}

static void failed_batch_is_told_and_the_next_one_comes(hcomm_memory_type_t type)
{
    hcomm_prefetch_batch_t batch;
    hcomm_prefetch_t prefetch = start(0, type, one_too_long, NULL);
    CALL(hcomm_prefetch_next(prefetch, &batch));
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_next(prefetch, &batch));
    CHECK(strstr(hcomm_error_detail(), "batch 1") && strstr(hcomm_error_detail(), "70001 bytes"));
    CALL(hcomm_prefetch_next(prefetch, &batch));
    CHECK(batch.ptr && batch.index == 2 && batch.size == 10);
    CALL(hcomm_prefetch_next(prefetch, &batch));
    CHECK(!batch.ptr);
    CALL(hcomm_prefetch_destroy(prefetch));
}

static atomic_bool hold;

static void keep_queue_full(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    (void)id, (void)status, (void)user_data;
    while (atomic_load(&hold))
        (void)usleep(1000);
}

/* Waiting for room in the queue may time out; the batch is then tried again, not lost, and not asked for
 * twice. */
static void batches_wait_for_a_full_queue(void)
{
    hcomm_handle_t usual = check_handle;
    hcomm_prefetch_batch_t batch;
    uint64_t asked = 0;
    char to;
    check_init(&(hcomm_config_t){.queue_depth = 1, .timeout_ms = 1000});
    atomic_store(&hold, true);
    CALL(hcomm_submit_transfer(
        check_handle,
        &(hcomm_transfer_t){.src_ptr = data, .dst_ptr = &to, .size = 1, .callback = keep_queue_full}));
    hcomm_prefetch_t prefetch = start(1, HCOMM_MEMORY_HOST, batch_at, &asked);
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_prefetch_next(prefetch, &batch));
    CHECK(strstr(hcomm_error_detail(), "batch 0") && strstr(hcomm_error_detail(), "queue is full"));
    atomic_store(&hold, false);
    for (uint64_t i = 0; i < BATCHES; i++) {
        CALL(hcomm_prefetch_next(prefetch, &batch));
        check_batch(&batch, i);
    }
    CALL(hcomm_prefetch_destroy(prefetch));
    CALL(hcomm_finalize(check_handle));
    check_handle = usual;
}

static void bad_arguments_are_refused(bool device)
{
    hcomm_prefetch_t prefetch = NULL;
    hcomm_prefetch_config_t config = {.source = one_too_long, .batch_size = BYTES};
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_create(NULL, &config, &prefetch));
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_create(check_handle, NULL, &prefetch));
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_create(check_handle, &config, NULL));
    config.batch_size = 0;
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_create(check_handle, &config, &prefetch));
    config.batch_size = BYTES, config.depth = 1025;
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_create(check_handle, &config, &prefetch));
    config.depth = 1, config.source = NULL;
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_create(check_handle, &config, &prefetch));
    config.source = one_too_long, config.reserved[0] = 1;
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_create(check_handle, &config, &prefetch));
    config.reserved[0] = 0, config.memory_type = HCOMM_MEMORY_DEVICE;
    if (!device)
        EXPECT(HCOMM_ERR_UNSUPPORTED, hcomm_prefetch_create(check_handle, &config, &prefetch));
    EXPECT(HCOMM_ERR_INVALID, hcomm_prefetch_next(NULL, NULL));
    CHECK(!prefetch);
}

int main(int argc, char **argv)
{
    bool device = argc > 1 && strcmp(argv[1], "device") == 0;
    hcomm_memory_type_t type = device ? HCOMM_MEMORY_DEVICE : HCOMM_MEMORY_HOST;
    check_init(&(hcomm_config_t){.device_id = device ? HCOMM_DEVICE(0) : 0, .queue_depth = 4});
    data = hcomm_alloc_host_mem(check_handle, (size_t)BATCHES * BYTES);
    CHECK(data);
    for (size_t i = 0; i < (size_t)BATCHES * BYTES; i++)
        data[i] = (unsigned char)(i * 7 + i / BYTES);
    batches_arrive_in_order(0, type);
    batches_arrive_in_order(1, HCOMM_MEMORY_SHARED);
    batches_arrive_in_order(20, type); /* more than queue_depth */
    destroying_half_way_waits_for_what_is_under_way(type);
    failed_batch_is_told_and_the_next_one_comes(type);
    batches_wait_for_a_full_queue();
    bad_arguments_are_refused(device);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
