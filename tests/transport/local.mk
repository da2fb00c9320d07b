# The conformance suite: the same cases over every transport.
check_PROGRAMS += tests/transport/conformance
tests_transport_conformance_SOURCES = \
	tests/transport/cases_am.c \
	tests/transport/cases_life.c \
	tests/transport/cases_rma.c \
	tests/transport/cases_sleep.c \
	tests/transport/conformance.c \
	tests/transport/harness.c \
	tests/transport/harness.h
tests_transport_conformance_LDADD = libhcrt.la

# Figures of one transport, without the layers above; run by hand.
check_PROGRAMS += tests/transport/raw_perf
tests_transport_raw_perf_SOURCES = tests/transport/raw_perf.c tests/transport/harness.h
tests_transport_raw_perf_LDADD = libhcrt.la

dist_check_SCRIPTS += \
	tests/transport/conformance_ofi_npu.sh \
	tests/transport/conformance_ofi_shm.sh \
	tests/transport/conformance_ofi_tcp.sh \
	tests/transport/conformance_self.sh \
	tests/transport/conformance_shm.sh
TESTS += \
	tests/transport/conformance_ofi_npu.sh \
	tests/transport/conformance_ofi_shm.sh \
	tests/transport/conformance_ofi_tcp.sh \
	tests/transport/conformance_self.sh \
	tests/transport/conformance_shm.sh
