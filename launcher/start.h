/* Starting all ranks of a job. Part of launch.h. */
#ifndef HC_LAUNCHER_START_H
#define HC_LAUNCHER_START_H

#include "launcher/launch.h"

/*
 * Raise hcommrun's own limit of open files as far as it goes; ranks keep what the user set. Before anything
 * else is opened, as PMIx ends the process when it gets no descriptors. HCOMM_ERR_LIMIT when the ranks cannot
 * all be served, or the stack is too small for PMIx.
 */
hcomm_status_t hc_start_raise_limits(struct hc_launch *launch) HC_MUST_CHECK;

/*
 * Start every rank, --timeout, and the reading of standard input. On an error the ranks started so far keep
 * running: the caller ends them. A program that cannot be executed decides the job's exit code.
 */
hcomm_status_t hc_start_ranks(struct hc_launch *launch) HC_MUST_CHECK;

#endif
