/*
 * Starting one process. vfork(2) is used: nothing of the launcher's memory is copied, and a failure in the
 * child (working directory, program) comes back as errno. The child is the leader of its own process group,
 * dies with the launcher (PR_SET_PDEATHSIG), and gets back the signal state and limits that hcommrun was
 * started with.
 */
#ifndef HC_LAUNCHER_SPAWN_H
#define HC_LAUNCHER_SPAWN_H

#include "launcher/guard.h"
#include "launcher/iof.h"
#include "launcher/map.h"

#include <sys/resource.h>
#include <sys/types.h>

struct hc_spawn {
    const char *path; /* of the program, as found by hc_spawn_find() */
    char *const *argv;
    char *const *env;
    const char *wdir;           /* NULL: stay */
    const struct hc_cpus *cpus; /* applied when bound */
    struct hc_iof_child stdio;
    const struct hc_guard_signals *signals;
    struct rlimit files; /* RLIMIT_NOFILE for the child */
};

/* Which step of the child failed, and why. */
struct hc_spawn_failure {
    const char *step; /* in words; NULL: none */
    int error;
};

/* HCOMM_ERR_IO when there is no process: *failure then says why. */
hcomm_status_t hc_spawn_process(const struct hc_spawn *spawn, pid_t *pid,
                                struct hc_spawn_failure *failure) HC_MUST_CHECK;

/*
 * Find a program as execvp(3) would, in the PATH of `env`; a name with a slash is taken as it is. Free *path.
 * HCOMM_ERR_IO with the errno in *error (ENOENT, EACCES, ...) when there is none.
 */
hcomm_status_t hc_spawn_find(const char *name, const char *wdir, char *const *env, char **path,
                             int *error) HC_MUST_CHECK;

#endif
