#include "launcher/environment.h"

#include "runtime/base/log.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* PMIX_MCA_* are the user's settings of the PMIx library and stay. */
static bool is_foreign(const char *variable)
{
    return (strncmp(variable, "PMIX_", 5) == 0 && strncmp(variable, "PMIX_MCA_", 9) != 0) ||
           strncmp(variable, "PMI_", 4) == 0;
}

void hc_environment_clean(void)
{
    char **kept = environ;
    for (char **variable = environ; variable && *variable; variable++)
        if (!is_foreign(*variable))
            *kept++ = *variable;
    if (kept)
        *kept = NULL;
}

static hcomm_status_t no_memory(void)
{
    return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the environment of the program");
}

static hcomm_status_t append(struct hc_environment *environment, const char *assignment)
{
    if (environment->count + 1 >= environment->capacity) {
        size_t capacity = 2 * environment->capacity + 64;
        char **grown = realloc(environment->list, capacity * sizeof(*grown));
        if (!grown)
            return no_memory();
        environment->list = grown;
        environment->capacity = capacity;
    }
    char *copy = strdup(assignment);
    if (!copy)
        return no_memory();
    environment->list[environment->count++] = copy;
    environment->list[environment->count] = NULL;
    return HCOMM_OK;
}

hcomm_status_t hc_environment_set(struct hc_environment *environment, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    size_t length = equals ? (size_t)(equals - assignment) + 1 : strlen(assignment);
    for (size_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->list[i], assignment, length) != 0)
            continue;
        char *copy = strdup(assignment);
        if (!copy)
            return no_memory();
        free(environment->list[i]);
        environment->list[i] = copy;
        return HCOMM_OK;
    }
    return append(environment, assignment);
}

static bool has(const struct hc_environment *environment, const char *assignment)
{
    size_t length = strcspn(assignment, "=") + 1;
    for (size_t i = 0; i < environment->count; i++)
        if (strncmp(environment->list[i], assignment, length) == 0)
            return true;
    return false;
}

hcomm_status_t hc_environment_guide_open_mpi(struct hc_environment *environment, bool oversubscribed)
{
    static const char *const guides[] = {
        "OMPI_MCA_ess=pmi",                   /* identity comes from PMIx */
        "OMPI_MCA_schizo=^orte",              /* which else declares a singleton */
        "OMPI_MCA_pmix=^s1,s2,cray,isolated", /* the clients that cannot be meant */
        "OMPI_MCA_orte_bound_at_launch=1",    /* binding is done: MPI_Init must not bind again */
        "OMPI_MCA_mpi_yield_when_idle=1",     /* the last one: only for ranks that share processors */
    };
    size_t count = hc_array_len(guides) - (oversubscribed ? 0 : 1);
    hcomm_status_t status = HCOMM_OK;
    for (size_t i = 0; i < count && status == HCOMM_OK; i++)
        if (!has(environment, guides[i]))
            status = append(environment, guides[i]);
    return status;
}

static hcomm_status_t add_export(struct hc_environment *environment, const char *word)
{
    if (strchr(word, '='))
        return hc_environment_set(environment, word);
    if (!getenv(word)) /* set ones are there already */
        hc_log_warn("-x %s: the variable is not set in hcommrun's environment; use -x %s=VALUE", word, word);
    return HCOMM_OK;
}

/* PWD is what shells and getcwd-free programs believe in. */
static hcomm_status_t add_wdir(struct hc_environment *environment, const char *wdir)
{
    char assignment[PATH_MAX + 8] = "PWD=";
    if (!realpath(wdir, assignment + 4))
        return HCOMM_OK; /* the rank's chdir reports it */
    return hc_environment_set(environment, assignment);
}

static hcomm_status_t fill(struct hc_environment *environment, const struct hc_app *app)
{
    hcomm_status_t status = HCOMM_OK;
    for (char **variable = environ; status == HCOMM_OK && variable && *variable; variable++)
        status = append(environment, *variable);
    if (status == HCOMM_OK && app->wdir)
        status = add_wdir(environment, app->wdir);
    for (size_t i = 0; status == HCOMM_OK && i < app->num_exports; i++)
        status = add_export(environment, app->exports[i]);
    return status;
}

hcomm_status_t hc_environment_init(struct hc_environment *environment, const struct hc_app *app)
{
    struct hc_environment filled = {0};
    hcomm_status_t status = fill(&filled, app);
    if (status != HCOMM_OK) {
        hc_environment_fini(&filled);
        return status;
    }
    *environment = filled;
    return HCOMM_OK;
}

void hc_environment_fini(struct hc_environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->list[i]);
    free(environment->list);
    *environment = (struct hc_environment){0};
}
