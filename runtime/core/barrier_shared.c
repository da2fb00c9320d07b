/* Shared words of barriers: who owns which slot, and the accesses to them. */
#include "runtime/core/barrier.h"

#include <string.h>

/* ---- slots of our own sync area ---- */

/* The iface whose area other processes reach; self's is for this one only. */
static struct hc_iface *sync_iface(const struct hcomm_context *context)
{
    for (unsigned i = 0; i < context->num_ifaces; i++) {
        const struct hc_iface_slot *slot = &context->ifaces[i];
        if ((slot->iface->attr.caps & HC_CAP_SYNC) && strcmp(slot->resource.name, "self") != 0)
            return slot->iface;
    }
    return NULL;
}

void *hc_words_own_area(const struct hcomm_context *context)
{
    struct hc_iface *iface = sync_iface(context);
    return iface ? iface->transport->sync_area(iface) : NULL;
}

static struct hc_barrier_slot *own_slots(const struct hcomm_context *context)
{
    return hc_words_own_area(context);
}

int hc_slot_reserve(struct hcomm_context *context)
{
    if (!sync_iface(context))
        return -1;
    for (int slot = 0; slot < HC_BARRIER_SLOTS; slot++) {
        if (context->slot_use[slot].used)
            continue;
        context->slot_use[slot] = (struct hc_slot_use){.used = true};
        return slot;
    }
    return -1;
}

void hc_slot_cancel(struct hcomm_context *context, int slot)
{
    if (slot >= 0)
        context->slot_use[slot] = (struct hc_slot_use){.used = false};
}

static void clear_words(struct hc_barrier_slot *words)
{
    /* relaxed: nobody uses them; the message that gives the slot away again orders these stores */
    atomic_store_explicit(&words->released, 0, memory_order_relaxed);
    for (size_t i = 0; i < hc_array_len(words->sleepers); i++)
        atomic_store_explicit(&words->sleepers[i], 0, memory_order_relaxed);
    for (size_t i = 0; i < hc_array_len(words->arrived); i++)
        atomic_store_explicit(&words->arrived[i], 0, memory_order_relaxed);
}

static void recycle(struct hcomm_context *context, int slot)
{
    struct hc_slot_use *use = &context->slot_use[slot];
    if (!use->members || use->left < use->members)
        return;
    struct hc_barrier_slot *slots = own_slots(context);
    if (slots)
        clear_words(&slots[slot]);
    *use = (struct hc_slot_use){.used = false};
}

void hc_slot_bind(struct hcomm_context *context, int slot, int members)
{
    context->slot_use[slot].members = (uint16_t)members;
    recycle(context, slot);
}

hcomm_status_t hc_slot_return(struct hcomm_context *context, int slot)
{
    struct hc_slot_use *use = &context->slot_use[slot];
    /* Members may be quicker than we are in creating and freeing: then `members` is not known yet. */
    uint32_t limit = use->members ? use->members : context->job->local_size;
    if (!use->used || use->left >= limit)
        return hc_error(HCOMM_ERR_PROTOCOL, "barrier slot %d is returned by more ranks than use it", slot);
    use->left++;
    recycle(context, slot);
    return HCOMM_OK;
}

bool hc_barrier_map(struct hcomm_comm *comm)
{
    struct hc_barrier_slot *slots = NULL;
    if (comm->local_index == 0) {
        slots = own_slots(comm->context);
    } else {
        struct hc_peer *owner = hc_comm_peer(comm, comm->local[0]);
        if (owner && owner->state == HC_PEER_READY && (owner->attr->caps & HC_CAP_SYNC))
            slots = owner->ops->ep_sync_area(owner->ep);
    }
    comm->words = slots ? &slots[comm->slot] : NULL;
    return comm->words != NULL;
}

/* ---- words ---- */

int hc_words_missing_flag(const struct hcomm_comm *comm, uint64_t generation, int first)
{
    for (int i = first; i < comm->num_local; i++)
        /* seq_cst: step (3); also acquires what the member did before */
        if (atomic_load_explicit(&comm->words->flags[i].generation, memory_order_seq_cst) < generation)
            return i;
    return comm->num_local;
}

int hc_words_missing_arrival(const struct hcomm_comm *comm, uint64_t generation, int first)
{
    for (int i = first; i < comm->num_local; i++)
        /* seq_cst: step (3), and the argument in hc_words_arrive; also acquires what the member did before */
        if (atomic_load_explicit(&comm->words->arrived[i], memory_order_seq_cst) != (uint8_t)generation)
            return i;
    return comm->num_local;
}

void hc_words_set_flag(struct hcomm_comm *comm, uint64_t generation)
{
    /* seq_cst: step (a); partner: hc_words_missing_flag */
    atomic_store_explicit(&comm->words->flags[comm->local_index].generation, generation,
                          memory_order_seq_cst);
}

void hc_words_arrive(struct hcomm_comm *comm, uint64_t generation)
{
    /*
     * seq_cst: step (a); partner: hc_words_missing_arrival. Who stores last in the total order of these
     * stores finds all bytes set when it looks afterwards, so at least one finds out that all have arrived.
     */
    atomic_store_explicit(&comm->words->arrived[comm->local_index], (uint8_t)generation,
                          memory_order_seq_cst);
}

void hc_words_release(struct hcomm_comm *comm, uint64_t generation)
{
    /* Never backwards: a slow finder may come when later generations are over already. */
    uint64_t old = atomic_load_explicit(&comm->words->released, memory_order_relaxed);
    while (old < generation)
        /* seq_cst: step (a); partner: hc_words_released */
        if (atomic_compare_exchange_weak_explicit(&comm->words->released, &old, generation,
                                                  memory_order_seq_cst, memory_order_relaxed))
            return;
}

bool hc_words_released(const struct hcomm_comm *comm, uint64_t generation)
{
    /* seq_cst: step (3); also acquires what all members did before they entered */
    return atomic_load_explicit(&comm->words->released, memory_order_seq_cst) >= generation;
}

void hc_words_announce_sleep(struct hcomm_comm *comm)
{
    if (comm->asleep)
        return;
    comm->asleep = true;
    unsigned index = (unsigned)comm->local_index;
    /* seq_cst: step (2); partner: the load in hc_words_wake */
    (void)atomic_fetch_or_explicit(&comm->words->sleepers[index / 64], UINT64_C(1) << index % 64,
                                   memory_order_seq_cst);
}

void hc_words_withdraw_sleep(struct hcomm_comm *comm)
{
    if (!comm->asleep)
        return;
    comm->asleep = false;
    unsigned index = (unsigned)comm->local_index;
    /* relaxed: at worst somebody wakes us once more */
    (void)atomic_fetch_and_explicit(&comm->words->sleepers[index / 64], ~(UINT64_C(1) << index % 64),
                                    memory_order_relaxed);
}

/* False when the member cannot be reached yet. One that will never be needs no waking: its barrier fails. */
static bool wake_member(struct hcomm_comm *comm, int index)
{
    struct hc_peer *peer = hc_comm_peer(comm, comm->local[index]);
    if (!peer || peer->state == HC_PEER_FAILED)
        return true;
    if (peer->state != HC_PEER_READY) {
        hc_peer_connect(peer);
        return false;
    }
    if (peer->attr->caps & HC_CAP_SYNC)
        peer->ops->ep_wake(peer->ep);
    return true;
}

bool hc_words_wake(struct hcomm_comm *comm, int count)
{
    bool reached = true;
    for (int base = 0; base < count; base += 64) {
        /* seq_cst: step (b); partner: the store in hc_words_announce_sleep */
        uint64_t set = atomic_load_explicit(&comm->words->sleepers[base / 64], memory_order_seq_cst);
        while (hc_unlikely(set)) {
            int index = base + __builtin_ctzll(set);
            set &= set - 1;
            if (index < count && index != comm->local_index)
                reached = wake_member(comm, index) && reached;
        }
    }
    return reached;
}
