# Tests of tests/multi/ are listed here.

check_PROGRAMS += tests/multi/boot_exchange
tests_multi_boot_exchange_SOURCES = tests/multi/boot_exchange.c
tests_multi_boot_exchange_LDADD = libhcrt.la

check_PROGRAMS += tests/multi/ring
tests_multi_ring_SOURCES = tests/multi/ring.c examples/ring_allreduce.c examples/ring_allreduce.h
tests_multi_ring_LDADD = libhcommrt.la

# The examples under hcommrun and other launchers.
EXTRA_DIST += tests/multi/launched.sh tests/multi/slurm-run
HC_LAUNCHER_CHECKS = tests/multi/openmpi.sh tests/multi/ring.sh tests/multi/slurm.sh
dist_check_SCRIPTS += $(HC_LAUNCHER_CHECKS)
TESTS += $(HC_LAUNCHER_CHECKS)
