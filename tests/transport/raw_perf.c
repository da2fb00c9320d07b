/*
 * raw_perf [TRANSPORT [CPU CPU]]: what a transport does when driven directly between two pinned processes:
 * latency beside that of a bare cache line handed to and fro, message rate, streaming bandwidth of packed
 * messages, and put and get where they complete at once. Figures are the best of several rounds: the machine
 * may be busy. Not a test: it judges nothing.
 */
#include "harness.h"

#include "runtime/base/clock.h"
#include "runtime/base/copy.h"
#include "runtime/base/log.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 5, BUFFER = 8 << 20, PIECE = 65536, HEADER = 16 };

struct lines {
    HC_CACHE_ALIGNED _Atomic uint64_t ping;
    HC_CACHE_ALIGNED _Atomic uint64_t pong;
    HC_CACHE_ALIGNED atomic_int ready;
    size_t addr_len[2], rkey_len[2];
    uint64_t base[2];
    unsigned char addr[2][CF_ADDR_MAX], rkey[2][256];
};

static struct lines *shared;
static struct hc_iface *iface;
static struct hc_ep *ep;
static struct hc_rkey *rkey;
static unsigned char *buffer, *other;
static int me;
static uint64_t messages, bytes;
static size_t region; /* bytes of the receive buffer in use, as a program that receives again and again */
static bool copy_in;  /* the receiver copies payloads to its buffer */

static void die(const char *what)
{
    fprintf(stderr, "raw_perf: %s: %s\n", what, hc_error_detail());
    exit(1);
}

static void on_am(void *arg, uint32_t from, uint8_t id, const void *data, size_t len)
{
    (void)arg;
    (void)from;
    (void)id;
    messages++;
    if (copy_in) {
        if (bytes >= region)
            bytes = 0;
        hc_copy(buffer + bytes, (const char *)data + HEADER, len - HEADER);
        bytes += len - HEADER;
    }
}

static void on_failed(void *arg, struct hc_ep *failed, hcomm_status_t status)
{
    (void)arg;
    (void)failed;
    (void)status;
    die("the ep failed");
}

static void meet(void)
{
    int target = (atomic_fetch_add(&shared->ready, 1) / 2 + 1) * 2;
    while (atomic_load(&shared->ready) < target)
        if (iface && !iface->transport->progress(iface))
            (void)sched_yield();
}

static void send_short(const void *data, size_t len)
{
    static const uint64_t header[2] = {1, 2};
    hcomm_status_t status;
    while ((status = iface->transport->am_short(ep, 1, header, HEADER, data, len)) == HCOMM_AGAIN)
        (void)iface->transport->progress(iface);
    if (status != HCOMM_OK)
        die("am_short");
}

struct piece {
    const unsigned char *from;
    size_t len;
};

static size_t pack(void *dest, void *arg)
{
    const struct piece *piece = arg;
    memset(dest, 0, HEADER);
    hc_copy((char *)dest + HEADER, piece->from, piece->len);
    return HEADER + piece->len;
}

static void send_bcopy(const unsigned char *data, size_t len)
{
    struct piece piece = {data, len};
    hcomm_status_t status;
    while ((status = iface->transport->am_bcopy(ep, 1, pack, &piece)) == HCOMM_AGAIN)
        (void)iface->transport->progress(iface);
    if (status != HCOMM_OK)
        die("am_bcopy");
}

static void wait_messages(uint64_t count)
{
    while (messages < count)
        (void)iface->transport->progress(iface);
}

static double line_latency(int n)
{
    uint64_t start = hc_clock_ns();
    for (int i = 1; i <= n; i++) {
        if (me == 0) {
            atomic_store_explicit(&shared->ping, (uint64_t)i, memory_order_release);
            while (atomic_load_explicit(&shared->pong, memory_order_acquire) != (uint64_t)i)
                continue;
        } else {
            while (atomic_load_explicit(&shared->ping, memory_order_acquire) != (uint64_t)i)
                continue;
            atomic_store_explicit(&shared->pong, (uint64_t)i, memory_order_release);
        }
    }
    return (double)(hc_clock_ns() - start) / n / 2;
}

/* One way, in ns; large messages travel in pieces, as the core sends them. */
static double latency(size_t size, int n)
{
    messages = bytes = 0;
    region = size ? size : 1;
    copy_in = true;
    meet();
    uint64_t start = hc_clock_ns(), got = 0;
    size_t pieces = size ? (size + PIECE - 1) / PIECE : 1;
    for (int i = 0; i < n; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if (turn != me) {
                wait_messages(got += pieces);
                continue;
            }
            if (size + HEADER <= iface->attr.short_max) {
                send_short(buffer, size);
                continue;
            }
            for (size_t at = 0; at < size; at += PIECE)
                send_bcopy(other + at, size - at < PIECE ? size - at : PIECE);
        }
    }
    return (double)(hc_clock_ns() - start) / n / 2;
}

/* Messages per second, one way. */
static double rate(size_t size, int n)
{
    messages = bytes = 0;
    copy_in = false;
    meet();
    uint64_t start = hc_clock_ns();
    if (me == 0)
        for (int i = 0; i < n; i++)
            send_short(buffer, size);
    else
        wait_messages((uint64_t)n);
    double ns = (double)(hc_clock_ns() - start);
    meet();
    return n / ns * 1e3;
}

/* GB/s one way, copied in and out. */
static double bandwidth(size_t size, int n)
{
    messages = bytes = 0;
    region = size ? size : 1;
    copy_in = true;
    meet();
    uint64_t start = hc_clock_ns();
    size_t piece = size < PIECE ? size : PIECE;
    for (int i = 0; me == 0 && i < n; i++)
        for (size_t at = 0; at < size; at += piece)
            send_bcopy(other + at, size - at < piece ? size - at : piece);
    if (me == 1)
        wait_messages((uint64_t)n * ((size + piece - 1) / piece));
    double ns = (double)(hc_clock_ns() - start);
    meet();
    return (double)size * n / ns;
}

/* A transfer to or from the peer's memory; only for transports that complete it at once. */
static hcomm_status_t move(bool put, size_t at, size_t len)
{
    const struct hc_transport *transport = iface->transport;
    uint64_t remote = shared->base[1] + at;
    return put ? transport->put(ep, buffer + at, len, NULL, remote, rkey, NULL)
               : transport->get(ep, buffer + at, len, NULL, remote, rkey, NULL);
}

static double move_time(bool put, size_t size, int n)
{
    double ns = 0;
    meet();
    if (me == 0) {
        uint64_t start = hc_clock_ns();
        for (int i = 0; i < n; i++)
            for (size_t at = 0; at < size; at += iface->attr.rma_max) {
                size_t len = size - at < iface->attr.rma_max ? size - at : iface->attr.rma_max;
                if (move(put, at, len) != HCOMM_OK)
                    die(put ? "put" : "get");
            }
        ns = (double)(hc_clock_ns() - start) / n;
    }
    meet();
    return ns;
}

static double get_time(size_t size, int n)
{
    return move_time(false, size, n);
}

static double put_time(size_t size, int n)
{
    return move_time(true, size, n);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        perror("raw_perf: sched_setaffinity");
}

static void expose(void)
{
    struct hc_mem *mem = NULL;
    struct hc_mem_attr attr = {.device = -1, .remote_read = true, .remote_write = true};
    if (!(iface->attr.caps & HC_CAP_RMA))
        return;
    shared->rkey_len[me] = sizeof(shared->rkey[me]);
    if (iface->transport->mem_reg(iface, buffer, BUFFER, &attr, &mem) != HCOMM_OK ||
        iface->transport->rkey_pack(mem, shared->rkey[me], &shared->rkey_len[me]) != HCOMM_OK)
        die("registering memory");
    shared->base[me] = (uintptr_t)buffer;
}

static void open_all(const struct hc_resource *resource, const struct hc_settings *settings)
{
    static struct hc_counters counters;
    struct hc_iface_params params = {.am = on_am,
                                     .ep_failed = on_failed,
                                     .settings = settings,
                                     .counters = &counters,
                                     .world_rank = (uint32_t)me,
                                     .world_size = 2,
                                     .local_rank = (uint32_t)me,
                                     .local_size = 2,
                                     .job_id = "raw"};
    if (resource->transport->open(resource, &params, &iface) != HCOMM_OK)
        die("open");
    buffer = aligned_alloc(4096, BUFFER);
    other = aligned_alloc(4096, BUFFER);
    if (!buffer || !other)
        die("memory");
    memset(buffer, 1, BUFFER);
    memset(other, 2, BUFFER);
    shared->addr_len[me] = CF_ADDR_MAX;
    if (iface->transport->address(iface, shared->addr[me], &shared->addr_len[me]) != HCOMM_OK)
        die("address");
    expose();
    meet();
    if (iface->transport->ep_create(iface, (uint32_t)!me, shared->addr[!me], shared->addr_len[!me], &ep))
        die("ep_create");
    if ((iface->attr.caps & HC_CAP_RMA) &&
        iface->transport->rkey_unpack(ep, shared->rkey[!me], shared->rkey_len[!me], &rkey) != HCOMM_OK)
        die("rkey_unpack");
}

static double best(double (*measure)(size_t, int), size_t size, int n, bool small)
{
    double result = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double value = measure(size, n);
        if (i == 0 || (small ? value < result : value > result))
            result = value;
    }
    return result;
}

static double line_round(size_t size, int n)
{
    (void)size;
    meet();
    if (me == 0)
        atomic_store(&shared->ping, 0);
    else
        atomic_store(&shared->pong, 0);
    meet();
    return line_latency(n);
}

static void report(void)
{
    static const size_t sizes[] = {0,    8,     40,    64,    256,    1024,   2048,    4096,
                                   8192, 16384, 32768, 65536, 131072, 262144, 1048576, 4194304};
    double line = best(line_round, 0, 100000, true);
    double first = best(latency, 8, 100000, true);
    if (me == 0)
        printf("line %.0f ns, 8 B %.0f ns (%.2f x)\n", line, first, first / line);
    double r8 = best(rate, 8, 1000000, false);
    if (me == 0)
        printf("rate 8 B %.1f M/s\n", r8);
    for (size_t i = 0; i < hc_array_len(sizes); i++) {
        size_t size = sizes[i];
        int n = size < 4096 ? 20000 : (int)((64u << 20) / size / 4 + 8);
        double lat = best(latency, size, n, true);
        double bw = size >= 256 ? best(bandwidth, size, n * 4, false) : 0;
        bool moves = rkey && (iface->attr.caps & HC_CAP_SHARE) && size >= 4096;
        double got = moves ? best(get_time, size, n, true) : 0;
        double put = moves ? best(put_time, size, n, true) : 0;
        if (me == 0)
            printf("%8zu B  latency %9.2f us  bandwidth %6.2f GB/s  get %9.2f us  put %9.2f us\n", size,
                   lat / 1e3, bw, got / 1e3, put / 1e3);
    }
}

int main(int argc, char **argv)
{
    struct hc_settings settings;
    static struct hc_resource_list list;
    const char *name = argc > 1 ? argv[1] : "shm";
    if (hc_settings_load(NULL, &settings, NULL) != HCOMM_OK)
        die("settings");
    settings.transports = name;
    list.settings = &settings;
    if (hc_transport_query(&list) != HCOMM_OK || list.count < 2 || !list.entries[1].usable)
        die("no such transport");
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    pid_t child = fork();
    me = child == 0;
    if (me)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(atoi(argc > 3 ? argv[2 + me] : me ? "1" : "0"));
    open_all(&list.entries[1], &settings);
    meet();
    report();
    (void)fflush(stdout);
    meet();
    if (me)
        _exit(0);
    return waitpid(child, NULL, 0) == child ? 0 : 1;
}
