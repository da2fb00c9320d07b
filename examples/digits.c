/* SPDX-License-Identifier: BSD-3-Clause */
#include "digits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A place in the file, and where to report what is wrong there. */
struct reader {
    const char *path;
    size_t line;
    const char *text; /* of the line, without its end */
    size_t length, at;
    char *error;
    size_t error_size;
};

static bool fail(struct reader *reader, const char *what)
{
    (void)snprintf(reader->error, reader->error_size, "%s:%zu:%zu: %s", reader->path, reader->line,
                   reader->at + 1, what);
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool read_number(struct reader *reader, int max, uint8_t *value)
{
    size_t start = reader->at;
    int number = 0;
    while (reader->at < reader->length && is_digit(reader->text[reader->at]) && number <= max)
        number = number * 10 + (reader->text[reader->at++] - '0');
    char what[80];
    if (reader->at == start) {
        (void)snprintf(what, sizeof(what), "expected a number from 0 to %d%s", max,
                       reader->at == reader->length ? ", found the end of the line" : "");
        return fail(reader, what);
    }
    if (number > max) {
        reader->at = start;
        (void)snprintf(what, sizeof(what), "the number is greater than %d", max);
        return fail(reader, what);
    }
    *value = (uint8_t)number;
    return true;
}

static bool read_comma(struct reader *reader)
{
    if (reader->at == reader->length)
        return fail(reader, "the line is too short: 64 pixels and a digit are expected");
    if (reader->text[reader->at] != ',')
        return fail(reader, "expected a comma");
    reader->at++;
    return true;
}

static bool read_sample(struct reader *reader, struct digit *sample)
{
    for (int i = 0; i < DIGITS_PIXELS; i++)
        if (!read_number(reader, DIGITS_PIXEL_MAX, &sample->pixels[i]) || !read_comma(reader))
            return false;
    if (!read_number(reader, DIGITS_CLASSES - 1, &sample->label))
        return false;
    if (reader->at != reader->length)
        return fail(reader, "expected the end of the line after the digit");
    return true;
}

static bool append(struct digits *digits, size_t *room, const struct digit *sample)
{
    if (digits->count == *room) {
        size_t more = *room ? *room * 2 : 1024;
        struct digit *grown = realloc(digits->samples, more * sizeof(*grown));
        if (!grown)
            return false;
        digits->samples = grown;
        *room = more;
    }
    digits->samples[digits->count++] = *sample;
    return true;
}

static size_t without_line_end(const char *text, size_t length)
{
    if (length && text[length - 1] == '\n')
        length--;
    if (length && text[length - 1] == '\r')
        length--;
    return length;
}

static bool read_lines(FILE *file, struct reader *reader, char **buffer, struct digits *digits)
{
    size_t buffer_size = 0, room = 0;
    ssize_t length;
    while ((length = getline(buffer, &buffer_size, file)) >= 0) {
        reader->line++;
        reader->text = *buffer;
        reader->length = without_line_end(*buffer, (size_t)length);
        reader->at = 0;
        struct digit sample;
        if (!read_sample(reader, &sample))
            return false;
        if (!append(digits, &room, &sample))
            return fail(reader, "out of memory");
    }
    reader->line++;
    reader->at = 0;
    if (!feof(file))
        return fail(reader, strerror(errno));
    if (digits->count == 0)
        return fail(reader, "the file is empty");
    return true;
}

bool digits_load(const char *path, struct digits *digits, char *error, size_t error_size)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        (void)snprintf(error, error_size, "%s: cannot open: %s", path, strerror(errno));
        return false;
    }
    struct reader reader = {.path = path, .error = error, .error_size = error_size};
    struct digits loaded = {0};
    char *buffer = NULL;
    bool good = read_lines(file, &reader, &buffer, &loaded);
    free(buffer);
    (void)fclose(file);
    if (good)
        *digits = loaded;
    else
        digits_free(&loaded);
    return good;
}

void digits_free(struct digits *digits)
{
    free(digits->samples);
    *digits = (struct digits){0};
}

bool digits_find(char *path, size_t size)
{
    /* Beside the program, as in an installed or copied folder; one up, where libtool keeps unfinished
     * programs. */
    static const char *const folders[] = {"data", "../data"};
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = sizeof(folders) / sizeof(*folders); i-- > 0;) {
        (void)snprintf(path, size, "%s/%s/digits.csv", program, folders[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}
