/*
 * Transfers with device memory, on the simulator. Arguments: "fault" and "lost" for runs in which
 * NPUSIM_FAULT makes copies fail, "slow" for one in which copies take so long that they are under way when
 * the caller goes on.
 */
#include "runtime/core/core.h"
#include "runtime/core/device.h"
#include "tests/multi/check.h"
#include "transports/npu/acl/table.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { SIZE = 5 << 20, FREED = 2 << 20, SMALL = 256, BATCH = 200, DEPTH = 16, ROUNDS = 30, THREADS = 4 };
/* Staging memory: buffer_size in pieces. */
enum { PIECES = 16, PIECE = 512 << 10, ONE_PIECE = 100000 };
enum { HOST = HC_PLACE_HOST, PINNED = HC_PLACE_PINNED, DEVICE = HC_PLACE_DEVICE, OURS };

static unsigned char pattern[SIZE], result[SIZE];

static void *take(int place, size_t size)
{
    void *ptr = NULL;
    if (place == OURS)
        ptr = hcomm_alloc_host_mem(check_handle, size);
    else if (place == HOST)
        ptr = malloc(size);
    else {
        hc_lock_acquire(&check_handle->lock);
        CALL(hc_device_alloc(check_handle->device, size, (enum hc_place)place, &ptr));
        hc_lock_release(&check_handle->lock);
    }
    CHECK(ptr != NULL);
    return ptr;
}

static void give(int place, void *ptr)
{
    if (place == OURS)
        CALL(hcomm_free_host_mem(check_handle, ptr));
    else if (place == HOST)
        free(ptr);
    else {
        hc_lock_acquire(&check_handle->lock);
        CALL(hc_device_free(check_handle->device, ptr));
        hc_lock_release(&check_handle->lock);
    }
}

static void copy_now(void *to, const void *from, size_t size)
{
    hc_lock_acquire(&check_handle->lock);
    CALL(hc_copy_any(check_handle, to, from, size));
    hc_lock_release(&check_handle->lock);
}

static void count(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    CHECK(id != 0 && status == HCOMM_OK);
    atomic_fetch_add((atomic_int *)user_data, 1);
}

static void one_pair(int to, int from, size_t size, bool with_callback)
{
    atomic_int calls = 0;
    unsigned char *src = take(from, size), *dst = take(to, size);
    copy_now(src, pattern, size);
    hcomm_transfer_t transfer = {.src_ptr = src, .dst_ptr = dst, .size = size, .user_data = &calls};
    transfer.callback = with_callback ? count : NULL;
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    while (with_callback && !atomic_load(&calls))
        (void)sched_yield();
    CALL(hcomm_wait_completion(check_handle, transfer.id));
    memset(result, 0, size);
    copy_now(result, dst, size);
    CHECK(memcmp(result, pattern, size) == 0);
    give(from, src);
    give(to, dst);
}

static void transfers_between_any_two_kinds_of_memory(void)
{
    static const size_t sizes[] = {1, SMALL, 300000, SIZE};
    for (int to = HOST; to <= OURS; to++)
        for (int from = HOST; from <= OURS; from++)
            for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                one_pair(to, from, sizes[i], (to + from + (int)i) % 2);
}

/* One after the other, from pageable memory. How many staging pieces that allocates. */
static uint64_t stage_rounds(size_t size)
{
    unsigned char *pageable = take(HOST, size), *device = take(DEVICE, size);
    hcomm_transfer_t staged = {.src_ptr = pageable, .dst_ptr = device, .size = size};
    uint64_t transfers = check_counter("transfers_staged"),
             allocations = check_counter("staging_allocations");
    memcpy(pageable, pattern, size);
    for (int i = 0; i < ROUNDS; i++) {
        CALL(hcomm_submit_transfer(check_handle, &staged));
        CALL(hcomm_wait_completion(check_handle, staged.id));
    }
    CHECK(check_counter("transfers_staged") == transfers + ROUNDS);
    give(HOST, pageable);
    give(DEVICE, device);
    return check_counter("staging_allocations") - allocations;
}

static void only_pageable_memory_is_staged(void)
{
    unsigned char *ours = take(OURS, SIZE), *device = take(DEVICE, SIZE);
    hcomm_transfer_t straight = {.src_ptr = ours, .dst_ptr = device, .size = SIZE};
    uint64_t before = check_counter("transfers_staged");
    CALL(hcomm_submit_transfer(check_handle, &straight));
    CALL(hcomm_wait_completion(check_handle, straight.id));
    CHECK(check_counter("transfers_staged") == before);
    give(OURS, ours);
    give(DEVICE, device);
}

/* How many pieces of a long transfer are under way at once is the machine's affair; of one that fits in a
 * piece it is one. */
static void steady_staging_allocates_nothing(void)
{
    CHECK(stage_rounds(ONE_PIECE) <= 1);
    CHECK(stage_rounds(ONE_PIECE) == 0);
}

/* At most all pieces that may exist, and half of them once more at each of the two moments at which the pool
 * can shrink in these rounds: far fewer than the 300 that they use. */
static void staging_of_long_transfers_grows_to_its_bound(void)
{
    CHECK(check_handle->settings.buffer_size == PIECES * PIECE);
    CHECK(stage_rounds(SIZE) <= 2 * PIECES);
}

static void batches_arrive_piece_by_piece(void)
{
    hcomm_transfer_t transfers[BATCH];
    unsigned char *ours = take(OURS, BATCH * SMALL), *device = take(DEVICE, BATCH * SMALL);
    memcpy(ours, pattern, BATCH * SMALL);
    for (size_t i = 0; i < BATCH; i++)
        transfers[i] = (hcomm_transfer_t){
            .src_ptr = ours + i * SMALL, .dst_ptr = device + (BATCH - 1 - i) * SMALL, .size = SMALL};
    CALL(hcomm_submit_batch(check_handle, transfers, BATCH));
    CALL(hcomm_wait_batch(check_handle, transfers, BATCH));
    copy_now(result, device, BATCH * SMALL);
    for (size_t i = 0; i < BATCH; i++)
        CHECK(memcmp(result + (BATCH - 1 - i) * SMALL, pattern + i * SMALL, SMALL) == 0);
    give(OURS, ours);
    give(DEVICE, device);
}

static void device_memory_beyond_its_end_or_freed_is_refused(void)
{
    unsigned char *device = take(DEVICE, SMALL);
    hcomm_transfer_t good = {.src_ptr = pattern, .dst_ptr = device, .size = SMALL}, batch[2];
    hcomm_transfer_t bad = {.src_ptr = pattern, .dst_ptr = device, .size = SIZE};
    batch[0] = good;
    batch[1] = bad;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &bad));
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_batch(check_handle, batch, 2));
    CHECK(strstr(hcomm_error_detail(), "transfer 1 of 2") && strstr(hcomm_error_detail(), "device 0"));
    CHECK(batch[0].id == 0);
    give(DEVICE, device);
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &good));
}

static void *submit_much(void *arg)
{
    unsigned seed = 5 + (unsigned)(size_t)arg;
    unsigned char *from = take(seed % 2 ? OURS : HOST, SIZE / 8), *device = take(DEVICE, SIZE / 8);
    unsigned char *to = take(HOST, SIZE / 8);
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = 1 + check_random(&seed) % (SIZE / 8);
        hcomm_transfer_t in = {.src_ptr = from, .dst_ptr = device, .size = size};
        hcomm_transfer_t out = {.src_ptr = device, .dst_ptr = to, .size = size};
        memset(from, i, size);
        CALL(hcomm_submit_transfer(check_handle, &in));
        CALL(hcomm_wait_completion(check_handle, in.id));
        CALL(hcomm_submit_transfer(check_handle, &out));
        CALL(hcomm_wait_completion(check_handle, out.id));
        CHECK(memcmp(from, to, size) == 0);
    }
    give(HOST, to);
    give(DEVICE, device);
    give((5 + (unsigned)(size_t)arg) % 2 ? OURS : HOST, from);
    return NULL;
}

static void threads_share_the_device(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, submit_much, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* The simulator's copies take 50 ms here: they are under way while this runs. Where the machine was busy for
 * as long, it is tried again. */
static bool is_under_way(const hcomm_transfer_t *transfer)
{
    return hcomm_test_completion(check_handle, transfer->id) == HCOMM_IN_PROGRESS;
}

/* Whether all was done while the transfer was under way. */
static bool free_the_pool_under(const hcomm_transfer_t *transfer, unsigned char *ours)
{
    hcomm_transfer_t late = *transfer;
    CALL(hcomm_free_host_mem(check_handle, ours));
    hcomm_status_t again = hcomm_free_host_mem(check_handle, ours);
    hcomm_status_t used = hcomm_submit_transfer(check_handle, &late);
    bool told = strstr(hcomm_error_detail(), "hcomm_free_host_mem") != NULL;
    void *other = hcomm_alloc_host_mem(check_handle, 1);
    bool in_time = is_under_way(transfer);
    CHECK(!in_time || (again == HCOMM_ERR_INVALID && used == HCOMM_ERR_INVALID && told));
    CHECK(!in_time || other == NULL); /* the transfer still holds the whole pool */
    if (other)
        give(OURS, other);
    if (used == HCOMM_OK)
        CALL(hcomm_wait_completion(check_handle, late.id));
    return in_time;
}

static bool free_the_pool_in_time(void)
{
    size_t all = check_handle->settings.mem_pool_size;
    unsigned char *ours = take(OURS, all), *device = take(DEVICE, all);
    hcomm_transfer_t transfer = {.src_ptr = ours, .dst_ptr = device, .size = all};
    memset(ours, 0x5a, all);
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    bool in_time = free_the_pool_under(&transfer, ours);
    CALL(hcomm_wait_completion(check_handle, transfer.id));
    unsigned char *again = take(OURS, all);
    CHECK(again == ours);
    give(OURS, again);
    copy_now(result, device, all < SIZE ? all : SIZE);
    CHECK(result[0] == 0x5a && result[(all < SIZE ? all : SIZE) - 1] == 0x5a);
    give(DEVICE, device);
    return in_time;
}

static void memory_freed_under_a_transfer_is_released_after_it(void)
{
    while (!free_the_pool_in_time())
        continue;
}

/* Whether the device's runtime has the memory; it knows nothing of plain host memory. */
static bool is_allocated(const void *ptr)
{
    struct hc_acl_pointer_attributes attributes = {{0, HC_ACL_MEMORY_UNREGISTERED}, 0, {0}};
    int code = hc_device_acl(check_handle->device)->aclrtPointerGetAttributes(ptr, &attributes);
    return code == HC_ACL_OK && attributes.location.type != HC_ACL_MEMORY_UNREGISTERED;
}

static void *take_type(hcomm_memory_type_t type)
{
    void *ptr = NULL;
    CALL(hcomm_mem_alloc(check_handle, FREED, type, &ptr));
    return ptr;
}

/* Free it under the transfer. */
static void free_early(const hcomm_transfer_t *transfer, void *ptr, hcomm_memory_type_t type)
{
    hcomm_transfer_t late = *transfer;
    CALL(hcomm_mem_free(check_handle, ptr));
    bool kept = type == HCOMM_MEMORY_HOST || is_allocated(ptr);
    void *other = take_type(type);
    /* asked in this order: what is not complete now was not when the memory was looked at */
    CHECK(hcomm_test_completion(check_handle, transfer->id) != HCOMM_IN_PROGRESS || (kept && other != ptr));
    CALL(hcomm_mem_free(check_handle, other));
    EXPECT(HCOMM_ERR_INVALID, hcomm_mem_free(check_handle, ptr));
    if (type != HCOMM_MEMORY_DEVICE)
        return;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &late));
    CHECK(strstr(hcomm_error_detail(), "rank 0: device 0"));
}

static void expect_released(const hcomm_transfer_t *transfer, const void *ptr, hcomm_memory_type_t type)
{
    CALL(hcomm_test_completion(check_handle, transfer->id));  /* moves things along */
    CHECK(type == HCOMM_MEMORY_SHARED || !is_allocated(ptr)); /* the pool stays pinned */
}

static void source_of_any_type_freed_under_a_transfer_is_released_after_it(void)
{
    for (hcomm_memory_type_t type = HCOMM_MEMORY_HOST; type <= HCOMM_MEMORY_SHARED; type++) {
        unsigned char *from = take_type(type), *to = take(DEVICE, FREED);
        hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = FREED};
        copy_now(from, pattern, FREED);
        CALL(hcomm_submit_transfer(check_handle, &transfer));
        free_early(&transfer, from, type);
        CALL(hcomm_wait_completion(check_handle, transfer.id));
        copy_now(result, to, FREED);
        CHECK(memcmp(result, pattern, FREED) == 0);
        expect_released(&transfer, from, type);
        give(DEVICE, to);
    }
}

static void destination_of_any_type_freed_under_a_transfer_is_released_after_it(void)
{
    for (hcomm_memory_type_t type = HCOMM_MEMORY_HOST; type <= HCOMM_MEMORY_SHARED; type++) {
        unsigned char *from = take(DEVICE, FREED), *to = take_type(type);
        hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = FREED};
        CALL(hcomm_submit_transfer(check_handle, &transfer));
        free_early(&transfer, to, type);
        CALL(hcomm_wait_completion(check_handle, transfer.id));
        expect_released(&transfer, to, type);
        give(DEVICE, from);
    }
}

/* What a callback frees: a buffer of its own transfer, and one that another transfer still uses. */
struct owned {
    void *own, *others;
    atomic_int calls;
};

static void free_both(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    struct owned *owned = user_data;
    CHECK(id != 0 && status == HCOMM_OK);
    CALL(hcomm_mem_free(check_handle, owned->own));
    CALL(hcomm_mem_free(check_handle, owned->others));
    atomic_fetch_add(&owned->calls, 1);
}

static void callbacks_free_memory_that_transfers_use(void)
{
    struct owned owned = {.own = take_type(HCOMM_MEMORY_HOST), .others = take_type(HCOMM_MEMORY_HOST)};
    unsigned char *device = take(DEVICE, FREED);
    hcomm_transfer_t slow = {.src_ptr = owned.others, .dst_ptr = device, .size = FREED};
    hcomm_transfer_t quick = {
        .src_ptr = pattern, .dst_ptr = owned.own, .size = SMALL, .callback = free_both, .user_data = &owned};
    memcpy(owned.others, pattern, FREED);
    CALL(hcomm_submit_transfer(check_handle, &slow));
    CALL(hcomm_submit_transfer(check_handle, &quick));
    while (!atomic_load(&owned.calls))
        (void)sched_yield();
    CALL(hcomm_wait_completion(check_handle, slow.id));
    copy_now(result, device, FREED);
    CHECK(memcmp(result, pattern, FREED) == 0);
    give(DEVICE, device);
}

/* Nobody waits for it but hcomm_finalize(). */
static void memory_freed_under_the_last_transfer_goes_with_the_context(void)
{
    unsigned char *from = take_type(HCOMM_MEMORY_HOST), *to = take_type(HCOMM_MEMORY_DEVICE);
    hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = FREED};
    memset(from, 1, FREED);
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    CALL(hcomm_mem_free(check_handle, from));
    CALL(hcomm_mem_free(check_handle, to));
}

/* Whether the first was still under way when the last had been submitted. */
static bool fill_the_queue_in_time(unsigned char *ours, unsigned char *device)
{
    hcomm_transfer_t transfers[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        transfers[i] = (hcomm_transfer_t){
            .src_ptr = ours, .dst_ptr = device, .size = SMALL, .flags = HCOMM_TRANSFER_NO_WAIT};
        CALL(hcomm_submit_transfer(check_handle, &transfers[i]));
    }
    hcomm_transfer_t extra = transfers[0];
    hcomm_status_t submitted = hcomm_submit_transfer(check_handle, &extra);
    hcomm_status_t cancelled = hcomm_cancel_transfer(check_handle, transfers[0].id);
    bool in_time = is_under_way(&transfers[0]);
    CHECK(!in_time || (submitted == HCOMM_AGAIN && cancelled == HCOMM_ERR_PENDING));
    extra.flags = 0;
    if (submitted == HCOMM_AGAIN)
        CALL(hcomm_submit_transfer(check_handle, &extra));
    CALL(hcomm_wait_completion(check_handle, extra.id));
    CALL(hcomm_wait_batch(check_handle, transfers, DEPTH));
    return in_time;
}

static void device_transfers_fill_the_queue_and_cannot_be_cancelled(void)
{
    unsigned char *ours = take(OURS, SMALL), *device = take(DEVICE, SMALL);
    while (!fill_the_queue_in_time(ours, device))
        continue;
    give(OURS, ours);
    give(DEVICE, device);
}

static void expect_failure(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    (void)id;
    CHECK(status == HCOMM_ERR_IO && strstr(hcomm_error_detail(), "device 0"));
    atomic_store((atomic_int *)user_data, 1);
}

/* The first copy fails: its transfer says so as often as it is asked, and in its callback; the next is not
 * affected. */
static void failed_copy_fails_its_transfer_only(void)
{
    atomic_int seen = 0;
    unsigned char *ours = take(OURS, SMALL), *device = take(DEVICE, SMALL);
    hcomm_transfer_t transfer = {
        .src_ptr = ours, .dst_ptr = device, .size = SMALL, .callback = expect_failure, .user_data = &seen};
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    for (int i = 0; i < 2; i++) {
        EXPECT(HCOMM_ERR_IO, hcomm_wait_completion(check_handle, transfer.id));
        CHECK(strstr(hcomm_error_detail(), "rank 0") && strstr(hcomm_error_detail(), "device 0"));
    }
    while (!atomic_load(&seen))
        (void)sched_yield();
    transfer.callback = NULL;
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    CALL(hcomm_wait_completion(check_handle, transfer.id));
}

/* Everything after the loss fails, staged transfers too; host transfers and the end of the context do not. */
static void lost_device_fails_its_transfers_and_nothing_else(void)
{
    unsigned char *ours = take(OURS, SIZE), *device = take(DEVICE, SIZE);
    hcomm_transfer_t transfers[] = {{.src_ptr = ours, .dst_ptr = device, .size = SIZE},
                                    {.src_ptr = pattern, .dst_ptr = device, .size = SIZE},
                                    {.src_ptr = pattern, .dst_ptr = ours, .size = SIZE}};
    CALL(hcomm_submit_transfer(check_handle, &transfers[0]));
    EXPECT(HCOMM_ERR_IO, hcomm_wait_completion(check_handle, transfers[0].id));
    hcomm_status_t status = hcomm_submit_transfer(check_handle, &transfers[1]);
    if (status == HCOMM_OK)
        status = hcomm_wait_completion(check_handle, transfers[1].id);
    CHECK(status == HCOMM_ERR_IO);
    CALL(hcomm_submit_transfer(check_handle, &transfers[2]));
    CALL(hcomm_wait_completion(check_handle, transfers[2].id));
    CHECK(memcmp(ours, pattern, SIZE) == 0);
}

static int is_mode(int argc, char **argv, const char *mode)
{
    return argc > 1 && strcmp(argv[1], mode) == 0;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < SIZE; i++)
        pattern[i] = (unsigned char)(i * 31 + (i >> 8));
    bool slow = is_mode(argc, argv, "slow");
    check_init(&(hcomm_config_t){
        .device_id = HCOMM_DEVICE(0), .queue_depth = DEPTH, .mem_pool_size = slow ? 4 << 20 : 64 << 20});
    if (slow) {
        memory_freed_under_a_transfer_is_released_after_it();
        source_of_any_type_freed_under_a_transfer_is_released_after_it();
        destination_of_any_type_freed_under_a_transfer_is_released_after_it();
        callbacks_free_memory_that_transfers_use();
        device_transfers_fill_the_queue_and_cannot_be_cancelled();
        memory_freed_under_the_last_transfer_goes_with_the_context();
    } else if (is_mode(argc, argv, "fault")) {
        failed_copy_fails_its_transfer_only();
    } else if (is_mode(argc, argv, "lost")) {
        lost_device_fails_its_transfers_and_nothing_else();
    } else {
        transfers_between_any_two_kinds_of_memory();
        only_pageable_memory_is_staged();
        steady_staging_allocates_nothing();
        staging_of_long_transfers_grows_to_its_bound();
        batches_arrive_piece_by_piece();
        device_memory_beyond_its_end_or_freed_is_refused();
        threads_share_the_device();
    }
    CALL(hcomm_finalize(check_handle));
    return 0;
}
