/* What the multi-process tests share: a condition that does not hold ends the whole job, with the reason. */
#ifndef TESTS_MULTI_CHECK_H
#define TESTS_MULTI_CHECK_H

#include <hcomm.h>

#include <stdio.h>
#include <stdlib.h>

static hcomm_handle_t check_handle; /* set by check_init */

__attribute__((noreturn, unused)) static void check_failed(const char *file, int line, const char *what,
                                                           hcomm_status_t status)
{
    fprintf(stderr, "%s:%d: rank %d: %s: %s: %s\n", file, line, hcomm_rank(check_handle), what,
            hcomm_strerror(status), hcomm_error_detail());
    hcomm_abort(check_handle, 1);
    abort();
}

/* The condition holds. */
#define CHECK(x) ((x) ? (void)0 : check_failed(__FILE__, __LINE__, #x, HCOMM_OK))
/* The call succeeds. */
#define CALL(x) check_call(__FILE__, __LINE__, #x, (x))
/* The call returns this status. */
#define EXPECT(expected, x) check_status(__FILE__, __LINE__, #x, (expected), (x))

__attribute__((unused)) static void check_call(const char *file, int line, const char *what,
                                               hcomm_status_t status)
{
    if (status != HCOMM_OK)
        check_failed(file, line, what, status);
}

__attribute__((unused)) static void check_status(const char *file, int line, const char *what,
                                                 hcomm_status_t expected, hcomm_status_t status)
{
    if (status != expected)
        check_failed(file, line, what, status);
}

__attribute__((unused)) static void check_init(const hcomm_config_t *config)
{
    CALL(hcomm_init(&check_handle, config));
}

/* A small generator, the same sequence on every rank for the same seed (G. Marsaglia, xorshift, 2003). */
__attribute__((unused)) static unsigned check_random(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

__attribute__((unused)) static void check_fill(unsigned char *data, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(check_random(&seed) >> 7);
}

/* Whether it is what check_fill() wrote. */
__attribute__((unused)) static void check_verify(const unsigned char *data, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != (unsigned char)(check_random(&seed) >> 7)) {
            fprintf(stderr, "byte %zu of %zu is wrong\n", i, size);
            CHECK(!"data");
        }
}

__attribute__((unused)) static uint64_t check_counter(const char *name)
{
    uint64_t value = 0;
    CALL(hcomm_counter_get(check_handle, name, &value));
    return value;
}

#endif
