/*
 * Long messages between processes that are copied straight from buffer to buffer: what goes wrong there. A
 * filter of system calls plays the kernel that refuses.
 */
#include "tests/npu/npu.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BIG = 64 << 20, LONG = 3 << 20 };

static void allow_calls_but(long number, unsigned what)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, what),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void refuse(long number)
{
    allow_calls_but(number, SECCOMP_RET_ERRNO | 1 /* EPERM */);
}

static char *memory(size_t len)
{
    char *bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(bytes != MAP_FAILED);
    return bytes;
}

static void receive(struct end *end, char *in, size_t len, unsigned seed)
{
    memset(in, 0, len);
    check_is(fi_recv(end->side.ep, in, len, NULL, FI_ADDR_UNSPEC, NULL), 0);
    wait_one(end);
    check(is_filled(in, len, seed));
}

/* ---- Senders ---- */

/* Greet, until the other side has it: from then on the sender knows how it may send. */
static fi_addr_t greet(struct end *end, const char *service)
{
    fi_addr_t there = 0;
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1};
    ssize_t rc;
    end_open(end, NULL, FI_WAIT_NONE);
    check_is(fi_av_insertsvc(end->side.av, "127.0.0.1", service, &there, 0, NULL), 1);
    msg.addr = there;
    while ((rc = fi_sendmsg(end->side.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION)) == -FI_ECONNREFUSED)
        (void)usleep(1000);
    check_is(rc, 0);
    wait_one(end);
    return there;
}

static void send_some(const char *service, bool refuse_writes)
{
    struct end end;
    char *out = memory(LONG);
    fi_addr_t there = greet(&end, service);
    for (unsigned i = 1; i <= 3; i++) {
        fill(out, LONG, i);
        send_to(&end, there, out, LONG);
        if (i == 1 && refuse_writes)
            refuse(SYS_process_vm_writev);
    }
    end_close(&end);
}

static void send_three(const char *service)
{
    send_some(service, false);
}

/* Send one, and end quietly whatever becomes of it. */
static void post_one(const char *service)
{
    struct end end;
    struct fi_cq_tagged_entry entry;
    char *out = memory(LONG);
    fi_addr_t there = greet(&end, service);
    check_is(fi_send(end.side.ep, out, LONG, NULL, there, NULL), 0);
    while (fi_cq_read(end.side.cq, &entry, 1) == -FI_EAGAIN)
        continue;
}

static void send_three_but_not_write_the_second(const char *service)
{
    send_some(service, true);
}

static void post_and_wait_for_the_end(const char *service)
{
    struct end end;
    char *out = memory(BIG);
    fi_addr_t there = greet(&end, service);
    fill(out, BIG, 1);
    check_is(fi_send(end.side.ep, out, BIG, NULL, there, NULL), 0);
    for (;;)
        (void)pause();
}

static atomic_bool *unmapped; /* shared by the processes */

static void post_and_unmap(const char *service)
{
    struct end end;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    char *out = memory(BIG);
    ssize_t got;
    fi_addr_t there = greet(&end, service);
    check_is(fi_send(end.side.ep, out, BIG, NULL, there, out), 0);
    check(munmap(out, BIG) == 0);
    atomic_store(unmapped, true);
    while ((got = fi_cq_read(end.side.cq, &entry, 1)) == -FI_EAGAIN)
        continue;
    check_is(got, -FI_EAVAIL);
    check_is(fi_cq_readerr(end.side.cq, &error, 0), 1);
    check(error.err == FI_EFAULT && error.op_context == out);
    out = memory(LONG);
    fill(out, LONG, 2);
    send_to(&end, there, out, LONG);
    end_close(&end);
}

/* ---- Cases ---- */

/* An endpoint, a process that sends to it, and its greeting taken. */
static pid_t begin(struct end *end, void (*sender)(const char *service), char *in)
{
    char service[16];
    free_service(service, sizeof(service));
    end_open(end, service, FI_WAIT_NONE);
    pid_t pid = child(sender, service);
    receive(end, in, 1, 0);
    return pid;
}

static void take_three(void (*sender)(const char *service), void (*before)(void), unsigned when)
{
    struct end end;
    char *in = memory(LONG);
    pid_t pid = begin(&end, sender, in);
    for (unsigned i = 1; i <= 3; i++) {
        if (before && i == when)
            before();
        receive(&end, in, LONG, i);
    }
    end_child(pid);
    end_close(&end);
    check(munmap(in, LONG) == 0);
}

static void die_when_copying(void)
{
    allow_calls_but(SYS_process_vm_readv, SECCOMP_RET_KILL_PROCESS);
}

static void refuse_to_read(void)
{
    refuse(SYS_process_vm_readv);
}

static void copying_kills(const char *unused)
{
    (void)unused;
    take_three(post_one, die_when_copying, 1);
}

static void no_copying(const char *unused)
{
    (void)unused;
    check(setenv("FI_NPU_DIRECT_COPY", "0", 1) == 0);
    take_three(send_three, die_when_copying, 1);
}

static void refused_later(const char *unused)
{
    (void)unused;
    take_three(send_three, refuse_to_read, 2);
}

static void refused_from_the_start(const char *unused)
{
    (void)unused;
    refuse_to_read();
    take_three(send_three, NULL, 0);
}

static void ends_by(void (*run)(const char *unused), int signal)
{
    int status = -1;
    pid_t pid = child(run, NULL);
    check(waitpid(pid, &status, 0) == pid);
    check(signal ? WIFSIGNALED(status) && WTERMSIG(status) == signal
                 : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void long_messages_are_copied_across_unless_that_is_switched_off(void)
{
    ends_by(copying_kills, SIGSYS);
    ends_by(no_copying, 0);
}

static void messages_arrive_where_the_kernel_refuses_to_read(void)
{
    ends_by(refused_from_the_start, 0);
    ends_by(refused_later, 0);
}

static void messages_arrive_where_the_kernel_refuses_to_write(void)
{
    take_three(send_three_but_not_write_the_second, NULL, 0);
}

/* Move until there is an error. */
static void await_failure(struct end *end, int err, const void *context)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t got;
    while ((got = fi_cq_read(end->side.cq, &entry, 1)) == -FI_EAGAIN)
        continue;
    check_is(got, -FI_EAVAIL);
    check_is(fi_cq_readerr(end->side.cq, &error, 0), 1);
    check_is(-error.err, -err);
    check(error.op_context == context);
}

static void a_sender_killed_midway_fails_the_receive(void)
{
    struct end end;
    int status = 0;
    char *in = memory(BIG);
    pid_t pid = begin(&end, post_and_wait_for_the_end, in);
    check_is(fi_recv(end.side.ep, in, BIG, NULL, FI_ADDR_UNSPEC, in), 0);
    while (!in[1])
        check_is(fi_cq_read(end.side.cq, NULL, 0), -FI_EAGAIN);
    check(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
    await_failure(&end, FI_ECONNRESET, in);
    end_close(&end);
    check(munmap(in, BIG) == 0);
}

static void take_a_part_and_die(const char *service)
{
    struct end end;
    char *in = memory(BIG);
    end_open(&end, service, FI_WAIT_NONE);
    receive(&end, in, 1, 0);
    check_is(fi_recv(end.side.ep, in, BIG, NULL, FI_ADDR_UNSPEC, in), 0);
    while (!in[1])
        (void)fi_cq_read(end.side.cq, NULL, 0);
    (void)raise(SIGKILL);
}

static void a_receiver_killed_midway_fails_the_send(void)
{
    struct end end;
    char service[16];
    int status = 0;
    char *out = memory(BIG);
    free_service(service, sizeof(service));
    pid_t pid = child(take_a_part_and_die, service);
    fi_addr_t there = greet(&end, service);
    fill(out, BIG, 1);
    check_is(fi_send(end.side.ep, out, BIG, NULL, there, out), 0);
    check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    await_failure(&end, FI_ECONNRESET, out);
    end_close(&end);
    check(munmap(out, BIG) == 0);
}

static void a_buffer_that_vanished_fails_its_message_only(void)
{
    struct end end;
    char *in = memory(BIG);
    unmapped = mmap(NULL, sizeof(*unmapped), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(unmapped != MAP_FAILED);
    pid_t pid = begin(&end, post_and_unmap, in);
    while (!atomic_load(unmapped))
        (void)usleep(100);
    check_is(fi_recv(end.side.ep, in, BIG, NULL, FI_ADDR_UNSPEC, in), 0);
    await_failure(&end, FI_EFAULT, in);
    receive(&end, in, LONG, 2);
    end_child(pid);
    end_close(&end);
    check(munmap(in, BIG) == 0);
}

/* Side b is closed (which), or a, when b has taken a part. */
static void close_midway(bool receiver)
{
    static const struct pair_options usual = {0};
    struct pair pair;
    struct fi_cq_err_entry error;
    char *out = memory(BIG), *in = memory(BIG), byte = 1;
    struct fi_cq_tagged_entry entry;
    pair_open(&pair, &usual);
    check_is(fi_inject(pair.a.ep, &byte, 1, pair.a.peer), 0);
    check_is(fi_recv(pair.b.ep, in, 1, NULL, FI_ADDR_UNSPEC, in), 0);
    await(&pair, &pair.b, &entry, NULL);
    fill(out, BIG, 1);
    check_is(fi_recv(pair.b.ep, in, BIG, NULL, FI_ADDR_UNSPEC, in), 0);
    check_is(fi_send(pair.a.ep, out, BIG, NULL, pair.a.peer, out), 0);
    while (!in[1])
        check_is(fi_cq_read(pair.b.cq, NULL, 0), -FI_EAGAIN);
    struct side *closed = receiver ? &pair.b : &pair.a, *left = receiver ? &pair.a : &pair.b;
    check_is(fi_close(&closed->ep->fid), 0);
    memset(receiver ? in : out, 0, BIG);
    await_error(&pair, left, &error);
    check(error.err == FI_ECONNRESET && error.op_context == (receiver ? out : in));
    check(!receiver || (!in[1] && memcmp(in, in + 1, BIG - 1) == 0));
    check_is(fi_endpoint(pair.domain, pair.info, &closed->ep, NULL), 0);
    pair_close(&pair);
    check(munmap(out, BIG) == 0 && munmap(in, BIG) == 0);
}

static void closing_an_endpoint_takes_its_memory_back(void)
{
    close_midway(false);
    close_midway(true);
}

int main(void)
{
    long_messages_are_copied_across_unless_that_is_switched_off();
    messages_arrive_where_the_kernel_refuses_to_read();
    messages_arrive_where_the_kernel_refuses_to_write();
    a_sender_killed_midway_fails_the_receive();
    a_receiver_killed_midway_fails_the_send();
    a_buffer_that_vanished_fails_its_message_only();
    closing_an_endpoint_takes_its_memory_back();
    puts("direct: all cases passed");
    return 0;
}
