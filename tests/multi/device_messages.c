/*
 * Messages from and to memory of all kinds. Rank r has the visible device r, or with TEST_DEVICES=same all
 * have device 0, or with TEST_DEVICES=even only even ranks have one. Expected bytes are a pattern; they are
 * looked at in host memory.
 */
#include "tests/multi/p2p_cases.h"

enum { TAG = 3, KIB = 1024, MIB = 1024 * KIB, GUARD = 64 };

static bool have_device;

static const hcomm_memory_type_t all_types[] = {HCOMM_MEMORY_HOST, HCOMM_MEMORY_HOST_PINNED,
                                                HCOMM_MEMORY_DEVICE, HCOMM_MEMORY_SHARED};
enum { TYPES = sizeof(all_types) / sizeof(all_types[0]) };

static char *bounce; /* host memory that device memory is filled from and looked at in */

/* Rank r's memory of a type; ranks without a device have host memory instead. */
static char *memory(hcomm_memory_type_t type, size_t size)
{
    void *ptr = NULL;
    if (type == HCOMM_MEMORY_DEVICE && !have_device)
        type = HCOMM_MEMORY_HOST;
    CALL(hcomm_mem_alloc(check_handle, size + 2 * GUARD, type, &ptr));
    CALL(hcomm_memset(check_handle, ptr, 0xa5, size + 2 * GUARD));
    return (char *)ptr + GUARD;
}

static void give_back(char *memory)
{
    CALL(hcomm_mem_free(check_handle, memory - GUARD));
}

static void put_pattern(char *memory, size_t size, unsigned seed)
{
    p2p_fill(bounce, size, seed);
    CALL(hcomm_memcpy(check_handle, memory, bounce, size, HCOMM_COPY_AUTO));
}

static void check_pattern(const char *file, int line, const char *memory, size_t size, unsigned seed)
{
    CALL(hcomm_memcpy(check_handle, bounce, memory - GUARD, size + 2 * GUARD, HCOMM_COPY_AUTO));
    p2p_verify(file, line, bounce + GUARD, size, seed);
    for (size_t i = 0; i < GUARD; i++)
        CHECK(bounce[i] == (char)0xa5 && bounce[GUARD + size + i] == (char)0xa5);
}
#define HOLDS(memory, size, seed) check_pattern(__FILE__, __LINE__, (memory), (size), (seed))

static int next(void)
{
    return (p2p_rank + 1) % p2p_size;
}

static int previous(void)
{
    return (p2p_rank + p2p_size - 1) % p2p_size;
}

/* Around the ring, everybody at once. */
static void ring(char *from, char *to, size_t size, unsigned seed)
{
    hcomm_message_status_t status;
    hcomm_request_t requests[2];
    hcomm_message_status_t both[2];
    put_pattern(from, size, seed + (unsigned)p2p_rank);
    CALL(hcomm_memset(check_handle, to, 0xa5, size));
    if (seed % 2) { /* the receive may come first or last */
        CALL(hcomm_isend(from, size, next(), TAG, p2p_world, &requests[1]));
        CALL(hcomm_recv(to, size, previous(), TAG, p2p_world, &status));
        CALL(hcomm_wait(&requests[1], NULL));
    } else {
        CALL(hcomm_irecv(to, size, previous(), TAG, p2p_world, &requests[0]));
        CALL(hcomm_isend(from, size, next(), TAG, p2p_world, &requests[1]));
        CALL(hcomm_waitall(2, requests, both));
        status = both[0];
    }
    p2p_check_status(&status, previous(), TAG, size, HCOMM_OK);
    CHECK(size == 0 || to);
    HOLDS(to, size, seed + (unsigned)previous());
}

static void every_kind_of_memory_reaches_every_other_at_all_sizes(void)
{
    for (int i = 0; i < TYPES; i++)
        for (int j = 0; j < TYPES; j++)
            for (int s = 0; s < P2P_SIZES; s++) {
                char *from = memory(all_types[i], p2p_sizes[s]), *to = memory(all_types[j], p2p_sizes[s]);
                ring(from, to, p2p_sizes[s], (unsigned)(i + j + s));
                give_back(from);
                give_back(to);
            }
}

static void ranks_mix_kinds_and_odd_addresses(void)
{
    char *from = memory(HCOMM_MEMORY_DEVICE, 3 * MIB), *to = memory(HCOMM_MEMORY_DEVICE, 3 * MIB);
    char *host = memory(HCOMM_MEMORY_HOST, 3 * MIB);
    unsigned state = 12345;
    for (int i = 0; i < 60; i++) {
        size_t offset = check_random(&state) % 1000, size = check_random(&state) % (i % 4 ? 100000 : 2 * MIB);
        bool send_host = (check_random(&state) + (unsigned)p2p_rank) % 3 == 0;
        bool recv_host = (check_random(&state) + (unsigned)p2p_rank) % 3 == 1;
        char *source = (send_host ? host : from) + offset, *dest = to + (recv_host ? 1 : offset / 2);
        hcomm_request_t request;
        put_pattern(source, size, (unsigned)i + (unsigned)p2p_rank * 7);
        CALL(hcomm_isend(source, size, next(), TAG + i, p2p_world, &request));
        CALL(hcomm_recv(dest, size + 10, HCOMM_ANY_SOURCE, TAG + i, p2p_world, NULL));
        CALL(hcomm_wait(&request, NULL));
        CALL(hcomm_memcpy(check_handle, bounce, dest, size, HCOMM_COPY_AUTO));
        VERIFY(bounce, size, (unsigned)i + (unsigned)previous() * 7);
    }
    give_back(from);
    give_back(to);
    give_back(host);
}

static void many_messages_are_under_way_at_once(void)
{
    enum { COUNT = 40, SIZE = 700 * KIB };
    char *from = memory(HCOMM_MEMORY_DEVICE, SIZE), *to[COUNT];
    hcomm_request_t sends[COUNT], recvs[COUNT];
    put_pattern(from, SIZE, 77);
    CALL(hcomm_barrier(p2p_world));
    for (int i = 0; i < COUNT; i++) {
        to[i] = memory(i % 5 ? HCOMM_MEMORY_DEVICE : HCOMM_MEMORY_HOST, SIZE);
        CALL(hcomm_irecv(to[i], SIZE, previous(), i, p2p_world, &recvs[i]));
        CALL(hcomm_isend(from, SIZE - (size_t)i, next(), i, p2p_world, &sends[i]));
    }
    CALL(hcomm_waitall(COUNT, recvs, NULL));
    CALL(hcomm_waitall(COUNT, sends, NULL));
    for (int i = 0; i < COUNT; i++) {
        CALL(hcomm_memcpy(check_handle, bounce, to[i], SIZE, HCOMM_COPY_AUTO));
        VERIFY(bounce, SIZE - (size_t)i, 77);
        give_back(to[i]);
    }
    give_back(from);
}

static void message_to_oneself_goes_between_all_kinds(void)
{
    static const size_t sizes[] = {1, 5000, 17000, 65536, 300001, 2 * MIB};
    for (int i = 0; i < TYPES; i++)
        for (int j = 0; j < TYPES; j++)
            for (unsigned s = 0; s < 6; s++) {
                char *from = memory(all_types[i], sizes[s]), *to = memory(all_types[j], sizes[s]);
                hcomm_comm_t self = hcomm_comm_self(check_handle);
                put_pattern(from, sizes[s], s);
                CALL(hcomm_sendrecv(from, sizes[s], 0, TAG, to, sizes[s], 0, TAG, self, NULL));
                HOLDS(to, sizes[s], s);
                give_back(from);
                give_back(to);
            }
}

static void long_message_fills_its_device_buffer_and_no_more(void)
{
    static const size_t sizes[] = {100, 10000, 20000, 100000, 900000};
    for (unsigned s = 0; s < 5; s++) {
        char *from = memory(HCOMM_MEMORY_DEVICE, sizes[s]), *to = memory(HCOMM_MEMORY_DEVICE, sizes[s] / 2);
        hcomm_request_t request;
        hcomm_message_status_t status;
        put_pattern(from, sizes[s], s);
        CALL(hcomm_isend(from, sizes[s], next(), TAG, p2p_world, &request));
        EXPECT(HCOMM_ERR_TRUNCATED, hcomm_recv(to, sizes[s] / 2, previous(), TAG, p2p_world, &status));
        p2p_check_status(&status, previous(), TAG, sizes[s], HCOMM_ERR_TRUNCATED);
        CALL(hcomm_wait(&request, NULL));
        HOLDS(to, sizes[s] / 2, s);
        give_back(from);
        give_back(to);
    }
}

static void synchronous_and_probed_messages_reach_device_memory(void)
{
    static const size_t sizes[] = {200, 12000, 50000, 400000};
    for (unsigned s = 0; s < 4; s++) {
        char *from = memory(HCOMM_MEMORY_DEVICE, sizes[s]), *to = memory(HCOMM_MEMORY_DEVICE, sizes[s]);
        hcomm_request_t request;
        hcomm_message_t message;
        hcomm_message_status_t status;
        put_pattern(from, sizes[s], s);
        CALL(hcomm_issend(from, sizes[s], next(), TAG, p2p_world, &request));
        CALL(hcomm_mprobe(previous(), TAG, p2p_world, &message, &status));
        CHECK(status.size == sizes[s]);
        CALL(hcomm_mrecv(to, sizes[s], &message, &status));
        CALL(hcomm_wait(&request, NULL));
        HOLDS(to, sizes[s], s);
        give_back(from);
        give_back(to);
    }
}

static void cancelled_receive_leaves_its_device_buffer_alone(void)
{
    char *from = memory(HCOMM_MEMORY_DEVICE, 200000), *to = memory(HCOMM_MEMORY_DEVICE, 200000);
    hcomm_request_t request;
    hcomm_message_status_t status;
    put_pattern(to, 200000, 5);
    CALL(hcomm_irecv(to, 200000, previous(), TAG, p2p_world, &request));
    CALL(hcomm_cancel(request));
    EXPECT(HCOMM_ERR_CANCELLED, hcomm_wait(&request, &status));
    CHECK(status.cancelled);
    HOLDS(to, 200000, 5);
    CALL(hcomm_barrier(p2p_world));
    ring(from, to, 200000, 8);
    give_back(from);
    give_back(to);
}

static void expect_refused(hcomm_status_t status, const char *word)
{
    CHECK(status == HCOMM_ERR_INVALID);
    if (!strstr(hcomm_error_detail(), word) || !strstr(hcomm_error_detail(), "device"))
        check_failed(__FILE__, __LINE__, word, status);
}

static void freed_and_too_short_device_memory_is_refused_and_harms_nobody(void)
{
    char *from = memory(HCOMM_MEMORY_DEVICE, 1000), *to = memory(HCOMM_MEMORY_DEVICE, 1000);
    hcomm_request_t request;
    if (have_device) {
        expect_refused(hcomm_isend(from, 5000, next(), TAG, p2p_world, &request), "past");
        expect_refused(hcomm_recv(to, 5000, previous(), TAG, p2p_world, NULL), "past");
        give_back(from);
        expect_refused(hcomm_send(from, 100, next(), TAG, p2p_world), "freed");
        expect_refused(hcomm_irecv(from, 100, previous(), TAG, p2p_world, &request), "freed");
        from = memory(HCOMM_MEMORY_DEVICE, 1000);
    }
    ring(from, to, 1000, 1);
    give_back(from);
    give_back(to);
}

/* Pinned pieces are allocated once; after that, messages allocate nothing of the device's. */
static void memory_is_freed_as_soon_as_its_sends_are_complete(void)
{
    for (int i = 0; i < 20; i++) {
        char *from = memory(HCOMM_MEMORY_DEVICE, 500000), *to = memory(HCOMM_MEMORY_DEVICE, 500000);
        ring(from, to, 500000, (unsigned)i);
        give_back(from); /* fails while another process still has it imported */
        give_back(to);
    }
}

static bool is_set(const char *variable, const char *value)
{
    const char *text = getenv(variable);
    return text && strcmp(text, value) == 0;
}

/* Whether the device of a rank copies straight from that of another one. */
static bool devices_share(int other)
{
    if (is_set("TEST_DEVICES", "even") && (p2p_rank % 2 || other % 2))
        return false;
    bool linked = !is_set("NPUSIM_TOPOLOGY", "pairs") || other / 2 == p2p_rank / 2;
    return linked && !is_set("HCOMM_DEVICE_IPC", "off") && !getenv("NPUSIM_BARE_TGID");
}

/* Device to device on a host: one copy by the device; without sharing, or a link between the devices: pieces.
 */
static void large_message_between_devices_goes_the_expected_way(void)
{
    enum { SIZE = 300000 };
    char *from = memory(HCOMM_MEMORY_DEVICE, SIZE), *to = memory(HCOMM_MEMORY_DEVICE, SIZE);
    bool direct = devices_share(previous()), reached = is_set("HCOMM_TRANSPORTS", "ofi:npu") && have_device;
    uint64_t before = p2p_counter("device_direct"), rdma = p2p_counter("device_rdma");
    ring(from, to, SIZE, 4);
    CHECK(p2p_counter("device_direct") == before + direct);
    CHECK(p2p_counter("device_rdma") == rdma + (reached && !direct) + (reached && !devices_share(next())));
    give_back(to);
    to = memory(HCOMM_MEMORY_DEVICE, 5000);
    before = p2p_counter("device_small");
    ring(from, to, 5000, 4);
    CHECK(p2p_counter("device_small") == before + have_device);
    give_back(from);
    give_back(to);
}

/* Far more messages pass through staging memory than it has pieces. */
static void staging_memory_is_used_again(void)
{
    enum { SIZE = 200000, COUNT = 150 };
    char *from = memory(HCOMM_MEMORY_DEVICE, SIZE), *to = memory(HCOMM_MEMORY_HOST, SIZE);
    uint64_t pieces = 0;
    for (int i = 0; i < COUNT; i++) {
        CALL(hcomm_sendrecv(from, SIZE, next(), TAG, to, SIZE, previous(), TAG, p2p_world, NULL));
        if (i == COUNT / 2)
            pieces = p2p_counter("device_pieces");
    }
    CHECK(!have_device || pieces > 0);
    CHECK(p2p_counter("device_pieces") <= pieces + 4); /* when it stops growing is a matter of timing */
    give_back(from);
    give_back(to);
}

static const struct p2p_case cases[] = {
    {"large_message_between_devices_goes_the_expected_way",
     large_message_between_devices_goes_the_expected_way, 2},
    {"every_kind_of_memory_reaches_every_other_at_all_sizes",
     every_kind_of_memory_reaches_every_other_at_all_sizes, 1},
    {"ranks_mix_kinds_and_odd_addresses", ranks_mix_kinds_and_odd_addresses, 2},
    {"many_messages_are_under_way_at_once", many_messages_are_under_way_at_once, 2},
    {"message_to_oneself_goes_between_all_kinds", message_to_oneself_goes_between_all_kinds, 1},
    {"long_message_fills_its_device_buffer_and_no_more", long_message_fills_its_device_buffer_and_no_more, 2},
    {"synchronous_and_probed_messages_reach_device_memory",
     synchronous_and_probed_messages_reach_device_memory, 2},
    {"cancelled_receive_leaves_its_device_buffer_alone", cancelled_receive_leaves_its_device_buffer_alone, 2},
    {"freed_and_too_short_device_memory_is_refused_and_harms_nobody",
     freed_and_too_short_device_memory_is_refused_and_harms_nobody, 2},
    {"memory_is_freed_as_soon_as_its_sends_are_complete", memory_is_freed_as_soon_as_its_sends_are_complete,
     2},
    {"staging_memory_is_used_again", staging_memory_is_used_again, 2},
};

int main(int argc, char **argv)
{
    const char *text = getenv("PMIX_RANK"), *how = getenv("TEST_DEVICES");
    int rank = text ? atoi(text) : 0;
    hcomm_config_t config = {.device_id = HCOMM_DEVICE(rank)};
    have_device = true;
    if (how && strcmp(how, "same") == 0)
        config.device_id = HCOMM_DEVICE(0);
    if (how && strcmp(how, "even") == 0 && rank % 2) {
        config.device_id = HCOMM_DEVICE_NONE;
        have_device = false;
    }
    bounce = p2p_room(P2P_SIZE_MAX + 2 * GUARD);
    int result = p2p_run(cases, sizeof(cases) / sizeof(cases[0]), &config, argc, argv);
    free(bounce);
    return result;
}
