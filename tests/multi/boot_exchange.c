/*
 * One rank of a job that checks the bootstrap against a real PMIx server. Usage: boot_exchange SCENARIO; run
 * by boot_jobs. Prints one line per failed check and exits with 1; the other ranks' view is checked by them.
 */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 20000, SHORT_MS = 1000, BLOB = 3000 };

static struct hc_boot *boot;
static const struct hc_boot_job *job;
static int failures;

#define CHECK(condition) check(condition, #condition, __LINE__)

static void check(bool ok, const char *what, int line)
{
    if (ok)
        return;
    failures++;
    (void)fprintf(stderr, "boot_exchange: rank %u, line %d: not true: %s (last error: %s)\n",
                  job ? job->rank : 0, line, what, hc_error_detail());
}

static void open_boot(int timeout_ms)
{
    hcomm_status_t status = hc_boot_open(timeout_ms, &boot);
    if (status != HCOMM_OK) {
        (void)fprintf(stderr, "boot_exchange: hc_boot_open: %s\n", hc_error_detail());
        exit(1);
    }
    job = hc_boot_job(boot);
}

static void wait_done(struct hc_boot_op *op)
{
    struct pollfd readable = {.fd = hc_boot_fd(boot), .events = POLLIN};
    while (!hc_boot_op_done(op)) {
        (void)poll(&readable, 1, -1);
        hc_boot_drain(boot);
    }
}

static void fill(unsigned char *blob, uint32_t rank, unsigned salt)
{
    for (size_t i = 0; i < BLOB; i++)
        blob[i] = (unsigned char)(i * 7 + rank * 13 + salt);
}

static void put_blob(const char *key, unsigned salt)
{
    unsigned char blob[BLOB];
    fill(blob, job->rank, salt);
    CHECK(hc_boot_put(boot, key, blob, sizeof(blob)) == HCOMM_OK);
}

static void check_blob(struct hc_boot_op *op, uint32_t rank, unsigned salt)
{
    unsigned char expected[BLOB];
    fill(expected, rank, salt);
    if (op->status != HCOMM_OK)
        (void)fprintf(stderr, "boot_exchange: rank %u: what rank %u has put: status %d, %s\n", job->rank,
                      rank, (int)op->status, op->reason ? op->reason : "no reason");
    CHECK(op->status == HCOMM_OK);
    CHECK(op->size == BLOB && memcmp(op->data, expected, BLOB) == 0);
    free(op->data);
}

static void get_from_all(const char *key, unsigned salt)
{
    struct hc_boot_op *ops = calloc(job->size, sizeof(*ops));
    for (uint32_t rank = 0; rank < job->size; rank++)
        CHECK(hc_boot_get(boot, rank, key, &ops[rank]) == HCOMM_OK);
    for (uint32_t rank = 0; rank < job->size; rank++) {
        wait_done(&ops[rank]);
        check_blob(&ops[rank], rank, salt);
    }
    free(ops);
}

static void fence(void)
{
    struct hc_boot_op op;
    CHECK(hc_boot_fence(boot, &op) == HCOMM_OK);
    wait_done(&op);
    CHECK(op.status == HCOMM_OK);
}

static void check_job(void)
{
    uint32_t *host_of = calloc(job->size, sizeof(*host_of));
    CHECK(job->rank < job->size && job->local_rank < job->local_size && job->local_size <= job->size);
    CHECK(job->local_ranks[job->local_rank] == job->rank);
    CHECK(hc_boot_hosts(boot, host_of) == HCOMM_OK);
    CHECK(host_of[0] == 0);
    for (uint32_t i = 0; i < job->local_size; i++)
        CHECK(host_of[job->local_ranks[i]] == host_of[job->rank]);
    for (uint32_t rank = 0; rank < job->size; rank++)
        CHECK(host_of[rank] < job->num_hosts);
    free(host_of);
}

/* Every rank starts its gets before the slowest rank has put anything, and again for a later key. */
static void scenario_exchange(void)
{
    open_boot(TIMEOUT_MS);
    check_job();
    if (job->rank == job->size - 1)
        (void)usleep(200000);
    put_blob("test.first", 1);
    get_from_all("test.first", 1);
    if (job->rank == 0)
        (void)usleep(200000);
    put_blob("test.second", 2);
    get_from_all("test.second", 2);
    fence();
    hc_boot_close(boot);
}

/* Cancelled operations never touch their storage again, whenever the answer comes. */
static void scenario_cancel(void)
{
    open_boot(TIMEOUT_MS);
    for (int i = 0; i < 200; i++) {
        char key[24];
        struct hc_boot_op *op = malloc(sizeof(*op));
        (void)snprintf(key, sizeof(key), "key.%d", i);
        CHECK(hc_boot_get(boot, (job->rank + 1) % job->size, key, op) == HCOMM_OK);
        if (i % 10 == 0)
            put_blob(key, 3);
        if (i % 3 == 0)
            hc_boot_drain(boot);
        if (hc_boot_op_done(op))
            free(op->data);
        else
            hc_boot_op_cancel(boot, op);
        (void)memset(op, 0x5a, sizeof(*op));
        free(op);
    }
    fence();
    hc_boot_close(boot);
}

/*
 * A key that nobody puts, and a fence that one rank never enters, end at the deadline. Another instance, with
 * time for slow machines, makes the ranks begin together.
 */
static void scenario_deadline(void)
{
    open_boot(TIMEOUT_MS);
    put_blob("test.begin", 4);
    get_from_all("test.begin", 4);
    struct hc_boot *patient = boot;
    open_boot(SHORT_MS);
    struct hc_boot_op get, missing_fence;
    uint64_t start = hc_clock_ns();
    CHECK(hc_boot_get(boot, (job->rank + 1) % job->size, "test.never", &get) == HCOMM_OK);
    wait_done(&get);
    CHECK(get.status == HCOMM_ERR_TIMEOUT && get.data == NULL && get.reason != NULL);
    CHECK(hc_clock_ns() - start >= SHORT_MS * UINT64_C(1000000));
    if (job->rank != 0) {
        CHECK(hc_boot_fence(boot, &missing_fence) == HCOMM_OK);
        wait_done(&missing_fence);
        CHECK(missing_fence.status == HCOMM_ERR_TIMEOUT);
    }
    /* A rank that left would end the others' fence earlier. */
    while (hc_clock_ns() - start < 6 * SHORT_MS * UINT64_C(1000000))
        (void)usleep(10000);
    hc_boot_close(boot);
    hc_boot_close(patient);
}

/* Several at a time, and again after the last was closed. */
static void scenario_instances(void)
{
    for (int round = 0; round < 3; round++) {
        struct hc_boot *other = NULL;
        char key[24];
        (void)snprintf(key, sizeof(key), "round.%d", round);
        open_boot(TIMEOUT_MS);
        CHECK(hc_boot_open(TIMEOUT_MS, &other) == HCOMM_OK);
        CHECK(hc_boot_instance(other) == hc_boot_instance(boot) + 1);
        CHECK(hc_boot_job(other)->rank == job->rank);
        put_blob(key, (unsigned)round);
        get_from_all(key, (unsigned)round);
        fence();
        hc_boot_close(other);
        hc_boot_close(boot);
    }
}

/* Rank 0 ends the job with code 7; the others wait for what never comes and are ended. */
static void scenario_abort(void)
{
    open_boot(TIMEOUT_MS);
    fence();
    if (job->rank == 0)
        hc_boot_abort(boot, 7, "asked for by the test");
    (void)sleep(30);
    CHECK(!"the launcher has ended the job");
}

/* Prints what the launcher gave, for the driver and for people. */
static void scenario_print(void)
{
    open_boot(TIMEOUT_MS);
    (void)printf("rank %u of %u, local %u of %u, hosts %u, namespace %s, launcher %s, launched %d, %s\n",
                 job->rank, job->size, job->local_rank, job->local_size, job->num_hosts, job->name_space,
                 job->launcher, job->launched, job->version);
    hc_boot_close(boot);
}

/* The server dies (the driver kills it): the event comes, pending operations fail, close ends. */
static void scenario_server_lost(void)
{
    open_boot(TIMEOUT_MS);
    struct hc_boot_op op;
    uint64_t deadline = hc_deadline_ms(60000);
    struct hc_boot_event event = {.kind = HC_BOOT_EVENT_NONE};
    CHECK(hc_boot_get(boot, 0, "test.never", &op) == HCOMM_OK);
    (void)printf("waiting\n");
    (void)fflush(stdout);
    while (event.kind != HC_BOOT_EVENT_SERVER_LOST && hc_clock_ns() < deadline) {
        struct pollfd readable = {.fd = hc_boot_fd(boot), .events = POLLIN};
        (void)poll(&readable, 1, 100);
        hc_boot_drain(boot);
        event = hc_boot_next_event(boot);
    }
    CHECK(event.kind == HC_BOOT_EVENT_SERVER_LOST);
    CHECK(hc_boot_op_done(&op) && op.status != HCOMM_OK);
    CHECK(hc_boot_next_event(boot).kind == HC_BOOT_EVENT_NONE);
    hc_boot_close(boot);
    FILE *result = fopen(getenv("BOOT_EXCHANGE_RESULT"), "w");
    if (result) {
        (void)fprintf(result, "%s after %d failures\n", failures ? "failed" : "ended well", failures);
        (void)fclose(result);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"exchange", scenario_exchange},       {"cancel", scenario_cancel}, {"deadline", scenario_deadline},
    {"instances", scenario_instances},     {"abort", scenario_abort},   {"print", scenario_print},
    {"server_lost", scenario_server_lost},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < hc_array_len(scenarios); i++) {
        if (argc == 2 && strcmp(argv[1], scenarios[i].name) == 0) {
            scenarios[i].run();
            return failures ? 1 : 0;
        }
    }
    (void)fprintf(stderr, "usage: boot_exchange SCENARIO\n");
    return 2;
}
