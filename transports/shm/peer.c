#include "runtime/base/log.h"
#include "transports/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct hc_shm_peer *find(struct hc_shm_iface *iface, const struct hc_shm_addr *addr)
{
    struct hc_list *node;
    hc_list_for_each(node, &iface->peers)
    {
        struct hc_shm_peer *peer = hc_list_entry(node, struct hc_shm_peer, link);
        if (peer->addr.cookie == addr->cookie && peer->addr.pid == addr->pid)
            return peer;
    }
    return NULL;
}

hcomm_status_t hc_shm_peer_get(struct hc_shm_iface *iface, const struct hc_shm_addr *addr,
                               struct hc_shm_peer **peer)
{
    struct hc_shm_peer *p = find(iface, addr);
    if (p) {
        p->refs++;
        *peer = p;
        return HCOMM_OK;
    }
    p = calloc(1, sizeof(*p));
    if (!p)
        return hc_error(HCOMM_ERR_NO_MEMORY, "shm: no memory for a peer");
    hcomm_status_t status = hc_shm_segment_attach(addr, &p->segment);
    if (status != HCOMM_OK) {
        free(p);
        return status;
    }
    p->addr = *addr;
    p->doorbell = &p->segment.header->doorbell;
    p->fence = !iface->barrier || !(p->segment.header->flags & HC_SHM_FLAG_BARRIER);
    p->event_fd = -1;
    p->refs = 1;
    hc_list_init(&p->mappings);
    hc_list_append(&iface->peers, &p->link);
    *peer = p;
    return HCOMM_OK;
}

void hc_shm_peer_put(struct hc_shm_peer *peer)
{
    if (!peer || --peer->refs)
        return;
    hc_list_remove(&peer->link);
    if (peer->event_fd >= 0)
        (void)close(peer->event_fd);
    hc_shm_mappings_fini(peer);
    hc_shm_segment_unmap(&peer->segment);
    free(peer);
}

/*
 * Open the peer's pipe, not one that took its number since. For reading too: a pipe whose only readers died
 * would send this process SIGPIPE.
 */
static int open_event(const struct hc_shm_addr *addr)
{
    char path[64];
    struct stat info;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)addr->pid, (int)addr->event_fd);
    if (hc_shm_start_time(addr->pid) != addr->start || stat(path, &info) < 0 || !S_ISFIFO(info.st_mode) ||
        info.st_ino != addr->event_inode)
        return -1;
    return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

void hc_shm_peer_wake(struct hc_shm_peer *peer)
{
    /* Whoever takes the word from non-zero to zero writes the byte. acq_rel: orders with the other wakers. */
    if (!atomic_exchange_explicit(&peer->doorbell->sleeping, 0, memory_order_acq_rel))
        return;
    if (peer->event_fd < 0)
        peer->event_fd = open_event(&peer->addr);
    /* A full pipe is readable anyway; a dead peer needs no waking. */
    if (peer->event_fd < 0 || (write(peer->event_fd, "", 1) < 0 && errno != EAGAIN))
        hc_log_debug("shm: cannot wake process %d, it seems to be gone", (int)peer->addr.pid);
}
