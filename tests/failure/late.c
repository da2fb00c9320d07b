/*
 * Rank 1 comes too late to hcomm_finalize(): the others end at their deadline and name it, and it ends as
 * well. With the argument "impatient" only rank 0 has a deadline so short: rank 1, and rank 2, which still
 * waits for it, learn that somebody has left.
 */
#include <hcomm.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All but rank 1 begin together, and have met the deadline when rank 1 comes. */
enum { TIMEOUT_MS = 4000, LATE_SECONDS = 12, AFTER_RANK_2_SECONDS = 3 };

static bool names_rank_1(hcomm_status_t status, const char *detail)
{
    return status == HCOMM_ERR_TIMEOUT && strstr(detail, "did not arrive: 1");
}

/* Some servers end everybody's wait with the first deadline, or with none. */
static bool tells_that_somebody_left(hcomm_status_t status, const char *detail)
{
    return status == HCOMM_ERR_TIMEOUT ||
           (status == HCOMM_ERR_PEER_LOST && strstr(detail, "gave up waiting"));
}

static bool is_right(int rank, bool impatient, hcomm_status_t status, const char *detail)
{
    if (impatient && rank != 0)
        return tells_that_somebody_left(status, detail);
    return rank == 1 ? status == HCOMM_ERR_TIMEOUT : names_rank_1(status, detail);
}

/* Another instance, with time for slow machines, makes the ranks begin together. */
static hcomm_status_t begin(const hcomm_config_t *config, hcomm_handle_t *hcomm)
{
    hcomm_handle_t patient = NULL;
    hcomm_status_t status = hcomm_init(&patient, NULL);
    if (status == HCOMM_OK)
        status = hcomm_barrier(hcomm_comm_world(patient));
    if (status == HCOMM_OK)
        status = hcomm_init(hcomm, config);
    return status == HCOMM_OK ? hcomm_finalize(patient) : status;
}

int main(int argc, char **argv)
{
    bool impatient = argc > 1 && strcmp(argv[1], "impatient") == 0;
    const char *text = getenv("PMIX_RANK");
    int rank = text ? atoi(text) : 0;
    const hcomm_config_t config = {.timeout_ms = impatient && rank != 0 ? 0 : TIMEOUT_MS};
    hcomm_handle_t hcomm = NULL;
    if (begin(&config, &hcomm) != HCOMM_OK) {
        fprintf(stderr, "late: %s\n", hcomm_error_detail());
        return 1;
    }
    if (rank == 1)
        sleep(LATE_SECONDS);
    if (rank == 0 && impatient)
        sleep(AFTER_RANK_2_SECONDS); /* the server takes the deadline from the first */
    hcomm_status_t status = hcomm_finalize(hcomm);
    const char *detail = hcomm_error_detail();
    if (!is_right(rank, impatient, status, detail)) {
        fprintf(stderr, "late: rank %d: status %d, detail \"%s\"\n", rank, (int)status, detail);
        return 1;
    }
    return 0;
}
