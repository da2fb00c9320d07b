/*
 * Transfers between host memories: what each call does, what it refuses, and what callbacks may do. One
 * process needs no other; stand-alone, so that ThreadSanitizer can run it.
 */
#include "tests/multi/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 4, SMALL = 256, LARGE = 3 << 20, BATCH = 200, CHAIN = 500, THREADS = 6, ROUNDS = 150 };

static unsigned char *room(size_t size)
{
    unsigned char *memory = malloc(size ? size : 1);
    CHECK(memory != NULL);
    return memory;
}

static void fill(unsigned char *memory, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        memory[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

static void check_filled(const unsigned char *memory, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        CHECK(memory[i] == (unsigned char)(seed + i * 7 + (i >> 8)));
}

/* A gate that callbacks wait at: while it is closed the callback thread is busy. */
static atomic_int gate_open;
static atomic_int called;

static void at_gate(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    (void)id;
    (void)user_data;
    CHECK(status == HCOMM_OK);
    while (!atomic_load(&gate_open))
        (void)sched_yield();
    atomic_fetch_add(&called, 1);
}

static void until_called(int count)
{
    while (atomic_load(&called) < count)
        (void)sched_yield();
}

static void single_transfer_copies_every_size(void)
{
    static const size_t sizes[] = {1, 15, SMALL, 16384, 16385, 524288, 524289, LARGE, LARGE + 13};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t size = sizes[i];
        unsigned char *from = room(size), *to = room(size);
        hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = size};
        hcomm_transfer_id_t id = 0;
        fill(from, size, (unsigned)i);
        CALL(hcomm_submit_transfer(check_handle, &transfer));
        CHECK(transfer.id != 0);
        CALL(hcomm_wait_completion(check_handle, transfer.id));
        check_filled(to, size, (unsigned)i);
        memset(to, 0, size);
        CALL(hcomm_submit_transfer_id(check_handle, &transfer, &id));
        CHECK(id == transfer.id);
        CALL(hcomm_wait_completion(check_handle, id));
        check_filled(to, size, (unsigned)i);
        free(from);
        free(to);
    }
}

static void outcome_can_be_asked_again(void)
{
    unsigned char from[SMALL], to[SMALL];
    hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = SMALL};
    fill(from, SMALL, 3);
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    CALL(hcomm_wait_completion(check_handle, transfer.id));
    CALL(hcomm_wait_completion(check_handle, transfer.id));
    CALL(hcomm_test_completion(check_handle, transfer.id));
    EXPECT(HCOMM_ERR_INVALID, hcomm_cancel_transfer(check_handle, transfer.id));
}

static void bad_arguments_are_refused(void)
{
    unsigned char from[SMALL] = {0}, to[SMALL];
    hcomm_transfer_t good = {.src_ptr = from, .dst_ptr = to, .size = SMALL}, bad;
    hcomm_transfer_id_t id = 77;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(NULL, &good));
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer_id(check_handle, &good, NULL));
    bad = good, bad.src_ptr = NULL;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &bad));
    bad = good, bad.dst_ptr = NULL;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer_id(check_handle, &bad, &id));
    CHECK(id == 77 && bad.id == 0);
    bad = good, bad.dst_ptr = from;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &bad));
    bad.dst_ptr = from + SMALL - 1;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &bad));
    CHECK(strstr(hcomm_error_detail(), "overlap"));
    bad = good, bad.size = SIZE_MAX;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &bad));
    bad = good, bad.flags = 0x80;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &bad));
    bad = good, bad.reserved[1] = 1;
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &bad));
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_batch(check_handle, NULL, 2));
    EXPECT(HCOMM_ERR_INVALID, hcomm_wait_batch(check_handle, NULL, 2));
    CALL(hcomm_submit_batch(check_handle, NULL, 0));
    CALL(hcomm_wait_batch(check_handle, NULL, 0));
}

static void unknown_ids_are_refused(void)
{
    EXPECT(HCOMM_ERR_INVALID, hcomm_wait_completion(check_handle, 0));
    EXPECT(HCOMM_ERR_INVALID, hcomm_test_completion(check_handle, UINT64_MAX));
    EXPECT(HCOMM_ERR_INVALID, hcomm_cancel_transfer(check_handle, (UINT64_C(1) << 60) | 1));
    EXPECT(HCOMM_ERR_INVALID, hcomm_wait_completion(NULL, 1));
}

static void nothing_to_copy_completes_and_calls_back(void)
{
    hcomm_transfer_t transfer = {.callback = at_gate};
    atomic_store(&called, 0);
    atomic_store(&gate_open, 1);
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    CALL(hcomm_wait_completion(check_handle, transfer.id));
    until_called(1);
}

static void batch_with_one_bad_transfer_starts_none(void)
{
    unsigned char from[SMALL] = {1}, to[3][SMALL] = {{0}};
    hcomm_transfer_t transfers[3] = {{.src_ptr = from, .dst_ptr = to[0], .size = SMALL},
                                     {.src_ptr = from, .dst_ptr = NULL, .size = SMALL},
                                     {.src_ptr = from, .dst_ptr = to[2], .size = SMALL}};
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_batch(check_handle, transfers, 3));
    CHECK(strstr(hcomm_error_detail(), "transfer 1 of 3"));
    CHECK(transfers[0].id == 0 && transfers[2].id == 0);
    CHECK(to[0][0] == 0 && to[2][0] == 0);
}

/* More than the queue takes at once, small and large mixed. */
static void batch_beyond_the_queue_is_carried_out(void)
{
    hcomm_transfer_t transfers[BATCH] = {{0}};
    for (unsigned i = 0; i < BATCH; i++) {
        size_t size = i % 9 ? SMALL : 70000;
        unsigned char *from = room(size);
        fill(from, size, i);
        transfers[i] = (hcomm_transfer_t){.src_ptr = from, .dst_ptr = room(size), .size = size};
    }
    CALL(hcomm_submit_batch(check_handle, transfers, BATCH));
    CALL(hcomm_wait_batch(check_handle, transfers, BATCH));
    for (unsigned i = 0; i < BATCH; i++) {
        CHECK(transfers[i].status == HCOMM_OK);
        check_filled(transfers[i].dst_ptr, transfers[i].size, i);
        free((void *)(uintptr_t)transfers[i].src_ptr);
        free(transfers[i].dst_ptr);
    }
}

/* Callbacks that have not returned keep the queue full. */
static void full_queue_says_again_or_waits(void)
{
    unsigned char from[SMALL] = {0}, to[SMALL];
    hcomm_transfer_t transfer = {
        .src_ptr = from, .dst_ptr = to, .size = SMALL, .callback = at_gate, .flags = HCOMM_TRANSFER_NO_WAIT};
    hcomm_transfer_t batch[DEPTH + 1];
    atomic_store(&called, 0);
    atomic_store(&gate_open, 0);
    for (int i = 0; i < DEPTH; i++)
        CALL(hcomm_submit_transfer(check_handle, &transfer));
    hcomm_transfer_id_t last = transfer.id;
    EXPECT(HCOMM_AGAIN, hcomm_submit_transfer(check_handle, &transfer));
    CHECK(transfer.id == 0);
    CALL(hcomm_wait_completion(check_handle, last)); /* the data is in place, whatever callbacks do */
    for (int i = 0; i <= DEPTH; i++)
        batch[i] = transfer;
    EXPECT(HCOMM_ERR_LIMIT, hcomm_submit_batch(check_handle, batch, DEPTH + 1));
    EXPECT(HCOMM_AGAIN, hcomm_submit_batch(check_handle, batch, DEPTH));
    atomic_store(&gate_open, 1);
    transfer.flags = 0;
    CALL(hcomm_submit_transfer(check_handle, &transfer)); /* waits for room */
    until_called(DEPTH + 1);
    CALL(hcomm_submit_batch(check_handle, batch, 1));
    until_called(DEPTH + 2);
}

/* A chain: each callback submits the next transfer, with the queue full of others. */
struct link {
    unsigned char from[SMALL], to[SMALL];
    int left;
    atomic_int done;
    pthread_t thread;
};

static void next_link(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    struct link *link = user_data;
    (void)id;
    CHECK(status == HCOMM_OK);
    check_filled(link->to, SMALL, (unsigned)link->left);
    CHECK(link->left == CHAIN || pthread_equal(link->thread, pthread_self()));
    link->thread = pthread_self();
    if (--link->left == 0) {
        atomic_store(&link->done, 1);
        return;
    }
    hcomm_transfer_t transfer = {
        .src_ptr = link->from, .dst_ptr = link->to, .size = SMALL, .callback = next_link, .user_data = link};
    fill(link->from, SMALL, (unsigned)link->left);
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    CALL(hcomm_wait_completion(check_handle, transfer.id)); /* its data, not its callback */
}

static void callbacks_submit_again_even_with_a_full_queue(void)
{
    static struct link links[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        struct link *link = &links[i];
        *link = (struct link){.left = CHAIN};
        fill(link->from, SMALL, CHAIN);
        hcomm_transfer_t transfer = {.src_ptr = link->from,
                                     .dst_ptr = link->to,
                                     .size = SMALL,
                                     .callback = next_link,
                                     .user_data = link};
        CALL(hcomm_submit_transfer(check_handle, &transfer));
    }
    for (int i = 0; i < DEPTH; i++)
        while (!atomic_load(&links[i].done))
            (void)sched_yield();
}

static void second_submission(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    static unsigned char from[SMALL], to[SMALL];
    hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = SMALL, .callback = at_gate};
    (void)id;
    CHECK(status == HCOMM_OK);
    while (!atomic_load(&gate_open)) /* until the queue is full */
        (void)sched_yield();
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    EXPECT(HCOMM_AGAIN, hcomm_submit_transfer(check_handle, &transfer));
    EXPECT(HCOMM_ERR_INVALID, hcomm_finalize(check_handle));
    atomic_store((atomic_int *)user_data, 1);
}

static void second_submission_of_a_callback_to_a_full_queue_says_again(void)
{
    static atomic_int tried;
    unsigned char from[SMALL] = {0}, to[SMALL];
    hcomm_transfer_t transfer = {
        .src_ptr = from, .dst_ptr = to, .size = SMALL, .callback = second_submission, .user_data = &tried};
    atomic_store(&called, 0);
    atomic_store(&gate_open, 0);
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    transfer.callback = at_gate;
    for (int i = 1; i < DEPTH; i++)
        CALL(hcomm_submit_transfer(check_handle, &transfer));
    atomic_store(&gate_open, 1);
    until_called(DEPTH);
    CHECK(atomic_load(&tried));
}

static void count_cancelled(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    (void)id;
    if (status == HCOMM_ERR_CANCELLED)
        CHECK(strstr(hcomm_error_detail(), "cancelled"));
    else
        CHECK(status == HCOMM_OK);
    atomic_fetch_add((atomic_int *)user_data, status == HCOMM_ERR_CANCELLED ? 1 : 1000);
}

/* Whether the cancel comes in time is the machine's matter; what is reported must fit. */
static void cancelled_transfers_say_so_and_others_complete(void)
{
    static atomic_int outcomes;
    unsigned char *from = room(LARGE);
    int cancelled = 0, complete = 0;
    fill(from, LARGE, 9);
    for (int round = 0; round < 20; round++) {
        hcomm_transfer_t transfers[DEPTH];
        for (int i = 0; i < DEPTH; i++)
            transfers[i] = (hcomm_transfer_t){.src_ptr = from,
                                              .dst_ptr = room(LARGE),
                                              .size = LARGE,
                                              .callback = count_cancelled,
                                              .user_data = &outcomes};
        CALL(hcomm_submit_batch(check_handle, transfers, DEPTH));
        hcomm_status_t status = hcomm_cancel_transfer(check_handle, transfers[DEPTH - 1].id);
        hcomm_status_t outcome = hcomm_wait_completion(check_handle, transfers[DEPTH - 1].id);
        CHECK((status == HCOMM_OK) == (outcome == HCOMM_ERR_CANCELLED));
        CHECK(status == HCOMM_OK || status == HCOMM_ERR_PENDING || status == HCOMM_ERR_INVALID);
        cancelled += status == HCOMM_OK;
        EXPECT(status == HCOMM_OK ? HCOMM_ERR_IN_STATUS : HCOMM_OK,
               hcomm_wait_batch(check_handle, transfers, DEPTH));
        for (int i = 0; i < DEPTH; i++) {
            complete += transfers[i].status == HCOMM_OK;
            if (transfers[i].status == HCOMM_OK)
                check_filled(transfers[i].dst_ptr, LARGE, 9);
            free(transfers[i].dst_ptr);
        }
    }
    while (atomic_load(&outcomes) != cancelled + 1000 * complete)
        (void)sched_yield();
    free(from);
}

/* Every thread submits, waits and has callbacks, with far more threads' transfers than the queue takes. */
static void add_one(hcomm_transfer_id_t id, hcomm_status_t status, void *user_data)
{
    (void)id;
    CHECK(status == HCOMM_OK);
    atomic_fetch_add((atomic_int *)user_data, 1);
}

static void *submit_and_wait(void *arg)
{
    unsigned seed = 17 + (unsigned)(size_t)arg;
    atomic_int calls = 0;
    int expected = 0;
    unsigned char *from = room(200000), *to = room(200000);
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = check_random(&seed) % (i % 10 ? 3000 : 200000);
        hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = size, .user_data = &calls};
        transfer.callback = i % 3 ? NULL : add_one;
        expected += i % 3 == 0;
        fill(from, size, seed);
        CALL(hcomm_submit_transfer(check_handle, &transfer));
        if (i % 2)
            while (hcomm_test_completion(check_handle, transfer.id) == HCOMM_IN_PROGRESS)
                (void)sched_yield();
        CALL(hcomm_wait_completion(check_handle, transfer.id));
        check_filled(to, size, seed);
    }
    while (atomic_load(&calls) < expected)
        (void)sched_yield();
    free(from);
    free(to);
    return NULL;
}

static void threads_share_the_queue(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, submit_and_wait, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void forked_child_is_refused(void)
{
    unsigned char from[SMALL] = {0}, to[SMALL];
    hcomm_transfer_t transfer = {.src_ptr = from, .dst_ptr = to, .size = SMALL};
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(hcomm_submit_transfer(check_handle, &transfer) == HCOMM_ERR_INVALID ? 0 : 1);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What is under way when the context ends is carried out, callbacks included, and then calls are refused. */
static void finalize_carries_out_what_is_under_way(void)
{
    unsigned char *from = room(LARGE), *to = room(LARGE);
    atomic_int calls = 0;
    hcomm_transfer_t transfer = {
        .src_ptr = from, .dst_ptr = to, .size = LARGE, .callback = add_one, .user_data = &calls};
    fill(from, LARGE, 77);
    CALL(hcomm_submit_transfer(check_handle, &transfer));
    CALL(hcomm_finalize(check_handle));
    CHECK(atomic_load(&calls) == 1);
    check_filled(to, LARGE, 77);
    EXPECT(HCOMM_ERR_INVALID, hcomm_submit_transfer(check_handle, &transfer));
    EXPECT(HCOMM_ERR_INVALID, hcomm_wait_completion(check_handle, transfer.id));
    EXPECT(HCOMM_ERR_INVALID, hcomm_test_completion(check_handle, transfer.id));
    free(from);
    free(to);
}

int main(void)
{
    check_init(&(hcomm_config_t){.queue_depth = DEPTH});
    single_transfer_copies_every_size();
    outcome_can_be_asked_again();
    bad_arguments_are_refused();
    unknown_ids_are_refused();
    nothing_to_copy_completes_and_calls_back();
    batch_with_one_bad_transfer_starts_none();
    batch_beyond_the_queue_is_carried_out();
    full_queue_says_again_or_waits();
    callbacks_submit_again_even_with_a_full_queue();
    second_submission_of_a_callback_to_a_full_queue_says_again();
    cancelled_transfers_say_so_and_others_complete();
    threads_share_the_queue();
    forked_child_is_refused();
    finalize_carries_out_what_is_under_way();
    return 0;
}
