/*
 * Ring allreduce: an example of a collective written only with hcomm's public calls.
 *
 * The vector is cut into one block per rank. In the first n-1 steps each rank adds the block that arrives
 * from its left neighbour to its own and passes it on: then every block is complete on one rank. In n-1
 * further steps the complete blocks travel round the ring. Each rank sends 2(n-1)/n of the vector, whatever n
 * is (P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
 *
 * Every block is summed in one fixed order on one rank and copied to the others, so the result has the same
 * bits on all ranks. SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef RING_ALLREDUCE_H
#define RING_ALLREDUCE_H

#include <hcomm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tag of the ring's messages: give the ring a communicator of its own, or do not use this tag on it. */
enum { RING_TAG = 0x72696e67 };

/* How many doubles of scratch a vector of `count` needs on this communicator. */
size_t ring_scratch_count(size_t count, hcomm_comm_t comm);

/*
 * Collective: replace data[0 … count-1] by the sums over all ranks of comm. count is the same on all ranks;
 * scratch has room for ring_scratch_count() doubles and does not overlap data. On failure data is undefined.
 */
hcomm_status_t ring_allreduce_sum(double *data, size_t count, double *scratch, hcomm_comm_t comm);

#ifdef __cplusplus
}
#endif

#endif
