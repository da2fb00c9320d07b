/*
 * The transfer engine of a context: slots, queues, the threads that serve them. Made at the first submission.
 *
 * Who copies: a submission copies small pieces of host memory itself; it hands what the device's engines
 * reach to them (transfer_device.c). All else is cut into chunks that the copy thread and every thread that
 * waits take, one after the other. Who looks after the device: whoever waits, the copy thread while pieces of
 * staging memory are under way, the callback thread while transfers with a callback are.
 *
 * Locking: the engine's lock guards all of it. It comes after the context's lock and is never held while that
 * one is taken; it is not held while memory is copied or a callback runs. Functions expect it held unless
 * they say otherwise.
 */
#ifndef HC_TRANSFER_H
#define HC_TRANSFER_H

#include "runtime/core/core.h"
#include "runtime/core/staging.h"

enum {
    HC_TRANSFER_SLOT_BITS = 24, /* of an id: slot + 1; above it the generation */
    HC_TRANSFER_FAILURES = 1024,
    HC_TRANSFER_DETAIL = 224,
};

/* A transfer from submission until its callback has returned. */
struct hc_transfer {
    struct hc_list live;  /* in engine->live until complete */
    struct hc_list queue; /* in one of the engine's queues, or linked to itself */
    uint64_t id;          /* 0: the slot is free */
    const uint8_t *src;
    uint8_t *dst;
    size_t size;
    size_t issued;   /* bytes that somebody copies, or has copied */
    size_t finished; /* bytes copied */
    hcomm_transfer_callback_t callback;
    void *user_data;
    hcomm_status_t status;
    bool complete;
    bool on_device; /* the device's engines take part: it must be looked after */
    bool to_device; /* on_device: direction, for staging */
    struct hc_transfer *next_free;
    uint64_t generation; /* of the newest id of this slot */
    uint64_t forgotten;  /* newest generation whose failure is not remembered any more */
    unsigned failures;   /* remembered ones */
};

/* Why a transfer failed. */
struct hc_transfer_failure {
    uint64_t id; /* 0: unused */
    hcomm_status_t status;
    char detail[HC_TRANSFER_DETAIL];
};

struct hc_doomed; /* mem.h */
struct hc_transfer_device;

struct hc_transfers {
    struct hc_lock lock;
    struct hcomm_context *context;

    struct hc_transfer *slots;
    unsigned depth, num_slots, fresh; /* slots from `fresh` on were never used */
    struct hc_transfer *free_slot;
    unsigned used;       /* slots in use or reserved */
    struct hc_list live; /* transfers whose data is not in place */

    struct hc_list host_queue;   /* to be copied by threads: chunks are left to take */
    struct hc_list staged_queue; /* to pass through staging memory: the same */
    struct hc_list callbacks;    /* complete, to be called */
    struct hc_transfer_failure *failures;
    unsigned next_failure;

    struct hc_list doomed;   /* hc_doomed: memory that was freed while transfers use it */
    struct hc_list released; /* the same, not used any more: to be freed; taken off with both locks held */

    uint64_t activity; /* clock of the last movement */
    bool closing;      /* no more submissions */
    bool stop;         /* threads end */

    /* sleeping: futex words that change when there is something for the sleepers */
    atomic_uint done_word, work_word, call_word;
    unsigned done_sleepers;
    bool done_woken; /* nobody went to sleep since the last wake-up */
    bool copier_sleeps, caller_sleeps;

    pthread_t copier, caller;
    bool copier_runs, caller_runs;
    bool in_callback;       /* a callback runs now */
    bool callback_credit;   /* and may submit one transfer beyond the depth */
    unsigned called_device; /* transfers on the device that have a callback */

    struct hc_transfer_device *device; /* NULL: host only, or not needed yet */
};

/* ---- transfer_engine.c ---- */

/* context->transfers, made at first need. Takes the context's lock; no lock held. */
hcomm_status_t hc_transfers_get(struct hcomm_context *context, struct hc_transfers **engine) HC_MUST_CHECK;

/*
 * The end: no more submissions, what is under way is waited for, threads end. HCOMM_ERR_TIMEOUT when
 * something does not move for timeout_ms. Without an engine: nothing. No lock held.
 */
hcomm_status_t hc_transfers_finish(struct hcomm_context *context) HC_MUST_CHECK;
/* Whether the calling thread is running a callback of this context. No lock held. */
bool hc_transfers_is_callback_thread(struct hcomm_context *context);

/* The same, lock held. */
bool hc_transfers_in_callback(const struct hc_transfers *engine);

/* How many transfers may be started now; a callback may start one more than others. */
unsigned hc_transfer_room(const struct hc_transfers *engine);
/* Take room for so many, not more than there is. */
void hc_transfer_reserve(struct hc_transfers *engine, unsigned count);
/* Give room back that was reserved and not used. */
void hc_transfer_unreserve(struct hc_transfers *engine, unsigned count);
/* A slot, with a new id, in `live`; room for it was reserved. */
struct hc_transfer *hc_transfer_take(struct hc_transfers *engine);
/* The transfer with the id if it is not complete, else NULL with its outcome in *status. */
struct hc_transfer *hc_transfer_find(struct hc_transfers *engine, uint64_t id, hcomm_status_t *status);

/* Call the callback of the oldest complete transfer that has one; false when there is none. The lock is
 * released and retaken. Callback thread only. */
bool hc_transfer_call_next(struct hc_transfers *engine);

/*
 * Memory is to be freed: true when transfers use it, then it is doomed, and block->release() is called when
 * they are complete. The context's lock is held, the engine's is not.
 */
bool hc_transfers_defer_free(struct hcomm_context *context, struct hc_doomed *block);
/* Whether memory that starts at ptr is doomed, and not released yet. The locks as above. */
bool hc_transfers_is_doomed(struct hcomm_context *context, const void *ptr);
/* Whether transfers use the range. The context's lock is held, the engine's is not. */
bool hc_transfers_use(struct hcomm_context *context, const void *ptr, size_t size);
/* Move transfers along, if there are any. No lock held. */
void hc_transfers_progress(struct hcomm_context *context);
/* Free the memory whose transfers are complete; false when there is none. No lock held. */
bool hc_transfers_release_freed(struct hcomm_context *context);
/* The same with the engine's lock held, which is released and retaken when there is one. */
bool hc_transfers_release(struct hc_transfers *engine);
/* Whether the range touches memory that was freed by its owner. */
bool hc_transfers_is_freed(const struct hc_transfers *engine, const void *ptr, size_t size);

/* All its bytes are in place, or it failed (the thread's error detail tells why): complete it. */
void hc_transfer_complete(struct hc_transfers *engine, struct hc_transfer *transfer, hcomm_status_t status);
/* So many bytes more are in place; completes it when all are. A status that is an error counts once. */
void hc_transfer_advance(struct hc_transfers *engine, struct hc_transfer *transfer, size_t bytes,
                         hcomm_status_t status);

/* ---- transfer_threads.c ---- */

/* Do a piece of what there is to do; false when there is nothing. The lock is released and retaken. */
bool hc_transfers_help(struct hc_transfers *engine);
/* Help, then sleep, until done(engine, arg). HCOMM_ERR_TIMEOUT when nothing moves for timeout_ms. */
hcomm_status_t hc_transfers_wait(struct hc_transfers *engine,
                                 bool (*done)(struct hc_transfers *engine, const void *arg),
                                 const void *arg) HC_MUST_CHECK;
/* There may be room, or something is complete: wake who waits. */
void hc_transfers_wake_waiters(struct hc_transfers *engine);
void hc_transfers_wake_copier(struct hc_transfers *engine);
void hc_transfers_wake_caller(struct hc_transfers *engine);
/* Start them if they do not run. HCOMM_ERR_LIMIT. */
hcomm_status_t hc_transfers_need_copier(struct hc_transfers *engine) HC_MUST_CHECK;
hcomm_status_t hc_transfers_need_caller(struct hc_transfers *engine) HC_MUST_CHECK;
/* End both. False: a callback has not returned by the deadline; the engine must stay. No lock held. */
bool hc_transfers_join(struct hc_transfers *engine, uint64_t deadline);

/* ---- transfer_device.c: what has a device on one side, or both ---- */

/* Bring engine->device up: streams, staging memory. */
hcomm_status_t hc_transfer_device_create(struct hc_transfers *engine) HC_MUST_CHECK;
void hc_transfer_device_destroy(struct hc_transfer_device *device);

/* Where both sides of a transfer are; an hc_place each. */
struct hc_transfer_places {
    int src, dst;
};

/* Whether memory that the device's engines do not reach takes part: then the copy thread is needed. */
bool hc_transfer_device_stages(struct hc_transfer_places places);
/* Queue a transfer with device memory on a side: to the device's engines, or for staging. Failures complete
 * it. */
void hc_transfer_device_start(struct hc_transfers *engine, struct hc_transfer *transfer,
                              struct hc_transfer_places places);
/* What was started becomes visible to polling: to be called after each group of starts. */
void hc_transfer_device_flush(struct hc_transfers *engine);
/* Take in what the device has completed; how much that was. */
unsigned hc_transfer_device_poll(struct hc_transfers *engine);
/* Whether the device has something of ours under way. */
bool hc_transfer_device_busy(const struct hc_transfers *engine);
/* Pass a piece through staging memory, one way or the other; false: nothing to do now. Releases and retakes
 * the lock. */
bool hc_transfer_device_stage(struct hc_transfers *engine);
/* Whether threads must look after pieces of staging memory. */
bool hc_transfer_device_staging(const struct hc_transfers *engine);

#endif
