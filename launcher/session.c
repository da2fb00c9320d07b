#include "launcher/session.h"

#include "runtime/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TREE_FDS = 16, CREATE_TRIES = 8 };

/* Absolute, as ranks may run elsewhere. */
static const char *parent_directory(void)
{
    static char absolute[PATH_MAX];
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent)
        return "/tmp";
    return *parent != '/' && realpath(parent, absolute) ? absolute : parent;
}

static int format_prefix(char *prefix, size_t size)
{
    return snprintf(prefix, size, "hcommrun-%u-", (unsigned)geteuid());
}

/* The directory at `path`, locked without waiting; -1 when somebody else has it or it is gone. */
static int open_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

hcomm_status_t hc_session_allocate(struct hc_session **session)
{
    void *memory = mmap(NULL, sizeof(**session), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return hc_error(HCOMM_ERR_NO_MEMORY, "no memory for the session: %s", hc_errno_text(errno));
    *session = memory;
    return HCOMM_OK;
}

void hc_session_free(struct hc_session *session)
{
    (void)munmap(session, sizeof(*session));
}

/* Whether `path` names the open directory `fd`, and it belongs to this user. */
static bool is_named(int fd, const char *path)
{
    struct stat opened;
    struct stat named;
    return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev && opened.st_uid == geteuid();
}

/* The descriptor stays open, and with it the lock, as long as the process lives. */
static bool lock_session(struct hc_session *session)
{
    struct stat info;
    int fd = open_locked(session->path);
    if (fd < 0)
        return false;
    if (!is_named(fd, session->path) || fstat(fd, &info) != 0) {
        (void)close(fd);
        return false;
    }
    session->device = info.st_dev;
    session->inode = info.st_ino;
    return true;
}

hcomm_status_t hc_session_create(struct hc_session *session)
{
    char prefix[64];
    (void)format_prefix(prefix, sizeof(prefix));
    /* Between mkdtemp and flock a sweeper may take the new directory for a dead one: then make another. */
    for (int i = 0; i < CREATE_TRIES; i++) {
        int length =
            snprintf(session->path, sizeof(session->path), "%s/%sXXXXXX", parent_directory(), prefix);
        if (length < 0 || (size_t)length >= sizeof(session->path))
            return hc_error(HCOMM_ERR_CONFIG, "TMPDIR is too long for a session directory");
        if (!mkdtemp(session->path))
            return hc_error(HCOMM_ERR_IO,
                            "cannot make a session directory in %s: %s; set TMPDIR to a writable directory",
                            parent_directory(), hc_errno_text(errno));
        if (lock_session(session))
            return HCOMM_OK;
    }
    return hc_error(HCOMM_ERR_IO, "cannot lock a session directory in %s", parent_directory());
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    if (remove(path) != 0 && errno != ENOENT)
        hc_log_warn("cannot remove %s: %s", path, hc_errno_text(errno));
    return 0;
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_entry, TREE_FDS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void hc_session_remove(const struct hc_session *session)
{
    struct stat info;
    if (!*session->path || lstat(session->path, &info) != 0 || info.st_uid != geteuid())
        return;
    /* Not locked yet: its maker died on the way, and the random name is still its own. */
    bool same = info.st_dev == session->device && info.st_ino == session->inode;
    if (same || session->inode == 0)
        remove_tree(session->path);
}

static void sweep_one(const char *path)
{
    int fd = open_locked(path);
    if (fd < 0)
        return;
    if (is_named(fd, path)) {
        hc_log_info("removing the session directory of a run that died: %s", path);
        remove_tree(path);
    }
    (void)close(fd);
}

void hc_session_sweep(void)
{
    char prefix[64];
    int length = format_prefix(prefix, sizeof(prefix));
    DIR *directory = opendir(parent_directory());
    if (!directory)
        return;
    struct dirent *entry = readdir(directory);
    while (entry) {
        char path[PATH_MAX];
        int used = snprintf(path, sizeof(path), "%s/%s", parent_directory(), entry->d_name);
        if (strncmp(entry->d_name, prefix, (size_t)length) == 0 && used > 0 && (size_t)used < sizeof(path))
            sweep_one(path);
        entry = readdir(directory);
    }
    (void)closedir(directory);
}
