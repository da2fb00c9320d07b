/*
 * Making communicators. Every call is one allgather among those who take part; each contributes what the
 * others need to know of it, and every one computes the same result from the same records.
 *
 * Ids: each participant contributes a value of its own counter, taken (and counted up) under the context's
 * lock before the exchange; the id of a new communicator is its leader's world rank << 32 | the leader's
 * counter, where the leader is its rank 0. Two communicators with the same leader take two different values
 * of that leader's counter, because a value is taken once, for one call, and in one call a rank leads at most
 * one new communicator; two with different leaders differ in the upper half. So ids never collide, whichever
 * threads create on whichever communicators at once. A counter that has run out is an error, so none is
 * reused. The world is 0 (counters start at 1), self has bit 62 set, the runtime's own messages bit 63.
 */
#include "runtime/core/coll.h"
#include "runtime/core/comm.h"
#include "runtime/topo/topo.h"

#include <stdlib.h>
#include <string.h>

/* What a participant contributes; little-endian on the wire. */
struct record {
    uint64_t check;   /* which call this is, with which list: must be equal on all */
    int64_t color;    /* equal ones form a communicator; NO_COLOR: none */
    int32_t key;      /* order in it */
    int32_t status;   /* HCOMM_OK, or why this participant cannot: then it fails for all */
    uint32_t counter; /* for the id, should it lead */
    int32_t slot;     /* for the barrier words, should it own them; -1: none */
};
_Static_assert(sizeof(struct record) == 32, "wire size");

#define NO_COLOR    INT64_C(-1)
#define ALONE_COLOR (INT64_C(1) << 62) /* plus the world rank */

/* Values of record.check; those of locality levels follow CHECK_LOCALITY, those of lists are hashes. */
enum { CHECK_DUP = 1, CHECK_SPLIT = 2, CHECK_LOCALITY = 16 };

/* Tags in the internal message space: numbered collectives below, hashes of lists above. */
enum { TAG_MASK = 0x3fffffff, TAG_SUBSET = 0x40000000 };

struct hc_comm_subset {
    uint64_t hash;
    uint32_t attempts;
};

/* One call in progress on this rank. */
struct creation {
    struct hc_coll_group group;
    struct record own;
    struct record *records; /* by position in the group */
};

struct member {
    int32_t key;
    int position; /* in the group */
};

static int parent_rank(const struct creation *creation, int position)
{
    return creation->group.ranks ? creation->group.ranks[position] : position;
}

/* Fill in what this rank offers; an own problem travels too, so that nobody waits for it in vain. */
static void offer(struct creation *creation)
{
    struct hcomm_context *context = creation->group.comm->context;
    struct record *own = &creation->own;
    own->slot = -1;
    if (own->status != HCOMM_OK)
        return;
    if (!hc_context_hosts(context)) {
        own->status = HCOMM_ERR_BOOTSTRAP;
    } else if (context->next_comm == UINT32_MAX) {
        own->status = hc_error(HCOMM_ERR_LIMIT, "2^32 communicators were created by this rank: none is left");
    } else {
        own->counter = context->next_comm++;
        own->slot = hc_slot_reserve(context);
    }
}

static hcomm_status_t check_record(const struct creation *creation, int position)
{
    const struct record *record = &creation->records[position];
    const struct hcomm_comm *parent = creation->group.comm;
    int rank = parent_rank(creation, position);
    if (record->check != creation->own.check)
        return hc_error(HCOMM_ERR_PROTOCOL,
                        "rank %d of communicator '%s' makes another call, or the same with other arguments; "
                        "all members must make the same calls in the same order",
                        rank, parent->name);
    if (record->status > 0 || record->status < HCOMM_ERR_INTERNAL || record->slot < -1 ||
        record->slot >= HC_BARRIER_SLOTS)
        return hc_error(HCOMM_ERR_PROTOCOL, "rank %d of communicator '%s' sent a malformed record", rank,
                        parent->name);
    if (record->status == HCOMM_OK)
        return HCOMM_OK;
    if (position == creation->group.index) /* its cause is in the detail already */
        return (hcomm_status_t)record->status;
    return hc_error((hcomm_status_t)record->status, "rank %d of communicator '%s' cannot take part: %s", rank,
                    parent->name, hc_status_text((hcomm_status_t)record->status));
}

static hcomm_status_t check_records(const struct creation *creation)
{
    /* The own one first: its detail is still there, and says most. */
    hcomm_status_t status = check_record(creation, creation->group.index);
    for (int i = 0; i < creation->group.size && status == HCOMM_OK; i++)
        status = check_record(creation, i);
    return status;
}

static int compare_members(const void *left, const void *right)
{
    const struct member *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

/* The participants of our color, in the new order; room for all in `members`. Returns how many. */
static int select_members(const struct creation *creation, struct member *members)
{
    int count = 0;
    for (int i = 0; i < creation->group.size; i++)
        if (creation->records[i].color == creation->own.color)
            members[count++] = (struct member){.key = creation->records[i].key, .position = i};
    qsort(members, (size_t)count, sizeof(*members), compare_members);
    return count;
}

/* World ranks of the members; *identity when they are the whole world in order. */
static uint32_t *world_ranks(const struct creation *creation, const struct member *members, int count,
                             bool *identity)
{
    const struct hcomm_comm *parent = creation->group.comm;
    uint32_t *world = malloc((size_t)count * sizeof(*world));
    if (!world)
        return NULL;
    *identity = (uint32_t)count == parent->context->job->size;
    for (int i = 0; i < count; i++) {
        world[i] = hc_comm_world_rank(parent, parent_rank(creation, members[i].position));
        *identity = *identity && world[i] == (uint32_t)i;
    }
    return world;
}

static int own_rank(const struct creation *creation, const struct member *members)
{
    int rank = 0;
    while (members[rank].position != creation->group.index)
        rank++;
    return rank;
}

/* Use the slot of the lowest local member; ours is free again when that is somebody else. */
static void choose_slot(const struct creation *creation, const struct member *members,
                        struct hcomm_comm *comm)
{
    struct hcomm_context *context = comm->context;
    int owner = members[comm->local[0]].position;
    bool shared = comm->num_local > 1 && comm->num_local <= HC_BARRIER_LOCAL_MAX;
    comm->slot = shared ? creation->records[owner].slot : -1;
    if (shared && comm->local_index == 0 && comm->slot >= 0)
        hc_slot_bind(context, comm->slot, comm->num_local);
    else
        hc_slot_cancel(context, creation->own.slot);
}

static hcomm_status_t make(const struct creation *creation, const struct member *members, int count,
                           struct hcomm_comm **out)
{
    struct hcomm_context *context = creation->group.comm->context;
    bool identity = false;
    uint32_t *world = world_ranks(creation, members, count, &identity);
    if (!world)
        return hc_error(HCOMM_ERR_NO_MEMORY, "communicator: out of memory for %d ranks", count);
    uint64_t id = (uint64_t)world[0] << 32 | creation->records[members[0].position].counter;
    if (identity) {
        free(world);
        world = NULL;
    }
    struct hcomm_comm *comm = hc_comm_new(context, id, world, count, own_rank(creation, members));
    if (!comm) {
        free(world);
        return HCOMM_ERR_NO_MEMORY;
    }
    hcomm_status_t status = hc_barrier_prepare(comm);
    if (status != HCOMM_OK) {
        hc_comm_destroy(comm);
        return status;
    }
    choose_slot(creation, members, comm);
    hc_barrier_claim(comm);
    *out = comm;
    return HCOMM_OK;
}

static hcomm_status_t make_own(const struct creation *creation, struct hcomm_comm **out)
{
    if (creation->own.color == NO_COLOR) {
        hc_slot_cancel(creation->group.comm->context, creation->own.slot);
        *out = NULL;
        return HCOMM_OK;
    }
    struct member *members = malloc((size_t)creation->group.size * sizeof(*members));
    if (!members)
        return hc_error(HCOMM_ERR_NO_MEMORY, "communicator: out of memory for %d ranks",
                        creation->group.size);
    hcomm_status_t status = make(creation, members, select_members(creation, members), out);
    free(members);
    return status;
}

/* The whole call, once group, check, color and key are set. */
static hcomm_status_t run(struct creation *creation, struct hcomm_comm **out)
{
    struct hcomm_context *context = creation->group.comm->context;
    creation->records = malloc((size_t)creation->group.size * sizeof(struct record));
    if (!creation->records)
        return hc_error(HCOMM_ERR_NO_MEMORY, "communicator: out of memory for %d records",
                        creation->group.size);
    offer(creation);
    hcomm_status_t status =
        hc_coll_allgather(&creation->group, &creation->own, sizeof(struct record), creation->records);
    if (status == HCOMM_OK) {
        status = check_records(creation);
        if (status == HCOMM_OK)
            status = make_own(creation, out); /* on failure others may use our slot: it stays reserved */
        else
            hc_slot_cancel(context, creation->own.slot); /* everybody found the same */
    }
    free(creation->records);
    return status;
}

static struct creation begin(struct hcomm_comm *comm, uint64_t check)
{
    return (struct creation){
        .group = {.comm = comm,
                  .size = comm->size,
                  .index = comm->rank,
                  .tag = (int)(comm->collectives++ & TAG_MASK)},
        .own = {.check = check, .color = 0},
    };
}

/* ---- dup and split ---- */

static hcomm_status_t check_call(const char *call, hcomm_comm_t comm, const hcomm_comm_t *out)
{
    if (comm && out)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_INVALID, "%s: %s is NULL", call, comm ? "the result's place" : "comm");
}

/* Name the call before the cause; nothing is written on failure. */
static hcomm_status_t deliver(const char *call, const char *name, hcomm_status_t status,
                              struct hcomm_comm *made, hcomm_comm_t *out)
{
    if (status == HCOMM_OK)
        *out = made;
    else
        hc_error_prefix("%s on communicator '%s': ", call, name);
    return status;
}

HCOMM_API hcomm_status_t hcomm_comm_dup(hcomm_comm_t comm, hcomm_comm_t *dup)
{
    hcomm_status_t status = check_call("hcomm_comm_dup", comm, dup);
    if (status != HCOMM_OK)
        return status;
    hc_lock_acquire(&comm->context->lock);
    struct creation creation = begin(comm, CHECK_DUP);
    struct hcomm_comm *made = NULL;
    status = run(&creation, &made);
    status = deliver("hcomm_comm_dup", comm->name, status, made, dup);
    hc_lock_release(&comm->context->lock);
    return status;
}

HCOMM_API hcomm_status_t hcomm_comm_split(hcomm_comm_t comm, int color, int key, hcomm_comm_t *out)
{
    hcomm_status_t status = check_call("hcomm_comm_split", comm, out);
    if (status != HCOMM_OK)
        return status;
    if (color < 0 && color != HCOMM_UNDEFINED)
        return hc_error(HCOMM_ERR_INVALID,
                        "hcomm_comm_split: color is %d, legal are 0 and more, and HCOMM_UNDEFINED", color);
    hc_lock_acquire(&comm->context->lock);
    struct creation creation = begin(comm, CHECK_SPLIT);
    creation.own.color = color == HCOMM_UNDEFINED ? NO_COLOR : color;
    creation.own.key = key;
    struct hcomm_comm *made = NULL;
    status = run(&creation, &made);
    status = deliver("hcomm_comm_split", comm->name, status, made, out);
    hc_lock_release(&comm->context->lock);
    return status;
}

/* ---- by locality ---- */

static hcomm_status_t locality_color(struct hcomm_context *context, hcomm_locality_t level, int64_t *color)
{
    const uint32_t *host_of = hc_context_hosts(context);
    if (!host_of)
        return HCOMM_ERR_BOOTSTRAP;
    uint32_t rank = context->job->rank;
    int object = 0;
    if (level != HCOMM_LOCALITY_HOST) {
        hcomm_status_t status = context->topo ? HCOMM_OK : hc_topo_load(&context->topo);
        if (status == HCOMM_OK)
            status = hc_topo_object_index(context->topo, context->cpuset, level, &object);
        if (status != HCOMM_OK)
            return status;
    }
    *color = object < 0 ? ALONE_COLOR + rank : (int64_t)host_of[rank] << 32 | object;
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_comm_split_by_locality(hcomm_comm_t comm, hcomm_locality_t level, int key,
                                                      hcomm_comm_t *out)
{
    hcomm_status_t status = check_call("hcomm_comm_split_by_locality", comm, out);
    if (status != HCOMM_OK)
        return status;
    if ((int)level < HCOMM_LOCALITY_HOST || level > HCOMM_LOCALITY_CORE)
        return hc_error(HCOMM_ERR_INVALID,
                        "hcomm_comm_split_by_locality: level is %d, legal are %d (HOST) to %d (CORE)",
                        (int)level, HCOMM_LOCALITY_HOST, HCOMM_LOCALITY_CORE);
    hc_lock_acquire(&comm->context->lock);
    struct creation creation = begin(comm, CHECK_LOCALITY + (uint64_t)level);
    creation.own.status = locality_color(comm->context, level, &creation.own.color);
    creation.own.key = key;
    struct hcomm_comm *made = NULL;
    status = run(&creation, &made);
    status = deliver("hcomm_comm_split_by_locality", comm->name, status, made, out);
    hc_lock_release(&comm->context->lock);
    return status;
}

/* ---- from a list ---- */

/* Check the list and find our position in it. */
static hcomm_status_t check_list(const struct hcomm_comm *comm, const int *ranks, int n, int *index)
{
    bool *seen = calloc((size_t)comm->size, sizeof(*seen));
    if (!seen)
        return hc_error(HCOMM_ERR_NO_MEMORY, "hcomm_comm_create: out of memory for %d ranks", comm->size);
    hcomm_status_t status = HCOMM_OK;
    int own = -1;
    for (int i = 0; i < n && status == HCOMM_OK; i++) {
        if (ranks[i] < 0 || ranks[i] >= comm->size)
            status = hc_error(HCOMM_ERR_INVALID,
                              "hcomm_comm_create: ranks[%d] is %d, communicator '%s' has ranks 0 to %d", i,
                              ranks[i], comm->name, comm->size - 1);
        else if (seen[ranks[i]])
            status = hc_error(HCOMM_ERR_INVALID, "hcomm_comm_create: rank %d is listed twice", ranks[i]);
        else
            seen[ranks[i]] = true;
        if (ranks[i] == comm->rank)
            own = i;
    }
    free(seen);
    if (status == HCOMM_OK && own < 0)
        return hc_error(
            HCOMM_ERR_INVALID,
            "hcomm_comm_create: the calling rank %d of '%s' is not among the %d listed ranks; only "
            "listed ranks call",
            comm->rank, comm->name, n);
    if (status == HCOMM_OK)
        *index = own;
    return status;
}

/* FNV-1a (G. Fowler, L. Noll, K.-P. Vo), word by word. */
static uint64_t hash_words(const int *words, int n)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < n; i++)
        hash = (hash ^ (uint32_t)words[i]) * UINT64_C(1099511628211);
    return hash;
}

/*
 * How often this list was given before on this communicator; the same on all listed ranks. It goes into tag
 * and check, so that what is left of a creation that failed cannot be taken for the next one's.
 */
static hcomm_status_t count_attempt(struct hcomm_comm *comm, uint64_t hash, uint32_t *attempt)
{
    for (size_t i = 0; i < comm->num_subsets; i++) {
        if (comm->subsets[i].hash != hash)
            continue;
        *attempt = comm->subsets[i].attempts++;
        return HCOMM_OK;
    }
    struct hc_comm_subset *grown = realloc(comm->subsets, (comm->num_subsets + 1) * sizeof(*grown));
    if (!grown)
        return hc_error(HCOMM_ERR_NO_MEMORY, "hcomm_comm_create: out of memory for list %zu",
                        comm->num_subsets + 1);
    comm->subsets = grown;
    grown[comm->num_subsets++] = (struct hc_comm_subset){.hash = hash, .attempts = 1};
    *attempt = 0;
    return HCOMM_OK;
}

static hcomm_status_t create_listed(struct hcomm_comm *comm, const int *ranks, int n,
                                    struct hcomm_comm **made)
{
    int index = 0;
    hcomm_status_t status = check_list(comm, ranks, n, &index);
    if (status != HCOMM_OK)
        return status;
    uint64_t hash = hash_words(ranks, n);
    uint32_t attempt = 0;
    status = count_attempt(comm, hash, &attempt);
    if (status != HCOMM_OK)
        return status;
    uint64_t check = (hash ^ attempt) * UINT64_C(1099511628211);
    struct creation creation = {
        .group = {.comm = comm,
                  .ranks = ranks,
                  .size = n,
                  .index = index,
                  .tag = (int)(check >> 32 & TAG_MASK) | TAG_SUBSET},
        .own = {.check = check, .color = 0},
    };
    status = run(&creation, made);
    if (status != HCOMM_OK)
        hc_error_prefix("hcomm_comm_create on communicator '%s': ", comm->name);
    return status;
}

HCOMM_API hcomm_status_t hcomm_comm_create(hcomm_comm_t comm, const int *ranks, int n, hcomm_comm_t *out)
{
    hcomm_status_t status = check_call("hcomm_comm_create", comm, out);
    if (status != HCOMM_OK)
        return status;
    if (!ranks || n < 1 || n > comm->size)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_comm_create: n is %d, legal is 1 to %d%s", n, comm->size,
                        ranks ? "" : "; ranks is NULL");
    hc_lock_acquire(&comm->context->lock);
    struct hcomm_comm *made = NULL;
    status = create_listed(comm, ranks, n, &made);
    hc_lock_release(&comm->context->lock);
    if (status == HCOMM_OK)
        *out = made;
    return status;
}
