/*
 * What each setting does, seen from outside: through the counters, the clock (only limits that must hold are
 * compared with it), errors and descriptors. For two ranks; each case makes a context of its own with the
 * setting.
 */
#include "tests/multi/p2p_cases.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 5, NEXT = 6, KIB = 1024, MIB = 1024 * KIB };

static hcomm_handle_t outer; /* of all cases; check_handle is the case's own */
static int peer;

static double seconds(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static hcomm_comm_t begin(const hcomm_config_t *config)
{
    outer = check_handle;
    peer = 1 - p2p_rank;
    CALL(hcomm_init(&check_handle, config));
    CALL(hcomm_barrier(p2p_world)); /* both have theirs */
    return hcomm_comm_world(check_handle);
}

static void end(void)
{
    CALL(hcomm_finalize(check_handle));
    check_handle = outer;
}

/* Rank 0 sends n messages at once, rank 1 receives them only when all are under way. */
static void flood(hcomm_comm_t comm, int n, size_t size)
{
    unsigned char *buf = p2p_room(size * (size_t)n);
    hcomm_request_t *requests = calloc((size_t)n, sizeof(*requests));
    CHECK(requests);
    if (p2p_rank == 0)
        p2p_fill(buf, size * (size_t)n, 3);
    for (int i = 0; i < n && p2p_rank == 0; i++)
        CALL(hcomm_isend(buf + size * (size_t)i, size, 1, TAG, comm, &requests[i]));
    CALL(hcomm_sendrecv(NULL, 0, peer, NEXT, NULL, 0, peer, NEXT, comm, NULL));
    for (int i = 0; i < n && p2p_rank == 1; i++)
        CALL(hcomm_irecv(buf + size * (size_t)i, size, 0, TAG, comm, &requests[i]));
    CALL(hcomm_waitall((size_t)n, requests, NULL));
    VERIFY(buf, size * (size_t)n, 3);
    free(requests);
    free(buf);
}

/* ---- protocols ---- */

/* Messages there and back: so both ways are connected. */
static hcomm_comm_t begin_small_msg_connected(void)
{
    hcomm_comm_t comm = begin(&(hcomm_config_t){.mode = HCOMM_MODE_SMALL_MSG});
    hcomm_request_t request;
    CALL(hcomm_issend(NULL, 0, peer, NEXT, comm, &request));
    CALL(hcomm_recv(NULL, 0, peer, NEXT, comm, NULL));
    CALL(hcomm_wait(&request, NULL));
    return comm;
}

static void mode_small_msg_gathers(void)
{
    enum { MESSAGES = 1000 };
    hcomm_comm_t comm = begin_small_msg_connected();
    flood(comm, MESSAGES, 8);
    if (p2p_rank == 0) {
        CHECK(p2p_counter("coalesced_messages") >= MESSAGES / 2);
        CHECK(p2p_counter("coalesced_packets") * 5 < p2p_counter("coalesced_messages"));
    }
    end();
}

/* Rank 0 learns of what rank 1 has received without a call of hcomm. */
static void check_told(const struct p2p_outside *outside)
{
    if (p2p_rank == 1)
        p2p_tell_outside(outside);
    else
        p2p_await_outside(outside);
    p2p_close_outside(outside);
}

/* Both ranks: rank 1 gets to know rank 0's pipe. */
static struct p2p_outside exchange_outside(hcomm_comm_t comm)
{
    struct p2p_outside outside = p2p_open_outside();
    CALL(p2p_rank == 0 ? hcomm_send(&outside.there, sizeof(outside.there), 1, NEXT, comm)
                       : hcomm_recv(&outside.there, sizeof(outside.there), 0, NEXT, comm, NULL));
    return outside;
}

/* Sends that were waited for are on their way, whatever their sender does next: here nothing, until told of
 * it. */
static void mode_small_msg_keeps_nothing_back_after_a_wait(void)
{
    enum { MESSAGES = 5 };
    hcomm_comm_t comm = begin_small_msg_connected();
    struct p2p_outside outside = exchange_outside(comm);
    hcomm_request_t requests[MESSAGES];
    char data[MESSAGES] = "abcd";
    for (int i = 0; i < MESSAGES; i++)
        CALL(p2p_rank == 0 ? hcomm_isend(&data[i], 1, 1, TAG, comm, &requests[i])
                           : hcomm_irecv(&data[i], 1, 0, TAG, comm, &requests[i]));
    CALL(hcomm_waitall(MESSAGES, requests, NULL));
    check_told(&outside);
    end();
}

static void receive_probed(hcomm_comm_t comm, bool matched)
{
    hcomm_message_t message = HCOMM_MESSAGE_NULL;
    char byte;
    if (matched) {
        CALL(hcomm_mprobe(1, TAG, comm, &message, NULL));
        CALL(hcomm_mrecv(&byte, 1, &message, NULL));
    } else {
        CALL(hcomm_recv(&byte, 1, 1, TAG, comm, NULL));
    }
}

/* The last call of rank 0 finds its message there, so that it need not look at the network for itself. */
static void keep_nothing_back_after_a_receive(bool matched)
{
    char bytes[2] = "ab";
    hcomm_comm_t comm = begin_small_msg_connected();
    if (p2p_rank == 1)
        CALL(hcomm_send(bytes, 1, 0, TAG, comm));
    else
        CALL(hcomm_probe(1, TAG, comm, NULL));
    struct p2p_outside outside = exchange_outside(comm);
    for (int i = 0; i < 2; i++)
        CALL(p2p_rank == 0 ? hcomm_send(&bytes[i], 1, 1, TAG, comm)
                           : hcomm_recv(&bytes[i], 1, 0, TAG, comm, NULL));
    if (p2p_rank == 0)
        receive_probed(comm, matched);
    check_told(&outside);
    end();
}

static void mode_small_msg_keeps_nothing_back_after_a_receive(void)
{
    keep_nothing_back_after_a_receive(false);
    keep_nothing_back_after_a_receive(true);
}

/* Sends that nobody will wait for, by a sender that has shown that it waits soon. */
static void freed_sends_leave_without_another_call(void)
{
    enum { ROUNDS = 30, MESSAGES = 8 };
    hcomm_comm_t comm = begin(NULL);
    for (int i = 0; i < ROUNDS; i++)
        flood(comm, MESSAGES, 8);
    struct p2p_outside outside = exchange_outside(comm);
    static char data[MESSAGES];
    hcomm_request_t request;
    for (int i = 0; i < MESSAGES && p2p_rank == 0; i++) {
        CALL(hcomm_isend(&data[i], 1, 1, TAG, comm, &request));
        CALL(hcomm_request_free(&request));
    }
    for (int i = 0; i < MESSAGES && p2p_rank == 1; i++)
        CALL(hcomm_recv(&data[i], 1, 0, TAG, comm, NULL));
    check_told(&outside);
    end();
}

static void mode_large_msg_is_rendezvous_from_one_byte_on(void)
{
    hcomm_comm_t comm = begin(&(hcomm_config_t){.mode = HCOMM_MODE_LARGE_MSG});
    flood(comm, 10, 1);
    flood(comm, 10, 1000);
    if (p2p_rank == 0)
        CHECK(p2p_counter("rndv_sent") >= 20);
    end();
    comm = begin(NULL);
    flood(comm, 10, 1);
    if (p2p_rank == 0)
        CHECK(p2p_counter("rndv_sent") == 0 && p2p_counter("coalesced_packets") == 0);
    end();
}

static const char *transport_of_peer(void)
{
    const hcomm_topology_t *topology = NULL;
    CALL(hcomm_get_topology(check_handle, &topology));
    return topology->ranks[peer].transport;
}

static void protocol_chooses_the_transport(void)
{
    hcomm_comm_t comm = begin(&(hcomm_config_t){.protocol = HCOMM_PROTOCOL_SHM});
    flood(comm, 2, MIB);
    CHECK(strcmp(transport_of_peer(), "shm") == 0);
    end();
    comm = begin(&(hcomm_config_t){.protocol = HCOMM_PROTOCOL_TCP});
    flood(comm, 2, MIB);
    CHECK(strstr(transport_of_peer(), "tcp"));
    end();
}

/* ---- limits ---- */

/* A bucket may hold a few milliseconds' worth in advance; more than that would be no limit. */
static void bandwidth_limit_limits(void)
{
    hcomm_comm_t comm = begin(&(hcomm_config_t){.bandwidth_limit = 20});
    double start = seconds(); /* on either rank before the first byte */
    CALL(hcomm_sendrecv(NULL, 0, peer, NEXT, NULL, 0, peer, NEXT, comm, NULL));
    flood(comm, 20, 512 * KIB); /* 10.5 MB: half a second */
    double took = seconds() - start;
    if (took < 0.4)
        fprintf(stderr, "10.5 MB at 20 MB/s took %.3f s\n", took);
    CHECK(took >= 0.4);
    if (p2p_rank == 0)
        CHECK(p2p_counter("bandwidth_stalls") > 0);
    end();
}

static void queue_depth_bounds_transfers_in_flight(void)
{
    hcomm_comm_t comm = begin(&(hcomm_config_t){.queue_depth = 2});
    flood(comm, 16, MIB);
    CHECK(p2p_counter("rndv_inflight_max") <= 2);
    if (p2p_rank == 0)
        CHECK(p2p_counter("rndv_sent") == 16);
    end();
}

static void recv_buffer_size_bounds_what_one_peer_sends_ahead(void)
{
    hcomm_comm_t comm = begin(&(hcomm_config_t){.recv_buffer_size = 64 * KIB});
    flood(comm, 4000, 4 * KIB);
    if (p2p_rank == 1) { /* besides the window: a record per message announced */
        CHECK(p2p_counter("unexpected_bytes_max") > 4 * KIB);
        CHECK(p2p_counter("unexpected_bytes_max") < 128 * KIB + 4000 * 512);
        CHECK(p2p_counter("unexpected_bytes") == 0);
    }
    if (p2p_rank == 0)
        CHECK(p2p_counter("credit_stalls") > 0);
    end();
}

static void buffer_pool_size_bounds_what_all_send_ahead(void)
{
    hcomm_comm_t comm = begin(&(hcomm_config_t){.recv_buffer_size = 64 * MIB, .buffer_pool_size = MIB});
    flood(comm, 8000, 4 * KIB);
    if (p2p_rank == 1)
        CHECK(p2p_counter("unexpected_bytes_max") < 2 * MIB + 8000 * 512);
    end();
}

/* While the peer is not reached, sends are copied up to the limit; then they wait. */
static void send_buffer_size_bounds_what_is_copied(void)
{
    static char buf[1000];
    CHECK(setenv("HCOMM_FAULT_CONNECT", "3", 1) == 0);
    hcomm_comm_t comm = begin(&(hcomm_config_t){.send_buffer_size = 64 * KIB});
    CHECK(unsetenv("HCOMM_FAULT_CONNECT") == 0);
    for (int i = 0; i < 300; i++) {
        if (p2p_rank == 0)
            CALL(hcomm_send(buf, sizeof(buf), 1, TAG, comm));
        else
            CALL(hcomm_recv(buf, sizeof(buf), 0, TAG, comm, NULL));
    }
    if (p2p_rank == 0)
        CHECK(p2p_counter("queued_bytes_max") > 0 && p2p_counter("queued_bytes_max") <= 64 * KIB);
    CALL(hcomm_barrier(p2p_world));
    end();
}

/* ---- memory ---- */

static void mem_pool_size_and_align_size(void)
{
    const size_t alignments[] = {8, 64, 4096, 65536};
    for (int i = 0; i < 4; i++) {
        (void)begin(&(hcomm_config_t){.mem_pool_size = MIB, .align_size = alignments[i]});
        void *first = hcomm_alloc_host_mem(check_handle, 300),
             *second = hcomm_alloc_host_mem(check_handle, 500000);
        CHECK(first && second);
        CHECK((uintptr_t)first % alignments[i] == 0 && (uintptr_t)second % alignments[i] == 0);
        CHECK(!hcomm_alloc_host_mem(check_handle, 600000));
        CHECK(strstr(hcomm_error_detail(), "mem_pool_size"));
        CALL(hcomm_free_host_mem(check_handle, second));
        second = hcomm_alloc_host_mem(check_handle, 600000);
        CHECK(second);
        memset(second, 1, 600000);
        end();
    }
}

/* Bytes of shared-memory segments mapped into this process: its own and, once it is reached, the peer's. */
static size_t mapped_segments(void)
{
    char line[512];
    size_t total = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof(line), maps)) {
        unsigned long from = 0, to = 0;
        if (strstr(line, "memfd:hcomm") && sscanf(line, "%lx-%lx", &from, &to) == 2)
            total += to - from;
    }
    (void)fclose(maps);
    return total;
}

static void buffer_size_is_the_staging_memory(void)
{
    const size_t sizes[] = {MIB, 64 * MIB};
    size_t mapped[2];
    for (int i = 0; i < 2; i++) {
        hcomm_comm_t comm = begin(&(hcomm_config_t){.buffer_size = sizes[i], .protocol = HCOMM_PROTOCOL_SHM});
        flood(comm, 4, 3 * MIB);
        mapped[i] = mapped_segments();
        end();
    }
    /* two segments, of this rank and of its peer, each larger by the difference but for a chunk's rounding */
    CHECK(mapped[1] - mapped[0] > 2 * 62 * MIB && mapped[1] - mapped[0] < 2 * 65 * MIB);
}

/* ---- connections ---- */

static void retries_overcome_faults(void)
{
    CHECK(setenv("HCOMM_FAULT_CONNECT", "2", 1) == 0);
    hcomm_comm_t comm = begin(&(hcomm_config_t){.retry_count = 2});
    CHECK(unsetenv("HCOMM_FAULT_CONNECT") == 0);
    flood(comm, 3, 1000);
    CHECK(p2p_counter("connect_retries") == 2);
    CHECK(p2p_counter("peers_lost") == 0);
    end();
}

static void without_retries_a_fault_is_final(void)
{
    char byte = 0;
    CHECK(setenv("HCOMM_FAULT_CONNECT", "1", 1) == 0);
    hcomm_comm_t comm = begin(&(hcomm_config_t){.retry_count = HCOMM_RETRY_NONE});
    CHECK(unsetenv("HCOMM_FAULT_CONNECT") == 0);
    char expected[32], host[256];
    (void)snprintf(expected, sizeof(expected), "rank %d", peer);
    CHECK(gethostname(host, sizeof(host)) == 0);
    EXPECT(HCOMM_ERR_UNREACHABLE, hcomm_ssend(&byte, 1, peer, TAG, comm));
    CHECK(strstr(hcomm_error_detail(), expected) && strstr(hcomm_error_detail(), host));
    EXPECT(HCOMM_ERR_UNREACHABLE, hcomm_send(&byte, 1, peer, TAG, comm));
    EXPECT(HCOMM_ERR_UNREACHABLE, hcomm_recv(&byte, 1, peer, TAG, comm, NULL));
    CHECK(p2p_counter("connect_retries") == 0 && p2p_counter("peers_lost") == 1);
    CALL(hcomm_barrier(p2p_world));
    (void)hcomm_finalize(check_handle); /* may say that a peer was lost; must end */
    check_handle = outer;
}

static int count_sockets(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char target[64] = "";
        if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0)
            count += strncmp(target, "socket:", 7) == 0;
    }
    CHECK(closedir(dir) == 0);
    return count;
}

static void num_qp_adds_endpoints(void)
{
    const int qps[] = {1, 8};
    int sockets[2];
    for (int i = 0; i < 2; i++) {
        int before = count_sockets();
        hcomm_comm_t comm = begin(&(hcomm_config_t){.num_qp = qps[i], .transports = "ofi:tcp"});
        flood(comm, 4, 4 * MIB);
        CALL(hcomm_barrier(comm));
        sockets[i] = count_sockets() - before;
        end();
    }
    CHECK(sockets[1] > sockets[0]);
}

/* ---- waiting ---- */

static void timeout_names_whom_was_waited_for(void)
{
    char byte = 0, expected[32];
    hcomm_request_t request;
    hcomm_comm_t comm = begin(&(hcomm_config_t){.timeout_ms = 2000});
    (void)snprintf(expected, sizeof(expected), "rank %d", peer);
    double start = seconds();
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_recv(&byte, 1, peer, TAG, comm, NULL));
    CHECK(seconds() - start >= 1.9);
    CHECK(strstr(hcomm_error_detail(), expected) && strstr(hcomm_error_detail(), "timeout_ms"));
    CALL(hcomm_irecv(&byte, 1, HCOMM_ANY_SOURCE, TAG, comm, &request));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_wait(&request, NULL));
    CHECK(request); /* still valid */
    byte = 7;
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_probe(peer, NEXT, comm, NULL));
    CHECK(strstr(hcomm_error_detail(), expected));
    EXPECT(HCOMM_ERR_TIMEOUT, hcomm_probe(HCOMM_ANY_SOURCE, NEXT, comm, NULL));
    CHECK(strstr(hcomm_error_detail(), "from any source"));
    CALL(hcomm_barrier(p2p_world));
    CALL(hcomm_send(&byte, 1, peer, TAG, comm));
    CALL(hcomm_wait(&request, NULL));
    EXPECT(HCOMM_AGAIN, hcomm_iprobe(HCOMM_ANY_SOURCE, HCOMM_ANY_TAG, comm, NULL));
    end();
}

/* The payload, a rendezvous, arrives while the receiver makes no calls. */
static void progress_thread_moves_messages_while_we_compute(void)
{
    hcomm_comm_t comm = begin(&(hcomm_config_t){.progress_thread = HCOMM_SWITCH_ON});
    unsigned char *buf = p2p_room(P2P_SIZE_MAX);
    hcomm_request_t request;
    if (p2p_rank == 1) {
        memset(buf, 0xff, P2P_SIZE_MAX);
        CALL(hcomm_irecv(buf, P2P_SIZE_MAX, 0, TAG, comm, &request));
    }
    CALL(hcomm_barrier(p2p_world));
    if (p2p_rank == 0) {
        memset(buf, 0, P2P_SIZE_MAX);
        CALL(hcomm_ssend(buf, P2P_SIZE_MAX, 1, TAG, comm));
    } else {
        volatile unsigned char *last = &buf[P2P_SIZE_MAX - 1];
        for (double end_at = seconds() + 60; *last == 0xff && seconds() < end_at;)
            ;
        CHECK(*last == 0);
        CALL(hcomm_wait(&request, NULL));
    }
    free(buf);
    end();
}

/* ---- where values come from ---- */

static void zeroed_config_means_defaults(void)
{
    hcomm_config_t got;
    (void)begin(&(hcomm_config_t){0});
    CALL(hcomm_get_config(check_handle, &got));
    CHECK(got.mode == HCOMM_MODE_AUTO && got.protocol == HCOMM_PROTOCOL_AUTO);
    CHECK(got.bandwidth_limit == HCOMM_BANDWIDTH_UNLIMITED && got.num_qp == 8 && got.retry_count == 3);
    CHECK(got.buffer_size == 8 * MIB && got.queue_depth == 64 && got.align_size == 64);
    CHECK(got.device_id == HCOMM_DEVICE_NONE && got.progress_thread == HCOMM_SWITCH_OFF);
    end();
}

static void call_wins_over_environment_over_default(void)
{
    hcomm_config_t got;
    CHECK(setenv("HCOMM_RETRY_COUNT", "7", 1) == 0 && setenv("HCOMM_BANDWIDTH_LIMIT", "100", 1) == 0);
    (void)begin(NULL);
    CALL(hcomm_get_config(check_handle, &got));
    CHECK(got.retry_count == 7 && got.bandwidth_limit == 100);
    end();
    (void)begin(
        &(hcomm_config_t){.retry_count = HCOMM_RETRY_NONE, .bandwidth_limit = HCOMM_BANDWIDTH_UNLIMITED});
    CHECK(unsetenv("HCOMM_RETRY_COUNT") == 0 && unsetenv("HCOMM_BANDWIDTH_LIMIT") == 0);
    CALL(hcomm_get_config(check_handle, &got));
    CHECK(got.retry_count == HCOMM_RETRY_NONE && got.bandwidth_limit == HCOMM_BANDWIDTH_UNLIMITED);
    end();
}

static void texts_may_be_overwritten_after_init(void)
{
    hcomm_config_t got;
    char interface[] = "lo";
    (void)begin(&(hcomm_config_t){.net_if = interface});
    memset(interface, '?', sizeof(interface) - 1);
    CALL(hcomm_get_config(check_handle, &got));
    CHECK(strcmp(got.net_if, "lo") == 0);
    end();
}

static void check_init_refused(const hcomm_config_t *config, hcomm_status_t status, const char *field,
                               const char *range)
{
    hcomm_handle_t handle = NULL;
    EXPECT(status, hcomm_init(&handle, config));
    CHECK(!handle);
    CHECK(strstr(hcomm_error_detail(), field) && strstr(hcomm_error_detail(), range));
}

static void values_out_of_range_are_refused_with_the_range(void)
{
    const hcomm_status_t bad = HCOMM_ERR_CONFIG;
    check_init_refused(&(hcomm_config_t){.num_qp = 33}, bad, "num_qp", "32");
    check_init_refused(&(hcomm_config_t){.bandwidth_limit = 1001}, bad, "bandwidth_limit", "1000");
    check_init_refused(&(hcomm_config_t){.retry_count = 11}, bad, "retry_count", "10");
    check_init_refused(&(hcomm_config_t){.timeout_ms = 999}, bad, "timeout_ms", "1000");
    check_init_refused(&(hcomm_config_t){.align_size = 96}, bad, "align_size", "power of two");
    check_init_refused(&(hcomm_config_t){.mode = 9}, bad, "mode", "small_msg");
    check_init_refused(&(hcomm_config_t){.reserved = {0, 1}}, bad, "reserved", "zero");
    check_init_refused(&(hcomm_config_t){.device_id = HCOMM_DEVICE(1024)}, bad, "device_id", "1023");
    CHECK(setenv("HCOMM_QUEUE_DEPTH", "0", 1) == 0);
    check_init_refused(NULL, bad, "HCOMM_QUEUE_DEPTH", "65536");
    CHECK(unsetenv("HCOMM_QUEUE_DEPTH") == 0);
}

static const struct p2p_case cases[] = {
    {"mode_small_msg_gathers", mode_small_msg_gathers, 2},
    {"mode_small_msg_keeps_nothing_back_after_a_wait", mode_small_msg_keeps_nothing_back_after_a_wait, 2},
    {"mode_small_msg_keeps_nothing_back_after_a_receive", mode_small_msg_keeps_nothing_back_after_a_receive,
     2},
    {"freed_sends_leave_without_another_call", freed_sends_leave_without_another_call, 2},
    {"mode_large_msg_is_rendezvous_from_one_byte_on", mode_large_msg_is_rendezvous_from_one_byte_on, 2},
    {"protocol_chooses_the_transport", protocol_chooses_the_transport, 2},
    {"bandwidth_limit_limits", bandwidth_limit_limits, 2},
    {"queue_depth_bounds_transfers_in_flight", queue_depth_bounds_transfers_in_flight, 2},
    {"recv_buffer_size_bounds_what_one_peer_sends_ahead", recv_buffer_size_bounds_what_one_peer_sends_ahead,
     2},
    {"buffer_pool_size_bounds_what_all_send_ahead", buffer_pool_size_bounds_what_all_send_ahead, 2},
    {"send_buffer_size_bounds_what_is_copied", send_buffer_size_bounds_what_is_copied, 2},
    {"mem_pool_size_and_align_size", mem_pool_size_and_align_size, 2},
    {"buffer_size_is_the_staging_memory", buffer_size_is_the_staging_memory, 2},
    {"retries_overcome_faults", retries_overcome_faults, 2},
    {"without_retries_a_fault_is_final", without_retries_a_fault_is_final, 2},
    {"num_qp_adds_endpoints", num_qp_adds_endpoints, 2},
    {"timeout_names_whom_was_waited_for", timeout_names_whom_was_waited_for, 2},
    {"progress_thread_moves_messages_while_we_compute", progress_thread_moves_messages_while_we_compute, 2},
    {"zeroed_config_means_defaults", zeroed_config_means_defaults, 2},
    {"call_wins_over_environment_over_default", call_wins_over_environment_over_default, 2},
    {"texts_may_be_overwritten_after_init", texts_may_be_overwritten_after_init, 2},
    {"values_out_of_range_are_refused_with_the_range", values_out_of_range_are_refused_with_the_range, 2},
};

int main(int argc, char **argv)
{
    return p2p_run(cases, sizeof(cases) / sizeof(cases[0]), NULL, argc, argv);
}
