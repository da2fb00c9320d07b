#include "runtime/topo/cpulist.h"

#include <stdio.h>

static bool read_number(const char **cursor, unsigned *number)
{
    const char *p = *cursor;
    unsigned value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (unsigned)(*p - '0');
        if (value > HC_CPULIST_MAX_CPU)
            return false;
    }
    if (p == *cursor)
        return false;
    *cursor = p;
    *number = value;
    return true;
}

/* One item, "3" or "3-5", up to but without what follows it. */
static bool read_range(const char **cursor, unsigned *first, unsigned *last)
{
    if (!read_number(cursor, first))
        return false;
    *last = *first;
    if (**cursor != '-')
        return true;
    (*cursor)++;
    return read_number(cursor, last) && *last > *first;
}

bool hc_cpulist_next(const char **cursor, unsigned *next_free, unsigned *first, unsigned *last)
{
    const char *p = *cursor;
    unsigned low = 0, high = 0;
    if (*p == '\0' && *next_free > 0)
        return false;
    if (*next_free > 0 && *p++ != ',')
        return false;
    if (!read_range(&p, &low, &high) || low < *next_free || (*p != ',' && *p != '\0'))
        return false;
    *cursor = p;
    *next_free = high + 1;
    *first = low;
    *last = high;
    return true;
}

bool hc_cpulist_valid(const char *text)
{
    const char *cursor = text;
    unsigned next_free = 0, first = 0, last = 0;
    while (hc_cpulist_next(&cursor, &next_free, &first, &last))
        continue;
    return *cursor == '\0' && next_free > 0;
}

static bool bit_is_set(const unsigned char *bits, size_t n)
{
    return bits[n / 8] & (1u << (n % 8));
}

static size_t end_of_run(const unsigned char *bits, size_t num_bits, size_t first)
{
    size_t end = first + 1;
    while (end < num_bits && bit_is_set(bits, end))
        end++;
    return end;
}

bool hc_cpulist_format(const unsigned char *bits, size_t num_bits, char *list, size_t size)
{
    size_t used = 0;
    if (size > 0)
        list[0] = '\0';
    for (size_t first = 0; first < num_bits; first++) {
        if (!bit_is_set(bits, first))
            continue;
        size_t last = end_of_run(bits, num_bits, first) - 1;
        const char *comma = used ? "," : "";
        int written = last > first ? snprintf(list + used, size - used, "%s%zu-%zu", comma, first, last)
                                   : snprintf(list + used, size - used, "%s%zu", comma, first);
        if (written < 0 || (size_t)written >= size - used)
            return false;
        used += (size_t)written;
        first = last;
    }
    return size > 0;
}
