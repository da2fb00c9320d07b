#include "launcher/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_SHELL_WORDS = 4096 };

/* Signals whose dispositions a launcher may have been given as "ignore" are left alone: only SIGPIPE is
 * restored, because libraries in the launcher change it. */
static void restore_signals(const struct hc_guard_signals *signals)
{
    (void)sigaction(SIGPIPE, &signals->pipe_action, NULL);
    (void)sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

/* A target may be the source of a later one only if it is below 3, and those are never pipe ends of ours. */
static bool connect_stdio(const struct hc_iof_child *stdio)
{
    for (int fd = 0; fd < 3; fd++)
        if (dup2(stdio->fds[fd], fd) < 0)
            return false;
    /* Nothing else of the launcher's reaches the rank; an old kernel has only O_CLOEXEC on all of them. */
    (void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    return true;
}

/* A file without "#!" and without a binary's header is a shell script, as for execvp(3). */
static void exec_shell(const struct hc_spawn *spawn)
{
    const char *words[MAX_SHELL_WORDS];
    size_t count = 0;
    words[count++] = "/bin/sh";
    words[count++] = spawn->path;
    for (size_t i = 1; spawn->argv[0] && spawn->argv[i]; i++) {
        if (count + 1 >= MAX_SHELL_WORDS) {
            errno = E2BIG;
            return;
        }
        words[count++] = spawn->argv[i];
    }
    words[count] = NULL;
    (void)execve("/bin/sh", (char *const *)words, spawn->env);
}

/* In the child, which shares the parent's memory until it executes: system calls only. Returns on failure. */
static const char *become_rank(const struct hc_spawn *spawn, pid_t launcher)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != launcher) /* it died before prctl */
        _exit(HC_EXIT_LAUNCHER);
    if (!connect_stdio(&spawn->stdio))
        return "connect the standard descriptors of";
    if (spawn->wdir && chdir(spawn->wdir) != 0)
        return "enter the working directory of";
    if (spawn->cpus->bound)
        (void)sched_setaffinity(0, spawn->cpus->mask_size, spawn->cpus->mask); /* never fatal */
    (void)setrlimit(RLIMIT_NOFILE, &spawn->files);
    restore_signals(spawn->signals);
    (void)execve(spawn->path, spawn->argv, spawn->env);
    if (errno == ENOEXEC)
        exec_shell(spawn);
    return "execute";
}

/* Not inlined: after vfork the child must not disturb the caller's frame. */
static __attribute__((noinline)) pid_t fork_rank(const struct hc_spawn *spawn,
                                                 volatile struct hc_spawn_failure *failure)
{
    pid_t launcher = getpid();
    pid_t pid = vfork();
    if (pid == 0) {
        failure->step = become_rank(spawn, launcher);
        failure->error = errno;
        _exit(HC_EXIT_NOT_FOUND);
    }
    if (pid < 0) {
        failure->step = "start a process for";
        failure->error = errno;
    }
    return pid;
}

hcomm_status_t hc_spawn_process(const struct hc_spawn *spawn, pid_t *pid, struct hc_spawn_failure *failure)
{
    volatile struct hc_spawn_failure found = {0};
    pid_t child = fork_rank(spawn, &found);
    *failure = (struct hc_spawn_failure){.step = found.step, .error = found.error};
    if (failure->step)
        return HCOMM_ERR_IO; /* a child that failed is reaped like any other */
    /* The child does the same. Where vfork is a fork (under ThreadSanitizer), the first of the two to come
     * makes the group, so that a signal to it reaches the rank at any time; after exec it fails, as there is
     * nothing to do. */
    (void)setpgid(child, child);
    *pid = child;
    return HCOMM_OK;
}

static const char *find_path_variable(char *const *env)
{
    for (; *env; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return "/usr/local/bin:/usr/bin:/bin";
}

/* 0 when `path` (relative to wdir) can be executed, else errno. */
static int check_program(const char *path, const char *wdir)
{
    int directory = wdir && *path != '/' ? open(wdir, O_PATH | O_DIRECTORY | O_CLOEXEC) : AT_FDCWD;
    struct stat info;
    int error = 0;
    if (directory == -1 || fstatat(directory, path, &info, 0) != 0)
        error = errno;
    else if (S_ISDIR(info.st_mode))
        error = EISDIR;
    else if (faccessat(directory, path, X_OK, AT_EACCESS) != 0)
        error = errno;
    if (directory >= 0)
        (void)close(directory);
    return error;
}

static hcomm_status_t search_path(const char *name, const char *wdir, const char *list, char **path,
                                  int *error)
{
    *error = ENOENT;
    while (true) {
        size_t length = strcspn(list, ":");
        char *candidate = NULL;
        if (asprintf(&candidate, "%.*s%s%s", (int)length, list, length ? "/" : "./", name) < 0)
            return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the path of %s", name);
        int found = check_program(candidate, wdir);
        if (found == 0) {
            *path = candidate;
            return HCOMM_OK;
        }
        if (found != ENOENT && found != ENOTDIR && found != EISDIR)
            *error = found;
        free(candidate);
        if (list[length] == '\0')
            return HCOMM_ERR_IO;
        list += length + 1;
    }
}

hcomm_status_t hc_spawn_find(const char *name, const char *wdir, char *const *env, char **path, int *error)
{
    if (!strchr(name, '/'))
        return search_path(name, wdir, find_path_variable(env), path, error);
    *error = check_program(name, wdir);
    if (*error)
        return HCOMM_ERR_IO;
    *path = strdup(name);
    return *path ? HCOMM_OK : hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the path of %s", name);
}
