/*
 * Two processes make hcommrun. The guard is the one the user started: it takes the signals, passes them on,
 * and waits. Its child, the server, runs the job. Whichever of them is killed, the other one ends all ranks
 * and removes the session directory: the server sees the control socket close, the guard sees its child end.
 * Ranks die with the server also when both are killed at once (PR_SET_PDEATHSIG).
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
