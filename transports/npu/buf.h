/* The memory of an operation: some pieces of host memory, or of a device's. */
#ifndef NPU_BUF_H
#define NPU_BUF_H

#include "runtime/base/copy.h"
#include "transports/npu/npu.h"

struct npu_buf {
    struct iovec iov[NPU_IOV_LIMIT];
    unsigned count;
    size_t len;            /* of all pieces */
    struct npu_mr *device; /* registration of device memory, NULL: host memory */
};

/*
 * Describe the caller's pieces. desc: NULL, or one descriptor per piece (fi_mr_desc), where NULL is host
 * memory that is not registered. -FI_EINVAL for too many pieces, or not all of the host or of one device.
 */
int npu_buf_init(struct npu_buf *buf, const struct iovec *iov, void **desc, size_t count);
/* Whether one of the pieces with these descriptors is memory of a device. */
bool npu_desc_on_device(void *const *desc, size_t count);
/* Add up the pieces; false if they are too many or too long. */
bool npu_iov_len(const struct iovec *iov, size_t count, size_t *len);

/* Copy n bytes, from `offset` on, out of or into the pieces; the range must lie inside. 0 or -errno. */
int npu_buf_read_slow(const struct npu_buf *buf, size_t offset, void *to, size_t n);
int npu_buf_write_slow(const struct npu_buf *buf, size_t offset, const void *from, size_t n);
void npu_iov_gather(const struct iovec *iov, size_t count, void *to);

static inline int npu_buf_read(const struct npu_buf *buf, size_t offset, void *to, size_t n)
{
    if (hc_unlikely(buf->count > 1 || buf->device))
        return npu_buf_read_slow(buf, offset, to, n);
    hc_copy(to, (const char *)buf->iov[0].iov_base + offset, n);
    return 0;
}

static inline int npu_buf_write(const struct npu_buf *buf, size_t offset, const void *from, size_t n)
{
    if (hc_unlikely(buf->count > 1 || buf->device))
        return npu_buf_write_slow(buf, offset, from, n);
    hc_copy((char *)buf->iov[0].iov_base + offset, from, n);
    return 0;
}

/* Copies between host and device memory (hmem.c); the registration says which device. 0 or -errno. */
int npu_hmem_read(struct npu_mr *mr, const void *device_ptr, void *to, size_t n);
int npu_hmem_write(struct npu_mr *mr, void *device_ptr, const void *from, size_t n);

#endif
