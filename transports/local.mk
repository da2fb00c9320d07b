libhcrt_la_SOURCES += transports/transport.c transports/transport.h
include transports/self/local.mk
include transports/shm/local.mk
include transports/ofi/local.mk
include transports/npu/acl/local.mk
include transports/npu/local.mk
include transports/npu/sim/local.mk
