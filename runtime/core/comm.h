/* Communicators inside the core: what comm.c, comm_create.c and the barrier's files offer each other. */
#ifndef HC_COMM_H
#define HC_COMM_H

#include "runtime/core/core.h"

/* ---- comm.c ---- */

/*
 * A communicator with the given id and members, listed in the context. world (size entries, from malloc, NULL
 * for identity) is owned by the communicator on success. NULL when memory is exhausted, with an error detail.
 */
struct hcomm_comm *hc_comm_new(struct hcomm_context *context, uint64_t id, uint32_t *world, int size,
                               int rank);
/* Its rank of a world rank, -1 when that is not a member. Linear in the size. */
int hc_comm_rank_of(const struct hcomm_comm *comm, uint32_t world);

/* ---- barrier_shared.c: slots of shared words ---- */

/*
 * A slot is eight cache lines in the sync area of one process, its owner: the lowest local member of the
 * communicator that uses it. Life of a slot: the owner reserves one before it offers it in the creation of a
 * communicator; it either takes it back (nobody was told to use it), or binds it to so many local members, or
 * leaves it reserved for good (the creation failed here, but perhaps not elsewhere). Every member returns the
 * slot when it frees the communicator, by a message to the owner sent after its last access; only when all
 * have, the owner clears the words and may offer the slot again. So no late reader of an old barrier can see
 * words of a new one. New members learn of the slot through a message sent after the clearing, which orders
 * the two.
 */
enum { HC_BARRIER_LOCAL_MAX = 384, HC_BARRIER_FLAGS_MAX = 4, HC_SLOT_WORLD = 0 };

/* Reserve a slot of ours: its number, or -1 when we have no sync area or no slot is free. */
int hc_slot_reserve(struct hcomm_context *context);
/* Nobody was told of the slot: it is free again. -1 is accepted. */
void hc_slot_cancel(struct hcomm_context *context, int slot);
/* The slot is used by a communicator with so many members on this host, ourselves included. */
void hc_slot_bind(struct hcomm_context *context, int slot, int members);
/* One member will not touch the slot again. HCOMM_ERR_PROTOCOL when none can be using it. */
hcomm_status_t hc_slot_return(struct hcomm_context *context, int slot) HC_MUST_CHECK;

/* Map the communicator's words: ours, or through the ready peer that owns them. False when that cannot be. */
bool hc_barrier_map(struct hcomm_comm *comm);

/* ---- barrier.c ---- */

/*
 * Fill local, leaders and their counts and positions from the hosts of the ranks. HCOMM_ERR_NO_MEMORY or the
 * boot layer's error. Harmless when done already.
 */
hcomm_status_t hc_barrier_prepare(struct hcomm_comm *comm) HC_MUST_CHECK;
/* Take in messages that came before the communicator was made. */
void hc_barrier_claim(struct hcomm_comm *comm);
/* The communicator is being destroyed: forget its barriers, return its slot. */
void hc_barrier_comm_fini(struct hcomm_comm *comm);

#endif
