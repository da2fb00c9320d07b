/*
 * The server process of hcommrun: starts the ranks, serves them, and decides when and how the job ends. All
 * functions run on its main thread.
 *
 * How a job ends early: its ranks' process groups get a first signal, --grace milliseconds later the next
 * one, of the sequence INT (Ctrl-C only), TERM, KILL; Ctrl-C while the job is being ended goes to KILL at
 * once. When all ranks have ended, everything they left behind is killed.
 */
#ifndef HC_LAUNCHER_LAUNCH_H
#define HC_LAUNCHER_LAUNCH_H

#include "launcher/guard.h"
#include "launcher/iof.h"
#include "launcher/job.h"
#include "launcher/loop.h"
#include "launcher/map.h"
#include "launcher/session.h"

#include <sys/resource.h>

struct hc_pmix;

enum hc_end_phase { HC_END_NONE, HC_END_INTERRUPT, HC_END_TERMINATE, HC_END_KILL };

struct hc_launch {
    struct hc_loop loop;
    struct hc_loop_source control;  /* signals that the guard passes on */
    struct hc_loop_source children; /* signalfd of SIGCHLD */
    struct hc_loop_timer timeout;   /* --timeout */
    struct hc_loop_timer end_timer; /* next step of ending */
    enum hc_end_phase phase;
    bool guard_lost;
    const struct hc_guard_signals *signals;
    const struct hc_options *options;
    struct hc_job job;
    struct hc_map *map;
    const struct hc_cpus **cpus; /* of every rank */
    struct hc_iof iof;
    struct hc_pmix *pmix;
    struct rlimit files;     /* limit of open files that the user set */
    unsigned long oom_kills; /* the kernel's count when the job started */
};

/* What the server process needs from main(). */
struct hc_launch_context {
    const struct hc_options *options;
    struct hc_session *session; /* made by the server process */
};

/* Run the job of a struct hc_launch_context; hc_guard_serve_fn. */
int hc_launch_serve(void *context, int control_fd, const struct hc_guard_signals *signals);

/* End the job early, starting with the given step; a later step than the current one is taken at once. */
void hc_launch_end(struct hc_launch *launch, enum hc_end_phase phase);

/* A rank asked for the end of the job (PMIx_Abort, MPI_Abort). */
void hc_launch_abort(struct hc_launch *launch, uint32_t rank, int code, const char *message);

/* Send a signal to the process group of every running rank, or of one. */
void hc_launch_signal_all(struct hc_launch *launch, int signal);
void hc_launch_signal_rank(struct hc_launch *launch, uint32_t rank, int signal);

#endif
