/*
 * Named shared memory of dead ranks. hcomm's own shared memory has no names; libfabric's shm provider makes
 * /dev/shm/hcomm.SCOPE.PID.…, which a rank that is killed cannot remove.
 */
#ifndef HC_LAUNCHER_SHM_SWEEP_H
#define HC_LAUNCHER_SHM_SWEEP_H

#include "launcher/job.h"

/* Remove what ended ranks of the job have left. Their processes must have been reaped. */
void hc_shm_sweep(const struct hc_job *job);

#endif
