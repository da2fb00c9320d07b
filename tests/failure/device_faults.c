/*
 * A device that fails, and processes that die, in the middle of messages in device memory. Rank r has the
 * device r; what fails is set by NPUSIM_FAULT, and told to this program in its argument:
 *
 *   lost N    rank N's device is lost after some copies: its operations fail and name it, the others go on
 *   copy N    one copy of rank N's device fails: one message fails, everything after it succeeds
 *   dies N    rank N is killed while large messages with it are under way
 *   timeout   a message in device memory that nobody receives, and one that nobody sends
 *   denied    rank 0's memory may not be imported: messages are staged, one warning tells why
 *
 * Each rank that ends well says so on its standard output.
 */
#include <hcomm.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 4 << 20, SMALL = 4096, TAG = 4, ROUNDS = 40 };

static hcomm_handle_t hcomm;
static hcomm_comm_t world;
static int rank, size, victim;
static char *host;

__attribute__((noreturn)) static void fail(int line, const char *what, hcomm_status_t status)
{
    fprintf(stderr, "device_faults.c:%d: rank %d: %s: %s: %s\n", line, rank, what, hcomm_strerror(status),
            hcomm_error_detail());
    hcomm_abort(hcomm, 1);
    abort();
}

#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition, HCOMM_OK))
#define CALL(call)                                                                                           \
    do {                                                                                                     \
        hcomm_status_t status_ = (call);                                                                     \
        if (status_ != HCOMM_OK)                                                                             \
            fail(__LINE__, #call, status_);                                                                  \
    } while (0)

static bool told(const char *word)
{
    return strstr(hcomm_error_detail(), word) != NULL;
}

static bool names_device(int number)
{
    char rank_text[32], device_text[64];
    (void)snprintf(rank_text, sizeof(rank_text), "rank %d", number);
    (void)snprintf(device_text, sizeof(device_text), "device %d (physical %d)", number, number);
    return told(rank_text) && told(device_text);
}

static char *device_memory(size_t bytes)
{
    void *ptr = NULL;
    CALL(hcomm_mem_alloc(hcomm, bytes, HCOMM_MEMORY_DEVICE, &ptr));
    return ptr;
}

static char byte_of(int from, size_t i)
{
    return (char)(from * 31 + (int)i + (int)(i >> 10));
}

static void put_pattern(char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        host[i] = byte_of(rank, i);
    CALL(hcomm_memcpy(hcomm, memory, host, bytes, HCOMM_COPY_AUTO));
}

static void check_pattern(const char *memory, size_t bytes, int from)
{
    CALL(hcomm_memcpy(hcomm, host, memory, bytes, HCOMM_COPY_AUTO));
    for (size_t i = 0; i < bytes; i++)
        CHECK(host[i] == byte_of(from, i));
}

/*
 * Exchange with a partner; the failure of the send, else of the receive, HCOMM_OK when both are well. The
 * receive is waited for in any case: the partner sends, whatever becomes of ours.
 */
static hcomm_status_t exchange(int partner, char *from, char *to, size_t bytes)
{
    hcomm_request_t requests[2] = {HCOMM_REQUEST_NULL, HCOMM_REQUEST_NULL};
    hcomm_status_t received = hcomm_irecv(to, bytes, partner, TAG, world, &requests[0]);
    if (received != HCOMM_OK)
        return received;
    hcomm_status_t sent = hcomm_isend(from, bytes, partner, TAG, world, &requests[1]);
    if (sent == HCOMM_OK)
        sent = hcomm_wait(&requests[1], NULL);
    received = hcomm_wait(&requests[0], NULL);
    return sent == HCOMM_OK ? received : sent;
}

/* ---- a device fails ---- */

/* The victim's copies fail sooner or later, and then all; it ends without a word to the others. */
static void victim_is_told(void)
{
    char *memory = device_memory(SIZE);
    hcomm_status_t status = HCOMM_OK;
    for (int i = 0; i < 100 && status == HCOMM_OK; i++)
        status =
            hcomm_sendrecv(host, SMALL, rank, TAG, memory, SMALL, rank, TAG, hcomm_comm_world(hcomm), NULL);
    CHECK(status == HCOMM_ERR_IO);
    CHECK(names_device(rank) && told("lost"));
    status = hcomm_send(memory, SMALL, rank, TAG, world);
    CHECK(status == HCOMM_ERR_IO || status == HCOMM_ERR_INVALID);
    CHECK(told("device"));
    /* host memory is as good as before */
    char left = 1;
    for (int other = 0; other < size; other++)
        if (other != rank)
            CALL(hcomm_send(&left, 1, other, TAG + 1, world));
}

static void others_go_on(void)
{
    int other = (rank + 1) % size == victim ? (rank + 2) % size : (rank + 1) % size;
    char *from = device_memory(SIZE), *to = device_memory(SIZE), left = 0;
    put_pattern(from, SIZE);
    for (int i = 0; i < ROUNDS; i++)
        CALL(exchange(other, from, to, i % 2 ? SIZE : SMALL));
    check_pattern(to, SIZE, other);
    CALL(hcomm_recv(&left, 1, victim, TAG + 1, world, NULL));
    CHECK(left == 1);
}

static void device_is_lost(void)
{
    if (rank == victim)
        victim_is_told();
    else
        others_go_on();
}

/* Ranks 0 and 1; one of many copies fails: who fails knows why, and the messages after it are well. */
static void copy_fails(void)
{
    int other = 1 - rank, failures = 0;
    char *from = device_memory(SIZE), *to = device_memory(SIZE), mine = 0, theirs = 0;
    put_pattern(from, SIZE / 2);
    for (int i = 0; i < 12; i++) {
        hcomm_status_t status = exchange(other, from, to, SIZE / 2);
        if (status != HCOMM_OK)
            failures++;
        CHECK(status == HCOMM_OK || status == HCOMM_ERR_IO || status == HCOMM_ERR_CANCELLED);
        CHECK(status != HCOMM_ERR_IO || rank != victim || names_device(victim));
        CALL(hcomm_barrier(world));
    }
    CALL(exchange(other, from, to, SIZE / 2));
    check_pattern(to, SIZE / 2, other);
    mine = (char)failures;
    CALL(hcomm_sendrecv(&mine, 1, other, TAG, &theirs, 1, other, TAG, world, NULL));
    CHECK(mine + theirs >= 1 && mine + theirs <= 2);
}

/* ---- a process dies ---- */

static void partner_dies(void)
{
    char *from = device_memory(SIZE), *to = device_memory(SIZE);
    put_pattern(from, SIZE);
    if (rank == victim) {
        for (int i = 0; i < 3; i++)
            CALL(exchange(0, from, to, SIZE));
        hcomm_request_t request;
        CALL(hcomm_isend(from, SIZE, 0, TAG, world, &request));
        (void)hcomm_progress(hcomm);
        (void)kill(getpid(), SIGKILL);
    }
    hcomm_status_t status = HCOMM_OK;
    while (rank == 0 && status == HCOMM_OK)
        status = exchange(victim, from, to, SIZE);
    char rank_text[32];
    (void)snprintf(rank_text, sizeof(rank_text), "rank %d", victim);
    CHECK(rank != 0 || (status < 0 && told(rank_text)));
    /* the memory is ours again, and the others are there */
    put_pattern(from, SIZE);
    CALL(exchange(rank == 0 ? 2 : 0, from, to, SIZE));
    check_pattern(to, SIZE, rank == 0 ? 2 : 0);
    CALL(hcomm_mem_free(hcomm, from));
    CALL(hcomm_mem_free(hcomm, to));
}

/* ---- nobody answers ---- */

static void nobody_answers(void)
{
    char *memory = device_memory(SIZE);
    put_pattern(memory, SIZE);
    if (rank == 0) {
        CHECK(hcomm_send(memory, SIZE, 1, TAG, world) == HCOMM_ERR_TIMEOUT);
        CHECK(told("rank 1"));
        CHECK(hcomm_recv(memory, SIZE, 1, TAG, world, NULL) == HCOMM_ERR_TIMEOUT);
        check_pattern(memory, SIZE, 0);
    }
    char byte = 0;
    if (rank == 1)
        while (hcomm_iprobe(0, TAG + 1, world, NULL) == HCOMM_AGAIN)
            (void)usleep(1000);
    CALL(rank == 0 ? hcomm_send(&byte, 1, 1, TAG + 1, world) : hcomm_recv(&byte, 1, 0, TAG + 1, world, NULL));
    CALL(hcomm_mem_free(hcomm, memory));
}

/* ---- sharing is denied ---- */

static void sharing_is_denied(void)
{
    char *from = device_memory(SIZE), *to = device_memory(SIZE);
    uint64_t direct = 1, staged = 0;
    put_pattern(from, SIZE);
    CALL(exchange(1 - rank, from, to, SIZE));
    CALL(exchange(1 - rank, from, to, SIZE));
    check_pattern(to, SIZE, 1 - rank);
    CALL(hcomm_counter_get(hcomm, "device_direct", &direct));
    CALL(hcomm_counter_get(hcomm, "device_staged", &staged));
    CHECK(direct == 0 && staged >= 2);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"lost", device_is_lost},
             {"copy", copy_fails},
             {"dies", partner_dies},
             {"timeout", nobody_answers},
             {"denied", sharing_is_denied}};

/* Ranks start when they can: with the short deadline of `timeout` that may be too late for one wait. */
static void meet(void)
{
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    hcomm_status_t status = hcomm_ibarrier(world, &request);
    for (int tries = 0; tries < 60 && status != HCOMM_ERR_PEER_LOST && request; tries++)
        status = hcomm_wait(&request, NULL);
    CALL(status);
}

int main(int argc, char **argv)
{
    const char *text = getenv("PMIX_RANK");
    rank = text ? atoi(text) : 0;
    const hcomm_config_t config = {.device_id = HCOMM_DEVICE(rank)};
    victim = argc > 2 ? atoi(argv[2]) : -1;
    host = malloc(SIZE);
    if (!host || hcomm_init(&hcomm, &config) != HCOMM_OK)
        fail(__LINE__, "start", HCOMM_ERR_INTERNAL);
    world = hcomm_comm_world(hcomm);
    size = hcomm_size(hcomm);
    meet();
    for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    puts("well");
    (void)fflush(stdout);
    hcomm_status_t ended = hcomm_finalize(hcomm);
    free(host);
    return ended == HCOMM_OK || ended == HCOMM_ERR_PEER_LOST ? 0 : 1;
}
