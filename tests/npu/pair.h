/*
 * Two processes with an endpoint of the provider each, for conformance cases. Both run the same function; a
 * case that fails ends its process with a message, and the parent notices.
 */
#ifndef TESTS_NPU_PAIR_H
#define TESTS_NPU_PAIR_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: side %d: not true: %s\n", __FILE__, __LINE__, pair_side, #condition);    \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

extern int pair_side; /* 0 or 1 */

struct pair {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *tx, *rx;
    struct fid_ep *ep;
    fi_addr_t other;
    int fd;      /* a socket to the other process */
    pid_t child; /* of side 0 */
};

/* Fork; the environment variable PAIR_HOSTS may put the sides on two hosts. Side 1 does not return from
 * pair_end(). caps, mr_mode: as in hints; domain: its name, or NULL. */
void pair_begin(struct pair *pair, uint64_t caps, int mr_mode, const char *domain);
/* Close everything, which must be possible; side 0 then awaits side 1's end. */
void pair_end(struct pair *pair);
/* Wait for the other side, and move the endpoint meanwhile. */
void pair_meet(struct pair *pair);
/* Trade n bytes with the other side, moving the endpoint meanwhile. */
void pair_trade(struct pair *pair, const void *mine, void *theirs, size_t n);
/* Await a completion: 0, or the error's code (entry is then what fi_cq_readerr gave of it). */
int pair_complete(struct pair *pair, struct fid_cq *cq, struct fi_cq_tagged_entry *entry);

#endif
