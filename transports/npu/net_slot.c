/* Staging slots of a connection to another host, and their credits. */
#include "transports/npu/net.h"

struct npu_net_slot *npu_net_slot_get(struct npu_net_conn *conn, enum npu_net_type type, bool last)
{
    if (!conn->open || conn->peer.dead || conn->credits <= (last ? 0U : 1U))
        return NULL;
    struct hc_list *node = hc_list_pop(&conn->free);
    if (!node)
        return NULL;
    struct npu_net_slot *slot = hc_list_entry(node, struct npu_net_slot, node);
    slot->tx = NULL;
    slot->moved = NULL;
    *npu_net_head_of(slot) = (struct npu_net_head){.type = (uint8_t)type};
    conn->credits--;
    return slot;
}

void npu_net_slot_put(struct npu_net_slot *slot)
{
    slot->conn->credits++;
    hc_list_append(&slot->conn->free, &slot->node);
}

static void *desc_of(const struct npu_net_conn *conn)
{
    return conn->mr ? fi_mr_desc(conn->mr) : NULL;
}

/* False: not now. */
static bool hand_over(struct npu_net_slot *slot)
{
    struct npu_net_conn *conn = slot->conn;
    if (slot->copy)
        return false; /* its bytes are on their way from a device */
    ssize_t rc = fi_send(conn->ep, slot->bytes, slot->len, desc_of(conn), 0, &slot->context);
    if (rc == -FI_EAGAIN)
        return false;
    hc_list_remove(&slot->node);
    if (rc == 0)
        conn->posted++;
    else
        npu_net_fail(conn, (int)-rc, "sending");
    return true;
}

static void send_waiting(struct npu_net_conn *conn)
{
    struct hc_list *node;
    while (!conn->peer.dead && (node = hc_list_first(&conn->unsent)) &&
           hand_over(hc_list_entry(node, struct npu_net_slot, node)))
        ;
}

void npu_net_slot_send(struct npu_net_slot *slot)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_net_head *head = npu_net_head_of(slot);
    head->slots = (uint16_t)conn->owed;
    head->window = conn->freed;
    conn->owed = 0;
    conn->freed = 0;
    slot->len = sizeof(*head) + head->bytes;
    hc_list_append(&conn->unsent, &slot->node);
    send_waiting(conn);
}

void npu_net_slot_filled(struct npu_net_conn *conn)
{
    send_waiting(conn);
}

void npu_net_withdraw(struct npu_net_conn *conn, enum npu_net_type type, uint64_t id)
{
    struct hc_list *node;
    hc_list_for_each(node, &conn->unsent)
    {
        struct npu_net_slot *slot = hc_list_entry(node, struct npu_net_slot, node);
        struct npu_net_head *head = npu_net_head_of(slot);
        if (head->type != type || head->id != id)
            continue;
        head->type = NPU_NET_CREDIT; /* what it tells of credits counts */
        head->id = head->len = head->bytes = 0;
        slot->len = sizeof(*head);
        slot->tx = NULL;
    }
}

/* False: the inner provider has no room now. */
static bool post(struct npu_net_slot *slot)
{
    struct npu_net_conn *conn = slot->conn;
    size_t size = conn->outgoing ? NPU_NET_ANSWER : NPU_NET_SLOT;
    ssize_t rc = fi_recv(conn->ep, slot->bytes, size, desc_of(conn), 0, &slot->context);
    if (rc == -FI_EAGAIN)
        return false;
    hc_list_remove(&slot->node);
    if (rc == 0)
        conn->owed++;
    else
        npu_net_fail(conn, (int)-rc, "posting a receive");
    return true;
}

void npu_net_slot_post(struct npu_net_slot *slot)
{
    struct npu_net_conn *conn = slot->conn;
    hc_list_append(&conn->unposted, &slot->node);
    while (!conn->peer.dead && !hc_list_empty(&conn->unposted) &&
           post(hc_list_entry(hc_list_first(&conn->unposted), struct npu_net_slot, node)))
        ;
}

static bool credits_due(const struct npu_net_conn *conn)
{
    unsigned slots = conn->outgoing ? NPU_NET_ANSWERS : NPU_NET_SLOTS;
    return conn->owed >= slots / 2 || conn->freed >= NPU_NET_WINDOW / 4;
}

void npu_net_flush(struct npu_net_conn *conn)
{
    if (!conn->open || conn->peer.dead)
        return;
    send_waiting(conn);
    if (!hc_list_empty(&conn->unposted)) {
        struct hc_list *node = hc_list_pop(&conn->unposted);
        npu_net_slot_post(hc_list_entry(node, struct npu_net_slot, node));
    }
    if (!credits_due(conn))
        return;
    struct npu_net_slot *slot = npu_net_slot_get(conn, NPU_NET_CREDIT, true);
    if (slot)
        npu_net_slot_send(slot);
}
