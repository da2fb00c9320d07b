#include "transports/npu/buf.h"

#include <string.h>

bool npu_iov_len(const struct iovec *iov, size_t count, size_t *len)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(sum, iov[i].iov_len, &sum))
            return false;
    *len = sum;
    return sum <= NPU_MAX_MSG_SIZE;
}

bool npu_desc_on_device(void *const *desc, size_t count)
{
    for (size_t i = 0; desc && i < count; i++) {
        const struct npu_mr *mr = desc[i];
        if (mr && mr->device >= 0)
            return true;
    }
    return false;
}

int npu_buf_init(struct npu_buf *buf, const struct iovec *iov, void **desc, size_t count)
{
    if (count > NPU_IOV_LIMIT || !npu_iov_len(iov, count, &buf->len))
        return -FI_EINVAL;
    buf->count = (unsigned)count;
    buf->device = NULL;
    bool host = false, devices = false;
    if (count == 0)
        buf->iov[0] = (struct iovec){NULL, 0};
    else
        memcpy(buf->iov, iov, count * sizeof(*iov));
    for (size_t i = 0; desc && i < count; i++) {
        struct npu_mr *mr = desc[i];
        if (mr && mr->device >= 0) {
            devices |= buf->device && buf->device->device != mr->device;
            buf->device = mr;
        } else if (iov[i].iov_len) {
            host = true;
        }
    }
    return devices || (buf->device && host) ? -FI_EINVAL : 0;
}

void npu_iov_gather(const struct iovec *iov, size_t count, void *to)
{
    char *at = to;
    for (size_t i = 0; i < count; i++) {
        hc_copy(at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
}

/* Move bytes of one piece. */
static int move(const struct npu_buf *buf, char *piece, char *other, size_t n, bool out)
{
    if (buf->device)
        return out ? npu_hmem_read(buf->device, piece, other, n)
                   : npu_hmem_write(buf->device, piece, other, n);
    if (out)
        hc_copy(other, piece, n);
    else
        hc_copy(piece, other, n);
    return 0;
}

static int move_range(const struct npu_buf *buf, size_t offset, char *other, size_t n, bool out)
{
    int rc = 0;
    for (unsigned i = 0; i < buf->count && n && rc == 0; i++) {
        size_t len = buf->iov[i].iov_len;
        if (offset >= len) {
            offset -= len;
            continue;
        }
        size_t part = len - offset < n ? len - offset : n;
        rc = move(buf, (char *)buf->iov[i].iov_base + offset, other, part, out);
        other += part;
        n -= part;
        offset = 0;
    }
    return rc;
}

int npu_buf_read_slow(const struct npu_buf *buf, size_t offset, void *to, size_t n)
{
    return move_range(buf, offset, to, n, true);
}

int npu_buf_write_slow(const struct npu_buf *buf, size_t offset, const void *from, size_t n)
{
    return move_range(buf, offset, (char *)(uintptr_t)from, n, false);
}
