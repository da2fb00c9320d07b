#include "runtime/base/settings.h"

#include "tests/unit/capture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void warn(void *arg)
{
    (void)arg;
    hc_config_warn_unknown(&hc_settings_table);
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

Test(config_unknown, misspelt_variable_gets_one_warning_with_the_nearest_name)
{
    char text[4096];
    (void)setenv("HCOMM_TIMOUT_MS", "5000", 1);
    capture_stderr(warn, NULL, text, sizeof(text));
    cr_assert(strstr(text, "HCOMM_TIMOUT_MS") && strstr(text, "did you mean HCOMM_TIMEOUT_MS?"), "%s", text);
    cr_assert_eq(count_lines(text), 1, "%s", text);
    capture_stderr(warn, NULL, text, sizeof(text));
    cr_assert_str_empty(text, "warned a second time: %s", text);
}

Test(config_unknown, far_name_gets_no_suggestion)
{
    char text[4096];
    (void)setenv("HCOMM_COFFEE_WITH_MILK", "1", 1);
    (void)setenv("HCOMM_XYZ", "1", 1); /* three changes make HCOMM_NPU of it, and any other name as short */
    capture_stderr(warn, NULL, text, sizeof(text));
    cr_assert(strstr(text, "HCOMM_COFFEE_WITH_MILK") && strstr(text, "HCOMM_XYZ"), "%s", text);
    cr_assert_not(strstr(text, "did you mean"), "%s", text);
}

Test(config_unknown, known_and_foreign_variables_are_left_alone)
{
    char text[4096];
    (void)setenv("HCOMM_NUM_QP", "4", 1);
    (void)setenv("HCOMMRUN_SOMETHING", "1", 1);
    (void)setenv("XHCOMM_NUM", "1", 1);
    capture_stderr(warn, NULL, text, sizeof(text));
    cr_assert_str_empty(text, "%s", text);
}

Test(config_unknown, endless_name_is_survived)
{
    char name[1000], text[4096];
    (void)memset(name, 'A', sizeof(name) - 1);
    (void)memcpy(name, "HCOMM_", 6);
    name[sizeof(name) - 1] = '\0';
    (void)setenv(name, "1", 1);
    capture_stderr(warn, NULL, text, sizeof(text));
    cr_assert_eq(count_lines(text), 1, "%s", text);
}
