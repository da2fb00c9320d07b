/* Communicators: the objects, what they tell about themselves, and their end. */
#include "runtime/core/comm.h"

#include "runtime/core/coll.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ids of "self" are marked by a bit that no leader's rank reaches (ranks are below 2^30). */
#define SELF_ID (UINT64_C(1) << 62)

static struct hc_list *bucket_of(struct hcomm_context *context, uint64_t id)
{
    return &context->comm_table[(id ^ id >> 32) % HC_COMM_BUCKETS];
}

struct hcomm_comm *hc_comm_new(struct hcomm_context *context, uint64_t id, uint32_t *world, int size,
                               int rank)
{
    struct hcomm_comm *comm = calloc(1, sizeof(*comm));
    if (!comm) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "communicator: out of memory");
        return NULL;
    }
    comm->context = context;
    comm->id = id;
    comm->world = world;
    comm->size = size;
    comm->rank = rank;
    comm->slot = -1;
    comm->shared_ok = true;
    hc_list_init(&comm->barriers);
    hc_list_init(&comm->active);
    hc_list_append(&context->comms, &comm->all);
    hc_list_append(bucket_of(context, id), &comm->hashed);
    (void)snprintf(comm->name, sizeof(comm->name), "comm %" PRIu64 ".%" PRIu64, id >> 32, id & UINT32_MAX);
    return comm;
}

struct hcomm_comm *hc_comm_find(struct hcomm_context *context, uint64_t id)
{
    struct hc_list *node, *bucket = bucket_of(context, id);
    hc_list_for_each(node, bucket)
    {
        struct hcomm_comm *comm = hc_list_entry(node, struct hcomm_comm, hashed);
        if (comm->id == id)
            return comm;
    }
    return NULL;
}

/* The peer of another member that is lost; NULL: it is not, or is this rank. */
static const struct hc_peer *lost_member(const struct hcomm_comm *comm, int rank)
{
    const struct hc_peer *peer = comm->context->peers[hc_comm_world_rank(comm, rank)];
    return rank != comm->rank && peer && peer->state == HC_PEER_FAILED ? peer : NULL;
}

/* Beginning with the next rank, so that not everybody connects to rank 0. -1: nobody. */
static int next_alive(const struct hcomm_comm *comm)
{
    for (int step = 1; step < comm->size; step++) {
        int rank = (int)(((unsigned)comm->rank + (unsigned)step) % (unsigned)comm->size);
        if (!lost_member(comm, rank))
            return rank;
    }
    return -1;
}

bool hc_comm_is_deserted(const struct hcomm_comm *comm)
{
    return comm->size > 1 && hc_context_has_lost(comm->context) && next_alive(comm) < 0;
}

struct hc_peer *hc_comm_next_alive(const struct hcomm_comm *comm)
{
    int rank = next_alive(comm);
    return rank < 0 ? NULL : hc_comm_peer(comm, rank);
}

bool hc_comm_check_deserted(const struct hcomm_comm *comm)
{
    if (!hc_context_has_lost(comm->context))
        return false;
    struct hc_peer *next = hc_comm_next_alive(comm);
    if (next)
        hc_peer_connect(next);
    return hc_comm_is_deserted(comm);
}

const char *hc_comm_list_lost(const struct hcomm_comm *comm, char *text, size_t size)
{
    enum { RANK_ROOM = 16 };
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; rank < comm->size && used + RANK_ROOM < size; rank++)
        if (lost_member(comm, rank))
            used += (size_t)snprintf(text + used, size - used, "%s%d", used ? ", " : "", rank);
    return text;
}

hcomm_status_t hc_comm_explain_deserted(const struct hcomm_comm *comm, const char *what, int tag)
{
    char lost[128];
    const struct hc_peer *first = lost_member(comm, comm->rank == 0 ? 1 : 0);
    return hc_error(HCOMM_ERR_PEER_LOST,
                    "%s from any source, tag %d on communicator '%s': all other ranks are lost (%s): %s",
                    what, tag, comm->name, hc_comm_list_lost(comm, lost, sizeof(lost)),
                    first && first->detail ? first->detail : hc_status_text(HCOMM_ERR_PEER_LOST));
}

static void init_lists(struct hcomm_context *context)
{
    hc_list_init(&context->comms);
    hc_list_init(&context->barriers);
    hc_list_init(&context->early_barriers);
    for (size_t i = 0; i < HC_COMM_BUCKETS; i++)
        hc_list_init(&context->comm_table[i]);
    context->next_comm = 1;
}

static hcomm_status_t create_world(struct hcomm_context *context)
{
    struct hcomm_comm *world =
        hc_comm_new(context, 0, NULL, (int)context->job->size, (int)context->job->rank);
    if (!world)
        return HCOMM_ERR_NO_MEMORY;
    (void)strcpy(world->name, "world");
    /* Every rank knows that the world uses this slot of its host's lowest rank. */
    world->slot = HC_SLOT_WORLD;
    context->slot_use[HC_SLOT_WORLD] = (struct hc_slot_use){.used = true};
    context->world = world;
    return HCOMM_OK;
}

static hcomm_status_t create_self(struct hcomm_context *context)
{
    uint32_t *member = malloc(sizeof(*member));
    if (!member)
        return hc_error(HCOMM_ERR_NO_MEMORY, "communicator: out of memory");
    *member = context->job->rank;
    struct hcomm_comm *self = hc_comm_new(context, SELF_ID | *member, member, 1, 0);
    if (!self) {
        free(member);
        return HCOMM_ERR_NO_MEMORY;
    }
    (void)strcpy(self->name, "self");
    context->self = self;
    return HCOMM_OK;
}

hcomm_status_t hc_comm_create_builtin(struct hcomm_context *context)
{
    init_lists(context);
    hcomm_status_t status = create_world(context);
    if (status != HCOMM_OK)
        return status;
    status = create_self(context);
    if (status != HCOMM_OK) {
        hc_comm_destroy(context->world);
        context->world = NULL;
    }
    return status;
}

/* Linear in the unexpected messages, so that matching need not index them for this. */
static void discard_messages(struct hcomm_context *context, uint64_t id)
{
    struct hc_list *node, *next;
    hc_list_for_each_safe(node, next, &context->match.all)
    {
        struct hcomm_message *message = hc_list_entry(node, struct hcomm_message, match.all);
        if ((message->match.key.comm & ~HC_COMM_INTERNAL) != id)
            continue;
        hc_match_drop(&context->match, &message->match);
        hc_message_discard(context, message);
    }
}

void hc_comm_destroy(struct hcomm_comm *comm)
{
    if (!comm)
        return;
    struct hcomm_context *context = comm->context;
    hc_barrier_comm_fini(comm);
    discard_messages(context, comm->id);
    hc_list_remove(&comm->hashed);
    hc_list_remove(&comm->all);
    free(comm->subsets);
    free(comm->leaders);
    free(comm->local);
    free(comm->world);
    free(comm);
}

int hc_comm_rank_of(const struct hcomm_comm *comm, uint32_t world)
{
    if (!comm->world)
        return world < (uint32_t)comm->size ? (int)world : -1;
    for (int rank = 0; rank < comm->size; rank++)
        if (comm->world[rank] == world)
            return rank;
    return -1;
}

/* ---- public calls ---- */

HCOMM_API int hcomm_comm_rank(hcomm_comm_t comm)
{
    return comm ? comm->rank : -1;
}

HCOMM_API int hcomm_comm_size(hcomm_comm_t comm)
{
    return comm ? comm->size : -1;
}

HCOMM_API hcomm_handle_t hcomm_comm_context(hcomm_comm_t comm)
{
    return comm ? comm->context : NULL;
}

/* Nothing of the application's is pending; a blocking barrier that timed out may still be queued. */
static bool is_idle(const struct hcomm_comm *comm)
{
    unsigned given_up = 0;
    struct hc_list *node;
    hc_list_for_each(node, &comm->barriers)
    {
        if (!hc_list_entry(node, struct hcomm_request, barrier_node)->orphan)
            return false;
        given_up++;
    }
    return comm->busy == given_up;
}

static hcomm_status_t free_idle(struct hcomm_comm *comm)
{
    struct hcomm_context *context = comm->context;
    if (comm == context->world || comm == context->self)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_comm_free: '%s' belongs to the context and is not freed",
                        comm->name);
    if (!is_idle(comm))
        return hc_error(HCOMM_ERR_PENDING,
                        "hcomm_comm_free: %u operations on communicator '%s' are not complete; wait for them "
                        "first",
                        comm->busy, comm->name);
    hc_comm_destroy(comm);
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_comm_free(hcomm_comm_t *comm)
{
    if (!comm)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_comm_free: comm is NULL");
    if (!*comm)
        return HCOMM_OK;
    struct hcomm_context *context = (*comm)->context;
    hc_lock_acquire(&context->lock);
    hcomm_status_t status = free_idle(*comm);
    hc_lock_release(&context->lock);
    if (status == HCOMM_OK)
        *comm = HCOMM_COMM_NULL;
    return status;
}

static hcomm_status_t check_translation(hcomm_comm_t from, const int *ranks, int n, hcomm_comm_t to,
                                        const int *out)
{
    if (!from || !to)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_comm_translate: a communicator is NULL");
    if (from->context != to->context)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_comm_translate: '%s' and '%s' belong to different contexts",
                        from->name, to->name);
    if (n < 0 || (n > 0 && (!ranks || !out)))
        return hc_error(HCOMM_ERR_INVALID, "hcomm_comm_translate: n is %d, ranks or out is NULL", n);
    for (int i = 0; i < n; i++)
        if (ranks[i] != HCOMM_RANK_NULL && (ranks[i] < 0 || ranks[i] >= from->size))
            return hc_error(HCOMM_ERR_INVALID,
                            "hcomm_comm_translate: ranks[%d] is %d, communicator '%s' has ranks 0 to %d", i,
                            ranks[i], from->name, from->size - 1);
    return HCOMM_OK;
}

/* rank_of[w]: rank in comm of world rank w; NULL when memory is exhausted. */
static int *invert(const struct hcomm_comm *comm)
{
    size_t size = comm->context->job->size;
    int *rank_of = malloc(size * sizeof(*rank_of));
    if (!rank_of)
        return NULL;
    for (size_t i = 0; i < size; i++)
        rank_of[i] = HCOMM_UNDEFINED;
    for (int rank = 0; rank < comm->size; rank++)
        rank_of[hc_comm_world_rank(comm, rank)] = rank;
    return rank_of;
}

static int translate_one(const struct hcomm_comm *from, int rank, const int *rank_of)
{
    if (rank == HCOMM_RANK_NULL)
        return HCOMM_RANK_NULL;
    uint32_t world = hc_comm_world_rank(from, rank);
    return rank_of ? rank_of[world] : (int)world;
}

/* Members are fixed for a communicator's life: no lock. */
HCOMM_API hcomm_status_t hcomm_comm_translate(hcomm_comm_t from, const int *ranks, int n, hcomm_comm_t to,
                                              int *out)
{
    hcomm_status_t status = check_translation(from, ranks, n, to, out);
    if (status != HCOMM_OK)
        return status;
    int *rank_of = NULL;
    if (to->world) {
        rank_of = invert(to);
        if (!rank_of)
            return hc_error(HCOMM_ERR_NO_MEMORY, "hcomm_comm_translate: out of memory for %u ranks",
                            to->context->job->size);
    }
    for (int i = 0; i < n; i++)
        out[i] = translate_one(from, ranks[i], rank_of);
    free(rank_of);
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_comm_set_name(hcomm_comm_t comm, const char *name)
{
    if (!comm || !name)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_comm_set_name: %s is NULL", comm ? "name" : "comm");
    hc_lock_acquire(&comm->context->lock);
    (void)snprintf(comm->name, sizeof(comm->name), "%s", name);
    hc_lock_release(&comm->context->lock);
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_comm_get_name(hcomm_comm_t comm, char *buf)
{
    if (!comm || !buf)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_comm_get_name: %s is NULL", comm ? "buf" : "comm");
    hc_lock_acquire(&comm->context->lock);
    (void)memcpy(buf, comm->name, sizeof(comm->name));
    hc_lock_release(&comm->context->lock);
    return HCOMM_OK;
}
