/*
 * Processor lists as text: "0-3,8", the form of cpuset files and taskset -c. Pure functions without hwloc:
 * lists come from peers, so the parser is strict and is fuzzed. Any thread.
 */
#ifndef HC_CPULIST_H
#define HC_CPULIST_H

#include "runtime/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* Highest processor number a list may name; Linux is built for at most 8192 today. */
enum { HC_CPULIST_MAX_CPU = 65535 };

/*
 * Read the next range of a list. `*cursor` starts at the text and is moved on; `*next_free` starts at 0 and
 * is the lowest number that may follow. True: one range was read, both ends inclusive. False: *cursor stands
 * at the end of the text when all was well, else where the text stops being a list (decimal digits only,
 * ranges ascending and apart, no blanks, no empty items).
 */
bool hc_cpulist_next(const char **cursor, unsigned *next_free, unsigned *first, unsigned *last);

/* Whether all of the text is a list of at least one processor. */
bool hc_cpulist_valid(const char *text);

/*
 * Write the numbers whose bit is set (bit n of `bits` is byte n/8, bit n%8; num_bits of them) as a list.
 * False when `size` is too small; nothing useful is in `list` then.
 */
bool hc_cpulist_format(const unsigned char *bits, size_t num_bits, char *list, size_t size);

#endif
