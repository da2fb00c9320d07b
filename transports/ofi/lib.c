#include "transports/ofi/lib.h"

#include "runtime/base/lock.h"
#include "runtime/base/log.h"
#include "transports/ofi/provider.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * libfabric and the libraries it brings read the environment while they load, list and open. ofi_rxm sizes
 * its completion queue for FI_UNIVERSE_SIZE peers; the default of 1024 exceeds what soft-RoCE devices offer
 * (32767 entries). Without a shared receive context, closing an endpoint of ofi_rxm 1.17 while a message
 * comes in reposts the receive to a connection that is closed already, and crashes. The two PSM libraries
 * would take over the process's fatal signals to print backtraces.
 */
static const struct default_variable {
    const char *name, *value;
} default_variables[] = {
    {"FI_UNIVERSE_SIZE", "64"},
    {"FI_OFI_RXM_USE_SRX", "1"},
    {"IPATH_NO_BACKTRACE", "1"},
    {"HFI_NO_BACKTRACE", "1"},
};

_Static_assert(hc_array_len(default_variables) == HC_OFI_VARIABLES, "a flag for each");

static struct hc_lock load_lock = HC_LOCK_INIT;
static struct hc_ofi_lib functions;
static bool loaded;
static char library_name[32];

static hcomm_status_t resolve(void *handle, const char *name, void *slot)
{
    void *symbol = dlsym(handle, name);
    if (!symbol)
        return hc_error(HCOMM_ERR_UNSUPPORTED, "libfabric.so.1 has no function %s: %s", name, dlerror());
    *(void **)slot = symbol;
    return HCOMM_OK;
}

static hcomm_status_t resolve_all(void *handle, struct hc_ofi_lib *table)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        {"fi_version", &table->version}, {"fi_getinfo", &table->getinfo}, {"fi_freeinfo", &table->freeinfo},
        {"fi_dupinfo", &table->dupinfo}, {"fi_fabric", &table->fabric},   {"fi_strerror", &table->strerror},
    };
    for (size_t i = 0; i < hc_array_len(wanted); i++) {
        hcomm_status_t status = resolve(handle, wanted[i].name, wanted[i].slot);
        if (status != HCOMM_OK)
            return status;
    }
    return HCOMM_OK;
}

static hcomm_status_t check_version(const struct hc_ofi_lib *table)
{
    uint32_t version = table->version();
    if (FI_VERSION_GE(version, HC_OFI_VERSION))
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_UNSUPPORTED, "libfabric %u.%u is installed, hcomm needs at least %u.%u",
                    FI_MAJOR(version), FI_MINOR(version), FI_MAJOR(HC_OFI_VERSION), FI_MINOR(HC_OFI_VERSION));
}

static void set_defaults(bool ours[HC_OFI_VARIABLES])
{
    for (size_t i = 0; i < HC_OFI_VARIABLES; i++) {
        ours[i] = !getenv(default_variables[i].name);
        if (ours[i])
            (void)setenv(default_variables[i].name, default_variables[i].value, 0);
    }
}

static void unset_defaults(const bool ours[HC_OFI_VARIABLES])
{
    for (size_t i = 0; i < HC_OFI_VARIABLES; i++)
        if (ours[i])
            (void)unsetenv(default_variables[i].name);
}

/*
 * Its first question makes libfabric load and initialise its providers, which read their variables then.
 */
static void initialise(const struct hc_ofi_lib *table)
{
    char path[2 * PATH_MAX];
    struct fi_info *providers = NULL;
    bool ours = hc_ofi_provider_path((const void *)table->version, path, sizeof(path)) &&
                setenv("FI_PROVIDER_PATH", path, 0) == 0;
    if (table->getinfo(HC_OFI_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &providers) == 0)
        table->freeinfo(providers);
    if (ours)
        (void)unsetenv("FI_PROVIDER_PATH");
}

void hc_ofi_variables_set(struct hc_ofi_variables *variables)
{
    hc_lock_acquire(&load_lock);
    set_defaults(variables->ours);
}

void hc_ofi_variables_unset(const struct hc_ofi_variables *variables)
{
    unset_defaults(variables->ours);
    hc_lock_release(&load_lock);
}

static hcomm_status_t load(struct hc_ofi_lib *table)
{
    void *handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return hc_error(HCOMM_ERR_UNSUPPORTED,
                        "libfabric cannot be loaded (%s): install the package libfabric1", dlerror());
    hcomm_status_t status = resolve_all(handle, table);
    if (status == HCOMM_OK)
        status = check_version(table);
    if (status != HCOMM_OK) {
        (void)dlclose(handle);
        return status;
    }
    initialise(table);
    return HCOMM_OK;
}

hcomm_status_t hc_ofi_lib_load(const struct hc_ofi_lib **lib)
{
    hcomm_status_t status = HCOMM_OK;
    hc_lock_acquire(&load_lock);
    if (!loaded) {
        struct hc_ofi_lib table = {0};
        bool ours[HC_OFI_VARIABLES];
        set_defaults(ours);
        status = load(&table);
        unset_defaults(ours);
        loaded = status == HCOMM_OK;
        if (loaded) {
            uint32_t version = table.version();
            functions = table;
            (void)snprintf(library_name, sizeof(library_name), "libfabric %u.%u", FI_MAJOR(version),
                           FI_MINOR(version));
        }
    }
    hc_lock_release(&load_lock);
    if (status == HCOMM_OK)
        *lib = &functions;
    return status;
}

const char *hc_ofi_lib_name(void)
{
    hc_lock_acquire(&load_lock);
    const char *name = loaded ? library_name : NULL;
    hc_lock_release(&load_lock);
    return name;
}
