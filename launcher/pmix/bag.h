/* A growing list of pmix_info_t: what job data and query answers are made of. */
#ifndef HC_LAUNCHER_PMIX_BAG_H
#define HC_LAUNCHER_PMIX_BAG_H

#include "runtime/base/compiler.h"

#include <pmix.h>

#include <stdbool.h>

/* Values are copied in. Running out of memory sets `failed`, and later puts do nothing: check once at the
 * end. */
struct hc_pmix_bag {
    pmix_info_t *info;
    size_t count, capacity;
    bool failed;
};

void hc_pmix_bag_put(struct hc_pmix_bag *bag, const char *key, const void *value, pmix_data_type_t type);
void hc_pmix_bag_put_string(struct hc_pmix_bag *bag, const char *key, const char *value);
void hc_pmix_bag_put_u32(struct hc_pmix_bag *bag, const char *key, uint32_t value);
void hc_pmix_bag_put_u16(struct hc_pmix_bag *bag, const char *key, uint16_t value);
void hc_pmix_bag_put_rank(struct hc_pmix_bag *bag, const char *key, pmix_rank_t value);
void hc_pmix_bag_put_bool(struct hc_pmix_bag *bag, const char *key, bool value);

/* An array of `count` elements of `type`, allocated by PMIX_DATA_ARRAY_CREATE: owned by the bag afterwards.
 */
void hc_pmix_bag_put_array(struct hc_pmix_bag *bag, const char *key, pmix_data_array_t *array);

/* The contents of another bag as an array under one key; `inner` is empty afterwards. */
void hc_pmix_bag_put_bag(struct hc_pmix_bag *bag, const char *key, struct hc_pmix_bag *inner);

void hc_pmix_bag_fini(struct hc_pmix_bag *bag);

#endif
