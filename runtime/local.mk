# libhcbase: the leaf layer, linked by everything, the launcher included.
noinst_LTLIBRARIES += libhcbase.la
libhcbase_la_SOURCES = \
	runtime/base/arena.c \
	runtime/base/arena.h \
	runtime/base/clock.h \
	runtime/base/compiler.h \
	runtime/base/config.c \
	runtime/base/config.h \
	runtime/base/copy.c \
	runtime/base/copy.h \
	runtime/base/counter.h \
	runtime/base/list.h \
	runtime/base/lock.c \
	runtime/base/lock.h \
	runtime/base/log.c \
	runtime/base/log.h \
	runtime/base/memfile.h \
	runtime/base/pool.c \
	runtime/base/pool.h \
	runtime/base/settings.c \
	runtime/base/settings.h \
	runtime/base/share.c \
	runtime/base/share.h \
	runtime/base/status.c \
	runtime/base/status.h

# libhcrt: everything the shared library holds; tests link it to reach internals.
noinst_LTLIBRARIES += libhcrt.la
libhcrt_la_SOURCES =
libhcrt_la_CPPFLAGS = $(AM_CPPFLAGS)
libhcrt_la_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(LIBFABRIC_CFLAGS) $(HWLOC_CFLAGS)
libhcrt_la_LIBADD = libhcbase.la $(PMIX_LIBS) $(HWLOC_LIBS) -ldl -lpthread

lib_LTLIBRARIES += libhcommrt.la
libhcommrt_la_SOURCES =
libhcommrt_la_LIBADD = libhcrt.la
libhcommrt_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 \
	-Wl,--version-script=$(top_srcdir)/runtime/libhcommrt.map -Wl,--no-undefined
libhcommrt_la_DEPENDENCIES = libhcrt.la runtime/libhcommrt.map
EXTRA_DIST += runtime/libhcommrt.map

include runtime/boot/local.mk
include runtime/topo/local.mk
include runtime/core/local.mk
