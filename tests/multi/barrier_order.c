/*
 * Nobody leaves a barrier before everybody has entered it: each rank writes the number of the barrier it
 * enters into a word of a shared file, and looks at all words of the communicator's members after each
 * barrier. Blocking and nonblocking, on several communicators at once, with ranks late at random, so late
 * that others sleep, and late because those inside have to take messages. With --hosts N the ranks are told
 * that they are spread over N hosts, to walk the paths between leaders; with --expect MODE (a number of enum
 * hc_barrier_mode) the world's barriers must work that way.
 */
#include "tests/multi/check.h"

#include "runtime/core/core.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 400, COMMS = 40, LATE_US = 3000, SLEEPY_US = 30000, RANKS_MAX = 512 };
enum { MESSAGE_ROUNDS = 8, MESSAGE_SIZE = 1 << 20 };

static int rank, size;
static hcomm_comm_t world;
static _Atomic uint32_t *entered; /* [communicator][world rank] */

/* A file that all ranks map, gone from the file system once they have. */
static void map_shared_file(void)
{
    char path[64] = "/tmp/hcomm-barrier-order.XXXXXX";
    size_t bytes = sizeof(uint32_t) * COMMS * RANKS_MAX;
    int fd = -1;
    CHECK(size <= RANKS_MAX);
    if (rank == 0) {
        fd = mkstemp(path);
        CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
        for (int r = 1; r < size; r++)
            CALL(hcomm_send(path, sizeof(path), r, 1, world));
    } else {
        CALL(hcomm_recv(path, sizeof(path), 0, 1, world, NULL));
    }
    FILE *file = rank == 0 ? fdopen(fd, "r+") : fopen(path, "r+");
    CHECK(file);
    entered = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    CHECK((void *)entered != MAP_FAILED);
    (void)fclose(file);
    for (int r = 1; r < size; r++) {
        if (rank == 0)
            CALL(hcomm_recv(NULL, 0, r, 2, world, NULL));
        else if (rank == r)
            CALL(hcomm_send(NULL, 0, 0, 2, world));
    }
    if (rank == 0)
        CHECK(unlink(path) == 0);
}

static void enter(int number, uint32_t round)
{
    atomic_store(&entered[number * RANKS_MAX + rank], round);
}

static void check_all_entered(hcomm_comm_t comm, int number, uint32_t round)
{
    int n = hcomm_comm_size(comm);
    for (int i = 0; i < n; i++) {
        int there = 0;
        CALL(hcomm_comm_translate(comm, &i, 1, world, &there));
        CHECK(atomic_load(&entered[number * RANKS_MAX + there]) >= round);
    }
}

static void be_late(unsigned *seed, uint32_t round)
{
    unsigned dice = check_random(seed);
    if (dice % 50 == 0)
        (void)usleep(check_random(seed) % LATE_US);
    if (round % 100 == 50 && rank == (int)(round / 100) % size)
        (void)usleep(SLEEPY_US);
}

static void blocking_barriers(hcomm_comm_t comm, int number, uint32_t rounds)
{
    unsigned seed = 77 + (unsigned)rank;
    for (uint32_t round = 1; round <= rounds; round++) {
        be_late(&seed, round);
        enter(number, round);
        CALL(hcomm_barrier(comm));
        check_all_entered(comm, number, round);
    }
}

static void nonblocking_barriers(hcomm_comm_t comm, int number)
{
    unsigned seed = 99 + (unsigned)rank;
    for (uint32_t round = 1; round <= ROUNDS / 4; round++) {
        hcomm_request_t request = HCOMM_REQUEST_NULL;
        be_late(&seed, round);
        enter(number, round);
        CALL(hcomm_ibarrier(comm, &request));
        hcomm_status_t status = HCOMM_IN_PROGRESS;
        for (int i = 0; i < 20 && status == HCOMM_IN_PROGRESS; i++)
            status = hcomm_test(&request, NULL);
        if (status == HCOMM_IN_PROGRESS)
            status = hcomm_wait(&request, NULL);
        CALL(status);
        CHECK(request == HCOMM_REQUEST_NULL);
        check_all_entered(comm, number, round);
    }
}

/* Several of one communicator in flight, completed in the other order; and one of each of two communicators.
 */
static void overlapping_barriers(hcomm_comm_t first, int a, hcomm_comm_t second, int b)
{
    for (uint32_t round = 1; round <= ROUNDS / 8; round++) {
        hcomm_request_t requests[4];
        enter(a, 2 * round - 1);
        CALL(hcomm_ibarrier(first, &requests[0]));
        enter(b, 2 * round - 1);
        CALL(hcomm_ibarrier(second, &requests[1]));
        enter(a, 2 * round);
        CALL(hcomm_ibarrier(first, &requests[2]));
        enter(b, 2 * round);
        CALL(hcomm_ibarrier(second, &requests[3]));
        CALL(hcomm_wait(&requests[3], NULL));
        check_all_entered(second, b, 2 * round);
        CALL(hcomm_wait(&requests[0], NULL));
        check_all_entered(first, a, 2 * round - 1);
        CALL(hcomm_waitall(4, requests, NULL));
        check_all_entered(first, a, 2 * round);
    }
}

/* More communicators than there are slots of shared words, alive at once; then all slots are used again. */
static void many_communicators(void)
{
    hcomm_comm_t comms[COMMS];
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < COMMS; i++)
            CALL(hcomm_comm_split(world, (rank + i) % 3, i % 2 ? rank : -rank, &comms[i]));
        for (int i = 0; i < COMMS; i++) {
            enter(i, 0);
            CALL(hcomm_barrier(world));
            blocking_barriers(comms[i], i, 10);
        }
        for (int i = 0; i < COMMS; i++)
            CALL(hcomm_comm_free(&comms[i]));
    }
}

/* A rank enters last, after those inside have taken long messages from it that none of them waits for. */
static void enter_after_messages(void)
{
    static unsigned char data[MESSAGE_SIZE];
    for (uint32_t round = ROUNDS + 1; round <= ROUNDS + MESSAGE_ROUNDS; round++) {
        int last = (int)round % size;
        hcomm_request_t request = HCOMM_REQUEST_NULL;
        check_fill(data, sizeof(data), rank == last ? round : round + 1);
        if (rank != last)
            CALL(hcomm_irecv(data, sizeof(data), last, 3, world, &request));
        for (int r = 0; rank == last && r < size; r++)
            if (r != last)
                CALL(hcomm_send(data, sizeof(data), r, 3, world));
        enter(0, round);
        CALL(hcomm_barrier(world));
        check_all_entered(world, 0, round);
        CALL(hcomm_wait(&request, NULL));
        check_verify(data, sizeof(data), round);
    }
}

static void pretend_hosts(uint32_t hosts)
{
    struct hcomm_context *context = check_handle;
    CHECK(hc_context_hosts(context));
    for (int r = 0; r < size; r++)
        context->host_of[r] = (uint32_t)r % hosts;
    /* The job is const for the runtime; the test owns this pretence. */
    ((struct hc_boot_job *)(uintptr_t)context->job)->num_hosts = hosts;
}

static int option(int argc, char **argv, const char *name, int otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return atoi(argv[i + 1]);
    return otherwise;
}

int main(int argc, char **argv)
{
    check_init(NULL);
    world = hcomm_comm_world(check_handle);
    rank = hcomm_rank(check_handle);
    size = hcomm_size(check_handle);
    int hosts = option(argc, argv, "--hosts", 0), mode = option(argc, argv, "--expect", 0);
    if (hosts > 0 && hosts <= size)
        pretend_hosts((uint32_t)hosts);
    map_shared_file();
    blocking_barriers(world, 0, ROUNDS);
    CHECK(!mode || (int)world->mode == mode);
    enter_after_messages();
    hcomm_comm_t dup = NULL, half = NULL;
    CALL(hcomm_comm_dup(world, &dup));
    CALL(hcomm_comm_split(world, rank % 2, -rank, &half));
    nonblocking_barriers(half, 1);
    nonblocking_barriers(dup, 2);
    overlapping_barriers(dup, 3, half, 4);
    enter(0, 0);
    CALL(hcomm_barrier(world));
    many_communicators();
    CALL(hcomm_comm_free(&half));
    CALL(hcomm_comm_free(&dup));
    CALL(hcomm_barrier(hcomm_comm_self(check_handle)));
    CALL(hcomm_finalize(check_handle));
    return 0;
}
