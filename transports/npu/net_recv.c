/* Messages from another host: the receiver's side. */
#include "transports/npu/net.h"

#include <stdlib.h>

/* ---- Answers ---- */

static bool grow_answers(struct npu_net_conn *conn)
{
    size_t room = conn->answer_room ? 2 * conn->answer_room : NPU_NET_ANSWERS;
    if (room > 2 * NPU_MAX_QUEUE)
        return false;
    struct npu_net_answer *grown = malloc(room * sizeof(*grown));
    if (!grown)
        return false;
    for (size_t i = 0; i < conn->answer_count; i++)
        grown[i] = conn->answers[(conn->answer_at + i) % conn->answer_room];
    free(conn->answers);
    conn->answers = grown;
    conn->answer_room = room;
    conn->answer_at = 0;
    return true;
}

void npu_net_answer(struct npu_net_conn *conn, enum npu_net_type type, uint64_t id, uint64_t len)
{
    if (conn->peer.dead || conn->closing)
        return;
    if (conn->answer_count == conn->answer_room && !grow_answers(conn)) {
        npu_net_fail(conn, FI_ENOMEM, "no room for more answers");
        return;
    }
    conn->answers[(conn->answer_at + conn->answer_count++) % conn->answer_room] =
        (struct npu_net_answer){(uint8_t)type, id, len};
    npu_net_pump_answers(conn);
}

void npu_net_pump_answers(struct npu_net_conn *conn)
{
    struct npu_net_slot *slot;
    while (conn->answer_count && (slot = npu_net_slot_get(conn, NPU_NET_CREDIT, false))) {
        const struct npu_net_answer *next = &conn->answers[conn->answer_at];
        struct npu_net_head *head = npu_net_head_of(slot);
        head->type = next->type;
        head->id = next->id;
        head->len = next->len;
        conn->answer_at = (conn->answer_at + 1) % conn->answer_room;
        conn->answer_count--;
        npu_net_slot_send(slot);
    }
    npu_net_flush(conn);
}

void npu_net_delivered(struct npu_peer *peer, const struct npu_arrival *arrival)
{
    npu_net_answer(npu_net_conn_of(peer), NPU_NET_ACK, arrival->id, 0);
}

void npu_net_release(struct npu_peer *peer, size_t cost)
{
    struct npu_net_conn *conn = npu_net_conn_of(peer);
    conn->charged -= cost;
    conn->freed += cost;
    npu_net_flush(conn);
}

/* ---- Announced messages ---- */

static void grant(struct npu_net_conn *conn)
{
    struct hc_list *node;
    while (conn->reading_count < NPU_NET_READING && (node = hc_list_pop(&conn->waiting))) {
        struct npu_rx *rx = hc_list_entry(node, struct npu_rx, node);
        conn->announced--;
        npu_net_answer(conn, NPU_NET_CTS, rx->arrival.id, rx->end);
        if (rx->end == 0) {
            npu_rx_finish(conn->peer.ep, rx, 0);
            continue;
        }
        conn->reading_count++;
        hc_list_append(&conn->reading, &rx->node);
    }
}

static void fetch_none(struct npu_net_conn *conn, const struct npu_arrival *arrival)
{
    if (!arrival->payload) {
        conn->announced--;
        npu_net_answer(conn, NPU_NET_CTS, arrival->id, 0);
    } else if (arrival->flags & FI_DELIVERY_COMPLETE) {
        npu_net_delivered(&conn->peer, arrival);
    }
}

void npu_net_fetch(struct npu_peer *peer, const struct npu_arrival *arrival, struct npu_rx *rx)
{
    struct npu_net_conn *conn = npu_net_conn_of(peer);
    if (!rx) {
        fetch_none(conn, arrival);
        return;
    }
    if (peer->dead || conn->closing) {
        npu_rx_finish(peer->ep, rx, FI_ECONNRESET);
        return;
    }
    rx->stream = 0; /* an error that ended it early */
    rx->at = 0;
    rx->copies = 0;
    rx->end = npu_rx_wanted(rx);
    hc_list_append(&conn->waiting, &rx->node);
    grant(conn);
}

static void end_reading(struct npu_net_conn *conn, struct npu_rx *rx, int err)
{
    uint64_t id = rx->arrival.id;
    bool ack = rx->arrival.flags & FI_DELIVERY_COMPLETE;
    hc_list_remove(&rx->node);
    conn->reading_count--;
    npu_rx_finish(conn->peer.ep, rx, err);
    if (ack)
        npu_net_answer(conn, NPU_NET_ACK, id, (uint64_t)err);
    grant(conn);
}

static struct npu_rx *find_reading(struct npu_net_conn *conn, uint64_t id)
{
    struct hc_list *node;
    hc_list_for_each(node, &conn->reading)
    {
        struct npu_rx *rx = hc_list_entry(node, struct npu_rx, node);
        if (rx->arrival.id == id)
            return rx;
    }
    return NULL;
}

static void end_if_complete(struct npu_net_conn *conn, struct npu_rx *rx)
{
    if (rx->at == rx->end && rx->copies == 0)
        end_reading(conn, rx, rx->stream);
}

/* The copy of a piece to a device has ended. */
static void piece_moved(struct npu_net_slot *slot, int err)
{
    struct npu_rx *rx = slot->owner;
    rx->copies--;
    rx->stream = rx->stream ? rx->stream : err;
    npu_net_slot_post(slot);
    end_if_complete(slot->conn, rx);
}

/* 0, -FI_EAGAIN: later, or -FI_EIO: it was not asked for. */
static int take_piece(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_rx *rx = find_reading(conn, head->id);
    struct npu_net_slot *slot = conn->taken;
    if (!rx || head->len != rx->at || head->bytes > rx->end - rx->at)
        return -FI_EIO;
    if (!rx->stream) {
        struct npu_net_span span = {&rx->buf, rx->at, (char *)(uintptr_t)(head + 1), head->bytes, false};
        slot->moved = piece_moved;
        slot->owner = rx;
        int rc = npu_net_move(slot, &span);
        if (rc == -FI_EAGAIN)
            return rc;
        rx->stream = -rc;
        rx->copies += slot->copy != NULL;
    }
    rx->at += head->bytes;
    end_if_complete(conn, rx);
    return 0;
}

static int take_broken(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_rx *rx = find_reading(conn, head->id);
    if (!rx)
        return -FI_EIO;
    rx->stream = FI_EIO;
    rx->end = rx->at;
    end_if_complete(conn, rx);
    return 0;
}

/* ---- Messages ---- */

static struct npu_arrival arrival_of(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_arrival arrival = {
        .peer = &conn->peer,
        .flags = head->flags & NPU_NET_TAGGED ? FI_TAGGED : FI_MSG,
        .tag = head->tag,
        .data = head->data,
        .len = head->len,
        .id = head->id,
    };
    uint8_t wishes = NPU_NET_ACK_DELIVERED;
    if (head->type == NPU_NET_SEND) {
        arrival.payload = head + 1;
        arrival.cost = head->len + NPU_NET_OVERHEAD;
    } else {
        wishes |= NPU_NET_ACK_ARRIVED; /* what arrives late is delivered as it arrives */
    }
    if (head->flags & wishes)
        arrival.flags |= FI_DELIVERY_COMPLETE;
    if (head->flags & NPU_NET_CQ_DATA)
        arrival.flags |= FI_REMOTE_CQ_DATA;
    return arrival;
}

/* 0, or -FI_EAGAIN: later. */
static int take_eager(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_arrival arrival = arrival_of(conn, head);
    if (conn->charged + arrival.cost > NPU_NET_WINDOW) {
        npu_net_fail(conn, FI_EIO, "more messages than it may send");
        return 0;
    }
    conn->charged += arrival.cost;
    int rc = npu_arrive(conn->peer.ep, &arrival);
    if (rc < 0) {
        conn->charged -= arrival.cost;
        return -FI_EAGAIN;
    }
    if (rc == 0)
        npu_net_release(&conn->peer, arrival.cost);
    if (head->flags & NPU_NET_ACK_ARRIVED)
        npu_net_answer(conn, NPU_NET_ACK, head->id, 0);
    return 0;
}

static int take_announced(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_arrival arrival = arrival_of(conn, head);
    if (conn->announced >= NPU_MAX_QUEUE) {
        npu_net_fail(conn, FI_EIO, "more messages than it may announce");
        return 0;
    }
    conn->announced++;
    if (npu_arrive(conn->peer.ep, &arrival) >= 0)
        return 0;
    conn->announced--;
    return -FI_EAGAIN;
}

/* Of an announced message, or of the write being served. */
static int take_payload(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    int rc = npu_net_take_write(conn, head);
    if (rc == -FI_EIO)
        rc = head->type == NPU_NET_DATA ? take_piece(conn, head) : take_broken(conn, head);
    if (rc != -FI_EIO)
        return rc;
    npu_net_fail(conn, FI_EIO, "payload that was not asked for");
    return 0;
}

static int take_message(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    if (!npu_ep_may_receive(conn->peer.ep))
        return -FI_EAGAIN;
    bool begins = head->type != NPU_NET_DATA && head->type != NPU_NET_BROKEN;
    if (begins && npu_net_settling(conn))
        return -FI_EAGAIN;
    if (conn->serve && begins) {
        npu_net_fail(conn, FI_EIO, "an operation amid the bytes of another");
        return 0;
    }
    switch (head->type) {
    case NPU_NET_RMA:
        return npu_net_take_rma(conn, head);
    case NPU_NET_SEND:
        return take_eager(conn, head);
    case NPU_NET_RTS:
        return take_announced(conn, head);
    default:
        return take_payload(conn, head);
    }
}

/* ---- What came in ---- */

/* Book what the other side gave back, once. */
static bool take_credits(struct npu_net_conn *conn, struct npu_net_head *head)
{
    unsigned most = conn->outgoing ? NPU_NET_SLOTS : NPU_NET_ANSWERS;
    if (head->slots > most - conn->credits)
        return false;
    conn->credits += head->slots;
    head->slots = 0;
    if (head->window && (!conn->outgoing || head->window > conn->charged))
        return false;
    if (conn->outgoing)
        conn->charged -= head->window;
    head->window = 0;
    return true;
}

void npu_net_take_in(struct npu_net_slot *slot)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_net_head *head = npu_net_head_of(slot);
    if (!npu_net_head_ok(slot->bytes, slot->len, conn->outgoing) || !take_credits(conn, head))
        npu_net_fail(conn, FI_EIO, "a malformed message");
    else if (head->type == NPU_NET_CREDIT)
        npu_net_slot_post(slot); /* not behind what waits for it */
    else
        hc_list_append(&conn->inbox, &slot->node);
}

static int take(struct npu_net_conn *conn, const struct npu_net_slot *slot)
{
    const struct npu_net_head *head = npu_net_head_of(slot);
    return conn->outgoing ? npu_net_answered(conn, head) : take_message(conn, head);
}

/* Go on with a read that is served; false: nothing is looked at before its end. */
static bool served_before(struct npu_net_conn *conn)
{
    if (!npu_net_sending_back(conn))
        return true;
    if (!conn->closing)
        return npu_net_send_back(conn);
    npu_net_stop_serving(conn);
    return true;
}

bool npu_net_read_inbox(struct npu_net_conn *conn)
{
    struct hc_list *node;
    bool moved = false;
    while (!conn->peer.dead && served_before(conn) && (node = hc_list_first(&conn->inbox))) {
        struct npu_net_slot *slot = hc_list_entry(node, struct npu_net_slot, node);
        conn->taken = slot;
        if (take(conn, slot) < 0)
            break;
        hc_list_remove(&slot->node);
        if (!slot->copy)
            npu_net_slot_post(slot);
        moved = true;
    }
    return moved;
}

void npu_net_abandon(struct npu_net_conn *conn)
{
    struct hc_list *lists[] = {&conn->waiting, &conn->reading};
    struct hc_list *node;
    for (size_t i = 0; i < hc_array_len(lists); i++)
        while ((node = hc_list_pop(lists[i])))
            npu_rx_finish(conn->peer.ep, hc_list_entry(node, struct npu_rx, node), conn->err);
    conn->reading_count = 0;
    npu_net_stop_serving(conn);
    npu_recv_forget(conn->peer.ep, &conn->peer);
}
