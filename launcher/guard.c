#include "launcher/guard.h"

#include "launcher/options.h"
#include "launcher/reap.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Signals that are for the job, not for hcommrun. */
static const int passed_on[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGTSTP, SIGCONT, SIGALRM, SIGWINCH};

/* Those of them that hcommrun was not started to ignore (nohup, background jobs of scripts), and SIGCHLD. */
static void choose_signals(sigset_t *awaited)
{
    (void)sigemptyset(awaited);
    for (size_t i = 0; i < hc_array_len(passed_on); i++) {
        struct sigaction action;
        if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaddset(awaited, passed_on[i]);
    }
    (void)sigaddset(awaited, SIGCHLD);
}

static void block_signals(const sigset_t *awaited, struct hc_guard_signals *old)
{
    static const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t blocked = *awaited;
    (void)sigaddset(&blocked, SIGPIPE); /* writes report EPIPE instead */
    (void)sigprocmask(SIG_BLOCK, &blocked, &old->mask);
    (void)sigaction(SIGPIPE, NULL, &old->pipe_action);
    (void)sigaction(SIGCHLD, &standard, NULL); /* ignored, children would vanish unseen */
}

/* Reap; true when the keeper itself is among the dead, its wait status, as the server's, then in
 * *keeper_status. */
static bool reap(pid_t keeper, int *keeper_status)
{
    bool ended = false;
    int status = 0;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    while (pid > 0) {
        if (pid == keeper) {
            *keeper_status = status;
            ended = true;
        }
        pid = waitpid(-1, &status, WNOHANG);
    }
    return ended;
}

static void pass_on(int signal, int control_fd)
{
    /* A full or closed socket: the server is ending anyway. */
    (void)send(control_fd, &signal, sizeof(signal), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (signal == SIGTSTP)
        (void)raise(SIGSTOP);
}

static int watch_keeper(pid_t keeper, int control_fd, const sigset_t *awaited)
{
    int status = 0;
    while (!reap(keeper, &status)) {
        int signal = sigwaitinfo(awaited, NULL);
        if (signal > 0 && signal != SIGCHLD)
            pass_on(signal, control_fd);
    }
    return status;
}

static int finish(const struct hc_session *session, int server_status)
{
    hc_reap_all_descendants();
    hc_session_remove(session);
    if (WIFEXITED(server_status))
        return WEXITSTATUS(server_status);
    hc_log_error("hcommrun's server process was ended by signal %d (%s); all ranks are ended",
                 WTERMSIG(server_status), strsignal(WTERMSIG(server_status)));
    return 128 + WTERMSIG(server_status);
}

/* Wait for the server, and end what it leaves: orphans of its ranks are the keeper's children. */
static int keep(pid_t server, const struct hc_session *session)
{
    int status = 0;
    pid_t ended = waitpid(-1, &status, 0);
    while (ended != server && (ended > 0 || errno == EINTR))
        ended = waitpid(-1, &status, 0);
    hc_reap_all_descendants();
    hc_session_remove(session); /* the guard may be dead */
    return status;
}

/* So that whoever waits for this process sees what it saw. */
static _Noreturn void end_alike(int status)
{
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    static const struct sigaction standard = {.sa_handler = SIG_DFL};
    static const struct rlimit none = {0};
    sigset_t all;
    (void)setrlimit(RLIMIT_CORE, &none); /* the server's is enough */
    (void)sigaction(WTERMSIG(status), &standard, NULL);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
    (void)raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

static int serve_in_child(hc_guard_serve_fn *serve, void *context, int control_fd,
                          const struct hc_guard_signals *signals, const struct hc_session *session)
{
    (void)hc_reap_become_subreaper();
    int code = serve(context, control_fd, signals);
    hc_session_remove(session); /* the others may be dead */
    return code;
}

/* The keeper's life; its child is the server. */
static _Noreturn void keep_server(hc_guard_serve_fn *serve, void *context, int control_fd,
                                  const struct hc_guard_signals *signals, const struct hc_session *session)
{
    (void)hc_reap_become_subreaper();
    pid_t server = fork();
    if (server == 0)
        _exit(serve_in_child(serve, context, control_fd, signals, session));
    if (server < 0) {
        hc_log_error("cannot fork: %s", hc_errno_text(errno));
        _exit(HC_EXIT_LAUNCHER);
    }
    (void)close(control_fd);
    (void)prctl(PR_SET_NAME, "hcomm-keeper", 0, 0, 0);
    (void)setsid(); /* away from what is sent to the group of the others */
    end_alike(keep(server, session));
}

int hc_guard_run(const struct hc_session *session, hc_guard_serve_fn *serve, void *context)
{
    struct hc_guard_signals signals;
    int pair[2];
    sigset_t awaited;
    choose_signals(&awaited);
    block_signals(&awaited, &signals);
    if (!hc_reap_become_subreaper())
        hc_log_warn("prctl(PR_SET_CHILD_SUBREAPER): %s; processes that ranks leave behind may survive",
                    hc_errno_text(errno));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        hc_log_error("socketpair: %s", hc_errno_text(errno));
        return HC_EXIT_LAUNCHER;
    }
    pid_t keeper = fork();
    if (keeper == 0) {
        (void)close(pair[0]);
        keep_server(serve, context, pair[1], &signals, session);
    }
    (void)close(pair[1]);
    if (keeper < 0) {
        hc_log_error("cannot fork: %s", hc_errno_text(errno));
        hc_session_remove(session);
        return HC_EXIT_LAUNCHER;
    }
    hc_session_sweep();
    int status = watch_keeper(keeper, pair[0], &awaited);
    return finish(session, status);
}
