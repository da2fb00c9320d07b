/*
 * Receives and probes from any source while ranks die: they go on as long as another rank lives, and end when
 * none does. Run with `hcommrun --on-failure continue -n 3`: rank 0 survives, first 1 dies, then 2.
 */
#include <hcomm.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, EARLY = 1, GO, ANSWER, NEVER, PATIENCE_MS = 200000, HASTE_MS = 1000 };

#define CHECK(what, condition)                                                                               \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "any_source: rank %d: %s (%s)\n", rank, what, hcomm_error_detail());             \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

static int rank = -1;
static hcomm_comm_t world, hasty;

/* Leaves a message behind, waits to be told, answers if it is to, and dies. */
static int victim(int answers)
{
    char byte = (char)rank;
    CHECK("leaves a message", hcomm_send(&byte, 1, 0, EARLY, world) == HCOMM_OK);
    CHECK("and one that shows it is there", hcomm_ssend(&byte, 1, 0, GO, world) == HCOMM_OK);
    CHECK("is told", hcomm_recv(&byte, 1, 0, GO, world, NULL) == HCOMM_OK);
    if (answers) {
        CHECK("answers", hcomm_ssend(&byte, 1, 0, ANSWER, world) == HCOMM_OK);
        CHECK("is told again", hcomm_recv(&byte, 1, 0, GO, world, NULL) == HCOMM_OK);
    }
    (void)kill(getpid(), SIGKILL);
    return 1;
}

static int tells_lost(const char *ranks)
{
    return strstr(hcomm_error_detail(), ranks) != NULL;
}

static int goes_on_without_one(hcomm_request_t *pending)
{
    char byte = 0;
    hcomm_message_status_t status;
    hcomm_request_t posted = HCOMM_REQUEST_NULL;
    hcomm_status_t end = HCOMM_ERR_TIMEOUT;
    CHECK("irecv", hcomm_irecv(&byte, 1, HCOMM_ANY_SOURCE, ANSWER, world, &posted) == HCOMM_OK);
    CHECK("tells 1 to go", hcomm_send(&byte, 1, 1, GO, world) == HCOMM_OK);
    CHECK("1 is gone", hcomm_recv(&byte, 1, 1, NEVER, world, NULL) == HCOMM_ERR_PEER_LOST);
    while (end == HCOMM_ERR_TIMEOUT)
        end = hcomm_recv(&byte, 1, 1, NEVER, hasty, NULL);
    CHECK("1 is gone in the other context too", end == HCOMM_ERR_PEER_LOST);
    CHECK("a receive waits on",
          hcomm_recv(&byte, 1, HCOMM_ANY_SOURCE, NEVER, hasty, NULL) == HCOMM_ERR_TIMEOUT);
    CHECK("and tells who is lost", tells_lost("lost: 1"));
    CHECK("a probe waits on", hcomm_probe(HCOMM_ANY_SOURCE, NEVER, hasty, NULL) == HCOMM_ERR_TIMEOUT);
    CHECK("and tells who is lost", tells_lost("lost: 1"));
    CHECK("tells 2 to answer", hcomm_send(&byte, 1, 2, GO, world) == HCOMM_OK);
    CHECK("the receive gets it", hcomm_wait(&posted, &status) == HCOMM_OK && status.source == 2);
    CHECK("irecv", hcomm_irecv(&byte, 1, HCOMM_ANY_SOURCE, NEVER, world, pending) == HCOMM_OK);
    CHECK("tells 2 to go", hcomm_send(&byte, 1, 2, GO, world) == HCOMM_OK);
    return 0;
}

static int ends_without_any(hcomm_request_t *pending)
{
    char byte = 0;
    hcomm_message_status_t status;
    hcomm_request_t late = HCOMM_REQUEST_NULL;
    CHECK("the pending receive ends", hcomm_wait(pending, NULL) == HCOMM_ERR_PEER_LOST);
    CHECK("and tells who is lost", tells_lost("(1, 2)"));
    for (int i = 1; i < RANKS; i++)
        CHECK("what came before is received",
              hcomm_recv(&byte, 1, HCOMM_ANY_SOURCE, EARLY, world, &status) == HCOMM_OK &&
                  byte == status.source);
    CHECK("a receive fails",
          hcomm_recv(&byte, 1, HCOMM_ANY_SOURCE, NEVER, world, NULL) == HCOMM_ERR_PEER_LOST);
    CHECK("and tells who is lost", tells_lost("(1, 2)"));
    CHECK("a probe fails", hcomm_probe(HCOMM_ANY_SOURCE, NEVER, world, NULL) == HCOMM_ERR_PEER_LOST);
    CHECK("and tells who is lost", tells_lost("(1, 2)"));
    CHECK("one that does not wait too",
          hcomm_iprobe(HCOMM_ANY_SOURCE, NEVER, world, NULL) == HCOMM_ERR_PEER_LOST);
    CHECK("irecv", hcomm_irecv(&byte, 1, HCOMM_ANY_SOURCE, NEVER, world, &late) == HCOMM_OK);
    CHECK("fails at once", hcomm_test(&late, NULL) == HCOMM_ERR_PEER_LOST);
    return 0;
}

/* Nobody else can be lost. */
static int alone_goes_on(hcomm_comm_t self)
{
    char byte = 0;
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    CHECK("irecv", hcomm_irecv(&byte, 1, HCOMM_ANY_SOURCE, ANSWER, self, &request) == HCOMM_OK);
    CHECK("send to self", hcomm_send("x", 1, 0, ANSWER, self) == HCOMM_OK);
    CHECK("which comes", hcomm_wait(&request, NULL) == HCOMM_OK && byte == 'x');
    return 0;
}

int main(void)
{
    hcomm_handle_t patient_context = NULL, hasty_context = NULL;
    hcomm_request_t pending = HCOMM_REQUEST_NULL;
    char byte = 0;
    CHECK("init", hcomm_init(&patient_context, &(hcomm_config_t){.timeout_ms = PATIENCE_MS}) == HCOMM_OK);
    rank = hcomm_rank(patient_context);
    CHECK("second init",
          hcomm_init(&hasty_context, &(hcomm_config_t){.timeout_ms = rank ? 0 : HASTE_MS}) == HCOMM_OK);
    CHECK("needs 3 ranks", hcomm_size(patient_context) == RANKS);
    world = hcomm_comm_world(patient_context);
    hasty = hcomm_comm_world(hasty_context);
    if (rank)
        return victim(rank == 2);
    for (int i = 1; i < RANKS; i++)
        CHECK("all are there", hcomm_recv(&byte, 1, i, GO, world, NULL) == HCOMM_OK);
    if (goes_on_without_one(&pending) || ends_without_any(&pending) ||
        alone_goes_on(hcomm_comm_self(patient_context)))
        return 1;
    hcomm_status_t end = hcomm_finalize(hasty_context);
    CHECK("finalize ends", end == HCOMM_OK || end == HCOMM_ERR_PEER_LOST);
    end = hcomm_finalize(patient_context);
    CHECK("finalize ends", end == HCOMM_OK || end == HCOMM_ERR_PEER_LOST);
    puts("survived");
    return 0;
}
