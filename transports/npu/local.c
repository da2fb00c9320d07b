/* The local path's life: the endpoint's address, connections, lost peers. */
#include "runtime/base/clock.h"
#include "runtime/base/memfile.h"
#include "transports/npu/chan.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    HEAR_NS = 2 * 1000 * 1000, /* how long one who has connected is waited for */
    GREET_EVERY = 128,         /* idle calls between looks at the socket while there is nobody to hear of */
};

const struct npu_path_ops npu_local_path = {
    .name = "local",
    .send = npu_chan_send,
    .rma = npu_chan_rma,
    .fetch = npu_chan_fetch,
    .delivered = npu_chan_delivered,
    .lost = npu_chan_lost,
    .release = npu_chan_release,
    .cancel = npu_chan_cancel,
};

/* ---- Barriers ---- */

static int membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* Whether this process takes part in others' barriers, and may call them. */
static bool barrier_works(void)
{
    int offered = membarrier(MEMBARRIER_CMD_QUERY);
    return offered > 0 && (offered & MEMBARRIER_CMD_GLOBAL_EXPEDITED) &&
           membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
           membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

/* ---- Names ---- */

/* The abstract name of a port; returns the length of the address. */
static socklen_t socket_name(uint16_t port, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "hcomm-npu:%u", port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int local_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : fd;
}

/* Whether the other end of a connected socket runs as the same user; tells its process, too. */
static bool same_user(int fd, pid_t *pid)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return false;
    *pid = cred.pid;
    return cred.uid == geteuid();
}

/* Reserve a port with the kernel's TCP, so that nobody else is given it; port 0: any. -1: taken, or no
 * network. */
static int reserve_port(struct npu_addr *addr)
{
    int fd = socket(addr->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)npu_addr_len(addr);
    if (fd < 0)
        return -1;
    if (bind(fd, &addr->sa, len) < 0 || getsockname(fd, &addr->sa, &len) < 0) {
        (void)close(fd);
        return -1;
    }
    /* The listener for other hosts (net.c) may have the same port. */
    const int yes = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    return fd;
}

static bool is_any(const struct npu_addr *addr)
{
    static const struct in6_addr any6 = IN6ADDR_ANY_INIT;
    if (addr->sa.sa_family == AF_INET6)
        return memcmp(&addr->in6.sin6_addr, &any6, sizeof(any6)) == 0;
    return addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
}

/* An address that others can use instead of "any". */
static void make_usable(struct npu_addr *addr)
{
    uint16_t port = npu_addr_port(addr);
    if (!is_any(addr))
        return;
    npu_addr_default(npu_addr_format(addr), addr);
    npu_addr_set_port(addr, port);
}

static int listen_as(struct npu_local *local, uint16_t port)
{
    struct sockaddr_un name;
    socklen_t len = socket_name(port, &name);
    int fd = local_socket();
    if (fd < 0)
        return fd;
    if (bind(fd, (struct sockaddr *)&name, len) < 0 || listen(fd, BACKLOG) < 0) {
        int rc = -errno;
        (void)close(fd);
        return rc;
    }
    local->listen.fd = fd;
    return 0;
}

/* Find a port nobody uses. */
static int listen_anywhere(struct npu_local *local, struct npu_addr *addr)
{
    enum { TRIES = 64 };
    int rc = -FI_EADDRINUSE;
    for (int i = 0; i < TRIES && rc == -FI_EADDRINUSE; i++) {
        struct npu_addr found = *addr;
        local->port_fd = reserve_port(&found);
        if (local->port_fd < 0)
            return -FI_EADDRNOTAVAIL;
        rc = listen_as(local, npu_addr_port(&found));
        if (rc == 0) {
            *addr = found;
            return 0;
        }
        (void)close(local->port_fd);
        local->port_fd = -1;
    }
    return rc;
}

static int take_address(struct npu_local *local, struct npu_addr *addr)
{
    make_usable(addr);
    if (!npu_addr_is_local(addr))
        return -FI_EADDRNOTAVAIL; /* nobody would reach it */
    if (npu_addr_port(addr) == 0)
        return listen_anywhere(local, addr);
    int rc = listen_as(local, npu_addr_port(addr));
    if (rc == 0)
        local->port_fd = reserve_port(addr);
    return rc;
}

/* ---- Channels ---- */

static void chan_ready(struct npu_ep *ep, struct npu_watch *watch, uint32_t events);

static struct npu_chan *chan_new(struct npu_local *local, int fd, bool outgoing)
{
    struct npu_chan *chan = calloc(1, sizeof(*chan));
    if (!chan)
        return NULL;
    chan->local = local;
    chan->outgoing = outgoing;
    chan->watch = (struct npu_watch){.fd = fd, .ready = chan_ready};
    chan->peer = (struct npu_peer){
        .path = &npu_local_path, .ep = local->ep, .source = FI_ADDR_NOTAVAIL, .reported = FI_ADDR_NOTAVAIL};
    hc_list_init(&chan->node);
    hc_list_init(&chan->queue);
    hc_list_init(&chan->sending);
    hc_list_init(&chan->busy_node);
    hc_list_init(&chan->waiting);
    hc_list_init(&chan->held);
    hc_list_init(&chan->owed);
    return chan;
}

static void hang_up(struct npu_chan *chan)
{
    if (chan->watch.fd < 0)
        return;
    npu_ep_unwatch(chan->peer.ep, &chan->watch);
    (void)close(chan->watch.fd);
    chan->watch.fd = -1;
}

/* ---- Partners: the channels of two endpoints, there and back ---- */

static void part(struct npu_chan *chan)
{
    struct npu_chan *partner = chan->partner;
    if (!partner)
        return;
    (chan->outgoing ? chan : partner)->writer.back = NULL;
    chan->partner = partner->partner = NULL;
}

/* The kernel tells the process, so that nobody speaks for another one. */
static void pair(struct npu_chan *out, struct npu_chan *in)
{
    if (out->pid != in->pid || npu_addr_port(&out->peer.addr) != npu_addr_port(&in->peer.addr))
        return;
    part(out);
    part(in);
    out->partner = in;
    in->partner = out;
    out->writer.back = &in->reader;
}

static void pair_out(struct npu_local *local, struct npu_chan *out)
{
    for (unsigned i = 0; i < local->in_count; i++)
        if (!local->in[i]->peer.dead && !local->in[i]->closing)
            pair(out, local->in[i]);
}

static void chan_free(struct npu_chan *chan)
{
    part(chan);
    if (chan->memory)
        npu_chan_revoke(chan); /* before it hangs up, which says that nothing is there any more */
    hang_up(chan);
    hc_list_remove(&chan->node);
    hc_list_remove(&chan->busy_node);
    struct hc_list *node;
    while ((node = hc_list_pop(&chan->held)))
        free(hc_list_entry(node, struct npu_held, node));
    while ((node = hc_list_pop(&chan->owed)))
        free(hc_list_entry(node, struct npu_owed, node));
    npu_chan_stop_serving(chan);
    free(chan->serve);
    if (chan->memory)
        (void)munmap(chan->memory, sizeof(*chan->memory));
    free(chan);
}

static int map(int fd, struct npu_chan_memory **memory)
{
    void *base = mmap(NULL, sizeof(**memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    *memory = base;
    /* The pages every message uses, now rather than one by one later. Older kernels do without. */
    (void)madvise(base, offsetof(struct npu_chan_memory, streams), MADV_POPULATE_WRITE);
    return 0;
}

void npu_chan_prepare(struct npu_chan *chan, int stream, uint64_t begin, size_t bytes)
{
    enum { AHEAD = 16 << 10 };
    size_t there = chan->prepared[stream];
    bool part = begin % NPU_STREAM_BYTES == 0 && bytes < NPU_STREAM_BYTES;
    size_t end = part ? hc_align_up(bytes, AHEAD) : NPU_STREAM_BYTES;
    if (hc_likely(end <= there))
        return;
    chan->prepared[stream] = end;
    (void)madvise(chan->memory->streams[stream] + there, end - there, MADV_POPULATE_WRITE);
}

static int make_memory(struct npu_chan_memory **memory)
{
    int fd = hc_memfile_create("hcomm-npu", sizeof(**memory));
    if (fd < 0)
        return -errno;
    int rc = map(fd, memory);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    (*memory)->head.magic = NPU_CHAN_MAGIC;
    (*memory)->head.version = NPU_PROTOCOL_VERSION;
    (*memory)->head.size = sizeof(**memory);
    return fd;
}

void npu_chan_fence(struct npu_chan *chan)
{
    if (chan->outgoing && chan->local->barrier)
        chan->fence =
            atomic_load_explicit(&chan->memory->head.attach, memory_order_acquire) != NPU_ATTACHED_BARRIER;
    atomic_thread_fence(memory_order_seq_cst);
}

void npu_chan_wake(struct npu_chan *chan, _Atomic uint32_t *asleep)
{
    if (!atomic_exchange_explicit(asleep, 0, memory_order_relaxed) || chan->watch.fd < 0)
        return;
    /* A full socket buffer wakes as well; a lost peer is noticed at the next service. */
    if (send(chan->watch.fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN)
        chan->peer.ep->attention = true;
}

void npu_chan_fail(struct npu_chan *chan, const char *why)
{
    if (chan->peer.dead)
        return;
    npu_warn(EP_DATA, "process %d, port %u: %s; its connection is closed\n", (int)chan->pid,
             npu_addr_port(&chan->peer.addr), why);
    chan->peer.dead = true;
    chan->peer.ep->attention = true;
}

/* ---- Connecting ---- */

static int connect_socket(const struct npu_addr *addr, pid_t *pid)
{
    struct sockaddr_un name;
    socklen_t len = socket_name(npu_addr_port(addr), &name);
    int fd = local_socket();
    if (fd < 0)
        return fd;
    int rc = connect(fd, (struct sockaddr *)&name, len) < 0 ? -errno : 0;
    if (rc == 0 && !same_user(fd, pid))
        rc = -FI_EACCES;
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    return fd;
}

static int send_hello(struct npu_chan *chan, const int *fds, unsigned count)
{
    struct npu_hello hello = {
        .magic = NPU_CHAN_MAGIC,
        .version = NPU_PROTOCOL_VERSION,
        .size = sizeof(struct npu_chan_memory),
        .addr = chan->peer.ep->addr,
        .barrier = chan->local->barrier,
    };
    union {
        struct cmsghdr head;
        unsigned char bytes[CMSG_SPACE(NPU_HELLO_FDS * sizeof(int))];
    } control = {0};
    size_t size = count * sizeof(int);
    struct iovec iov = {.iov_base = &hello, .iov_len = sizeof(hello)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(size)};
    control.head =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), fds, size);
    return sendmsg(chan->watch.fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static struct npu_proof make_proof(struct npu_chan *chan)
{
    /* Hard to guess is enough: it tells a process from another that was given its number. */
    chan->proof = (uint64_t)(uintptr_t)chan->memory ^ (uint64_t)getpid() << 32 ^ NPU_CHAN_MAGIC;
    return (struct npu_proof){.addr = (uintptr_t)&chan->proof, .value = chan->proof};
}

static uint16_t new_life(struct npu_local *local)
{
    local->life = local->life == NPU_OFFERED_LIFE - 1 ? 1 : (uint16_t)(local->life + 1);
    return local->life;
}

/* The channel to an address that is there already, for an address that was removed and came back. */
static struct npu_chan *find_out(struct npu_local *local, const struct npu_addr *addr)
{
    struct hc_list *node;
    hc_list_for_each(node, &local->out)
    {
        struct npu_chan *chan = hc_list_entry(node, struct npu_chan, node);
        if (!chan->peer.dead && npu_addr_port(&chan->peer.addr) == npu_addr_port(addr))
            return chan;
    }
    return NULL;
}

/* ---- Receiving ---- */

static int add_in(struct npu_local *local, struct npu_chan *chan)
{
    if (local->in_count == local->in_room) {
        unsigned room = local->in_room ? 2 * local->in_room : 8;
        struct npu_chan **grown = realloc(local->in, room * sizeof(struct npu_chan *));
        if (!grown)
            return -FI_ENOMEM;
        local->in = grown;
        local->in_room = room;
    }
    local->in[local->in_count++] = chan;
    return 0;
}

/* This side is there to receive on a channel whose memory is mapped. */
static int begin_receiving(struct npu_chan *chan)
{
    struct npu_chan_head *head = &chan->memory->head;
    npu_ring_reader_init(&chan->reader, chan->memory->ring, &head->ring_head, head->life);
    int rc = add_in(chan->local, chan);
    if (rc < 0)
        return rc;
    /* relaxed: without it the sender takes another way */
    atomic_store_explicit(&head->receiver_pid, npu_dma_pid(), memory_order_relaxed);
    head->receiver_proof = make_proof(chan);
    hc_share_pool_init(&chan->shares, chan->memory->shares);
    if (chan->peer.ep->armed)
        atomic_store(&head->receiver_asleep, 1);
    return 0;
}

/* The sender is known. barrier: its process takes part in membarrier(2). */
static void know_sender(struct npu_chan *chan, bool barrier)
{
    struct npu_chan *out = find_out(chan->local, &chan->peer.addr);
    if (out)
        pair(out, chan);
    (void)npu_chan_may_copy(chan);
    npu_chan_publish_ways(chan);
    chan->fence = !(barrier && chan->local->barrier);
}

/* release: who sees it sees what was written before */
static void publish_attach(struct npu_chan *chan, bool barrier)
{
    atomic_store_explicit(&chan->memory->head.attach, barrier ? NPU_ATTACHED_BARRIER : NPU_ATTACHED,
                          memory_order_release);
}

/* ---- Offers ---- */

/* Whether a descriptor is memory that stays as large as a channel. */
static bool is_memory(int fd)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & HC_MEMFILE_SEALS) == HC_MEMFILE_SEALS && fstat(fd, &info) == 0 &&
           info.st_size == (off_t)sizeof(struct npu_chan_memory);
}

static void close_both(const int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

static void remove_in(struct npu_local *local, const struct npu_chan *chan)
{
    local->offers -= chan->offered;
    for (unsigned i = 0; i < local->in_count; i++)
        if (local->in[i] == chan)
            local->in[i] = local->in[--local->in_count];
}

static int prepare_offer(struct npu_chan *chan, int *fd)
{
    *fd = make_memory(&chan->memory);
    if (*fd < 0)
        return *fd;
    chan->memory->head.life = NPU_OFFERED_LIFE | new_life(chan->local);
    int rc = begin_receiving(chan);
    if (rc < 0)
        return rc;
    chan->offered = true;
    chan->local->offers++;
    chan->fence = true; /* until the sender says otherwise */
    publish_attach(chan, chan->local->barrier);
    return npu_ep_watch(chan->peer.ep, &chan->watch);
}

static void drop_offer(struct npu_chan *chan)
{
    remove_in(chan->local, chan);
    chan_free(chan);
}

/* A channel for whom `out` leads to; fds: its memory and its socket for them. NULL: there is none. */
static struct npu_chan *make_offer(const struct npu_chan *out, int fds[2])
{
    struct npu_local *local = out->local;
    int ends[2];
    if (local->in_count >= NPU_OFFERS_MAX ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return NULL;
    struct npu_chan *chan = chan_new(local, ends[0], false);
    if (!chan) {
        close_both(ends);
        return NULL;
    }
    chan->pid = out->pid;
    chan->peer.addr = out->peer.addr;
    fds[1] = ends[1];
    if (prepare_offer(chan, &fds[0]) == 0)
        return chan;
    close_both(fds);
    (void)close(ends[0]);
    chan->watch.fd = -1;
    drop_offer(chan);
    return NULL;
}

static void begin_sending(struct npu_chan *chan, uint16_t life)
{
    chan->fence = true; /* until the receiver says otherwise */
    npu_ring_writer_init(&chan->writer, chan->memory->ring, &chan->memory->head.ring_head, life);
    hc_list_append(&chan->local->out, &chan->node);
    pair_out(chan->local, chan);
}

/* Send on what the sender of `in` offers; takes the descriptors over. Not taken, its memory and socket are
 * closed, which tells the other side. */
static void take_offer(struct npu_chan *in, const int fds[2])
{
    struct npu_local *local = in->local;
    bool wanted = is_memory(fds[0]) && !find_out(local, &in->peer.addr);
    struct npu_chan *chan = wanted ? chan_new(local, fds[1], true) : NULL;
    if (!chan || map(fds[0], &chan->memory) < 0 || npu_ep_watch(local->ep, &chan->watch) < 0) {
        close_both(fds);
        if (chan)
            chan->watch.fd = -1;
        if (chan)
            chan_free(chan);
        return;
    }
    (void)close(fds[0]); /* the mapping keeps it */
    struct npu_chan_head *head = &chan->memory->head;
    chan->pid = in->pid;
    chan->peer.addr = in->peer.addr;
    head->sender_proof = make_proof(chan);
    head->sender_addr = local->ep->addr;
    head->sender_barrier = local->barrier;
    begin_sending(chan, head->life);
}

void npu_chan_met(struct npu_chan *chan)
{
    const struct npu_chan_head *head = &chan->memory->head;
    chan->offered = false;
    chan->local->offers--;
    chan->peer.addr = head->sender_addr;
    know_sender(chan, head->sender_barrier);
}

/* ---- Connecting: the sender ---- */

static int open_chan(struct npu_chan *chan)
{
    int fds[NPU_HELLO_FDS];
    fds[0] = make_memory(&chan->memory);
    if (fds[0] < 0)
        return fds[0];
    chan->memory->head.sender_proof = make_proof(chan);
    uint16_t life = chan->memory->head.life = new_life(chan->local);
    struct npu_chan *offer = make_offer(chan, fds + 1);
    int rc = send_hello(chan, fds, offer ? NPU_HELLO_FDS : 1);
    if (rc == 0)
        rc = npu_ep_watch(chan->peer.ep, &chan->watch);
    (void)close(fds[0]); /* the mappings keep the memory */
    if (offer)
        close_both(fds + 1);
    if (offer && rc < 0)
        drop_offer(offer);
    if (rc == 0)
        begin_sending(chan, life);
    return rc;
}

int npu_local_connect(struct npu_ep *ep, const struct npu_addr *addr, struct npu_peer **peer)
{
    struct npu_local *local = ep->local;
    struct npu_chan *chan = find_out(local, addr);
    pid_t pid = 0;
    if (chan) {
        *peer = &chan->peer;
        return 0;
    }
    int fd = connect_socket(addr, &pid);
    if (fd < 0)
        return fd;
    chan = chan_new(local, fd, true);
    if (!chan) {
        (void)close(fd);
        return -FI_ENOMEM;
    }
    chan->pid = pid;
    chan->peer.addr = *addr;
    int rc = open_chan(chan);
    if (rc < 0) {
        if (chan->watch.fd >= 0)
            (void)close(chan->watch.fd);
        chan->watch.fd = -1;
        chan_free(chan);
        return rc;
    }
    *peer = &chan->peer;
    return 0;
}

/* ---- Accepting ---- */

static bool is_valid(const struct npu_hello *hello)
{
    return hello->magic == NPU_CHAN_MAGIC && hello->version == NPU_PROTOCOL_VERSION &&
           hello->size == sizeof(struct npu_chan_memory);
}

/* The descriptors of a message; returns how many, -1: others than expected, which are closed. */
static int take_fds(struct msghdr *msg, int fds[NPU_HELLO_FDS])
{
    struct cmsghdr *first = CMSG_FIRSTHDR(msg);
    if (!first || first->cmsg_type != SCM_RIGHTS || first->cmsg_len < CMSG_LEN(sizeof(int)))
        return -1;
    int got[NPU_HELLO_FDS + 1]; /* one more fits where the header's alignment leaves room */
    int count = (int)((first->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(got, CMSG_DATA(first), (size_t)count * sizeof(int));
    if (count == 1 || count == NPU_HELLO_FDS) {
        memcpy(fds, got, (size_t)count * sizeof(int));
        return count;
    }
    for (int i = 0; i < count; i++)
        (void)close(got[i]);
    return -1;
}

/* Receive the first message; returns how many descriptors came with it. -FI_EAGAIN: not there yet. */
static int receive_hello(int socket, struct npu_hello *hello, int fds[NPU_HELLO_FDS])
{
    union {
        struct cmsghdr head;
        unsigned char bytes[CMSG_SPACE(NPU_HELLO_FDS * sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = hello, .iov_len = sizeof(*hello)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return -errno;
    int count = take_fds(&msg, fds);
    if (count > 0 && got == (ssize_t)sizeof(*hello) && is_valid(hello) && is_memory(fds[0]))
        return count;
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
    return -FI_ECONNRESET;
}

static int attach(struct npu_chan *chan)
{
    struct npu_hello hello;
    int fds[NPU_HELLO_FDS] = {-1, -1, -1};
    int count = receive_hello(chan->watch.fd, &hello, fds);
    if (count < 0)
        return count;
    int rc = map(fds[0], &chan->memory);
    (void)close(fds[0]);
    chan->peer.addr = hello.addr;
    if (rc == 0)
        rc = begin_receiving(chan);
    if (rc == 0)
        know_sender(chan, hello.barrier);
    if (rc == 0)
        publish_attach(chan, hello.barrier && chan->local->barrier);
    if (count == NPU_HELLO_FDS && rc == 0)
        take_offer(chan, fds + 1);
    else if (count == NPU_HELLO_FDS)
        close_both(fds + 1);
    return rc;
}

static void accept_ready(struct npu_ep *ep, struct npu_watch *watch, uint32_t events)
{
    (void)events;
    for (;;) {
        pid_t pid = 0;
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
                npu_warn(EP_CTRL, "a peer cannot connect: %s\n", strerror(errno));
            return;
        }
        struct npu_chan *chan = same_user(fd, &pid) ? chan_new(ep->local, fd, false) : NULL;
        if (!chan) {
            (void)close(fd);
            continue;
        }
        chan->pid = pid;
        hc_list_append(&ep->local->greeting, &chan->node);
        if (npu_ep_watch(ep, &chan->watch) < 0) {
            (void)close(fd);
            chan->watch.fd = -1;
            chan_free(chan);
            continue;
        }
        chan_ready(ep, &chan->watch, 0); /* its introduction is there already, as a rule */
    }
}

/* The next who has connected, and not said anything yet; NULL: nobody. */
static struct npu_chan *silent(struct npu_local *local)
{
    struct hc_list *node;
    hc_list_for_each(node, &local->greeting)
    {
        struct npu_chan *chan = hc_list_entry(node, struct npu_chan, node);
        if (!chan->awaited)
            return chan;
    }
    return NULL;
}

void npu_local_hear(struct npu_ep *ep)
{
    uint64_t end = hc_clock_ns() + HEAR_NS;
    struct npu_chan *chan;
    npu_ep_service(ep);
    while ((chan = silent(ep->local))) {
        if (hc_clock_ns() > end) {
            chan->awaited = true;
            continue;
        }
        (void)sched_yield();
        npu_ep_service(ep);
    }
}

/* ---- Lost peers ---- */

/* The receiver of a channel is gone. */
static void lose_out(struct npu_chan *chan)
{
    struct npu_ep *ep = chan->peer.ep;
    if (!chan->peer.dead)
        (void)npu_chan_progress_out(chan); /* what it answered before it went */
    chan->peer.dead = true;
    npu_chan_abort(chan, FI_ECONNRESET);
    npu_ep_forget(ep, &chan->peer);
    chan_free(chan);
}

/* The sender of a channel is gone, or may send no more; what it left is read first. False: there is more of
 * it. */
static bool lose_in(struct npu_chan *chan)
{
    struct npu_ep *ep = chan->peer.ep;
    struct hc_list *node;
    hang_up(chan);
    chan->closing = true;
    if (!chan->peer.dead && (npu_chan_serving(chan) || npu_chan_pending_in(chan)))
        return false;
    while ((node = hc_list_pop(&chan->waiting)))
        npu_rx_finish(ep, hc_list_entry(node, struct npu_rx, node), FI_ECONNRESET);
    npu_recv_forget(ep, &chan->peer);
    remove_in(chan->local, chan);
    hc_list_append(&chan->local->gone, &chan->node);
    return true;
}

static void reap(struct npu_local *local)
{
    struct hc_list *node, *next;
    for (unsigned i = local->in_count; i-- > 0;) {
        struct npu_chan *chan = local->in[i];
        if ((chan->closing || chan->peer.dead) && !lose_in(chan))
            local->ep->attention = true; /* once more, when its ring is empty */
    }
    hc_list_for_each_safe(node, next, &local->out)
    {
        struct npu_chan *chan = hc_list_entry(node, struct npu_chan, node);
        if (chan->closing || chan->peer.dead)
            lose_out(chan);
    }
    hc_list_for_each_safe(node, next, &local->gone)
    {
        struct npu_chan *chan = hc_list_entry(node, struct npu_chan, node);
        if (chan->peer.users == 0)
            chan_free(chan);
    }
}

/* Take wake-ups off the socket; false: the other side has closed it. */
static bool drain(int fd)
{
    enum { WAKEUPS = 64 };
    char bytes[WAKEUPS];
    ssize_t got;
    do
        got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    while (got > 0);
    return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static void chan_ready(struct npu_ep *ep, struct npu_watch *watch, uint32_t events)
{
    struct npu_chan *chan = hc_container_of(watch, struct npu_chan, watch);
    (void)events;
    if (!chan->memory) {
        int rc = attach(chan);
        if (rc == -FI_EAGAIN)
            return;
        hc_list_remove(&chan->node);
        if (rc < 0) {
            npu_info(EP_CTRL, "process %d connected, but did not introduce itself: %s\n", (int)chan->pid,
                     fi_strerror(-rc));
            chan_free(chan);
            return;
        }
    }
    if (!drain(watch->fd)) {
        chan->closing = true;
        ep->attention = true;
        hang_up(chan);
    }
}

void npu_local_reap(struct npu_ep *ep)
{
    if (ep->local)
        reap(ep->local);
}

/* ---- Progress ---- */

bool npu_local_progress(struct npu_ep *ep)
{
    struct npu_local *local = ep->local;
    struct hc_list *node, *next;
    bool moved = false;
    if (hc_unlikely(local->in_count == local->offers && ep->idle % GREET_EVERY == GREET_EVERY - 1))
        ep->attention = true; /* its first peer may be at the door */
    for (unsigned i = 0; i < local->in_count; i++)
        moved |= npu_chan_progress_in(local->in[i]);
    if (hc_unlikely(!hc_list_empty(&local->reading)))
        hc_list_for_each_safe(node, next, &local->reading) moved |=
            npu_chan_read_stream(hc_list_entry(node, struct npu_rx, node));
    if (hc_unlikely(!hc_list_empty(&local->busy)))
        hc_list_for_each_safe(node, next, &local->busy) moved |=
            npu_chan_progress_out(hc_list_entry(node, struct npu_chan, busy_node));
    return moved;
}

void npu_local_sleep(struct npu_ep *ep, bool asleep)
{
    struct npu_local *local = ep->local;
    struct hc_list *node;
    for (unsigned i = 0; i < local->in_count; i++)
        atomic_store(&local->in[i]->memory->head.receiver_asleep, asleep);
    hc_list_for_each(node, &local->out)
        atomic_store(&hc_list_entry(node, struct npu_chan, node)->memory->head.sender_asleep, asleep);
    if (!asleep)
        return;
    /* Either the others see the flags, or npu_local_pending() sees what they wrote. */
    if (local->barrier)
        (void)membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    atomic_thread_fence(memory_order_seq_cst);
}

bool npu_local_pending(struct npu_ep *ep)
{
    struct npu_local *local = ep->local;
    struct hc_list *node;
    for (unsigned i = 0; i < local->in_count; i++)
        if (npu_chan_pending_in(local->in[i]))
            return true;
    hc_list_for_each(node, &local->reading) if (npu_chan_stream_pending(
                                                    hc_list_entry(node, struct npu_rx, node))) return true;
    hc_list_for_each(node, &local->busy) if (npu_chan_pending_out(hc_list_entry(node, struct npu_chan,
                                                                                busy_node))) return true;
    return false;
}

/* ---- Life ---- */

int npu_local_open(struct npu_ep *ep)
{
    if (!hc_memfile_fits(sizeof(struct npu_chan_memory)))
        return -EFBIG; /* now, when others can still be chosen, not with the first message */
    struct npu_local *local = calloc(1, sizeof(*local));
    if (!local)
        return -FI_ENOMEM;
    struct hc_list *lists[] = {&local->greeting, &local->out, &local->busy, &local->reading, &local->gone};
    for (size_t i = 0; i < hc_array_len(lists); i++)
        hc_list_init(lists[i]);
    local->ep = ep;
    local->port_fd = -1;
    local->listen = (struct npu_watch){.fd = -1, .ready = accept_ready};
    local->barrier = barrier_works();
    ep->local = local;
    int rc = take_address(local, &ep->addr);
    if (rc == 0)
        rc = npu_ep_watch(ep, &local->listen);
    if (rc < 0)
        npu_local_close(ep);
    return rc;
}

static void free_list(struct hc_list *list)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, list) chan_free(hc_list_entry(node, struct npu_chan, node));
}

void npu_local_close(struct npu_ep *ep)
{
    struct npu_local *local = ep->local;
    if (!local)
        return;
    struct hc_list *node;
    hc_list_for_each(node, &local->reading)
    {
        struct npu_rx *rx = hc_list_entry(node, struct npu_rx, node);
        if (rx->stream == NPU_STREAM_DMA)
            npu_dma_abandon(rx->dma);
        else if (rx->stream == NPU_STREAM_DIRECT)
            free(rx->held);
    }
    if (local->listen.fd >= 0)
        (void)close(local->listen.fd);
    while (local->in_count)
        chan_free(local->in[--local->in_count]);
    free_list(&local->greeting);
    free_list(&local->out);
    free_list(&local->gone);
    if (local->port_fd >= 0)
        (void)close(local->port_fd);
    free(local->in);
    free(local);
    ep->local = NULL;
}
