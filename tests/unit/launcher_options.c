/* The command line of hcommrun: programs, where options end, and errors that name the word. */
#include "launcher/options.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static hcomm_status_t parse(struct hc_options *options, char *const *words)
{
    *options = (struct hc_options){0};
    return hc_options_parse(words, options);
}

#define PARSE(options, ...) parse(options, (char *[]){"hcommrun", __VA_ARGS__ __VA_OPT__(, ) NULL})

static void expect_error(hcomm_status_t status, const char *words)
{
    cr_assert_eq(status, HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), words), "'%s' not in '%s'", words, hc_error_detail());
    cr_assert_null(strchr(hc_error_detail(), '\n'));
}

Test(launcher_options, parsing_stops_at_the_program)
{
    struct hc_options options;
    cr_assert_eq(PARSE(&options, "-n", "3", "prog", "-n", "9", "--help", "-x"), HCOMM_OK);
    cr_assert_eq(options.num_apps, 1);
    cr_assert_eq(options.apps[0].count, 3);
    static const char *const expected[] = {"prog", "-n", "9", "--help", "-x"};
    for (size_t i = 0; i < 5; i++)
        cr_assert_str_eq(options.apps[0].argv[i], expected[i]);
    cr_assert_null(options.apps[0].argv[5]);
    hc_options_fini(&options);
}

Test(launcher_options, double_dash_ends_options)
{
    struct hc_options options;
    cr_assert_eq(PARSE(&options, "-n", "2", "--", "-weird-name"), HCOMM_OK);
    cr_assert_str_eq(options.apps[0].argv[0], "-weird-name");
    hc_options_fini(&options);
}

Test(launcher_options, values_follow_as_word_or_after_equals)
{
    struct hc_options options;
    cr_assert_eq(PARSE(&options, "--map-by", "numa", "--bind-to=socket", "--output-dir=a=b", "prog"),
                 HCOMM_OK);
    cr_assert_eq(options.settings.map_by, HC_MAP_BY_NUMA);
    cr_assert_eq(options.settings.bind_to, HC_BIND_TO_SOCKET);
    cr_assert_str_eq(options.settings.output_dir, "a=b");
    hc_options_fini(&options);
}

Test(launcher_options, programs_have_their_own_counts_directories_and_variables)
{
    struct hc_options options;
    cr_assert_eq(PARSE(&options, "-n", "2", "-x", "A=1", "a", "x", ":", "--wdir", "/tmp", "-np", "3", "b"),
                 HCOMM_OK);
    cr_assert_eq(options.num_apps, 2);
    cr_assert_eq(options.num_ranks, 5);
    cr_assert_eq(options.apps[0].num_exports, 1);
    cr_assert_str_eq(options.apps[0].exports[0], "A=1");
    cr_assert_null(options.apps[0].wdir);
    cr_assert_eq(options.apps[1].count, 3);
    cr_assert_eq(options.apps[1].first_rank, 2);
    cr_assert_eq(options.apps[1].num_exports, 0);
    cr_assert_str_eq(options.apps[1].wdir, "/tmp");
    hc_options_fini(&options);
}

Test(launcher_options, separator_can_be_changed_or_switched_off)
{
    struct hc_options options;
    cr_assert_eq(PARSE(&options, "--separator", "++", "a", ":", "++", "b"), HCOMM_OK);
    cr_assert_eq(options.num_apps, 2);
    cr_assert_str_eq(options.apps[0].argv[1], ":");
    hc_options_fini(&options);
    cr_assert_eq(PARSE(&options, "--separator", "", "a", ":", "b"), HCOMM_OK);
    cr_assert_eq(options.num_apps, 1);
    hc_options_fini(&options);
}

Test(launcher_options, standard_input_goes_to_rank_zero_unless_said_otherwise)
{
    struct hc_options options;
    cr_assert_eq(PARSE(&options, "a"), HCOMM_OK);
    cr_assert_eq(options.stdin_rank, 0);
    hc_options_fini(&options);
    cr_assert_eq(PARSE(&options, "--stdin", "none", "a"), HCOMM_OK);
    cr_assert_eq(options.stdin_rank, HC_STDIN_NONE);
    hc_options_fini(&options);
    cr_assert_eq(PARSE(&options, "--stdin", "all", "a"), HCOMM_OK);
    cr_assert_eq(options.stdin_rank, HC_STDIN_ALL);
    hc_options_fini(&options);
    cr_assert_eq(PARSE(&options, "--stdin", "2", "-n", "2", "a", ":", "-n", "1", "b"), HCOMM_OK);
    cr_assert_eq(options.stdin_rank, 2);
    hc_options_fini(&options);
    expect_error(PARSE(&options, "--stdin", "3", "-n", "2", "a", ":", "b"), "'3' is not a rank; use 0..2");
    expect_error(PARSE(&options, "--stdin", "0x0", "a"), "'0x0' is not a rank");
    expect_error(PARSE(&options, "--stdin", "-1", "a"), "'-1' is not a rank");
}

Test(launcher_options, environment_gives_defaults_and_the_command_line_wins)
{
    struct hc_options options;
    cr_assert_eq(setenv("HCOMMRUN_N", "4", 1), 0);
    cr_assert_eq(setenv("HCOMMRUN_MAP_BY", "socket", 1), 0);
    cr_assert_eq(setenv("HCOMMRUN_STDIN", "none", 1), 0);
    cr_assert_eq(PARSE(&options, "--map-by", "core", "a", ":", "-n", "1", "b"), HCOMM_OK);
    cr_assert_eq(options.apps[0].count, 4);
    cr_assert_eq(options.apps[1].count, 1);
    cr_assert_eq(options.settings.map_by, HC_MAP_BY_CORE);
    cr_assert_eq(options.stdin_rank, HC_STDIN_NONE);
    hc_options_fini(&options);
    cr_assert_eq(setenv("HCOMMRUN_N", "0", 1), 0);
    expect_error(PARSE(&options, "a"), "HCOMMRUN_N: '0'");
}

Test(launcher_options, help_and_version_need_no_program)
{
    struct hc_options options;
    cr_assert_eq(PARSE(&options, "--help"), HCOMM_OK);
    cr_assert_eq(options.action, HC_RUN_HELP);
    hc_options_fini(&options);
    cr_assert_eq(PARSE(&options, "-n", "2", "-V"), HCOMM_OK);
    cr_assert_eq(options.action, HC_RUN_VERSION);
    hc_options_fini(&options);
}

Test(launcher_options, every_error_names_its_word)
{
    struct hc_options options;
    expect_error(PARSE(&options, ), "no program");
    expect_error(PARSE(&options, "-n", "2"), "no program");
    expect_error(PARSE(&options, "a", ":"), "no program");
    expect_error(PARSE(&options, ":", "a"), "no program");
    expect_error(PARSE(&options, ""), "no program");
    expect_error(PARSE(&options, "--bind-too", "core", "a"), "did you mean --bind-to");
    expect_error(PARSE(&options, "-Z", "a"), "unknown option '-Z'");
    expect_error(PARSE(&options, "-n=3", "a"), "unknown option '-n=3'");
    expect_error(PARSE(&options, "--timeout"), "--timeout needs a value: --timeout SEC");
    expect_error(PARSE(&options, "-n", "1e3", "a"), "'1e3'");
    expect_error(PARSE(&options, "-n", "70000", "a"), "1..65536");
    expect_error(PARSE(&options, "-n", "65536", "a", ":", "b"), "more than 65536 ranks in all");
    expect_error(PARSE(&options, "--verbose=on", "a"), "takes no value");
    expect_error(PARSE(&options, "-x", "", "a"), "no variable name");
}

Test(launcher_options, help_lists_every_option_with_its_setting)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    cr_assert_not_null(out);
    hc_options_print_help(out);
    cr_assert_eq(fclose(out), 0);
    for (size_t i = 0; i < hc_run_settings_table.count; i++)
        cr_assert(strstr(text, hc_run_settings_table.settings[i].help), "%s",
                  hc_run_settings_table.settings[i].name);
    free(text);
}
