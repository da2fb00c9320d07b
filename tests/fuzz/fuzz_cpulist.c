/*
 * Processor lists from peers: the parser ends, stays inside the text and its bounds, and what it accepts
 * reads the same after being formatted. fuzz-sources: runtime/topo/cpulist.c
 */
#include "runtime/topo/cpulist.h"

#include "tests/fuzz/fuzz.h"

enum { BYTES = (HC_CPULIST_MAX_CPU + 1) / 8, LIST_MAX = 1 << 20 };

/* Sets the bits of the list; false when it is none. */
static bool read_list(const char *text, unsigned char *bits)
{
    const char *cursor = text;
    unsigned next_free = 0, first = 0, last = 0;
    (void)memset(bits, 0, BYTES);
    while (hc_cpulist_next(&cursor, &next_free, &first, &last)) {
        FUZZ_CHECK(first <= last && last <= HC_CPULIST_MAX_CPU);
        for (unsigned cpu = first; cpu <= last; cpu++)
            bits[cpu / 8] |= (unsigned char)(1u << (cpu % 8));
    }
    FUZZ_CHECK(cursor >= text && cursor <= text + strlen(text));
    return *cursor == '\0' && next_free > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char bits[BYTES], again[BYTES];
    static char list[LIST_MAX];
    char *text = fuzz_string(data, size);
    bool valid = read_list(text, bits);
    FUZZ_CHECK(valid == hc_cpulist_valid(text));
    if (valid) {
        FUZZ_CHECK(hc_cpulist_format(bits, (size_t)BYTES * 8, list, sizeof(list)));
        FUZZ_CHECK(read_list(list, again) && memcmp(bits, again, BYTES) == 0);
    }
    free(text);
    return 0;
}
