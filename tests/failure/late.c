/*
 * Rank 1 comes too late to hcomm_finalize(): the others end at their deadline and name it, and it ends as well.
 */
#include <hcomm.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    const hcomm_config_t config = {.timeout_ms = 1500};
    hcomm_handle_t hcomm = NULL;
    if (hcomm_init(&hcomm, &config) != HCOMM_OK) {
        fprintf(stderr, "late: %s\n", hcomm_error_detail());
        return 1;
    }
    int rank = hcomm_rank(hcomm);
    if (rank == 1)
        sleep(6);
    hcomm_status_t status = hcomm_finalize(hcomm);
    const char *detail = hcomm_error_detail();
    if (status != HCOMM_ERR_TIMEOUT || (rank != 1 && !strstr(detail, "did not arrive: 1"))) {
        fprintf(stderr, "late: rank %d: status %d, detail \"%s\"\n", rank, (int)status, detail);
        return 1;
    }
    return 0;
}
