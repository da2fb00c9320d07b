/* Keys of exported device memory, and what export.c and import.c know of each other. */
#ifndef NPUSIM_IPC_H
#define NPUSIM_IPC_H

#include "transports/npu/sim/sim.h"

/* What a key of 65 bytes says: the memfd of the exporter, reached through /proc/PID/fd, and which export. */
struct npusim_key {
    int32_t pid, fd;
    uint32_t slot;
    uint64_t cookie;
};

/* Reads at most 65 bytes; false for what is not a key as exports print it. */
bool npusim_key_parse(const char *text, struct npusim_key *key);

/* A process, by pid and start time, so that a reused pid is another one; 0 when there is none. No lock
 * needed. */
uint64_t npusim_process_mark(int32_t pid);

/* Withdraw an export of this process; INVALID_PARAMETER when the key names none. */
HC_MUST_CHECK int npusim_export_close(const struct npusim_key *key);

#endif
