/*
 * The examples' reader of data files: whatever a file holds, it is taken whole with every value in range, or
 * refused with words that begin with its name. fuzz-sources: examples/digits.c
 */
#include "examples/digits.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_samples(const struct digits *digits)
{
    FUZZ_CHECK(digits->count > 0);
    for (size_t i = 0; i < digits->count; i++) {
        FUZZ_CHECK(digits->samples[i].label < DIGITS_CLASSES);
        for (int p = 0; p < DIGITS_PIXELS; p++)
            FUZZ_CHECK(digits->samples[i].pixels[p] <= DIGITS_PIXEL_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], error[256] = "";
    int fd = memfd_create("digits", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct digits digits = {0};
    if (digits_load(path, &digits, error, sizeof(error)))
        check_samples(&digits);
    else
        FUZZ_CHECK(digits.samples == NULL && strncmp(error, path, strlen(path)) == 0);
    digits_free(&digits);
    (void)close(fd);
    return 0;
}
