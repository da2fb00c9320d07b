# Unit tests: one Criterion program per subject, linked against the internals.
if HAVE_CRITERION
UNIT_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
UNIT_LIBS = libhcrt.la $(CRITERION_LIBS)
UNIT_TESTS =
check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)
endif
