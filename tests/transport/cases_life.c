/* Cases: addresses, connecting and closing, death, leftovers. */
#include "harness.h"

#include "runtime/base/clock.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void address_garbage_is_refused(struct cf *cf)
{
    const struct hc_transport *transport = cf->iface->transport;
    const unsigned char *addr = cf->shared->addr[cf_next(cf)];
    size_t len = cf->shared->addr_len[cf_next(cf)];
    struct hc_ep *ep = NULL;
    unsigned char noise[CF_ADDR_MAX];
    uint32_t seed = 5, peer = (uint32_t)cf_next(cf);
    cf_disconnect(cf, cf_next(cf));
    for (size_t cut = 0; cut < len; cut++) {
        CF_CHECK(!transport->reachable(cf->iface, addr, cut), "an address cut to %zu is reachable", cut);
        CF_CHECK(transport->ep_create(cf->iface, peer, addr, cut, &ep) < 0, "and has an ep");
    }
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < len; i++)
            noise[i] = round == 0 ? 0 : round == 1 ? 0xff : (unsigned char)cf_random(&seed);
        CF_CHECK(!transport->reachable(cf->iface, noise, len), "noise is reachable");
        CF_CHECK(transport->ep_create(cf->iface, peer, noise, len, &ep) < 0, "noise has an ep");
    }
    CF_CHECK(!ep, "an ep was written though the call failed");
    size_t room = len - 1;
    CF_CHECK(transport->address(cf->iface, noise, &room) < 0, "an address was written without room");
    transport->ep_destroy(NULL);
    transport->close(NULL);
    cf_barrier(cf);
}

static void ep_can_be_made_again(struct cf *cf)
{
    for (int round = 1; round <= 10; round++) {
        for (int i = 0; i < 30; i++)
            cf_send(cf, cf_next(cf), i % 2 ? CF_SHORT : CF_BCOPY, (size_t)(i * 100 * round) % 1000);
        cf_flush(cf, cf_next(cf));
        cf_progress_until(cf, &cf->received[cf_prev(cf)], (uint64_t)round * 30, "messages");
        cf_barrier(cf);
        cf_disconnect(cf, cf_next(cf));
        cf_barrier(cf);
        cf_connect(cf, cf_next(cf));
    }
    cf_send(cf, cf_next(cf), CF_BCOPY, 2000);
    cf_progress_until(cf, &cf->received[cf_prev(cf)], 301, "the last message");
    cf_barrier(cf);
}

static void unflushed_ep_can_be_destroyed(struct cf *cf)
{
    int sent = 0;
    size_t max = cf_max(cf, CF_BCOPY), size = max < 30000 ? max : 30000;
    if (cf->rank == 0) {
        while (sent < 100 && cf_try_send(cf, cf_next(cf), CF_BCOPY, size) == HCOMM_OK)
            sent++;
        cf_disconnect(cf, cf_next(cf));
        cf_connect(cf, cf_next(cf));
    }
    cf->loose = true;
    cf_barrier(cf);
    if (cf->rank == 0) {
        uint64_t before = cf->next_seq_out[cf_next(cf)];
        cf_send(cf, cf_next(cf), CF_SHORT, 8);
        CF_CHECK(cf->next_seq_out[cf_next(cf)] == before + 1, "the new ep does not send");
        atomic_store(&cf->shared->flags[1], (int)before + 1);
    }
    if (cf_prev(cf) == 0) {
        uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
        while (!atomic_load(&cf->shared->flags[1]) ||
               cf->next_seq_in[0] != (uint32_t)atomic_load(&cf->shared->flags[1])) {
            cf_progress(cf);
            CF_CHECK(hc_clock_ns() < deadline, "the message of the new ep does not arrive");
        }
    }
    cf_barrier(cf);
}

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    CF_CHECK(dir, "/proc/self/fd cannot be read");
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count;
}

static int count_shared_maps(void)
{
    int count = 0;
    char line[512];
    FILE *file = fopen("/proc/self/maps", "r");
    CF_CHECK(file, "/proc/self/maps cannot be read");
    while (fgets(line, sizeof(line), file))
        count += strchr(line, ' ') && strchr(line, ' ')[4] == 's';
    (void)fclose(file);
    return count;
}

static void exchange_some(struct cf *cf)
{
    for (int i = 0; i < 40; i++) {
        cf_send(cf, cf_next(cf), CF_SHORT, 8);
        cf_send(cf, cf_next(cf), CF_BCOPY, 4000);
    }
    /* The other side sends as many as this one. */
    uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
    while (cf->next_seq_in[cf_prev(cf)] < cf->next_seq_out[cf_next(cf)]) {
        cf_progress(cf);
        CF_CHECK(hc_clock_ns() < deadline, "messages do not arrive");
    }
}

/* The first round may load libraries for good; later ones must not change a thing. */
static void reopening_leaks_nothing(struct cf *cf)
{
    int fds = 0, maps = 0;
    for (int round = 0; round < 6; round++) {
        exchange_some(cf);
        cf_close(cf);
        int fds_now = count_fds(), maps_now = count_shared_maps();
        if (round > 1) {
            CF_CHECK(fds_now <= fds, "descriptors grew from %d to %d", fds, fds_now);
            CF_CHECK(maps_now <= maps, "shared mappings grew from %d to %d", maps, maps_now);
        }
        fds = fds_now;
        maps = maps_now;
        cf_open(cf);
    }
}

/* One side closes and comes back with a new address; the other keeps its iface. */
static void one_side_can_come_back(struct cf *cf)
{
    exchange_some(cf);
    cf_flush(cf, cf_next(cf));
    cf_barrier(cf);
    cf_disconnect(cf, cf_next(cf));
    cf_barrier(cf);
    memset(cf->next_seq_in, 0, sizeof(cf->next_seq_in));
    memset(cf->next_seq_out, 0, sizeof(cf->next_seq_out));
    if (cf->rank == 1) {
        cf->iface->transport->close(cf->iface);
        cf_open_iface(cf);
    }
    cf_barrier_silent(cf);
    cf_connect(cf, cf_next(cf));
    exchange_some(cf);
    cf_barrier(cf);
}

/*
 * libfabric's own shm provider has locks in the memory of its processes: one that is killed while it holds a lock
 * leaves the others waiting inside the provider, where nothing reaches them, and that is not for us to mend. Over
 * it the victim kills itself, between two calls.
 */
static bool locks_die_with_their_holder(const struct cf *cf)
{
    return strcmp(cf->resource->name, "ofi:shm") == 0;
}

/* Kill rank 1 at some moment, without waiting for anything of it. */
static void kill_later(struct cf *cf, uint32_t *seed)
{
    uint64_t until = hc_clock_ns() + cf_random(seed) % 3000000;
    while (hc_clock_ns() < until)
        cf_progress(cf);
    atomic_fetch_or(&cf->shared->dead, 1u << 1);
    if (!locks_die_with_their_holder(cf))
        CF_CHECK(kill(atomic_load(&cf->shared->pids[1]), SIGKILL) == 0, "kill failed");
}

static void die_if_told_to(const struct cf *cf)
{
    if (locks_die_with_their_holder(cf) && atomic_load(&cf->shared->dead) >> cf->rank & 1)
        (void)raise(SIGKILL);
}

/* Ranks 0 and 2 go on as if nothing had happened. */
static void survivors_talk(struct cf *cf)
{
    int peer = 2 - cf->rank;
    uint64_t before = cf->received[peer];
    cf_barrier(cf);
    for (int i = 0; i < 200; i++)
        cf_send(cf, peer, i % 2 ? CF_SHORT : CF_BCOPY, 700);
    cf_progress_until(cf, &cf->received[peer], before + 200, "messages of the survivor");
    cf_disconnect(cf, 1);
    for (int i = 0; i < 200; i++)
        cf_send(cf, peer, i % 2 ? CF_SHORT : CF_BCOPY, 700);
    cf_progress_until(cf, &cf->received[peer], before + 400, "messages of the survivor");
    cf_barrier(cf);
}

static void stream_for_ever(struct cf *cf, int dest)
{
    uint32_t seed = 3;
    for (;;) {
        die_if_told_to(cf);
        enum cf_kind kind = cf_random(&seed) % 2 ? CF_SHORT : CF_BCOPY;
        if (cf_try_send(cf, dest, kind, cf_random(&seed) % cf_max(cf, kind)) != HCOMM_OK)
            cf_progress(cf);
    }
}

static void receiver_survives_a_killed_sender(struct cf *cf)
{
    uint32_t seed = (uint32_t)getpid() | 1;
    cf->loose = true;
    if (cf->rank == 1)
        stream_for_ever(cf, 0);
    if (cf->rank == 0)
        kill_later(cf, &seed);
    survivors_talk(cf);
}

static void sender_survives_a_killed_receiver(struct cf *cf)
{
    uint32_t seed = (uint32_t)getpid() | 1;
    cf->loose = true;
    if (cf->rank == 1)
        for (;;) {
            die_if_told_to(cf);
            cf_progress(cf);
        }
    if (cf->rank == 2)
        kill_later(cf, &seed);
    if (cf->rank == 0) {
        uint64_t until = hc_clock_ns() + 200000000;
        while (hc_clock_ns() < until && !(cf->failed_eps & 2)) {
            hcomm_status_t status = cf_try_send(cf, 1, cf_random(&seed) % 2 ? CF_SHORT : CF_BCOPY,
                                                cf_random(&seed) % cf_max(cf, CF_SHORT));
            if (status != HCOMM_OK)
                cf_progress(cf);
        }
    }
    survivors_talk(cf);
}

const struct cf_case cf_cases_life[] = {
    {"address_garbage_is_refused", 2, 0, false, address_garbage_is_refused},
    {"ep_can_be_made_again", 2, 0, false, ep_can_be_made_again},
    {"unflushed_ep_can_be_destroyed", 2, 0, true, unflushed_ep_can_be_destroyed},
    {"reopening_leaks_nothing", 2, 0, false, reopening_leaks_nothing},
    {"one_side_can_come_back", 2, 0, true, one_side_can_come_back},
    {0},
};

const struct cf_case cf_cases_kill[] = {
    {"receiver_survives_a_killed_sender", 3, 0, true, receiver_survives_a_killed_sender},
    {"sender_survives_a_killed_receiver", 3, 0, true, sender_survives_a_killed_receiver},
    {0},
};
