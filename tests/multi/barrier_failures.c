/*
 * What a barrier tells when it cannot complete. "late": the last rank comes after the others' deadline: they
 * learn who was missing; their entering counts, so the late one's barrier completes, and so does the next.
 * "lost": the last rank ends without a word: the others learn who, at once, and every later barrier says the
 * same.
 */
#include "tests/multi/check.h"

#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT_MS = 1000, LATE_US = 1500000, LOST_SECONDS_MAX = 10 };

static int rank, size;
static hcomm_comm_t comm;

static void check_names_last_rank(void)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "rank %d", size - 1);
    CHECK(strstr(hcomm_error_detail(), name));
}

static void late(void)
{
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    if (rank == size - 1) {
        (void)usleep(LATE_US);
        CALL(hcomm_barrier(comm));
        CALL(hcomm_barrier(comm));
    } else if (rank == 0) {
        EXPECT(HCOMM_ERR_TIMEOUT, hcomm_barrier(comm));
        check_names_last_rank();
        CHECK(strstr(hcomm_error_detail(), "timeout_ms"));
        hcomm_status_t status = HCOMM_ERR_TIMEOUT;
        CALL(hcomm_ibarrier(comm, &request));
        while (status == HCOMM_ERR_TIMEOUT)
            status = hcomm_wait(&request, NULL);
        CALL(status);
    } else {
        /* A request that timed out is still there to be waited for. */
        CALL(hcomm_ibarrier(comm, &request));
        EXPECT(HCOMM_ERR_TIMEOUT, hcomm_wait(&request, NULL));
        check_names_last_rank();
        CHECK(request != HCOMM_REQUEST_NULL);
        hcomm_status_t status = HCOMM_ERR_TIMEOUT;
        while (status == HCOMM_ERR_TIMEOUT)
            status = hcomm_wait(&request, NULL);
        CALL(status);
        CALL(hcomm_barrier(comm));
    }
    CALL(hcomm_comm_free(&comm));
}

/* Given up and never completed: the communicator can be freed all the same. */
static void absent(void)
{
    if (rank == 0) {
        EXPECT(HCOMM_ERR_TIMEOUT, hcomm_barrier(comm));
        check_names_last_rank();
    } else {
        (void)usleep(LATE_US); /* finalize has the same deadline */
    }
    CALL(hcomm_comm_free(&comm));
}

static void lost(void)
{
    if (rank == size - 1)
        (void)raise(SIGKILL);
    time_t start = time(NULL);
    EXPECT(HCOMM_ERR_PEER_LOST, hcomm_barrier(comm));
    check_names_last_rank();
    EXPECT(HCOMM_ERR_PEER_LOST, hcomm_barrier(comm));
    CHECK(time(NULL) - start < LOST_SECONDS_MAX);
    check_names_last_rank();
    /* Those who are left work on. */
    hcomm_comm_t rest = HCOMM_COMM_NULL;
    int ranks[64];
    for (int i = 0; i < size - 1; i++)
        ranks[i] = i;
    CALL(hcomm_comm_create(hcomm_comm_world(check_handle), ranks, size - 1, &rest));
    for (int i = 0; i < 100; i++)
        CALL(hcomm_barrier(rest));
    CALL(hcomm_comm_free(&rest));
    CALL(hcomm_comm_free(&comm));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "late";
    const hcomm_config_t config = {.timeout_ms = strcmp(what, "lost") == 0 ? 0 : TIMEOUT_MS};
    check_init(&config);
    rank = hcomm_rank(check_handle);
    size = hcomm_size(check_handle);
    CHECK(size > 1 && size <= 64);
    CALL(hcomm_comm_dup(hcomm_comm_world(check_handle), &comm));
    /* The first two settle how later ones work; only those can name who is missing. */
    for (int i = 0; i < 2; i++)
        CALL(hcomm_barrier(comm));
    if (strcmp(what, "late") == 0)
        late();
    else if (strcmp(what, "absent") == 0)
        absent();
    else
        lost();
    hcomm_status_t status = hcomm_finalize(check_handle);
    check_handle = NULL;
    if (strcmp(what, "lost") == 0)
        CHECK((status == HCOMM_OK || status == HCOMM_ERR_PEER_LOST) && puts("survivor"));
    else
        CALL(status);
    return 0;
}
