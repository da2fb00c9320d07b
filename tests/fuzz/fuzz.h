/* What fuzz targets share. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A finding when the condition does not hold. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

/* The input as a string, with its end where the sanitizer sees it crossed; owned by the caller. */
static inline char *fuzz_string(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    if (size > 0)
        (void)memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

#endif
