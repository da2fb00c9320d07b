/*
 * Messages of eager sizes whose buffer is lent to the receiver: a blocking send returns though nobody
 * receives, its buffer may be overwritten at once, and what arrives is what was sent, whenever the receiver
 * comes. Every one is lent, as if that had always been faster and no receiver ever late. Two ranks.
 */
#include "check.h"

#include "runtime/core/core.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 7, GO = 8, LATE = 40, RACES = 3000, LARGEST = 65536, GARBAGE = 0xa5, MANY = 8 };

static hcomm_comm_t world;
static int rank;
static unsigned char *buffer;

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

/* What the sender has learned: to lend. */
static void prefer_lending(void)
{
    struct hcomm_context *context = check_handle;
    hc_lock_acquire(&context->lock);
    struct hc_lender *lender = &context->peers[1]->lender;
    lender->rest = lender->last = 0;
    lender->trust = HC_LENDER_TRUST_MAX;
    for (int i = 0; i < HC_LENDER_CLASSES; i++)
        lender->classes[i] =
            (struct hc_lender_class){.count = HC_LENDER_FIRST, .copy_cost = 1000000, .lend_cost = 1};
    hc_lock_release(&context->lock);
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
    prefer_lending();
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

/* Of which a part is received, by both sides where that is long enough. */
static void truncated(size_t size)
{
    for (unsigned i = 1; i <= LATE; i++) {
        CALL(hcomm_barrier(world));
        if (rank == 0) {
            send_and_overwrite(size, i);
        } else {
            size_t room = size - i * sizeof(int);
            EXPECT(HCOMM_ERR_TRUNCATED, hcomm_recv(buffer, room, 0, TAG, world, NULL));
            verify(room, i);
        }
    }
}

/* Both send before they receive. */
static void head_to_head(size_t size)
{
    for (unsigned i = 1; i <= LATE; i++) {
        fill(size, i);
        if (rank == 0)
            prefer_lending();
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
            prefer_lending();
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

/* The sender's buffer does not exist any more when the send is over, mostly because the receiver is too late
 * to fetch from it. */
static void unmapped(size_t size)
{
    unsigned char *own = buffer;
    unsigned random = 5;
    for (unsigned i = 1; i <= RACES; i++) {
        unsigned late = check_random(&random);
        CALL(hcomm_barrier(world));
        if (rank == 0) {
            buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(buffer != MAP_FAILED);
            fill(size, i);
            prefer_lending();
            CALL(hcomm_send(buffer, size, 1, TAG, world));
            CHECK(munmap(buffer, size) == 0);
        } else {
            pause_for(10000 + late % 12000);
            receive(size, i);
        }
    }
    buffer = own;
}

/* Several of one window, each on a tag of its own, end in any order; the receiver takes what is oldest. */
static void windows(size_t size)
{
    unsigned char *bufs = malloc(MANY * size);
    CHECK(bufs);
    for (unsigned i = 1; i <= LATE; i++) {
        hcomm_request_t requests[MANY];
        hcomm_message_status_t status;
        if (i % 2)
            CALL(hcomm_barrier(world));
        if (rank == 0)
            prefer_lending();
        for (int k = 0; k < MANY; k++) {
            (void)memset(bufs + k * size, rank == 0 ? (int)(i + k) : GARBAGE, size);
            if (rank == 0)
                CALL(hcomm_isend(bufs + k * size, size, 1, TAG + k, world, &requests[k]));
            else
                CALL(
                    hcomm_irecv(bufs + k * size, size, HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, world, &requests[k]));
        }
        for (int k = 0; k < MANY; k++) {
            size_t index = 0;
            CALL(hcomm_waitany(MANY, requests, &index, &status));
            CHECK(rank == 0 || status.tag == TAG + (int)index);
            for (size_t at = 0; rank == 1 && at < size; at += 1000)
                CHECK(bufs[index * size + at] == (unsigned char)(i + index));
            (void)memset(bufs + index * size, GARBAGE, size);
        }
        CALL(hcomm_barrier(world));
    }
    free(bufs);
}

/* Messages of a communicator that is freed once they are sent, and received. */
static void communicators(size_t size)
{
    for (unsigned i = 1; i <= LATE; i++) {
        hcomm_comm_t dup;
        CALL(hcomm_comm_dup(world, &dup));
        fill(size, i);
        if (rank == 0) {
            prefer_lending();
            CALL(hcomm_send(buffer, size, 1, TAG, dup));
        } else {
            CALL(hcomm_recv(buffer, size, 0, TAG, dup, NULL));
            verify(size, i);
        }
        CALL(hcomm_comm_free(&dup));
    }
}

/* What was allowed when the ranks met is denied from here on, to an ordinary user and to root. */
static void deny_attach(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0 && syscall(SYS_capget, &head, sets) == 0);
    sets[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
    CHECK(syscall(SYS_capset, &head, sets) == 0);
}

static void denied(size_t size)
{
    deny_attach();
    CALL(hcomm_barrier(world));
    uint64_t before = check_counter("rndv_pipeline");
    races(size);
    CHECK(rank == 0 || check_counter("rndv_pipeline") > before);
    late_receives(size);
}

/* Nobody ever receives it. */
static void left_over(size_t size)
{
    if (rank == 0)
        send_and_overwrite(size, 1);
    CALL(hcomm_barrier(world));
}

/* The case, and some of its messages are lent. */
static void lends(void (*run)(size_t), size_t size)
{
    uint64_t before = check_counter("lent");
    run(size);
    CHECK(rank == 1 || check_counter("lent") > before);
}

int main(void)
{
    check_init(NULL);
    world = hcomm_comm_world(check_handle);
    rank = hcomm_rank(check_handle);
    CHECK(hcomm_size(check_handle) == 2);
    buffer = malloc(LARGEST);
    CHECK(buffer);
    go(); /* reaches the peer */
    CALL(hcomm_barrier(world));
    lends(late_receives, 16384);
    lends(late_receives, LARGEST);
    lends(late_and_truncated, 24000);
    lends(truncated, LARGEST);
    lends(head_to_head, 24576);
    lends(probed, 16384);
    lends(windows, 20000);
    lends(windows, LARGEST);
    lends(communicators, 32768);
    lends(races, 32768);
    lends(races, 16384);
    lends(unmapped, 20000);
    lends(unmapped, LARGEST);
    lends(races, LARGEST);
    if (rank == 0)
        CHECK(check_counter("lent_back") > 0);
    if (rank == 0)
        CHECK(check_counter("bytes_placed") > 0);
    lends(denied, LARGEST);
    lends(left_over, 16384);
    free(buffer);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
