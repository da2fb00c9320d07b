/* fi_msg(3): turn each call into a struct npu_send or npu_recv. */
#include "transports/npu/ep.h"

static const uint64_t recv_flags = FI_COMPLETION | FI_MORE | FI_MULTI_RECV | FI_TRANSMIT_COMPLETE;

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    if (hc_unlikely(flags & ~recv_flags))
        return -FI_EBADFLAGS;
    struct npu_recv recv = {
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .iov_count = msg->iov_count,
        .addr = msg->addr,
        .flags = flags | FI_MSG,
        .context = msg->context,
    };
    return npu_recv_post(npu_ep_of(fid), &recv);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t src_addr, void *context)
{
    struct npu_recv recv = {
        .iov = iov,
        .desc = desc,
        .iov_count = count,
        .addr = src_addr,
        .flags = npu_port_of(fid)->rx_flags | FI_MSG,
        .context = context,
    };
    return npu_recv_post(npu_ep_of(fid), &recv);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src_addr,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};
    return msg_recvv(fid, &iov, &desc, 1, src_addr, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    if (hc_unlikely(flags & ~NPU_SEND_FLAGS))
        return -FI_EBADFLAGS;
    struct npu_send send = {
        .iov = msg->msg_iov,
        .desc = msg->desc,
        .iov_count = msg->iov_count,
        .data = msg->data,
        .flags = flags | FI_MSG,
        .context = msg->context,
    };
    return npu_send_post(npu_ep_of(fid), msg->addr, &send);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t dest_addr, void *context)
{
    struct npu_send send = {
        .iov = iov,
        .desc = desc,
        .iov_count = count,
        .flags = npu_port_of(fid)->tx_flags | FI_MSG,
        .context = context,
    };
    return npu_send_post(npu_ep_of(fid), dest_addr, &send);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
                        void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    return msg_sendv(fid, &iov, &desc, 1, dest_addr, context);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc, uint64_t data,
                            fi_addr_t dest_addr, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_send send = {
        .iov = &iov,
        .desc = &desc,
        .iov_count = 1,
        .data = data,
        .flags = npu_port_of(fid)->tx_flags | FI_MSG | FI_REMOTE_CQ_DATA,
        .context = context,
    };
    return npu_send_post(npu_ep_of(fid), dest_addr, &send);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest_addr)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_send send = {
        .iov = &iov,
        .iov_count = 1,
        .flags = FI_MSG | FI_INJECT | NPU_SILENT,
    };
    return npu_send_post(npu_ep_of(fid), dest_addr, &send);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest_addr)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct npu_send send = {
        .iov = &iov,
        .iov_count = 1,
        .data = data,
        .flags = FI_MSG | FI_INJECT | FI_REMOTE_CQ_DATA | NPU_SILENT,
    };
    return npu_send_post(npu_ep_of(fid), dest_addr, &send);
}

struct fi_ops_msg npu_msg_ops = {
    .size = sizeof(npu_msg_ops),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};
