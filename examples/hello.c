/*
 * The smallest hcomm program that talks: every rank sends its greeting to rank 0, which prints them in order.
 *
 *     hcommrun -n 4 hello
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <hcomm.h>

#include <stdio.h>
#include <unistd.h>

enum { GREETING_MAX = 256 };

static int fail(hcomm_handle_t hcomm)
{
    fprintf(stderr, "hello: %s\n", hcomm_error_detail());
    hcomm_abort(hcomm, 1);
    return 1;
}

int main(void)
{
    hcomm_handle_t hcomm = NULL;
    if (hcomm_init(&hcomm, NULL) != HCOMM_OK)
        return fail(hcomm);

    int rank = hcomm_rank(hcomm), size = hcomm_size(hcomm);
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    char host[64] = "", greeting[GREETING_MAX] = "";
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(greeting, sizeof(greeting), "hello from rank %d of %d on %s, process %d", rank, size, host,
                   (int)getpid());

    if (rank != 0) {
        if (hcomm_send(greeting, sizeof(greeting), 0, 0, world) != HCOMM_OK)
            return fail(hcomm);
    } else {
        puts(greeting);
        for (int source = 1; source < size; source++) {
            if (hcomm_recv(greeting, sizeof(greeting), source, 0, world, NULL) != HCOMM_OK)
                return fail(hcomm);
            puts(greeting);
        }
    }
    if (hcomm_finalize(hcomm) != HCOMM_OK) {
        fprintf(stderr, "hello: %s\n", hcomm_error_detail());
        return 1;
    }
    if (fflush(stdout) != 0) {
        perror("hello: standard output");
        return 1;
    }
    return 0;
}
