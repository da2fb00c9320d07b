# libnpusim: a software NPU with the ABI of Ascend's runtime. It stands alone, without hcomm's libraries.
lib_LTLIBRARIES += libnpusim.la
libnpusim_la_SOURCES = \
	runtime/base/compiler.h \
	runtime/base/copy.c \
	runtime/base/copy.h \
	runtime/base/list.h \
	transports/npu/acl/acl.h \
	transports/npu/sim/callback.c \
	transports/npu/sim/control.h \
	transports/npu/sim/copy.c \
	transports/npu/sim/device.c \
	transports/npu/sim/engine.c \
	transports/npu/sim/event.c \
	transports/npu/sim/export.c \
	transports/npu/sim/handle.c \
	transports/npu/sim/host.c \
	transports/npu/sim/import.c \
	transports/npu/sim/ipc.h \
	transports/npu/sim/memory.c \
	transports/npu/sim/notify.c \
	transports/npu/sim/peer.c \
	transports/npu/sim/settings.c \
	transports/npu/sim/settings.h \
	transports/npu/sim/sim.c \
	transports/npu/sim/sim.h \
	transports/npu/sim/stream.c
libnpusim_la_CFLAGS = $(AM_CFLAGS)
libnpusim_la_LIBADD = -lpthread
# Its threads may outlive a dlclose: it stays loaded.
libnpusim_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-z,nodelete \
	-Wl,--version-script=$(top_srcdir)/transports/npu/sim/libnpusim.map -Wl,--no-undefined
libnpusim_la_DEPENDENCIES = transports/npu/sim/libnpusim.map
EXTRA_DIST += transports/npu/sim/libnpusim.map
