#include "runtime/base/copy.h"

#include "runtime/base/compiler.h"

#include <stdint.h>

/* Lines read ahead of the copy: the other process' cache answers slower than the loop runs. */
enum { READ_AHEAD = 512 };

void hc_copy_long(void *to, const void *from, size_t len)
{
    unsigned char *dest = to;
    const unsigned char *src = from;
    /* The first line goes anywhere, the following ones to aligned destinations, the last one overlaps. */
    memcpy(dest, src, HC_CACHE_LINE);
    size_t head = HC_CACHE_LINE - (uintptr_t)dest % HC_CACHE_LINE;
    dest += head;
    src += head;
    len -= head;
    for (; len > HC_CACHE_LINE; len -= HC_CACHE_LINE) {
        __builtin_prefetch(src + READ_AHEAD);
        memcpy(dest, src, HC_CACHE_LINE);
        dest += HC_CACHE_LINE;
        src += HC_CACHE_LINE;
        __asm__ volatile("" ::: "memory"); /* else the compiler makes the loop a call of memcpy again */
    }
    memcpy(dest + len - HC_CACHE_LINE, src + len - HC_CACHE_LINE, HC_CACHE_LINE);
}
