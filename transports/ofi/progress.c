#include "transports/ofi/ofi.h"

#include "runtime/base/log.h"

#include <endian.h>
#include <string.h>
#include <sys/timerfd.h>

enum { TICK_NS = 1000000 }; /* while asleep and eps need looking after */

static struct hc_ofi_op *op_of(void *context)
{
    return hc_container_of((struct fi_context2 *)context, struct hc_ofi_op, context);
}

/* A message that is not ours to handle: drop it, and say so once. */
static void drop(struct hc_ofi_iface *iface, const char *why)
{
    if (iface->stranger_logged)
        return;
    iface->stranger_logged = true;
    hc_log_warn("%s: dropped a message: %s", iface->profile->name, why);
}

static void give_back(struct hc_ofi_receive *receive)
{
    receive->posted = false;
    if (!hc_ofi_receive_post(receive))
        receive->op.iface->unposted++;
}

/* ---- messages that overtook others ---- */

/* Receives are matched in order, so whatever it overtook has a receive of its own, and there are so many. */
static bool is_ahead(const struct hc_ofi_peer *peer, uint32_t sequence)
{
    const struct hc_ofi_profile *profile = peer->iface->profile;
    uint32_t by = sequence - peer->rx_sequence;
    return profile->overtakes && peer->greeted && by > 0 && by < profile->receive_buffers;
}

static void keep_ahead(struct hc_ofi_peer *peer, struct hc_ofi_receive *receive,
                       const struct hc_ofi_header *header)
{
    receive->header = *header;
    hc_list_append(&peer->ahead, &receive->ahead);
}

/* A HELLO has the number of the message that follows it. */
static struct hc_ofi_receive *take_next(struct hc_ofi_peer *peer)
{
    struct hc_ofi_receive *next = NULL;
    struct hc_list *node;
    hc_list_for_each(node, &peer->ahead)
    {
        struct hc_ofi_receive *receive = hc_list_entry(node, struct hc_ofi_receive, ahead);
        if (receive->header.sequence == peer->rx_sequence && (!next || receive->header.id == HC_OFI_ID_HELLO))
            next = receive;
    }
    if (next)
        hc_list_remove(&next->ahead);
    return next;
}

static void drop_ahead(struct hc_ofi_peer *peer)
{
    struct hc_list *node;
    while ((node = hc_list_pop(&peer->ahead)))
        give_back(hc_list_entry(node, struct hc_ofi_receive, ahead));
}

/* ---- messages ---- */

static void handle_hello(struct hc_ofi_iface *iface, const struct hc_ofi_header *header, const char *payload)
{
    struct hc_ofi_address name;
    struct hc_ofi_peer *peer;
    uint64_t job;
    if (header->length < sizeof(job)) {
        drop(iface, "a greeting that is too short");
        return;
    }
    memcpy(&job, payload, sizeof(job));
    if (le64toh(job) != iface->job_hash ||
        hc_ofi_address_parse(payload + sizeof(job), header->length - sizeof(job), &name) != HCOMM_OK ||
        name.profile != iface->name.profile || name.format != iface->name.format)
        drop(iface, "a greeting from another job or of another kind");
    else if (hc_ofi_peer_get(iface, header->from, &name, &peer) != HCOMM_OK)
        hc_log_error("rank %u cannot be answered: %s", header->from, hc_error_detail());
    else {
        if (peer->rx_sequence != header->sequence)
            drop_ahead(peer);
        peer->rx_sequence = header->sequence;
        peer->loss_logged = false;
        peer->greeted = true;
    }
}

static void break_all(struct hc_ofi_peer *peer, hcomm_status_t error)
{
    struct hc_list *node;
    hc_list_for_each(node, &peer->eps)
        hc_ofi_ep_break(hc_list_entry(node, struct hc_ofi_ep, peer_link), error);
}

/* Messages of one sender arrive complete and in order, except those above, or its connection has broken and
 * lost some. */
static bool check_sequence(struct hc_ofi_peer *peer, uint32_t sequence)
{
    if (hc_likely(sequence == peer->rx_sequence)) {
        peer->rx_sequence++;
        return true;
    }
    hcomm_status_t status =
        hc_error(HCOMM_ERR_PEER_LOST, "%s: messages of rank %u were lost (got %u, expected %u)",
                 peer->iface->profile->name, peer->rank, sequence, peer->rx_sequence);
    if (!peer->loss_logged)
        hc_log_error("%s", hc_error_detail());
    peer->loss_logged = true;
    drop_ahead(peer);
    break_all(peer, status);
    return false;
}

/* Messages that left together, in the order in which they were sent. */
static void deliver_batch(struct hc_ofi_iface *iface, const struct hc_ofi_header *header, const char *batch)
{
    struct hc_ofi_record record;
    size_t left = header->length;
    for (; left > 0 && hc_ofi_record_parse(batch, left, &record); left -= hc_ofi_record_size(record.length)) {
        iface->params.am(iface->params.arg, header->from, record.id, batch + HC_OFI_RECORD_SIZE,
                         record.length);
        batch += hc_ofi_record_size(record.length);
    }
    if (left > 0)
        drop(iface, "a batch is malformed");
}

static void deliver(struct hc_ofi_iface *iface, const struct hc_ofi_header *header, const char *message)
{
    if (hc_likely(header->id < HC_OFI_ID_FIRST))
        iface->params.am(iface->params.arg, header->from, header->id, message + HC_OFI_HEADER_SIZE,
                         header->length);
    else if (header->id == HC_OFI_ID_BATCH)
        deliver_batch(iface, header, message + HC_OFI_HEADER_SIZE);
    else if (header->id != HC_OFI_ID_MARK)
        drop(iface, "an unknown control message");
}

static void deliver_ahead(struct hc_ofi_peer *peer)
{
    struct hc_ofi_receive *receive;
    while ((receive = take_next(peer))) {
        if (receive->header.id == HC_OFI_ID_HELLO) {
            handle_hello(peer->iface, &receive->header, receive->data + HC_OFI_HEADER_SIZE);
        } else {
            peer->rx_sequence++;
            deliver(peer->iface, &receive->header, receive->data);
        }
        give_back(receive);
    }
}

/* Of a connection that has broken since. */
static bool is_stale(const struct hc_ofi_peer *peer, uint32_t sequence)
{
    return peer->iface->profile->overtakes && (int32_t)(sequence - peer->rx_sequence) < 0;
}

/* False: the message stays in its receive until its turn comes. */
static bool handle_message(struct hc_ofi_receive *receive, size_t len)
{
    struct hc_ofi_iface *iface = receive->op.iface;
    struct hc_ofi_header header;
    if (hc_ofi_header_parse(receive->data, len, iface->job, iface->params.world_size, &header) != HCOMM_OK) {
        drop(iface, "it is not one of this job");
        return true;
    }
    struct hc_ofi_peer *peer = iface->peers[header.from];
    if (hc_unlikely(peer && is_ahead(peer, header.sequence))) {
        keep_ahead(peer, receive, &header);
        return false;
    }
    if (header.id == HC_OFI_ID_HELLO) {
        handle_hello(iface, &header, receive->data + HC_OFI_HEADER_SIZE);
        return true;
    }
    if (!peer) {
        drop(iface, "its sender has not introduced itself");
        return true;
    }
    if (is_stale(peer, header.sequence) || !check_sequence(peer, header.sequence))
        return true;
    deliver(iface, &header, receive->data);
    if (hc_unlikely(!hc_list_empty(&peer->ahead)))
        deliver_ahead(peer);
    return true;
}

static void handle_receive(struct hc_ofi_receive *receive, size_t len)
{
    if (handle_message(receive, len))
        give_back(receive);
}

static void handle_completion(const struct fi_cq_msg_entry *entry)
{
    struct hc_ofi_op *op = op_of(entry->op_context);
    if (op->kind == HC_OFI_OP_RECEIVE) {
        handle_receive(hc_container_of(op, struct hc_ofi_receive, op), entry->len);
        return;
    }
    op->iface->tx_credits++;
    hc_ofi_op_complete(op, HCOMM_OK);
}

static void handle_failed_op(struct hc_ofi_op *op, const char *text)
{
    hcomm_status_t status = HCOMM_ERR_PEER_LOST;
    struct hc_ofi_ep *ep = op->ep;
    op->iface->tx_credits++;
    if (ep)
        status = hc_error(HCOMM_ERR_PEER_LOST, "%s: the connection to rank %u broke: %s",
                          op->iface->profile->name, ep->base.peer, text);
    if (ep)
        hc_ofi_ep_break(ep, status);
    hc_ofi_op_complete(op, status);
}

/* What others have overtaken may have been in it: then they wait in vain. */
static void break_overtaken(struct hc_ofi_iface *iface)
{
    for (uint32_t rank = 0; rank < iface->params.world_size; rank++) {
        struct hc_ofi_peer *peer = iface->peers[rank];
        if (!peer || hc_list_empty(&peer->ahead))
            continue;
        drop_ahead(peer);
        break_all(peer, hc_error(HCOMM_ERR_PEER_LOST, "%s: a message of rank %u was lost",
                                 iface->profile->name, rank));
    }
}

static void handle_failed_receive(struct hc_ofi_receive *receive, const char *text)
{
    struct hc_ofi_iface *iface = receive->op.iface;
    hc_log_debug("%s: a receive failed: %s", iface->profile->name, text);
    give_back(receive);
    break_overtaken(iface);
}

/* Take one error from the queue; false when there is none. */
static bool handle_error(struct hc_ofi_iface *iface)
{
    struct fi_cq_err_entry error = {0};
    ssize_t result = fi_cq_readerr(iface->cq, &error, 0);
    if (result < 0)
        return false;
    const char *text = iface->lib->strerror(error.err);
    if (!error.op_context)
        hc_log_debug("%s: a send without a completion failed: %s", iface->profile->name, text);
    else if (op_of(error.op_context)->kind == HC_OFI_OP_RECEIVE)
        handle_failed_receive(hc_container_of(op_of(error.op_context), struct hc_ofi_receive, op), text);
    else
        handle_failed_op(op_of(error.op_context), text);
    return true;
}

static void repost_receives(struct hc_ofi_iface *iface)
{
    for (size_t i = 0; i < iface->profile->receive_buffers && iface->unposted > 0; i++) {
        if (iface->receives[i].posted)
            continue;
        if (!hc_ofi_receive_post(&iface->receives[i]))
            return;
        iface->unposted--;
    }
}

static void set_timer(struct hc_ofi_iface *iface, bool on)
{
    struct itimerspec spec = {0};
    if (on)
        spec.it_value.tv_nsec = spec.it_interval.tv_nsec = TICK_NS;
    iface->timer_set = on;
    if (timerfd_settime(iface->timer_fd, 0, &spec, NULL) != 0)
        hc_log_error("%s: its timer cannot be set: %m", iface->profile->name);
}

/* Whether something must be done that no completion announces. */
static bool needs_care(const struct hc_ofi_iface *iface)
{
    return !hc_list_empty(&iface->watched) || iface->unposted > 0;
}

static unsigned care(struct hc_ofi_iface *iface)
{
    unsigned done = hc_ofi_watch(iface);
    repost_receives(iface);
    return done;
}

static void disarm(struct hc_ofi_iface *iface)
{
    iface->armed = false;
    if (iface->timer_set)
        set_timer(iface, false);
}

static void keep_early(struct hc_ofi_iface *iface, const struct fi_cq_msg_entry *entry)
{
    iface->early[(iface->early_head + iface->early_count) % HC_OFI_EARLY] = *entry;
    iface->early_count++;
}

/* Upcalls may send, which may keep more. */
static unsigned handle_early(struct hc_ofi_iface *iface)
{
    unsigned done = 0;
    for (; iface->early_count > 0; done++) {
        struct fi_cq_msg_entry entry = iface->early[iface->early_head];
        iface->early_head = (iface->early_head + 1) % HC_OFI_EARLY;
        iface->early_count--;
        handle_completion(&entry);
    }
    return done;
}

/* Whether an op can be completed without an upcall. */
static bool is_silent(const struct hc_ofi_op *op)
{
    return op->kind == HC_OFI_OP_SEND && (op->over || !op->user) &&
           (!op->ep || hc_list_empty(&op->ep->flushes));
}

static void end_silently(struct hc_ofi_op *op)
{
    op->iface->tx_credits++;
    if (op->over)
        *op->over = true;
    hc_ofi_op_put(op);
}

void hc_ofi_reap(struct hc_ofi_iface *iface)
{
    struct fi_cq_msg_entry entries[HC_OFI_EARLY];
    size_t room = HC_OFI_EARLY - iface->early_count;
    ssize_t count = room > 0 ? fi_cq_read(iface->cq, entries, room) : 0;
    for (ssize_t i = 0; i < count; i++) {
        struct hc_ofi_op *op = op_of(entries[i].op_context);
        if (hc_likely(is_silent(op)))
            end_silently(op);
        else
            keep_early(iface, &entries[i]);
    }
    if (hc_unlikely(iface->armed) && iface->early_count > 0 && !iface->timer_set)
        set_timer(iface, true); /* another thread sleeps, and its descriptor tells of them no more */
}

unsigned hc_ofi_progress(struct hc_iface *base)
{
    struct hc_ofi_iface *iface = hc_ofi_iface_of(base);
    struct fi_cq_msg_entry entries[HC_OFI_CQ_BATCH];
    unsigned done = 0;
    if (hc_unlikely(iface->armed))
        disarm(iface);
    done += hc_ofi_gather_begin_turn(iface);
    if (hc_unlikely(iface->early_count > 0))
        done += handle_early(iface);
    ssize_t result = fi_cq_read(iface->cq, entries, HC_OFI_CQ_BATCH);
    for (ssize_t i = 0; i < result; i++)
        handle_completion(&entries[i]);
    if (result > 0)
        done += (unsigned)result;
    if (hc_unlikely(result == -FI_EAVAIL))
        while (handle_error(iface))
            done++;
    if (hc_unlikely(needs_care(iface)))
        done += care(iface);
    hc_ofi_gather_end_turn(iface);
    return done;
}

int hc_ofi_event_fd(struct hc_iface *base)
{
    return hc_ofi_iface_of(base)->event_fd;
}

static bool broken_waiting(const struct hc_ofi_iface *iface)
{
    struct hc_list *node;
    hc_list_for_each(node, &iface->watched) if (hc_list_entry(node, struct hc_ofi_ep, watch_link)->state ==
                                                HC_OFI_EP_BROKEN) return true;
    return false;
}

static hcomm_status_t try_queue(struct hc_ofi_iface *iface)
{
    struct fid *fids[] = {&iface->cq->fid};
    int result = fi_trywait(iface->fabric, fids, 1);
    if (result == -FI_EAGAIN)
        return HCOMM_AGAIN;
    return result ? hc_ofi_error(iface, "preparing to wait", result) : HCOMM_OK;
}

/* The descriptor shows the network's activity only: completions that exist already must be looked for. */
static hcomm_status_t try_domain(struct hc_ofi_iface *iface)
{
    struct fi_cq_msg_entry entry;
    ssize_t result = fi_cq_read(iface->cq, &entry, 1);
    if (result > 0)
        keep_early(iface, &entry);
    return result == -FI_EAGAIN ? HCOMM_OK : HCOMM_AGAIN;
}

hcomm_status_t hc_ofi_arm(struct hc_iface *base)
{
    struct hc_ofi_iface *iface = hc_ofi_iface_of(base);
    if (iface->early_count > 0 || broken_waiting(iface) || !hc_ofi_gather_is_idle(iface))
        return HCOMM_AGAIN;
    hcomm_status_t status = iface->wake_cq ? try_domain(iface) : try_queue(iface);
    if (status != HCOMM_OK)
        return status;
    iface->armed = true;
    if (needs_care(iface) && !iface->timer_set)
        set_timer(iface, true);
    return HCOMM_OK;
}
