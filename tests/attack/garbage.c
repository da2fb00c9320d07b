/*
 * Strangers at the port of ofi:tcp: connections that say nothing, noise, or too much, while two ranks
 * exchange messages. Each rank throws at the other one; all messages must arrive as they were sent.
 */
#include <hcomm.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LISTENING = 0x0a, STRANGERS = 40, KEPT = 5, SIZE = 200000, NOISE = 65536, PORTS = 8, SKIPPED = 77 };

static hcomm_handle_t hcomm;
static int rank;
static unsigned char sent[SIZE], got[SIZE], noise[NOISE];

struct ports {
    struct sockaddr_in list[PORTS];
    int count;
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "garbage: rank %d: %s: %s\n", rank, what, hcomm_error_detail());
    hcomm_abort(hcomm, 1);
}

static bool owns_socket(unsigned long inode)
{
    DIR *dir = opendir("/proc/self/fd");
    bool found = false;
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && !found; entry = readdir(dir)) {
        struct stat info;
        char path[300];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
        found = stat(path, &info) == 0 && S_ISSOCK(info.st_mode) && info.st_ino == inode;
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

/* Where this process listens. */
static void find_ports(struct ports *ports)
{
    char line[512];
    FILE *file = fopen("/proc/self/net/tcp", "r");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned address, port, state;
        unsigned long inode;
        if (sscanf(line, "%*d: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &address, &port, &state,
                   &inode) != 4 ||
            state != LISTENING || ports->count == PORTS || !owns_socket(inode))
            continue;
        ports->list[ports->count++] = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {.s_addr = address}};
    }
    if (file)
        (void)fclose(file);
}

/* A connection of the given kind; the descriptor, or -1. */
static int visit(const struct sockaddr_in *port, unsigned kind)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval second = {.tv_sec = 1};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second)) != 0 ||
        connect(fd, (const struct sockaddr *)port, sizeof(*port)) != 0) {
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    size_t size = kind % 4 == 0 ? 0 : kind % 4 == 1 ? 1 + (size_t)rand() % 64 : kind % 4 == 2 ? 4096 : NOISE;
    for (size_t i = 0; i < size; i++)
        noise[i] = kind % 8 < 4 ? (unsigned char)rand() : kind % 3 == 0 ? 0xff : 0;
    if (size && send(fd, noise, size, MSG_NOSIGNAL) < 0) {
        /* the door is shut already: as it should be */
    }
    return fd;
}

static void exchange(unsigned round)
{
    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (unsigned char)(i * 7 + round + (unsigned)rank);
    if (hcomm_sendrecv(sent, SIZE, 1 - rank, 1, got, SIZE, 1 - rank, 1, hcomm_comm_world(hcomm), NULL) !=
        HCOMM_OK)
        fail("sendrecv");
    for (size_t i = 0; i < SIZE; i++)
        if (got[i] != (unsigned char)(i * 7 + round + (unsigned)(1 - rank)))
            fail("a message was damaged");
}

int main(void)
{
    struct ports own = {.count = 0}, others;
    int kept[KEPT], visits = 0;
    for (int i = 0; i < KEPT; i++)
        kept[i] = -1;
    if (hcomm_init(&hcomm, NULL) != HCOMM_OK)
        fail("init");
    rank = hcomm_rank(hcomm);
    srand((unsigned)rank + 1);
    find_ports(&own);
    if (hcomm_sendrecv(&own, sizeof(own), 1 - rank, 2, &others, sizeof(others), 1 - rank, 2,
                       hcomm_comm_world(hcomm), NULL) != HCOMM_OK)
        fail("exchange of ports");
    for (unsigned i = 0; i < STRANGERS && others.count > 0; i++) {
        int fd = visit(&others.list[i % (unsigned)others.count], i);
        visits += fd >= 0;
        if (kept[i % KEPT] >= 0)
            (void)close(kept[i % KEPT]);
        kept[i % KEPT] = fd;
        exchange(i);
    }
    if (hcomm_barrier(hcomm_comm_world(hcomm)) != HCOMM_OK)
        fail("barrier");
    for (int i = 0; i < KEPT; i++)
        if (kept[i] >= 0)
            (void)close(kept[i]);
    if (hcomm_finalize(hcomm) != HCOMM_OK)
        fail("finalize");
    if (visits == 0) {
        (void)printf("SKIP: no listening IPv4 socket of ofi:tcp was found\n");
        return SKIPPED;
    }
    return 0;
}
