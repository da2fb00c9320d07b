/*
 * Which of two ways a message of an eager size takes to a peer that can read this process's memory, learned
 * per peer while sending: copied into the transport's memory (eager: two copies), or its buffer lent to the
 * receiver, which fetches it (one copy by the kernel; lend.h). Whether a system call is cheaper than a copy
 * differs between machines, and with the distance of the processors.
 *
 * What is compared are costs of single messages: how long the sender copied, and how long the receiver
 * fetched, which its answer tells. Both are the same whether messages come one by one or in windows, and
 * whatever the application does between them. From time to time a few messages try the other way. At the
 * start the best of some counts: the first ones pay for what they touch.
 *
 * A receiver that comes late keeps a lender waiting. What that costs is weighed against what lending has
 * saved lately: one that is late now and then is lent to all the same; when lending loses, as while a
 * receiver has lost its processor, it ends for some messages, each time for twice as many.
 */
#ifndef HC_LENDER_H
#define HC_LENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HC_LENDER_CLASSES = 3,     /* of sizes, each twice the one before */
    HC_LENDER_SMALLEST = 14,   /* the first begins at 2^14 bytes */
    HC_LENDER_COPIED = 16,     /* messages that are copied first, */
    HC_LENDER_FIRST = 24,      /* and with those that are lent then; the best of them count */
    HC_LENDER_TRIALS = 4,      /* messages in a row that try the other way */
    HC_LENDER_PERIOD = 512,    /* messages between trials */
    HC_LENDER_RARELY = 4,      /* times as many, if the other way takes twice as long */
    HC_LENDER_REST = 64,       /* messages that are copied after a late one, at least */
    HC_LENDER_REST_MAX = 1024, /* which take hundreds of times as long as waiting for a late one */
    HC_LENDER_LATE_NS = 8000,  /* a receiver that takes so long besides fetching is late */
    HC_LENDER_WAIT_NS = 20000, /* what one that is late, or gave up, costs at most: the wait, and the copy */
    /* ns that may have been saved, and those that may be lost before lending ends. */
    HC_LENDER_TRUST_MAX = 200000,
    HC_LENDER_LOSS_MAX = 40000,
};

/* Messages of one class of sizes. */
struct hc_lender_class {
    uint32_t count;                /* of messages */
    uint32_t copy_cost, lend_cost; /* ps per byte; 0: unknown */
};

/* Zero-initialised. */
struct hc_lender {
    struct hc_lender_class classes[HC_LENDER_CLASSES];
    uint32_t rest; /* messages yet that are copied whatever they cost */
    uint32_t last; /* how many they were the last time */
    int32_t trust; /* ns that lending has saved lately; negative: lost */
};

/* Whether the next message, of that size, is lent. */
bool hc_lender_choose(struct hc_lender *lender, size_t size);
/* The sender copied for so long. */
void hc_lender_copied(struct hc_lender *lender, size_t size, uint64_t ns);
/* The receiver fetched for so long; `alone`: no other message was lent, and it was for `lent_ns`. */
void hc_lender_fetched(struct hc_lender *lender, size_t size, uint64_t ns, bool alone, uint64_t lent_ns);
/* The receiver did not come in time. */
void hc_lender_gave_up(struct hc_lender *lender);

#endif
