/*
 * Typed settings: one const table declares every setting of a program with type, range, default and help;
 * values live in a plain structure at the table's offsets. Readers of the environment, of calls, and printers
 * all walk the table. Not thread-safe; values are constant once a program has started.
 */
#ifndef HC_CONFIG_H
#define HC_CONFIG_H

#include "runtime/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum hc_setting_type {
    HC_SETTING_INT,    /* int */
    HC_SETTING_SIZE,   /* size_t; text accepts the suffixes K, M, G (powers of 1024) */
    HC_SETTING_ENUM,   /* int, index into choices */
    HC_SETTING_STRING, /* const char *, NULL when empty; owned by whoever set it */
};

enum hc_setting_origin { HC_ORIGIN_DEFAULT, HC_ORIGIN_ENVIRONMENT, HC_ORIGIN_CALL };

struct hc_setting {
    const char *name; /* lower case; in the environment PREFIX + upper case */
    enum hc_setting_type type;
    size_t offset;     /* of the value in the structure */
    int64_t min, max;  /* INT, SIZE: legal range, inclusive */
    int64_t def;       /* INT, SIZE, ENUM */
    bool has_special;  /* INT, SIZE: `special` is legal too, though outside the range */
    bool power_of_two; /* INT, SIZE: only powers of two */
    int64_t special;   /* its value, and what it means */
    const char *special_text;
    const char *def_text;       /* STRING: default, may be NULL */
    const char *const *choices; /* ENUM: NULL-terminated names */
    const char *help;           /* one line */
};

struct hc_setting_table {
    const char *prefix; /* of environment variables, e.g. "HCOMM_" */
    const struct hc_setting *settings;
    size_t count;
};

/* Fill `values` with the defaults; origins (count entries) may be NULL. */
void hc_config_defaults(const struct hc_setting_table *table, void *values, enum hc_setting_origin *origins);

/*
 * Read every known variable from the environment. The first bad value ends it: HCOMM_ERR_CONFIG, the detail
 * names the variable, its value, and the legal range. Strings point into the environment.
 */
hcomm_status_t hc_config_read_environment(const struct hc_setting_table *table, void *values,
                                          enum hc_setting_origin *origins) HC_MUST_CHECK;

/* Parse and check one value given as text by `where` (named in the error). The string is kept, not copied. */
hcomm_status_t hc_config_set_text(const struct hc_setting *setting, const char *where, const char *text,
                                  void *values) HC_MUST_CHECK;

/* Check and store one number (INT, SIZE, ENUM) given by a call. */
hcomm_status_t hc_config_set_number(const struct hc_setting *setting, const char *where, int64_t number,
                                    void *values) HC_MUST_CHECK;

/* Write the value as text into buf (cut at size); returns buf. */
const char *hc_config_format(const struct hc_setting *setting, const void *values, char *buf, size_t size);
/* Write the default as text into buf; returns buf. */
const char *hc_config_format_default(const struct hc_setting *setting, char *buf, size_t size);
/* Write the legal values in words into buf; returns buf. */
const char *hc_config_format_range(const struct hc_setting *setting, char *buf, size_t size);

const char *hc_setting_type_name(enum hc_setting_type type);
const char *hc_setting_origin_name(enum hc_setting_origin origin);

/* The setting called `name` (lower case), or NULL. */
const struct hc_setting *hc_config_find(const struct hc_setting_table *table, const char *name);

/* Levenshtein's edit distance; names longer than a variable name may be count as far away. For suggestions. */
int hc_config_edit_distance(const char *a, const char *b);

/*
 * Warn once per process about each environment variable that starts with the table's prefix and is not in it,
 * with the nearest known name where one is near (Levenshtein distance at most 3).
 */
void hc_config_warn_unknown(const struct hc_setting_table *table);

#endif
