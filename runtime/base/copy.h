/*
 * Copying of messages. The C library copies long blocks with the processor's string instruction ("rep
 * movsb"), which on several x86 generations (measured on AMD's third) collapses to a tenth of the speed when
 * the destination lies a few bytes behind a multiple of the page size relative to the source: exactly what a
 * message behind a small header in a page-aligned buffer looks like. So long blocks are copied by a loop over
 * cache lines here. Any thread; the blocks must not overlap.
 */
#ifndef HC_COPY_H
#define HC_COPY_H

#include <emmintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    HC_COPY_LONG = 1536, /* from here on the loop is used; the C library is good below */
    HC_COPY_PIECE = 1024,
};

/*
 * While true, long copies of this thread write past the caches. That is faster where the destination is in
 * the cache of a core far away, and slower where that core shares a cache with this one. Transports set it
 * around a call of a pack function, and reset it.
 */
extern _Thread_local bool hc_copy_bypass;

/* Copy at least HC_COPY_LONG bytes. */
void hc_copy_long(void *to, const void *from, size_t len);
/* The same, past the caches. */
void hc_copy_past(void *to, const void *from, size_t len);

/*
 * Copy with the C library, but in pieces that are too short for it to use the string instruction. That is the
 * fastest way to write what is in the caches of a near core; hc_copy_long() reads such memory faster.
 */
static inline void hc_copy_through(void *to, const void *from, size_t len)
{
    unsigned char *dest = to;
    const unsigned char *src = from;
    for (; len > HC_COPY_PIECE; len -= HC_COPY_PIECE) {
        memcpy(dest, src, HC_COPY_PIECE);
        dest += HC_COPY_PIECE;
        src += HC_COPY_PIECE;
    }
    memcpy(dest, src, len);
}

/* Copy at most 16 bytes without a call: two moves that may overlap. */
static inline void hc_copy_tiny(void *to, const void *from, size_t len)
{
    unsigned char *dest = to;
    const unsigned char *src = from;
    if (len >= 8) {
        uint64_t first, last;
        memcpy(&first, src, 8);
        memcpy(&last, src + len - 8, 8);
        memcpy(dest, &first, 8);
        memcpy(dest + len - 8, &last, 8);
    } else if (len >= 4) {
        uint32_t first, last;
        memcpy(&first, src, 4);
        memcpy(&last, src + len - 4, 4);
        memcpy(dest, &first, 4);
        memcpy(dest + len - 4, &last, 4);
    } else {
        for (size_t i = 0; i < len; i++)
            dest[i] = src[i];
    }
}

/* Copy 17 to 64 bytes without a call: two or four moves that may overlap. */
static inline void hc_copy_line(void *to, const void *from, size_t len)
{
    unsigned char *dest = to;
    const unsigned char *src = from;
    __m128i first = _mm_loadu_si128((const __m128i *)(const void *)src);
    __m128i last = _mm_loadu_si128((const __m128i *)(const void *)(src + len - 16));
    if (len > 32) {
        __m128i second = _mm_loadu_si128((const __m128i *)(const void *)(src + 16));
        __m128i third = _mm_loadu_si128((const __m128i *)(const void *)(src + len - 32));
        _mm_storeu_si128((__m128i *)(void *)(dest + 16), second);
        _mm_storeu_si128((__m128i *)(void *)(dest + len - 32), third);
    }
    _mm_storeu_si128((__m128i *)(void *)dest, first);
    _mm_storeu_si128((__m128i *)(void *)(dest + len - 16), last);
}

/* Copy at most 64 bytes (0 allowed, then with any pointers) without a call. */
static inline void hc_copy_line_part(void *to, const void *from, size_t len)
{
    if (len <= 16)
        hc_copy_tiny(to, from, len);
    else
        hc_copy_line(to, from, len);
}

/* Copy len bytes (0 allowed, then with any pointers). */
static inline void hc_copy(void *to, const void *from, size_t len)
{
    if (len <= 64)
        hc_copy_line_part(to, from, len);
    else if (len < HC_COPY_LONG)
        memcpy(to, from, len);
    else
        hc_copy_long(to, from, len);
}

#endif
