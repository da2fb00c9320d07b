/*
 * Ordinary memory, sizes at which one copy by the kernel competes with copies through shared memory: what
 * arrives is what was sent, and both ways are tried. EXPECT_BOTH: a size at which both must be
 * (of each class of sizes that learns, the first can tell). CLOSED: the rank whose memory others may not
 * open. Two ranks.
 */
#include "check.h"

#include <string.h>
#include <sys/prctl.h>

enum { TAG = 7, ROUNDS = 64, WINDOW = 24, LARGEST = 200001 };

static const size_t sizes[] = {8191, 8192, 12289, 32768, 65536, 65537, 131072, LARGEST};

static hcomm_comm_t world;
static int rank;

static void exchange(unsigned char *buffer, size_t size, unsigned seed)
{
    if (rank == 0) {
        check_fill(buffer, size, seed);
        CALL(hcomm_send(buffer, size, 1, TAG, world));
    }
    memset(buffer, 0, size);
    CALL(hcomm_recv(buffer, size, 1 - rank, TAG, world, NULL));
    check_verify(buffer, size, seed);
    if (rank == 1)
        CALL(hcomm_send(buffer, size, 0, TAG, world));
}

/* The first size of a class has both ways tried. */
static void exchanges(unsigned char *buffer, size_t size)
{
    const char *first = getenv("EXPECT_BOTH");
    uint64_t fetched = check_counter("rndv_get"), pieces = check_counter("rndv_pipeline");
    for (unsigned round = 1; round <= ROUNDS; round++)
        exchange(buffer, size, (unsigned)size * 7 + round);
    if (first && size == (size_t)atol(first))
        CHECK(check_counter("rndv_get") > fetched && check_counter("rndv_pipeline") > pieces);
}

/* Many under way at once, more than the window of eager messages holds, and not awaited in their order. */
static void window(size_t size)
{
    hcomm_request_t requests[WINDOW];
    unsigned char *data = calloc(WINDOW, size);
    CHECK(data);
    for (unsigned i = 0; i < WINDOW && rank == 0; i++) {
        check_fill(data + i * size, size, i + 1);
        CALL(hcomm_isend(data + i * size, size, 1, (int)i, world, &requests[i]));
    }
    for (unsigned i = 0; i < WINDOW && rank == 1; i++)
        CALL(hcomm_irecv(data + (WINDOW - 1 - i) * size, size, 0, WINDOW - 1 - (int)i, world, &requests[i]));
    CALL(hcomm_waitall(WINDOW, requests, NULL));
    for (unsigned i = 0; i < WINDOW; i++)
        check_verify(data + i * size, size, i + 1);
    CALL(hcomm_barrier(world));
    free(data);
}

static void close_memory(void)
{
    const char *closed = getenv("CLOSED"), *own = getenv("PMIX_RANK");
    if (closed && own && strcmp(closed, own) == 0)
        CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
}

int main(void)
{
    close_memory();
    check_init(NULL);
    world = hcomm_comm_world(check_handle);
    rank = hcomm_rank(check_handle);
    CHECK(hcomm_size(check_handle) == 2);
    unsigned char *buffer = malloc(LARGEST);
    CHECK(buffer);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        exchanges(buffer, sizes[i]);
        window(sizes[i]);
    }
    free(buffer);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
