#include "transports/npu/npu.h"

#include <sched.h>

struct fi_provider npu_provider = {
    .version = FI_VERSION(NPU_VERSION_MAJOR, NPU_VERSION_MINOR),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .name = NPU_NAME,
    .getinfo = npu_getinfo,
    .fabric = npu_fabric_open,
};

/* What libfabric calls after dlopen; the library's only exported symbol. */
FI_EXT_INI;
FI_EXT_INI
{
    fi_param_define(&npu_provider, "direct_copy", FI_PARAM_BOOL,
                    "Copy long messages and RMA straight between two processes' memories, and device "
                    "memory by the devices (default: yes)");
    fi_param_define(&npu_provider, "shared_memory", FI_PARAM_BOOL,
                    "Reach endpoints of this host through shared memory; no: as if they were on other hosts "
                    "(default: yes)");
    fi_param_define(
        &npu_provider, "net_provider", FI_PARAM_STRING,
        "Provider that carries messages to other hosts: one with connected endpoints, such as tcp "
        "or verbs; none: other hosts are not served (default: tcp)");
    fi_param_define(
        &npu_provider, "peer_timeout", FI_PARAM_INT,
        "Seconds after which another host that does not answer is given up, with provider tcp; 0: "
        "the kernel's own time-outs (default: 30)");
    return &npu_provider;
}

void npu_lock_slow(struct npu_lock *lock)
{
    enum { SPINS = 100 };
    for (unsigned tries = 1; !npu_try_lock(lock); tries++) {
        if (tries % SPINS == 0)
            (void)sched_yield();
        else
            hc_cpu_relax();
    }
}

int npu_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid, (void)other, (void)flags;
    return -FI_ENOSYS;
}

int npu_no_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)command, (void)arg;
    return -FI_ENOSYS;
}

int npu_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    (void)fid, (void)name, (void)flags, (void)ops, (void)context;
    return -FI_ENOSYS;
}
