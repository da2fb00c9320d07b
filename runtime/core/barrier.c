/*
 * Barriers: one state machine for the blocking and the nonblocking call.
 *
 * The first barrier of a communicator is a dissemination among all members (D. Hensgen, R. Finkel, U. Manber,
 * "Two Algorithms for Barrier Synchronization", Int. J. of Parallel Programming 17(1), 1988). Its messages
 * carry the conjunction of "I can use the shared words of my host", which after the last round covers every
 * member, so all choose the same way for later barriers. That way may be: flags, each member watching every
 * other's (one host, few members); gathering inside each host and dissemination among one leader per host; or
 * messages only.
 *
 * On one host whoever finds that all have arrived releases them; on several the leader (the lowest local
 * member) waits for its host, exchanges, and releases.
 *
 * A barrier that timed out stays queued and goes on with the communication of later calls, because this
 * member has entered it: others may still be completing it. Later barriers of the communicator follow it.
 */
#include "runtime/core/barrier.h"

#include "runtime/core/coll.h"
#include "runtime/core/request.h"
#include "runtime/core/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIRECT_POLLS = 100,        /* of the barrier alone, before everything is polled */
    DIRECT_TURNS = 4,          /* the same, each after giving the processor away */
    DIRECT_TURNS_NS = 1000000, /* less than a time slice */
    PROGRESS_INTERVAL = 16,    /* barriers; so that a loop of barriers also moves messages */
    ROUNDS_MAX = 32,
    EARLY_MAX = 65536, /* messages kept for communicators not made here yet */
    NAMES_MAX = 8,     /* ranks named in an error */
};

enum stage {
    STAGE_ENTER,
    STAGE_CONNECT,  /* first barrier: to the owner of the words */
    STAGE_EXCHANGE, /* dissemination */
    STAGE_WATCH,    /* FLAGS: of the others */
    STAGE_GATHER,   /* leader: arrivals on this host */
    STAGE_RELEASE,  /* wait for it */
    STAGE_WAKE,     /* sleepers that could not be reached yet */
    STAGE_COUNT,
};

enum outcome { STUCK, MOVED, DONE };

/* A message for a communicator not made here yet. */
struct early {
    struct hc_list node; /* in context->early_barriers */
    uint32_t from;
    struct hc_wire_barrier message;
};

/* ---- who is where ---- */

struct host_map {
    int *leader_of; /* per host: index into leaders, -1 until met */
    uint32_t num_hosts;
};

static hcomm_status_t alloc_places(struct hcomm_comm *comm, uint32_t num_hosts, struct host_map *map)
{
    size_t leaders = (size_t)comm->size < num_hosts ? (size_t)comm->size : num_hosts;
    map->num_hosts = num_hosts;
    map->leader_of = malloc(num_hosts * sizeof(int));
    comm->leaders = malloc(leaders * sizeof(int));
    comm->local = malloc((size_t)comm->size * sizeof(int));
    if (map->leader_of && comm->leaders && comm->local) {
        for (uint32_t i = 0; i < num_hosts; i++)
            map->leader_of[i] = -1;
        return HCOMM_OK;
    }
    free(map->leader_of);
    free(comm->leaders);
    free(comm->local);
    comm->leaders = comm->local = NULL;
    return hc_error(HCOMM_ERR_NO_MEMORY, "communicator '%s': out of memory for %d ranks", comm->name,
                    comm->size);
}

static void place_members(struct hcomm_comm *comm, const uint32_t *host_of, const struct host_map *map)
{
    uint32_t own_host = host_of[comm->context->job->rank];
    for (int rank = 0; rank < comm->size; rank++) {
        uint32_t host = host_of[hc_comm_world_rank(comm, rank)];
        if (map->leader_of[host] < 0) {
            map->leader_of[host] = comm->num_leaders;
            comm->leaders[comm->num_leaders++] = rank;
        }
        if (host != own_host)
            continue;
        if (rank == comm->rank)
            comm->local_index = comm->num_local;
        comm->local[comm->num_local++] = rank;
    }
    comm->leader_index = map->leader_of[own_host];
}

/* A member may have failed before the communicator was made. */
static void find_lost(struct hcomm_comm *comm)
{
    for (int rank = 0; rank < comm->size && !comm->lost; rank++) {
        struct hc_peer *peer = comm->context->peers[hc_comm_world_rank(comm, rank)];
        if (peer && peer->state == HC_PEER_FAILED)
            comm->lost = peer;
    }
}

hcomm_status_t hc_barrier_prepare(struct hcomm_comm *comm)
{
    if (comm->local)
        return HCOMM_OK;
    const uint32_t *host_of = hc_context_hosts(comm->context);
    if (!host_of)
        return HCOMM_ERR_BOOTSTRAP;
    struct host_map map;
    hcomm_status_t status = alloc_places(comm, comm->context->job->num_hosts, &map);
    if (status != HCOMM_OK)
        return status;
    place_members(comm, host_of, &map);
    free(map.leader_of);
    int *fitted = realloc(comm->local, (size_t)comm->num_local * sizeof(int));
    if (fitted)
        comm->local = fitted;
    if (comm->num_local == 1 || comm->num_local > HC_BARRIER_LOCAL_MAX)
        comm->slot = -1;
    find_lost(comm);
    return HCOMM_OK;
}

/* ---- messages ---- */

static void send_message(struct hcomm_comm *comm, int dest, const struct hc_wire_barrier *message)
{
    struct hc_peer *peer = hc_comm_peer(comm, dest);
    if (peer && peer->state != HC_PEER_FAILED)
        hc_control_send(peer, HC_WIRE_BARRIER, message, sizeof(*message));
}

/* Those who exchange messages: leaders, or all. */
static int exchange_size(const struct hcomm_comm *comm)
{
    return comm->mode == HC_BARRIER_GATHER ? comm->num_leaders : comm->size;
}

static int exchange_index(const struct hcomm_comm *comm)
{
    return comm->mode == HC_BARRIER_GATHER ? comm->leader_index : comm->rank;
}

static int exchange_rank(const struct hcomm_comm *comm, int64_t index)
{
    int size = exchange_size(comm);
    int wrapped = (int)((index % size + size) % size);
    return comm->mode == HC_BARRIER_GATHER ? comm->leaders[wrapped] : wrapped;
}

/* The member whose message ends the round. */
static int exchange_source(const struct hcomm_request *request)
{
    const struct hcomm_comm *comm = request->comm;
    return exchange_rank(comm, exchange_index(comm) - ((int64_t)1 << request->round));
}

static void send_round(struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    const struct hc_wire_barrier message = {
        .comm = comm->id,
        .source = (uint32_t)comm->rank,
        .round = (uint16_t)request->round,
        .flags = comm->shared_ok ? HC_BARRIER_FLAG_SHARED : 0,
        .generation = request->generation,
    };
    send_message(comm, exchange_rank(comm, exchange_index(comm) + ((int64_t)1 << request->round)), &message);
}

static enum outcome begin_exchange(struct hcomm_request *request)
{
    request->stage = STAGE_EXCHANGE;
    request->round = 0;
    if (exchange_size(request->comm) > 1)
        send_round(request);
    return MOVED;
}

/* ---- stages ---- */

static enum outcome enter_flags(struct hcomm_request *request)
{
    hc_words_set_flag(request->comm, request->generation);
    request->wake = true;
    request->round = 0; /* members seen */
    request->stage = STAGE_WATCH;
    return MOVED;
}

static enum outcome enter_gather(struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    bool several_hosts = comm->num_leaders > 1;
    request->stage = STAGE_RELEASE;
    if (comm->num_local == 1)
        return begin_exchange(request);
    hc_words_arrive(comm, request->generation);
    if (several_hosts && comm->local_index == 0) {
        request->stage = STAGE_GATHER;
    } else if (several_hosts) {
        request->wake = true; /* the leader */
    } else if (hc_words_missing_arrival(comm, request->generation, 0) == comm->num_local) {
        hc_words_release(comm, request->generation);
        request->wake = true;
    }
    return MOVED;
}

static enum outcome stage_enter(struct hcomm_request *request)
{
    switch (request->comm->mode) {
    case HC_BARRIER_UNDECIDED:
        request->stage = STAGE_CONNECT;
        return MOVED;
    case HC_BARRIER_MESSAGES:
        return begin_exchange(request);
    case HC_BARRIER_FLAGS:
        return enter_flags(request);
    case HC_BARRIER_GATHER:
        return enter_gather(request);
    }
    return STUCK;
}

static enum outcome stage_connect(struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    if (comm->num_local > 1 && comm->slot < 0)
        comm->shared_ok = false;
    if (comm->slot >= 0 && comm->local_index > 0) {
        struct hc_peer *owner = hc_comm_peer(comm, comm->local[0]);
        if (owner && owner->state == HC_PEER_NEW)
            hc_peer_connect(owner);
        if (owner && (owner->state == HC_PEER_NEW || owner->state == HC_PEER_FETCHING))
            return STUCK;
    }
    if (comm->slot >= 0 && !hc_barrier_map(comm))
        comm->shared_ok = false;
    return begin_exchange(request);
}

static void decide(struct hcomm_comm *comm)
{
    static const char *const names[] = {"undecided", "messages", "flags", "gather"};
    bool few = comm->num_leaders == 1 && comm->num_local > 1 && comm->num_local <= HC_BARRIER_FLAGS_MAX;
    if (!comm->shared_ok)
        comm->mode = HC_BARRIER_MESSAGES;
    else
        comm->mode = few ? HC_BARRIER_FLAGS : HC_BARRIER_GATHER;
    hc_log_debug("communicator '%s': barriers use %s (%d hosts, %d ranks on this one)", comm->name,
                 names[comm->mode], comm->num_leaders, comm->num_local);
}

static enum outcome end_exchange(struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    if (comm->mode == HC_BARRIER_UNDECIDED) {
        decide(comm);
    } else if (comm->mode == HC_BARRIER_GATHER && comm->num_local > 1) {
        hc_words_release(comm, request->generation);
        request->wake = true;
    }
    request->stage = STAGE_WAKE;
    return MOVED;
}

static enum outcome stage_exchange(struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    unsigned rounds = hc_coll_rounds(exchange_size(comm));
    if (request->round == rounds)
        return end_exchange(request);
    /* A newer generation's message says so too: its sender was through with this one, so all had entered. */
    if (comm->arrived[request->round] < request->generation)
        return STUCK;
    request->round++;
    if (request->round < rounds)
        send_round(request);
    return MOVED;
}

/* Whom this member may have to wake: its leader while arriving on several hosts, else everybody. */
static bool wake_done(struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    bool leader_only = comm->num_leaders > 1 && comm->local_index > 0;
    if (request->wake)
        request->wake = !hc_words_wake(comm, leader_only ? 1 : comm->num_local);
    return !request->wake;
}

static enum outcome stage_watch(struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    (void)wake_done(request); /* asked again in STAGE_WAKE */
    request->round = (unsigned)hc_words_missing_flag(comm, request->generation, (int)request->round);
    if ((int)request->round < comm->num_local)
        return STUCK;
    request->stage = STAGE_WAKE;
    return MOVED;
}

static enum outcome stage_gather(struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    if (hc_words_missing_arrival(comm, request->generation, 0) < comm->num_local)
        return STUCK;
    return begin_exchange(request);
}

static enum outcome stage_release(struct hcomm_request *request)
{
    (void)wake_done(request); /* asked again in STAGE_WAKE */
    if (!hc_words_released(request->comm, request->generation))
        return STUCK;
    request->stage = STAGE_WAKE;
    return MOVED;
}

static enum outcome stage_wake(struct hcomm_request *request)
{
    return wake_done(request) ? DONE : STUCK;
}

static enum outcome (*const stages[STAGE_COUNT])(struct hcomm_request *request) = {
    [STAGE_ENTER] = stage_enter, [STAGE_CONNECT] = stage_connect, [STAGE_EXCHANGE] = stage_exchange,
    [STAGE_WATCH] = stage_watch, [STAGE_GATHER] = stage_gather,   [STAGE_RELEASE] = stage_release,
    [STAGE_WAKE] = stage_wake,
};

/* ---- the queue of a communicator ---- */

static struct hcomm_request *active_request(const struct hcomm_comm *comm)
{
    struct hc_list *node = hc_list_first(&comm->barriers);
    return node ? hc_list_entry(node, struct hcomm_request, barrier_node) : NULL;
}

static void finish(struct hcomm_request *request, hcomm_status_t status)
{
    struct hcomm_comm *comm = request->comm;
    hc_words_withdraw_sleep(comm);
    hc_list_remove(&request->barrier_node);
    if (hc_list_empty(&comm->barriers)) {
        hc_list_remove(&comm->active);
        comm->context->num_barriers--;
    }
    hc_request_complete(request, status);
}

static unsigned advance(struct hcomm_comm *comm)
{
    unsigned moved = 0;
    for (;;) {
        struct hcomm_request *request = active_request(comm);
        if (!request)
            return moved;
        enum outcome outcome = stages[request->stage](request);
        if (outcome == STUCK)
            return moved;
        moved++;
        if (outcome == DONE)
            finish(request, HCOMM_OK);
    }
}

unsigned hc_barrier_progress(struct hcomm_context *context)
{
    unsigned moved = 0;
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &context->barriers) moved +=
        advance(hc_list_entry(node, struct hcomm_comm, active));
    return moved;
}

static bool waits_for_words(const struct hcomm_request *request)
{
    return request->stage == STAGE_WATCH || request->stage == STAGE_GATHER || request->stage == STAGE_RELEASE;
}

bool hc_barrier_may_sleep(struct hcomm_context *context)
{
    struct hc_list *node;
    hc_list_for_each(node, &context->barriers)
    {
        struct hcomm_comm *comm = hc_list_entry(node, struct hcomm_comm, active);
        if (waits_for_words(active_request(comm)))
            hc_words_announce_sleep(comm);
    }
    return hc_barrier_progress(context) == 0;
}

/* ---- arrivals ---- */

static void refuse(struct hcomm_context *context, uint32_t from, const struct hc_wire_barrier *message,
                   const char *why)
{
    char detail[192];
    struct hc_peer *peer = hc_peer_get(context, from);
    if (!peer)
        return;
    (void)snprintf(detail, sizeof(detail), "%s sent a bad barrier message (communicator %" PRIx64 "): %s",
                   hc_peer_name(peer), message->comm, why);
    hc_peer_fail(peer, HCOMM_ERR_PROTOCOL, detail);
}

static void take(struct hcomm_comm *comm, uint32_t from, const struct hc_wire_barrier *message)
{
    if (message->source >= (uint32_t)comm->size || hc_comm_world_rank(comm, (int)message->source) != from) {
        refuse(comm->context, from, message, "its source is another rank");
        return;
    }
    if (!(message->flags & HC_BARRIER_FLAG_SHARED) && comm->mode == HC_BARRIER_UNDECIDED)
        comm->shared_ok = false;
    if (message->generation > comm->arrived[message->round])
        comm->arrived[message->round] = message->generation;
}

static void keep_early(struct hcomm_context *context, uint32_t from, const struct hc_wire_barrier *message)
{
    struct early *early = context->num_early_barriers < EARLY_MAX ? malloc(sizeof(*early)) : NULL;
    if (!early) {
        refuse(context, from, message, "no room to keep it until its communicator is made here");
        return;
    }
    early->from = from;
    early->message = *message;
    hc_list_append(&context->early_barriers, &early->node);
    context->num_early_barriers++;
}

static void take_return(struct hcomm_context *context, uint32_t from, const struct hc_wire_barrier *message)
{
    if (message->generation >= HC_BARRIER_SLOTS ||
        hc_slot_return(context, (int)message->generation) != HCOMM_OK)
        refuse(context, from, message, "it returns a slot that is not in use");
}

void hc_barrier_arrive(struct hcomm_context *context, uint32_t from, const struct hc_wire_barrier *message)
{
    if (message->flags == HC_BARRIER_FLAG_LEAVE) {
        take_return(context, from, message);
        return;
    }
    if ((message->flags & ~HC_BARRIER_FLAG_SHARED) || message->round >= ROUNDS_MAX || !message->generation) {
        refuse(context, from, message, "flags, round or generation are out of range");
        return;
    }
    struct hcomm_comm *comm = hc_comm_find(context, message->comm);
    if (comm)
        take(comm, from, message);
    else
        keep_early(context, from, message);
}

void hc_barrier_claim(struct hcomm_comm *comm)
{
    struct hcomm_context *context = comm->context;
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &context->early_barriers)
    {
        struct early *early = hc_list_entry(node, struct early, node);
        if (early->message.comm != comm->id)
            continue;
        hc_list_remove(node);
        context->num_early_barriers--;
        take(comm, early->from, &early->message);
        free(early);
    }
}

/* ---- failures and ends ---- */

static void fail_all(struct hcomm_comm *comm, struct hc_peer *peer, hcomm_status_t status)
{
    for (;;) {
        struct hcomm_request *request = active_request(comm);
        if (!request)
            return;
        request->peer = peer;
        finish(request, status);
    }
}

void hc_barrier_fail_peer(struct hcomm_context *context, struct hc_peer *peer)
{
    struct hc_list *node;
    hc_list_for_each(node, &context->comms)
    {
        struct hcomm_comm *comm = hc_list_entry(node, struct hcomm_comm, all);
        if (comm->lost || hc_comm_rank_of(comm, peer->rank) < 0)
            continue;
        if (!context->forked)    /* whose shared words are the parent's */
            (void)advance(comm); /* what is complete is complete, though the peer died right after it */
        comm->lost = peer;
        fail_all(comm, peer, peer->failure);
    }
}

/* Tell the owner of the words that we will not touch them again. */
static void return_slot(struct hcomm_comm *comm)
{
    if (comm->slot < 0 || !comm->local || comm->context->finalizing)
        return;
    if (comm->local_index == 0) {
        if (hc_slot_return(comm->context, comm->slot) != HCOMM_OK)
            hc_log_warn("communicator '%s': %s", comm->name, hc_error_detail());
        return;
    }
    const struct hc_wire_barrier message = {
        .comm = comm->id,
        .source = (uint32_t)comm->rank,
        .flags = HC_BARRIER_FLAG_LEAVE,
        .generation = (uint64_t)comm->slot,
    };
    send_message(comm, comm->local[0], &message);
}

void hc_barrier_comm_fini(struct hcomm_comm *comm)
{
    fail_all(comm, NULL, HCOMM_ERR_CANCELLED);
    return_slot(comm);
}

void hc_barrier_fini(struct hcomm_context *context)
{
    for (;;) {
        struct hc_list *node = hc_list_pop(&context->early_barriers);
        if (!node)
            return;
        context->num_early_barriers--;
        free(hc_list_entry(node, struct early, node));
    }
}

/* ---- who is missing ---- */

/* A list of ranks in words, bounded. */
struct names {
    char text[320];
    size_t used;
    int count;
};

static void add_name(struct names *names, const struct hcomm_comm *comm, int rank)
{
    if (names->count++ >= NAMES_MAX || names->used >= sizeof(names->text))
        return;
    struct hc_peer *peer = hc_comm_peer(comm, rank);
    int length = snprintf(names->text + names->used, sizeof(names->text) - names->used, "%s%s",
                          names->count > 1 ? ", " : "", peer ? hc_peer_name(peer) : "a rank");
    if (length > 0)
        names->used += (size_t)length;
}

static void add_missing(struct names *names, const struct hcomm_request *request)
{
    const struct hcomm_comm *comm = request->comm;
    bool flags = request->stage == STAGE_WATCH;
    for (int i = 0; i < comm->num_local; i++) {
        i = flags ? hc_words_missing_flag(comm, request->generation, i)
                  : hc_words_missing_arrival(comm, request->generation, i);
        if (i < comm->num_local)
            add_name(names, comm, comm->local[i]);
    }
}

static const char *describe_missing(const struct hcomm_request *request, struct names *names)
{
    const struct hcomm_comm *comm = request->comm;
    if (waits_for_words(request)) {
        add_missing(names, request);
        return names->count ? "not arrived: " : "all on this host have arrived, not all on other hosts";
    }
    if (request->stage == STAGE_EXCHANGE) {
        add_name(names, comm, exchange_source(request));
        return "not arrived, itself or one it waits for: ";
    }
    if (request->stage == STAGE_CONNECT) {
        add_name(names, comm, comm->local[0]);
        return "cannot be reached yet: ";
    }
    return "behind an earlier barrier that is not complete";
}

hcomm_status_t hc_barrier_explain_timeout(const struct hcomm_request *request)
{
    struct names names = {.text = "", .used = 0, .count = 0};
    const struct hcomm_request *active = active_request(request->comm);
    const char *what = describe_missing(active ? active : request, &names);
    char more[32] = "";
    if (names.count > NAMES_MAX)
        (void)snprintf(more, sizeof(more), " and %d more", names.count - NAMES_MAX);
    return hc_error(HCOMM_ERR_TIMEOUT,
                    "barrier %" PRIu64
                    " on communicator '%s': not complete after %d ms (setting timeout_ms); "
                    "%s%s%s",
                    request->generation, request->comm->name, request->context->settings.timeout_ms, what,
                    names.text, more);
}

/* ---- public calls ---- */

hcomm_status_t hc_barrier_start(struct hcomm_comm *comm, struct hcomm_request **out)
{
    hcomm_status_t status = hc_barrier_prepare(comm);
    if (status != HCOMM_OK)
        return status;
    if (comm->lost) {
        status = hc_peer_error(comm->lost);
        hc_error_prefix("barrier on communicator '%s': ", comm->name);
        return status;
    }
    struct hcomm_request *request = hc_request_new(comm, HC_REQUEST_BARRIER);
    if (!request)
        return HCOMM_ERR_NO_MEMORY;
    request->stage = STAGE_ENTER;
    request->generation = ++comm->generation;
    if (hc_list_empty(&comm->barriers)) {
        hc_list_append(&comm->context->barriers, &comm->active);
        comm->context->num_barriers++;
    }
    hc_list_append(&comm->barriers, &request->barrier_node);
    (void)advance(comm);
    *out = request;
    return HCOMM_OK;
}

static bool is_complete(void *arg)
{
    struct hcomm_request *request = arg;
    /* acquire: partner is the release in hc_request_complete */
    return atomic_load_explicit(&request->complete, memory_order_acquire);
}

/* The fast path: nothing but this communicator's words is looked at. */
static void poll_directly(struct hcomm_request *request)
{
    for (int polls = DIRECT_POLLS; polls > 0 && !is_complete(request); polls--) {
        hc_cpu_relax();
        (void)advance(request->comm);
    }
}

/*
 * The same with more ranks than processors: whoever has not entered needs a processor, and each poll before
 * it gets one delays all. Not for long: those who run meanwhile may compute, and somebody may wait for
 * messages that are moved here.
 */
static void yield_directly(struct hcomm_request *request)
{
    uint64_t until = 0;
    for (int turns = DIRECT_TURNS; turns > 0 && waits_for_words(request); turns--) {
        hc_wait_yield(request->context);
        if (is_complete(request) || advance(request->comm))
            return;
        uint64_t now = hc_clock_ns();
        until = until ? until : now + DIRECT_TURNS_NS;
        if (now > until)
            return;
    }
}

static void wait_directly(struct hcomm_request *request)
{
    struct hcomm_context *context = request->context;
    if (request->generation % PROGRESS_INTERVAL == 0)
        (void)hc_progress(context);
    if (context->oversubscribed)
        yield_directly(request);
    else
        poll_directly(request);
}

/* Somebody on this host who has not entered, where every rank should have a processor. NULL: all have. */
static struct hc_peer *missing_here(const struct hcomm_request *request)
{
    struct hcomm_comm *comm = request->comm;
    int index = comm->num_local;
    if (comm->context->oversubscribed)
        return NULL;
    if (comm->mode == HC_BARRIER_FLAGS)
        index = hc_words_missing_flag(comm, request->generation, 0);
    else if (comm->mode == HC_BARRIER_GATHER && comm->num_local > 1)
        index = hc_words_missing_arrival(comm, request->generation, 0);
    return index < comm->num_local ? hc_comm_peer(comm, comm->local[index]) : NULL;
}

static hcomm_status_t wait_for(struct hcomm_request *request)
{
    struct hcomm_context *context = request->context;
    const struct hc_wait_params params = {
        .done = is_complete,
        .arg = request,
        .timeout_ms = context->settings.timeout_ms,
        .partner = missing_here(request),
    };
    return hc_wait_for(context, &params);
}

static hcomm_status_t run_blocking(struct hcomm_comm *comm)
{
    struct hcomm_request *request = NULL;
    hcomm_status_t status = hc_barrier_start(comm, &request);
    if (status != HCOMM_OK)
        return status;
    wait_directly(request);
    if (!is_complete(request)) {
        status = wait_for(request);
        if (status != HCOMM_OK) {
            status = hc_barrier_explain_timeout(request);
            request->orphan = true;
            return status;
        }
    }
    status = request->status;
    if (status != HCOMM_OK && request->peer) {
        (void)hc_peer_error(request->peer);
        hc_error_prefix("barrier on communicator '%s': ", comm->name);
    }
    hc_request_free(request);
    return status;
}

HCOMM_API hcomm_status_t hcomm_barrier(hcomm_comm_t comm)
{
    if (!comm)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_barrier: comm is NULL");
    if (comm->size == 1)
        return HCOMM_OK;
    hc_lock_acquire(&comm->context->lock);
    hcomm_status_t status = run_blocking(comm);
    hc_lock_release(&comm->context->lock);
    return status;
}

HCOMM_API hcomm_status_t hcomm_ibarrier(hcomm_comm_t comm, hcomm_request_t *request)
{
    if (!comm || !request)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_ibarrier: %s is NULL", comm ? "request" : "comm");
    hc_lock_acquire(&comm->context->lock);
    struct hcomm_request *started = NULL;
    hcomm_status_t status = hc_barrier_start(comm, &started);
    if (status == HCOMM_OK)
        *request = started;
    hc_lock_release(&comm->context->lock);
    if (status == HCOMM_OK)
        hc_progress_thread_kick(comm->context);
    return status;
}
