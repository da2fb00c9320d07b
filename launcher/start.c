#include "launcher/start.h"

#include "launcher/environment.h"
#include "launcher/oom.h"
#include "launcher/pmix/server.h"
#include "launcher/spawn.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    OWN_FILES = 32,         /* hcommrun's own descriptors, and PMIx's */
    STACK_MIN = 256 * 1024, /* bytes; PMIx dies with 192 KiB */
    FILES_PER_RANK =
        2, /* at least: standard output and error; a PMIx connection and standard input may come */
};

struct starter {
    struct hc_environment environment; /* of the present program */
    char *path;
};

/* The usual mistakes behind "No such file": a program of this folder without its "./", a script's
 * interpreter. */
static const char *remedy(const struct hc_app *app, const char *path, const char *step, int error)
{
    if (error != ENOENT || strcmp(step, "execute") != 0)
        return "";
    if (path)
        return "; the program itself is there: its interpreter is missing";
    return strchr(app->argv[0], '/') ? ""
                                     : "; it was looked up in PATH: write ./ before a program of this folder";
}

static hcomm_status_t cannot_start(struct hc_launch *launch, const struct hc_app *app, const char *path,
                                   const char *step, int error)
{
    int code = error == ENOENT || error == ENOTDIR ? HC_EXIT_NOT_FOUND : HC_EXIT_NOT_EXEC;
    (void)hc_job_fail(&launch->job, code);
    return hc_error(HCOMM_ERR_IO, "cannot %s '%s'%s%s on %s: %s%s", step, app->argv[0],
                    app->wdir ? " in " : "", app->wdir ? app->wdir : "", launch->job.hostname,
                    hc_errno_text(error), remedy(app, path, step, error));
}

static hcomm_status_t start_rank(struct hc_launch *launch, struct starter *starter, struct hc_rank *rank)
{
    const struct hc_app *app = &launch->options->apps[rank->app_index];
    struct hc_spawn spawn = {
        .path = starter->path,
        .argv = app->argv,
        .wdir = app->wdir,
        .cpus = rank->cpus,
        .signals = launch->signals,
        .files = launch->files,
    };
    hcomm_status_t status = hc_pmix_set_environment(launch->pmix, rank->rank, &starter->environment);
    if (status != HCOMM_OK)
        return status;
    spawn.env = starter->environment.list;
    status = hc_iof_open_rank(&launch->iof, launch->options, rank->rank, &spawn.stdio);
    if (status != HCOMM_OK)
        return status;
    struct hc_spawn_failure failure;
    status = hc_spawn_process(&spawn, &rank->pid, &failure);
    hc_iof_close_child(&spawn.stdio);
    if (status != HCOMM_OK)
        return cannot_start(launch, app, starter->path, failure.step, failure.error);
    rank->state = HC_RANK_RUNNING;
    hc_log_info("rank %u: pid %d, %s", rank->rank, (int)rank->pid, starter->path);
    return HCOMM_OK;
}

static hcomm_status_t start_app(struct hc_launch *launch, const struct hc_app *app)
{
    struct starter starter = {0};
    int error = 0;
    hcomm_status_t status = hc_environment_init(&starter.environment, app);
    if (status != HCOMM_OK)
        return status;
    status = hc_environment_guide_open_mpi(&starter.environment,
                                           launch->job.num_ranks > hc_map_processors(launch->map));
    if (status == HCOMM_OK)
        status = hc_spawn_find(app->argv[0], app->wdir, starter.environment.list, &starter.path, &error);
    if (status == HCOMM_ERR_IO)
        status = cannot_start(launch, app, NULL, "execute", error);
    for (uint32_t i = 0; status == HCOMM_OK && i < (uint32_t)app->count; i++)
        status = start_rank(launch, &starter, &launch->job.ranks[app->first_rank + i]);
    free(starter.path);
    hc_environment_fini(&starter.environment);
    return status;
}

/* Functions of libpmix have frames of more than 128 KiB; with less than this the server dies in them. */
static hcomm_status_t check_stack(void)
{
    struct rlimit stack = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_STACK, &stack);
    if (stack.rlim_cur >= STACK_MIN)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_LIMIT, "the stack is limited to %llu KiB, PMIx needs %d; raise it (ulimit -s)",
                    (unsigned long long)stack.rlim_cur / 1024, STACK_MIN / 1024);
}

hcomm_status_t hc_start_raise_limits(struct hc_launch *launch)
{
    hcomm_status_t status = check_stack();
    if (status != HCOMM_OK)
        return status;
    uint32_t ranks = launch->options->num_ranks;
    uint64_t needed = OWN_FILES + (uint64_t)FILES_PER_RANK * ranks;
    launch->files = (struct rlimit){.rlim_cur = 1024, .rlim_max = 1024};
    (void)getrlimit(RLIMIT_NOFILE, &launch->files);
    struct rlimit raised = {.rlim_cur = launch->files.rlim_max, .rlim_max = launch->files.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &raised);
    if (raised.rlim_max >= needed)
        return HCOMM_OK;
    return hc_error(
        HCOMM_ERR_LIMIT,
        "%u ranks need at least %llu open files, the limit is %llu; raise it (ulimit -Hn) or start "
        "fewer ranks (-n)",
        ranks, (unsigned long long)needed, (unsigned long long)raised.rlim_max);
}

hcomm_status_t hc_start_ranks(struct hc_launch *launch)
{
    launch->oom_kills = hc_oom_kills();
    for (size_t i = 0; i < launch->options->num_apps; i++) {
        hcomm_status_t status = start_app(launch, &launch->options->apps[i]);
        if (status != HCOMM_OK)
            return status;
    }
    if (launch->options->settings.timeout > 0)
        hc_loop_timer_start(&launch->loop, &launch->timeout,
                            hc_clock_ns() +
                                (uint64_t)launch->options->settings.timeout * UINT64_C(1000000000));
    return hc_feed_start(&launch->iof.feed);
}
