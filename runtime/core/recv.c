#include "runtime/core/recv.h"

#include "runtime/base/copy.h"
#include "runtime/core/comm.h"
#include "runtime/core/device_ipc.h"
#include "runtime/core/placement.h"
#include "runtime/core/progress.h"
#include "runtime/core/request.h"
#include "runtime/core/rndv.h"
#include "runtime/core/send.h"
#include "runtime/core/staged.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char wrong_length[] = "its length is wrong", wrong_envelope[] = "its source or tag is negative";

/* Payloads up to this come from the pool: no allocation for small unexpected messages in steady state. */
enum { POOLED_PAYLOAD = 256 - 8 };

/* ---- the eager window ---- */

static HC_COLD void send_credit(struct hc_peer *peer)
{
    const struct hc_wire_credit credit = {.bytes = peer->owed};
    peer->owed = 0;
    hc_counter_add(&peer->context->counters, HC_COUNTER_CREDIT_MESSAGES, 1);
    hc_control_send(peer, HC_WIRE_CREDIT, &credit, sizeof(credit));
}

/* Payload was consumed: its sender may send as much again. Told in portions, to cost nothing per message. */
static inline void return_credit(struct hc_peer *peer, size_t size)
{
    peer->owed += size + HC_EAGER_OVERHEAD;
    if (hc_unlikely(peer->owed >= peer->context->eager_window / 2))
        send_credit(peer);
}

static void credit_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_credit credit;
    if (len != sizeof(credit)) {
        hc_peer_malformed(peer, "CREDIT", wrong_length);
        return;
    }
    (void)memcpy(&credit, data, sizeof(credit));
    if (peer->state != HC_PEER_READY || credit.bytes > (uint64_t)peer->window) {
        hc_log_warn("%s returned more eager window than it was given: dropped", hc_peer_name(peer));
        return;
    }
    peer->credit += (int64_t)credit.bytes;
    if (peer->credit > peer->window)
        peer->credit = peer->window;
}

/* ---- delivery ---- */

static inline void count_received(struct hcomm_context *context, size_t size)
{
    hc_counter_add(&context->counters, HC_COUNTER_EAGER_RECEIVED, 1);
    hc_counter_add(&context->counters, HC_COUNTER_BYTES_RECEIVED, size);
}

static inline hcomm_status_t copy_payload(struct hcomm_request *request, const void *payload, size_t size)
{
    size_t fits = size < request->capacity ? size : request->capacity;
    hcomm_status_t status = HCOMM_OK;
    if (hc_unlikely(request->on_device))
        status = hc_staged_deliver(request, payload, fits);
    else
        hc_copy(request->buf, payload, fits);
    request->finished = fits;
    return hc_likely(status == HCOMM_OK) && hc_unlikely(size > fits) ? HCOMM_ERR_TRUNCATED : status;
}

static inline void describe(struct hcomm_request *request, struct hc_peer *peer,
                            const struct hc_match_key *key, size_t size)
{
    request->peer = peer;
    request->source = key->source;
    request->tag = key->tag;
    request->size = size;
}

/* An eager message meets its receive. */
static inline void deliver_eager(struct hcomm_request *request, const void *payload, size_t size)
{
    struct hcomm_context *context = request->context;
    hcomm_status_t status = copy_payload(request, payload, size);
    request->light = !request->on_device;
    count_received(context, size);
    hc_request_complete(request, status);
}

/* ---- unexpected messages ---- */

static struct hcomm_message *message_new(struct hc_peer *peer, const struct hc_match_key *key, size_t stored)
{
    struct hcomm_context *context = peer->context;
    bool pooled = stored <= POOLED_PAYLOAD;
    struct hcomm_message *message =
        pooled ? hc_pool_get(&context->message_pool) : malloc(sizeof(*message) + stored);
    if (!message)
        return NULL;
    (void)memset(message, 0, sizeof(*message));
    message->pooled = pooled;
    message->peer = peer;
    message->match.key = *key;
    message->charged = sizeof(*message) + stored;
    if (hc_match_keep(&context->match, &message->match) != HCOMM_OK) {
        if (pooled)
            hc_pool_put(&context->message_pool, message);
        else
            free(message);
        return NULL;
    }
    context->unexpected_bytes += message->charged;
    hc_counter_add(&context->counters, HC_COUNTER_UNEXPECTED_MESSAGES, 1);
    hc_counter_set(&context->counters, HC_COUNTER_UNEXPECTED_BYTES, context->unexpected_bytes);
    hc_counter_max(&context->counters, HC_COUNTER_UNEXPECTED_BYTES_MAX, context->unexpected_bytes);
    return message;
}

static void message_free(struct hcomm_context *context, struct hcomm_message *message)
{
    free(message->taken_back);
    context->unexpected_bytes -= message->charged;
    hc_counter_set(&context->counters, HC_COUNTER_UNEXPECTED_BYTES, context->unexpected_bytes);
    if (message->pooled)
        hc_pool_put(&context->message_pool, message);
    else
        free(message);
}

/* Losing a message silently would be worse than ending the connection to its sender. */
static void no_room(struct hc_peer *peer)
{
    hc_peer_fail(peer, HCOMM_ERR_NO_MEMORY, "out of memory for an unexpected message");
}

void hc_message_take(struct hcomm_context *context, struct hcomm_message *message)
{
    hc_match_drop(&context->match, &message->match);
}

static struct hc_rndv_offer message_offer(const struct hcomm_message *message)
{
    return (struct hc_rndv_offer){
        .size = message->size,
        .send_id = message->send_id,
        .address = message->address,
        .rkey = message->rkey_len ? message->payload : NULL,
        .rkey_len = message->rkey_len,
        .kind = message->offer,
        .guard = message->guard,
        .guard_generation = message->guard_generation,
    };
}

static void settle_eager(struct hcomm_message *message)
{
    if (message->sync)
        hc_rndv_answer(message->peer, HC_WIRE_SYNC_ACK, message->send_id, HCOMM_OK);
    return_credit(message->peer, message->size);
}

void hc_message_discard(struct hcomm_context *context, struct hcomm_message *message)
{
    if (message->rndv)
        hc_rndv_answer(message->peer, HC_WIRE_FIN, message->send_id, HCOMM_OK); /* ignored when withdrawn */
    else
        settle_eager(message);
    message_free(context, message);
}

static struct hcomm_message *find_in(const struct hc_list *list, const struct hc_peer *peer, uint64_t send_id)
{
    struct hc_list *node;
    hc_list_for_each(node, list)
    {
        struct hcomm_message *message = hc_list_entry(node, struct hcomm_message, match.all);
        if (message->rndv && message->peer == peer && message->send_id == send_id)
            return message;
    }
    return NULL;
}

/* The message that an RTS of the peer announced and that has met no receive. */
static struct hcomm_message *find_kept(const struct hc_peer *peer, uint64_t send_id)
{
    struct hcomm_message *message = find_in(&peer->context->match.all, peer, send_id);
    return message ? message : find_in(&peer->context->taken, peer, send_id);
}

void hc_message_withdraw(struct hc_peer *peer, uint64_t send_id)
{
    struct hcomm_message *message = find_kept(peer, send_id);
    if (message)
        message->withdrawn = true;
}

/* It is an eager message from here on. */
static void keep_payload(struct hcomm_message *message, const void *payload)
{
    struct hcomm_context *context = message->peer->context;
    size_t size = message->size;
    void *kept = malloc(size);
    if (!kept) {
        no_room(message->peer);
        return;
    }
    hc_copy(kept, payload, size);
    message->taken_back = kept;
    message->rndv = false;
    message->charged += size;
    context->unexpected_bytes += size;
    hc_counter_set(&context->counters, HC_COUNTER_UNEXPECTED_BYTES, context->unexpected_bytes);
    hc_counter_max(&context->counters, HC_COUNTER_UNEXPECTED_BYTES_MAX, context->unexpected_bytes);
}

/* A message taken out of matching meets its receive. */
static void deliver_message(struct hcomm_request *request, struct hcomm_message *message)
{
    if (hc_unlikely(
            request->context->forked)) { /* it came before the fork: it is the parent's, as is its answer */
        hc_request_complete(request, HCOMM_ERR_INVALID);
        return;
    }
    describe(request, message->peer, &message->match.key, message->size);
    if (message->withdrawn) {
        hc_request_complete(request, HCOMM_ERR_CANCELLED);
    } else if (message->rndv) {
        struct hc_rndv_offer offer = message_offer(message);
        hc_rndv_receive(request, &offer);
    } else {
        settle_eager(message);
        deliver_eager(request, message->taken_back ? message->taken_back : message->payload, message->size);
    }
    message_free(request->context, message);
}

struct hcomm_message *hc_message_find(struct hcomm_comm *comm, int source, int tag)
{
    const struct hc_match_key pattern = {comm->id, source, tag};
    struct hc_match_message *found = hc_match_find(&comm->context->match, &pattern);
    return found ? hc_container_of(found, struct hcomm_message, match) : NULL;
}

void hc_message_status(const struct hcomm_message *message, hcomm_message_status_t *status)
{
    if (status)
        *status = (hcomm_message_status_t){
            .source = message->match.key.source,
            .tag = message->match.key.tag,
            .size = message->size,
            .error = HCOMM_OK,
        };
}

/* ---- receives ---- */

static void undo_receive(struct hcomm_request *request)
{
    request->comm->busy--;
    hc_request_free(request);
}

static inline hcomm_status_t post(struct hcomm_request *request, const struct hc_match_key *pattern)
{
    if (hc_unlikely(request->context->forked)) { /* nothing arrives in the child, from whomever */
        hc_request_complete(request, HCOMM_ERR_INVALID);
        return HCOMM_OK;
    }
    if (pattern->source != HCOMM_ANY_SOURCE)
        request->peer = hc_comm_peer(request->comm, pattern->source);
    if (request->peer && request->peer->state == HC_PEER_FAILED) {
        hc_request_complete(request, request->peer->failure);
        return HCOMM_OK;
    }
    if (pattern->source == HCOMM_ANY_SOURCE && hc_unlikely(hc_comm_is_deserted(request->comm))) {
        hc_request_complete(request, HCOMM_ERR_PEER_LOST);
        return HCOMM_OK;
    }
    hcomm_status_t status = hc_match_post(&request->context->match, pattern, &request->match);
    if (status != HCOMM_OK)
        undo_receive(request);
    return status;
}

hcomm_status_t hc_recv_start(struct hcomm_comm *comm, uint64_t comm_id, void *buf, size_t capacity,
                             int source, int tag, struct hcomm_request **out)
{
    struct hcomm_context *context = comm->context;
    const struct hc_match_key pattern = {comm_id, source, tag};
    bool on_device = false;
    if (hc_unlikely(context->device != NULL)) {
        hcomm_status_t status = hc_staged_look(context, buf, capacity, &on_device);
        if (status != HCOMM_OK)
            return status;
    }
    struct hcomm_request *request = hc_recv_request(comm, buf, capacity, source, tag);
    if (!request)
        return HCOMM_ERR_NO_MEMORY;
    request->on_device = on_device;
    struct hc_match_message *found = hc_match_find(&context->match, &pattern);
    if (found) {
        struct hcomm_message *message = hc_container_of(found, struct hcomm_message, match);
        hc_message_take(context, message);
        deliver_message(request, message);
    } else {
        hcomm_status_t status = post(request, &pattern);
        if (status != HCOMM_OK)
            return status;
    }
    *out = request;
    return HCOMM_OK;
}

hcomm_status_t hc_message_receive(struct hcomm_comm *comm, struct hcomm_message *message, void *buf,
                                  size_t capacity, struct hcomm_request **out)
{
    bool on_device = false;
    if (hc_unlikely(comm->context->device != NULL)) {
        hcomm_status_t status = hc_staged_look(comm->context, buf, capacity, &on_device);
        if (status != HCOMM_OK)
            return status;
    }
    struct hcomm_request *request =
        hc_recv_request(comm, buf, capacity, message->match.key.source, message->match.key.tag);
    if (!request)
        return HCOMM_ERR_NO_MEMORY;
    request->on_device = on_device;
    deliver_message(request, message);
    *out = request;
    return HCOMM_OK;
}

/* ---- blocking receives ---- */

enum {
    AWAIT_POLLS = 2000,
    AWAIT_POLLS_OVERSUBSCRIBED = 1,
    AWAIT_POLLS_APART = 100, /* the sender may be running, on another processor */
    AWAIT_SHORT = 8192,      /* of receives up to that capacity messages come in one piece */
};

/* Whether a receive would be the oldest, and may keep the lock while it polls. */
static inline bool may_await(struct hcomm_context *context, const struct hc_match_key *pattern)
{
    return hc_match_nothing_posted(&context->match) && !context->progress_thread_running &&
           !context->device &&
           (hc_likely(!context->match.num_messages) || !hc_match_find(&context->match, pattern));
}

static HC_NOINLINE unsigned polls_oversubscribed(struct hcomm_context *context,
                                                 const struct hc_awaited *awaited)
{
    int source = awaited->pattern.source;
    if (source < 0)
        return AWAIT_POLLS_OVERSUBSCRIBED;
    const struct hc_peer *peer = context->peers[hc_comm_world_rank(awaited->comm, source)];
    return hc_placement_look(context, peer) == HC_APART ? AWAIT_POLLS_APART : AWAIT_POLLS_OVERSUBSCRIBED;
}

/*
 * The pause between two looks: not sooner than need be, because each look at the line takes it away from who
 * is about to write it. Two for a short message (8 B, Intel near: none 0.167 us, one 0.143, two 0.134, three
 * 0.132). Longer ones come in parts, or are lent, and there two cost more than they save (64 KiB: a fifth).
 */
static inline void pause_awaiting(const struct hc_awaited *awaited)
{
    hc_cpu_relax();
    if (hc_likely(awaited->capacity <= AWAIT_SHORT))
        hc_cpu_relax();
}

/* Poll for a while; whether something came for it. Keeps the lock, as long as nobody waits for it. */
static bool await(struct hcomm_context *context, struct hc_awaited *awaited)
{
    unsigned polls =
        hc_unlikely(context->oversubscribed) ? polls_oversubscribed(context, awaited) : AWAIT_POLLS;
    context->awaited = awaited;
    for (;;) {
        (void)hc_progress_once(context);
        if (!context->awaited)
            return !awaited->abandoned;
        if (!--polls || hc_unlikely(hc_lock_contended(&context->lock)))
            break;
        pause_awaiting(awaited);
    }
    context->awaited = NULL;
    return false;
}

static hcomm_status_t too_long(const struct hc_awaited *awaited)
{
    return hc_error(HCOMM_ERR_TRUNCATED,
                    "receive: message from rank %d with tag %d has %zu bytes, room is for %zu",
                    awaited->source, awaited->tag, awaited->size, awaited->capacity);
}

static inline hcomm_status_t finish_awaited(const struct hc_awaited *awaited,
                                            hcomm_message_status_t *message_status)
{
    hcomm_status_t outcome = HCOMM_OK;
    if (hc_unlikely(awaited->request != NULL))
        return hc_request_finish(awaited->request, message_status);
    if (hc_unlikely(awaited->size > awaited->capacity))
        outcome = too_long(awaited);
    if (message_status)
        *message_status = (hcomm_message_status_t){
            .source = awaited->source, .tag = awaited->tag, .size = awaited->size, .error = outcome};
    return outcome;
}

static hcomm_status_t recv_with_request(struct hcomm_comm *comm, void *buf, size_t capacity, int source,
                                        int tag, hcomm_message_status_t *message_status)
{
    struct hcomm_request *request = NULL;
    hcomm_status_t status = hc_recv_start(comm, comm->id, buf, capacity, source, tag, &request);
    return status == HCOMM_OK ? hc_request_finish(request, message_status) : status;
}

hcomm_status_t hc_recv_blocking(struct hcomm_comm *comm, void *buf, size_t capacity, int source, int tag,
                                hcomm_message_status_t *message_status)
{
    struct hc_awaited awaited; /* what describes the message is set when it comes */
    awaited.pattern = (struct hc_match_key){comm->id, source, tag};
    awaited.comm = comm;
    awaited.buf = buf;
    awaited.capacity = capacity;
    awaited.request = NULL;
    awaited.abandoned = false;
    if (hc_likely(may_await(comm->context, &awaited.pattern)) && hc_likely(await(comm->context, &awaited)))
        return finish_awaited(&awaited, message_status);
    return recv_with_request(comm, buf, capacity, source, tag, message_status);
}

/* ---- arrivals ---- */

/* The awaited receive if the message is for it; it then waits no longer. */
static inline struct hc_awaited *take_awaited(struct hcomm_context *context, const struct hc_match_key *key)
{
    struct hc_awaited *awaited = context->awaited;
    if (!awaited || !hc_match_takes(&awaited->pattern, key))
        return NULL;
    context->awaited = NULL;
    return awaited;
}

/* An eager message meets the awaited receive. */
static HC_NOINLINE void deliver_awaited(struct hc_awaited *awaited, struct hc_peer *peer,
                                        const struct hc_match_key *key, const void *payload, size_t size)
{
    hc_copy(awaited->buf, payload, hc_likely(size <= awaited->capacity) ? size : awaited->capacity);
    awaited->source = key->source;
    awaited->tag = key->tag;
    awaited->size = size;
    count_received(peer->context, size);
    return_credit(peer, size);
}

/* The message needs more than a copy: the awaited receive becomes a request. NULL without memory: the message
 * is unexpected, and the receive begins again. */
static struct hcomm_request *promote(struct hc_awaited *awaited)
{
    awaited->request = hc_recv_request(awaited->comm, awaited->buf, awaited->capacity,
                                       awaited->pattern.source, awaited->pattern.tag);
    awaited->abandoned = !awaited->request;
    return awaited->request;
}

/* The key is a copy, and that is what is checked: the message may lie in memory that the sender can still
 * write. */
static inline bool check_match(const struct hc_wire_match *match, struct hc_match_key *key)
{
    *key = (struct hc_match_key){match->comm, (int32_t)match->source, match->tag};
    return (key->source | key->tag) >= 0;
}

/* The receive that an arrived message belongs to; NULL when it is unexpected. */
static struct hcomm_request *find_receive(struct hc_peer *peer, const struct hc_match_key *key, size_t size)
{
    struct hcomm_request *request = NULL;
    struct hc_awaited *awaited = take_awaited(peer->context, key);
    if (awaited) {
        request = promote(awaited);
    } else {
        struct hc_match_recv *recv = hc_match_arrive(&peer->context->match, key);
        request = recv ? hc_container_of(recv, struct hcomm_request, match) : NULL;
    }
    if (!request)
        return NULL;
    describe(request, peer, key, size);
    return request;
}

static HC_NOINLINE void keep_eager(struct hc_peer *peer, const struct hc_match_key *key, const void *payload,
                                   size_t size, bool sync, uint64_t send_id)
{
    struct hcomm_message *message = message_new(peer, key, size);
    if (!message) {
        no_room(peer);
        return;
    }
    message->size = size;
    message->sync = sync;
    message->send_id = send_id;
    hc_copy(message->payload, payload, size);
}

static HC_NOINLINE void take_eager(struct hc_peer *peer, const struct hc_wire_match *match,
                                   const void *payload, size_t size)
{
    struct hc_match_key key;
    if (hc_unlikely(!check_match(match, &key))) {
        hc_peer_malformed(peer, "EAGER", wrong_envelope);
        return;
    }
    struct hc_awaited *awaited = take_awaited(peer->context, &key);
    if (hc_unlikely(awaited != NULL)) {
        deliver_awaited(awaited, peer, &key, payload, size);
        return;
    }
    struct hc_match_recv *recv = hc_match_arrive(&peer->context->match, &key);
    if (hc_unlikely(!recv)) {
        keep_eager(peer, &key, payload, size, false, 0);
        return;
    }
    struct hcomm_request *request = hc_container_of(recv, struct hcomm_request, match);
    describe(request, peer, &key, size);
    deliver_eager(request, payload, size);
    return_credit(peer, size);
}

struct hcomm_request *hc_recv_begin(struct hc_peer *peer, const struct hc_wire_match *match, size_t size)
{
    struct hc_match_key key;
    return check_match(match, &key) ? find_receive(peer, &key, size) : NULL;
}

void hc_recv_ended(struct hc_peer *peer, size_t size)
{
    count_received(peer->context, size);
    return_credit(peer, size);
}

/* The receive that was posted first, if the message before was of the same key; NULL: look further. */
static inline struct hcomm_request *first_of_recent(const struct hc_match *match,
                                                    const struct hc_match_key *key)
{
    if (match->posted_wild || !hc_match_is_recent(match, key) || hc_list_empty(&match->recent->posted))
        return NULL;
    return hc_list_entry(match->recent->posted.next, struct hcomm_request, match.node);
}

/* What windows consist of, without a call: an eager payload of at most a line meets the receive above. */
static HC_INLINE bool take_posted_line(struct hcomm_context *context, struct hc_peer *peer,
                                       const struct hc_match_key *key, const void *payload, size_t size)
{
    struct hcomm_request *request = first_of_recent(&context->match, key);
    if (!request || size > HC_CACHE_LINE || size > request->capacity || request->on_device ||
        !hc_request_may_complete_light(request))
        return false;
    hc_match_unpost_first(&context->match, &request->match);
    hc_copy_line_part(request->buf, payload, size);
    request->finished = size;
    describe(request, peer, key, size);
    hc_request_complete_light(request);
    count_received(context, size);
    return true;
}

/* The commonest case: the awaited receive. */
static HC_INLINE bool take_awaited_line(struct hcomm_context *context, const struct hc_match_key *key,
                                        const void *payload, size_t size)
{
    struct hc_awaited *awaited = context->awaited;
    if (size > awaited->capacity || !hc_match_takes(&awaited->pattern, key))
        return false;
    context->awaited = NULL;
    hc_copy_line_part(awaited->buf, payload, size);
    awaited->source = key->source;
    awaited->tag = key->tag;
    awaited->size = size;
    count_received(context, size);
    return true;
}

static HC_NOINLINE void eager_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    const struct hc_wire_match *match = data;
    if (hc_unlikely(len < sizeof(*match)))
        hc_peer_malformed(peer, "EAGER", wrong_length);
    else
        take_eager(peer, match, match + 1, len - sizeof(*match));
}

static void eager_sync_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    const struct hc_wire_eager_sync *head = data;
    struct hc_match_key key;
    if (len < sizeof(*head) || !check_match(&head->match, &key)) {
        hc_peer_malformed(peer, "EAGER_SYNC", len < sizeof(*head) ? wrong_length : wrong_envelope);
        return;
    }
    size_t size = len - sizeof(*head);
    struct hcomm_request *request = find_receive(peer, &key, size);
    if (!request) {
        keep_eager(peer, &key, head + 1, size, true, head->send_id);
        return;
    }
    hc_rndv_answer(peer, HC_WIRE_SYNC_ACK, head->send_id, HCOMM_OK);
    deliver_eager(request, head + 1, size);
    return_credit(peer, size);
}

/* One message of a batch. */
static inline void take_item(struct hc_peer *peer, const struct hc_wire_batch *head,
                             const struct hc_wire_batch_item *item, const void *payload)
{
    const struct hc_wire_match match = {.comm = head->comm, .source = head->source, .tag = item->tag};
    struct hc_match_key key;
    if (hc_likely(!peer->context->awaited) && hc_likely(check_match(&match, &key)) &&
        hc_likely(take_posted_line(peer->context, peer, &key, payload, item->size)))
        return_credit(peer, item->size);
    else
        take_eager(peer, &match, payload, item->size);
}

static void batch_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_batch head; /* copies: the message may lie in memory that the sender can still write */
    struct hc_wire_batch_item item;
    if (len < sizeof(head)) {
        hc_peer_malformed(peer, "BATCH", wrong_length);
        return;
    }
    (void)memcpy(&head, data, sizeof(head));
    const uint8_t *next = (const uint8_t *)data + sizeof(head);
    for (len -= sizeof(head); len > 0;) {
        if (len >= sizeof(item))
            (void)memcpy(&item, next, sizeof(item));
        if (len < sizeof(item) || hc_align_up((size_t)item.size, 8) > len - sizeof(item)) {
            hc_peer_malformed(peer, "BATCH", "its end cuts a message");
            return;
        }
        take_item(peer, &head, &item, next + sizeof(item));
        size_t used = sizeof(item) + hc_align_up((size_t)item.size, 8);
        next += used;
        len -= used;
    }
}

static void keep_rts(struct hc_peer *peer, const struct hc_match_key *key, const struct hc_rndv_offer *offer)
{
    struct hcomm_message *message = message_new(peer, key, offer->rkey_len);
    if (!message) {
        no_room(peer);
        return;
    }
    message->size = offer->size;
    message->rndv = true;
    message->send_id = offer->send_id;
    message->address = offer->address;
    message->rkey_len = (uint32_t)offer->rkey_len;
    message->offer = offer->kind;
    message->guard = offer->guard;
    message->guard_generation = offer->guard_generation;
    if (offer->rkey_len)
        (void)memcpy(message->payload, offer->rkey, offer->rkey_len);
}

static void rts_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_rts rts = {0}; /* a copy, as above */
    struct hc_match_key key;
    if (len >= sizeof(rts))
        (void)memcpy(&rts, data, sizeof(rts));
    if (len < sizeof(rts) || rts.rkey_len != len - sizeof(rts)) {
        hc_peer_malformed(peer, "RTS", wrong_length);
        return;
    }
    if (rts.offer > HC_OFFER_SELF || !check_match(&rts.match, &key)) {
        hc_peer_malformed(peer, "RTS", rts.offer > HC_OFFER_SELF ? "its offer is unknown" : wrong_envelope);
        return;
    }
    const struct hc_rndv_offer offer = {
        .size = (size_t)rts.size,
        .send_id = rts.send_id,
        .address = rts.address,
        .rkey = rts.rkey_len ? (const uint8_t *)data + sizeof(rts) : NULL,
        .rkey_len = rts.rkey_len,
        .kind = rts.offer,
        .guard = rts.guard,
        .guard_generation = rts.guard_generation,
    };
    struct hcomm_request *request = find_receive(peer, &key, offer.size);
    if (request)
        hc_rndv_receive(request, &offer);
    else
        keep_rts(peer, &key, &offer);
}

/* A lent message is taken back: its receive, or what is kept of it, gets the payload; it is gone when it was
 * fetched before. In each case it has used the window. */
static void payload_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_payload head;
    if (len <= sizeof(head)) {
        hc_peer_malformed(peer, "PAYLOAD", wrong_length);
        return;
    }
    (void)memcpy(&head, data, sizeof(head));
    const uint8_t *payload = (const uint8_t *)data + sizeof(head);
    size_t size = len - sizeof(head);
    struct hcomm_message *message = find_kept(peer, head.send_id);
    if (message && (!message->guard_generation || message->size != size)) {
        hc_peer_malformed(peer, "PAYLOAD", "it is not what was announced");
        return;
    }
    if (message) {
        keep_payload(message, payload);
        return;
    }
    hc_rndv_payload_arrived(peer, head.send_id, payload, size);
    return_credit(peer, size);
}

static void barrier_arrived(struct hc_peer *peer, const void *data, size_t len)
{
    struct hc_wire_barrier message;
    if (len != sizeof(message)) {
        hc_peer_malformed(peer, "BARRIER", wrong_length);
        return;
    }
    (void)memcpy(&message, data, sizeof(message));
    hc_barrier_arrive(peer->context, peer->rank, &message);
}

static HC_COLD void unknown_arrived(struct hc_peer *peer, uint8_t id)
{
    char why[32];
    (void)snprintf(why, sizeof(why), "its kind is %u", id);
    hc_peer_malformed(peer, "unknown", why);
}

static HC_NOINLINE void dispatch(struct hc_peer *peer, uint8_t id, const void *data, size_t len)
{
    switch (id) {
    case HC_WIRE_EAGER:
        eager_arrived(peer, data, len);
        break;
    case HC_WIRE_EAGER_SYNC:
        eager_sync_arrived(peer, data, len);
        break;
    case HC_WIRE_BATCH:
        batch_arrived(peer, data, len);
        break;
    case HC_WIRE_RTS:
        rts_arrived(peer, data, len);
        break;
    case HC_WIRE_CTS:
        hc_rndv_cts_arrived(peer, data, len);
        break;
    case HC_WIRE_DATA:
        hc_rndv_data_arrived(peer, data, len);
        break;
    case HC_WIRE_PLACED:
        hc_rndv_placed_arrived(peer, data, len);
        break;
    case HC_WIRE_FIN:
    case HC_WIRE_SYNC_ACK:
    case HC_WIRE_NACK:
        hc_rndv_fin_arrived(peer, id, data, len);
        break;
    case HC_WIRE_WITHDRAW:
        hc_rndv_withdraw_arrived(peer, data, len);
        break;
    case HC_WIRE_PAYLOAD:
        payload_arrived(peer, data, len);
        break;
    case HC_WIRE_RECALL:
        hc_device_recall_arrived(peer, data, len);
        break;
    case HC_WIRE_RELEASED:
        hc_device_released_arrived(peer, data, len);
        break;
    case HC_WIRE_CREDIT:
        credit_arrived(peer, data, len);
        break;
    case HC_WIRE_BARRIER:
        barrier_arrived(peer, data, len);
        break;
    default:
        unknown_arrived(peer, id);
    }
}

/* The peer has not been heard of, has failed, or does not exist. */
static HC_COLD void arrived_from_unknown(struct hcomm_context *context, uint32_t from, uint8_t id,
                                         const void *data, size_t len)
{
    if (from >= context->job->size) {
        hc_log_warn("message from rank %u of a job of %u: dropped", from, context->job->size);
        return;
    }
    struct hc_peer *peer = hc_peer_get(context, from);
    if (peer && peer->state != HC_PEER_FAILED)
        dispatch(peer, id, data, len);
}

/*
 * An eager message of at most a line meets the awaited receive, or the one that was posted first. Nothing is
 * left to be done when it returns true but returning the credit.
 */
static HC_INLINE bool take_line(struct hcomm_context *context, struct hc_peer *peer, const void *data,
                                size_t len)
{
    const struct hc_wire_match *match = data;
    struct hc_match_key key;
    size_t size = len - sizeof(*match);
    if (hc_unlikely(size > HC_CACHE_LINE - sizeof(*match)) || hc_unlikely(!check_match(match, &key)))
        return false;
    return context->awaited ? take_awaited_line(context, &key, match + 1, size)
                            : take_posted_line(context, peer, &key, match + 1, size);
}

/* What does not happen with most messages. */
static HC_NOINLINE void arrived_otherwise(struct hcomm_context *context, uint32_t from, uint8_t id,
                                          const void *data, size_t len)
{
    struct hc_peer *peer = from < context->job->size ? context->peers[from] : NULL;
    if (hc_unlikely(!peer || peer->state == HC_PEER_FAILED))
        arrived_from_unknown(context, from, id, data, len);
    else
        dispatch(peer, id, data, len);
}

void hc_core_am(void *arg, uint32_t from, uint8_t id, const void *data, size_t len)
{
    struct hcomm_context *context = arg;
    struct hc_peer *peer = hc_likely(from < context->job->size) ? context->peers[from] : NULL;
    if (hc_likely(id == HC_WIRE_EAGER) && hc_likely(peer != NULL) &&
        hc_likely(peer->state != HC_PEER_FAILED) && hc_likely(take_line(context, peer, data, len)))
        return_credit(peer, len - sizeof(struct hc_wire_match));
    else
        arrived_otherwise(context, from, id, data, len);
}
