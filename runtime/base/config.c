#include "runtime/base/config.h"

#include "runtime/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

enum { NAME_MAX_BYTES = 96, NEAR_ENOUGH = 3 };

static void store_number(const struct hc_setting *setting, int64_t number, void *values)
{
    void *field = (char *)values + setting->offset;
    if (setting->type == HC_SETTING_SIZE)
        *(size_t *)field = (size_t)number;
    else
        *(int *)field = (int)number;
}

static int64_t load_number(const struct hc_setting *setting, const void *values)
{
    const void *field = (const char *)values + setting->offset;
    if (setting->type == HC_SETTING_SIZE)
        return (int64_t) * (const size_t *)field;
    return *(const int *)field;
}

static void store_string(const struct hc_setting *setting, const char *text, void *values)
{
    const char **field = (const char **)((char *)values + setting->offset);
    *field = text && *text ? text : NULL;
}

void hc_config_defaults(const struct hc_setting_table *table, void *values, enum hc_setting_origin *origins)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct hc_setting *setting = &table->settings[i];
        if (setting->type == HC_SETTING_STRING)
            store_string(setting, setting->def_text, values);
        else
            store_number(setting, setting->def, values);
        if (origins)
            origins[i] = HC_ORIGIN_DEFAULT;
    }
}

static bool in_range(const struct hc_setting *setting, int64_t number)
{
    if (setting->has_special && number == setting->special)
        return true;
    if (number < setting->min || number > setting->max)
        return false;
    return !setting->power_of_two || (number > 0 && (number & (number - 1)) == 0);
}

static hcomm_status_t bad_value(const struct hc_setting *setting, const char *where, const char *text)
{
    char range[256];
    return hc_error(HCOMM_ERR_CONFIG, "%s: '%s' is not a legal value; use %s", where, text,
                    hc_config_format_range(setting, range, sizeof(range)));
}

hcomm_status_t hc_config_set_number(const struct hc_setting *setting, const char *where, int64_t number,
                                    void *values)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    bool legal = false;
    if (setting->type == HC_SETTING_ENUM)
        for (int64_t i = 0; setting->choices[i]; i++)
            legal = legal || i == number;
    else
        legal = in_range(setting, number);
    if (!legal)
        return bad_value(setting, where, text);
    store_number(setting, number, values);
    return HCOMM_OK;
}

static int suffix_shift(const char *suffix)
{
    static const char units[] = "KMG";
    if (!*suffix)
        return 0;
    const char *unit = strchr(units, toupper((unsigned char)*suffix));
    bool binary = suffix[1] == '\0' || strcasecmp(suffix + 1, "B") == 0 || strcasecmp(suffix + 1, "iB") == 0;
    return unit && binary ? 10 * (int)(unit - units + 1) : -1;
}

static bool parse_number(const struct hc_setting *setting, const char *text, int64_t *number)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || isspace((unsigned char)*text) || *text == '+')
        return false;
    int shift = setting->type == HC_SETTING_SIZE ? suffix_shift(end) : (*end ? -1 : 0);
    if (shift < 0 || value > (INT64_MAX >> shift) || value < (INT64_MIN >> shift))
        return false;
    *number = value * (INT64_C(1) << shift);
    return true;
}

/* Which choice of an on/off setting the text means in other words; -1 for none, and for other settings. */
static int other_word(const struct hc_setting *setting, const char *text)
{
    static const char *const words[] = {"0", "1", "no", "yes", "false", "true", "n", "y"};
    const char *const *choices = setting->choices;
    if (strcmp(choices[0], "off") != 0 || !choices[1] || strcmp(choices[1], "on") != 0 || choices[2])
        return -1;
    for (size_t i = 0; i < hc_array_len(words); i++)
        if (strcasecmp(words[i], text) == 0)
            return (int)(i % 2);
    return -1;
}

static hcomm_status_t set_choice(const struct hc_setting *setting, const char *where, const char *text,
                                 void *values)
{
    for (int i = 0; setting->choices[i]; i++) {
        if (strcasecmp(setting->choices[i], text) == 0) {
            store_number(setting, i, values);
            return HCOMM_OK;
        }
    }
    int meant = other_word(setting, text);
    if (meant < 0)
        return bad_value(setting, where, text);
    store_number(setting, meant, values);
    return HCOMM_OK;
}

hcomm_status_t hc_config_set_text(const struct hc_setting *setting, const char *where, const char *text,
                                  void *values)
{
    if (setting->type == HC_SETTING_ENUM)
        return set_choice(setting, where, text, values);
    if (setting->type == HC_SETTING_STRING) {
        store_string(setting, text, values);
        return HCOMM_OK;
    }
    int64_t number = 0;
    if (!parse_number(setting, text, &number) || !in_range(setting, number))
        return bad_value(setting, where, text);
    store_number(setting, number, values);
    return HCOMM_OK;
}

static void variable_name(const struct hc_setting_table *table, const struct hc_setting *setting, char *out)
{
    int used = snprintf(out, NAME_MAX_BYTES, "%s%s", table->prefix, setting->name);
    for (int i = 0; i < used && i < NAME_MAX_BYTES - 1; i++)
        out[i] = (char)toupper((unsigned char)out[i]);
}

hcomm_status_t hc_config_read_environment(const struct hc_setting_table *table, void *values,
                                          enum hc_setting_origin *origins)
{
    for (size_t i = 0; i < table->count; i++) {
        char variable[NAME_MAX_BYTES];
        variable_name(table, &table->settings[i], variable);
        const char *text = getenv(variable);
        if (!text)
            continue;
        hcomm_status_t status = hc_config_set_text(&table->settings[i], variable, text, values);
        if (status != HCOMM_OK)
            return status;
        if (origins)
            origins[i] = HC_ORIGIN_ENVIRONMENT;
    }
    return HCOMM_OK;
}

const char *hc_config_format(const struct hc_setting *setting, const void *values, char *buf, size_t size)
{
    if (setting->type == HC_SETTING_STRING) {
        const char *text = *(const char *const *)((const char *)values + setting->offset);
        (void)snprintf(buf, size, "%s", text ? text : "");
    } else if (setting->type == HC_SETTING_ENUM) {
        (void)snprintf(buf, size, "%s", setting->choices[load_number(setting, values)]);
    } else {
        (void)snprintf(buf, size, "%lld", (long long)load_number(setting, values));
    }
    return buf;
}

const char *hc_config_format_default(const struct hc_setting *setting, char *buf, size_t size)
{
    if (setting->type == HC_SETTING_STRING)
        (void)snprintf(buf, size, "%s", setting->def_text ? setting->def_text : "");
    else if (setting->type == HC_SETTING_ENUM)
        (void)snprintf(buf, size, "%s", setting->choices[setting->def]);
    else
        (void)snprintf(buf, size, "%lld", (long long)setting->def);
    return buf;
}

static void format_choices(const struct hc_setting *setting, char *buf, size_t size)
{
    size_t used = 0;
    for (int i = 0; setting->choices[i] && used < size; i++) {
        int n = snprintf(buf + used, size - used, "%s%s", i ? " | " : "", setting->choices[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

const char *hc_config_format_range(const struct hc_setting *setting, char *buf, size_t size)
{
    if (setting->type == HC_SETTING_STRING) {
        (void)snprintf(buf, size, "text");
    } else if (setting->type == HC_SETTING_ENUM) {
        format_choices(setting, buf, size);
    } else {
        int used = snprintf(buf, size, "%lld..%lld%s%s", (long long)setting->min, (long long)setting->max,
                            setting->type == HC_SETTING_SIZE ? " bytes" : "",
                            setting->power_of_two ? ", a power of two" : "");
        if (setting->has_special && used > 0 && (size_t)used < size)
            (void)snprintf(buf + used, size - (size_t)used, ", or %lld (%s)", (long long)setting->special,
                           setting->special_text);
    }
    return buf;
}

const char *hc_setting_type_name(enum hc_setting_type type)
{
    static const char *const names[] = {
        [HC_SETTING_INT] = "int",
        [HC_SETTING_SIZE] = "size",
        [HC_SETTING_ENUM] = "enum",
        [HC_SETTING_STRING] = "string",
    };
    return names[type];
}

const char *hc_setting_origin_name(enum hc_setting_origin origin)
{
    static const char *const names[] = {
        [HC_ORIGIN_DEFAULT] = "default",
        [HC_ORIGIN_ENVIRONMENT] = "environment",
        [HC_ORIGIN_CALL] = "call",
    };
    return names[origin];
}

const struct hc_setting *hc_config_find(const struct hc_setting_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->settings[i].name, name) == 0)
            return &table->settings[i];
    return NULL;
}

static int min3(int a, int b, int c)
{
    int smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* One row of the matrix is enough. */
int hc_config_edit_distance(const char *a, const char *b)
{
    int row[NAME_MAX_BYTES];
    int len_b = (int)strlen(b);
    if (len_b >= NAME_MAX_BYTES)
        return NAME_MAX_BYTES;
    for (int j = 0; j <= len_b; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= len_b; j++) {
            int above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[len_b];
}

static void warn_one_unknown(const struct hc_setting_table *table, const char *unknown)
{
    char nearest[NAME_MAX_BYTES] = "";
    int own = (int)strlen(unknown + strlen(table->prefix)); /* a name changed throughout is near to none */
    int best = own <= NEAR_ENOUGH ? own : NEAR_ENOUGH + 1;
    for (size_t i = 0; i < table->count; i++) {
        char known[NAME_MAX_BYTES];
        variable_name(table, &table->settings[i], known);
        int distance = hc_config_edit_distance(unknown, known);
        if (distance == 0)
            return;
        if (distance < best) {
            best = distance;
            (void)memcpy(nearest, known, sizeof(nearest));
        }
    }
    if (*nearest)
        hc_log_warn("environment variable %s is unknown and has no effect; did you mean %s?", unknown,
                    nearest);
    else
        hc_log_warn("environment variable %s is unknown and has no effect", unknown);
}

void hc_config_warn_unknown(const struct hc_setting_table *table)
{
    static bool warned;
    size_t prefix_length = strlen(table->prefix);
    if (warned)
        return;
    warned = true;
    for (char **variable = environ; variable && *variable; variable++) {
        const char *equals = strchr(*variable, '=');
        if (!equals || strncmp(*variable, table->prefix, prefix_length) != 0)
            continue;
        char name[NAME_MAX_BYTES];
        (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - *variable), *variable);
        warn_one_unknown(table, name);
    }
}
