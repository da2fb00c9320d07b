/* The job: what runs, where, and how it ended. Used by the launcher's main thread only. */
#ifndef HC_LAUNCHER_JOB_H
#define HC_LAUNCHER_JOB_H

#include "launcher/map.h"
#include "launcher/options.h"

#include <sys/types.h>

enum {
    HC_NAME_SPACE_MAX = 256, /* what the PMIx library copies of a name space */
    HC_HOSTNAME_MAX = 256,
};

enum hc_rank_state { HC_RANK_NEW, HC_RANK_RUNNING, HC_RANK_ENDED };

struct hc_rank {
    uint32_t rank;
    uint32_t app_index, app_rank; /* its program, and its number among that program's ranks */
    enum hc_rank_state state;
    pid_t pid;       /* RUNNING, ENDED */
    int wait_status; /* ENDED */
    bool connected;  /* called PMIx_Init */
    bool finalized;  /* called PMIx_Finalize */
    const struct hc_cpus *cpus;
};

struct hc_job {
    const struct hc_options *options;
    const char *session_path;
    char name_space[HC_NAME_SPACE_MAX];
    char hostname[HC_HOSTNAME_MAX];
    struct hc_rank *ranks;
    uint32_t num_ranks;
    uint32_t num_ended;
    bool failed;   /* exit_code is decided: the first abnormal event does it */
    int exit_code; /* of hcommrun */
};

hcomm_status_t hc_job_init(struct hc_job *job, const struct hc_options *options,
                           const char *session_path) HC_MUST_CHECK;
void hc_job_fini(struct hc_job *job);

/* The running rank with this process, or NULL. */
struct hc_rank *hc_job_find_process(struct hc_job *job, pid_t pid);

/* The first failure decides the exit code; later ones change nothing. True for the first. */
bool hc_job_fail(struct hc_job *job, int exit_code);

/* Exit code of hcommrun for a wait status: the exit code, or 128 + the signal. */
int hc_job_exit_code(int wait_status);

#endif
