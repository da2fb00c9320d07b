/* Misuse of the library, one kind per word: the calls must fail in words, and the job must not suffer. */
#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static hcomm_handle_t hcomm;

static void need(hcomm_status_t status, hcomm_status_t expected, const char *what)
{
    if (status == expected)
        return;
    (void)fprintf(stderr, "misuse: %s: %s instead of %s: %s\n", what, hcomm_strerror(status),
                  hcomm_strerror(expected), hcomm_error_detail());
    _exit(3);
}

/* Every rank sends its number to the next one. */
static void talk(void)
{
    int rank = hcomm_rank(hcomm), size = hcomm_size(hcomm), got = -1;
    int before = (rank + size - 1) % size;
    need(hcomm_sendrecv(&rank, sizeof(rank), (rank + 1) % size, 1, &got, sizeof(got), before, 1,
                        hcomm_comm_world(hcomm), NULL),
         HCOMM_OK, "sendrecv");
    if (got != before) {
        (void)fprintf(stderr, "misuse: %d arrived instead of %d\n", got, before);
        _exit(3);
    }
}

/* Ranges that no memory has are refused, not copied. */
static void copy_nonsense(void)
{
    char bytes[64] = "";
    hcomm_stream_t stream;
    need(hcomm_memcpy(hcomm, bytes, bytes + 32, SIZE_MAX, HCOMM_COPY_AUTO), HCOMM_ERR_INVALID,
         "endless copy");
    need(hcomm_memcpy(hcomm, bytes, bytes + 8, 32, HCOMM_COPY_AUTO), HCOMM_ERR_INVALID, "overlapping copy");
    need(hcomm_memset(hcomm, bytes, 0, SIZE_MAX), HCOMM_ERR_INVALID, "endless memset");
    need(hcomm_stream_create(hcomm, 0, &stream), HCOMM_OK, "stream");
    need(hcomm_memcpy_async(bytes, bytes + 32, SIZE_MAX, HCOMM_COPY_AUTO, stream), HCOMM_ERR_INVALID,
         "endless copy on a stream");
    need(hcomm_stream_destroy(&stream), HCOMM_OK, "destroy");
}

static void use_after_finalize(void)
{
    void *ptr = NULL;
    hcomm_stream_t stream;
    hcomm_event_t event;
    char bytes[2] = "";
    need(hcomm_mem_alloc(hcomm, 1, HCOMM_MEMORY_HOST, &ptr), HCOMM_ERR_INVALID, "memory");
    need(hcomm_mem_free(hcomm, bytes), HCOMM_ERR_INVALID, "free");
    need(hcomm_mem_register(hcomm, bytes, 1), HCOMM_ERR_INVALID, "register");
    need(hcomm_free_host_mem(hcomm, bytes), HCOMM_ERR_INVALID, "free of host memory");
    need(hcomm_memcpy(hcomm, bytes, bytes + 1, 1, HCOMM_COPY_AUTO), HCOMM_ERR_INVALID, "copy");
    need(hcomm_memset(hcomm, bytes, 0, 1), HCOMM_ERR_INVALID, "memset");
    need(hcomm_stream_create(hcomm, 0, &stream), HCOMM_ERR_INVALID, "stream");
    need(hcomm_event_create(hcomm, &event), HCOMM_ERR_INVALID, "event");
    if (hcomm_alloc_host_mem(hcomm, 1) || hcomm_buffer_pool_create(hcomm, 1, 1, HCOMM_MEMORY_HOST))
        _exit(6);
    if (!strstr(hcomm_error_detail(), "finalized already"))
        _exit(7);
}

static void finalize_twice(void)
{
    copy_nonsense();
    need(hcomm_finalize(hcomm), HCOMM_OK, "finalize");
    need(hcomm_finalize(hcomm), HCOMM_ERR_INVALID, "second finalize");
    use_after_finalize();
}

static void use_in_child(void)
{
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    int value = 9;
    need(hcomm_send(&value, sizeof(value), (hcomm_rank(hcomm) + 1) % hcomm_size(hcomm), 1, world),
         HCOMM_ERR_INVALID, "send of a forked child");
    need(hcomm_recv(&value, sizeof(value), HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, world, NULL), HCOMM_ERR_INVALID,
         "receive from anybody by a forked child");
    if (!strstr(hcomm_error_detail(), "forked from rank"))
        _exit(5);
    need(hcomm_probe(HCOMM_ANY_SOURCE, 1, world, NULL), HCOMM_ERR_INVALID, "probe of a forked child");
    need(hcomm_iprobe(HCOMM_ANY_SOURCE, 1, world, NULL), HCOMM_ERR_INVALID, "iprobe of a forked child");
    need(hcomm_barrier(world), HCOMM_ERR_INVALID, "barrier of a forked child");
    need(hcomm_finalize(hcomm), HCOMM_ERR_INVALID, "finalize of a forked child");
}

enum { AHEAD = 1 }; /* the tag of a message that has arrived before the fork and is received after it */

static void send_ahead(void)
{
    hcomm_comm_t world = hcomm_comm_world(hcomm);
    int value = 7;
    need(hcomm_send(&value, sizeof(value), (hcomm_rank(hcomm) + 1) % hcomm_size(hcomm), AHEAD, world),
         HCOMM_OK, "send ahead");
    need(hcomm_probe(HCOMM_ANY_SOURCE, AHEAD, world, NULL), HCOMM_OK, "probe ahead");
}

static void receive_ahead(void)
{
    int value = 0;
    need(hcomm_recv(&value, sizeof(value), HCOMM_ANY_SOURCE, AHEAD, hcomm_comm_world(hcomm), NULL), HCOMM_OK,
         "receive what came ahead");
    if (value != 7)
        _exit(6);
}

/* The parent's messages must not be touched by what its child tries. */
static void fork_and_use(void)
{
    int status = -1;
    need(hcomm_barrier(hcomm_comm_world(hcomm)), HCOMM_OK, "barrier");
    send_ahead();
    pid_t child = fork();
    if (child == 0) {
        use_in_child();
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        _exit(4);
    receive_ahead();
    talk();
    need(hcomm_barrier(hcomm_comm_world(hcomm)), HCOMM_OK, "barrier after the child");
    need(hcomm_finalize(hcomm), HCOMM_OK, "finalize after the child");
}

int main(int argc, char **argv)
{
    need(hcomm_init(&hcomm, NULL), HCOMM_OK, "init");
    talk();
    if (argc > 1 && strcmp(argv[1], "finalize") == 0)
        finalize_twice();
    else if (argc > 1 && strcmp(argv[1], "fork") == 0)
        fork_and_use();
    else if (argc > 1 && strcmp(argv[1], "leave") == 0)
        need(hcomm_barrier(hcomm_comm_world(hcomm)), HCOMM_OK, "barrier");
    else
        return 2;
    return 0;
}
