# The simulator's tests: plain programs, so that they run under ThreadSanitizer too.
check_LTLIBRARIES += libnpusimtest.la
libnpusimtest_la_SOURCES = tests/npusim/npusim.c tests/npusim/npusim.h
libnpusimtest_la_LIBADD = -ldl -lpthread
NPUSIM_TESTS = tests/npusim/copies tests/npusim/ipc tests/npusim/settings tests/npusim/streams tests/npusim/stress
tests_npusim_copies_SOURCES = tests/npusim/copies.c
tests_npusim_copies_LDADD = libnpusimtest.la
tests_npusim_ipc_SOURCES = tests/npusim/ipc.c
tests_npusim_ipc_LDADD = libnpusimtest.la
tests_npusim_settings_SOURCES = tests/npusim/settings.c
tests_npusim_settings_LDADD = libnpusimtest.la
tests_npusim_streams_SOURCES = tests/npusim/streams.c
tests_npusim_streams_LDADD = libnpusimtest.la
tests_npusim_stress_SOURCES = tests/npusim/stress.c
tests_npusim_stress_LDADD = libnpusimtest.la
check_PROGRAMS += $(NPUSIM_TESTS)
TESTS += $(NPUSIM_TESTS)
