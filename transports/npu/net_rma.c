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
    bool has_data;
    int err;
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

void npu_net_write_piece(struct npu_net_slot *slot)
{
    struct npu_net_conn *conn = slot->conn;
    struct npu_tx *tx = conn->writing;
    struct npu_net_head *head = npu_net_head_of(slot);
    uint64_t left = tx->buf.len - tx->at, most = NPU_NET_SLOT - sizeof(*head);
    size_t n = (size_t)(left < most ? left : most);
    head->id = npu_tx_id(tx);
    head->len = tx->at;
    if (npu_buf_read(&tx->buf, tx->at, head + 1, n) < 0) {
        head->type = NPU_NET_BROKEN; /* the target's answer ends it */
        tx->failed = true;
        conn->writing = NULL;
    } else {
        head->bytes = (uint32_t)n;
        tx->at += n;
        if (tx->at == tx->buf.len)
            conn->writing = NULL;
    }
    npu_net_slot_send(slot);
}

static bool take_bytes(struct npu_tx *tx, const struct npu_net_head *head)
{
    if (head->bytes > tx->end - tx->at)
        return false;
    if (head->bytes && npu_buf_write(&tx->buf, tx->at, head + 1, head->bytes) < 0)
        tx->failed = true;
    tx->at += head->bytes;
    return true;
}

bool npu_net_rma_answered(struct npu_net_conn *conn, struct npu_tx *tx, const struct npu_net_head *head)
{
    if (tx->state != NPU_NET_REQUESTED || conn->writing == tx)
        return false;
    if (is_long_write(tx) ? head->bytes > 0 : !take_bytes(tx, head))
        return false;
    if (head->type == NPU_NET_READ)
        return true;
    int err = (int)head->len;
    if (!err && tx->end && tx->at != tx->end)
        return false;
    npu_tx_finish(tx, err ? err : (tx->failed ? FI_EIO : 0));
    return true;
}

/* ---- The target ---- */

static void served(struct npu_net_conn *conn, const struct npu_rma_request *request, uint64_t id,
                   const uint64_t *data, int err)
{
    if (!err)
        npu_rma_served(conn->peer.ep, request, data);
    npu_net_answer(conn, NPU_NET_DONE, id, (uint64_t)err);
}

static void end_serving(struct npu_net_conn *conn)
{
    struct npu_net_serve *serve = conn->serve;
    conn->serve = NULL;
    served(conn, &serve->request, serve->id, serve->has_data ? &serve->data : NULL, serve->err);
    free(serve);
}

void npu_net_stop_serving(struct npu_net_conn *conn)
{
    free(conn->serve);
    conn->serve = NULL;
}

bool npu_net_sending_back(const struct npu_net_conn *conn)
{
    return conn->serve && npu_rma_is_read(&conn->serve->request);
}

bool npu_net_send_back(struct npu_net_conn *conn)
{
    const size_t most = NPU_NET_ANSWER - sizeof(struct npu_net_head);
    struct npu_net_serve *serve = conn->serve;
    struct npu_net_slot *slot;
    while (!serve->err && serve->at < serve->request.head.len) {
        uint64_t left = serve->request.head.len - serve->at;
        size_t n = (size_t)(left < most ? left : most);
        slot = npu_net_slot_get(conn, NPU_NET_READ, false);
        if (!slot)
            return false;
        struct npu_net_head *head = npu_net_head_of(slot);
        serve->err = npu_rma_copy_out(conn->peer.ep, &serve->request, serve->at, head + 1, n);
        if (serve->err) {
            npu_net_slot_put(slot);
            break;
        }
        head->id = serve->id;
        head->bytes = (uint32_t)n;
        serve->at += n;
        npu_net_slot_send(slot);
    }
    end_serving(conn);
    return true;
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

bool npu_net_take_write(struct npu_net_conn *conn, const struct npu_net_head *head)
{
    struct npu_net_serve *serve = conn->serve;
    if (!serve || npu_rma_is_read(&serve->request) || serve->id != head->id)
        return false;
    if (head->type == NPU_NET_BROKEN) {
        serve->err = serve->err ? serve->err : FI_EIO;
        end_serving(conn);
        return true;
    }
    if (head->len != serve->at || head->bytes > serve->request.head.len - serve->at)
        return false;
    if (!serve->err)
        serve->err = npu_rma_copy_in(conn->peer.ep, &serve->request, serve->at, head + 1, head->bytes);
    serve->at += head->bytes;
    if (serve->at == serve->request.head.len)
        end_serving(conn);
    return true;
}
