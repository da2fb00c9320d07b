/*
 * Gathering: messages that follow each other before anybody waits become one for the provider, because over
 * tcp a system call costs more than what a short message moves.
 *
 * Only a message with an op is held back, and its op completes after it has been posted. So whoever waits for
 * it makes progress, which posts it: nothing is held for ever, as long as somebody waits. The first two
 * messages after a progress() leave at once; the next ones are held if it was learned that this sender comes
 * back soon: between two of its messages, and between the last one and progress(), pass less than GAP_NS,
 * about what a system call takes, so that a held message does not leave much later than it would by itself.
 * The ep tells by `holds` when it is worth while to send with an op.
 */
#include "transports/ofi/ofi.h"

#include "runtime/base/clock.h"
#include "runtime/base/copy.h"

#include <string.h>

enum {
    GAP_NS = 5000,
    BURST = 4,          /* messages between two calls of progress() from which gathering is worth while */
    PATIENCE_MIN = 2,   /* prompt bursts in a row before messages are held */
    PATIENCE_MAX = 256, /* it doubles whenever a sender that was trusted let a message wait */
    PROBATION = 64,     /* prompt bursts after which it halves again */
    FIRST_LIMIT = 2048, /* bytes at which a batch leaves, so that the receiver begins early; doubles */
};

/* A message that is held, or has left and whose op is still to complete. */
struct held {
    struct hc_list link; /* ep->gather.held, then iface->left */
    struct hc_ofi_ep *ep;
    struct hc_op *user;
    hcomm_status_t status;
};

void hc_ofi_gather_open(struct hc_ofi_iface *iface)
{
    hc_pool_init(&iface->held, sizeof(struct held), HC_OFI_HELD_PER_SLAB);
    hc_list_init(&iface->gathering);
    hc_list_init(&iface->left);
}

void hc_ofi_gather_init(struct hc_ofi_gather *gather)
{
    hc_list_init(&gather->link);
    hc_list_init(&gather->held);
    gather->patience = PATIENCE_MIN;
}

/* ---- who may be held ---- */

static bool is_trusted(const struct hc_ofi_gather *gather)
{
    return gather->prompt >= gather->patience;
}

static void learn_hesitation(struct hc_ofi_gather *gather)
{
    if (is_trusted(gather) && gather->patience < PATIENCE_MAX)
        gather->patience *= 2;
    gather->prompt = 0;
}

static void learn_burst(struct hc_ofi_gather *gather)
{
    if (gather->run < BURST) {
        if (is_trusted(gather)) /* it may wait for each message */
            gather->prompt = 0;
        return;
    }
    if (++gather->prompt < gather->patience + PROBATION)
        return;
    if (gather->patience > PATIENCE_MIN)
        gather->patience /= 2;
    gather->prompt = gather->patience;
}

void hc_ofi_gather_follow(struct hc_ofi_ep *ep)
{
    struct hc_ofi_gather *gather = &ep->gather;
    uint64_t now = hc_clock_ns();
    if (gather->run++ == 1) {
        gather->limit = FIRST_LIMIT;
        hc_list_append(&hc_ofi_ep_iface(ep)->gathering, &gather->link);
    } else if (now - gather->last > GAP_NS) {
        learn_hesitation(gather);
        ep->base.holds = false;
    }
    gather->last = now;
}

void hc_ofi_gather_followed(struct hc_ofi_ep *ep)
{
    ep->gather.last = hc_clock_ns();
    ep->base.holds = is_trusted(&ep->gather);
}

/* ---- a batch ---- */

static void leave(struct hc_ofi_ep *ep, hcomm_status_t status)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&ep->gather.held))) {
        hc_list_entry(node, struct held, link)->status = status;
        hc_list_append(&hc_ofi_ep_iface(ep)->left, node);
    }
}

hcomm_status_t hc_ofi_gather_post(struct hc_ofi_ep *ep)
{
    struct hc_ofi_op *op = ep->gather.op;
    if (!op)
        return HCOMM_OK;
    if (ep->state >= HC_OFI_EP_BROKEN) /* its end ends the batch, too */
        return ep->error;
    ep->gather.op = NULL;
    hcomm_status_t status = hc_ofi_send_packed(op, HC_OFI_ID_BATCH, ep->gather.used);
    leave(ep, status);
    return status;
}

/* A batch with room for `size` bytes. */
static hcomm_status_t make_room(struct hc_ofi_ep *ep, size_t size)
{
    struct hc_ofi_gather *gather = &ep->gather;
    if (gather->op && gather->used + size > gather->limit) {
        hcomm_status_t status = hc_ofi_gather_post(ep);
        if (status != HCOMM_OK)
            return status;
        gather->last = hc_clock_ns();
        if (gather->limit < hc_ofi_ep_iface(ep)->profile->gather_limit)
            gather->limit *= 2;
    }
    if (gather->op)
        return HCOMM_OK;
    gather->used = 0;
    return hc_ofi_send_op_get(ep, NULL, &gather->op);
}

static bool hold(struct hc_ofi_ep *ep, struct hc_op *user)
{
    struct held *held = hc_pool_get(&hc_ofi_ep_iface(ep)->held);
    if (!held)
        return false;
    *held = (struct held){.ep = ep, .user = user};
    hc_list_init(&held->link);
    hc_list_append(&ep->gather.held, &held->link);
    ep->gather.untold++;
    return true;
}

hcomm_status_t hc_ofi_gather_add(struct hc_ofi_ep *ep, uint8_t id, const void *hdr, size_t hdr_len,
                                 const void *data, size_t len, struct hc_op *user)
{
    struct hc_ofi_gather *gather = &ep->gather;
    size_t size = hc_ofi_record_size(hdr_len + len);
    hcomm_status_t status = make_room(ep, size);
    if (status != HCOMM_OK)
        return status;
    if (!hold(ep, user))
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a message of %s",
                        hc_ofi_ep_iface(ep)->profile->name);
    char *record = gather->op->buffer->data + HC_OFI_HEADER_SIZE + gather->used;
    hc_ofi_record_pack(id, hdr_len + len, record);
    if (hdr_len)
        memcpy(record + HC_OFI_RECORD_SIZE, hdr, hdr_len);
    if (len)
        hc_copy(record + HC_OFI_RECORD_SIZE + hdr_len, data, len);
    gather->used += size;
    return HCOMM_IN_PROGRESS;
}

/* ---- turns ---- */

/* An ep that fails here is broken, which progress() reports. */
static void post_all(struct hc_ofi_iface *iface, bool learn)
{
    uint64_t now = learn ? hc_clock_ns() : 0;
    struct hc_list *node;
    while ((node = hc_list_pop(&iface->gathering))) {
        struct hc_ofi_ep *ep = hc_list_entry(node, struct hc_ofi_ep, gather.link);
        ep->base.holds = false;
        if (learn && now - ep->gather.last > GAP_NS)
            learn_hesitation(&ep->gather);
        else if (learn)
            learn_burst(&ep->gather);
        if (hc_ofi_gather_post(ep) != HCOMM_OK)
            hc_assert(ep->state >= HC_OFI_EP_BROKEN);
    }
}

unsigned hc_ofi_gather_begin_turn(struct hc_ofi_iface *iface)
{
    unsigned done = 0;
    struct hc_list *node;
    iface->turn++;
    if (hc_unlikely(!hc_list_empty(&iface->gathering)))
        post_all(iface, true);
    while (hc_unlikely((node = hc_list_pop(&iface->left)) != NULL)) {
        struct held held = *hc_list_entry(node, struct held, link);
        held.ep->gather.untold--;
        hc_pool_put(&iface->held, hc_list_entry(node, struct held, link));
        held.user->done(held.user, held.status);
        done++;
    }
    return done;
}

/* What upcalls have sent waits for nobody. */
void hc_ofi_gather_end_turn(struct hc_ofi_iface *iface)
{
    if (hc_unlikely(!hc_list_empty(&iface->gathering)))
        post_all(iface, false);
    iface->turn++;
}

bool hc_ofi_gather_is_idle(const struct hc_ofi_iface *iface)
{
    return hc_list_empty(&iface->gathering) && hc_list_empty(&iface->left);
}

void hc_ofi_gather_take(struct hc_ofi_ep *ep, struct hc_list *taken)
{
    struct hc_list *node, *next;
    if (ep->gather.op)
        hc_ofi_op_put(ep->gather.op);
    ep->gather.op = NULL;
    hc_list_remove(&ep->gather.link);
    hc_list_for_each_safe(node, next, &hc_ofi_ep_iface(ep)->left)
    {
        if (hc_list_entry(node, struct held, link)->ep != ep)
            continue;
        hc_list_remove(node);
        hc_list_append(taken, node);
    }
    while ((node = hc_list_pop(&ep->gather.held)))
        hc_list_append(taken, node);
    ep->gather.untold = 0;
}

struct hc_op *hc_ofi_gather_release(struct hc_ofi_iface *iface, struct hc_list *node)
{
    struct held *held = hc_list_entry(node, struct held, link);
    struct hc_op *user = held->user;
    hc_pool_put(&iface->held, held);
    return user;
}
