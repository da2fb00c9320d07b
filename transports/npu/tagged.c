/* fi_tagged(3): turn each call into a struct npu_send or npu_recv. */
#include "transports/npu/ep.h"

static const uint64_t recv_flags =
    FI_COMPLETION | FI_MORE | FI_TRANSMIT_COMPLETE | FI_PEEK | FI_CLAIM | FI_DISCARD;

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    if (hc_unlikely(flags & ~recv_flags))
        return -FI_EBADFLAGS;
    struct npu_recv recv = {
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .iov_count = msg->iov_count,
        .addr = msg->addr,
        .tag = msg->tag,
        .ignore = msg->ignore,
        .flags = flags | FI_TAGGED,
        .context = msg->context,
    };
    return npu_recv_post(npu_ep_of(fid), &recv);
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    struct npu_recv recv = {
        .iov = iov,
        .desc = desc,
        .iov_count = count,
        .addr = src_addr,
        .tag = tag,
        .ignore = ignore,
        .flags = (npu_port_of(fid)->rx_flags & ~FI_MULTI_RECV) | FI_TAGGED,
        .context = context,
    };
    return npu_recv_post(npu_ep_of(fid), &recv);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};
    return tagged_recvv(fid, &iov, &desc, 1, src_addr, tag, ignore, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    if (hc_unlikely(flags & ~NPU_SEND_FLAGS))
        return -FI_EBADFLAGS;
    struct npu_send send = {
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .iov_count = msg->iov_count,
        .tag = msg->tag,
        .data = msg->data,
        .flags = flags | FI_TAGGED,
        .context = msg->context,
    };
    return npu_send_post(npu_ep_of(fid), msg->addr, &send);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t dest_addr, uint64_t tag, void *context)
{
    struct npu_send send = {
        .iov = iov,
        .desc = desc,
        .iov_count = count,
        .tag = tag,
        .flags = npu_port_of(fid)->tx_flags | FI_TAGGED,
        .context = context,
    };
    return npu_send_post(npu_ep_of(fid), dest_addr, &send);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
                           uint64_t tag, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    return tagged_sendv(fid, &iov, &desc, 1, dest_addr, tag, context);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
                               fi_addr_t dest_addr, uint64_t tag, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_send send = {
        .iov = &iov,
        .desc = &desc,
        .iov_count = 1,
        .tag = tag,
        .data = data,
        .flags = npu_port_of(fid)->tx_flags | FI_TAGGED | FI_REMOTE_CQ_DATA,
        .context = context,
    };
    return npu_send_post(npu_ep_of(fid), dest_addr, &send);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr,
                             uint64_t tag)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_send send = {
        .iov = &iov,
        .iov_count = 1,
        .tag = tag,
        .flags = FI_TAGGED | FI_INJECT | NPU_SILENT,
    };
    return npu_send_post(npu_ep_of(fid), dest_addr, &send);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest_addr, uint64_t tag)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_send send = {
        .iov = &iov,
        .iov_count = 1,
        .tag = tag,
        .data = data,
        .flags = FI_TAGGED | FI_INJECT | FI_REMOTE_CQ_DATA | NPU_SILENT,
    };
    return npu_send_post(npu_ep_of(fid), dest_addr, &send);
}

struct fi_ops_tagged npu_tagged_ops = {
    .size = sizeof(npu_tagged_ops),
    .recv = tagged_recv,
    .recvv = tagged_recvv,
    .recvmsg = tagged_recvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};
