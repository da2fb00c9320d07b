/*
 * conformance TRANSPORT [CASE…]: runs the cases over one transport, named as in HCOMM_TRANSPORTS ("shm",
 * "ofi:tcp"), and prints the result in the Test Anything Protocol. Exit status: 0 all passed, 1 some failed,
 * 77 the transport is not usable on this machine, 2 usage.
 */
#include "harness.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

static const struct cf_case *const groups[] = {cf_cases_am, cf_cases_rma, cf_cases_sleep, cf_cases_life,
                                               cf_cases_kill};

static struct cf_shared *shared_new(void)
{
    void *memory =
        mmap(NULL, sizeof(struct cf_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("conformance: mmap");
        exit(2);
    }
    return memory;
}

static void child_main(const struct cf_case *test, const struct cf *template, int rank, pid_t parent)
{
    struct cf cf = *template;
    cf.rank = rank;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    cf_open(&cf);
    if ((cf.iface->attr.caps & test->caps) == test->caps)
        test->run(&cf);
    else
        (void)snprintf(cf.shared->failure[rank], sizeof(cf.shared->failure[0]), "SKIP");
    cf_close(&cf);
    exit(0); /* and let a leak checker look */
}

static void start(const struct cf_case *test, const struct cf *template)
{
    pid_t parent = getpid();
    for (int rank = 0; rank < template->size; rank++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("conformance: fork");
            exit(2);
        }
        if (pid == 0)
            child_main(test, template, rank, parent);
        atomic_store(&template->shared->pids[rank], pid);
    }
}

static void kill_all(const struct cf *cf, unsigned ended)
{
    for (int rank = 0; rank < cf->size; rank++)
        if (!(ended >> rank & 1))
            (void)kill(atomic_load(&cf->shared->pids[rank]), SIGKILL);
}

static void describe_end(const struct cf *cf, int rank, int wstatus)
{
    char *failure = cf->shared->failure[rank];
    if (*failure && strcmp(failure, "SKIP") != 0)
        return;
    if (WIFSIGNALED(wstatus))
        (void)snprintf(failure, sizeof(cf->shared->failure[0]), "killed by signal %d", WTERMSIG(wstatus));
    else
        (void)snprintf(failure, sizeof(cf->shared->failure[0]), "exit code %d", WEXITSTATUS(wstatus));
}

static int rank_of(const struct cf *cf, pid_t pid)
{
    for (int rank = 0; rank < cf->size; rank++)
        if (atomic_load(&cf->shared->pids[rank]) == pid)
            return rank;
    return -1;
}

/* Collect all processes; the first failure, and the deadline, end the others. */
static bool collect(const struct cf *cf)
{
    uint64_t deadline = hc_deadline_ms(CF_CASE_MS);
    unsigned ended = 0, all = (1u << cf->size) - 1;
    bool good = true, killed = false;
    while (ended != all) {
        int wstatus = 0;
        pid_t pid = waitpid(-1, &wstatus, WNOHANG);
        int rank = pid > 0 ? rank_of(cf, pid) : -1;
        if (rank >= 0) {
            bool meant = atomic_load(&cf->shared->dead) >> rank & 1;
            ended |= 1u << rank;
            if (wstatus == 0 || (meant && WIFSIGNALED(wstatus) && WTERMSIG(wstatus) == SIGKILL))
                continue;
            if (!killed)
                describe_end(cf, rank, wstatus);
            good = false;
        } else if (good && hc_clock_ns() > deadline) {
            (void)snprintf(cf->shared->failure[0], sizeof(cf->shared->failure[0]), "hangs");
            good = false;
        } else {
            (void)usleep(1000);
        }
        if (!good && !killed) {
            kill_all(cf, ended);
            killed = true;
        }
    }
    return good;
}

/* Run a case once; false when it failed. Failures are in cf->shared. */
static bool run_once(const struct cf_case *test, struct cf *cf)
{
    (void)memset(cf->shared, 0, sizeof(*cf->shared));
    (void)fflush(stdout);
    start(test, cf);
    return collect(cf);
}

static void print_failures(const struct cf *cf)
{
    for (int rank = 0; rank < cf->size; rank++)
        if (*cf->shared->failure[rank])
            printf("# rank %d: %s\n", rank, cf->shared->failure[rank]);
}

/* Run one case; false when it failed. */
static bool run_case(const struct cf_case *test, const struct cf *base, int number)
{
    struct cf cf = *base;
    bool alone = strcmp(base->resource->name, "self") == 0;
    cf.size = alone ? 1 : test->procs;
    if (alone && test->needs_peer) {
        printf("ok %d - %s # SKIP needs a peer\n", number, test->name);
        return true;
    }
    cf.shared = shared_new();
    bool good = run_once(test, &cf);
    bool skipped = good && strcmp(cf.shared->failure[0], "SKIP") == 0;
    printf("%s %d - %s%s\n", good ? "ok" : "not ok", number, test->name,
           skipped ? " # SKIP the transport does not claim to" : "");
    if (!good)
        print_failures(&cf);
    (void)munmap(cf.shared, sizeof(*cf.shared));
    return good;
}

static bool wanted(const struct cf_case *test, char **names)
{
    bool any = *names == NULL;
    for (; *names; names++)
        any = any || strcmp(test->name, *names) == 0;
    return any;
}

static int run_all(const struct cf *base, char **names)
{
    int number = 0, failed = 0;
    for (size_t g = 0; g < hc_array_len(groups); g++)
        for (const struct cf_case *test = groups[g]; test->name; test++)
            if (wanted(test, names))
                failed += !run_case(test, base, ++number);
    printf("1..%d\n", number);
    if (!number)
        fprintf(stderr, "conformance: no such case\n");
    return failed || !number ? 1 : 0;
}

/* Ask the transports, in a process of its own. */
static void query_child(struct hc_resource_list *list)
{
    if (hc_transport_query(list) == HCOMM_OK)
        _exit(0);
    fprintf(stderr, "conformance: %s\n", hc_error_detail());
    _exit(2);
}

/*
 * The resources, found by a child: libraries for RDMA devices do not survive a fork, so this process, which
 * forks for every case, must not have loaded them. NULL after a failure, which has been printed.
 */
static struct hc_resource_list *query(const struct hc_settings *settings)
{
    struct hc_resource_list *list =
        mmap(NULL, sizeof(*list), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (list == MAP_FAILED) {
        perror("conformance: mmap");
        return NULL;
    }
    list->settings = settings;
    pid_t pid = fork();
    if (pid == 0)
        query_child(list);
    int wstatus = 0;
    if (pid < 0 || waitpid(pid, &wstatus, 0) != pid || wstatus != 0)
        return NULL;
    return list;
}

int main(int argc, char **argv)
{
    struct hc_settings settings;
    if (argc < 2) {
        fprintf(stderr, "usage: conformance TRANSPORT [CASE...]\n");
        return 2;
    }
    if (hc_settings_load(NULL, &settings, NULL) != HCOMM_OK) {
        fprintf(stderr, "conformance: %s\n", hc_error_detail());
        return 2;
    }
    hc_log_set_level((enum hc_log_level)settings.log);
    settings.transports = argv[1];
    const struct hc_resource_list *list = query(&settings);
    if (!list)
        return 2;
    for (size_t i = 0; i < list->count; i++) {
        const struct hc_resource *found = &list->entries[i];
        struct cf base = {.resource = found, .settings = &settings};
        if (strcmp(found->name, argv[1]) == 0 && found->usable)
            return run_all(&base, argv + 2);
        if (strcmp(found->name, argv[1]) == 0)
            printf("# %s (%s): %s\n", found->name, found->device, found->reason);
    }
    printf("1..0 # SKIP %s is not usable here\n", argv[1]);
    return SKIPPED;
}
