#include "runtime/core/placement.h"

#include "runtime/core/barrier.h"
#include "runtime/topo/topo.h"

#include <sched.h>
#include <stdlib.h>

enum {
    TOGETHER_LIMIT = 3, /* long waits in a row for somebody on the same processor, before one leaves */
    TOGETHER_LIMIT_OVERSUBSCRIBED = 16,
    PATIENCE = 4, /* times as many before the other one leaves */
    TAKEN_MAX = 256,
};

/* Between two moves: the kernel's balance of load must get its chance, and may have its reasons. */
static const uint64_t interval_least = 5000000, interval_most = 1000000000;

static struct hc_presence *presence_in(void *area)
{
    return (struct hc_presence *)((struct hc_barrier_slot *)area + HC_BARRIER_SLOTS);
}

_Static_assert(sizeof(struct hc_barrier_slot) * HC_BARRIER_SLOTS + sizeof(struct hc_presence) <= HC_SYNC_AREA,
               "the presence fits behind the slots");

void hc_placement_init(struct hcomm_context *context)
{
    void *area = hc_words_own_area(context);
    context->placement = (struct hc_placement){
        .own = area ? presence_in(area) : NULL,
        .interval = interval_least,
    };
}

static const struct hc_presence *presence_of(const struct hcomm_context *context, const struct hc_peer *peer)
{
    if (!peer || peer->state != HC_PEER_READY || peer->rank == context->job->rank ||
        !(peer->attr->caps & HC_CAP_SYNC))
        return NULL;
    return presence_in(peer->ops->ep_sync_area(peer->ep));
}

/* 1 + the processor that the calling thread is on, 0 when that is not known; told to the others. */
static uint32_t tell(struct hc_placement *placement)
{
    int cpu = sched_getcpu();
    uint32_t processor = cpu < 0 ? 0 : (uint32_t)cpu + 1;
    if (placement->own && placement->processor != processor)
        atomic_store_explicit(&placement->own->processor, processor, memory_order_relaxed);
    placement->processor = processor;
    return processor;
}

enum hc_nearness hc_placement_look(struct hcomm_context *context, const struct hc_peer *peer)
{
    uint32_t own = tell(&context->placement);
    const struct hc_presence *presence = presence_of(context, peer);
    uint32_t other = presence ? atomic_load_explicit(&presence->processor, memory_order_relaxed) : 0;
    if (!own || !other)
        return HC_NEARNESS_UNKNOWN;
    return own == other ? HC_TOGETHER : HC_APART;
}

/* Processors on which ranks that this one knows have waited; returns how many. */
static size_t list_taken(const struct hcomm_context *context, unsigned *taken)
{
    size_t count = 0;
    for (uint32_t rank = 0; rank < context->job->size && count < TAKEN_MAX; rank++) {
        const struct hc_presence *presence = presence_of(context, context->peers[rank]);
        uint32_t processor = presence ? atomic_load_explicit(&presence->processor, memory_order_relaxed) : 0;
        if (processor)
            taken[count++] = processor - 1;
    }
    return count;
}

static void leave(struct hcomm_context *context, uint64_t now)
{
    struct hc_placement *placement = &context->placement;
    unsigned taken[TAKEN_MAX];
    bool again = now < placement->next_move + 4 * placement->interval;
    placement->interval = again ? placement->interval * 2 : interval_least;
    if (placement->interval > interval_most)
        placement->interval = interval_most;
    placement->next_move = now + placement->interval;
    if (hc_topo_leave_cpu(placement->processor - 1, taken, list_taken(context, taken)))
        hc_counter_add(&context->counters, HC_COUNTER_MOVES, 1);
    else
        context->oversubscribed = true; /* they share the processor, and nothing can be done */
    (void)tell(placement);
}

void hc_placement_note(struct hcomm_context *context, const struct hc_peer *peer)
{
    struct hc_placement *placement = &context->placement;
    enum hc_nearness nearness = hc_placement_look(context, peer);
    if (nearness != HC_TOGETHER) {
        placement->together = nearness == HC_APART ? 0 : placement->together;
        return;
    }
    unsigned limit = context->oversubscribed ? TOGETHER_LIMIT_OVERSUBSCRIBED : TOGETHER_LIMIT;
    if (peer->rank > context->job->rank) /* one is enough */
        limit *= PATIENCE;
    if (++placement->together < limit)
        return;
    placement->together = 0;
    uint64_t now = hc_clock_ns();
    if (now >= placement->next_move)
        leave(context, now);
}
