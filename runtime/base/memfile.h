/*
 * Files in memory that processes share: without a name, so that nothing stays behind however a process ends,
 * of one size for good, so that no mapping can fault, and open to their user only.
 */
#ifndef HC_MEMFILE_H
#define HC_MEMFILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HC_MEMFILE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW };

/* Whether the limit of file sizes (ulimit -f) allows so many bytes. */
static inline bool hc_memfile_fits(size_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || size <= limit.rlim_cur;
}

/* Beyond that limit ftruncate() fails, too, but SIGXFSZ ends the process first. */
static inline int hc_memfile_resize(int fd, size_t size)
{
    if (!hc_memfile_fits(size)) {
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
