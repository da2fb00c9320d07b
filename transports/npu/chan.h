/*
 * Channels: the local path. A channel carries the messages of one endpoint to another of the same host, and
 * the answers to them; messages the other way take a channel of their own. Its memory is a sealed memfd that
 * the sender makes and hands over through a Unix socket, together with its address (struct npu_hello). The
 * socket then wakes sleepers and tells when the other side is gone. Nothing has a name in a file system, so
 * nothing is left behind by whoever dies.
 *
 * Who connects first offers the channel the other way, too: its memory and a socket for it come with the same
 * introduction. The other side sends on it, or has connected meanwhile and closes it. So both ways are there
 * before the first message, although the first side is not called again until then.
 *
 * - Short messages travel in the ring ("eager"). What a receiver keeps of them is bounded by a window of
 * bytes (NPU_WINDOW): beyond it the sender only announces them.
 * - Longer ones are announced in the ring (RTS). Between host memories the kernel copies them straight from
 * buffer to buffer, where it may (local_direct.c); or they travel through a stream, a circular buffer of
 *   NPU_STREAM_BYTES that the sender fills while the receiver empties it. Which of the two is learned
 *   (ways.h). The first NPU_EARLY streams are the sender's to give: their messages are on the way before the
 * receive is known. The others are the receiver's: it grants one (CTS) to a matched message that came
 *   without. So unmatched messages cannot block matched ones.
 * - Answers have a small ring of their own. Where the sender does not read them, the receiver keeps what has
 *   no room; so how many operations wait for an answer is limited by the endpoint's size alone.
 * - RMA and atomics travel as requests in the ring, and have a stream each way (local_rma.c).
 */
#ifndef NPU_CHAN_H
#define NPU_CHAN_H

#include "runtime/base/share.h"
#include "transports/npu/ep.h"
#include "transports/npu/ring.h"
#include "transports/npu/rma.h"
#include "transports/npu/ways.h"

enum {
    NPU_PAGE = 4096,
    NPU_EAGER_MAX = NPU_INJECT_MAX,
    NPU_WINDOW = 1 << 20,
    NPU_STREAMS = 8,
    NPU_EARLY = 4,
    NPU_STREAM_DMA = -2,    /* npu_rx.stream: a device copies the message (npu_rx.dma) */
    NPU_STREAM_DIRECT = -3, /* npu_rx.stream: it is copied straight from the sender's memory */
    NPU_STREAM_BYTES = 1 << 20,
    NPU_PIECE = 16 << 10,    /* of RMA: progress is published that often */
    NPU_PIECE_MIN = 8 << 10, /* of messages: npu_piece */
    NPU_PIECE_MAX = 64 << 10,
    NPU_REPLIES = 256,
    NPU_OWED_MAX = 4 * NPU_MAX_QUEUE, /* answers that no honest sender exceeds */
    /* The longest request: operands and all ranges. */
    NPU_RMA_RECORD_MAX =
        NPU_RMA_INLINE_MAX + (int)sizeof(struct npu_rma_head) + (int)sizeof(struct npu_ipc_range) +
        NPU_IOV_LIMIT * ((int)sizeof(struct npu_rma_target) + (int)sizeof(struct npu_rma_local)),
    NPU_REPLY_MASK = NPU_REPLIES - 1,
};

enum npu_reply_kind {
    NPU_REPLY_ACK = 1,        /* the payload is where it belongs */
    NPU_REPLY_CTS = 2,        /* a: bytes wanted, b: the stream; 0 bytes: the message is done with */
    NPU_REPLY_SHARE = 3,      /* help to copy: a: bytes wanted, b: address, index and generation: the share */
    NPU_REPLY_FAIL = 4,       /* a: fabric errno of a message that cannot be copied */
    NPU_REPLY_RMA_DONE = 16,  /* a: 0 or a fabric errno, b: bytes in the back stream, the last */
    NPU_REPLY_RMA_PIECE = 17, /* b: bytes in the back stream, more follow */
    NPU_REPLY_RMA_CTS = 18,   /* all bytes are wanted through the forth stream */
};

struct npu_reply {
    _Atomic uint64_t word; /* enum npu_reply_kind; zeroed by the reader */
    uint64_t id, a, b;
    uint32_t index, generation;
    unsigned char rest[24];
};
_Static_assert(sizeof(struct npu_reply) == NPU_LINE, "a reply is one line");

/* What the sender placed of a shared message; beside a struct hc_share, whose parts both sides claim. */
struct npu_placed {
    HC_CACHE_ALIGNED _Atomic uint64_t bytes; /* by the sender, since the share was opened */
    _Atomic uint64_t failed;                 /* bytes of a part that the sender could not copy after all */
    uint64_t failed_at;                      /* where it begins */
};

/* Copies across processes out of and into the memory of one side, by the other. */
struct npu_access {
    HC_CACHE_ALIGNED _Atomic uint32_t copying; /* the other side: it is just now */
    _Atomic uint32_t revoked;                  /* the owner: from now on, no more */
};

/* By which a process is told from another that was given its number. */
struct npu_proof {
    uint64_t addr; /* where in the process's memory `value` is */
    uint64_t value;
};

/*
 * Both sides of a stream publish how far they are after so many bytes: often enough that one reads while the
 * other writes, and no more often, for each time a cache line changes sides.
 */
static inline size_t npu_piece(uint64_t message)
{
    size_t quarter = hc_align_up((size_t)message / 4, NPU_PAGE);
    if (quarter < NPU_PIECE_MIN)
        return NPU_PIECE_MIN;
    return quarter < NPU_PIECE_MAX ? quarter : NPU_PIECE_MAX;
}

/* How a receiver sleeps. */
enum npu_attach {
    NPU_DETACHED = 0,
    NPU_ATTACHED = 1,         /* the sender must order its stores before it looks at `asleep` */
    NPU_ATTACHED_BARRIER = 2, /* the receiver does that for all, with membarrier(2) */
};

struct npu_stream {
    HC_CACHE_ALIGNED _Atomic uint64_t written;  /* bytes since the channel's start, by the sender */
    HC_CACHE_ALIGNED _Atomic uint64_t consumed; /* the same, by the receiver */
};

/* The start of a channel's memory; lines are separated by who writes them. */
struct npu_chan_head {
    uint64_t magic;
    uint32_t version, size;
    uint16_t life;                               /* of the ring (ring.h) */
    HC_CACHE_ALIGNED _Atomic uint32_t ring_head; /* receiver */
    _Atomic uint64_t released;                   /* receiver: bytes of the window that are free again */
    _Atomic uint64_t unpacked;                   /* receiver: npu_pack_answer() */
    HC_CACHE_ALIGNED _Atomic uint32_t receiver_asleep;
    _Atomic uint32_t attach; /* enum npu_attach */
    _Atomic uint32_t ways;   /* what to send direct (ways.h); 0: nothing */
    /* Sender of an offered channel, before its first record. */
    uint32_t sender_barrier; /* as npu_hello.barrier */
    struct npu_addr sender_addr;
    HC_CACHE_ALIGNED _Atomic uint32_t sender_asleep;
    struct npu_stream streams[NPU_STREAMS];
    struct npu_stream forth, back; /* RMA: to the receiver; to the sender, whose roles are then reversed */
    HC_CACHE_ALIGNED struct npu_proof sender_proof;
    struct npu_proof receiver_proof;               /* valid when `attach` is set */
    HC_CACHE_ALIGNED _Atomic int32_t receiver_pid; /* as the device runtime knows it, 0: not (yet) */
    struct npu_access sender_memory, receiver_memory;
};
_Static_assert(sizeof(struct npu_chan_head) <= NPU_PAGE, "the head is one page");
_Static_assert((int)NPU_EAGER_MAX <= (int)NPU_LEN_MAX && (int)NPU_RMA_RECORD_MAX <= (int)NPU_LEN_MAX,
               "a record's length fits its word");

struct npu_chan_memory {
    union {
        struct npu_chan_head head;
        unsigned char page[NPU_PAGE];
    };
    struct npu_reply replies[NPU_REPLIES];
    struct hc_share shares[HC_SHARES];
    struct npu_placed placed[HC_SHARES];
    _Alignas(NPU_PAGE) struct npu_record ring[NPU_RING_LINES];
    /* On pages of their own, which npu_chan_prepare() has before they are used. */
    unsigned char streams[NPU_STREAMS][NPU_STREAM_BYTES];
    unsigned char forth[NPU_STREAM_BYTES], back[NPU_STREAM_BYTES];
};

_Static_assert(offsetof(struct npu_chan_memory, streams) % NPU_PAGE == 0, "streams begin with a page");

#define NPU_CHAN_MAGIC UINT64_C(0x336e6863757068) /* "hpuchn3" */

enum {
    NPU_HELLO_FDS = 3,             /* the memfd, or that and an offer's memfd and socket */
    NPU_OFFERS_MAX = NPU_MEET_MAX, /* who hears of so many peers offers no more */
    NPU_OFFERED_LIFE = 1 << 15,    /* in the lives of rings that their reader made, so that they are others */
};

/* First message on the socket, with the memfd. */
struct npu_hello {
    uint64_t magic;
    uint32_t version, size;
    struct npu_addr addr; /* the sender's */
    uint8_t barrier;      /* the sender's process takes part in membarrier(2) */
    uint8_t unused[3];
};

/* States of operations (npu_tx.state) that several files know. */
enum {
    NPU_TX_QUEUED = 0,
    NPU_TX_ANNOUNCED = 1, /* the receiver will ask for it, or say that it has it */
    NPU_TX_SHARING = 2,   /* the same, and this side helps to copy it */
    NPU_TX_RMA = 16,
    NPU_TX_RMA_STREAM = 17,
};

/* The request that a receiver serves, and what of the next one is being read. */
struct npu_serve {
    enum {
        NPU_SERVE_NONE,
        NPU_SERVE_DIRECT,
        NPU_SERVE_DMA,
        NPU_SERVE_STREAM
    } how; /* NONE: nothing under way */
    bool has_data;
    struct npu_rma_request request;
    uint64_t id, data;
    uint64_t at;   /* bytes moved */
    uint64_t base; /* of a write in the forth stream */
    struct npu_dma *dma;
};

/* Where a message is in the sender's memory; npu_arrival.base points to it until that is no longer needed. */
struct npu_held {
    struct hc_list node;
    unsigned count; /* pieces in host memory; 0: `range` on a device */
    union {
        struct npu_ipc_range range;
        struct iovec pieces[NPU_IOV_LIMIT];
    };
};

/* An answer that found no room yet. */
struct npu_owed {
    struct hc_list node;
    struct npu_reply reply;
};

/* Whether this side can copy from and to the other's memory. */
enum npu_copies { NPU_COPIES_UNKNOWN, NPU_COPIES_WORK, NPU_COPIES_DENIED };

struct npu_chan {
    struct npu_peer peer; /* must stay first */
    struct npu_local *local;
    struct hc_list node;    /* npu_local.out, .gone */
    struct npu_watch watch; /* the socket; fd -1 once the other side is gone */
    struct npu_chan_memory *memory;
    pid_t pid;                /* the other process */
    bool outgoing;            /* this side sends */
    bool fence;               /* order stores before looking at the other side's `asleep` */
    bool closing;             /* the sender is gone; what it left is still read */
    bool awaited;             /* the sender was waited for to introduce itself, and did not */
    bool offered;             /* this side receives, and has not heard of a sender yet */
    struct npu_chan *partner; /* the channel the other way; NULL: none is known */

    /* Sending side. */
    struct npu_ring_writer writer;
    uint64_t charged, released;        /* bytes of the window: ever used, and free again as last seen */
    unsigned awaiting;                 /* operations that will be answered */
    uint32_t reply_pos;                /* also the receiving side's */
    uint64_t stream_pos[NPU_STREAMS];  /* bytes ever given to each stream; both sides count alike */
    unsigned stream_used[NPU_STREAMS]; /* messages so far */
    size_t prepared[NPU_STREAMS];      /* bytes of each stream whose pages are there; both sides */
    struct npu_way_picker picker;      /* of messages that might go direct */
    struct npu_past past;              /* of copies into the streams */
    struct npu_packer packer;          /* of copies into the ring */
    struct hc_list queue;              /* operations that have not begun */
    struct hc_list sending;            /* operations in streams */
    struct hc_list busy_node;          /* npu_local.busy */

    /* Receiving side. */
    struct npu_ring_reader reader;
    uint64_t freed, freed_published; /* bytes of the window given back */
    unsigned granted;                /* bits of the granted streams in use */
    struct hc_list waiting;          /* matched receives that wait for a stream */
    struct hc_list held;             /* struct npu_held of messages that are not matched yet */
    struct hc_list owed;             /* struct npu_owed, oldest first */
    unsigned num_owed;
    struct hc_share_pool shares;
    struct npu_way_costs costs;
    bool arriving; /* the message being fetched has just come */
    bool alone;    /* the sender does not help to copy */

    /* RMA. */
    uint64_t forth_pos, back_pos; /* bytes ever given to these streams */
    struct npu_tx *forth;         /* sender: the write that is in the forth stream */
    struct npu_serve *serve;      /* receiver; NULL: never needed */

    /* Copies across processes. */
    uint64_t proof; /* what the other side finds here */
    enum npu_copies copies;
    struct npu_proof theirs; /* as it was when they were proven */
    uint64_t proven;         /* npu_cycles() when they were last */
};

struct npu_local {
    struct npu_ep *ep;
    struct npu_watch listen;
    int port_fd;  /* reserves the port with the kernel; -1: none */
    bool barrier; /* membarrier(2) works here */
    struct npu_chan **in;
    unsigned in_count, in_room;
    unsigned offers;         /* those of them that are only offered */
    uint16_t life;           /* of the newest ring this side made */
    struct hc_list greeting; /* connections that have not said who they are */
    struct hc_list out;      /* channels this side sends on */
    struct hc_list busy;     /* those of them that need progress */
    struct hc_list reading;  /* receives in streams */
    struct hc_list gone;     /* channels whose peer is gone, until nothing refers to them */
};

/*
 * Where the next message in a stream begins. fresh: where the stream's memory does, so that few pages are
 * used; between far processors that is the faster way, too. Else where the one before ended: between near
 * ones, lines that were just used come slower out of the other's own cache than from a shared one. The sender
 * decides, and tells (NPU_RECORD_FRESH); granted streams begin fresh.
 */
static inline uint64_t npu_stream_next(const struct npu_chan *chan, int stream, bool fresh)
{
    uint64_t pos = chan->stream_pos[stream];
    return fresh ? hc_align_up(pos, NPU_STREAM_BYTES) : pos;
}

/* Whether to begin fresh; a channel that is seldom used does. */
static inline bool npu_stream_is_fresh(const struct npu_chan *chan, int stream)
{
    enum { SELDOM = 8 };
    return chan->stream_used[stream] < SELDOM || npu_past_is_faster(&chan->past);
}

/* Give a stream to a message; both sides do it in the same order. */
static inline void npu_stream_give(struct npu_chan *chan, int stream, bool fresh, uint64_t len)
{
    chan->stream_pos[stream] = npu_stream_next(chan, stream, fresh) + len;
    chan->stream_used[stream]++;
}

static inline struct npu_chan *npu_chan_of(struct npu_peer *peer)
{
    return hc_container_of(peer, struct npu_chan, peer);
}

extern const struct npu_path_ops npu_local_path;

/* Wake the other side where it sleeps; called after something was published for it. */
void npu_chan_wake(struct npu_chan *chan, _Atomic uint32_t *asleep);

/* Order stores before a look at `asleep`, until the receiver has said that it does so for all. */
void npu_chan_fence(struct npu_chan *chan);

static inline void npu_chan_kick(struct npu_chan *chan)
{
    struct npu_chan_head *head = &chan->memory->head;
    _Atomic uint32_t *asleep = chan->outgoing ? &head->receiver_asleep : &head->sender_asleep;
    if (hc_unlikely(chan->fence))
        npu_chan_fence(chan);
    if (hc_unlikely(atomic_load_explicit(asleep, memory_order_relaxed)))
        npu_chan_wake(chan, asleep);
}

/* The first record on an offered channel is there: get to know its sender. */
void npu_chan_met(struct npu_chan *chan);

/* The other side broke the protocol, or is gone: no more traffic. */
void npu_chan_fail(struct npu_chan *chan, const char *why);

/* Have the pages of a stream before a message uses them: many at once is much faster than singly. All of them
 * when it begins in the middle, as those after it will go on. */
void npu_chan_prepare(struct npu_chan *chan, int stream, uint64_t begin, size_t bytes);

/* This side's channel needs progress. */
static inline void npu_chan_busy(struct npu_chan *chan)
{
    if (chan->busy_node.next == &chan->busy_node)
        hc_list_append(&chan->local->busy, &chan->busy_node);
}

/* local_send.c: the sending side */
bool npu_chan_progress_out(struct npu_chan *chan);
bool npu_chan_pending_out(struct npu_chan *chan);
int npu_chan_send(struct npu_peer *peer, const struct npu_send *send);
bool npu_chan_cancel(struct npu_peer *peer, struct npu_tx *tx);
/* Whether an operation with these flags must wait for those before it. */
static inline bool npu_chan_fenced(const struct npu_chan *chan, uint64_t flags)
{
    return (flags & FI_FENCE) && (chan->awaiting || !hc_list_empty(&chan->sending));
}

/* local_rma.c, the sending side. */
int npu_chan_rma(struct npu_peer *peer, const struct npu_rma *op);
/* Let a queued operation begin; false: no room. */
bool npu_chan_start_rma(struct npu_chan *chan, struct npu_tx *tx);
/* Lines in the ring that it will need. */
uint32_t npu_chan_rma_lines(const struct npu_tx *tx);
/* False: a wrong answer. */
bool npu_chan_rma_reply(struct npu_chan *chan, struct npu_tx *tx, const struct npu_reply *reply);
/* Move the write in the forth stream. */
bool npu_chan_rma_send(struct npu_chan *chan);
bool npu_chan_rma_send_pending(struct npu_chan *chan);
/* local_rma.c, the receiving side. A request: 0: taken (serve->how tells if it goes on); negative: later. */
int npu_chan_on_rma(struct npu_chan *chan, const struct npu_record *record, uint64_t word);
/* Go on with the request that is being served. */
bool npu_chan_serve(struct npu_chan *chan);
/* Let go of the request that is being served. */
void npu_chan_stop_serving(struct npu_chan *chan);
bool npu_chan_serve_pending(struct npu_chan *chan);

static inline bool npu_chan_serving(const struct npu_chan *chan)
{
    return hc_unlikely(chan->serve != NULL) && chan->serve->how != NPU_SERVE_NONE;
}

/* Fail everything under way on a channel. */
void npu_chan_abort(struct npu_chan *chan, int err);

/* local_recv.c: the receiving side */
bool npu_chan_progress_in(struct npu_chan *chan);
bool npu_chan_pending_in(struct npu_chan *chan);
/* Move a receive that is in a stream; true: bytes moved or it ended (then it is gone). */
bool npu_chan_read_stream(struct npu_rx *rx);
bool npu_chan_stream_pending(const struct npu_rx *rx);
/* Answer an operation of the sender; reply->word: enum npu_reply_kind. */
void npu_chan_answer(struct npu_chan *chan, const struct npu_reply *reply);
static inline void npu_chan_reply(struct npu_chan *chan, enum npu_reply_kind kind, uint64_t id, uint64_t a,
                                  uint64_t b)
{
    struct npu_reply reply = {.word = (uint64_t)kind, .id = id, .a = a, .b = b};
    npu_chan_answer(chan, &reply);
}
/* Publish what this receiver would like to be sent direct. */
void npu_chan_publish_ways(struct npu_chan *chan);
/* A message that just came has been received; began: npu_cycles(), 0: it is not
 * to be learned from. */
void npu_chan_learn(struct npu_chan *chan, enum npu_way way, size_t size, uint64_t began);
/* Have the message come through a stream that this side grants. */
void npu_chan_request(struct npu_chan *chan, struct npu_rx *rx);
void npu_chan_fetch(struct npu_peer *peer, const struct npu_arrival *arrival, struct npu_rx *rx);
void npu_chan_delivered(struct npu_peer *peer, const struct npu_arrival *arrival);
bool npu_chan_lost(struct npu_peer *peer, const struct npu_arrival *arrival);
void npu_chan_release(struct npu_peer *peer, size_t cost);

/* local_cross.c: copies across processes */

/* Whether the process at the other end is the one that the channel was opened with, and lets itself be copied
 * from. */
bool npu_chan_may_copy(struct npu_chan *chan);
/*
 * Copy n bytes between `here`, from here_at on, and pieces of the other process, from there_at on. out: into
 * the other process. Returns how many, at least one, or a negative fabric errno: -FI_ECONNRESET: the process
 * is gone or closed its side, -FI_EPERM: not allowed (any more), -FI_EFAULT: there is no such memory.
 */
ssize_t npu_chan_copy(struct npu_chan *chan, const struct npu_buf *here, uint64_t here_at,
                      const struct iovec *there, unsigned there_count, uint64_t there_at, size_t n, bool out);
/* From the return on, the other side does not touch this process's memory (npu_chan_copy). */
void npu_chan_revoke(struct npu_chan *chan);

/* local_direct.c: messages without a stream. The receiver: takes `held` over; false: it has to come another
 * way. */
bool npu_chan_begin_direct(struct npu_chan *chan, struct npu_rx *rx, struct npu_held *held);
/* As npu_chan_read_stream(). */
bool npu_chan_step_direct(struct npu_rx *rx);
/* The sender: the receiver asks for help. False: it asks for what cannot be. */
bool npu_chan_on_share(struct npu_chan *chan, struct npu_tx *tx, const struct npu_reply *reply);
bool npu_chan_help(struct npu_chan *chan, struct npu_tx *tx);

#endif
