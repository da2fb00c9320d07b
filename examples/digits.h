/*
 * The digits data set: 8×8 images of handwritten digits from a text file, one sample a line: 64 pixel values
 * 0 … 16, then the digit 0 … 9, separated by commas. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef DIGITS_H
#define DIGITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGITS_PIXELS = 64, DIGITS_PIXEL_MAX = 16, DIGITS_CLASSES = 10 };

struct digit {
    uint8_t pixels[DIGITS_PIXELS];
    uint8_t label;
};

struct digits {
    struct digit *samples;
    size_t count;
};

/*
 * Read the whole file. On failure one line in `error` names file, line and column (as far as there are), and
 * *digits is untouched. On success the caller releases it with digits_free().
 */
bool digits_load(const char *path, struct digits *digits, char *error, size_t error_size);

void digits_free(struct digits *digits);

/*
 * Write the path of the data file that belongs to this program into `path`: data/digits.csv beside the
 * program, or beside the folder it is in. False when there is none; path then names the first place.
 */
bool digits_find(char *path, size_t size);

#endif
