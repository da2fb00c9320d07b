/* Connections to other hosts: their memory, their inner endpoint, their end. */
#include "transports/npu/device.h"
#include "transports/npu/net.h"

#include <stdlib.h>

enum {
    ALIGN = 4096,
    MEMORY = NPU_NET_SLOTS * NPU_NET_SLOT + NPU_NET_ANSWERS * NPU_NET_ANSWER,
};

/* ---- Staging memory ---- */

/* Pinned memory; NULL: there is none. The device is current on the calling thread meanwhile only. */
static void *allocate_pinned(const struct hc_acl *acl, int device)
{
    void *memory = NULL;
    int32_t before = -1;
    bool had = acl->aclrtGetDevice(&before) == HC_ACL_OK;
    if (acl->aclrtSetDevice(device) != HC_ACL_OK || acl->aclrtMallocHost(&memory, MEMORY) != HC_ACL_OK)
        memory = NULL;
    if (had && before != device)
        (void)acl->aclrtSetDevice(before);
    return memory;
}

/* Pinned where the domain has a device: its engine then copies without another copy between. */
static int allocate(struct npu_net_conn *conn)
{
    int device = conn->peer.ep->domain->device;
    const struct hc_acl *acl = device >= 0 ? npu_device_runtime() : NULL;
    if (acl)
        conn->memory = allocate_pinned(acl, device);
    conn->pinned = conn->memory != NULL;
    if (!conn->memory)
        conn->memory = aligned_alloc(ALIGN, MEMORY);
    return conn->memory ? 0 : -FI_ENOMEM;
}

static void release(struct npu_net_conn *conn)
{
    const struct hc_acl *acl = conn->pinned ? npu_device_runtime() : NULL;
    if (!acl)
        free(conn->memory);
    else if (acl->aclrtFreeHost(conn->memory) != HC_ACL_OK)
        npu_warn(EP_CTRL, "pinned memory cannot be freed: %s\n", hc_acl_detail(acl));
}

/* The first slots are for messages, the rest for answers. */
static void lay_out(struct npu_net_conn *conn)
{
    unsigned char *at = conn->memory;
    for (unsigned i = 0; i < hc_array_len(conn->slots); i++) {
        struct npu_net_slot *slot = &conn->slots[i];
        bool message = i < NPU_NET_SLOTS;
        slot->conn = conn;
        slot->bytes = at;
        slot->receives = message != conn->outgoing;
        hc_list_init(&slot->node);
        if (!slot->receives)
            hc_list_append(&conn->free, &slot->node);
        at += message ? NPU_NET_SLOT : NPU_NET_ANSWER;
    }
}

struct npu_net_conn *npu_net_conn_new(struct npu_net *net, bool outgoing)
{
    struct npu_net_conn *conn = calloc(1, sizeof(*conn));
    if (!conn)
        return NULL;
    struct hc_list *lists[] = {&conn->node,  &conn->free,    &conn->unsent,  &conn->unposted, &conn->inbox,
                               &conn->queue, &conn->sending, &conn->waiting, &conn->reading};
    for (size_t i = 0; i < hc_array_len(lists); i++)
        hc_list_init(lists[i]);
    conn->net = net;
    conn->outgoing = outgoing;
    conn->credits = outgoing ? NPU_NET_SLOTS : NPU_NET_ANSWERS;
    conn->err = FI_ECONNRESET;
    conn->peer = (struct npu_peer){
        .path = &npu_net_path, .ep = net->ep, .source = FI_ADDR_NOTAVAIL, .reported = FI_ADDR_NOTAVAIL};
    if (allocate(conn) < 0) {
        free(conn);
        return NULL;
    }
    lay_out(conn);
    return conn;
}

/* ---- The inner endpoint ---- */

static int register_memory(struct npu_net_conn *conn)
{
    struct npu_net *net = conn->net;
    if (!(net->info->domain_attr->mr_mode & FI_MR_LOCAL))
        return 0;
    return fi_mr_reg(net->domain, conn->memory, MEMORY, FI_SEND | FI_RECV, 0, net->next_key++, 0, &conn->mr,
                     NULL);
}

static void post_all(struct npu_net_conn *conn)
{
    for (unsigned i = 0; i < hc_array_len(conn->slots); i++)
        if (conn->slots[i].receives)
            npu_net_slot_post(&conn->slots[i]);
    conn->owed = 0; /* the other side knows of these */
}

int npu_net_conn_open(struct npu_net_conn *conn, struct fi_info *info)
{
    struct npu_net *net = conn->net;
    int rc = register_memory(conn);
    if (rc == 0)
        rc = fi_endpoint(net->domain, info, &conn->ep, conn);
    if (rc == 0)
        rc = fi_ep_bind(conn->ep, &net->eq->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(conn->ep, &net->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_enable(conn->ep);
    if (rc == 0)
        post_all(conn);
    return rc == 0 && conn->peer.dead ? -conn->err : rc;
}

static void close_inner(struct npu_net_conn *conn)
{
    if (conn->ep && fi_close(&conn->ep->fid) < 0)
        npu_warn(EP_CTRL, "an inner endpoint cannot be closed\n");
    if (conn->mr && fi_close(&conn->mr->fid) < 0)
        npu_warn(EP_CTRL, "an inner registration cannot be closed\n");
    conn->ep = NULL;
    conn->mr = NULL;
}

void npu_net_conn_free(struct npu_net_conn *conn)
{
    npu_net_copies_wait(conn);
    close_inner(conn);
    hc_list_remove(&conn->node);
    release(conn);
    npu_net_stop_serving(conn);
    free(conn->answers);
    free(conn);
}

/* ---- The end ---- */

void npu_net_fail(struct npu_net_conn *conn, int err, const char *why)
{
    char name[128];
    if (conn->peer.dead)
        return;
    (void)npu_addr_print(&conn->peer.addr, name, sizeof(name));
    if (why)
        npu_warn(EP_DATA, "%s: %s (%s); its connection is closed\n", name, why, fi_strerror(err));
    conn->peer.dead = true;
    conn->err = err ? err : FI_ECONNRESET;
    conn->peer.ep->attention = true;
}

/* Its memory stays until the inner provider's last completions have been read. */
static void lose(struct npu_net_conn *conn)
{
    struct npu_net *net = conn->net;
    conn->peer.dead = true;
    npu_net_copies_wait(conn);
    if (conn->outgoing) {
        npu_ep_forget(net->ep, &conn->peer);
        npu_net_abort(conn);
    } else {
        npu_net_abandon(conn);
    }
    if (!conn->open)
        net->connecting--;
    conn->open = false;
    net->count--;
    close_inner(conn);
    hc_list_remove(&conn->node);
    hc_list_append(&net->gone, &conn->node);
}

void npu_net_reap(struct npu_net *net)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &net->gone)
    {
        struct npu_net_conn *conn = hc_list_entry(node, struct npu_net_conn, node);
        bool done = conn->aged && conn->peer.users == 0;
        conn->aged = true;
        if (done)
            npu_net_conn_free(conn);
    }
    hc_list_for_each_safe(node, next, &net->conns)
    {
        struct npu_net_conn *conn = hc_list_entry(node, struct npu_net_conn, node);
        if (conn->peer.dead || (conn->closing && hc_list_empty(&conn->inbox)))
            lose(conn);
    }
}
