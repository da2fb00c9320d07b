/* Cases: remote memory, sync areas. */
#include "harness.h"

#include "runtime/base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, RKEY_MAX = 1024 };

struct target {
    uint64_t addr, len;
    size_t rkey_len;
    unsigned char rkey[RKEY_MAX];
};
_Static_assert(sizeof(struct target) <= CF_SCRATCH, "fits the scratch page");

struct region {
    unsigned char *data;
    size_t len;
    struct hc_mem *mem;
};

/* Register memory and show it to the others. */
static void region_open(struct cf *cf, size_t len, struct region *region)
{
    const struct hc_transport *transport = cf->iface->transport;
    const struct hc_mem_attr attr = {
        .type = HC_MEMORY_HOST, .device = -1, .remote_read = true, .remote_write = true};
    struct target target = {.rkey_len = RKEY_MAX};
    region->len = len;
    region->data = malloc(len + 2 * (size_t)GUARD);
    CF_CHECK(region->data, "out of memory");
    memset(region->data, 0x55, len + 2 * (size_t)GUARD);
    hcomm_status_t status = transport->mem_reg(cf->iface, region->data + GUARD, len, &attr, &region->mem);
    CF_CHECK(status == HCOMM_OK, "mem_reg: %s", hcomm_strerror(status));
    status = transport->rkey_pack(region->mem, target.rkey, &target.rkey_len);
    CF_CHECK(status == HCOMM_OK, "rkey_pack: %s", hcomm_strerror(status));
    CF_CHECK(target.rkey_len <= cf->iface->attr.rkey_max, "the rkey is longer than rkey_max");
    target.addr = (uintptr_t)region->data + GUARD;
    target.len = len;
    memcpy(cf->shared->scratch[cf->rank], &target, sizeof(target));
    cf_barrier(cf);
}

static void region_close(struct cf *cf, struct region *region)
{
    cf_barrier(cf);
    for (size_t i = 0; i < GUARD; i++)
        CF_CHECK(region->data[i] == 0x55 && region->data[GUARD + region->len + i] == 0x55,
                 "memory outside the region was written");
    cf->iface->transport->mem_dereg(region->mem);
    free(region->data);
}

static struct hc_rkey *target_open(struct cf *cf, int peer, struct target *target)
{
    struct hc_rkey *rkey = NULL;
    memcpy(target, cf->shared->scratch[peer], sizeof(*target));
    hcomm_status_t status =
        cf->iface->transport->rkey_unpack(cf->ep[peer], target->rkey, target->rkey_len, &rkey);
    CF_CHECK(status == HCOMM_OK, "rkey_unpack: %s", hcomm_strerror(status));
    return rkey;
}

typedef hcomm_status_t (*rma_fn)(struct cf *cf, unsigned char *local, size_t len, uint64_t remote,
                                 struct hc_rkey *rkey, struct cf_op *op);

static hcomm_status_t start_put(struct cf *cf, unsigned char *local, size_t len, uint64_t remote,
                                struct hc_rkey *rkey, struct cf_op *op)
{
    return cf->iface->transport->put(cf->ep[cf_next(cf)], local, len, NULL, remote, rkey, &op->base);
}

static hcomm_status_t start_get(struct cf *cf, unsigned char *local, size_t len, uint64_t remote,
                                struct hc_rkey *rkey, struct cf_op *op)
{
    return cf->iface->transport->get(cf->ep[cf_next(cf)], local, len, NULL, remote, rkey, &op->base);
}

/* One transfer, its local memory registered as the transports that need it want. */
static hcomm_status_t run_rma(struct cf *cf, rma_fn start, unsigned char *local, size_t len, uint64_t remote,
                              struct hc_rkey *rkey)
{
    struct cf_op op;
    cf_op_init(&op);
    uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
    hcomm_status_t status;
    while ((status = start(cf, local, len, remote, rkey, &op)) == HCOMM_AGAIN) {
        cf_progress(cf);
        CF_CHECK(hc_clock_ns() < deadline, "a transfer never found room");
    }
    return cf_op_wait(cf, &op, status);
}

static size_t transfer_max(const struct cf *cf)
{
    size_t max = cf->iface->attr.rma_max;
    return max < ((size_t)1 << 20) ? max : (size_t)1 << 20;
}

static void put_and_get_carry_every_size(struct cf *cf)
{
    size_t max = transfer_max(cf);
    const size_t sizes[] = {1,     7,     8,      64,     4095,   4096,    4097, 61440,
                            61441, 65536, 122880, 122881, 262143, max - 1, max};
    struct region region;
    struct target target;
    region_open(cf, max, &region);
    struct hc_rkey *rkey = target_open(cf, cf_next(cf), &target);
    unsigned char *local = malloc(max);
    CF_CHECK(local, "out of memory");
    for (uint32_t i = 0; i < hc_array_len(sizes); i++) {
        uint64_t remote = target.addr + (max - sizes[i]) / 2;
        cf_fill(local, sizes[i], (uint32_t)cf->rank, i);
        hcomm_status_t status = run_rma(cf, start_put, local, sizes[i], remote, rkey);
        CF_CHECK(status == HCOMM_OK, "put of %zu bytes: %s", sizes[i], hcomm_strerror(status));
        memset(local, 0, sizes[i]);
        status = run_rma(cf, start_get, local, sizes[i], remote, rkey);
        CF_CHECK(status == HCOMM_OK, "get of %zu bytes: %s", sizes[i], hcomm_strerror(status));
        CF_CHECK(cf_verify(local, sizes[i], (uint32_t)cf->rank, i) == sizes[i], "%zu bytes came back changed",
                 sizes[i]);
    }
    free(local);
    cf->iface->transport->rkey_release(rkey);
    region_close(cf, &region);
}

static void put_is_visible_before_the_next_message(struct cf *cf)
{
    enum { ROUNDS = 200 };
    struct region region;
    struct target target;
    region_open(cf, sizeof(uint64_t), &region);
    struct hc_rkey *rkey = target_open(cf, cf_next(cf), &target);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t value = i, seen = 0;
        hcomm_status_t status =
            run_rma(cf, start_put, (unsigned char *)&value, sizeof(value), target.addr, rkey);
        CF_CHECK(status == HCOMM_OK, "put: %s", hcomm_strerror(status));
        cf_send(cf, cf_next(cf), CF_SHORT, 8);
        cf_progress_until(cf, &cf->received[cf_prev(cf)], i, "messages");
        memcpy(&seen, region.data + GUARD, sizeof(seen));
        CF_CHECK(seen >= i, "message %llu came before the put", (unsigned long long)i);
        cf_barrier(cf);
    }
    cf->iface->transport->rkey_release(rkey);
    region_close(cf, &region);
}

static void rma_outside_the_region_fails(struct cf *cf)
{
    struct region region;
    struct target target;
    unsigned char local[128] = {0};
    region_open(cf, 4096, &region);
    struct hc_rkey *rkey = target_open(cf, cf_next(cf), &target);
    const uint64_t bad[] = {target.addr + 4096 - 127, target.addr + 4096, target.addr - 1, 0,
                            UINT64_MAX - 63};
    for (size_t i = 0; i < hc_array_len(bad); i++) {
        hcomm_status_t status = run_rma(cf, start_put, local, sizeof(local), bad[i], rkey);
        CF_CHECK(status < 0, "a put outside the region (case %zu) gave %s", i, hcomm_strerror(status));
        status = run_rma(cf, start_get, local, sizeof(local), bad[i], rkey);
        CF_CHECK(status < 0, "a get outside the region (case %zu) gave %s", i, hcomm_strerror(status));
    }
    cf->iface->transport->rkey_release(rkey);
    region_close(cf, &region);
}

static void rkey_garbage_is_refused(struct cf *cf)
{
    const struct hc_transport *transport = cf->iface->transport;
    struct region region;
    struct target target;
    struct hc_rkey *untouched = (struct hc_rkey *)&region, *rkey = untouched;
    region_open(cf, 4096, &region);
    memcpy(&target, cf->shared->scratch[cf_next(cf)], sizeof(target));
    struct hc_ep *ep = cf->ep[cf_next(cf)];
    for (size_t len = 0; len < target.rkey_len; len++)
        CF_CHECK(transport->rkey_unpack(ep, target.rkey, len, &rkey) < 0, "an rkey cut to %zu was taken",
                 len);
    uint32_t seed = 99;
    for (int round = 0; round < 100; round++) {
        unsigned char noise[RKEY_MAX];
        for (size_t i = 0; i < target.rkey_len; i++)
            noise[i] = round == 0 ? 0 : round == 1 ? 0xff : (unsigned char)cf_random(&seed);
        CF_CHECK(transport->rkey_unpack(ep, noise, target.rkey_len, &rkey) < 0,
                 "noise was taken for an rkey");
    }
    CF_CHECK(rkey == untouched, "the result was written though the call failed");
    size_t len = target.rkey_len - 1;
    CF_CHECK(transport->rkey_pack(region.mem, target.rkey, &len) < 0, "an rkey was packed without room");
    transport->rkey_release(NULL);
    transport->mem_dereg(NULL);
    region_close(cf, &region);
}

static void sync_area_is_shared(struct cf *cf)
{
    const struct hc_transport *transport = cf->iface->transport;
    unsigned char *own = transport->sync_area(cf->iface);
    _Atomic uint64_t *words = (_Atomic uint64_t *)own;
    size_t count = HC_SYNC_AREA / sizeof(uint64_t);
    CF_CHECK((uintptr_t)own % HC_CACHE_LINE == 0, "the sync area is not aligned to a cache line");
    for (size_t i = 0; i < HC_SYNC_AREA; i++)
        CF_CHECK(own[i] == 0, "the sync area is not zero at the start");
    cf_barrier(cf);
    _Atomic uint64_t *next = transport->ep_sync_area(cf->ep[cf_next(cf)]);
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&next[i], i * 3 + 1, memory_order_release);
    transport->ep_wake(cf->ep[cf_next(cf)]);
    uint64_t deadline = hc_deadline_ms(CF_WAIT_MS);
    for (size_t i = 0; i < count; i++)
        while (atomic_load_explicit(&words[i], memory_order_acquire) != i * 3 + 1) {
            cf_progress(cf);
            CF_CHECK(hc_clock_ns() < deadline, "word %zu does not arrive", i);
        }
    cf_barrier(cf);
}

/* ---- memory of arenas ---- */

static void arena_open(struct cf *cf, struct hc_arena **arena, struct hc_mem **mem)
{
    const struct hc_transport *transport = cf->iface->transport;
    const struct hc_mem_attr attr = {
        .type = HC_MEMORY_HOST, .device = -1, .remote_read = true, .remote_write = true};
    struct target target = {.len = (size_t)1 << 20, .rkey_len = RKEY_MAX};
    hcomm_status_t status = hc_arena_create((size_t)4 << 20, 64, arena);
    CF_CHECK(status == HCOMM_OK && (*arena)->control, "arena: %s", hcomm_error_detail());
    unsigned char *data = (*arena)->base + 12345;
    status = transport->mem_reg(cf->iface, data, target.len, &attr, mem);
    CF_CHECK(status == HCOMM_OK, "mem_reg: %s", hcomm_strerror(status));
    status = transport->rkey_pack(*mem, target.rkey, &target.rkey_len);
    CF_CHECK(status == HCOMM_OK, "rkey_pack: %s", hcomm_strerror(status));
    target.addr = (uintptr_t)data;
    cf_fill(data, target.len, (uint32_t)cf->rank, 1);
    memcpy(cf->shared->scratch[cf->rank], &target, sizeof(target));
    cf_barrier(cf);
}

static void mapped_memory_is_put_and_got_at_once(struct cf *cf)
{
    const struct hc_transport *transport = cf->iface->transport;
    struct hc_arena *arena;
    struct hc_mem *mem;
    struct target target;
    arena_open(cf, &arena, &mem);
    int next = cf_next(cf);
    struct hc_rkey *rkey = target_open(cf, next, &target);
    CF_CHECK(transport->rkey_is_mapped(rkey), "memory of an arena is not mapped");
    unsigned char *local = malloc(target.len);
    CF_CHECK(local, "out of memory");
    hcomm_status_t status = transport->get(cf->ep[next], local, target.len, NULL, target.addr, rkey, NULL);
    CF_CHECK(status == HCOMM_OK, "get: %s", hcomm_strerror(status));
    CF_CHECK(cf_verify(local, target.len, (uint32_t)next, 1) == target.len, "what was got is wrong");
    cf_barrier(cf);
    cf_fill(local, 777, (uint32_t)cf->rank, 2);
    status = transport->put(cf->ep[next], local, 777, NULL, target.addr + 100, rkey, NULL);
    CF_CHECK(status == HCOMM_OK, "put: %s", hcomm_strerror(status));
    cf_send(cf, next, CF_SHORT, 8);
    cf_progress_until(cf, &cf->received[cf_prev(cf)], 1, "messages");
    CF_CHECK(cf_verify(arena->base + 12345 + 100, 777, (uint32_t)cf_prev(cf), 2) == 777,
             "what was put is wrong");
    status = transport->get(cf->ep[next], local, 8, NULL, target.addr + target.len - 7, rkey, NULL);
    CF_CHECK(status == HCOMM_ERR_INVALID, "a get past the end gave %s", hcomm_strerror(status));
    free(local);
    transport->rkey_release(rkey);
    cf_barrier(cf);
    transport->mem_dereg(mem);
    hc_arena_destroy(arena);
}

static void key_of_freed_memory_is_refused(struct cf *cf)
{
    const struct hc_transport *transport = cf->iface->transport;
    struct hc_arena *arena;
    struct hc_mem *mem;
    struct target target;
    struct hc_rkey *again = NULL;
    arena_open(cf, &arena, &mem);
    struct hc_rkey *rkey = target_open(cf, cf_next(cf), &target);
    cf_barrier(cf);
    transport->mem_dereg(mem);
    hc_arena_destroy(arena);
    cf_barrier(cf);
    unsigned char local[64];
    /* An open key reads zeros: undefined for the caller, but no fault. */
    hcomm_status_t status =
        transport->get(cf->ep[cf_next(cf)], local, sizeof(local), NULL, target.addr, rkey, NULL);
    CF_CHECK(status == HCOMM_OK, "a get with an open key: %s", hcomm_strerror(status));
    transport->rkey_release(rkey);
    status = transport->rkey_unpack(cf->ep[cf_next(cf)], target.rkey, target.rkey_len, &again);
    CF_CHECK(status < 0, "the key of freed memory was taken");
    if (transport->arm(cf->iface) == HCOMM_OK) /* drops what is dead */
        (void)transport->progress(cf->iface);
    status = transport->rkey_unpack(cf->ep[cf_next(cf)], target.rkey, target.rkey_len, &again);
    CF_CHECK(status < 0, "the key of freed memory was taken after it had been unmapped");
    cf_barrier(cf);
}

static void keys_with_any_field_changed_never_fault(struct cf *cf)
{
    const struct hc_transport *transport = cf->iface->transport;
    struct hc_arena *arena;
    struct hc_mem *mem;
    struct target target;
    unsigned char local[64];
    arena_open(cf, &arena, &mem);
    memcpy(&target, cf->shared->scratch[cf_next(cf)], sizeof(target));
    for (size_t at = 0; at < target.rkey_len * 8; at++) {
        struct hc_rkey *rkey = NULL;
        target.rkey[at / 8] ^= (unsigned char)(1u << at % 8);
        if (transport->rkey_unpack(cf->ep[cf_next(cf)], target.rkey, target.rkey_len, &rkey) == HCOMM_OK) {
            hcomm_status_t status =
                transport->get(cf->ep[cf_next(cf)], local, sizeof(local), NULL, target.addr, rkey, NULL);
            CF_CHECK(status <= HCOMM_OK, "a get gave %s", hcomm_strerror(status));
            transport->rkey_release(rkey);
        }
        target.rkey[at / 8] ^= (unsigned char)(1u << at % 8);
    }
    cf_barrier(cf);
    transport->mem_dereg(mem);
    hc_arena_destroy(arena);
}

static void both_sides_see_the_same_shares(struct cf *cf)
{
    const struct hc_transport *transport = cf->iface->transport;
    struct hc_share_pool *pool = transport->shares(cf->iface);
    uint32_t index, generation;
    size_t from, len;
    CF_CHECK(hc_share_open(pool, &index, &generation), "no share is free");
    memcpy(cf->shared->scratch[cf->rank], (uint32_t[]){index, generation}, 2 * sizeof(uint32_t));
    cf_barrier(cf);
    uint32_t theirs[2];
    memcpy(theirs, cf->shared->scratch[cf_next(cf)], sizeof(theirs));
    struct hc_share *share = transport->ep_share(cf->ep[cf_next(cf)], theirs[0]);
    CF_CHECK(share && !transport->ep_share(cf->ep[cf_next(cf)], HC_SHARES), "a share by index");
    CF_CHECK(hc_share_claim(share, theirs[1], HC_SHARE_BACK, 8192, 4096, 4096, &from, &len) && from == 4096 &&
                 len == 4096,
             "the second half cannot be claimed");
    cf_barrier(cf);
    CF_CHECK(
        hc_share_claim(&pool->shares[index], generation, HC_SHARE_FRONT, 8192, 4096, 8192, &from, &len) &&
            from == 0 && len == 4096,
        "the owner does not see what was claimed");
    CF_CHECK(hc_share_close(pool, index, 8192) == 8192, "closing does not tell what was claimed");
    cf_barrier(cf);
}

const struct cf_case cf_cases_rma[] = {
    {"put_and_get_carry_every_size", 2, HC_CAP_RMA, false, put_and_get_carry_every_size},
    {"put_is_visible_before_the_next_message", 2, HC_CAP_RMA, false, put_is_visible_before_the_next_message},
    {"rma_outside_the_region_fails", 2, HC_CAP_RMA, false, rma_outside_the_region_fails},
    {"rkey_garbage_is_refused", 2, HC_CAP_RMA, false, rkey_garbage_is_refused},
    {"mapped_memory_is_put_and_got_at_once", 2, HC_CAP_MAP, false, mapped_memory_is_put_and_got_at_once},
    {"key_of_freed_memory_is_refused", 2, HC_CAP_MAP, false, key_of_freed_memory_is_refused},
    {"keys_with_any_field_changed_never_fault", 2, HC_CAP_MAP, false,
     keys_with_any_field_changed_never_fault},
    {"both_sides_see_the_same_shares", 2, HC_CAP_SHARE, false, both_sides_see_the_same_shares},
    {"sync_area_is_shared", 2, HC_CAP_SYNC, false, sync_area_is_shared},
    {0},
};
