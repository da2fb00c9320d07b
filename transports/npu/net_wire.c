/* What may come from another host: checks of form. What depends on a connection's state is checked there. */
#include "transports/npu/net.h"

#include <string.h>

static bool payload_ok(const struct npu_net_head *head)
{
    switch (head->type) {
    case NPU_NET_SEND:
        return head->bytes == head->len && head->len <= NPU_NET_EAGER;
    case NPU_NET_DATA:
    case NPU_NET_RMA:
    case NPU_NET_READ:
        return head->bytes > 0;
    case NPU_NET_ACK:
        return head->len <= INT32_MAX && head->bytes == 0;
    case NPU_NET_DONE:
        return head->len <= INT32_MAX;
    default:
        return head->bytes == 0;
    }
}

static bool type_ok(unsigned type, bool outgoing)
{
    if (outgoing)
        return type >= NPU_NET_CREDIT && type <= NPU_NET_DONE;
    return type >= NPU_NET_SEND && type <= NPU_NET_CREDIT;
}

bool npu_net_head_ok(const void *bytes, size_t len, bool outgoing)
{
    const unsigned known = NPU_NET_TAGGED | NPU_NET_CQ_DATA | NPU_NET_ACK_ARRIVED | NPU_NET_ACK_DELIVERED;
    struct npu_net_head head;
    if (len < sizeof(head))
        return false;
    memcpy(&head, bytes, sizeof(head));
    return type_ok(head.type, outgoing) && !(head.flags & ~known) && head.bytes == len - sizeof(head) &&
           head.window <= NPU_NET_WINDOW && head.len <= NPU_MAX_MSG_SIZE && payload_ok(&head);
}

bool npu_net_hello_ok(const void *bytes, size_t len)
{
    struct npu_net_hello hello;
    struct npu_addr addr;
    if (len < sizeof(hello)) /* some providers give back more than was sent */
        return false;
    memcpy(&hello, bytes, sizeof(hello));
    return hello.magic == NPU_NET_MAGIC && hello.version == NPU_NET_VERSION && hello.slots == NPU_NET_SLOTS &&
           npu_addr_copy(&hello.addr, sizeof(hello.addr), &addr) == 0 && npu_addr_port(&addr) != 0;
}
