#include "transports/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t hc_shm_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static hcomm_status_t read_boot_id(uint64_t *host)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    char text[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hc_error(HCOMM_ERR_IO, "shm: %s: %s", path, hc_errno_text(errno));
    ssize_t got = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (got <= 0)
        return hc_error(HCOMM_ERR_IO, "shm: %s is empty", path);
    text[got] = '\0';
    *host = hc_shm_hash(text);
    return HCOMM_OK;
}

static hcomm_status_t name_space_id(const char *path, uint64_t *id)
{
    struct stat info;
    if (stat(path, &info) < 0)
        return hc_error(HCOMM_ERR_IO, "shm: %s: %s", path, hc_errno_text(errno));
    *id = info.st_ino;
    return HCOMM_OK;
}

hcomm_status_t hc_shm_identity_get(struct hc_shm_identity *identity)
{
    uint64_t pid_ns = 0, user_ns = 0;
    uint64_t host = 0;
    hcomm_status_t status = read_boot_id(&host);
    if (status == HCOMM_OK)
        status = name_space_id("/proc/self/ns/pid", &pid_ns);
    if (status == HCOMM_OK)
        status = name_space_id("/proc/self/ns/user", &user_ns);
    if (status != HCOMM_OK)
        return status;
    uint64_t start = hc_shm_start_time(getpid());
    if (!start)
        return hc_error(HCOMM_ERR_IO, "shm: /proc does not show this process (PID %d)", (int)getpid());
    *identity = (struct hc_shm_identity){
        .host = host,
        .pid_ns = pid_ns,
        .user_ns = (uint32_t)user_ns, /* the kernel's numbers of name spaces have 32 bits */
        .uid = geteuid(),
        .pid = getpid(),
        .start = start,
    };
    return HCOMM_OK;
}

const char *hc_shm_addr_check(const struct hc_shm_addr *self, const void *blob, size_t len,
                              struct hc_shm_addr *addr)
{
    struct hc_shm_addr a;
    if (!blob || len != sizeof(a))
        return "the address has a wrong length";
    memcpy(&a, blob, sizeof(a));
    if (a.magic != self->magic || a.version != HC_SHM_VERSION)
        return "it is no address of this version of shm";
    if (a.host != self->host)
        return "it is on another host";
    if (a.pid_ns != self->pid_ns)
        return "it is in another PID name space";
    if (a.user_ns != self->user_ns)
        return "it is in another user name space";
    if (a.uid != self->uid)
        return "it belongs to another user";
    if (a.job != self->job)
        return "it belongs to another job";
    if (a.pid <= 0 || a.fd < 0 || a.event_fd < 0)
        return "the address is malformed";
    if (a.ring_count == 0 || a.ring_count > HC_SHM_RINGS_MAX || a.local_rank >= a.ring_count ||
        a.local_rank >= self->ring_count || self->local_rank >= a.ring_count || a.chunk_count == 0 ||
        a.chunk_count > HC_SHM_CHUNKS_MAX)
        return "the address has counts out of range";
    *addr = a;
    return NULL;
}
