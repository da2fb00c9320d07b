/* The ends of ranks and of the job: who decides, what is said, and which signals follow. Part of launch.h. */
#ifndef HC_LAUNCHER_END_H
#define HC_LAUNCHER_END_H

#include "launcher/launch.h"

/* A rank was reaped: take the rest of its output, judge how it ended, and end the job when that is due. */
void hc_end_rank(struct hc_launch *launch, struct hc_rank *rank, int wait_status);

/* Handlers of launch->end_timer, launch->timeout, and of output that cannot be written. */
void hc_end_on_timer(struct hc_loop_timer *timer);
void hc_end_on_timeout(struct hc_loop_timer *timer);
void hc_end_on_output_broken(struct hc_iof *iof, const char *name, int error);

#endif
