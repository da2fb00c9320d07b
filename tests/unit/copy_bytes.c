/* hc_copy: every length and alignment, and nothing beyond. */
#include "runtime/base/copy.h"

#include <criterion/criterion.h>
#include <stdint.h>

enum { ROOM = 8192 };

static unsigned char from[ROOM], to[ROOM];

static void check(size_t to_offset, size_t from_offset, size_t len)
{
    memset(to, 0xee, sizeof(to));
    hc_copy(to + to_offset, from + from_offset, len);
    cr_assert(memcmp(to + to_offset, from + from_offset, len) == 0, "%zu bytes", len);
    for (size_t i = 0; i < 64; i++)
        cr_assert(to[to_offset - 1 - i] == 0xee && to[to_offset + len + i] == 0xee, "wrote outside");
}

static void check_all(void)
{
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 31 + i / 256);
    for (size_t len = 0; len < 300; len++)
        check(64 + len % 64, 64 + len % 7, len);
    for (size_t offset = 0; offset < 64; offset++)
        for (size_t len = HC_COPY_LONG - 2; len < HC_COPY_LONG + 130; len++)
            check(64 + offset, 64 + (offset * 5) % 64, len);
}

Test(copy_bytes, every_length_and_alignment)
{
    check_all();
}

Test(copy_bytes, past_the_caches_too)
{
    hc_copy_bypass = true;
    check_all();
}

Test(copy_bytes, nothing_may_come_from_nowhere)
{
    hc_copy(NULL, NULL, 0);
}
