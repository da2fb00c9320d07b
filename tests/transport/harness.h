/*
 * Harness of the transport conformance suite: every case runs in fresh processes that each open one iface of
 * the transport under test, exchange addresses through a shared page and connect to each other.
 */
#ifndef CF_HARNESS_H
#define CF_HARNESS_H

#include "transports/transport.h"

#include <stdatomic.h>
#include <sys/types.h>

enum {
    CF_PROCS = 4,
    CF_ADDR_MAX = 1024,
    CF_SCRATCH = 4096,
    CF_FLAGS = 16,
    CF_WAIT_MS = 60000, /* until a condition that must come true counts as a hang */
    CF_CASE_MS = 300000, /* until a whole case counts as hung */
};

enum cf_kind { CF_SHORT, CF_BCOPY, CF_ZCOPY, CF_KINDS };

/* What all processes of a case share. */
struct cf_shared {
    atomic_int arrived, phase;  /* barrier */
    atomic_uint dead;           /* bit mask of ranks that were killed on purpose */
    atomic_int flags[CF_FLAGS]; /* the case's */
    atomic_int pids[CF_PROCS];
    size_t addr_len[CF_PROCS];
    unsigned char addr[CF_PROCS][CF_ADDR_MAX];
    unsigned char scratch[CF_PROCS][CF_SCRATCH];
    char failure[CF_PROCS][512]; /* why the process gave up */
};

/* Precedes the payload of every message; the payload is a function of from, seq and position. */
struct cf_header {
    uint32_t from, seq;
    uint64_t size;
};

/* A message that is arriving in parts. */
struct cf_part {
    unsigned char *data; /* what has come, once it is taken; NULL: none, or not taken yet */
    size_t ready, len, taken;
};

struct cf {
    int rank, size; /* size 1: the process is its own peer */
    const struct hc_resource *resource;
    const struct hc_settings *settings;
    struct hc_counters counters;
    struct cf_shared *shared;
    struct hc_iface *iface;
    struct hc_ep *ep[CF_PROCS];
    bool loose; /* gaps in the sequence are allowed: a sender is being killed */
    uint32_t next_seq_in[CF_PROCS], next_seq_out[CF_PROCS];
    uint64_t received[CF_PROCS];
    struct cf_part part[CF_PROCS];
    uint64_t parts;                                          /* calls that told of an incomplete message */
    unsigned failed_eps;                                     /* bit mask of ranks whose ep failed */
    void (*on_message)(struct cf *cf, int from, uint8_t id); /* after the checks; may send */
};

struct cf_case {
    const char *name;
    int procs; /* at most; self always runs with one */
    unsigned caps;
    bool needs_peer; /* makes no sense with oneself */
    void (*run)(struct cf *cf);
};

/* The groups of cases, each ended by an entry without name. */
extern const struct cf_case cf_cases_am[], cf_cases_rma[], cf_cases_sleep[], cf_cases_life[], cf_cases_kill[];

/* End this process: the case has failed. */
void cf_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
#define CF_CHECK(x, ...) ((x) ? (void)0 : cf_fail(__FILE__, __LINE__, __VA_ARGS__))

/* Open the iface and connect to all; and the reverse. All processes of the case call it. */
void cf_open(struct cf *cf);
void cf_close(struct cf *cf);
void cf_open_iface(struct cf *cf);
void cf_connect(struct cf *cf, int peer);
void cf_disconnect(struct cf *cf, int peer);

/* Progress until *counter reaches value; fails the case when that takes too long. */
void cf_progress_until(struct cf *cf, const uint64_t *counter, uint64_t value, const char *what);
/* Progress once, giving way to the other processes when nothing happened. */
void cf_progress(struct cf *cf);
/* Wait for all living processes of the case, progressing or, for a receiver that must look busy, not. */
void cf_barrier(struct cf *cf);
void cf_barrier_silent(struct cf *cf);

/* Peers in a ring; oneself when alone. */
int cf_next(const struct cf *cf);
int cf_prev(const struct cf *cf);

size_t cf_max(const struct cf *cf, enum cf_kind kind); /* payload; 0 when not offered */
/* Try to send one message; HCOMM_OK when it was accepted. */
hcomm_status_t cf_try_send(struct cf *cf, int dest, enum cf_kind kind, size_t size);
/* Send, progressing for as long as there is no room. */
void cf_send(struct cf *cf, int dest, enum cf_kind kind, size_t size);
void cf_flush(struct cf *cf, int dest);

/* An operation that the harness waits for. */
struct cf_op {
    struct hc_op base;
    uint64_t done;
    hcomm_status_t status;
};
void cf_op_init(struct cf_op *op);
/* Wait for the operation; its outcome. */
hcomm_status_t cf_op_wait(struct cf *cf, struct cf_op *op, hcomm_status_t started);

uint32_t cf_random(uint32_t *state); /* xorshift by G. Marsaglia */
void cf_fill(unsigned char *data, size_t size, uint32_t from, uint32_t seq);
/* Position of the first wrong byte, or size. */
size_t cf_verify(const unsigned char *data, size_t size, uint32_t from, uint32_t seq);

#endif
