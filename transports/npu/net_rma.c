/*
 * RMA and atomics on memory of another host. A request travels in order among the messages and is served
 * before what follows is looked at, so all orders between them hold. The bytes of a long write follow their
 * request at once; those of a read come back in the answers' slots. Every request is answered (NPU_NET_DONE).
 */
#include "transports/npu/net.h"
#include "transports/npu/rma.h"

#include <stdlib.h>
#include <string.h>

/* What the target is serving: a long write that comes in, or a read that goes out. */
struct npu_net_serve {
    struct npu_rma_request request;
    uint64_t id, data, at;
    bool has_data, broken;
    int err;
    unsigned copies; /* between slots and a device */
};

static bool is_inline(const struct npu_rma_request *request)
{
    return request->head.flags & NPU_RMA_INLINE;
}

/* ---- The initiator ---- */

int npu_net_rma(struct npu_peer *peer, const struct npu_rma *described)
{
    struct npu_net_conn *conn = npu_net_conn_of(peer);
    struct npu_rma op = *described;
    struct npu_tx *tx;
    if (peer->dead)
        return -FI_EAGAIN; /* it is forgotten at the next progress */
    op.apart = true;
    op.ipc = NULL;
    size_t size = npu_rma_size(&op);
    int rc = npu_rma_make(peer, &op, &tx);
    if (rc < 0)
        return rc;
    tx->bounce = malloc(size);
    rc = tx->bounce ? npu_rma_build(&op, tx->bounce) : -FI_ENOMEM;
    if (rc < 0) {
        npu_tx_put(tx);
        return rc;
    }
    tx->base = size;
    tx->state = NPU_NET_QUEUED;
    hc_list_append(&conn->queue, &tx->node);
    npu_net_pump(conn);
    return 0;
}

static bool is_long_write(const struct npu_tx *tx)
{
    return (tx->flags & FI_RMA) && (tx->flags & FI_WRITE) && tx->buf.len > NPU_RMA_INLINE_MAX;
}

void npu_net_begin_rma(struct npu_net_slot *slot, struct npu_tx *tx)
{
    struct npu_net_head *head = npu_net_head_of(slot);
    *head = (struct npu_net_head){
        .type = NPU_NET_RMA,
        .flags = tx->flags & FI_REMOTE_CQ_DATA ? NPU_NET_CQ_DATA : 0,
        .bytes = (uint32_t)tx->base,
        .id = npu_tx_id(tx),
        .data = tx->data,
    };
    memcpy(head + 1, tx->bounce, tx->base);
    tx->state = NPU_NET_REQUESTED;
    if (is_long_write(tx))
        slot->conn->writing = tx;
    npu_net_slot_send(slot);
}

/* The device's copy of a piece has ended. */
static void piece_moved(struct npu_net_slot *slot, int err)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_net_head *head = npu_net_head_of(slot);
    uint64_t id = head->id;
    struct npu_tx *tx = npu_tx_find(conn->peer.ep, &conn->peer, id);
    if (err && tx && !tx->failed) {
        npu_net_withdraw(conn, NPU_NET_DATA, id);
        head->type = NPU_NET_BROKEN; /* the target's answer ends it */
        head->id = id;
        tx->failed = true;
        if (conn->writing == tx)
            conn->writing = NULL;
    }
    npu_net_slot_filled(conn);
}

bool npu_net_write_piece(struct npu_net_slot *slot)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_tx *tx = conn->writing;
    struct npu_net_head *head = npu_net_head_of(slot);
    uint64_t left = tx->buf.len - tx->at, most = NPU_NET_SLOT - sizeof(*head);
    size_t n = (size_t)(left < most ? left : most);
    struct npu_net_span span = {&tx->buf, tx->at, (char *)(head + 1), n, true};
    slot->moved = piece_moved;
    int rc = npu_net_move(slot, &span);
    if (rc == -FI_EAGAIN) {
        npu_net_slot_put(slot);
        return false;
    }
    head->id = npu_tx_id(tx);
    head->len = tx->at;
    if (rc < 0) {
        head->type = NPU_NET_BROKEN; /* the target's answer ends it */
        head->len = 0;
        tx->failed = true;
        conn->writing = NULL;
    } else {
        head->bytes = (uint32_t)n;
        tx->at += n;
        if (tx->at == tx->buf.len)
            conn->writing = NULL;
    }
    npu_net_slot_send(slot);
    return true;
}

/* An operation has its answer, and `base` is what that says; done when all bytes are in their place. */
static void end_if_landed(struct npu_tx *tx)
{
    int err = (int)tx->base;
    if (tx->state == NPU_NET_LANDING && tx->copies == 0)
        npu_tx_finish(tx, err ? err : (tx->failed ? FI_EIO : 0));
}

static void bytes_moved(struct npu_net_slot *slot, int err)
{
    struct npu_tx *tx = slot->owner;
    tx->copies--;
    tx->failed |= err != 0;
    npu_net_slot_post(slot);
    end_if_landed(tx);
}

static int take_bytes(struct npu_net_slot *slot, struct npu_tx *tx, const struct npu_net_head *head)
{
    struct npu_net_span span = {&tx->buf, tx->at, (char *)(uintptr_t)(head + 1), head->bytes, false};
    if (head->bytes > tx->end - tx->at)
        return -FI_EIO;
    if (head->bytes) {
        slot->moved = bytes_moved;
        slot->owner = tx;
        int rc = npu_net_move(slot, &span);
        if (rc == -FI_EAGAIN)
            return rc;
        tx->failed |= rc < 0;
        tx->copies += slot->copy != NULL;
    }
    tx->at += head->bytes;
    return 0;
}

int npu_net_rma_answered(struct npu_net_conn *conn, struct npu_tx *tx, const struct npu_net_head *head)
{
    int rc = 0;
    if (tx->state != NPU_NET_REQUESTED || conn->writing == tx || (is_long_write(tx) && head->bytes))
        return -FI_EIO;
    if (!is_long_write(tx))
        rc = take_bytes(conn->taken, tx, head);
    if (rc < 0 || head->type == NPU_NET_READ)
        return rc;
    if (!head->len && tx->end && tx->at != tx->end)
        return -FI_EIO;
    tx->state = NPU_NET_LANDING;
    tx->base = head->len;
    end_if_landed(tx);
    return 0;
}

/* ---- The target ---- */

static void served(struct npu_net_conn *conn, const struct npu_rma_request *request, uint64_t id,
                   const uint64_t *data, int err)
{
    if (!err)
        npu_rma_served(conn->peer.ep, request, data);
    npu_net_answer(conn, NPU_NET_DONE, id, (uint64_t)err);
}

/* Move bytes of the operation from `at` on between the target's memory and a slot: as npu_net_move(). */
static int serve_bytes(struct npu_net_slot *slot, struct npu_net_serve *serve, char *host, size_t n)
{
    struct npu_ep *ep = slot->conn->peer.ep;
    bool reads = npu_rma_is_read(&serve->request);
    struct npu_target target;
    uint64_t offset;
    const struct npu_rma_target *range = npu_rma_at(&serve->request, serve->at, &offset);
    int err = npu_target_hold(ep, range, reads ? FI_REMOTE_READ : FI_REMOTE_WRITE, &target);
    if (err)
        return -err;
    if (!target.buf.device || range->len - offset < n) {
        npu_target_drop(&target);
        return reads ? -npu_rma_copy_out(ep, &serve->request, serve->at, host, n)
                     : -npu_rma_copy_in(ep, &serve->request, serve->at, host, n);
    }
    struct npu_net_span span = {&target.buf, offset, host, n, reads};
    int rc = npu_net_move(slot, &span);
    if (slot->copy) {
        slot->held = target.mr;
        serve->copies++;
    } else {
        npu_target_drop(&target);
    }
    return rc;
}

static void end_serving(struct npu_net_conn *conn)
{
    struct npu_net_serve *serve = conn->serve;
    if (serve->copies)
        return;
    conn->serve = NULL;
    served(conn, &serve->request, serve->id, serve->has_data ? &serve->data : NULL, serve->err);
    free(serve);
}

void npu_net_stop_serving(struct npu_net_conn *conn)
{
    if (conn->serve && conn->serve->copies)
        npu_net_copies_wait(conn);
    free(conn->serve);
    conn->serve = NULL;
}

bool npu_net_sending_back(const struct npu_net_conn *conn)
{
    return conn->serve && npu_rma_is_read(&conn->serve->request);
}

/* The device's copy of bytes that are read has ended. */
static void read_moved(struct npu_net_slot *slot, int err)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_net_serve *serve = conn->serve;
    serve->copies--;
    npu_mr_drop(slot->held);
    if (err && !serve->err) {
        serve->err = err;
        npu_net_withdraw(conn, NPU_NET_READ, serve->id);
    }
    npu_net_slot_filled(conn);
}

bool npu_net_send_back(struct npu_net_conn *conn)
{
    const size_t most = NPU_NET_ANSWER - sizeof(struct npu_net_head);
    struct npu_net_serve *serve = conn->serve;
    struct npu_net_slot *slot;
    int rc = 0;
    while (!serve->err && serve->at < serve->request.head.len) {
        uint64_t left = serve->request.head.len - serve->at;
        size_t n = (size_t)(left < most ? left : most);
        slot = npu_net_slot_get(conn, NPU_NET_READ, false);
        if (!slot)
            return false;
        struct npu_net_head *head = npu_net_head_of(slot);
        slot->moved = read_moved;
        rc = serve_bytes(slot, serve, (char *)(head + 1), n);
        if (rc < 0) {
            npu_net_slot_put(slot);
            if (rc == -FI_EAGAIN)
                return false;
            serve->err = -rc;
            break;
        }
        head->id = serve->id;
        head->bytes = (uint32_t)n;
        serve->at += n;
        npu_net_slot_send(slot);
    }
    end_serving(conn);
    return !conn->serve;
}

/* 0, or -FI_ENOMEM: nothing done. */
static int start_serving(struct npu_net_conn *conn, const struct npu_rma_request *request,
                         const struct npu_net_head *head, int err)
{
    struct npu_net_serve *serve = malloc(sizeof(*serve));
    if (!serve)
        return -FI_ENOMEM;
    *serve = (struct npu_net_serve){
        .request = *request,
        .id = head->id,
        .data = head->data,
        .has_data = head->flags & NPU_NET_CQ_DATA,
        .err = err,
    };
    conn->serve = serve;
    if (npu_rma_is_read(request))
        (void)npu_net_send_back(conn);
    return 0;
}

/* Compute, and answer with what was there before. -FI_EAGAIN: no room for the answer. */
static int serve_atomic(struct npu_net_conn *conn, const struct npu_rma_request *request, uint64_t id,
                        int err)
{
    struct npu_net_slot *slot = npu_net_slot_get(conn, NPU_NET_DONE, false);
    if (!slot && conn->closing)
        return 0; /* nobody waits for it */
    if (!slot)
        return -FI_EAGAIN;
    struct npu_net_head *head = npu_net_head_of(slot);
    bool returns = npu_rma_returns(request);
    if (!err)
        err = npu_rma_compute(conn->peer.ep, request, returns ? head + 1 : NULL);
    if (!err)
        npu_rma_served(conn->peer.ep, request, NULL);
    head->id = id;
    head->len = (uint64_t)err;
    head->bytes = returns && !err ? (uint32_t)request->head.len : 0;
    npu_net_slot_send(slot);
    return 0;
}

int npu_net_take_rma(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_rma_request request;
    struct npu_ep *ep = conn->peer.ep;
    if (!npu_rma_parse(head + 1, head->bytes, &request) || request.head.locals ||
        (request.head.flags & NPU_RMA_IPC)) {
        npu_net_fail(conn, FI_EIO, "a malformed request");
        return 0;
    }
    int err = npu_rma_check(ep, &request);
    if (npu_rma_is_atomic(&request))
        return serve_atomic(conn, &request, head->id, err);
    if (!is_inline(&request))
        return start_serving(conn, &request, head, err) < 0 ? -FI_EAGAIN : 0;
    if (!err)
        err = npu_rma_copy_in(ep, &request, 0, request.operands, request.head.len);
    served(conn, &request, head->id, head->flags & NPU_NET_CQ_DATA ? &head->data : NULL, err);
    return 0;
}

static bool has_all(const struct npu_net_serve *serve)
{
    return serve->broken || serve->at == serve->request.head.len;
}

bool npu_net_settling(const struct npu_net_conn *conn)
{
    return conn->serve && conn->serve->copies && has_all(conn->serve);
}

/* The copy of a piece to a device has ended. */
static void written(struct npu_net_slot *slot, int err)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_net_serve *serve = conn->serve;
    serve->copies--;
    serve->err = serve->err ? serve->err : err;
    npu_mr_drop(slot->held);
    npu_net_slot_post(slot);
    if (has_all(serve))
        end_serving(conn);
}

int npu_net_take_write(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_net_serve *serve = conn->serve;
    if (!serve || npu_rma_is_read(&serve->request) || serve->id != head->id || has_all(serve))
        return -FI_EIO;
    if (head->type == NPU_NET_BROKEN) {
        serve->err = serve->err ? serve->err : FI_EIO;
        serve->broken = true;
        end_serving(conn);
        return 0;
    }
    if (head->len != serve->at || head->bytes > serve->request.head.len - serve->at)
        return -FI_EIO;
    if (!serve->err) {
        conn->taken->moved = written;
        int rc = serve_bytes(conn->taken, serve, (char *)(uintptr_t)(head + 1), head->bytes);
        if (rc == -FI_EAGAIN)
            return rc;
        serve->err = -rc;
    }
    serve->at += head->bytes;
    if (has_all(serve))
        end_serving(conn);
    return 0;
}
