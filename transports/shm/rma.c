/*
 * Remote memory. What lies in an arena (runtime/base/arena.h) is mapped here and simply copied. All else is
 * reached by cross-memory attach: process_vm_readv(2), process_vm_writev(2).
 *
 * Whether that works depends on the pair of processes (ptrace access mode: same user, Yama, containers),
 * while capabilities are per iface. So HC_CAP_RMA says that it usually works here, every pair is probed when
 * its ep is created, and rkey_unpack, put and get of a pair that must do without return
 * HCOMM_ERR_UNSUPPORTED: the caller then falls back to messages.
 */
#include "runtime/base/copy.h"
#include "runtime/base/log.h"
#include "transports/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RKEY_MAGIC = 0x686b6579 };

static size_t read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);
    if (fd >= 0)
        (void)close(fd);
    got = got < 0 ? 0 : got;
    text[got] = '\0';
    return (size_t)got;
}

static bool may_ptrace(void)
{
    enum { CAP_SYS_PTRACE_BIT = 19 };
    char text[4096];
    (void)read_text("/proc/self/status", text, sizeof(text));
    const char *line = strstr(text, "\nCapEff:");
    return line && (strtoull(line + sizeof("\nCapEff:") - 1, NULL, 16) >> CAP_SYS_PTRACE_BIT & 1);
}

/* Of a process that is not dumpable (prctl(2)) others may open nothing, though it may open theirs: messages
 * would go one way only. */
hcomm_status_t hc_shm_check_dumpable(void)
{
    if (prctl(PR_GET_DUMPABLE) == 1 || may_ptrace())
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_UNSUPPORTED,
                    "other processes may not open this one's memory: it is not dumpable (prctl(2))");
}

bool hc_shm_cross_available(char *why, size_t size)
{
    char text[32];
    uint64_t from = 1, to = 0;
    struct iovec local = {&to, sizeof(to)}, remote = {&from, sizeof(from)};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)sizeof(to)) {
        (void)snprintf(why, size, "process_vm_readv: %s", hc_errno_text(errno));
        return false;
    }
    (void)read_text("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
    if (atoi(text) > 0 && !may_ptrace()) {
        (void)snprintf(why, size, "kernel.yama.ptrace_scope is %d; 0 would allow it", atoi(text));
        return false;
    }
    return true;
}

bool hc_shm_cross_probe(const struct hc_shm_peer *peer)
{
    uint64_t word = 0;
    struct iovec local = {&word, sizeof(word)};
    struct iovec remote = {(void *)(uintptr_t)peer->segment.header->probe, sizeof(word)}; /* NOLINT */
    ssize_t got = process_vm_readv(peer->addr.pid, &local, 1, &remote, 1, 0);
    if (got == (ssize_t)sizeof(word) && word == peer->addr.cookie)
        return true;
    hc_log_debug("shm: no cross-memory access to process %d: %s", (int)peer->addr.pid,
                 got < 0 ? hc_errno_text(errno) : "its memory does not hold what it should");
    return false;
}

static hcomm_status_t transfer_error(struct hc_shm_ep *ep, const char *what, ssize_t got)
{
    int error = got < 0 ? errno : EFAULT;
    if (error == EPERM || error == ENOSYS) {
        ep->cross = false;
        return hc_error(HCOMM_ERR_UNSUPPORTED, "shm: %s rank %u: %s", what, ep->base.peer,
                        hc_errno_text(error));
    }
    hcomm_status_t status = error == ESRCH ? HCOMM_ERR_PEER_LOST : HCOMM_ERR_IO;
    return hc_error(status, "shm: %s rank %u (process %d): %s", what, ep->base.peer, (int)ep->peer->addr.pid,
                    hc_errno_text(error));
}

/* Check one transfer against the rkey and the limits. */
static hcomm_status_t check_access(const struct hc_shm_ep *ep, const struct hc_shm_rkey *rkey,
                                   uint64_t remote, size_t len, uint32_t flag)
{
    if (!rkey->mapping && !ep->cross)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "shm: no cross-memory access to rank %u", ep->base.peer);
    if (len > ep->base.iface->attr.rma_max)
        return hc_error(HCOMM_ERR_INVALID, "shm: %zu bytes are too many for one transfer", len);
    if (!(rkey->flags & flag))
        return hc_error(HCOMM_ERR_INVALID, "shm: the memory of rank %u is not registered for this",
                        ep->base.peer);
    if (remote < rkey->addr || remote - rkey->addr > rkey->len || len > rkey->len - (remote - rkey->addr))
        return hc_error(HCOMM_ERR_INVALID, "shm: %zu bytes at %#" PRIx64 " are outside the memory of rank %u",
                        len, remote, ep->base.peer);
    return HCOMM_OK;
}

typedef ssize_t (*transfer_fn)(pid_t pid, const struct iovec *local, unsigned long local_count,
                               const struct iovec *remote, unsigned long remote_count, unsigned long flags);

/* The kernel may stop early at a page; it goes on from there or says why not. */
static hcomm_status_t transfer(struct hc_shm_ep *ep, transfer_fn move, const char *what, uintptr_t local,
                               uint64_t remote, size_t len)
{
    while (len) {
        struct iovec here = {(void *)local, len}, there = {(void *)(uintptr_t)remote, len}; /* NOLINT */
        ssize_t got = move(ep->peer->addr.pid, &here, 1, &there, 1, 0);
        if (got <= 0)
            return transfer_error(ep, what, got);
        local += (size_t)got;
        remote += (size_t)got;
        len -= (size_t)got;
    }
    return HCOMM_OK;
}

hcomm_status_t hc_shm_put(struct hc_ep *base, const void *local, size_t len, struct hc_mem *mem,
                          uint64_t remote, struct hc_rkey *rkey, struct hc_op *op)
{
    (void)mem;
    (void)op;
    struct hc_shm_ep *ep = hc_container_of(base, struct hc_shm_ep, base);
    const struct hc_shm_rkey *key = hc_container_of(rkey, struct hc_shm_rkey, base);
    hcomm_status_t status = check_access(ep, key, remote, len, HC_SHM_RKEY_WRITE);
    if (status != HCOMM_OK)
        return status;
    if (key->mapping) {
        hc_copy_bypass = hc_shm_tuner_begin(&ep->put_tuner) == HC_SHM_WAY_PAST;
        hc_copy(key->mapped + (remote - key->addr), local, len);
        hc_copy_bypass = false;
        hc_shm_tuner_end(&ep->put_tuner, len);
        return HCOMM_OK;
    }
    return transfer(ep, process_vm_writev, "writing memory of", (uintptr_t)local, remote, len);
}

hcomm_status_t hc_shm_get(struct hc_ep *base, void *local, size_t len, struct hc_mem *mem, uint64_t remote,
                          struct hc_rkey *rkey, struct hc_op *op)
{
    (void)mem;
    (void)op;
    struct hc_shm_ep *ep = hc_container_of(base, struct hc_shm_ep, base);
    const struct hc_shm_rkey *key = hc_container_of(rkey, struct hc_shm_rkey, base);
    hcomm_status_t status = check_access(ep, key, remote, len, HC_SHM_RKEY_READ);
    if (status != HCOMM_OK)
        return status;
    if (key->mapping) {
        hc_copy(local, key->mapped + (remote - key->addr), len);
        return HCOMM_OK;
    }
    return transfer(ep, process_vm_readv, "reading memory of", (uintptr_t)local, remote, len);
}

hcomm_status_t hc_shm_mem_reg(struct hc_iface *iface, void *addr, size_t len, const struct hc_mem_attr *attr,
                              struct hc_mem **mem)
{
    if (attr->type != HC_MEMORY_HOST)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "shm: device memory cannot be registered");
    if ((uintptr_t)addr + len < (uintptr_t)addr)
        return hc_error(HCOMM_ERR_INVALID, "shm: %zu bytes at %p wrap around", len, addr);
    struct hc_shm_mem *m = malloc(sizeof(*m));
    if (!m)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for a registration");
    *m = (struct hc_shm_mem){
        .base.iface = iface,
        .addr = (uintptr_t)addr,
        .len = len,
        .flags = (attr->remote_read ? HC_SHM_RKEY_READ : 0u) | (attr->remote_write ? HC_SHM_RKEY_WRITE : 0u),
        .arena = attr->remote_read || attr->remote_write ? hc_arena_find(addr, len) : NULL,
    };
    if (m->arena)
        hc_arena_prepare(m->arena, addr, len);
    *mem = &m->base;
    return HCOMM_OK;
}

void hc_shm_mem_dereg(struct hc_mem *mem)
{
    if (mem)
        free(hc_container_of(mem, struct hc_shm_mem, base));
}

hcomm_status_t hc_shm_rkey_pack(const struct hc_mem *base, void *buf, size_t *len)
{
    const struct hc_shm_mem *mem = hc_container_of(base, const struct hc_shm_mem, base);
    const struct hc_shm_iface *iface = hc_container_of(base->iface, const struct hc_shm_iface, base);
    struct hc_shm_rkey_wire wire = {
        .magic = RKEY_MAGIC,
        .pid = iface->addr.pid,
        .cookie = iface->addr.cookie,
        .addr = mem->addr,
        .len = mem->len,
        .flags = mem->flags,
    };
    size_t size = offsetof(struct hc_shm_rkey_wire, arena);
    if (mem->arena) {
        wire.flags |= HC_SHM_RKEY_ARENA;
        wire.arena.inode = mem->arena->inode;
        wire.arena.id = mem->arena->id;
        wire.arena.base = (uintptr_t)mem->arena->base;
        wire.arena.size = mem->arena->size;
        wire.arena.fd = mem->arena->fd;
        size = sizeof(wire);
    }
    if (*len < size)
        return hc_error(HCOMM_ERR_INVALID, "shm: %zu bytes are too few for a remote key", *len);
    memcpy(buf, &wire, size);
    *len = size;
    return HCOMM_OK;
}

static bool arena_fits(const struct hc_shm_rkey_wire *wire)
{
    return wire->arena.fd >= 0 && !wire->arena.reserved && wire->addr >= wire->arena.base &&
           wire->len <= wire->arena.size && wire->addr - wire->arena.base <= wire->arena.size - wire->len;
}

/* The fields of a key from a peer; those of the arena are checked against the arena itself later. */
static bool parse_rkey(const struct hc_shm_ep *ep, const void *buf, size_t len, struct hc_shm_rkey_wire *wire)
{
    *wire = (struct hc_shm_rkey_wire){0};
    if (len != sizeof(*wire) && len != offsetof(struct hc_shm_rkey_wire, arena))
        return false;
    memcpy(wire, buf, len);
    bool arena = wire->flags & HC_SHM_RKEY_ARENA;
    return wire->magic == RKEY_MAGIC && !wire->reserved && wire->pid == ep->peer->addr.pid &&
           wire->cookie == ep->peer->addr.cookie &&
           !(wire->flags & ~(HC_SHM_RKEY_READ | HC_SHM_RKEY_WRITE | HC_SHM_RKEY_ARENA)) &&
           wire->addr + wire->len >= wire->addr && arena == (len == sizeof(*wire)) &&
           (!arena || arena_fits(wire));
}

/* Memory that cannot be mapped may still be reached the other way. */
static hcomm_status_t reach(const struct hc_shm_ep *ep, const struct hc_shm_rkey_wire *wire,
                            struct hc_shm_mapping **mapping)
{
    hcomm_status_t status = HCOMM_ERR_UNSUPPORTED;
    if (wire->flags & HC_SHM_RKEY_ARENA)
        status = hc_shm_mapping_get(ep->peer, wire, mapping);
    if (status == HCOMM_OK || status == HCOMM_ERR_PROTOCOL || status == HCOMM_ERR_PEER_LOST)
        return status;
    if (wire->flags & HC_SHM_RKEY_ARENA)
        hc_log_debug("%s", hc_error_detail());
    if (!ep->cross)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "shm: no cross-memory access to rank %u", ep->base.peer);
    return HCOMM_OK;
}

hcomm_status_t hc_shm_rkey_unpack(struct hc_ep *base, const void *buf, size_t len, struct hc_rkey **rkey)
{
    const struct hc_shm_ep *ep = hc_container_of(base, const struct hc_shm_ep, base);
    struct hc_shm_rkey_wire wire;
    struct hc_shm_mapping *mapping = NULL;
    if (!parse_rkey(ep, buf, len, &wire))
        return hc_error(HCOMM_ERR_PROTOCOL, "shm: a malformed remote key from rank %u", base->peer);
    hcomm_status_t status = reach(ep, &wire, &mapping);
    if (status != HCOMM_OK)
        return status;
    struct hc_shm_rkey *key = malloc(sizeof(*key));
    if (!key) {
        hc_shm_mapping_put(mapping);
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for a remote key");
    }
    *key = (struct hc_shm_rkey){
        .base.iface = base->iface,
        .addr = wire.addr,
        .len = wire.len,
        .flags = wire.flags,
        .mapping = mapping,
        .mapped = mapping ? mapping->map.base + (wire.addr - wire.arena.base) : NULL,
    };
    *rkey = &key->base;
    return HCOMM_OK;
}

void hc_shm_rkey_release(struct hc_rkey *rkey)
{
    if (!rkey)
        return;
    struct hc_shm_rkey *key = hc_container_of(rkey, struct hc_shm_rkey, base);
    hc_shm_mapping_put(key->mapping);
    free(key);
}

bool hc_shm_rkey_is_mapped(const struct hc_rkey *rkey)
{
    return hc_container_of(rkey, const struct hc_shm_rkey, base)->mapping != NULL;
}
