/* Memory of devices as source and target of RMA, atomics and messages, in all combinations with host memory.
 */
#include "tests/npu/pair.h"
#include "transports/npu/acl/table.h"

#include <string.h>
#include <time.h>

enum { SIZE = 3 << 20, NPU_IFACE = 0x6e7075, RATE_SIZE = 16 << 20, RATE_TURNS = 9 };

static const uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_HMEM;
static const struct hc_acl *acl;

/* Memory of the host (device -1) or of a device, registered. */
struct memory {
    unsigned char *bytes;
    int device;
    struct fid_mr *mr;
    void *desc;
};

static size_t size_of_memory = SIZE;

static void load_runtime(void)
{
    char error[300] = "";
    acl = hc_acl_load(getenv("HCOMM_NPU"), error, sizeof(error));
    if (!acl)
        fprintf(stderr, "%s\n", error);
    EXPECT(acl);
}

static void make(struct pair *pair, struct memory *memory, int device, uint64_t key)
{
    memory->device = device;
    memory->bytes = NULL;
    if (device >= 0) {
        EXPECT(acl->aclrtSetDevice(device) == 0);
        EXPECT(acl->aclrtMalloc((void **)&memory->bytes, size_of_memory, HC_ACL_HUGE_FIRST) == 0);
    } else {
        memory->bytes = calloc(1, size_of_memory);
    }
    EXPECT(memory->bytes);
    struct iovec iov = {memory->bytes, size_of_memory};
    /* By name, or found out by the provider. */
    bool named = device >= 0 && key % 2;
    struct fi_mr_attr attr = {
        .mr_iov = &iov,
        .iov_count = 1,
        .access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
        .requested_key = key,
        .iface = named ? (enum fi_hmem_iface)NPU_IFACE : FI_HMEM_SYSTEM,
        .device.reserved = named ? (uint64_t)device : 0,
    };
    EXPECT(fi_mr_regattr(pair->domain, &attr, 0, &memory->mr) == 0);
    memory->desc = fi_mr_desc(memory->mr);
}

/* Closing and freeing must work at once, whatever the peer did with the memory. */
static void release(struct memory *memory)
{
    EXPECT(fi_close(&memory->mr->fid) == 0);
    if (memory->device >= 0) {
        EXPECT(acl->aclrtSetDevice(memory->device) == 0);
        EXPECT(acl->aclrtFree(memory->bytes) == 0);
    } else {
        free(memory->bytes);
    }
}

static void fill(const struct memory *memory, size_t n, unsigned seed)
{
    unsigned char *bytes = malloc(n);
    EXPECT(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(i * 2654435761U >> 11 ^ seed);
    if (memory->device >= 0) {
        EXPECT(acl->aclrtSetDevice(memory->device) == 0);
        EXPECT(acl->aclrtMemcpy(memory->bytes, n, bytes, n, HC_ACL_H2D) == 0);
    } else {
        memcpy(memory->bytes, bytes, n);
    }
    free(bytes);
}

static bool holds(const struct memory *memory, size_t n, unsigned seed)
{
    unsigned char *bytes = malloc(n);
    size_t i = 0;
    EXPECT(bytes);
    if (memory->device >= 0) {
        EXPECT(acl->aclrtSetDevice(memory->device) == 0);
        EXPECT(acl->aclrtMemcpy(bytes, n, memory->bytes, n, HC_ACL_D2H) == 0);
    } else {
        memcpy(bytes, memory->bytes, n);
    }
    while (i < n && bytes[i] == (unsigned char)(i * 2654435761U >> 11 ^ seed))
        i++;
    free(bytes);
    return i == n;
}

static const size_t sizes[] = {8, 8192, 8193, 200000, SIZE};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static void rma_between(struct pair *pair, int here, int there)
{
    struct memory mine, exposed;
    make(pair, &mine, pair_side ? there : here, 10);
    make(pair, &exposed, pair_side ? there : here, 11);
    pair_meet(pair);
    for (unsigned i = 0; i < SIZES && !pair_side; i++) {
        fill(&mine, sizes[i], i);
        EXPECT(fi_write(pair->ep, mine.bytes, sizes[i], mine.desc, pair->other, 0, 11, NULL) == 0);
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        fill(&mine, sizes[i], i + 100);
        EXPECT(fi_read(pair->ep, mine.bytes, sizes[i], mine.desc, pair->other, 0, 11, NULL) == 0);
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        EXPECT(holds(&mine, sizes[i], i));
    }
    pair_meet(pair);
    EXPECT(!pair_side || holds(&exposed, SIZE, SIZES - 1));
    release(&mine);
    release(&exposed);
    pair_meet(pair);
}

static void messages_between(struct pair *pair, int here, int there)
{
    struct memory memory;
    make(pair, &memory, pair_side ? there : here, 13);
    for (unsigned i = 0; i < SIZES; i++) {
        if (pair_side) {
            EXPECT(fi_trecv(pair->ep, memory.bytes, SIZE, memory.desc, pair->other, i, 0, NULL) == 0);
            EXPECT(pair_complete(pair, pair->rx, NULL) == 0);
            EXPECT(holds(&memory, sizes[i], i));
        } else {
            fill(&memory, sizes[i], i);
            EXPECT(fi_tsend(pair->ep, memory.bytes, sizes[i], memory.desc, pair->other, i, NULL) == 0);
            EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        }
        pair_meet(pair);
    }
    release(&memory);
    pair_meet(pair);
}

static void atomics_reach_devices(struct pair *pair, int device)
{
    struct memory exposed;
    uint64_t one = 1, old = 0;
    make(pair, &exposed, device, 15);
    fill(&exposed, 64, 0);
    uint64_t start = 0;
    EXPECT(acl->aclrtMemcpy(exposed.bytes, 8, &start, 8, HC_ACL_H2D) == 0);
    pair_meet(pair);
    for (uint64_t i = 0; i < 10; i++) {
        EXPECT(fi_fetch_atomic(pair->ep, &one, 1, NULL, &old, NULL, pair->other, 0, 15, FI_UINT64, FI_SUM,
                               NULL) == 0);
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        EXPECT(old == i);
    }
    pair_meet(pair);
    release(&exposed);
    pair_meet(pair);
}

/* An operation's pieces are all of the host, or all of one device: anything else is refused at once. */
static void mixed_pieces_are_refused(struct pair *pair)
{
    struct memory on[3];
    for (int i = 0; i < 3; i++)
        make(pair, &on[i], i - 1, 20 + (uint64_t)i);
    pair_meet(pair);
    for (int second = 0; second < 3 && !pair_side; second += 2) {
        struct iovec iov[] = {{on[1].bytes, 100}, {on[second].bytes, 100}};
        void *desc[] = {on[1].desc, on[second].desc};
        EXPECT(fi_sendv(pair->ep, iov, desc, 2, pair->other, NULL) == -FI_EINVAL);
        EXPECT(fi_recvv(pair->ep, iov, desc, 2, pair->other, NULL) == -FI_EINVAL);
        EXPECT(fi_writev(pair->ep, iov, desc, 2, pair->other, 0, 21, NULL) == -FI_EINVAL);
        EXPECT(fi_readv(pair->ep, iov, desc, 2, pair->other, 0, 21, NULL) == -FI_EINVAL);
    }
    pair_meet(pair);
    for (int i = 0; i < 3; i++)
        release(&on[i]);
}

/* Peers could not be kept from touching it, which would end this process. */
static void freed_memory_is_not_registered(struct pair *pair)
{
    void *bytes = NULL;
    struct fid_mr *mr = NULL;
    EXPECT(acl->aclrtSetDevice(0) == 0);
    EXPECT(acl->aclrtMalloc(&bytes, SIZE, HC_ACL_HUGE_FIRST) == 0);
    EXPECT(fi_mr_reg(pair->domain, bytes, 2 * (size_t)SIZE, FI_REMOTE_WRITE, 0, 30, 0, &mr, NULL) ==
           -FI_EINVAL);
    EXPECT(acl->aclrtFree(bytes) == 0);
    EXPECT(fi_mr_reg(pair->domain, bytes, SIZE, FI_REMOTE_WRITE, 0, 30, 0, &mr, NULL) == -FI_EINVAL);
}

/*
 * A copy of a device fails amid an operation (NPUSIM_FAULT): that operation fails, where the bytes were to be
 * and where it was posted, and the next one does not.
 */
static int one_operation(struct pair *pair, const char *what, const struct memory *memory)
{
    int err = 0;
    if (strcmp(what, "message") == 0) {
        struct iovec iov = {memory->bytes, SIZE};
        struct fi_msg_tagged msg = {.msg_iov = &iov,
                                    .desc = (void **)(uintptr_t)&memory->desc,
                                    .iov_count = 1,
                                    .addr = pair->other,
                                    .tag = 1};
        if (pair_side)
            EXPECT(fi_trecvmsg(pair->ep, &msg, 0) == 0);
        else
            EXPECT(fi_tsendmsg(pair->ep, &msg, FI_DELIVERY_COMPLETE) == 0);
        err = pair_complete(pair, pair_side ? pair->rx : pair->tx, NULL);
    } else if (!pair_side) {
        ssize_t rc = strcmp(what, "read") == 0
                         ? fi_read(pair->ep, memory->bytes, SIZE, memory->desc, pair->other, 0, 50, NULL)
                         : fi_write(pair->ep, memory->bytes, SIZE, memory->desc, pair->other, 0, 50, NULL);
        EXPECT(rc == 0);
        err = pair_complete(pair, pair->tx, NULL);
    }
    pair_meet(pair);
    return err;
}

static void failing_copy(struct pair *pair, const char *what)
{
    struct memory memory;
    bool told = pair_side == 0 || strcmp(what, "message") == 0;
    bool reads = strcmp(what, "read") == 0;
    make(pair, &memory, pair_side, 50);
    fill(&memory, SIZE, (unsigned)pair_side);
    pair_meet(pair);
    EXPECT(one_operation(pair, what, &memory) == (told ? FI_EIO : 0));
    fill(&memory, SIZE, (unsigned)pair_side);
    pair_meet(pair);
    EXPECT(one_operation(pair, what, &memory) == 0);
    EXPECT(holds(&memory, SIZE, reads));
    release(&memory);
}

/* ---- How fast (hmem rate): asserts nothing about it ---- */

static double milliseconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Side 0's time for one operation, until the bytes are in side 1's memory. */
static double one_turn(struct pair *pair, const char *what, struct memory *memory)
{
    bool message = strcmp(what, "message") == 0;
    pair_meet(pair);
    double start = milliseconds();
    if (message && pair_side) {
        EXPECT(fi_trecv(pair->ep, memory->bytes, RATE_SIZE, memory->desc, pair->other, 1, 0, NULL) == 0);
        EXPECT(pair_complete(pair, pair->rx, NULL) == 0);
    } else if (message) {
        struct iovec iov = {memory->bytes, RATE_SIZE};
        struct fi_msg_tagged msg = {
            .msg_iov = &iov, .desc = &memory->desc, .iov_count = 1, .addr = pair->other, .tag = 1};
        EXPECT(fi_tsendmsg(pair->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION) == 0);
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
    } else if (!pair_side) {
        ssize_t rc = strcmp(what, "read") == 0 ? fi_read(pair->ep, memory->bytes, RATE_SIZE, memory->desc,
                                                         pair->other, 0, memory->mr->key, NULL)
                                               : fi_write(pair->ep, memory->bytes, RATE_SIZE, memory->desc,
                                                          pair->other, 0, memory->mr->key, NULL);
        EXPECT(rc == 0);
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
    }
    double end = milliseconds();
    pair_meet(pair);
    return end - start;
}

static void tell_rates(struct pair *pair)
{
    static const char *const whats[] = {"message", "write", "read"};
    for (int device = -1; device <= 0; device++) {
        struct memory memory;
        make(pair, &memory, device < 0 ? -1 : pair_side, 40);
        fill(&memory, RATE_SIZE, 1);
        for (size_t i = 0; i < sizeof(whats) / sizeof(*whats); i++) {
            double turns[RATE_TURNS];
            for (int turn = 0; turn < RATE_TURNS; turn++)
                turns[turn] = one_turn(pair, whats[i], &memory);
            qsort(turns, RATE_TURNS, sizeof(*turns), by_value);
            if (!pair_side)
                printf("%-8s %s to %s %7.1f ms\n", whats[i], device < 0 ? "host  " : "device",
                       device < 0 ? "host  " : "device", turns[RATE_TURNS / 2]);
        }
        release(&memory);
    }
}

/* hmem other|same|rate|message|write|read: whether both sides use one device; how long 16 MiB take; such an
 * operation with a copy that fails. Forks before it uses the
 * device runtime. */
int main(int argc, char **argv)
{
    struct pair pair;
    bool rate = argc > 1 && strcmp(argv[1], "rate") == 0;
    int other = argc > 1 && strcmp(argv[1], "same") == 0 ? 0 : 1;
    pair_begin(&pair, caps, FI_MR_HMEM, "npu0");
    load_runtime();
    if (rate) {
        size_of_memory = RATE_SIZE;
        tell_rates(&pair);
        pair_end(&pair);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "other") != 0 && strcmp(argv[1], "same") != 0) {
        failing_copy(&pair, argv[1]);
        pair_end(&pair);
        return 0;
    }
    for (int here = -1; here <= 0; here++)
        for (int there = -1; there <= 0; there++) {
            rma_between(&pair, here, there < 0 ? -1 : other);
            messages_between(&pair, here, there < 0 ? -1 : other);
        }
    atomics_reach_devices(&pair, 0);
    mixed_pieces_are_refused(&pair);
    freed_memory_is_not_registered(&pair);
    pair_end(&pair);
    return 0;
}
