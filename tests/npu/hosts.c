/*
 * Messages between two hosts (network namespaces, PAIR_HOSTS): what the path over a second provider must do.
 * hosts CASE.
 */
#include "tests/npu/pair.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CAPS (FI_MSG | FI_TAGGED | FI_REMOTE_COMM | FI_SOURCE | FI_DIRECTED_RECV)

static unsigned char pattern(size_t at, unsigned seed)
{
    return (unsigned char)(at * 31 + (at >> 12) + seed);
}

static unsigned char *filled(size_t len, unsigned seed)
{
    unsigned char *bytes = malloc(len + 1);
    EXPECT(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i, seed);
    return bytes;
}

static void check(const unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        EXPECT(bytes[i] == pattern(i, seed));
}

static void tsend(struct pair *pair, const void *bytes, size_t len, uint64_t tag, uint64_t flags,
                  uint64_t data)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = pair->other, .tag = tag, .data = data};
    ssize_t rc;
    while ((rc = fi_tsendmsg(pair->ep, &msg, flags)) == -FI_EAGAIN)
        (void)fi_cq_read(pair->tx, NULL, 0);
    EXPECT(rc == 0);
}

static void trecv(struct pair *pair, void *bytes, size_t len, uint64_t tag, void *context)
{
    EXPECT(fi_trecv(pair->ep, bytes, len, NULL, FI_ADDR_UNSPEC, tag, 0, context) == 0);
}

/* Lengths around what changes the way a message takes, each to both sides at once. */
static void sizes(struct pair *pair)
{
    static const size_t lens[] = {0,     1,     8191,  8192,  16383,   16384,
                                  16385, 65487, 65488, 65489, 1 << 20, (16 << 20) + 3};
    for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
        struct fi_cq_tagged_entry entry;
        unsigned char *out = filled(lens[i], (unsigned)i + (unsigned)pair_side), *in = calloc(1, lens[i] + 1);
        EXPECT(in);
        trecv(pair, in, lens[i], i, in);
        tsend(pair, out, lens[i], i, FI_REMOTE_CQ_DATA, 7 * i);
        EXPECT(pair_complete(pair, pair->rx, &entry) == 0);
        EXPECT(entry.op_context == in && entry.len == lens[i] && entry.tag == i && entry.data == 7 * i);
        EXPECT(entry.flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA));
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        check(in, lens[i], (unsigned)i + !pair_side);
        free(out);
        free(in);
    }
}

/* More messages than are kept: nothing is lost or out of order, and the receiver keeps a bounded part. */
static void unexpected(struct pair *pair)
{
    enum { COUNT = 600, LEN = 8000 };
    static unsigned char bytes[COUNT][LEN];
    struct fi_cq_tagged_entry entry;
    for (unsigned i = 0; i < COUNT && pair_side; i++) {
        memset(bytes[i], (int)i, LEN);
        tsend(pair, bytes[i], LEN, 1, 0, 0);
    }
    pair_meet(pair);
    if (pair_side) {
        for (unsigned i = 0; i < COUNT; i++)
            EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        return;
    }
    for (unsigned i = 0; i < COUNT; i++)
        trecv(pair, bytes[i], LEN, 1, bytes[i]);
    for (unsigned i = 0; i < COUNT; i++)
        EXPECT(pair_complete(pair, pair->rx, &entry) == 0);
    for (unsigned i = 0; i < COUNT; i++)
        EXPECT(bytes[i][0] == (unsigned char)i && bytes[i][LEN - 1] == (unsigned char)i);
}

/* Long messages the receiver does not know yet, received in another order, cut short, and looked at first. */
static void announced(struct pair *pair)
{
    enum { COUNT = 20, LEN = 300000 };
    struct fi_cq_tagged_entry entry;
    unsigned char *bytes[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        bytes[i] = filled(LEN, i + !pair_side * 100);
        if (pair_side)
            tsend(pair, bytes[i], LEN, i, i % 2 ? FI_DELIVERY_COMPLETE : 0, 0);
    }
    pair_meet(pair);
    for (unsigned i = COUNT; i-- > 0 && !pair_side;)
        trecv(pair, bytes[i], i == 3 ? LEN / 2 : LEN, i, bytes[i]);
    for (unsigned i = 0; i < COUNT; i++) {
        int err = pair_complete(pair, pair_side ? pair->tx : pair->rx, &entry);
        EXPECT(err == (!pair_side && entry.op_context == bytes[3] ? FI_ETRUNC : 0));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        check(bytes[i], i == 3 ? LEN / 2 : LEN, i);
        free(bytes[i]);
    }
}

/* What each completion level promises, and injection. */
static void levels(struct pair *pair)
{
    unsigned char byte = 5, in[4] = {0};
    struct fi_cq_tagged_entry entry;
    if (pair_side) {
        tsend(pair, &byte, 1, 1, FI_TRANSMIT_COMPLETE, 0);
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0); /* no receive is posted */
        tsend(pair, &byte, 1, 2, FI_DELIVERY_COMPLETE, 0);
        pair_meet(pair);
        EXPECT(fi_cq_read(pair->tx, &entry, 1) == -FI_EAGAIN);
        pair_meet(pair);
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        EXPECT(fi_tinject(pair->ep, &byte, 1, pair->other, 3) == 0);
        return;
    }
    pair_meet(pair);
    pair_meet(pair); /* not before the other side has looked */
    for (uint64_t tag = 1; tag <= 2; tag++)
        trecv(pair, &in[tag], 1, tag, NULL);
    trecv(pair, &in[3], 1, 3, NULL);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        EXPECT(pair_complete(pair, pair->rx, &entry) == 0);
        EXPECT(in[entry.tag] == 5);
    }
}

static void sleep_for(struct pair *pair, struct fid_cq *cq)
{
    struct fid *fid = &cq->fid;
    int fd = -1;
    EXPECT(fi_control(fid, FI_GETWAIT, &fd) == 0);
    while (fi_trywait(pair->fabric, &fid, 1) == 0) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        EXPECT(poll(&poll_fd, 1, 60000) == 1);
        (void)fi_cq_read(cq, NULL, 0);
    }
}

/* A sleeper is woken by what comes from another host. */
static void sleeping(struct pair *pair)
{
    enum { ROUNDS = 50 };
    struct fi_cq_tagged_entry entry;
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t len = i % 5 == 4 ? 100000 : 10;
        unsigned char *bytes = filled(len, i);
        if (i % 2 == (unsigned)pair_side) {
            tsend(pair, bytes, len, i, 0, 0);
            EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
        } else {
            memset(bytes, 0, len);
            trecv(pair, bytes, len, i, NULL);
            ssize_t got;
            while ((got = fi_cq_read(pair->rx, &entry, 1)) == -FI_EAGAIN)
                sleep_for(pair, pair->rx);
            EXPECT(got == 1);
            check(bytes, len, i);
        }
        free(bytes);
    }
}

/* The other process is killed: what is under way fails, and the endpoint can be closed. */
static void killed(struct pair *pair)
{
    enum { LEN = 1 << 20 };
    struct fi_cq_tagged_entry entry;
    unsigned char *out = filled(LEN, 1), *in = filled(LEN, 2);
    if (pair_side) {
        tsend(pair, out, LEN, 2, 0, 0); /* announced, and then nothing */
        tsend(pair, out, 1, 3, 0, 0);
        for (;;)
            (void)fi_cq_read(pair->tx, NULL, 0);
    }
    trecv(pair, in, 1, 3, NULL);
    EXPECT(pair_complete(pair, pair->rx, &entry) == 0);
    tsend(pair, out, LEN, 1, 0, 0);
    EXPECT(kill(pair->child, SIGKILL) == 0);
    EXPECT(waitpid(pair->child, NULL, 0) == pair->child);
    int err = pair_complete(pair, pair->tx, &entry);
    EXPECT(err == FI_ECONNRESET || err == FI_ECONNREFUSED || err == FI_ECONNABORTED);
    /* Nobody is there now. */
    tsend(pair, out, 1, 1, 0, 0);
    err = pair_complete(pair, pair->tx, &entry);
    EXPECT(err != 0);
    EXPECT(fi_close(&pair->ep->fid) == 0);
    free(out);
    free(in);
    exit(0);
}

/* A sender that leaves once its sends are complete: all of them arrive. */
static void leaving(struct pair *pair)
{
    enum { COUNT = 60, LEN = 8000 };
    static unsigned char bytes[COUNT][LEN];
    struct fi_cq_tagged_entry entry;
    for (unsigned i = 0; i < COUNT && pair_side; i++) {
        memset(bytes[i], (int)i, LEN);
        tsend(pair, bytes[i], LEN, 1, 0, 0);
    }
    for (unsigned i = 0; i < COUNT && pair_side; i++)
        EXPECT(pair_complete(pair, pair->tx, NULL) == 0);
    if (pair_side) {
        EXPECT(fi_tinject(pair->ep, bytes[1], LEN, pair->other, 1) == 0);
        EXPECT(fi_close(&pair->ep->fid) == 0);
        exit(0);
    }
    int status = 0;
    while (waitpid(pair->child, &status, WNOHANG) == 0)
        (void)fi_cq_read(pair->rx, NULL, 0);
    EXPECT(status == 0);
    for (unsigned i = 0; i < COUNT + 1; i++) {
        trecv(pair, bytes[i % COUNT], LEN, 1, NULL);
        EXPECT(pair_complete(pair, pair->rx, &entry) == 0);
        EXPECT(bytes[i % COUNT][LEN - 1] == (i < COUNT ? i : 1));
    }
    EXPECT(fi_close(&pair->ep->fid) == 0);
    exit(0);
}

/* The link between the hosts is cut and no word of it comes: what is under way ends in time (the test sets
 * FI_NPU_PEER_TIMEOUT), on both sides; once it is back, a send connects anew. */
static void vanished(struct pair *pair)
{
    enum { LEN = 1 << 20 };
    struct fi_cq_tagged_entry entry;
    unsigned char *out = filled(LEN, 1), in = 0;
    trecv(pair, &in, 1, 1, NULL);
    tsend(pair, out, 1, 1, 0, 0);
    EXPECT(pair_complete(pair, pair->tx, &entry) == 0);
    EXPECT(pair_complete(pair, pair->rx, &entry) == 0);
    tsend(pair, out, LEN, 2, 0, 0); /* announced, and nobody receives it */
    pair_meet(pair);
    if (pair_side)
        EXPECT(system("ip link set veth0 down") == 0);
    int err = pair_complete(pair, pair->tx, &entry);
    EXPECT(err == FI_ETIMEDOUT || err == FI_ECONNRESET || err == FI_EHOSTUNREACH || err == FI_ECONNABORTED);
    pair_meet(pair);
    if (pair_side)
        EXPECT(system("ip link set veth0 up") == 0);
    pair_meet(pair);
    trecv(pair, &in, 1, 3, NULL);
    tsend(pair, out, 1, 3, 0, 0);
    EXPECT(pair_complete(pair, pair->tx, &entry) == 0);
    EXPECT(pair_complete(pair, pair->rx, &entry) == 0);
    free(out);
}

/* The message that no memory of 32-bit lengths could describe. */
static void huge(struct pair *pair)
{
    const size_t len = ((size_t)4 << 30) + 12345;
    unsigned char *bytes = calloc(1, len);
    EXPECT(bytes);
    (void)alarm(300);
    for (size_t i = 0; i < len && pair_side; i += 4096)
        bytes[i] = pattern(i, 9);
    bytes[len - 1] = (unsigned char)(pair_side ? 77 : 0);
    if (pair_side)
        tsend(pair, bytes, len, 1, 0, 0);
    else
        trecv(pair, bytes, len, 1, NULL);
    EXPECT(pair_complete(pair, pair_side ? pair->tx : pair->rx, NULL) == 0);
    for (size_t i = 0; i < len; i += 4096)
        EXPECT(bytes[i] == pattern(i, 9));
    EXPECT(bytes[len - 1] == 77);
    free(bytes);
}

static const struct {
    const char *name;
    void (*run)(struct pair *pair);
} cases[] = {
    {"sizes", sizes},     {"unexpected", unexpected}, {"announced", announced},
    {"levels", levels},   {"sleeping", sleeping},     {"killed", killed},
    {"leaving", leaving}, {"vanished", vanished},     {"huge", huge},
};

int main(int argc, char **argv)
{
    struct pair pair;
    EXPECT(argc == 2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (strcmp(cases[i].name, argv[1]) != 0)
            continue;
        pair_begin(&pair, CAPS, 0, NULL);
        cases[i].run(&pair);
        pair_end(&pair);
        return 0;
    }
    fprintf(stderr, "%s: no such case\n", argv[1]);
    return 1;
}
