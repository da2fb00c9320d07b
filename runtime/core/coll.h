/*
 * Collective operations the runtime itself needs. They travel in a communicator's internal message space
 * (HC_COMM_INTERNAL), so that no receive of the application can match them. Lock held; it is released while
 * waiting.
 */
#ifndef HC_COLL_H
#define HC_COLL_H

#include "runtime/core/core.h"

/* Those who take part: all members of a communicator or some of them, the same on every one. */
struct hc_coll_group {
    struct hcomm_comm *comm;
    const int *ranks; /* of comm, in the group's order; NULL: all */
    int size;         /* of the group */
    int index;        /* own position in it */
    int tag;          /* of this operation's messages; one that no other operation under way uses */
};

/*
 * Give every participant everybody's block: blocks (size * block_size bytes) holds them in the group's order.
 * ceil(log2(size)) rounds: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient Algorithms for
 * All-to-All Communications in Multiport Message-Passing Systems", IEEE TPDS 8(11), 1997.
 * Blocks come from peers: the caller checks them. Errors: HCOMM_ERR_TIMEOUT, HCOMM_ERR_PEER_LOST,
 * HCOMM_ERR_PROTOCOL (a participant takes part in something else) naming the rank, HCOMM_ERR_NO_MEMORY.
 */
hcomm_status_t hc_coll_allgather(const struct hc_coll_group *group, const void *block, size_t block_size,
                                 void *blocks) HC_MUST_CHECK;

/* Of round `round` (from 0), for position `index` of `size`: whom to send to, from whom to receive, how many
 * blocks. */
struct hc_coll_step {
    int to, from;
    int count;
};
struct hc_coll_step hc_coll_allgather_step(int index, int size, unsigned round);
/* Rounds needed so that everybody heard from everybody: ceil(log2(size)). */
unsigned hc_coll_rounds(int size);

#endif
