#include "runtime/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DETAIL_MAX = 512 };

static _Thread_local char detail[DETAIL_MAX];
static _Thread_local char errno_text[128];

static const struct {
    hcomm_status_t status;
    const char *text;
} texts[] = {
    {HCOMM_OK, "HCOMM_OK: success"},
    {HCOMM_IN_PROGRESS, "HCOMM_IN_PROGRESS: started, not complete"},
    {HCOMM_AGAIN, "HCOMM_AGAIN: nothing was started, try again"},
    {HCOMM_ERR_INVALID, "HCOMM_ERR_INVALID: an argument is wrong"},
    {HCOMM_ERR_NO_MEMORY, "HCOMM_ERR_NO_MEMORY: memory is exhausted"},
    {HCOMM_ERR_UNSUPPORTED, "HCOMM_ERR_UNSUPPORTED: not supported here"},
    {HCOMM_ERR_TRUNCATED, "HCOMM_ERR_TRUNCATED: message longer than the receive buffer"},
    {HCOMM_ERR_TIMEOUT, "HCOMM_ERR_TIMEOUT: the deadline passed"},
    {HCOMM_ERR_PEER_LOST, "HCOMM_ERR_PEER_LOST: the other rank died or left"},
    {HCOMM_ERR_UNREACHABLE, "HCOMM_ERR_UNREACHABLE: no usable transport leads to the rank"},
    {HCOMM_ERR_LIMIT, "HCOMM_ERR_LIMIT: a limit is reached"},
    {HCOMM_ERR_IO, "HCOMM_ERR_IO: a system call or provider failed"},
    {HCOMM_ERR_CANCELLED, "HCOMM_ERR_CANCELLED: cancelled"},
    {HCOMM_ERR_BOOTSTRAP, "HCOMM_ERR_BOOTSTRAP: PMIx failed or its server is gone"},
    {HCOMM_ERR_CONFIG, "HCOMM_ERR_CONFIG: a setting has a bad value"},
    {HCOMM_ERR_PROTOCOL, "HCOMM_ERR_PROTOCOL: a peer sent something malformed"},
    {HCOMM_ERR_PENDING, "HCOMM_ERR_PENDING: still in use"},
    {HCOMM_ERR_IN_STATUS, "HCOMM_ERR_IN_STATUS: a request failed, see the statuses"},
    {HCOMM_ERR_INTERNAL, "HCOMM_ERR_INTERNAL: a defect in hcomm"},
};

HCOMM_API const char *hcomm_strerror(hcomm_status_t status)
{
    for (size_t i = 0; i < hc_array_len(texts); i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "unknown hcomm status";
}

const char *hc_status_text(hcomm_status_t status)
{
    const char *text = hcomm_strerror(status);
    const char *colon = strchr(text, ':');
    return colon ? colon + 2 : text;
}

HCOMM_API const char *hcomm_error_detail(void)
{
    return detail;
}

const char *hc_error_detail(void)
{
    return detail;
}

hcomm_status_t hc_error(hcomm_status_t status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    return status;
}

void hc_error_prefix(const char *format, ...)
{
    char cause[DETAIL_MAX];
    (void)memcpy(cause, detail, sizeof(cause));
    va_list args;
    va_start(args, format);
    int used = vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
    if (used >= 0 && (size_t)used < sizeof(detail))
        (void)snprintf(detail + used, sizeof(detail) - (size_t)used, "%s", cause);
}

const char *hc_errno_text(int error)
{
    return strerror_r(error, errno_text, sizeof(errno_text));
}

HCOMM_API void hcomm_version(int *major, int *minor, int *patch)
{
    if (major)
        *major = HCOMM_VERSION_MAJOR;
    if (minor)
        *minor = HCOMM_VERSION_MINOR;
    if (patch)
        *patch = HCOMM_VERSION_PATCH;
}
