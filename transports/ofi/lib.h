/*
 * libfabric, loaded on first use: a job that stays inside its host with native shared memory never pays for
 * loading it. Only the exported functions go through this table; everything else in libfabric's interface is
 * an inline call through an object's own operations.
 */
#ifndef HC_OFI_LIB_H
#define HC_OFI_LIB_H

#include "runtime/base/status.h"

#include <rdma/fabric.h>
#include <stdbool.h>

struct hc_ofi_lib {
    uint32_t (*version)(void);
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
};

/* The interface version this code is written against. */
#define HC_OFI_VERSION FI_VERSION(1, 17)

/*
 * Load libfabric once per process (any thread); it stays loaded. HCOMM_ERR_UNSUPPORTED with the reason in the
 * detail when it is missing, lacks a function, or is older than HC_OFI_VERSION.
 */
hcomm_status_t hc_ofi_lib_load(const struct hc_ofi_lib **lib) HC_MUST_CHECK;

/*
 * libfabric reads some of its variables when it lists providers and opens endpoints: between set and unset
 * the environment has our defaults for what the user has not set (lib.c), and other contexts wait.
 */
enum { HC_OFI_VARIABLES = 4 };

struct hc_ofi_variables {
    bool ours[HC_OFI_VARIABLES];
};

void hc_ofi_variables_set(struct hc_ofi_variables *variables);
void hc_ofi_variables_unset(const struct hc_ofi_variables *variables);

/* "libfabric 1.17" once loaded, else NULL. */
const char *hc_ofi_lib_name(void);

#endif
