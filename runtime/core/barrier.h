/*
 * The words through which the members of a communicator on one host meet in a barrier, and the operations on
 * them. Lock held; other processes access the words at the same time.
 *
 * Sleeping without lost wake-ups. A process that is about to sleep (1) arms its transports, so that from then
 * on ep_wake() ends its sleep, (2) sets its bit in `sleepers`, (3) looks at the words it waits for once more,
 * and sleeps only if they have not changed. A process that changes such a word (a) stores it, then (b) reads
 * `sleepers` and wakes those set. All four accesses to words are seq_cst, so they have one total order: if
 * (b) comes before (2), then (a) comes before (3) and the sleeper sees the change; else (b) sees the bit, and
 * because of (1) the wake-up is effective. Each bit is written by its owner only, who clears it when its
 * barrier is over; a superfluous wake-up is harmless.
 */
#ifndef HC_BARRIER_H
#define HC_BARRIER_H

#include "runtime/core/comm.h"

#include <stdatomic.h>

struct hc_barrier_flag_line {
    /* FLAGS: newest generation this member has entered. Stored seq_cst by it; partner: acquire or seq_cst
     * loads of the others. */
    _Atomic uint64_t generation;
    uint8_t unused[HC_CACHE_LINE - sizeof(uint64_t)];
};

struct hc_barrier_slot {
    /* GATHER: newest generation that is over here. Stored seq_cst by the releaser; partner: acquire or
     * seq_cst loads of those who wait. */
    _Atomic uint64_t released;
    uint8_t unused[HC_CACHE_LINE - sizeof(uint64_t)];
    /* Bit per local index: may be asleep. Protocol above. */
    _Atomic uint64_t sleepers[8];
    union {
        /* GATHER, by local index: low byte of the newest generation entered. Nobody enters a generation
         * before the previous one is released, so among those who gather for g only g-1 and g occur, and a
         * byte tells them apart. */
        _Atomic uint8_t arrived[HC_BARRIER_LOCAL_MAX];
        struct hc_barrier_flag_line flags[HC_BARRIER_FLAGS_MAX];
    };
};
_Static_assert(sizeof(struct hc_barrier_slot) == 8 * HC_CACHE_LINE, "a slot is eight cache lines");
_Static_assert(sizeof(struct hc_barrier_slot) * HC_BARRIER_SLOTS <= HC_SYNC_AREA, "slots fit the sync area");
_Static_assert(HC_BARRIER_LOCAL_MAX <= 8 * 64, "a bit per local member");

/* The sync area that other processes of the host reach; NULL: there is none. */
void *hc_words_own_area(const struct hcomm_context *context);

/* Which local member, from position `first` on, has not entered generation g yet; num_local when all have. */
int hc_words_missing_flag(const struct hcomm_comm *comm, uint64_t generation, int first);
int hc_words_missing_arrival(const struct hcomm_comm *comm, uint64_t generation, int first);

/* Enter generation g. */
void hc_words_set_flag(struct hcomm_comm *comm, uint64_t generation);
void hc_words_arrive(struct hcomm_comm *comm, uint64_t generation);

/* Generation g is over on this host: idempotent, several may find out at the same time. */
void hc_words_release(struct hcomm_comm *comm, uint64_t generation);
bool hc_words_released(const struct hcomm_comm *comm, uint64_t generation);

/* Step (2) of going to sleep; and no longer sleeping. */
void hc_words_announce_sleep(struct hcomm_comm *comm);
void hc_words_withdraw_sleep(struct hcomm_comm *comm);
/* Step (b), for the first `count` local members. False: some cannot be reached yet (connecting has started),
 * call again. */
bool hc_words_wake(struct hcomm_comm *comm, int count);

#endif
