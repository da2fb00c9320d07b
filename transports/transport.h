/*
 * Transport interface: what the runtime asks of every way of moving bytes.
 *
 * Objects: a transport opens an iface on a resource; an iface reaches one peer through an ep; memory is
 * registered with an iface and named remotely by an rkey. Each implementation embeds the base struct as its
 * first member.
 *
 * Threads: all calls on ifaces of one context are serialised by the caller (the context's lock). Upcalls (am,
 * done, ep_failed) are made only from inside progress() — or, for done, never from inside the call that took
 * the op. Upcalls may call the transport again (send, ep_create, …) except progress() and close().
 *
 * Completion: a call taking `op` returns HCOMM_OK when done already (op unused), HCOMM_IN_PROGRESS when
 * op->done will be called exactly once, HCOMM_AGAIN when nothing was started for want of resources (progress,
 * then try again), or an error when nothing was started.
 *
 * Order: active messages on one ep are delivered in the order in which they were accepted, short, bcopy and
 * zcopy mixed. put/get are not ordered with them; a completed put is visible to the peer before any message
 * sent after it.
 *
 * Differences from a classic "keep the descriptor" interface: a handler never keeps transport memory. The
 * runtime owns the memory of unexpected messages, so that it is bounded and counted in one place and no ring
 * slot stays pinned.
 */
#ifndef HC_TRANSPORT_H
#define HC_TRANSPORT_H

#include "runtime/base/arena.h"
#include "runtime/base/counter.h"
#include "runtime/base/settings.h"
#include "runtime/base/share.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hc_cap {
    HC_CAP_RMA = 1u << 0,        /* put, get, mem_*, rkey_* */
    HC_CAP_EVENT = 1u << 1,      /* event_fd, arm */
    HC_CAP_DEVICE_MEM = 1u << 2, /* device buffers accepted without staging */
    HC_CAP_SYNC = 1u << 3,  /* sync_area, ep_sync_area, ep_wake: loads and stores reach the peer's words */
    HC_CAP_ZCOPY = 1u << 4, /* am_zcopy */
    HC_CAP_MAP = 1u << 5,   /* memory of arenas is mapped into peers: RMA works for it, and rkey_is_mapped */
    HC_CAP_SHARE = 1u << 6, /* put and get complete at once, so both sides may copy: shares, ep_share */
};

struct hc_transport;
struct hc_iface;
struct hc_ep;

/* By which setting a resource is excluded. */
enum hc_exclusion {
    HC_NOT_EXCLUDED,
    HC_EXCLUDED_BY_PROTOCOL,
    HC_EXCLUDED_BY_TRANSPORTS,
    HC_EXCLUSIONS,
};

/* One NIC port, segment or device. Strings are the record's own; `reason` tells why unusable, else what it
 * is. */
struct hc_resource {
    const struct hc_transport *transport;
    char name[48];   /* as in HCOMM_TRANSPORTS: "self", "shm", "ofi:tcp" */
    char device[64]; /* interface, domain or segment; "" when there is just one */
    char reason[192];
    bool usable;
    enum hc_exclusion excluded; /* whatever else is wrong with it */
    double latency, bandwidth; /* s, B/s: estimates, for ranking */
    /* Of a usable one: in clauses, from which sizes on messages go which way, and how that is chosen. NULL:
     * nobody asks. */
    char *thresholds;
};

enum { HC_RESOURCE_MAX = 64, HC_THRESHOLDS_MAX = 1024 };

struct hc_resource_list {
    struct hc_resource entries[HC_RESOURCE_MAX];
    size_t count;
    const struct hc_settings *settings;
    uint32_t local_size;              /* as open() will be given it; 0 counts as 1 */
    char (*texts)[HC_THRESHOLDS_MAX]; /* the caller's, for the entries' thresholds; NULL: not asked for */
};

/*
 * What the runtime gives an iface at open(). Pointers stay valid until close().
 *
 * am: a message arrived from world rank `from`. data (header and payload together) is valid during the upcall
 * only, aligned to 8 bytes.
 *
 * am_part (may be NULL): a long message is arriving: `ready` of its `len` bytes are at data, the others will
 * be behind them. True: what is ready has been used, and the rest will be taken in the same way: the call
 * comes again for the same message whenever more of it is there, at last with ready equal to len, and am does
 * not. False: not now; the question comes again with more of the message, and all of it goes to am. Messages
 * with am behind it on the same ep are delivered after it. When the sender dies in the middle, no more comes
 * of it, and ep_failed tells if there is an ep to it and the transport notices. When another life of the
 * sender begins before that, the call comes once more, with data NULL: the rest will never come.
 *
 * ep_failed: the ep is broken for good; operations pending on it have been, or will
 * be, completed with errors; called once per ep, and never for an ep_destroy.
 */
struct hc_iface_params {
    void (*am)(void *arg, uint32_t from, uint8_t id, const void *data, size_t len);
    bool (*am_part)(void *arg, uint32_t from, uint8_t id, const void *data, size_t ready, size_t len);
    void (*ep_failed)(void *arg, struct hc_ep *ep, hcomm_status_t status);
    void *arg;
    const struct hc_settings *settings;
    struct hc_counters *counters;
    uint32_t world_rank, world_size;
    uint32_t local_rank, local_size; /* among the job's ranks on this host */
    const char *job_id;              /* unique per job and context: name space plus context number */
};

enum hc_memory_type { HC_MEMORY_HOST, HC_MEMORY_DEVICE };

/* What is being registered. */
struct hc_mem_attr {
    enum hc_memory_type type;
    int device; /* ordinal, -1 for host memory */
    bool remote_read, remote_write;
};

struct hc_iface_attr {
    unsigned caps;
    size_t addr_max, rkey_max; /* bytes of address() and rkey_pack() */
    size_t short_max;          /* header and payload of am_short */
    size_t bcopy_max;          /* what a pack function may write; at least 4 KiB */
    size_t zcopy_max;          /* header and payload of am_zcopy; 0 without HC_CAP_ZCOPY */
    size_t eager_max;          /* payload up to which eager is the better protocol; <= bcopy_max - 64 */
    size_t zcopy_min;          /* payload from which an eager message is better sent by am_zcopy; 0: none */
    size_t rma_max; /* bytes of one put/get; larger transfers are cut by the caller; 0 without RMA and MAP */
    size_t get_min; /* payload from which rendezvous by get beats pipelined messages; SIZE_MAX: never */
    size_t map_min; /* the same for memory of an arena; 0 without HC_CAP_MAP */
    /* HC_CAP_SHARE, payloads from which both sides copy; SIZE_MAX: never. Of memory that is mapped on both
     * sides, and of other memory. */
    size_t share_map_min, share_min;
    /* HC_CAP_SHARE: payload of other memory from which one copy, shared or the receiver's alone, competes with
     * pieces (runtime/core/chooser.h); at most share_min; SIZE_MAX: never. */
    size_t fetch_min;
    /* HC_CAP_SHARE: payload of eager messages from which their buffer may be lent to the receiver
     * (runtime/core/lend.h); at least fetch_min; SIZE_MAX: never. */
    size_t lend_min;
    double latency, bandwidth, overhead; /* s, B/s, s */
};

struct hc_iface {
    const struct hc_transport *transport;
    struct hc_iface_attr attr; /* constant once open() returns */
};

struct hc_ep {
    struct hc_iface *iface;
    uint32_t peer; /* world rank, as given to ep_create */
    void *user;    /* the runtime's; transports leave it alone */
    /* Messages follow each other without progress() between: what is sent by am_zcopy now, however short, may
     * be held back, to leave with others, at the latest with the next progress(). */
    bool holds;
};

struct hc_mem {
    struct hc_iface *iface;
};

struct hc_rkey {
    struct hc_iface *iface;
};

struct hc_op {
    void (*done)(struct hc_op *op, hcomm_status_t status);
};

/* Writes header and payload at dest (8-byte aligned, bcopy_max bytes of room) and returns how many bytes it
 * wrote. */
typedef size_t (*hc_pack_fn)(void *dest, void *arg);

struct hc_transport {
    const char *name;
    /* Append one record per resource of this machine, usable or not; none is not an error. */
    hcomm_status_t (*query)(struct hc_resource_list *list) HC_MUST_CHECK;
    /* Name i of those that its resources may have anywhere, NULL after the last. The pointer is NULL where only
     * the transport's own name is used. */
    const char *(*resource_name)(size_t i);
    /* Whether the settings that concern this transport alone name what is there, which query() asks itself. The
     * pointer is NULL when there are none. */
    hcomm_status_t (*check_settings)(const struct hc_settings *settings) HC_MUST_CHECK;
    /* Acquire all that the iface needs and fill its attr; *iface untouched on failure. */
    hcomm_status_t (*open)(const struct hc_resource *resource, const struct hc_iface_params *params,
                           struct hc_iface **iface) HC_MUST_CHECK;
    /* Release the iface; its eps and memory are gone already. NULL is accepted. */
    void (*close)(struct hc_iface *iface);
    /* Poll once without blocking; return how many messages and completions were handled. */
    unsigned (*progress)(struct hc_iface *iface);
    /* HC_CAP_EVENT: a descriptor that polls readable after arm() when there is work; owned by the iface. */
    int (*event_fd)(struct hc_iface *iface);
    /*
     * HC_CAP_EVENT: prepare to sleep. HCOMM_OK: event_fd will turn readable for the next event. HCOMM_AGAIN:
     * events are waiting, or what was refused with HCOMM_AGAIN may succeed now: progress, do not sleep. The
     * first progress() after arm() disarms. Room for an operation refused before arm() is an event, too.
     * Words in a sync area are the caller's to look at again between arm() and sleeping. Spurious wake-ups
     * are allowed.
     */
    hcomm_status_t (*arm)(struct hc_iface *iface) HC_MUST_CHECK;

    /* Write this iface's address for the modex; *len in: room, out: used. */
    hcomm_status_t (*address)(const struct hc_iface *iface, void *addr, size_t *len) HC_MUST_CHECK;
    /* Say whether the address can be reached; a pure test that sends nothing and trusts nothing in addr. */
    bool (*reachable)(const struct hc_iface *iface, const void *addr, size_t len);
    /* Start reaching world rank `peer`; never blocks, connection completes inside progress(). */
    hcomm_status_t (*ep_create)(struct hc_iface *iface, uint32_t peer, const void *addr, size_t len,
                                struct hc_ep **ep) HC_MUST_CHECK;
    /* Release the ep; the caller has flushed or given up, so no done() follows. NULL is accepted. */
    void (*ep_destroy)(struct hc_ep *ep);
    /* Complete once every earlier operation on ep has left for, and reached, the peer's queues, or failed. */
    hcomm_status_t (*flush)(struct hc_ep *ep, struct hc_op *op) HC_MUST_CHECK;

    /* Send hdr and data, together at most short_max; both reusable at return. hdr_len is a multiple of 8. */
    hcomm_status_t (*am_short)(struct hc_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len) HC_MUST_CHECK;
    /* Send what pack writes, at most bcopy_max; pack runs at most once, only when HCOMM_OK is returned. */
    hcomm_status_t (*am_bcopy)(struct hc_ep *ep, uint8_t id, hc_pack_fn pack, void *arg) HC_MUST_CHECK;
    /* HC_CAP_ZCOPY: send hdr (copied) and data from the caller's buffer (mem may be NULL), left alone until
     * done. */
    hcomm_status_t (*am_zcopy)(struct hc_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                               const void *data, size_t len, struct hc_mem *mem,
                               struct hc_op *op) HC_MUST_CHECK;

    /*
     * HC_CAP_RMA: write to / read from registered memory of the peer, at most rma_max bytes.
     * HCOMM_ERR_UNSUPPORTED (from rkey_unpack, too): not with this peer; the ep is fine, use messages
     * instead. With HC_CAP_MAP the same calls serve memory of an arena (runtime/base/arena.h), then by this
     * process' own loads and stores: put and get complete at once.
     */
    hcomm_status_t (*put)(struct hc_ep *ep, const void *local, size_t len, struct hc_mem *mem,
                          uint64_t remote, struct hc_rkey *rkey, struct hc_op *op) HC_MUST_CHECK;
    hcomm_status_t (*get)(struct hc_ep *ep, void *local, size_t len, struct hc_mem *mem, uint64_t remote,
                          struct hc_rkey *rkey, struct hc_op *op) HC_MUST_CHECK;
    /* HC_CAP_RMA: register memory; the caller keeps the memory alive. *mem is owned by the caller. */
    hcomm_status_t (*mem_reg)(struct hc_iface *iface, void *addr, size_t len, const struct hc_mem_attr *attr,
                              struct hc_mem **mem) HC_MUST_CHECK;
    void (*mem_dereg)(struct hc_mem *mem); /* NULL is accepted */
    /* HC_CAP_RMA: serialise, rebuild and release the right to access memory remotely. buf comes from a peer:
     * check it. */
    hcomm_status_t (*rkey_pack)(const struct hc_mem *mem, void *buf, size_t *len) HC_MUST_CHECK;
    hcomm_status_t (*rkey_unpack)(struct hc_ep *ep, const void *buf, size_t len,
                                  struct hc_rkey **rkey) HC_MUST_CHECK;
    void (*rkey_release)(struct hc_rkey *rkey); /* NULL is accepted */
    /* HC_CAP_MAP: whether an rkey leads to memory that is mapped here. */
    bool (*rkey_is_mapped)(const struct hc_rkey *rkey);

    /* HC_CAP_SHARE: the shares of this iface, whose words ep_share() of a peer's ep finds by index; NULL
     * when the index is out of range. */
    struct hc_share_pool *(*shares)(struct hc_iface *iface);
    struct hc_share *(*ep_share)(struct hc_ep *ep, uint32_t index);

    /*
     * HC_CAP_SYNC: HC_SYNC_AREA bytes, zero at start, cache-line aligned, of this iface and of the ep's peer,
     * that both may access with atomics for as long as iface and ep live.
     */
    void *(*sync_area)(struct hc_iface *iface);
    void *(*ep_sync_area)(struct hc_ep *ep);
    /* HC_CAP_SYNC: wake the peer when it sleeps on its event_fd (after a store to a sync area); cheap when
     * awake. */
    void (*ep_wake)(struct hc_ep *ep);

    /*
     * Library beneath and its version in words, e.g. "libfabric 1.17.0", a constant string, or NULL while it
     * is not loaded. The pointer is NULL when there is none.
     */
    const char *(*library)(void);
};

enum {
    HC_SYNC_AREA = 16384 + 64, /* slots of barriers, and a line that tells where the owner runs */
    HC_RKEY_MAX = 512,         /* longer keys are not offered to peers */
};

extern const struct hc_transport hc_transport_self, hc_transport_shm, hc_transport_ofi;

/* The transports built in, in order of preference at equal quality; NULL-terminated. */
extern const struct hc_transport *const hc_transports[];

/*
 * Query all transports into *list (settings, local_size and texts set by the caller) and apply `protocol` and
 * `transports`: what they exclude stays in the list, unusable, with the reason; self is never excluded. With
 * `transports` the list comes in the user's order, which is then the order of preference; else in that of the
 * table. HCOMM_ERR_CONFIG for a name that does not exist here; the detail lists those that do.
 */
hcomm_status_t hc_transport_query(struct hc_resource_list *list) HC_MUST_CHECK;

/*
 * The same for one transport of hc_transports[]: what init uses, because asking libfabric is slow and a job
 * on one host does not need it.
 */
hcomm_status_t hc_transport_query_one(const struct hc_transport *transport,
                                      struct hc_resource_list *list) HC_MUST_CHECK;

/*
 * Position of the first item of the setting `transports` that covers a resource or transport name ("ofi"
 * covers "ofi:tcp" and the other way round), SIZE_MAX when none does; 0 for everything when the setting is
 * empty.
 */
size_t hc_transport_preference(const struct hc_settings *settings, const char *name);

/* Where the thresholds of the list's next entry are to be told; NULL when nobody asks. */
char *hc_transport_text(const struct hc_resource_list *list);
/* Append a clause to the resource's thresholds, if they are asked for. */
void hc_transport_tell(struct hc_resource *resource, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A size in words, "8 KiB" or "8128 B". */
struct hc_size_text {
    char text[32];
};
struct hc_size_text hc_transport_size_text(size_t size);

/* Check that an open iface keeps what the interface promises: calls of its capabilities, consistent limits.
 */
hcomm_status_t hc_transport_check(const struct hc_iface *iface) HC_MUST_CHECK;

#endif
