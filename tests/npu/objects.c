/* fi_getinfo(3), fi_av(3), fi_cq(3), fi_cntr(3), fi_eq(3), fi_poll(3), fi_mr(3): the objects themselves. */
#include "tests/npu/npu.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static const struct pair_options usual = {0};

/* ---- fi_getinfo ---- */

static int ask(struct fi_info *hints, struct fi_info **info)
{
    *info = NULL;
    return fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
}

static void refused(void (*change)(struct fi_info *hints))
{
    struct fi_info *hints = npu_hints(0), *info = NULL;
    change(hints);
    check_is(ask(hints, &info), -FI_ENODATA);
    fi_freeinfo(hints);
}

static void want_datagrams(struct fi_info *hints)
{
    hints->ep_attr->type = FI_EP_DGRAM;
}
static void want_connections(struct fi_info *hints)
{
    hints->ep_attr->type = FI_EP_MSG;
}
static void want_multicast(struct fi_info *hints)
{
    hints->caps = FI_MSG | FI_MULTICAST;
}
static void want_strings(struct fi_info *hints)
{
    hints->addr_format = FI_ADDR_STR;
}
static void want_long_injects(struct fi_info *hints)
{
    hints->tx_attr->inject_size = 1 << 20;
}
static void want_many_pieces(struct fi_info *hints)
{
    hints->rx_attr->iov_limit = 1000;
}
static void want_two_contexts(struct fi_info *hints)
{
    hints->ep_attr->tx_ctx_cnt = 2;
}
static void want_shared_context(struct fi_info *hints)
{
    hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
}
static void want_auth_key(struct fi_info *hints)
{
    hints->ep_attr->auth_key_size = 8;
}
static void want_long_keys(struct fi_info *hints)
{
    hints->domain_attr->mr_key_size = 16;
}
static void want_auto_progress(struct fi_info *hints)
{
    hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
}
static void want_mixed_registration(struct fi_info *hints)
{
    hints->domain_attr->mr_mode = FI_MR_BASIC | FI_MR_LOCAL;
}
static void want_another_domain(struct fi_info *hints)
{
    hints->domain_attr->name = strdup("eth0");
}
static void want_another_fabric(struct fi_info *hints)
{
    hints->fabric_attr->name = strdup("ib");
}

static void what_is_not_offered_is_refused(void)
{
    static void (*const changes[])(struct fi_info *) = {
        want_datagrams,      want_connections,    want_multicast,     want_strings,
        want_long_injects,   want_many_pieces,    want_two_contexts,  want_shared_context,
        want_auth_key,       want_long_keys,      want_auto_progress, want_mixed_registration,
        want_another_domain, want_another_fabric,
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
        refused(changes[i]);
}

static void only_what_is_asked_for_is_enabled(void)
{
    struct fi_info *hints = npu_hints(FI_MSG), *info = NULL;
    check_is(ask(hints, &info), 0);
    check((info->caps & FI_MSG) && !(info->caps & (FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE)));
    check((info->caps & (FI_SEND | FI_RECV)) == (FI_SEND | FI_RECV));
    check((info->tx_attr->caps & ~info->caps) == 0 && (info->rx_attr->caps & ~info->caps) == 0);
    check(info->mode == 0 && info->domain_attr->mr_mode == 0);
    fi_freeinfo(info);
    hints->caps = FI_TAGGED | FI_SEND;
    check_is(ask(hints, &info), 0);
    check((info->caps & FI_SEND) && !(info->caps & FI_RECV));
    fi_freeinfo(info);
    hints->domain_attr->mr_mode = FI_MR_BASIC;
    check_is(ask(hints, &info), 0);
    check(info->domain_attr->mr_mode == FI_MR_BASIC);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void sizes_grow_with_the_hints(void)
{
    struct fi_info *hints = npu_hints(FI_MSG), *info = NULL;
    hints->tx_attr->size = 5000;
    hints->rx_attr->size = 10;
    check_is(ask(hints, &info), 0);
    check(info->tx_attr->size >= 5000 && info->rx_attr->size >= 10);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void node_and_service_give_addresses(void)
{
    struct fi_info *hints = npu_hints(FI_MSG), *info = NULL;
    struct fi_info *again = NULL;
    uint32_t version = FI_VERSION(1, 17);
    check_is(fi_getinfo(version, "127.0.0.1", "4711", 0, hints, &info), 0);
    check(info->dest_addr && info->dest_addrlen == 16 && info->addr_format == FI_SOCKADDR_IN);
    check(info->src_addr);
    fi_freeinfo(info);
    check_is(fi_getinfo(version, NULL, "4711", FI_SOURCE, hints, &info), 0);
    check(info->src_addr && !info->dest_addr);
    again = fi_dupinfo(info);
    check(again && again->src_addrlen == info->src_addrlen);
    fi_freeinfo(again);
    fi_freeinfo(info);
    check_is(fi_getinfo(version, "no.such.host.invalid", "1", 0, hints, &info), -FI_ENODATA);
    check_is(fi_getinfo(version, "127.0.0.1", "65536", 0, hints, &info), -FI_ENODATA);
    fi_freeinfo(hints);
}

static void two_fabrics_of_one_process_do_not_disturb_each_other(void)
{
    struct pair one, two;
    struct fi_cq_tagged_entry entry;
    char out[2] = {1, 2}, in[2] = {0};
    pair_open(&one, &usual);
    pair_open(&two, &usual);
    check_is(fi_recv(one.b.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    check_is(fi_recv(two.b.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    check_is(fi_inject(two.a.ep, &out[1], 1, two.a.peer), 0);
    check_is(fi_inject(one.a.ep, &out[0], 1, one.a.peer), 0);
    await(&one, &one.b, &entry, NULL);
    pair_close(&one);
    await(&two, &two.b, &entry, NULL);
    check(in[0] == 1 && in[1] == 2);
    pair_close(&two);
}

/* ---- Address vectors ---- */

static void an_address_vector_keeps_what_it_is_given(enum fi_av_type type)
{
    struct pair pair;
    struct pair_options options = {.av_type = type};
    char name[64], found[64], text[128];
    size_t len = sizeof(name), size = sizeof(found), room = sizeof(text);
    fi_addr_t addr[4];
    int errors[2] = {-1, -1};
    pair_open(&pair, &options);
    check_is(fi_getname(&pair.a.ep->fid, name, &len), 0);
    check_is(fi_av_lookup(pair.a.av, pair.a.self, found, &size), 0);
    check(size == len && memcmp(found, name, len) == 0);
    size = 4; /* cut, and the length needed told */
    check_is(fi_av_lookup(pair.a.av, pair.a.self, found, &size), 0);
    check(size == len);
    check(strstr(fi_av_straddr(pair.a.av, name, text, &room), "fi_sockaddr_in://") == text);
    check(room == strlen(text) + 1);
    size_t little = 4;
    check_is(fi_getname(&pair.a.ep->fid, found, &little), -FI_ETOOSMALL);
    check(little == len);
    check_is(fi_av_insertsvc(pair.a.av, "127.0.0.1", "5000", &addr[0], 0, NULL), 1);
    check_is(fi_av_insertsvc(pair.a.av, "127.0.0.1", "70536", &addr[1], 0, NULL), 0);
    check(addr[1] == FI_ADDR_NOTAVAIL);
    check_is(fi_av_insertsym(pair.a.av, "10.1.1.255", 2, "5000", 2, addr, 0, NULL), 4);
    size = sizeof(found);
    check_is(fi_av_lookup(pair.a.av, addr[3], found, &size), 0);
    room = sizeof(text);
    check(strcmp(fi_av_straddr(pair.a.av, found, text, &room), "fi_sockaddr_in://10.1.2.0:5001") == 0);
    check_is(fi_av_remove(pair.a.av, addr, 4, 0), 0);
    size = sizeof(found);
    check_is(fi_av_lookup(pair.a.av, addr[0], found, &size), -FI_EINVAL);
    char two[2 * 64];
    memset(two, 0xff, sizeof(two));
    memcpy(two, name, len);
    check_is(fi_av_insert(pair.a.av, two, 2, addr, FI_SYNC_ERR, errors), 1);
    check(errors[0] == 0 && errors[1] == FI_EINVAL && addr[1] == FI_ADDR_NOTAVAIL);
    pair_close(&pair);
}

static void a_table_gives_the_lowest_free_index(void)
{
    struct pair pair;
    struct pair_options options = {.av_type = FI_AV_TABLE};
    fi_addr_t addr[3];
    pair_open(&pair, &options);
    check(pair.a.self == 0 && pair.a.peer == 1);
    check_is(fi_av_insertsym(pair.a.av, "10.0.0.1", 1, "1", 3, addr, 0, NULL), 3);
    check(addr[0] == 2 && addr[1] == 3 && addr[2] == 4);
    check_is(fi_av_remove(pair.a.av, &addr[1], 1, 0), 0);
    check_is(fi_av_insertsvc(pair.a.av, "10.0.0.2", "1", NULL, 0, NULL), 1);
    char found[64], text[128];
    size_t size = sizeof(found), room = sizeof(text);
    check_is(fi_av_lookup(pair.a.av, 3, found, &size), 0);
    check(strcmp(fi_av_straddr(pair.a.av, found, text, &room), "fi_sockaddr_in://10.0.0.2:1") == 0);
    pair_close(&pair);
}

static void insertions_with_events_report_each_failure_and_the_end(void)
{
    struct pair pair;
    struct fi_av_attr attr = {.type = FI_AV_MAP, .flags = FI_EVENT};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_av *av = NULL;
    struct fid_eq *eq = NULL;
    struct fi_eq_entry entry;
    struct fi_eq_err_entry error = {0};
    fi_addr_t addr[2];
    uint32_t event = 0;
    char two[2 * 16];
    size_t len = 16;
    pair_open(&pair, &usual);
    check_is(fi_av_open(pair.domain, &attr, &av, NULL), 0);
    memset(two, 0xff, sizeof(two));
    check_is(fi_getname(&pair.a.ep->fid, two + 16, &len), 0);
    check_is(fi_av_insert(av, two, 2, addr, 0, &pair), -FI_ENOEQ);
    check_is(fi_eq_open(pair.fabric, &eq_attr, &eq, NULL), 0);
    check_is(fi_av_bind(av, &eq->fid, 0), 0);
    check_is(fi_av_insert(av, two, 2, addr, 0, &pair), 0);
    check_is(fi_eq_sread(eq, &event, &entry, sizeof(entry), 1000, 0), -FI_EAVAIL);
    check_is(fi_eq_readerr(eq, &error, 0), sizeof(error));
    check(error.err == FI_EINVAL && error.data == 0 && error.context == &pair && error.fid == &av->fid);
    check_is(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
    check(event == FI_AV_COMPLETE && entry.data == 1 && entry.context == &pair);
    check_is(fi_close(&eq->fid), -FI_EBUSY);
    check_is(fi_close(&av->fid), 0);
    check_is(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

/* ---- Completion queues ---- */

static void *signal_later(void *cq)
{
    (void)usleep(20000);
    check_is(fi_cq_signal(cq), 0);
    return NULL;
}

static void a_wait_ends_with_time_or_signal(void)
{
    struct pair pair;
    struct pair_options options = {.wait = FI_WAIT_UNSPEC};
    struct fi_cq_tagged_entry entry;
    pthread_t thread;
    pair_open(&pair, &options);
    check_is(fi_cq_sread(pair.a.cq, &entry, 1, NULL, 5), -FI_EAGAIN);
    check(pthread_create(&thread, NULL, signal_later, pair.a.cq) == 0);
    check_is(fi_cq_sread(pair.a.cq, &entry, 1, NULL, -1), -FI_EAGAIN);
    check(pthread_join(thread, NULL) == 0);
    pair_close(&pair);
    pair_open(&pair, &usual);
    check_is(fi_cq_sread(pair.a.cq, &entry, 1, NULL, 5), -FI_EINVAL); /* FI_WAIT_NONE */
    pair_close(&pair);
}

static void a_descriptor_wakes_when_a_message_comes(void)
{
    struct pair pair;
    struct pair_options options = {.wait = FI_WAIT_FD};
    struct fi_cq_tagged_entry entry;
    char out = 1, in = 0;
    pair_open(&pair, &options);
    struct pollfd fd = {.fd = -1, .events = POLLIN};
    struct fid *fids[] = {&pair.b.cq->fid};
    check_is(fi_control(&pair.b.cq->fid, FI_GETWAIT, &fd.fd), 0);
    for (int i = 0; i < 20; i++) {
        check_is(fi_recv(pair.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
        int rc;
        while ((rc = fi_trywait(pair.fabric, fids, 1)) == -FI_EAGAIN)
            check_is(fi_cq_read(pair.b.cq, &entry, 1), -FI_EAGAIN);
        check_is(rc, 0);
        check_is(poll(&fd, 1, 0), 0);
        check_is(fi_inject(pair.a.ep, &out, 1, pair.a.peer), 0);
        check_is(poll(&fd, 1, 5000), 1);
        await(&pair, &pair.b, &entry, NULL);
        check_is(fi_send(pair.a.ep, &out, 1, NULL, pair.a.peer, NULL), 0);
        await(&pair, &pair.a, &entry, NULL);
        check_is(fi_recv(pair.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
        await(&pair, &pair.b, &entry, NULL);
    }
    pair_close(&pair);
}

static void queues_have_every_format_and_refuse_what_they_have_not(void)
{
    struct pair pair;
    struct fid_cq *cq = NULL;
    pair_open(&pair, &usual);
    for (int format = FI_CQ_FORMAT_UNSPEC; format <= FI_CQ_FORMAT_TAGGED; format++) {
        struct fi_cq_attr attr = {.format = (enum fi_cq_format)format};
        check_is(fi_cq_open(pair.domain, &attr, &cq, NULL), 0);
        check_is(fi_close(&cq->fid), 0);
    }
    struct fi_cq_attr cond = {.wait_obj = FI_WAIT_MUTEX_COND};
    check_is(fi_cq_open(pair.domain, &cond, &cq, NULL), -FI_ENOSYS);
    struct fi_cq_attr flags = {.flags = FI_PEEK};
    check_is(fi_cq_open(pair.domain, &flags, &cq, NULL), -FI_EBADFLAGS);
    pair_close(&pair);
}

/* ---- Counters, poll sets ---- */

static void counters_count_add_set_and_wait(void)
{
    struct pair pair;
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *cntr = NULL;
    struct fid_poll *set = NULL;
    void *context = NULL;
    pair_open(&pair, &usual);
    check_is(fi_cntr_open(pair.domain, &attr, &cntr, &pair), 0);
    check_is(fi_cntr_add(cntr, 5), 0);
    check_is(fi_cntr_adderr(cntr, 2), 0);
    check(fi_cntr_read(cntr) == 5 && fi_cntr_readerr(cntr) == 2);
    check_is(fi_cntr_set(cntr, 1), 0);
    check_is(fi_cntr_seterr(cntr, 0), 0);
    check(fi_cntr_read(cntr) == 1 && fi_cntr_readerr(cntr) == 0);
    check_is(fi_cntr_wait(cntr, 1, -1), 0);
    check_is(fi_cntr_wait(cntr, 2, 5), -FI_ETIMEDOUT);
    struct fi_poll_attr poll_attr = {0};
    check_is(fi_poll_open(pair.domain, &poll_attr, &set), 0);
    check_is(fi_poll_add(set, &cntr->fid, 0), 0);
    check_is(fi_poll(set, &context, 1), 0);
    check_is(fi_close(&cntr->fid), -FI_EBUSY);
    check_is(fi_poll_del(set, &cntr->fid, 0), 0);
    check_is(fi_close(&set->fid), 0);
    check_is(fi_close(&cntr->fid), 0);
    pair_close(&pair);
}

/* ---- Event queues ---- */

static void events_are_written_peeked_and_read(void)
{
    struct pair pair;
    struct fi_eq_attr attr = {.size = 2, .flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
    struct fi_eq_entry entry = {.data = 7}, found;
    struct fid_eq *eq = NULL;
    uint32_t event = 0;
    pair_open(&pair, &usual);
    check_is(fi_eq_open(pair.fabric, &attr, &eq, NULL), 0);
    check_is(fi_eq_read(eq, &event, &found, sizeof(found), 0), -FI_EAGAIN);
    check_is(fi_eq_sread(eq, &event, &found, sizeof(found), 5, 0), -FI_EAGAIN);
    check_is(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
    check_is(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
    check_is(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), -FI_EOVERRUN);
    check_is(fi_eq_read(eq, &event, &found, sizeof(found), FI_PEEK), sizeof(found));
    check_is(fi_eq_read(eq, &event, &found, 4, 0), -FI_ETOOSMALL);
    for (int i = 0; i < 2; i++) {
        check_is(fi_eq_sread(eq, &event, &found, sizeof(found), 1000, 0), sizeof(found));
        check(event == FI_NOTIFY && found.data == 7);
    }
    check_is(fi_eq_read(eq, &event, &found, sizeof(found), 0), -FI_EOVERRUN);
    check_is(fi_close(&eq->fid), 0);
    pair_close(&pair);
}

/* ---- Connections ---- */

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    check(folder);
    while (readdir(folder))
        count++;
    check_is(closedir(folder), 0);
    return count;
}

static fi_addr_t insert_end(struct fid_av *av, struct end *end)
{
    char name[64];
    size_t len = sizeof(name);
    fi_addr_t addr = FI_ADDR_NOTAVAIL;
    check_is(fi_getname(&end->side.ep->fid, name, &len), 0);
    check_is(fi_av_insert(av, name, 1, &addr, 0, NULL), 1);
    return addr;
}

/* A connection is a descriptor, and another for the way back that the first ones offer; the other sides do
 * not look at theirs. */
static void the_first_peers_are_connected_to_when_they_are_inserted(void)
{
    enum { AHEAD = 16, PEERS = AHEAD + 2 };
    struct end end, peers[PEERS];
    fi_addr_t there[PEERS];
    char byte = 1;
    end_open(&end, NULL, FI_WAIT_NONE);
    for (int i = 0; i < PEERS; i++)
        end_open(&peers[i], NULL, FI_WAIT_NONE);
    int before = descriptors();
    (void)insert_end(end.side.av, &end);
    for (int i = 0; i < PEERS; i++) {
        there[i] = insert_end(end.side.av, &peers[i]);
        check_is(descriptors() - before, 2 * (i < AHEAD ? i + 1 : AHEAD));
    }
    for (int i = 0; i < PEERS; i++) {
        check_is(fi_inject(end.side.ep, &byte, 1, there[i]), 0);
        check_is(descriptors() - before, i < AHEAD ? 2 * AHEAD : AHEAD + i + 1);
    }
    end_close(&end);
    for (int i = 0; i < PEERS; i++)
        end_close(&peers[i]);
}

static void peers_inserted_earlier_are_connected_to_when_an_endpoint_is_enabled(void)
{
    struct pair pair;
    struct end peer;
    struct fid_ep *ep;
    fi_addr_t there;
    char byte = 1;
    pair_open(&pair, &usual);
    end_open(&peer, NULL, FI_WAIT_NONE);
    check_is(fi_close(&pair.a.ep->fid), 0);
    there = insert_end(pair.a.av, &peer);
    check_is(fi_endpoint(pair.domain, pair.info, &ep, NULL), 0);
    check_is(fi_ep_bind(ep, &pair.a.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    check_is(fi_ep_bind(ep, &pair.a.av->fid, 0), 0);
    check_is(fi_enable(ep), 0);
    int before = descriptors();
    check_is(fi_inject(ep, &byte, 1, there), 0);
    check_is(descriptors(), before);
    pair.a.ep = ep;
    pair_close(&pair);
    end_close(&peer);
}

/* ---- Registration ---- */

static void registrations_have_keys_of_their_own(void)
{
    struct pair pair;
    struct fid_mr *mr[2];
    char bytes[100];
    uint64_t access = FI_SEND | FI_RECV;
    pair_open(&pair, &usual);
    check_is(fi_mr_reg(pair.domain, bytes, sizeof(bytes), access, 0, 42, 0, &mr[0], NULL), 0);
    check(fi_mr_key(mr[0]) == 42);
    check_is(fi_mr_reg(pair.domain, bytes, sizeof(bytes), access, 0, 42, 0, &mr[1], NULL), -FI_ENOKEY);
    check_is(fi_mr_reg(pair.domain, bytes, sizeof(bytes), access, 8, 43, 0, &mr[1], NULL), -FI_EINVAL);
    check_is(fi_mr_reg(pair.domain, bytes, 0, access, 0, 43, 0, &mr[1], NULL), -FI_EINVAL);
    check_is(fi_mr_enable(mr[0]), 0);
    check_is(fi_close(&pair.domain->fid), -FI_EBUSY);
    check_is(fi_close(&mr[0]->fid), 0);
    check_is(fi_mr_reg(pair.domain, bytes, sizeof(bytes), access, 0, 42, 0, &mr[0], NULL), 0);
    check_is(fi_close(&mr[0]->fid), 0);
    pair_close(&pair);
}

int main(void)
{
    what_is_not_offered_is_refused();
    only_what_is_asked_for_is_enabled();
    sizes_grow_with_the_hints();
    node_and_service_give_addresses();
    two_fabrics_of_one_process_do_not_disturb_each_other();
    an_address_vector_keeps_what_it_is_given(FI_AV_TABLE);
    an_address_vector_keeps_what_it_is_given(FI_AV_MAP);
    a_table_gives_the_lowest_free_index();
    insertions_with_events_report_each_failure_and_the_end();
    a_wait_ends_with_time_or_signal();
    a_descriptor_wakes_when_a_message_comes();
    queues_have_every_format_and_refuse_what_they_have_not();
    counters_count_add_set_and_wait();
    events_are_written_peeked_and_read();
    the_first_peers_are_connected_to_when_they_are_inserted();
    peers_inserted_earlier_are_connected_to_when_an_endpoint_is_enabled();
    registrations_have_keys_of_their_own();
    puts("objects: all cases passed");
    return 0;
}
