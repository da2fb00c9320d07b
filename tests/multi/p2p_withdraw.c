/*
 * A blocking send that times out gets its buffer back: the receiver, asked, leaves it alone, and whoever
 * receives the message later is told that it was given up. Ranks work in pairs: even ones send, with the
 * shortest time-out.
 */
#include "tests/multi/p2p_cases.h"

#include <unistd.h>

enum { TAG = 3, DONE = 4, SIZE = 4 << 20, BIG = 32 << 20, SENT = 1, REUSED = 2, NEXT = 3, HASTE_MS = 1000 };

static unsigned char *room;
static int partner;
static hcomm_handle_t hasty; /* its senders wait for HASTE_MS */
static hcomm_comm_t hasty_world;

static bool is_sender(void)
{
    return p2p_rank % 2 == 0;
}

static bool unconfirmed(void)
{
    return strstr(hcomm_error_detail(), "did not confirm") != NULL;
}

/* The sender's part: the message is not received in time; then the buffer is used for something else. */
static hcomm_status_t send_late(size_t size)
{
    p2p_fill(room, size, SENT);
    hcomm_status_t status = hcomm_send(room, size, partner, TAG, hasty_world);
    if (status != HCOMM_OK) {
        CHECK(status == HCOMM_ERR_TIMEOUT);
        CHECK(strstr(hcomm_error_detail(), "timeout_ms"));
    }
    p2p_fill(room, size, REUSED);
    return status;
}

/* What the sender tells the receiver of its send. */
struct outcome {
    hcomm_status_t status;
    bool unconfirmed; /* it was told that the receiver may still read the buffer */
};

static void tell(hcomm_status_t status)
{
    const struct outcome outcome = {status, status != HCOMM_OK && unconfirmed()};
    CALL(hcomm_send(&outcome, sizeof(outcome), partner, DONE, p2p_world));
}

/* The receiver's part: communicate until the sender has given up. */
static struct outcome hear(void)
{
    struct outcome outcome;
    CALL(hcomm_recv(&outcome, sizeof(outcome), partner, DONE, p2p_world, NULL));
    return outcome;
}

static void exchange_next(void)
{
    if (is_sender()) {
        p2p_fill(room, SIZE, NEXT);
        hcomm_request_t request;
        CALL(hcomm_isend(room, SIZE, partner, TAG, hasty_world, &request));
        hcomm_status_t status = HCOMM_ERR_TIMEOUT;
        for (int i = 0; status == HCOMM_ERR_TIMEOUT && i < 30; i++)
            status = hcomm_wait(&request, NULL);
        CALL(status);
    } else {
        CALL(hcomm_recv(room, SIZE, partner, TAG, hasty_world, NULL));
        VERIFY(room, SIZE, NEXT);
    }
}

static void unreceived_message_is_withdrawn(void)
{
    if (is_sender()) {
        CHECK(send_late(SIZE) == HCOMM_ERR_TIMEOUT);
        CHECK(!unconfirmed());
        tell(HCOMM_ERR_TIMEOUT);
    } else {
        CHECK(hear().status == HCOMM_ERR_TIMEOUT);
        EXPECT(HCOMM_ERR_CANCELLED, hcomm_recv(room, SIZE, partner, TAG, hasty_world, NULL));
        CHECK(strstr(hcomm_error_detail(), "gave the message up"));
    }
    exchange_next();
}

static void probed_message_is_withdrawn(void)
{
    if (is_sender()) {
        CHECK(send_late(SIZE) == HCOMM_ERR_TIMEOUT);
        tell(HCOMM_ERR_TIMEOUT);
    } else {
        hcomm_message_t message;
        CALL(hcomm_mprobe(partner, TAG, hasty_world, &message, NULL));
        CHECK(hear().status == HCOMM_ERR_TIMEOUT);
        EXPECT(HCOMM_ERR_CANCELLED, hcomm_mrecv(room, SIZE, &message, NULL));
    }
    exchange_next();
}

/* Nothing can be confirmed by a rank that does not communicate; the sender goes on, and says so if it
 * matters. */
static void silent_receiver_is_not_waited_for(void)
{
    struct p2p_outside outside = p2p_open_outside();
    if (is_sender()) {
        CALL(hcomm_recv(&outside.there, sizeof(outside.there), partner, DONE, p2p_world, NULL));
        CHECK(send_late(SIZE) == HCOMM_ERR_TIMEOUT);
        tell(HCOMM_ERR_TIMEOUT);
        p2p_tell_outside(&outside);
    } else {
        CALL(hcomm_send(&outside.there, sizeof(outside.there), partner, DONE, p2p_world));
        p2p_await_outside(&outside);
        hcomm_status_t status = hcomm_recv(room, SIZE, partner, TAG, hasty_world, NULL);
        CHECK(status == HCOMM_OK || status == HCOMM_ERR_CANCELLED);
        CHECK(hear().status == HCOMM_ERR_TIMEOUT);
    }
    p2p_close_outside(&outside);
    exchange_next();
}

/* A receiver that looks in rarely fetches for longer than the sender waits: both see the same end. */
static void both_agree_in_the_middle_of_a_transfer(void)
{
    if (is_sender()) {
        tell(send_late(BIG));
        return;
    }
    hcomm_request_t request;
    CALL(hcomm_irecv(room, BIG, partner, TAG, hasty_world, &request));
    hcomm_status_t status = HCOMM_IN_PROGRESS;
    for (int i = 0; status == HCOMM_IN_PROGRESS && i < 100; i++) {
        (void)usleep(500000);
        status = hcomm_test(&request, NULL);
    }
    CHECK(status == HCOMM_OK || status == HCOMM_ERR_CANCELLED);
    struct outcome outcome = hear();
    if (outcome.unconfirmed)
        return;
    CHECK((outcome.status == HCOMM_OK) == (status == HCOMM_OK));
    if (status == HCOMM_OK)
        VERIFY(room, BIG, SENT);
}

int main(int argc, char **argv)
{
    static const struct p2p_case cases[] = {
        {"unreceived_message_is_withdrawn", unreceived_message_is_withdrawn, 2},
        {"probed_message_is_withdrawn", probed_message_is_withdrawn, 2},
        {"silent_receiver_is_not_waited_for", silent_receiver_is_not_waited_for, 2},
        {"both_agree_in_the_middle_of_a_transfer", both_agree_in_the_middle_of_a_transfer, 2},
    };
    const char *rank = getenv("PMIX_RANK");
    bool sends = !rank || atoi(rank) % 2 == 0;
    bool mapped = getenv("HC_TEST_MAPPED") != NULL;
    partner = (rank ? atoi(rank) : 0) ^ 1;
    hcomm_handle_t patient = NULL; /* the short deadline holds for ranks that have started */
    CALL(hcomm_init(&patient, NULL));
    CALL(hcomm_barrier(hcomm_comm_world(patient)));
    CALL(hcomm_init(&hasty, &(hcomm_config_t){.timeout_ms = sends ? HASTE_MS : 30000}));
    hasty_world = hcomm_comm_world(hasty);
    room = mapped ? hcomm_alloc_host_mem(hasty, BIG) : p2p_room(BIG);
    CHECK(room);
    int result = p2p_run(cases, sizeof(cases) / sizeof(cases[0]), NULL, argc, argv);
    CALL(hcomm_finalize(patient));
    hcomm_status_t ended = hcomm_finalize(hasty); /* the others may be slow, or have lost patience */
    CHECK(ended == HCOMM_OK || ended == HCOMM_ERR_TIMEOUT || ended == HCOMM_ERR_PEER_LOST);
    if (!mapped)
        free(room);
    return result;
}
