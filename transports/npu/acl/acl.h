/*
 * The part of Ascend's runtime C ABI ("ACL") that hcomm uses, declared by hand: whoever calls it finds the
 * functions with dlsym in libascendcl.so or libnpusim.so (HC_ACL_FUNCTIONS lists them for a table); the
 * simulator defines them. Every function returns 0 or one of enum hc_acl_code, other positive numbers
 * included; outputs are written on success only. All functions may be called by any thread, but most need a
 * current device, which is a property of the calling thread (aclrtSetDevice).
 *
 * Sizes are bytes, times milliseconds unless said otherwise. Handles are opaque pointers; they and device
 * addresses belong to the process that made them.
 */
#ifndef HC_ACL_H
#define HC_ACL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void *hc_acl_stream_t; /* NULL: the default stream of the current device */
typedef void *hc_acl_event_t;
typedef void *hc_acl_notify_t;
typedef void (*hc_acl_callback_t)(void *arg);

enum hc_acl_code {
    HC_ACL_OK = 0,
    HC_ACL_UNINITIALIZED = 100001,
    HC_ACL_REPEAT_INITIALIZE = 100002,
    HC_ACL_REPEAT_FINALIZE = 100037,
    HC_ACL_INVALID_PARAMETER = 107000,
    HC_ACL_INVALID_DEVICE_ID = 107001,
    HC_ACL_NO_CONTEXT = 107002, /* the calling thread has set no device */
    HC_ACL_STREAM_NOT_IN_CONTEXT = 107003,
    HC_ACL_EVENT_NO_TIME = 107006, /* not recorded, not complete, or without HC_ACL_EVENT_TIME_LINE */
    HC_ACL_EVENT_REVERSED = 107007,
    HC_ACL_STREAM_NOT_SUBSCRIBED = 107011, /* or subscribed twice */
    HC_ACL_THREAD_NOT_SUBSCRIBED = 107012,
    HC_ACL_INVALID_HANDLE = 107017,
    HC_ACL_WAIT_TIMEOUT = 107019,
    HC_ACL_INVALID_DEVICE = 200002,
    HC_ACL_NOT_SUPPORTED = 207000,
    HC_ACL_OUT_OF_MEMORY = 207001,
    HC_ACL_FREE_FAILED = 207002,
    HC_ACL_NO_DEVICE = 207004,
    HC_ACL_NO_RESOURCE = 207005,
    HC_ACL_NO_PERMISSION = 207006,
    HC_ACL_NO_EVENT = 207007,
    HC_ACL_NO_STREAM = 207008,
    HC_ACL_NO_NOTIFY = 207009,
    HC_ACL_REPORT_TIMEOUT = 507012,
    HC_ACL_DRIVER_ERROR = 507899,
};

enum hc_acl_copy { HC_ACL_H2H, HC_ACL_H2D, HC_ACL_D2H, HC_ACL_D2D, HC_ACL_COPY_DEFAULT };

enum hc_acl_malloc_policy { HC_ACL_HUGE_FIRST, HC_ACL_HUGE_ONLY, HC_ACL_NORMAL_ONLY };

enum hc_acl_stream_status { HC_ACL_STREAM_COMPLETE = 0, HC_ACL_STREAM_NOT_READY = 1 };

/* What aclrtQueryEventStatus gives; note that it is the reverse of a stream's status. */
enum hc_acl_event_status { HC_ACL_EVENT_NOT_READY = 0, HC_ACL_EVENT_COMPLETE = 1 };

enum hc_acl_event_flag {
    HC_ACL_EVENT_SYNC = 0x1,
    HC_ACL_EVENT_TIME_LINE = 0x8, /* needed by aclrtEventElapsedTime */
};

enum hc_acl_block { HC_ACL_CALLBACK_NO_BLOCK, HC_ACL_CALLBACK_BLOCK };

enum {
    HC_ACL_IPC_KEY_LEN = 65,         /* with the closing NUL; no other length is accepted */
    HC_ACL_IPC_NO_PID_CHECK = 1,     /* export: any process may import */
    HC_ACL_IPC_ENABLE_PEER = 1,      /* import: also enable peer access to the exporter's device */
    HC_ACL_HOST_REGISTER_MAPPED = 0, /* the only type of aclrtHostRegister */
    HC_ACL_HOST_ALIGN = 4096,        /* of addresses given to aclrtHostRegister */
};

enum hc_acl_memory {
    HC_ACL_MEMORY_HOST = 0, /* pinned: aclrtMallocHost or aclrtHostRegister */
    HC_ACL_MEMORY_DEVICE = 1,
    HC_ACL_MEMORY_UNREGISTERED = 2, /* host memory the device runtime does not know */
    HC_ACL_MEMORY_HOST_NUMA = 4,
};

struct hc_acl_location {
    uint32_t id; /* device id where type is DEVICE */
    uint32_t type;
};

struct hc_acl_pointer_attributes {
    struct hc_acl_location location;
    uint32_t page_size;
    uint32_t reserved[4];
};

/* Links between two devices, bits of aclrtGetDevicesTopo. */
enum hc_acl_link {
    HC_ACL_LINK_HCCS = 1,
    HC_ACL_LINK_PIX = 2,
    HC_ACL_LINK_PIB = 4,
    HC_ACL_LINK_PHB = 8,
    HC_ACL_LINK_SYS = 16,
    HC_ACL_LINK_SIO = 32,
    HC_ACL_LINK_HCCS_SW = 64,
};

/* The process. config: path of a JSON file, or NULL. */
int aclInit(const char *config);
int aclFinalize(void);
/* Why the calling thread's last failed call failed, in words; "" when none did. Valid until its next call. */
const char *aclGetRecentErrMsg(void);

/* Devices. Ids count the visible devices of this process. Set and reset are counted per device; the last
 * reset gives back all it holds. */
int aclrtSetDevice(int32_t device);
int aclrtResetDevice(int32_t device);
int aclrtGetDevice(int32_t *device);
int aclrtGetDeviceCount(uint32_t *count);
const char *aclrtGetSocName(void);
int aclrtGetPhyDevIdByLogicDevId(int32_t device, int32_t *physical);
int aclrtGetDevicesTopo(uint32_t device, uint32_t other, uint64_t *links);
int aclrtDeviceGetPCIBusId(int32_t device, char *text, int32_t len);
int aclrtDeviceGetBareTgid(int32_t *pid);

/* Access to other devices' memory: one-directional, from the current device to peer; up when the status is 1.
 */
int aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer);
int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);
int aclrtDeviceDisablePeerAccess(int32_t peer);
int aclrtDevicePeerAccessStatus(int32_t device, int32_t peer, int32_t *status);

/* Memory of the current device, and host memory its engines reach ("pinned"). */
int aclrtMalloc(void **ptr, size_t size, int policy);
int aclrtFree(void *ptr);
int aclrtMallocHost(void **ptr, size_t size);
int aclrtFreeHost(void *ptr);
int aclrtHostRegister(void *ptr, uint64_t size, int type, void **device_ptr);
int aclrtHostUnregister(void *ptr);
int aclrtPointerGetAttributes(const void *ptr, struct hc_acl_pointer_attributes *attributes);

/* Copies. dst_max and max: room at the destination, at least n. */
int aclrtMemset(void *ptr, size_t max, int32_t value, size_t n);
int aclrtMemcpy(void *dst, size_t dst_max, const void *src, size_t n, int kind);
int aclrtMemcpyAsync(void *dst, size_t dst_max, const void *src, size_t n, int kind, hc_acl_stream_t stream);

/* Device memory for other processes of the host. The exporter names the importers' pids (SetImportPid) unless
 * it exported with HC_ACL_IPC_NO_PID_CHECK; every importer closes the key before the exporter frees. */
int aclrtIpcMemGetExportKey(void *ptr, size_t size, char *key, size_t key_len, uint64_t flags);
int aclrtIpcMemSetImportPid(const char *key, int32_t *pids, size_t n);
int aclrtIpcMemImportByKey(void **ptr, const char *key, uint64_t flags);
int aclrtIpcMemClose(const char *key);

/* Streams. timeout: -1 is none. */
int aclrtCreateStream(hc_acl_stream_t *stream);
int aclrtDestroyStream(hc_acl_stream_t stream);
int aclrtSynchronizeStream(hc_acl_stream_t stream);
int aclrtSynchronizeStreamWithTimeout(hc_acl_stream_t stream, int32_t timeout);
int aclrtStreamQuery(hc_acl_stream_t stream, int *status);

/* Events. */
int aclrtCreateEventExWithFlag(hc_acl_event_t *event, uint32_t flag);
int aclrtDestroyEvent(hc_acl_event_t event);
int aclrtRecordEvent(hc_acl_event_t event, hc_acl_stream_t stream);
int aclrtStreamWaitEvent(hc_acl_stream_t stream, hc_acl_event_t event);
int aclrtQueryEventStatus(hc_acl_event_t event, int *status);
int aclrtSynchronizeEvent(hc_acl_event_t event);
int aclrtEventElapsedTime(float *ms, hc_acl_event_t start, hc_acl_event_t end);

/* Notifies: a flag of the device that one stream sets and another waits for and clears. timeout: seconds, 0
 * is none. */
int aclrtCreateNotify(hc_acl_notify_t *notify, uint64_t flag);
int aclrtDestroyNotify(hc_acl_notify_t notify);
int aclrtRecordNotify(hc_acl_notify_t notify, hc_acl_stream_t stream);
int aclrtWaitAndResetNotify(hc_acl_notify_t notify, hc_acl_stream_t stream, uint32_t timeout);

/* Host functions in stream order. LaunchHostFunc runs them on a thread of the runtime; with the older calls,
 * a thread of the caller subscribes to a stream and runs them inside ProcessReport. */
int aclrtLaunchHostFunc(hc_acl_stream_t stream, hc_acl_callback_t fn, void *arg);
int aclrtSubscribeReport(uint64_t thread, hc_acl_stream_t stream);
int aclrtUnSubscribeReport(uint64_t thread, hc_acl_stream_t stream);
int aclrtLaunchCallback(hc_acl_callback_t fn, void *arg, int block, hc_acl_stream_t stream);
int aclrtProcessReport(int32_t timeout);

/* X(name) for every function that all supported versions of the runtime have. */
#define HC_ACL_FUNCTIONS(X)                                                                                  \
    X(aclInit)                                                                                               \
    X(aclFinalize)                                                                                           \
    X(aclrtSetDevice)                                                                                        \
    X(aclrtResetDevice)                                                                                      \
    X(aclrtGetDevice)                                                                                        \
    X(aclrtGetDeviceCount)                                                                                   \
    X(aclrtGetSocName)                                                                                       \
    X(aclrtMalloc)                                                                                           \
    X(aclrtFree)                                                                                             \
    X(aclrtMallocHost)                                                                                       \
    X(aclrtFreeHost)                                                                                         \
    X(aclrtMemset)                                                                                           \
    X(aclrtMemcpy)                                                                                           \
    X(aclrtMemcpyAsync)                                                                                      \
    X(aclrtCreateStream)                                                                                     \
    X(aclrtDestroyStream)                                                                                    \
    X(aclrtSynchronizeStream)                                                                                \
    X(aclrtSynchronizeStreamWithTimeout)                                                                     \
    X(aclrtStreamQuery)                                                                                      \
    X(aclrtCreateEventExWithFlag)                                                                            \
    X(aclrtDestroyEvent)                                                                                     \
    X(aclrtRecordEvent)                                                                                      \
    X(aclrtStreamWaitEvent)                                                                                  \
    X(aclrtQueryEventStatus)                                                                                 \
    X(aclrtSynchronizeEvent)                                                                                 \
    X(aclrtEventElapsedTime)                                                                                 \
    X(aclrtIpcMemGetExportKey)                                                                               \
    X(aclrtIpcMemSetImportPid)                                                                               \
    X(aclrtIpcMemImportByKey)                                                                                \
    X(aclrtIpcMemClose)                                                                                      \
    X(aclrtDeviceGetBareTgid)                                                                                \
    X(aclrtPointerGetAttributes)                                                                             \
    X(aclrtDeviceCanAccessPeer)                                                                              \
    X(aclrtDeviceEnablePeerAccess)                                                                           \
    X(aclrtDeviceDisablePeerAccess)                                                                          \
    X(aclrtDevicePeerAccessStatus)                                                                           \
    X(aclrtHostRegister)                                                                                     \
    X(aclrtHostUnregister)                                                                                   \
    X(aclrtGetDevicesTopo)

/* X(name) for every function that may be missing: newer ones, and older ones that took their part before. */
#define HC_ACL_OPTIONAL_FUNCTIONS(X)                                                                         \
    X(aclGetRecentErrMsg)                                                                                    \
    X(aclrtGetPhyDevIdByLogicDevId)                                                                          \
    X(aclrtDeviceGetPCIBusId)                                                                                \
    X(aclrtLaunchHostFunc)                                                                                   \
    X(aclrtSubscribeReport)                                                                                  \
    X(aclrtUnSubscribeReport)                                                                                \
    X(aclrtLaunchCallback)                                                                                   \
    X(aclrtProcessReport)                                                                                    \
    X(aclrtCreateNotify)                                                                                     \
    X(aclrtDestroyNotify)                                                                                    \
    X(aclrtRecordNotify)                                                                                     \
    X(aclrtWaitAndResetNotify)

#ifdef __cplusplus
}
#endif

#endif
