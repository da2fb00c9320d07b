/*
 * halfway posted|blocking|late SIZE: rank 1 of 2 dies in the middle of copying a message out of its buffer,
 * of which the second half cannot be read. The receive fails with HCOMM_ERR_PEER_LOST, whether it was posted
 * or comes later, and never takes the half for the message. Run with `hcommrun --on-failure continue -n 2`.
 */
#include <hcomm.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what, condition)                                                                               \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "halfway: rank %d: %s (%s)\n", rank, what, hcomm_error_detail());                \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static void die(int number)
{
    (void)number;
    (void)kill(getpid(), SIGKILL);
}

static int victim(hcomm_comm_t world, size_t size)
{
    const int rank = 1;
    char *half = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK("mmap", half != MAP_FAILED);
    memset(half, 1, size);
    CHECK("mprotect", mprotect(half + size / 2, size / 2, PROT_NONE) == 0);
    (void)signal(SIGSEGV, die);
    (void)hcomm_send(half, size, 0, 1, world);
    CHECK("a message was sent that cannot be read", 0);
}

static int survivor(hcomm_comm_t world, size_t size, const char *mode)
{
    const int rank = 0;
    hcomm_request_t request = HCOMM_REQUEST_NULL, other = HCOMM_REQUEST_NULL;
    hcomm_status_t status = HCOMM_OK;
    char *data = malloc(size), byte = 0;
    CHECK("malloc", data);
    if (strcmp(mode, "posted") == 0)
        CHECK("irecv", hcomm_irecv(data, size, 1, 1, world, &request) == HCOMM_OK);
    CHECK("go", hcomm_send(&byte, 1, 1, 2, world) == HCOMM_OK);
    if (strcmp(mode, "late") == 0) { /* what rank 1 never sends, to find that it is gone */
        CHECK("irecv", hcomm_irecv(&byte, 1, 1, 3, world, &other) == HCOMM_OK);
        CHECK("its end is noticed", hcomm_wait(&other, NULL) == HCOMM_ERR_PEER_LOST);
    }
    status = request ? hcomm_wait(&request, NULL) : hcomm_recv(data, size, 1, 1, world, NULL);
    CHECK("half a message was taken for the whole", status == HCOMM_ERR_PEER_LOST);
    CHECK("the failure names the rank", strstr(hcomm_error_detail(), "rank 1"));
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    hcomm_handle_t hcomm = NULL;
    int rank = -1;
    char byte = 0;
    CHECK("usage", argc == 3);
    size_t size = strtoul(argv[2], NULL, 10);
    CHECK("init", hcomm_init(&hcomm, NULL) == HCOMM_OK);
    rank = hcomm_rank(hcomm);
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    CHECK("barrier", hcomm_barrier(world) == HCOMM_OK);
    if (rank == 1) {
        CHECK("go", hcomm_recv(&byte, 1, 0, 2, world, NULL) == HCOMM_OK);
        return victim(world, size);
    }
    if (survivor(world, size, argv[1]) != 0)
        return 1;
    hcomm_status_t end = hcomm_finalize(hcomm);
    CHECK("finalize ends and tells", end == HCOMM_OK || end == HCOMM_ERR_PEER_LOST);
    puts("survived");
    return 0;
}
