/*
 * Copies between memory of devices across the processes of a host: the owner exports its registration (a
 * key), the other side imports it for the time of one copy, and a device's engine copies. Importing for one
 * copy only means that the owner can free its memory whenever its operations are complete. The endpoint's
 * lock is held.
 */
#ifndef NPU_DMA_H
#define NPU_DMA_H

#include "transports/npu/acl/acl.h"
#include "transports/npu/buf.h"

/* Exported memory, as it travels. */
struct npu_ipc_range {
    char key[HC_ACL_IPC_KEY_LEN];
    char unused[7];
    uint64_t offset; /* of the operation's first byte in what was exported */
};
_Static_assert(sizeof(struct npu_ipc_range) == 80, "part of the protocol");

/* A copy under way. */
struct npu_dma;

/* Process id under which the device runtime knows this process; 0: unknown, or no device runtime. */
int32_t npu_dma_pid(void);
/* Export a buffer of one piece in device memory to a process. False: it cannot be, use another way. */
bool npu_dma_export(const struct npu_buf *buf, int32_t pid, struct npu_ipc_range *range);
/* Take back what was exported of a registration that is being closed. */
void npu_dma_withdraw(struct npu_mr *mr);
/*
 * Start to copy n bytes from the range to `ptr` in memory of mr's device, or back (out). NULL: it cannot be
 * done, use another way.
 */
struct npu_dma *npu_dma_start(const struct npu_mr *mr, void *ptr, const struct npu_ipc_range *range, size_t n,
                              bool out);
/* 0: complete, -FI_EAGAIN: not yet, -FI_EIO: failed. Anything but -FI_EAGAIN has freed it. */
int npu_dma_poll(struct npu_dma *dma);
/* Wait for the end, whatever it is, and free it. */
void npu_dma_abandon(struct npu_dma *dma);
/* The domain's streams go. */
void npu_dma_fini(struct npu_domain *domain);

#endif
