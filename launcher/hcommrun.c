/* hcommrun: start a job's ranks on this host. */
#include "launcher/environment.h"
#include "launcher/guard.h"
#include "launcher/launch.h"
#include "launcher/options.h"
#include "launcher/session.h"
#include "launcher/slurm.h"
#include "runtime/base/log.h"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* Descriptors 0, 1 and 2 must be taken before any other is opened, or pipes would land there. */
static void fill_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = dup(fd);
    if (fd > STDERR_FILENO)
        (void)close(fd);
}

static int run_job(const struct hc_options *options)
{
    struct hc_session *session = NULL;
    if (hc_session_allocate(&session) != HCOMM_OK) {
        hc_log_error("%s", hc_error_detail());
        return HC_EXIT_LAUNCHER;
    }
    struct hc_launch_context context = {.options = options, .session = session};
    int code = hc_guard_run(session, hc_launch_serve, &context);
    hc_session_free(session);
    return code;
}

/* Exit code after text went to standard output: a full disk must not look like success. */
static int end_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    hc_log_error("cannot write standard output: %s", hc_errno_text(errno));
    return HC_EXIT_LAUNCHER;
}

static int act(const struct hc_options *options)
{
    switch (options->action) {
    case HC_RUN_HELP:
        hc_options_print_help(stdout);
        return end_output();
    case HC_RUN_VERSION:
        (void)printf("hcommrun %s\n", PACKAGE_VERSION);
        return end_output();
    case HC_RUN_JOB:
        break;
    }
    if (hc_slurm_owns_nodes()) {
        (void)hc_slurm_hand_over(options); /* returns only when it fails */
        hc_log_error("%s", hc_error_detail());
        return HC_EXIT_LAUNCHER;
    }
    hc_environment_clean();
    return run_job(options);
}

int main(int argc, char **argv)
{
    (void)argc;
    struct hc_options options;
    fill_standard_descriptors();
    hc_log_set_name("hcommrun");
    if (hc_options_parse(argv, &options) != HCOMM_OK) {
        hc_log_error("%s", hc_error_detail());
        return HC_EXIT_LAUNCHER;
    }
    if (options.settings.verbose)
        hc_log_set_level(HC_LOG_INFO);
    hc_config_warn_unknown(&hc_run_settings_table);
    int code = act(&options);
    hc_options_fini(&options);
    return code;
}
