/*
 * Ends of mapped memory: rank 1 of 3 dies while rank 0 has its memory mapped and a transfer with it under
 * way; what rank 0 has with rank 2 goes on. Before that, a message whose memory is freed, and given back to
 * the system, before anybody received it. `hcommrun --on-failure continue -n 3`; survivors print "survived".
 */
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { SIZE = 8 << 20, GO = 1, DATA = 2, FREED = 3 };

static hcomm_comm_t world;
static char *memory;

static int mappings_of_memory(void)
{
    char line[4096];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof(line), maps))
        if (strstr(line, "memfd:hcomm-memory")) {
            CHECK(strstr(line, "(deleted)")); /* it has no name that could outlive the processes */
            count++;
        }
    (void)fclose(maps);
    return count;
}

static int descriptors_of_memory(void)
{
    char link[256];
    int count = 0;
    struct dirent *entry;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder);
    while ((entry = readdir(folder))) {
        ssize_t len = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);
        link[len < 0 ? 0 : len] = '\0';
        count += strstr(link, "memfd:hcomm-memory") != NULL;
    }
    (void)closedir(folder);
    return count;
}

/* Rank 2 offers a message and frees its memory; rank 0 receives it only then: what it gets is undefined, but
 * it gets an answer, and nothing breaks. */
static void freed_in_flight(int rank)
{
    char byte = 0;
    if (rank == 2) {
        hcomm_request_t request = HCOMM_REQUEST_NULL;
        char *block = hcomm_alloc_host_mem(check_handle, SIZE);
        CHECK(block);
        memset(block, 1, SIZE);
        CALL(hcomm_isend(block, SIZE, 0, FREED, world, &request));
        CALL(hcomm_free_host_mem(check_handle, block));
        CALL(hcomm_send(&byte, 1, 0, GO, world));
        CALL(hcomm_wait(&request, NULL));
    } else if (rank == 0) {
        CALL(hcomm_recv(&byte, 1, 2, GO, world, NULL));
        CALL(hcomm_recv(memory, SIZE, 2, FREED, world, NULL));
    }
}

static void victim(void)
{
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    char byte = 0;
    CALL(hcomm_isend(memory, SIZE, 0, DATA, world, &request));
    CALL(hcomm_wait(&request, NULL)); /* mapped by rank 0 now */
    CALL(hcomm_isend(memory, SIZE, 0, DATA, world, &request));
    CALL(hcomm_send(&byte, 1, 0, GO, world));
    (void)kill(getpid(), SIGKILL);
}

static void survivor(int rank)
{
    char byte = 0;
    if (rank == 0) {
        CALL(hcomm_recv(memory, SIZE, 1, DATA, world, NULL));
        CHECK(mappings_of_memory() >= 2);
        CHECK(descriptors_of_memory() == 1); /* its own: a mapping needs none */
        CALL(hcomm_recv(&byte, 1, 1, GO, world, NULL));
        /* either it was all copied, or the loss is told */
        hcomm_status_t status = hcomm_recv(memory, SIZE, 1, DATA, world, NULL);
        CHECK(status == HCOMM_OK || status == HCOMM_ERR_PEER_LOST);
        EXPECT(HCOMM_ERR_PEER_LOST, hcomm_recv(memory, SIZE, 1, DATA, world, NULL));
        memset(memory, 9, SIZE);
        CALL(hcomm_send(memory, SIZE, 2, DATA, world));
    } else {
        CALL(hcomm_recv(memory, SIZE, 0, DATA, world, NULL));
        CHECK(memory[0] == 9 && memory[SIZE - 1] == 9);
    }
}

int main(void)
{
    check_init(NULL);
    int rank = hcomm_rank(check_handle);
    world = hcomm_comm_world(check_handle);
    CHECK(hcomm_size(check_handle) == 3);
    memory = hcomm_alloc_host_mem(check_handle, SIZE);
    CHECK(memory);
    memset(memory, rank, SIZE);
    freed_in_flight(rank);
    if (rank == 1)
        victim();
    survivor(rank);
    (void)hcomm_finalize(check_handle);
    CHECK(mappings_of_memory() == 0 && descriptors_of_memory() == 0);
    puts("survived");
    return 0;
}
