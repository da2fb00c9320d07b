/* Two processes: peers that find each other by node and service, sleep, and die. */
#include "tests/npu/npu.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
        check_is(fi_cq_sread(end.side.cq, &entry, 1, NULL, 60000), 1);
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
            check_is(fi_cq_sread(end.side.cq, &entry, 1, NULL, 60000), 1);
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

/* ---- Both ways are there before the first message ---- */

enum { MEETINGS = 12 };
static char services[2][16];
static int to_other[2][2]; /* a socket pair for each side's words */

static void tell(int side)
{
    check_is(write(to_other[side][0], "", 1), 1);
}

static void hear(int side)
{
    char byte;
    check_is(read(to_other[!side][1], &byte, 1), 1);
}

/* Wait for the other side to come so far. */
static void together(int side)
{
    tell(side);
    hear(side);
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    check(folder != NULL);
    while (readdir(folder))
        count++;
    check_is(closedir(folder), 0);
    return count;
}

/* One message each way, at the same time. */
static void exchange(struct end *end, fi_addr_t there)
{
    struct fi_cq_tagged_entry entry;
    char in = 0, out = 7;
    check_is(fi_recv(end->side.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    check_is(fi_send(end->side.ep, &out, 1, NULL, there, NULL), 0);
    for (int n = 0; n < 2;) {
        ssize_t got = fi_cq_read(end->side.cq, &entry, 1);
        check(got == 1 || got == -FI_EAGAIN);
        n += got == 1;
    }
    check(in == 7);
}

/* order 0, 1: the side that inserts first; it makes no call until the first message. 2: both at once. */
static void meet_as(int side, int order)
{
    struct end end;
    fi_addr_t there = 0;
    end_open(&end, services[side], FI_WAIT_NONE);
    together(side);
    if (order == !side)
        hear(side);
    check_is(fi_av_insertsvc(end.side.av, "127.0.0.1", services[!side], &there, 0, NULL), 1);
    if (order == side)
        tell(side);
    together(side);
    int before = open_descriptors();
    exchange(&end, there);
    if (order < 2) /* else one may not have waited long enough for the other to introduce itself */
        check_is(open_descriptors(), before);
    for (int i = 0; i < 100; i++)
        exchange(&end, there);
    together(side);
    end_close(&end);
    together(side);
}

static void meet_as_second(const char *service)
{
    (void)service;
    for (int i = 0; i < MEETINGS; i++)
        meet_as(1, i % 3);
}

static void both_ways_are_there_before_the_first_message(void)
{
    free_service(services[0], sizeof(services[0]));
    free_service(services[1], sizeof(services[1]));
    for (int i = 0; i < 2; i++)
        check_is(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to_other[i]), 0);
    pid_t pid = child(meet_as_second, services[1]);
    for (int i = 0; i < MEETINGS; i++)
        meet_as(0, i % 3);
    end_child(pid);
    for (int i = 0; i < 4; i++)
        check_is(close(to_other[i / 2][i % 2]), 0);
}

int main(void)
{
    both_ways_are_there_before_the_first_message();
    peers_meet_by_node_and_service_and_sleep_meanwhile();
    what_a_killed_sender_left_arrives_and_the_rest_fails();
    sends_to_a_killed_receiver_fail_and_its_successor_is_reached();
    an_address_that_is_used_or_of_another_host_is_not_given();
    puts("processes: all cases passed");
    return 0;
}
