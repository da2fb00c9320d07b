#include "runtime/base/copy.h"

#include "runtime/base/compiler.h"

#include <emmintrin.h>
#include <stdint.h>

/* Bytes read ahead of the copy: the other process' cache answers slower than the loop runs. */
enum { READ_AHEAD = 512 };

_Thread_local bool hc_copy_bypass;

/* Copy whole lines to an aligned destination. */
static void copy_lines(unsigned char *dest, const unsigned char *src, size_t lines)
{
    for (; lines; lines--) {
        __builtin_prefetch(src + READ_AHEAD);
        memcpy(dest, src, HC_CACHE_LINE);
        dest += HC_CACHE_LINE;
        src += HC_CACHE_LINE;
        __asm__ volatile("" ::: "memory"); /* else the compiler makes the loop a call of memcpy again */
    }
}

/* The same with stores that go to memory, in order with all stores that follow. */
static void stream_lines(unsigned char *dest, const unsigned char *src, size_t lines)
{
    enum { WORDS = HC_CACHE_LINE / sizeof(__m128i) };
    for (; lines; lines--) {
        __m128i line[WORDS];
        __builtin_prefetch(src + READ_AHEAD);
        memcpy(line, src, HC_CACHE_LINE);
        for (size_t i = 0; i < WORDS; i++)
            _mm_stream_si128((__m128i *)dest + i, line[i]);
        dest += HC_CACHE_LINE;
        src += HC_CACHE_LINE;
    }
    _mm_sfence();
}

/* The first line goes anywhere, the following ones to aligned destinations, the last one overlaps. */
static inline void copy_by(void (*lines_by)(unsigned char *, const unsigned char *, size_t),
                           unsigned char *dest, const unsigned char *src, size_t len)
{
    memcpy(dest, src, HC_CACHE_LINE);
    memcpy(dest + len - HC_CACHE_LINE, src + len - HC_CACHE_LINE, HC_CACHE_LINE);
    size_t head = HC_CACHE_LINE - (uintptr_t)dest % HC_CACHE_LINE;
    lines_by(dest + head, src + head, (len - head) / HC_CACHE_LINE);
}

void hc_copy_past(void *to, const void *from, size_t len)
{
    copy_by(stream_lines, to, from, len);
}

void hc_copy_long(void *to, const void *from, size_t len)
{
    copy_by(hc_copy_bypass ? stream_lines : copy_lines, to, from, len);
}
