/*
 * A context ends with everything in it: receives nobody answers, sends nobody receives, messages matched and
 * not received, in several contexts of one process. Leaks and stray accesses show under AddressSanitizer.
 */
#include "tests/multi/p2p_cases.h"

enum { TAG = 5, KINDS = 8, CONTEXTS = 3 };

static unsigned char room[KINDS][1 << 20];

static void leave_unfinished(hcomm_comm_t comm, int dest)
{
    hcomm_request_t request;
    hcomm_comm_t dup;
    CALL(hcomm_comm_dup(comm, &dup));
    CALL(hcomm_isend(room[0], sizeof(room[0]), dest, TAG, comm, &request)); /* rendezvous */
    CALL(hcomm_issend(room[1], 10, dest, TAG, dup, &request));              /* eager, not matched */
    CALL(hcomm_isend(room[2], 10, dest, TAG, comm, &request));              /* complete, not waited for */
    CALL(hcomm_issend(room[3], sizeof(room[3]), dest, TAG, dup, &request));
    CALL(hcomm_request_free(&request));
    CALL(hcomm_irecv(room[4], sizeof(room[4]), dest, TAG + 1, comm, &request));
    CALL(hcomm_irecv(room[5], 10, HCOMM_ANY_SOURCE, TAG + 1, dup, &request));
    CALL(hcomm_request_free(&request));
}

/* One eager and one rendezvous message are taken out of matching, one of each stays unexpected. */
static void take_some(hcomm_comm_t comm)
{
    hcomm_message_t message;
    hcomm_message_status_t status;
    CALL(hcomm_mprobe(HCOMM_ANY_SOURCE, TAG, comm, &message, &status));
    CHECK(status.size == sizeof(room[0]));
    CALL(hcomm_mprobe(HCOMM_ANY_SOURCE, TAG, comm, &message, &status));
    CHECK(status.size == 10);
}

static void use_context(hcomm_handle_t context, unsigned seed)
{
    hcomm_comm_t world = hcomm_comm_world(context);
    int n = hcomm_comm_size(world), me = hcomm_comm_rank(world), got = -1;
    const int sent = me * 100 + (int)seed;
    CALL(hcomm_sendrecv(&sent, sizeof(sent), (me + 1) % n, TAG, &got, sizeof(got), (me + n - 1) % n, TAG,
                        world, NULL));
    CHECK(got == (me + n - 1) % n * 100 + (int)seed);
}

static hcomm_handle_t contexts[CONTEXTS];

/* The same tag on both worlds: each context keeps its own messages. */
static void contexts_are_separate(void)
{
    hcomm_request_t requests[2 * CONTEXTS];
    int values[CONTEXTS], sent[CONTEXTS];
    for (int i = 0; i < CONTEXTS; i++)
        CALL(hcomm_irecv(&values[i], sizeof(int), HCOMM_ANY_SOURCE, TAG, hcomm_comm_world(contexts[i]),
                         &requests[i]));
    for (int i = CONTEXTS - 1; i >= 0; i--) {
        hcomm_comm_t world = hcomm_comm_world(contexts[i]);
        sent[i] = i;
        CALL(hcomm_isend(&sent[i], sizeof(int), (hcomm_comm_rank(world) + 1) % hcomm_comm_size(world), TAG,
                         world, &requests[CONTEXTS + i]));
    }
    size_t index, seen = 0;
    CALL(hcomm_waitany(CONTEXTS, requests, &index, NULL)); /* of several contexts at once */
    CHECK(index < CONTEXTS && values[index] == (int)index);
    CALL(hcomm_waitall((size_t)2 * CONTEXTS, requests, NULL));
    for (int i = 0; i < CONTEXTS; i++)
        seen += values[i] == i;
    CHECK(seen == CONTEXTS);
}

int main(void)
{
    for (int i = 0; i < CONTEXTS; i++) {
        CALL(hcomm_init(&contexts[i], NULL));
        check_handle = contexts[i];
        use_context(contexts[i], (unsigned)i);
    }
    contexts_are_separate();
    for (int i = 0; i < CONTEXTS; i++) {
        hcomm_comm_t world = hcomm_comm_world(contexts[i]);
        int n = hcomm_comm_size(world), me = hcomm_comm_rank(world);
        leave_unfinished(world, (me + 1) % n);
        take_some(world);
        if (i + 1 < CONTEXTS)
            use_context(contexts[i + 1], 7);
        CALL(hcomm_finalize(contexts[i]));
    }
    CALL(hcomm_finalize(NULL));
    return 0;
}
