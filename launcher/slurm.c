#include "launcher/slurm.h"

#include "runtime/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool hc_slurm_owns_nodes(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    if (!nodes)
        nodes = getenv("SLURM_NNODES");
    return job && *job && nodes && strtol(nodes, NULL, 10) > 1;
}

struct command {
    char **words;
    size_t count;
    bool failed;
};

static void add(struct command *command, const char *format, ...) HC_PRINTF(2, 3);

static void add(struct command *command, const char *format, ...)
{
    char *word = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&word, format, args);
    va_end(args);
    char **grown = length < 0 ? NULL : realloc(command->words, (command->count + 2) * sizeof(*grown));
    if (!grown) {
        if (length >= 0)
            free(word);
        command->failed = true;
        return;
    }
    command->words = grown;
    command->words[command->count++] = word;
    command->words[command->count] = NULL;
}

static void add_placement(struct command *command, const struct hc_run_settings *settings)
{
    static const char *const distributions[] = {
        [HC_MAP_BY_SLOT] = NULL,
        [HC_MAP_BY_CORE] = "block:block",
        [HC_MAP_BY_NUMA] = "block:cyclic",
        [HC_MAP_BY_SOCKET] = "block:cyclic",
    };
    static const char *const bindings[] = {
        [HC_BIND_TO_NONE] = "none",
        [HC_BIND_TO_CORE] = "cores",
        [HC_BIND_TO_NUMA] = "ldoms",
        [HC_BIND_TO_SOCKET] = "sockets",
    };
    if (distributions[settings->map_by])
        add(command, "--distribution=%s", distributions[settings->map_by]);
    add(command, "--cpu-bind=%s%s", settings->report_bindings ? "verbose," : "", bindings[settings->bind_to]);
    if (settings->oversubscribe)
        add(command, "--overcommit");
}

static void add_streams(struct command *command, const struct hc_options *options)
{
    const struct hc_run_settings *settings = &options->settings;
    if (options->stdin_rank == HC_STDIN_NONE)
        add(command, "--input=none");
    else if (options->stdin_rank != HC_STDIN_ALL) /* all is srun's default */
        add(command, "--input=%d", options->stdin_rank);
    if (settings->tag_output)
        add(command, "--label");
    if (settings->output_dir) {
        add(command, "--output=%s/rank.%%t.out", settings->output_dir);
        add(command, "--error=%s/rank.%%t.err", settings->output_dir);
    }
}

static void fill(struct command *command, const struct hc_options *options)
{
    const struct hc_app *app = &options->apps[0];
    const struct hc_run_settings *settings = &options->settings;
    add(command, "srun");
    add(command, "--mpi=pmix");
    add(command, "-n");
    add(command, "%d", app->count);
    add_placement(command, settings);
    add_streams(command, options);
    if (app->wdir)
        add(command, "--chdir=%s", app->wdir);
    if (settings->timeout > 0)
        add(command, "--time=%d:%02d", settings->timeout / 60, settings->timeout % 60);
    add(command, "--kill-on-bad-exit=%d", settings->on_failure == HC_ON_FAILURE_ABORT);
    if (settings->verbose)
        add(command, "--verbose");
    for (char **word = app->argv; *word; word++)
        add(command, "%s", *word);
}

void hc_slurm_command_free(char **words)
{
    for (char **word = words; word && *word; word++)
        free(*word);
    free(words);
}

hcomm_status_t hc_slurm_command(const struct hc_options *options, char ***words)
{
    struct command command = {0};
    if (options->num_apps != 1)
        return hc_error(
            HCOMM_ERR_UNSUPPORTED,
            "several programs with '%s' do not work in a Slurm allocation of several nodes; use srun "
            "--mpi=pmix --multi-prog",
            options->settings.separator);
    fill(&command, options);
    if (command.failed) {
        hc_slurm_command_free(command.words);
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the srun command line");
    }
    *words = command.words;
    return HCOMM_OK;
}

/* srun passes its own environment on: no quoting, so any value is safe. */
static void export_variables(const struct hc_app *app)
{
    for (size_t i = 0; i < app->num_exports; i++) {
        const char *equals = strchr(app->exports[i], '=');
        char *name = equals ? strndup(app->exports[i], (size_t)(equals - app->exports[i])) : NULL;
        if (name)
            (void)setenv(name, equals + 1, 1);
        free(name);
    }
}

hcomm_status_t hc_slurm_hand_over(const struct hc_options *options)
{
    char **words = NULL;
    hcomm_status_t status = hc_slurm_command(options, &words);
    if (status != HCOMM_OK)
        return status;
    export_variables(&options->apps[0]);
    hc_log_info("Slurm allocation of several nodes: handing over to srun --mpi=pmix");
    (void)execvp(words[0], words);
    int error = errno;
    hc_slurm_command_free(words);
    return hc_error(HCOMM_ERR_IO, "cannot execute srun, which starts jobs in a Slurm allocation: %s",
                    hc_errno_text(error));
}
