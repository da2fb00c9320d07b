/*
 * Requests of the provider npu as a peer may send them: what is taken for well formed lies inside what came
 * and adds up; and one that passes the checks of keys, bounds and rights touches nothing but registered
 * memory when it is executed.
 * fuzz-sources: transports/npu/rma.c transports/npu/atomic_ops.c transports/npu/buf.c runtime/base/copy.c
 */
#include "transports/npu/rma.h"

#include "tests/fuzz/fuzz.h"

enum { ROOM = 20000, HALF = ROOM / 2 };

/* ---- what the functions are given instead of the rest of the provider ---- */

static struct npu_mr registered[2]; /* keys 1 and 2: in two pieces; in one, for reading only */

struct npu_mr *npu_mr_hold(struct npu_domain *domain, uint64_t key)
{
    (void)domain;
    return key == 1 || key == 2 ? &registered[key - 1] : NULL;
}

void npu_mr_drop(struct npu_mr *mr)
{
    (void)mr;
}

void npu_lock_slow(struct npu_lock *lock)
{
    (void)lock;
}

int npu_ep_peer(struct npu_ep *ep, fi_addr_t dest, struct npu_peer **peer)
{
    (void)ep, (void)dest, (void)peer;
    return -FI_EINVAL;
}

struct npu_tx *npu_tx_get(struct npu_peer *peer)
{
    (void)peer;
    return NULL;
}

void npu_tx_put(struct npu_tx *tx)
{
    (void)tx;
}

void npu_cq_push(struct npu_cq *cq, const struct npu_completion *completion)
{
    (void)cq, (void)completion;
}

void npu_cntr_count(struct npu_cntr *cntr, bool error)
{
    (void)cntr, (void)error;
}

fi_addr_t npu_peer_source(struct npu_peer *peer, fi_addr_t *index)
{
    (void)peer;
    return *index = 0;
}

int npu_hmem_read(struct npu_mr *mr, const void *device_ptr, void *to, size_t n)
{
    (void)mr, (void)device_ptr, (void)to, (void)n;
    return -FI_EIO;
}

int npu_hmem_write(struct npu_mr *mr, void *device_ptr, const void *from, size_t n)
{
    (void)mr, (void)device_ptr, (void)from, (void)n;
    return -FI_EIO;
}

/* ---- one input ---- */

/* Make a request of one range out of any bytes, so that the fuzzer need not guess sums. */
static void repair(uint8_t *bytes, size_t size)
{
    struct npu_rma_head head;
    struct npu_rma_target target;
    size_t start = sizeof(head) + sizeof(target);
    if (size < start)
        return;
    memcpy(&head, bytes, sizeof(head));
    memcpy(&target, bytes + sizeof(head), sizeof(target));
    head.targets = 1;
    head.locals = 0;
    head.flags &= NPU_RMA_INLINE;
    head.len = head.flags & NPU_RMA_INLINE ? size - start : target.len % ROOM;
    if (head.op == NPU_RMA_COMPARE)
        head.len /= 2;
    target.addr %= ROOM;
    target.key %= 4;
    target.len = head.len;
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), &target, sizeof(target));
}

static void check_form(const struct npu_rma_request *request, const uint8_t *bytes, size_t size)
{
    const struct npu_rma_head *head = &request->head;
    size_t operands = head->flags & NPU_RMA_INLINE ? head->len : 0, sum = 0;
    if (head->op == NPU_RMA_COMPARE)
        operands *= 2;
    FUZZ_CHECK(head->targets <= NPU_IOV_LIMIT && head->locals <= NPU_IOV_LIMIT && operands <= size);
    for (unsigned i = 0; i < head->targets; i++)
        sum += request->targets[i].len;
    FUZZ_CHECK(sum == head->len);
    FUZZ_CHECK(request->operands == bytes + (size - operands));
}

/* What a path does with a request whose bytes it has. */
static void execute(struct npu_ep *ep, const struct npu_rma_request *request)
{
    uint8_t *result = malloc(request->head.len ? request->head.len : 1);
    FUZZ_CHECK(result);
    if (npu_rma_is_atomic(request))
        (void)npu_rma_compute(ep, request, npu_rma_returns(request) ? result : NULL);
    else if (npu_rma_is_read(request))
        (void)npu_rma_copy_out(ep, request, 0, result, request->head.len);
    else if (request->head.flags & NPU_RMA_INLINE)
        (void)npu_rma_copy_in(ep, request, 0, request->operands, request->head.len);
    free(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct npu_rma_request request;
    struct npu_domain domain = {.device = -1};
    struct npu_ep ep = {.domain = &domain,
                        .caps = FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE};
    if (size == 0)
        return 0;
    /* each piece and the request end where the sanitizer sees it */
    uint8_t *bytes = malloc(size > 1 ? size - 1 : 1), *first = calloc(1, HALF), *second = calloc(1, HALF);
    FUZZ_CHECK(bytes && first && second);
    memcpy(bytes, data + 1, size - 1);
    registered[0] = (struct npu_mr){.access = FI_REMOTE_READ | FI_REMOTE_WRITE,
                                    .iov_count = 2,
                                    .iov = {{first, HALF}, {second, HALF}},
                                    .len = ROOM,
                                    .device = -1};
    registered[1] = (struct npu_mr){
        .access = FI_REMOTE_READ, .iov_count = 1, .iov = {{first, HALF}}, .len = HALF, .device = -1};
    if (data[0] & 1)
        repair(bytes, size - 1);
    if (npu_rma_parse(bytes, size - 1, &request)) {
        check_form(&request, bytes, size - 1);
        if (request.head.len <= ROOM && npu_rma_check(&ep, &request) == 0)
            execute(&ep, &request);
    }
    free(bytes);
    free(first);
    free(second);
    return 0;
}
