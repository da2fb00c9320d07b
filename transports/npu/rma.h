/*
 * Operations on a peer's memory: RMA and atomics. The initiator describes one as a struct npu_rma and hands
 * it to the peer's path. It travels as a request (struct npu_rma_head and what follows it); the target checks
 * keys, rights and bounds, and moves the bytes or computes. Functions that take an endpoint expect its lock
 * held unless they say otherwise. Errors are positive fabric errnos where an `err` is given, which is what
 * the initiator's completion tells.
 */
#ifndef NPU_RMA_H
#define NPU_RMA_H

#include "transports/npu/buf.h"
#include "transports/npu/dma.h"
#include "transports/npu/ep.h"

enum {
    NPU_RMA_INLINE_MAX = NPU_INJECT_MAX, /* longest write that travels with its request */
    NPU_ATOMIC_MAX = 4096,               /* bytes of an atomic operation's operand */
};

/* What to do at the target; part of the protocol. */
enum npu_rma_op {
    NPU_RMA_WRITE = 1,
    NPU_RMA_READ = 2,
    NPU_RMA_ATOMIC = 3,  /* no result */
    NPU_RMA_FETCH = 4,   /* the old values come back */
    NPU_RMA_COMPARE = 5, /* the same, with operands to compare with */
};

/* An operation as the caller described it; valid during the call only. */
struct npu_rma {
    enum npu_rma_op op;
    unsigned iov_count, target_count, compare_count, result_count;
    const struct iovec *iov; /* the source; for a read, where it goes */
    void **desc;
    const struct fi_rma_iov *targets;
    size_t len;    /* bytes at the target; filled in by npu_rma_post() */
    uint64_t data; /* remote CQ data */
    bool apart;    /* the target cannot reach this process's memory: the request does not name it */
    const struct npu_ipc_range *ipc; /* where the buffer is on a device, for the target's copy; NULL: not
                                        told. By the path */
    uint64_t flags; /* FI_RMA or FI_ATOMIC with FI_READ or FI_WRITE; FI_REMOTE_CQ_DATA, FI_INJECT, FI_FENCE,
                       FI_COMPLETION, NPU_SILENT */
    void *context;
    /* Atomics. */
    enum fi_op atomic_op;
    enum fi_datatype datatype;
    const struct iovec *compare, *result;
    void **compare_desc, **result_desc;
};

/* ---- The request ---- */

enum npu_rma_flag {
    NPU_RMA_INLINE = 1, /* operands follow: len bytes, for a comparison twice as many */
    NPU_RMA_IPC = 2,    /* struct npu_ipc_range follows the ranges: the initiator's buffer is on a device */
};

/* Followed by `targets` struct npu_rma_target, `locals` struct npu_rma_local, and what the flags say. */
struct npu_rma_head {
    uint8_t op; /* enum npu_rma_op */
    uint8_t atomic_op, datatype;
    uint8_t targets, locals;
    uint8_t flags; /* enum npu_rma_flag */
    uint8_t unused[2];
    uint64_t len;
};
_Static_assert(sizeof(struct npu_rma_head) == 16, "head of a request");

struct npu_rma_target {
    uint64_t addr, len, key;
};
_Static_assert(sizeof(struct npu_rma_target) == 24, "a range at the target");

/* Memory of the initiator, in its own addresses: for targets that can copy across processes. */
struct npu_rma_local {
    uint64_t addr, len;
};
_Static_assert(sizeof(struct npu_rma_local) == 16, "a range at the initiator");

/* A request as it was received and checked for its form. */
struct npu_rma_request {
    struct npu_rma_head head;
    struct npu_rma_target targets[NPU_IOV_LIMIT];
    struct npu_rma_local locals[NPU_IOV_LIMIT];
    struct npu_ipc_range ipc;      /* NPU_RMA_IPC */
    const unsigned char *operands; /* NPU_RMA_INLINE; in the received bytes, maybe unaligned */
};

/* Bytes of the request for an operation. */
size_t npu_rma_size(const struct npu_rma *op);
/* Write it. 0, or -errno when a device's memory cannot be read. */
int npu_rma_build(const struct npu_rma *op, void *bytes);
/* Read one of so many bytes; false: malformed. */
bool npu_rma_parse(const void *bytes, size_t len, struct npu_rma_request *request);

/* ---- The target ---- */

/* A range of registered memory that is being used; its registration cannot be closed meanwhile. */
struct npu_target {
    struct npu_mr *mr;
    struct npu_buf buf;
};

/* Look up, check, and hold one range; 0 or an err. need: FI_REMOTE_READ, FI_REMOTE_WRITE. */
int npu_target_hold(struct npu_ep *ep, const struct npu_rma_target *range, uint64_t need,
                    struct npu_target *target);
void npu_target_drop(struct npu_target *target);
/* Whether the request may do what it asks for with all its ranges; 0 or an err. */
int npu_rma_check(struct npu_ep *ep, const struct npu_rma_request *request);
/* The range that byte `at` of the operation belongs to; *offset: where in it. */
const struct npu_rma_target *npu_rma_at(const struct npu_rma_request *request, uint64_t at, uint64_t *offset);
/* Copy n bytes from `at` on between the target's memory and host memory; 0 or an err. */
int npu_rma_copy_in(struct npu_ep *ep, const struct npu_rma_request *request, uint64_t at, const void *from,
                    size_t n);
int npu_rma_copy_out(struct npu_ep *ep, const struct npu_rma_request *request, uint64_t at, void *to,
                     size_t n);
/* Execute a checked atomic operation; result: head.len bytes, or NULL. 0 or an err. */
int npu_rma_compute(struct npu_ep *ep, const struct npu_rma_request *request, void *result);
/* A served request has come to its end: count it, and report remote CQ data (data: NULL is none). */
void npu_rma_served(struct npu_ep *ep, const struct npu_rma_request *request, const uint64_t *data);

static inline bool npu_rma_is_read(const struct npu_rma_request *request)
{
    return request->head.op == NPU_RMA_READ;
}

static inline bool npu_rma_is_atomic(const struct npu_rma_request *request)
{
    return request->head.op >= NPU_RMA_ATOMIC;
}

/* Whether the initiator gets bytes back. */
static inline bool npu_rma_returns(const struct npu_rma_request *request)
{
    return request->head.op == NPU_RMA_READ || request->head.op >= NPU_RMA_FETCH;
}

/* ---- The initiator ---- */

/* Post an operation to an address; what fi_read and its kin return. Takes the lock. */
ssize_t npu_rma_post(struct npu_ep *ep, fi_addr_t dest, struct npu_rma *op);
/* An operation from the pool for it: flags, context, and the buffer that the path moves (source of a write,
 * else where the answer goes; at = 0, end = bytes awaited). 0 or -errno. */
int npu_rma_make(struct npu_peer *peer, const struct npu_rma *op, struct npu_tx **tx);

/* ---- Arithmetic (atomic_ops.c) ---- */

/* Bytes of a datatype, 0 if it is not offered. */
size_t npu_atomic_size(unsigned datatype);
/* Whether the target can do it. */
bool npu_atomic_offered(enum npu_rma_op kind, unsigned op, unsigned datatype);
/*
 * target = op(target, operand[, compare]), element by element, each atomic towards other threads and
 * processes. operand, compare: unused where the operation has none; result: old values, or NULL; these three
 * need no alignment. target: aligned to the datatype.
 */
void npu_atomic_apply(unsigned op, unsigned datatype, void *target, const void *operand, const void *compare,
                      void *result, size_t count);

extern struct fi_ops_rma npu_rma_ops;
extern struct fi_ops_atomic npu_atomic_ops;
/* fi_query_atomic(3). */
int npu_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags);

#endif
