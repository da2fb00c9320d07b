/*
 * What a barrier tells when it cannot complete. "late": the last rank comes after the others' deadline: they
 * learn who was missing; their entering counts, so the late one's barrier completes, and so does the next.
 * "lost": the last rank ends without a word: the others learn who, at once, and every later barrier says the
 * same.
 */
#include "tests/multi/check.h"

#include <signal.h>
#include <string.h>

enum { TIMEOUT_MS = 3000, TAG = 1 };

static int rank, size;
static hcomm_comm_t comm;
static hcomm_comm_t patient; /* has the usual deadline: keeps the ranks in step on a slow machine */

static void check_names_last_rank(void)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "rank %d", size - 1);
    CHECK(strstr(hcomm_error_detail(), name));
}

/* The last rank goes on once all others have got here. */
static void last_rank_waits_for_others(void)
{
    char here = 1;
    if (rank != size - 1)
        CALL(hcomm_send(&here, sizeof(here), size - 1, TAG, patient));
    for (int other = 0; rank == size - 1 && other < rank; other++)
        CALL(hcomm_recv(&here, sizeof(here), other, TAG, patient, NULL));
}

static void late(void)
{
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    if (rank == size - 1) {
        last_rank_waits_for_others();
        CALL(hcomm_barrier(comm));
        CALL(hcomm_barrier(comm));
    } else if (rank == 0) {
        EXPECT(HCOMM_ERR_TIMEOUT, hcomm_barrier(comm));
        check_names_last_rank();
        CHECK(strstr(hcomm_error_detail(), "timeout_ms"));
        last_rank_waits_for_others();
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
        last_rank_waits_for_others();
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
    }
    CALL(hcomm_comm_free(&comm));
}

/* Noticed, not waited for: that would be a time-out. */
static void lost(void)
{
    /* what it sent for a barrier that others are still in may be lost with it */
    last_rank_waits_for_others();
    if (rank == size - 1)
        (void)raise(SIGKILL);
    EXPECT(HCOMM_ERR_PEER_LOST, hcomm_barrier(comm));
    check_names_last_rank();
    EXPECT(HCOMM_ERR_PEER_LOST, hcomm_barrier(comm));
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

static void finish_without_last(hcomm_handle_t patient_handle)
{
    hcomm_status_t status = hcomm_finalize(check_handle);
    CHECK(status == HCOMM_OK || status == HCOMM_ERR_PEER_LOST);
    status = hcomm_finalize(patient_handle);
    CHECK((status == HCOMM_OK || status == HCOMM_ERR_PEER_LOST) && puts("survivor"));
}

/* Those that did not wait for their deadline wait for those that did: finalize has the same one. */
static void finish_in_step(hcomm_handle_t patient_handle)
{
    CALL(hcomm_barrier(patient));
    CALL(hcomm_finalize(check_handle));
    CALL(hcomm_finalize(patient_handle));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "late";
    bool is_lost = strcmp(what, "lost") == 0;
    hcomm_handle_t patient_handle = NULL;
    CALL(hcomm_init(&patient_handle, NULL));
    patient = hcomm_comm_world(patient_handle);
    CALL(hcomm_barrier(patient));
    check_init(&(hcomm_config_t){.timeout_ms = is_lost ? 0 : TIMEOUT_MS});
    rank = hcomm_rank(check_handle);
    size = hcomm_size(check_handle);
    CHECK(size > 1 && size <= 64);
    CALL(hcomm_barrier(patient));
    CALL(hcomm_comm_dup(hcomm_comm_world(check_handle), &comm));
    /* The first two settle how later ones work; only those can name who is missing. */
    for (int i = 0; i < 2; i++)
        CALL(hcomm_barrier(comm));
    if (is_lost)
        lost();
    else if (strcmp(what, "late") == 0)
        late();
    else
        absent();
    if (is_lost)
        finish_without_last(patient_handle);
    else
        finish_in_step(patient_handle);
    return 0;
}
