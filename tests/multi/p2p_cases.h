/*
 * For the tests of point-to-point messages: payloads that betray every misplaced byte, and cases run one
 * after the other by all ranks, each of which must leave no message behind.
 */
#ifndef TESTS_MULTI_P2P_CASES_H
#define TESTS_MULTI_P2P_CASES_H

#include "tests/multi/check.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct p2p_case {
    const char *name; /* what holds */
    void (*run)(void);
    int least_ranks;
};

static hcomm_comm_t p2p_world;
static int p2p_rank, p2p_size;

/* Sizes at, before and behind the limits of inline messages, copies, eager, pieces and single transfers. */
static const size_t p2p_sizes[] = {
    0,     1,     8,     40,     63,     64,     65,      1000,    1024,    1025,    4096,
    8127,  8128,  8129,  8192,   8193,   16320,  16384,   16385,   32768,   65535,   65536,
    65537, 65792, 65793, 131072, 262143, 262145, 1048576, 1048577, 4194303, 4194304,
};
enum { P2P_SIZES = sizeof(p2p_sizes) / sizeof(p2p_sizes[0]), P2P_SIZE_MAX = 4194304 };

__attribute__((unused)) static unsigned char p2p_byte(unsigned seed, size_t i)
{
    return (unsigned char)(seed * 41 + i * 7 + (i >> 8) * 3 + (i >> 16));
}

__attribute__((unused)) static void p2p_fill(void *buf, size_t size, unsigned seed)
{
    unsigned char *bytes = buf;
    for (size_t i = 0; i < size; i++)
        bytes[i] = p2p_byte(seed, i);
}

__attribute__((unused)) static void p2p_verify(const char *file, int line, const void *buf, size_t size,
                                               unsigned seed)
{
    const unsigned char *bytes = buf;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == p2p_byte(seed, i))
            continue;
        fprintf(stderr, "%s:%d: rank %d: byte %zu of %zu (seed %u) is %u, not %u\n", file, line, p2p_rank, i,
                size, seed, bytes[i], p2p_byte(seed, i));
        hcomm_abort(check_handle, 1);
    }
}
#define VERIFY(buf, size, seed) p2p_verify(__FILE__, __LINE__, (buf), (size), (seed))

/* Room for n bytes of payload, kept until the process ends its case. */
__attribute__((unused)) static void *p2p_room(size_t n)
{
    void *room = malloc(n ? n : 1);
    CHECK(room);
    return room;
}

__attribute__((unused)) static uint64_t p2p_counter(const char *name)
{
    uint64_t value = 0;
    CALL(hcomm_counter_get(check_handle, name, &value));
    return value;
}

__attribute__((unused)) static void p2p_check_status(const hcomm_message_status_t *status, int source,
                                                     int tag, size_t size, hcomm_status_t error)
{
    CHECK(status->source == source);
    CHECK(status->tag == tag);
    CHECK(status->size == size);
    CHECK(status->error == error);
    CHECK(!status->cancelled);
}

/* Word between two ranks without hcomm: each has a pipe, and may know of the other's write end, which it
 * opens by its name in /proc. */
struct p2p_outside {
    int ends[2];
    struct {
        int pid, fd;
    } there; /* one's own at first; the program passes it on */
};

__attribute__((unused)) static struct p2p_outside p2p_open_outside(void)
{
    struct p2p_outside outside;
    CHECK(pipe(outside.ends) == 0);
    outside.there.pid = (int)getpid(), outside.there.fd = outside.ends[1];
    return outside;
}

__attribute__((unused)) static void p2p_tell_outside(const struct p2p_outside *outside)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", outside->there.pid, outside->there.fd);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "", 1) == 1 && close(fd) == 0);
}

__attribute__((unused)) static void p2p_await_outside(const struct p2p_outside *outside)
{
    CHECK(poll(&(struct pollfd){.fd = outside->ends[0], .events = POLLIN}, 1, 60000) == 1);
}

__attribute__((unused)) static void p2p_close_outside(const struct p2p_outside *outside)
{
    CHECK(close(outside->ends[0]) == 0 && close(outside->ends[1]) == 0);
}

__attribute__((unused)) static int p2p_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return argc == 1;
}

/* All cases, or those named on the command line. */
__attribute__((unused)) static int p2p_run(const struct p2p_case *cases, size_t count,
                                           const hcomm_config_t *config, int argc, char **argv)
{
    check_init(config);
    p2p_world = hcomm_comm_world(check_handle);
    p2p_rank = hcomm_comm_rank(p2p_world);
    p2p_size = hcomm_comm_size(p2p_world);
    for (size_t i = 0; i < count; i++) {
        if (p2p_size < cases[i].least_ranks || !p2p_wanted(cases[i].name, argc, argv))
            continue;
        cases[i].run();
        CALL(hcomm_barrier(p2p_world));
        EXPECT(HCOMM_AGAIN, hcomm_iprobe(HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, p2p_world, NULL));
        if (p2p_rank == 0)
            printf("%s\n", cases[i].name);
        CALL(hcomm_barrier(p2p_world));
    }
    CALL(hcomm_finalize(check_handle));
    return 0;
}

#endif
