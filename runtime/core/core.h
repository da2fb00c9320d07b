/*
 * Internal structures of the runtime core, and what its files offer each other.
 *
 * Locking: everything of a context is guarded by context->lock, taken by the public calls and by the progress
 * thread. Functions of this header expect it held unless they say otherwise. The only other lock of the core
 * guards the list of contexts (progress.c) and comes after a context's; with both held, further contexts are
 * only tried, so there is no cycle. The boot layer's own locks are leaves. Transport upcalls run inside
 * hc_progress(), lock held.
 */
#ifndef HC_CORE_H
#define HC_CORE_H

#include "runtime/base/clock.h"
#include "runtime/base/counter.h"
#include "runtime/base/list.h"
#include "runtime/base/lock.h"
#include "runtime/base/log.h"
#include "runtime/base/pool.h"
#include "runtime/base/settings.h"
#include "runtime/base/status.h"
#include "runtime/boot/boot.h"
#include "runtime/core/blob.h"
#include "runtime/core/chooser.h"
#include "runtime/core/lender.h"
#include "runtime/core/match.h"
#include "runtime/core/ranges.h"
#include "runtime/core/wire.h"
#include "transports/transport.h"

#include <hcomm.h>

#include <pthread.h>

/* Takes the parent's rank. */
#define HC_FORKED_TEXT "this process was forked from rank %u, which is the job's member"

struct hc_device;

enum { HC_CONTEXT_KEY_MAX = 32, HC_IFACE_MAX = 16, HC_COMM_BUCKETS = 64 };

/* ---- peers ---- */

enum hc_peer_state {
    HC_PEER_NEW,      /* nothing known */
    HC_PEER_FETCHING, /* its blob is being fetched */
    HC_PEER_READY,    /* ep exists */
    HC_PEER_FAILED,   /* unreachable or dead; failure and detail tell */
};

/* A message that arrives in parts (parts.c). */
struct hc_parts {
    uint64_t recv_id; /* of the receive that takes it; gone when that was given up */
    size_t payload;   /* where it begins in the message */
    size_t offset;    /* where it goes in the receive's buffer */
    size_t taken;     /* bytes of the message; 0: none is arriving */
    bool eager;
};

/* One rank of the world as seen from here; allocated at first contact, lives as long as the context. */
struct hc_peer {
    struct hcomm_context *context;
    uint32_t rank;
    enum hc_peer_state state;
    struct hc_ep *ep;                 /* READY */
    const struct hc_transport *ops;   /* of ep */
    const struct hc_iface_attr *attr; /* of ep's iface */
    size_t eager_max;                 /* payload sent eagerly, mode and attr considered */
    size_t zcopy_min;                 /* eager payloads from it on are sent out of the sender's buffer */
    size_t direct_limit; /* payloads below it may go straight to am_short while nothing is pending */
    int64_t credit;      /* bytes that may still be sent eagerly */
    uint64_t owed;       /* bytes consumed here that the peer has not been told of */
    int64_t window;      /* most that credit may become: what the peer grants through ops */

    struct hc_fifo send_queue;    /* hc_send_item: messages in order, waiting for ep or room */
    struct hc_fifo control_queue; /* hc_control_item: answers waiting for ep or room */
    size_t queued_bytes;          /* payload copied into send_queue */
    struct hc_list pending;       /* in context->pending while a queue, batch or stream has work */
    bool is_pending;

    struct hc_list streaming; /* requests whose transfer is under way */
    struct hc_list
        rndv_waiting; /* requests whose transfer waits: beyond queue_depth, or the ep is not there yet */
    unsigned rndv_inflight;    /* in streaming */
    bool rkey_useless;         /* a get turned out impossible: pieces from now on */
    bool ipc_useless;          /* so did sharing device memory */
    struct hc_chooser chooser; /* of the way of large messages from it */
    struct hc_parts parts;     /* a message from it that is arriving */

    size_t lend_min;         /* payloads from it on may be lent (lend.h) */
    struct hc_lender lender; /* whether to */
    unsigned num_lent;       /* messages that are lent to it, and use credit */
    unsigned num_joined;     /* of these, such that it is fetching */
    uint64_t fetched_at;     /* clock, when it last said that it had fetched one */
    bool taking_back;        /* the payloads of some of them are sent, of others not yet */
    uint64_t no_room_at;     /* clock of the last progress that found no room for them */
    struct hc_share_pool *guard_pool;
    uint32_t guard, guard_generation; /* index and generation; 0: none is open */

    bool gathers; /* SMALL_MSG, and not ourselves */
    uint8_t
        *batch; /* gathered messages: hc_wire_batch and items, batch_used bytes; NULL until first needed */
    size_t batch_used;  /* 0: nothing is gathered */
    size_t batch_limit; /* from this many bytes on it leaves at once */
    size_t batch_room;
    uint64_t batch_messages, batch_bytes; /* how many, and their payload */
    uint32_t
        rounds; /* of context->rounds, when last a message was not gathered because it came after a rest */

    struct hc_boot_op boot_op; /* FETCHING */
    struct hc_list fetching;   /* in context->fetching */
    unsigned attempts;         /* to reach it that failed */
    bool more;                 /* what it has opened besides is asked for, or known */
    uint64_t retry_at;         /* clock, when a further attempt is due; 0: none */
    bool awaited;              /* a blocking send has waited for it to be reached: none does again */

    struct hc_list failing; /* in context->failing until its operations have been failed */
    hcomm_status_t failure;
    char *detail;        /* FAILED: in words, naming rank and host; owned */
    void *blob;          /* READY: as fetched; owned */
    struct hc_blob info; /* READY: parsed, points into blob */
    int pidfd;           /* -1: not watched */
};

/* ---- requests ---- */

enum hc_request_kind { HC_REQUEST_SEND, HC_REQUEST_RECV, HC_REQUEST_BARRIER };

/*
 * An operation in flight. From context->request_pool; freed by the completing test or wait, or at once if
 * orphan. Fields up to `finished` are set anew for each operation; those behind are zero in free requests, so
 * that a small message, which needs none of them, does not have to write them.
 */
struct hcomm_request {
    enum hc_request_kind kind;
    atomic_bool complete; /* set last, release; partner: acquire in hc_request_complete_unlocked */
    bool orphan;          /* nobody will ask: free at completion */
    bool cancelled;
    bool immortal;  /* the context's shared "already complete" request */
    bool on_device; /* buf is in device memory */
    bool light;     /* nothing behind `finished` was set: an eager message met its receive, and no more */
    hcomm_status_t status;
    struct hcomm_context *context;
    struct hcomm_comm *comm;
    struct hc_peer *peer; /* SEND, RECV of a known source; NULL otherwise */
    int source, tag; /* RECV: of the message once matched, before that the pattern; SEND: destination, tag */
    size_t size;     /* RECV: of the message once matched */
    void *buf;
    size_t capacity; /* RECV: room; SEND: bytes to send */

    struct hc_match_recv match; /* RECV: while posted */
    size_t finished;            /* bytes complete */

    /* rendezvous, both sides */
    struct hc_list stream_node; /* in peer->streaming or peer->rndv_waiting */
    uint64_t id;                /* in context->ids; 0: none */
    uint64_t remote_id;
    size_t accept;  /* bytes that travel */
    size_t issued;  /* bytes handed to the transport */
    unsigned ops;   /* transport operations in flight */
    bool started;   /* SEND: RTS or EAGER_SYNC is out: answers to it are expected */
    bool sync;      /* SEND: completes at match */
    bool withdrawn; /* SEND: WITHDRAW is out: whatever the answer, it ends the request */
    void *offer;    /* RECV: a copy of the rkey offered, while waiting */
    size_t offer_len;
    bool owns_buf;     /* SEND: buf is freed with the rendezvous */
    bool transferring; /* counted in peer->rndv_inflight */
    struct hc_mem *mem;
    struct hc_registration *registration; /* of which mem is; NULL: mem is the request's own */
    struct hc_rkey *rkey;
    uint64_t remote_address;
    /* through mapped memory (mapped.c) */
    struct hc_share *share; /* parts are claimed from it; NULL: the transfer is not shared out */
    uint32_t share_generation, share_index;
    struct hc_share_pool *share_pool; /* RECV: of the iface, the share is open in it; NULL: none */
    struct hc_choice choice;          /* RECV: the way it takes, where there was a choice */
    bool placing;                     /* SEND: puts the parts it claims into the receiver's memory */
    bool shared;                      /* SEND: the receiver copies, too, and says when it is over */
    /* lent messages (lend.c) */
    uint64_t lent_at;                 /* SEND: clock; in context->lent; 0: it is not */
    bool joined;                      /* SEND: the receiver fetches, and has invited to copy, too */
    size_t placed;                    /* SEND: bytes put into the receiver's memory then */
    bool payload_sent;                /* SEND: it is being taken back */
    uint32_t fetch_ns;                /* RECV: how long fetching it took, without the sender's part */
    bool overtaken;                   /* RECV: it was taken back: the payload is coming */
    bool lent;                        /* RECV: it was when its RTS came */
    uint32_t guard, guard_generation; /* RECV: index and generation of the peer's share; 0: do not fetch */
    uint64_t activity;                /* clock of the last progress, for deadlines */
    /* device memory (staged.c) */
    struct hc_staged *staged; /* NULL: nothing special about it */
    uint32_t offer_kind;      /* enum hc_offer: SEND: offered; RECV: kept or taken */

    /* BARRIER */
    struct hc_list barrier_node; /* in comm->barriers */
    uint64_t generation;
    unsigned stage, round; /* of barrier.c's state machine; round of the dissemination */
    bool wake;             /* sleepers are left to wake, once they can be reached */
};

/*
 * A blocking receive that has not become a request: it polls for a while with the lock held, on its caller's
 * stack. As it begins only when nothing is posted, it is the oldest receive as long as it lasts.
 */
struct hc_awaited {
    struct hc_match_key pattern;
    struct hcomm_comm *comm;
    void *buf;
    size_t capacity;
    struct hcomm_request *request; /* what it became, when the message asked for more than a copy */
    bool abandoned;                /* there was no memory for that: begin again */
    int source, tag;               /* of the message that came */
    size_t size;
};

/* ---- unexpected messages ---- */

/* A message that arrived before its receive. Small payloads come from a pool, others from malloc. */
struct hcomm_message {
    struct hc_match_message match;
    struct hc_peer *peer;
    struct hcomm_comm *comm; /* set when taken by mprobe */
    size_t size;             /* of the whole message */
    uint64_t send_id;        /* rendezvous and synchronous */
    bool rndv, sync, pooled;
    bool withdrawn;                   /* rendezvous: the sender gave it up; its receive will fail */
    uint64_t address;                 /* rendezvous by get */
    uint32_t rkey_len;                /* rkey bytes are in payload */
    uint32_t offer;                   /* enum hc_offer, what they are */
    uint32_t guard, guard_generation; /* of a lent message; generation 0: it is not */
    void *taken_back;                 /* the payload of a lent message, which has come since; owned */
    size_t charged;                   /* counted in context->unexpected_bytes */
    size_t credit;                    /* to give back to the sender when consumed */
    uint8_t payload[];
};

/* ---- communicators ---- */

struct hc_barrier_slot;
struct hc_comm_subset;

/* How the barriers of a communicator work; decided by its first one, the same on all members. */
enum hc_barrier_mode {
    HC_BARRIER_UNDECIDED, /* first barrier: messages, which also agree on the mode */
    HC_BARRIER_MESSAGES,  /* dissemination among all members */
    HC_BARRIER_FLAGS,     /* one host, few members: each watches every other's flag */
    HC_BARRIER_GATHER,    /* shared words inside hosts, dissemination among their leaders */
};

enum { HC_BARRIER_SLOTS = 32 };

/* One slot of our own sync area (barrier_shared.c). */
struct hc_slot_use {
    bool used;
    uint16_t members; /* local members of the communicator that uses it; 0: not known yet */
    uint16_t left;    /* of those, how many have freed the communicator */
};

struct hcomm_comm {
    struct hcomm_context *context;
    uint64_t id; /* never reused: leader's world rank << 32 | its counter, top bit clear */
    int rank, size;
    uint32_t *world;    /* world rank of each member; NULL: identity */
    struct hc_list all; /* in context->comms */
    unsigned busy;      /* requests not complete yet, counted by hc_request_new() and hc_request_complete() */
    char name[HCOMM_COMM_NAME_MAX];

    struct hc_list hashed; /* in context->comm_table */

    /* creation (comm_create.c) */
    uint32_t collectives;           /* dups and splits started on it: their messages' tags */
    struct hc_comm_subset *subsets; /* lists of ranks given to create, and how often; owned */
    size_t num_subsets;

    /* barrier: who is on this host, and the shared words (barrier.c, barrier_shared.c) */
    int *local; /* ranks of members on this host, ascending; NULL until prepared */
    int num_local;
    int local_index; /* own position in local */
    int *leaders;    /* first rank of each host; leaders[leader_index] is this host's */
    int num_leaders, leader_index;
    int slot;                      /* in the sync area of local[0]; -1: none, use messages */
    struct hc_barrier_slot *words; /* mapped; NULL until local[0] is reached */
    enum hc_barrier_mode mode;
    bool shared_ok;          /* no member said yet that it cannot use shared words */
    bool asleep;             /* own bit among the slot's sleepers is set */
    struct hc_peer *lost;    /* a member that failed: no barrier can succeed; NULL: none known */
    uint64_t generation;     /* of the newest barrier started; the first is 1 */
    uint64_t arrived[32];    /* per dissemination round: newest generation received */
    struct hc_list barriers; /* BARRIER requests in order; the first is active */
    struct hc_list active;   /* in context->barriers while comm->barriers is not empty */
};

/* ---- context ---- */

struct hc_iface_slot {
    struct hc_iface *iface;
    bool quiet; /* the self transport before this rank talks to itself: nothing can arrive, do not poll */
    struct hc_resource resource;
};

/* Where this rank runs; placement.h. */
struct hc_placement {
    struct hc_presence *own; /* in our own sync area; NULL: there is none */
    uint32_t processor;      /* value last told */
    unsigned together;       /* long waits in a row for somebody on the same processor */
    uint64_t next_move, interval;
};

struct hcomm_context {
    struct hc_lock lock;
    struct hc_list registered; /* in the list of the process's contexts (progress.c) */
    struct hc_settings settings;
    enum hc_setting_origin origins[HC_SETTING_COUNT_MAX];
    struct hc_counters counters;

    struct hc_boot *boot;
    const struct hc_boot_job *job;
    char key[HC_CONTEXT_KEY_MAX - 8]; /* of our blob in the modex */
    char job_id[320];                 /* name space and context number */
    uint64_t host_id;
    char cpuset[1024];
    uint32_t *host_of; /* per rank; NULL until hc_context_hosts() */

    struct hc_iface_slot ifaces[HC_IFACE_MAX];
    unsigned num_ifaces;
    struct hc_iface *polled[HC_IFACE_MAX]; /* those of them that are not quiet */
    unsigned num_polled;
    struct hc_resource_list *resources; /* of the last query, for information; NULL until needed */

    struct hc_peer **peers; /* by world rank; NULL until first contact */
    struct hc_list pending, fetching, failing;
    struct hc_list lent;     /* requests whose buffer is lent, the oldest first */
    struct hc_list barriers; /* communicators with an active barrier: hcomm_comm.barriers is not empty */
    unsigned num_barriers;   /* active ones */
    bool has_work;           /* slow part of progress has something to do */
    unsigned idle_polls;
    uint32_t rounds;     /* of progress */
    uint64_t next_check; /* clock, of the next look at liveness */

    struct hc_match match;
    struct hc_awaited *awaited; /* NULL: none */
    struct hc_list taken;       /* messages that mprobe took and mrecv has not received: match.all */
    struct hc_pool request_pool, message_pool, op_pool;
    struct hcomm_request done_send; /* what isend returns when the message left at once */
    struct hcomm_request done_recv; /* what irecv from HCOMM_RANK_NULL returns */
    struct hcomm_request **ids;     /* rendezvous requests by slot; generation check in the id */
    uint32_t *id_generation;
    size_t num_ids;
    uint32_t free_id; /* head of the free list, 0 = none */
    uint32_t *id_next;
    size_t unexpected_bytes;
    uint64_t eager_window; /* what each peer may send ahead of receives */

    struct hc_list comms;
    struct hcomm_comm *world, *self;
    uint32_t next_comm;                            /* counter part of the next id led by this rank */
    struct hc_list comm_table[HC_COMM_BUCKETS];    /* communicators by id */
    struct hc_slot_use slot_use[HC_BARRIER_SLOTS]; /* of our own sync area */
    struct hc_list early_barriers;                 /* for communicators not made here yet */
    unsigned num_early_barriers;

    /* waiting */
    int epoll_fd, wake_fd;
    unsigned sleepers;   /* threads asleep in epoll */
    bool wake_written;   /* wake_fd is readable: sleepers are being woken */
    bool armed;          /* a sleeper armed the transports since the last progress */
    atomic_uint waiters; /* threads inside a wait */
    bool oversubscribed;
    struct hc_placement placement;
    bool finalizing;
    bool opened_more; /* hc_context_open_more() was called */
    bool forked;      /* inherited by fork(): every operation fails, as everything is the parent's */

    /* bandwidth limit: bytes that may be sent now */
    int64_t tokens;
    uint64_t tokens_at;

    pthread_t progress_thread;
    bool progress_thread_running;
    atomic_bool progress_thread_stop;
    atomic_uint progress_kick; /* futex word */
    atomic_bool progress_parked;

    int nic_distance;               /* of the device; as in the blob */
    struct hc_device *device;       /* device.c; NULL: host only */
    struct hc_ranges blocks;        /* mem_types.c: HOST memory; data: unused */
    struct hc_host_pool *memory;    /* mem.c; NULL until first use */
    struct hc_transfers *transfers; /* transfer.h; NULL until first use */
    struct hc_list buffer_pools;    /* buffer_pool.c */
    hcomm_topology_t *topology;     /* topology.c; NULL until first use */
    struct hc_topo *topo;           /* loaded at first need */
    struct hc_list infos;           /* info.c: strings handed out */
    struct hc_streams *streams;     /* stream.c; NULL until first use */
};

/* ---- context.c ---- */

/* Free everything, in whatever state; nobody else uses the context, lock not held. */
void hc_context_destroy(struct hcomm_context *context);
/* host_of[] of the context, filled at first need; NULL with an error detail when the boot layer fails. */
const uint32_t *hc_context_hosts(struct hcomm_context *context);
/* Write this rank's blob (HC_BLOB_MAX bytes of room). */
hcomm_status_t hc_context_describe(struct hcomm_context *context, void *bytes, size_t *size) HC_MUST_CHECK;

/*
 * Shared memory turned out not to reach a rank of this host: open what else there is, at the first call, and
 * publish the new description under hc_context_more_key() (HC_CONTEXT_KEY_MAX bytes), in any case, so that
 * who asks for it gets an answer.
 */
hcomm_status_t hc_context_open_more(struct hcomm_context *context) HC_MUST_CHECK;
const char *hc_context_more_key(const struct hcomm_context *context, char *key);

/* ---- peer.c ---- */

/* The peer of a world rank (< size), created at first need; NULL when memory is exhausted. */
struct hc_peer *hc_peer_create(struct hcomm_context *context, uint32_t rank);
static inline struct hc_peer *hc_peer_get(struct hcomm_context *context, uint32_t rank)
{
    struct hc_peer *peer = context->peers[rank];
    return hc_likely(peer != NULL) ? peer : hc_peer_create(context, rank);
}
/* Start reaching the peer if nobody has; never blocks. */
void hc_peer_connect(struct hc_peer *peer);
/* Advance fetches and retries; returns how many peers changed state. */
unsigned hc_peer_progress(struct hcomm_context *context);
/* The peer is gone or cannot be reached: its operations will be failed by the next progress. detail is
 * copied. */
void hc_peer_fail(struct hc_peer *peer, hcomm_status_t status, const char *detail);
/* Put the peer on the list that progress serves. */
void hc_peer_set_pending(struct hc_peer *peer);
/* Set the thread's error detail to the peer's and return its failure. */
hcomm_status_t hc_peer_error(const struct hc_peer *peer);
/* The peer sent a message that no rank in order sends, whatever happened before: its operations end with
 * HCOMM_ERR_PROTOCOL. */
void hc_peer_malformed(struct hc_peer *peer, const char *message, const char *why) HC_COLD;
/* A message of the peer does not suit what it names, which may have ended meanwhile: it is dropped, say so.
 */
void hc_peer_unsuited(const struct hc_peer *peer, const char *message) HC_COLD;
/* "rank 3 (host node1)" in a static buffer of the thread. */
const char *hc_peer_name(const struct hc_peer *peer);
/* Complete, with an error, whatever is left to do with the peer, and release what it holds; the ep stays. */
void hc_peer_end_operations(struct hc_peer *peer);
void hc_peer_free(struct hc_peer *peer);
/* In a forked child: the context is the parent's; let every peer be failed and nothing shared be touched. */
void hc_peer_disown_all(struct hcomm_context *context);

/* ---- send.c, recv.c, rndv.c ---- */

/*
 * Start a send; the arguments are checked already. On HCOMM_OK *request is a request of the context, which
 * may be &context->done_send. Callers for whom speed counts try hc_send_now() first. comm_id is comm->id, or
 * with HC_COMM_INTERNAL for the runtime's own messages.
 */
hcomm_status_t hc_send_start(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                             int dest, int tag, bool sync, struct hcomm_request **request) HC_MUST_CHECK;
/* Receive and wait; what hc_recv_start() and hc_request_finish() do together, cheaper when the message is
 * near. */
hcomm_status_t hc_recv_blocking(struct hcomm_comm *comm, void *buf, size_t capacity, int source, int tag,
                                hcomm_message_status_t *message_status) HC_MUST_CHECK;
hcomm_status_t hc_recv_start(struct hcomm_comm *comm, uint64_t comm_id, void *buf, size_t capacity,
                             int source, int tag, struct hcomm_request **request) HC_MUST_CHECK;
/* Send a control message (at most 64 bytes, copied), now or when there is room; never fails but for memory.
 */
void hc_control_send(struct hc_peer *peer, uint8_t id, const void *header, size_t size);
/* Release a message already taken out of matching, unreceived: the sender gets its credit or a refusal. */
void hc_message_discard(struct hcomm_context *context, struct hcomm_message *message);
/* The transport's upcall: checks and dispatches an arrived message. */
void hc_core_am(void *arg, uint32_t from, uint8_t id, const void *data, size_t len);

/* ---- wait.c, progress.c; requests: request.h ---- */

/* Poll everything once; returns how much moved. */
unsigned hc_progress(struct hcomm_context *context);

/*
 * Progress until done(arg) is true: spin, yield, then sleep. Releases and retakes the lock. `activity` points
 * to a clock value that, when it moves, postpones the deadline (NULL: none). HCOMM_ERR_TIMEOUT when
 * timeout_ms pass.
 */
hcomm_status_t hc_wait(struct hcomm_context *context, bool (*done)(void *arg), void *arg,
                       const uint64_t *activity, int timeout_ms) HC_MUST_CHECK;
/* Wait for one request and free it; on time-out it is given up (receive cancelled, send abandoned). Lock
 * held. */
hcomm_status_t hc_request_finish(struct hcomm_request *request, hcomm_message_status_t *status) HC_MUST_CHECK;
/* Wake threads asleep in hc_wait, after something they may wait for has changed. */
void hc_wake_sleepers(struct hcomm_context *context);

hcomm_status_t hc_progress_thread_start(struct hcomm_context *context) HC_MUST_CHECK;
void hc_progress_thread_stop(struct hcomm_context *context); /* lock not held */
/* Tell the progress thread that there is work; cheap without one. */
void hc_progress_thread_kick(struct hcomm_context *context);
/* Have it look after arrivals again after it stood back for a waiter; cheap without one. */
void hc_progress_thread_unpark(struct hcomm_context *context);

/* ---- comm.c, barrier.c, mem.c, topology.c, info.c ---- */

static inline uint32_t hc_comm_world_rank(const struct hcomm_comm *comm, int rank)
{
    return comm->world ? comm->world[rank] : (uint32_t)rank;
}

static inline struct hc_peer *hc_comm_peer(const struct hcomm_comm *comm, int rank)
{
    return hc_peer_get(comm->context, hc_comm_world_rank(comm, rank));
}

/* Whether any peer of the context has failed; costs a load. */
static inline bool hc_context_has_lost(const struct hcomm_context *context)
{
    /* relaxed: changed and read with the lock */
    return atomic_load_explicit(&context->counters.value[HC_COUNTER_PEERS_LOST], memory_order_relaxed) > 0;
}

/* Make world (id 0) and self; also initialises the context's lists of communicators and barriers. */
hcomm_status_t hc_comm_create_builtin(struct hcomm_context *context) HC_MUST_CHECK;
/* Free a communicator and what is left of its messages, whatever its state. */
void hc_comm_destroy(struct hcomm_comm *comm);
struct hcomm_comm *hc_comm_find(struct hcomm_context *context, uint64_t id);

/* An arrived HC_WIRE_BARRIER, checked for size only. */
void hc_barrier_arrive(struct hcomm_context *context, uint32_t from, const struct hc_wire_barrier *message);
/* Advance active barriers; returns how many completed or moved on. Called by hc_progress when num_barriers >
 * 0. */
unsigned hc_barrier_progress(struct hcomm_context *context);
/* A peer failed: fail the barriers of every communicator it is in. */
void hc_barrier_fail_peer(struct hcomm_context *context, struct hc_peer *peer);
/*
 * Called by whoever is about to sleep, after the transports are armed: announces the sleep to those on this
 * host who may end it. False: a barrier can move on, do not sleep.
 */
bool hc_barrier_may_sleep(struct hcomm_context *context);
/* Set the thread's error detail to who has not arrived at a barrier; returns HCOMM_ERR_TIMEOUT. */
hcomm_status_t hc_barrier_explain_timeout(const struct hcomm_request *request);
/* Start a barrier among more than one member; *request is the caller's. */
hcomm_status_t hc_barrier_start(struct hcomm_comm *comm, struct hcomm_request **request) HC_MUST_CHECK;
/* Forget what came early; communicators are destroyed already. */
void hc_barrier_fini(struct hcomm_context *context);

void hc_memory_fini(struct hcomm_context *context);
/* Forget the pools that the application left; their memory is freed with all other. */
void hc_buffer_pools_fini(struct hcomm_context *context);
/* Free what hcomm_mem_alloc() gave of plain host memory; the rest goes with the device and the pool. */
void hc_blocks_fini(struct hcomm_context *context);
void hc_topology_fini(struct hcomm_context *context);
void hc_info_fini(struct hcomm_context *context);

#endif
