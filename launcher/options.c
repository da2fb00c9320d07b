#include "launcher/options.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 65536 }; /* PMIx numbers the ranks of a host with 16 bits */

static const char *const switch_names[] = {"off", "on", NULL};
static const char *const map_names[] = {"slot", "core", "numa", "socket", NULL};
static const char *const bind_names[] = {"none", "core", "numa", "socket", NULL};
static const char *const failure_names[] = {"abort", "continue", NULL};

#define AT(field) .name = #field, .offset = offsetof(struct hc_run_settings, field)

static const struct hc_setting settings[] = {
    {AT(n), .type = HC_SETTING_INT, .min = 1, .max = MAX_RANKS, .def = 1, .help = "ranks of the program"},
    {AT(map_by), .type = HC_SETTING_ENUM, .choices = map_names,
     .help = "where consecutive ranks go: the next free core (slot, core), or the next NUMA node or socket"},
    {AT(bind_to), .type = HC_SETTING_ENUM, .choices = bind_names,
     .help = "what a rank may run on: everything allowed, or the core, NUMA node or socket of its place"},
    {AT(report_bindings), .type = HC_SETTING_ENUM, .choices = switch_names,
     .help = "print the processors that each rank may run on"},
    {AT(wdir), .type = HC_SETTING_STRING, .help = "working directory of the program"},
    {.name = "stdin",
     .offset = offsetof(struct hc_run_settings, stdin_to), /* stdin is a macro */
     .type = HC_SETTING_STRING,
     .def_text = "0",
     .help = "rank that receives standard input: a number, none, or all"},
    {AT(tag_output), .type = HC_SETTING_ENUM, .choices = switch_names,
     .help = "start every output line with [rank@host]"},
    {AT(output_dir), .type = HC_SETTING_STRING,
     .help = "write each rank's output to DIR/rank.N.out and DIR/rank.N.err instead"},
    {AT(timeout), .type = HC_SETTING_INT, .min = 0, .max = 31536000,
     .help = "seconds after which the job is ended with exit code 124; 0 is never"},
    {AT(grace), .type = HC_SETTING_INT, .min = 0, .max = 600000, .def = 2000,
     .help = "milliseconds that ranks get between the steps INT, TERM and KILL when the job is ended"},
    {AT(on_failure), .type = HC_SETTING_ENUM, .choices = failure_names,
     .help = "when a rank fails: abort ends the job, continue leaves the other ranks running"},
    {AT(oversubscribe), .type = HC_SETTING_ENUM, .choices = switch_names,
     .help = "more ranks than processors are intended: no warning"},
    {AT(verbose), .type = HC_SETTING_ENUM, .choices = switch_names, .help = "print what happens"},
    {AT(separator), .type = HC_SETTING_STRING, .def_text = ":",
     .help = "the word between programs, for programs that take a lone ':' as argument"},
};

const struct hc_setting_table hc_run_settings_table = {
    .prefix = "HCOMMRUN_",
    .settings = settings,
    .count = hc_array_len(settings),
};

enum option_scope {
    SCOPE_JOB,
    SCOPE_PROGRAM,
    SCOPE_EXPORT,
    SCOPE_HELP,
    SCOPE_VERSION,
};

/* A spelling of an option. */
struct option {
    const char *names[3];
    enum option_scope scope;
    const char *setting;     /* JOB, PROGRAM */
    const char *flag_value;  /* text that the bare option sets; NULL: the next word is the value */
    const char *placeholder; /* of the value */
    const char *help;        /* where no setting has it */
};

static const struct option option_table[] = {
    {{"-n", "-np", "--np"}, SCOPE_PROGRAM, "n", NULL, "N", NULL},
    {{"-x"}, SCOPE_EXPORT, NULL, NULL, "NAME[=VALUE]", "set an environment variable for the program"},
    {{"--wdir"}, SCOPE_PROGRAM, "wdir", NULL, "DIR", NULL},
    {{"--map-by"}, SCOPE_JOB, "map_by", NULL, "OBJECT", NULL},
    {{"--bind-to"}, SCOPE_JOB, "bind_to", NULL, "OBJECT", NULL},
    {{"--report-bindings"}, SCOPE_JOB, "report_bindings", "on", NULL, NULL},
    {{"--oversubscribe"}, SCOPE_JOB, "oversubscribe", "on", NULL, NULL},
    {{"--stdin"}, SCOPE_JOB, "stdin", NULL, "RANK", NULL},
    {{"--tag-output"}, SCOPE_JOB, "tag_output", "on", NULL, NULL},
    {{"--output-dir"}, SCOPE_JOB, "output_dir", NULL, "DIR", NULL},
    {{"--timeout"}, SCOPE_JOB, "timeout", NULL, "SEC", NULL},
    {{"--grace"}, SCOPE_JOB, "grace", NULL, "MS", NULL},
    {{"--on-failure"}, SCOPE_JOB, "on_failure", NULL, "ACTION", NULL},
    {{"--separator"}, SCOPE_JOB, "separator", NULL, "WORD", NULL},
    {{"-v", "--verbose"}, SCOPE_JOB, "verbose", "on", NULL, NULL},
    {{"-V", "--version"}, SCOPE_VERSION, NULL, "", NULL, "print the version"},
    {{"-h", "--help"}, SCOPE_HELP, NULL, "", NULL, "print this text"},
};

struct parser {
    char *const *words; /* the next word to read */
    struct hc_options *options;
    struct hc_run_settings defaults; /* n and wdir that every program starts with */
    bool count_given;                /* -n, for the program that is being read */
};

/* Whether `word` is `name`, `name=value`, or -n with the number behind it; sets *value in the last two. */
static bool spells(const char *word, const char *name, const char **value)
{
    size_t length = strlen(name);
    if (strncmp(word, name, length) != 0)
        return false;
    if (word[length] == '\0')
        return true;
    if (strcmp(name, "-n") == 0 && isdigit((unsigned char)word[length])) {
        *value = word + length;
        return true;
    }
    if (word[length] != '=' || name[1] != '-')
        return false;
    *value = word + length + 1;
    return true;
}

static const struct option *find_option(const char *word, const char **value)
{
    for (size_t i = 0; i < hc_array_len(option_table); i++)
        for (size_t j = 0; j < hc_array_len(option_table[i].names) && option_table[i].names[j]; j++)
            if (spells(word, option_table[i].names[j], value))
                return &option_table[i];
    return NULL;
}

#define ONE_HOST "hcommrun starts jobs on this host; for several use srun --mpi=pmix or Open MPI's mpirun"
#define ALL_HERE "all ranks run on this host; their number is -n N"
#define VARIABLE "use -x NAME=VALUE"
#define OPEN_MPI "it is Open MPI's and has no counterpart; settings are variables HCOMM_*, which -x exports"

/* What users of other launchers try first. Long names stand for those with one dash, too. */
static const struct {
    const char *word;
    const char *remedy;
} foreign_options[] = {
    {"--host", ONE_HOST},
    {"--hosts", ONE_HOST},
    {"--hostfile", ONE_HOST},
    {"--machinefile", ONE_HOST},
    {"-H", ONE_HOST},
    {"-f", ONE_HOST},
    {"--ppn", ALL_HERE},
    {"--npernode", ALL_HERE},
    {"-c", "the number of ranks is -n N"},
    {"-l", "lines get the rank that wrote them by --tag-output"},
    {"--genv", VARIABLE},
    {"--env", VARIABLE},
    {"--mca", OPEN_MPI},
    {"--allow-run-as-root", "hcommrun needs no such option"},
};

/* The word without what follows "=", for looking it up. */
struct bare_word {
    char text[64];
};

static struct bare_word without_value(const char *word)
{
    struct bare_word bare;
    (void)snprintf(bare.text, sizeof(bare.text), "%.*s", (int)strcspn(word, "="), word);
    return bare;
}

static const char *foreign_remedy(const char *word)
{
    for (size_t i = 0; i < hc_array_len(foreign_options); i++) {
        const char *foreign = foreign_options[i].word;
        if (strcmp(word, foreign) == 0 || (foreign[1] == '-' && strcmp(word, foreign + 1) == 0))
            return foreign_options[i].remedy;
    }
    return NULL;
}

/* The name of an option that the word is nearest to, NULL if it is near to none. */
static const char *nearest_option(const char *word)
{
    const char *nearest = NULL;
    int best = 4;
    for (size_t i = 0; i < hc_array_len(option_table); i++) {
        for (size_t j = 0; j < hc_array_len(option_table[i].names) && option_table[i].names[j]; j++) {
            int distance = hc_config_edit_distance(word, option_table[i].names[j]);
            if (distance < best && (size_t)distance + 1 < strlen(word)) {
                best = distance;
                nearest = option_table[i].names[j];
            }
        }
    }
    return nearest;
}

static hcomm_status_t unknown_option(const char *word)
{
    const char *value = NULL;
    struct bare_word bare = without_value(word);
    const struct option *option = find_option(bare.text, &value);
    if (option && !option->flag_value)
        return hc_error(HCOMM_ERR_CONFIG, "unknown option '%s': write %s %s", word, bare.text,
                        word + strlen(bare.text) + 1);
    const char *remedy = foreign_remedy(bare.text);
    if (remedy)
        return hc_error(HCOMM_ERR_CONFIG, "unknown option '%s': %s; hcommrun --help lists the options", word,
                        remedy);
    const char *nearest = nearest_option(bare.text);
    return hc_error(HCOMM_ERR_CONFIG, "unknown option '%s'%s%s; hcommrun --help lists the options", word,
                    nearest ? "; did you mean " : "", nearest ? nearest : "");
}

static hcomm_status_t no_memory(void)
{
    return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the command line");
}

/* Append to a heap array; NULL when memory is exhausted, the array then stays as it was. */
static void *append(void *array, size_t count, size_t size, const void *element)
{
    char *grown = realloc(array, (count + 1) * size);
    if (grown)
        (void)memcpy(grown + count * size, element, size);
    return grown;
}

static hcomm_status_t add_export(struct hc_app *app, const char *word)
{
    if (*word == '\0' || *word == '=')
        return hc_error(HCOMM_ERR_CONFIG, "-x: '%s' has no variable name; use NAME or NAME=VALUE", word);
    void *grown = append(app->exports, app->num_exports, sizeof(word), &word);
    if (!grown)
        return no_memory();
    app->exports = grown;
    app->num_exports++;
    return HCOMM_OK;
}

static hcomm_status_t set_for_program(struct parser *parser, const struct hc_setting *setting,
                                      const char *where, const char *value, struct hc_app *app)
{
    struct hc_run_settings own = parser->defaults;
    bool is_count = setting->offset == offsetof(struct hc_run_settings, n);
    if (is_count && parser->count_given)
        return hc_error(HCOMM_ERR_CONFIG, "%s is given twice for one program ('%s')", where, value);
    hcomm_status_t status = hc_config_set_text(setting, where, value, &own);
    if (status != HCOMM_OK)
        return status;
    if (is_count)
        app->count = own.n;
    else
        app->wdir = own.wdir;
    parser->count_given = parser->count_given || is_count;
    return HCOMM_OK;
}

static hcomm_status_t apply_option(struct parser *parser, const struct option *option, const char *value,
                                   struct hc_app *app)
{
    const struct hc_setting *setting =
        option->setting ? hc_config_find(&hc_run_settings_table, option->setting) : NULL;
    switch (option->scope) {
    case SCOPE_JOB:
        return hc_config_set_text(setting, option->names[0], value, &parser->options->settings);
    case SCOPE_PROGRAM:
        return set_for_program(parser, setting, option->names[0], value, app);
    case SCOPE_EXPORT:
        return add_export(app, value);
    case SCOPE_HELP:
        parser->options->action = HC_RUN_HELP;
        return HCOMM_OK;
    case SCOPE_VERSION:
        parser->options->action = HC_RUN_VERSION;
        return HCOMM_OK;
    }
    return hc_error(HCOMM_ERR_INTERNAL, "option %s has no scope", option->names[0]);
}

static hcomm_status_t parse_option(struct parser *parser, struct hc_app *app)
{
    const char *word = *parser->words++;
    const char *value = NULL;
    const struct option *option = find_option(word, &value);
    if (!option)
        return unknown_option(word);
    if (option->flag_value && value)
        return hc_error(HCOMM_ERR_CONFIG, "%s takes no value ('%s')", option->names[0], word);
    if (option->flag_value)
        value = option->flag_value;
    else if (!value && *parser->words)
        value = *parser->words++;
    if (!value)
        return hc_error(HCOMM_ERR_CONFIG, "%s needs a value: %s %s", word, word, option->placeholder);
    return apply_option(parser, option, value, app);
}

static bool at_separator(const struct parser *parser)
{
    const char *separator = parser->options->settings.separator;
    return separator && *parser->words && strcmp(*parser->words, separator) == 0;
}

/* The program and its arguments, up to the separator. */
static hcomm_status_t take_words(struct parser *parser, struct hc_app *app)
{
    size_t count = 0;
    char *const *first = parser->words;
    while (*parser->words && !at_separator(parser)) {
        parser->words++;
        count++;
    }
    if (count == 0 || **first == '\0')
        return hc_error(HCOMM_ERR_CONFIG, "no program to run; use: hcommrun [options] program [arguments]");
    app->argv = calloc(count + 1, sizeof(*app->argv));
    if (!app->argv)
        return no_memory();
    (void)memcpy(app->argv, first, count * sizeof(*app->argv));
    return HCOMM_OK;
}

static void app_fini(struct hc_app *app)
{
    free(app->exports);
    free(app->argv);
}

static hcomm_status_t parse_app(struct parser *parser, struct hc_app *app)
{
    *app = (struct hc_app){.count = parser->defaults.n, .wdir = parser->defaults.wdir};
    parser->count_given = false;
    while (*parser->words && (*parser->words)[0] == '-' && parser->options->action == HC_RUN_JOB) {
        if (strcmp(*parser->words, "--") == 0) {
            parser->words++;
            break;
        }
        hcomm_status_t status = parse_option(parser, app);
        if (status != HCOMM_OK)
            return status;
    }
    return parser->options->action == HC_RUN_JOB ? take_words(parser, app) : HCOMM_OK;
}

static hcomm_status_t add_app(struct hc_options *options, struct hc_app *app)
{
    if (options->num_ranks + (uint32_t)app->count > MAX_RANKS)
        return hc_error(HCOMM_ERR_CONFIG, "-n: more than %d ranks in all; PMIx numbers no more on one host",
                        MAX_RANKS);
    app->first_rank = options->num_ranks;
    void *grown = append(options->apps, options->num_apps, sizeof(*app), app);
    if (!grown)
        return no_memory();
    options->apps = grown;
    options->num_apps++;
    options->num_ranks += (uint32_t)app->count;
    return HCOMM_OK;
}

static hcomm_status_t parse_programs(struct parser *parser)
{
    bool more = true;
    while (more) {
        struct hc_app app;
        hcomm_status_t status = parse_app(parser, &app);
        if (status == HCOMM_OK && parser->options->action == HC_RUN_JOB)
            status = add_app(parser->options, &app);
        else if (status == HCOMM_OK) {
            app_fini(&app);
            return HCOMM_OK;
        }
        if (status != HCOMM_OK) {
            app_fini(&app);
            return status;
        }
        more = at_separator(parser);
        if (more)
            parser->words++;
    }
    return HCOMM_OK;
}

static hcomm_status_t check_stdin(struct hc_options *options)
{
    const char *text = options->settings.stdin_to;
    if (!text || strcmp(text, "none") == 0) {
        options->stdin_rank = HC_STDIN_NONE;
        return HCOMM_OK;
    }
    if (strcmp(text, "all") == 0) {
        options->stdin_rank = HC_STDIN_ALL;
        return HCOMM_OK;
    }
    char *end = NULL;
    long rank = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || rank >= (long)options->num_ranks)
        return hc_error(HCOMM_ERR_CONFIG, "--stdin: '%s' is not a rank; use 0..%u, none, or all", text,
                        options->num_ranks - 1);
    options->stdin_rank = (int)rank;
    return HCOMM_OK;
}

static hcomm_status_t parse_all(char *const *argv, struct hc_options *options)
{
    hc_config_defaults(&hc_run_settings_table, &options->settings, NULL);
    hcomm_status_t status = hc_config_read_environment(&hc_run_settings_table, &options->settings, NULL);
    if (status != HCOMM_OK)
        return status;
    struct parser parser = {.words = argv + (argv[0] ? 1 : 0), .options = options};
    parser.defaults = options->settings;
    status = parse_programs(&parser);
    if (status != HCOMM_OK || options->action != HC_RUN_JOB)
        return status;
    return check_stdin(options);
}

hcomm_status_t hc_options_parse(char *const *argv, struct hc_options *options)
{
    struct hc_options parsed = {.action = HC_RUN_JOB};
    hcomm_status_t status = parse_all(argv, &parsed);
    if (status != HCOMM_OK) {
        hc_options_fini(&parsed);
        return status;
    }
    *options = parsed;
    return HCOMM_OK;
}

void hc_options_fini(struct hc_options *options)
{
    for (size_t i = 0; i < options->num_apps; i++)
        app_fini(&options->apps[i]);
    free(options->apps);
    options->apps = NULL;
    options->num_apps = 0;
}

static void print_names(FILE *out, const struct option *option)
{
    (void)fprintf(out, "  ");
    for (size_t i = 0; i < hc_array_len(option->names) && option->names[i]; i++)
        (void)fprintf(out, "%s%s", i ? ", " : "", option->names[i]);
    (void)fprintf(out, "%s%s\n", option->placeholder ? " " : "",
                  option->placeholder ? option->placeholder : "");
}

static void print_option(FILE *out, const struct option *option)
{
    print_names(out, option);
    const struct hc_setting *setting =
        option->setting ? hc_config_find(&hc_run_settings_table, option->setting) : NULL;
    (void)fprintf(out, "      %s", setting ? setting->help : option->help);
    char range[256];
    char def[64];
    if (setting && !option->flag_value && setting->type != HC_SETTING_STRING)
        (void)fprintf(out, "; %s", hc_config_format_range(setting, range, sizeof(range)));
    if (setting && !option->flag_value && *hc_config_format_default(setting, def, sizeof(def)))
        (void)fprintf(out, " (default %s)", def);
    (void)fprintf(out, "\n");
}

void hc_options_print_help(FILE *out)
{
    (void)fprintf(out, "usage: hcommrun [options] program [arguments] [: [options] program [arguments]]...\n"
                       "Start the ranks of a job on this host and serve them as their PMIx server.\n\n");
    for (size_t i = 0; i < hc_array_len(option_table); i++)
        print_option(out, &option_table[i]);
    (void)fprintf(
        out,
        "\nOptions end at the first word that is not one, or at '--'. -n, -x and --wdir belong to the "
        "program\n"
        "that follows, the others to the job. The environment variable HCOMMRUN_NAME gives the default of\n"
        "the option --name (HCOMMRUN_MAP_BY=core, HCOMMRUN_STDIN=none, HCOMMRUN_GRACE=500).\n"
        "Exit code: that of the first rank that failed, 128+N when signal N ended it; 124 after --timeout,\n"
        "125 when hcommrun itself failed, 126 or 127 when a program cannot be executed or found.\n");
}
