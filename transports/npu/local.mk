# libnpu-fi.so: the libfabric provider "npu". It stands alone, without hcomm's libraries.
providerdir = @HC_FI_PROVIDER_DIR@
provider_LTLIBRARIES = libnpu-fi.la
libnpu_fi_la_SOURCES = \
	runtime/base/clock.h \
	runtime/base/compiler.h \
	runtime/base/copy.c \
	runtime/base/share.c \
	runtime/base/share.h \
	runtime/base/copy.h \
	runtime/base/list.h \
	transports/npu/acl/acl.h \
	transports/npu/acl/table.c \
	transports/npu/acl/table.h \
	transports/npu/addr.c \
	transports/npu/atomic.c \
	transports/npu/atomic_ops.c \
	transports/npu/av.c \
	transports/npu/buf.c \
	transports/npu/buf.h \
	transports/npu/chan.h \
	transports/npu/cntr.c \
	transports/npu/cq.c \
	transports/npu/device.c \
	transports/npu/device.h \
	transports/npu/dma.c \
	transports/npu/dma.h \
	transports/npu/domain.c \
	transports/npu/endpoint.c \
	transports/npu/ep.h \
	transports/npu/eq.c \
	transports/npu/fabric.c \
	transports/npu/hmem.c \
	transports/npu/info.c \
	transports/npu/local.c \
	transports/npu/local_cross.c \
	transports/npu/local_direct.c \
	transports/npu/local_recv.c \
	transports/npu/local_rma.c \
	transports/npu/local_send.c \
	transports/npu/mr.c \
	transports/npu/msg.c \
	transports/npu/net.c \
	transports/npu/net.h \
	transports/npu/net_conn.c \
	transports/npu/net_copy.c \
	transports/npu/net_guard.c \
	transports/npu/net_recv.c \
	transports/npu/net_rma.c \
	transports/npu/net_send.c \
	transports/npu/net_slot.c \
	transports/npu/net_wire.c \
	transports/npu/npu.h \
	transports/npu/poll.c \
	transports/npu/progress.c \
	transports/npu/prov.c \
	transports/npu/recv.c \
	transports/npu/ring.h \
	transports/npu/rma.c \
	transports/npu/rma.h \
	transports/npu/rma_calls.c \
	transports/npu/send.c \
	transports/npu/tagged.c \
	transports/npu/wait.c \
	transports/npu/ways.h
libnpu_fi_la_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
libnpu_fi_la_LIBADD = $(LIBFABRIC_LIBS) -ldl -lpthread
libnpu_fi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,--version-script=$(top_srcdir)/transports/npu/libnpu-fi.map -Wl,--no-undefined
libnpu_fi_la_DEPENDENCIES = transports/npu/libnpu-fi.map
EXTRA_DIST += transports/npu/libnpu-fi.map
