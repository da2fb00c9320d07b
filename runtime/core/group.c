/*
 * Groups: what a thread's calls enqueue between start and end is collected here, then enqueued stream by
 * stream, the operations of one stream as parts of one.
 */
#include "runtime/core/stream.h"

struct group {
    unsigned depth;
    struct hc_stream_op *first; /* linked by next_part, in the order of the calls, streams mixed */
    struct hc_stream_op **last; /* NULL: first is where the next goes */
    hcomm_status_t status;      /* of the first call that failed */
    char detail[HC_STREAM_DETAIL];
};

static _Thread_local struct group group;

bool hc_group_is_open(void)
{
    return group.depth > 0;
}

hcomm_status_t hc_group_spoil(hcomm_status_t status)
{
    if (group.depth && group.status == HCOMM_OK) {
        group.status = status;
        (void)snprintf(group.detail, sizeof(group.detail), "%s", hc_error_detail());
    }
    return status;
}

hcomm_status_t hc_group_forbids(const char *call)
{
    return hc_group_spoil(
        hc_error(HCOMM_ERR_INVALID,
                 "%s: not between hcomm_group_start() and hcomm_group_end(), which take sends, receives and "
                 "barriers",
                 call));
}

void hc_group_add(struct hc_stream_op *op)
{
    struct hc_stream_op **link = group.first ? group.last : &group.first;
    *link = op;
    while (*link)
        link = &(*link)->next_part;
    group.last = link;
}

/* Take the operations of the first one's stream out of the group, in their order. */
static struct hc_stream_op *take_stream(void)
{
    struct hcomm_stream *stream = group.first->stream;
    struct hc_stream_op *taken = NULL, **taken_end = &taken, **link = &group.first;
    while (*link) {
        struct hc_stream_op *op = *link;
        if (op->stream != stream) {
            link = &op->next_part;
            continue;
        }
        *link = op->next_part;
        op->next_part = NULL;
        *taken_end = op;
        taken_end = &op->next_part;
    }
    return taken;
}

static void discard(void)
{
    while (group.first) {
        struct hc_stream_op *op = take_stream();
        struct hcomm_context *context = op->stream->streams->context;
        hc_lock_acquire(&context->lock);
        hc_stream_op_free(op);
        hc_lock_release(&context->lock);
    }
}

static hcomm_status_t enqueue(void)
{
    while (group.first) {
        struct hc_stream_op *op = take_stream();
        hcomm_status_t status = hc_stream_enqueue(op->stream, op);
        if (status != HCOMM_OK) {
            char words[HC_STREAM_DETAIL];
            (void)snprintf(words, sizeof(words), "%s", hc_error_detail());
            discard();
            return hc_error(status, "%s", words);
        }
    }
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_group_start(void)
{
    group.depth++;
    return HCOMM_OK;
}

HCOMM_API hcomm_status_t hcomm_group_end(void)
{
    if (!group.depth)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_group_end: no group was started on this thread");
    if (--group.depth)
        return HCOMM_OK;
    hcomm_status_t status = group.status;
    if (status == HCOMM_OK)
        return enqueue();
    discard();
    group.status = HCOMM_OK;
    return hc_error(status, "hcomm_group_end: nothing was enqueued: %s", group.detail);
}
