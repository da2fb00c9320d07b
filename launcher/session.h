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
#include <sys/types.h>

/* Lives in memory that the processes of hcommrun share: whichever survives the others removes the directory.
 */
struct hc_session {
    char path[PATH_MAX]; /* empty: not made */
    dev_t device;        /* of the directory, once it is locked */
    ino_t inode;
};

/* Room for a session, shared with child processes. */
hcomm_status_t hc_session_allocate(struct hc_session **session) HC_MUST_CHECK;
void hc_session_free(struct hc_session *session);

/*
 * Make the directory under $TMPDIR or /tmp and lock it until this process ends. The error names the directory
 * and the cause.
 */
hcomm_status_t hc_session_create(struct hc_session *session) HC_MUST_CHECK;

/* Remove the directory and everything in it. Harmless when it is not made or gone. */
void hc_session_remove(const struct hc_session *session);

/* Remove this user's session directories that no process holds. */
void hc_session_sweep(void);

#endif
