/*
 * The shm transport: structures shared by its files. docs/architecture.md and segment.h describe the memory;
 * ring.h the rings.
 *
 * Paths of a message: am_short writes it into the ring inside the receiver's segment, if it is not too long.
 * am_bcopy packs it into a chunk of the sender's own segment and passes a reference; the receiver hands the
 * mapped chunk to the upcall, so nothing is copied by the transport itself. Short packed messages move from
 * the chunk into the ring.
 *
 * Long messages of am_short go through a chunk, too. A receiver that has nothing else to do is told of parts
 * of it (am_part) while the next ones are written, so that both copy at the same time. The room for all
 * records of the message is there before the first is published: only the sender's end can cut it off.
 *
 * Sleeping: a process that goes to sleep sets doorbell.sleeping and then looks at its rings once more; a
 * sender publishes and then looks at doorbell.sleeping. Both need a store-load barrier. The sleeper issues it
 * for everybody (membarrier(2), MEMBARRIER_CMD_GLOBAL_EXPEDITED) where the kernel allows, so that senders pay
 * nothing; else senders execute a fence.
 */
#ifndef HC_SHM_H
#define HC_SHM_H

#include "runtime/base/list.h"
#include "runtime/base/pool.h"
#include "transports/shm/distance.h"
#include "transports/shm/segment.h"
#include "transports/shm/tuner.h"
#include "transports/transport.h"

enum {
    HC_SHM_BCOPY_INLINE_LINES = 4, /* packed messages up to that many lines travel in the ring */
    HC_SHM_BCOPY_INLINE = HC_SHM_BCOPY_INLINE_LINES * HC_SHM_LINE - HC_SHM_HEADER,
    HC_SHM_MEDIUM_STREAM = 1024, /* bytes of payload from which a message may leave the ring, in a stream */
    HC_SHM_MEDIUM_CALM = 2048,   /* the same in an exchange of single messages */
    HC_SHM_MEDIUM_SHARE = 4,     /* so much less of it counts towards the rotation: it gains less */
    HC_SHM_MESSAGE_MAX = 65536 + 256, /* payload and the caller's header */
    HC_SHM_PART = 8192,               /* bytes that are written before the receiver is told of them */
    HC_SHM_EP_CHUNKS = 16, /* chunks in flight to one peer: enough to overlap, few enough to stay in cache */
    HC_SHM_HOT_MIN = 16,   /* chunks in rotation: bounds of what hc_shm_hot_chunks() finds */
    HC_SHM_HOT_MAX = 64,
    HC_SHM_GROW_BYTES = 1 << 20, /* to send before a chunk that nothing waits for joins the rotation */
    HC_SHM_FETCH_LINES = 16,     /* of a record that the receiver's processor fetches at a time */
    HC_SHM_BATCH = 32,           /* records taken from one ring per poll: bounds how long others wait */
};

/* What a process is, for the purpose of reaching it. */
struct hc_shm_identity {
    uint64_t host, pid_ns;
    uint32_t user_ns, uid;
    pid_t pid;
    uint64_t start;
};

/*
 * The sender's bulk pool: which chunks are free. Chunks in flight are linked per ep, oldest first. Returned
 * ones are used again oldest first, and enough of them are in rotation that what comes round again has left
 * the inner caches of both cores: writing what the receiver's core still holds costs far more than fetching
 * it from the cache that they share. (64 KiB messages between near cores with 1 MiB of inner cache each: 14
 * GB/s with 16 chunks, 27 with 24, 38 with 32, 41 with 48.) For the same reason short messages take one part
 * of a chunk after the other. Pages that nobody had before cost some 2 us each, so chunks join the rotation
 * one by one, as more is sent, and no more than needed are ever touched.
 */
struct hc_shm_pool {
    struct hc_shm_flag *flags;
    unsigned char *chunks;
    uint32_t *free; /* queue of the chunks that came back; `count` entries */
    uint32_t *next;
    uint32_t *used;          /* where in the chunk its last message ended */
    uint32_t hot;            /* chunks that are to be in rotation */
    uint32_t count, touched; /* chunks, and how many of them were touched so far: the first ones */
    uint32_t free_head, free_count;
    size_t sent; /* bytes, since the last one was touched for the rotation's sake */
};

enum { HC_SHM_NO_CHUNK = UINT32_MAX };

struct hc_shm_inflight {
    uint32_t head, tail, count;
    uint64_t sent; /* ever */
};

/* A peer's segment mapped here; shared by the ep that sends to the peer and the source that hears from it. */
struct hc_shm_peer {
    struct hc_shm_segment segment;
    struct hc_shm_addr addr;
    struct hc_shm_doorbell *doorbell;
    bool fence;   /* a fence is needed between publishing and looking at the doorbell */
    int event_fd; /* the peer's wake-up pipe, -1 until first needed */
    unsigned refs;
    struct hc_list mappings; /* struct hc_shm_mapping, the one used last at the end */
    unsigned mapping_count;
    struct hc_list link; /* in the iface's peers */
};

/* An arena of a peer, mapped here. */
struct hc_shm_mapping {
    struct hc_list link; /* in the peer's mappings */
    struct hc_arena_map map;
    uint64_t inode, id;
    unsigned refs; /* remote keys that lead into it */
    bool orphan;   /* the peer structure is gone: unmap with the last key */
};

/* A message in a chunk of which a part has come. */
struct hc_shm_arrival {
    const unsigned char *data; /* NULL: it belongs to an earlier life of the sender, and is dropped */
    uint32_t index;            /* of the chunk */
    uint32_t ready, total;     /* bytes; total is 0 while nothing is arriving */
    bool taken;                /* in parts, by the runtime */
    uint8_t id;
};

/* One sender, as the receiver sees it. */
struct hc_shm_source {
    struct hc_shm_consumer in;
    uint32_t from;  /* world rank */
    uint32_t epoch; /* the claim being served; 0: none */
    /*
     * Records to take at most in the next poll. A single message is followed by its answer, which must not
     * wait for a look at the next line (a transfer from the sender's cache); a stream is taken in batches.
     */
    unsigned burst;
    bool broken; /* sent something malformed: not polled any more */
    struct hc_shm_arrival arrival;
    struct hc_shm_addr addr;
    struct hc_shm_peer *peer; /* NULL until first needed */
};

struct hc_shm_iface {
    struct hc_iface base;
    void (*am)(void *arg, uint32_t from, uint8_t id, const void *data, size_t len);
    bool (*am_part)(void *arg, uint32_t from, uint8_t id, const void *data, size_t ready, size_t len);
    void *arg;
    /* The polling path: this iface's doorbell, and which sources are claimed. */
    struct hc_shm_doorbell *doorbell;
    struct hc_shm_source **active;
    uint32_t active_count;
    uint32_t connects_seen;
    bool armed;
    bool starved;           /* an operation found no room since the last arm() */
    bool barrier;           /* membarrier works here */
    struct hc_list flushes; /* struct hc_shm_flush, waiting for chunks */
    struct hc_shm_pool pool;
    uint32_t ep_chunks; /* in flight to one peer at most: one that does not receive must not keep all */

    struct hc_shm_segment segment;
    struct hc_share_pool shares;
    struct hc_shm_addr addr;
    struct hc_shm_source *sources; /* by local rank */
    struct hc_list eps;            /* struct hc_shm_ep, the retired ones too */
    struct hc_list peers;          /* struct hc_shm_peer */
    struct hc_pool flush_pool;
    int fd;
    int event_fd, wake_fd; /* the two ends of the wake-up pipe */
    uint64_t probe;        /* the cookie again, in private memory */
    void (*ep_failed)(void *arg, struct hc_ep *ep, hcomm_status_t status);
    uint32_t world_rank, world_size;
};

enum { HC_SHM_BLOCKED_CHUNK = 1 << 16 };

struct hc_shm_ep {
    struct hc_ep base;
    struct hc_shm_producer out;
    struct hc_shm_peer *peer;
    struct hc_shm_ring *ring;
    uint32_t epoch;   /* of our claim on the ring */
    bool granted;     /* the ring may be used */
    bool cross;       /* cross-memory access works */
    bool retired;     /* destroyed, but chunks are still out */
    uint32_t blocked; /* what the last refused operation needed: lines, and HC_SHM_BLOCKED_CHUNK; 0: none */
    struct hc_shm_inflight inflight;
    struct hc_shm_tuner tuner;       /* of chunks */
    struct hc_shm_tuner short_tuner; /* of long messages in the ring */
    struct hc_shm_tuner put_tuner;   /* of what is put into mapped memory */
    struct hc_shm_distance distance;
    struct hc_list link; /* in the iface's eps */
};

/* A flush waiting for the chunks that were in flight when it was called. */
struct hc_shm_flush {
    struct hc_list link;
    struct hc_shm_ep *ep;
    struct hc_op *op;
    uint64_t target; /* complete when that many of the ep's chunks have come back */
};

struct hc_shm_mem {
    struct hc_mem base;
    uint64_t addr, len;
    uint32_t flags;         /* HC_SHM_RKEY_ */
    struct hc_arena *arena; /* that holds it, or NULL */
};

enum { HC_SHM_RKEY_READ = 1, HC_SHM_RKEY_WRITE = 2, HC_SHM_RKEY_ARENA = 4 };

/* Wire form of an rkey. Without HC_SHM_RKEY_ARENA it ends before `arena`. */
struct hc_shm_rkey_wire {
    uint32_t magic;
    int32_t pid;
    uint64_t cookie; /* of the owner's segment */
    uint64_t addr, len;
    uint32_t flags, reserved;
    struct {
        uint64_t inode, id;
        uint64_t base; /* its address in the owner */
        uint64_t size;
        int32_t fd; /* in the owner */
        uint32_t reserved;
    } arena;
};
_Static_assert(offsetof(struct hc_shm_rkey_wire, arena) == 40, "wire format");
_Static_assert(sizeof(struct hc_shm_rkey_wire) == 80, "wire format");

struct hc_shm_rkey {
    struct hc_rkey base;
    uint64_t addr, len;
    uint32_t flags;
    struct hc_shm_mapping *mapping; /* NULL: reached by cross-memory attach */
    unsigned char *mapped;          /* where addr is mapped */
};

/* identity.c */

/* Find out who this process is. Errors: HCOMM_ERR_IO when /proc is not there. */
hcomm_status_t hc_shm_identity_get(struct hc_shm_identity *identity) HC_MUST_CHECK;
/* A 64-bit hash of a string (FNV-1a by Fowler, Noll, Vo). */
uint64_t hc_shm_hash(const char *text);
/* Check an address blob without trusting it; NULL, or in words why it cannot be reached from `self`. */
const char *hc_shm_addr_check(const struct hc_shm_addr *self, const void *blob, size_t len,
                              struct hc_shm_addr *addr);

/* peer.c */

/* Map the segment of an address, or share the mapping that exists. Pair with hc_shm_peer_put(). */
hcomm_status_t hc_shm_peer_get(struct hc_shm_iface *iface, const struct hc_shm_addr *addr,
                               struct hc_shm_peer **peer) HC_MUST_CHECK;
void hc_shm_peer_put(struct hc_shm_peer *peer); /* NULL is accepted */
/* Wake the peer if it still sleeps. */
void hc_shm_peer_wake(struct hc_shm_peer *peer) HC_COLD;

/*
 * After something the peer waits for was published: wake it when it sleeps for any of the HC_SHM_SLEEP_ bits.
 */
static inline void hc_shm_peer_notify(struct hc_shm_peer *peer, uint32_t bits)
{
    /* Orders publishing before the load below. Partner: the barrier in hc_shm_arm, which is process-wide when
     * no fence is needed here, so that the compiler is all that must be held back. */
    if (hc_unlikely(peer->fence))
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
    if (hc_unlikely(atomic_load_explicit(&peer->doorbell->sleeping, memory_order_relaxed) & bits))
        hc_shm_peer_wake(peer);
}

/* mapping.c */

/*
 * The mapping of the arena that a key names, made if need be; the key's fields for the arena are checked
 * here. Pair with hc_shm_mapping_put(). HCOMM_ERR_UNSUPPORTED when too many are in use.
 */
hcomm_status_t hc_shm_mapping_get(struct hc_shm_peer *peer, const struct hc_shm_rkey_wire *wire,
                                  struct hc_shm_mapping **mapping) HC_MUST_CHECK;
void hc_shm_mapping_put(struct hc_shm_mapping *mapping); /* NULL is accepted */
/* Unmap what its owner has destroyed and nobody uses. */
void hc_shm_mappings_sweep(struct hc_shm_peer *peer);
void hc_shm_mappings_fini(struct hc_shm_peer *peer);

/* chunk.c */

/* How many chunks to keep in rotation on this machine. */
uint32_t hc_shm_hot_chunks(void);
hcomm_status_t hc_shm_pool_init(struct hc_shm_pool *pool, const struct hc_shm_segment *segment,
                                uint32_t hot) HC_MUST_CHECK;
void hc_shm_pool_fini(struct hc_shm_pool *pool);
/* Take chunks that receivers have given back off the list. */
void hc_shm_pool_reclaim(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight);
/* Give up on all chunks in flight to a receiver that is dead. */
void hc_shm_pool_abandon(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight);
/* Touch one more chunk, and let it join the rotation. */
void hc_shm_pool_grow(struct hc_shm_pool *pool) HC_COLD;
/* A free chunk, or HC_SHM_NO_CHUNK. Nothing is promised until hc_shm_pool_send. */
uint32_t hc_shm_pool_peek(const struct hc_shm_pool *pool);
/*
 * Where in a chunk to put a payload that is copied from `data`, with `head` bytes (a multiple of 8) before it
 * and `len` bytes in all. The place within a line is that of the source, and within a page it is away from
 * it: a load that agrees with a recent store in the low 12 bits of the address waits for it, which takes a
 * third of a copy's speed.
 */
size_t hc_shm_pool_place(const struct hc_shm_pool *pool, uint32_t index, const void *data, size_t head,
                         size_t len);
/* Mark the chunk from hc_shm_pool_peek, used up to `end`, as in flight; done before the reference is
 * published. */
void hc_shm_pool_send(struct hc_shm_pool *pool, struct hc_shm_inflight *inflight, size_t end);

/* Take note of what is sent, in chunks or instead of in chunks. */
static inline void hc_shm_pool_count(struct hc_shm_pool *pool, size_t len)
{
    pool->sent += len;
    if (hc_unlikely(pool->touched < pool->hot && pool->sent >= HC_SHM_GROW_BYTES))
        hc_shm_pool_grow(pool);
}

/* Whether what comes round again has left the inner caches. */
static inline bool hc_shm_pool_is_warm(const struct hc_shm_pool *pool)
{
    return pool->touched >= pool->hot;
}

static inline void *hc_shm_pool_chunk(const struct hc_shm_pool *pool, uint32_t index)
{
    return pool->chunks + (size_t)index * HC_SHM_CHUNK_BYTES;
}

/* iface.c */

/* Awake after a sleep: peers need not write to the wake-up pipe, and what they wrote is taken out. */
void hc_shm_disarm(struct hc_shm_iface *iface) HC_COLD;

/* source.c: the receiving side. */

/* The transport's progress: poll all sources, complete flushes. */
unsigned hc_shm_progress(struct hc_iface *iface);
void hc_shm_sources_fini(struct hc_shm_iface *iface);

/* ep.c */
hcomm_status_t hc_shm_ep_create(struct hc_iface *iface, uint32_t peer, const void *addr, size_t len,
                                struct hc_ep **ep) HC_MUST_CHECK;
void hc_shm_ep_destroy(struct hc_ep *ep);
void hc_shm_ep_free(struct hc_shm_ep *ep);
hcomm_status_t hc_shm_flush(struct hc_ep *ep, struct hc_op *op) HC_MUST_CHECK;
/* Reclaim chunks of all eps, and free retired eps whose chunks are back or whose peer is dead. */
void hc_shm_reclaim_all(struct hc_shm_iface *iface);
/* Whether a flush could complete now. */
bool hc_shm_flush_ready(struct hc_shm_iface *iface);
/* Complete flushes whose chunks are back; returns how many. */
unsigned hc_shm_flush_progress(struct hc_shm_iface *iface);
/* Whether our claim on the peer's ring was granted; looks at the peer's word. */
bool hc_shm_ep_check_grant(struct hc_shm_ep *ep) HC_COLD;
/* Remember what a refused operation needed, so that arm() can tell when it may go on; returns HCOMM_AGAIN. */
hcomm_status_t hc_shm_ep_block(struct hc_shm_ep *ep, uint32_t need) HC_COLD;
/* Whether an operation refused earlier could go on now. */
bool hc_shm_ep_unblocked(struct hc_shm_ep *ep);
void *hc_shm_ep_sync_area(struct hc_ep *ep);
struct hc_share *hc_shm_ep_share(struct hc_ep *ep, uint32_t index);
void hc_shm_ep_wake(struct hc_ep *ep);

/* am.c */
hcomm_status_t hc_shm_am_short(struct hc_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len) HC_MUST_CHECK;
hcomm_status_t hc_shm_am_bcopy(struct hc_ep *ep, uint8_t id, hc_pack_fn pack, void *arg) HC_MUST_CHECK;

/* rma.c: mapped memory, and cross-memory attach. */

/* Whether this process may expect to reach others' memory; else in words why not. */
hcomm_status_t hc_shm_check_dumpable(void);
bool hc_shm_cross_available(char *why, size_t size);
/* Whether the peer's memory can be reached: reads the word that its segment points to. */
bool hc_shm_cross_probe(const struct hc_shm_peer *peer);
hcomm_status_t hc_shm_put(struct hc_ep *ep, const void *local, size_t len, struct hc_mem *mem,
                          uint64_t remote, struct hc_rkey *rkey, struct hc_op *op) HC_MUST_CHECK;
hcomm_status_t hc_shm_get(struct hc_ep *ep, void *local, size_t len, struct hc_mem *mem, uint64_t remote,
                          struct hc_rkey *rkey, struct hc_op *op) HC_MUST_CHECK;
hcomm_status_t hc_shm_mem_reg(struct hc_iface *iface, void *addr, size_t len, const struct hc_mem_attr *attr,
                              struct hc_mem **mem) HC_MUST_CHECK;
void hc_shm_mem_dereg(struct hc_mem *mem);
hcomm_status_t hc_shm_rkey_pack(const struct hc_mem *mem, void *buf, size_t *len) HC_MUST_CHECK;
hcomm_status_t hc_shm_rkey_unpack(struct hc_ep *ep, const void *buf, size_t len,
                                  struct hc_rkey **rkey) HC_MUST_CHECK;
void hc_shm_rkey_release(struct hc_rkey *rkey);
bool hc_shm_rkey_is_mapped(const struct hc_rkey *rkey);

#endif
