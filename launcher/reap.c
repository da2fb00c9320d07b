#include "launcher/reap.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool hc_reap_become_subreaper(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

/* Parent of a process, 0 when it is gone. The name in /proc/PID/stat may hold anything: skip to its last ')'.
 */
static pid_t parent_of(const char *process)
{
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof(path), "/proc/%.20s/stat", process);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    const char *name_end = strrchr(text, ')');
    int parent = 0;
    return name_end && sscanf(name_end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* How many were sent the signal; 0 also when /proc cannot be read for want of descriptors. */
static unsigned kill_children(void)
{
    unsigned killed = 0;
    DIR *processes = opendir("/proc");
    if (!processes)
        return 0;
    pid_t self = getpid();
    struct dirent *entry = readdir(processes);
    while (entry) {
        char *end = NULL;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0' && parent_of(entry->d_name) == self && kill((pid_t)pid, SIGKILL) == 0)
            killed++;
        entry = readdir(processes);
    }
    (void)closedir(processes);
    return killed;
}

/* Reap all that have ended; whether children are left. */
static bool reap_ended(void)
{
    pid_t pid = waitpid(-1, NULL, WNOHANG);
    while (pid > 0)
        pid = waitpid(-1, NULL, WNOHANG);
    return pid == 0;
}

void hc_reap_all_descendants(void)
{
    /* Each round kills the present children; their own children turn up as ours in the next one. The dead are
     * reaped first: with thousands of them, looking at each again in every round would take minutes. */
    static const struct timespec pause = {.tv_nsec = 10000000};
    while (reap_ended()) {
        if (kill_children() > 0)
            (void)waitpid(-1, NULL, 0);
        else /* waiting without having killed might last for ever */
            (void)nanosleep(&pause, NULL);
    }
}
