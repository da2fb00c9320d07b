/*
 * Files in memory that processes share: without a name, so that nothing stays behind however a process ends,
 * of one size for good, so that no mapping can fault, and open to their user only.
 */
#ifndef HC_MEMFILE_H
#define HC_MEMFILE_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HC_MEMFILE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

/* Beyond the limit of file sizes (ulimit -f) ftruncate() fails, too, but SIGXFSZ ends the process first. */
static inline int hc_memfile_resize(int fd, size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    return ftruncate(fd, (off_t)size);
}

/* A descriptor, or -1 with errno set. */
static inline int hc_memfile_create(const char *name, size_t size)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (fchmod(fd, S_IRUSR | S_IWUSR) == 0 && hc_memfile_resize(fd, size) == 0 &&
        fcntl(fd, F_ADD_SEALS, HC_MEMFILE_SEALS | F_SEAL_SEAL) == 0)
        return fd;
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

#endif
