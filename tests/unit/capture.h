/* Test helper: what a function writes to descriptor 2. */
#ifndef TESTS_UNIT_CAPTURE_H
#define TESTS_UNIT_CAPTURE_H

#include <stdio.h>
#include <unistd.h>

/* Run function(arg) with stderr going to a file; the text (cut at size) ends up in buf. */
static inline void capture_stderr(void (*function)(void *arg), void *arg, char *buf, size_t size)
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    (void)dup2(fileno(file), STDERR_FILENO);
    function(arg);
    (void)dup2(before, STDERR_FILENO);
    (void)close(before);
    rewind(file);
    size_t length = fread(buf, 1, size - 1, file);
    buf[length] = '\0';
    (void)fclose(file);
}

#endif
