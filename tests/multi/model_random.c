/*
 * Random message patterns against a model. All ranks derive the same plan from a seed: for each directed pair
 * of ranks a list of messages with communicator, tag and size. Senders send their lists in order with any of
 * the calls; receivers draw exact and wildcard receives, probes and matched probes, posted early or late. A
 * receive may get exactly the messages that MPI's rules allow: the first of its source, not received yet,
 * that its pattern takes on its communicator; the payload tells which one came. Order between matching and
 * completion is checked by letting receives of one thread match in the order in which they were posted.
 *
 * model_random [-n PATTERNS] [-s SECONDS] [-r SEED]: ends at whichever comes first; a failure prints the
 * seed.
 */
#include "tests/multi/p2p_cases.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

enum {
    COMMS = 3,
    THREADS_MAX = 3,
    MESSAGES_MAX = 24,
    TAGS = 3,
    OPEN_MAX = 6,
    BUDGET_SHIFT = 16,
};

struct message {
    int comm, tag;
    size_t size;
    bool received; /* model: a receive has matched it */
};

/* One pattern of one thread: every rank knows the whole of it. */
struct plan {
    unsigned seed;
    int thread;
    int counts[16][16]; /* messages from a to b */
    struct message messages[16][16][MESSAGES_MAX];
};

/* A receive that is posted. */
struct open_recv {
    hcomm_request_t request;
    int comm, source, tag; /* the pattern; source in the communicator */
    unsigned char *buf;
    size_t capacity;
};

static struct {
    hcomm_comm_t comms[THREADS_MAX][COMMS];
    long patterns;
    int seconds;
    unsigned seed;
} options = {.patterns = 300, .seconds = 20, .seed = 1};

static _Thread_local unsigned current_seed;

#define MODEL(x) ((x) ? (void)0 : model_failed(__LINE__, #x))

__attribute__((noreturn)) static void model_failed(int line, const char *what)
{
    fprintf(stderr, "model_random:%d: rank %d of %d: %s; detail: %s; seed %u (-n 1 -r %u repeats it)\n", line,
            p2p_rank, p2p_size, what, hcomm_error_detail(), current_seed, current_seed);
    hcomm_abort(check_handle, 1);
    abort();
}

/* ---- the plan ---- */

static size_t random_size(unsigned *state, size_t *budget)
{
    size_t size = p2p_sizes[check_random(state) % P2P_SIZES];
    unsigned shape = check_random(state) % 8;
    if (shape < 3)
        size = check_random(state) % 256;
    else if (shape == 3)
        size += check_random(state) % 5;
    if (size > *budget || size > P2P_SIZE_MAX)
        size = check_random(state) % 64;
    *budget -= size < *budget ? size : *budget;
    return size;
}

static void draw_plan(struct plan *plan, unsigned seed, int thread)
{
    unsigned state = seed * 2654435761u + (unsigned)thread * 40503u + 1;

    memset(plan, 0, sizeof(*plan));
    plan->seed = seed;
    plan->thread = thread;
    for (int i = 0; i < 8; i++)
        (void)check_random(&state);
    size_t budget = (size_t)1 << (BUDGET_SHIFT + check_random(&state) % 8);
    unsigned density = 1 + check_random(&state) % MESSAGES_MAX;
    for (int a = 0; a < p2p_size; a++) {
        for (int b = 0; b < p2p_size; b++) {
            plan->counts[a][b] = (int)(check_random(&state) % density);
            for (int i = 0; i < plan->counts[a][b]; i++)
                plan->messages[a][b][i] = (struct message){
                    .comm = (int)(check_random(&state) % COMMS),
                    .tag = (int)(check_random(&state) % TAGS),
                    .size = random_size(&state, &budget),
                };
        }
    }
}

/* The payload names its place in the plan, as far as it has room, and fills the rest. */
static unsigned payload_seed(const struct plan *plan, int from, int to, int index)
{
    return plan->seed * 7919u + (unsigned)(((plan->thread * 16 + from) * 16 + to) * 64 + index);
}

/* ---- communicators: world, its reverse, and rotated by one ---- */

static int comm_rank_of(int comm, int world)
{
    return comm == 0 ? world : comm == 1 ? p2p_size - 1 - world : (world + 1) % p2p_size;
}

static int world_rank_of(int comm, int rank)
{
    return comm == 0 ? rank : comm == 1 ? p2p_size - 1 - rank : (rank + p2p_size - 1) % p2p_size;
}

static void make_comms(void)
{
    for (int i = 0; i < THREADS_MAX; i++) {
        CALL(hcomm_comm_dup(p2p_world, &options.comms[i][0]));
        CALL(hcomm_comm_split(p2p_world, 0, -p2p_rank, &options.comms[i][1]));
        CALL(hcomm_comm_split(p2p_world, 0, (p2p_rank + 1) % p2p_size, &options.comms[i][2]));
        for (int k = 0; k < COMMS; k++)
            CHECK(hcomm_comm_rank(options.comms[i][k]) == comm_rank_of(k, p2p_rank));
    }
}

static void free_comms(void)
{
    for (int i = 0; i < THREADS_MAX; i++)
        for (int k = 0; k < COMMS; k++)
            CALL(hcomm_comm_free(&options.comms[i][k]));
}

/* ---- sending: one step starts or finishes something ---- */

struct sender {
    struct plan *plan;
    unsigned state;
    int next[16]; /* per destination */
    int started;
    hcomm_request_t requests[16 * MESSAGES_MAX];
    unsigned char *bufs[16 * MESSAGES_MAX];
};

static int pick_destination(struct sender *sender)
{
    int first = (int)(check_random(&sender->state) % (unsigned)p2p_size);
    for (int i = 0; i < p2p_size; i++) {
        int to = (first + i) % p2p_size;
        if (sender->next[to] < sender->plan->counts[p2p_rank][to])
            return to;
    }
    return -1;
}

/* False: all are started. */
static bool send_next(struct sender *sender)
{
    int to = pick_destination(sender);
    if (to < 0)
        return false;
    int index = sender->next[to]++;
    const struct message *message = &sender->plan->messages[p2p_rank][to][index];
    hcomm_comm_t comm = options.comms[sender->plan->thread][message->comm];
    unsigned char *buf = p2p_room(message->size);
    hcomm_request_t *request = &sender->requests[sender->started];
    p2p_fill(buf, message->size, payload_seed(sender->plan, p2p_rank, to, index));
    unsigned call = check_random(&sender->state) % 4;
    int dest = comm_rank_of(message->comm, to);
    if (call == 0)
        MODEL(hcomm_issend(buf, message->size, dest, message->tag, comm, request) == HCOMM_OK);
    else
        MODEL(hcomm_isend(buf, message->size, dest, message->tag, comm, request) == HCOMM_OK);
    sender->bufs[sender->started++] = buf;
    return true;
}

static void finish_sends(struct sender *sender)
{
    MODEL(hcomm_waitall((size_t)sender->started, sender->requests, NULL) == HCOMM_OK);
    for (int i = 0; i < sender->started; i++)
        free(sender->bufs[i]);
}

/* ---- receiving ---- */

struct receiver {
    struct plan *plan;
    unsigned state;
    int left; /* messages to receive in all */
    struct open_recv open[OPEN_MAX];
    int num_open;
};

static bool takes(int comm, int source, int tag, const struct message *message, int from)
{
    return message->comm == comm && (source == HCOMM_ANY_SOURCE || world_rank_of(comm, source) == from) &&
           (tag == HCOMM_ANY_TAG || message->tag == tag);
}

/* The first message of a sender that a pattern takes and nobody has received; -1: none. */
static int first_match(const struct plan *plan, int comm, int source, int tag, int from)
{
    for (int i = 0; i < plan->counts[from][p2p_rank]; i++) {
        const struct message *message = &plan->messages[from][p2p_rank][i];
        if (!message->received && takes(comm, source, tag, message, from))
            return i;
    }
    return -1;
}

/* The received message is the one that the rules allow from its source. */
static void check_received(struct receiver *receiver, int comm, int source, int tag,
                           const hcomm_message_status_t *status, const unsigned char *buf)
{
    struct plan *plan = receiver->plan;
    MODEL(status->source >= 0 && status->source < p2p_size && status->error == HCOMM_OK);
    int from = world_rank_of(comm, status->source);
    int index = first_match(plan, comm, source, tag, from);
    MODEL(index >= 0);
    struct message *message = &plan->messages[from][p2p_rank][index];
    MODEL(status->tag == message->tag);
    MODEL(status->size == message->size);
    unsigned seed = payload_seed(plan, from, p2p_rank, index);
    for (size_t i = 0; i < message->size; i++)
        MODEL(buf[i] == p2p_byte(seed, i));
    message->received = true;
    receiver->left--;
}

/* A pattern derived from a message that is not received yet. */
static bool draw_pattern(struct receiver *receiver, struct open_recv *recv)
{
    const struct plan *plan = receiver->plan;
    int skip = (int)(check_random(&receiver->state) % (unsigned)receiver->left);
    for (int from = 0; from < p2p_size; from++) {
        for (int i = 0; i < plan->counts[from][p2p_rank]; i++) {
            const struct message *message = &plan->messages[from][p2p_rank][i];
            if (message->received || skip-- > 0)
                continue;
            recv->comm = message->comm;
            unsigned wild = check_random(&receiver->state) % 4;
            recv->source = wild & 1 ? HCOMM_ANY_SOURCE : comm_rank_of(recv->comm, from);
            recv->tag = wild & 2 ? HCOMM_ANY_TAG : message->tag;
            return true;
        }
    }
    return false;
}

/* Probe with the pattern, then receive what was found, by one of the three ways. */
static void receive_probed(struct receiver *receiver, const struct open_recv *want, unsigned way)
{
    hcomm_comm_t comm = options.comms[receiver->plan->thread][want->comm];
    hcomm_message_status_t probed, status;
    hcomm_message_t message = HCOMM_MESSAGE_NULL;
    hcomm_status_t found = way == 0 ? hcomm_iprobe(want->source, want->tag, comm, &probed)
                                    : hcomm_improbe(want->source, want->tag, comm, &message, &probed);
    if (found == HCOMM_AGAIN)
        return;
    MODEL(found == HCOMM_OK);
    unsigned char *buf = p2p_room(probed.size);
    if (way == 0)
        MODEL(hcomm_recv(buf, probed.size, probed.source, probed.tag, comm, &status) == HCOMM_OK);
    else
        MODEL(hcomm_mrecv(buf, probed.size, &message, &status) == HCOMM_OK);
    MODEL(status.size == probed.size && status.tag == probed.tag && status.source == probed.source);
    check_received(receiver, want->comm, want->source, want->tag, &status, buf);
    free(buf);
}

static void post(struct receiver *receiver, struct open_recv want)
{
    hcomm_comm_t comm = options.comms[receiver->plan->thread][want.comm];
    want.capacity = P2P_SIZE_MAX;
    want.buf = p2p_room(want.capacity);
    MODEL(hcomm_irecv(want.buf, want.capacity, want.source, want.tag, comm, &want.request) == HCOMM_OK);
    receiver->open[receiver->num_open++] = want;
}

/* Messages not received yet that a pattern takes. */
static int count_matches(const struct plan *plan, const struct open_recv *want)
{
    int count = 0;
    for (int from = 0; from < p2p_size; from++)
        for (int i = 0; i < plan->counts[from][p2p_rank]; i++)
            count += !plan->messages[from][p2p_rank][i].received &&
                     takes(want->comm, want->source, want->tag, &plan->messages[from][p2p_rank][i], from);
    return count;
}

/*
 * Open receives of one communicator all have the same pattern, and at least as many messages: then each is
 * certain to be satisfied, and they match in the order in which they were posted. Returns how many are open;
 * -1: not allowed.
 */
static int count_open(const struct receiver *receiver, const struct open_recv *want)
{
    int count = 0;
    for (int i = 0; i < receiver->num_open; i++) {
        const struct open_recv *open = &receiver->open[i];
        if (open->comm != want->comm)
            continue;
        if (open->source != want->source || open->tag != want->tag)
            return -1;
        count++;
    }
    return count < count_matches(receiver->plan, want) ? count : -1;
}

static bool receive_one_more(struct receiver *receiver)
{
    struct open_recv want = {0};
    if (receiver->left == 0 || receiver->num_open == OPEN_MAX || !draw_pattern(receiver, &want))
        return false;
    if (receiver->num_open && check_random(&receiver->state) % 2)
        want = receiver->open[check_random(&receiver->state) % (unsigned)receiver->num_open];
    int open = count_open(receiver, &want);
    unsigned way = check_random(&receiver->state) % 4;
    if (open < 0 || (open > 0 && way < 2))
        return false;
    if (way < 2)
        receive_probed(receiver, &want, way);
    else
        post(receiver, want);
    return true;
}

/* Whether an earlier receive of its communicator is still open: the model takes them in order. */
static bool has_earlier(const struct receiver *receiver, int index)
{
    for (int i = 0; i < index; i++)
        if (receiver->open[i].comm == receiver->open[index].comm)
            return true;
    return false;
}

static void close_recv(struct receiver *receiver, int index, const hcomm_message_status_t *status)
{
    struct open_recv *recv = &receiver->open[index];
    check_received(receiver, recv->comm, recv->source, recv->tag, status, recv->buf);
    free(recv->buf);
    receiver->num_open--;
    memmove(recv, recv + 1, (size_t)(receiver->num_open - index) * sizeof(*recv));
}

static bool complete_some(struct receiver *receiver)
{
    bool moved = false;
    for (int i = 0; i < receiver->num_open;) {
        hcomm_message_status_t status;
        hcomm_status_t outcome =
            has_earlier(receiver, i) ? HCOMM_IN_PROGRESS : hcomm_test(&receiver->open[i].request, &status);
        if (outcome == HCOMM_IN_PROGRESS) {
            i++;
            continue;
        }
        MODEL(outcome == HCOMM_OK);
        close_recv(receiver, i, &status);
        moved = true;
    }
    return moved;
}

/* Nothing moved: let others run, or wait, once all sends are started everywhere or will be. */
static void pause_or_wait(struct receiver *receiver, bool sending)
{
    hcomm_message_status_t status;
    if (sending || receiver->num_open == 0 || check_random(&receiver->state) % 4) {
        (void)sched_yield();
        return;
    }
    MODEL(hcomm_wait(&receiver->open[0].request, &status) == HCOMM_OK);
    close_recv(receiver, 0, &status);
}

/* ---- one pattern ---- */

static int expected_messages(const struct plan *plan)
{
    int sum = 0;
    for (int from = 0; from < p2p_size; from++)
        sum += plan->counts[from][p2p_rank];
    return sum;
}

static void run_pattern(unsigned seed, int thread)
{
    current_seed = seed;
    struct plan *plan = p2p_room(sizeof(*plan));
    struct sender *sender = calloc(1, sizeof(*sender));
    CHECK(sender);
    draw_plan(plan, seed, thread);
    sender->plan = plan;
    sender->state = seed * 31 + (unsigned)(p2p_rank * 97 + thread * 7 + 1);
    struct receiver receiver = {
        .plan = plan, .state = sender->state * 17 + 5, .left = expected_messages(plan)};
    bool sending = true;
    uint64_t start = (uint64_t)time(NULL);
    while (sending || receiver.left) {
        bool moved = false;
        if (sending && check_random(&receiver.state) % 3)
            moved = sending = send_next(sender);
        if (check_random(&receiver.state) % 2)
            moved = receive_one_more(&receiver) || moved;
        moved = complete_some(&receiver) || moved;
        if (!moved)
            pause_or_wait(&receiver, sending);
        MODEL((uint64_t)time(NULL) < start + 60);
    }
    MODEL(receiver.num_open == 0);
    finish_sends(sender);
    free(sender);
    free(plan);
}

static void *thread_body(void *arg)
{
    int thread = (int)(size_t)arg;
    run_pattern(options.seed, thread);
    return NULL;
}

/* Every third pattern runs on several threads, with a plan and communicators for each. */
static void run_seed(void)
{
    int threads = options.seed % 3 == 0 ? THREADS_MAX : 1;
    pthread_t others[THREADS_MAX];
    for (int i = 1; i < threads; i++)
        CHECK(pthread_create(&others[i], NULL, thread_body, (void *)(size_t)i) == 0);
    run_pattern(options.seed, 0);
    for (int i = 1; i < threads; i++)
        CHECK(pthread_join(others[i], NULL) == 0);
    /* no rank may be in the next pattern while another is in this one */
    CALL(hcomm_barrier(p2p_world));
    for (int i = 0; i < threads; i++)
        for (int k = 0; k < COMMS; k++)
            MODEL(hcomm_iprobe(HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, options.comms[i][k], NULL) == HCOMM_AGAIN);
    CALL(hcomm_barrier(p2p_world));
}

static void read_options(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "n:s:r:")) != -1;) {
        if (option == 'n')
            options.patterns = atol(optarg);
        else if (option == 's')
            options.seconds = atoi(optarg);
        else if (option == 'r')
            options.seed = (unsigned)strtoul(optarg, NULL, 10);
        else
            exit(2);
    }
}

/* Rank 0's clock decides for all. */
static bool go_on(long done, time_t end)
{
    int more = done < options.patterns && (options.seconds == 0 || time(NULL) < end);
    for (int rank = 1; rank < p2p_size && p2p_rank == 0; rank++)
        CALL(hcomm_send(&more, sizeof(more), rank, 1, p2p_world));
    if (p2p_rank > 0)
        CALL(hcomm_recv(&more, sizeof(more), 0, 1, p2p_world, NULL));
    return more;
}

int main(int argc, char **argv)
{
    enum { PATTERNS_PER_COMMS = 25 };
    read_options(argc, argv);
    check_init(NULL);
    p2p_world = hcomm_comm_world(check_handle);
    p2p_rank = hcomm_comm_rank(p2p_world);
    p2p_size = hcomm_comm_size(p2p_world);
    CHECK(p2p_size <= 16);
    long done = 0;
    time_t end = time(NULL) + options.seconds;
    make_comms();
    while (go_on(done, end)) {
        if (done % PATTERNS_PER_COMMS == PATTERNS_PER_COMMS - 1) {
            free_comms();
            make_comms();
        }
        run_seed();
        options.seed++;
        done++;
    }
    free_comms();
    if (p2p_rank == 0)
        printf("%ld patterns agree with the model (seeds up to %u)\n", done, options.seed - 1);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
