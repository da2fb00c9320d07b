/*
 * Messages between runtimes: what travels inside the transports' active messages. Fixed-width, little-endian
 * (the library refuses to build elsewhere), sizes asserted. Headers are multiples of 8 bytes. Every field
 * from a peer is checked where it is used.
 */
#ifndef HC_WIRE_H
#define HC_WIRE_H

#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire structures are little-endian");

enum hc_wire_id {
    HC_WIRE_EAGER = 1,      /* hc_wire_match, payload */
    HC_WIRE_EAGER_SYNC = 2, /* hc_wire_eager_sync, payload: answered with SYNC_ACK at match */
    HC_WIRE_BATCH = 3,      /* hc_wire_batch, then hc_wire_batch_item and payload padded to 8, repeated */
    HC_WIRE_RTS = 4,        /* hc_wire_rts, rkey: a message of rendezvous size waits at the sender */
    HC_WIRE_CTS = 5,        /* hc_wire_cts, rkey: send it in pieces, or put it into the receiver's memory */
    HC_WIRE_DATA = 6,       /* hc_wire_data, payload: one piece */
    HC_WIRE_FIN = 7,        /* hc_wire_fin: to the sender: fetched or refused, the buffer is free */
    HC_WIRE_SYNC_ACK = 8,   /* hc_wire_fin: to the sender of EAGER_SYNC: matched */
    HC_WIRE_NACK = 9,       /* hc_wire_fin: to the receiver: the sender gave the message up */
    HC_WIRE_CREDIT = 10,    /* hc_wire_credit */
    HC_WIRE_BARRIER = 11,   /* hc_wire_barrier */
    HC_WIRE_WITHDRAW = 12,  /* hc_wire_fin: to the receiver of RTS: do not fetch it; answered with FIN */
    HC_WIRE_PLACED = 13,    /* hc_wire_placed: all that the sender has put into the receiver's memory */
    HC_WIRE_RECALL = 14,    /* hc_wire_fin: to importers of device memory: it is freed, close what is kept */
    HC_WIRE_RELEASED = 15,  /* hc_wire_fin: to its owner: closed */
    HC_WIRE_PAYLOAD = 16,   /* hc_wire_payload, payload: of a lent message, whose RTS it replaces */
};

/* What matching looks at. */
struct hc_wire_match {
    uint64_t comm;   /* communicator id; the top bit marks the runtime's own messages */
    uint32_t source; /* sender's rank in the communicator */
    int32_t tag;
};
_Static_assert(sizeof(struct hc_wire_match) == 16, "wire size");
_Static_assert(offsetof(struct hc_wire_match, source) == 8 && offsetof(struct hc_wire_match, tag) == 12,
               "hc_wire_match_word");

/*
 * The second word of a hc_wire_match. As a word from here on: a compiler that is short of registers kept the
 * tag as 4 bytes on the stack and loaded 8, of which it needed half. No store can be forwarded to such a
 * load; it waits until all stores before it are through, also the one to a line that the receiver has just
 * read.
 */
static inline uint64_t hc_wire_match_word(uint32_t source, int32_t tag)
{
    uint64_t high = (uint32_t)tag;
    __asm__("" : "+r"(high));
    return high << 32 | source;
}

struct hc_wire_eager_sync {
    struct hc_wire_match match;
    uint64_t send_id; /* sender's request, for the answer */
};
_Static_assert(sizeof(struct hc_wire_eager_sync) == 24, "wire size");

/* What all messages of a batch share. */
struct hc_wire_batch {
    uint64_t comm;
    uint32_t source;
    uint32_t zero;
};
_Static_assert(sizeof(struct hc_wire_batch) == 16, "wire size");

struct hc_wire_batch_item {
    int32_t tag;
    uint32_t size; /* of the payload that follows, padded to 8 */
};
_Static_assert(sizeof(struct hc_wire_batch_item) == 8, "wire size");

enum hc_offer {
    HC_OFFER_RKEY = 0,   /* of the transport */
    HC_OFFER_DEVICE = 1, /* struct hc_wire_device */
    HC_OFFER_SELF = 2,   /* 64 bits: the address, in a message to the own rank */
};

enum { HC_WIRE_DEVICE_KEY = 72 };

/* Device memory that the receiver may import. */
struct hc_wire_device {
    char key[HC_WIRE_DEVICE_KEY]; /* the device runtime's, NUL-terminated */
    uint64_t offset;              /* of the message in what the key stands for */
    uint64_t size;                /* of all that it stands for */
    int32_t physical;             /* the device */
    uint32_t keep; /* the importer may keep it until that number is recalled; 0: for this message only */
};
_Static_assert(sizeof(struct hc_wire_device) == 96, "wire size");

struct hc_wire_rts {
    struct hc_wire_match match;
    uint64_t size;
    uint64_t send_id;
    uint64_t address;          /* of the payload, for get; 0 without an rkey */
    uint32_t rkey_len;         /* bytes of rkey that follow; 0: only pieces are possible */
    uint32_t offer;            /* enum hc_offer: what the rkey is */
    uint32_t guard;            /* index of a share of the sender, if the message is lent (lend.h) */
    uint32_t guard_generation; /* of it; 0: the message is not lent */
};
_Static_assert(sizeof(struct hc_wire_rts) == 56, "wire size");

struct hc_wire_payload {
    uint64_t send_id;
};
_Static_assert(sizeof(struct hc_wire_payload) == 8, "wire size");

enum hc_cts_flag {
    HC_CTS_FLAG_SHARE = 1, /* the receiver copies, too: take parts or leave it, send no pieces */
};

struct hc_wire_cts {
    uint64_t send_id;
    uint64_t recv_id;
    uint64_t accept;     /* bytes wanted, from the start of the message */
    uint64_t address;    /* of the receiver's buffer, for put; 0 without an rkey */
    uint32_t share;      /* index of the share in the control page of the arena that the rkey leads to */
    uint32_t generation; /* of the share */
    uint16_t flags;      /* enum hc_cts_flag */
    uint16_t zero;
    uint32_t rkey_len; /* bytes of rkey that follow; 0: only pieces are possible */
};
_Static_assert(sizeof(struct hc_wire_cts) == 48, "wire size");

struct hc_wire_placed {
    uint64_t recv_id;
    uint64_t bytes;
};
_Static_assert(sizeof(struct hc_wire_placed) == 16, "wire size");

struct hc_wire_data {
    uint64_t recv_id;
    uint64_t offset;
};
_Static_assert(sizeof(struct hc_wire_data) == 16, "wire size");

struct hc_wire_fin {
    uint64_t id;
    int32_t status; /* hcomm_status_t */
    uint32_t ns;    /* FIN of a lent message: how long fetching it took, or a part of it */
};
_Static_assert(sizeof(struct hc_wire_fin) == 16, "wire size");

struct hc_wire_credit {
    uint64_t bytes;
};
_Static_assert(sizeof(struct hc_wire_credit) == 8, "wire size");

enum hc_barrier_flag {
    HC_BARRIER_FLAG_SHARED = 1, /* all ranks heard of so far can use the shared words */
    HC_BARRIER_FLAG_LEAVE = 2,  /* to the owner of the shared words: the sender has freed the communicator */
};

struct hc_wire_barrier {
    uint64_t comm;
    uint32_t source;     /* sender's rank in the communicator */
    uint16_t round;      /* of the dissemination, less than 32 */
    uint16_t flags;      /* enum hc_barrier_flag */
    uint64_t generation; /* of the barrier; LEAVE: number of the slot */
};
_Static_assert(sizeof(struct hc_wire_barrier) == 24, "wire size");

#define HC_COMM_INTERNAL (UINT64_C(1) << 63)

#endif
