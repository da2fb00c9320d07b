/*
 * The settings of the runtime: values, and the one table that declares them.
 */
#ifndef HC_SETTINGS_H
#define HC_SETTINGS_H

#include "runtime/base/config.h"

#include <hcomm/config.h>

enum hc_mode { HC_MODE_AUTO, HC_MODE_SMALL_MSG, HC_MODE_LARGE_MSG };
enum hc_protocol { HC_PROTOCOL_AUTO, HC_PROTOCOL_TCP, HC_PROTOCOL_RDMA, HC_PROTOCOL_SHM };

struct hc_settings {
    int mode;            /* enum hc_mode */
    int protocol;        /* enum hc_protocol */
    int bandwidth_limit; /* MB/s, 0 = none */
    int num_qp;
    int retry_count;
    int timeout_ms;
    size_t buffer_size;
    size_t send_buffer_size;
    size_t recv_buffer_size;
    size_t buffer_pool_size;
    size_t mem_pool_size;
    int queue_depth;
    size_t align_size;
    int device_id;       /* -1 = host only */
    const char *npu;     /* where the device runtime comes from */
    int device_ipc;      /* 1: processes of a host share device memory */
    int progress_thread; /* 0 off, 1 on */
    const char *transports;
    const char *net_if;
    int log; /* enum hc_log_level */
    int fault_connect;
};

enum { HC_SETTING_COUNT_MAX = 64 };

extern const struct hc_setting_table hc_settings_table;

/*
 * Defaults, then environment, then the non-zero fields of `config` (NULL allowed). origins has
 * HC_SETTING_COUNT_MAX entries or is NULL. HCOMM_ERR_CONFIG with a detail naming field or variable, value and
 * range.
 */
hcomm_status_t hc_settings_load(const hcomm_config_t *config, struct hc_settings *settings,
                                enum hc_setting_origin *origins) HC_MUST_CHECK;

/*
 * hcomm_init() was given the texts by its caller and by the environment, who may change or free them: make
 * copies, to be freed by hc_settings_free_texts() also after HCOMM_ERR_NO_MEMORY.
 */
hcomm_status_t hc_settings_copy_texts(struct hc_settings *settings) HC_MUST_CHECK;
void hc_settings_free_texts(struct hc_settings *settings);

/* The public form of the values: every field explicit. */
void hc_settings_export(const struct hc_settings *settings, hcomm_config_t *config);

#endif
