/* RMA and atomics between two processes: bytes, values, rights, bounds, remote data, and lost peers. */
#include "tests/npu/pair.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZE = 3 << 20, KEY = 77 };

static const uint64_t caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT;

struct region {
    unsigned char *bytes;
    struct fid_mr *mr;
    uint64_t key, base; /* the other side's */
};

static void expose(struct pair *pair, struct region *region, size_t size, uint64_t access, uint64_t key)
{
    uint64_t mine[2], theirs[2];
    region->bytes = calloc(1, size);
    EXPECT(region->bytes);
    EXPECT(fi_mr_reg(pair->domain, region->bytes, size, access, 0, key, 0, &region->mr, NULL) == 0);
    mine[0] = fi_mr_key(region->mr);
    mine[1] =
        pair->info->domain_attr->mr_mode & (FI_MR_BASIC | FI_MR_VIRT_ADDR) ? (uintptr_t)region->bytes : 0;
    pair_trade(pair, mine, theirs, sizeof(mine));
    region->key = theirs[0];
    region->base = theirs[1];
}

static void hide(struct region *region)
{
    EXPECT(fi_close(&region->mr->fid) == 0);
    free(region->bytes);
}

static unsigned char pattern(size_t i, unsigned seed)
{
    return (unsigned char)(i * 2654435761U >> 13 ^ seed);
}

static void paint(unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = pattern(i, seed);
}

static bool painted(const unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != pattern(i, seed))
            return false;
    return true;
}

static void retry(struct pair *pair, ssize_t rc)
{
    (void)pair;
    EXPECT(rc == 0);
}

static const size_t sizes[] = {0, 1, 7, 8, 64, 4096, 8192, 8193, 65536, 131073, SIZE};

/* Both sides write to each other at once, and read back what they wrote. */
static void transfers_of_all_sizes_arrive(int mr_mode)
{
    struct pair pair;
    struct region region;
    pair_begin(&pair, caps, mr_mode, NULL);
    expose(&pair, &region, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    unsigned char *mine = malloc(SIZE), *back = malloc(SIZE);
    EXPECT(mine && back);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t n = sizes[i];
        unsigned seed = (unsigned)(2 * i) + (unsigned)pair_side;
        paint(mine, n, seed);
        memset(back, 0, n);
        retry(&pair, fi_write(pair.ep, mine, n, NULL, pair.other, region.base, region.key, &region));
        /* The read is behind the write: it sees what that wrote. */
        retry(&pair, fi_read(pair.ep, back, n, NULL, pair.other, region.base, region.key, &pair));
        struct fi_cq_tagged_entry entry;
        EXPECT(pair_complete(&pair, pair.tx, &entry) == 0);
        EXPECT(entry.op_context == &region && entry.flags == (FI_RMA | FI_WRITE));
        EXPECT(pair_complete(&pair, pair.tx, &entry) == 0);
        EXPECT(entry.op_context == &pair && entry.flags == (FI_RMA | FI_READ));
        EXPECT(painted(back, n, seed));
        pair_meet(&pair);
        EXPECT(painted(region.bytes, n, (unsigned)(2 * i) + !pair_side));
        pair_meet(&pair);
    }
    free(mine);
    free(back);
    hide(&region);
    pair_end(&pair);
}

/* Pieces on both sides, longer and shorter than what travels in a request. */
static void scattered_pieces_are_joined(void)
{
    struct pair pair;
    struct region region;
    pair_begin(&pair, caps, 0, NULL);
    expose(&pair, &region, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    static const size_t totals[] = {96, 99840};
    for (size_t t = 0; t < 2; t++) {
        size_t n = totals[t];
        unsigned char *mine = malloc(n), *back = calloc(1, n);
        EXPECT(mine && back);
        paint(mine, n, (unsigned)t);
        struct iovec iov[3] = {{mine, n / 4}, {mine + n / 4, n / 2}, {mine + n / 4 * 3, n / 4}};
        struct fi_rma_iov to[2] = {{region.base + 1000, n / 3, region.key},
                                   {region.base + 500000, n - n / 3, region.key}};
        struct fi_msg_rma msg = {.msg_iov = iov,
                                 .iov_count = 3,
                                 .addr = pair.other,
                                 .rma_iov = to,
                                 .rma_iov_count = 2,
                                 .context = &msg};
        EXPECT(fi_writemsg(pair.ep, &msg, FI_COMPLETION) == 0);
        EXPECT(pair_complete(&pair, pair.tx, NULL) == 0);
        for (int i = 0; i < 3; i++)
            iov[i].iov_base = back + ((unsigned char *)iov[i].iov_base - mine);
        EXPECT(fi_readmsg(pair.ep, &msg, FI_COMPLETION | FI_FENCE) == 0);
        EXPECT(pair_complete(&pair, pair.tx, NULL) == 0);
        EXPECT(painted(back, n, (unsigned)t));
        to[1].len--; /* the lengths differ */
        EXPECT(fi_writemsg(pair.ep, &msg, 0) == -FI_EINVAL);
        pair_meet(&pair);
        EXPECT(memcmp(region.bytes + 1000, back, n / 3) == 0);
        pair_meet(&pair);
        free(mine);
        free(back);
    }
    hide(&region);
    pair_end(&pair);
}

static int write_to(struct pair *pair, uint64_t addr, size_t n, uint64_t key)
{
    static unsigned char bytes[1 << 20];
    EXPECT(fi_write(pair->ep, bytes, n, NULL, pair->other, addr, key, pair) == 0);
    struct fi_cq_tagged_entry entry;
    int err = pair_complete(pair, pair->tx, &entry);
    EXPECT(entry.op_context == pair);
    return err;
}

static int read_from(struct pair *pair, uint64_t addr, size_t n, uint64_t key)
{
    static unsigned char bytes[1 << 20];
    EXPECT(fi_read(pair->ep, bytes, n, NULL, pair->other, addr, key, pair) == 0);
    return pair_complete(pair, pair->tx, NULL);
}

static void keys_rights_and_bounds_are_checked(void)
{
    struct pair pair;
    struct region both, readable, writable, narrow;
    pair_begin(&pair, caps, 0, NULL);
    expose(&pair, &both, 100000, FI_REMOTE_READ | FI_REMOTE_WRITE, 1);
    expose(&pair, &readable, 100000, FI_REMOTE_READ, 2);
    expose(&pair, &writable, 100000, FI_REMOTE_WRITE, 3);
    expose(&pair, &narrow, 16, FI_REMOTE_READ | FI_REMOTE_WRITE, 4);
    static const size_t lens[] = {16, 50000};
    for (size_t i = 0; i < 2; i++) {
        size_t n = lens[i];
        EXPECT(write_to(&pair, 0, n, 99) == FI_EKEYREJECTED);
        EXPECT(read_from(&pair, 0, n, 99) == FI_EKEYREJECTED);
        EXPECT(write_to(&pair, 0, n, readable.key) == FI_EACCES);
        EXPECT(read_from(&pair, 0, n, writable.key) == FI_EACCES);
        EXPECT(write_to(&pair, 100000 - n + 1, n, both.key) == FI_EINVAL);
        EXPECT(read_from(&pair, UINT64_MAX - 4, n, both.key) == FI_EINVAL);
        EXPECT(write_to(&pair, 1, n, narrow.key) == FI_EINVAL);
        EXPECT(write_to(&pair, 100000 - n, n, both.key) == 0);
        EXPECT(read_from(&pair, 0, n, readable.key) == 0);
    }
    pair_meet(&pair);
    hide(&narrow);
    pair_meet(&pair);
    EXPECT(write_to(&pair, 0, 8, narrow.key) == FI_EKEYREJECTED);
    EXPECT(write_to(&pair, 0, 0, narrow.key) == 0);
    EXPECT(write_to(&pair, 0, 8, both.key) == 0);
    pair_meet(&pair);
    hide(&both);
    hide(&readable);
    hide(&writable);
    pair_end(&pair);
}

static void writes_carry_data_to_the_target(void)
{
    struct pair pair;
    struct region region;
    unsigned char bytes[20000];
    pair_begin(&pair, caps, 0, NULL);
    expose(&pair, &region, sizeof(bytes), FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    paint(bytes, sizeof(bytes), 5);
    EXPECT(fi_inject_writedata(pair.ep, bytes, 100, 1, pair.other, 0, region.key) == 0);
    EXPECT(fi_writedata(pair.ep, bytes, sizeof(bytes), NULL, 2, pair.other, 0, region.key, &pair) == 0);
    EXPECT(fi_inject_write(pair.ep, bytes, 8, pair.other, 0, region.key) == 0);
    EXPECT(pair_complete(&pair, pair.tx, NULL) == 0);
    for (uint64_t i = 1; i <= 2; i++) {
        struct fi_cq_tagged_entry entry;
        EXPECT(pair_complete(&pair, pair.rx, &entry) == 0);
        EXPECT(entry.data == i && entry.len == (i == 1 ? 100 : sizeof(bytes)));
        EXPECT(entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
    }
    EXPECT(painted(region.bytes, sizeof(bytes), 5));
    pair_meet(&pair);
    hide(&region);
    pair_end(&pair);
}

/* ---- Atomics ---- */

#define REFERENCE(type, name)                                                                                \
    static type name(enum fi_op op, type old, type operand, type compare)                                    \
    {                                                                                                        \
        switch (op) {                                                                                        \
        case FI_MIN:                                                                                         \
            return operand < old ? operand : old;                                                            \
        case FI_MAX:                                                                                         \
            return operand > old ? operand : old;                                                            \
        case FI_SUM:                                                                                         \
            return (type)(old + operand);                                                                    \
        case FI_ATOMIC_WRITE:                                                                                \
            return operand;                                                                                  \
        case FI_CSWAP:                                                                                       \
            return old == compare ? operand : old;                                                           \
        default:                                                                                             \
            return old;                                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_case(struct pair *pair, struct region *region, enum fi_datatype datatype,             \
                            enum fi_op op, int kind)                                                         \
    {                                                                                                        \
        enum { N = 5 };                                                                                      \
        type start[N] = {(type)-3, 7, 0, 100, (type)-1}, operand[N] = {5, (type)-2, 9, 100, 1};              \
        type compare[N] = {(type)-3, 8, 0, 99, (type)-1}, old[N] = {0}, now[N] = {0};                        \
        uint64_t a = region->base + 64, k = region->key;                                                     \
        EXPECT(fi_write(pair->ep, start, sizeof(start), NULL, pair->other, a, k, NULL) == 0);                \
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);                                                    \
        ssize_t rc;                                                                                          \
        if (kind == 0)                                                                                       \
            rc = fi_atomic(pair->ep, operand, N, NULL, pair->other, a, k, datatype, op, NULL);               \
        else if (kind == 1)                                                                                  \
            rc = fi_fetch_atomic(pair->ep, operand, N, NULL, old, NULL, pair->other, a, k, datatype, op,     \
                                 NULL);                                                                      \
        else                                                                                                 \
            rc = fi_compare_atomic(pair->ep, operand, N, NULL, compare, NULL, old, NULL, pair->other, a, k,  \
                                   datatype, op, NULL);                                                      \
        EXPECT(rc == 0);                                                                                     \
        struct fi_cq_tagged_entry entry;                                                                     \
        EXPECT(pair_complete(pair, pair->tx, &entry) == 0);                                                  \
        EXPECT(entry.flags == (FI_ATOMIC | (kind ? FI_READ : FI_WRITE)));                                    \
        EXPECT(fi_read(pair->ep, now, sizeof(now), NULL, pair->other, a, k, NULL) == 0);                     \
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);                                                    \
        for (int i = 0; i < N; i++) {                                                                        \
            EXPECT(now[i] == name(op, start[i], operand[i], compare[i]));                                    \
            EXPECT(kind == 0 || old[i] == start[i]);                                                         \
        }                                                                                                    \
    }
REFERENCE(int32_t, as_int32)
REFERENCE(uint32_t, as_uint32)
REFERENCE(int64_t, as_int64)
REFERENCE(uint64_t, as_uint64)
REFERENCE(float, as_float)
REFERENCE(double, as_double)

static void one_case(struct pair *pair, struct region *region, enum fi_datatype datatype, enum fi_op op,
                     int kind)
{
    switch (datatype) {
    case FI_INT32:
        as_int32_case(pair, region, datatype, op, kind);
        break;
    case FI_UINT32:
        as_uint32_case(pair, region, datatype, op, kind);
        break;
    case FI_INT64:
        as_int64_case(pair, region, datatype, op, kind);
        break;
    case FI_UINT64:
        as_uint64_case(pair, region, datatype, op, kind);
        break;
    case FI_FLOAT:
        as_float_case(pair, region, datatype, op, kind);
        break;
    case FI_DOUBLE:
        as_double_case(pair, region, datatype, op, kind);
        break;
    default:
        EXPECT(!"a datatype that should not be offered");
    }
}

static bool is_valid(struct pair *pair, enum fi_datatype datatype, enum fi_op op, int kind)
{
    static const uint64_t flags[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
    size_t count = 0;
    struct fi_atomic_attr attr = {0};
    int rc = kind == 0   ? fi_atomicvalid(pair->ep, datatype, op, &count)
             : kind == 1 ? fi_fetch_atomicvalid(pair->ep, datatype, op, &count)
                         : fi_compare_atomicvalid(pair->ep, datatype, op, &count);
    EXPECT(fi_query_atomic(pair->domain, datatype, op, &attr, flags[kind]) == rc);
    EXPECT(rc == 0 || rc == -FI_EOPNOTSUPP);
    EXPECT(rc || (count > 0 && attr.count == count && attr.size > 0));
    return rc == 0;
}

static void every_offered_atomic_computes_as_the_reference(const char *domain)
{
    struct pair pair;
    struct region region;
    int offered = 0;
    pair_begin(&pair, caps, 0, domain);
    expose(&pair, &region, 4096, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    for (int kind = 0; kind < 3; kind++)
        for (int datatype = 0; datatype < FI_DATATYPE_LAST; datatype++)
            for (int op = 0; op < FI_ATOMIC_OP_LAST; op++) {
                if (is_valid(&pair, (enum fi_datatype)datatype, (enum fi_op)op, kind)) {
                    one_case(&pair, &region, (enum fi_datatype)datatype, (enum fi_op)op, kind);
                    offered++;
                }
            }
    /* min, max, sum, write of 4 integers; sum, write of 2 floats; the same and read for fetch; cswap */
    EXPECT(offered == (16 + 4) + (20 + 6) + 4);
    uint64_t one = 1, old;
    EXPECT(fi_atomic(pair.ep, &one, 1, NULL, pair.other, 4, region.key, FI_UINT64, FI_SUM, NULL) == 0);
    EXPECT(pair_complete(&pair, pair.tx, NULL) == FI_EINVAL); /* not aligned */
    EXPECT(fi_fetch_atomic(pair.ep, &one, 1, NULL, &old, NULL, pair.other, 0, 5, FI_UINT64, FI_SUM, NULL) ==
           0);
    EXPECT(pair_complete(&pair, pair.tx, NULL) == FI_EKEYREJECTED);
    EXPECT(fi_atomic(pair.ep, &one, 1, NULL, pair.other, 0, region.key, FI_UINT64, FI_CSWAP, NULL) ==
           -FI_EOPNOTSUPP);
    pair_meet(&pair);
    hide(&region);
    pair_end(&pair);
}

static void post_add(struct pair *pair, fi_addr_t to, uint64_t key, const uint64_t *one, unsigned *pending)
{
    ssize_t rc;
    while ((rc = fi_atomic(pair->ep, one, 1, NULL, to, 0, key, FI_UINT64, FI_SUM, NULL)) == -FI_EAGAIN) {
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        --*pending;
    }
    EXPECT(rc == 0);
    ++*pending;
}

/* Both sides add to side 0's word at once, and so does side 0's own processor. */
static void concurrent_additions_are_all_counted(void)
{
    enum { ROUNDS = 3000 };
    struct pair pair;
    struct region region;
    char name[64];
    size_t len = sizeof(name);
    fi_addr_t self;
    const uint64_t one = 1;
    unsigned pending = 0;
    pair_begin(&pair, caps, 0, NULL);
    EXPECT(fi_getname(&pair.ep->fid, name, &len) == 0);
    EXPECT(fi_av_insert(pair.av, name, 1, &self, 0, NULL) == 1);
    expose(&pair, &region, 4096, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    for (int i = 0; i < ROUNDS; i++) {
        post_add(&pair, pair_side ? pair.other : self, KEY, &one, &pending);
        if (!pair_side)
            (void)__atomic_fetch_add((uint64_t *)region.bytes, 1, __ATOMIC_SEQ_CST);
    }
    while (pending--)
        EXPECT(pair_complete(&pair, pair.tx, NULL) == 0);
    pair_meet(&pair);
    EXPECT(pair_side || *(uint64_t *)region.bytes == 3 * ROUNDS);
    pair_meet(&pair);
    hide(&region);
    pair_end(&pair);
}

/* ---- Lost peers ---- */

/* Side 1 dies with requests to it under way: each of them completes with an error. */
static void requests_to_a_killed_peer_fail(void)
{
    enum { REQUESTS = 200 };
    struct pair pair;
    struct region region;
    pair_begin(&pair, caps, 0, NULL);
    expose(&pair, &region, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    unsigned char *bytes = calloc(1, SIZE);
    EXPECT(bytes);
    EXPECT(fi_write(pair.ep, bytes, 8, NULL, pair.other, 0, KEY, NULL) == 0);
    EXPECT(pair_complete(&pair, pair.tx, NULL) == 0);
    pair_meet(&pair);
    if (pair_side) {
        (void)raise(SIGSTOP); /* serves nothing from here on */
        exit(1);
    }
    int posted = 0, failed = 0, status;
    EXPECT(waitpid(pair.child, &status, WUNTRACED) == pair.child && WIFSTOPPED(status));
    for (; posted < REQUESTS; posted++) {
        size_t n = posted % 3 ? 64 : SIZE;
        ssize_t rc = posted % 2 ? fi_read(pair.ep, bytes, n, NULL, pair.other, 0, KEY, NULL)
                                : fi_write(pair.ep, bytes, n, NULL, pair.other, 0, KEY, NULL);
        EXPECT(rc == 0);
    }
    EXPECT(kill(pair.child, SIGKILL) == 0);
    EXPECT(waitpid(pair.child, &status, 0) == pair.child);
    for (int i = 0; i < posted; i++)
        failed += pair_complete(&pair, pair.tx, NULL) == FI_ECONNRESET;
    EXPECT(failed == posted);
    hide(&region);
    free(bytes);
    struct fid *fids[] = {&pair.ep->fid, &pair.tx->fid,     &pair.rx->fid,
                          &pair.av->fid, &pair.domain->fid, &pair.fabric->fid};
    for (size_t i = 0; i < sizeof(fids) / sizeof(*fids); i++)
        EXPECT(fi_close(fids[i]) == 0);
    fi_freeinfo(pair.info);
    (void)close(pair.fd);
}

int main(void)
{
    transfers_of_all_sizes_arrive(0);
    transfers_of_all_sizes_arrive(FI_MR_BASIC);
    scattered_pieces_are_joined();
    keys_rights_and_bounds_are_checked();
    writes_carry_data_to_the_target();
    every_offered_atomic_computes_as_the_reference(NULL);
    concurrent_additions_are_all_counted();
    requests_to_a_killed_peer_fail();
    return 0;
}
