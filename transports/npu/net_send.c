/* Messages to another host: the sender's side. */
#include "transports/npu/net.h"

enum state { QUEUED = NPU_NET_QUEUED, ANNOUNCED = NPU_NET_MORE_STATES, STREAMING, DRAINING, AWAITING_ACK };

static uint8_t head_flags(uint64_t flags)
{
    unsigned out = 0;
    if (flags & FI_TAGGED)
        out |= NPU_NET_TAGGED;
    if (flags & FI_REMOTE_CQ_DATA)
        out |= NPU_NET_CQ_DATA;
    if (flags & FI_DELIVERY_COMPLETE)
        out |= NPU_NET_ACK_DELIVERED;
    else if (flags & FI_TRANSMIT_COMPLETE)
        out |= NPU_NET_ACK_ARRIVED;
    return (uint8_t)out;
}

static bool wants_ack(uint64_t flags)
{
    return flags & (FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE);
}

static bool fits_window(const struct npu_net_conn *conn, size_t len)
{
    return len <= NPU_NET_EAGER && conn->charged + len + NPU_NET_OVERHEAD <= NPU_NET_WINDOW;
}

/* Send the payload with its head. -errno: it cannot be read. */
static int send_eager(struct npu_net_slot *slot, const struct npu_buf *buf, struct npu_net_head head)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_net_head *at = npu_net_head_of(slot);
    int rc = npu_buf_read(buf, 0, at + 1, buf->len);
    if (rc < 0)
        return rc;
    head.bytes = (uint32_t)buf->len;
    *at = head;
    conn->charged += buf->len + NPU_NET_OVERHEAD;
    npu_net_slot_send(slot);
    return 0;
}

/* ---- Posting ---- */

/* An operation whose payload is copied in this call. */
static struct npu_tx *make_brief(struct npu_net_conn *conn, const struct npu_send *send)
{
    struct npu_tx *tx = npu_tx_get(&conn->peer);
    if (!tx)
        return NULL;
    tx->flags = send->flags;
    tx->context = send->context;
    tx->tag = send->tag;
    tx->data = send->data;
    tx->state = wants_ack(send->flags) ? AWAITING_ACK : DRAINING;
    return tx;
}

/* Send at once, straight from the caller's memory. -FI_EAGAIN: not now. */
static int send_now(struct npu_net_conn *conn, const struct npu_send *send)
{
    struct npu_buf buf;
    bool forgotten = (send->flags & NPU_SILENT) && !wants_ack(send->flags);
    int rc = npu_buf_init(&buf, send->iov, send->desc, send->iov_count);
    if (rc < 0)
        return rc;
    struct npu_net_slot *slot = npu_net_slot_get(conn, NPU_NET_SEND, false);
    if (!slot)
        return -FI_EAGAIN;
    struct npu_tx *tx = forgotten ? NULL : make_brief(conn, send);
    if (!tx && !forgotten) {
        npu_net_slot_put(slot);
        return -FI_EAGAIN;
    }
    struct npu_net_head head = {
        .type = NPU_NET_SEND,
        .flags = head_flags(send->flags),
        .id = tx ? npu_tx_id(tx) : 0,
        .len = send->len,
        .tag = send->tag,
        .data = send->data,
    };
    slot->tx = tx && tx->state == DRAINING ? tx : NULL;
    rc = send_eager(slot, &buf, head);
    if (rc < 0) {
        npu_net_slot_put(slot);
        if (tx)
            npu_tx_put(tx);
    } else if (forgotten) {
        npu_sent(conn->peer.ep, send->flags, send->context);
    }
    return rc;
}

int npu_net_send(struct npu_peer *peer, const struct npu_send *send)
{
    struct npu_net_conn *conn = npu_net_conn_of(peer);
    if (peer->dead)
        return -FI_EAGAIN; /* it is forgotten at the next progress */
    if (conn->open && hc_list_empty(&conn->queue) && fits_window(conn, send->len)) {
        int rc = send_now(conn, send);
        if (rc != -FI_EAGAIN)
            return rc;
    }
    struct npu_tx *tx = NULL;
    int rc = npu_tx_make(peer, send, &tx);
    if (rc < 0)
        return rc;
    tx->state = QUEUED;
    hc_list_append(&conn->queue, &tx->node);
    npu_net_pump(conn);
    return 0;
}

bool npu_net_cancel(struct npu_peer *peer, struct npu_tx *tx)
{
    (void)peer;
    return tx->state == QUEUED;
}

/* ---- Queued operations ---- */

static void begin(struct npu_net_slot *slot, struct npu_tx *tx)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_net_head head = {
        .type = NPU_NET_RTS,
        .flags = head_flags(tx->flags),
        .id = npu_tx_id(tx),
        .len = tx->buf.len,
        .tag = tx->tag,
        .data = tx->data,
    };
    hc_list_remove(&tx->node);
    if (tx->flags & (FI_RMA | FI_ATOMIC)) {
        npu_net_begin_rma(slot, tx);
        return;
    }
    if (!fits_window(conn, tx->buf.len)) {
        tx->state = ANNOUNCED;
        *npu_net_head_of(slot) = head;
        npu_net_slot_send(slot);
        return;
    }
    head.type = NPU_NET_SEND;
    tx->state = wants_ack(tx->flags) ? AWAITING_ACK : DRAINING;
    slot->tx = tx->state == DRAINING ? tx : NULL;
    int rc = send_eager(slot, &tx->buf, head);
    if (rc < 0) {
        npu_net_slot_put(slot);
        npu_tx_finish(tx, -rc);
    }
}

/* The rest of a message cannot be read. */
static void give_up(struct npu_net_slot *slot, struct npu_tx *tx, int err)
{
    *npu_net_head_of(slot) = (struct npu_net_head){.type = NPU_NET_BROKEN, .id = npu_tx_id(tx)};
    hc_list_remove(&tx->node);
    npu_net_slot_send(slot);
    npu_tx_finish(tx, err);
}

/* The device's copy of a piece has ended. */
static void piece_moved(struct npu_net_slot *slot, int err)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_net_head *head = npu_net_head_of(slot);
    uint64_t id = head->id;
    struct npu_tx *tx = npu_tx_find(conn->peer.ep, &conn->peer, id);
    bool told = head->type != NPU_NET_DATA; /* an earlier piece failed */
    if (err && !told) {
        npu_net_withdraw(conn, NPU_NET_DATA, id);
        head->type = NPU_NET_BROKEN;
        head->id = id;
        if (tx) {
            hc_list_remove(&tx->node);
            npu_tx_finish(tx, err);
        }
    }
    npu_net_slot_filled(conn);
}

/* False: not now. */
static bool send_piece(struct npu_net_slot *slot, struct npu_tx *tx)
{
    struct npu_net_head *head = npu_net_head_of(slot);
    uint64_t left = tx->end - tx->at, most = NPU_NET_SLOT - sizeof(*head);
    size_t n = (size_t)(left < most ? left : most);
    struct npu_net_span span = {&tx->buf, tx->at, (char *)(head + 1), n, true};
    slot->moved = piece_moved;
    int rc = npu_net_move(slot, &span);
    if (rc == -FI_EAGAIN) {
        npu_net_slot_put(slot);
        return false;
    }
    if (rc < 0) {
        npu_net_withdraw(slot->conn, NPU_NET_DATA, npu_tx_id(tx));
        give_up(slot, tx, -rc);
        return true;
    }
    head->id = npu_tx_id(tx);
    head->len = tx->at;
    head->bytes = (uint32_t)n;
    tx->at += n;
    hc_list_remove(&tx->node);
    if (tx->at < tx->end) {
        hc_list_append(&slot->conn->sending, &tx->node); /* the others' turn */
    } else {
        tx->state = wants_ack(tx->flags) ? AWAITING_ACK : DRAINING;
        slot->tx = tx->state == DRAINING ? tx : NULL;
    }
    npu_net_slot_send(slot);
    return true;
}

static bool under_way(const struct npu_net_conn *conn)
{
    const struct npu_ep *ep = conn->peer.ep;
    for (size_t i = 0; i < ep->tx_size; i++)
        if (ep->tx_pool[i].peer == &conn->peer && ep->tx_pool[i].state != QUEUED)
            return true;
    return false;
}

/* Whether something may be begun, or a long write goes on. */
static bool may_begin(const struct npu_net_conn *conn)
{
    if (conn->writing)
        return true;
    const struct hc_list *node = hc_list_first(&conn->queue);
    if (!node)
        return false;
    const struct npu_tx *tx = hc_list_entry(node, struct npu_tx, node);
    return !(tx->flags & FI_FENCE) || !under_way(conn);
}

void npu_net_pump(struct npu_net_conn *conn)
{
    struct npu_net_slot *slot;
    bool room = true;
    /* New operations first: they are short, and go in order. */
    while (room && may_begin(conn) && (slot = npu_net_slot_get(conn, NPU_NET_DATA, false))) {
        if (conn->writing)
            room = npu_net_write_piece(slot);
        else
            begin(slot, hc_list_entry(hc_list_first(&conn->queue), struct npu_tx, node));
    }
    while (room && !hc_list_empty(&conn->sending) && (slot = npu_net_slot_get(conn, NPU_NET_DATA, false)))
        room = send_piece(slot, hc_list_entry(hc_list_first(&conn->sending), struct npu_tx, node));
    npu_net_flush(conn);
}

/* ---- Answers ---- */

static bool start_streaming(struct npu_net_conn *conn, struct npu_tx *tx, uint64_t len)
{
    if (tx->state != ANNOUNCED || len > tx->buf.len)
        return false;
    if (len == 0) {
        npu_tx_finish(tx, 0);
        return true;
    }
    tx->state = STREAMING;
    tx->at = 0;
    tx->end = len;
    hc_list_append(&conn->sending, &tx->node);
    return true;
}

static bool acknowledge(struct npu_tx *tx, int err)
{
    if (tx->state != AWAITING_ACK)
        return false;
    npu_tx_finish(tx, err);
    return true;
}

int npu_net_answered(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_tx *tx = npu_tx_find(conn->peer.ep, &conn->peer, head->id);
    int rc = -FI_EIO;
    if (tx && head->type == NPU_NET_CTS)
        rc = start_streaming(conn, tx, head->len) ? 0 : -FI_EIO;
    else if (tx && head->type == NPU_NET_ACK)
        rc = acknowledge(tx, (int)head->len) ? 0 : -FI_EIO;
    else if (tx)
        rc = npu_net_rma_answered(conn, tx, head);
    if (rc != -FI_EIO)
        return rc;
    npu_net_fail(conn, FI_EIO, "an answer to no operation");
    return 0;
}

void npu_net_slot_sent(struct npu_net_slot *slot)
{
    struct npu_tx *tx = slot->tx;
    slot->tx = NULL;
    hc_list_append(&slot->conn->free, &slot->node);
    if (tx)
        npu_tx_finish(tx, 0);
}

void npu_net_abort(struct npu_net_conn *conn)
{
    struct npu_ep *ep = conn->peer.ep;
    for (size_t i = 0; i < hc_array_len(conn->slots); i++)
        conn->slots[i].tx = NULL;
    conn->writing = NULL;
    for (size_t i = 0; i < ep->tx_size; i++)
        if (ep->tx_pool[i].peer == &conn->peer)
            npu_tx_finish(&ep->tx_pool[i], conn->err);
}
