/* PMIx_Lookup, also waiting (PMIX_WAIT) until the values are published or a time-out passes (PMIX_TIMEOUT).
 */
#include "launcher/pmix/internal.h"

#include "runtime/base/clock.h"

#include <stdlib.h>
#include <string.h>

struct lookup_call {
    struct hc_pmix_call base;
    struct hc_list node; /* among the waiting ones */
    struct hc_loop_timer timer;
    char **keys;
    size_t num_keys;
    size_t wanted; /* answer when this many are there; 0: answer now */
    int timeout;   /* s, 0 = none */
    pmix_lookup_cbfunc_t done;
    void *data;
};

static size_t count_found(struct hc_pmix *pmix, const struct lookup_call *call)
{
    size_t found = 0;
    for (size_t i = 0; i < call->num_keys; i++)
        found += hc_pmix_store_find(pmix, call->keys[i]) != NULL;
    return found;
}

/* Copy what is there, and forget what was published for one reading only. */
static size_t collect(struct hc_pmix *pmix, const struct lookup_call *call, pmix_pdata_t *out)
{
    size_t found = 0;
    for (size_t i = 0; i < call->num_keys; i++) {
        struct hc_pmix_item *item = hc_pmix_store_find(pmix, call->keys[i]);
        if (!item)
            continue;
        PMIX_PDATA_LOAD(&out[found], &item->owner, item->info.key, NULL, PMIX_UNDEF);
        if (PMIx_Value_xfer(&out[found].value, &item->info.value) != PMIX_SUCCESS)
            continue;
        found++;
        if (item->persistence == PMIX_PERSIST_FIRST_READ)
            hc_pmix_store_remove(item);
    }
    return found;
}

static void answer(struct hc_pmix *pmix, struct lookup_call *call, pmix_status_t none)
{
    hc_list_remove(&call->node);
    hc_loop_timer_stop(&call->timer);
    pmix_pdata_t *found = calloc(call->num_keys ? call->num_keys : 1, sizeof(*found));
    size_t count = found ? collect(pmix, call, found) : 0;
    pmix_status_t status = count == call->num_keys ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS;
    if (count == 0)
        status = found ? none : PMIX_ERR_NOMEM;
    call->done(status, found, count, call->data);
    for (size_t i = 0; i < count; i++)
        PMIX_PDATA_DESTRUCT(&found[i]);
    free(found);
    free(call);
}

static void on_timeout(struct hc_loop_timer *timer)
{
    answer(hc_pmix_server(), hc_container_of(timer, struct lookup_call, timer), PMIX_ERR_TIMEOUT);
}

static void run(struct hc_pmix_call *base, struct hc_pmix *pmix)
{
    struct lookup_call *call = hc_container_of(base, struct lookup_call, base);
    hc_list_init(&call->node);
    hc_loop_timer_init(&call->timer, on_timeout);
    if (count_found(pmix, call) >= call->wanted) {
        answer(pmix, call, PMIX_ERR_NOT_FOUND);
        return;
    }
    hc_list_append(&pmix->lookups, &call->node);
    if (call->timeout > 0)
        hc_loop_timer_start(&pmix->launch->loop, &call->timer,
                            hc_clock_ns() + (uint64_t)call->timeout * UINT64_C(1000000000));
}

void hc_pmix_lookup_retry(struct hc_pmix *pmix)
{
    struct hc_list *node;
    struct hc_list *following;
    hc_list_for_each_safe(node, following, &pmix->lookups)
    {
        struct lookup_call *call = hc_list_entry(node, struct lookup_call, node);
        if (count_found(pmix, call) >= call->wanted)
            answer(pmix, call, PMIX_ERR_NOT_FOUND);
    }
}

void hc_pmix_lookup_cancel_all(struct hc_pmix *pmix)
{
    struct hc_list *node = hc_list_first(&pmix->lookups);
    while (node) {
        answer(pmix, hc_list_entry(node, struct lookup_call, node), PMIX_ERR_NOT_FOUND);
        node = hc_list_first(&pmix->lookups);
    }
}

static size_t wanted_keys(const pmix_info_t info[], size_t ninfo, size_t num_keys)
{
    const pmix_value_t *wait = hc_pmix_find(info, ninfo, PMIX_WAIT);
    if (!wait)
        return 0;
    bool some = wait->type == PMIX_INT && wait->data.integer > 0;
    size_t wanted = some ? (size_t)wait->data.integer : num_keys;
    return wanted < num_keys ? wanted : num_keys;
}

pmix_status_t hc_pmix_upcall_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
                                    size_t ninfo, pmix_lookup_cbfunc_t done, void *data)
{
    (void)proc;
    size_t num_keys = 0;
    while (keys && keys[num_keys])
        num_keys++;
    struct lookup_call *call = calloc(1, sizeof(*call));
    if (!call)
        return PMIX_ERR_NOMEM;
    const pmix_value_t *timeout = hc_pmix_find(info, ninfo, PMIX_TIMEOUT);
    call->base.run = run;
    call->keys = keys;
    call->num_keys = num_keys;
    call->wanted = wanted_keys(info, ninfo, num_keys);
    call->timeout = timeout && timeout->type == PMIX_INT ? timeout->data.integer : 0;
    call->done = done;
    call->data = data;
    return hc_pmix_post(&call->base);
}
