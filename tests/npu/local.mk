# The libfabric provider: libfabric's own programs, and conformance cases after its man pages.
dist_check_SCRIPTS += tests/npu/info.sh tests/npu/pingpong.sh
TESTS += tests/npu/info.sh tests/npu/pingpong.sh
EXTRA_DIST += tests/npu/lib.sh
# Pairs of processes; they link libfabric, and load the provider from FI_PROVIDER_PATH.
check_LTLIBRARIES += libnpupair.la
libnpupair_la_SOURCES = tests/npu/pair.c tests/npu/pair.h
libnpupair_la_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
libnpupair_la_LIBADD = $(LIBFABRIC_LIBS)
check_PROGRAMS += tests/npu/rma
tests_npu_rma_SOURCES = tests/npu/rma.c
tests_npu_rma_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tests_npu_rma_LDADD = libnpupair.la
check_PROGRAMS += tests/npu/hmem
tests_npu_hmem_SOURCES = tests/npu/hmem.c transports/npu/acl/table.c
tests_npu_hmem_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tests_npu_hmem_LDADD = libnpupair.la -ldl -lpthread
check_PROGRAMS += tests/npu/rma_threads
tests_npu_rma_threads_SOURCES = tests/npu/rma_threads.c
tests_npu_rma_threads_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
tests_npu_rma_threads_LDADD = libnpupair.la -lpthread
dist_check_SCRIPTS += tests/npu/hmem.sh tests/npu/rma.sh tests/npu/rma_threads.sh
TESTS += tests/npu/hmem.sh tests/npu/rma.sh tests/npu/rma_threads.sh
