/*
 * Session directory: a private directory of one run, for the PMIx library and for programs that ask PMIx for
 * a place to put files. Made by mkdtemp(3) with mode 0700, so no other user can have prepared it. Its lock
 * (flock on the directory itself) lives as long as a process of hcommrun: a directory that can be locked is
 * dead, and the next run of the same user sweeps it.
 */
#ifndef HC_LAUNCHER_SESSION_H
#define HC_LAUNCHER_SESSION_H

#include "runtime/base/status.h"

#include <limits.h>

struct hc_session {
    char path[PATH_MAX];
    int lock_fd;
};

/* Make the directory under $TMPDIR or /tmp and lock it. The error names the directory and the cause. */
hcomm_status_t hc_session_create(struct hc_session *session) HC_MUST_CHECK;

/* Remove the directory and everything in it; the lock stays until the process ends. Harmless when gone. */
void hc_session_remove(const struct hc_session *session);

/* Remove this user's session directories that no process holds. */
void hc_session_sweep(void);

#endif
