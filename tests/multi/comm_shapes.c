/*
 * dup, split, create, split_by_locality, translate: members and order are those the description says, for
 * many shapes; every new communicator has a message space of its own and an id that no other ever had.
 */
#include "tests/multi/check.h"

#include "runtime/core/core.h"

#include <string.h>

enum { IDS_MAX = 65536, SHAPES = 40 };

static uint64_t ids[IDS_MAX];
static size_t num_ids;
static hcomm_comm_t world;
static int rank, size;

/* Everybody's value, by world rank, through the runtime's public messages. */
static void gather(hcomm_comm_t comm, const void *own, size_t bytes, void *all)
{
    int me = hcomm_comm_rank(comm), n = hcomm_comm_size(comm);
    char *slots = all;
    (void)memcpy(slots + (size_t)me * bytes, own, bytes);
    for (int i = 1; i < n; i++) {
        int to = (me + i) % n, from = (me - i + n) % n;
        CALL(hcomm_sendrecv(own, bytes, to, 7, slots + (size_t)from * bytes, bytes, from, 7, comm, NULL));
    }
}

static void remember_id(hcomm_comm_t comm)
{
    for (size_t i = 0; i < num_ids; i++)
        CHECK(ids[i] != comm->id);
    CHECK(num_ids < IDS_MAX);
    ids[num_ids++] = comm->id;
}

/* The members are these world ranks, in this order, and agree on the id; messages of comm and world do not
 * mix. */
static void check_members(hcomm_comm_t comm, const int *expected, int n)
{
    CHECK(comm != HCOMM_COMM_NULL);
    CHECK(hcomm_comm_size(comm) == n);
    CHECK(hcomm_comm_context(comm) == check_handle);
    int me = hcomm_comm_rank(comm);
    CHECK(me >= 0 && me < n && expected[me] == rank);
    int *mine = malloc((size_t)n * sizeof(int)), *there = malloc((size_t)n * sizeof(int));
    CHECK(mine && there);
    for (int i = 0; i < n; i++)
        mine[i] = i;
    CALL(hcomm_comm_translate(comm, mine, n, world, there));
    CHECK(memcmp(there, expected, (size_t)n * sizeof(int)) == 0);
    CALL(hcomm_comm_translate(world, expected, n, comm, there));
    CHECK(memcmp(there, mine, (size_t)n * sizeof(int)) == 0);
    uint64_t *all = malloc((size_t)n * sizeof(uint64_t));
    CHECK(all);
    gather(comm, &comm->id, sizeof(uint64_t), all);
    for (int i = 0; i < n; i++)
        CHECK(all[i] == comm->id);
    remember_id(comm);
    int *ranks = malloc((size_t)n * sizeof(int));
    CHECK(ranks);
    gather(comm, &rank, sizeof(int), ranks);
    CHECK(memcmp(ranks, expected, (size_t)n * sizeof(int)) == 0);
    free(ranks);
    free(all);
    free(there);
    free(mine);
}

static void free_comm(hcomm_comm_t *comm)
{
    CALL(hcomm_comm_free(comm));
    CHECK(*comm == HCOMM_COMM_NULL);
}

/* ---- a model of split: sort the members of one color by key, then rank ---- */

struct choice {
    int color, key;
};

static int model_split(const struct choice *choices, int color, int *members)
{
    int n = 0;
    for (int r = 0; r < size; r++) {
        if (choices[r].color != color)
            continue;
        int at = n++;
        for (; at > 0 && choices[members[at - 1]].key > choices[r].key; at--)
            members[at] = members[at - 1];
        members[at] = r;
    }
    return n;
}

static void split_sorts_by_key_then_rank(unsigned seed)
{
    struct choice *choices = malloc((size_t)size * sizeof(*choices));
    int *members = malloc((size_t)size * sizeof(int));
    CHECK(choices && members);
    unsigned colors = 1 + check_random(&seed) % 4, keys = 1 + check_random(&seed) % 5;
    for (int r = 0; r < size; r++) {
        unsigned color = check_random(&seed) % (colors + 1);
        choices[r].color = color == colors ? HCOMM_UNDEFINED : (int)(color * 1000003u);
        choices[r].key = (int)(check_random(&seed) % keys) - 2;
    }
    hcomm_comm_t comm = world;
    CALL(hcomm_comm_split(world, choices[rank].color, choices[rank].key, &comm));
    if (choices[rank].color == HCOMM_UNDEFINED) {
        CHECK(comm == HCOMM_COMM_NULL);
    } else {
        int n = model_split(choices, choices[rank].color, members);
        check_members(comm, members, n);
        CALL(hcomm_barrier(comm));
        free_comm(&comm);
    }
    free(members);
    free(choices);
}

static void split_of_a_split(void)
{
    hcomm_comm_t half = NULL, quarter = NULL;
    CALL(hcomm_comm_split(world, rank % 2, -rank, &half));
    CALL(hcomm_comm_split(half, hcomm_comm_rank(half) % 2, 0, &quarter));
    int mine[1] = {hcomm_comm_rank(quarter)}, there[1];
    CALL(hcomm_comm_translate(quarter, mine, 1, half, there));
    CHECK(there[0] == hcomm_comm_rank(half));
    for (int r = 0; r < size; r++) {
        int found = 0;
        CALL(hcomm_comm_translate(world, &r, 1, quarter, &found));
        if (r % 2 != rank % 2)
            CHECK(found == HCOMM_UNDEFINED);
    }
    remember_id(half);
    remember_id(quarter);
    free_comm(&half);
    free_comm(&quarter);
}

static void dup_keeps_members_and_separates_messages(void)
{
    int *everybody = malloc((size_t)size * sizeof(int));
    CHECK(everybody);
    for (int r = 0; r < size; r++)
        everybody[r] = r;
    hcomm_comm_t dup = NULL;
    CALL(hcomm_comm_dup(world, &dup));
    check_members(dup, everybody, size);
    /* The same tag on both: each receive gets the message of its own communicator. */
    int to = (rank + 1) % size, from = (rank + size - 1) % size, one = 1, two = 2, got = 0;
    hcomm_request_t requests[2];
    CALL(hcomm_isend(&one, sizeof(one), to, 3, world, &requests[0]));
    CALL(hcomm_isend(&two, sizeof(two), to, 3, dup, &requests[1]));
    CALL(hcomm_recv(&got, sizeof(got), from, 3, dup, NULL));
    CHECK(got == 2);
    CALL(hcomm_recv(&got, sizeof(got), HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, world, NULL));
    CHECK(got == 1);
    CALL(hcomm_waitall(2, requests, NULL));
    free_comm(&dup);
    free(everybody);
}

static void create_takes_the_listed_order(unsigned seed)
{
    int *list = malloc((size_t)size * sizeof(int));
    CHECK(list);
    int n = 0;
    for (int r = 0; r < size; r++)
        if (check_random(&seed) % 3)
            list[n++] = r;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(check_random(&seed) % (unsigned)(i + 1)), swap = list[i];
        list[i] = list[j];
        list[j] = swap;
    }
    bool listed = false;
    for (int i = 0; i < n; i++)
        listed = listed || list[i] == rank;
    /* Twice, as the second must not take anything of the first. */
    for (int i = 0; listed && i < 2; i++) {
        hcomm_comm_t comm = NULL;
        CALL(hcomm_comm_create(world, list, n, &comm));
        check_members(comm, list, n);
        CALL(hcomm_barrier(comm));
        free_comm(&comm);
    }
    free(list);
}

static void locality_groups_are_subsets(void)
{
    hcomm_comm_t host = NULL;
    CALL(hcomm_comm_split_by_locality(world, HCOMM_LOCALITY_HOST, 0, &host));
    const hcomm_topology_t *topology = NULL;
    CALL(hcomm_get_topology(check_handle, &topology));
    check_members(host, topology->local_ranks, topology->num_local);
    for (int level = HCOMM_LOCALITY_SOCKET; level <= HCOMM_LOCALITY_CORE; level++) {
        hcomm_comm_t comm = NULL;
        CALL(hcomm_comm_split_by_locality(world, (hcomm_locality_t)level, -rank, &comm));
        int n = hcomm_comm_size(comm);
        CHECK(n >= 1 && n <= topology->num_local);
        int previous = size;
        for (int i = 0; i < n; i++) {
            int there = -1;
            CALL(hcomm_comm_translate(comm, &i, 1, world, &there));
            CHECK(there < previous && topology->ranks[there].host == topology->ranks[rank].host);
            previous = there;
        }
        remember_id(comm);
        free_comm(&comm);
    }
    free_comm(&host);
}

static void names_are_kept_and_cut(void)
{
    char name[HCOMM_COMM_NAME_MAX], wide[2 * HCOMM_COMM_NAME_MAX];
    CALL(hcomm_comm_get_name(world, name));
    CHECK(strcmp(name, "world") == 0);
    (void)memset(wide, 'x', sizeof(wide));
    wide[sizeof(wide) - 1] = 0;
    hcomm_comm_t dup = NULL;
    CALL(hcomm_comm_dup(world, &dup));
    CALL(hcomm_comm_set_name(dup, wide));
    CALL(hcomm_comm_get_name(dup, name));
    CHECK(strlen(name) == HCOMM_COMM_NAME_MAX - 1);
    free_comm(&dup);
}

static void bad_arguments_are_refused(void)
{
    hcomm_comm_t out = world, self = hcomm_comm_self(check_handle);
    int others[2] = {rank, rank}, beyond = size, got;
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_dup(NULL, &out));
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_dup(world, NULL));
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_split(world, -7, 0, &out));
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_split_by_locality(world, (hcomm_locality_t)17, 0, &out));
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_create(world, NULL, 1, &out));
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_create(world, others, 0, &out));
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_create(world, &beyond, 1, &out));
    if (size > 1) {
        int other = (rank + 1) % size;
        EXPECT(HCOMM_ERR_INVALID, hcomm_comm_create(world, others, 2, &out));
        EXPECT(HCOMM_ERR_INVALID, hcomm_comm_create(world, &other, 1, &out));
        CHECK(strstr(hcomm_error_detail(), "not among"));
    }
    CHECK(out == world);
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_free(&out));
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_free(&self));
    EXPECT(HCOMM_ERR_INVALID, hcomm_comm_translate(world, &beyond, 1, self, &got));
    int null_rank = HCOMM_RANK_NULL;
    CALL(hcomm_comm_translate(world, &null_rank, 1, self, &got));
    CHECK(got == HCOMM_RANK_NULL);
    out = HCOMM_COMM_NULL;
    CALL(hcomm_comm_free(&out));
}

static void free_waits_for_operations(void)
{
    hcomm_comm_t dup = NULL;
    CALL(hcomm_comm_dup(world, &dup));
    hcomm_request_t request = HCOMM_REQUEST_NULL;
    int value = 0;
    CALL(hcomm_irecv(&value, sizeof(value), rank, 5, dup, &request));
    hcomm_comm_t copy = dup;
    EXPECT(HCOMM_ERR_PENDING, hcomm_comm_free(&copy));
    CHECK(copy == dup);
    CALL(hcomm_send(&rank, sizeof(rank), rank, 5, dup));
    CALL(hcomm_wait(&request, NULL));
    CHECK(value == rank);
    /* A message nobody received goes with its communicator. */
    CALL(hcomm_send(&rank, sizeof(rank), rank, 6, dup));
    free_comm(&dup);
}

int main(void)
{
    check_init(NULL);
    world = hcomm_comm_world(check_handle);
    rank = hcomm_rank(check_handle);
    size = hcomm_size(check_handle);
    for (unsigned i = 0; i < SHAPES; i++) {
        split_sorts_by_key_then_rank(12345 + i * 7919);
        create_takes_the_listed_order(54321 + i * 104729);
    }
    split_of_a_split();
    dup_keeps_members_and_separates_messages();
    locality_groups_are_subsets();
    names_are_kept_and_cut();
    bad_arguments_are_refused();
    free_waits_for_operations();
    CALL(hcomm_barrier(world));
    CALL(hcomm_finalize(check_handle));
    return 0;
}
