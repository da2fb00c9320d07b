/*
 * device_threads copies | messages: what several threads do with device memory at a time. Run with a slow
 * path between host and device ("copies"), or two ranks ("messages"). Under ThreadSanitizer too.
 */
#include "tests/multi/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { LONG = 16 << 20, THREADS = 3, ROUNDS = 12, TAG = 7 };

static void *allocate(size_t size, hcomm_memory_type_t type)
{
    void *ptr = NULL;
    CALL(hcomm_mem_alloc(check_handle, size, type, &ptr));
    return ptr;
}

/* ---- copies ---- */

static char *host, *device;
static atomic_int copying; /* 1: a long copy has begun, 2: it is over */

static void *copy_long(void *arg)
{
    (void)arg;
    atomic_store(&copying, 1);
    CALL(hcomm_memcpy(check_handle, device, host, LONG, HCOMM_COPY_AUTO));
    atomic_store(&copying, 2);
    return NULL;
}

/* Calls that began and ended while the copy was under way; with the lock held meanwhile there would be one.
 */
static unsigned calls_meanwhile(void)
{
    unsigned calls = 0;
    char from[64] = "small", to[64];
    while (atomic_load(&copying) == 1) {
        CALL(hcomm_memcpy(check_handle, to, from, sizeof(to), HCOMM_COPY_AUTO));
        (void)hcomm_progress(check_handle); /* HCOMM_AGAIN: there was nothing to do */
        calls += atomic_load(&copying) == 1;
    }
    return calls;
}

static void long_copy_holds_nobody_up(void)
{
    pthread_t thread;
    host = allocate(LONG, HCOMM_MEMORY_HOST_PINNED);
    device = allocate(LONG, HCOMM_MEMORY_DEVICE);
    memset(host, 0x33, LONG);
    CHECK(pthread_create(&thread, NULL, copy_long, NULL) == 0);
    while (!atomic_load(&copying))
        (void)hcomm_progress(check_handle); /* HCOMM_AGAIN: there was nothing to do */
    unsigned calls = calls_meanwhile();
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(calls > 2);
    memset(host, 0, LONG);
    CALL(hcomm_memcpy(check_handle, host, device, LONG, HCOMM_COPY_AUTO));
    CHECK(host[0] == 0x33 && memcmp(host, host + 1, LONG - 1) == 0);
    CALL(hcomm_mem_free(check_handle, host));
    CALL(hcomm_mem_free(check_handle, device));
}

/* ---- messages ---- */

static const size_t sizes[] = {100, 5000, 70000, 600000};

/* Every thread has a tag and memory of its own, and takes the sizes in turn. */
static void *exchange(void *arg)
{
    int tag = TAG + *(const int *)arg, other = 1 - hcomm_rank(check_handle);
    size_t most = sizes[3];
    hcomm_comm_t world = hcomm_comm_world(check_handle);
    char *look = malloc(most), *from = allocate(most, HCOMM_MEMORY_DEVICE),
         *to = allocate(most, HCOMM_MEMORY_DEVICE);
    CHECK(look != NULL);
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = sizes[(i + tag) % 4];
        CALL(hcomm_memset(check_handle, from, tag + i, size));
        CALL(hcomm_sendrecv(from, size, other, tag, to, most, other, tag, world, NULL));
        CALL(hcomm_memcpy(check_handle, look, to, size, HCOMM_COPY_AUTO));
        CHECK(look[0] == tag + i && memcmp(look, look + 1, size - 1) == 0);
    }
    CALL(hcomm_mem_free(check_handle, from));
    CALL(hcomm_mem_free(check_handle, to));
    free(look);
    return NULL;
}

static void threads_exchange_device_memory(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, exchange, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    const hcomm_config_t config = {.device_id = HCOMM_DEVICE(rank ? atoi(rank) : 0)};
    check_init(&config);
    if (argc > 1 && strcmp(argv[1], "messages") == 0)
        threads_exchange_device_memory();
    else
        long_copy_holds_nobody_up();
    CALL(hcomm_finalize(check_handle));
    return 0;
}
