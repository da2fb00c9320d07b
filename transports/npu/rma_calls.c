/* fi_rma(3): turn each call into a struct npu_rma. */
#include "transports/npu/rma.h"

static const uint64_t read_flags =
    FI_COMPLETION | FI_MORE | FI_FENCE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_INJECT_COMPLETE;
static const uint64_t write_flags = NPU_SEND_FLAGS | FI_FENCE;

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    if (hc_unlikely(flags & ~read_flags))
        return -FI_EBADFLAGS;
    struct npu_rma op = {
        .op = NPU_RMA_READ,
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .iov_count = (unsigned)msg->iov_count,
        .targets = msg->rma_iov,
        .target_count = (unsigned)msg->rma_iov_count,
        .flags = flags | FI_RMA | FI_READ,
        .context = msg->context,
    };
    return npu_rma_post(npu_ep_of(fid), msg->addr, &op);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
    struct fi_rma_iov target = {.addr = addr, .key = key};
    if (count > NPU_IOV_LIMIT || !npu_iov_len(iov, count, &target.len))
        return -FI_EINVAL;
    struct npu_rma op = {
        .op = NPU_RMA_READ,
        .iov = iov,
        .desc = desc,
        .iov_count = (unsigned)count,
        .targets = &target,
        .target_count = 1,
        .flags = (npu_port_of(fid)->tx_flags & read_flags) | FI_RMA | FI_READ,
        .context = context,
    };
    return npu_rma_post(npu_ep_of(fid), src_addr, &op);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                        uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};
    return rma_readv(fid, &iov, &desc, 1, src_addr, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    if (hc_unlikely(flags & ~write_flags))
        return -FI_EBADFLAGS;
    struct npu_rma op = {
        .op = NPU_RMA_WRITE,
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .iov_count = (unsigned)msg->iov_count,
        .targets = msg->rma_iov,
        .target_count = (unsigned)msg->rma_iov_count,
        .data = msg->data,
        .flags = flags | FI_RMA | FI_WRITE,
        .context = msg->context,
    };
    return npu_rma_post(npu_ep_of(fid), msg->addr, &op);
}

/* Everything but writemsg: one range at the target. */
static ssize_t write_range(struct npu_ep *ep, const struct iovec *iov, void **desc, size_t count,
                           fi_addr_t dest, uint64_t addr, uint64_t key, struct npu_rma *op)
{
    struct fi_rma_iov target = {.addr = addr, .key = key};
    if (count > NPU_IOV_LIMIT || !npu_iov_len(iov, count, &target.len))
        return -FI_EINVAL;
    op->op = NPU_RMA_WRITE;
    op->iov = iov;
    op->desc = desc;
    op->iov_count = (unsigned)count;
    op->targets = &target;
    op->target_count = 1;
    op->flags |= FI_RMA | FI_WRITE;
    return npu_rma_post(ep, dest, op);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    struct npu_rma op = {.flags = npu_port_of(fid)->tx_flags, .context = context};
    return write_range(npu_ep_of(fid), iov, desc, count, dest_addr, addr, key, &op);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
                         uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    return rma_writev(fid, &iov, &desc, 1, dest_addr, addr, key, context);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
                             fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_rma op = {
        .data = data, .flags = npu_port_of(fid)->tx_flags | FI_REMOTE_CQ_DATA, .context = context};
    return write_range(npu_ep_of(fid), &iov, &desc, 1, dest_addr, addr, key, &op);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr,
                          uint64_t key)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_rma op = {.flags = FI_INJECT | NPU_SILENT};
    return write_range(npu_ep_of(fid), &iov, NULL, 1, dest_addr, addr, key, &op);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_rma op = {.data = data, .flags = FI_INJECT | FI_REMOTE_CQ_DATA | NPU_SILENT};
    return write_range(npu_ep_of(fid), &iov, NULL, 1, dest_addr, addr, key, &op);
}

struct fi_ops_rma npu_rma_ops = {
    .size = sizeof(npu_rma_ops),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};
