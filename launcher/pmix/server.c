#include "launcher/pmix/internal.h"

#include "runtime/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static pmix_server_module_t module = {
    .client_connected2 = hc_pmix_upcall_connected,
    .client_finalized = hc_pmix_upcall_finalized,
    .abort = hc_pmix_upcall_abort,
    .fence_nb = hc_pmix_upcall_fence,
    .direct_modex = hc_pmix_upcall_dmodex,
    .publish = hc_pmix_upcall_publish,
    .lookup = hc_pmix_upcall_lookup,
    .unpublish = hc_pmix_upcall_unpublish,
    .spawn = hc_pmix_upcall_spawn,
    .connect = hc_pmix_upcall_connect,
    .disconnect = hc_pmix_upcall_disconnect,
    .register_events = hc_pmix_upcall_register_events,
    .deregister_events = hc_pmix_upcall_deregister_events,
    .notify_event = hc_pmix_upcall_notify,
    .query = hc_pmix_upcall_query,
    .log = hc_pmix_upcall_log,
    .job_control = hc_pmix_upcall_job_control,
    .push_stdin = hc_pmix_upcall_push_stdin,
    .group = hc_pmix_upcall_group,
};

/* Set before the library's thread starts, read by upcalls on that thread. */
static struct hc_pmix *the_server;

struct hc_pmix *hc_pmix_server(void)
{
    return the_server;
}

hcomm_status_t hc_pmix_error(const char *what, pmix_status_t status)
{
    return hc_error(HCOMM_ERR_BOOTSTRAP, "PMIx server: %s: %s", what, PMIx_Error_string(status));
}

struct hc_rank *hc_pmix_rank_of(struct hc_pmix *pmix, const pmix_proc_t *proc)
{
    struct hc_job *job = &pmix->launch->job;
    if (strncmp(proc->nspace, job->name_space, PMIX_MAX_NSLEN) != 0 || proc->rank >= job->num_ranks)
        return NULL;
    return &job->ranks[proc->rank];
}

const pmix_value_t *hc_pmix_find(const pmix_info_t *info, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(info[i].key, key, PMIX_MAX_KEYLEN) == 0)
            return &info[i].value;
    return NULL;
}

/* ---- the queue ---- */

pmix_status_t hc_pmix_post(struct hc_pmix_call *call)
{
    struct hc_pmix *pmix = hc_pmix_server();
    hc_lock_acquire(&pmix->lock);
    bool closed = pmix->closed;
    if (!closed)
        hc_fifo_push(&pmix->queue, &call->node);
    hc_lock_release(&pmix->lock);
    if (closed) {
        free(call);
        return PMIX_ERR_NOT_AVAILABLE;
    }
    uint64_t one = 1;
    /* A full counter already keeps the descriptor readable. */
    ssize_t ignored = write(pmix->source.fd, &one, sizeof(one));
    (void)ignored;
    return PMIX_SUCCESS;
}

static struct hc_pmix_call *take_call(struct hc_pmix *pmix)
{
    hc_lock_acquire(&pmix->lock);
    struct hc_fifo_node *node = hc_fifo_pop(&pmix->queue);
    hc_lock_release(&pmix->lock);
    return node ? hc_container_of(node, struct hc_pmix_call, node) : NULL;
}

void hc_pmix_drain(struct hc_pmix *pmix)
{
    struct hc_pmix_call *call = take_call(pmix);
    while (call) {
        call->run(call, pmix);
        call = take_call(pmix);
    }
}

static void on_queue(struct hc_loop_source *source, uint32_t events)
{
    (void)events;
    uint64_t count;
    ssize_t ignored =
        read(source->fd, &count, sizeof(count)); /* before draining, so that no post is missed */
    (void)ignored;
    hc_pmix_drain(hc_container_of(source, struct hc_pmix, source));
}

static hcomm_status_t open_queue(struct hc_pmix *pmix)
{
    hc_lock_init(&pmix->lock);
    hc_fifo_init(&pmix->queue);
    pmix->source = (struct hc_loop_source){
        .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
        .ready = on_queue,
    };
    if (pmix->source.fd < 0)
        return hc_error(HCOMM_ERR_IO, "eventfd: %s", hc_errno_text(errno));
    return hc_loop_watch(&pmix->launch->loop, &pmix->source, EPOLLIN);
}

/* ---- start and stop ---- */

/*
 * Settings of the library that save time and keep files away; the user's own (PMIX_MCA_*) win. Job data goes
 * through the connection (hash) instead of files in the session directory.
 */
static void prefer_lean_components(void)
{
    static const struct {
        const char *name, *value;
    } preferences[] = {
        {"PMIX_MCA_gds", "hash"},
        {"PMIX_MCA_psec", "native"},
        {"PMIX_MCA_prm", "default"},
    };
    for (size_t i = 0; i < hc_array_len(preferences); i++)
        (void)setenv(preferences[i].name, preferences[i].value, 0);
}

static bool has_option(int fd, int option, int wanted)
{
    int value = 0;
    socklen_t size = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
}

/*
 * The library leaves Nagle's algorithm on: a second answer to a client waits until the first is acknowledged,
 * which the client's kernel puts off for 40 ms. Connections inherit the option from the socket that listens,
 * which only the library knows: it is the process's only one.
 */
static void answer_at_once(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    const int yes = 1;
    while (dir && (entry = readdir(dir))) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (has_option(fd, SO_PROTOCOL, IPPROTO_TCP) && has_option(fd, SO_ACCEPTCONN, 1) &&
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) != 0)
            hc_log_debug("answers to ranks may be held back: TCP_NODELAY: %s", hc_errno_text(errno));
    }
    if (dir)
        (void)closedir(dir);
    else
        hc_log_debug("answers to ranks may be held back: /proc/self/fd: %s", hc_errno_text(errno));
}

static hcomm_status_t init_library(struct hc_pmix *pmix)
{
    struct hc_job *job = &pmix->launch->job;
    pmix_topology_t topology = {.source = "hwloc", .topology = hc_map_topology(pmix->launch->map)};
    bool no = false;
    uint32_t zero = 0;
    pmix_info_t info[7];
    size_t count = 0;
    PMIX_INFO_LOAD(&info[count++], PMIX_SERVER_NSPACE, "hcommrun", PMIX_STRING);
    PMIX_INFO_LOAD(&info[count++], PMIX_SERVER_RANK, &zero, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[count++], PMIX_SERVER_TMPDIR, job->session_path, PMIX_STRING);
    PMIX_INFO_LOAD(&info[count++], PMIX_SYSTEM_TMPDIR, job->session_path, PMIX_STRING);
    PMIX_INFO_LOAD(&info[count++], PMIX_SERVER_TOOL_SUPPORT, &no, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[count++], PMIX_IOF_LOCAL_OUTPUT, &no, PMIX_BOOL); /* output is written by us */
    (void)memset(&info[count], 0, sizeof(info[count]));
    PMIX_LOAD_KEY(info[count].key, PMIX_TOPOLOGY2);
    info[count].value.type = PMIX_TOPO;
    info[count].value.data.topo = &topology; /* ours: not copied, not freed */
    pmix_status_t status = PMIx_server_init(&module, info, count + 1);
    for (size_t i = 0; i < count; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    if (status != PMIX_SUCCESS)
        return hc_pmix_error("cannot start", status);
    answer_at_once();
    return HCOMM_OK;
}

/* The library listens at an address of the host; without any it prints five lines that do not say so. */
static hcomm_status_t check_network(void)
{
    struct ifaddrs *all = NULL;
    bool found = getifaddrs(&all) != 0; /* cannot be told: let the library find out */
    for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next)
        found = (one->ifa_flags & IFF_UP) && one->ifa_addr &&
                (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6);
    if (all)
        freeifaddrs(all);
    return found ? HCOMM_OK
                 : hc_error(
                       HCOMM_ERR_UNSUPPORTED,
                       "no network interface is up, not even loopback, which ranks and launcher need to talk "
                       "to each other; as root: ip link set lo up");
}

hcomm_status_t hc_pmix_start(struct hc_launch *launch, struct hc_pmix **result)
{
    hcomm_status_t status = check_network();
    if (status != HCOMM_OK)
        return status;
    struct hc_pmix *pmix = calloc(1, sizeof(*pmix));
    if (!pmix)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the PMIx server");
    pmix->launch = launch;
    hc_pmix_store_init(pmix);
    the_server = pmix;
    prefer_lean_components();
    status = open_queue(pmix);
    if (status == HCOMM_OK)
        status = init_library(pmix);
    pmix->initialised = status == HCOMM_OK;
    if (status == HCOMM_OK)
        status = hc_pmix_register_job(pmix);
    if (status != HCOMM_OK) {
        hc_pmix_stop(pmix);
        return status;
    }
    *result = pmix;
    return HCOMM_OK;
}

static void close_queue(struct hc_pmix *pmix)
{
    hc_pmix_drain(pmix);
    hc_lock_acquire(&pmix->lock);
    pmix->closed = true;
    hc_lock_release(&pmix->lock);
    hc_pmix_drain(pmix);
    hc_pmix_lookup_cancel_all(pmix);
}

void hc_pmix_stop(struct hc_pmix *pmix)
{
    if (!pmix)
        return;
    close_queue(pmix);
    if (pmix->initialised)
        hc_pmix_deregister_job(&pmix->launch->job);
    hc_pmix_store_fini(pmix);
    if (pmix->source.fd >= 0) {
        hc_loop_forget(&pmix->launch->loop, &pmix->source);
        (void)close(pmix->source.fd);
    }
    if (pmix->initialised)
        return; /* PMIx's thread still refers to it */
    the_server = NULL;
    free(pmix);
}

hcomm_status_t hc_pmix_set_environment(struct hc_pmix *pmix, uint32_t rank,
                                       struct hc_environment *environment)
{
    pmix_proc_t proc;
    char **variables = NULL;
    PMIX_LOAD_PROCID(&proc, pmix->launch->job.name_space, rank);
    pmix_status_t rc = PMIx_server_setup_fork(&proc, &variables);
    if (rc != PMIX_SUCCESS)
        return hc_pmix_error("cannot make the environment of a rank", rc);
    hcomm_status_t status = HCOMM_OK;
    for (char **variable = variables; variable && *variable && status == HCOMM_OK; variable++)
        status = hc_environment_set(environment, *variable);
    PMIX_ARGV_FREE(variables);
    return status;
}

/* ---- failures ---- */

static void on_notified(pmix_status_t status, void *data)
{
    (void)status;
    pmix_info_t *info = data;
    PMIX_INFO_FREE(info, 2);
}

void hc_pmix_notify_failure(struct hc_pmix *pmix, const struct hc_rank *rank)
{
    pmix_proc_t proc;
    pmix_info_t *info = NULL;
    int code = hc_job_exit_code(rank->wait_status);
    PMIX_LOAD_PROCID(&proc, pmix->launch->job.name_space, rank->rank);
    PMIX_INFO_CREATE(info, 2);
    if (!info) {
        hc_log_error("no memory to tell the ranks about the end of rank %u", rank->rank);
        return;
    }
    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_AFFECTED_PROC, &proc, PMIX_PROC);
    PMIX_INFO_LOAD(&info[1], PMIX_EXIT_CODE, &code, PMIX_INT);
    pmix_status_t status =
        PMIx_Notify_event(PMIX_ERR_PROC_ABORTED, &proc, PMIX_RANGE_NAMESPACE, info, 2, on_notified, info);
    if (status != PMIX_SUCCESS)
        on_notified(status, info);
    hc_pmix_store_expire(pmix, rank);
}
