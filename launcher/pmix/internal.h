/* Inside launcher/pmix: the server's state, the queue to the main thread, and one upcall per file. */
#ifndef HC_LAUNCHER_PMIX_INTERNAL_H
#define HC_LAUNCHER_PMIX_INTERNAL_H

#include "launcher/pmix/server.h"

#include "runtime/base/list.h"
#include "runtime/base/lock.h"

#include <pmix.h>
#include <pmix_server.h>

/*
 * An upcall on its way to the main thread. Allocated by the upcall with its arguments behind this base; run()
 * acts and answers on the main thread, then frees it. The PMIx library keeps arrays it passed until it is
 * answered.
 */
struct hc_pmix_call {
    struct hc_fifo_node node;
    void (*run)(struct hc_pmix_call *call, struct hc_pmix *pmix);
};

/* A published value. */
struct hc_pmix_item {
    struct hc_list node;
    pmix_proc_t owner;
    pmix_data_range_t range;
    pmix_persistence_t persistence;
    pmix_info_t info; /* key and value, owned */
};

struct hc_pmix {
    struct hc_launch *launch;
    struct hc_loop_source source; /* eventfd: the queue is not empty */
    struct hc_lock lock;          /* guards queue and closed */
    struct hc_fifo queue;
    bool closed;            /* no more calls are taken */
    struct hc_list items;   /* published values, main thread only */
    struct hc_list lookups; /* waiting lookups, main thread only */
    bool initialised;
};

/* The PMIx library passes no context to upcalls: there is one server per process. */
struct hc_pmix *hc_pmix_server(void);

/* Queue a call; any thread. PMIX_SUCCESS, or an error when the server is closing (the call is freed). */
pmix_status_t hc_pmix_post(struct hc_pmix_call *call);

/* Register name space, job data and ranks with the library. */
hcomm_status_t hc_pmix_register_job(struct hc_pmix *pmix) HC_MUST_CHECK;

/*
 * Have the library do what ranks that ended without PMIx_Finalize() have asked it to do after them, such as
 * removing files (PMIX_REGISTER_CLEANUP), and wait for it, a few seconds at most.
 */
void hc_pmix_deregister_job(const struct hc_job *job);

/* An error of the PMIx library in words. */
hcomm_status_t hc_pmix_error(const char *what, pmix_status_t status);

/* The rank of our job that `proc` names, or NULL (another name space, a wildcard, out of range). Main thread.
 */
struct hc_rank *hc_pmix_rank_of(struct hc_pmix *pmix, const pmix_proc_t *proc);

/* The value of a directive in an info array, or NULL. */
const pmix_value_t *hc_pmix_find(const pmix_info_t *info, size_t count, const char *key);

/* Store of published values (store.c); main thread. */
void hc_pmix_store_init(struct hc_pmix *pmix);
void hc_pmix_store_fini(struct hc_pmix *pmix);
struct hc_pmix_item *hc_pmix_store_find(struct hc_pmix *pmix, const char *key);
void hc_pmix_store_remove(struct hc_pmix_item *item);
/* A rank or program is over: forget what it asked to keep only so long. */
void hc_pmix_store_expire(struct hc_pmix *pmix, const struct hc_rank *rank);
/* Serve the lookups that new values complete. */
void hc_pmix_lookup_retry(struct hc_pmix *pmix);
void hc_pmix_lookup_cancel_all(struct hc_pmix *pmix);

/* Upcalls; the prototypes are those of pmix_server_module_t. */
pmix_status_t hc_pmix_upcall_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[],
                                       size_t ninfo, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                       void *data);
pmix_status_t hc_pmix_upcall_abort(const pmix_proc_t *proc, void *object, int status, const char message[],
                                   pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                                   size_t ninfo, char *blob, size_t size, pmix_modex_cbfunc_t done,
                                   void *data);
pmix_status_t hc_pmix_upcall_dmodex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                    pmix_modex_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                     pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                    size_t ninfo, pmix_lookup_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                       size_t ninfo, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                                   const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t done,
                                   void *data);
pmix_status_t hc_pmix_upcall_connect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                                     size_t ninfo, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_disconnect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                                        size_t ninfo, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_register_events(pmix_status_t *codes, size_t ncodes, const pmix_info_t info[],
                                             size_t ninfo, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_deregister_events(pmix_status_t *codes, size_t ncodes, pmix_op_cbfunc_t done,
                                               void *data);
pmix_status_t hc_pmix_upcall_notify(pmix_status_t code, const pmix_proc_t *source, pmix_data_range_t range,
                                    pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries,
                                   pmix_info_cbfunc_t done, void *data);
void hc_pmix_upcall_log(const pmix_proc_t *client, const pmix_info_t info[], size_t ninfo,
                        const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                         size_t ntargets, const pmix_info_t directives[], size_t ndirs,
                                         pmix_info_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[],
                                        size_t ntargets, const pmix_info_t directives[], size_t ndirs,
                                        const pmix_byte_object_t *bytes, pmix_op_cbfunc_t done, void *data);
pmix_status_t hc_pmix_upcall_group(pmix_group_operation_t op, char name[], const pmix_proc_t procs[],
                                   size_t nprocs, const pmix_info_t directives[], size_t ndirs,
                                   pmix_info_cbfunc_t done, void *data);

#endif
