/* The environment of ranks: hcommrun's own, without what another PMIx server put there, plus -x and PMIx. */
#ifndef HC_LAUNCHER_ENVIRONMENT_H
#define HC_LAUNCHER_ENVIRONMENT_H

#include "launcher/options.h"

#include <stdbool.h>

/*
 * Take the variables of an outer PMIx server (srun, another hcommrun) out of this process's environment: they
 * would be taken for ours, by the PMIx library here and by the ranks.
 */
void hc_environment_clean(void);

/* A NULL-terminated list of NAME=VALUE strings that owns its strings. */
struct hc_environment {
    char **list;
    size_t count, capacity;
};

/* This process's environment with the -x variables and working directory of a program. */
hcomm_status_t hc_environment_init(struct hc_environment *environment,
                                   const struct hc_app *app) HC_MUST_CHECK;
/*
 * Programs built with Open MPI 4 ask PMIx only when told so: without Open MPI's own launcher they would each
 * become a job of one rank. Settings that the user has made stay.
 */
hcomm_status_t hc_environment_guide_open_mpi(struct hc_environment *environment,
                                             bool oversubscribed) HC_MUST_CHECK;

void hc_environment_fini(struct hc_environment *environment);

/* Set one variable from "NAME=VALUE" (copied), replacing an older value. */
hcomm_status_t hc_environment_set(struct hc_environment *environment, const char *assignment) HC_MUST_CHECK;

#endif
