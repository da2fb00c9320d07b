/* Published values: a list, few by nature. */
#include "launcher/pmix/internal.h"

#include <stdlib.h>
#include <string.h>

void hc_pmix_store_init(struct hc_pmix *pmix)
{
    hc_list_init(&pmix->items);
    hc_list_init(&pmix->lookups);
}

void hc_pmix_store_remove(struct hc_pmix_item *item)
{
    hc_list_remove(&item->node);
    PMIX_INFO_DESTRUCT(&item->info);
    free(item);
}

void hc_pmix_store_fini(struct hc_pmix *pmix)
{
    struct hc_list *node = hc_list_first(&pmix->items);
    while (node) {
        hc_pmix_store_remove(hc_list_entry(node, struct hc_pmix_item, node));
        node = hc_list_first(&pmix->items);
    }
}

struct hc_pmix_item *hc_pmix_store_find(struct hc_pmix *pmix, const char *key)
{
    struct hc_list *node;
    hc_list_for_each(node, &pmix->items)
    {
        struct hc_pmix_item *item = hc_list_entry(node, struct hc_pmix_item, node);
        if (strncmp(item->info.key, key, PMIX_MAX_KEYLEN) == 0)
            return item;
    }
    return NULL;
}

void hc_pmix_store_expire(struct hc_pmix *pmix, const struct hc_rank *rank)
{
    struct hc_list *node;
    struct hc_list *following;
    hc_list_for_each_safe(node, following, &pmix->items)
    {
        struct hc_pmix_item *item = hc_list_entry(node, struct hc_pmix_item, node);
        if (item->persistence == PMIX_PERSIST_PROC && item->owner.rank == rank->rank)
            hc_pmix_store_remove(item);
    }
}
