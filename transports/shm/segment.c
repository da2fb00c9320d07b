#include "transports/shm/segment.h"

#include "runtime/base/log.h"
#include "runtime/base/memfile.h"
#include "transports/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const uint64_t segment_magic = UINT64_C(0x316765736d6d6368); /* "hcmmseg1" */

/* Fill in the pointers for a mapping at `base`; returns the segment's size. With base NULL only the size
 * counts. */
static size_t lay_out(unsigned char *base, uint32_t ring_count, uint32_t chunk_count,
                      struct hc_shm_segment *segment)
{
    size_t sync = HC_SHM_PAGE;
    size_t shares = sync + hc_align_up(HC_SYNC_AREA, HC_SHM_PAGE);
    size_t flags = shares + hc_align_up(HC_SHARES * sizeof(struct hc_share), HC_SHM_PAGE);
    size_t rings = flags + hc_align_up(chunk_count * sizeof(struct hc_shm_flag), HC_SHM_PAGE);
    size_t chunks = rings + ring_count * sizeof(struct hc_shm_ring);
    size_t size = chunks + (size_t)chunk_count * HC_SHM_CHUNK_BYTES;
    if (base)
        *segment = (struct hc_shm_segment){
            .header = (struct hc_shm_header *)base,
            .sync = base + sync,
            .shares = (struct hc_share *)(base + shares),
            .flags = (struct hc_shm_flag *)(base + flags),
            .rings = (struct hc_shm_ring *)(base + rings),
            .chunks = base + chunks,
            .ring_count = ring_count,
            .chunk_count = chunk_count,
            .size = size,
        };
    return size;
}

static size_t size_of(uint32_t ring_count, uint32_t chunk_count)
{
    return lay_out(NULL, ring_count, chunk_count, NULL);
}

static hcomm_status_t map(int fd, uint32_t ring_count, uint32_t chunk_count, struct hc_shm_segment *segment)
{
    size_t size = size_of(ring_count, chunk_count);
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: mapping a segment of %zu bytes: %s", size,
                        hc_errno_text(errno));
    (void)lay_out(base, ring_count, chunk_count, segment);
    return HCOMM_OK;
}

hcomm_status_t hc_shm_segment_create(uint32_t ring_count, uint32_t chunk_count, uint64_t cookie,
                                     struct hc_shm_segment *segment, int *fd)
{
    size_t size = size_of(ring_count, chunk_count);
    int file = hc_memfile_create("hcomm", size);
    if (file < 0)
        return hc_error(HCOMM_ERR_IO, "shm: a segment of %zu bytes: %s%s", size, hc_errno_text(errno),
                        errno == EFBIG ? "; raise the limit (ulimit -f)" : "");
    hcomm_status_t status = map(file, ring_count, chunk_count, segment);
    if (status != HCOMM_OK) {
        (void)close(file);
        return status;
    }
    segment->header->magic = segment_magic;
    segment->header->version = HC_SHM_VERSION;
    segment->header->cookie = cookie;
    segment->header->ring_count = ring_count;
    segment->header->chunk_count = chunk_count;
    *fd = file;
    return HCOMM_OK;
}

void hc_shm_segment_unmap(struct hc_shm_segment *segment)
{
    if (segment->header)
        (void)munmap(segment->header, segment->size);
    *segment = (struct hc_shm_segment){0};
}

void hc_shm_segment_bind(const struct hc_shm_segment *segment)
{
    enum { WORDS = 16, WORD_BITS = 64 };
    unsigned long mask[WORDS] = {0};
    unsigned node = 0;
    if (getcpu(NULL, &node) < 0 || node >= WORDS * WORD_BITS)
        return;
    mask[node / WORD_BITS] |= 1UL << node % WORD_BITS;
    size_t bytes = segment->ring_count * sizeof(struct hc_shm_ring);
    if (syscall(SYS_mbind, segment->rings, bytes, MPOL_PREFERRED, mask, WORDS * WORD_BITS, 0) < 0)
        hc_log_debug("shm: rings stay unplaced: mbind to NUMA node %u: %s", node, hc_errno_text(errno));
}

uint64_t hc_shm_start_time(pid_t pid)
{
    enum { FIELD = 22, STAT_MAX = 1024 };
    char path[64], text[STAT_MAX];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (got <= 0)
        return 0;
    text[got] = '\0';
    /* The second field is the program's name in parentheses and may hold blanks and parentheses itself. */
    char *at = strrchr(text, ')');
    if (!at || strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0)
        return 0;
    for (int field = 2; at && field < FIELD; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static hcomm_status_t open_error(const struct hc_shm_addr *addr, int number, int error)
{
    if (error == ENOENT || error == ESRCH)
        return hc_error(HCOMM_ERR_PEER_LOST, "shm: process %d is gone or has closed its memory", addr->pid);
    return hc_error(HCOMM_ERR_UNREACHABLE, "shm: memory of process %d (/proc/%d/fd/%d): %s", addr->pid,
                    addr->pid, number, hc_errno_text(error));
}

/* What the file is must be known before opening, for opening a stranger's file may block. */
hcomm_status_t hc_shm_open_file(const struct hc_shm_addr *addr, int number, uint64_t inode, int *fd)
{
    char path[64];
    struct stat info;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)addr->pid, number);
    if (stat(path, &info) < 0)
        return open_error(addr, number, errno);
    if (info.st_ino != inode || !S_ISREG(info.st_mode))
        return hc_error(HCOMM_ERR_PEER_LOST, "shm: process %d has closed its memory", addr->pid);
    int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return open_error(addr, number, errno);
    *fd = file;
    return HCOMM_OK;
}

static hcomm_status_t check_file(const struct hc_shm_addr *addr, int fd)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &info) < 0 || seals < 0)
        return hc_error(HCOMM_ERR_PROTOCOL, "shm: segment of process %d: %s", addr->pid,
                        hc_errno_text(errno));
    size_t size = size_of(addr->ring_count, addr->chunk_count);
    if (info.st_ino != addr->inode || (size_t)info.st_size != size ||
        (seals & HC_MEMFILE_SEALS) != HC_MEMFILE_SEALS)
        return hc_error(HCOMM_ERR_PROTOCOL, "shm: descriptor %d of process %d is no segment of this job",
                        addr->fd, addr->pid);
    return HCOMM_OK;
}

static hcomm_status_t check_header(const struct hc_shm_addr *addr, const struct hc_shm_header *header)
{
    if (header->magic == segment_magic && header->version == HC_SHM_VERSION &&
        header->cookie == addr->cookie && header->ring_count == addr->ring_count &&
        header->chunk_count == addr->chunk_count && hc_shm_start_time(addr->pid) == addr->start)
        return HCOMM_OK;
    return hc_error(HCOMM_ERR_PROTOCOL, "shm: process %d does not own the segment its address names",
                    addr->pid);
}

hcomm_status_t hc_shm_segment_attach(const struct hc_shm_addr *addr, struct hc_shm_segment *segment)
{
    int fd = -1;
    struct hc_shm_segment mapped = {0};
    hcomm_status_t status = hc_shm_open_file(addr, addr->fd, addr->inode, &fd);
    if (status != HCOMM_OK)
        return status;
    status = check_file(addr, fd);
    if (status == HCOMM_OK)
        status = map(fd, addr->ring_count, addr->chunk_count, &mapped);
    (void)close(fd); /* the mapping keeps the memory */
    if (status != HCOMM_OK)
        return status;
    status = check_header(addr, mapped.header);
    if (status != HCOMM_OK) {
        hc_shm_segment_unmap(&mapped);
        return status;
    }
    *segment = mapped;
    return HCOMM_OK;
}
