/* What the ranks can ask about the job: registered with the library once, before they start. */
#include "launcher/pmix/bag.h"
#include "launcher/pmix/internal.h"

#include "runtime/base/log.h"

#include "config.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEREGISTER_SECONDS = 5 };

/* Texts of the job that are computed once. */
struct texts {
    char *ranks;    /* "0,1,2,…" */
    char *node_map; /* in the library's notation */
    char *proc_map;
    char *cpusets; /* of all ranks, with ':' between */
    char *topology;
};

static void texts_fini(struct texts *texts)
{
    free(texts->ranks);
    free(texts->node_map);
    free(texts->proc_map);
    free(texts->cpusets);
    free(texts->topology);
}

static char *list_ranks(const struct hc_job *job)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (uint32_t i = 0; i < job->num_ranks; i++)
        (void)fprintf(out, "%s%u", i ? "," : "", i);
    return fclose(out) == 0 ? text : NULL;
}

static char *list_cpusets(const struct hc_job *job)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (uint32_t i = 0; i < job->num_ranks; i++)
        (void)fprintf(out, "%s%s", i ? ":" : "", job->ranks[i].cpus->list);
    return fclose(out) == 0 ? text : NULL;
}

/*
 * A list of one host. The library's own generator writes beyond its buffer when a name has more than 49
 * characters before its digits (seen with 4.2.2), so longer ones go in the plain form, which it understands
 * as well.
 */
static pmix_status_t describe_host(const char *hostname, char **node_map)
{
    enum { SAFE_LENGTH = 40 };
    if (strlen(hostname) <= SAFE_LENGTH)
        return PMIx_generate_regex(hostname, node_map);
    return asprintf(node_map, "raw:%s", hostname) < 0 ? PMIX_ERR_NOMEM : PMIX_SUCCESS;
}

static hcomm_status_t texts_init(struct texts *texts, const struct hc_launch *launch)
{
    const struct hc_job *job = &launch->job;
    *texts = (struct texts){.ranks = list_ranks(job), .cpusets = list_cpusets(job)};
    hcomm_status_t status = hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the job's data");
    if (!texts->ranks || !texts->cpusets)
        goto fail;
    pmix_status_t rc = describe_host(job->hostname, &texts->node_map);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_generate_ppn(texts->ranks, &texts->proc_map);
    if (rc != PMIX_SUCCESS) {
        status = hc_pmix_error("cannot describe the node map", rc);
        goto fail;
    }
    status = hc_map_export(launch->map, &texts->topology);
    if (status == HCOMM_OK)
        return HCOMM_OK;
fail:
    texts_fini(texts);
    return status;
}

static void put_sizes(struct hc_pmix_bag *bag, const struct hc_launch *launch)
{
    const struct hc_job *job = &launch->job;
    hc_pmix_bag_put_u32(bag, PMIX_UNIV_SIZE, job->num_ranks);
    hc_pmix_bag_put_u32(bag, PMIX_JOB_SIZE, job->num_ranks);
    hc_pmix_bag_put_u32(bag, PMIX_MAX_PROCS, job->num_ranks);
    hc_pmix_bag_put_u32(bag, PMIX_NUM_SLOTS, job->num_ranks);
    hc_pmix_bag_put_u32(bag, PMIX_LOCAL_SIZE, job->num_ranks);
    hc_pmix_bag_put_u32(bag, PMIX_NODE_SIZE, job->num_ranks);
    hc_pmix_bag_put_u32(bag, PMIX_NUM_NODES, 1);
    hc_pmix_bag_put_u32(bag, PMIX_JOB_NUM_APPS, (uint32_t)job->options->num_apps);
    hc_pmix_bag_put_rank(bag, PMIX_NPROC_OFFSET, 0);
    hc_pmix_bag_put_rank(bag, PMIX_LOCALLDR, 0);
    hc_pmix_bag_put_bool(bag, PMIX_NODE_OVERSUBSCRIBED, job->num_ranks > hc_map_processors(launch->map));
}

static void put_names(struct hc_pmix_bag *bag, const struct hc_job *job, const struct texts *texts)
{
    char anl[64];
    (void)snprintf(anl, sizeof(anl), "(vector,(0,1,%u))", job->num_ranks);
    hc_pmix_bag_put_string(bag, PMIX_JOBID, job->name_space);
    hc_pmix_bag_put(bag, PMIX_NODE_MAP, texts->node_map, PMIX_REGEX);
    hc_pmix_bag_put(bag, PMIX_PROC_MAP, texts->proc_map, PMIX_REGEX);
    hc_pmix_bag_put_string(bag, PMIX_ANL_MAP, anl);
    hc_pmix_bag_put_string(bag, PMIX_NODE_LIST, job->hostname);
    hc_pmix_bag_put_string(bag, PMIX_ALLOCATED_NODELIST, job->hostname);
    hc_pmix_bag_put_string(bag, PMIX_LOCAL_PEERS, texts->ranks);
    hc_pmix_bag_put_string(bag, PMIX_LOCAL_CPUSETS, texts->cpusets);
    hc_pmix_bag_put_string(bag, PMIX_TMPDIR, job->session_path);
    hc_pmix_bag_put_string(bag, PMIX_NSDIR, job->session_path);
    hc_pmix_bag_put_bool(bag, PMIX_TDIR_RMCLEAN, true);
    hc_pmix_bag_put_string(bag, PMIX_RM_NAME, "hcommrun");
    hc_pmix_bag_put_string(bag, PMIX_RM_VERSION, PACKAGE_VERSION);
    hc_pmix_bag_put_string(bag, PMIX_HWLOC_XML_V2, texts->topology);
}

static void put_node(struct hc_pmix_bag *bag, const struct hc_job *job, const struct texts *texts)
{
    struct hc_pmix_bag node = {0};
    hc_pmix_bag_put_u32(&node, PMIX_NODEID, 0);
    hc_pmix_bag_put_string(&node, PMIX_HOSTNAME, job->hostname);
    hc_pmix_bag_put_u32(&node, PMIX_LOCAL_SIZE, job->num_ranks);
    hc_pmix_bag_put_u32(&node, PMIX_NODE_SIZE, job->num_ranks);
    hc_pmix_bag_put_string(&node, PMIX_LOCAL_PEERS, texts->ranks);
    hc_pmix_bag_put_rank(&node, PMIX_LOCALLDR, 0);
    hc_pmix_bag_put_bag(bag, PMIX_NODE_INFO_ARRAY, &node);
}

static void put_apps(struct hc_pmix_bag *bag, const struct hc_options *options)
{
    for (uint32_t i = 0; i < options->num_apps; i++) {
        const struct hc_app *app = &options->apps[i];
        struct hc_pmix_bag data = {0};
        hc_pmix_bag_put_u32(&data, PMIX_APPNUM, i);
        hc_pmix_bag_put_u32(&data, PMIX_APP_SIZE, (uint32_t)app->count);
        hc_pmix_bag_put_rank(&data, PMIX_APPLDR, app->first_rank);
        if (app->wdir)
            hc_pmix_bag_put_string(&data, PMIX_WDIR, app->wdir);
        hc_pmix_bag_put_bag(bag, PMIX_APP_INFO_ARRAY, &data);
    }
}

/* The library's text for where a set of processors lies: computed once per distinct set. */
struct locality {
    const struct hc_cpus *cpus;
    char *text;
};

static char *describe_locality(const struct hc_cpus *cpus)
{
    char *text = NULL;
    pmix_cpuset_t set = {.source = "hwloc", .bitmap = cpus->bitmap};
    return PMIx_server_generate_locality_string(&set, &text) == PMIX_SUCCESS ? text : NULL;
}

static void put_rank(struct hc_pmix_bag *bag, const struct hc_launch *launch, const struct hc_rank *rank,
                     struct locality *locality)
{
    struct hc_pmix_bag data = {0};
    if (locality->cpus != rank->cpus) {
        free(locality->text);
        *locality = (struct locality){.cpus = rank->cpus, .text = describe_locality(rank->cpus)};
    }
    hc_pmix_bag_put_rank(&data, PMIX_RANK, rank->rank);
    hc_pmix_bag_put_u32(&data, PMIX_APPNUM, rank->app_index);
    hc_pmix_bag_put_rank(&data, PMIX_APP_RANK, rank->app_rank);
    hc_pmix_bag_put_rank(&data, PMIX_GLOBAL_RANK, rank->rank);
    hc_pmix_bag_put_u16(&data, PMIX_LOCAL_RANK, (uint16_t)rank->rank);
    hc_pmix_bag_put_u16(&data, PMIX_NODE_RANK, (uint16_t)rank->rank);
    hc_pmix_bag_put_u32(&data, PMIX_NODEID, 0);
    hc_pmix_bag_put_string(&data, PMIX_HOSTNAME, launch->job.hostname);
    hc_pmix_bag_put_u32(&data, PMIX_REINCARNATION, 0);
    hc_pmix_bag_put_string(&data, PMIX_PROCDIR, launch->job.session_path);
    hc_pmix_bag_put_string(&data, PMIX_CPUSET, rank->cpus->list);
    if (locality->text)
        hc_pmix_bag_put_string(&data, PMIX_LOCALITY_STRING, locality->text);
    hc_pmix_bag_put_bag(bag, PMIX_PROC_INFO_ARRAY, &data);
}

static void put_ranks(struct hc_pmix_bag *bag, const struct hc_launch *launch)
{
    struct locality locality = {0};
    for (uint32_t i = 0; i < launch->job.num_ranks; i++)
        put_rank(bag, launch, &launch->job.ranks[i], &locality);
    free(locality.text);
}

static hcomm_status_t register_namespace(struct hc_launch *launch, const struct texts *texts)
{
    struct hc_job *job = &launch->job;
    struct hc_pmix_bag bag = {0};
    put_sizes(&bag, launch);
    put_names(&bag, job, texts);
    put_node(&bag, job, texts);
    put_apps(&bag, job->options);
    put_ranks(&bag, launch);
    hcomm_status_t status = HCOMM_OK;
    if (bag.failed) {
        status = hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the job's data");
    } else {
        pmix_status_t rc = PMIx_server_register_nspace(job->name_space, (int)job->num_ranks, bag.info,
                                                       bag.count, NULL, NULL);
        if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED)
            status = hc_pmix_error("cannot register the job", rc);
    }
    hc_pmix_bag_fini(&bag);
    return status;
}

/* Registrations that are still under way in the library's thread. */
struct pending {
    sem_t done;
    pmix_status_t first_error; /* written before the post that lets the waiter read it */
};

static void on_registered(pmix_status_t status, void *data)
{
    struct pending *pending = data;
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
        pending->first_error = status;
    (void)sem_post(&pending->done);
}

/* All at once: waiting for each would cost a change of threads per rank. */
static hcomm_status_t register_clients(const struct hc_job *job)
{
    struct pending pending = {.first_error = PMIX_SUCCESS};
    pmix_status_t rc = PMIX_SUCCESS;
    uint32_t started = 0;
    (void)sem_init(&pending.done, 0, 0);
    for (; started < job->num_ranks && rc == PMIX_SUCCESS; started++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, job->name_space, started);
        rc = PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, on_registered, &pending);
    }
    if (rc != PMIX_SUCCESS)
        started--;
    for (uint32_t i = 0; i < started; i++)
        while (sem_wait(&pending.done) != 0) {
        }
    (void)sem_destroy(&pending.done);
    if (rc == PMIX_SUCCESS)
        rc = pending.first_error;
    return rc == PMIX_SUCCESS ? HCOMM_OK : hc_pmix_error("cannot register a rank", rc);
}

hcomm_status_t hc_pmix_register_job(struct hc_pmix *pmix)
{
    struct texts texts;
    hcomm_status_t status = texts_init(&texts, pmix->launch);
    if (status != HCOMM_OK)
        return status;
    status = register_namespace(pmix->launch, &texts);
    texts_fini(&texts);
    return status == HCOMM_OK ? register_clients(&pmix->launch->job) : status;
}

static sem_t deregistered; /* static: an answer may come after the wait has ended */

static void on_deregistered(pmix_status_t status, void *data)
{
    (void)status, (void)data;
    (void)sem_post(&deregistered);
}

void hc_pmix_deregister_job(const struct hc_job *job)
{
    struct timespec limit;
    if (sem_init(&deregistered, 0, 0) != 0 || clock_gettime(CLOCK_REALTIME, &limit) != 0)
        return;
    limit.tv_sec += DEREGISTER_SECONDS;
    for (uint32_t rank = 0; rank < job->num_ranks; rank++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, job->name_space, rank);
        PMIx_server_deregister_client(&proc, on_deregistered, NULL);
    }
    uint32_t answers = 0;
    while (answers < job->num_ranks) {
        if (sem_timedwait(&deregistered, &limit) == 0)
            answers++;
        else if (errno != EINTR)
            break;
    }
    if (answers < job->num_ranks)
        hc_log_warn("PMIx has not cleaned up after %u of %u ranks within %d s", job->num_ranks - answers,
                    job->num_ranks, DEREGISTER_SECONDS);
}
