/* Start and end of a context. */
#include "runtime/core/core.h"

#include "runtime/core/device.h"
#include "runtime/core/device_registration.h"
#include "runtime/core/device_ipc.h"
#include "runtime/core/parts.h"
#include "runtime/core/peer.h"
#include "runtime/core/progress.h"
#include "runtime/core/request.h"
#include "runtime/core/placement.h"
#include "runtime/core/select.h"
#include "runtime/core/stream.h"
#include "runtime/core/wait.h"
#include "runtime/topo/pci.h"
#include "runtime/topo/topo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REQUESTS_PER_SLAB = 64,
    MESSAGES_PER_SLAB = 64,
    POOLED_MESSAGE = sizeof(struct hcomm_message) + 256,
};

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static size_t read_small(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, buf, size);
    (void)close(fd);
    return got > 0 ? (size_t)got : 0;
}

/* Processes with equal ids share a running kernel and a process-id name space, so pids mean the same to them.
 */
static uint64_t find_host_id(const char *hostname)
{
    char text[256];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = hash_bytes(hash, hostname, strlen(hostname));
    hash = hash_bytes(hash, text, read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text)));
    ssize_t length = readlink("/proc/self/ns/pid", text, sizeof(text));
    return length > 0 ? hash_bytes(hash, text, (size_t)length) : hash;
}

/* Each peer may send this much ahead: what buffer_pool_size allows if all of them do. */
static uint64_t share_of_pool(const struct hcomm_context *context, uint64_t wanted)
{
    enum { LEAST = 4096 };
    uint64_t share = context->settings.buffer_pool_size / context->job->size;
    if (share > wanted)
        share = wanted;
    return share < LEAST ? LEAST : share;
}

static hcomm_status_t load_settings(struct hcomm_context *context, const hcomm_config_t *config)
{
    hcomm_status_t status = hc_settings_load(config, &context->settings, context->origins);
    if (status != HCOMM_OK)
        return status;
    hc_log_set_level((enum hc_log_level)context->settings.log);
    return hc_settings_copy_texts(&context->settings);
}

static void find_oversubscription(struct hcomm_context *context)
{
    unsigned allowed = hc_topo_cpu_count();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    /* bound to one processor: the launcher has given each rank its own if there are enough */
    unsigned usable = allowed == 1 && online > 0 ? (unsigned)online : allowed;
    context->oversubscribed = context->job->local_size > usable;
}

static hcomm_status_t join_job(struct hcomm_context *context)
{
    hcomm_status_t status = hc_boot_open(context->settings.timeout_ms, &context->boot);
    if (status != HCOMM_OK)
        return status;
    context->job = hc_boot_job(context->boot);
    hc_log_set_name("hcomm rank %u@%s", context->job->rank, context->job->hostname);
    unsigned instance = hc_boot_instance(context->boot);
    (void)snprintf(context->key, sizeof(context->key), "hcomm.%u", instance);
    (void)snprintf(context->job_id, sizeof(context->job_id), "%s.%u", context->job->name_space, instance);
    context->host_id = find_host_id(context->job->hostname);
    context->eager_window = share_of_pool(context, context->settings.recv_buffer_size);
    find_oversubscription(context);
    if (context->job->local_rank == 0) /* the ranks of a host have the same environment: told once */
        hc_config_warn_unknown(&hc_settings_table);
    return hc_topo_own_cpuset(context->cpuset, sizeof(context->cpuset));
}

static hcomm_status_t init_storage(struct hcomm_context *context)
{
    hc_pool_init(&context->request_pool, sizeof(struct hcomm_request), REQUESTS_PER_SLAB);
    hc_pool_init(&context->message_pool, POOLED_MESSAGE, MESSAGES_PER_SLAB);
    hc_pool_init(&context->op_pool, 64, REQUESTS_PER_SLAB);
    hc_list_init(&context->pending);
    hc_list_init(&context->fetching);
    hc_list_init(&context->failing);
    hc_list_init(&context->lent);
    hc_list_init(&context->infos);
    hc_list_init(&context->buffer_pools);
    hc_list_init(&context->taken);
    context->peers = calloc(context->job->size, sizeof(*context->peers));
    if (!context->peers)
        return hc_error(HCOMM_ERR_NO_MEMORY, "peers: no memory for %u ranks", context->job->size);
    context->done_send = (struct hcomm_request){
        .kind = HC_REQUEST_SEND,
        .complete = true,
        .immortal = true,
        .context = context,
    };
    context->done_recv = (struct hcomm_request){
        .kind = HC_REQUEST_RECV,
        .complete = true,
        .immortal = true,
        .source = HCOMM_RANK_NULL,
        .tag = HCOMM_ANY_TAG,
        .context = context,
    };
    return hc_match_init(&context->match);
}

static struct hc_iface_params iface_params(struct hcomm_context *context)
{
    return (struct hc_iface_params){
        .am = hc_core_am,
        .am_part = hc_core_am_part,
        .ep_failed = hc_core_ep_failed,
        .arg = context,
        .settings = &context->settings,
        .counters = &context->counters,
        .world_rank = context->job->rank,
        .world_size = context->job->size,
        .local_rank = context->job->local_rank,
        .local_size = context->job->local_size,
        .job_id = context->job_id,
    };
}

static hcomm_status_t open_transports(struct hcomm_context *context)
{
    const struct hc_iface_params params = iface_params(context);
    return hc_select_open(context, &params);
}

/* Those from number `first` on. */
static hcomm_status_t watch_transports(struct hcomm_context *context, unsigned first)
{
    hcomm_status_t status = HCOMM_OK;
    for (unsigned i = first; status == HCOMM_OK && i < context->num_ifaces; i++) {
        struct hc_iface *iface = context->ifaces[i].iface;
        if (iface->attr.caps & HC_CAP_EVENT)
            status = hc_wait_add(context, iface->transport->event_fd(iface), HC_WAIT_IFACE, i);
    }
    return status;
}

/* Collects the ifaces' addresses into `storage`, one after the other. */
static hcomm_status_t collect_addresses(struct hcomm_context *context, struct hc_blob *blob, uint8_t *storage,
                                        size_t room)
{
    for (unsigned i = 0; i < context->num_ifaces; i++) {
        struct hc_iface *iface = context->ifaces[i].iface;
        size_t length = room;
        hcomm_status_t status = iface->transport->address(iface, storage, &length);
        if (status != HCOMM_OK)
            return status;
        blob->addresses[blob->num_addresses++] = (struct hc_blob_address){
            .name = context->ifaces[i].resource.name,
            .name_len = strlen(context->ifaces[i].resource.name),
            .addr = storage,
            .addr_len = length,
        };
        storage += length;
        room -= length;
    }
    return HCOMM_OK;
}

/* Of the device from the network interface that reaches other hosts. */
static int nic_distance(const struct hcomm_context *context)
{
    char pci[64];
    int distance = -1;
    hc_device_pci(context->device, pci, sizeof(pci));
    for (unsigned i = 0; i < context->num_ifaces && distance < 0; i++)
        distance = hc_pci_nic_distance("/sys", pci, context->ifaces[i].resource.device);
    return distance;
}

hcomm_status_t hc_context_describe(struct hcomm_context *context, void *bytes, size_t *size)
{
    uint8_t addresses[HC_BLOB_MAX];
    struct hc_blob blob = {
        .host_id = context->host_id,
        .pid = (uint32_t)getpid(),
        .eager_window = (uint32_t)context->eager_window,
        .numa_node = -1,
        .device = context->device ? hc_device_physical(context->device) : -1,
        .nic_distance = context->nic_distance,
        .device_pid = context->device ? hc_device_pid(context->device) : 0,
        .hostname = context->job->hostname,
        .hostname_len = strlen(context->job->hostname),
        .cpuset = context->cpuset,
        .cpuset_len = strlen(context->cpuset),
    };
    hcomm_status_t status = collect_addresses(context, &blob, addresses, sizeof(addresses));
    return status == HCOMM_OK ? hc_blob_pack(&blob, bytes, HC_BLOB_MAX, size) : status;
}

static hcomm_status_t publish_self(struct hcomm_context *context, const char *key)
{
    context->nic_distance = context->device ? nic_distance(context) : -1;
    uint8_t bytes[HC_BLOB_MAX];
    size_t size = 0;
    hcomm_status_t status = hc_context_describe(context, bytes, &size);
    return status == HCOMM_OK ? hc_boot_put(context->boot, key, bytes, size) : status;
}

static hcomm_status_t add_transports(struct hcomm_context *context)
{
    const struct hc_iface_params params = iface_params(context);
    unsigned before = context->num_ifaces;
    hcomm_status_t status = hc_select_add_ofi(context, &params);
    return status == HCOMM_OK ? watch_transports(context, before) : status;
}

hcomm_status_t hc_context_open_more(struct hcomm_context *context)
{
    char key[HC_CONTEXT_KEY_MAX];
    if (context->opened_more || context->forked)
        return HCOMM_OK;
    context->opened_more = true;
    if (hc_select_may_add_ofi(context) && add_transports(context) != HCOMM_OK)
        hc_log_info("no further transport: %s", hc_error_detail());
    return publish_self(context, hc_context_more_key(context, key));
}

const char *hc_context_more_key(const struct hcomm_context *context, char *key)
{
    (void)snprintf(key, HC_CONTEXT_KEY_MAX, "%s.more", context->key);
    return key;
}

static bool exchange_is_done(void *arg)
{
    return hc_boot_op_done(arg);
}

/*
 * PMIx 4.2 answers a question for a key that its owner adds after its first commit only if the key is there
 * already. So the ranks meet before they ask for each other's second and later contexts; the first needs no
 * meeting.
 */
static hcomm_status_t meet_for_later_context(struct hcomm_context *context)
{
    struct hc_boot_op op = {0};
    if (context->job->size == 1 || hc_boot_instance(context->boot) == 0)
        return HCOMM_OK;
    hcomm_status_t status = hc_boot_fence(context->boot, &op);
    if (status != HCOMM_OK)
        return status;
    hc_lock_acquire(&context->lock);
    status = hc_wait(context, exchange_is_done, &op, NULL, context->settings.timeout_ms);
    hc_lock_release(&context->lock);
    hc_boot_op_cancel(context->boot, &op);
    if (status == HCOMM_OK)
        status = op.status;
    if (status != HCOMM_OK)
        return hc_error(status,
                        "hcomm_init: not all of %u ranks started their context number %u within %d ms: %s",
                        context->job->size, hc_boot_instance(context->boot) + 1, context->settings.timeout_ms,
                        op.reason ? op.reason : hc_status_text(status));
    return HCOMM_OK;
}

static hcomm_status_t start(struct hcomm_context *context, const hcomm_config_t *config)
{
    hcomm_status_t status = load_settings(context, config);
    if (status == HCOMM_OK)
        status = join_job(context);
    if (status == HCOMM_OK && context->settings.device_id >= 0)
        status = hc_device_open(context);
    if (status == HCOMM_OK)
        status = init_storage(context);
    if (status == HCOMM_OK)
        status = hc_wait_init(context);
    if (status == HCOMM_OK)
        status = open_transports(context);
    if (status == HCOMM_OK)
        hc_placement_init(context);
    if (status == HCOMM_OK)
        status = hc_wait_add(context, hc_boot_fd(context->boot), HC_WAIT_BOOT, 0);
    if (status == HCOMM_OK)
        status = watch_transports(context, 0);
    if (status == HCOMM_OK)
        status = hc_comm_create_builtin(context);
    if (status == HCOMM_OK)
        status = publish_self(context, context->key);
    if (status == HCOMM_OK && context->settings.progress_thread)
        status = hc_progress_thread_start(context);
    return status;
}

static void destroy_comms(struct hcomm_context *context)
{
    if (!context->comms.next)
        return;
    struct hc_list *node;
    while ((node = hc_list_first(&context->comms)))
        hc_comm_destroy(hc_list_entry(node, struct hcomm_comm, all));
    hc_barrier_fini(context);
}

static void free_peers(struct hcomm_context *context)
{
    for (uint32_t rank = 0; context->peers && rank < context->job->size; rank++)
        hc_peer_free(context->peers[rank]);
    free(context->peers);
}

static void free_message(struct hcomm_message *message)
{
    free(message->taken_back);
    if (!message->pooled)
        free(message);
}

static void free_messages(struct hcomm_context *context)
{
    if (!context->match.table)
        return;
    struct hc_list *node;
    while ((node = hc_list_first(&context->match.all))) {
        struct hcomm_message *message = hc_list_entry(node, struct hcomm_message, match.all);
        hc_match_drop(&context->match, &message->match);
        free_message(message);
    }
    while ((node = hc_list_pop(&context->taken)))
        free_message(hc_list_entry(node, struct hcomm_message, match.all));
    hc_match_fini(&context->match);
}

/* While communicators, which operations refer to, still exist. */
static void end_operations(struct hcomm_context *context)
{
    for (uint32_t rank = 0; context->peers && rank < context->job->size; rank++)
        if (context->peers[rank])
            hc_peer_end_operations(context->peers[rank]);
}

void hc_context_destroy(struct hcomm_context *context)
{
    hc_streams_fini(context);
    hc_topology_fini(context);
    if (context->infos.next)
        hc_info_fini(context);
    end_operations(context);
    destroy_comms(context);
    free_messages(context);
    free_peers(context);
    if (context->device)
        hc_registrations_fini(context->device);
    hc_select_close(context);
    if (context->buffer_pools.next)
        hc_buffer_pools_fini(context);
    hc_memory_fini(context);
    hc_blocks_fini(context);
    hc_device_close(context);
    hc_wait_fini(context);
    hc_pool_fini(&context->request_pool);
    hc_pool_fini(&context->message_pool);
    hc_pool_fini(&context->op_pool);
    free(context->ids);
    free(context->id_generation);
    free(context->id_next);
    free(context->host_of);
    hc_boot_close(context->boot);
    hc_settings_free_texts(&context->settings);
    free(context);
}

HCOMM_API hcomm_status_t hcomm_init(hcomm_handle_t *handle, const hcomm_config_t *config)
{
    if (!handle)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_init: handle is NULL");
    struct hcomm_context *context =
        aligned_alloc(HC_CACHE_LINE, hc_align_up(sizeof(*context), HC_CACHE_LINE));
    if (!context)
        return hc_error(HCOMM_ERR_NO_MEMORY, "hcomm_init: out of memory");
    (void)memset(context, 0, sizeof(*context));
    hc_lock_init_biased(&context->lock); /* before PMIx starts its thread */
    context->epoll_fd = context->wake_fd = -1;
    hcomm_status_t status = start(context, config);
    if (status != HCOMM_OK) {
        hc_context_destroy(context);
        return status;
    }
    hc_progress_register(context); /* before waiting: what is under way in earlier contexts must go on */
    status = meet_for_later_context(context);
    if (status != HCOMM_OK) {
        hc_progress_unregister(context);
        hc_progress_thread_stop(context);
        hc_context_destroy(context);
        return status;
    }
    *handle = context;
    return HCOMM_OK;
}

HCOMM_API void hcomm_abort(hcomm_handle_t handle, int code)
{
    if (code < 1 || code > 255)
        code = 1;
    hc_boot_abort(handle ? handle->boot : NULL, code, "hcomm_abort was called");
    _exit(code);
}

const uint32_t *hc_context_hosts(struct hcomm_context *context)
{
    if (context->host_of)
        return context->host_of;
    uint32_t *host_of = calloc(context->job->size, sizeof(*host_of));
    if (!host_of) {
        (void)hc_error(HCOMM_ERR_NO_MEMORY, "host map: no memory for %u ranks", context->job->size);
        return NULL;
    }
    if (context->job->num_hosts > 1 && hc_boot_hosts(context->boot, host_of) != HCOMM_OK) {
        free(host_of);
        return NULL;
    }
    context->host_of = host_of;
    return host_of;
}

HCOMM_API hcomm_comm_t hcomm_comm_world(hcomm_handle_t handle)
{
    return handle ? handle->world : NULL;
}

HCOMM_API hcomm_comm_t hcomm_comm_self(hcomm_handle_t handle)
{
    return handle ? handle->self : NULL;
}

HCOMM_API int hcomm_rank(hcomm_handle_t handle)
{
    return handle ? (int)handle->job->rank : -1;
}

HCOMM_API int hcomm_size(hcomm_handle_t handle)
{
    return handle ? (int)handle->job->size : -1;
}

HCOMM_API hcomm_status_t hcomm_progress(hcomm_handle_t handle)
{
    if (!handle)
        return hc_error(HCOMM_ERR_INVALID, "hcomm_progress: handle is NULL");
    hc_lock_acquire(&handle->lock);
    unsigned moved = hc_progress(handle);
    hc_lock_release(&handle->lock);
    return moved ? HCOMM_OK : HCOMM_AGAIN;
}
