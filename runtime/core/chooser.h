/*
 * Which of two ways a message of rendezvous takes, learned per peer while receiving: in pieces through the
 * transport's own memory (two copies, each side makes one), or in one copy by the kernel, which the receiver
 * makes alone or, of large ones, both sides share. Which is faster depends on how far apart the processors
 * are, on the pages of the buffers and on how many messages are under way at once; none of it is known in
 * advance and all of it changes. So the receiver times its messages, stays with the faster way, and tries the
 * other one from time to time.
 *
 * Messages of a window end in bursts, and after each has been carried for a while: a single one says nothing.
 * What is timed is a block of as many messages as are under way at once, from start to end. The way changes
 * for a whole block; what ends while messages of the other way are still under way counts for neither.
 * Trials cost some hundredth, whatever the slower way takes. Longer messages begin with what shorter ones
 * have shown clearly.
 * Lock held.
 */
#ifndef HC_CHOOSER_H
#define HC_CHOOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hc_way { HC_WAY_NONE, HC_WAY_PIECES, HC_WAY_ONE_COPY };

enum {
    HC_CHOOSER_CLASSES = 7,   /* of sizes, each four times the one before */
    HC_CHOOSER_SMALLEST = 12, /* the first begins at 2^12 bytes */
    HC_CHOOSER_PERIOD = 32,   /* blocks between trials of the slower way, if it is not much slower */
    HC_CHOOSER_RARELY = 16,   /* times as many at most, if it is */
    HC_CHOOSER_BLOCK = 4,     /* messages in a block at least */
    HC_CHOOSER_START = 8,     /* blocks at the start that alternate; the best counts */
};

/* What was chosen for a message; kept with it until it ends. */
struct hc_choice {
    enum hc_way way; /* HC_WAY_NONE: there was no choice */
    uint32_t run;
};

/* Messages of one class of sizes. A run is the blocks between two changes of the way. */
struct hc_chooser_class {
    uint32_t run;       /* its number, from 1 on */
    uint32_t blocks;    /* completed in this run */
    uint32_t in_flight; /* messages */
    uint32_t older;     /* of these, chosen in earlier runs */
    uint32_t wanted;    /* messages that complete the block */
    uint32_t ended;     /* and how many of them have: their bytes, and the time they took */
    uint64_t bytes, ns;
    uint32_t cost[2]; /* ps per byte: pieces, shared; 0: unknown */
    bool shared;      /* the way of the run */
    bool warm;        /* the first message after a change, which pays for it, is over */
};

/* Zero-initialised. */
struct hc_chooser {
    uint64_t mark;      /* ns: the time until then is accounted for */
    uint32_t in_flight; /* messages of all classes */
    struct hc_chooser_class classes[HC_CHOOSER_CLASSES];
};

unsigned hc_chooser_class(size_t size);

/* The way for the next message of that size, which starts `now` (ns). */
struct hc_choice hc_chooser_pick(struct hc_chooser *chooser, size_t size, uint64_t now);

/* The message has ended, all of it received. */
void hc_chooser_learn(struct hc_chooser *chooser, struct hc_choice choice, size_t size, uint64_t now);

/* The message has ended otherwise. */
void hc_chooser_drop(struct hc_chooser *chooser, struct hc_choice choice, size_t size);

#endif
