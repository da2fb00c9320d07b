/*
 * The command line of hcomm_perf. Every option is declared once, in the table; reading and --help walk it.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hcomm_perf.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT_MAX = 1000000000, WINDOW_MAX = 65536, QUEUE_MAX = 10000000, TRANSPORTS_LENGTH_MAX = 255 };
static const size_t size_limit = (size_t)1 << 40;
static const double seconds_max = 3600.0;

/* Takes an option's word (NULL where there is none); NULL on success, else what is wrong and how to mend it.
 */
typedef const char *(*apply_fn)(struct perf_options *options, const char *word);

struct option_entry {
    char letter; /* 0: none */
    const char *name;
    const char *argument; /* NULL: none; in [] when it may be missing */
    const char *help;
    apply_fn apply;
};

unsigned perf_rank_hint(void)
{
    const char *text = getenv("PMIX_RANK");
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

/* One line, from rank 0 only: all ranks read the same command line. */
__attribute__((format(printf, 1, 2))) static int usage_error(const char *format, ...)
{
    if (perf_rank_hint() != 0) {
        (void)sleep(PERF_AFTER_RANK_0_S);
        return PERF_EXIT_USAGE;
    }
    va_list arguments;
    (void)fputs("hcomm_perf: ", stderr);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputs("; hcomm_perf --help lists all\n", stderr);
    return PERF_EXIT_USAGE;
}

/* A count of bytes up to most, with K, M or G for the powers of 1024; false when it is none. */
static bool read_size(const char *text, size_t length, size_t most, size_t *size)
{
    static const char units[] = "KMG";
    unsigned long long value = 0;
    size_t i = 0;
    for (; i < length && isdigit((unsigned char)text[i]); i++) {
        value = value * 10 + (unsigned)(text[i] - '0');
        if (value > most)
            return false;
    }
    if (i == 0)
        return false;
    if (i < length) {
        const char *unit = strchr(units, toupper((unsigned char)text[i]));
        if (!unit || i + 1 != length)
            return false;
        unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (value > most >> shift)
            return false;
        value <<= shift;
    }
    *size = value;
    return value <= most;
}

/* MIN:MAX or one value. */
static bool read_range(const char *word, size_t most, struct perf_range *range)
{
    const char *colon = strchr(word, ':');
    struct perf_range read = {.given = true};
    if (!read_size(word, colon ? (size_t)(colon - word) : strlen(word), most, &read.min))
        return false;
    read.max = read.min;
    if (colon && !read_size(colon + 1, strlen(colon + 1), most, &read.max))
        return false;
    if (read.max < read.min)
        return false;
    *range = read;
    return true;
}

static const char *apply_sizes(struct perf_options *options, const char *word)
{
    return read_range(word, size_limit, &options->sizes) ? NULL : "give bytes as MIN:MAX, like 0:4M or 8";
}

static const char *apply_queue(struct perf_options *options, const char *word)
{
    return read_range(word, QUEUE_MAX, &options->queues) ? NULL : "give lengths as MIN:MAX, like 1:100000";
}

static bool read_count(const char *word, uint64_t least, uint64_t most, uint64_t *count)
{
    size_t value;
    if (!read_size(word, strlen(word), most, &value) || value < least)
        return false;
    *count = value;
    return true;
}

static const char *apply_warmup(struct perf_options *options, const char *word)
{
    options->warmup_given = true;
    return read_count(word, 0, COUNT_MAX, &options->warmup) ? NULL : "give a count of iterations, 0 or more";
}

static const char *apply_iterations(struct perf_options *options, const char *word)
{
    return read_count(word, 1, COUNT_MAX, &options->iterations) ? NULL
                                                                : "give a count of iterations, 1 or more";
}

static const char *apply_seconds(struct perf_options *options, const char *word)
{
    char *end;
    errno = 0;
    double seconds = strtod(word, &end);
    if (end == word || *end || errno || !(seconds > 0) || seconds > seconds_max)
        return "give seconds per measured point, more than 0 and at most 3600";
    options->seconds = seconds;
    return NULL;
}

static const char *apply_window(struct perf_options *options, const char *word)
{
    uint64_t window;
    if (!read_count(word, 1, WINDOW_MAX, &window))
        return "give messages in flight, 1 to 65536";
    options->window = window;
    return NULL;
}

static const char *apply_transports(struct perf_options *options, const char *word)
{
    size_t length = strlen(word);
    bool empty = length == 0 || strchr(",+", word[0]) || strchr(",+", word[length - 1]) ||
                 strstr(word, ",,") || strstr(word, "++") || strstr(word, ",+") || strstr(word, "+,");
    if (empty || length > TRANSPORTS_LENGTH_MAX || word[strcspn(word, "\"\\ \t\n")] != '\0')
        return "name transports as hcomm_info --transports does, like shm,ofi:tcp";
    options->transports = word;
    return NULL;
}

/* Position of the word in a NULL-terminated list; -1 when it is not there. */
static int find_word(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static const char *apply_mode(struct perf_options *options, const char *word)
{
    static const char *const words[] = {"auto", "small", "large", NULL};
    static const hcomm_mode_t modes[] = {HCOMM_MODE_AUTO, HCOMM_MODE_SMALL_MSG, HCOMM_MODE_LARGE_MSG};
    int i = find_word(words, word);
    if (i < 0)
        return "choose auto, small or large";
    options->mode = modes[i];
    return NULL;
}

static const char *apply_thread(struct perf_options *options, const char *word)
{
    static const char *const words[] = {"off", "on", "both", NULL};
    static const enum perf_thread threads[] = {PERF_THREAD_OFF, PERF_THREAD_ON, PERF_THREAD_BOTH};
    int i = find_word(words, word);
    if (i < 0)
        return "choose off, on or both";
    options->thread = threads[i];
    return NULL;
}

static const char *apply_memory(struct perf_options *options, const char *word)
{
    int i = find_word(perf_memory_names, word);
    if (i < 0)
        return "choose malloc, hcomm or device";
    options->memory = (enum perf_memory)i;
    return NULL;
}

static const char *apply_compute(struct perf_options *options, const char *word)
{
    bool cpu = strncmp(word, "cpu", 3) == 0, device = strncmp(word, "device", 6) == 0;
    const char *times = word + (device ? 6 : cpu ? 3 : 0);
    char *end = NULL;
    options->device_computes = device;
    options->compute_times = *times == ':' ? strtod(times + 1, &end) : 1;
    bool known = (cpu || device) && (*times == '\0' || (end && end != times + 1 && *end == '\0'));
    return known && options->compute_times > 0 && options->compute_times <= 1000
               ? NULL
               : "choose cpu or device, and perhaps how many times the transfer, like device:2";
}

static const char *apply_footprint(struct perf_options *options, const char *word)
{
    return read_size(word, strlen(word), size_limit, &options->footprint) ? NULL : "give bytes, like 256M";
}

static const char *apply_pin(struct perf_options *options, const char *word)
{
    options->pin = true;
    options->pin_list = word;
    if (word && perf_options_processor(word, 0) < 0)
        return "list processors in the order of ranks, like 0,2-5";
    return NULL;
}

static const char *apply_check(struct perf_options *options, const char *word)
{
    (void)word;
    options->check = true;
    return NULL;
}

static const char *choose_format(struct perf_options *options, enum perf_format format)
{
    if (options->format != PERF_FORMAT_TABLE && options->format != format)
        return "choose one of --csv and --json";
    options->format = format;
    return NULL;
}

static const char *apply_csv(struct perf_options *options, const char *word)
{
    (void)word;
    return choose_format(options, PERF_FORMAT_CSV);
}

static const char *apply_json(struct perf_options *options, const char *word)
{
    (void)word;
    return choose_format(options, PERF_FORMAT_JSON);
}

static const char *apply_plot(struct perf_options *options, const char *word)
{
    options->plot = word;
    return *word && !strchr(word, '\n') ? NULL : "name a file to write";
}

static const struct option_entry entries[] = {
    {'s', "sizes", "MIN:MAX", "bytes per message, doubling from MIN; one value for one size", apply_sizes},
    {'w', "warmup", "N", "iterations before the clock starts (100 up to 8 KiB, 10 above)", apply_warmup},
    {'i', "iterations", "N", "measured iterations per point (10000 up to 8 KiB, 1000 above)", apply_iterations},
    {'T', "seconds", "S", "measure each point for about S seconds instead", apply_seconds},
    {'W', "window", "N", "messages in flight in bandwidth and rate tests (64)", apply_window},
    {'t', "transports", "LIST", "one after another, like shm,ofi:tcp; '+' joins those used together",
     apply_transports},
    {0, "mode", "MODE", "auto, small (gather small messages) or large (no eager messages)", apply_mode},
    {0, "progress-thread", "WHEN", "off, on or both; by default off, and both for overlap", apply_thread},
    {0, "memory", "KIND", "malloc (pages of the system), hcomm (hcomm_alloc_host_mem) or device",
     apply_memory},
    {0, "compute", "WHERE[:X]", "overlap: on the cpu or, while that is free, a device; X times the transfer",
     apply_compute},
    {0, "footprint", "BYTES", "walk through that many bytes, so that caches do not hold the data",
     apply_footprint},
    {0, "queue", "MIN:MAX", "queue lengths of match_*, times ten from MIN (1:100000)", apply_queue},
    {0, "pin", "[LIST]", "one processor per rank: those of --pin=LIST, or the allowed ones in order",
     apply_pin},
    {0, "check", NULL, "verify the data: before and after measuring, and of an exchange beside it",
     apply_check},
    {0, "csv", NULL, "print comma-separated values, one measure per line", apply_csv},
    {0, "json", NULL, "print one JSON array of points", apply_json},
    {0, "plot", "FILE", "draw the points into FILE, an SVG image (needs gnuplot)", apply_plot},
};
enum { NUM_ENTRIES = sizeof(entries) / sizeof(entries[0]) };

static void print_help(void)
{
    (void)puts("Usage: hcommrun -n N hcomm_perf [OPTION…] TEST…\n\nTests (all: every one that fits):");
    for (size_t i = 0; perf_tests[i]; i++)
        (void)printf("  %-18s %s\n", perf_tests[i]->name, perf_tests[i]->help);
    (void)puts("\nOptions (sizes take K, M, G):");
    for (size_t i = 0; i < NUM_ENTRIES; i++) {
        const struct option_entry *entry = &entries[i];
        bool optional = entry->argument && *entry->argument == '[';
        char text[64];
        (void)snprintf(text, sizeof(text), "--%s%s%s", entry->name,
                       !entry->argument ? ""
                       : optional       ? "[=LIST]"
                                        : " ",
                       entry->argument && !optional ? entry->argument : "");
        (void)printf("  %c%c%c %-22s %s\n", entry->letter ? '-' : ' ', entry->letter ? entry->letter : ' ',
                     entry->letter ? ',' : ' ', text, entry->help);
    }
    (void)printf("  -h, %-22s %s\n  -V, %-22s %s\n", "--help", "print this text", "--version",
                 "print the version");
}

static void print_version(void)
{
    int major, minor, patch;
    hcomm_version(&major, &minor, &patch);
    (void)printf("hcomm_perf (hcomm) %d.%d.%d\n", major, minor, patch);
}

/* Processor number `index` of the list, or -1 and their number in *count when there are fewer; the number
 * alone is -1 for a malformed list. */
static int walk_list(const char *list, unsigned index, unsigned *count)
{
    *count = 0;
    while (*list) {
        char *end;
        if (!isdigit((unsigned char)*list))
            return -1;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if ((*end != ',' && *end != '\0') || last < first || last > 1023)
            return *count = 0, -1;
        if (index < *count + (last - first) + 1)
            return (int)(first + (index - *count));
        *count += (unsigned)(last - first) + 1;
        list = *end ? end + 1 : end;
    }
    return -1;
}

int perf_options_processor(const char *list, unsigned index)
{
    unsigned count;
    int processor = walk_list(list, index, &count);
    if (processor < 0 && count > 0)
        processor = walk_list(list, index % count, &count);
    return processor;
}

/* getopt's view of the table; values from 256 up are positions in it. */
static void describe(struct option *options, char *letters)
{
    *letters++ = ':'; /* a missing word is reported apart from an unknown option */
    for (size_t i = 0; i < NUM_ENTRIES; i++) {
        int argument = !entries[i].argument          ? no_argument
                       : *entries[i].argument == '[' ? optional_argument
                                                     : required_argument;
        *options++ = (struct option){entries[i].name, argument, NULL, (int)(256 + i)};
        if (entries[i].letter) {
            *letters++ = entries[i].letter;
            *letters++ = ':'; /* every option with a letter takes a word */
        }
    }
    *options++ = (struct option){"help", no_argument, NULL, 'h'};
    *options++ = (struct option){"version", no_argument, NULL, 'V'};
    *options = (struct option){NULL, 0, NULL, 0};
    *letters++ = 'h';
    *letters++ = 'V';
    *letters = '\0';
}

static const struct option_entry *entry_of(int value)
{
    for (size_t i = 0; i < NUM_ENTRIES; i++)
        if (value == (int)(256 + i) || (entries[i].letter && value == entries[i].letter))
            return &entries[i];
    return NULL;
}

static int read_options(int argc, char **argv, struct perf_options *options)
{
    struct option long_options[NUM_ENTRIES + 3];
    char letters[2 * NUM_ENTRIES + 4];
    int value;
    describe(long_options, letters);
    opterr = 0;
    while ((value = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        if (value == 'h')
            return print_help(), -1;
        if (value == 'V')
            return print_version(), -1;
        if (value == ':')
            return usage_error("option '%s' wants a word after it", argv[optind - 1]);
        const struct option_entry *entry = entry_of(value);
        if (!entry)
            return usage_error("option '%s' is unknown, cut too short, or takes no word", argv[optind - 1]);
        const char *complaint = entry->apply(options, optarg);
        if (complaint && !optarg)
            return usage_error("--%s: %s", entry->name, complaint);
        if (complaint)
            return usage_error("--%s: '%s' does not fit: %s", entry->name, optarg, complaint);
    }
    if (options->iterations && options->seconds > 0)
        return usage_error("choose one of --iterations and --seconds");
    return PERF_EXIT_OK;
}

static const struct perf_test *find_test(const char *name)
{
    for (size_t i = 0; perf_tests[i]; i++)
        if (strcmp(perf_tests[i]->name, name) == 0)
            return perf_tests[i];
    return NULL;
}

static int read_tests(int argc, char **argv, struct perf_options *options)
{
    if (optind == argc)
        return usage_error("no test is named");
    for (int i = optind; i < argc; i++) {
        bool all = strcmp(argv[i], "all") == 0;
        options->all = options->all || all;
        for (size_t k = 0; all && perf_tests[k] && options->num_tests < PERF_TESTS_MAX; k++)
            options->tests[options->num_tests++] = perf_tests[k];
        if (all)
            continue;
        const struct perf_test *test = find_test(argv[i]);
        if (!test)
            return usage_error("there is no test '%s'", argv[i]);
        if (options->num_tests == PERF_TESTS_MAX)
            return usage_error("more than %d tests are named", PERF_TESTS_MAX);
        options->tests[options->num_tests++] = test;
    }
    return PERF_EXIT_OK;
}

int perf_options_read(int argc, char **argv, struct perf_options *options)
{
    *options = (struct perf_options){.window = 64, .compute_times = 1, .queues = {.min = 1, .max = 100000}};
    int code = read_options(argc, argv, options);
    return code == PERF_EXIT_OK ? read_tests(argc, argv, options) : code;
}
