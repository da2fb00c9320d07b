/*
 * Bootstrap through PMIx. PMIx is one per process, so its state is a session that all hc_boots share. The
 * first one initialises it, and it ends with the process: a client of PMIx 4.2 that initialises again after
 * PMIx_Finalize finds the job's data gone. PMIx's callbacks run on its own thread and only copy results into
 * calls, or append to the session's losses.
 */
#include "runtime/boot/boot_impl.h"

#include "runtime/base/log.h"

#include <pmix.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum {
    /* PMIx counts whole seconds; a little more than ours, so that our deadline comes first and is exact. */
    SERVER_EXTRA_SECONDS = 1,
    ABORT_MS = 5000,
    FINALIZE_MS = 5000,
};

static struct {
    pthread_mutex_t lock; /* guards the start of PMIx, owner and stuck */
    pid_t owner;          /* that initialised PMIx; 0: nobody yet. A forked child is not the same client */
    bool stuck;           /* PMIx_Init or PMIx_Finalize did not return: do not call PMIx again */
    /* release: self is valid and PMIx usable; partner: acquire in hc_boot_pmix_abort */
    atomic_bool active;
    pmix_proc_t self;
    uint32_t size;
    char version[128];
    char hostname[256];
    struct hc_boot_losses losses;
    bool *lost;                /* size entries, PMIx's thread only: who is in losses.ranks */
    struct hc_lock lists_lock; /* guards the lists; taken before an hc_boot's own lock */
    struct hc_list boots;      /* of struct boot_pmix */
    struct hc_list requests;   /* of struct request */
} session = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What PMIx reads while it works on a call: it keeps pointers to the arguments of its non-blocking calls. */
struct request {
    struct hc_list link; /* in session.requests, so that unanswered ones are not lost */
    struct hc_boot_call *call;
    pmix_proc_t proc;
    pmix_info_t infos[2];
    size_t num_infos;
};

struct boot_pmix {
    struct hc_boot base;
    struct hc_list link; /* in session.boots */
    uint32_t *local_ranks;
};

bool hc_boot_pmix_present(void)
{
    static const char server[] = "PMIX_SERVER_URI";
    if (!getenv("PMIX_NAMESPACE") || !getenv("PMIX_RANK"))
        return false;
    for (char **variable = environ; variable && *variable; variable++)
        if (strncmp(*variable, server, sizeof(server) - 1) == 0)
            return true;
    return false;
}

static hcomm_status_t status_of(pmix_status_t rc)
{
    switch (rc) {
    case PMIX_SUCCESS:
        return HCOMM_OK;
    case PMIX_ERR_TIMEOUT:
        return HCOMM_ERR_TIMEOUT;
    case PMIX_ERR_NOMEM:
    case PMIX_ERR_OUT_OF_RESOURCE:
        return HCOMM_ERR_NO_MEMORY;
    default:
        return HCOMM_ERR_BOOTSTRAP;
    }
}

static hcomm_status_t pmix_error(pmix_status_t rc, const char *what)
{
    return hc_error(status_of(rc), "%s: %s (%d)", what, PMIx_Error_string(rc), (int)rc);
}

/* ---- events ---- */

static void signal_boots(void)
{
    struct hc_list *node;
    hc_lock_acquire(&session.lists_lock);
    hc_list_for_each(node, &session.boots) hc_boot_signal(&hc_list_entry(node, struct boot_pmix, link)->base);
    hc_lock_release(&session.lists_lock);
}

static void note_lost_rank(const pmix_proc_t *proc)
{
    if (strncmp(proc->nspace, session.self.nspace, sizeof(proc->nspace)) != 0 || proc->rank >= session.size ||
        proc->rank == session.self.rank || session.lost[proc->rank])
        return;
    session.lost[proc->rank] = true;
    size_t count = atomic_load_explicit(&session.losses.count, memory_order_relaxed); /* only written here */
    session.losses.ranks[count] = proc->rank;
    /* release: partner is the acquire in hc_boot_next_event */
    atomic_store_explicit(&session.losses.count, count + 1, memory_order_release);
}

static void note_lost_ranks(const pmix_proc_t *source, const pmix_info_t *info, size_t ninfo)
{
    bool named = false;
    for (size_t i = 0; i < ninfo; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC) {
            note_lost_rank(info[i].value.data.proc);
            named = true;
        } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROCS) &&
                   info[i].value.type == PMIX_DATA_ARRAY && info[i].value.data.darray &&
                   info[i].value.data.darray->type == PMIX_PROC) {
            const pmix_proc_t *procs = info[i].value.data.darray->array;
            for (size_t k = 0; k < info[i].value.data.darray->size; k++)
                note_lost_rank(&procs[k]);
            named = true;
        }
    }
    if (!named && source)
        note_lost_rank(source);
}

/* A rank that ended with exit code 0 finished its work: nobody has lost it. */
static bool ended_badly(const pmix_info_t *info, size_t ninfo)
{
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_EXIT_CODE) && info[i].value.type == PMIX_INT)
            return info[i].value.data.integer != 0;
    return false;
}

static void on_rank_lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                         size_t ninfo, pmix_info_t *results, size_t nresults,
                         pmix_event_notification_cbfunc_fn_t done, void *done_arg)
{
    (void)id, (void)results, (void)nresults;
    hc_log_debug("PMIx event %s", PMIx_Error_string(status));
    if (status != PMIX_EVENT_PROC_TERMINATED || ended_badly(info, ninfo)) {
        note_lost_ranks(source, info, ninfo);
        signal_boots();
    }
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
}

static void on_server_lost(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                           size_t ninfo, pmix_info_t *results, size_t nresults,
                           pmix_event_notification_cbfunc_fn_t done, void *done_arg)
{
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    /* release: partners are the acquires in hc_boot_next_event and hc_boot_drain */
    atomic_store_explicit(&session.losses.server, true, memory_order_release);
    signal_boots();
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
}

/* Above the codes that PMIx keeps for itself; any number will do that no other program of the job uses. */
enum { CALL_CODE = PMIX_EXTERNAL_ERR_BASE - 2209 };

static void on_called(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                      size_t ninfo, pmix_info_t *results, size_t nresults,
                      pmix_event_notification_cbfunc_fn_t done, void *done_arg)
{
    (void)id, (void)status, (void)source, (void)info, (void)ninfo, (void)results, (void)nresults;
    /* release: partner is the acquire in hc_boot_next_event */
    atomic_fetch_add_explicit(&session.losses.calls, 1, memory_order_release);
    signal_boots();
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
}

static void on_registered(pmix_status_t status, size_t id, void *arg)
{
    (void)id;
    if (status != PMIX_SUCCESS)
        hc_log_debug("PMIx events about %s are not available: %s", (const char *)arg,
                     PMIx_Error_string(status));
}

/* Not waited for: an answer costs a round trip to the server, and start-up needs none. */
static void register_events(void)
{
    static pmix_status_t server_codes[] = {PMIX_ERR_LOST_CONNECTION, PMIX_ERR_LOST_CONNECTION_TO_SERVER};
    static pmix_status_t rank_codes[] = {
        PMIX_ERR_PROC_REQUESTED_ABORT, PMIX_ERR_PROC_TERM_WO_SYNC,          PMIX_ERR_PROC_KILLED_BY_CMD,
        PMIX_ERR_PROC_ABORTED_BY_SIG,  PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED, PMIX_ERR_EXIT_NONZERO_TERM,
        PMIX_ERR_PROC_ABORTED,         PMIX_EVENT_PROC_TERMINATED,
    };
    static pmix_status_t call_codes[] = {CALL_CODE};
    static char servers[] = "lost servers", ranks[] = "lost ranks", calls[] = "calls of ranks";
    (void)PMIx_Register_event_handler(server_codes, hc_array_len(server_codes), NULL, 0, on_server_lost,
                                      on_registered, servers);
    (void)PMIx_Register_event_handler(call_codes, hc_array_len(call_codes), NULL, 0, on_called, on_registered,
                                      calls);
    (void)PMIx_Register_event_handler(rank_codes, hc_array_len(rank_codes), NULL, 0, on_rank_lost,
                                      on_registered, ranks);
}

/* ---- looking up what the server told at start ---- */

/* A value of the job (rank PMIX_RANK_WILDCARD) or of a rank, from this process's own store only. */
static pmix_status_t look_up(pmix_rank_t rank, const char *key, pmix_value_t **value)
{
    pmix_proc_t proc;
    pmix_info_t optional;
    bool yes = true;
    PMIX_LOAD_PROCID(&proc, session.self.nspace, rank);
    PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    pmix_status_t rc = PMIx_Get(&proc, key, &optional, 1, value);
    PMIX_INFO_DESTRUCT(&optional);
    return rc == PMIX_SUCCESS && !*value ? PMIX_ERR_NOT_FOUND : rc;
}

static bool look_up_u32(pmix_rank_t rank, const char *key, uint32_t *number)
{
    pmix_value_t *value = NULL;
    if (look_up(rank, key, &value) != PMIX_SUCCESS)
        return false;
    pmix_status_t rc = PMIX_SUCCESS;
    uint32_t found = 0;
    PMIX_VALUE_GET_NUMBER(rc, value, found, uint32_t);
    PMIX_VALUE_RELEASE(value);
    if (rc != PMIX_SUCCESS)
        return false;
    *number = found;
    return true;
}

/* *text is owned by the caller (free(3)). */
static bool look_up_string(pmix_rank_t rank, const char *key, char **text)
{
    pmix_value_t *value = NULL;
    if (look_up(rank, key, &value) != PMIX_SUCCESS)
        return false;
    char *copy = value->type == PMIX_STRING && value->data.string ? strdup(value->data.string) : NULL;
    PMIX_VALUE_RELEASE(value);
    if (!copy)
        return false;
    *text = copy;
    return true;
}

/* ---- session ---- */

enum { BIG_JOB = 1024 };

/* What the environment tells about the job's size before PMIx is up; 0 when it tells nothing. */
static unsigned long size_hint(void)
{
    static const char *const counts[] = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < hc_array_len(counts); i++) {
        const char *text = getenv(counts[i]);
        if (text)
            return strtoul(text, NULL, 10);
    }
    return 0;
}

/*
 * PMIx keeps the job's data in shared segments by default, and the server's making them delays PMIx_Init by
 * some 15 ms; a store of the process's own, which every server knows as well, takes 1 ms. Shared segments
 * save memory where they are worth it: in big jobs. The user's word counts more. True: set, to be taken back
 * once PMIx has read it, so that children do not inherit it.
 */
static bool prefer_own_store(void)
{
    return !getenv("PMIX_MCA_gds") && size_hint() <= BIG_JOB && setenv("PMIX_MCA_gds", "hash", 0) == 0;
}

struct init_call {
    pmix_status_t rc;
    pmix_proc_t self;
};

static void call_init(void *argument)
{
    struct init_call *call = argument;
    call->rc = PMIx_Init(&call->self, NULL, 0);
}

static void call_finalize(void *argument)
{
    pmix_status_t *rc = argument;
    *rc = PMIx_Finalize(NULL, 0);
}

static void finalize_pmix(void)
{
    pmix_status_t rc = PMIX_SUCCESS;
    if (hc_boot_run_bounded(call_finalize, &rc, sizeof(rc), FINALIZE_MS) != HCOMM_OK) {
        session.stuck = true;
        hc_log_warn("PMIx_Finalize: %s; going on without", hc_error_detail());
    } else if (rc != PMIX_SUCCESS) {
        hc_log_debug("PMIx_Finalize: %s", PMIx_Error_string(rc));
    }
}

static hcomm_status_t init_pmix(int timeout_ms)
{
    struct init_call call = {.rc = PMIX_ERROR};
    bool own_store = prefer_own_store();
    hcomm_status_t status = hc_boot_run_bounded(call_init, &call, sizeof(call), timeout_ms);
    if (own_store)
        (void)unsetenv("PMIX_MCA_gds");
    if (status != HCOMM_OK) {
        session.stuck = status == HCOMM_ERR_TIMEOUT;
        hc_error_prefix("PMIx_Init, namespace %s: ", getenv("PMIX_NAMESPACE"));
        return status;
    }
    if (call.rc == PMIX_SUCCESS) {
        session.self = call.self;
        return HCOMM_OK;
    }
    return hc_error(HCOMM_ERR_BOOTSTRAP,
                    "PMIx_Init: %s: the PMIx server that the environment names (PMIX_NAMESPACE=%s) does not "
                    "accept this process; is it a child of a rank, or has the job ended?",
                    PMIx_Error_string(call.rc), getenv("PMIX_NAMESPACE"));
}

static hcomm_status_t read_size(void)
{
    uint32_t size = 0;
    if (!look_up_u32(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &size) || size == 0)
        return hc_error(HCOMM_ERR_BOOTSTRAP, "the launcher does not tell the job's size (PMIX_JOB_SIZE)");
    if (session.self.rank >= size)
        return hc_error(HCOMM_ERR_BOOTSTRAP, "the launcher gives rank %u in a job of %u", session.self.rank,
                        size);
    session.size = size;
    return HCOMM_OK;
}

static void read_names(void)
{
    const char *server = getenv("PMIX_VERSION");
    char *hostname = NULL;
    (void)snprintf(session.version, sizeof(session.version), "client %s; server %s", PMIx_Get_version(),
                   server ? server : "unknown");
    if (look_up_string(session.self.rank, PMIX_HOSTNAME, &hostname))
        (void)snprintf(session.hostname, sizeof(session.hostname), "%s", hostname);
    else if (gethostname(session.hostname, sizeof(session.hostname) - 1) != 0)
        (void)snprintf(session.hostname, sizeof(session.hostname), "localhost");
    free(hostname);
}

static hcomm_status_t allocate_losses(void)
{
    session.losses.ranks = calloc(session.size, sizeof(*session.losses.ranks));
    session.lost = calloc(session.size, sizeof(*session.lost));
    if (session.losses.ranks && session.lost)
        return HCOMM_OK;
    free(session.losses.ranks);
    free(session.lost);
    return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the state of %u ranks", session.size);
}

/* Whether every context has been finalized. */
static bool is_left(void)
{
    hc_lock_acquire(&session.lists_lock);
    bool left = hc_list_empty(&session.boots);
    hc_lock_release(&session.lists_lock);
    return left;
}

/*
 * At exit. Not from a forked child, whose connection is its parent's; not when the server is gone, as nobody
 * would answer; and not with contexts left, so that the launcher tells of a rank that exits without
 * hcomm_finalize instead of taking its end for a good one.
 */
static void end_session(void)
{
    (void)pthread_mutex_lock(&session.lock);
    atomic_store_explicit(&session.active, false, memory_order_release);
    bool usable = session.owner == getpid() && !session.stuck && is_left();
    if (usable && !atomic_load_explicit(&session.losses.server, memory_order_acquire))
        finalize_pmix();
    (void)pthread_mutex_unlock(&session.lock);
}

/* session.lock is held. */
static hcomm_status_t start_session(int timeout_ms)
{
    if (session.stuck)
        return hc_error(HCOMM_ERR_BOOTSTRAP, "PMIx did not answer earlier and cannot be used again");
    if (session.owner != 0)
        return hc_error(HCOMM_ERR_BOOTSTRAP,
                        "this process was forked from rank %u, which is the job's member", session.self.rank);
    hcomm_status_t status = init_pmix(timeout_ms);
    if (status != HCOMM_OK)
        return status;
    status = read_size();
    if (status == HCOMM_OK)
        status = allocate_losses();
    if (status == HCOMM_OK && atexit(end_session) != 0)
        status = hc_error(HCOMM_ERR_NO_MEMORY, "no memory for an exit handler");
    if (status != HCOMM_OK) {
        finalize_pmix();
        session.stuck = true;
        return status;
    }
    hc_lock_init(&session.lists_lock);
    hc_list_init(&session.boots);
    hc_list_init(&session.requests);
    read_names();
    register_events();
    session.owner = getpid();
    atomic_store_explicit(&session.active, true, memory_order_release);
    return HCOMM_OK;
}

static hcomm_status_t join_session(int timeout_ms)
{
    (void)pthread_mutex_lock(&session.lock);
    hcomm_status_t status = session.owner == getpid() ? HCOMM_OK : start_session(timeout_ms);
    (void)pthread_mutex_unlock(&session.lock);
    return status;
}

/* ---- put, get, fence ---- */

/* What PMIx_Put and PMIx_Commit need; strings are copies that a call which never returns may keep. */
struct put_call {
    pmix_status_t rc;
    const char *failed; /* the function that failed */
    char key[32];
    void *blob;
    size_t size;
};

static void call_put(void *argument)
{
    struct put_call *call = argument;
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = call->blob; /* PMIx copies it */
    value.data.bo.size = call->size;
    call->failed = "PMIx_Put";
    call->rc = PMIx_Put(PMIX_GLOBAL, call->key, &value);
    if (call->rc != PMIX_SUCCESS)
        return;
    call->failed = "PMIx_Commit";
    call->rc = PMIx_Commit();
}

static hcomm_status_t pmix_put(struct hc_boot *base, const char *key, const void *blob, size_t size)
{
    struct put_call call = {.rc = PMIX_ERROR, .blob = malloc(size ? size : 1), .size = size};
    if (!call.blob)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory to publish %zu bytes", size);
    (void)snprintf(call.key, sizeof(call.key), "%s", key);
    (void)memcpy(call.blob, blob, size);
    void *copy = call.blob;
    hcomm_status_t status = hc_boot_run_bounded(call_put, &call, sizeof(call), base->timeout_ms);
    if (status == HCOMM_ERR_TIMEOUT) { /* the call goes on with the copy */
        hc_error_prefix("publishing %s: ", key);
        return status;
    }
    free(copy);
    if (status != HCOMM_OK)
        return status;
    return call.rc == PMIX_SUCCESS ? HCOMM_OK : pmix_error(call.rc, call.failed);
}

static void complete_with_blob(struct hc_boot_call *call, const pmix_byte_object_t *blob)
{
    void *copy = malloc(blob->size ? blob->size : 1);
    if (!copy) {
        hc_boot_call_complete(call, HCOMM_ERR_NO_MEMORY, "no memory for the answer", NULL, 0);
        return;
    }
    if (blob->size > 0)
        (void)memcpy(copy, blob->bytes, blob->size);
    hc_boot_call_complete(call, HCOMM_OK, NULL, copy, blob->size);
}

/* For a call about `rank`, with PMIX_TIMEOUT as its first info. NULL when memory is exhausted. */
static struct request *create_request(const struct hc_boot *boot, struct hc_boot_call *call, pmix_rank_t rank)
{
    struct request *request = calloc(1, sizeof(*request));
    if (!request)
        return NULL;
    int seconds = boot->timeout_ms / 1000 + SERVER_EXTRA_SECONDS;
    request->call = call;
    PMIX_LOAD_PROCID(&request->proc, session.self.nspace, rank);
    PMIX_INFO_LOAD(&request->infos[0], PMIX_TIMEOUT, &seconds, PMIX_INT);
    request->num_infos = 1;
    hc_lock_acquire(&session.lists_lock);
    hc_list_append(&session.requests, &request->link);
    hc_lock_release(&session.lists_lock);
    return request;
}

/* The call that the request was for. */
static struct hc_boot_call *destroy_request(struct request *request)
{
    struct hc_boot_call *call = request->call;
    hc_lock_acquire(&session.lists_lock);
    hc_list_remove(&request->link);
    hc_lock_release(&session.lists_lock);
    free(request); /* its infos hold numbers only */
    return call;
}

/* On PMIx's thread, or inside PMIx_Get_nb. */
static void on_value(pmix_status_t rc, pmix_value_t *value, void *arg)
{
    struct hc_boot_call *call = destroy_request(arg);
    if (rc == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT)
        complete_with_blob(call, &value->data.bo);
    else if (rc == PMIX_SUCCESS && value)
        hc_boot_call_complete(call, HCOMM_ERR_PROTOCOL, "the value is not a byte object", NULL, 0);
    else if (rc == PMIX_SUCCESS || rc == PMIX_ERR_NOT_FOUND)
        hc_boot_call_retry_later(call); /* the rank has put other keys, this one not yet */
    else
        hc_boot_call_complete(call, status_of(rc), PMIx_Error_string(rc), NULL, 0);
}

static hcomm_status_t issue_get(const struct hc_boot *boot, struct hc_boot_call *call)
{
    struct request *request = create_request(boot, call, call->rank);
    if (!request)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a PMIx request");
    if (call->retries > 0) { /* else PMIx answers from what it has learned before */
        bool yes = true;
        PMIX_INFO_LOAD(&request->infos[request->num_infos++], PMIX_GET_REFRESH_CACHE, &yes, PMIX_BOOL);
    }
    pmix_status_t rc =
        PMIx_Get_nb(&request->proc, call->key, request->infos, request->num_infos, on_value, request);
    if (rc == PMIX_SUCCESS)
        return HCOMM_OK;
    (void)destroy_request(request);
    if (rc != PMIX_ERR_NOT_FOUND)
        return pmix_error(rc, "PMIx_Get_nb");
    hc_boot_call_retry_later(call);
    return HCOMM_OK;
}

static void on_fence(pmix_status_t rc, void *arg)
{
    hcomm_status_t status = status_of(rc);
    const char *reason = rc == PMIX_SUCCESS ? NULL : PMIx_Error_string(rc);
    if (rc == PMIX_ERR_PARTIAL_SUCCESS) { /* a server may let the others go when one has left it */
        status = HCOMM_ERR_PEER_LOST;
        reason = "another rank ended, or gave up waiting, before all had come";
    }
    hc_boot_call_complete(destroy_request(arg), status, reason, NULL, 0);
}

static hcomm_status_t issue_fence(const struct hc_boot *boot, struct hc_boot_call *call)
{
    struct request *request = create_request(boot, call, PMIX_RANK_WILDCARD);
    if (!request)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a PMIx request");
    pmix_status_t rc =
        PMIx_Fence_nb(&request->proc, 1, request->infos, request->num_infos, on_fence, request);
    if (rc == PMIX_SUCCESS)
        return HCOMM_OK;
    if (rc == PMIX_OPERATION_SUCCEEDED) { /* done at once: no callback follows */
        on_fence(PMIX_SUCCESS, request);
        return HCOMM_OK;
    }
    (void)destroy_request(request);
    return pmix_error(rc, "PMIx_Fence_nb");
}

static hcomm_status_t pmix_issue(struct hc_boot *boot, struct hc_boot_call *call)
{
    return call->fence ? issue_fence(boot, call) : issue_get(boot, call);
}

/* ---- calls ---- */

enum { CALL_INFOS = 2 };

static void on_call_sent(pmix_status_t rc, void *arg)
{
    pmix_info_t *infos = arg;
    if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED)
        hc_log_debug("PMIx_Notify_event: %s", PMIx_Error_string(rc));
    PMIX_INFO_FREE(infos, CALL_INFOS);
}

static hcomm_status_t pmix_call_rank(struct hc_boot *base, uint32_t rank)
{
    (void)base;
    bool yes = true;
    pmix_proc_t target;
    pmix_info_t *infos = NULL;
    PMIX_INFO_CREATE(infos, CALL_INFOS);
    if (!infos)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a PMIx event");
    PMIX_LOAD_PROCID(&target, session.self.nspace, rank);
    PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_CUSTOM_RANGE, &target, PMIX_PROC);
    PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    pmix_status_t rc = PMIx_Notify_event(CALL_CODE, &session.self, PMIX_RANGE_CUSTOM, infos, CALL_INFOS,
                                         on_call_sent, infos);
    if (rc == PMIX_SUCCESS)
        return HCOMM_OK;
    on_call_sent(rc, infos);
    return rc == PMIX_OPERATION_SUCCEEDED ? HCOMM_OK : pmix_error(rc, "PMIx_Notify_event");
}

/* ---- hosts ---- */

static bool read_node_ids(uint32_t *ids)
{
    for (uint32_t rank = 0; rank < session.size; rank++)
        if (!look_up_u32(rank, PMIX_NODEID, &ids[rank]))
            return false;
    return true;
}

/* The first rank with an equal name stands for the host. */
static uint32_t first_with_name(char *const *names, uint32_t rank)
{
    if (rank > 0 && strcmp(names[rank - 1], names[rank]) == 0)
        rank--;
    for (uint32_t i = 0; i < rank; i++)
        if (strcmp(names[i], names[rank]) == 0)
            return i;
    return rank;
}

static hcomm_status_t read_host_names(uint32_t *ids)
{
    hcomm_status_t status = HCOMM_OK;
    char **names = calloc(session.size, sizeof(*names));
    if (!names)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the host names of %u ranks", session.size);
    for (uint32_t rank = 0; rank < session.size && status == HCOMM_OK; rank++) {
        if (look_up_string(rank, PMIX_HOSTNAME, &names[rank]))
            ids[rank] = first_with_name(names, rank);
        else
            status =
                hc_error(HCOMM_ERR_BOOTSTRAP,
                         "the launcher does not tell where rank %u runs (PMIX_NODEID, PMIX_HOSTNAME)", rank);
    }
    for (uint32_t rank = 0; rank < session.size; rank++)
        free(names[rank]);
    free(names);
    return status;
}

static hcomm_status_t ask_hosts(uint32_t *host_of, uint32_t *num_hosts)
{
    uint32_t *ids = calloc(session.size, sizeof(*ids));
    if (!ids)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", session.size);
    hcomm_status_t status = read_node_ids(ids) ? HCOMM_OK : read_host_names(ids);
    if (status == HCOMM_OK)
        status = hc_boot_number_hosts(ids, session.size, host_of, num_hosts);
    free(ids);
    return status;
}

static hcomm_status_t pmix_hosts(struct hc_boot *base, uint32_t *host_of)
{
    uint32_t num_hosts = 0;
    if (base->job.num_hosts > 1)
        return ask_hosts(host_of, &num_hosts);
    (void)memset(host_of, 0, base->job.size * sizeof(*host_of));
    return HCOMM_OK;
}

/* ---- open, close, abort ---- */

static const char *launcher_name(void)
{
    static const struct {
        const char *prefix, *name;
    } known[] = {
        {"hcomm", "hcommrun"},
        {"slurm.", "slurm"},
        {"prterun-", "prte"},
        {"prte-", "prte"},
    };
    for (size_t i = 0; i < hc_array_len(known); i++)
        if (strncmp(session.self.nspace, known[i].prefix, strlen(known[i].prefix)) == 0)
            return known[i].name;
    return getenv("OMPI_COMM_WORLD_SIZE") ? "openmpi" : "unknown";
}

/* The ranks on this host; without the launcher's word this rank alone, which costs speed but is right. */
static hcomm_status_t read_local_ranks(struct boot_pmix *boot)
{
    struct hc_boot_job *job = &boot->base.job;
    char own[16];
    char *text = NULL;
    (void)snprintf(own, sizeof(own), "%u", job->rank);
    bool told = look_up_string(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS, &text);
    hcomm_status_t status = hc_boot_parse_ranks(told ? text : own, job->size, job->rank, &boot->local_ranks,
                                                &job->local_size, &job->local_rank);
    free(text);
    job->local_ranks = boot->local_ranks;
    return status;
}

static hcomm_status_t read_num_hosts(struct hc_boot_job *job)
{
    uint32_t nodes = 0;
    if (job->local_size == job->size) {
        job->num_hosts = 1;
        return HCOMM_OK;
    }
    if (look_up_u32(PMIX_RANK_WILDCARD, PMIX_NUM_NODES, &nodes) && nodes > 1 && nodes <= job->size) {
        job->num_hosts = nodes;
        return HCOMM_OK;
    }
    uint32_t *host_of = calloc(job->size, sizeof(*host_of));
    if (!host_of)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", job->size);
    hcomm_status_t status = ask_hosts(host_of, &job->num_hosts);
    free(host_of);
    return status;
}

static hcomm_status_t read_job(struct boot_pmix *boot)
{
    boot->base.job = (struct hc_boot_job){
        .rank = session.self.rank,
        .size = session.size,
        .name_space = session.self.nspace,
        .hostname = session.hostname,
        .launcher = launcher_name(),
        .version = session.version,
        .launched = true,
    };
    hcomm_status_t status = read_local_ranks(boot);
    return status == HCOMM_OK ? read_num_hosts(&boot->base.job) : status;
}

static void pmix_close(struct hc_boot *base)
{
    struct boot_pmix *boot = hc_container_of(base, struct boot_pmix, base);
    hc_lock_acquire(&session.lists_lock);
    hc_list_remove(&boot->link);
    hc_lock_release(&session.lists_lock);
    hc_boot_base_fini(base);
    free(boot->local_ranks);
    free(boot);
}

static const struct hc_boot_ops pmix_ops = {
    .name = "PMIx",
    .close = pmix_close,
    .put = pmix_put,
    .issue = pmix_issue,
    .hosts = pmix_hosts,
    .call_rank = pmix_call_rank,
};

hcomm_status_t hc_boot_pmix_open(int timeout_ms, struct hc_boot **opened)
{
    struct boot_pmix *boot = calloc(1, sizeof(*boot));
    if (!boot)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the bootstrap");
    hcomm_status_t status = hc_boot_base_init(&boot->base, &pmix_ops, timeout_ms);
    if (status != HCOMM_OK)
        goto free_boot;
    status = join_session(timeout_ms);
    if (status != HCOMM_OK)
        goto fini_base;
    status = read_job(boot);
    if (status != HCOMM_OK)
        goto free_local_ranks;
    boot->base.losses = &session.losses;
    hc_lock_acquire(&session.lists_lock);
    hc_list_append(&session.boots, &boot->link);
    hc_lock_release(&session.lists_lock);
    *opened = &boot->base;
    return HCOMM_OK;

free_local_ranks:
    free(boot->local_ranks);
fini_base:
    hc_boot_base_fini(&boot->base);
free_boot:
    free(boot);
    return status;
}

struct abort_call {
    int code;
    char message[256];
};

static void call_abort(void *argument)
{
    struct abort_call *call = argument;
    (void)PMIx_Abort(call->code, call->message, NULL, 0);
}

void hc_boot_pmix_abort(int code, const char *message)
{
    struct abort_call call = {.code = code};
    /* acquire: partner is the release in start_session */
    if (!atomic_load_explicit(&session.active, memory_order_acquire))
        return;
    (void)snprintf(call.message, sizeof(call.message), "%s", message ? message : "");
    if (hc_boot_run_bounded(call_abort, &call, sizeof(call), ABORT_MS) != HCOMM_OK)
        hc_log_warn("asking the launcher to end the job: %s", hc_error_detail());
}
