/*
 * Messages around 2 GiB and above 4 GiB. Both ranks' buffers are the same few pages mapped again and again,
 * so that no machine needs the memory: the sender's show a pattern that depends on the place, the receiver's
 * keep the last bytes written to each page, which the tail of the message decides.
 */
#include "tests/multi/p2p_cases.h"

#include <sys/mman.h>
#include <unistd.h>

enum { TAG = 5, WINDOW = 1 << 20, PRIME = 251 };

static const size_t gib = (size_t)1 << 30;

/* `size` bytes of address space that all show the same WINDOW bytes. */
static unsigned char *map_repeated(int fd, size_t size)
{
    size_t room = (size + WINDOW - 1) / WINDOW * WINDOW;
    unsigned char *base = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(base != MAP_FAILED);
    for (size_t at = 0; at < room; at += WINDOW)
        CHECK(mmap(base + at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    return base;
}

static int window_file(void)
{
    int fd = memfd_create("p2p_huge", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, WINDOW) == 0);
    return fd;
}

static void transfer(size_t size, size_t capacity)
{
    int fd = window_file();
    unsigned char *buf = map_repeated(fd, size);
    hcomm_message_status_t status;
    if (p2p_rank == 0) {
        for (size_t i = 0; i < WINDOW; i++)
            buf[i] = (unsigned char)(i % PRIME);
        CALL(hcomm_send(buf, size, 1, TAG, p2p_world));
    } else if (p2p_rank == 1) {
        memset(buf, 0xff, WINDOW);
        EXPECT(capacity < size ? HCOMM_ERR_TRUNCATED : HCOMM_OK,
               hcomm_recv(buf, capacity, 0, TAG, p2p_world, &status));
        p2p_check_status(&status, 0, TAG, size, capacity < size ? HCOMM_ERR_TRUNCATED : HCOMM_OK);
        for (size_t i = 0; i < WINDOW; i++)
            CHECK(buf[i] == i % PRIME);
    }
    CHECK(munmap(buf, (size + WINDOW - 1) / WINDOW * WINDOW) == 0);
    CHECK(close(fd) == 0);
}

static void sizes_around_2_gib(void)
{
    transfer(2 * gib - 1, 2 * gib - 1);
    transfer(2 * gib, 2 * gib);
    transfer(2 * gib + 1, 2 * gib + 1);
}

static void sizes_around_4_gib(void)
{
    transfer(4 * gib - 1, 5 * gib);
    transfer(4 * gib + 1, 4 * gib + 1);
}

static void truncated_above_4_gib(void)
{
    transfer(4 * gib + WINDOW, 4 * gib - 1);
}

static const struct p2p_case cases[] = {
    {"sizes_around_2_gib", sizes_around_2_gib, 2},
    {"sizes_around_4_gib", sizes_around_4_gib, 2},
    {"truncated_above_4_gib", truncated_above_4_gib, 2},
};

int main(int argc, char **argv)
{
    return p2p_run(cases, sizeof(cases) / sizeof(cases[0]), NULL, argc, argv);
}
