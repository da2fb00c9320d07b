/*
 * The settings of libnpusim.so, from environment variables NPUSIM_…; npusim(7) documents each. They are read
 * once, by aclInit.
 */
#ifndef NPUSIM_SETTINGS_H
#define NPUSIM_SETTINGS_H

#include "runtime/base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

enum { NPUSIM_MAX_DEVICES = 64, NPUSIM_MAX_FAULTS = 16 };

enum npusim_topology {
    NPUSIM_TOPOLOGY_HCCS,  /* every device has an HCCS link to every other */
    NPUSIM_TOPOLOGY_PAIRS, /* HCCS between devices 2k and 2k+1, nothing but the host between others */
};

enum npusim_callback_threads { NPUSIM_CALLBACK_PER_STREAM, NPUSIM_CALLBACK_PER_DEVICE };

enum npusim_fault_kind { NPUSIM_FAULT_COPY, NPUSIM_FAULT_LOST, NPUSIM_FAULT_MALLOC };

/* "At the nth operation of that kind on that device, fail with code." */
struct npusim_fault {
    enum npusim_fault_kind kind;
    int device; /* physical id */
    uint64_t nth;
    int code;
};

struct npusim_settings {
    uint64_t devices;
    uint64_t memory; /* bytes per device */
    uint64_t topology;
    uint64_t host_bandwidth, peer_bandwidth; /* bytes per second, 0: no limit */
    uint64_t host_latency, peer_latency;     /* nanoseconds */
    uint64_t streams, events, notifies;      /* per device and process */
    uint64_t peer_delay;                     /* microseconds until enabled peer access is up */
    uint64_t callback_threads;
    uint64_t bare_tgid;              /* what aclrtDeviceGetBareTgid tells, 0: the process's id */
    int visible[NPUSIM_MAX_DEVICES]; /* physical ids in the order of the user's ids */
    int visible_count;
    struct npusim_fault faults[NPUSIM_MAX_FAULTS];
    int fault_count;
};

/* Read the environment. On a bad value: one line on stderr that names variable, value and what is legal, and
 * false. Unknown variables NPUSIM_… get a warning. */
HC_MUST_CHECK bool npusim_settings_read(struct npusim_settings *settings);

#endif
