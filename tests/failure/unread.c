/*
 * Rank 1 does not take what rank 0 has sent until rank 0 has waited for it in hcomm_finalize() for
 * timeout_ms. The error names rank 1, whatever the thread's last error was before. Two ranks.
 */
#include <hcomm.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Rank 1 comes when rank 0 has given it up, and before the grace for the others is over. */
enum { TIMEOUT_MS = 3000, LATE_SECONDS = 4, TAG = 5, SIZE = 16000 };

static bool names_rank_1(const char *detail)
{
    return strstr(detail, "hcomm_finalize") &&
           (strstr(detail, "rank 1") || strstr(detail, "did not arrive: 1"));
}

static bool is_right(int rank, hcomm_status_t status)
{
    return rank == 1 || (status != HCOMM_OK && names_rank_1(hcomm_error_detail()));
}

int main(void)
{
    static const char message[SIZE]; /* stays in memory of the sender */
    const hcomm_config_t config = {.timeout_ms = TIMEOUT_MS};
    hcomm_handle_t hcomm = NULL;
    if (hcomm_init(&hcomm, &config) != HCOMM_OK || hcomm_barrier(hcomm_comm_world(hcomm)) != HCOMM_OK) {
        fprintf(stderr, "unread: %s\n", hcomm_error_detail());
        return 1;
    }
    int rank = hcomm_rank(hcomm);
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    if (rank == 0 && (hcomm_send(message, SIZE, 1, TAG, world) != HCOMM_OK ||
                      hcomm_send(message, SIZE, 7, TAG, world) != HCOMM_ERR_INVALID)) {
        fprintf(stderr, "unread: send: %s\n", hcomm_error_detail());
        return 1;
    }
    if (rank == 1)
        sleep(LATE_SECONDS);
    hcomm_status_t status = hcomm_finalize(hcomm);
    if (!is_right(rank, status)) {
        fprintf(stderr, "unread: rank %d: status %d, detail \"%s\"\n", rank, (int)status,
                hcomm_error_detail());
        return 1;
    }
    return 0;
}
