/*
 * Random operations on many streams against a model. All ranks draw the same sequence of operations; each
 * enqueues its part, and carries all of it out one after the other in a model. What streams have in memory at
 * the end must be what the model has. Whatever an operation needs comes before it in the sequence, so nothing
 * can deadlock if streams, events and groups do what they promise.
 *
 *     streams_model [OPERATIONS per stream [SEED]]
 */
#include "tests/multi/streams_cases.h"

#include <stdint.h>

enum { STREAMS = 16, RANKS_MAX = 4, EVENTS = 5, LARGE = 16384, SMALL = 512, COMMS = 4, SPARE = 50 };

struct lane {
    hcomm_stream_t stream;
    uint32_t *value, *spare; /* host memory that the device reaches */
    uint32_t *device;        /* NULL without one */
    int operations;
};

/* What a host function is told. */
struct step {
    uint32_t *value;
    unsigned words, salt;
};

static struct lane lanes[STREAMS];
static uint32_t *model[RANKS_MAX][STREAMS];
static hcomm_event_t events[EVENTS];
static hcomm_comm_t comms[COMMS];
static struct step *steps;
static unsigned state, own_state, num_steps; /* own_state: draws that need not be the others' */

static unsigned draw(unsigned below)
{
    return check_random(&state) % below;
}

static unsigned words_of(unsigned lane)
{
    return lane % 4 == 0 ? LARGE : SMALL;
}

static size_t bytes_of(unsigned lane)
{
    return words_of(lane) * sizeof(uint32_t);
}

static void compute(uint32_t *value, unsigned words, unsigned salt)
{
    for (unsigned i = 0; i < words; i++)
        value[i] = value[i] * 1664525 + salt + i;
}

static void run_step(void *arg)
{
    const struct step *step = arg;
    compute(step->value, step->words, step->salt);
}

static void launch(unsigned lane, unsigned words, unsigned salt)
{
    struct step *step = &steps[num_steps++];
    *step = (struct step){lanes[lane].value, words, salt};
    CALL(hcomm_launch_host(lanes[lane].stream, run_step, step));
    lanes[lane].operations++;
}

/* ---- kinds of operations; `who` is the rank ---- */

static void function(int who, unsigned lane)
{
    unsigned salt = draw(1000000), part = words_of(lane) / 16;
    compute(model[who][lane], part, salt);
    if (who == rank)
        launch(lane, part, salt);
}

/* `later` does nothing more before `earlier` has done what it was told so far. */
static void order(unsigned earlier, unsigned later)
{
    hcomm_event_t event = events[check_random(&own_state) % EVENTS]; /* any: recorded anew all the time */
    CALL(hcomm_event_record(event, lanes[earlier].stream));
    CALL(hcomm_stream_wait_event(lanes[later].stream, event));
    lanes[earlier].operations++;
    lanes[later].operations++;
}

static void copy_between_streams(int who, unsigned from, unsigned to)
{
    size_t bytes = bytes_of(from) < bytes_of(to) ? bytes_of(from) : bytes_of(to);
    if (from == to)
        return;
    memcpy(model[who][to], model[who][from], bytes);
    if (who != rank)
        return;
    order(from, to);
    CALL(hcomm_memcpy_async(lanes[to].value, lanes[from].value, bytes, HCOMM_COPY_AUTO, lanes[to].stream));
    order(to, from);
}

/* By way of the spare, or of the device. */
static void copy_there_and_back(int who, unsigned lane)
{
    if (who != rank)
        return;
    struct lane *own = &lanes[lane];
    uint32_t *middle = own->device ? own->device : own->spare;
    CALL(hcomm_memcpy_async(middle, own->value, bytes_of(lane), HCOMM_COPY_AUTO, own->stream));
    launch(lane, 64, 7); /* undone by the copy back */
    CALL(hcomm_memcpy_async(own->value, middle, bytes_of(lane), HCOMM_COPY_AUTO, own->stream));
    own->operations += 2;
}

static void message(int who, unsigned lane, int whom, unsigned their_lane, int number)
{
    size_t bytes = bytes_of(lane) < bytes_of(their_lane) ? bytes_of(lane) : bytes_of(their_lane);
    if (who == whom && lane == their_lane)
        return;
    memcpy(model[whom][their_lane], model[who][lane], bytes);
    if (who == rank) {
        CALL(hcomm_send_on(lanes[lane].value, bytes, whom, number, world, lanes[lane].stream));
        lanes[lane].operations++;
    }
    if (whom == rank) {
        CALL(hcomm_recv_on(lanes[their_lane].value, bytes, who, number, world, NULL,
                           lanes[their_lane].stream));
        lanes[their_lane].operations++;
    }
}

static void exchange_side(int who, unsigned lane, int whom, size_t bytes, int number)
{
    struct lane *own = &lanes[lane];
    if (who != rank)
        return;
    CALL(hcomm_sendrecv_on(own->value, bytes, whom, number, own->spare, bytes, whom, number, world, NULL,
                           own->stream));
    CALL(hcomm_memcpy_async(own->value, own->spare, bytes, HCOMM_COPY_AUTO, own->stream));
    own->operations += 2;
}

static void exchange(int who, unsigned lane, int whom, unsigned their_lane, int number)
{
    size_t bytes = bytes_of(lane) < bytes_of(their_lane) ? bytes_of(lane) : bytes_of(their_lane);
    if (who == whom)
        return;
    for (size_t i = 0; i < bytes / sizeof(uint32_t); i++) {
        uint32_t value = model[who][lane][i];
        model[who][lane][i] = model[whom][their_lane][i];
        model[whom][their_lane][i] = value;
    }
    exchange_side(who, lane, whom, bytes, number);
    exchange_side(whom, their_lane, who, bytes, number);
}

/* Each passes a value on to the next; ranks list the two sides in different orders, on one stream or two. */
static void shift_in_group(unsigned lane)
{
    unsigned into = (lane + 4) % STREAMS; /* of equal size */
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    static uint32_t saved[RANKS_MAX][LARGE];
    for (int i = 0; i < size; i++)
        memcpy(saved[i], model[i][lane], bytes_of(lane));
    for (int i = 0; i < size; i++)
        memcpy(model[(i + 1) % size][into], saved[i], bytes_of(lane));
    CALL(hcomm_group_start());
    for (int side = 0; side < 2; side++)
        if ((side + rank) % 2)
            CALL(hcomm_send_on(lanes[lane].value, bytes_of(lane), right, (int)lane, comms[lane % COMMS],
                               lanes[lane].stream));
        else
            CALL(hcomm_recv_on(lanes[into].value, bytes_of(lane), left, (int)lane, comms[lane % COMMS], NULL,
                               lanes[into].stream));
    CALL(hcomm_group_end());
    lanes[lane].operations++;
    lanes[into].operations++;
}

static void barrier(unsigned lane)
{
    CALL(hcomm_barrier_on(comms[lane % COMMS], lanes[lane % COMMS].stream));
    lanes[lane % COMMS].operations++;
}

/* One operation of the sequence; the draws are the same on all ranks. */
static void next_operation(int number)
{
    unsigned kind = draw(100), lane = draw(STREAMS), other = draw(STREAMS);
    int who = (int)draw((unsigned)size), whom = (int)draw((unsigned)size);
    if (kind < 30)
        function(who, lane);
    else if (kind < 45)
        copy_between_streams(who, lane, other);
    else if (kind < 50)
        copy_there_and_back(who, lane);
    else if (kind < 75)
        message(who, lane, whom, other, number);
    else if (kind < 90)
        exchange(who, lane, whom, other, number);
    else if (kind < 95)
        shift_in_group(lane);
    else if (kind < 97)
        barrier(lane);
    else if (who == rank)
        CHECK(hcomm_stream_query(lanes[lane].stream) >= 0);
}

static void create(void)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        CALL(hcomm_stream_create(check_handle, (int)i % 2, &lanes[i].stream));
        lanes[i].value = streams_pinned(bytes_of(i));
        lanes[i].spare = streams_pinned(bytes_of(i));
        if (acl)
            CALL(hcomm_mem_alloc(check_handle, bytes_of(i), HCOMM_MEMORY_DEVICE, (void **)&lanes[i].device));
        for (int who = 0; who < size; who++) {
            CHECK((model[who][i] = malloc(bytes_of(i))));
            for (unsigned k = 0; k < words_of(i); k++)
                model[who][i][k] = (unsigned)who * 1000000 + i * 10000 + k;
        }
        memcpy(lanes[i].value, model[rank][i], bytes_of(i));
    }
    for (int i = 0; i < EVENTS; i++)
        CALL(hcomm_event_create(check_handle, &events[i]));
    for (int i = 0; i < COMMS; i++)
        CALL(hcomm_comm_dup(world, &comms[i]));
}

static void compare(void)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        CALL(hcomm_stream_synchronize(lanes[i].stream));
        for (unsigned k = 0; k < words_of(i); k++)
            if (lanes[i].value[k] != model[rank][i][k]) {
                fprintf(stderr, "rank %d, stream %u, word %u: %u, the model has %u\n", rank, i, k,
                        lanes[i].value[k], model[rank][i][k]);
                hcomm_abort(check_handle, 1);
            }
    }
}

static int fewest(void)
{
    int least = lanes[0].operations;
    for (int i = 1; i < STREAMS; i++)
        least = lanes[i].operations < least ? lanes[i].operations : least;
    return least;
}

int main(int argc, char **argv)
{
    int wanted = argc > 1 ? atoi(argv[1]) : 1000, number = 0;
    streams_init(30000);
    CHECK(size <= RANKS_MAX);
    state = argc > 2 ? (unsigned)atoi(argv[2]) : 12345;
    own_state = (unsigned)rank + 1;
    CHECK((steps = malloc((size_t)(wanted + SPARE) * 1000 * sizeof(*steps))));
    create();
    /* a number of operations that gives each stream of each rank as many as wanted, nearly surely; SPARE is
     * for what chance takes from some of them */
    for (int total = (wanted + SPARE) * STREAMS * size / 2; number < total; number++)
        next_operation(number);
    compare();
    printf("rank %d: %d operations drawn, at least %d on each of %d streams\n", rank, number, fewest(),
           STREAMS);
    CHECK(fewest() >= wanted);
    for (int i = 0; i < COMMS; i++)
        CALL(hcomm_comm_free(&comms[i]));
    CALL(hcomm_finalize(check_handle));
    return 0;
}
