#include "transports/ofi/shmname.h"

#include "runtime/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char scheme[] = "fi_shm://";

void hc_ofi_shmname_make(uint64_t scope, char name[HC_OFI_SHMNAME_MAX])
{
    static atomic_uint number; /* relaxed: only to differ; no partner */
    unsigned mine = atomic_fetch_add_explicit(&number, 1, memory_order_relaxed);
    (void)snprintf(name, HC_OFI_SHMNAME_MAX, "%shcomm.%016" PRIx64 ".%d.%u", scheme, scope, (int)getpid(),
                   mine);
}

/* The provider appends what it likes to the name, so only the beginning is looked at. */
bool hc_ofi_shmname_parse(const char *file, uint64_t scope, pid_t *pid)
{
    char start[32];
    int len = snprintf(start, sizeof(start), "hcomm.%016" PRIx64 ".", scope);
    if (strncmp(file, start, (size_t)len) != 0)
        return false;
    char *end;
    const char *digits = file + len;
    long number = strtol(digits, &end, 10);
    if (*digits < '1' || *digits > '9' || *end != '.' || number > INT32_MAX)
        return false;
    *pid = (pid_t)number;
    return true;
}

static bool left_behind(int folder, const char *file, uint64_t scope)
{
    pid_t pid;
    struct stat st;
    return hc_ofi_shmname_parse(file, scope, &pid) && kill(pid, 0) != 0 && errno == ESRCH &&
           fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_uid == geteuid();
}

unsigned hc_ofi_shmname_sweep(const char *folder, uint64_t scope)
{
    unsigned removed = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        hc_log_debug("%s cannot be read: %s", folder, strerror(errno));
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!left_behind(dirfd(dir), entry->d_name, scope) || unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            continue;
        hc_log_debug("removed %s/%s, left by a dead process", folder, entry->d_name);
        removed++;
    }
    (void)closedir(dir);
    return removed;
}
