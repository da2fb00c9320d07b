/*
 * Ranks that wait for each other on one processor: they part when they may, without being bound afterwards,
 * and go on when they may not. Messages are right meanwhile.
 */
#include "check.h"

#include <sched.h>
#include <string.h>

enum { TURNS = 200, PARTING_TURNS = 20000, TAG = 3 };

static hcomm_comm_t world;
static int peer; /* HCOMM_RANK_NULL: none */
static int first;

struct turn {
    int number, cpu, apart;
};

static cpu_set_t allowed(void)
{
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    return set;
}

static int first_of(const cpu_set_t *set)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, set))
            return cpu;
    return 0;
}

static void run_on(const cpu_set_t *set)
{
    CHECK(sched_setaffinity(0, sizeof(*set), set) == 0);
}

static void run_on_one(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    run_on(&one);
}

/* There and back; the answer tells whether the two were on different processors. */
static int take_turn(int number)
{
    struct turn turn = {.number = number, .cpu = sched_getcpu()};
    if (first) {
        CALL(hcomm_send(&turn, sizeof(turn), peer, TAG, world));
        CALL(hcomm_recv(&turn, sizeof(turn), peer, TAG, world, NULL));
    } else {
        CALL(hcomm_recv(&turn, sizeof(turn), peer, TAG, world, NULL));
        turn.apart = turn.cpu != sched_getcpu();
        CALL(hcomm_send(&turn, sizeof(turn), peer, TAG, world));
    }
    CHECK(turn.number == number);
    return turn.apart;
}

/* All begin on one processor; with turns for each pair at once. */
static void part(const cpu_set_t *set)
{
    int turns = 0, parted = 0;
    run_on_one(first_of(set));
    CALL(hcomm_barrier(world));
    run_on(set);
    while (peer >= 0 && !parted && turns < PARTING_TURNS)
        parted = take_turn(turns++);
    CHECK(peer < 0 || parted || CPU_COUNT(set) == 1);
    cpu_set_t after = allowed();
    CHECK(CPU_EQUAL(set, &after));
    for (int i = 0; peer >= 0 && i < TURNS; i++)
        (void)take_turn(i);
    CALL(hcomm_barrier(world));
}

/* Bound to one processor by somebody else: they stay. */
static void share(const cpu_set_t *set)
{
    uint64_t before = 0, after = 0;
    CALL(hcomm_counter_get(check_handle, "moves", &before));
    run_on_one(first_of(set));
    CALL(hcomm_barrier(world));
    for (int i = 0; peer >= 0 && i < TURNS; i++)
        (void)take_turn(i);
    CALL(hcomm_barrier(world));
    CALL(hcomm_counter_get(check_handle, "moves", &after));
    cpu_set_t one = allowed();
    CHECK(before == after && CPU_COUNT(&one) == 1 && sched_getcpu() == first_of(set));
    run_on(set);
}

/* Every rank sends to every other, and receives in the order of ranks, or whatever comes. */
static void exchange(int source)
{
    int rank = hcomm_rank(check_handle), size = hcomm_size(check_handle), got = 0;
    for (int i = 0; i < size; i++)
        if (i != rank)
            CALL(hcomm_send(&rank, sizeof(rank), i, TAG, world));
    for (int i = 0; i < size; i++) {
        if (i == rank)
            continue;
        hcomm_message_status_t status;
        CALL(hcomm_recv(&got, sizeof(got), source == HCOMM_ANY_SOURCE ? source : i, TAG, world, &status));
        CHECK(got == status.source);
    }
    CALL(hcomm_barrier(world));
}

int main(void)
{
    check_init(NULL);
    world = hcomm_comm_world(check_handle);
    int rank = hcomm_rank(check_handle), half = hcomm_size(check_handle) / 2;
    cpu_set_t set = allowed();
    first = rank < half;
    peer = rank < half ? rank + half : rank < 2 * half ? rank - half : HCOMM_RANK_NULL;
    part(&set);
    for (int i = 0; i < 10; i++)
        exchange(i % 2 ? HCOMM_ANY_SOURCE : 0);
    share(&set);
    CALL(hcomm_finalize(check_handle));
    return 0;
}
