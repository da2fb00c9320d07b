/*
 * Command line and environment of hcommrun. Every setting is declared once, in hc_run_settings_table: the
 * environment reader (HCOMMRUN_*), the command line parser and --help all walk that table and the table of
 * option spellings beside it. Parsing stops at the first word that is not an option: the program's own
 * arguments are never looked at, except for the separator between programs.
 */
#ifndef HC_LAUNCHER_OPTIONS_H
#define HC_LAUNCHER_OPTIONS_H

#include "runtime/base/config.h"

#include <stdio.h>

enum hc_map_by { HC_MAP_BY_SLOT, HC_MAP_BY_CORE, HC_MAP_BY_NUMA, HC_MAP_BY_SOCKET };
enum hc_bind_to { HC_BIND_TO_NONE, HC_BIND_TO_CORE, HC_BIND_TO_NUMA, HC_BIND_TO_SOCKET };
enum hc_on_failure { HC_ON_FAILURE_ABORT, HC_ON_FAILURE_CONTINUE };
enum hc_run_action { HC_RUN_JOB, HC_RUN_HELP, HC_RUN_VERSION };

/* Ranks that receive hcommrun's standard input: a rank number, or one of these. */
enum { HC_STDIN_NONE = -1, HC_STDIN_ALL = -2 };

/* Exit codes of hcommrun for failures that are not a rank's (the convention of env(1) and timeout(1)). */
enum {
    HC_EXIT_TIMEOUT = 124,   /* --timeout passed */
    HC_EXIT_LAUNCHER = 125,  /* hcommrun itself failed, or was called wrongly */
    HC_EXIT_NOT_EXEC = 126,  /* a program exists but cannot be executed */
    HC_EXIT_NOT_FOUND = 127, /* a program does not exist */
};

/* Values of the table. Strings belong to the environment or to argv. */
struct hc_run_settings {
    int n; /* ranks of one program */
    int map_by;
    int bind_to;
    int report_bindings;
    const char *wdir; /* NULL: stay */
    const char *stdin_to;
    int tag_output;
    const char *output_dir; /* NULL: none */
    int timeout;            /* s, 0 = none */
    int grace;              /* ms */
    int on_failure;
    int oversubscribe; /* on: the user knows, no warning */
    int verbose;
    const char *separator; /* NULL: none, one program only */
};

extern const struct hc_setting_table hc_run_settings_table;

/* One program of the job (one of several with ':'). */
struct hc_app {
    int count;            /* ranks */
    uint32_t first_rank;  /* lowest rank running it */
    const char *wdir;     /* NULL: hcommrun's own */
    const char **exports; /* -x words, NAME or NAME=VALUE, in order; array owned, words borrowed */
    size_t num_exports;
    char **argv; /* NULL-terminated; array owned, words borrowed */
};

struct hc_options {
    enum hc_run_action action;
    struct hc_run_settings settings; /* of the job as a whole; n and wdir are per program */
    int stdin_rank;                  /* checked form of settings.stdin_to */
    struct hc_app *apps;
    size_t num_apps;
    uint32_t num_ranks;
};

/*
 * Read environment and command line. On an error HCOMM_ERR_CONFIG with one line of detail that names the
 * word, and nothing is allocated. argv must outlive *options. When help or version is asked for, apps may be
 * empty.
 */
hcomm_status_t hc_options_parse(char *const *argv, struct hc_options *options) HC_MUST_CHECK;
void hc_options_fini(struct hc_options *options);

/* Print --help, generated from the tables. */
void hc_options_print_help(FILE *out);

#endif
