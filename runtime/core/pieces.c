#include "runtime/core/pieces.h"

#include "runtime/base/copy.h"
#include "runtime/core/request.h"

#include <string.h>

enum { PIECE_MAX = 256 * 1024 }; /* larger system calls nearly halve tcp's bandwidth (measured) */

/* One RMA or zero-copy operation of a request; from context->op_pool. */
struct transfer_op {
    struct hc_op base;
    struct hcomm_request *request;
    hc_piece_done_fn done;
    size_t size;
};

static void op_done(struct hc_op *base, hcomm_status_t status)
{
    struct transfer_op *op = hc_container_of(base, struct transfer_op, base);
    struct hcomm_request *request = op->request;
    hc_piece_done_fn done = op->done;
    size_t size = op->size;
    hc_pool_put(&request->context->op_pool, op);
    request->ops--;
    done(request, size, status);
}

static struct transfer_op *new_op(struct hcomm_request *request, hc_piece_done_fn done, size_t size)
{
    struct transfer_op *op = hc_pool_get(&request->context->op_pool);
    if (!op)
        return NULL;
    op->base.done = op_done;
    op->done = done;
    op->request = request;
    op->size = size;
    return op;
}

struct data_pack {
    struct hc_wire_data head;
    const uint8_t *data;
    size_t size;
};

static size_t pack_data(void *dest, void *arg)
{
    const struct data_pack *pack = arg;
    (void)memcpy(dest, &pack->head, sizeof(pack->head));
    hc_copy((uint8_t *)dest + sizeof(pack->head), pack->data, pack->size);
    return sizeof(pack->head) + pack->size;
}

static hcomm_status_t send_piece_copied(struct hcomm_request *request, size_t *size)
{
    struct hc_peer *peer = request->peer;
    *size = hc_smaller(request->accept - request->issued, peer->attr->eager_max);
    struct data_pack pack = {
        .head = {.recv_id = request->remote_id, .offset = request->issued},
        .data = (const uint8_t *)request->buf + request->issued,
        .size = *size,
    };
    if (sizeof(pack.head) + *size <= peer->attr->short_max)
        return peer->ops->am_short(peer->ep, HC_WIRE_DATA, &pack.head, sizeof(pack.head), pack.data, *size);
    return peer->ops->am_bcopy(peer->ep, HC_WIRE_DATA, pack_data, &pack);
}

static hcomm_status_t send_piece_zero_copy(struct hcomm_request *request, hc_piece_done_fn done, size_t *size)
{
    struct hc_peer *peer = request->peer;
    const struct hc_wire_data head = {.recv_id = request->remote_id, .offset = request->issued};
    *size = hc_smaller(hc_smaller(request->accept - request->issued, peer->attr->zcopy_max - sizeof(head)),
                       PIECE_MAX);
    struct transfer_op *op = new_op(request, done, *size);
    if (!op)
        return hc_error(HCOMM_ERR_NO_MEMORY, "transfer: out of memory");
    hcomm_status_t status =
        peer->ops->am_zcopy(peer->ep, HC_WIRE_DATA, &head, sizeof(head),
                            (const uint8_t *)request->buf + request->issued, *size, request->mem, &op->base);
    if (status != HCOMM_IN_PROGRESS)
        hc_pool_put(&request->context->op_pool, op);
    return status;
}

hcomm_status_t hc_piece_get(struct hcomm_request *request, hc_piece_done_fn done, size_t *size)
{
    struct hc_peer *peer = request->peer;
    *size = hc_smaller(request->accept - request->issued, peer->attr->rma_max);
    struct transfer_op *op = new_op(request, done, *size);
    if (!op)
        return hc_error(HCOMM_ERR_NO_MEMORY, "transfer: out of memory");
    hcomm_status_t status =
        peer->ops->get(peer->ep, (uint8_t *)request->buf + request->issued, *size, request->mem,
                       request->remote_address + request->issued, request->rkey, &op->base);
    if (status != HCOMM_IN_PROGRESS)
        hc_pool_put(&request->context->op_pool, op);
    return status;
}

hcomm_status_t hc_piece_issue(struct hcomm_request *request, hc_piece_done_fn done, size_t *size)
{
    if (request->kind == HC_REQUEST_RECV)
        return hc_piece_get(request, done, size);
    if (request->peer->attr->caps & HC_CAP_ZCOPY)
        return send_piece_zero_copy(request, done, size);
    return send_piece_copied(request, size);
}
