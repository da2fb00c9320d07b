/*
 * Copies across processes: process_vm_readv(2), process_vm_writev(2), where the kernel allows them. Each side
 * of a channel says where in its memory a number is that only it can know (struct npu_proof): who reads it
 * there has the right process, not another that was given its number since. Each says, too, when its memory
 * must not be touched any more (struct npu_access), which closing an endpoint waits for.
 */
#include "runtime/base/clock.h"
#include "transports/npu/chan.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    PROVEN_CYCLES = 2000 * 1000,    /* in so short a time no process id comes round */
    REVOKE_NS = 1000 * 1000 * 1000, /* the longest wait for a copy that is being made */
};

/* n bytes from `offset` on of some pieces; returns how many pieces. */
static unsigned slice(const struct iovec *iov, unsigned count, uint64_t offset, size_t n, struct iovec *out)
{
    unsigned used = 0;
    for (unsigned i = 0; i < count && n; i++) {
        if (offset >= iov[i].iov_len) {
            offset -= iov[i].iov_len;
            continue;
        }
        size_t left = iov[i].iov_len - (size_t)offset, part = left < n ? left : n;
        out[used++] = (struct iovec){(char *)iov[i].iov_base + offset, part};
        n -= part;
        offset = 0;
    }
    return used;
}

/* ---- The right process ---- */

static struct npu_proof their_proof(const struct npu_chan *chan)
{
    const struct npu_chan_head *head = &chan->memory->head;
    return chan->outgoing ? head->receiver_proof : head->sender_proof;
}

static bool prove(struct npu_chan *chan)
{
    uint64_t seen = 0;
    chan->theirs = their_proof(chan);
    struct iovec here = {&seen, sizeof(seen)};
    struct iovec there = {(void *)(uintptr_t)chan->theirs.addr, sizeof(seen)};
    return chan->peer.ep->domain->direct_copy && chan->pid > 0 &&
           process_vm_readv(chan->pid, &here, 1, &there, 1, 0) == sizeof(seen) && seen == chan->theirs.value;
}

bool npu_chan_may_copy(struct npu_chan *chan)
{
    if (chan->copies == NPU_COPIES_UNKNOWN) {
        chan->copies = prove(chan) ? NPU_COPIES_WORK : NPU_COPIES_DENIED;
        if (chan->copies == NPU_COPIES_DENIED)
            npu_info(EP_DATA, "process %d: no direct copies, data goes through shared memory\n",
                     (int)chan->pid);
    }
    return chan->copies == NPU_COPIES_WORK;
}

/* ---- Whose memory is touched ---- */

static struct npu_access *access_to_theirs(struct npu_chan *chan)
{
    struct npu_chan_head *head = &chan->memory->head;
    return chan->outgoing ? &head->receiver_memory : &head->sender_memory;
}

static struct npu_access *access_to_ours(struct npu_chan *chan)
{
    struct npu_chan_head *head = &chan->memory->head;
    return chan->outgoing ? &head->sender_memory : &head->receiver_memory;
}

/* seq_cst on both: partners are those in npu_chan_revoke, which sees the one or is seen by the other */
static bool enter(struct npu_access *access)
{
    atomic_store(&access->copying, 1);
    return !atomic_load(&access->revoked);
}

static void leave(struct npu_access *access)
{
    /* release: partner is the load in npu_chan_revoke; the copy is over */
    atomic_store_explicit(&access->copying, 0, memory_order_release);
}

static bool is_gone(const struct npu_chan *chan)
{
    char byte;
    return chan->watch.fd < 0 || chan->closing ||
           recv(chan->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void npu_chan_revoke(struct npu_chan *chan)
{
    struct npu_access *access = access_to_ours(chan);
    atomic_store(&access->revoked, 1);
    if (hc_likely(!atomic_load(&access->copying)))
        return;
    uint64_t end = hc_clock_ns() + REVOKE_NS;
    while (atomic_load_explicit(&access->copying, memory_order_acquire) && !is_gone(chan)) {
        if (hc_clock_ns() > end) {
            npu_warn(EP_DATA, "process %d is stopped while it copies from or to this one\n", (int)chan->pid);
            return;
        }
        (void)sched_yield();
    }
}

/* ---- Copying ---- */

static ssize_t move(const struct npu_chan *chan, const struct iovec *here, unsigned here_count,
                    const struct iovec *there, unsigned there_count, bool out)
{
    ssize_t got = out ? process_vm_writev(chan->pid, here, here_count, there, there_count, 0)
                      : process_vm_readv(chan->pid, here, here_count, there, there_count, 0);
    if (got > 0)
        return got;
    if (got == 0)
        return -FI_EFAULT;
    return errno == ESRCH ? -FI_ECONNRESET : -errno;
}

/* Whether it is still the right process: 0, or why not. */
static ssize_t prove_again(const struct npu_chan *chan)
{
    uint64_t seen = 0;
    struct iovec here = {&seen, sizeof(seen)};
    struct iovec there = {(void *)(uintptr_t)chan->theirs.addr, sizeof(seen)};
    ssize_t got = move(chan, &here, 1, &there, 1, false);
    if (got < 0)
        return got == -FI_EFAULT ? -FI_ECONNRESET : got;
    return seen == chan->theirs.value ? 0 : -FI_ECONNRESET;
}

/* The same, now and then. */
static ssize_t confirm(struct npu_chan *chan)
{
    uint64_t now = npu_cycles();
    if (now - chan->proven < PROVEN_CYCLES)
        return 0;
    ssize_t rc = prove_again(chan);
    if (rc == 0)
        chan->proven = now;
    return rc;
}

ssize_t npu_chan_copy(struct npu_chan *chan, const struct npu_buf *here, uint64_t here_at,
                      const struct iovec *there, unsigned there_count, uint64_t there_at, size_t n, bool out)
{
    struct iovec ours[NPU_IOV_LIMIT], theirs[NPU_IOV_LIMIT];
    struct npu_access *access = access_to_theirs(chan);
    unsigned our_count = slice(here->iov, here->count, here_at, n, ours);
    unsigned their_count = slice(there, there_count, there_at, n, theirs);
    ssize_t got = -FI_ECONNRESET;
    if (enter(access)) {
        got = confirm(chan);
        if (got == 0)
            got = move(chan, ours, our_count, theirs, their_count, out);
    }
    if (got == -FI_EFAULT && prove_again(chan) < 0)
        got = -FI_ECONNRESET; /* its memory goes before its process does */
    leave(access);
    if (got == -FI_EPERM || got == -FI_ENOSYS)
        chan->copies = NPU_COPIES_DENIED;
    return got == -FI_ENOSYS ? -FI_EPERM : got;
}
