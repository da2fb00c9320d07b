#include "runtime/core/staged.h"

#include "runtime/base/copy.h"
#include "runtime/core/device_impl.h"
#include "runtime/core/device_ipc.h"
#include "runtime/core/progress.h"
#include "runtime/core/request.h"
#include "runtime/core/send.h"

#include <stdio.h>
#include <string.h>

enum {
    SMALL_MAX = 16 * 1024, /* copied at once; beyond, a copy that blocks costs more than an announcement */
    IPC_MIN = 64 * 1024,   /* mapping another process's memory has to pay */
    PIECE_MIN = 64 * 1024, /* short messages are cut too, so that device and wire overlap */
    PIECES_PER_MESSAGE = 4,
};

enum stage_state {
    FILLING, /* a receiver's piece that more will be added to */
    WAITING, /* for a copy to be free */
    COPYING,
    READY, /* a sender's piece that waits for the transport */
};

/* A copy of a request, and the piece of pinned memory it goes through. */
struct stage {
    struct hc_list node; /* in the request's hc_staged.stages, in order */
    struct hcomm_request *request;
    enum stage_state state;
    void *piece; /* NULL: straight from memory to memory */
    struct hc_side to, from;
    size_t offset, size; /* of the message */
    size_t sent;         /* READY: handed to the transport */
    unsigned sends;      /* zero-copy sends in flight */
    struct hc_device_copy *copy;
};

/* What a request has beside when device memory takes part. From device->staged_pool. */
struct hc_staged {
    struct hc_list stages;
    void *piece; /* holds the payload of a small message until the request is complete */
    bool offered, temporary, imported;
    struct hc_wire_device offer; /* made, or taken */
    char detail[400];
};

/* One zero-copy send; from context->op_pool. */
struct stage_op {
    struct hc_op base;
    struct stage *stage;
};

static struct hc_device *device_of(const struct hcomm_request *request)
{
    return request->context->device;
}

/* ---- what a request keeps ---- */

static struct hc_staged *staged_new(struct hc_device *device)
{
    struct hc_staged *staged = hc_pool_get(&device->staged_pool);
    if (!staged)
        return NULL;
    (void)memset(staged, 0, sizeof(*staged));
    hc_list_init(&staged->stages);
    return staged;
}

static struct hc_staged *staged_of(struct hcomm_request *request)
{
    if (!request->staged)
        request->staged = staged_new(device_of(request));
    return request->staged;
}

/* Keep the thread's error detail for whoever asks why the request failed. */
static void note_error(struct hcomm_request *request)
{
    struct hc_staged *staged = staged_of(request);
    if (staged && !staged->detail[0])
        (void)snprintf(staged->detail, sizeof(staged->detail), "%s", hc_error_detail());
}

const char *hc_staged_detail(const struct hcomm_request *request)
{
    return request->staged && request->staged->detail[0] ? request->staged->detail : NULL;
}

static void close_import(struct hcomm_request *request)
{
    if (request->staged->imported)
        hc_device_close_import(device_of(request), request->peer, &request->staged->offer);
    request->staged->imported = false;
}

void hc_staged_complete(struct hcomm_request *request)
{
    if (request->staged->piece)
        hc_staging_put(&device_of(request)->staging, request->staged->piece);
    request->staged->piece = NULL;
}

void hc_staged_free(struct hcomm_request *request)
{
    hc_staged_end(request);
    hc_staged_complete(request);
    hc_pool_put(&device_of(request)->staged_pool, request->staged);
    request->staged = NULL;
}

/* ---- stages ---- */

/* A piece of pinned memory as one side of a copy. */
static struct hc_side pinned(void *piece)
{
    return (struct hc_side){.ptr = piece, .place = HC_PLACE_PINNED};
}

static struct hc_side buffer(const struct hcomm_request *request, size_t offset)
{
    return (struct hc_side){
        .ptr = (uint8_t *)request->buf + offset,
        .place = request->on_device ? HC_PLACE_DEVICE : HC_PLACE_HOST,
    };
}

static hcomm_status_t no_memory(void)
{
    return hc_error(HCOMM_ERR_NO_MEMORY, "transfer: out of memory");
}

/*
 * HCOMM_AGAIN: no piece is left now. Receives leave half of the pieces to sends: they can do without, and
 * hold theirs until the peer has sent more, who may wait for a piece itself.
 */
static hcomm_status_t get_piece(struct hcomm_request *request, void **piece)
{
    struct hc_staging *staging = &device_of(request)->staging;
    return request->kind == HC_REQUEST_SEND ? hc_staging_get(staging, piece)
                                            : hc_staging_get_spare(staging, piece);
}

/* HCOMM_AGAIN: no piece is left now. */
static hcomm_status_t stage_new(struct hcomm_request *request, size_t offset, bool with_piece,
                                struct stage **out)
{
    struct hc_device *device = device_of(request);
    struct hc_staged *staged = staged_of(request);
    void *piece = NULL;
    hcomm_status_t status = !staged ? no_memory() : HCOMM_OK;
    if (status == HCOMM_OK && with_piece)
        status = get_piece(request, &piece);
    if (status != HCOMM_OK)
        return status;
    struct stage *stage = hc_pool_get(&device->stage_pool);
    if (!stage) {
        if (piece)
            hc_staging_put(&device->staging, piece);
        return no_memory();
    }
    *stage = (struct stage){.request = request, .piece = piece, .offset = offset, .state = WAITING};
    hc_list_append(&staged->stages, &stage->node);
    request->ops++;
    *out = stage;
    return HCOMM_OK;
}

static void stage_free(struct stage *stage)
{
    struct hcomm_request *request = stage->request;
    struct hc_device *device = device_of(request);
    if (stage->copy)
        hc_device_copy_end(stage->copy);
    if (stage->piece)
        hc_staging_put(&device->staging, stage->piece);
    hc_list_remove(&stage->node);
    hc_pool_put(&device->stage_pool, stage);
    if (request->ops) /* 0 when the peer failed and all is given up */
        request->ops--;
}

/* All its bytes are where they belong. */
static void stage_done(struct stage *stage)
{
    struct hcomm_request *request = stage->request;
    request->finished += stage->size;
    request->activity = hc_clock_ns();
    if (!stage->piece) /* before the owner hears of it: it may free the memory then */
        close_import(request);
    stage_free(stage);
}

/* What has not reached the transport yet never will. */
static void drop_stages(struct hcomm_request *request)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &request->staged->stages)
    {
        struct stage *stage = hc_list_entry(node, struct stage, node);
        if (!stage->sends)
            stage_free(stage);
    }
}

void hc_staged_end(struct hcomm_request *request)
{
    struct hc_staged *staged = request->staged;
    struct hc_list *node;
    while ((node = hc_list_first(&staged->stages)))
        stage_free(hc_list_entry(node, struct stage, node));
    close_import(request);
    if (staged->offered && staged->temporary)
        hc_device_unexport(device_of(request), &staged->offer);
    staged->offered = false;
}

void hc_staged_quit(struct hcomm_request *request)
{
    drop_stages(request);
    close_import(request);
}

static void fail(struct hcomm_request *request, hcomm_status_t status)
{
    if (request->status == HCOMM_OK) {
        note_error(request);
        request->status = status;
    }
    request->issued = request->accept;
    if (request->staged)
        hc_staged_quit(request);
}

/* ---- sending pieces ---- */

static void send_done(struct hc_op *base, hcomm_status_t status)
{
    struct stage_op *op = hc_container_of(base, struct stage_op, base);
    struct stage *stage = op->stage;
    struct hcomm_request *request = stage->request;
    hc_pool_put(&request->context->op_pool, op);
    stage->sends--;
    if (status != HCOMM_OK)
        fail(request, status);
    else if (request->status != HCOMM_OK && !stage->sends)
        stage_free(stage);
    else if (!stage->sends && stage->sent == stage->size)
        stage_done(stage);
    hc_rndv_end_if_over(request);
}

struct piece_pack {
    struct hc_wire_data head;
    const uint8_t *data;
    size_t size;
};

static size_t pack_piece(void *dest, void *arg)
{
    const struct piece_pack *pack = arg;
    (void)memcpy(dest, &pack->head, sizeof(pack->head));
    hc_copy((uint8_t *)dest + sizeof(pack->head), pack->data, pack->size);
    return sizeof(pack->head) + pack->size;
}

static hcomm_status_t send_zero_copy(struct stage *stage, const struct piece_pack *pack)
{
    struct hcomm_request *request = stage->request;
    struct hc_peer *peer = request->peer;
    struct stage_op *op = hc_pool_get(&request->context->op_pool);
    if (!op)
        return no_memory();
    *op = (struct stage_op){.base.done = send_done, .stage = stage};
    hcomm_status_t status = peer->ops->am_zcopy(peer->ep, HC_WIRE_DATA, &pack->head, sizeof(pack->head),
                                                pack->data, pack->size, NULL, &op->base);
    if (status == HCOMM_IN_PROGRESS)
        stage->sends++;
    else
        hc_pool_put(&request->context->op_pool, op);
    return status;
}

/* HCOMM_AGAIN: no room now. */
static hcomm_status_t send_part(struct stage *stage)
{
    struct hc_peer *peer = stage->request->peer;
    bool zero_copy = peer->attr->caps & HC_CAP_ZCOPY;
    size_t room = (zero_copy ? peer->attr->zcopy_max : peer->attr->bcopy_max) - sizeof(struct hc_wire_data);
    struct piece_pack pack = {
        .head = {.recv_id = stage->request->remote_id, .offset = stage->offset + stage->sent},
        .data = (const uint8_t *)stage->piece + stage->sent,
        .size = hc_smaller(stage->size - stage->sent, room),
    };
    if (!hc_bandwidth_take(peer->context, pack.size))
        return HCOMM_AGAIN;
    hcomm_status_t status = zero_copy ? send_zero_copy(stage, &pack)
                                      : peer->ops->am_bcopy(peer->ep, HC_WIRE_DATA, pack_piece, &pack);
    if (status != HCOMM_OK && status != HCOMM_IN_PROGRESS)
        return status;
    stage->sent += pack.size;
    hc_counter_add(&peer->context->counters, HC_COUNTER_BYTES_SENT, pack.size);
    return HCOMM_OK;
}

/* The stage may be gone afterwards. */
static unsigned send_stage(struct stage *stage)
{
    unsigned moved = 0;
    while (stage->sent < stage->size) {
        hcomm_status_t status = send_part(stage);
        if (status == HCOMM_AGAIN)
            return moved;
        moved++;
        if (status != HCOMM_OK) {
            fail(stage->request, status);
            return moved;
        }
    }
    if (!stage->sends && stage->sent == stage->size)
        stage_done(stage);
    return moved;
}

/* ---- moving on ---- */

static unsigned begin_copy(struct stage *stage)
{
    hcomm_status_t status =
        hc_device_copy_start(device_of(stage->request), &stage->to, &stage->from, stage->size, &stage->copy);
    if (status == HCOMM_AGAIN)
        return 0;
    stage->state = COPYING;
    if (status < 0)
        fail(stage->request, status);
    return 1;
}

static bool is_sent(const struct stage *stage)
{
    return stage->request->kind == HC_REQUEST_SEND;
}

static unsigned finish_copy(struct stage *stage)
{
    hcomm_status_t status = HCOMM_OK;
    if (stage->copy)
        status = hc_device_copy_poll(stage->copy);
    if (status == HCOMM_IN_PROGRESS)
        return 0;
    stage->copy = NULL;
    if (status != HCOMM_OK)
        fail(stage->request, status);
    else if (is_sent(stage))
        stage->state = READY;
    else
        stage_done(stage);
    return 1;
}

static unsigned move_stage(struct stage *stage)
{
    switch (stage->state) {
    case WAITING:
        return begin_copy(stage);
    case COPYING:
        return finish_copy(stage);
    case READY:
        return stage->sent < stage->size ? send_stage(stage) : 0;
    case FILLING:
        break;
    }
    return 0;
}

/* A stage that is done frees itself; one that fails takes others with it, and that ends the loop. */
static unsigned move_stages(struct hcomm_request *request)
{
    unsigned moved = 0;
    struct hc_list *node = request->staged->stages.next;
    while (node != &request->staged->stages) {
        struct stage *stage = hc_list_entry(node, struct stage, node);
        node = node->next;
        unsigned now = move_stage(stage);
        moved += now;
        if (request->status != HCOMM_OK)
            break;
    }
    return moved;
}

static size_t piece_size(const struct hcomm_request *request)
{
    size_t part = hc_align_up(request->accept / PIECES_PER_MESSAGE, HC_CACHE_LINE);
    return hc_smaller(part < PIECE_MIN ? PIECE_MIN : part, device_of(request)->staging.piece_size);
}

static unsigned stages_of(const struct hcomm_request *request)
{
    unsigned count = 0;
    struct hc_list *node;
    hc_list_for_each(node, &request->staged->stages) count++;
    return count;
}

/* Have the device copy the next piece out. */
static bool add_piece(struct hcomm_request *request)
{
    if (request->issued == request->accept || stages_of(request) >= PIECES_PER_MESSAGE)
        return false;
    if (!request->issued)
        hc_counter_add(&request->context->counters, HC_COUNTER_DEVICE_STAGED, 1);
    struct stage *stage = NULL;
    hcomm_status_t status = stage_new(request, request->issued, true, &stage);
    if (status < 0)
        fail(request, status);
    if (status != HCOMM_OK)
        return status < 0;
    stage->size = hc_smaller(piece_size(request), request->accept - request->issued);
    stage->to = pinned(stage->piece);
    stage->from = buffer(request, stage->offset);
    request->issued += stage->size;
    request->activity = hc_clock_ns();
    (void)begin_copy(stage);
    return true;
}

/* A receive in pieces has nothing to do between them. */
static bool is_busy(const struct hcomm_request *request)
{
    struct hc_list *node;
    if (request->transferring)
        return true;
    hc_list_for_each(node, &request->staged->stages) if (hc_list_entry(node, struct stage, node)->state !=
                                                         FILLING) return true;
    return false;
}

unsigned hc_staged_advance(struct hcomm_request *request)
{
    if (!staged_of(request)) {
        request->status = no_memory();
        hc_rndv_end_if_over(request);
        return 1;
    }
    unsigned moved = move_stages(request);
    while (request->kind == HC_REQUEST_SEND && request->status == HCOMM_OK && add_piece(request))
        moved++;
    if (!is_busy(request))
        hc_list_remove(&request->stream_node); /* until more arrives */
    if (moved)
        hc_rndv_end_if_over(request);
    return moved;
}

/* ---- arriving pieces ---- */

/* Without pinned memory the device copies out of the transport's, and we wait for it. */
static void arrive_unstaged(struct hcomm_request *request, size_t offset, const void *data, size_t len)
{
    const struct hc_side to = buffer(request, offset),
                         from = {.ptr = (void *)(uintptr_t)data, .place = HC_PLACE_HOST};
    hcomm_status_t status = hc_device_copy(device_of(request), &to, &from, len);
    if (status != HCOMM_OK)
        fail(request, status);
    else
        request->finished += len;
}

static struct stage *filling_stage(const struct hcomm_request *request)
{
    if (!request->staged || hc_list_empty(&request->staged->stages))
        return NULL;
    struct stage *stage = hc_list_entry(request->staged->stages.prev, struct stage, node);
    return stage->state == FILLING ? stage : NULL;
}

/* From now on progress looks after the request's copies. */
static void watch(struct hcomm_request *request)
{
    if (hc_list_empty(&request->stream_node))
        hc_list_append(&request->peer->streaming, &request->stream_node);
    hc_peer_set_pending(request->peer);
}

/* The piece is full, or something else comes next, which may have no piece of its own: whoever adds the last
 * bytes to the message, this one is looked after from now on. */
static void close_filling(struct stage *stage)
{
    watch(stage->request);
    stage->to = buffer(stage->request, stage->offset);
    stage->from = pinned(stage->piece);
    stage->state = WAITING;
    (void)begin_copy(stage);
}

/* A piece with room for what has arrived; NULL when there is none. */
static struct stage *stage_for(struct hcomm_request *request, size_t offset, size_t len)
{
    size_t room = device_of(request)->staging.piece_size;
    struct stage *stage = filling_stage(request);
    if (stage && stage->offset + stage->size == offset && len <= room - stage->size)
        return stage;
    if (stage)
        close_filling(stage);
    if (len > room || request->status != HCOMM_OK)
        return NULL;
    if (stage_new(request, offset, true, &stage) != HCOMM_OK)
        return NULL;
    stage->state = FILLING;
    return stage;
}

static void arrive_staged(struct stage *stage, const void *data, size_t len)
{
    struct hcomm_request *request = stage->request;
    hc_copy((uint8_t *)stage->piece + stage->size, data, len);
    stage->size += len;
    if (stage->size >= piece_size(request) || request->issued == request->accept)
        close_filling(stage);
}

void hc_staged_arrive(struct hcomm_request *request, size_t offset, const void *data, size_t len)
{
    if (request->status != HCOMM_OK || len > request->accept - request->issued)
        return; /* it failed and waits for its copies to end; or the peer sends a piece twice */
    if (!request->issued)
        hc_counter_add(&request->context->counters, HC_COUNTER_DEVICE_STAGED, 1);
    request->issued += len;
    request->activity = hc_clock_ns();
    struct stage *stage = stage_for(request, offset, len);
    if (stage)
        arrive_staged(stage, data, len);
    else if (request->status == HCOMM_OK)
        arrive_unstaged(request, offset, data, len);
    stage = filling_stage(request);
    if (stage && request->issued == request->accept)
        close_filling(stage);
    hc_rndv_end_if_over(request);
}

hcomm_status_t hc_staged_deliver(struct hcomm_request *request, const void *payload, size_t size)
{
    const struct hc_side to = buffer(request, 0),
                         from = {.ptr = (void *)(uintptr_t)payload, .place = HC_PLACE_HOST};
    hcomm_status_t status = hc_device_copy(device_of(request), &to, &from, size);
    if (status != HCOMM_OK)
        note_error(request);
    return status;
}

/* ---- offers ---- */

/* One line per peer is enough: the messages go on, slower. Devices without a link are nothing to warn of. */
static void denied(struct hc_peer *peer)
{
    const char *form = "device memory is not shared with %s, messages are staged: %s";
    if (peer->ipc_useless || !peer->context->settings.device_ipc)
        hc_log_debug(form, hc_peer_name(peer), hc_error_detail());
    else if (peer->context->device->last_code == HC_ACL_NOT_SUPPORTED)
        hc_log_info(form, hc_peer_name(peer), hc_error_detail());
    else
        hc_log_warn(form, hc_peer_name(peer), hc_error_detail());
    peer->ipc_useless = true;
}

static bool is_self(const struct hc_peer *peer)
{
    return peer->rank == peer->context->job->rank;
}

static bool shares_devices(const struct hc_peer *peer)
{
    return !peer->ipc_useless && peer->context->device && peer->context->settings.device_ipc &&
           peer->info.device >= 0 && peer->info.device_pid && peer->info.host_id == peer->context->host_id &&
           !is_self(peer);
}

/* Exported once per request, however often the announcement has to be tried. */
static bool make_offer(struct hcomm_request *request)
{
    struct hc_staged *staged = staged_of(request);
    if (!staged || staged->offered)
        return staged != NULL;
    hcomm_status_t status = hc_device_export(device_of(request), request->buf, request->capacity,
                                             request->peer, &staged->offer, &staged->temporary);
    staged->offered = status == HCOMM_OK;
    if (status != HCOMM_OK)
        denied(request->peer);
    return staged->offered;
}

size_t hc_staged_offer(struct hcomm_request *request, void *bytes, size_t room, uint32_t *kind)
{
    if (is_self(request->peer)) {
        const uint64_t address = (uint64_t)(uintptr_t)request->buf;
        hc_assert(room >= sizeof(address));
        (void)memcpy(bytes, &address, sizeof(address));
        *kind = HC_OFFER_SELF;
        return sizeof(address);
    }
    if (!request->on_device || request->capacity < IPC_MIN || !shares_devices(request->peer) ||
        room < sizeof(request->staged->offer) || !make_offer(request))
        return 0;
    (void)memcpy(bytes, &request->staged->offer, sizeof(request->staged->offer));
    *kind = HC_OFFER_DEVICE;
    return sizeof(request->staged->offer);
}

bool hc_staged_can_fetch(const struct hcomm_request *request, const struct hc_rndv_offer *offer)
{
    if (offer->kind == HC_OFFER_SELF)
        return is_self(request->peer) && request->context->device && offer->rkey_len == sizeof(uint64_t);
    return offer->kind == HC_OFFER_DEVICE && request->on_device && !request->peer->ipc_useless &&
           offer->rkey_len == sizeof(struct hc_wire_device);
}

/* Our own memory: the copy is from the sender's buffer to the receiver's. */
static hcomm_status_t fetch_own(struct hcomm_request *request, const void *bytes, struct hc_side *from)
{
    uint64_t address;
    (void)memcpy(&address, bytes, sizeof(address));
    from->ptr = (void *)(uintptr_t)address;
    return hc_device_locate(request->context, from->ptr, request->accept, &from->place);
}

static hcomm_status_t fetch_imported(struct hcomm_request *request, const void *bytes, struct hc_side *from)
{
    struct hc_staged *staged = staged_of(request);
    if (!staged)
        return no_memory();
    if (!shares_devices(request->peer))
        return hc_error(HCOMM_ERR_PROTOCOL, "it is of another host, or its sharing is switched off here");
    (void)memcpy(&staged->offer, bytes, sizeof(staged->offer));
    hcomm_status_t status =
        hc_device_import(device_of(request), request->peer, &staged->offer, request->accept, &from->ptr);
    staged->imported = status == HCOMM_OK;
    from->place = HC_PLACE_DEVICE;
    from->imported = true;
    return status;
}

/* Refused at once, as by a device that cannot reach the other: nothing has happened yet. */
static hcomm_status_t begin_fetch(struct hcomm_request *request, const struct hc_side *from)
{
    struct stage *stage = NULL;
    hcomm_status_t made = stage_new(request, 0, false, &stage);
    if (made != HCOMM_OK)
        return made;
    stage->size = request->accept;
    stage->to = buffer(request, 0);
    stage->from = *from;
    hcomm_status_t status =
        hc_device_copy_start(device_of(request), &stage->to, &stage->from, stage->size, &stage->copy);
    if (status < 0) {
        stage_free(stage);
        return status;
    }
    stage->state = status == HCOMM_AGAIN ? WAITING : COPYING;
    request->issued = request->accept;
    hc_counter_add(&request->context->counters, HC_COUNTER_DEVICE_DIRECT, 1);
    return HCOMM_OK;
}

hcomm_status_t hc_staged_fetch(struct hcomm_request *request, const void *bytes, size_t len)
{
    struct hc_side from = {0};
    bool own = len == sizeof(uint64_t);
    hcomm_status_t status = own ? fetch_own(request, bytes, &from) : fetch_imported(request, bytes, &from);
    if (status == HCOMM_OK)
        status = begin_fetch(request, &from);
    if (status == HCOMM_OK)
        return HCOMM_OK;
    if (own) {
        note_error(request);
        return status;
    }
    denied(request->peer);
    if (request->staged)
        close_import(request);
    return HCOMM_AGAIN;
}

/* ---- sends ---- */

hcomm_status_t hc_staged_look(struct hcomm_context *context, const void *buf, size_t size, bool *on_device)
{
    enum hc_place place;
    hcomm_status_t status = hc_device_locate(context, buf, size, &place);
    if (status == HCOMM_OK)
        *on_device = place == HC_PLACE_DEVICE;
    return status;
}

/* The message is in `piece`: let it go as any other. */
static hcomm_status_t send_piece(struct hcomm_comm *comm, uint64_t comm_id, struct hc_staged *staged,
                                 size_t size, int dest, int tag, bool sync, struct hcomm_request **request)
{
    struct hc_device *device = comm->context->device;
    hcomm_status_t status = hc_send_host(comm, comm_id, staged->piece, size, dest, tag, sync, request);
    if (status == HCOMM_OK && !(*request)->immortal) {
        (*request)->staged = staged;
        if (hc_request_is_complete(*request))
            hc_staged_complete(*request);
        return HCOMM_OK;
    }
    hc_staging_put(&device->staging, staged->piece);
    hc_pool_put(&device->staged_pool, staged);
    return status;
}

/* HCOMM_AGAIN: no piece is left, announce the message instead. */
static hcomm_status_t send_small(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                                 int dest, int tag, bool sync, struct hcomm_request **request)
{
    struct hc_device *device = comm->context->device;
    void *piece = NULL;
    hcomm_status_t status = hc_staging_get(&device->staging, &piece);
    if (status != HCOMM_OK)
        return status;
    const struct hc_side to = pinned(piece), from = {.ptr = (void *)(uintptr_t)buf, .place = HC_PLACE_DEVICE};
    struct hc_staged *staged = staged_new(device);
    status = staged ? hc_device_copy(device, &to, &from, size) : no_memory();
    if (status != HCOMM_OK) {
        hc_staging_put(&device->staging, piece);
        if (staged)
            hc_pool_put(&device->staged_pool, staged);
        return status;
    }
    staged->piece = piece;
    hc_counter_add(&comm->context->counters, HC_COUNTER_DEVICE_SMALL, 1);
    return send_piece(comm, comm_id, staged, size, dest, tag, sync, request);
}

hcomm_status_t hc_staged_send(struct hcomm_comm *comm, uint64_t comm_id, const void *buf, size_t size,
                              int dest, int tag, bool sync, struct hcomm_request **request)
{
    bool on_device = false;
    hcomm_status_t status = hc_staged_look(comm->context, buf, size, &on_device);
    if (status != HCOMM_OK)
        return status;
    if (!on_device)
        return hc_send_host(comm, comm_id, buf, size, dest, tag, sync, request);
    if (size <= SMALL_MAX) {
        status = send_small(comm, comm_id, buf, size, dest, tag, sync, request);
        if (status != HCOMM_AGAIN)
            return status;
    }
    return hc_send_device(comm, comm_id, buf, size, dest, tag, sync, request);
}

/* ---- the pool ---- */

static hcomm_status_t alloc_pinned(void *arg, size_t size, void **ptr)
{
    struct hc_device *device = arg;
    int previous;
    hcomm_status_t status = hc_device_enter(device, &previous);
    if (status != HCOMM_OK)
        return status;
    int code = device->acl->aclrtMallocHost(ptr, size);
    if (code != HC_ACL_OK)
        status = hc_device_error(device, code, "allocating %zu bytes of pinned memory", size);
    else
        hc_counter_add(&device->context->counters, HC_COUNTER_DEVICE_PIECES, 1);
    hc_device_leave(device, previous);
    return status;
}

static void release_pinned(void *arg, void *ptr)
{
    struct hc_device *device = arg;
    int previous;
    if (hc_device_enter(device, &previous) != HCOMM_OK)
        return;
    if (device->acl->aclrtFreeHost(ptr) != HC_ACL_OK)
        hc_log_debug("device %d: pinned memory at %p is not freed", device->id, ptr);
    hc_device_leave(device, previous);
}

hcomm_status_t hc_staged_init(struct hc_device *device)
{
    enum { PIECE_SIZE = 256 * 1024, PIECES_LEAST = 4, PER_SLAB = 32 };
    const struct hc_staging_memory memory = {alloc_pinned, release_pinned, device};
    size_t most = device->context->settings.buffer_size / PIECE_SIZE;
    hc_pool_init(&device->stage_pool, sizeof(struct stage), PER_SLAB);
    hc_pool_init(&device->staged_pool, sizeof(struct hc_staged), PER_SLAB);
    return hc_staging_init(&device->staging, PIECE_SIZE, PIECES_LEAST,
                           most < PIECES_LEAST ? PIECES_LEAST : most, &memory);
}

void hc_staged_fini(struct hc_device *device)
{
    hc_staging_fini(&device->staging);
    hc_pool_fini(&device->stage_pool);
    hc_pool_fini(&device->staged_pool);
}
