#include "runtime/boot/boot_impl.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int compare_ranks(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* One decimal number below `limit`; *cursor is moved behind it. */
static bool read_rank(const char **cursor, uint32_t limit, uint32_t *rank)
{
    const char *p = *cursor;
    uint64_t value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
        if (value >= limit)
            return false;
    }
    if (p == *cursor)
        return false;
    *cursor = p;
    *rank = (uint32_t)value;
    return true;
}

static bool read_ranks(const char *text, uint32_t limit, uint32_t *ranks, uint32_t *count)
{
    const char *cursor = text;
    uint32_t n = 0;
    for (;; cursor++) {
        if (n == limit || !read_rank(&cursor, limit, &ranks[n]))
            return false;
        n++;
        if (*cursor == '\0')
            break;
        if (*cursor != ',')
            return false;
    }
    *count = n;
    return true;
}

static bool find_own(const uint32_t *ranks, uint32_t count, uint32_t own, uint32_t *own_index)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && ranks[i] == ranks[i - 1])
            return false;
        if (ranks[i] == own) {
            *own_index = i;
            found = true;
        }
    }
    return found;
}

static size_t count_items(const char *text)
{
    size_t items = 1;
    for (; *text; text++)
        items += *text == ',';
    return items;
}

hcomm_status_t hc_boot_parse_ranks(const char *text, uint32_t job_size, uint32_t own, uint32_t **ranks,
                                   uint32_t *count, uint32_t *own_index)
{
    size_t items = count_items(text);
    uint32_t found = 0, index = 0;
    uint32_t *list = items <= job_size ? malloc(items * sizeof(*list)) : NULL;
    if (items <= job_size && !list)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for %zu ranks", items);
    if (!list || !read_ranks(text, job_size, list, &found))
        goto malformed;
    qsort(list, found, sizeof(*list), compare_ranks);
    if (!find_own(list, found, own, &index))
        goto malformed;
    *ranks = list;
    *count = found;
    *own_index = index;
    return HCOMM_OK;

malformed:
    free(list);
    return hc_error(HCOMM_ERR_BOOTSTRAP,
                    "the launcher's list of ranks on this host, '%.64s', is not a list of different ranks "
                    "below %u with rank %u among them",
                    text, job_size, own);
}

/* Index of id among the hosts seen so far, which it joins when new. Neighbours mostly share a host. */
static uint32_t host_index(uint32_t id, uint32_t *seen, uint32_t *num_seen, uint32_t guess)
{
    if (guess < *num_seen && seen[guess] == id)
        return guess;
    for (uint32_t i = 0; i < *num_seen; i++)
        if (seen[i] == id)
            return i;
    seen[*num_seen] = id;
    return (*num_seen)++;
}

hcomm_status_t hc_boot_number_hosts(const uint32_t *ids, uint32_t count, uint32_t *host_of,
                                    uint32_t *num_hosts)
{
    uint32_t num_seen = 0, index = 0;
    uint32_t *seen = malloc((size_t)count * sizeof(*seen));
    if (!seen)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", count);
    for (uint32_t rank = 0; rank < count; rank++)
        host_of[rank] = index = host_index(ids[rank], seen, &num_seen, index);
    *num_hosts = num_seen;
    free(seen);
    return HCOMM_OK;
}

/* Shared by the waiting and the working thread; whoever leaves last frees it. */
struct bounded {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool returned, abandoned;
    void (*function)(void *argument);
    max_align_t argument[];
};

static void free_bounded(struct bounded *bounded)
{
    (void)pthread_cond_destroy(&bounded->changed);
    (void)pthread_mutex_destroy(&bounded->lock);
    free(bounded);
}

static void *work(void *arg)
{
    struct bounded *bounded = arg;
    bounded->function(bounded->argument);
    (void)pthread_mutex_lock(&bounded->lock);
    bounded->returned = true;
    bool abandoned = bounded->abandoned;
    (void)pthread_cond_signal(&bounded->changed);
    (void)pthread_mutex_unlock(&bounded->lock);
    if (abandoned)
        free_bounded(bounded);
    return NULL;
}

static bool start_work(struct bounded *bounded)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    /* The application's signal handlers run on its own threads, not on this one or those that it starts. */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, work, bounded);
    errno = error;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error == 0;
}

/* True: the function has returned. False: given up, the worker frees what is shared. */
static bool await_work(struct bounded *bounded, int timeout_ms)
{
    uint64_t deadline = hc_deadline_ms((unsigned)timeout_ms);
    struct timespec when = {.tv_sec = (time_t)(deadline / UINT64_C(1000000000)),
                            .tv_nsec = (long)(deadline % UINT64_C(1000000000))};
    int error = 0;
    (void)pthread_mutex_lock(&bounded->lock);
    while (!bounded->returned && error != ETIMEDOUT)
        error = pthread_cond_clockwait(&bounded->changed, &bounded->lock, CLOCK_MONOTONIC, &when);
    bool returned = bounded->returned;
    bounded->abandoned = !returned;
    (void)pthread_mutex_unlock(&bounded->lock);
    return returned;
}

hcomm_status_t hc_boot_run_bounded(void (*function)(void *argument), void *argument, size_t argument_size,
                                   int timeout_ms)
{
    struct bounded *bounded = calloc(1, sizeof(*bounded) + argument_size);
    if (!bounded)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for a bootstrap thread");
    (void)pthread_mutex_init(&bounded->lock, NULL);
    (void)pthread_cond_init(&bounded->changed, NULL);
    bounded->function = function;
    (void)memcpy(bounded->argument, argument, argument_size);
    if (!start_work(bounded)) {
        free_bounded(bounded);
        return hc_error(HCOMM_ERR_LIMIT, "no thread for the bootstrap: %s", hc_errno_text(errno));
    }
    if (!await_work(bounded, timeout_ms))
        return hc_error(HCOMM_ERR_TIMEOUT, "no answer within %d ms", timeout_ms);
    (void)memcpy(argument, bounded->argument, argument_size);
    free_bounded(bounded);
    return HCOMM_OK;
}
