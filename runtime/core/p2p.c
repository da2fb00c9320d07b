/* The public point-to-point calls: checks, then the lock, then the work. */
#include "runtime/core/core.h"

#include "runtime/core/comm.h"
#include "runtime/core/progress.h"
#include "runtime/core/recv.h"
#include "runtime/core/request.h"
#include "runtime/core/send.h"
#include "runtime/core/stream.h"
#include "runtime/core/wait.h"

static hcomm_status_t bad_send(const char *call, const void *buf, size_t size, int dest, int tag,
                               const struct hcomm_comm *comm)
{
    if (!comm)
        return hc_error(HCOMM_ERR_INVALID, "%s: comm is NULL", call);
    if (!buf && size)
        return hc_error(HCOMM_ERR_INVALID, "%s: buffer is NULL but size is %zu", call, size);
    if (tag < 0)
        return hc_error(HCOMM_ERR_INVALID, "%s: tag %d is not in 0..%d", call, tag, HCOMM_TAG_MAX);
    return hc_error(HCOMM_ERR_INVALID, "%s: dest %d is not in 0..%d of communicator '%s'", call, dest,
                    comm->size - 1, comm->name);
}

/* True for a destination that exists; RANK_NULL is the caller's case. */
static inline bool send_is_good(const void *buf, size_t size, int dest, int tag,
                                const struct hcomm_comm *comm)
{
    return comm && (buf || !size) && tag >= 0 && dest >= 0 && dest < comm->size;
}

static inline bool is_null_rank(int rank, int tag, bool wildcard, const struct hcomm_comm *comm)
{
    return comm && rank == HCOMM_RANK_NULL && (tag >= 0 || (wildcard && tag == HCOMM_ANY_TAG));
}

static hcomm_status_t bad_recv(const char *call, const void *buf, size_t capacity, int source, int tag,
                               const struct hcomm_comm *comm)
{
    if (!comm)
        return hc_error(HCOMM_ERR_INVALID, "%s: comm is NULL", call);
    if (!buf && capacity)
        return hc_error(HCOMM_ERR_INVALID, "%s: buffer is NULL but capacity is %zu", call, capacity);
    if (tag < HCOMM_ANY_TAG)
        return hc_error(HCOMM_ERR_INVALID, "%s: tag %d is neither in 0..%d nor HCOMM_ANY_TAG", call, tag,
                        HCOMM_TAG_MAX);
    return hc_error(HCOMM_ERR_INVALID,
                    "%s: source %d is neither in 0..%d of communicator '%s' nor HCOMM_ANY_SOURCE", call,
                    source, comm->size - 1, comm->name);
}

static inline bool recv_is_good(const void *buf, size_t capacity, int source, int tag,
                                const struct hcomm_comm *comm)
{
    return comm && (buf || !capacity) && tag >= HCOMM_ANY_TAG && source >= HCOMM_ANY_SOURCE &&
           source < comm->size;
}

hcomm_status_t hc_p2p_check_send(const char *call, const void *buf, size_t size, int dest, int tag,
                                 const struct hcomm_comm *comm)
{
    if (send_is_good(buf, size, dest, tag, comm) || is_null_rank(dest, tag, false, comm))
        return HCOMM_OK;
    return bad_send(call, buf, size, dest, tag, comm);
}

hcomm_status_t hc_p2p_check_recv(const char *call, const void *buf, size_t capacity, int source, int tag,
                                 const struct hcomm_comm *comm)
{
    if (recv_is_good(buf, capacity, source, tag, comm) || is_null_rank(source, tag, true, comm))
        return HCOMM_OK;
    return bad_recv(call, buf, capacity, source, tag, comm);
}

static void null_status(hcomm_message_status_t *status)
{
    if (status)
        *status = (hcomm_message_status_t){.source = HCOMM_RANK_NULL, .tag = HCOMM_ANY_TAG};
}

/*
 * What nearly all sends are: of a good message, by the lock's owner, and gone at once. False when anything is
 * in the way; nothing was sent then, and the longer way finds out. It makes no call but those that send, and
 * the longer ways are tail calls, so that the registers it needs are all that is saved.
 */
static HC_INLINE bool send_quickly(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm)
{
    if (hc_unlikely(!send_is_good(buf, size, dest, tag, comm)))
        return false;
    struct hc_lock *lock = &comm->context->lock;
    if (hc_unlikely(!hc_lock_try_biased(lock)))
        return false;
    bool sent = hc_send_quick(comm, comm->id, buf, size, dest, tag);
    hc_lock_release_biased(lock);
    return sent;
}

/* The same with the lock held, however it was taken. */
static HC_NOINLINE bool send_at_once(struct hcomm_comm *comm, const void *buf, size_t size, int dest, int tag)
{
    return hc_send_quick(comm, comm->id, buf, size, dest, tag);
}

static HC_NOINLINE hcomm_status_t start_send(const void *buf, size_t size, int dest, int tag,
                                             hcomm_comm_t comm, bool sync, hcomm_request_t *request)
{
    const char *call = sync ? "hcomm_issend" : "hcomm_isend";
    if (!request)
        return hc_error(HCOMM_ERR_INVALID, "%s: request is NULL", call);
    if (hc_unlikely(!send_is_good(buf, size, dest, tag, comm))) {
        if (!is_null_rank(dest, tag, false, comm))
            return bad_send(call, buf, size, dest, tag, comm);
        *request = &comm->context->done_send;
        return HCOMM_OK;
    }
    hc_lock_acquire(&comm->context->lock);
    hcomm_status_t status = HCOMM_OK;
    if (!sync && send_at_once(comm, buf, size, dest, tag))
        *request = &comm->context->done_send;
    else
        status = hc_send_start(comm, comm->id, buf, size, dest, tag, sync, request);
    hc_lock_release(&comm->context->lock);
    return status;
}

HCOMM_API hcomm_status_t hcomm_isend(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm,
                                     hcomm_request_t *request)
{
    if (hc_likely(request != NULL) && hc_likely(send_quickly(buf, size, dest, tag, comm))) {
        *request = &comm->context->done_send;
        return HCOMM_OK;
    }
    return start_send(buf, size, dest, tag, comm, false, request);
}

HCOMM_API hcomm_status_t hcomm_issend(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm,
                                      hcomm_request_t *request)
{
    return start_send(buf, size, dest, tag, comm, true, request);
}

static HC_NOINLINE hcomm_status_t blocking_send(const void *buf, size_t size, int dest, int tag,
                                                hcomm_comm_t comm, bool sync)
{
    const char *call = sync ? "hcomm_ssend" : "hcomm_send";
    if (hc_unlikely(!send_is_good(buf, size, dest, tag, comm)))
        return is_null_rank(dest, tag, false, comm) ? HCOMM_OK : bad_send(call, buf, size, dest, tag, comm);
    struct hcomm_request *request = NULL;
    hc_lock_acquire(&comm->context->lock);
    if (!sync && send_at_once(comm, buf, size, dest, tag)) {
        hc_lock_release(&comm->context->lock);
        return HCOMM_OK;
    }
    hcomm_status_t status = hc_send_start(comm, comm->id, buf, size, dest, tag, sync, &request);
    if (status == HCOMM_OK)
        status = request == &comm->context->done_send ? hc_send_hand_over(hc_comm_peer(comm, dest))
                                                      : hc_request_finish(request, NULL);
    hc_lock_release(&comm->context->lock);
    return status;
}

HCOMM_API hcomm_status_t hcomm_send(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm)
{
    return hc_likely(send_quickly(buf, size, dest, tag, comm))
               ? HCOMM_OK
               : blocking_send(buf, size, dest, tag, comm, false);
}

HCOMM_API hcomm_status_t hcomm_ssend(const void *buf, size_t size, int dest, int tag, hcomm_comm_t comm)
{
    return blocking_send(buf, size, dest, tag, comm, true);
}

/* What nearly all receives are: good, by the lock's owner, and not yet met. NULL: the longer way finds out.
 */
static HC_INLINE struct hcomm_request *post_quickly(void *buf, size_t capacity, int source, int tag,
                                                    hcomm_comm_t comm)
{
    if (hc_unlikely(!recv_is_good(buf, capacity, source, tag, comm)))
        return NULL;
    struct hcomm_context *context = comm->context;
    if (hc_unlikely(context->progress_thread_running) || hc_unlikely(!hc_lock_try_biased(&context->lock)))
        return NULL;
    struct hcomm_request *request = hc_recv_post(comm, buf, capacity, source, tag);
    hc_lock_release_biased(&context->lock);
    return request;
}

static HC_NOINLINE hcomm_status_t start_recv(void *buf, size_t capacity, int source, int tag,
                                             hcomm_comm_t comm, hcomm_request_t *request)
{
    if (!request)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_irecv: request is NULL");
    if (hc_unlikely(!recv_is_good(buf, capacity, source, tag, comm))) {
        if (!is_null_rank(source, tag, true, comm))
            return bad_recv("hcomm_irecv", buf, capacity, source, tag, comm);
        *request = &comm->context->done_recv;
        return HCOMM_OK;
    }
    hc_lock_acquire(&comm->context->lock);
    hcomm_status_t status = hc_recv_start(comm, comm->id, buf, capacity, source, tag, request);
    if (hc_unlikely(comm->context->progress_thread_running))
        hc_progress_thread_unpark(comm->context);
    hc_lock_release(&comm->context->lock);
    return status;
}

HCOMM_API hcomm_status_t hcomm_irecv(void *buf, size_t capacity, int source, int tag, hcomm_comm_t comm,
                                     hcomm_request_t *request)
{
    struct hcomm_request *posted =
        hc_likely(request != NULL) ? post_quickly(buf, capacity, source, tag, comm) : NULL;
    if (hc_unlikely(!posted))
        return start_recv(buf, capacity, source, tag, comm, request);
    *request = posted;
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_recv(void *buf, size_t capacity, int source, int tag, hcomm_comm_t comm,
                                    hcomm_message_status_t *message_status)
{
    if (hc_unlikely(!recv_is_good(buf, capacity, source, tag, comm))) {
        if (!is_null_rank(source, tag, true, comm))
            return bad_recv("hcomm_recv", buf, capacity, source, tag, comm);
        null_status(message_status);
        return HCOMM_OK;
    }
    hc_lock_acquire(&comm->context->lock);
    hcomm_status_t status = hc_recv_blocking(comm, buf, capacity, source, tag, message_status);
    if (hc_likely(status == HCOMM_OK))
        hc_push_out(comm->context);
    hc_lock_release(&comm->context->lock);
    return status;
}

HCOMM_API hcomm_status_t hcomm_sendrecv(const void *sendbuf, size_t sendsize, int dest, int sendtag,
                                        void *recvbuf, size_t capacity, int source, int recvtag,
                                        hcomm_comm_t comm, hcomm_message_status_t *status)
{
    hcomm_request_t recv = HCOMM_REQUEST_NULL, send = HCOMM_REQUEST_NULL;
    hcomm_status_t outcome = hcomm_irecv(recvbuf, capacity, source, recvtag, comm, &recv);
    if (outcome != HCOMM_OK)
        return outcome;
    hcomm_status_t sent = hcomm_isend(sendbuf, sendsize, dest, sendtag, comm, &send);
    hc_lock_acquire(&comm->context->lock);
    if (sent == HCOMM_OK)
        sent = hc_request_finish(send, NULL);
    if (sent != HCOMM_OK && recv->match.bin) { /* unmatched */
        hc_request_give_up(recv);
        null_status(status);
        outcome = sent;
    } else {
        outcome = hc_request_finish(recv, status);
    }
    if (sent == HCOMM_OK && outcome == HCOMM_OK)
        hc_push_out(comm->context);
    hc_lock_release(&comm->context->lock);
    return sent != HCOMM_OK ? sent : outcome;
}

/* ---- probes ---- */

struct probe {
    hcomm_comm_t comm;
    int source, tag;
    struct hcomm_message *found;
};

/* HCOMM_AGAIN: go on looking. Lock held. */
static hcomm_status_t look(struct probe *probe)
{
    probe->found = NULL;
    if (hc_unlikely(probe->comm->context->forked))
        return hc_error(HCOMM_ERR_INVALID, "probe: " HC_FORKED_TEXT, probe->comm->context->job->rank);
    probe->found = hc_message_find(probe->comm, probe->source, probe->tag);
    if (probe->found)
        return HCOMM_OK;
    if (probe->source == HCOMM_ANY_SOURCE)
        return hc_comm_check_deserted(probe->comm)
                   ? hc_comm_explain_deserted(probe->comm, "probe", probe->tag)
                   : HCOMM_AGAIN;
    struct hc_peer *peer = hc_comm_peer(probe->comm, probe->source);
    if (peer && peer->state == HC_PEER_FAILED)
        return hc_peer_error(peer);
    return HCOMM_AGAIN;
}

static bool has_found(void *arg)
{
    return look(arg) != HCOMM_AGAIN;
}

static hcomm_status_t look_once(struct probe *probe)
{
    hcomm_status_t status = look(probe);
    if (status != HCOMM_AGAIN)
        return status;
    (void)hc_progress(probe->comm->context);
    return look(probe);
}

static hcomm_status_t found_nothing(const struct probe *probe)
{
    bool any = probe->source == HCOMM_ANY_SOURCE;
    const struct hc_peer *source = any ? NULL : hc_comm_peer(probe->comm, probe->source);
    char lost[128] = "";
    if (any)
        (void)hc_comm_list_lost(probe->comm, lost, sizeof(lost));
    return hc_error(HCOMM_ERR_TIMEOUT,
                    "probe from %s, tag %d on communicator '%s': nothing came for %d ms (setting "
                    "timeout_ms)%s%s",
                    source ? hc_peer_name(source) : "any source", probe->tag, probe->comm->name,
                    probe->comm->context->settings.timeout_ms, lost[0] ? "; lost: " : "", lost);
}

static hcomm_status_t look_until_found(struct probe *probe)
{
    bool any = probe->source == HCOMM_ANY_SOURCE;
    struct hc_peer *source = any ? NULL : hc_comm_peer(probe->comm, probe->source);
    const struct hc_wait_params params = {
        .done = has_found,
        .arg = probe,
        .timeout_ms = probe->comm->context->settings.timeout_ms,
        .watch = any ? hc_comm_next_alive(probe->comm) : source,
        .partner = source,
    };
    return hc_wait_for(probe->comm->context, &params) == HCOMM_OK ? look(probe) : found_nothing(probe);
}

/* All four probes: `message` NULL leaves the message in matching. */
static hcomm_status_t probe_for(const char *call, int source, int tag, hcomm_comm_t comm, bool blocking,
                                hcomm_message_t *message, hcomm_message_status_t *message_status)
{
    char none = 0;
    if (!recv_is_good(&none, 1, source, tag, comm)) {
        if (!is_null_rank(source, tag, true, comm))
            return bad_recv(call, &none, 1, source, tag, comm);
        null_status(message_status);
        if (message)
            *message = HCOMM_MESSAGE_NULL;
        return HCOMM_OK;
    }
    struct probe probe = {comm, source, tag, NULL};
    hc_lock_acquire(&comm->context->lock);
    hcomm_status_t status = blocking ? look_until_found(&probe) : look_once(&probe);
    if (status == HCOMM_OK) {
        hc_message_status(probe.found, message_status);
        if (message) {
            hc_message_take(comm->context, probe.found);
            probe.found->comm = comm;
            hc_list_append(&comm->context->taken, &probe.found->match.all);
            comm->busy++;
            *message = probe.found;
        }
    }
    if (status == HCOMM_OK || status == HCOMM_IN_PROGRESS)
        hc_push_out(comm->context);
    hc_lock_release(&comm->context->lock);
    return status;
}

HCOMM_API hcomm_status_t hcomm_probe(int source, int tag, hcomm_comm_t comm, hcomm_message_status_t *status)
{
    return probe_for("hcomm_probe", source, tag, comm, true, NULL, status);
}

HCOMM_API hcomm_status_t hcomm_iprobe(int source, int tag, hcomm_comm_t comm, hcomm_message_status_t *status)
{
    return probe_for("hcomm_iprobe", source, tag, comm, false, NULL, status);
}

HCOMM_API hcomm_status_t hcomm_mprobe(int source, int tag, hcomm_comm_t comm, hcomm_message_t *message,
                                      hcomm_message_status_t *status)
{
    if (!message)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_mprobe: message is NULL");
    return probe_for("hcomm_mprobe", source, tag, comm, true, message, status);
}

HCOMM_API hcomm_status_t hcomm_improbe(int source, int tag, hcomm_comm_t comm, hcomm_message_t *message,
                                       hcomm_message_status_t *status)
{
    if (!message)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_improbe: message is NULL");
    return probe_for("hcomm_improbe", source, tag, comm, false, message, status);
}

static hcomm_status_t check_message(const char *call, const void *buf, size_t capacity,
                                    const hcomm_message_t *message)
{
    if (!message || !*message)
        return hc_error(HCOMM_ERR_INVALID,
                        "%s: message is null; a probe of HCOMM_RANK_NULL gives none to receive", call);
    if (!buf && capacity)
        return hc_error(HCOMM_ERR_INVALID, "%s: buffer is NULL but capacity is %zu", call, capacity);
    return HCOMM_OK;
}

/* Lock held. */
static hcomm_status_t receive_taken(void *buf, size_t capacity, hcomm_message_t *message,
                                    struct hcomm_request **request)
{
    struct hcomm_comm *comm = (*message)->comm;
    hc_list_remove(&(*message)->match.all);
    hcomm_status_t status = hc_message_receive(comm, *message, buf, capacity, request);
    if (status != HCOMM_OK) {
        hc_list_append(&comm->context->taken, &(*message)->match.all);
        return status;
    }
    comm->busy--;
    *message = HCOMM_MESSAGE_NULL;
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_mrecv(void *buf, size_t capacity, hcomm_message_t *message,
                                     hcomm_message_status_t *message_status)
{
    hcomm_status_t status = check_message("hcomm_mrecv", buf, capacity, message);
    if (status != HCOMM_OK)
        return status;
    struct hcomm_context *context = (*message)->comm->context;
    struct hcomm_request *request = NULL;
    hc_lock_acquire(&context->lock);
    status = receive_taken(buf, capacity, message, &request);
    if (status == HCOMM_OK)
        status = hc_request_finish(request, message_status);
    if (status == HCOMM_OK)
        hc_push_out(context);
    hc_lock_release(&context->lock);
    return status;
}

HCOMM_API hcomm_status_t hcomm_imrecv(void *buf, size_t capacity, hcomm_message_t *message,
                                      hcomm_request_t *request)
{
    hcomm_status_t status = check_message("hcomm_imrecv", buf, capacity, message);
    if (status != HCOMM_OK)
        return status;
    if (!request)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_imrecv: request is NULL");
    struct hcomm_context *context = (*message)->comm->context;
    hc_lock_acquire(&context->lock);
    status = receive_taken(buf, capacity, message, request);
    hc_lock_release(&context->lock);
    return status;
}
