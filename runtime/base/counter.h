/* Statistics counters of a context: one table of names, one array of values. */
#ifndef HC_COUNTER_H
#define HC_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

enum hc_counter {
    HC_COUNTER_EAGER_SENT,
    HC_COUNTER_EAGER_RECEIVED,
    HC_COUNTER_RNDV_SENT,
    HC_COUNTER_RNDV_RECEIVED,
    HC_COUNTER_RNDV_GET,
    HC_COUNTER_RNDV_PIPELINE,
    HC_COUNTER_RNDV_MAPPED,
    HC_COUNTER_BYTES_PLACED,
    HC_COUNTER_LENT,
    HC_COUNTER_LENT_BACK,
    HC_COUNTER_DEVICE_DIRECT,
    HC_COUNTER_DEVICE_IMPORTS,
    HC_COUNTER_DEVICE_RDMA,
    HC_COUNTER_DEVICE_REGISTRATIONS,
    HC_COUNTER_DEVICE_STAGED,
    HC_COUNTER_DEVICE_SMALL,
    HC_COUNTER_DEVICE_PIECES,
    HC_COUNTER_BYTES_SENT,
    HC_COUNTER_BYTES_RECEIVED,
    HC_COUNTER_SELF_MESSAGES,
    HC_COUNTER_COALESCED_MESSAGES,
    HC_COUNTER_COALESCED_PACKETS,
    HC_COUNTER_UNEXPECTED_MESSAGES,
    HC_COUNTER_UNEXPECTED_BYTES,
    HC_COUNTER_UNEXPECTED_BYTES_MAX,
    HC_COUNTER_CREDIT_STALLS,
    HC_COUNTER_CREDIT_MESSAGES,
    HC_COUNTER_QUEUED_BYTES_MAX,
    HC_COUNTER_RNDV_INFLIGHT_MAX,
    HC_COUNTER_BANDWIDTH_STALLS,
    HC_COUNTER_CONNECTIONS,
    HC_COUNTER_CONNECT_RETRIES,
    HC_COUNTER_SLEEPS,
    HC_COUNTER_WAKEUPS,
    HC_COUNTER_MOVES,
    HC_COUNTER_PEERS_LOST,
    HC_COUNTER_TRANSFERS,
    HC_COUNTER_TRANSFER_BYTES,
    HC_COUNTER_TRANSFERS_STAGED,
    HC_COUNTER_STAGING_ALLOCATIONS,
    HC_COUNTER_COUNT
};

/* Each updated under one lock, the context's or that of its transfers; read by anybody: relaxed, no partner.
 */
struct hc_counters {
    _Atomic uint64_t value[HC_COUNTER_COUNT];
};

static inline void hc_counter_add(struct hc_counters *counters, enum hc_counter which, uint64_t amount)
{
    uint64_t old = atomic_load_explicit(&counters->value[which], memory_order_relaxed);
    atomic_store_explicit(&counters->value[which], old + amount, memory_order_relaxed);
}

static inline void hc_counter_set(struct hc_counters *counters, enum hc_counter which, uint64_t value)
{
    atomic_store_explicit(&counters->value[which], value, memory_order_relaxed);
}

static inline void hc_counter_max(struct hc_counters *counters, enum hc_counter which, uint64_t value)
{
    if (value > atomic_load_explicit(&counters->value[which], memory_order_relaxed))
        hc_counter_set(counters, which, value);
}

#endif
