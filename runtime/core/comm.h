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

/*
 * Receives and probes from any source end when no member is left that could send. Until then the loss of one
 * that lives has to be noticed, which takes a connection to it; as nothing ends while it lives, one is
 * enough.
 */

/* Whether all other members are lost. Never for a communicator of one, who may still send to itself. */
bool hc_comm_is_deserted(const struct hcomm_comm *comm);
/* The same, for who waits: connects to a member that is left, in place of one whose end was noticed. */
bool hc_comm_check_deserted(const struct hcomm_comm *comm);
/* Another member that is not known to be lost; NULL: there is none, or no memory. */
struct hc_peer *hc_comm_next_alive(const struct hcomm_comm *comm);
/* The lost members' ranks, as far as there is room: "1, 5"; returns text. */
const char *hc_comm_list_lost(const struct hcomm_comm *comm, char *text, size_t size);
/* Set the error detail to who is lost, for `what` ("receive", "probe"); HCOMM_ERR_PEER_LOST. */
hcomm_status_t hc_comm_explain_deserted(const struct hcomm_comm *comm, const char *what, int tag);

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
