/*
 * Values of settings as users write them: refused with a detail, or taken, in range, and reading back the
 * same. fuzz-sources: runtime/base/config.c runtime/base/settings.c runtime/base/status.c runtime/base/log.c
 */
#include "runtime/base/settings.h"

#include "tests/fuzz/fuzz.h"

static void check_taken(const struct hc_setting *setting, const struct hc_settings *values)
{
    struct hc_settings again = *values;
    char text[8192], text_again[8192];
    (void)hc_config_format(setting, values, text, sizeof(text));
    FUZZ_CHECK(hc_config_set_text(setting, "again", text, &again) == HCOMM_OK);
    FUZZ_CHECK(strcmp(text, hc_config_format(setting, &again, text_again, sizeof(text_again))) == 0);
}

static void try_setting(const struct hc_setting *setting, const char *text)
{
    struct hc_settings values = {0}, before;
    hc_config_defaults(&hc_settings_table, &values, NULL);
    before = values;
    if (hc_config_set_text(setting, "HCOMM_FUZZ", text, &values) == HCOMM_OK) {
        check_taken(setting, &values);
    } else {
        FUZZ_CHECK(memcmp(&before, &values, sizeof(values)) == 0);
        FUZZ_CHECK(strncmp(hc_error_detail(), "HCOMM_FUZZ: ", strlen("HCOMM_FUZZ: ")) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_string(data, size);
    for (size_t i = 0; i < hc_settings_table.count; i++)
        try_setting(&hc_settings_table.settings[i], text);
    free(text);
    return 0;
}
