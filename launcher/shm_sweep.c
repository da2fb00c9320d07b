#include "launcher/shm_sweep.h"

#include "runtime/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char directory[] = "/dev/shm";
static const char prefix[] = "hcomm.";

enum { SCOPE_DIGITS = 16 };

/* The process that a name in /dev/shm belongs to, 0 when it is not of that form. */
static pid_t owner_of(const char *name)
{
    size_t length = sizeof(prefix) - 1;
    if (strncmp(name, prefix, length) != 0)
        return 0;
    const char *scope = name + length;
    if (strspn(scope, "0123456789abcdef") != SCOPE_DIGITS || scope[SCOPE_DIGITS] != '.')
        return 0;
    char *end = NULL;
    const char *digits = scope + SCOPE_DIGITS + 1;
    long pid = strtol(digits, &end, 10);
    return end != digits && *end == '.' && pid > 0 && pid <= INT32_MAX ? (pid_t)pid : 0;
}

static bool was_rank(const struct hc_job *job, pid_t pid)
{
    for (uint32_t i = 0; i < job->num_ranks; i++)
        if (job->ranks[i].pid == pid && job->ranks[i].state == HC_RANK_ENDED)
            return true;
    return false;
}

static void remove_entry(int dir, const char *name)
{
    struct stat info;
    if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_uid != geteuid())
        return;
    if (unlinkat(dir, name, 0) != 0 && errno != ENOENT)
        hc_log_warn("cannot remove %s/%s, left by a rank that ended: %s", directory, name,
                    hc_errno_text(errno));
}

void hc_shm_sweep(const struct hc_job *job)
{
    DIR *entries = opendir(directory);
    if (!entries)
        return; /* without the directory nothing can be in it */
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        pid_t owner = owner_of(entry->d_name);
        if (owner && was_rank(job, owner))
            remove_entry(dirfd(entries), entry->d_name);
    }
    (void)closedir(entries);
}
