# The simulator's tests: plain programs, so that they run under ThreadSanitizer too.
check_LTLIBRARIES += libnpusimtest.la
libnpusimtest_la_SOURCES = tests/npusim/npusim.c tests/npusim/npusim.h
libnpusimtest_la_LIBADD = -ldl -lpthread
NPUSIM_TESTS = tests/npusim/copies
tests_npusim_copies_SOURCES = tests/npusim/copies.c
tests_npusim_copies_LDADD = libnpusimtest.la
check_PROGRAMS += $(NPUSIM_TESTS)
TESTS += $(NPUSIM_TESTS)
