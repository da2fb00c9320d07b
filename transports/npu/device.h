/* The visible devices, as the device runtime tells them. Any thread. */
#ifndef NPU_DEVICE_H
#define NPU_DEVICE_H

#include "transports/npu/acl/table.h"
#include "transports/npu/npu.h"

struct npu_device {
    int index;    /* visible, in this process */
    int physical; /* -1: the runtime does not tell */
    const char *soc;
    bool has_pci;
    struct fi_pci_attr pci;
    char links[256]; /* "npu1:HCCS npu2:PHB …", how the other visible devices are reached */
};

/* The device runtime's functions; NULL where there is none, or HCOMM_NPU is "off". */
const struct hc_acl *npu_device_runtime(void);
/* 0 without a device runtime. */
unsigned npu_device_count(void);
void npu_device_describe(int index, struct npu_device *device);
/* A struct fid_nic for fi_info; the caller owns it. NULL: no memory. */
struct fid_nic *npu_device_nic(const struct npu_device *device);

/* Make a device current on this thread, and what was current before again. A code of the device runtime. */
int npu_device_enter(const struct hc_acl *acl, int device, int32_t *before);
void npu_device_leave(const struct hc_acl *acl, int device, int32_t before);

#endif
