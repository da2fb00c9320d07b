/*
 * The path to other hosts: messages over connected endpoints (FI_EP_MSG) of a second libfabric provider, the
 * inner one, through staging buffers.
 *
 * An endpoint listens with the inner provider at its own address, so that peers need no more than that. Each
 * sender opens a connection of its own: it carries the sender's messages one way (struct npu_net_head, then
 * payload) and the receiver's answers the other way.
 *
 * **Messages.** Up to NPU_NET_EAGER bytes travel with their head (NPU_NET_SEND). Longer ones are announced
 * (NPU_NET_RTS); when the receive is known, the receiver asks for what fits (NPU_NET_CTS), and the payload
 * comes in pieces of one staging slot (NPU_NET_DATA): while the inner provider sends some slots, the next are
 * filled. NPU_NET_ACK tells of delivery to senders that want to know.
 *
 * **RMA.** Requests (NPU_NET_RMA) travel in order among the messages, see net_rma.c.
 *
 * **Credits.** Each side posts a fixed number of slots and tells which it has posted again (`slots` of any
 * message, NPU_NET_CREDIT where nothing else is to be said; one credit is kept for that). Payload that no
 * receive was posted for is held for NPU_NET_WINDOW bytes per sender (`window` tells what was freed); beyond
 * that messages are announced only.
 *
 * **Device memory.** Between it and a staging slot copies of the device run (net_copy.c), so that one slot is
 * filled or emptied while the wire carries others. Slots are sent in order: one that is still being filled
 * holds up those behind it. A request to a target waits until the copies of the one before have ended.
 *
 * **Completion.** A send is complete when the inner provider has sent its last byte (FI_INJECT_COMPLETE);
 * with FI_TRANSMIT_COMPLETE when it has arrived, with FI_DELIVERY_COMPLETE when it is in the receive's
 * buffer.
 *
 * **Loss.** When a connection ends, operations that are under way on it fail with FI_ECONNRESET, or what the
 * inner provider tells (a peer that refuses, a host that is silent: net_guard.c), and the next send connects
 * anew.
 *
 * Everything here belongs to one endpoint and is used with its lock held; nothing waits. Integers are in the
 * host's order: a peer of the other order has another magic number.
 */
#ifndef NPU_NET_H
#define NPU_NET_H

#include "transports/npu/ep.h"

enum {
    NPU_NET_VERSION = 1,
    NPU_NET_SLOT = 64 * 1024,   /* bytes of a staging slot, head included */
    NPU_NET_SLOTS = 32,         /* of a connection, on each side, for messages */
    NPU_NET_ANSWER = 64 * 1024, /* bytes of a slot for answers */
    NPU_NET_ANSWERS = 32,
    NPU_NET_EAGER = 16 * 1024,
    NPU_NET_WINDOW = 1024 * 1024,
    NPU_NET_OVERHEAD = 256, /* what a kept message costs beside its payload */
    NPU_NET_READING = 8,    /* announced messages of one connection whose payload travels at a time */
    NPU_NET_COPIES = 8,     /* of devices, under way for an endpoint */
    NPU_NET_MAX_CONNS = 4096,
};
#define NPU_NET_MAGIC UINT32_C(0x6e70756e) /* "npun" */

/* ---- The protocol ---- */

enum npu_net_type {
    NPU_NET_SEND = 1, /* from the sender: a message and its payload */
    NPU_NET_RTS,      /* a message without */
    NPU_NET_DATA,     /* a piece of an announced one; len: its offset */
    NPU_NET_BROKEN,   /* the rest of it will not come: the sender cannot read it */
    NPU_NET_RMA,      /* a request (struct npu_rma_head); the bytes of a long write follow as NPU_NET_DATA */
    NPU_NET_CREDIT,   /* either side: nothing but slots and window */
    NPU_NET_CTS,      /* from the receiver: send len bytes of it */
    NPU_NET_ACK,      /* it has arrived; len: 0 or why not where it should, a fabric errno */
    NPU_NET_READ,     /* the next bytes of a read */
    NPU_NET_DONE,     /* the end of a request; len: 0 or a fabric errno; bytes: what an atomic found */
};

enum npu_net_flag {
    NPU_NET_TAGGED = 1,
    NPU_NET_CQ_DATA = 2,
    NPU_NET_ACK_ARRIVED = 4,
    NPU_NET_ACK_DELIVERED = 8,
};

struct npu_net_head {
    uint8_t type;    /* enum npu_net_type */
    uint8_t flags;   /* enum npu_net_flag */
    uint16_t slots;  /* posted again since the last message of this side */
    uint32_t bytes;  /* of payload behind the head */
    uint64_t window; /* freed since the last message of this side */
    uint64_t id;     /* the sender's operation */
    uint64_t len;
    uint64_t tag, data;
};
_Static_assert(sizeof(struct npu_net_head) == 48, "head of a message");

/* Of an operation (npu_tx.state), where more than one file has to know. */
enum npu_net_state { NPU_NET_QUEUED = 1, NPU_NET_REQUESTED, NPU_NET_LANDING, NPU_NET_MORE_STATES };

/* Goes with the connection request, and comes back with its acceptance. */
struct npu_net_hello {
    uint32_t magic;
    uint16_t version;
    uint16_t slots;
    struct npu_addr addr; /* of the endpoint */
};
_Static_assert(sizeof(struct npu_net_hello) <= 56, "what a connection request has room for");

/* Whether received bytes have the form of a message; outgoing: received by the side that sends messages. */
bool npu_net_head_ok(const void *bytes, size_t len, bool outgoing);
/* Whether received bytes are a peer's introduction. */
bool npu_net_hello_ok(const void *bytes, size_t len);

/* ---- Connections ---- */

/* One staging buffer, posted to the inner provider or free. */
struct npu_net_slot {
    struct fi_context2 context; /* the inner provider's while it is posted */
    struct hc_list node;
    struct npu_net_conn *conn;
    bool receives;
    unsigned char *bytes;
    size_t len;
    struct npu_tx *tx; /* complete when the slot is sent; NULL: nothing is */
    /* A copy between it and a device is under way; NULL: none. */
    struct npu_net_copy *copy;
    void (*moved)(struct npu_net_slot *slot, int err); /* what to do at its end */
    void *owner;                                       /* whose bytes they are, for `moved` */
    struct npu_mr *held;                               /* the target's registration, for `moved` */
};

struct npu_net_answer {
    uint8_t type;
    uint64_t id, len;
};

struct npu_net_conn {
    struct npu_peer peer; /* must stay first */
    struct npu_net *net;
    struct hc_list node; /* npu_net.conns or .gone */
    bool outgoing;       /* this side sends messages */
    bool open;
    bool closing; /* no more comes in; what has come is read first */
    bool aged;    /* closed, and its completions have been read */
    int err;      /* why it ended */
    struct fid_ep *ep;
    struct fid_mr *mr;
    unsigned char *memory;
    bool pinned;
    struct npu_net_slot slots[NPU_NET_SLOTS + NPU_NET_ANSWERS];
    struct hc_list free;        /* slots to send with */
    struct hc_list unsent;      /* filled ones, in order, that the inner provider had no room for */
    struct hc_list unposted;    /* the same for receiving */
    struct hc_list inbox;       /* received, in order, and not yet taken */
    struct npu_net_slot *taken; /* of the inbox, by npu_net_read_inbox() at this moment */
    unsigned posted;            /* sends the inner provider has */
    unsigned credits;           /* slots the other side has for us */
    unsigned owed;              /* slots posted again that it does not know of */
    uint64_t freed;             /* window, the same */
    uint64_t charged;           /* window in use: the sender's and the receiver's count */
    /* The side that sends messages. */
    struct hc_list queue;   /* operations not yet begun, in order */
    struct hc_list sending; /* operations whose payload travels */
    struct npu_tx *writing; /* a long write that is being sent: nothing begins meanwhile */
    /* The side that receives. */
    struct hc_list waiting, reading; /* receives that wait for their turn, that get their payload */
    unsigned reading_count, announced;
    struct npu_net_serve *serve;    /* a request that takes several messages; NULL: none */
    struct npu_net_answer *answers; /* a ring of those to send */
    size_t answer_room, answer_at, answer_count;
};

/* What an endpoint has of the inner provider. */
struct npu_net {
    struct npu_ep *ep;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_pep *pep;
    struct npu_watch eq_watch, cq_watch;
    struct hc_list conns, gone;
    unsigned count;      /* of conns */
    unsigned connecting; /* of them not open yet */
    unsigned turn;
    bool inside; /* progress runs: no second one from within */
    struct hc_list copies_idle, copies_busy;
    unsigned copies; /* in both */
    uint64_t next_key;
};

static inline struct npu_net_conn *npu_net_conn_of(struct npu_peer *peer)
{
    return hc_container_of(peer, struct npu_net_conn, peer);
}

static inline struct npu_net_head *npu_net_head_of(const struct npu_net_slot *slot)
{
    return (struct npu_net_head *)(void *)slot->bytes;
}

/* ---- Life (net.c) ---- */

extern const struct npu_path_ops npu_net_path;
/* End a connection, at the next progress. err: positive fabric errno; why: for the log, NULL is silent. */
void npu_net_fail(struct npu_net_conn *conn, int err, const char *why);
/* Let go of connections that have ended (net_conn.c). */
void npu_net_reap(struct npu_net *net);
/* A connection without an inner endpoint; NULL: no memory. */
struct npu_net_conn *npu_net_conn_new(struct npu_net *net, bool outgoing);
/* Open the inner endpoint as `info` says, and post its receives. */
int npu_net_conn_open(struct npu_net_conn *conn, struct fi_info *info);
void npu_net_conn_free(struct npu_net_conn *conn);

/* ---- Hosts that vanish (net_guard.c) ---- */

/* Have the connection to an address, being made or there, end when the other host is silent for
 * FI_NPU_PEER_TIMEOUT. */
void npu_net_guard(struct npu_net_conn *conn, const struct npu_addr *there);

/* ---- Slots (net_slot.c) ---- */

/* A slot to fill, with an empty head of the type; NULL: there is none, or no credit (`last`: even the last).
 */
struct npu_net_slot *npu_net_slot_get(struct npu_net_conn *conn, enum npu_net_type type, bool last);
/* Send a slot: its head and head->bytes of payload. */
void npu_net_slot_send(struct npu_net_slot *slot);
/* Take a slot back unsent. */
void npu_net_slot_put(struct npu_net_slot *slot);
/* Post a slot to receive. */
void npu_net_slot_post(struct npu_net_slot *slot);
/* Send what waits for the inner provider, and tell of credits that are due. */
void npu_net_flush(struct npu_net_conn *conn);

/* ---- Copies of devices (net_copy.c) ---- */

/* Bytes to move between an operation's buffer and a slot. */
struct npu_net_span {
    const struct npu_buf *buf;
    size_t offset; /* in buf */
    char *host;    /* in the slot */
    size_t n;
    bool out; /* from buf to the slot */
};

/*
 * Move bytes. 0: done, or under way (slot->copy is set): slot->moved, which is set before, is then called at
 * the end, by progress. -FI_EAGAIN: nothing done, too many are under way. -FI_EIO: they cannot be moved.
 */
int npu_net_move(struct npu_net_slot *slot, const struct npu_net_span *span);
/* End the copies that are complete; true: some were. */
bool npu_net_copies_poll(struct npu_net *net);
/* Wait for those of a connection, whatever becomes of them. */
void npu_net_copies_wait(struct npu_net_conn *conn);
void npu_net_copies_fini(struct npu_net *net);
/* Slots that wait to be sent, of an operation whose bytes could not be read: send nothing in their place. */
void npu_net_withdraw(struct npu_net_conn *conn, enum npu_net_type type, uint64_t id);
/* A slot to send has its bytes: send it, now or in its turn. */
void npu_net_slot_filled(struct npu_net_conn *conn);

/* ---- The sender's side (net_send.c) ---- */

int npu_net_send(struct npu_peer *peer, const struct npu_send *send);
bool npu_net_cancel(struct npu_peer *peer, struct npu_tx *tx);
/* Begin and continue operations while there are slots. */
void npu_net_pump(struct npu_net_conn *conn);
/* An answer has come. 0, or -FI_EAGAIN: later. */
int npu_net_answered(struct npu_net_conn *conn, const struct npu_net_head *head);
/* A slot of ours has been sent. */
void npu_net_slot_sent(struct npu_net_slot *slot);
/* End everything under way with the connection's error. */
void npu_net_abort(struct npu_net_conn *conn);

/* ---- The receiver's side (net_recv.c) ---- */

void npu_net_fetch(struct npu_peer *peer, const struct npu_arrival *arrival, struct npu_rx *rx);
void npu_net_delivered(struct npu_peer *peer, const struct npu_arrival *arrival);
void npu_net_release(struct npu_peer *peer, size_t cost);
/* A slot has been received: book credits, and keep what is to be taken in order. */
void npu_net_take_in(struct npu_net_slot *slot);
/* Keep an answer until it can be sent. */
void npu_net_answer(struct npu_net_conn *conn, enum npu_net_type type, uint64_t id, uint64_t len);
/* Take received slots, in order; true: some were taken. */
bool npu_net_read_inbox(struct npu_net_conn *conn);
/* Send answers while there are slots. */
void npu_net_pump_answers(struct npu_net_conn *conn);
/* End receives whose payload will not come. */
void npu_net_abandon(struct npu_net_conn *conn);

/* ---- RMA (net_rma.c) ---- */

int npu_net_rma(struct npu_peer *peer, const struct npu_rma *op);
/* Send the request of a queued operation; the next piece of npu_net_conn.writing, false: not now. */
void npu_net_begin_rma(struct npu_net_slot *slot, struct npu_tx *tx);
bool npu_net_write_piece(struct npu_net_slot *slot);
/* An answer to a request. 0, -FI_EAGAIN: later, or -FI_EIO: it is wrong. */
int npu_net_rma_answered(struct npu_net_conn *conn, struct npu_tx *tx, const struct npu_net_head *head);
/* Serve a request, or begin to. -FI_EAGAIN: nothing done, for lack of room. */
int npu_net_take_rma(struct npu_net_conn *conn, const struct npu_net_head *head);
/* A piece of the write being served, or its early end. 0, -FI_EAGAIN: later, or -FI_EIO: it is not. */
int npu_net_take_write(struct npu_net_conn *conn, const struct npu_net_head *head);
/* Whether the bytes of the write being served are here, but not all in their place. */
bool npu_net_settling(const struct npu_net_conn *conn);
/* Whether a read is being served; send more of it, true when that is the end. */
bool npu_net_sending_back(const struct npu_net_conn *conn);
bool npu_net_send_back(struct npu_net_conn *conn);
/* Forget what is being served. */
void npu_net_stop_serving(struct npu_net_conn *conn);

#endif
