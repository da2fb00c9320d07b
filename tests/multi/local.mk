# Tests of tests/multi/ are listed here.

check_PROGRAMS += tests/multi/boot_exchange
tests_multi_boot_exchange_SOURCES = tests/multi/boot_exchange.c
tests_multi_boot_exchange_LDADD = libhcrt.la
