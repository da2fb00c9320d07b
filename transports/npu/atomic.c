/* fi_atomic(3): turn each call into a struct npu_rma, and tell what is offered. */
#include "transports/npu/rma.h"

static const uint64_t atomic_flags = FI_COMPLETION | FI_MORE | FI_FENCE | FI_INJECT | FI_INJECT_COMPLETE |
                                     FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

/* ---- From elements to bytes ---- */

/* One set of pieces of an operation, in bytes. */
struct pieces {
    struct iovec iov[NPU_IOV_LIMIT];
};

static int to_iov(const struct fi_ioc *ioc, size_t count, enum fi_datatype datatype, struct pieces *pieces)
{
    size_t size = npu_atomic_size(datatype);
    if (count > NPU_IOV_LIMIT)
        return -FI_EINVAL;
    for (size_t i = 0; i < count; i++) {
        if (ioc[i].count > NPU_ATOMIC_MAX / size)
            return -FI_EINVAL;
        pieces->iov[i] = (struct iovec){ioc[i].addr, ioc[i].count * size};
    }
    return 0;
}

static int to_targets(const struct fi_msg_atomic *msg, struct fi_rma_iov *targets)
{
    size_t size = npu_atomic_size(msg->datatype);
    if (msg->rma_iov_count > NPU_IOV_LIMIT)
        return -FI_EINVAL;
    for (size_t i = 0; i < msg->rma_iov_count; i++) {
        const struct fi_rma_ioc *ioc = &msg->rma_iov[i];
        if (ioc->count > NPU_ATOMIC_MAX / size)
            return -FI_EINVAL;
        targets[i] = (struct fi_rma_iov){.addr = ioc->addr, .len = ioc->count * size, .key = ioc->key};
    }
    return 0;
}

/* What the three kinds have beyond a struct fi_msg_atomic. */
struct extras {
    enum npu_rma_op kind;
    const struct fi_ioc *compare, *result;
    void **compare_desc, **result_desc;
    size_t compare_count, result_count;
    uint64_t flags;
};

static ssize_t post(struct npu_ep *ep, const struct fi_msg_atomic *msg, const struct extras *extras)
{
    struct pieces operand, compare, result;
    struct fi_rma_iov targets[NPU_IOV_LIMIT];
    if (!npu_atomic_offered(extras->kind, msg->op, msg->datatype))
        return -FI_EOPNOTSUPP;
    size_t operands = msg->op == FI_ATOMIC_READ ? 0 : msg->iov_count;
    int rc = to_iov(msg->msg_iov, operands, msg->datatype, &operand);
    if (rc == 0)
        rc = to_iov(extras->compare, extras->compare_count, msg->datatype, &compare);
    if (rc == 0)
        rc = to_iov(extras->result, extras->result_count, msg->datatype, &result);
    if (rc == 0)
        rc = to_targets(msg, targets);
    if (rc < 0)
        return rc;
    struct npu_rma op = {
        .op = extras->kind,
        .iov = operand.iov,
        .desc = msg->desc,
        .iov_count = (unsigned)operands,
        .targets = targets,
        .target_count = (unsigned)msg->rma_iov_count,
        .compare = compare.iov,
        .compare_desc = extras->compare_desc,
        .compare_count = (unsigned)extras->compare_count,
        .result = result.iov,
        .result_desc = extras->result_desc,
        .result_count = (unsigned)extras->result_count,
        .atomic_op = msg->op,
        .datatype = msg->datatype,
        .flags = extras->flags | FI_ATOMIC | (extras->kind == NPU_RMA_ATOMIC ? FI_WRITE : FI_READ),
        .context = msg->context,
    };
    return npu_rma_post(ep, msg->addr, &op);
}

/* ---- The calls with one range at the target ---- */

static size_t elements_of(const struct fi_ioc *ioc, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count && i < NPU_IOV_LIMIT; i++)
        sum += ioc[i].count;
    return sum;
}

static ssize_t post_range(struct fid_ep *fid, struct fi_msg_atomic *msg, uint64_t addr, uint64_t key,
                          struct extras *extras)
{
    struct fi_rma_ioc range = {.addr = addr, .key = key};
    /* FI_ATOMIC_READ has no operands. */
    range.count = msg->op == FI_ATOMIC_READ ? elements_of(extras->result, extras->result_count)
                                            : elements_of(msg->msg_iov, msg->iov_count);
    msg->rma_iov = &range;
    msg->rma_iov_count = 1;
    if (!(extras->flags & NPU_SILENT))
        extras->flags |= npu_port_of(fid)->tx_flags & atomic_flags;
    return post(npu_ep_of(fid), msg, extras);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
                             fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                             enum fi_op op, void *context)
{
    struct fi_msg_atomic msg = {.msg_iov = iov,
                                .desc = desc,
                                .iov_count = count,
                                .addr = dest_addr,
                                .datatype = datatype,
                                .op = op,
                                .context = context};
    struct extras extras = {.kind = NPU_RMA_ATOMIC};
    return post_range(fid, &msg, addr, key, &extras);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                            fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                            enum fi_op op, void *context)
{
    struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    return atomic_writev(fid, &ioc, &desc, 1, dest_addr, addr, key, datatype, op, context);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest_addr,
                             uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
    struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    struct fi_msg_atomic msg = {
        .msg_iov = &ioc, .iov_count = 1, .addr = dest_addr, .datatype = datatype, .op = op};
    struct extras extras = {.kind = NPU_RMA_ATOMIC, .flags = FI_INJECT | NPU_SILENT};
    return post_range(fid, &msg, addr, key, &extras);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
                                 struct fi_ioc *resultv, void **result_desc, size_t result_count,
                                 fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                                 enum fi_op op, void *context)
{
    struct fi_msg_atomic msg = {.msg_iov = iov,
                                .desc = desc,
                                .iov_count = count,
                                .addr = dest_addr,
                                .datatype = datatype,
                                .op = op,
                                .context = context};
    struct extras extras = {
        .kind = NPU_RMA_FETCH, .result = resultv, .result_desc = result_desc, .result_count = result_count};
    return post_range(fid, &msg, addr, key, &extras);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc, void *result,
                                void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op op, void *context)
{
    struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    struct fi_ioc to = {.addr = result, .count = count};
    return atomic_readwritev(fid, &ioc, &desc, 1, &to, &result_desc, 1, dest_addr, addr, key, datatype, op,
                             context);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc, size_t count,
                                 const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
                                 struct fi_ioc *resultv, void **result_desc, size_t result_count,
                                 fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                                 enum fi_op op, void *context)
{
    struct fi_msg_atomic msg = {.msg_iov = iov,
                                .desc = desc,
                                .iov_count = count,
                                .addr = dest_addr,
                                .datatype = datatype,
                                .op = op,
                                .context = context};
    struct extras extras = {.kind = NPU_RMA_COMPARE,
                            .compare = comparev,
                            .compare_desc = compare_desc,
                            .compare_count = compare_count,
                            .result = resultv,
                            .result_desc = result_desc,
                            .result_count = result_count};
    return post_range(fid, &msg, addr, key, &extras);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
                                const void *compare, void *compare_desc, void *result, void *result_desc,
                                fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                                enum fi_op op, void *context)
{
    struct fi_ioc ioc = {.addr = (void *)(uintptr_t)buf, .count = count};
    struct fi_ioc with = {.addr = (void *)(uintptr_t)compare, .count = count};
    struct fi_ioc to = {.addr = result, .count = count};
    return atomic_compwritev(fid, &ioc, &desc, 1, &with, &compare_desc, 1, &to, &result_desc, 1, dest_addr,
                             addr, key, datatype, op, context);
}

/* ---- The calls with messages ---- */

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg, uint64_t flags)
{
    struct extras extras = {.kind = NPU_RMA_ATOMIC, .flags = flags};
    return flags & ~atomic_flags ? -FI_EBADFLAGS : post(npu_ep_of(fid), msg, &extras);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
                                   struct fi_ioc *resultv, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
    struct extras extras = {.kind = NPU_RMA_FETCH,
                            .result = resultv,
                            .result_desc = result_desc,
                            .result_count = result_count,
                            .flags = flags};
    return flags & ~atomic_flags ? -FI_EBADFLAGS : post(npu_ep_of(fid), msg, &extras);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
                                   const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
                                   struct fi_ioc *resultv, void **result_desc, size_t result_count,
                                   uint64_t flags)
{
    struct extras extras = {.kind = NPU_RMA_COMPARE,
                            .compare = comparev,
                            .compare_desc = compare_desc,
                            .compare_count = compare_count,
                            .result = resultv,
                            .result_desc = result_desc,
                            .result_count = result_count,
                            .flags = flags};
    return flags & ~atomic_flags ? -FI_EBADFLAGS : post(npu_ep_of(fid), msg, &extras);
}

/* ---- What is offered ---- */

static int valid(enum npu_rma_op kind, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    if (!npu_atomic_offered(kind, op, datatype))
        return -FI_EOPNOTSUPP;
    if (count)
        *count = NPU_ATOMIC_MAX / npu_atomic_size(datatype);
    return 0;
}

static int atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    (void)fid;
    return valid(NPU_RMA_ATOMIC, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    (void)fid;
    return valid(NPU_RMA_FETCH, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    (void)fid;
    return valid(NPU_RMA_COMPARE, datatype, op, count);
}

int npu_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags)
{
    (void)domain;
    if ((flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) || flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) ||
        !attr)
        return -FI_EINVAL;
    enum npu_rma_op kind = NPU_RMA_ATOMIC;
    if (flags)
        kind = flags == FI_FETCH_ATOMIC ? NPU_RMA_FETCH : NPU_RMA_COMPARE;
    int rc = valid(kind, datatype, op, &attr->count);
    if (rc == 0)
        attr->size = npu_atomic_size(datatype);
    return rc;
}

struct fi_ops_atomic npu_atomic_ops = {
    .size = sizeof(npu_atomic_ops),
    .write = atomic_write,
    .writev = atomic_writev,
    .writemsg = atomic_writemsg,
    .inject = atomic_inject,
    .readwrite = atomic_readwrite,
    .readwritev = atomic_readwritev,
    .readwritemsg = atomic_readwritemsg,
    .compwrite = atomic_compwrite,
    .compwritev = atomic_compwritev,
    .compwritemsg = atomic_compwritemsg,
    .writevalid = atomic_writevalid,
    .readwritevalid = atomic_readwritevalid,
    .compwritevalid = atomic_compwritevalid,
};
