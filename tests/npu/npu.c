#include "tests/npu/npu.h"

#include <sys/wait.h>
#include <unistd.h>

struct fi_info *npu_hints(uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo();
    check(hints);
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("npu");
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    return hints;
}

static void side_open(struct pair *pair, const struct pair_options *options, struct side *side)
{
    struct fi_cq_attr cq_attr = {
        .size = options->cq_size, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = options->wait};
    struct fi_av_attr av_attr = {.type = options->av_type};
    check_is(fi_cq_open(pair->domain, &cq_attr, &side->cq, side), 0);
    check_is(fi_av_open(pair->domain, &av_attr, &side->av, NULL), 0);
    check_is(fi_endpoint(pair->domain, pair->info, &side->ep, side), 0);
    check_is(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV | options->bind), 0);
    check_is(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
    check_is(fi_enable(side->ep), 0);
}

static fi_addr_t introduce(struct side *to, struct side *who)
{
    char name[64];
    size_t len = sizeof(name);
    fi_addr_t addr = FI_ADDR_NOTAVAIL;
    check_is(fi_getname(&who->ep->fid, name, &len), 0);
    check_is(fi_av_insert(to->av, name, 1, &addr, 0, NULL), 1);
    return addr;
}

void pair_open(struct pair *pair, const struct pair_options *options)
{
    uint64_t usual = FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV | FI_MULTI_RECV;
    struct fi_info *hints = npu_hints(options->caps ? options->caps : usual);
    hints->tx_attr->size = hints->rx_attr->size = options->size;
    hints->domain_attr->threading = options->threading;
    check_is(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &pair->info), 0);
    fi_freeinfo(hints);
    if (options->size)
        pair->info->tx_attr->size = pair->info->rx_attr->size = options->size;
    check_is(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL), 0);
    check_is(fi_domain(pair->fabric, pair->info, &pair->domain, NULL), 0);
    side_open(pair, options, &pair->a);
    side_open(pair, options, &pair->b);
    pair->a.self = introduce(&pair->a, &pair->a);
    pair->a.peer = introduce(&pair->a, &pair->b);
    pair->b.peer = introduce(&pair->b, &pair->a);
    pair->b.self = introduce(&pair->b, &pair->b);
}

static void side_close(struct side *side)
{
    check_is(fi_close(&side->ep->fid), 0);
    check_is(fi_close(&side->cq->fid), 0);
    check_is(fi_close(&side->av->fid), 0);
}

void pair_close(struct pair *pair)
{
    side_close(&pair->a);
    side_close(&pair->b);
    check_is(fi_close(&pair->domain->fid), 0);
    check_is(fi_close(&pair->fabric->fid), 0);
    fi_freeinfo(pair->info);
}

static struct side *other(struct pair *pair, struct side *side)
{
    return side == &pair->a ? &pair->b : &pair->a;
}

void await(struct pair *pair, struct side *side, struct fi_cq_tagged_entry *entry, fi_addr_t *source)
{
    ssize_t got;
    while ((got = fi_cq_readfrom(side->cq, entry, 1, source)) == -FI_EAGAIN) {
        ssize_t moved = fi_cq_read(other(pair, side)->cq, NULL, 0);
        check(moved == 0 || moved == -FI_EAGAIN);
    }
    check_is(got, 1);
}

void await_error(struct pair *pair, struct side *side, struct fi_cq_err_entry *entry)
{
    struct fi_cq_tagged_entry none;
    ssize_t got;
    while ((got = fi_cq_read(side->cq, &none, 1)) == -FI_EAGAIN) {
        ssize_t moved = fi_cq_read(other(pair, side)->cq, NULL, 0);
        check(moved == 0 || moved == -FI_EAGAIN);
    }
    check_is(got, -FI_EAVAIL);
    *entry = (struct fi_cq_err_entry){0};
    check_is(fi_cq_readerr(side->cq, entry, 0), 1);
}

void check_quiet(struct pair *pair)
{
    struct fi_cq_tagged_entry none;
    for (int i = 0; i < 10000; i++) {
        check_is(fi_cq_read(pair->a.cq, &none, 1), -FI_EAGAIN);
        check_is(fi_cq_read(pair->b.cq, &none, 1), -FI_EAGAIN);
    }
}

void fill(void *bytes, size_t len, unsigned seed)
{
    unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(i * 7 + (i >> 8) * 13 + seed);
}

bool is_filled(const void *bytes, size_t len, unsigned seed)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        if (at[i] != (unsigned char)(i * 7 + (i >> 8) * 13 + seed))
            return false;
    return true;
}

/* ---- One endpoint per process ---- */

void end_open(struct end *end, const char *service, enum fi_wait_obj wait)
{
    struct fi_info *hints = npu_hints(FI_MSG);
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct side *side = &end->side;
    uint64_t flags = service ? FI_SOURCE : 0;
    check_is(fi_getinfo(FI_VERSION(1, 17), NULL, service, flags, hints, &end->info), 0);
    fi_freeinfo(hints);
    check_is(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), 0);
    check_is(fi_domain(end->fabric, end->info, &end->domain, NULL), 0);
    check_is(fi_cq_open(end->domain, &cq_attr, &side->cq, NULL), 0);
    check_is(fi_av_open(end->domain, &av_attr, &side->av, NULL), 0);
    check_is(fi_endpoint(end->domain, end->info, &side->ep, NULL), 0);
    check_is(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    check_is(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
    check_is(fi_enable(side->ep), 0);
}

void end_close(struct end *end)
{
    check_is(fi_close(&end->side.ep->fid), 0);
    check_is(fi_close(&end->side.av->fid), 0);
    check_is(fi_close(&end->side.cq->fid), 0);
    check_is(fi_close(&end->domain->fid), 0);
    check_is(fi_close(&end->fabric->fid), 0);
    fi_freeinfo(end->info);
}

void free_service(char *text, size_t len)
{
    struct end end;
    unsigned char name[16];
    size_t size = sizeof(name);
    end_open(&end, NULL, FI_WAIT_NONE);
    check_is(fi_getname(&end.side.ep->fid, name, &size), 0);
    (void)snprintf(text, len, "%u", name[2] << 8 | name[3]);
    end_close(&end);
}

void wait_one(struct end *end)
{
    struct fi_cq_tagged_entry entry;
    ssize_t got;
    while ((got = fi_cq_read(end->side.cq, &entry, 1)) == -FI_EAGAIN)
        continue;
    check_is(got, 1);
}

void send_to(struct end *end, fi_addr_t addr, const void *bytes, size_t len)
{
    ssize_t rc;
    while ((rc = fi_send(end->side.ep, bytes, len, NULL, addr, NULL)) == -FI_ECONNREFUSED || rc == -FI_EAGAIN)
        (void)usleep(1000);
    check_is(rc, 0);
    wait_one(end);
}

pid_t child(void (*run)(const char *service), const char *service)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        run(service);
        _exit(0);
    }
    return pid;
}

void end_child(pid_t pid)
{
    int status = -1;
    check(waitpid(pid, &status, 0) == pid);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
