/*
 * A PMIx client with one task per invocation: pmix_client TASK [ARGUMENT]. Prints what was wrong and exits
 * with 1; exits with 0 (or as the task says) when everything is as expected.
 */
#include "runtime/base/compiler.h"

#include <pmix.h>
#include <pmix_tool.h>

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pmix_proc_t self;
static pmix_proc_t everybody;
static uint32_t job_size;

#define CHECK(x, ...)                                                                                        \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            (void)fprintf(stderr, "%s:%d: rank %u: %s: ", __FILE__, __LINE__, self.rank, #x);                \
            (void)fprintf(stderr, __VA_ARGS__);                                                              \
            (void)fprintf(stderr, "\n");                                                                     \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define CHECK_OK(call)                                                                                       \
    do {                                                                                                     \
        pmix_status_t status_ = (call);                                                                      \
        CHECK(status_ == PMIX_SUCCESS, "%s", PMIx_Error_string(status_));                                    \
    } while (0)

static pmix_proc_t rank_proc(uint32_t rank)
{
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, self.nspace, rank);
    return proc;
}

static uint32_t get_u32(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value = NULL;
    uint32_t number = 0;
    pmix_status_t status = PMIx_Get(proc, key, NULL, 0, &value);
    CHECK(status == PMIX_SUCCESS, "%s: %s", key, PMIx_Error_string(status));
    PMIX_VALUE_GET_NUMBER(status, value, number, uint32_t);
    CHECK(status == PMIX_SUCCESS, "%s is no number", key);
    PMIX_VALUE_RELEASE(value);
    return number;
}

static char *get_string(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(proc, key, NULL, 0, &value);
    CHECK(status == PMIX_SUCCESS, "%s: %s", key, PMIx_Error_string(status));
    CHECK(value->type == PMIX_STRING, "%s has type %d", key, value->type);
    char *text = strdup(value->data.string);
    PMIX_VALUE_RELEASE(value);
    return text;
}

static void put_string(const char *key, char *text)
{
    pmix_value_t value = {.type = PMIX_STRING, .data = {.string = text}};
    CHECK_OK(PMIx_Put(PMIX_GLOBAL, key, &value));
    CHECK_OK(PMIx_Commit());
}

static void fence(bool collect)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    CHECK_OK(PMIx_Fence(&everybody, 1, &info, 1));
}

static void task_noop(const char *argument)
{
    (void)argument;
}

/* Every rank sees every rank's value after a fence that collects. */
static void task_modex(const char *argument)
{
    size_t size = argument ? strtoul(argument, NULL, 10) : 100;
    char *mine = calloc(1, size + 1);
    (void)memset(mine, 'a' + (int)(self.rank % 26), size);
    put_string("blob", mine);
    fence(true);
    for (uint32_t rank = 0; rank < job_size; rank++) {
        pmix_proc_t proc = rank_proc(rank);
        char *text = get_string(&proc, "blob");
        CHECK(strlen(text) == size && text[0] == 'a' + (int)(rank % 26), "value of rank %u", rank);
        free(text);
    }
    free(mine);
    fence(false);
}

/* A value is fetched from a rank that puts it later, without any fence. */
static void task_dmodex(const char *argument)
{
    (void)argument;
    char mine[32];
    if (self.rank == 0)
        (void)usleep(200000);
    (void)snprintf(mine, sizeof(mine), "direct %u", self.rank);
    put_string("direct", mine);
    for (uint32_t rank = 0; rank < job_size; rank++) {
        char expected[32];
        pmix_proc_t proc = rank_proc(rank);
        char *text = get_string(&proc, "direct");
        (void)snprintf(expected, sizeof(expected), "direct %u", rank);
        CHECK(strcmp(text, expected) == 0, "got '%s'", text);
        free(text);
    }
    fence(false);
}

/* The job and process data that runtimes rely on. */
static void task_jobdata(const char *argument)
{
    (void)argument;
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1);
    CHECK(get_u32(&everybody, PMIX_UNIV_SIZE) == job_size, "universe size");
    CHECK(get_u32(&everybody, PMIX_LOCAL_SIZE) == job_size, "local size");
    CHECK(get_u32(&everybody, PMIX_NODE_SIZE) == job_size, "node size");
    CHECK(get_u32(&everybody, PMIX_MAX_PROCS) == job_size, "max procs");
    CHECK(get_u32(&everybody, PMIX_NUM_NODES) == 1, "nodes");
    for (uint32_t rank = 0; rank < job_size; rank++) {
        pmix_proc_t proc = rank_proc(rank);
        CHECK(get_u32(&proc, PMIX_LOCAL_RANK) == rank, "local rank");
        CHECK(get_u32(&proc, PMIX_NODE_RANK) == rank, "node rank");
        CHECK(get_u32(&proc, PMIX_GLOBAL_RANK) == rank, "global rank");
        CHECK(get_u32(&proc, PMIX_NODEID) == 0, "node id");
        (void)get_u32(&proc, PMIX_APPNUM);
        char *name = get_string(&proc, PMIX_HOSTNAME);
        CHECK(strcmp(name, host) == 0, "host name '%s'", name);
        free(name);
        free(get_string(&proc, PMIX_CPUSET));
        char *locality = get_string(&proc, PMIX_LOCALITY_STRING);
        CHECK(strstr(locality, "NM"), "locality '%s'", locality);
        free(locality);
    }
    static const char *const texts[] = {PMIX_LOCAL_PEERS, PMIX_LOCAL_CPUSETS, PMIX_NODE_LIST, PMIX_TMPDIR,
                                        PMIX_NSDIR,       PMIX_JOBID,         PMIX_RM_NAME};
    for (size_t i = 0; i < hc_array_len(texts); i++)
        free(get_string(&everybody, texts[i]));
    pmix_proc_t *peers = NULL;
    size_t num_peers = 0;
    CHECK_OK(PMIx_Resolve_peers(host, self.nspace, &peers, &num_peers));
    CHECK(num_peers == job_size, "%zu peers", num_peers);
    PMIX_PROC_FREE(peers, num_peers);
    fence(false);
}

static pmix_status_t look_up(const char *key, bool wait, int timeout, char *text, size_t size)
{
    pmix_pdata_t found;
    pmix_info_t info[2];
    int all = 0;
    PMIX_PDATA_CONSTRUCT(&found);
    (void)snprintf(found.key, sizeof(found.key), "%s", key);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &all, PMIX_INT);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &timeout, PMIX_INT);
    pmix_status_t status = PMIx_Lookup(&found, 1, wait ? info : NULL, wait ? 2 : 0);
    if (status == PMIX_SUCCESS && found.value.type == PMIX_STRING)
        (void)snprintf(text, size, "%s", found.value.data.string);
    PMIX_PDATA_DESTRUCT(&found);
    return status;
}

static void task_publish(const char *argument)
{
    (void)argument;
    char text[64] = "";
    pmix_info_t info;
    char *keys[] = {"port", NULL};
    if (self.rank == 0) {
        (void)usleep(100000); /* the others are waiting by then */
        PMIX_INFO_LOAD(&info, "port", "here: 1=2", PMIX_STRING);
        CHECK_OK(PMIx_Publish(&info, 1));
        CHECK(PMIx_Publish(&info, 1) != PMIX_SUCCESS, "a key was published twice");
    }
    CHECK_OK(look_up("port", true, 60, text, sizeof(text)));
    CHECK(strcmp(text, "here: 1=2") == 0, "got '%s'", text);
    CHECK(look_up("nothing", false, 0, text, sizeof(text)) != PMIX_SUCCESS, "found what nobody published");
    CHECK(look_up("nothing", true, 1, text, sizeof(text)) != PMIX_SUCCESS, "no time-out");
    fence(false);
    if (self.rank == 0)
        CHECK_OK(PMIx_Unpublish(keys, NULL, 0));
    fence(false);
    CHECK(look_up("port", false, 0, text, sizeof(text)) != PMIX_SUCCESS, "found what was unpublished");
    fence(false);
}

static void task_query(const char *argument)
{
    (void)argument;
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    PMIX_QUERY_CONSTRUCT(&query);
    pmix_status_t status = PMIX_SUCCESS;
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_PROC_TABLE);
    CHECK(status == PMIX_SUCCESS, "keys");
    CHECK_OK(PMIx_Query_info(&query, 1, &results, &count));
    CHECK(count == 2, "%zu answers", count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(results[i].key, PMIX_QUERY_NAMESPACES) == 0) {
            CHECK(strcmp(results[i].value.data.string, self.nspace) == 0, "name space");
            continue;
        }
        pmix_data_array_t *table = results[i].value.data.darray;
        CHECK(table->type == PMIX_PROC_INFO && table->size == job_size, "%zu processes", table->size);
        pmix_proc_info_t *process = table->array;
        CHECK(process[self.rank].pid == getpid(), "pid %d", (int)process[self.rank].pid);
    }
    PMIX_INFO_FREE(results, count);
    PMIX_QUERY_DESTRUCT(&query);
    fence(false);
}

static void task_abort(const char *argument)
{
    fence(false);
    if (self.rank == job_size - 1)
        (void)PMIx_Abort(argument ? atoi(argument) : 3, "no reason", NULL, 0);
    while (true)
        (void)pause();
}

static void task_die(const char *argument)
{
    fence(false);
    if (self.rank == job_size - 1)
        (void)raise(argument ? atoi(argument) : SIGKILL);
    while (true)
        (void)pause();
}

static void task_leave(const char *argument)
{
    fence(false);
    if (self.rank == job_size - 1)
        _exit(argument ? atoi(argument) : 0);
    while (true)
        (void)pause();
}

static atomic_int lost_rank = -1; /* set on PMIx's thread */

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[],
                     size_t ninfo, pmix_info_t results[], size_t nresults,
                     pmix_event_notification_cbfunc_fn_t done, void *data)
{
    (void)id;
    (void)code;
    (void)source;
    (void)results;
    (void)nresults;
    for (size_t i = 0; i < ninfo; i++)
        if (strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC) == 0)
            lost_rank = (int)info[i].value.data.proc->rank;
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

/* With --on-failure continue: the last rank dies, the others learn which, and finish. */
static void task_event(const char *argument)
{
    (void)argument;
    pmix_status_t code = PMIX_ERR_PROC_ABORTED;
    CHECK(PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) >= 0, "no handler");
    fence(false);
    if (self.rank == job_size - 1)
        (void)raise(SIGKILL);
    for (int i = 0; i < 6000 && lost_rank < 0; i++)
        (void)usleep(10000);
    CHECK(lost_rank == (int)job_size - 1, "event says %d", atomic_load(&lost_rank));
}

static void task_log(const char *argument)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, argument ? argument : "logged\n", PMIX_STRING);
    CHECK_OK(PMIx_Log(&info, 1, NULL, 0));
    PMIX_INFO_DESTRUCT(&info);
    fence(false);
}

static void task_spawn(const char *argument)
{
    (void)argument;
    pmix_app_t app;
    char child[PMIX_MAX_NSLEN + 1] = "";
    pmix_status_t status = PMIX_SUCCESS;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("/bin/true");
    PMIX_ARGV_APPEND(status, app.argv, "/bin/true");
    CHECK(status == PMIX_SUCCESS, "argv");
    app.maxprocs = 1;
    if (self.rank == 0)
        CHECK(PMIx_Spawn(NULL, 0, &app, 1, child) != PMIX_SUCCESS, "spawn was accepted");
    PMIX_APP_DESTRUCT(&app);
    fence(false);
}

/* Ranks form a group; it gets a context id. */
static void task_group(const char *argument)
{
    (void)argument;
    bool yes = true;
    pmix_info_t want;
    pmix_info_t *results = NULL;
    size_t count = 0;
    bool found = false;
    PMIX_INFO_LOAD(&want, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    pmix_proc_t *members = calloc(job_size, sizeof(*members));
    for (uint32_t rank = 0; rank < job_size; rank++)
        members[rank] = rank_proc(rank);
    CHECK_OK(PMIx_Group_construct("team", members, job_size, &want, 1, &results, &count));
    for (size_t i = 0; i < count; i++)
        found = found || strcmp(results[i].key, PMIX_GROUP_CONTEXT_ID) == 0;
    CHECK(found, "no context id");
    PMIX_INFO_FREE(results, count);
    CHECK_OK(PMIx_Group_destruct("team", NULL, 0));
    free(members);
}

static void task_bindings(const char *argument)
{
    (void)argument;
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0, "affinity");
    char *list = get_string(&self, PMIX_CPUSET);
    (void)printf("rank %u cpus %d list %s\n", self.rank, CPU_COUNT(&set), list);
    free(list);
}

static void control_signal(uint32_t rank, int signal)
{
    pmix_info_t info;
    pmix_proc_t target = rank_proc(rank);
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_SIGNAL, &signal, PMIX_INT);
    CHECK_OK(PMIx_Job_control(&target, 1, &info, 1, NULL, NULL));
}

static volatile sig_atomic_t got_signal;

static void on_signal(int signal)
{
    got_signal = signal;
}

/* Rank 0 has hcommrun send a signal to the last rank. */
static void task_control(const char *argument)
{
    (void)argument;
    (void)signal(SIGUSR2, on_signal);
    fence(false);
    if (self.rank == 0)
        control_signal(job_size - 1, SIGUSR2);
    for (int i = 0; self.rank == job_size - 1 && i < 6000 && !got_signal; i++)
        (void)usleep(10000);
    CHECK((got_signal == SIGUSR2) == (self.rank == job_size - 1), "signal %d", (int)got_signal);
    fence(false);
}

/* Rank 0 raises an event of its own; every other rank gets it. */
static void task_notify(const char *argument)
{
    (void)argument;
    pmix_status_t code = PMIX_ERR_PROC_ABORTED;
    pmix_info_t info;
    if (self.rank != 0)
        CHECK(PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, NULL, NULL) >= 0, "no handler");
    fence(false);
    if (self.rank == 0) {
        PMIX_INFO_LOAD(&info, PMIX_EVENT_AFFECTED_PROC, &self, PMIX_PROC);
        CHECK_OK(PMIx_Notify_event(code, &self, PMIX_RANGE_NAMESPACE, &info, 1, NULL, NULL));
    }
    for (int i = 0; self.rank != 0 && i < 6000 && lost_rank < 0; i++)
        (void)usleep(10000);
    CHECK(self.rank == 0 || lost_rank == 0, "event says %d", atomic_load(&lost_rank));
    fence(false);
}

static atomic_int pushed = 1; /* set on PMIx's thread: what became of the push; 1: no answer yet */

static void on_pushed(pmix_status_t status, void *data)
{
    (void)data;
    pushed = status;
}

/* The last rank types into the standard input of rank 0; watching its output is refused, not a hang. */
static void task_iof(const char *argument)
{
    (void)argument;
    char text[6] = "";
    pmix_proc_t zero = rank_proc(0);
    if (self.rank == job_size - 1) {
        pmix_byte_object_t bytes = {.bytes = "typed", .size = 5};
        CHECK(PMIx_IOF_pull(&zero, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, NULL, NULL, NULL) < 0, "pulled");
        /* not the blocking form: in libpmix 4.2.2 it can wait for its answer's lock for ever */
        CHECK_OK(PMIx_IOF_push(&zero, 1, &bytes, NULL, 0, on_pushed, NULL));
        for (int i = 0; i < 6000 && pushed == 1; i++)
            (void)usleep(10000);
        CHECK(pushed == PMIX_SUCCESS || pushed == PMIX_OPERATION_SUCCEEDED, "push ends with %d",
              atomic_load(&pushed));
    }
    if (self.rank == 0) {
        CHECK(read(STDIN_FILENO, text, 5) == 5, "read");
        CHECK(strcmp(text, "typed") == 0, "read '%s'", text);
    }
    fence(false);
}

static void task_connect(const char *argument)
{
    (void)argument;
    CHECK_OK(PMIx_Connect(&everybody, 1, NULL, 0));
    CHECK_OK(PMIx_Disconnect(&everybody, 1, NULL, 0));
}

/* Data of a process that does not exist is an error, not a wait. */
static void task_stranger(const char *argument)
{
    (void)argument;
    pmix_value_t *value = NULL;
    pmix_proc_t stranger;
    PMIX_LOAD_PROCID(&stranger, "no-such-job", 0);
    CHECK(PMIx_Get(&stranger, "key", NULL, 0, &value) != PMIX_SUCCESS, "found a stranger");
    fence(false);
}

static const struct {
    const char *name;
    void (*run)(const char *argument);
} tasks[] = {
    {"noop", task_noop},         {"modex", task_modex},       {"dmodex", task_dmodex},
    {"jobdata", task_jobdata},   {"publish", task_publish},   {"query", task_query},
    {"abort", task_abort},       {"die", task_die},           {"leave", task_leave},
    {"event", task_event},       {"log", task_log},           {"spawn", task_spawn},
    {"group", task_group},       {"bindings", task_bindings}, {"control", task_control},
    {"notify", task_notify},     {"connect", task_connect},   {"iof", task_iof},
    {"stranger", task_stranger},
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "noop";
    CHECK_OK(PMIx_Init(&self, NULL, 0));
    PMIX_LOAD_PROCID(&everybody, self.nspace, PMIX_RANK_WILDCARD);
    job_size = get_u32(&everybody, PMIX_JOB_SIZE);
    for (size_t i = 0; i < hc_array_len(tasks); i++) {
        if (strcmp(tasks[i].name, name) != 0)
            continue;
        tasks[i].run(argc > 2 ? argv[2] : NULL);
        CHECK_OK(PMIx_Finalize(NULL, 0));
        return 0;
    }
    (void)fprintf(stderr, "unknown task %s\n", name);
    return 2;
}
