/* Starts hcomm and ends it: bench/startup times the whole. SPDX-License-Identifier: BSD-3-Clause */
#include <hcomm.h>

#include <stdio.h>

int main(void)
{
    hcomm_handle_t hcomm = NULL;
    hcomm_status_t status = hcomm_init(&hcomm, NULL);
    if (status == HCOMM_OK)
        status = hcomm_finalize(hcomm);
    if (status != HCOMM_OK)
        fprintf(stderr, "hcomm_noop: %s\n", hcomm_error_detail());
    return status != HCOMM_OK;
}
