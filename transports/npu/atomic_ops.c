/* What atomic operations compute. Values are held in 64 bits, of which a datatype uses the low 4 or 8 bytes.
 */
#include "transports/npu/rma.h"

#include <string.h>

typedef uint64_t combine(uint64_t old, uint64_t operand, uint64_t compare);

static uint64_t sum(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)compare;
    return old + operand;
}

static uint64_t sum_float(uint64_t old, uint64_t operand, uint64_t compare)
{
    uint32_t a = (uint32_t)old, b = (uint32_t)operand;
    float x, y;
    (void)compare;
    memcpy(&x, &a, sizeof(x));
    memcpy(&y, &b, sizeof(y));
    x += y;
    memcpy(&a, &x, sizeof(a));
    return a;
}

static uint64_t sum_double(uint64_t old, uint64_t operand, uint64_t compare)
{
    double x, y;
    (void)compare;
    memcpy(&x, &old, sizeof(x));
    memcpy(&y, &operand, sizeof(y));
    x += y;
    memcpy(&old, &x, sizeof(old));
    return old;
}

static uint64_t min_signed(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)compare;
    return (int64_t)operand < (int64_t)old ? operand : old;
}

static uint64_t max_signed(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)compare;
    return (int64_t)operand > (int64_t)old ? operand : old;
}

static uint64_t min_signed32(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)compare;
    return (int32_t)operand < (int32_t)old ? operand : old;
}

static uint64_t max_signed32(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)compare;
    return (int32_t)operand > (int32_t)old ? operand : old;
}

static uint64_t min_unsigned(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)compare;
    return operand < old ? operand : old;
}

static uint64_t max_unsigned(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)compare;
    return operand > old ? operand : old;
}

static uint64_t keep(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)operand, (void)compare;
    return old;
}

static uint64_t replace(uint64_t old, uint64_t operand, uint64_t compare)
{
    (void)old, (void)compare;
    return operand;
}

static uint64_t replace_equal(uint64_t old, uint64_t operand, uint64_t compare)
{
    return old == compare ? operand : old;
}

#define OPS              FI_ATOMIC_OP_LAST
#define ALL_INTEGERS(fn) [FI_INT32] = (fn), [FI_UINT32] = (fn), [FI_INT64] = (fn), [FI_UINT64] = (fn)

static combine *const table[OPS][FI_DATATYPE_LAST] = {
    [FI_SUM] = {ALL_INTEGERS(sum), [FI_FLOAT] = sum_float, [FI_DOUBLE] = sum_double},
    [FI_MIN] = {[FI_INT32] = min_signed32,
                [FI_UINT32] = min_unsigned,
                [FI_INT64] = min_signed,
                [FI_UINT64] = min_unsigned},
    [FI_MAX] = {[FI_INT32] = max_signed32,
                [FI_UINT32] = max_unsigned,
                [FI_INT64] = max_signed,
                [FI_UINT64] = max_unsigned},
    [FI_ATOMIC_READ] = {ALL_INTEGERS(keep), [FI_FLOAT] = keep, [FI_DOUBLE] = keep},
    [FI_ATOMIC_WRITE] = {ALL_INTEGERS(replace), [FI_FLOAT] = replace, [FI_DOUBLE] = replace},
    [FI_CSWAP] = {ALL_INTEGERS(replace_equal)},
};

size_t npu_atomic_size(unsigned datatype)
{
    switch (datatype) {
    case FI_INT32:
    case FI_UINT32:
    case FI_FLOAT:
        return 4;
    case FI_INT64:
    case FI_UINT64:
    case FI_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

bool npu_atomic_offered(enum npu_rma_op kind, unsigned op, unsigned datatype)
{
    if (op >= OPS || datatype >= FI_DATATYPE_LAST || !table[op][datatype])
        return false;
    switch (kind) {
    case NPU_RMA_ATOMIC:
        return op != FI_ATOMIC_READ && op != FI_CSWAP;
    case NPU_RMA_FETCH:
        return op != FI_CSWAP;
    case NPU_RMA_COMPARE:
        return op == FI_CSWAP;
    default:
        return false;
    }
}

/* The low bytes of an operand that may be unaligned, or absent. */
static uint64_t load(const void *array, size_t index, size_t size)
{
    uint32_t narrow = 0;
    uint64_t wide = 0;
    if (!array)
        return 0;
    if (size == sizeof(wide))
        memcpy(&wide, (const char *)array + index * size, sizeof(wide));
    else
        memcpy(&narrow, (const char *)array + index * size, sizeof(narrow));
    return size == sizeof(wide) ? wide : narrow;
}

/* seq_cst in both: other processes' and the application's own atomics are the partners. */
static uint64_t update32(uint32_t *target, combine *fn, uint64_t operand, uint64_t compare)
{
    uint32_t old = __atomic_load_n(target, __ATOMIC_SEQ_CST), next;
    do
        next = (uint32_t)fn(old, operand, compare);
    while (next != old &&
           !__atomic_compare_exchange_n(target, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return old;
}

static uint64_t update64(uint64_t *target, combine *fn, uint64_t operand, uint64_t compare)
{
    uint64_t old = __atomic_load_n(target, __ATOMIC_SEQ_CST), next;
    do
        next = fn(old, operand, compare);
    while (next != old &&
           !__atomic_compare_exchange_n(target, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return old;
}

void npu_atomic_apply(unsigned op, unsigned datatype, void *target, const void *operand, const void *compare,
                      void *result, size_t count)
{
    combine *fn = table[op][datatype];
    size_t size = npu_atomic_size(datatype);
    for (size_t i = 0; i < count; i++) {
        void *at = (char *)target + i * size;
        uint64_t a = load(operand, i, size), b = load(compare, i, size);
        uint64_t old = size == sizeof(uint64_t) ? update64(at, fn, a, b) : update32(at, fn, a, b);
        uint32_t narrow = (uint32_t)old;
        if (result)
            memcpy((char *)result + i * size, size == sizeof(old) ? (void *)&old : (void *)&narrow, size);
    }
}
