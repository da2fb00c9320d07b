/*
 * Frame of the simulator's tests: plain programs, as ThreadSanitizer and Criterion do not go together. The
 * library is loaded as its users load it, with dlopen; TEST_NPUSIM_LIBRARY names it, .libs/libnpusim.so by
 * default.
 *
 * A test is a function in a table. Each runs in a process of its own, so that settings, limits and devices
 * of one do not show in another; a test may run at most a minute.
 */
#ifndef NPUSIM_TEST_H
#define NPUSIM_TEST_H

#include "transports/npu/acl/acl.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The library's functions: acl.aclInit(…) and so on. */
struct npusim_functions {
#define NPUSIM_MEMBER(name) __typeof__(name) *name;
    HC_ACL_FUNCTIONS(NPUSIM_MEMBER)
    HC_ACL_OPTIONAL_FUNCTIONS(NPUSIM_MEMBER)
#undef NPUSIM_MEMBER
};
extern struct npusim_functions acl;

struct npusim_test {
    const char *name;
    void (*run)(void);
};

/* Run the tests (or those whose names are arguments); returns what main returns. */
int npusim_run(int argc, char **argv, const struct npusim_test *tests, size_t count);

/* aclInit, aclrtSetDevice. */
void npusim_open(int32_t device);
/* Wait until device may reach peer. */
void npusim_await_peer(int32_t device, int32_t peer);
/* A stream or event of the current device; device memory; pinned host memory. */
hc_acl_stream_t npusim_stream(void);
hc_acl_event_t npusim_event(void);
void *npusim_device_alloc(size_t size);
void *npusim_host_alloc(size_t size);
/* Fill n bytes with a pattern of seed; whether they hold it. */
void npusim_fill(void *bytes, size_t n, unsigned seed);
bool npusim_holds(const void *bytes, size_t n, unsigned seed);

void npusim_failed(const char *file, int line, const char *what, long long got, long long want);

#define expect(condition) ((condition) ? (void)0 : npusim_failed(__FILE__, __LINE__, #condition, 0, 0))
#define expect_code(call, code)                                                                              \
    do {                                                                                                     \
        long long got_ = (call), want_ = (code);                                                             \
        if (got_ != want_)                                                                                   \
            npusim_failed(__FILE__, __LINE__, #call, got_, want_);                                           \
    } while (0)
#define expect_ok(call) expect_code(call, HC_ACL_OK)

#endif
