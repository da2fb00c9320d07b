/*
 * Three processes make hcommrun. The guard is the one the user started: it takes the signals, passes them on,
 * and waits. The server runs the job. Between them stands the keeper, which only waits. Whichever of them is
 * killed, the others end all ranks and whatever those have started, and remove the session directory: the
 * server sees the control socket close, the guard and the keeper see their child end. The keeper has
 * another name and a session of its own, so that neither a `killall -9 hcommrun` nor a SIGKILL to the process
 * group, as tools send it that have waited too long, reaches it. Ranks die with the server also when all three
 * are killed at once (PR_SET_PDEATHSIG), but not their children: nobody is left to do it, and the kernel does it
 * only for a process namespace or a control group, which take privileges.
 */
#ifndef HC_LAUNCHER_GUARD_H
#define HC_LAUNCHER_GUARD_H

#include "launcher/session.h"

#include <signal.h>

/* Signal state that hcommrun was started with: ranks get it back. */
struct hc_guard_signals {
    sigset_t mask;
    struct sigaction pipe_action;
};

/*
 * Body of the server process; returns hcommrun's exit code. Every message on control_fd (SOCK_SEQPACKET) is
 * one int: the number of a signal that the guard received. End of file: the guard is dead.
 */
typedef int hc_guard_serve_fn(void *context, int control_fd, const struct hc_guard_signals *signals);

/* Run `serve` in a child process under this guard; returns the exit code of the program. */
int hc_guard_run(const struct hc_session *session, hc_guard_serve_fn *serve, void *context);

#endif
