/*
 * Hosts that vanish without a word. A peer that computes answers nothing (its progress is manual), so only
 * its kernel can tell whether its host is still there: TCP's keepalive and user time-out do. Providers do not
 * offer them, so they are set on the provider's own socket, found by the addresses at its ends. Other
 * transports than TCP have no such socket and notice by themselves.
 */
#include "transports/npu/net.h"

#include <dirent.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { DEFAULT_SECONDS = 30, MOST_SECONDS = 86400, PROBES = 4 };

/* Seconds after which a host that does not answer is given up; 0: never by us. */
static int patience(void)
{
    int seconds = DEFAULT_SECONDS;
    (void)fi_param_get_int(&npu_provider, "peer_timeout", &seconds);
    return seconds < 0 || seconds > MOST_SECONDS ? DEFAULT_SECONDS : seconds;
}

static bool end_is(const struct sockaddr_storage *found, socklen_t len, const struct npu_addr *end)
{
    struct npu_addr addr;
    return (found->ss_family == AF_INET || found->ss_family == AF_INET6) &&
           npu_addr_copy(found, len, &addr) == 0 && npu_addr_equal(&addr, end);
}

/* Whether a descriptor is the socket between two addresses; while it connects it does not tell the other. */
static bool is_between(int fd, const struct npu_addr *here, const struct npu_addr *there)
{
    struct sockaddr_storage found;
    socklen_t len = sizeof(found), of_int = sizeof(int);
    int type = 0, listens = 1;
    if (getsockname(fd, (struct sockaddr *)&found, &len) < 0 || !end_is(&found, len, here) ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &of_int) < 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &of_int) < 0 || listens)
        return false;
    len = sizeof(found);
    return getpeername(fd, (struct sockaddr *)&found, &len) < 0 || end_is(&found, len, there);
}

static int find_socket(const struct npu_addr *here, const struct npu_addr *there)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int found = -1;
    while (dir && found < 0 && (entry = readdir(dir))) {
        int fd = atoi(entry->d_name); /* "." is 0, which is looked at once more */
        if (is_between(fd, here, there))
            found = fd;
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

static int set(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value));
}

static int at_least_1(int seconds)
{
    return seconds > 1 ? seconds : 1;
}

void npu_net_guard(struct npu_net_conn *conn, const struct npu_addr *there)
{
    struct npu_addr here = {0};
    size_t len = sizeof(here);
    int seconds = patience();
    if (seconds == 0 || fi_getname(&conn->ep->fid, &here, &len) < 0)
        return;
    int fd = find_socket(&here, there);
    if (fd < 0)
        return;
    int rc = set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    rc |= set(fd, IPPROTO_TCP, TCP_KEEPIDLE, at_least_1(seconds / 2));
    rc |= set(fd, IPPROTO_TCP, TCP_KEEPINTVL, at_least_1(seconds / 2 / PROBES));
    rc |= set(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    rc |= set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, seconds * 1000);
    if (rc)
        npu_info(EP_CTRL, "a peer's host that vanishes will be noticed late: no time-outs on its socket\n");
}
