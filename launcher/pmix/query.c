/* PMIx_Query_info of name spaces and processes. */
#include "launcher/pmix/bag.h"
#include "launcher/pmix/internal.h"

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct query_call {
    struct hc_pmix_call base;
    pmix_query_t *queries;
    size_t count;
    pmix_info_cbfunc_t done;
    void *data;
};

/* Which name space a query is about: ours when it does not say. */
static bool is_about_us(struct hc_pmix *pmix, const pmix_query_t *query)
{
    const pmix_value_t *name = hc_pmix_find(query->qualifiers, query->nqual, PMIX_NSPACE);
    return !name || name->type != PMIX_STRING || strcmp(name->data.string, pmix->launch->job.name_space) == 0;
}

static pmix_proc_state_t process_state(const struct hc_rank *rank)
{
    if (rank->state == HC_RANK_NEW)
        return PMIX_PROC_STATE_PREPPED;
    if (rank->state == HC_RANK_RUNNING)
        return rank->connected ? PMIX_PROC_STATE_CONNECTED : PMIX_PROC_STATE_RUNNING;
    if (WIFSIGNALED(rank->wait_status))
        return PMIX_PROC_STATE_ABORTED_BY_SIG;
    return WEXITSTATUS(rank->wait_status) ? PMIX_PROC_STATE_TERM_NON_ZERO : PMIX_PROC_STATE_TERMINATED;
}

static void describe_process(const struct hc_job *job, const struct hc_rank *rank, pmix_proc_info_t *out)
{
    PMIX_LOAD_PROCID(&out->proc, job->name_space, rank->rank);
    out->hostname = strdup(job->hostname);
    out->executable_name = strdup(job->options->apps[rank->app_index].argv[0]);
    out->pid = rank->pid;
    out->exit_code = rank->state == HC_RANK_ENDED ? hc_job_exit_code(rank->wait_status) : 0;
    out->state = process_state(rank);
}

static bool put_process_table(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    const struct hc_job *job = &pmix->launch->job;
    pmix_data_array_t *array = NULL;
    PMIX_DATA_ARRAY_CREATE(array, job->num_ranks, PMIX_PROC_INFO);
    pmix_proc_info_t *table = array ? array->array : NULL;
    for (uint32_t i = 0; table && i < job->num_ranks; i++)
        describe_process(job, &job->ranks[i], &table[i]);
    hc_pmix_bag_put_array(bag, key, array);
    return true;
}

static bool put_namespaces(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    hc_pmix_bag_put_string(bag, key, pmix->launch->job.name_space);
    return true;
}

static bool put_namespace_info(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    const struct hc_job *job = &pmix->launch->job;
    struct hc_pmix_bag one = {0};
    struct hc_pmix_bag all = {0};
    hc_pmix_bag_put_string(&one, PMIX_NSPACE, job->name_space);
    hc_pmix_bag_put_string(&one, PMIX_CMD_LINE, job->options->apps[0].argv[0]);
    hc_pmix_bag_put_u32(&one, PMIX_JOB_SIZE, job->num_ranks);
    hc_pmix_bag_put_bag(&all, PMIX_JOB_INFO_ARRAY, &one);
    hc_pmix_bag_put_bag(bag, key, &all);
    return true;
}

static bool put_job_status(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    pmix_status_t status = pmix->launch->job.failed ? PMIX_ERR_JOB_ABORTED : PMIX_SUCCESS;
    hc_pmix_bag_put(bag, key, &status, PMIX_STATUS);
    return true;
}

static bool put_job_size(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    hc_pmix_bag_put_u32(bag, key, pmix->launch->job.num_ranks);
    return true;
}

static bool put_rm_name(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    (void)pmix;
    hc_pmix_bag_put_string(bag, key, "hcommrun");
    return true;
}

static bool put_rm_version(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    (void)pmix;
    hc_pmix_bag_put_string(bag, key, PACKAGE_VERSION);
    return true;
}

/* Nothing is supported there: an empty list says so. */
static bool put_nothing(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    (void)pmix;
    hc_pmix_bag_put_string(bag, key, "");
    return true;
}

static const struct {
    const char *key;
    bool (*put)(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag);
} answers[] = {
    {PMIX_QUERY_NAMESPACES, put_namespaces},
    {PMIX_QUERY_NAMESPACE_INFO, put_namespace_info},
    {PMIX_QUERY_JOB_STATUS, put_job_status},
    {PMIX_QUERY_PROC_TABLE, put_process_table},
    {PMIX_QUERY_LOCAL_PROC_TABLE, put_process_table},
    {PMIX_QUERY_SPAWN_SUPPORT, put_nothing},
    {PMIX_QUERY_DEBUG_SUPPORT, put_nothing},
    {PMIX_JOB_SIZE, put_job_size},
    {PMIX_RM_NAME, put_rm_name},
    {PMIX_RM_VERSION, put_rm_version},
};

static bool put_answer(struct hc_pmix *pmix, const char *key, struct hc_pmix_bag *bag)
{
    for (size_t i = 0; i < hc_array_len(answers); i++)
        if (strncmp(answers[i].key, key, PMIX_MAX_KEYLEN) == 0)
            return answers[i].put(pmix, key, bag);
    return false;
}

/* How many keys could not be answered. */
static size_t put_answers(struct hc_pmix *pmix, const struct query_call *call, struct hc_pmix_bag *bag)
{
    size_t missing = 0;
    for (size_t i = 0; i < call->count; i++)
        for (char **key = call->queries[i].keys; key && *key; key++)
            missing += !is_about_us(pmix, &call->queries[i]) || !put_answer(pmix, *key, bag);
    return missing;
}

static void release(void *data)
{
    struct hc_pmix_bag *bag = data;
    hc_pmix_bag_fini(bag);
    free(bag);
}

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct query_call *call = hc_container_of(base, struct query_call, base);
    struct hc_pmix_bag *bag = calloc(1, sizeof(*bag));
    if (!bag) {
        call->done(PMIX_ERR_NOMEM, NULL, 0, call->data, NULL, NULL);
        free(call);
        return;
    }
    size_t missing = put_answers(pmix, call, bag);
    pmix_status_t status = missing == 0 ? PMIX_SUCCESS : PMIX_QUERY_PARTIAL_SUCCESS;
    if (bag->count == 0)
        status = PMIX_ERR_NOT_FOUND;
    if (bag->failed)
        status = PMIX_ERR_NOMEM;
    call->done(status, bag->info, bag->count, call->data, release, bag);
    free(call);
}

pmix_status_t hc_pmix_upcall_query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries,
                                   pmix_info_cbfunc_t done, void *data)
{
    (void)proc;
    struct query_call *call = malloc(sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    *call = (struct query_call){
        .base = {.run = run}, .queries = queries, .count = nqueries, .done = done, .data = data};
    return hc_pmix_post(&call->base);
}
