/*
 * Rank 2 of 4 dies without a word; what the others had with it fails and names it, what they have with each
 * other goes on, and finalize ends. Run with `hcommrun --on-failure continue -n 4`.
 */
#include <hcomm.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VICTIM = 2, RANKS = 4, LARGE = 1 << 20 };

static char large[LARGE];

#define CHECK(what, condition)                                                                               \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "survivors: rank %d: %s (%s)\n", rank, what, hcomm_error_detail());              \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static int names_victim(void)
{
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1);
    return strstr(hcomm_error_detail(), "rank 2") && strstr(hcomm_error_detail(), host);
}

int main(void)
{
    hcomm_handle_t hcomm = NULL;
    int rank = -1;
    CHECK("init", hcomm_init(&hcomm, NULL) == HCOMM_OK);
    rank = hcomm_rank(hcomm);
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    CHECK("needs 4 ranks", hcomm_size(hcomm) == RANKS);
    /* everybody has met the victim */
    CHECK("barrier before", hcomm_barrier(world) == HCOMM_OK);
    if (rank == VICTIM) {
        /* not before the others are out of the barrier: what it sent for them may still be with it */
        char left = 0;
        for (int others = 0; others < RANKS - 1; others++)
            CHECK("hears that another has left",
                  hcomm_recv(&left, 1, HCOMM_ANY_SOURCE, 6, world, NULL) == HCOMM_OK);
        (void)kill(getpid(), SIGKILL);
        return 1;
    }
    const char gone = 1;
    CHECK("tells that it has left", hcomm_send(&gone, 1, VICTIM, 6, world) == HCOMM_OK);
    hcomm_request_t small = HCOMM_REQUEST_NULL, sync = HCOMM_REQUEST_NULL, big = HCOMM_REQUEST_NULL;
    char byte = 0;
    CHECK("irecv", hcomm_irecv(&byte, 1, VICTIM, 7, world, &small) == HCOMM_OK);
    hcomm_status_t started = hcomm_issend(&byte, 1, VICTIM, 8, world, &sync);
    CHECK("issend starts or tells", started == HCOMM_OK || started == HCOMM_ERR_PEER_LOST);
    started = hcomm_isend(large, LARGE, VICTIM, 9, world, &big);
    CHECK("isend starts or tells", started == HCOMM_OK || started == HCOMM_ERR_PEER_LOST);
    CHECK("pending receive fails", hcomm_wait(&small, NULL) == HCOMM_ERR_PEER_LOST);
    CHECK("the failure names rank and host", names_victim());
    CHECK("pending synchronous send fails", !sync || hcomm_wait(&sync, NULL) == HCOMM_ERR_PEER_LOST);
    CHECK("pending large send fails", !big || hcomm_wait(&big, NULL) == HCOMM_ERR_PEER_LOST);
    CHECK("later receive fails", hcomm_recv(&byte, 1, VICTIM, 7, world, NULL) == HCOMM_ERR_PEER_LOST);
    CHECK("later send fails", hcomm_send(&byte, 1, VICTIM, 7, world) == HCOMM_ERR_PEER_LOST);
    CHECK("barrier with it fails", hcomm_barrier(world) == HCOMM_ERR_PEER_LOST);
    CHECK("which names rank and host", names_victim());

    const int others[] = {0, 1, 3};
    hcomm_comm_t rest = HCOMM_COMM_NULL;
    CHECK("the others make a communicator", hcomm_comm_create(world, others, 3, &rest) == HCOMM_OK);
    int right = (hcomm_comm_rank(rest) + 1) % 3, left = (hcomm_comm_rank(rest) + 2) % 3;
    for (int i = 0; i < 50; i++)
        CHECK("and go on talking", hcomm_sendrecv(large, LARGE / 2, right, i, large + LARGE / 2, LARGE / 2,
                                                  left, i, rest, NULL) == HCOMM_OK);
    CHECK("and meeting", hcomm_barrier(rest) == HCOMM_OK);
    CHECK("free", hcomm_comm_free(&rest) == HCOMM_OK);
    hcomm_status_t end = hcomm_finalize(hcomm);
    CHECK("finalize ends and tells", end == HCOMM_OK || end == HCOMM_ERR_PEER_LOST);
    puts("survived");
    return 0;
}
