/*
 * The first message to a rank, which has to be reached for it. "silent DIR": its sender makes no further call
 * until it has arrived; files in DIR say so. "both": two ranks send to each other before either receives.
 * "late": the receiver has not started.
 */
#include "tests/multi/check.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 5, POLL_US = 2000, LATE_US = 300000, PATIENCE = 60 * (1000000 / POLL_US) };

static void mark(const char *folder, const char *name)
{
    char path[512];
    CHECK(snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path));
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
}

static void await_mark(const char *folder, const char *name)
{
    char path[512];
    int polls = 0;
    CHECK(snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path));
    for (; access(path, F_OK) != 0 && polls < PATIENCE; polls++)
        (void)usleep(POLL_US);
    CHECK(polls < PATIENCE);
}

static void sends_silently(const char *folder)
{
    int value = 42;
    check_init(&(hcomm_config_t){.timeout_ms = 10000});
    hcomm_comm_t world = hcomm_comm_world(check_handle);
    if (hcomm_rank(check_handle) == 0) {
        await_mark(folder, "started");
        CALL(hcomm_send(&value, sizeof(value), 1, TAG, world));
        await_mark(folder, "arrived");
    } else {
        mark(folder, "started");
        value = 0;
        CALL(hcomm_recv(&value, sizeof(value), 0, TAG, world, NULL));
        CHECK(value == 42);
        mark(folder, "arrived");
    }
}

static void both_send(void)
{
    check_init(NULL);
    hcomm_comm_t world = hcomm_comm_world(check_handle);
    int rank = hcomm_rank(check_handle), got = -1;
    CALL(hcomm_send(&rank, sizeof(rank), 1 - rank, TAG, world));
    CALL(hcomm_recv(&got, sizeof(got), 1 - rank, TAG, world, NULL));
    CHECK(got == 1 - rank);
}

static void receiver_is_late(void)
{
    const char *rank = getenv("PMIX_RANK");
    int messages[] = {1, 2, 3}, got = 0;
    if (rank && !strcmp(rank, "1"))
        (void)usleep(LATE_US);
    check_init(NULL);
    hcomm_comm_t world = hcomm_comm_world(check_handle);
    for (int i = 0; i < 3; i++)
        if (hcomm_rank(check_handle) == 0) {
            CALL(hcomm_send(&messages[i], sizeof(int), 1, TAG, world));
        } else {
            CALL(hcomm_recv(&got, sizeof(got), 0, TAG, world, NULL));
            CHECK(got == messages[i]);
        }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "silent") && argc > 2)
        sends_silently(argv[2]);
    else if (!strcmp(what, "both"))
        both_send();
    else if (!strcmp(what, "late"))
        receiver_is_late();
    else
        return 2;
    CALL(hcomm_finalize(check_handle));
    return 0;
}
