#include "tests/npu/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int pair_side;
static const char *pair_node = "127.0.0.1";

/* Go to the side's host, if PAIR_HOSTS gives one: "/run/netns/a 10.0.0.1 /run/netns/b 10.0.0.2". */
static void enter_host(void)
{
    static char spaces[2][128], nodes[2][64];
    const char *hosts = getenv("PAIR_HOSTS");
    if (!hosts)
        return;
    EXPECT(sscanf(hosts, "%127s %63s %127s %63s", spaces[0], nodes[0], spaces[1], nodes[1]) == 4);
    int fd = open(spaces[pair_side], O_RDONLY | O_CLOEXEC);
    EXPECT(fd >= 0);
    EXPECT(setns(fd, CLONE_NEWNET) == 0);
    (void)close(fd);
    pair_node = nodes[pair_side];
}

static struct fi_info *find(uint64_t caps, int mr_mode, const char *domain)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    EXPECT(hints);
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = mr_mode;
    hints->domain_attr->name = domain ? strdup(domain) : NULL;
    hints->fabric_attr->prov_name = strdup("npu");
    int rc = fi_getinfo(FI_VERSION(1, 17), pair_node, NULL, FI_SOURCE, hints, &info);
    if (rc)
        fprintf(stderr, "fi_getinfo: %s\n", fi_strerror(-rc));
    EXPECT(rc == 0);
    fi_freeinfo(hints);
    return info;
}

static void open_all(struct pair *pair)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    EXPECT(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL) == 0);
    EXPECT(fi_domain(pair->fabric, pair->info, &pair->domain, NULL) == 0);
    EXPECT(fi_av_open(pair->domain, &av, &pair->av, NULL) == 0);
    EXPECT(fi_cq_open(pair->domain, &cq, &pair->tx, NULL) == 0);
    EXPECT(fi_cq_open(pair->domain, &cq, &pair->rx, NULL) == 0);
    EXPECT(fi_endpoint(pair->domain, pair->info, &pair->ep, NULL) == 0);
    EXPECT(fi_ep_bind(pair->ep, &pair->av->fid, 0) == 0);
    EXPECT(fi_ep_bind(pair->ep, &pair->tx->fid, FI_TRANSMIT) == 0);
    EXPECT(fi_ep_bind(pair->ep, &pair->rx->fid, FI_RECV) == 0);
    EXPECT(fi_enable(pair->ep) == 0);
}

static void exchange_names(struct pair *pair)
{
    char mine[64] = "", theirs[64] = "";
    size_t len = sizeof(mine);
    EXPECT(fi_getname(&pair->ep->fid, mine, &len) == 0);
    pair_trade(pair, mine, theirs, sizeof(mine));
    EXPECT(fi_av_insert(pair->av, theirs, 1, &pair->other, 0, NULL) == 1);
}

void pair_begin(struct pair *pair, uint64_t caps, int mr_mode, const char *domain)
{
    int fds[2];
    *pair = (struct pair){.child = -1};
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    pair->child = fork();
    EXPECT(pair->child >= 0);
    pair_side = pair->child == 0;
    if (pair_side)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)close(fds[!pair_side]);
    pair->fd = fds[pair_side];
    enter_host();
    const char *seconds = getenv("PAIR_SECONDS");
    (void)alarm(seconds ? (unsigned)atoi(seconds) : 300); /* a case that hangs fails */
    pair->info = find(caps, mr_mode, domain);
    open_all(pair);
    exchange_names(pair);
}

void pair_end(struct pair *pair)
{
    struct fid *fids[] = {&pair->ep->fid, &pair->tx->fid,     &pair->rx->fid,
                          &pair->av->fid, &pair->domain->fid, &pair->fabric->fid};
    pair_meet(pair);
    for (size_t i = 0; i < sizeof(fids) / sizeof(*fids); i++)
        EXPECT(fi_close(fids[i]) == 0);
    fi_freeinfo(pair->info);
    (void)close(pair->fd);
    if (pair_side)
        exit(0);
    int status = 0;
    EXPECT(waitpid(pair->child, &status, 0) == pair->child);
    EXPECT(status == 0);
}

static void progress(struct pair *pair)
{
    (void)fi_cq_read(pair->tx, NULL, 0);
    (void)fi_cq_read(pair->rx, NULL, 0);
}

void pair_trade(struct pair *pair, const void *mine, void *theirs, size_t n)
{
    size_t got = 0;
    EXPECT(write(pair->fd, mine, n) == (ssize_t)n);
    while (got < n) {
        ssize_t part = recv(pair->fd, (char *)theirs + got, n - got, MSG_DONTWAIT);
        EXPECT(part > 0 || (part < 0 && errno == EAGAIN));
        got += part > 0 ? (size_t)part : 0;
        progress(pair);
        (void)sched_yield();
    }
}

void pair_meet(struct pair *pair)
{
    char byte = 0, other;
    pair_trade(pair, &byte, &other, 1);
}

int pair_complete(struct pair *pair, struct fid_cq *cq, struct fi_cq_tagged_entry *entry)
{
    struct fi_cq_tagged_entry unused;
    struct fi_cq_err_entry error = {0};
    ssize_t got;
    if (!entry)
        entry = &unused;
    while ((got = fi_cq_read(cq, entry, 1)) == -FI_EAGAIN) {
        progress(pair);
        (void)sched_yield();
    }
    if (got == 1)
        return 0;
    EXPECT(got == -FI_EAVAIL);
    EXPECT(fi_cq_readerr(cq, &error, 0) == 1);
    entry->op_context = error.op_context;
    entry->flags = error.flags;
    return error.err;
}
