#include "launcher/pmix/bag.h"

#include <stdlib.h>
#include <string.h>

/* The next free element; NULL once memory has run out. */
static pmix_info_t *next(struct hc_pmix_bag *bag)
{
    if (bag->failed)
        return NULL;
    if (bag->count == bag->capacity) {
        size_t capacity = 2 * bag->capacity + 8;
        pmix_info_t *grown = realloc(bag->info, capacity * sizeof(*grown));
        if (!grown) {
            bag->failed = true;
            return NULL;
        }
        bag->info = grown;
        bag->capacity = capacity;
    }
    pmix_info_t *info = &bag->info[bag->count++];
    (void)memset(info, 0, sizeof(*info));
    return info;
}

void hc_pmix_bag_put(struct hc_pmix_bag *bag, const char *key, const void *value, pmix_data_type_t type)
{
    pmix_info_t *info = next(bag);
    if (info)
        PMIX_INFO_LOAD(info, key, value, type);
}

void hc_pmix_bag_put_string(struct hc_pmix_bag *bag, const char *key, const char *value)
{
    hc_pmix_bag_put(bag, key, value, PMIX_STRING);
}

void hc_pmix_bag_put_u32(struct hc_pmix_bag *bag, const char *key, uint32_t value)
{
    hc_pmix_bag_put(bag, key, &value, PMIX_UINT32);
}

void hc_pmix_bag_put_u16(struct hc_pmix_bag *bag, const char *key, uint16_t value)
{
    hc_pmix_bag_put(bag, key, &value, PMIX_UINT16);
}

void hc_pmix_bag_put_rank(struct hc_pmix_bag *bag, const char *key, pmix_rank_t value)
{
    hc_pmix_bag_put(bag, key, &value, PMIX_PROC_RANK);
}

void hc_pmix_bag_put_bool(struct hc_pmix_bag *bag, const char *key, bool value)
{
    hc_pmix_bag_put(bag, key, &value, PMIX_BOOL);
}

void hc_pmix_bag_put_array(struct hc_pmix_bag *bag, const char *key, pmix_data_array_t *array)
{
    pmix_info_t *info = array ? next(bag) : NULL;
    if (!info) {
        bag->failed = true;
        PMIX_DATA_ARRAY_FREE(array);
        return;
    }
    PMIX_LOAD_KEY(info->key, key);
    info->value.type = PMIX_DATA_ARRAY;
    info->value.data.darray = array;
}

void hc_pmix_bag_put_bag(struct hc_pmix_bag *bag, const char *key, struct hc_pmix_bag *inner)
{
    pmix_data_array_t *array = inner->failed ? NULL : calloc(1, sizeof(*array));
    if (array) {
        array->type = PMIX_INFO;
        array->size = inner->count;
        array->array = inner->info;
        *inner = (struct hc_pmix_bag){0};
    }
    hc_pmix_bag_put_array(bag, key, array);
    hc_pmix_bag_fini(inner);
}

void hc_pmix_bag_fini(struct hc_pmix_bag *bag)
{
    for (size_t i = 0; i < bag->count; i++)
        PMIX_INFO_DESTRUCT(&bag->info[i]);
    free(bag->info);
    *bag = (struct hc_pmix_bag){0};
}
