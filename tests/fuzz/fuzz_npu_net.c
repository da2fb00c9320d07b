/* clang-format off */
/*
 * Messages of the provider's path between hosts, from a peer that may say anything, between sends and receives of ours:
 * no stray access, no operation completed twice, nothing left over. The inner provider is one that swallows what is sent.
 * fuzz-sources: transports/npu/net_wire.c transports/npu/net_recv.c transports/npu/net_rma.c transports/npu/net_send.c transports/npu/net_slot.c transports/npu/recv.c transports/npu/send.c transports/npu/rma.c transports/npu/atomic_ops.c transports/npu/buf.c transports/npu/addr.c runtime/base/copy.c
 */
/* clang-format on */
#include "transports/npu/net.h"
#include "transports/npu/rma.h"

#include "tests/fuzz/fuzz.h"

enum { SENDS = 16, RECEIVES = 16, ROOM = 70000 };

static long posted, completed; /* operations of ours */

/* ---- what the path is given instead of the rest of the provider ---- */

struct fi_provider npu_provider;
static const struct npu_path_ops path = {
    .name = "fuzz",
    .send = npu_net_send,
    .rma = npu_net_rma,
    .fetch = npu_net_fetch,
    .delivered = npu_net_delivered,
    .release = npu_net_release,
    .cancel = npu_net_cancel,
};

int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys)
{
    (void)prov, (void)level, (void)subsys;
    return 0;
}

void fi_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
            const char *func, int line, const char *fmt, ...)
{
    (void)prov, (void)level, (void)subsys, (void)func, (void)line, (void)fmt;
}

void npu_lock_slow(struct npu_lock *lock)
{
    (void)lock;
}

void npu_cq_push(struct npu_cq *cq, const struct npu_completion *completion)
{
    (void)cq, (void)completion;
    completed++;
}

void npu_cq_push_error(struct npu_cq *cq, const struct npu_cq_error *error)
{
    (void)cq, (void)error;
    completed++;
}

void npu_cntr_count(struct npu_cntr *cntr, bool error)
{
    (void)cntr, (void)error;
}

bool npu_av_get(struct npu_av *av, fi_addr_t index, struct npu_addr *addr, bool *local)
{
    (void)av, (void)index, (void)addr, (void)local;
    return false;
}

fi_addr_t npu_av_find(struct npu_av *av, const struct npu_addr *addr, fi_addr_t *id)
{
    (void)av, (void)addr;
    *id = 0;
    return 0;
}

void npu_local_hear(struct npu_ep *ep)
{
    (void)ep; /* nobody of this host connects */
}

int npu_local_connect(struct npu_ep *ep, const struct npu_addr *addr, struct npu_peer **peer)
{
    (void)ep, (void)addr, (void)peer;
    return -FI_ECONNREFUSED;
}

int npu_net_connect(struct npu_ep *ep, const struct npu_addr *addr, struct npu_peer **peer)
{
    (void)ep, (void)addr, (void)peer;
    return -FI_EHOSTUNREACH;
}

bool npu_ep_progress(struct npu_ep *ep)
{
    (void)ep;
    return false;
}

void npu_ep_service(struct npu_ep *ep)
{
    (void)ep;
}

/* As where no copy goes on by itself. */
int npu_net_move(struct npu_net_slot *slot, const struct npu_net_span *span)
{
    (void)slot;
    return span->out ? npu_buf_read(span->buf, span->offset, span->host, span->n)
                     : npu_buf_write(span->buf, span->offset, span->host, span->n);
}

void npu_net_copies_wait(struct npu_net_conn *conn)
{
    (void)conn;
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

/* Key 1 is memory of ours. */
static struct npu_mr exposed;

struct npu_mr *npu_mr_hold(struct npu_domain *domain, uint64_t key)
{
    (void)domain;
    return key == 1 ? &exposed : NULL;
}

void npu_mr_drop(struct npu_mr *mr)
{
    (void)mr;
}

void npu_net_fail(struct npu_net_conn *conn, int err, const char *why)
{
    (void)why;
    conn->peer.dead = true;
    conn->err = err;
}

/* ---- the inner provider ---- */

static struct npu_net_slot *in_flight[NPU_NET_SLOTS + NPU_NET_ANSWERS];
static unsigned num_in_flight;

static ssize_t swallow(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                       void *context)
{
    (void)ep, (void)desc, (void)dest;
    if (num_in_flight == hc_array_len(in_flight))
        return -FI_EAGAIN;
    FUZZ_CHECK(len >= sizeof(struct npu_net_head) && len <= NPU_NET_SLOT && buf);
    in_flight[num_in_flight++] = hc_container_of(context, struct npu_net_slot, context);
    return 0;
}

static ssize_t take_slot(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
    (void)ep, (void)buf, (void)len, (void)desc, (void)src, (void)context;
    return 0;
}

static struct fi_ops_msg inner_ops = {.size = sizeof(inner_ops), .send = swallow, .recv = take_slot};
static struct fid_ep inner = {.msg = &inner_ops};

/* ---- an endpoint with two connections, by hand ---- */

struct world {
    struct npu_ep ep;
    struct npu_av av;
    struct npu_domain domain;
    struct npu_cq cq;
    struct npu_net_conn *conns[2]; /* [1] outgoing */
    unsigned char *bytes;          /* of all operations */
};

static struct npu_net_conn *make_conn(struct world *world, bool outgoing)
{
    struct npu_net_conn *conn = calloc(1, sizeof(*conn));
    FUZZ_CHECK(conn);
    struct hc_list *lists[] = {&conn->node,  &conn->free,    &conn->unsent,  &conn->unposted, &conn->inbox,
                               &conn->queue, &conn->sending, &conn->waiting, &conn->reading};
    for (size_t i = 0; i < hc_array_len(lists); i++)
        hc_list_init(lists[i]);
    conn->outgoing = outgoing;
    conn->open = true;
    conn->ep = &inner;
    conn->credits = outgoing ? NPU_NET_SLOTS : NPU_NET_ANSWERS;
    conn->peer = (struct npu_peer){.path = &path, .ep = &world->ep, .source = FI_ADDR_NOTAVAIL};
    for (unsigned i = 0; i < hc_array_len(conn->slots); i++) {
        struct npu_net_slot *slot = &conn->slots[i];
        slot->conn = conn;
        slot->receives = (i < NPU_NET_SLOTS) != outgoing;
        hc_list_init(&slot->node);
        slot->bytes = slot->receives ? NULL : malloc(i < NPU_NET_SLOTS ? NPU_NET_SLOT : NPU_NET_ANSWER);
        if (!slot->receives)
            hc_list_append(&conn->free, &slot->node);
    }
    return conn;
}

static void begin(struct world *world)
{
    *world = (struct world){0};
    world->ep.domain = &world->domain;
    world->ep.av = &world->av;
    world->ep.tx_cq = world->ep.rx_cq = &world->cq;
    world->cq.limit = 1 << 20;
    world->ep.caps = FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_SOURCE | FI_RMA | FI_ATOMIC |
                     FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    world->ep.tx_size = SENDS;
    world->ep.rx_size = RECEIVES;
    world->ep.min_multi_recv = 64;
    world->ep.enabled = true;
    npu_ep_init_lists(&world->ep);
    hc_list_init(&world->ep.workers);
    FUZZ_CHECK(npu_send_init(&world->ep) == 0 && npu_recv_init(&world->ep) == 0);
    world->conns[0] = make_conn(world, false);
    world->conns[1] = make_conn(world, true);
    world->bytes = calloc(1, ROOM);
    FUZZ_CHECK(world->bytes);
    exposed = (struct npu_mr){
        .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
        .iov_count = 1,
        .iov[0] = {world->bytes, ROOM},
        .len = ROOM,
        .device = -1,
    };
    posted = completed = 0;
    num_in_flight = 0;
}

static void end(struct world *world)
{
    for (int i = 0; i < 2; i++) {
        struct npu_net_conn *conn = world->conns[i];
        conn->peer.dead = true;
        conn->err = FI_ECONNRESET;
        if (conn->outgoing)
            npu_net_abort(conn);
        else
            npu_net_stop_serving(conn);
        if (!conn->outgoing)
            for (struct hc_list *node;
                 (node = hc_list_pop(&conn->reading)) || (node = hc_list_pop(&conn->waiting));)
                npu_rx_finish(&world->ep, hc_list_entry(node, struct npu_rx, node), FI_ECONNRESET);
    }
    FUZZ_CHECK(world->ep.tx_count == 0);
    while (npu_recv_cancel(&world->ep, world->bytes))
        ;
    FUZZ_CHECK(world->ep.rx_count == 0 && completed >= posted);
    npu_recv_fini(&world->ep);
    npu_send_fini(&world->ep);
    for (int i = 0; i < 2; i++) {
        for (unsigned n = 0; n < hc_array_len(world->conns[i]->slots); n++)
            free(world->conns[i]->slots[n].bytes);
        free(world->conns[i]->answers);
        free(world->conns[i]);
    }
    free(world->bytes);
}

/* ---- the input: a sequence of steps ---- */

struct input {
    const uint8_t *next;
    size_t left;
};

static unsigned draw(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->next++;
}

/* A request with up to two ranges, well formed or not. */
static size_t make_request(struct input *input, unsigned char *bytes)
{
    struct npu_rma_head head = {
        .op = (uint8_t)(draw(input) % 7),
        .atomic_op = (uint8_t)(draw(input) % 20),
        .datatype = (uint8_t)(draw(input) % 12),
        .targets = (uint8_t)(draw(input) % 3),
        .flags = (uint8_t)(draw(input) % 3),
    };
    size_t size = sizeof(head);
    for (unsigned i = 0; i < head.targets; i++) {
        struct npu_rma_target target = {.addr = draw(input) * 8,
                                        .len = (uint64_t)draw(input) * (draw(input) % 80),
                                        .key = draw(input) % 8 ? 1 : 2};
        memcpy(bytes + size, &target, sizeof(target));
        size += sizeof(target);
        head.len += target.len;
    }
    if ((head.flags & NPU_RMA_INLINE) && head.len <= NPU_RMA_INLINE_MAX)
        size += head.op == NPU_RMA_COMPARE ? 2 * head.len : head.len;
    memcpy(bytes, &head, sizeof(head));
    return size;
}

static size_t payload_of(const struct npu_net_head *head, struct input *input, unsigned how,
                         unsigned char *bytes)
{
    switch (head->type) {
    case NPU_NET_SEND:
        return how & 4 ? 0 : head->len;
    case NPU_NET_RMA:
        return make_request(input, bytes);
    case NPU_NET_DATA:
    case NPU_NET_READ:
    case NPU_NET_DONE:
        return (size_t)draw(input) * (how & 32 ? 100 : 1);
    default:
        return 0;
    }
}

static void deliver(struct world *world, struct input *input)
{
    struct npu_net_conn *conn = world->conns[draw(input) % 2];
    unsigned how = draw(input);
    unsigned char *bytes = calloc(1, NPU_NET_SLOT + sizeof(struct npu_net_head));
    FUZZ_CHECK(bytes);
    struct npu_net_head head = {
        .type = (uint8_t)(draw(input) % 12),
        .flags = (uint8_t)(draw(input) % 17),
        .slots = (uint16_t)(how & 1 ? draw(input) % 40 : 0),
        .window = how & 2 ? draw(input) * 64 : 0,
        .len = (uint64_t)draw(input) * (how & 64 ? 0 : 257),
        .id = draw(input) % 8,
        .tag = draw(input) % 3,
    };
    head.bytes = (uint32_t)payload_of(&head, input, how, bytes + sizeof(head));
    if (how & 8) /* the id of an operation that exists */
        head.id = npu_tx_id(&world->ep.tx_pool[head.id]);
    size_t size = sizeof(head) + head.bytes;
    if (how & 16)
        size = draw(input) % (size + 1);
    unsigned char *exact = malloc(size ? size : 1);
    FUZZ_CHECK(exact);
    memcpy(bytes, &head, sizeof(head));
    memcpy(exact, bytes, size);
    free(bytes);
    struct npu_net_slot slot = {.conn = conn, .receives = true, .bytes = exact, .len = size};
    hc_list_init(&slot.node);
    if (!conn->peer.dead)
        npu_net_take_in(&slot);
    (void)npu_net_read_inbox(conn);
    hc_list_remove(&slot.node);
    free(exact);
}

static void start_send(struct world *world, struct input *input)
{
    struct iovec iov = {world->bytes, (size_t)draw(input) * draw(input)};
    static const uint64_t levels[] = {0, FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE, FI_REMOTE_CQ_DATA};
    struct npu_send send = {
        .iov = &iov,
        .iov_count = 1,
        .len = iov.iov_len,
        .tag = draw(input) % 3,
        .flags = FI_TAGGED | levels[draw(input) % 4],
        .context = world->bytes,
    };
    if (npu_net_send(&world->conns[1]->peer, &send) == 0)
        posted++;
}

static void start_rma(struct world *world, struct input *input)
{
    size_t len = (size_t)draw(input) * draw(input);
    struct iovec iov = {world->bytes, len};
    struct fi_rma_iov target = {.addr = 0, .len = len, .key = 1};
    bool reads = draw(input) % 2;
    struct npu_rma op = {
        .op = reads ? NPU_RMA_READ : NPU_RMA_WRITE,
        .iov = &iov,
        .iov_count = 1,
        .targets = &target,
        .target_count = 1,
        .len = len,
        .flags = FI_RMA | (reads ? FI_READ : FI_WRITE) | (draw(input) % 4 ? 0 : FI_FENCE),
        .context = world->bytes,
    };
    if (npu_net_rma(&world->conns[1]->peer, &op) == 0)
        posted++;
}

static void start_receive(struct world *world, struct input *input)
{
    unsigned how = draw(input);
    struct iovec iov = {world->bytes, (size_t)draw(input) * draw(input)};
    struct npu_recv recv = {
        .iov = &iov,
        .iov_count = 1,
        .addr = FI_ADDR_UNSPEC,
        .tag = draw(input) % 3,
        .ignore = how & 1 ? UINT64_MAX : 0,
        .flags = how & 2 ? FI_TAGGED : FI_MSG | (how & 4 ? FI_MULTI_RECV : 0),
        .context = world->bytes,
    };
    if (npu_recv_post(&world->ep, &recv) == 0)
        posted++;
}

static void slots_are_sent(void)
{
    while (num_in_flight > 0)
        npu_net_slot_sent(in_flight[--num_in_flight]);
}

static void step(struct world *world, struct input *input)
{
    switch (draw(input) % 7) {
    case 0:
    case 1:
        deliver(world, input);
        break;
    case 2:
        start_send(world, input);
        break;
    case 3:
        start_receive(world, input);
        break;
    case 4:
        start_rma(world, input);
        break;
    case 5:
        slots_are_sent();
        npu_net_pump(world->conns[1]);
        npu_net_pump_answers(world->conns[0]);
        break;
    default:
        if (draw(input) % 2)
            npu_send_cancel(&world->ep, world->bytes);
        else
            (void)npu_recv_cancel(&world->ep, world->bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct world world;
    (void)npu_net_hello_ok(data, size);
    begin(&world);
    while (input.left > 0)
        step(&world, &input);
    end(&world);
    return 0;
}
