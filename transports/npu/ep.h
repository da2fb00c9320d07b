/*
 * Endpoints, their operations, and what a path to peers must offer. Functions that take an endpoint, a peer,
 * or an operation expect the endpoint's lock held.
 */
#ifndef NPU_EP_H
#define NPU_EP_H

#include "transports/npu/buf.h"
#include "transports/npu/npu.h"

struct npu_peer;
struct npu_tx;
struct npu_rx;
struct npu_arrival;
struct npu_send;
struct npu_rma;
struct npu_dma;
struct npu_held;

/* ---- Paths ---- */

struct npu_path_ops {
    const char *name;
    /*
     * Send a message: complete it (npu_sent), or make a struct npu_tx of it. -FI_EAGAIN: nothing done, for
     * lack of room; other negative codes: nothing done, the peer cannot be reached.
     */
    int (*send)(struct npu_peer *peer, const struct npu_send *send);
    /*
     * Bring the payload of a matched message (rx->arrival) into rx->buf, npu_rx_wanted(rx) bytes of it, then
     * call npu_rx_finish(), at once or later. rx NULL: the message is discarded, its payload at hand or not.
     */
    void (*fetch)(struct npu_peer *peer, const struct npu_arrival *arrival, struct npu_rx *rx);
    /* The payload at hand of a message with FI_DELIVERY_COMPLETE is in the receive's buffer. */
    void (*delivered)(struct npu_peer *peer, const struct npu_arrival *arrival);
    /* Whether a message's payload can no longer come; asked for peers that are dead. */
    bool (*lost)(struct npu_peer *peer, const struct npu_arrival *arrival);
    /* The copy of a kept message's payload, of `cost`, is gone. */
    void (*release)(struct npu_peer *peer, size_t cost);
    /* Start an operation on the peer's memory; as `send`. NULL: the path has none. */
    int (*rma)(struct npu_peer *peer, const struct npu_rma *op);
    /* Take back an operation that has not begun; false if it has. */
    bool (*cancel)(struct npu_peer *peer, struct npu_tx *tx);
};

/* The other end of a path, base of the path's own structure. Owned by the path. */
struct npu_peer {
    const struct npu_path_ops *path;
    struct npu_ep *ep;
    struct npu_addr addr;
    bool dead;      /* no more traffic */
    unsigned users; /* kept messages and receives that refer to it */
    unsigned source_generation;
    fi_addr_t source;   /* index in the address vector at that generation */
    fi_addr_t reported; /* what completions tell of it */
};

/* Something that is called at each progress while it is in npu_ep.workers. */
struct npu_worker {
    struct hc_list node;
    void (*run)(struct npu_worker *worker);
};

/* A descriptor in the endpoint's epoll set. `ready` may close it. */
struct npu_watch {
    int fd;
    void (*ready)(struct npu_ep *ep, struct npu_watch *watch, uint32_t events);
};

int npu_ep_watch(struct npu_ep *ep, struct npu_watch *watch);
void npu_ep_unwatch(struct npu_ep *ep, struct npu_watch *watch);

/* ---- Operations ---- */

/* A flag of ours beside libfabric's: no completion on success (fi_inject). */
#define NPU_SILENT (1ULL << 62)

/* A send as the caller described it; valid during the call only. npu_send_post() fills in len. */
struct npu_send {
    const struct iovec *iov;
    void **desc;
    unsigned iov_count;
    size_t len;
    uint64_t tag, data;
    uint64_t flags; /* FI_MSG or FI_TAGGED; FI_REMOTE_CQ_DATA, FI_INJECT, FI_DELIVERY_COMPLETE; FI_COMPLETION;
                       NPU_SILENT */
    void *context;
};

/* An operation that goes out and did not complete in its call. */
struct npu_tx {
    struct hc_list node; /* free list, or the path's */
    struct npu_peer *peer;
    uint32_t index, generation; /* npu_tx_id */
    uint64_t flags;             /* as npu_send, or FI_RMA, FI_ATOMIC with FI_READ or FI_WRITE */
    void *context;
    struct npu_buf buf;
    uint64_t tag, data;
    void *bounce; /* copy of an injected payload; freed with the operation */
    /* The path's own: */
    uint8_t state;
    bool failed;
    int stream;
    unsigned copies;
    uint64_t base, at, end;
};

/* The head of a message that came in. */
struct npu_arrival {
    struct npu_peer *peer;
    uint64_t flags; /* FI_MSG or FI_TAGGED, FI_REMOTE_CQ_DATA; FI_DELIVERY_COMPLETE: the path wants to know */
    uint64_t tag, data;
    size_t len;
    const void *payload; /* all of it, or NULL: the path fetches it */
    size_t cost;         /* for `release`, if it is kept */
    uint64_t id;         /* the path's own */
    uint64_t base;       /* the path's own */
    int stream;          /* the path's own */
};

/* A message that no receive was posted for. */
struct npu_kept {
    struct hc_list node;
    struct npu_arrival arrival;
    unsigned char bytes[]; /* the payload, if arrival.payload is set */
};

/* A posted receive, and from its match on the transfer. */
struct npu_rx {
    struct hc_list node; /* free list, posted list, or the path's */
    uint64_t flags;      /* FI_MSG or FI_TAGGED, FI_MULTI_RECV, FI_COMPLETION as npu_send */
    void *context;
    fi_addr_t addr; /* FI_ADDR_UNSPEC: any */
    uint64_t tag, ignore;
    struct npu_buf buf;
    struct npu_arrival arrival; /* the matched message */
    /* Multi-receive: the posted buffer, whose pieces are receives of their own. */
    struct npu_rx *parent;
    unsigned children;
    size_t used;
    bool exhausted;
    /* The path's own: */
    int stream;
    unsigned copies;
    uint64_t at, end;
    struct npu_dma *dma;
    struct npu_held *held; /* where the message is in the sender's memory */
    uint32_t share, generation;
    bool refused;
    uint64_t began; /* npu_cycles(); 0: not timed */
};

enum npu_cntr_use {
    NPU_CNTR_SEND,
    NPU_CNTR_RECV,
    NPU_CNTR_READ,
    NPU_CNTR_WRITE,
    NPU_CNTR_REMOTE_READ,
    NPU_CNTR_REMOTE_WRITE,
    NPU_CNTR_USES,
};

/* One way to address an endpoint: itself, or an alias with other default flags. */
struct npu_port {
    struct fid_ep fid;
    struct npu_ep *ep;
    uint64_t tx_flags, rx_flags; /* default operation flags */
};

static inline struct npu_port *npu_port_of(struct fid_ep *fid)
{
    return hc_container_of(fid, struct npu_port, fid);
}

/* Operation flags that every call that sends data takes. */
#define NPU_SEND_FLAGS                                                                                       \
    (FI_REMOTE_CQ_DATA | FI_COMPLETION | FI_MORE | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |   \
     FI_DELIVERY_COMPLETE)

struct npu_ep {
    struct npu_port port; /* must stay first */
    struct npu_domain *domain;
    atomic_int refs; /* aliases, memory regions */
    struct npu_av *av;
    struct hc_list av_node, domain_node;
    struct npu_eq *eq;
    struct npu_cq *tx_cq, *rx_cq;
    bool tx_selective, rx_selective;
    struct npu_cntr *cntr[NPU_CNTR_USES];
    uint64_t caps;
    size_t tx_size, rx_size, min_multi_recv;
    struct npu_addr addr;
    bool enabled;
    struct npu_lock lock;
    uint32_t idle;  /* progress calls without anything */
    bool attention; /* npu_ep_service() is due */
    unsigned armed; /* sleepers that rely on being woken */
    int epoll;      /* every descriptor of the endpoint */
    struct hc_list workers;
    struct npu_peer **peers; /* by index of the address vector; NULL: not connected */
    size_t peer_room;
    unsigned met; /* peers connected to when they were inserted, or tried to */
    /* operations */
    struct npu_tx *tx_pool;
    struct hc_list tx_free;
    size_t tx_count; /* taken from the pool */
    struct hc_list rx_free, rx_slabs;
    size_t rx_count;                   /* posted or under way */
    struct hc_list posted[2], kept[2]; /* [0] messages, [1] tagged messages */
    struct hc_list claimed;
    /* the local path (chan.c) */
    struct npu_local *local;
    /* the path to other hosts (net.h); NULL: there is none */
    struct npu_net *net;
};

static inline struct npu_ep *npu_ep_of(struct fid_ep *fid)
{
    return npu_port_of(fid)->ep;
}

int npu_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
extern struct fi_ops_msg npu_msg_ops;
extern struct fi_ops_tagged npu_tagged_ops;
/* Make an endpoint's lists empty. */
static inline void npu_ep_init_lists(struct npu_ep *ep)
{
    struct hc_list *lists[] = {&ep->tx_free,   &ep->rx_free, &ep->rx_slabs, &ep->posted[0],
                               &ep->posted[1], &ep->kept[0], &ep->kept[1],  &ep->claimed};
    for (size_t i = 0; i < hc_array_len(lists); i++)
        hc_list_init(lists[i]);
}

/* ---- Progress (progress.c) ---- */

/* Move everything of the endpoint forward that can move without waiting. True: something moved. */
bool npu_ep_progress(struct npu_ep *ep);
/* Look at the endpoint's descriptors: connections, lost peers, wake-ups. Costs a system call. */
void npu_ep_service(struct npu_ep *ep);
/* Ask peers to wake this process; false (and not armed) if there is something to do already. */
bool npu_ep_arm(struct npu_ep *ep);
void npu_ep_disarm(struct npu_ep *ep);

/* ---- Sending (send.c) ---- */

/* Post a message to an address; what fi_send and its kin return. Takes the lock. */
ssize_t npu_send_post(struct npu_ep *ep, fi_addr_t dest, struct npu_send *send);
/* The peer at an address, connected if need be. */
int npu_ep_peer(struct npu_ep *ep, fi_addr_t dest, struct npu_peer **peer);
/*
 * Connect to an endpoint of this host before there is a message, so that the first one does not pay for it.
 * At most NPU_MEET_MAX for one endpoint: a connection takes memory, and a look at each call for progress.
 * Silent when that is not possible (yet). The lock is held.
 */
void npu_ep_meet(struct npu_ep *ep, fi_addr_t dest);
/* The same for what was inserted before the endpoint was enabled. */
void npu_ep_meet_all(struct npu_ep *ep);
/* Forget a peer that is gone, so that the next send connects anew. */
void npu_ep_forget(struct npu_ep *ep, struct npu_peer *peer);
/* An operation from the pool, filled from `send` (an injected payload is copied). 0; -FI_EAGAIN: all are in
 * use; or another -errno: the message cannot be sent like this. */
int npu_tx_make(struct npu_peer *peer, const struct npu_send *send, struct npu_tx **tx);
/* An empty operation from the pool (RMA, atomics). */
struct npu_tx *npu_tx_get(struct npu_peer *peer);
void npu_tx_put(struct npu_tx *tx);
/* Complete an operation, err: 0 or a positive fabric errno, and put it back. */
void npu_tx_finish(struct npu_tx *tx, int err);
/* Complete a send that never became an operation. */
void npu_sent(struct npu_ep *ep, uint64_t flags, void *context);

static inline uint64_t npu_tx_id(const struct npu_tx *tx)
{
    return (uint64_t)tx->generation << 32 | (tx->index + 1);
}
/* The operation of an id that came from a peer; NULL if there is none (any more). */
struct npu_tx *npu_tx_find(struct npu_ep *ep, const struct npu_peer *peer, uint64_t id);

/* ---- Receiving (recv.c) ---- */

/* A receive as the caller described it. */
struct npu_recv {
    const struct iovec *iov;
    void **desc;
    size_t iov_count;
    fi_addr_t addr;
    uint64_t tag, ignore;
    uint64_t flags; /* FI_MSG or FI_TAGGED, FI_MULTI_RECV, FI_PEEK, FI_CLAIM, FI_DISCARD, FI_COMPLETION */
    void *context;
};

/* Post a receive; what fi_recv and its kin return. Takes the lock. */
ssize_t npu_recv_post(struct npu_ep *ep, struct npu_recv *recv);
/*
 * A message has come in. 0: matched, and its payload, if at hand, used; 1: kept, and the payload, if at hand,
 * copied: `release` tells when that copy is gone; -FI_ENOMEM: nothing done, offer it again later.
 */
int npu_arrive(struct npu_ep *ep, const struct npu_arrival *arrival);
/* Whether messages may be taken in now: there must be room for their completions. */
static inline bool npu_ep_may_receive(struct npu_ep *ep)
{
    return !ep->rx_cq || npu_cq_has_room(ep->rx_cq);
}
/* How many bytes of the matched message fit the receive's buffer. */
static inline size_t npu_rx_wanted(const struct npu_rx *rx)
{
    return rx->arrival.len < rx->buf.len ? rx->arrival.len : rx->buf.len;
}
/* The transfer of a matched message has ended, err: 0 or a positive fabric errno. */
void npu_rx_finish(struct npu_ep *ep, struct npu_rx *rx, int err);
/* What completions tell of a peer's address; *index: its index. */
fi_addr_t npu_peer_source(struct npu_peer *peer, fi_addr_t *index);
/* Drop kept messages of a peer that is gone whose payload will never come. */
void npu_recv_forget(struct npu_ep *ep, struct npu_peer *peer);
/* fi_cancel for sends that have not begun. */
void npu_send_cancel(struct npu_ep *ep, void *context);
/* fi_cancel for receives; true if one was found. */
bool npu_recv_cancel(struct npu_ep *ep, void *context);
int npu_recv_init(struct npu_ep *ep);
void npu_recv_fini(struct npu_ep *ep);
int npu_send_init(struct npu_ep *ep);
void npu_send_fini(struct npu_ep *ep);

/* ---- The local path (chan.h: local.c local_send.c local_recv.c) ---- */

/* Take the endpoint's address and listen; fills in the port. -FI_EADDRINUSE: another endpoint has it. */
int npu_local_open(struct npu_ep *ep);
void npu_local_close(struct npu_ep *ep);
/* Connect to an endpoint of this host. -FI_ECONNREFUSED: nobody has that address. */
int npu_local_connect(struct npu_ep *ep, const struct npu_addr *addr, struct npu_peer **peer);
/* Let in who is at the door. Who has just connected says in a moment who they are: wait a moment for that. */
void npu_local_hear(struct npu_ep *ep);
/* Read what came in, move streams. True: something happened. */
bool npu_local_progress(struct npu_ep *ep);
/* Raise or lower the flags that make peers wake this process. */
void npu_local_sleep(struct npu_ep *ep, bool asleep);
/* Let go of peers that are gone. */
void npu_local_reap(struct npu_ep *ep);
/* Whether npu_local_progress() would find something. */
bool npu_local_pending(struct npu_ep *ep);

/* ---- The path to other hosts (net.c, net_*.c) ---- */

/* Whether the inner provider (FI_NPU_NET_PROVIDER) is there. */
bool npu_net_available(void);
/* Listen at the endpoint's address, which has its port already. */
int npu_net_open(struct npu_ep *ep);
/* What was injected is sent first; waits for that at most a second. */
void npu_net_close(struct npu_ep *ep);
/* Begin to connect to an endpoint of another host. -FI_EHOSTUNREACH: this endpoint serves its host only. */
int npu_net_connect(struct npu_ep *ep, const struct npu_addr *addr, struct npu_peer **peer);
/* Move everything; true: something happened. ep->net must be there, as for the next ones. */
bool npu_net_progress(struct npu_ep *ep);
/* Whether there are no connections: then progress may wait for its descriptor. */
bool npu_net_idle(const struct npu_ep *ep);
/* Let go of registrations whose copies have ended. */
void npu_net_settle(struct npu_ep *ep);
/* Prepare to sleep: from now on the descriptors tell. False: something is there to be done. */
bool npu_net_sleep(struct npu_ep *ep);

#endif
