#include "transports/ofi/provider.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROVIDER "libnpu-fi.so"

/* The folder of the library or program that holds an address, and a folder below it. */
static bool folder_of(const void *address, const char *below, char *folder, size_t size)
{
    Dl_info info;
    const char *slash = NULL;
    if (!dladdr(address, &info) || !info.dli_fname || !(slash = strrchr(info.dli_fname, '/')))
        return false;
    int used = snprintf(folder, size, "%.*s%s", (int)(slash - info.dli_fname), info.dli_fname, below);
    return used > 0 && (size_t)used < size;
}

static bool holds_provider(const char *folder)
{
    char path[PATH_MAX];
    int used = snprintf(path, sizeof(path), "%s/" PROVIDER, folder);
    return used > 0 && (size_t)used < sizeof(path) && access(path, R_OK) == 0;
}

/* Beside this library, as it is built; below it, as it is installed by default; where configure was told. */
static bool find_provider(char *folder, size_t size)
{
    static const char here;
    static const char *const below[] = {"", "/libfabric"};
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
        if (folder_of(&here, below[i], folder, size) && holds_provider(folder))
            return true;
    int used = snprintf(folder, size, "%s", HC_FI_PROVIDER_DIR);
    return used > 0 && (size_t)used < size && holds_provider(folder);
}

bool hc_ofi_provider_path(const void *function, char *path, size_t size)
{
    char theirs[PATH_MAX], ours[PATH_MAX];
    if (getenv("FI_PROVIDER_PATH") || !find_provider(ours, sizeof(ours)))
        return false;
    /* Setting the variable replaces libfabric's own folder, so that is named, too. */
    if (!folder_of(function, "/libfabric", theirs, sizeof(theirs)))
        theirs[0] = '\0';
    if (strcmp(theirs, ours) == 0)
        return false;
    int used = snprintf(path, size, "%s%s%s", theirs, theirs[0] ? ":" : "", ours);
    return used > 0 && (size_t)used < size;
}
