#include "runtime/base/settings.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { COLOUR_RED, COLOUR_BLUE };

struct values {
    int number;
    size_t size, power;
    int colour, light;
    const char *text;
};

static const char *const colours[] = {"red", "blue", NULL};

static const char *const switches[] = {"off", "on", NULL};

static const struct hc_setting settings[] = {
    {.name = "number",
     .type = HC_SETTING_INT,
     .offset = offsetof(struct values, number),
     .min = 1,
     .max = 10,
     .def = 4,
     .has_special = true,
     .special = -1,
     .special_text = "never",
     .help = "a number"},
    {.name = "size",
     .type = HC_SETTING_SIZE,
     .offset = offsetof(struct values, size),
     .min = 0,
     .max = INT64_C(1) << 40,
     .def = 4096,
     .help = "a size"},
    {.name = "power",
     .type = HC_SETTING_SIZE,
     .offset = offsetof(struct values, power),
     .min = 8,
     .max = 1024,
     .def = 64,
     .power_of_two = true,
     .help = "a power of two"},
    {.name = "colour",
     .type = HC_SETTING_ENUM,
     .offset = offsetof(struct values, colour),
     .choices = colours,
     .def = COLOUR_BLUE,
     .help = "a colour"},
    {.name = "text", .type = HC_SETTING_STRING, .offset = offsetof(struct values, text), .help = "a text"},
    {.name = "light",
     .type = HC_SETTING_ENUM,
     .offset = offsetof(struct values, light),
     .choices = switches,
     .help = "on or off"},
};

static const struct hc_setting_table table = {
    .prefix = "UNITTEST_", .settings = settings, .count = hc_array_len(settings)};

enum { NUMBER, SIZE, POWER, COLOUR, TEXT, LIGHT };

static hcomm_status_t set(int index, const char *text, struct values *values)
{
    return hc_config_set_text(&settings[index], "here", text, values);
}

Test(config, defaults_are_the_tables)
{
    struct values values;
    enum hc_setting_origin origins[hc_array_len(settings)];
    (void)memset(&values, 0x55, sizeof(values));
    hc_config_defaults(&table, &values, origins);
    cr_assert_eq(values.number, 4);
    cr_assert_eq(values.size, 4096);
    cr_assert_eq(values.colour, COLOUR_BLUE);
    cr_assert_null(values.text);
    for (size_t i = 0; i < hc_array_len(origins); i++)
        cr_assert_eq(origins[i], HC_ORIGIN_DEFAULT);
}

Test(config, sizes_take_suffixes_of_1024)
{
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {
        {"0", 0},           {"17", 17},    {"1k", 1024},   {"3K", 3072},      {"2m", 2097152},
        {"1G", 1073741824}, {"1KB", 1024}, {"2KiB", 2048}, {"8mib", 8388608}, {"512gB", 549755813888},
    };
    struct values values = {0};
    for (size_t i = 0; i < hc_array_len(cases); i++) {
        cr_assert_eq(set(SIZE, cases[i].text, &values), HCOMM_OK, "%s", cases[i].text);
        cr_assert_eq(values.size, cases[i].size, "%s", cases[i].text);
    }
}

Test(config, malformed_numbers_are_refused_and_leave_the_value)
{
    static const char *const texts[] = {"",
                                        " 1",
                                        "1 ",
                                        "one",
                                        "1x",
                                        "0x10",
                                        "1KK",
                                        "1Kx",
                                        "1.5",
                                        "1e3",
                                        "K",
                                        "-",
                                        "99999999999999999999",
                                        "9223372036854775807G"};
    struct values values = {.size = 77};
    for (size_t i = 0; i < hc_array_len(texts); i++) {
        cr_assert_eq(set(SIZE, texts[i], &values), HCOMM_ERR_CONFIG, "'%s'", texts[i]);
        cr_assert_eq(values.size, 77);
    }
}

Test(config, suffixes_are_for_sizes_only)
{
    struct values values = {.number = 2};
    cr_assert_eq(set(NUMBER, "1K", &values), HCOMM_ERR_CONFIG);
    cr_assert_eq(values.number, 2);
}

Test(config, ranges_are_inclusive_and_named_in_the_error)
{
    struct values values = {0};
    cr_assert_eq(set(NUMBER, "1", &values), HCOMM_OK);
    cr_assert_eq(set(NUMBER, "10", &values), HCOMM_OK);
    cr_assert_eq(set(NUMBER, "11", &values), HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), "here") && strstr(hc_error_detail(), "11"), "%s", hc_error_detail());
    cr_assert(strstr(hc_error_detail(), "1..10") && strstr(hc_error_detail(), "-1 (never)"), "%s",
              hc_error_detail());
    cr_assert_eq(set(NUMBER, "0", &values), HCOMM_ERR_CONFIG);
    cr_assert_eq(values.number, 10);
}

Test(config, special_value_outside_the_range_is_legal)
{
    struct values values = {0};
    cr_assert_eq(set(NUMBER, "-1", &values), HCOMM_OK);
    cr_assert_eq(values.number, -1);
    cr_assert_eq(set(NUMBER, "-2", &values), HCOMM_ERR_CONFIG);
}

Test(config, on_and_off_have_other_words)
{
    static const char *const words[][5] = {{"off", "0", "no", "FALSE", "n"}, {"On", "1", "Yes", "true", "Y"}};
    struct values values = {0};
    for (int light = 0; light < 2; light++) {
        for (size_t i = 0; i < hc_array_len(words[light]); i++) {
            values.light = !light;
            cr_assert_eq(set(LIGHT, words[light][i], &values), HCOMM_OK, "%s", words[light][i]);
            cr_assert_eq(values.light, light, "%s", words[light][i]);
        }
    }
    cr_assert_eq(set(LIGHT, "2", &values), HCOMM_ERR_CONFIG);
    cr_assert_eq(set(LIGHT, "", &values), HCOMM_ERR_CONFIG);
    cr_assert_eq(set(COLOUR, "1", &values), HCOMM_ERR_CONFIG, "a word of another setting");
}

Test(config, powers_of_two_only_where_asked)
{
    struct values values = {0};
    cr_assert_eq(set(POWER, "128", &values), HCOMM_OK);
    cr_assert_eq(set(POWER, "1K", &values), HCOMM_OK);
    cr_assert_eq(set(POWER, "96", &values), HCOMM_ERR_CONFIG);
    cr_assert_eq(values.power, 1024);
}

Test(config, choices_ignore_case_and_unknown_ones_list_the_known)
{
    struct values values = {.colour = COLOUR_BLUE};
    cr_assert_eq(set(COLOUR, "RED", &values), HCOMM_OK);
    cr_assert_eq(values.colour, COLOUR_RED);
    cr_assert_eq(set(COLOUR, "green", &values), HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), "red | blue"), "%s", hc_error_detail());
}

Test(config, empty_string_means_none)
{
    struct values values = {.text = "old"};
    cr_assert_eq(set(TEXT, "", &values), HCOMM_OK);
    cr_assert_null(values.text);
}

Test(config, numbers_by_call_are_checked_like_texts)
{
    struct values values = {0};
    cr_assert_eq(hc_config_set_number(&settings[NUMBER], "field", 10, &values), HCOMM_OK);
    cr_assert_eq(hc_config_set_number(&settings[NUMBER], "field", 11, &values), HCOMM_ERR_CONFIG);
    cr_assert_eq(hc_config_set_number(&settings[COLOUR], "field", 2, &values), HCOMM_ERR_CONFIG);
    cr_assert_eq(hc_config_set_number(&settings[COLOUR], "field", -1, &values), HCOMM_ERR_CONFIG);
    cr_assert_eq(hc_config_set_number(&settings[SIZE], "field", -1, &values), HCOMM_ERR_CONFIG);
}

Test(config, environment_overrides_defaults_and_is_the_origin)
{
    struct values values;
    enum hc_setting_origin origins[hc_array_len(settings)];
    (void)setenv("UNITTEST_NUMBER", "7", 1);
    (void)setenv("UNITTEST_TEXT", "a b=c", 1);
    hc_config_defaults(&table, &values, origins);
    cr_assert_eq(hc_config_read_environment(&table, &values, origins), HCOMM_OK);
    cr_assert_eq(values.number, 7);
    cr_assert_str_eq(values.text, "a b=c");
    cr_assert_eq(origins[NUMBER], HC_ORIGIN_ENVIRONMENT);
    cr_assert_eq(origins[SIZE], HC_ORIGIN_DEFAULT);
}

Test(config, bad_environment_names_the_variable)
{
    struct values values;
    (void)setenv("UNITTEST_SIZE", "lots", 1);
    hc_config_defaults(&table, &values, NULL);
    cr_assert_eq(hc_config_read_environment(&table, &values, NULL), HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), "UNITTEST_SIZE") && strstr(hc_error_detail(), "lots"), "%s",
              hc_error_detail());
}

Test(config, formats_read_back_as_the_same_value)
{
    struct values values, again = {0};
    char text[64];
    hc_config_defaults(&table, &values, NULL);
    values.size = 12345;
    values.text = "word";
    for (size_t i = 0; i < hc_array_len(settings); i++)
        cr_assert_eq(set((int)i, strdup(hc_config_format(&settings[i], &values, text, sizeof(text))), &again),
                     HCOMM_OK);
    cr_assert_eq(again.number, values.number);
    cr_assert_eq(again.size, values.size);
    cr_assert_eq(again.colour, values.colour);
    cr_assert_str_eq(again.text, values.text);
}

Test(config, long_formats_are_cut_not_overrun)
{
    struct values values = {.text = "0123456789"};
    char text[6] = "xxxxx";
    (void)hc_config_format(&settings[TEXT], &values, text, 4);
    cr_assert_str_eq(text, "012");
    (void)hc_config_format_range(&settings[COLOUR], text, 4);
    cr_assert_eq(strlen(text), 3);
    (void)hc_config_format_range(&settings[NUMBER], text, 4);
    cr_assert_eq(strlen(text), 3);
}

Test(settings, every_default_is_legal_and_every_setting_has_a_help_line)
{
    struct hc_settings values;
    char text[64];
    hc_config_defaults(&hc_settings_table, &values, NULL);
    for (size_t i = 0; i < hc_settings_table.count; i++) {
        const struct hc_setting *setting = &hc_settings_table.settings[i];
        (void)hc_config_format_default(setting, text, sizeof(text));
        cr_assert_eq(hc_config_set_text(setting, setting->name, text, &values), HCOMM_OK, "%s",
                     hc_error_detail());
        cr_assert(setting->help && *setting->help && !strchr(setting->help, '\n'), "%s", setting->name);
        cr_assert_eq(hc_config_find(&hc_settings_table, setting->name), setting, "%s twice", setting->name);
    }
}

Test(settings, zeroed_config_is_all_defaults_and_exports_explicitly)
{
    hcomm_config_t zeroed = {0}, shown;
    struct hc_settings values, again;
    cr_assert_eq(hc_settings_load(&zeroed, &values, NULL), HCOMM_OK, "%s", hc_error_detail());
    cr_assert_eq(values.retry_count, 3);
    cr_assert_eq(values.device_id, -1);
    hc_settings_export(&values, &shown);
    cr_assert_eq(shown.bandwidth_limit, HCOMM_BANDWIDTH_UNLIMITED);
    cr_assert_eq(shown.device_id, HCOMM_DEVICE_NONE);
    cr_assert_eq(hc_settings_load(&shown, &again, NULL), HCOMM_OK, "%s", hc_error_detail());
    cr_assert_eq(again.timeout_ms, values.timeout_ms);
    cr_assert_eq(again.retry_count, values.retry_count);
    cr_assert_eq(again.mode, values.mode);
    cr_assert_eq(again.device_id, values.device_id);
}

Test(settings, call_wins_over_environment_and_explicit_zeros_count)
{
    struct hc_settings values;
    enum hc_setting_origin origins[HC_SETTING_COUNT_MAX];
    hcomm_config_t config = {.retry_count = HCOMM_RETRY_NONE, .device_id = HCOMM_DEVICE(0), .num_qp = 2};
    (void)setenv("HCOMM_RETRY_COUNT", "5", 1);
    (void)setenv("HCOMM_NUM_QP", "9", 1);
    (void)setenv("HCOMM_TIMEOUT_MS", "2000", 1);
    cr_assert_eq(hc_settings_load(&config, &values, origins), HCOMM_OK, "%s", hc_error_detail());
    cr_assert_eq(values.retry_count, 0);
    cr_assert_eq(values.device_id, 0);
    cr_assert_eq(values.num_qp, 2);
    cr_assert_eq(values.timeout_ms, 2000);
    const struct hc_setting *retry = hc_config_find(&hc_settings_table, "retry_count");
    cr_assert_eq(origins[retry - hc_settings_table.settings], HC_ORIGIN_CALL);
}

Test(settings, copied_texts_outlive_what_they_were_made_of)
{
    char interface[] = "eth0";
    struct hc_settings values;
    const hcomm_config_t config = {.net_if = interface};
    cr_assert_eq(setenv("HCOMM_TRANSPORTS", "shm", 1), 0);
    cr_assert_eq(hc_settings_load(&config, &values, NULL), HCOMM_OK, "%s", hc_error_detail());
    const char *of_environment = values.transports;
    cr_assert_eq(hc_settings_copy_texts(&values), HCOMM_OK);
    (void)strcpy(interface, "lo");
    cr_assert_str_eq(values.net_if, "eth0");
    cr_assert_neq(values.transports, of_environment);
    cr_assert_str_eq(values.transports, "shm");
    hc_settings_free_texts(&values);
}

Test(settings, out_of_range_fields_name_field_value_and_range)
{
    struct hc_settings values;
    hcomm_config_t config = {.num_qp = 33};
    cr_assert_eq(hc_settings_load(&config, &values, NULL), HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), "hcomm_config_t.num_qp"), "%s", hc_error_detail());
    cr_assert(strstr(hc_error_detail(), "33") && strstr(hc_error_detail(), "1..32"), "%s", hc_error_detail());
}

Test(settings, unzeroed_reserved_fields_are_refused)
{
    struct hc_settings values;
    hcomm_config_t config = {.reserved = {[3] = 1}};
    cr_assert_eq(hc_settings_load(&config, &values, NULL), HCOMM_ERR_CONFIG);
    cr_assert(strstr(hc_error_detail(), "reserved[3]"), "%s", hc_error_detail());
}
