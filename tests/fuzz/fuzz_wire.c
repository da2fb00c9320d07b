/* clang-format off */
/*
 * Messages from a peer that may say anything, between receives, sends, probes and cancels of ours: no stray access,
 * no request completed twice, nothing left over. The peer is a transport that swallows what is sent to it.
 * fuzz-sources: runtime/core/mapped.c runtime/core/chooser.c runtime/base/arena.c runtime/base/share.c runtime/core/recv.c runtime/core/send.c runtime/core/rndv.c runtime/core/rndv_send.c runtime/core/lend.c runtime/core/lender.c runtime/core/parts.c runtime/core/pieces.c runtime/core/match.c runtime/core/request.c runtime/core/progress.c runtime/core/peer.c runtime/core/wait.c runtime/core/blob.c runtime/core/barrier.c runtime/core/barrier_shared.c runtime/core/coll.c runtime/core/comm.c runtime/core/p2p.c runtime/core/complete.c runtime/core/thread.c runtime/core/staged.c runtime/core/staging.c runtime/core/device.c runtime/core/device_copy.c runtime/core/device_ipc.c runtime/core/ranges.c runtime/core/device_import.c runtime/core/device_registration.c runtime/core/placement.c runtime/topo/affinity.c runtime/topo/cpulist.c transports/npu/acl/table.c runtime/base/config.c runtime/base/copy.c runtime/base/lock.c runtime/base/log.c runtime/base/pool.c runtime/base/settings.c runtime/base/status.c
 */
/* clang-format on */
#include "runtime/core/parts.h"
#include "runtime/core/rndv.h"
#include "runtime/core/stream.h"

#include "tests/fuzz/fuzz.h"

#define HAND_CHECK(condition) FUZZ_CHECK(condition)
#include "tests/hand_context.h"

enum { REQUESTS = 16, ROOM = 1 << 16, MESSAGE_MAX = 2048, OPS_MAX = 32 };

/* ---- what the core is given instead of the launcher and the machine ---- */

const uint32_t *hc_context_hosts(struct hcomm_context *context)
{
    static const uint32_t hosts[2];
    (void)context;
    return hosts;
}

hcomm_status_t hc_boot_get(struct hc_boot *boot, uint32_t rank, const char *key, struct hc_boot_op *op)
{
    (void)boot, (void)rank, (void)key;
    *op = (struct hc_boot_op){0};
    return HCOMM_OK; /* and never done */
}

void hc_boot_op_cancel(struct hc_boot *boot, struct hc_boot_op *op)
{
    (void)boot, (void)op;
}

void hc_boot_drain(struct hc_boot *boot)
{
    (void)boot;
}

struct hc_boot_event hc_boot_next_event(struct hc_boot *boot)
{
    (void)boot;
    return (struct hc_boot_event){HC_BOOT_EVENT_NONE, 0};
}

struct hc_iface_slot *hc_select_iface(struct hcomm_context *context, uint32_t rank,
                                      const struct hc_blob *info, const struct hc_iface_slot *after,
                                      const struct hc_blob_address **address)
{
    (void)context, (void)rank, (void)info, (void)after, (void)address;
    return NULL;
}

void hc_select_poll(struct hcomm_context *context, struct hc_iface_slot *slot)
{
    (void)context, (void)slot;
}

bool hc_select_allows_ofi(const struct hcomm_context *context)
{
    (void)context;
    return false;
}

bool hc_select_may_add_ofi(const struct hcomm_context *context)
{
    (void)context;
    return false;
}

hcomm_status_t hc_boot_call_rank(struct hc_boot *boot, uint32_t rank)
{
    (void)boot, (void)rank;
    return HCOMM_OK;
}

hcomm_status_t hc_context_open_more(struct hcomm_context *context)
{
    (void)context;
    return HCOMM_OK;
}

const char *hc_context_more_key(const struct hcomm_context *context, char *key)
{
    (void)context;
    return strcpy(key, "more");
}

bool hc_streams_must_poll(const struct hcomm_context *context)
{
    (void)context;
    return false;
}

unsigned hc_streams_progress(struct hcomm_context *context)
{
    (void)context;
    return 0;
}

void hc_streams_take_signal(struct hc_streams *streams)
{
    (void)streams;
}

hcomm_status_t hc_context_describe(struct hcomm_context *context, void *bytes, size_t *size)
{
    (void)context, (void)bytes, (void)size;
    return HCOMM_ERR_UNSUPPORTED;
}

/* ---- the transport ---- */

static unsigned weather;                 /* decides when there is no room */
static struct hc_op *in_flight[OPS_MAX]; /* transfers the fuzzer may complete later */
static unsigned num_in_flight;
static struct hc_share own_shares[HC_SHARES], peer_shares[HC_SHARES];
static struct hc_share_pool pool;

static bool no_room(void)
{
    weather = weather * 1103515245u + 12345u;
    return (weather >> 16) % 4 == 0;
}

static hcomm_status_t fake_short(struct hc_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                 const void *data, size_t len)
{
    (void)ep, (void)id, (void)hdr, (void)data;
    FUZZ_CHECK(hdr_len % 8 == 0 && hdr_len + len <= 128);
    return no_room() ? HCOMM_AGAIN : HCOMM_OK;
}

static hcomm_status_t fake_bcopy(struct hc_ep *ep, uint8_t id, hc_pack_fn pack, void *arg)
{
    (void)id;
    if (no_room())
        return HCOMM_AGAIN;
    void *room = malloc(ep->iface->attr.bcopy_max);
    FUZZ_CHECK(room && pack(room, arg) <= ep->iface->attr.bcopy_max);
    free(room);
    return HCOMM_OK;
}

static hcomm_status_t fake_get(struct hc_ep *ep, void *local, size_t len, struct hc_mem *mem, uint64_t remote,
                               struct hc_rkey *rkey, struct hc_op *op)
{
    (void)mem, (void)remote, (void)rkey;
    bool at_once = ep->iface->attr.caps & HC_CAP_SHARE;
    bool may_wait = !at_once || op; /* parts that are shared out cannot be put back */
    weather = weather * 1103515245u + 12345u;
    (void)memset(local, 1, len);
    if (!at_once && num_in_flight < OPS_MAX && (weather >> 16) % 2) {
        in_flight[num_in_flight++] = op;
        return HCOMM_IN_PROGRESS;
    }
    static const hcomm_status_t outcomes[] = {HCOMM_OK, HCOMM_ERR_UNSUPPORTED, HCOMM_ERR_IO, HCOMM_AGAIN};
    return outcomes[(weather >> 20) % (may_wait ? 4 : 3)];
}

static hcomm_status_t fake_put(struct hc_ep *ep, const void *local, size_t len, struct hc_mem *mem,
                               uint64_t remote, struct hc_rkey *rkey, struct hc_op *op)
{
    (void)ep, (void)mem, (void)remote, (void)rkey, (void)op;
    static volatile uint8_t sum;
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)local)[i]);
    return no_room() ? HCOMM_ERR_IO : HCOMM_OK;
}

static struct hc_share_pool *fake_shares(struct hc_iface *iface)
{
    (void)iface;
    return &pool;
}

static struct hc_share *fake_ep_share(struct hc_ep *ep, uint32_t index)
{
    (void)ep;
    return index < HC_SHARES ? &peer_shares[index] : NULL;
}

static hcomm_status_t fake_rkey_unpack(struct hc_ep *ep, const void *buf, size_t len, struct hc_rkey **rkey)
{
    uint8_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)buf)[i]);
    if (sum % 4 == 3)
        return HCOMM_ERR_UNSUPPORTED;
    return hand_rkey_unpack(ep, buf, len, rkey);
}

static unsigned fake_progress(struct hc_iface *iface)
{
    static const hcomm_status_t outcomes[] = {HCOMM_OK, HCOMM_OK, HCOMM_ERR_IO, HCOMM_ERR_UNSUPPORTED};
    unsigned count = num_in_flight;
    (void)iface;
    while (num_in_flight > 0) {
        struct hc_op *op = in_flight[--num_in_flight];
        op->done(op, outcomes[(weather >> 8) % 4]);
    }
    return count;
}

static void fake_ep_destroy(struct hc_ep *ep)
{
    (void)ep;
    num_in_flight = 0; /* no done() follows */
}

static const struct hc_transport fake = {
    .name = "fake",
    .progress = fake_progress,
    .am_short = fake_short,
    .am_bcopy = fake_bcopy,
    .get = fake_get,
    .put = fake_put,
    .shares = fake_shares,
    .ep_share = fake_ep_share,
    .mem_reg = hand_mem_reg,
    .mem_dereg = hand_mem_dereg,
    .rkey_pack = hand_rkey_pack,
    .rkey_unpack = fake_rkey_unpack,
    .rkey_release = hand_rkey_release,
    .ep_destroy = fake_ep_destroy,
};

static struct hc_iface iface = {
    .transport = &fake,
    .attr = {.caps = HC_CAP_RMA,
             .rkey_max = 64,
             .short_max = 128,
             .bcopy_max = 4096,
             .eager_max = 2048,
             .rma_max = 4096,
             .get_min = 8192,
             .fetch_min = 1024,
             .lend_min = 1024,
             .share_min = 4096},
};
static struct hc_ep ep = {.iface = &iface, .peer = 1};

/* ---- the context ---- */

static struct hcomm_context *make_context(void)
{
    struct hcomm_context *context = hand_context_new(&iface, 8192);
    context->settings.queue_depth = 2;
    return context;
}

/* Half of the inputs meet a transport through which messages are lent, and nearly all that may be are. */
static void prefer_lending(struct hc_peer *peer)
{
    if (weather % 2)
        iface.attr.caps = HC_CAP_RMA | HC_CAP_SHARE;
    else
        iface.attr.caps = HC_CAP_RMA;
    hc_share_pool_init(&pool, own_shares);
    for (uint32_t i = 0; i < HC_SHARES; i++) /* generation 1 is open, others are not */
        atomic_store_explicit(&peer_shares[i].word, UINT64_C(1) << 32, memory_order_relaxed);
    hand_context_lend(peer);
}

static void reach_peer(struct hcomm_context *context)
{
    struct hc_peer *peer = hand_context_reach(context, &ep, 8192);
    peer->info.eager_window = 8192;
    prefer_lending(peer);
}

static void destroy_context(struct hcomm_context *context)
{
    hand_context_free(context);
    FUZZ_CHECK(pool.free == (UINT64_C(1) << HC_SHARES) - 1);
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

struct world {
    struct hcomm_context *context;
    hcomm_request_t requests[REQUESTS];
    uint8_t *bufs[REQUESTS];
    hcomm_message_t message;
    /* arrives in parts */
    uint8_t *arriving; /* NULL: nothing does */
    size_t ready, len;
    uint8_t id;
    bool taken;
};

/* Without an id that exists most messages would only be refused: put one where the messages have theirs. */
static void plant_id(const struct world *world, unsigned which, unsigned where, uint8_t *bytes, size_t size)
{
    const struct hcomm_context *context = world->context;
    size_t at = where % 4 * 8;
    if (context->num_ids == 0 || at + 8 > size || !context->ids[which % context->num_ids])
        return;
    (void)memcpy(bytes + at, &context->ids[which % context->num_ids]->id, 8);
}

/* More of what is arriving, as shm tells of it; sometimes there is no more. */
static void arrive(struct world *world, struct input *input)
{
    unsigned more = draw(input);
    if (!world->arriving)
        return;
    world->ready += hc_smaller(1 + more % 128 * 8, world->len - world->ready);
    bool whole = world->ready == world->len, cut = more & 128 && !whole;
    if (cut && world->taken)
        (void)hc_core_am_part(world->context, 1, world->id, NULL, 0, 0);
    else if (!cut && (world->taken || !whole))
        world->taken |=
            hc_core_am_part(world->context, 1, world->id, world->arriving, world->ready, world->len);
    if (!whole && !cut)
        return;
    if (whole && !world->taken)
        hc_core_am(world->context, 1, world->id, world->arriving, world->len);
    free(world->arriving);
    world->arriving = NULL;
}

/* A message that is lent, or a payload: of it, of another one, twice, too long or too short. */
static void deliver_lent(struct world *world, struct input *input, bool payload)
{
    enum { KEY = 8, LINE = 512 };
    unsigned number = draw(input), size = draw(input) % 8 * LINE;
    struct hc_wire_payload head = {.send_id = 1 + number % 4};
    struct hc_wire_rts rts = {
        .match = {.comm = world->context->world->id, .source = 1, .tag = (int)(number / 4 % 3)},
        .size = size,
        .send_id = head.send_id,
        .rkey_len = KEY,
        .guard = number / 16 % 8 ? number : UINT32_MAX,
        .guard_generation = number / 128 + 1,
    };
    size_t len = payload ? sizeof(head) + size : sizeof(rts) + KEY;
    uint8_t *exact = calloc(1, len);
    FUZZ_CHECK(exact);
    (void)memcpy(exact, payload ? (void *)&head : (void *)&rts, payload ? sizeof(head) : sizeof(rts));
    hc_core_am(world->context, 1, payload ? HC_WIRE_PAYLOAD : HC_WIRE_RTS, exact, len);
    free(exact);
}

/* What is lent has been for too long. */
static void let_time_pass(const struct hcomm_context *context)
{
    struct hc_list *node;
    hc_list_for_each(node, &context->lent)
    {
        hc_list_entry(node, struct hcomm_request, stream_node)->lent_at = 1;
    }
}

static void deliver(struct world *world, struct input *input)
{
    unsigned id = draw(input) % (HC_WIRE_PAYLOAD + 2), which = draw(input), where = draw(input);
    size_t size = draw(input) * 8 + draw(input) % 8;
    uint8_t *exact = malloc(size ? size : 1);
    FUZZ_CHECK(exact);
    for (size_t i = 0; i < size; i++)
        exact[i] = (uint8_t)draw(input);
    if (where & 128)
        plant_id(world, which, where, exact, size);
    if (where & 32 && size && !world->arriving) {
        world->arriving = exact;
        world->ready = 0;
        world->len = size;
        world->id = (uint8_t)id;
        world->taken = false;
        arrive(world, input);
        return;
    }
    hc_core_am(world->context, where & 64 ? which % 3 : 1, (uint8_t)id, exact, size);
    free(exact);
}

static void start(struct world *world, struct input *input)
{
    unsigned slot = draw(input) % REQUESTS, kind = draw(input);
    size_t size = (size_t)draw(input) * draw(input);
    int tag = (int)(draw(input) % 3), rank = kind & 8 ? HCOMM_ANY_SOURCE : 1;
    hcomm_comm_t comm = world->context->world;
    if (world->requests[slot])
        return;
    free(world->bufs[slot]);
    world->bufs[slot] = calloc(1, size ? size : 1);
    FUZZ_CHECK(world->bufs[slot]);
    hcomm_status_t status =
        kind % 3 == 0   ? hcomm_irecv(world->bufs[slot], size, rank, kind & 16 ? HCOMM_ANY_TAG : tag, comm,
                                      &world->requests[slot])
        : kind % 3 == 1 ? hcomm_isend(world->bufs[slot], size, 1, tag, comm, &world->requests[slot])
                        : hcomm_issend(world->bufs[slot], size, 1, tag, comm, &world->requests[slot]);
    (void)status; /* a peer that failed earlier in this input refuses */
}

static void look(struct world *world, struct input *input)
{
    unsigned slot = draw(input) % REQUESTS;
    if (!world->message) {
        if (hcomm_improbe(HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, world->context->world, &world->message, NULL) !=
            HCOMM_OK)
            world->message = HCOMM_MESSAGE_NULL;
    } else if (!world->requests[slot]) {
        free(world->bufs[slot]);
        world->bufs[slot] = calloc(1, MESSAGE_MAX);
        FUZZ_CHECK(world->bufs[slot]);
        if (hcomm_imrecv(world->bufs[slot], MESSAGE_MAX, &world->message, &world->requests[slot]) != HCOMM_OK)
            world->requests[slot] = HCOMM_REQUEST_NULL;
    }
}

static void test_one(struct world *world, struct input *input)
{
    unsigned slot = draw(input) % REQUESTS, how = draw(input) % 4;
    if (how == 0 && world->requests[slot])
        (void)hcomm_cancel(world->requests[slot]);
    if (how == 1 && world->requests[slot]) /* as a blocking send that times out does */
        (void)hc_rndv_withdraw(world->requests[slot]);
    (void)hcomm_test(&world->requests[slot], NULL);
}

/* What a malformed message ends is over at the next progress; then the peer is there again, else an input
 * would seldom get beyond its first message. */
static void make_progress(const struct world *world)
{
    const struct hc_peer *peer = world->context->peers[1];
    (void)hc_progress(world->context);
    if (peer->state != HC_PEER_FAILED || peer->failure != HCOMM_ERR_PROTOCOL)
        return;
    for (int i = 0; i < REQUESTS; i++)
        FUZZ_CHECK(!world->requests[i] || world->requests[i]->complete || world->requests[i]->peer != peer);
    FUZZ_CHECK(hc_list_empty(&world->context->lent) && pool.free == (UINT64_C(1) << HC_SHARES) - 1);
    reach_peer(world->context);
}

static void step(struct world *world, struct input *input)
{
    switch (draw(input) % 12) {
    case 0:
    case 1:
    case 2:
        deliver(world, input);
        break;
    case 3:
    case 4:
        start(world, input);
        break;
    case 5:
        look(world, input);
        break;
    case 6:
        test_one(world, input);
        break;
    case 7:
        arrive(world, input);
        break;
    case 8:
        deliver_lent(world, input, false);
        break;
    case 9:
        deliver_lent(world, input, true);
        break;
    case 10:
        let_time_pass(world->context);
        make_progress(world);
        break;
    default:
        make_progress(world);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct world world = {.context = make_context()};
    hc_log_set_level(HC_LOG_ERROR);
    num_in_flight = 0;
    weather = draw(&input);
    reach_peer(world.context);
    while (input.left > 0)
        step(&world, &input);
    for (int i = 0; i < REQUESTS; i++)
        FUZZ_CHECK(hcomm_request_free(&world.requests[i]) == HCOMM_OK);
    num_in_flight = 0;
    destroy_context(world.context);
    free(world.arriving);
    for (int i = 0; i < REQUESTS; i++)
        free(world.bufs[i]);
    return 0;
}
