/* The hand-over to srun in allocations of several nodes. */
#include "launcher/slurm.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static void expect_command(char *const *words, const char *expected)
{
    struct hc_options options;
    char **command = NULL;
    char line[1024] = "";
    cr_assert_eq(hc_options_parse(words, &options), HCOMM_OK);
    cr_assert_eq(hc_slurm_command(&options, &command), HCOMM_OK);
    for (char **word = command; *word; word++) {
        (void)strncat(line, word == command ? "" : "|", sizeof(line) - strlen(line) - 1);
        (void)strncat(line, *word, sizeof(line) - strlen(line) - 1);
    }
    cr_assert_str_eq(line, expected);
    hc_slurm_command_free(command);
    hc_options_fini(&options);
}

Test(launcher_slurm, only_allocations_of_several_nodes_are_handed_over)
{
    cr_assert_not(hc_slurm_owns_nodes());
    cr_assert_eq(setenv("SLURM_JOB_ID", "7", 1), 0);
    cr_assert_not(hc_slurm_owns_nodes());
    cr_assert_eq(setenv("SLURM_NNODES", "1", 1), 0);
    cr_assert_not(hc_slurm_owns_nodes());
    cr_assert_eq(setenv("SLURM_NNODES", "2", 1), 0);
    cr_assert(hc_slurm_owns_nodes());
}

Test(launcher_slurm, command_starts_the_ranks_through_pmix)
{
    expect_command((char *[]){"hcommrun", "-n", "4", "prog", "a b", NULL},
                   "srun|--mpi=pmix|-n|4|--cpu-bind=none|--input=0|--kill-on-bad-exit=1|prog|a b");
}

Test(launcher_slurm, options_are_translated)
{
    expect_command(
        (char *[]){"hcommrun", "-n",     "4",       "--bind-to", "core",         "--report-bindings",
                   "--map-by", "socket", "--stdin", "all",       "--tag-output", "--output-dir",
                   "d",        "--wdir", "/w",      "--timeout", "90",           "--on-failure",
                   "continue", "prog",   NULL},
        "srun|--mpi=pmix|-n|4|--distribution=block:cyclic|--cpu-bind=verbose,cores|--label|"
        "--output=d/rank.%t.out|--error=d/rank.%t.err|--chdir=/w|--time=1:30|--kill-on-bad-exit=0|prog");
}

Test(launcher_slurm, several_programs_are_refused_in_words)
{
    struct hc_options options;
    char **command = NULL;
    cr_assert_eq(hc_options_parse((char *[]){"hcommrun", "a", ":", "b", NULL}, &options), HCOMM_OK);
    cr_assert_eq(hc_slurm_command(&options, &command), HCOMM_ERR_UNSUPPORTED);
    cr_assert(strstr(hc_error_detail(), "--multi-prog"));
    hc_options_fini(&options);
}
