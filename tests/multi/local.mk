# Tests of tests/multi/ are listed here.

check_PROGRAMS += tests/multi/boot_exchange
tests_multi_boot_exchange_SOURCES = tests/multi/boot_exchange.c
tests_multi_boot_exchange_LDADD = libhcrt.la
# The examples under other launchers.
EXTRA_DIST += tests/multi/launched.sh tests/multi/slurm-run
HC_LAUNCHER_CHECKS = tests/multi/openmpi.sh tests/multi/slurm.sh
dist_check_SCRIPTS += $(HC_LAUNCHER_CHECKS)
TESTS += $(HC_LAUNCHER_CHECKS)
