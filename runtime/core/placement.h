/*
 * Where ranks run. Who waits tells in a word of its own sync area which processor it is on, and looks at the
 * word of the one it waits for: an answer from another processor may come any moment and is worth polling
 * for; on the same processor polling only keeps the other one from answering. Words are hints: they are old
 * when their owner was moved since it last waited, and nothing but time depends on them.
 *
 * Two that keep waiting for each other on one processor take turns, at the price of a switch per message, and
 * the kernel sees two busy threads and no reason to part them. So one of them leaves: it excludes the
 * processor from those it may run on, which makes the kernel move it at once, and allows it again. Who is
 * bound to one processor is not moved. Lock held.
 */
#ifndef HC_PLACEMENT_H
#define HC_PLACEMENT_H

#include "runtime/core/core.h"

/* The word, behind the slots of barriers in a sync area. */
struct hc_presence {
    /* 1 + number of the processor on which the owner last waited; 0: has not waited long yet. Relaxed, no
     * partner. */
    HC_CACHE_ALIGNED _Atomic uint32_t processor;
};

enum hc_nearness { HC_NEARNESS_UNKNOWN, HC_APART, HC_TOGETHER };

/* Once the transports are open. */
void hc_placement_init(struct hcomm_context *context);

/* Tell where this thread is, and look where the peer was (NULL: nobody in particular). */
enum hc_nearness hc_placement_look(struct hcomm_context *context, const struct hc_peer *peer);

/* The same for a wait that has lasted for a while; may move this thread. */
void hc_placement_note(struct hcomm_context *context, const struct hc_peer *peer);

#endif
