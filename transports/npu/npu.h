/*
 * libnpu-fi.so: the libfabric provider "npu". Objects of libfabric (one file each), and how they work
 * together. The provider stands alone: of hcomm it uses only runtime/base's headers and its copy loop, of
 * libfabric only what <rdma/…> declares, and the device only through the table of transports/npu/acl.
 *
 * Who calls what, from above:
 * - The application's transfers enter in msg.c, tagged.c (and rma.c, atomic.c): npu_send_post() in send.c,
 *   npu_recv_post() in recv.c. Its progress enters in cq.c, cntr.c, poll.c, wait.c: npu_hub_progress(), then
 *   npu_ep_progress() in progress.c for each endpoint bound there. Everything else is info.c, fabric.c,
 *   domain.c, endpoint.c, av.c, mr.c, eq.c.
 * - Bytes move over the path of a peer (struct npu_path_ops in ep.h). The path within a host is chan.h:
 *   local.c connects, local_send.c and local_recv.c are the two sides of a channel, ring.h is their queue.
 *
 * **Send.** A call fills a struct npu_send and calls npu_send_post(), which finds the path of the destination
 * and hands it over. What completes at once completes in the call; the rest becomes a struct npu_tx, owned by
 * the endpoint's pool, that the path finishes with npu_tx_finish().
 *
 * **Receive.** A path that has read the head of a message calls npu_arrive(). That finds the posted receive,
 * or keeps the message as a struct npu_kept. A payload that is not at hand is asked for with the path's
 * `fetch` once the receive is known; the path then calls npu_rx_finish().
 *
 * **Completion.** npu_sent(), npu_tx_finish() and npu_rx_finish() count in counters and write to completion
 * queues.
 *
 * **Locks**, in this order; each is held for a bounded time, none while waiting:
 * 1. npu_domain.members_lock, then npu_hub.lock, npu_av.eps_lock (lists of endpoints), 2. npu_ep.lock, 3.
 * npu_av.lock, npu_domain.lock,
 * 4. npu_cq.lock, npu_eq.lock. What takes an endpoint, a peer or an operation expects the endpoint's lock
 * held unless it says otherwise. With FI_THREAD_DOMAIN the application serialises: locks are no-ops.
 *
 * **Lifetime.** Objects count their users (`refs`); closing one in use gives -FI_EBUSY. An endpoint owns its
 * channels, operations, and kept messages. A channel lives until the endpoint is closed, or until its peer is
 * gone and nothing refers to its memory any more (npu_peer.users).
 *
 * **Other hosts** are reached over a second libfabric provider: net.h. Paths implement struct npu_path_ops;
 * send.c chooses one in connect_peer(). A path adds descriptors to the endpoint's epoll set with
 * npu_ep_watch(), and itself to npu_ep.workers while it has something to poll.
 *
 * **RMA and atomics** enter in rma_calls.c and atomic.c; rma.h has the operation, the request, and what a
 * target does with it, which every path uses (`rma` of struct npu_path_ops). They are operations of the same
 * pool (npu_tx_get()). The target's progress executes them: it checks keys, moves bytes, and computes.
 * local_rma.c carries them over channels.
 *
 * **Device memory.** Buffers of operations are struct npu_buf (buf.h); whoever moves payload calls
 * npu_buf_read() and npu_buf_write(), which branch once on `device`: that is the way through host memory.
 * What memory is, is found out when it is registered (mr.c); operations tell by descriptor. Between two
 * devices of a host, long messages and RMA are announced with an exported range (dma.h): the receiver, or
 * target, imports it for the time of one copy by an engine; where that cannot be, the other way is taken.
 *
 * Capabilities are told in info.c, and only there: extend its lists when a part is complete.
 */
#ifndef NPU_NPU_H
#define NPU_NPU_H

#include "runtime/base/compiler.h"
#include "runtime/base/list.h"

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NPU_NAME      "npu"
#define NPU_HOST_NAME "host" /* the domain without a device */

enum {
    NPU_VERSION_MAJOR = 0,
    NPU_VERSION_MINOR = 1,
    NPU_PROTOCOL_VERSION = 3,
    NPU_IOV_LIMIT = 4,        /* entries of one operation, and of one registration */
    NPU_INJECT_MAX = 8192,    /* also the longest message that travels inside a ring */
    NPU_DEFAULT_QUEUE = 1024, /* operations of an endpoint, entries of a queue */
    NPU_MAX_QUEUE = 65536,
    NPU_MIN_MULTI_RECV = 64, /* default of FI_OPT_MIN_MULTI_RECV */
    NPU_MEET_MAX = 16,       /* peers that an endpoint connects to before it sends */
    NPU_MAX_DEVICES = 64,    /* whose memory is copied by engines */
    NPU_ERR_DATA_MAX = 64,   /* bytes of err_data: a source address fits */
};
/* fi_mr_attr.iface of device memory, as libfabric has no name for these devices; attr.device.reserved is then
 * the visible index. FI_HMEM_SYSTEM does as well: what memory is, the device runtime is asked. */
#define NPU_HMEM_IFACE   0x6e7075
#define NPU_PROTOCOL     (FI_PROV_SPECIFIC | 0x6e7075U) /* "npu" */
#define NPU_MAX_MSG_SIZE ((size_t)1 << 46)              /* what the address space of a process allows */

extern struct fi_provider npu_provider;

/* Log at the given level of libfabric (FI_LOG_LEVEL): only what the caller's error code does not tell. */
#define npu_warn(subsys, ...) FI_WARN(&npu_provider, FI_LOG_##subsys, __VA_ARGS__)
#define npu_info(subsys, ...) FI_INFO(&npu_provider, FI_LOG_##subsys, __VA_ARGS__)

/* ---- Locks ---- */

/* A spinning lock that yields; a no-op while `off`. Zeroed it is free. */
struct npu_lock {
    atomic_int held;
    bool off;
};

void npu_lock_slow(struct npu_lock *lock);

static inline bool npu_try_lock(struct npu_lock *lock)
{
    /* acquire: partner is the release in npu_unlock */
    return lock->off || !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

static inline void npu_lock(struct npu_lock *lock)
{
    if (hc_unlikely(!npu_try_lock(lock)))
        npu_lock_slow(lock);
}

static inline void npu_unlock(struct npu_lock *lock)
{
    if (!lock->off)
        atomic_store_explicit(&lock->held, 0, memory_order_release);
}

/* ---- Addresses (addr.c) ---- */

/*
 * An endpoint's address: an IP address of its host and a port that is the endpoint's alone in its network
 * namespace. Endpoints with an address of the own namespace are reached through shared memory, by port;
 * the IP address serves other hosts.
 */
struct npu_addr {
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    };
};

/* Bytes of the address in its format: sizeof(struct sockaddr_in) or sizeof(struct sockaddr_in6). */
size_t npu_addr_len(const struct npu_addr *addr);
/* FI_SOCKADDR_IN or FI_SOCKADDR_IN6. */
uint32_t npu_addr_format(const struct npu_addr *addr);
uint16_t npu_addr_port(const struct npu_addr *addr);
void npu_addr_set_port(struct npu_addr *addr, uint16_t port);
/* Take over an address given by the user; -FI_EINVAL if it is none of FI_SOCKADDR_IN, FI_SOCKADDR_IN6. */
int npu_addr_copy(const void *bytes, size_t len, struct npu_addr *addr);
/*
 * Resolve a node (NULL: this host) and a service (NULL: port 0). passive: an address to listen at. format:
 * FI_FORMAT_UNSPEC or what the answer must be. -FI_ENODATA when there is none.
 */
int npu_addr_resolve(const char *node, const char *service, uint64_t flags, uint32_t format, bool passive,
                     struct npu_addr *addr);
/* The address of this host that others can reach best, with port 0. */
void npu_addr_default(uint32_t format, struct npu_addr *addr);
/* Whether the address is one of this network namespace. */
bool npu_addr_is_local(const struct npu_addr *addr);
/* Whether other hosts cannot reach it. */
bool npu_addr_is_loopback(const struct npu_addr *addr);
/* Whether two addresses name the same endpoint. */
bool npu_addr_equal(const struct npu_addr *a, const struct npu_addr *b);
/* "fi_sockaddr_in://10.0.0.1:4711"; returns the length needed with the closing NUL. */
size_t npu_addr_print(const struct npu_addr *addr, char *text, size_t len);

/* ---- Waiting (wait.c) ---- */

struct npu_ep;

/* What a queue, a counter, or a wait set sleeps on: an epoll set with an eventfd in it. */
struct npu_wait {
    enum fi_wait_obj obj;
    int epoll, event;        /* -1 where obj has no descriptor */
    atomic_bool armed;       /* somebody may sleep: what is added must signal */
    struct npu_waitset *set; /* FI_WAIT_SET: the set this belongs to */
    struct fid *owner;       /* the queue or counter; NULL: a wait set */
};

int npu_wait_init(struct npu_wait *wait, enum fi_wait_obj obj, struct fid_wait *set, struct fid *owner);
void npu_wait_fini(struct npu_wait *wait);
/* Wake whoever sleeps. Any thread, no lock needed. */
void npu_wait_signal(struct npu_wait *wait);
/* Take back signals that were given. */
void npu_wait_drain(struct npu_wait *wait);
/* Sleep until signalled; timeout in milliseconds, -1 is none. 0 or -FI_EAGAIN at time-out. */
int npu_wait_sleep(struct npu_wait *wait, int timeout);
/* FI_GETWAIT and FI_GETWAITOBJ. */
int npu_wait_control(struct npu_wait *wait, int command, void *arg);
/* fi_trywait of a fabric. */
int npu_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
int npu_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset);

/* The endpoints that a completion queue or counter belongs to: reading it moves them forward. */
struct npu_hub {
    struct npu_lock lock;
    struct npu_ep **eps;
    unsigned count, room;
    unsigned idle;     /* progress in vain, in a row */
    unsigned sleepers; /* threads between npu_hub_arm and npu_hub_disarm */
    struct npu_wait wait;
};

int npu_hub_add(struct npu_hub *hub, struct npu_ep *ep);
void npu_hub_remove(struct npu_hub *hub, struct npu_ep *ep);
/* Move all endpoints forward. Takes locks 1 and 2. */
void npu_hub_progress(struct npu_hub *hub);
/*
 * Prepare to sleep: from now on, until this thread calls npu_hub_disarm(), peers wake this process. False:
 * something is there already, do not sleep.
 */
bool npu_hub_arm(struct npu_hub *hub);
void npu_hub_disarm(struct npu_hub *hub);
/* Somebody reads: whoever prepared to sleep on the descriptor (fi_trywait) has woken up. Threads that sleep
 * in a call still do. */
void npu_hub_awake(struct npu_hub *hub);

/* ---- Fabric, domain ---- */

struct npu_fabric {
    struct fid_fabric fid;
    atomic_int refs;
};

struct npu_mr;

struct npu_domain {
    struct fid_domain fid;
    struct npu_fabric *fabric;
    atomic_int refs;
    uint64_t caps;
    int mr_mode;
    int device;        /* visible index, -1: none */
    int direct_copy;   /* FI_NPU_DIRECT_COPY */
    int shared_memory; /* FI_NPU_SHARED_MEMORY */
    bool serial;       /* the application serialises: no locks */
    uint32_t format;   /* of addresses, as fi_info said */
    struct npu_eq *eq;
    bool mr_events; /* registrations are reported to eq */
    struct npu_lock lock;
    struct hc_list *mr_buckets; /* registrations by key */
    uint64_t next_key;
    struct npu_lock members_lock;   /* lock order: before the hubs' */
    struct hc_list eps;             /* all endpoints */
    struct hc_list followers;       /* counters that move all of them */
    void *streams[NPU_MAX_DEVICES]; /* of copies between devices, kept for the next one (dma.c) */
};

int npu_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                    void *context);
/* An endpoint of the domain is there, is gone. No lock held. */
int npu_domain_join(struct npu_domain *domain, struct npu_ep *ep);
void npu_domain_leave(struct npu_domain *domain, struct npu_ep *ep);
/* Move copies of devices to their end that hold registrations. No lock held. */
void npu_domain_settle(struct npu_domain *domain);

/* ---- Event queue ---- */

struct npu_eq {
    struct fid_eq fid;
    struct npu_fabric *fabric;
    atomic_int refs;
    struct npu_lock lock;
    struct npu_wait wait;
    struct hc_list events;
    size_t count, size;
    bool writable, overrun;
    unsigned char err_data[NPU_ERR_DATA_MAX];
};

int npu_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
/* Report an event of len bytes (a struct fi_eq_entry and more). */
void npu_eq_report(struct npu_eq *eq, uint32_t event, const void *entry, size_t len);
void npu_eq_report_error(struct npu_eq *eq, struct fid *fid, void *context, uint64_t data, int err);

/* ---- Completion queue ---- */

struct npu_completion {
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;
    struct npu_cq_error *error; /* then entry counts for nothing */
};

/* What fi_cq_readerr gives; err_data is kept inside. */
struct npu_cq_error {
    struct fi_cq_err_entry entry;
    fi_addr_t source;
    unsigned char data[NPU_ERR_DATA_MAX];
};

struct npu_cq {
    struct fid_cq fid;
    struct npu_domain *domain;
    atomic_int refs;
    size_t entry_size; /* of the format */
    struct npu_hub hub;
    struct npu_lock lock;
    struct npu_completion *ring; /* power of two */
    size_t mask, limit;          /* limit: when so many wait, nothing more is started */
    atomic_size_t head, tail;    /* written with the lock held */
    atomic_bool signalled;
    struct npu_cq_error last; /* err_data of older applications */
};

int npu_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);

static inline size_t npu_cq_count(struct npu_cq *cq)
{
    return atomic_load_explicit(&cq->tail, memory_order_relaxed) -
           atomic_load_explicit(&cq->head, memory_order_relaxed);
}

/* Whether another operation may be started that completes here. */
static inline bool npu_cq_has_room(struct npu_cq *cq)
{
    return npu_cq_count(cq) < cq->limit;
}

void npu_cq_push(struct npu_cq *cq, const struct npu_completion *completion);
/* error: copied. */
void npu_cq_push_error(struct npu_cq *cq, const struct npu_cq_error *error);

/* ---- Counter ---- */

struct npu_cntr {
    struct fid_cntr fid;
    struct npu_domain *domain;
    atomic_int refs;
    struct npu_hub hub;
    _Atomic uint64_t value, errors;
    uint64_t seen, seen_errors; /* at the last fi_poll, fi_cntr_set or fi_cntr_add */
    enum fi_wait_obj obj;
    struct hc_list follow_node; /* npu_domain.followers, or alone */
};

int npu_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                  void *context);
/* A counter of registrations: it moves all endpoints of the domain, now and later. No lock held. */
int npu_cntr_follow(struct npu_cntr *cntr);
void npu_cntr_unfollow(struct npu_cntr *cntr);
void npu_cntr_count(struct npu_cntr *cntr, bool error);

int npu_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll);

/* ---- Address vector ---- */

struct npu_av_entry {
    struct npu_addr addr;
    fi_addr_t user_id; /* FI_AV_USER_ID, else the index */
    bool used, local;
    uint32_t next; /* in its bucket, NPU_AV_NONE ends */
};
#define NPU_AV_NONE UINT32_MAX

struct npu_av {
    struct fid_av fid;
    struct npu_domain *domain;
    atomic_int refs;
    enum fi_av_type type;
    uint64_t flags;
    struct npu_eq *eq;
    struct npu_lock lock;
    struct npu_av_entry *entries;
    uint32_t count, room, first_free;
    uint32_t *buckets;        /* by port */
    atomic_uint generation;   /* of the contents */
    struct npu_lock eps_lock; /* lock order: before the endpoints' */
    struct hc_list eps;       /* bound ones */
};

int npu_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
/* The address at an index; false when there is none. Takes the lock. */
bool npu_av_get(struct npu_av *av, fi_addr_t index, struct npu_addr *addr, bool *local);
/* The index of an address, FI_ADDR_NOTAVAIL if it was not inserted. Takes the lock. id: what completions
 * tell. */
fi_addr_t npu_av_find(struct npu_av *av, const struct npu_addr *addr, fi_addr_t *id);

/* ---- Memory registration ---- */

struct npu_mr {
    struct fid_mr fid;
    struct npu_domain *domain;
    struct hc_list node; /* in its bucket */
    uint64_t access;
    unsigned iov_count;
    struct iovec iov[NPU_IOV_LIMIT];
    size_t len;
    uint64_t base; /* first valid remote address: 0, or the virtual one */
    enum fi_hmem_iface iface;
    int device; /* -1: host memory */
    bool enabled;
    struct npu_ep *ep;     /* FI_MR_ENDPOINT */
    struct npu_cntr *cntr; /* bound for FI_REMOTE_WRITE */
    atomic_uint holders;   /* npu_mr_hold */
    /* Exported device memory (dma.c); the domain's lock is held. */
    enum { NPU_KEY_NONE, NPU_KEY_THERE, NPU_KEY_DENIED } key_state;
    int32_t key_pid; /* who was allowed last */
    char ipc_key[65];
};

extern struct fi_ops_mr npu_mr_ops;
int npu_mr_table_init(struct npu_domain *domain);
void npu_mr_table_fini(struct npu_domain *domain);
/* The enabled registration of a key, NULL if there is none. It is not closed until it is dropped, which must
 * be soon: fi_close waits for that. Takes the lock. */
struct npu_mr *npu_mr_hold(struct npu_domain *domain, uint64_t key);

void npu_mr_drop(struct npu_mr *mr);

/* ---- Helpers (prov.c) ---- */

/* Functions for tables: what is not offered. */
int npu_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int npu_no_control(struct fid *fid, int command, void *arg);
int npu_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);

/* Give up one use of a parent; never the last one while a child lives. */
static inline void npu_get(atomic_int *refs)
{
    (void)atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

static inline void npu_put(atomic_int *refs)
{
    (void)atomic_fetch_sub_explicit(refs, 1, memory_order_relaxed);
}

static inline bool npu_in_use(atomic_int *refs)
{
    return atomic_load_explicit(refs, memory_order_relaxed) != 0;
}

int npu_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **info);
int npu_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
/* Whether these may be default flags of transmits, of receives. */
bool npu_info_tx_flags(uint64_t flags);
bool npu_info_rx_flags(uint64_t flags);
/* Capabilities with what their absence means: all ways of the kinds of operations that are there. */
uint64_t npu_info_full_caps(uint64_t caps);
/* The visible device of a domain's name, -1 for NPU_HOST_NAME; -FI_ENODEV: there is no such device. */
int npu_info_device(const char *name, int *device);
/* Check a fi_info given to fi_domain or fi_endpoint against what the provider offers. */
int npu_info_check(const struct fi_info *info);

#endif
