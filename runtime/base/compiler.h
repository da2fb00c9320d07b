/* Compiler attributes used everywhere. */
#ifndef HC_COMPILER_H
#define HC_COMPILER_H

#include <assert.h>
#include <stddef.h>

#define HC_MUST_CHECK      __attribute__((warn_unused_result))
#define HC_PRINTF(fmt, va) __attribute__((format(printf, fmt, va)))
#define HC_COLD            __attribute__((cold, noinline))
#define HC_NOINLINE        __attribute__((noinline))
#define HC_INLINE          inline __attribute__((always_inline))
#define HC_CACHE_LINE      64
#define HC_CACHE_ALIGNED   __attribute__((aligned(HC_CACHE_LINE)))

#define hc_likely(x)   __builtin_expect(!!(x), 1)
#define hc_unlikely(x) __builtin_expect(!!(x), 0)

/* The structure that contains `member` at `ptr`. */
#define hc_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* The value of a macro as a string literal. */
#define HC_STRING_OF(text) #text
#define HC_STRING(macro)   HC_STRING_OF(macro)

#define hc_array_len(a) (sizeof(a) / sizeof((a)[0]))

/* Extra assertions of --enable-debug builds; always compiled, so they cannot rot. */
#define hc_assert(x)                                                                                         \
    do {                                                                                                     \
        if (HC_DEBUG)                                                                                        \
            assert(x);                                                                                       \
    } while (0)

/* ThreadSanitizer does not know of barriers that the kernel executes for other threads. */
#if defined(__SANITIZE_THREAD__)
#define HC_LOCK_MAY_BIAS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HC_LOCK_MAY_BIAS 0
#endif
#endif
#ifndef HC_LOCK_MAY_BIAS
#define HC_LOCK_MAY_BIAS 1
#endif

/* What tells this thread from all others that are alive: the address of its control block. */
static inline const void *hc_thread_mark(void)
{
    const void *mark;
    __asm__("movq %%fs:0, %0" : "=r"(mark));
    return mark;
}

static inline void hc_cpu_relax(void)
{
    __builtin_ia32_pause();
}

static inline size_t hc_align_up(size_t value, size_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

static inline size_t hc_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
