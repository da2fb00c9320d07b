/* RMA: fi_rma(3)'s calls, the request, and the target's checks. */
#include "transports/npu/rma.h"

#include <string.h>

/* ---- Building a request ---- */

static bool carries_operands(const struct npu_rma *op)
{
    if (op->op >= NPU_RMA_ATOMIC)
        return op->atomic_op != FI_ATOMIC_READ;
    return op->op == NPU_RMA_WRITE && op->len <= NPU_RMA_INLINE_MAX;
}

/* The target may copy from or to the initiator's memory itself. */
static bool names_memory(const struct npu_rma *op)
{
    return op->op <= NPU_RMA_READ && op->len > NPU_RMA_INLINE_MAX && !op->apart &&
           !npu_desc_on_device(op->desc, op->iov_count);
}

size_t npu_rma_size(const struct npu_rma *op)
{
    size_t size = sizeof(struct npu_rma_head) + op->target_count * sizeof(struct npu_rma_target);
    if (names_memory(op))
        size += op->iov_count * sizeof(struct npu_rma_local);
    if (op->ipc)
        size += sizeof(*op->ipc);
    if (carries_operands(op))
        size += op->op == NPU_RMA_COMPARE ? 2 * op->len : op->len;
    return size;
}

static int gather(const struct iovec *iov, void **desc, unsigned count, void *to)
{
    struct npu_buf buf;
    int rc = npu_buf_init(&buf, iov, desc, count);
    return rc == 0 ? npu_buf_read(&buf, 0, to, buf.len) : rc;
}

static unsigned char *put(unsigned char *at, const void *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return at + n;
}

int npu_rma_build(const struct npu_rma *op, void *bytes)
{
    bool named = names_memory(op), inside = carries_operands(op);
    const struct npu_rma_head head = {
        .op = (uint8_t)op->op,
        .atomic_op = (uint8_t)op->atomic_op,
        .datatype = (uint8_t)op->datatype,
        .targets = (uint8_t)op->target_count,
        .locals = (uint8_t)(named ? op->iov_count : 0),
        .flags = (uint8_t)((inside ? NPU_RMA_INLINE : 0) | (op->ipc ? NPU_RMA_IPC : 0)),
        .len = op->len,
    };
    unsigned char *at = put(bytes, &head, sizeof(head));
    for (unsigned i = 0; i < op->target_count; i++) {
        const struct fi_rma_iov *range = &op->targets[i];
        struct npu_rma_target target = {.addr = range->addr, .len = range->len, .key = range->key};
        at = put(at, &target, sizeof(target));
    }
    for (unsigned i = 0; i < head.locals; i++) {
        struct npu_rma_local local = {.addr = (uintptr_t)op->iov[i].iov_base, .len = op->iov[i].iov_len};
        at = put(at, &local, sizeof(local));
    }
    if (op->ipc)
        at = put(at, op->ipc, sizeof(*op->ipc));
    int rc = inside ? gather(op->iov, op->desc, op->iov_count, at) : 0;
    if (rc == 0 && op->op == NPU_RMA_COMPARE)
        rc = gather(op->compare, op->compare_desc, op->compare_count, at + op->len);
    return rc;
}

/* ---- Reading a request ---- */

static bool take(const unsigned char **at, size_t *left, void *to, size_t n)
{
    if (*left < n)
        return false;
    memcpy(to, *at, n);
    *at += n;
    *left -= n;
    return true;
}

static bool targets_add_up(const struct npu_rma_request *request)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < request->head.targets; i++)
        if (__builtin_add_overflow(sum, request->targets[i].len, &sum))
            return false;
    return sum == request->head.len && sum <= NPU_MAX_MSG_SIZE;
}

static bool locals_add_up(const struct npu_rma_request *request)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < request->head.locals; i++)
        if (__builtin_add_overflow(sum, request->locals[i].len, &sum))
            return false;
    return request->head.locals == 0 || sum == request->head.len;
}

static bool kind_is_right(const struct npu_rma_head *head)
{
    bool inside = head->flags & NPU_RMA_INLINE;
    switch (head->op) {
    case NPU_RMA_WRITE:
        return head->len > NPU_RMA_INLINE_MAX ? !inside : inside;
    case NPU_RMA_READ:
        return !inside;
    case NPU_RMA_ATOMIC:
    case NPU_RMA_FETCH:
    case NPU_RMA_COMPARE:
        return npu_atomic_offered(head->op, head->atomic_op, head->datatype) && head->len <= NPU_ATOMIC_MAX &&
               inside == (head->atomic_op != FI_ATOMIC_READ);
    default:
        return false;
    }
}

bool npu_rma_parse(const void *bytes, size_t len, struct npu_rma_request *request)
{
    const unsigned char *at = bytes;
    struct npu_rma_head *head = &request->head;
    if (!take(&at, &len, head, sizeof(*head)) || head->targets > NPU_IOV_LIMIT ||
        head->locals > NPU_IOV_LIMIT || !kind_is_right(head))
        return false;
    if (!take(&at, &len, request->targets, head->targets * sizeof(*request->targets)) ||
        !take(&at, &len, request->locals, head->locals * sizeof(*request->locals)))
        return false;
    if ((head->flags & NPU_RMA_IPC) && !take(&at, &len, &request->ipc, sizeof(request->ipc)))
        return false;
    size_t operands = head->flags & NPU_RMA_INLINE ? head->len : 0;
    if (head->op == NPU_RMA_COMPARE)
        operands *= 2;
    request->operands = at;
    return len == operands && targets_add_up(request) && locals_add_up(request);
}

/* ---- The target ---- */

/* The part of a registration's pieces that a range covers. */
static void slice(const struct npu_mr *mr, uint64_t offset, uint64_t len, struct npu_buf *buf)
{
    buf->count = 0;
    buf->len = len;
    buf->device = mr->device >= 0 ? (struct npu_mr *)(uintptr_t)mr : NULL;
    for (unsigned i = 0; i < mr->iov_count && len; i++) {
        uint64_t piece = mr->iov[i].iov_len;
        if (offset >= piece) {
            offset -= piece;
            continue;
        }
        uint64_t part = piece - offset < len ? piece - offset : len;
        buf->iov[buf->count++] = (struct iovec){(char *)mr->iov[i].iov_base + offset, part};
        len -= part;
        offset = 0;
    }
}

static int check_range(const struct npu_ep *ep, const struct npu_mr *mr, const struct npu_rma_target *range,
                       uint64_t need)
{
    if (mr->ep && mr->ep != ep)
        return FI_EKEYREJECTED;
    if ((mr->access & need) != need)
        return FI_EACCES;
    uint64_t offset = range->addr - mr->base;
    return offset > mr->len || range->len > mr->len - offset ? FI_EINVAL : 0;
}

int npu_target_hold(struct npu_ep *ep, const struct npu_rma_target *range, uint64_t need,
                    struct npu_target *target)
{
    struct npu_mr *mr = npu_mr_hold(ep->domain, range->key);
    int err = mr ? check_range(ep, mr, range, need) : FI_EKEYREJECTED;
    if (err) {
        if (mr)
            npu_mr_drop(mr);
        return err;
    }
    target->mr = mr;
    slice(mr, range->addr - mr->base, range->len, &target->buf);
    return 0;
}

void npu_target_drop(struct npu_target *target)
{
    npu_mr_drop(target->mr);
}

static uint64_t rights_of(const struct npu_rma_request *request)
{
    switch (request->head.op) {
    case NPU_RMA_READ:
        return FI_REMOTE_READ;
    case NPU_RMA_WRITE:
    case NPU_RMA_ATOMIC:
        return FI_REMOTE_WRITE;
    default:
        return request->head.atomic_op == FI_ATOMIC_READ ? FI_REMOTE_READ : FI_REMOTE_READ | FI_REMOTE_WRITE;
    }
}

/* Ranges of atomic operations hold whole, aligned elements, in one piece each. */
static bool elements_fit(const struct npu_rma_request *request, const struct npu_target *target)
{
    size_t size = npu_atomic_size(request->head.datatype);
    for (unsigned i = 0; i < target->buf.count; i++)
        if ((uintptr_t)target->buf.iov[i].iov_base % size || target->buf.iov[i].iov_len % size)
            return false;
    return true;
}

int npu_rma_check(struct npu_ep *ep, const struct npu_rma_request *request)
{
    uint64_t need = rights_of(request);
    if (!(ep->caps & (npu_rma_is_atomic(request) ? FI_ATOMIC : FI_RMA)) || (ep->caps & need) != need)
        return FI_EOPNOTSUPP;
    for (unsigned i = 0; i < request->head.targets; i++) {
        struct npu_target target;
        if (request->targets[i].len == 0)
            continue; /* touches nothing, so its key does not count */
        int err = npu_target_hold(ep, &request->targets[i], need, &target);
        if (err)
            return err;
        if (npu_rma_is_atomic(request) && !elements_fit(request, &target))
            err = FI_EINVAL;
        npu_target_drop(&target);
        if (err)
            return err;
    }
    return 0;
}

const struct npu_rma_target *npu_rma_at(const struct npu_rma_request *request, uint64_t at, uint64_t *offset)
{
    unsigned i = 0;
    while (at >= request->targets[i].len && i + 1U < request->head.targets)
        at -= request->targets[i++].len;
    *offset = at;
    return &request->targets[i];
}

/* One of the two copies; each range is looked up anew, as it may be gone since the last piece. */
static int copy(struct npu_ep *ep, const struct npu_rma_request *request, uint64_t at, char *other, size_t n,
                bool in)
{
    int err = 0;
    while (n && !err) {
        struct npu_target target;
        uint64_t offset;
        const struct npu_rma_target *range = npu_rma_at(request, at, &offset);
        size_t part = range->len - offset < n ? (size_t)(range->len - offset) : n;
        err = npu_target_hold(ep, range, in ? FI_REMOTE_WRITE : FI_REMOTE_READ, &target);
        if (err)
            return err;
        err = in ? -npu_buf_write(&target.buf, offset, other, part)
                 : -npu_buf_read(&target.buf, offset, other, part);
        npu_target_drop(&target);
        other += part;
        at += part;
        n -= part;
    }
    return err;
}

int npu_rma_copy_in(struct npu_ep *ep, const struct npu_rma_request *request, uint64_t at, const void *from,
                    size_t n)
{
    return copy(ep, request, at, (char *)(uintptr_t)from, n, true);
}

int npu_rma_copy_out(struct npu_ep *ep, const struct npu_rma_request *request, uint64_t at, void *to,
                     size_t n)
{
    return copy(ep, request, at, to, n, false);
}

/* ---- Atomics at the target ---- */

/* Atomic among the provider's operations of this process only: nothing else can be with copies. */
static int compute_on_device(const struct npu_rma_request *request, struct npu_mr *mr,
                             const struct iovec *iov, const unsigned char *a, const unsigned char *b,
                             void *result)
{
    static struct npu_lock lock;
    uint64_t values[NPU_ATOMIC_MAX / sizeof(uint64_t)];
    npu_lock(&lock);
    int rc = npu_hmem_read(mr, iov->iov_base, values, iov->iov_len);
    if (rc == 0) {
        npu_atomic_apply(request->head.atomic_op, request->head.datatype, values, a, b, result,
                         iov->iov_len / npu_atomic_size(request->head.datatype));
        if (request->head.atomic_op != FI_ATOMIC_READ)
            rc = npu_hmem_write(mr, iov->iov_base, values, iov->iov_len);
    }
    npu_unlock(&lock);
    return -rc;
}

static int compute_range(const struct npu_rma_request *request, struct npu_target *target, uint64_t at,
                         unsigned char *result)
{
    const unsigned char *a = request->head.flags & NPU_RMA_INLINE ? request->operands : NULL;
    const unsigned char *b = request->head.op == NPU_RMA_COMPARE ? a + request->head.len : NULL;
    size_t size = npu_atomic_size(request->head.datatype);
    int err = 0;
    for (unsigned i = 0; i < target->buf.count && !err; i++) {
        const struct iovec *iov = &target->buf.iov[i];
        const unsigned char *operand = a ? a + at : NULL, *compare = b ? b + at : NULL;
        unsigned char *old = result ? result + at : NULL;
        if (target->buf.device)
            err = compute_on_device(request, target->mr, iov, operand, compare, old);
        else
            npu_atomic_apply(request->head.atomic_op, request->head.datatype, iov->iov_base, operand, compare,
                             old, iov->iov_len / size);
        at += iov->iov_len;
    }
    return err;
}

int npu_rma_compute(struct npu_ep *ep, const struct npu_rma_request *request, void *result)
{
    uint64_t at = 0;
    int err = 0;
    for (unsigned i = 0; i < request->head.targets && !err; i++) {
        struct npu_target target;
        if (request->targets[i].len == 0)
            continue;
        err = npu_target_hold(ep, &request->targets[i], rights_of(request), &target);
        if (err)
            return err;
        err = compute_range(request, &target, at, result);
        npu_target_drop(&target);
        at += request->targets[i].len;
    }
    return err;
}

/* ---- What the target tells its application ---- */

static void count_regions(struct npu_ep *ep, const struct npu_rma_request *request)
{
    for (unsigned i = 0; i < request->head.targets; i++) {
        struct npu_mr *mr = npu_mr_hold(ep->domain, request->targets[i].key);
        if (!mr)
            continue;
        if (mr->cntr)
            npu_cntr_count(mr->cntr, false);
        npu_mr_drop(mr);
    }
}

void npu_rma_served(struct npu_ep *ep, const struct npu_rma_request *request, const uint64_t *data)
{
    bool reads = npu_rma_is_read(request) || request->head.atomic_op == FI_ATOMIC_READ;
    if (request->head.op == NPU_RMA_WRITE)
        reads = false;
    struct npu_cntr *cntr = ep->cntr[reads ? NPU_CNTR_REMOTE_READ : NPU_CNTR_REMOTE_WRITE];
    if (!reads)
        count_regions(ep, request);
    if (cntr)
        npu_cntr_count(cntr, false);
    if (!data || !ep->rx_cq)
        return;
    struct npu_completion completion = {
        .entry =
            {
                .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                .len = request->head.len,
                .data = *data,
            },
        .source = FI_ADDR_NOTAVAIL,
    };
    npu_cq_push(ep->rx_cq, &completion);
}

/* ---- The initiator ---- */

static bool targets_len(const struct npu_rma *op, size_t *len)
{
    size_t sum = 0;
    for (unsigned i = 0; i < op->target_count; i++)
        if (__builtin_add_overflow(sum, op->targets[i].len, &sum))
            return false;
    *len = sum;
    return sum <= NPU_MAX_MSG_SIZE;
}

static bool same_len(const struct iovec *iov, unsigned count, size_t len)
{
    size_t sum = 0;
    return count <= NPU_IOV_LIMIT && npu_iov_len(iov, count, &sum) && sum == len;
}

static int check_lens(struct npu_rma *op)
{
    if (op->target_count > NPU_IOV_LIMIT)
        return -FI_EINVAL;
    if (!targets_len(op, &op->len))
        return -FI_EMSGSIZE;
    bool has_operand = op->op < NPU_RMA_ATOMIC || op->atomic_op != FI_ATOMIC_READ;
    if ((has_operand && !same_len(op->iov, op->iov_count, op->len)) ||
        (op->op == NPU_RMA_COMPARE && !same_len(op->compare, op->compare_count, op->len)) ||
        (op->op >= NPU_RMA_FETCH && !same_len(op->result, op->result_count, op->len)))
        return -FI_EINVAL;
    if (op->op >= NPU_RMA_ATOMIC && op->len > NPU_ATOMIC_MAX)
        return -FI_EINVAL;
    return (op->flags & FI_INJECT) && op->len > NPU_INJECT_MAX ? -FI_EINVAL : 0;
}

static int check(const struct npu_ep *ep, const struct npu_rma *op)
{
    if (!ep->enabled)
        return -FI_EOPBADSTATE;
    uint64_t need = op->flags & (FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE | FI_FENCE);
    if ((ep->caps & need) != need)
        return -FI_EOPNOTSUPP;
    return ep->tx_cq && !npu_cq_has_room(ep->tx_cq) ? -FI_EAGAIN : 0;
}

int npu_rma_make(struct npu_peer *peer, const struct npu_rma *op, struct npu_tx **made)
{
    struct npu_tx *tx = npu_tx_get(peer);
    int rc = 0;
    if (!tx)
        return -FI_EAGAIN;
    if (op->op >= NPU_RMA_FETCH)
        rc = npu_buf_init(&tx->buf, op->result, op->result_desc, op->result_count);
    else if (op->op != NPU_RMA_ATOMIC)
        rc = npu_buf_init(&tx->buf, op->iov, op->desc, op->iov_count);
    if (rc < 0) {
        npu_tx_put(tx);
        return rc;
    }
    tx->flags = op->flags;
    tx->context = op->context;
    tx->tag = 0;
    tx->data = op->data;
    tx->end = op->op == NPU_RMA_READ || op->op >= NPU_RMA_FETCH ? op->len : 0;
    *made = tx;
    return 0;
}

ssize_t npu_rma_post(struct npu_ep *ep, fi_addr_t dest, struct npu_rma *op)
{
    struct npu_peer *peer = NULL;
    int rc = check_lens(op);
    if (hc_unlikely(rc < 0))
        return rc;
    npu_lock(&ep->lock);
    rc = check(ep, op);
    if (hc_likely(rc == 0))
        rc = npu_ep_peer(ep, dest, &peer);
    if (hc_likely(rc == 0))
        rc = peer->path->rma ? peer->path->rma(peer, op) : -FI_EOPNOTSUPP;
    npu_unlock(&ep->lock);
    return rc;
}
