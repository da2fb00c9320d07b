# libhctopo: hwloc's room; the launcher links it too.
noinst_LTLIBRARIES += libhctopo.la
libhctopo_la_SOURCES = \
	runtime/topo/affinity.c \
	runtime/topo/cpulist.c \
	runtime/topo/cpulist.h \
	runtime/topo/pci.c \
	runtime/topo/pci.h \
	runtime/topo/topo.c \
	runtime/topo/topo.h
libhctopo_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
libhctopo_la_LIBADD = $(HWLOC_LIBS)
libhcrt_la_LIBADD += libhctopo.la
