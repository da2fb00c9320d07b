#include "transports/npu/acl/table.h"

#include "runtime/base/compiler.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define VENDOR_LIBRARY "libascendcl.so"
#define SIM_LIBRARY    "libnpusim.so.0"
#define REMEDY         "install Ascend's runtime (and load its set_env.sh), or set HCOMM_NPU=sim"

struct entry {
    const char *name;
    size_t offset;
    bool optional;
};

static const struct entry entries[] = {
#define REQUIRED(name) {#name, offsetof(struct hc_acl, name), false},
#define OPTIONAL(name) {#name, offsetof(struct hc_acl, name), true},
    HC_ACL_FUNCTIONS(REQUIRED) HC_ACL_OPTIONAL_FUNCTIONS(OPTIONAL)
#undef REQUIRED
#undef OPTIONAL
};

static const struct {
    int code;
    const char *text;
} texts[] = {
    {HC_ACL_OK, "success"},
    {HC_ACL_UNINITIALIZED, "the device runtime is not initialised"},
    {HC_ACL_REPEAT_INITIALIZE, "initialised twice"},
    {HC_ACL_REPEAT_FINALIZE, "finalised already"},
    {HC_ACL_INVALID_PARAMETER, "invalid parameter"},
    {HC_ACL_INVALID_DEVICE_ID, "no such device"},
    {HC_ACL_NO_CONTEXT, "no device is current on this thread"},
    {HC_ACL_STREAM_NOT_IN_CONTEXT, "the stream is of another device"},
    {HC_ACL_EVENT_NO_TIME, "the event has no time"},
    {HC_ACL_EVENT_REVERSED, "the end event is before the start event"},
    {HC_ACL_STREAM_NOT_SUBSCRIBED, "the stream is not subscribed"},
    {HC_ACL_THREAD_NOT_SUBSCRIBED, "the thread is not subscribed"},
    {HC_ACL_INVALID_HANDLE, "invalid handle"},
    {HC_ACL_WAIT_TIMEOUT, "the wait timed out"},
    {HC_ACL_INVALID_DEVICE, "invalid device"},
    {HC_ACL_NOT_SUPPORTED, "not supported"},
    {HC_ACL_OUT_OF_MEMORY, "out of device memory"},
    {HC_ACL_FREE_FAILED, "memory cannot be freed: another process still has it open"},
    {HC_ACL_NO_DEVICE, "no device is visible"},
    {HC_ACL_NO_RESOURCE, "out of resources"},
    {HC_ACL_NO_PERMISSION, "no permission"},
    {HC_ACL_NO_EVENT, "no event is left"},
    {HC_ACL_NO_STREAM, "no stream is left"},
    {HC_ACL_NO_NOTIFY, "no notify is left"},
    {HC_ACL_REPORT_TIMEOUT, "no report came in time"},
    {HC_ACL_DRIVER_ERROR, "the device or its driver failed"},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hc_acl table;
static bool loaded;
static char library_name[PATH_MAX];

const char *hc_acl_text(int code)
{
    for (size_t i = 0; i < hc_array_len(texts); i++)
        if (texts[i].code == code)
            return texts[i].text;
    return "unknown error";
}

const char *hc_acl_detail(const struct hc_acl *acl)
{
    const char *text = acl && acl->aclGetRecentErrMsg ? acl->aclGetRecentErrMsg() : NULL;
    return text ? text : "";
}

/* The reason for a library that is not there begins with its name; one that lacks what it needs has another.
 */
static bool is_missing(const char *reason)
{
    return reason && strncmp(reason, VENDOR_LIBRARY ":", sizeof(VENDOR_LIBRARY)) == 0;
}

static void *open_at(const char *folder, int length, const char *below)
{
    char path[PATH_MAX];
    int used = snprintf(path, sizeof(path), "%.*s/%s%s", length, folder, below, SIM_LIBRARY);
    if (used < 0 || (size_t)used >= sizeof(path))
        return NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        (void)snprintf(library_name, sizeof(library_name), "%s", path);
    return handle;
}

/* Installed together: beside the library that this code is in, or, for a plug-in, above its folder. */
static void *open_beside(void)
{
    Dl_info self;
    const char *slash = NULL;
    if (!dladdr(&table, &self) || !self.dli_fname || !(slash = strrchr(self.dli_fname, '/')))
        return NULL;
    int length = (int)(slash - self.dli_fname);
    void *handle = open_at(self.dli_fname, length, "");
    return handle ? handle : open_at(self.dli_fname, length, "../");
}

static void *open_sim(char *error, size_t size)
{
    void *handle = open_beside();
    if (handle)
        return handle;
    handle = dlopen(SIM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        (void)snprintf(library_name, sizeof(library_name), "%s", SIM_LIBRARY);
    else
        (void)snprintf(error, size,
                       "the simulator cannot be loaded: %s; it is installed with hcomm: set LD_LIBRARY_PATH, "
                       "or HCOMM_NPU to its path",
                       dlerror());
    return handle;
}

static void *open_path(const char *path, char *error, size_t size)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle)
        (void)snprintf(library_name, sizeof(library_name), "%s", path);
    else
        (void)snprintf(error, size, "the device runtime of HCOMM_NPU cannot be loaded: %s", dlerror());
    return handle;
}

static void *open_auto(char *error, size_t size)
{
    void *handle = dlopen(VENDOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (handle) {
        (void)snprintf(library_name, sizeof(library_name), "%s", VENDOR_LIBRARY);
        return handle;
    }
    const char *reason = dlerror();
    if (!is_missing(reason)) {
        (void)snprintf(error, size, "%s is there, but cannot be loaded: %s; %s", VENDOR_LIBRARY,
                       reason ? reason : "unknown reason", REMEDY);
        return NULL;
    }
    char sim_error[256];
    handle = open_sim(sim_error, sizeof(sim_error));
    if (!handle)
        (void)snprintf(error, size, "neither %s nor %s can be loaded; %s", VENDOR_LIBRARY, SIM_LIBRARY,
                       REMEDY);
    return handle;
}

static void *open_choice(const char *choice, char *error, size_t size)
{
    if (!choice || !*choice || strcmp(choice, "auto") == 0)
        return open_auto(error, size);
    if (strcmp(choice, "sim") == 0)
        return open_sim(error, size);
    if (strchr(choice, '/'))
        return open_path(choice, error, size);
    (void)snprintf(error, size, "HCOMM_NPU is '%s': legal are auto, sim, off, or a path with a '/'", choice);
    return NULL;
}

static bool resolve(void *handle, struct hc_acl *found, char *error, size_t size)
{
    for (size_t i = 0; i < hc_array_len(entries); i++) {
        void *symbol = dlsym(handle, entries[i].name);
        if (!symbol && !entries[i].optional) {
            (void)snprintf(error, size, "%s has no function %s: it is no device runtime, or too old; %s",
                           library_name, entries[i].name, REMEDY);
            return false;
        }
        memcpy((char *)found + entries[i].offset, &symbol, sizeof(symbol));
    }
    return true;
}

/* The application may have initialised it already; nobody knows when the last user is done, so it is never
 * finalised from here. */
static bool initialise(const struct hc_acl *found, char *error, size_t size)
{
    int code = found->aclInit(NULL);
    if (code == HC_ACL_OK || code == HC_ACL_REPEAT_INITIALIZE)
        return true;
    const char *detail = hc_acl_detail(found);
    (void)snprintf(error, size, "aclInit of %s failed with code %d (%s)%s%s", library_name, code,
                   hc_acl_text(code), *detail ? ": " : "", detail);
    return false;
}

static bool load(const char *choice, char *error, size_t size)
{
    struct hc_acl found = {.library = library_name};
    void *handle = open_choice(choice, error, size);
    if (!handle)
        return false;
    if (!resolve(handle, &found, error, size) || !initialise(&found, error, size)) {
        (void)dlclose(handle);
        return false;
    }
    table = found;
    return true;
}

const struct hc_acl *hc_acl_load(const char *choice, char *error, size_t size)
{
    if (choice && strcmp(choice, "off") == 0) {
        (void)snprintf(
            error, size,
            "the device runtime is switched off by HCOMM_NPU=off: 'auto' looks for one, 'sim' takes the "
            "simulator");
        return NULL;
    }
    (void)pthread_mutex_lock(&lock);
    if (!loaded)
        loaded = load(choice, error, size);
    const struct hc_acl *result = loaded ? &table : NULL;
    (void)pthread_mutex_unlock(&lock);
    return result;
}

const struct hc_acl *hc_acl_loaded(void)
{
    (void)pthread_mutex_lock(&lock);
    const struct hc_acl *result = loaded ? &table : NULL;
    (void)pthread_mutex_unlock(&lock);
    return result;
}
