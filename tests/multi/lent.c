/*
 * Messages of eager sizes whose buffer is lent to the receiver: a blocking send returns though nobody
 * receives, its buffer may be overwritten at once, and what arrives is what was sent, whenever the receiver
 * comes. EXPECT_LENT: some must be lent. Two ranks.
 */
#include "check.h"

#include <string.h>
#include <time.h>

enum { TAG = 7, GO = 8, LATE = 40, RACES = 3000, LARGEST = 65536, GARBAGE = 0xa5 };

static hcomm_comm_t world;
static int rank;
static unsigned char *buffer;

static uint64_t counter(const char *name)
{
    uint64_t value = 0;
    CALL(hcomm_counter_get(check_handle, name, &value));
    return value;
}

static void fill(size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i += sizeof(unsigned)) {
        unsigned word = check_random(&seed);
        memcpy(buffer + i, &word, sizeof(word));
    }
}

static void verify(size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i += sizeof(unsigned)) {
        unsigned word = check_random(&seed);
        CHECK(memcmp(buffer + i, &word, sizeof(word)) == 0);
    }
}

static void go(void)
{
    if (rank == 0)
        CALL(hcomm_send(NULL, 0, 1, GO, world));
    else
        CALL(hcomm_recv(NULL, 0, 0, GO, world, NULL));
}

static void send_and_overwrite(size_t size, unsigned seed)
{
    fill(size, seed);
    CALL(hcomm_send(buffer, size, 1, TAG, world));
    memset(buffer, GARBAGE, size);
}

static void receive(size_t size, unsigned seed)
{
    CALL(hcomm_recv(buffer, size, 0, TAG, world, NULL));
    verify(size, seed);
}

/* Blocking sends to a rank that receives only when it is told afterwards that they are over. */
static void late_receives(size_t size)
{
    for (unsigned i = 1; i <= LATE; i++) {
        if (rank == 0)
            send_and_overwrite(size, i);
        go();
        if (rank == 1)
            receive(size, i);
        CALL(hcomm_barrier(world));
    }
}

/* The same, and the receive has less room. */
static void late_and_truncated(size_t size)
{
    for (unsigned i = 1; i <= LATE; i++) {
        if (rank == 0)
            send_and_overwrite(size, i);
        go();
        if (rank == 1) {
            EXPECT(HCOMM_ERR_TRUNCATED, hcomm_recv(buffer, size / 2, 0, TAG, world, NULL));
            verify(size / 2, i);
        }
        CALL(hcomm_barrier(world));
    }
}

/* Both send before they receive. */
static void head_to_head(size_t size)
{
    for (unsigned i = 1; i <= LATE; i++) {
        fill(size, i);
        CALL(hcomm_send(buffer, size, 1 - rank, TAG, world));
        memset(buffer, GARBAGE, size);
        CALL(hcomm_recv(buffer, size, 1 - rank, TAG, world, NULL));
        verify(size, i);
        CALL(hcomm_barrier(world));
    }
}

/* A message that is probed while it is lent, and received when it has been taken back. */
static void probed(size_t size)
{
    for (unsigned i = 1; i <= LATE; i++) {
        if (rank == 0) {
            hcomm_request_t request;
            fill(size, i);
            CALL(hcomm_isend(buffer, size, 1, TAG, world, &request));
            CALL(hcomm_wait(&request, NULL));
            memset(buffer, GARBAGE, size);
            go();
        } else {
            hcomm_message_t message;
            hcomm_message_status_t status;
            CALL(hcomm_mprobe(0, TAG, world, &message, &status));
            CHECK(status.size == size);
            go();
            CALL(hcomm_mrecv(buffer, size, &message, &status));
            verify(size, i);
        }
        CALL(hcomm_barrier(world));
    }
}

static void pause_for(unsigned ns)
{
    struct timespec start, now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &start) == 0);
    do
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    while ((unsigned)((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec) < ns);
}

/* The receiver comes in time mostly, else about when the sender loses patience. */
static void races(size_t size)
{
    unsigned random = 3;
    for (unsigned i = 1; i <= RACES; i++) {
        unsigned late = check_random(&random);
        CALL(hcomm_barrier(world));
        if (rank == 0)
            send_and_overwrite(size, i);
        else if (late % 16 == 0)
            pause_for(12000 + late / 16 % 8000);
        if (rank == 1)
            receive(size, i);
    }
}

int main(void)
{
    check_init(NULL);
    world = hcomm_comm_world(check_handle);
    rank = hcomm_rank(check_handle);
    CHECK(hcomm_size(check_handle) == 2);
    buffer = malloc(LARGEST);
    CHECK(buffer);
    late_receives(8192);
    late_receives(LARGEST);
    if (getenv("EXPECT_LENT") && rank == 0)
        CHECK(counter("lent") > 0 && counter("lent_back") > 0);
    late_and_truncated(12288);
    head_to_head(24576);
    probed(16384);
    races(32768);
    races(8192);
    free(buffer);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
