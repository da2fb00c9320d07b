/* A job of one process, started without a launcher. */
#include "runtime/boot/boot_impl.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
    struct hc_list link;
    char key[HC_BOOT_KEY_MAX];
    size_t size;
    unsigned char blob[];
};

struct boot_single {
    struct hc_boot base;
    struct hc_list entries;
    uint32_t only_rank;
    char name_space[64];
    char hostname[256];
};

static void single_close(struct hc_boot *base)
{
    struct boot_single *boot = hc_container_of(base, struct boot_single, base);
    hc_boot_base_fini(base);
    struct hc_list *node;
    while ((node = hc_list_pop(&boot->entries)))
        free(hc_list_entry(node, struct entry, link));
    free(boot);
}

static struct entry *find_entry(struct boot_single *boot, const char *key)
{
    struct hc_list *node;
    hc_list_for_each(node, &boot->entries)
    {
        struct entry *entry = hc_list_entry(node, struct entry, link);
        if (strcmp(entry->key, key) == 0)
            return entry;
    }
    return NULL;
}

static hcomm_status_t single_put(struct hc_boot *base, const char *key, const void *blob, size_t size)
{
    struct boot_single *boot = hc_container_of(base, struct boot_single, base);
    struct entry *entry = calloc(1, sizeof(*entry) + size);
    if (!entry)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for %zu bytes under key %s", size, key);
    (void)snprintf(entry->key, sizeof(entry->key), "%s", key);
    entry->size = size;
    if (size > 0)
        (void)memcpy(entry->blob, blob, size);
    struct entry *old = find_entry(boot, key);
    if (old)
        hc_list_remove(&old->link);
    free(old);
    hc_list_append(&boot->entries, &entry->link);
    return HCOMM_OK;
}

static hcomm_status_t single_issue(struct hc_boot *base, struct hc_boot_call *call)
{
    struct boot_single *boot = hc_container_of(base, struct boot_single, base);
    if (call->fence) {
        hc_boot_call_complete(call, HCOMM_OK, NULL, NULL, 0);
        return HCOMM_OK;
    }
    const struct entry *entry = find_entry(boot, call->key);
    if (!entry) {
        hc_boot_call_retry_later(call);
        return HCOMM_OK;
    }
    void *copy = malloc(entry->size ? entry->size : 1);
    if (!copy)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the blob of key %s", call->key);
    (void)memcpy(copy, entry->blob, entry->size);
    hc_boot_call_complete(call, HCOMM_OK, NULL, copy, entry->size);
    return HCOMM_OK;
}

static hcomm_status_t single_hosts(struct hc_boot *base, uint32_t *host_of)
{
    (void)base;
    host_of[0] = 0;
    return HCOMM_OK;
}

/* There is no other rank, and this one needs no telling. */
static hcomm_status_t single_call_rank(struct hc_boot *base, uint32_t rank)
{
    (void)base, (void)rank;
    return HCOMM_OK;
}

static const struct hc_boot_ops single_ops = {
    .name = "single",
    .close = single_close,
    .put = single_put,
    .issue = single_issue,
    .hosts = single_hosts,
    .call_rank = single_call_rank,
};

hcomm_status_t hc_boot_single_open(int timeout_ms, struct hc_boot **boot)
{
    struct boot_single *single = calloc(1, sizeof(*single));
    if (!single)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the bootstrap");
    hcomm_status_t status = hc_boot_base_init(&single->base, &single_ops, timeout_ms);
    if (status != HCOMM_OK) {
        free(single);
        return status;
    }
    hc_list_init(&single->entries);
    /* Process numbers repeat, also between containers that share /dev/shm; the time tells them apart. */
    (void)snprintf(single->name_space, sizeof(single->name_space), "single-%ld-%" PRIx64, (long)getpid(),
                   hc_clock_ns());
    if (gethostname(single->hostname, sizeof(single->hostname) - 1) != 0)
        (void)snprintf(single->hostname, sizeof(single->hostname), "localhost");
    single->base.job = (struct hc_boot_job){
        .size = 1,
        .local_size = 1,
        .num_hosts = 1,
        .local_ranks = &single->only_rank,
        .name_space = single->name_space,
        .hostname = single->hostname,
        .launcher = "none",
        .version = "not in use: no launcher",
        .launched = false,
    };
    *boot = &single->base;
    return HCOMM_OK;
}
