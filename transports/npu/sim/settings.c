#include "transports/npu/sim/settings.h"

#include "transports/npu/sim/sim.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

struct number {
    const char *name;
    size_t offset;
    uint64_t low, high, fallback;
    const char *const *words; /* names of the values, instead of a number */
};

static const char *const topology_words[] = {
    [NPUSIM_TOPOLOGY_HCCS] = "hccs", [NPUSIM_TOPOLOGY_PAIRS] = "pairs", NULL};
static const char *const callback_words[] = {
    [NPUSIM_CALLBACK_PER_STREAM] = "stream", [NPUSIM_CALLBACK_PER_DEVICE] = "device", NULL};

#define FIELD(member) offsetof(struct npusim_settings, member)
static const struct number numbers[] = {
    {"NPUSIM_DEVICES", FIELD(devices), 0, NPUSIM_MAX_DEVICES, 8, NULL},
    {"NPUSIM_MEMORY", FIELD(memory), UINT64_C(1) << 20, UINT64_C(1) << 40, UINT64_C(4) << 30, NULL},
    {"NPUSIM_TOPOLOGY", FIELD(topology), 0, 1, NPUSIM_TOPOLOGY_HCCS, topology_words},
    {"NPUSIM_HOST_BANDWIDTH", FIELD(host_bandwidth), 0, UINT64_C(1) << 50, 0, NULL},
    {"NPUSIM_PEER_BANDWIDTH", FIELD(peer_bandwidth), 0, UINT64_C(1) << 50, 0, NULL},
    {"NPUSIM_HOST_LATENCY", FIELD(host_latency), 0, 1000000000, 0, NULL},
    {"NPUSIM_PEER_LATENCY", FIELD(peer_latency), 0, 1000000000, 0, NULL},
    {"NPUSIM_STREAMS", FIELD(streams), 1, 65536, 1024, NULL},
    {"NPUSIM_EVENTS", FIELD(events), 1, 1 << 20, 65536, NULL},
    {"NPUSIM_NOTIFIES", FIELD(notifies), 1, 65536, 8192, NULL},
    {"NPUSIM_PEER_DELAY", FIELD(peer_delay), 0, 60000000, 1000, NULL},
    {"NPUSIM_BARE_TGID", FIELD(bare_tgid), 0, INT32_MAX, 0, NULL},
    {"NPUSIM_CALLBACK_THREADS", FIELD(callback_threads), 0, 1, NPUSIM_CALLBACK_PER_STREAM, callback_words},
};
#undef FIELD

static const char visible_name[] = "NPUSIM_VISIBLE_DEVICES";
static const char ascend_visible_name[] = "ASCEND_RT_VISIBLE_DEVICES";
static const char fault_name[] = "NPUSIM_FAULT";

static HC_PRINTF(3, 4) bool complain(const char *name, const char *value, const char *format, ...)
{
    char legal[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(legal, sizeof(legal), format, args);
    va_end(args);
    (void)fprintf(stderr, "[npusim] error: %s=%s: %s\n", name, value, legal);
    return false;
}

/* Shift of a suffix K, M, G or T (powers of 1024), or -1. */
static int suffix_shift(const char *suffix)
{
    static const char letters[] = "KMGT";
    if (!*suffix)
        return 0;
    const char *at = strchr(letters, toupper((unsigned char)*suffix));
    return at && !suffix[1] ? 10 * (int)(at - letters + 1) : -1;
}

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    int shift = suffix_shift(end);
    if (errno || shift < 0 || value > UINT64_MAX >> shift)
        return false;
    *number = (uint64_t)value << shift;
    return true;
}

static bool parse_word(const char *const *words, const char *text, uint64_t *number)
{
    for (uint64_t i = 0; words[i]; i++)
        if (!strcmp(words[i], text)) {
            *number = i;
            return true;
        }
    return false;
}

static bool read_number(const struct number *number, struct npusim_settings *settings)
{
    uint64_t value = number->fallback;
    const char *text = getenv(number->name);
    if (text && number->words) {
        if (!parse_word(number->words, text, &value))
            return complain(number->name, text, "must be %s or %s", number->words[0], number->words[1]);
    } else if (text) {
        if (!parse_number(text, &value) || value < number->low || value > number->high)
            return complain(number->name, text, "must be a number from %llu to %llu (suffixes K, M, G, T)",
                            (unsigned long long)number->low, (unsigned long long)number->high);
    }
    memcpy((char *)settings + number->offset, &value, sizeof(value));
    return true;
}

static bool is_visible(const struct npusim_settings *settings, uint64_t device)
{
    for (int i = 0; i < settings->visible_count; i++)
        if ((uint64_t)settings->visible[i] == device)
            return true;
    return false;
}

static bool parse_visible(const char *name, const char *text, struct npusim_settings *settings)
{
    const char *at = text;
    settings->visible_count = 0;
    while (*at) {
        char *end;
        unsigned long long device = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : UINT64_MAX;
        if (device >= settings->devices || (*end && *end != ',') || (*end && !end[1]) ||
            is_visible(settings, device))
            return complain(name, text,
                            "must list different devices, such as 0,2, each below NPUSIM_DEVICES=%llu",
                            (unsigned long long)settings->devices);
        settings->visible[settings->visible_count++] = (int)device;
        at = *end ? end + 1 : end;
    }
    return true;
}

static bool read_visible(struct npusim_settings *settings)
{
    const char *name = getenv(visible_name) ? visible_name : ascend_visible_name;
    const char *text = getenv(name);
    if (text)
        return parse_visible(name, text, settings);
    for (int i = 0; i < (int)settings->devices; i++)
        settings->visible[i] = i;
    settings->visible_count = (int)settings->devices;
    return true;
}

/* DEVICE:KIND@N or DEVICE:KIND@N=CODE */
static bool parse_fault(const char *text, struct npusim_fault *fault)
{
    static const char *const kinds[] = {
        [NPUSIM_FAULT_COPY] = "copy", [NPUSIM_FAULT_LOST] = "lost", [NPUSIM_FAULT_MALLOC] = "malloc", NULL};
    char kind_text[8];
    unsigned device, code;
    unsigned long long nth;
    uint64_t kind;
    int used = 0, with_code = 0;
    if (sscanf(text, "%2u:%7[a-z]@%19llu%n=%9u%n", &device, kind_text, &nth, &used, &code, &with_code) < 3)
        return false;
    if (!parse_word(kinds, kind_text, &kind) || !nth || device >= NPUSIM_MAX_DEVICES)
        return false;
    if (!with_code)
        code = kind == NPUSIM_FAULT_MALLOC ? HC_ACL_OUT_OF_MEMORY : HC_ACL_DRIVER_ERROR;
    if (text[with_code ? with_code : used] || !code)
        return false;
    *fault = (struct npusim_fault){.kind = kind, .device = (int)device, .nth = nth, .code = (int)code};
    return true;
}

static bool read_faults(struct npusim_settings *settings)
{
    const char *text = getenv(fault_name);
    char copy[512], *save = NULL;
    settings->fault_count = 0;
    if (!text)
        return true;
    if (strlen(text) >= sizeof(copy))
        return complain(fault_name, text, "is longer than %zu bytes", sizeof(copy) - 1);
    memcpy(copy, text, strlen(text) + 1);
    for (char *item = strtok_r(copy, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (settings->fault_count == NPUSIM_MAX_FAULTS)
            return complain(fault_name, text, "lists more than %d faults", NPUSIM_MAX_FAULTS);
        if (!parse_fault(item, &settings->faults[settings->fault_count++]))
            return complain(
                fault_name, text,
                "\"%s\" is not DEVICE:KIND@N[=CODE] with KIND copy, lost or malloc, N and CODE not 0", item);
    }
    return true;
}

static bool is_known(const char *name, size_t len)
{
    if ((len == strlen(visible_name) && !strncmp(name, visible_name, len)) ||
        (len == strlen(fault_name) && !strncmp(name, fault_name, len)))
        return true;
    for (size_t i = 0; i < hc_array_len(numbers); i++)
        if (len == strlen(numbers[i].name) && !strncmp(name, numbers[i].name, len))
            return true;
    return false;
}

/* The ranks of a job have the same environment: told once. */
static void warn_unknown(void)
{
    const char *rank = getenv("PMIX_RANK");
    if (rank && strcmp(rank, "0") != 0)
        return;
    for (char **variable = environ; variable && *variable; variable++) {
        size_t len = strcspn(*variable, "=");
        if (!strncmp(*variable, "NPUSIM_", 7) && !is_known(*variable, len))
            (void)fprintf(stderr, "[npusim] warn: %.*s is no setting of the simulator: see npusim(7)\n",
                          (int)len, *variable);
    }
}

bool npusim_settings_read(struct npusim_settings *settings)
{
    struct npusim_settings read = {0};
    warn_unknown();
    for (size_t i = 0; i < hc_array_len(numbers); i++)
        if (!read_number(&numbers[i], &read))
            return false;
    if (!read_visible(&read) || !read_faults(&read))
        return false;
    read.memory = hc_align_up(read.memory, NPUSIM_GRANULE);
    *settings = read;
    return true;
}
