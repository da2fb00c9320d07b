/*
 * Internal structures of the ofi transport: active messages and RMA over libfabric reliable-datagram
 * endpoints.
 *
 * Objects: an iface owns one domain, completion queue, address vector, the main endpoint that receives, and
 * further endpoints ("rails") opened when the first large transfer is striped. Per world rank there is a peer
 * (address, sequence numbers, owed acknowledgements), which outlives the eps that the runtime creates for it.
 *
 * Connections: libfabric connects on first use and answers -FI_EAGAIN until that is done, and again, for
 * ever, when the peer is gone. So an ep first sends a HELLO, attempted as often as retry_count allows, and
 * takes nothing from the caller before that has left; and an ep that is refused for long is probed
 * (connect.c).
 *
 * Threads: as in transport.h, the caller serialises; only the libfabric table is shared between contexts.
 */
#ifndef HC_OFI_H
#define HC_OFI_H

#include "runtime/base/list.h"
#include "runtime/base/pool.h"
#include "transports/ofi/lib.h"
#include "transports/ofi/profile.h"
#include "transports/ofi/shmname.h"
#include "transports/ofi/wire.h"
#include "transports/transport.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

enum {
    HC_OFI_RAIL_MAX = 32,
    HC_OFI_INJECT_MAX = 512,      /* largest message copied to the stack for fi_inject */
    HC_OFI_BUFFERS_PER_EP = 16,   /* bounce buffers that the messages to one peer may hold */
    HC_OFI_BUFFERS_PER_SLAB = 64, /* and how many are allocated at a time */
    HC_OFI_BUFFERS_MAX = 1024,
    HC_OFI_INJECT_RUN = 64, /* messages without a completion before one with */
    HC_OFI_CQ_BATCH = 16,   /* completions taken per poll */
    HC_OFI_HELD_PER_SLAB = 64,
    HC_OFI_IOV_MAX = 2,             /* header and data */
    HC_OFI_EARLY = 16,              /* completions found outside progress() that it has still to handle */
    HC_OFI_SEQUENCE_LEAP = 1 << 16, /* after a break: more than any message can overtake */
};

enum hc_ofi_op_kind {
    HC_OFI_OP_RECEIVE, /* a posted receive; lives in struct hc_ofi_receive */
    HC_OFI_OP_SEND,    /* from a bounce buffer, perhaps with the caller's data behind */
    HC_OFI_OP_READ,
    HC_OFI_OP_WRITE,
    HC_OFI_OP_PARENT, /* a striped transfer; never posted itself */
};

struct hc_ofi_iface;
struct hc_ofi_ep;

/* One operation, posted or waiting to be: everything needed to post it. */
struct hc_ofi_op {
    struct fi_context2 context; /* first: libfabric's op_context; providers may write into it */
    enum hc_ofi_op_kind kind;
    struct hc_list link; /* ep->pending, ep->deferred or iface->orphans */
    struct hc_ofi_iface *iface;
    struct hc_ofi_ep *ep;     /* NULL once orphaned: nobody is to hear of it any more */
    struct hc_ofi_op *parent; /* of a stripe */
    struct hc_op *user;       /* to complete; NULL when nobody waits */
    bool *over;               /* of a call that looks at once: set instead of completing user; or NULL */
    uint64_t serial;          /* order of issue on the ep, for flush */
    /* What to post. */
    uint8_t rail;
    size_t iov_count;
    struct iovec iov[HC_OFI_IOV_MAX];
    void *desc[HC_OFI_IOV_MAX];
    uint64_t remote, key;
    struct fid_mr *mr; /* registered for this operation only */
    struct hc_ofi_buffer *buffer;
    /* HC_OFI_OP_PARENT */
    size_t left;
    hcomm_status_t status;
};

/* A bounce buffer: free, or held by the op that sends it. */
struct hc_ofi_buffer {
    struct hc_ofi_buffer *next;
    char *data; /* header, then bcopy_max bytes */
    void *desc;
};

/* Memory for messages: one mapping, one registration. */
struct hc_ofi_slab {
    struct hc_ofi_slab *next;
    char *data;
    size_t size;
    struct fid_mr *mr;
    void *desc;
    struct hc_ofi_buffer buffers[]; /* those that live in it; none in the slab of the receives */
};

struct hc_ofi_receive {
    struct hc_ofi_op op;
    char *data;
    bool posted;
    /* A message that overtook another one: kept for its turn, in peer->ahead. */
    struct hc_list ahead;
    struct hc_ofi_header header;
};

/* Everything known about a world rank. Created at its HELLO or at the first ep to it; lives until close. */
struct hc_ofi_peer {
    uint32_t rank;
    struct hc_ofi_iface *iface;
    fi_addr_t address;          /* main endpoint, in the iface's address vector */
    struct hc_ofi_address name; /* what was inserted */
    bool greeted;               /* rx_sequence is the peer's */
    bool loss_logged;
    uint32_t tx_sequence, rx_sequence; /* next ones */
    struct hc_list ahead;              /* struct hc_ofi_receive whose turn has not come */
    unsigned deferred_sends;           /* sends accepted but not posted; later ones wait behind them */
    struct hc_list eps;                /* struct hc_ofi_ep of the runtime for this rank */
};

struct hc_ofi_flush {
    struct hc_list link; /* in ep->flushes */
    struct hc_op *user;
    uint64_t serial; /* of the newest op to wait for */
};

/* Messages of an ep that wait for others to leave with (gather.c). */
struct hc_ofi_gather {
    struct hc_list link;  /* in iface->gathering, since the second message of this turn */
    struct hc_ofi_op *op; /* the batch; NULL: none is begun */
    size_t used, limit;   /* bytes in it, and at which it leaves */
    struct hc_list held;  /* of the messages in it */
    unsigned untold;      /* ops of messages that are held or have left */
    uint64_t turn, last;  /* of the last message: iface->turn; of the last one that followed another: ns */
    unsigned run;         /* messages of this turn */
    unsigned prompt, patience; /* bursts that were prompt, and how many there must be */
};

enum hc_ofi_ep_state {
    HC_OFI_EP_CONNECTING, /* the HELLO has not left yet */
    HC_OFI_EP_UP,
    HC_OFI_EP_BROKEN, /* to be reported by progress() */
    HC_OFI_EP_FAILED, /* reported */
};

struct hc_ofi_ep {
    struct hc_ep base;
    struct hc_ofi_peer *peer;
    enum hc_ofi_ep_state state;
    hcomm_status_t error;      /* once broken */
    struct hc_list peer_link;  /* in peer->eps */
    struct hc_list watch_link; /* in iface->watched while connecting, deferred, refused or broken */
    struct hc_list pending;    /* posted ops, oldest first */
    struct hc_list deferred;   /* accepted but not yet taken by the provider, oldest first */
    struct hc_list flushes;    /* struct hc_ofi_flush, oldest first */
    uint64_t serial;           /* of the newest op */
    unsigned buffers;          /* bounce buffers held by its ops */
    unsigned injected;         /* messages without completion since the last one with */
    struct hc_ofi_gather gather;
    /* Connecting, and probing an ep that the provider refuses (connect.c). */
    unsigned attempts;     /* failed ones */
    uint64_t next_attempt; /* not before */
    uint64_t attempt_end;  /* this attempt counts as failed from here on */
    unsigned try_interval_us;
    uint64_t refused_since; /* 0: not refused */
    uint64_t last_refused;
    uint64_t next_probe, probe_interval;
    int probe_fd;        /* -1: none running */
    uint32_t rails_used; /* bit set */
    uint8_t next_rail;   /* of transfers that take turns */
};

struct hc_ofi_mem {
    struct hc_mem base;
    struct fid_mr *mr;
    void *desc;
    uint64_t key, start, len;
};

struct hc_ofi_rkey {
    struct hc_rkey base;
    uint64_t key, start, len;
};

struct hc_ofi_iface {
    struct hc_iface base;
    struct hc_iface_params params;
    const struct hc_ofi_lib *lib;
    const struct hc_ofi_profile *profile;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_cq *wake_cq;                /* HC_OFI_WAIT_DOMAIN: never gets a completion */
    struct fid_ep *rails[HC_OFI_RAIL_MAX]; /* [0] is the main endpoint */
    unsigned rail_count;                   /* open ones */
    struct hc_ofi_address name;            /* of the main endpoint */
    uint64_t scope;                        /* hc_ofi_scope_id() */
    uint64_t job_hash;
    uint16_t job; /* what of it fits into every header */
    size_t inject_max;
    size_t tx_credits; /* operations that may still be posted */
    bool mr_local, mr_virtual, mr_provider_key;
    uint64_t next_key;
    struct hc_ofi_peer **peers; /* by world rank */
    struct hc_pool ops, flushes, held;
    uint64_t turn;            /* grows with each progress() */
    struct hc_list gathering; /* eps with a batch, or more than one message since the last progress() */
    struct hc_list left;      /* messages of batches whose ops are to be completed */
    struct hc_list orphans;   /* ops whose ep is gone, still with the provider */
    struct hc_list watched;   /* eps that need looking after without a completion */
    size_t stride;            /* of messages in slabs */
    struct hc_ofi_slab *slabs;
    struct hc_ofi_buffer *free_buffers;
    unsigned buffer_count;
    struct hc_ofi_receive *receives;
    void *receive_desc;
    size_t unposted;             /* receives that could not be reposted yet */
    struct hc_ofi_ep *reporting; /* ep whose failure is being told; NULL once it is destroyed */
    bool stranger_logged;        /* a dropped message has been reported */
    /* Sleeping: an epoll set of the queue's descriptor and a timer that ticks while eps are watched. */
    int event_fd, timer_fd;
    bool armed, timer_set;
    struct fi_cq_msg_entry early[HC_OFI_EARLY]; /* a ring of those found outside progress(), oldest first */
    unsigned early_head, early_count;
};

/* query.c */

/* One way to open a profile: an info of libfabric and what was decided about it. */
struct hc_ofi_candidate {
    struct fi_info *info; /* in the list returned beside; NULL when there is none */
    char device[64];
    bool usable;
    int rank; /* higher is better */
    char reason[192];
};

enum { HC_OFI_CANDIDATE_MAX = 16 };

/*
 * List the devices of a profile, usable or not, one entry each. *infos, to be freed with lib->freeinfo, keeps
 * the entries' infos alive. Fails only when nothing can be said at all; the detail is the reason.
 */
hcomm_status_t hc_ofi_discover(const struct hc_ofi_lib *lib, const struct hc_ofi_profile *profile,
                               const struct hc_settings *settings, struct hc_ofi_candidate *candidates,
                               size_t *count, struct fi_info **infos) HC_MUST_CHECK;
hcomm_status_t hc_ofi_query(struct hc_resource_list *list) HC_MUST_CHECK;
hcomm_status_t hc_ofi_check_settings(const struct hc_settings *settings) HC_MUST_CHECK;
/* Identity of the scope in which a profile's addresses work without a network. */
uint64_t hc_ofi_scope_id(enum hc_ofi_scope scope);

/* iface.c */
/* What an iface of the profile can do, opened with the info. */
void hc_ofi_fill_attr(const struct hc_ofi_profile *profile, const struct fi_info *info,
                      struct hc_iface_attr *attr);
hcomm_status_t hc_ofi_open(const struct hc_resource *resource, const struct hc_iface_params *params,
                           struct hc_iface **iface) HC_MUST_CHECK;
void hc_ofi_close(struct hc_iface *iface);
/* Turn a negative libfabric result into a status, with a detail that names what was tried. */
hcomm_status_t hc_ofi_error(const struct hc_ofi_iface *iface, const char *what, ssize_t result);
/* A slab of `count` messages; it belongs to the iface. */
hcomm_status_t hc_ofi_slab_add(struct hc_ofi_iface *iface, size_t count, size_t buffers,
                               struct hc_ofi_slab **slab) HC_MUST_CHECK;
/* A bounce buffer for an op of the ep; NULL when the ep holds its share or memory is short. */
struct hc_ofi_buffer *hc_ofi_buffer_get(struct hc_ofi_ep *ep);
/* Remove what dead processes left behind, where endpoints are files. */
void hc_ofi_sweep(const struct hc_ofi_iface *iface);
/* Open rails until `count` are there; fewer is not an error. */
void hc_ofi_rails_open(struct hc_ofi_iface *iface, unsigned count);
/* Post one receive; false when the provider cannot take it now. */
bool hc_ofi_receive_post(struct hc_ofi_receive *receive);

/* op.c */

/* NULL when memory is exhausted. */
struct hc_ofi_op *hc_ofi_op_get(struct hc_ofi_ep *ep, enum hc_ofi_op_kind kind, struct hc_op *user);
/* Give an op a bounce buffer as its first part; false when there is none. */
bool hc_ofi_op_add_buffer(struct hc_ofi_op *op);
/* Release an op that is not with the provider, with its buffer and registration. */
void hc_ofi_op_put(struct hc_ofi_op *op);
/* Hand an op to the provider: 0, -FI_EAGAIN (also without credits), or another negative error. */
ssize_t hc_ofi_op_post(struct hc_ofi_op *op);
/*
 * Post now or not at all. HCOMM_IN_PROGRESS; or HCOMM_AGAIN or an error, and the op is released. An error
 * breaks the ep.
 */
hcomm_status_t hc_ofi_op_try(struct hc_ofi_op *op) HC_MUST_CHECK;
/* Post now or later. HCOMM_IN_PROGRESS; or an error that breaks the ep, and the op is released. */
hcomm_status_t hc_ofi_op_submit(struct hc_ofi_op *op) HC_MUST_CHECK;
/* Post the ep's deferred ops as far as the provider takes them. Returns how many. */
unsigned hc_ofi_ep_post_deferred(struct hc_ofi_ep *ep);
/* The provider is done with op: release it, tell the user. */
void hc_ofi_op_complete(struct hc_ofi_op *op, hcomm_status_t status);
/* One stripe of a parent is over. */
void hc_ofi_op_stripe_done(struct hc_ofi_op *parent, hcomm_status_t status);
/*
 * End every op of the ep; those with the provider become orphans. With `tell`, users hear `status`, unless
 * the ep is destroyed in between (iface->reporting).
 */
void hc_ofi_ep_abandon(struct hc_ofi_ep *ep, hcomm_status_t status, bool tell);

/* send.c */
hcomm_status_t hc_ofi_am_short(struct hc_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len) HC_MUST_CHECK;
hcomm_status_t hc_ofi_am_bcopy(struct hc_ep *ep, uint8_t id, hc_pack_fn pack, void *arg) HC_MUST_CHECK;
hcomm_status_t hc_ofi_am_zcopy(struct hc_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len, struct hc_mem *mem,
                               struct hc_op *op) HC_MUST_CHECK;
hcomm_status_t hc_ofi_flush(struct hc_ep *ep, struct hc_op *op) HC_MUST_CHECK;
/* Write a HELLO to the peer into a buffer; returns its length. */
size_t hc_ofi_hello_pack(const struct hc_ofi_peer *peer, void *dest);
/* Complete the ep's flushes whose operations are over. */
void hc_ofi_flush_check(struct hc_ofi_ep *ep);

/* An op for a message with a bounce buffer; HCOMM_AGAIN when either has run out. */
hcomm_status_t hc_ofi_send_op_get(struct hc_ofi_ep *ep, struct hc_op *user,
                                  struct hc_ofi_op **op) HC_MUST_CHECK;
/* Post a packed message of `len` bytes, which must not be packed twice: what the provider refuses now waits
 * in the ep. */
hcomm_status_t hc_ofi_send_packed(struct hc_ofi_op *op, uint8_t id, size_t len) HC_MUST_CHECK;

/* gather.c */
void hc_ofi_gather_open(struct hc_ofi_iface *iface);
void hc_ofi_gather_init(struct hc_ofi_gather *gather);
/* A message that is not the first since the last progress(): before it is held or sent, and after. */
void hc_ofi_gather_follow(struct hc_ofi_ep *ep);
void hc_ofi_gather_followed(struct hc_ofi_ep *ep);
/* Add a message to the batch. HCOMM_IN_PROGRESS, or nothing was done. */
hcomm_status_t hc_ofi_gather_add(struct hc_ofi_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                 const void *data, size_t len, struct hc_op *user) HC_MUST_CHECK;
/* Post the batch, if there is one; to be called before anything else is sent. An error breaks the ep. */
hcomm_status_t hc_ofi_gather_post(struct hc_ofi_ep *ep) HC_MUST_CHECK;
/* At the start and the end of progress(): post all batches, complete the ops of their messages. */
unsigned hc_ofi_gather_begin_turn(struct hc_ofi_iface *iface);
void hc_ofi_gather_end_turn(struct hc_ofi_iface *iface);
/* Nothing is held, no op waits for its completion. */
bool hc_ofi_gather_is_idle(const struct hc_ofi_iface *iface);
/* Forget the ep's batch; its messages move to `taken`, to be released one by one: whose op each was. */
void hc_ofi_gather_take(struct hc_ofi_ep *ep, struct hc_list *taken);
struct hc_op *hc_ofi_gather_release(struct hc_ofi_iface *iface, struct hc_list *node);

/* rma.c */
hcomm_status_t hc_ofi_put(struct hc_ep *ep, const void *local, size_t len, struct hc_mem *mem,
                          uint64_t remote, struct hc_rkey *rkey, struct hc_op *op) HC_MUST_CHECK;
hcomm_status_t hc_ofi_get(struct hc_ep *ep, void *local, size_t len, struct hc_mem *mem, uint64_t remote,
                          struct hc_rkey *rkey, struct hc_op *op) HC_MUST_CHECK;
hcomm_status_t hc_ofi_mem_reg(struct hc_iface *iface, void *addr, size_t len, const struct hc_mem_attr *attr,
                              struct hc_mem **mem) HC_MUST_CHECK;
void hc_ofi_mem_dereg(struct hc_mem *mem);
hcomm_status_t hc_ofi_rkey_pack(const struct hc_mem *mem, void *buf, size_t *len) HC_MUST_CHECK;
hcomm_status_t hc_ofi_rkey_unpack(struct hc_ep *ep, const void *buf, size_t len,
                                  struct hc_rkey **rkey) HC_MUST_CHECK;
void hc_ofi_rkey_release(struct hc_rkey *rkey);
/* Register memory with the domain; access as in fi_mr_reg(3). */
hcomm_status_t hc_ofi_register(struct hc_ofi_iface *iface, const void *addr, size_t len, uint64_t access,
                               struct fid_mr **mr) HC_MUST_CHECK;
enum { HC_OFI_RKEY_SIZE = 32 };

/* connect.c */
hcomm_status_t hc_ofi_address(const struct hc_iface *iface, void *addr, size_t *len) HC_MUST_CHECK;
bool hc_ofi_reachable(const struct hc_iface *iface, const void *addr, size_t len);
hcomm_status_t hc_ofi_ep_create(struct hc_iface *iface, uint32_t peer, const void *addr, size_t len,
                                struct hc_ep **ep) HC_MUST_CHECK;
void hc_ofi_ep_destroy(struct hc_ep *ep);
/* The peer of a rank at this address: found, made, or moved to it. */
hcomm_status_t hc_ofi_peer_get(struct hc_ofi_iface *iface, uint32_t rank, const struct hc_ofi_address *name,
                               struct hc_ofi_peer **peer) HC_MUST_CHECK;
/* The ep is broken for good; progress() reports it. */
void hc_ofi_ep_break(struct hc_ofi_ep *ep, hcomm_status_t error);
/* The provider refused an operation for now; look after the ep until it takes one. */
void hc_ofi_ep_refused(struct hc_ofi_ep *ep);
/* The provider took an operation. */
void hc_ofi_ep_accepted(struct hc_ofi_ep *ep);
/* Try to connect an ep that is still connecting, out of turn; true when it is up. */
bool hc_ofi_ep_connect(struct hc_ofi_ep *ep);
/* Connect, probe, report: one look at every watched ep. Returns how much was done. */
unsigned hc_ofi_watch(struct hc_ofi_iface *iface);

/* progress.c */
/*
 * Where sends are usually over when they have been posted: release those that nobody waits for, set `over` of
 * the one being called. Other completions are kept for progress(), in order; no upcalls.
 */
void hc_ofi_reap(struct hc_ofi_iface *iface);
unsigned hc_ofi_progress(struct hc_iface *iface);
int hc_ofi_event_fd(struct hc_iface *iface);
hcomm_status_t hc_ofi_arm(struct hc_iface *iface) HC_MUST_CHECK;

static inline struct hc_ofi_iface *hc_ofi_iface_of(struct hc_iface *iface)
{
    return hc_container_of(iface, struct hc_ofi_iface, base);
}

static inline struct hc_ofi_ep *hc_ofi_ep_of(struct hc_ep *ep)
{
    return hc_container_of(ep, struct hc_ofi_ep, base);
}

static inline struct hc_ofi_iface *hc_ofi_ep_iface(const struct hc_ofi_ep *ep)
{
    return hc_container_of(ep->base.iface, struct hc_ofi_iface, base);
}

/* To be called before and after each message is sent. */
static inline void hc_ofi_gather_count(struct hc_ofi_ep *ep)
{
    struct hc_ofi_iface *iface = hc_ofi_ep_iface(ep);
    if (!iface->profile->gather_max)
        return;
    if (ep->gather.turn == iface->turn) {
        hc_ofi_gather_follow(ep);
        return;
    }
    ep->gather.turn = iface->turn;
    ep->gather.run = 1;
}

static inline void hc_ofi_gather_sent(struct hc_ofi_ep *ep)
{
    if (ep->gather.run > 1)
        hc_ofi_gather_followed(ep);
}

#endif
