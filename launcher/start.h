/* Starting all ranks of a job. Part of launch.h. */
#ifndef HC_LAUNCHER_START_H
#define HC_LAUNCHER_START_H

#include "launcher/launch.h"

/*
 * Start every rank, --timeout, and the reading of standard input. On an error the ranks started so far keep
 * running: the caller ends them. A program that cannot be executed decides the job's exit code.
 */
hcomm_status_t hc_start_ranks(struct hc_launch *launch) HC_MUST_CHECK;

#endif
