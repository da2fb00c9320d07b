/*
 * What the provider's conformance programs share: a pair of endpoints of one process that know each other,
 * and checks. A failed check prints where, and ends the program with status 1.
 */
#ifndef TESTS_NPU_H
#define TESTS_NPU_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define check(what)                                                                                          \
    do {                                                                                                     \
        if (!(what)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__, #what);                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* `call` gives `value`; tells what it gave instead. */
#define check_is(call, value)                                                                                \
    do {                                                                                                     \
        long got_ = (long)(call), want_ = (long)(value);                                                     \
        if (got_ != want_) {                                                                                 \
            fprintf(stderr, "%s:%d: %s: %s gave %ld (%s), not %ld (%s)\n", __FILE__, __LINE__, __func__,     \
                    #call, got_, fi_strerror((int)-got_), want_, fi_strerror((int)-want_));                  \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* One endpoint with everything it needs. */
struct side {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq; /* of both directions */
    fi_addr_t self, peer;
};

struct pair {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct side a, b;
};

struct pair_options {
    uint64_t caps; /* 0: FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV | FI_MULTI_RECV */
    uint64_t bind; /* flags of binding the queue, beside FI_TRANSMIT | FI_RECV */
    enum fi_wait_obj wait;
    enum fi_av_type av_type;
    size_t size;    /* of transmit and receive queues, 0: default */
    size_t cq_size; /* 0: default */
    enum fi_threading threading;
};

struct fi_info *npu_hints(uint64_t caps);
void pair_open(struct pair *pair, const struct pair_options *options);
void pair_close(struct pair *pair);
/* Move both sides until there is a completion at `side`. */
void await(struct pair *pair, struct side *side, struct fi_cq_tagged_entry *entry, fi_addr_t *source);
/* The same for an error. */
void await_error(struct pair *pair, struct side *side, struct fi_cq_err_entry *entry);
/* Move both sides a while; there must be no completion. */
void check_quiet(struct pair *pair);
/* Bytes that depend on position and seed. */
void fill(void *bytes, size_t len, unsigned seed);
bool is_filled(const void *bytes, size_t len, unsigned seed);

/* ---- One endpoint per process ---- */

struct end {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct side side;
};

/* An endpoint at a port (NULL: any). */
void end_open(struct end *end, const char *service, enum fi_wait_obj wait);
void end_close(struct end *end);
/* The port of an endpoint that was free a moment ago. */
void free_service(char *text, size_t len);
void wait_one(struct end *end);
/* Send, however long the other side takes to be there. */
void send_to(struct end *end, fi_addr_t addr, const void *bytes, size_t len);
/* Run a function in a process of its own. */
pid_t child(void (*run)(const char *service), const char *service);
/* It ends well. */
void end_child(pid_t pid);

#endif
