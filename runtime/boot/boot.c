#include "runtime/boot/boot_impl.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <stdlib.h>
#include <string.h>

/* Relaxed: only the number matters. */
static atomic_uint instances;

static void warn_not_launched(void)
{
    static const char *const counts[] = {"SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    static atomic_bool warned;
    for (size_t i = 0; i < hc_array_len(counts); i++) {
        const char *text = getenv(counts[i]);
        if (!text || strtoul(text, NULL, 10) <= 1)
            continue;
        if (!atomic_exchange_explicit(&warned, true, memory_order_relaxed))
            hc_log_warn("%s=%s but no PMIx server reached: this process runs as a job of its own; start the "
                        "program with hcommrun or srun --mpi=pmix",
                        counts[i], text);
        return;
    }
}

hcomm_status_t hc_boot_open(int timeout_ms, struct hc_boot **boot)
{
    struct hc_boot *opened = NULL;
    hcomm_status_t status = HCOMM_OK;
    if (hc_boot_pmix_present()) {
        status = hc_boot_pmix_open(timeout_ms, &opened);
    } else {
        warn_not_launched();
        status = hc_boot_single_open(timeout_ms, &opened);
    }
    if (status != HCOMM_OK)
        return status;
    opened->instance = atomic_fetch_add_explicit(&instances, 1, memory_order_relaxed);
    hc_log_debug("bootstrap by %s: rank %u of %u, %u on this host, %u hosts, launcher %s, name space %s",
                 opened->ops->name, opened->job.rank, opened->job.size, opened->job.local_size,
                 opened->job.num_hosts, opened->job.launcher, opened->job.name_space);
    *boot = opened;
    return HCOMM_OK;
}

void hc_boot_close(struct hc_boot *boot)
{
    if (boot)
        boot->ops->close(boot);
}

const struct hc_boot_job *hc_boot_job(const struct hc_boot *boot)
{
    return &boot->job;
}

unsigned hc_boot_instance(const struct hc_boot *boot)
{
    return boot->instance;
}

static hcomm_status_t check_key(const char *key)
{
    size_t length = strlen(key);
    if (length == 0 || length >= HC_BOOT_KEY_MAX)
        return hc_error(HCOMM_ERR_INTERNAL, "bootstrap key '%.64s' has %zu bytes, 1 to %d are possible", key,
                        length, HC_BOOT_KEY_MAX - 1);
    return HCOMM_OK;
}

hcomm_status_t hc_boot_put(struct hc_boot *boot, const char *key, const void *blob, size_t size)
{
    hcomm_status_t status = check_key(key);
    return status == HCOMM_OK ? boot->ops->put(boot, key, blob, size) : status;
}

hcomm_status_t hc_boot_get(struct hc_boot *boot, uint32_t rank, const char *key, struct hc_boot_op *op)
{
    hcomm_status_t status = check_key(key);
    if (status != HCOMM_OK)
        return status;
    if (rank >= boot->job.size)
        return hc_error(HCOMM_ERR_INTERNAL, "bootstrap get from rank %u of a job of %u", rank,
                        boot->job.size);
    return hc_boot_call_start(boot, op, rank, key);
}

hcomm_status_t hc_boot_fence(struct hc_boot *boot, struct hc_boot_op *op)
{
    return hc_boot_call_start(boot, op, 0, NULL);
}

int hc_boot_fd(const struct hc_boot *boot)
{
    return boot->timer;
}

struct hc_boot_event hc_boot_next_event(struct hc_boot *boot)
{
    struct hc_boot_losses *losses = boot->losses;
    struct hc_boot_event event = {.kind = HC_BOOT_EVENT_NONE};
    if (!losses)
        return event;
    /* acquire: partners are the releases of whoever notices a loss */
    if (boot->losses_told < atomic_load_explicit(&losses->count, memory_order_acquire)) {
        event.kind = HC_BOOT_EVENT_RANK_LOST;
        event.rank = losses->ranks[boot->losses_told++];
    } else if (!boot->server_loss_told && atomic_load_explicit(&losses->server, memory_order_acquire)) {
        event.kind = HC_BOOT_EVENT_SERVER_LOST;
        boot->server_loss_told = true;
    } else if (boot->calls_told != atomic_load_explicit(&losses->calls, memory_order_acquire)) {
        event.kind = HC_BOOT_EVENT_CALLED;
        boot->calls_told = atomic_load_explicit(&losses->calls, memory_order_acquire);
    }
    return event;
}

hcomm_status_t hc_boot_call_rank(struct hc_boot *boot, uint32_t rank)
{
    return boot->ops->call_rank(boot, rank);
}

hcomm_status_t hc_boot_hosts(struct hc_boot *boot, uint32_t *host_of)
{
    return boot->ops->hosts(boot, host_of);
}

void hc_boot_abort(struct hc_boot *boot, int code, const char *message)
{
    (void)boot; /* a process is in one job only, whichever hc_boot asks */
    hc_boot_pmix_abort(code, message);
}
