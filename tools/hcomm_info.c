/* hcomm_info: what hcomm is, can and uses on this machine. See hcomm_info(1). */
#include "tools/hcomm_info_sections.h"

#include <hcomm.h>

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2 };

struct section {
    const char *option, *title, *help;
    hcomm_status_t (*fill)(hcomm_handle_t hcomm, struct table *table);
    hcomm_status_t (*print_extra)(hcomm_handle_t hcomm,
                                  FILE *out); /* before the table, in text; may be NULL */
};

static const struct section sections[] = {
    {"version", "Versions", "hcomm, PMIx client and server, hwloc, libfabric", fill_versions, NULL},
    {"config", "Settings", "every setting: type, range, default, current value and where it is from",
     fill_config, NULL},
    {"transports", "Transports", "what can move bytes here, what cannot, and why", fill_transports,
     print_thresholds},
    {"topology", "Topology", "where the ranks of the job run and how they are reached (under hcommrun)",
     fill_topology, print_topology_tree},
    {"devices", "Devices", "NPUs that this process sees, and the library that tells", fill_devices,
     print_device_library},
    {"counters", "Counters", "statistics counters and what they count", fill_counters, NULL},
};
enum { NUM_SECTIONS = sizeof(sections) / sizeof(sections[0]) };

struct options {
    bool chosen[NUM_SECTIONS];
    bool json, help;
};

static void print_help(void)
{
    (void)printf("Usage: hcomm_info [OPTION...]\n"
                 "Tell what hcomm is, can and uses here. Without options: all.\n\n");
    for (size_t i = 0; i < NUM_SECTIONS; i++)
        (void)printf("  --%-12s %s\n", sections[i].option, sections[i].help);
    (void)printf("  --%-12s %s\n", "all", "all of these");
    (void)printf("  --%-12s %s\n", "json", "print JSON instead of tables");
    (void)printf("  --%-12s %s\n", "help", "print this text");
    (void)printf("-V is --version, -h is --help.\n");
    (void)printf("\nUnder a launcher (hcommrun -n 4 hcomm_info --topology) rank 0 prints for all.\n");
}

/* 0: parsed. Otherwise the exit status; the fault is told. */
static int parse_options(int argc, char **argv, struct options *options)
{
    enum { VERSION, ALL = NUM_SECTIONS, JSON, HELP, NUM_OPTIONS };
    struct option table[NUM_OPTIONS + 1] = {
        [ALL] = {"all", no_argument, NULL, ALL},
        [JSON] = {"json", no_argument, NULL, JSON},
        [HELP] = {"help", no_argument, NULL, HELP},
    };
    for (int i = 0; i < NUM_SECTIONS; i++)
        table[i] = (struct option){sections[i].option, no_argument, NULL, i};
    bool any = false;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "+hV", table, NULL)) != -1;) {
        if (option == '?') {
            (void)fprintf(stderr, "hcomm_info: '%s' is not an option; hcomm_info --help lists them\n",
                          argv[optind - 1]);
            return EXIT_USAGE;
        }
        if (option == 'V')
            option = VERSION;
        for (int i = 0; i < NUM_SECTIONS; i++)
            options->chosen[i] = options->chosen[i] || option == i || option == ALL;
        any = any || option <= ALL;
        options->json = options->json || option == JSON;
        options->help = options->help || option == HELP || option == 'h';
    }
    if (optind < argc) {
        (void)fprintf(stderr, "hcomm_info: unexpected argument '%s'; hcomm_info --help lists the options\n",
                      argv[optind]);
        return EXIT_USAGE;
    }
    for (int i = 0; i < NUM_SECTIONS; i++)
        options->chosen[i] = options->chosen[i] || !any;
    return 0;
}

static int count_chosen(const struct options *options)
{
    int count = 0;
    for (int i = 0; i < NUM_SECTIONS; i++)
        count += options->chosen[i];
    return count;
}

static hcomm_status_t print_section_text(hcomm_handle_t hcomm, const struct section *section, bool with_title)
{
    struct table table = {0};
    if (with_title)
        (void)printf("%s\n", section->title);
    hcomm_status_t status = section->print_extra ? section->print_extra(hcomm, stdout) : HCOMM_OK;
    if (status == HCOMM_OK)
        status = section->fill(hcomm, &table);
    if (status == HCOMM_OK && table.num_rows) {
        (void)printf("%s", section->print_extra ? "\n" : "");
        table_print_text(&table, stdout);
    }
    if (with_title)
        (void)printf("\n");
    table_fini(&table);
    return status;
}

static hcomm_status_t print_section_json(hcomm_handle_t hcomm, const struct section *section, bool first)
{
    struct table table = {0};
    hcomm_status_t status = section->fill(hcomm, &table);
    if (status == HCOMM_OK) {
        (void)printf("%s", first ? "{" : ",\n");
        table_print_json(&table, stdout);
    }
    table_fini(&table);
    return status;
}

static hcomm_status_t print_sections(hcomm_handle_t hcomm, const struct options *options)
{
    hcomm_status_t status = HCOMM_OK;
    int chosen = count_chosen(options), printed = 0;
    for (int i = 0; i < NUM_SECTIONS && status == HCOMM_OK; i++) {
        if (!options->chosen[i])
            continue;
        status = options->json ? print_section_json(hcomm, &sections[i], printed == 0)
                               : print_section_text(hcomm, &sections[i], chosen > 1);
        printed++;
    }
    if (options->json && status == HCOMM_OK)
        (void)printf("}\n");
    return status;
}

/* Whether all that was printed has left; a closed pipe or a full disk is told. */
static bool output_is_whole(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    perror("hcomm_info: standard output");
    return false;
}

static void print_failure(const char *what)
{
    (void)fprintf(stderr, "hcomm_info: %s: %s\n", what, hcomm_error_detail());
}

int main(int argc, char **argv)
{
    struct options options = {0};
    int fault = parse_options(argc, argv, &options);
    if (fault)
        return fault;
    if (options.help) {
        print_help();
        return output_is_whole() ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    hcomm_handle_t hcomm = NULL;
    if (hcomm_init(&hcomm, NULL) != HCOMM_OK) {
        print_failure("hcomm does not start");
        return EXIT_FAILURE;
    }
    bool ok = true;
    if (hcomm_rank(hcomm) == 0) {
        ok = print_sections(hcomm, &options) == HCOMM_OK;
        if (!ok)
            print_failure("stopped early");
        ok = output_is_whole() && ok;
    }
    if (hcomm_finalize(hcomm) != HCOMM_OK) {
        print_failure("hcomm does not end");
        ok = false;
    }
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
