/* Two processes: peers that find each other by node and service, sleep, and die. */
#include "tests/npu/npu.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* One endpoint, at a port (NULL: any). */
struct end {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct side side;
};

static void end_open(struct end *end, const char *service, enum fi_wait_obj wait)
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

static void end_close(struct end *end)
{
    check_is(fi_close(&end->side.ep->fid), 0);
    check_is(fi_close(&end->side.av->fid), 0);
    check_is(fi_close(&end->side.cq->fid), 0);
    check_is(fi_close(&end->domain->fid), 0);
    check_is(fi_close(&end->fabric->fid), 0);
    fi_freeinfo(end->info);
}

/* The port of an endpoint that was free a moment ago. */
static void free_service(char *text, size_t len)
{
    struct end end;
    unsigned char name[16];
    size_t size = sizeof(name);
    end_open(&end, NULL, FI_WAIT_NONE);
    check_is(fi_getname(&end.side.ep->fid, name, &size), 0);
    (void)snprintf(text, len, "%u", name[2] << 8 | name[3]);
    end_close(&end);
}

static void wait_one(struct end *end)
{
    struct fi_cq_tagged_entry entry;
    ssize_t got;
    while ((got = fi_cq_read(end->side.cq, &entry, 1)) == -FI_EAGAIN)
        continue;
    check_is(got, 1);
}

/* Send, however long the other side takes to be there. */
static void send_to(struct end *end, fi_addr_t addr, const void *bytes, size_t len)
{
    ssize_t rc;
    while ((rc = fi_send(end->side.ep, bytes, len, NULL, addr, NULL)) == -FI_ECONNREFUSED || rc == -FI_EAGAIN)
        (void)usleep(1000);
    check_is(rc, 0);
    wait_one(end);
}

static pid_t child(void (*run)(const char *service), const char *service)
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

static void end_child(pid_t pid)
{
    int status = -1;
    check(waitpid(pid, &status, 0) == pid);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Answer with the name, then echo what comes. */
static void echo(const char *service)
{
    struct end end;
    static char bytes[300000];
    fi_addr_t back = 0;
    end_open(&end, service, FI_WAIT_UNSPEC);
    check_is(fi_recv(end.side.ep, bytes, 64, NULL, FI_ADDR_UNSPEC, NULL), 0);
    wait_one(&end);
    check_is(fi_av_insert(end.side.av, bytes, 1, &back, 0, NULL), 1);
    for (int i = 0; i < 20; i++) {
        struct fi_cq_tagged_entry entry;
        check_is(fi_recv(end.side.ep, bytes, sizeof(bytes), NULL, FI_ADDR_UNSPEC, NULL), 0);
        check_is(fi_cq_sread(end.side.cq, &entry, 1, NULL, 10000), 1);
        send_to(&end, back, bytes, entry.len);
    }
    end_close(&end);
}

static void peers_meet_by_node_and_service_and_sleep_meanwhile(void)
{
    char service[16], name[64];
    static char out[300000], in[300000];
    struct end end;
    size_t len = sizeof(name);
    fi_addr_t there = 0;
    free_service(service, sizeof(service));
    pid_t pid = child(echo, service);
    end_open(&end, NULL, FI_WAIT_UNSPEC);
    check_is(fi_av_insertsvc(end.side.av, "127.0.0.1", service, &there, 0, NULL), 1);
    check_is(fi_getname(&end.side.ep->fid, name, &len), 0);
    send_to(&end, there, name, len);
    for (int i = 0; i < 20; i++) {
        struct fi_cq_tagged_entry entry;
        size_t size = i % 2 ? 300000 : 100;
        fill(out, size, (unsigned)i);
        if (i % 5 == 0)
            (void)usleep(5000); /* the other side falls asleep */
        check_is(fi_recv(end.side.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
        check_is(fi_send(end.side.ep, out, size, NULL, there, NULL), 0);
        for (int n = 0; n < 2; n++)
            check_is(fi_cq_sread(end.side.cq, &entry, 1, NULL, 10000), 1);
        check(is_filled(in, size, (unsigned)i));
    }
    end_child(pid);
    end_close(&end);
}

/* Say hello, and stop in the middle of a large message. */
static void stop_midway(const char *service)
{
    struct end end;
    static char bytes[4 << 20];
    fi_addr_t there = 0;
    end_open(&end, NULL, FI_WAIT_NONE);
    check_is(fi_av_insertsvc(end.side.av, "127.0.0.1", service, &there, 0, NULL), 1);
    fill(bytes, 100, 1);
    send_to(&end, there, bytes, 100);
    check_is(fi_send(end.side.ep, bytes, sizeof(bytes), NULL, there, NULL), 0);
    (void)raise(SIGKILL);
}

static void what_a_killed_sender_left_arrives_and_the_rest_fails(void)
{
    struct end end;
    char service[16];
    static char in[4 << 20];
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    int status = 0;
    ssize_t got;
    free_service(service, sizeof(service));
    end_open(&end, service, FI_WAIT_NONE);
    pid_t pid = child(stop_midway, service);
    check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    check_is(fi_recv(end.side.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
    wait_one(&end);
    check(is_filled(in, 100, 1));
    check_is(fi_recv(end.side.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
    for (int i = 0; i < 100000; i++) {
        got = fi_cq_read(end.side.cq, &entry, 1);
        if (got == -FI_EAVAIL)
            break;
        check_is(got, -FI_EAGAIN);
    }
    if (got == -FI_EAVAIL) {
        check_is(fi_cq_readerr(end.side.cq, &error, 0), 1);
        check(error.err == FI_ECONNRESET && error.op_context == in);
    } else {
        /* The announcement was dropped with its sender: the receive is still there. */
        check_is(fi_cancel(&end.side.ep->fid, in), 0);
        check_is(fi_cq_read(end.side.cq, &entry, 1), -FI_EAVAIL);
    }
    end_close(&end);
}

static void receive_one_and_die(const char *service)
{
    struct end end;
    char in[64];
    end_open(&end, service, FI_WAIT_NONE);
    check_is(fi_recv(end.side.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
    wait_one(&end);
    (void)raise(SIGKILL);
}

static void sends_to_a_killed_receiver_fail_and_its_successor_is_reached(void)
{
    struct end end;
    char service[16], byte = 1;
    static char big[4 << 20];
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    fi_addr_t there = 0;
    int status = 0;
    ssize_t got;
    free_service(service, sizeof(service));
    end_open(&end, NULL, FI_WAIT_NONE);
    check_is(fi_av_insertsvc(end.side.av, "127.0.0.1", service, &there, 0, NULL), 1);
    check_is(fi_send(end.side.ep, &byte, 1, NULL, there, NULL), -FI_ECONNREFUSED);
    for (int round = 0; round < 2; round++) {
        pid_t pid = child(receive_one_and_die, service);
        send_to(&end, there, &byte, 1);
        check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        check_is(fi_send(end.side.ep, big, sizeof(big), NULL, there, big), 0);
        while ((got = fi_cq_read(end.side.cq, &entry, 1)) == -FI_EAGAIN)
            continue;
        check_is(got, -FI_EAVAIL);
        check_is(fi_cq_readerr(end.side.cq, &error, 0), 1);
        check(error.err == FI_ECONNRESET && error.op_context == big);
    }
    end_close(&end);
}

/* Enable an endpoint in one's domain at a port, and an address that the application wrote (NULL: the usual).
 */
static void enable_at(struct end *one, const char *host, const char *service, int expected)
{
    struct fi_info *hints = npu_hints(FI_MSG), *info = NULL;
    struct fid_ep *ep = NULL;
    check_is(fi_getinfo(FI_VERSION(1, 17), NULL, service, FI_SOURCE, hints, &info), 0);
    if (host)
        check(inet_pton(AF_INET, host, &((struct sockaddr_in *)info->src_addr)->sin_addr) == 1);
    check_is(fi_endpoint(one->domain, info, &ep, NULL), 0);
    check_is(fi_ep_bind(ep, &one->side.av->fid, 0), 0);
    check_is(fi_ep_bind(ep, &one->side.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    check_is(fi_enable(ep), expected);
    check_is(fi_close(&ep->fid), 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void an_address_that_is_used_or_of_another_host_is_not_given(void)
{
    struct end one;
    char service[16];
    free_service(service, sizeof(service));
    end_open(&one, service, FI_WAIT_NONE);
    enable_at(&one, NULL, service, -FI_EADDRINUSE);
    enable_at(&one, "192.0.2.1", service, -FI_EADDRNOTAVAIL); /* an address for examples: RFC 5737 */
    end_close(&one);
}

int main(void)
{
    peers_meet_by_node_and_service_and_sleep_meanwhile();
    what_a_killed_sender_left_arrives_and_the_rest_fails();
    sends_to_a_killed_receiver_fail_and_its_successor_is_reached();
    an_address_that_is_used_or_of_another_host_is_not_given();
    puts("processes: all cases passed");
    return 0;
}
