/*
 * Print the table of settings in the form of docs/man/hcomm_settings.5.scd (scdoc), from the table that the
 * library itself uses.
 */
#include "runtime/base/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Characters that scdoc would take for markup. */
static void print_escaped(const char *text)
{
    for (const char *c = text; *c; c++) {
        if (strchr("\\*_[#<~", *c))
            putchar('\\');
        putchar(*c);
    }
}

static void print_variable(const struct hc_setting_table *table, const struct hc_setting *setting)
{
    printf("*%s", table->prefix);
    for (const char *c = setting->name; *c; c++)
        putchar(toupper((unsigned char)*c));
    putchar('*');
}

static void print_setting(const struct hc_setting_table *table, const struct hc_setting *setting)
{
    char text[256];
    print_variable(table, setting);
    printf(" (%s)\n\t", hc_setting_type_name(setting->type));
    print_escaped(setting->help);
    printf(".++\nLegal: ");
    print_escaped(hc_config_format_range(setting, text, sizeof(text)));
    hc_config_format_default(setting, text, sizeof(text));
    printf(". Default: ");
    print_escaped(*text ? text : "empty");
    printf(".\n\n");
}

int main(void)
{
    for (size_t i = 0; i < hc_settings_table.count; i++)
        print_setting(&hc_settings_table, &hc_settings_table.settings[i]);
    return fflush(stdout) == 0 ? 0 : 1;
}
