/*
 * Inside a Slurm allocation of several nodes the cluster's engine owns the nodes: hcommrun becomes
 * `srun --mpi=pmix`. On one node it runs the job itself.
 */
#ifndef HC_LAUNCHER_SLURM_H
#define HC_LAUNCHER_SLURM_H

#include "launcher/options.h"

#include <stdbool.h>

/* Whether this process runs in an allocation of more than one node. */
bool hc_slurm_owns_nodes(void);

/* Execute srun in place of this process. Returns only on failure, with a detail. */
hcomm_status_t hc_slurm_hand_over(const struct hc_options *options);

/* The srun command line for the options; *words is a NULL-terminated heap array, its strings as well. */
hcomm_status_t hc_slurm_command(const struct hc_options *options, char ***words) HC_MUST_CHECK;
void hc_slurm_command_free(char **words);

#endif
